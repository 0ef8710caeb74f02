"""The two bounds in front of the call table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp_stdio._connection.admission import Admission


class Lane:
    """Bytes waiting to be written, and the admission in front of them."""

    def __init__(self, slots: int = 100, limit: int = 1000) -> None:
        self.unsent = 0
        self.admission = Admission(
            max_in_flight=slots, max_unsent_bytes=limit, unsent_bytes=lambda: self.unsent
        )
        self.entered: list[Any] = []

    async def enter(self, name: Any, size: int, slots: int = 1) -> None:
        """Be admitted and queue the message at once, as a caller does."""
        await self.admission.enter(size, slots)
        self.unsent += size
        self.entered.append(name)

    def written(self, size: int) -> None:
        self.unsent -= size
        self.admission.recheck()


@asynccontextmanager
async def patient_nursery() -> AsyncIterator[trio.Nursery]:
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            yield nursery


async def settle() -> None:
    with trio.fail_after(30):
        await trio.testing.wait_all_tasks_blocked()


async def test_free_slots_are_taken_at_once() -> None:
    lane = Lane(slots=2)
    assert lane.admission.enter_nowait(1)
    assert lane.admission.enter_nowait(1)
    assert not lane.admission.enter_nowait(1)
    lane.admission.leave()
    assert lane.admission.enter_nowait(1)


async def test_first_come_first_served() -> None:
    lane = Lane(slots=1)
    async with patient_nursery() as nursery:
        for name in range(6):
            nursery.start_soon(lane.enter, name, 1)
            await settle()
        for name in range(6):
            assert lane.entered == list(range(name + 1))
            assert lane.admission.waiting == 5 - name
            assert not lane.admission.enter_nowait(1)  # whoever comes now is the last
            lane.admission.leave()
            await settle()
    assert lane.admission.enter_nowait(1)


async def test_bytes_are_bounded() -> None:
    lane = Lane(limit=100)
    async with patient_nursery() as nursery:
        for name in range(5):
            nursery.start_soon(lane.enter, name, 40)
            await settle()
        assert lane.entered == [0, 1]
        lane.written(20)
        await settle()
        assert lane.entered == [0, 1, 2]
        lane.written(39)
        await settle()
        assert lane.entered == [0, 1, 2]
        lane.written(1)
        await settle()
        assert lane.entered == [0, 1, 2, 3]
        lane.written(100)
        await settle()
        assert lane.entered == [0, 1, 2, 3, 4]
        assert lane.unsent == 40


async def test_callers_admitted_in_one_tick_do_not_pass_the_bound_together() -> None:
    lane = Lane(limit=100)
    lane.unsent = 100
    highest = 0
    async with patient_nursery() as nursery:
        for name in range(20):
            nursery.start_soon(lane.enter, name, 30)
        await settle()
        assert not lane.entered
        lane.written(100)
        while len(lane.entered) < 20:
            await settle()
            highest = max(highest, lane.unsent)
            lane.written(30)
    assert highest <= 100


async def test_one_large_message_is_admitted_alone() -> None:
    lane = Lane(limit=100)
    async with patient_nursery() as nursery:
        nursery.start_soon(lane.enter, "small", 10)
        await settle()
        nursery.start_soon(lane.enter, "large", 5000)
        await settle()
        nursery.start_soon(lane.enter, "next", 10)
        await settle()
        assert lane.entered == ["small"]
        lane.written(9)
        await settle()
        assert lane.entered == ["small"]
        lane.written(1)
        await settle()
        assert lane.entered == ["small", "large"]
        lane.written(4999)
        await settle()
        assert lane.entered == ["small", "large", "next"]


@pytest.mark.parametrize("victim", [0, 1, 2])
async def test_cancelled_waiter_leaves_no_trace(victim: int) -> None:
    lane = Lane(slots=1)
    assert lane.admission.enter_nowait(1)
    scopes = [trio.CancelScope() for _ in range(3)]

    async def wait(name: int) -> None:
        with scopes[name]:
            await lane.enter(name, 1)

    async with patient_nursery() as nursery:
        for name in range(3):
            nursery.start_soon(wait, name)
            await settle()
        scopes[victim].cancel()
        await settle()
        assert lane.admission.waiting == 2
        for _ in range(3):
            lane.admission.leave()
            await settle()
    assert lane.entered == [name for name in range(3) if name != victim]
    assert lane.admission.enter_nowait(1)
    assert not lane.admission.enter_nowait(1)


async def test_smaller_one_behind_a_cancelled_waiter_goes_ahead() -> None:
    lane = Lane(limit=100)
    lane.unsent = 80
    scope = trio.CancelScope()

    async def large() -> None:
        with scope:
            await lane.enter("large", 90)

    async with patient_nursery() as nursery:
        nursery.start_soon(large)
        await settle()
        nursery.start_soon(lane.enter, "small", 10)
        await settle()
        assert not lane.entered
        scope.cancel()
        await settle()
        assert lane.entered == ["small"]


async def test_admitted_and_cancelled_in_the_same_tick() -> None:
    """Who was admitted first runs, has its slot, and gives it back; no byte stays reserved."""
    lane = Lane(slots=1, limit=100)
    assert lane.admission.enter_nowait(1)
    scope = trio.CancelScope()
    passed = []

    async def wait() -> None:
        with scope:
            await lane.admission.enter(60)
            passed.append("admitted")
            try:
                await trio.lowlevel.checkpoint()
            finally:
                lane.admission.leave()

    async with patient_nursery() as nursery:
        nursery.start_soon(wait)
        await settle()
        lane.admission.leave()
        scope.cancel()
    assert passed == ["admitted"]
    assert scope.cancelled_caught
    assert lane.admission.enter_nowait(100)


async def test_cancelled_and_admitted_in_the_same_tick() -> None:
    lane = Lane(slots=1)
    assert lane.admission.enter_nowait(1)
    scope = trio.CancelScope()

    async def wait() -> None:
        with scope:
            await lane.enter("cancelled", 60)

    async with patient_nursery() as nursery:
        nursery.start_soon(wait)
        await settle()
        scope.cancel()
        lane.admission.leave()
    assert not lane.entered
    assert lane.admission.enter_nowait(1)


async def test_close_lets_everybody_through() -> None:
    lane = Lane(slots=1, limit=10)
    assert lane.admission.enter_nowait(1)
    async with patient_nursery() as nursery:
        for name in range(100):
            nursery.start_soon(lane.enter, name, 50)
        await settle()
        lane.admission.close()
        lane.admission.recheck()
        lane.admission.close()
    assert sorted(lane.entered) == list(range(100))
    with trio.fail_after(30):
        await lane.admission.enter(5000)  # nobody waits after the end
    for _ in range(101):
        lane.admission.leave()


async def test_message_without_a_slot_does_not_wait_for_slots() -> None:
    """A notification takes no slot: whatever calls wait for one, only bytes can hold it up."""
    lane = Lane(slots=1)
    assert lane.admission.enter_nowait(1)
    assert lane.admission.enter_nowait(1, slots=0)
    async with patient_nursery() as nursery:
        nursery.start_soon(lane.enter, "call", 1)
        await settle()
        nursery.start_soon(lane.enter, "notification", 1, 0)
        await settle()
        try:
            assert lane.entered == ["notification"]
        finally:
            lane.admission.leave()


async def test_message_without_a_slot_waits_for_bytes() -> None:
    lane = Lane(limit=100)
    lane.unsent = 95
    assert not lane.admission.enter_nowait(10, slots=0)
    async with patient_nursery() as nursery:
        nursery.start_soon(lane.enter, "notification", 10, 0)
        await settle()
        assert not lane.entered
        lane.written(5)
        await settle()
        assert lane.entered == ["notification"]


async def test_representation() -> None:
    assert repr(Lane(slots=3).admission) == "<Admission: 3 free, 0 waiting>"
