"""Full pipes, slow readers and slow consumers: reading never depends on writing, nor on anybody's handler."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from helpers import MemoryWatch, alive, both_eras, fake, nothing_left, until
from trio_mcp_stdio import Client, ClientOptions, Notification, open_client

MB = 1_000_000


@pytest.mark.field("K021")
@pytest.mark.requirement("STDIO-FRAME-06", "STDIO-STREAM-10", "STDIO-STREAM-12")
@both_eras
@pytest.mark.parametrize("pause", [0.001, pytest.param(0.02, marks=pytest.mark.slow)])
async def test_large_request_goes_through_a_slow_reader_that_logs(era: str, pause: float) -> None:
    finished: list[str] = []

    async def call(client: Client, length: int) -> None:
        result = await client.call_tool("length", {"text": "r" * length})
        finished.append(result.text)

    with alive(120), nothing_left():
        async with open_client(fake("pressure", "slow", pause, era=era)) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, client, MB)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(call, client, 5)
            statistics = client.statistics()
    assert sorted(finished) == ["1000000", "5"]
    # The server logs more than a pipe holds before it has read the large request.
    assert statistics.notifications >= MB // 4096 // 8
    assert statistics.bytes_received > 200_000
    assert statistics.bytes_sent > MB
    assert statistics.in_flight == 0


@pytest.mark.field("K021")
async def test_slow_reader_does_not_outlive_a_caller_that_gives_up() -> None:
    with alive(60), nothing_left():
        async with open_client(fake("pressure", "slow", 0.001)) as client:
            with trio.move_on_after(0.05):
                await client.call_tool("length", {"text": "r" * MB})
            # The line that was begun is finished: what comes after it is still a message of its own.
            assert (await client.call_tool("length", {"text": "after"})).text == "5"
            assert client.statistics().cancelled == 1
        assert client.exit is not None
        assert client.exit.returncode == 0


@pytest.mark.field("K022")
@pytest.mark.requirement("STDIO-STREAM-10", "STDIO-STREAM-12")
@both_eras
@pytest.mark.parametrize("order", ["reply first", "request first"])
async def test_both_directions_make_progress_when_both_pipes_are_full(era: str, order: str) -> None:
    texts: dict[str, str] = {}

    async def call(tool: str, text: str) -> None:
        texts[tool] = (await client.call_tool(tool, {"text": text})).text

    with alive(60), nothing_left():
        async with open_client(fake("pressure", "duplex", era=era)) as client:
            for _ in range(3):
                texts.clear()
                async with trio.open_nursery() as nursery:
                    calls = [("big", ""), ("length", "r" * 2 * MB)]
                    # The server reads the small call, then nothing until its answer is out.
                    for tool, text in calls if order == "reply first" else reversed(calls):
                        nursery.start_soon(call, tool, text)
                        await trio.testing.wait_all_tasks_blocked()
                assert texts["big"] == "b" * 2 * MB
                assert texts["length"] == str(2 * MB)


@pytest.mark.field("K023")
@pytest.mark.requirement("STDIO-STREAM-10", "LEG-LOG-03")
@both_eras
async def test_reply_overtakes_notifications_that_nobody_reads(era: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("pressure", "chatty", 1000, era=era)) as client:
            assert (await client.call_tool("echo", {"text": "reply"})).text == "reply"
            statistics = client.statistics()
    assert statistics.notifications == 1000
    assert (statistics.in_flight, statistics.answered) == (0, statistics.answered)


@pytest.mark.field("K023")
@pytest.mark.requirement("STDIO-STREAM-10", "LEG-LOG-03")
@both_eras
async def test_reply_overtakes_a_handler_that_sleeps(era: str) -> None:
    numbers: list[object] = []

    async def on_notification(notification: Notification) -> None:
        assert notification.method == "notifications/message"
        numbers.append(notification.params["data"]["number"])
        await trio.sleep(1)

    with alive(), nothing_left():
        async with open_client(
            fake("pressure", "chatty", 1000, era=era), ClientOptions(on_notification=on_notification)
        ) as client:
            for _ in range(3):
                assert (await client.call_tool("echo", {"text": "reply"})).text == "reply"
            assert len(numbers) < 1000
            assert client.statistics().notifications_dropped == 0
            assert client.statistics().notifications == 3000
        assert numbers[:1] == [0]  # in order, one after the other


@pytest.mark.field("K023")
@both_eras
async def test_queue_of_a_stuck_handler_is_bounded_and_drops_the_oldest(era: str) -> None:
    sent, bound = 20_000, 4096
    go_on = trio.Event()
    numbers: list[int] = []

    async def on_notification(notification: Notification) -> None:
        numbers.append(notification.params["data"]["number"])
        await go_on.wait()

    with alive(60), nothing_left():
        async with open_client(
            fake("pressure", "chatty", sent, era=era), ClientOptions(on_notification=on_notification)
        ) as client:
            with MemoryWatch() as memory:
                await client.call_tool("echo")
            dropped = client.statistics().notifications_dropped
            assert client.statistics().notifications == sent
            # One is in the hands of the handler, the bound is in the queue.
            assert sent - bound - 1 <= dropped <= sent - bound
            go_on.set()
            await until(lambda: len(numbers) == sent - dropped)
    assert numbers[-bound:] == list(range(sent - bound, sent))
    assert memory.growth < 32 * 2**20


@pytest.mark.field("K023")
async def test_handler_that_raises_is_counted_and_never_stops_the_reader() -> None:
    def on_notification(notification: Notification) -> None:
        raise ZeroDivisionError

    with alive(), nothing_left():
        async with open_client(
            fake("pressure", "chatty", 10), ClientOptions(on_notification=on_notification)
        ) as client:
            assert (await client.call_tool("echo")).text == "ok"
            assert (await client.call_tool("echo")).text == "ok"
            assert client.statistics().callback_errors == 20
