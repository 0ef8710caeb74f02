"""The service nursery: whatever leaves the block leaves it as it is."""

from __future__ import annotations

import gc
import signal
import weakref
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp_stdio import LocalProtocolError
from trio_mcp_stdio._io.nursery import ServiceNursery


class Service:
    """A task that needs a while to end, as one that shuts a server down does."""

    def __init__(self) -> None:
        self.ended = False

    async def run(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            self.ended = True


@asynccontextmanager
async def service() -> AsyncIterator[Service]:
    served = Service()
    try:
        with trio.fail_after(1000):
            async with ServiceNursery() as nursery:
                nursery.start_soon(served.run)
                await trio.lowlevel.checkpoint()
                yield served
    finally:
        assert served.ended


async def test_leaving_cancels_the_tasks_and_waits_for_them(autojump_clock: trio.testing.MockClock) -> None:
    async with service() as served:
        assert not served.ended
    assert served.ended


async def test_plain_error_stays_plain(autojump_clock: trio.testing.MockClock) -> None:
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as info:
        async with service():
            raise error
    assert info.value is error
    assert error.__context__ is None
    assert error.__cause__ is None


async def test_group_of_the_user_is_not_touched(autojump_clock: trio.testing.MockClock) -> None:
    group = ExceptionGroup("mine", [ValueError(), ExceptionGroup("inner", [KeyError()])])
    with pytest.raises(ExceptionGroup) as info:
        async with service(), service():
            raise group
    assert info.value is group
    assert [type(error) for error in group.exceptions] == [ValueError, ExceptionGroup]


async def test_error_through_a_nursery_of_the_user(autojump_clock: trio.testing.MockClock) -> None:
    async def fail() -> None:
        raise ValueError("mine")

    with pytest.RaisesGroup(ValueError):
        async with service(), trio.open_nursery() as nursery:
            nursery.start_soon(fail)


async def test_outer_cancellation_passes(autojump_clock: trio.testing.MockClock) -> None:
    with trio.CancelScope() as scope:
        async with service():
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_outer_limit_is_a_plain_error(autojump_clock: trio.testing.MockClock) -> None:
    async def user() -> None:
        with trio.fail_after(5):
            async with service():
                await trio.sleep_forever()

    with pytest.raises(trio.TooSlowError):
        await user()


async def test_cancelled_at_its_last_checkpoint(autojump_clock: trio.testing.MockClock) -> None:
    """The block ends well, and the cancellation comes while the tasks end."""
    with trio.move_on_after(0.5) as scope:
        async with service():
            pass
    assert scope.cancelled_caught


@pytest.mark.parametrize("limit", [trio.fail_after, trio.move_on_after])
async def test_error_stays_plain_when_a_cancellation_comes_while_the_tasks_end(
    autojump_clock: trio.testing.MockClock, limit: Any
) -> None:
    """The cancellation is delivered again at the next checkpoint, the error would be lost in a group."""

    async def user() -> None:
        with limit(0.5):
            async with service():
                raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await user()


async def test_own_group_stays_as_it_is_when_a_cancellation_comes_while_the_tasks_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    group = ExceptionGroup("mine", [ValueError()])

    async def user() -> None:
        with trio.move_on_after(0.5):
            async with service():
                raise group

    with pytest.raises(ExceptionGroup, match="mine") as info:
        await user()
    assert info.value.exceptions == group.exceptions  # the cancel scope may have made a new group of it


async def test_cancellation_is_not_swallowed_with_the_error(autojump_clock: trio.testing.MockClock) -> None:
    async def user() -> None:
        try:
            async with service():
                raise ValueError("mine")
        except ValueError:
            await trio.sleep(1000)

    with trio.move_on_after(0.5) as scope:
        await user()
    assert scope.cancelled_caught
    assert trio.current_time() < 100


def test_keyboard_interrupt_is_plain() -> None:
    async def main() -> None:
        async with service():
            signal.raise_signal(signal.SIGINT)
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
async def test_errors_that_are_no_exceptions_are_plain(
    autojump_clock: trio.testing.MockClock, error: BaseException
) -> None:
    with pytest.raises(type(error)) as info:
        async with service():
            raise error
    assert info.value is error


async def test_crash_of_a_task_comes_out_as_it_is() -> None:
    async def crash() -> None:
        raise ZeroDivisionError

    with pytest.RaisesGroup(ZeroDivisionError):
        async with ServiceNursery() as nursery:
            nursery.start_soon(crash)
            await trio.sleep_forever()


async def test_crash_of_a_task_does_not_hide_the_error_of_the_block() -> None:
    async def crash() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ZeroDivisionError

    with pytest.RaisesGroup(ZeroDivisionError, ValueError):
        async with ServiceNursery() as nursery:
            nursery.start_soon(crash)
            await trio.lowlevel.checkpoint()
            raise ValueError("mine")


async def test_left_in_the_wrong_task(autojump_clock: trio.testing.MockClock) -> None:
    manager = ServiceNursery()
    served = Service()
    caught: list[BaseException] = []

    async def leave() -> None:
        try:
            await manager.__aexit__(None, None, None)
        except BaseException as error:
            caught.append(error)

    inner = await manager.__aenter__()
    inner.start_soon(served.run)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave, name="somebody else")
    (error,) = caught
    assert isinstance(error, LocalProtocolError)
    assert "somebody else" in str(error)
    assert "run_client" in str(error)
    assert not served.ended
    assert not inner.cancel_scope.cancel_called
    await manager.__aexit__(None, None, None)
    assert served.ended


async def test_many_in_one_exit_stack(autojump_clock: trio.testing.MockClock) -> None:
    async with AsyncExitStack() as stack:
        served = [await stack.enter_async_context(service()) for _ in range(5)]
    assert all(one.ended for one in served)


async def test_error_leaves_no_cycle_behind(autojump_clock: trio.testing.MockClock) -> None:
    class Mine(Exception):
        pass

    async def once() -> weakref.ref[Mine]:
        try:
            async with service():
                raise Mine
        except Mine as error:
            return weakref.ref(error)

    gc.collect()
    gc.disable()
    try:
        reference = await once()
        await trio.lowlevel.checkpoint()
        assert reference() is None
    finally:
        gc.enable()
