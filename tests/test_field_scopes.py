"""Structured concurrency around real servers: tasks, scopes and ways out."""

from __future__ import annotations

import gc

import pytest
import trio
import trio.testing

from helpers import PATIENT, QUICK, alive, assert_gone, both_eras, fake, nothing_left
from trio_mcp_stdio import (
    Client,
    ClientClosed,
    ClientOptions,
    ClientState,
    LocalProtocolError,
    Notification,
    open_client,
    run_client,
)


@pytest.mark.field("K091")
@pytest.mark.requirement("STDIO-PROC-14")
@both_eras
async def test_leaving_from_another_task_is_a_clear_error_and_the_right_task_can_still_leave(
    era: str,
) -> None:
    manager = open_client(fake("launches", "-", "plain", era=era))
    caught: list[BaseException] = []
    left = trio.Event()

    async def leave_elsewhere() -> None:
        with pytest.raises(LocalProtocolError) as info:
            await manager.__aexit__(None, None, None)
        caught.append(info.value)
        left.set()

    with alive(), nothing_left():
        async with trio.open_nursery() as nursery:
            client = await manager.__aenter__()
            nursery.start_soon(leave_elsewhere, name="the other task")
            await left.wait()
            assert (await client.call_tool("echo", {"text": "still open"})).text == "still open"
            await manager.__aexit__(None, None, None)
            assert client.state is ClientState.CLOSED
            assert_gone(client.pid)
    (error,) = caught
    assert "the other task" in str(error)
    assert "run_client" in str(error)


@pytest.mark.field("K091")
@both_eras
async def test_client_can_be_stopped_from_any_task(era: str) -> None:
    with alive(), nothing_left():
        async with trio.open_nursery() as nursery:
            client: Client = await nursery.start(run_client, fake("launches", "-", "plain", era=era))

            async def stop() -> None:
                client.stop()
                ended = await client.wait_closed()
                assert ended is not None
                assert (ended.returncode, ended.ending, ended.expected) == (0, "exited", True)

            async with trio.open_nursery() as other:
                other.start_soon(stop)
                other.start_soon(stop)
            with pytest.raises(ClientClosed):
                await client.call_tool("echo")
            assert client.state is ClientState.CLOSED
            assert_gone(client.pid)


@pytest.mark.field("K091")
async def test_dropping_a_client_without_closing_it_leaves_its_task_in_charge() -> None:
    with alive(), nothing_left():
        async with trio.open_nursery() as nursery:
            client: Client | None = await nursery.start(run_client, fake("launches", "-", "plain"))
            assert client is not None
            pid = client.pid
            await client.call_tool("echo")
            client = None
            gc.collect()
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert_gone(pid)


@pytest.mark.field("K091")
async def test_dropping_a_context_that_was_never_entered_does_nothing() -> None:
    with alive(), nothing_left():
        open_client(fake("launches", "-", "plain"))
        gc.collect()
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.field("K091")
async def test_one_context_cannot_be_entered_twice() -> None:
    manager = open_client(fake("launches", "-", "plain"))
    with alive(), nothing_left():
        async with manager:
            with pytest.raises((LocalProtocolError, RuntimeError)):
                await manager.__aenter__()
        with pytest.raises((LocalProtocolError, RuntimeError)):
            await manager.__aenter__()


@pytest.mark.field("K092")
@pytest.mark.parametrize("times", [10, pytest.param(200, marks=pytest.mark.slow)])
@both_eras
async def test_leaving_under_a_flood_of_notifications_raises_nothing(era: str, times: int) -> None:
    async def slow(notification: Notification) -> None:
        await trio.sleep(1)

    handlers = [None, slow, lambda notification: None]
    with alive(300), nothing_left():
        for number in range(times):
            options = ClientOptions(on_notification=handlers[number % 3])
            async with open_client(fake("floods", era=era), options) as client:
                if number % 2:
                    await client.call_tool("echo")
            assert client.exit is not None
            assert (client.exit.returncode, client.exit.ending) == (0, "exited")


@pytest.mark.field("K093")
@pytest.mark.parametrize("ends_at_eof", [True, False])
async def test_deadline_around_the_connect_is_the_only_error(ends_at_eof: bool) -> None:
    if ends_at_eof:
        server = fake("negotiates", "/dev/null", "silent", timeouts=PATIENT)
    else:
        server = fake("delays", "silent", timeouts=QUICK)
    with alive(), nothing_left(), pytest.raises(trio.TooSlowError), trio.fail_after(0.5):
        async with open_client(server):
            pytest.fail("connected")


@pytest.mark.field("K093")
@pytest.mark.parametrize("entry", ["open", "run"])
@both_eras
async def test_connect_can_be_cancelled_at_any_point(era: str, entry: str) -> None:
    with alive(60), nothing_left():
        for number in range(16):
            server = fake("launches", "-", "plain", era=era)
            with trio.move_on_after(number * 0.015) as scope:
                if entry == "open":
                    async with open_client(server):
                        await trio.sleep_forever()
                else:
                    async with trio.open_nursery() as nursery:
                        await nursery.start(run_client, server)
                        await trio.sleep_forever()
            assert scope.cancelled_caught


@pytest.mark.field("K094")
@both_eras
async def test_ten_tasks_share_a_client_and_none_of_them_closes_it(era: str) -> None:
    finished: list[int] = []
    with alive(), nothing_left():
        async with open_client(fake("delays", "parallel", era=era)) as client:
            first_is_done = trio.Event()

            async def use(number: int) -> None:
                if number == 0:
                    with trio.move_on_after(0.02):  # leaves in the middle of a call
                        await client.call_tool("echo", {"seconds": 30})
                    first_is_done.set()
                else:
                    await first_is_done.wait()
                for step in range(number + 1):
                    text = f"{number}.{step}"
                    assert (await client.call_tool("echo", {"text": text, "seconds": 0.01})).text == text
                finished.append(number)

            async with trio.open_nursery() as nursery:
                for number in range(10):
                    nursery.start_soon(use, number)
            assert sorted(finished) == list(range(10))
            assert client.state is ClientState.READY
            assert (await client.call_tool("echo", {"text": "open"})).text == "open"
