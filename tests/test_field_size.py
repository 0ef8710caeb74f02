"""Long, split, cut-off and endless lines."""

from __future__ import annotations

import logging
import re
import time

import pytest
import trio

from helpers import (
    QUICK,
    MemoryWatch,
    alive,
    assert_exited,
    assert_gone,
    assert_plain,
    assert_tells,
    both_eras,
    fake,
    nothing_left,
    until,
)
from trio_mcp_stdio import Client, ClientOptions, LineTooLong, McpError, ServerExited, open_client

KB, MB = 2**10, 2**20


@pytest.mark.field("K033")
@pytest.mark.requirement("STDIO-FRAME-14")
@both_eras
async def test_lines_of_many_megabytes_are_read_with_default_options(era: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("sizes", era=era)) as client:
            for size in (128 * KB, 8 * MB):
                assert (await client.call_tool("size", {"bytes": size})).text == "t" * size
            assert client.statistics().oversized == 0


@pytest.mark.field("K033")
@pytest.mark.requirement("STDIO-FRAME-14")
async def test_line_cap_is_a_setting() -> None:
    with alive(60), nothing_left():
        async with open_client(fake("sizes"), ClientOptions(max_line_bytes=32 * MB)) as client:
            assert len((await client.call_tool("size", {"bytes": 24 * MB})).text) == 24 * MB
        async with open_client(fake("sizes"), ClientOptions(max_line_bytes=64 * KB)) as client:
            assert len((await client.call_tool("size", {"bytes": 63 * KB})).text) == 63 * KB
            with pytest.raises(LineTooLong) as caught:
                await client.call_tool("size", {"bytes": 65 * KB})
            assert caught.value.limit == 64 * KB
            # The line named its call: only that call is lost.
            assert (await client.call_tool("size", {"bytes": 5})).text == "t" * 5
            assert client.statistics().oversized == 1


@pytest.mark.field("K034")
@pytest.mark.requirement("STDIO-FRAME-03", "STDIO-STREAM-08", "STDIO-STREAM-12")
@both_eras
async def test_replies_are_framed_by_newlines_whatever_the_reads(era: str) -> None:
    texts: dict[str, str] = {}

    async def call(text: str) -> None:
        texts[text] = (await client.call_tool("together", {"text": text})).text

    with alive(), nothing_left():
        async with open_client(fake("sizes", era=era)) as client:
            async with trio.open_nursery() as nursery:
                for text in ("one", "two", "three"):
                    nursery.start_soon(call, text)
            assert texts == {"one": "one", "two": "two", "three": "three"}
            assert (await client.call_tool("pieces", {"bytes": 100})).text == "t" * 100
            assert (await client.call_tool("bytewise", {"bytes": 100})).text == "t" * 100
            statistics = client.statistics()
    assert (statistics.noise, statistics.malformed, statistics.unmatched) == (0, 0, 0)


async def fail_with_line_too_long(client: Client, tool: str, errors: list[LineTooLong]) -> None:
    with pytest.raises(LineTooLong) as caught:
        await client.call_tool(tool, timeout=600)
    errors.append(caught.value)


@pytest.mark.field("K035")
@pytest.mark.requirement("STDIO-FRAME-14")
@both_eras
async def test_complete_reply_before_an_endless_line_is_delivered_then_all_fails(era: str) -> None:
    server, cap = fake("sizes", era=era), MB
    errors: list[LineTooLong] = []
    with alive(), nothing_left():
        async with open_client(server, ClientOptions(max_line_bytes=cap)) as client:
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(fail_with_line_too_long, client, "wait", errors)
                await until(lambda: client.statistics().in_flight == 2)
                assert (await client.call_tool("burst", {"bytes": cap + 200 * KB})).text == "delivered"
            ended = await client.wait_closed()  # the server itself waits for more calls
            assert ended is not None
            assert_gone(client.pid)
            with pytest.raises(McpError) as caught:
                await client.call_tool("echo")
            assert_plain(caught.value, server)
    assert len(errors) == 2
    for error in errors:
        assert_tells(error, server, stderr="bursting")
        assert error.limit == cap
        assert error.size > cap
        assert str(cap) in str(error) or f"{cap:,}" in str(error)


