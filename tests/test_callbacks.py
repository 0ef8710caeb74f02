"""Callbacks of the user: bounded, in order, and without effect on anybody else."""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp_stdio._io import callbacks
from trio_mcp_stdio._io.callbacks import CallbackQueue, is_async_callable

logger = logging.getLogger("test")


def queue_for(function: Any) -> CallbackQueue[Any]:
    return CallbackQueue(function, what="test callback", logger=logger)


@asynccontextmanager
async def running(queue: CallbackQueue[Any]) -> AsyncIterator[None]:
    """Runs the queue beside the block, to its end."""
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(queue.run)
            yield
            queue.close()


class Sync:
    def __call__(self, item: object) -> None: ...

    def method(self, item: object) -> None: ...


class Async:
    async def __call__(self, item: object) -> None: ...

    async def method(self, item: object) -> None: ...


async def coroutine(item: object, more: int = 0) -> None: ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (print, False),
        (lambda item: None, False),
        (Sync(), False),
        (Sync().method, False),
        (functools.partial(print, end=""), False),
        (coroutine, True),
        (Async(), True),
        (Async().method, True),
        (functools.partial(coroutine, more=1), True),
        (functools.partial(functools.partial(coroutine), more=1), True),
        (functools.partial(Async()), True),
    ],
)
def test_async_callables_are_told_from_others(function: Any, expected: bool) -> None:
    assert is_async_callable(function) is expected


async def test_synchronous_callback_is_called_at_once() -> None:
    seen: list[int] = []
    queue = queue_for(seen.append)
    for item in range(3):
        queue.put(item)
    assert seen == [0, 1, 2]
    with trio.fail_after(30):
        await queue.run()  # has nothing to do


async def test_asynchronous_callback_is_called_in_order() -> None:
    seen: list[int] = []

    async def slow(item: int) -> None:
        await trio.lowlevel.checkpoint()
        seen.append(item)

    queue = queue_for(slow)
    for item in range(3):
        queue.put(item)
    async with running(queue):
        await trio.testing.wait_all_tasks_blocked()
        assert seen == [0, 1, 2]
        for item in range(3, 6):
            queue.put(item)
            await trio.testing.wait_all_tasks_blocked()
        queue.put(6)
    assert seen == list(range(7))


async def test_items_put_before_the_close_are_still_delivered() -> None:
    seen: list[int] = []

    async def keep(item: int) -> None:
        seen.append(item)

    queue = queue_for(keep)
    queue.put(1)
    queue.put(2)
    queue.close()
    with trio.fail_after(30):
        await queue.run()
    assert seen == [1, 2]


async def test_never_more_than_one_call_at_a_time() -> None:
    inside = 0

    async def slow(item: int) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        await trio.testing.wait_all_tasks_blocked()
        inside -= 1

    queue = queue_for(slow)
    async with running(queue):
        for item in range(5):
            queue.put(item)
            await trio.lowlevel.checkpoint()
    assert queue.errors == 0


async def test_oldest_are_dropped_at_the_bound() -> None:
    seen: list[int] = []
    gate = trio.Event()

    async def stuck(item: int) -> None:
        await gate.wait()
        seen.append(item)

    queue = queue_for(stuck)
    count = callbacks.MAX_QUEUED + 100
    async with running(queue):
        queue.put(-1)
        await trio.testing.wait_all_tasks_blocked()  # it is in the callback now
        for item in range(count):
            queue.put(item)
        gate.set()
    assert queue.dropped == 100
    assert seen == [-1, *range(100, count)]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_what_it_raises_is_logged_once_and_counted(
    asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []

    def fail(item: int) -> None:
        seen.append(item)
        raise ZeroDivisionError(f"item {item}")

    async def fail_later(item: int) -> None:
        await trio.lowlevel.checkpoint()
        fail(item)

    queue = queue_for(fail_later if asynchronous else fail)
    async with running(queue):
        for item in range(3):
            queue.put(item)
    assert seen == [0, 1, 2]
    assert queue.errors == 3
    (record,) = caplog.records
    assert "test callback" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


async def test_group_of_exceptions_is_caught_too(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(item: int) -> None:
        async with trio.open_nursery():
            raise ZeroDivisionError

    queue = queue_for(fail)
    async with running(queue):
        queue.put(1)
        queue.put(2)
    assert queue.errors == 2
    assert len(caplog.records) == 1


async def test_synchronous_function_that_returns_a_coroutine_is_a_mistake(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = queue_for(lambda item: coroutine(item))
    queue.put(1)  # warnings are errors: nothing may stay that was never awaited
    assert queue.errors == 1
    assert "async function" in str(caplog.records[0].exc_info)


async def test_callback_that_puts_more() -> None:
    seen: list[int] = []

    async def count_down(item: int) -> None:
        seen.append(item)
        if item:
            queue.put(item - 1)

    queue = queue_for(count_down)
    async with running(queue):
        queue.put(3)
        await trio.testing.wait_all_tasks_blocked()
    assert seen == [3, 2, 1, 0]


async def test_cancelled_while_in_the_callback() -> None:
    async def stuck(item: int) -> None:
        await trio.sleep_forever()

    queue = queue_for(stuck)
    queue.put(1)
    with trio.fail_after(30), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(queue.run)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert queue.errors == 0
