"""The watchdog of the calls' limits, on a virtual clock."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from trio_mcp_stdio._connection import watchdog as module
from trio_mcp_stdio._connection.watchdog import Guard, Watchdog


@asynccontextmanager
async def running(watchdog: Watchdog) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watchdog.run)
        yield
        nursery.cancel_scope.cancel()


async def call(
    watchdog: Watchdog, timeout: float | None, idle: float | None, took: float = math.inf
) -> Guard:
    """A call that needs so many seconds and gets no progress."""
    with trio.CancelScope() as scope:
        guard = watchdog.watch(scope, timeout, idle)
        try:
            await trio.sleep(took) if took < math.inf else await trio.sleep_forever()
        finally:
            watchdog.forget(guard)
    assert scope.cancelled_caught == (guard.fired is not None)
    return guard


@pytest.mark.requirement("TIME-01", "TIME-03")
@pytest.mark.parametrize(
    ("timeout", "idle", "fired", "after"),
    [
        (10, None, "timeout", 10),
        (None, 3, "idle timeout", 3),
        (10, 3, "idle timeout", 3),
        (3, 10, "timeout", 3),
        (3, 3, "timeout", 3),
        (0, None, "timeout", 0),
        (None, 0, "idle timeout", 0),
    ],
)
async def test_limit_that_passes_first_acts(
    autojump_clock: MockClock, timeout: float | None, idle: float | None, fired: str, after: float
) -> None:
    watchdog = Watchdog()
    with trio.fail_after(1000):
        async with running(watchdog):
            began = trio.current_time()
            guard = await call(watchdog, timeout, idle)
            assert guard.fired == fired
            assert trio.current_time() - began == pytest.approx(after)


async def test_call_that_ends_in_time_is_left_alone(autojump_clock: MockClock) -> None:
    watchdog = Watchdog()
    with trio.fail_after(1000):
        async with running(watchdog):
            for _ in range(3):
                assert (await call(watchdog, 5, None, took=4)).fired is None
                assert (await call(watchdog, None, 5, took=4)).fired is None
                assert (await call(watchdog, None, None, took=100)).fired is None


async def test_limits_in_any_order(autojump_clock: MockClock) -> None:
    """A nearer limit set later moves the alarm, a forgotten one does not disturb the rest."""
    watchdog = Watchdog()
    ended: list[float] = []

    async def one(timeout: float, took: float = math.inf) -> None:
        await call(watchdog, timeout, None, took)
        ended.append(trio.current_time() - began)

    with trio.fail_after(1000):
        async with running(watchdog), trio.open_nursery() as nursery:
            began = trio.current_time()
            for timeout in (50, 20, 30, 10, 40):
                nursery.start_soon(one, timeout)
                nursery.start_soon(one, timeout + 1, 5)
            await trio.sleep(15)
            nursery.start_soon(one, 2)
    assert ended == pytest.approx([5] * 5 + [10, 17, 20, 30, 40, 50])


@pytest.mark.requirement("TIME-04", "TIME-05")
async def test_progress_starts_the_idle_limit_anew_but_not_the_total_one(autojump_clock: MockClock) -> None:
    watchdog = Watchdog()
    with trio.fail_after(1000):
        async with running(watchdog):
            for total, expected in ((20.0, ("timeout", 20)), (None, ("idle timeout", 33))):
                began = trio.current_time()
                with trio.CancelScope() as scope:
                    guard = watchdog.watch(scope, total, 3)
                    for _ in range(15):
                        await trio.sleep(2)
                        watchdog.touch(guard)
                    await trio.sleep_forever()
                watchdog.forget(guard)
                assert (guard.fired, trio.current_time() - began) == (expected[0], pytest.approx(expected[1]))


@pytest.mark.parametrize("total", [100.0, None])
async def test_idle_limit_is_suspended_while_the_caller_is_busy(
    autojump_clock: MockClock, total: float | None
) -> None:
    """And counts again afterwards, from the end of what the caller did."""
    watchdog = Watchdog()
    with trio.fail_after(1000):
        async with running(watchdog):
            began = trio.current_time()
            with trio.CancelScope() as scope:
                guard = watchdog.watch(scope, total, 3)
                for _ in range(4):
                    watchdog.suspend_idle(guard)
                    await trio.sleep(10)
                    assert guard.fired is None
                    watchdog.touch(guard)
                await trio.sleep(300)
            watchdog.forget(guard)
            assert guard.fired == "idle timeout"
            assert trio.current_time() - began == pytest.approx(43)


async def test_total_limit_acts_while_the_caller_is_busy(autojump_clock: MockClock) -> None:
    watchdog = Watchdog()
    with trio.fail_after(1000):
        async with running(watchdog):
            began = trio.current_time()
            with trio.CancelScope() as scope:
                guard = watchdog.watch(scope, 10, 3)
                watchdog.suspend_idle(guard)
                await trio.sleep(300)
            watchdog.forget(guard)
            assert (guard.fired, trio.current_time() - began) == ("timeout", pytest.approx(10))


async def test_nothing_to_jump_to_when_there_are_no_calls() -> None:
    """Parked without a deadline, also after calls with limits have come and gone."""
    watchdog = Watchdog()
    with trio.fail_after(30):
        async with running(watchdog):
            await trio.testing.wait_all_tasks_blocked()
            limits = [trio.lowlevel.current_statistics().seconds_to_next_deadline]
            with trio.CancelScope() as scope:
                guards = [watchdog.watch(scope, 1, None), watchdog.watch(scope, 2, 0.5)]
                await trio.testing.wait_all_tasks_blocked()
                assert trio.lowlevel.current_statistics().seconds_to_next_deadline < 1
                for guard in guards:
                    watchdog.forget(guard)
                await trio.testing.wait_all_tasks_blocked()
                limits.append(trio.lowlevel.current_statistics().seconds_to_next_deadline)
    assert min(limits) > 20  # that of `fail_after` alone


async def test_autojump_is_not_held_up(autojump_clock: MockClock) -> None:
    watchdog = Watchdog()
    with trio.fail_after(1000):
        async with running(watchdog):
            await call(watchdog, 50, 1, took=0.5)
            began = trio.current_time()
            await trio.sleep(1)
        assert trio.current_time() - began == pytest.approx(1)


async def test_heap_holds_no_more_than_twice_the_live_calls(autojump_clock: MockClock) -> None:
    watchdog = Watchdog()
    with trio.CancelScope() as scope:
        live = [watchdog.watch(scope, 1000, None) for _ in range(10)]
        for _ in range(2000):
            watchdog.forget(watchdog.watch(scope, 500, None))
            assert len(watchdog._heap) <= 2 * 11 + module._COMPACT_FROM
        with trio.fail_after(1000):
            async with running(watchdog):
                assert (await call(watchdog, 10, None)).fired == "timeout"
        for guard in live:
            watchdog.forget(guard)
    assert not watchdog._heap


async def test_heap_does_not_grow_with_the_progress_of_one_call(autojump_clock: MockClock) -> None:
    """A caller that is often busy for longer than its idle limit: each time its entry runs out early."""
    watchdog = Watchdog()
    with trio.fail_after(1_000_000):
        async with running(watchdog):
            with trio.CancelScope() as scope:
                guard = watchdog.watch(scope, 100_000, 1)
                for _ in range(200):
                    watchdog.suspend_idle(guard)
                    await trio.sleep(2)
                    watchdog.touch(guard)
                assert len(watchdog._heap) <= 2 + module._COMPACT_FROM
            watchdog.forget(guard)


async def test_representation() -> None:
    watchdog = Watchdog()
    watchdog.watch(trio.CancelScope(), 1, None)
    assert repr(watchdog) == "<Watchdog: 1 calls>"