@pytest.mark.field("K036")
@pytest.mark.requirement("STDIO-FRAME-15")
@both_eras
async def test_reply_without_newline_is_delivered_when_the_server_exits(era: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("sizes", era=era)) as client:
            assert (await client.call_tool("tail", {"bytes": 10})).text == "t" * 10
            await client.wait_closed()
        assert client.exit is not None
        assert (client.exit.returncode, client.exit.ending) == (0, "exited")


@pytest.mark.field("K036")
@pytest.mark.requirement("STDIO-FRAME-15", "STDIO-PROC-11")
@both_eras
async def test_half_a_reply_is_dropped_and_the_error_says_so(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server = fake("sizes", era=era)
    with alive(), nothing_left():
        async with open_client(server) as client:
            with pytest.raises(ServerExited) as caught:
                await client.call_tool("cut", {"bytes": 1000})
            assert_exited(caught.value, server, status=1)
    said = "\n".join([str(caught.value), *(record.getMessage() for record in caplog.records)])
    assert re.search(r"cut off|cut short|truncated|incomplete|unfinished|unterminated", said)


@pytest.mark.field("K037")
@pytest.mark.requirement("STDIO-FRAME-14")
@pytest.mark.parametrize("option_era", ["auto", "modern", "legacy"])
async def test_endless_line_before_the_handshake_stops_at_the_cap(option_era: str) -> None:
    server, cap = fake("sizes", "endless", timeouts=QUICK), 4 * MB
    options = ClientOptions(era=option_era, max_line_bytes=cap, probe_timeout=600, startup_timeout=600)
    with alive(), nothing_left():
        with MemoryWatch() as memory, pytest.raises(LineTooLong) as caught:
            async with open_client(server, options):
                pytest.fail("accepted")
        assert_tells(caught.value, server, stderr="endless from here")
        assert caught.value.limit == cap
        assert caught.value.size > cap
    assert memory.growth < 3 * cap + 8 * MB


@pytest.mark.field("K037")
@pytest.mark.requirement("STDIO-FRAME-14")
@both_eras
@pytest.mark.parametrize("cap", [4 * MB, None])
async def test_endless_line_in_mid_session_stops_at_the_cap(era: str, cap: int | None) -> None:
    server = fake("sizes", era=era, timeouts=QUICK)
    limit = cap or 16 * MB  # the default
    options = ClientOptions() if cap is None else ClientOptions(max_line_bytes=cap)
    with alive(), nothing_left():
        async with open_client(server, options) as client:
            await client.call_tool("echo")
            with MemoryWatch() as memory:
                with pytest.raises(LineTooLong) as caught:
                    await client.call_tool("endless", timeout=600)
                await client.wait_closed()
            assert_tells(caught.value, server, stderr="endless from here")
            assert caught.value.limit == limit
            assert_gone(client.pid)
    assert memory.growth < 3 * limit + 8 * MB


@pytest.mark.field("K038")
async def test_work_on_a_long_line_is_linear_in_its_bytes() -> None:
    async def cpu_seconds(client: Client, size: int) -> float:
        began = time.process_time()
        assert len((await client.call_tool("size", {"bytes": size, "piece": 4096}, timeout=600)).text) == size
        return time.process_time() - began

    with alive(300), nothing_left():
        async with open_client(fake("sizes"), ClientOptions(max_line_bytes=64 * MB)) as client:
            await cpu_seconds(client, 8 * MB)
            short = min([await cpu_seconds(client, 8 * MB) for _ in range(2)])
            long = min([await cpu_seconds(client, 32 * MB) for _ in range(2)])
    # Four times the bytes; quadratic work would be sixteen times as much.
    assert long < 10 * short
