"""Bytes on stdout that are no protocol messages."""

from __future__ import annotations

import logging

import pytest

from helpers import alive, assert_exited, assert_plain, assert_tells, both_eras, fake, logged, nothing_left
from trio_mcp_stdio import (
    ClientOptions,
    McpError,
    RemoteProtocolError,
    RequestTimeout,
    ServerExited,
    open_client,
)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def everything_said(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records)


@pytest.mark.field("K025")
@pytest.mark.requirement("STDIO-FRAME-13")
@both_eras
async def test_text_between_messages_is_skipped_counted_and_logged_once(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with alive(), nothing_left():
        async with open_client(fake("noise", "banner", era=era)) as client:
            for number in range(10):
                assert (await client.call_tool("echo", {"text": str(number)})).text == str(number)
            statistics = client.statistics()
            assert statistics.noise >= 10  # visible while the session goes on
            assert statistics.noise_previews[:2] == ("Demo Server v1.0 started", "processing request")
        handshake = {"modern": 1, "legacy": 2}[era]
        assert client.statistics().noise == 1 + handshake + 10
        assert client.statistics().malformed == 0
        assert client.exit is not None
        assert client.exit.returncode == 0
    about_noise = [record for record in caplog.records if "Demo Server v1.0 started" in record.getMessage()]
    assert len(about_noise) == 1
    assert len(warnings(caplog)) <= 1
    assert everything_said(caplog).count("processing request") <= 1


@pytest.mark.field("K025")
async def test_noise_ends_the_connection_when_strict_is_asked_for() -> None:
    server = fake("noise", "banner")
    with alive(), nothing_left():
        with pytest.raises(McpError) as caught:
            async with open_client(server, ClientOptions(strict=True)):
                pytest.fail("accepted")
        assert_plain(caught.value, server)
        assert "Demo Server v1.0 started" in str(caught.value)


@pytest.mark.field("K026")
@pytest.mark.requirement("STDIO-FRAME-13")
@both_eras
async def test_terminal_escapes_are_never_repeated(era: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with alive(), nothing_left():
        async with open_client(fake("noise", "colour", era=era)) as client:
            for _ in range(3):
                assert (await client.call_tool("echo")).text == "ok"
        assert client.statistics().noise == {"modern": 1, "legacy": 2}[era] + 3
        preview = client.statistics().noise_previews[0]
    assert "[2026] info" in preview
    assert preview.isprintable()
    assert "[2026] info" in everything_said(caplog)
    assert "\x1b" not in everything_said(caplog)
    assert "\x1b" not in repr(client)


@pytest.mark.field("K027")
@both_eras
async def test_byte_order_mark_is_accepted_and_never_sent(era: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with alive(), nothing_left():
        async with open_client(fake("noise", "bom", era=era)) as client:
            assert client.server.info is not None
            assert client.server.info.name == "fake"
            assert client.era.name.lower() == era
            first = (await client.call_tool("first")).text
            assert client.statistics().noise == 0
            assert client.statistics().malformed == 0
    assert bytes.fromhex(first).startswith(b'{"')


@pytest.mark.field("K028")
@pytest.mark.requirement("STDIO-FRAME-16", "STDIO-FRAME-02", "STDIO-STREAM-02", "LEG-FRAME-02")
@both_eras
async def test_carriage_returns_and_blank_lines_are_accepted_and_none_is_sent(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    log, options = logged()
    with alive(), nothing_left():
        async with open_client(fake("noise", "crlf", era=era), options) as client:
            for text in ("plain", "two\r\nlines", "\r", "\n"):
                assert (await client.call_tool("echo", {"text": text})).text == text
            statistics = client.statistics()
        assert client.exit is not None
        assert client.exit.returncode == 0
    assert (statistics.noise, statistics.malformed, statistics.violations) == (0, 0, 0)
    assert warnings(caplog) == []
    sent = [line.removesuffix(b"\n") for direction, line in log.lines if direction == "send"]
    assert len(sent) >= 4
    assert [line for line in sent if b"\r" in line or b"\n" in line] == []


@pytest.mark.field("K029")
@pytest.mark.requirement("STDIO-FRAME-13")
@both_eras
async def test_json_object_that_is_no_message_is_noise(era: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("noise", "json", era=era)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
            assert (await client.call_tool("echo")).text == "ok"
            assert client.statistics().noise == 1
            assert '"status":200' in client.statistics().noise_previews[0]
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
        assert client.statistics().noise == 2


@pytest.mark.field("K030")
@pytest.mark.requirement("STDIO-FRAME-13")
@both_eras
async def test_values_that_are_no_messages_do_not_disturb_the_handshake(era: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("noise", "values", era=era)) as client:
            assert client.era.name.lower() == era
            assert (await client.call_tool("echo")).text == "ok"
            assert client.statistics().noise == 4
            assert client.statistics().noise_previews == ("[db] Connected to store", "null", "42", '"ready"')


@pytest.mark.field("K031")
@both_eras
async def test_content_length_header_after_proper_messages_is_noise_that_the_error_shows(era: str) -> None:
    # A server that began with proper lines may print such a header of its own, say of what it downloads.
    server = fake("noise", "header", era=era)
    with alive(), nothing_left():
        async with open_client(server) as client:
            with pytest.raises(RequestTimeout) as caught:
                await client.call_tool("echo", timeout=0.5)
            assert_plain(caught.value, server)
            assert "Content-Length: " in str(caught.value)
            assert any("Content-Length: " in line for line in caught.value.received)
            assert client.statistics().noise_previews[0].startswith("Content-Length: ")


@pytest.mark.field("K031")
@pytest.mark.parametrize("era", ["auto", "modern", "legacy"])
async def test_content_length_framing_is_named_in_the_error_of_the_start(era: str) -> None:
    server = fake("noise", "header-now")
    options = ClientOptions(era=era, probe_timeout=600, startup_timeout=600)
    with alive(), nothing_left():
        with pytest.raises(RemoteProtocolError) as caught:
            async with open_client(server, options):
                pytest.fail("accepted")
        assert_tells(caught.value, server, stderr="speaking with headers")
        assert "Content-Length" in str(caught.value)


@pytest.mark.field("K032")
@pytest.mark.requirement("STDIO-PROC-11")
@both_eras
async def test_build_log_is_tolerated_but_exit_with_status_0_fails_the_call(era: str) -> None:
    server = fake("noise", "build", era=era)
    with alive(), nothing_left():
        async with open_client(server) as client:
            with pytest.raises(ServerExited) as caught:
                await client.call_tool("build", timeout=600)
            assert_exited(caught.value, server, status=0)
            assert client.statistics().noise == 400
            assert 1 <= len(client.statistics().noise_previews) < 50
        assert "[0/400] Compiling module" in str(caught.value)
        assert client.exit is not None
        assert not client.exit.expected
