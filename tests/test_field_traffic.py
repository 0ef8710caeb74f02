"""Servers that send more than answers: pings, progress, answers in an order of their own."""

from __future__ import annotations

import logging

import pytest
import trio

from helpers import alive, both_eras, fake, nothing_left
from scripted import complaints
from trio_mcp_stdio import ProgressUpdate, open_client


@pytest.mark.field("K110")
@pytest.mark.requirement("LEG-PING-01", "LEG-MSG-05")
async def test_pings_of_the_server_are_answered_while_the_caller_is_busy() -> None:
    # The server checks every answer, and ends with a status of its own when one is missing or wrong.
    updates: list[float] = []

    async def busy(update: ProgressUpdate) -> None:
        updates.append(update.progress)
        if len(updates) == 1:
            await trio.sleep(0.5)

    with alive(), nothing_left():
        async with open_client(fake("traffic", "pings", era="legacy")) as client:
            for _ in range(2):
                updates.clear()
                result = await client.call_tool("echo", {"text": "all answered"}, on_progress=busy)
                assert result.text == "all answered"
                assert updates == list(range(1, 13))
            assert client.statistics().replies == 24
        assert client.exit is not None
        assert client.exit.returncode == 0


@pytest.mark.field("K112")
@pytest.mark.requirement("LEG-PING-01")
async def test_any_answer_to_a_ping_proves_life() -> None:
    with alive(), nothing_left():
        async with open_client(fake("traffic", "refuses-ping", era="legacy")) as client:
            for _ in range(3):  # -32601, -32600, and a plain answer
                assert 0 <= await client.ping() < 30
            assert (await client.call_tool("echo", {"text": "works"})).text == "works"


@pytest.mark.field("K113")
@pytest.mark.requirement("PROG-10", "LEG-PROG-03")
@both_eras
async def test_progress_after_the_answer_is_dropped_without_a_sound(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    with alive(), nothing_left():
        async with open_client(fake("traffic", "last-progress", era=era)) as client:
            updates: list[float] = []
            for _ in range(5):
                updates.clear()
                result = await client.call_tool(
                    "echo", on_progress=lambda update: updates.append(update.progress)
                )
                assert result.text == "ok"
                assert updates == [1]
            await client.call_tool("echo")
            found = client.statistics()
            assert (found.progress, found.unknown_progress, found.malformed) == (5, 5, 0)
    assert complaints(caplog) == []


@pytest.mark.field("K114")
@pytest.mark.requirement("PROG-10", "LEG-PROG-03")
@both_eras
async def test_progress_with_unknown_tokens_is_counted_and_ignored(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trio_mcp_stdio")
    updates: list[float] = []
    with alive(), nothing_left():
        async with open_client(fake("traffic", "stray-progress", era=era)) as client:
            for _ in range(3):
                result = await client.call_tool(
                    "echo", on_progress=lambda update: updates.append(update.progress)
                )
                assert result.text == "ok"
            assert updates == [1, 1, 1]
            assert client.statistics().unknown_progress == 12
    assert complaints(caplog) == []


@pytest.mark.field("K118")
@pytest.mark.requirement("STDIO-STREAM-08")
@both_eras
async def test_twenty_calls_are_in_flight_at_once_and_answered_in_reverse(era: str) -> None:
    order: list[str] = []
    with alive(), nothing_left():
        # The server answers nothing until it holds all twenty.
        async with open_client(fake("traffic", "backwards", 20, era=era)) as client:

            async def call(text: str) -> None:
                assert (await client.call_tool("echo", {"text": text})).text == text
                order.append(text)

            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(call, str(number))
            assert sorted(order, key=int) == [str(number) for number in range(20)]
            assert client.statistics().answered >= 20
