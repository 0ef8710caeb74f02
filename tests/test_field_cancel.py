"""Cancellation as a child process sees it: one notice for an abandoned call, nothing else is touched."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from helpers import alive, both_eras, fake, logged, nothing_left, until
from scripted import complaints
from trio_mcp_stdio import RequestTimeout, open_client


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.field("K062")
@pytest.mark.requirement("CANCEL-01", "CANCEL-02", "CANCEL-03", "CANCEL-18", "TIME-02", "LEG-CANCEL-01")
@both_eras
async def test_cancelled_and_timed_out_calls_send_one_notice_each_with_the_same_id(
    era: str, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    handshake = 1 if era == "modern" else 3
    with alive(), nothing_left():
        async with open_client(fake("cancels", "journal", journal, era=era)) as client:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "cancelled")
                    await until(lambda: count_lines(journal) > handshake)
                    scope.cancel()
            assert scope.cancelled_caught
            with pytest.raises(RequestTimeout):
                await client.call_tool("timed-out", timeout=0.2)
            # The server has both notices as soon as it has what was written after them.
            assert (await client.call_tool("echo", {"text": "next"})).text == "next"
            assert client.statistics().cancelled == 2
        assert client.exit is not None
        assert (client.exit.returncode, client.exit.ending) == (0, "exited")
    lines: list[dict[str, Any]] = [json.loads(line) for line in journal.read_bytes().splitlines()]
    after = lines[handshake:]
    assert [line["method"] for line in after] == [
        "tools/call",
        "notifications/cancelled",
        "tools/call",
        "notifications/cancelled",
        "tools/call",
    ]
    for request, notice in ((after[0], after[1]), (after[2], after[3])):
        assert "id" not in notice
        assert notice["params"]["requestId"] == request["id"]
        assert type(notice["params"]["requestId"]) is type(request["id"])


@pytest.mark.field("K062")
@pytest.mark.requirement("CANCEL-04")
@both_eras
async def test_no_notice_for_calls_that_were_answered_or_never_written(era: str, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with alive(), nothing_left():
        async with open_client(fake("cancels", "journal", journal, era=era)) as client:
            with trio.CancelScope() as scope:
                await client.call_tool("echo")
                scope.cancel()
                await client.call_tool("hold")
            assert scope.cancelled_caught
            await client.call_tool("echo")
    assert journal.read_bytes().count(b'"tools/call"') == 2
    assert b"cancelled" not in journal.read_bytes()


@pytest.mark.field("K063")
@both_eras
async def test_cancelling_one_of_three_calls_leaves_the_others_and_the_process(era: str) -> None:
    found: list[str] = []
    with alive(), nothing_left():
        async with open_client(fake("cancels", "counter", era=era)) as client:

            async def hold() -> None:
                found.append((await client.call_tool("hold", timeout=None)).text)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(hold)
                nursery.start_soon(hold)
                await trio.testing.wait_all_tasks_blocked()
                assert (await client.call_tool("count")).text == f"3 of {client.pid}"
                with trio.move_on_after(0.2) as scope:
                    await client.call_tool("hold", timeout=None)
                assert scope.cancelled_caught
            # The server answers the two held calls when it reads the notice for the third.
            assert sorted(found) == [f"1 of {client.pid}", f"2 of {client.pid}"]
            assert (await client.call_tool("count")).text == f"5 of {client.pid}"


@pytest.mark.field("K064")
@pytest.mark.requirement("CANCEL-10", "LEG-CANCEL-04")
@both_eras
async def test_answer_to_a_cancelled_request_is_dropped_at_debug_level(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trio_mcp_stdio")
    with alive(), nothing_left():
        async with open_client(fake("cancels", "confirm", era=era)) as client:
            for _ in range(3):
                with trio.move_on_after(0.05) as scope:
                    await client.call_tool("hold")
                assert scope.cancelled_caught
                with pytest.raises(RequestTimeout):
                    await client.call_tool("hold", timeout=0.05)
            assert (await client.call_tool("echo", {"text": "next"})).text == "next"
            found = client.statistics()
            assert (found.late, found.unmatched, found.cancelled) == (6, 0, 6)
    assert complaints(caplog) == []
    assert any(
        "given up" in record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG
    )


@pytest.mark.field("K066")
@both_eras
async def test_cancelled_caller_does_not_wait_for_a_serial_server(era: str) -> None:
    log, options = logged()
    with alive(), nothing_left():
        async with open_client(fake("delays", "serial", era=era), options) as client:
            received = len(log.received)
            with trio.move_on_after(0.1) as scope:
                await client.call_tool("echo", {"seconds": 1.5})
            assert scope.cancelled_caught
            assert len(log.received) == received  # released before the server has said anything
            result = await client.call_tool("echo", {"seconds": 1.5, "text": "second"}, timeout=20)
            assert result.text == "second"
            assert client.statistics().late == 1
