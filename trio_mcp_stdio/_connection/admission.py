"""Admission: how many calls may be in flight, and how many bytes may wait to be written.

First come, first served.  A caller waits inside its own cancel scope, so its timeout counts, and leaves
no trace when it is cancelled.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import trio

__all__ = ["Admission"]


class _Waiter:
    __slots__ = ("size", "slots", "task")

    def __init__(self, task: trio.lowlevel.Task, slots: int, size: int) -> None:
        self.task = task
        self.slots = slots
        self.size = size


class Admission:
    """The two bounds in front of the call table.

    Args:
        max_in_flight: calls between `enter` and `leave`.
        max_unsent_bytes: high-water mark of bytes not yet written.  One message larger than it is admitted
            when nothing else waits to be written.
        unsent_bytes: returns the bytes that wait to be written now.
    """

    def __init__(self, *, max_in_flight: int, max_unsent_bytes: int, unsent_bytes: Callable[[], int]) -> None:
        self._free = max_in_flight
        self._max_unsent = max_unsent_bytes
        self._unsent_bytes = unsent_bytes
        self._waiters: OrderedDict[trio.lowlevel.Task, _Waiter] = OrderedDict()
        self._granted = 0  # bytes admitted to callers that have yet to run and queue them
        self._open = True

    def __repr__(self) -> str:
        return f"<Admission: {self._free} free, {len(self._waiters)} waiting>"

    @property
    def waiting(self) -> int:
        """Callers waiting to be admitted."""
        return len(self._waiters)

    def enter_nowait(self, size: int, slots: int = 1) -> bool:
        """Take a slot for a message of `size` bytes if nobody has to wait; False, and nothing, otherwise."""
        if self._waiters and (slots or not self._room(next(iter(self._waiters.values())).size)):
            return False
        if self._free < slots or not self._room(size):
            return False
        self._free -= slots
        return True

    async def enter(self, size: int, slots: int = 1) -> None:
        """Wait for a slot.  Returns at once, without one being needed, after `close`."""
        if not self._open or self.enter_nowait(size, slots):
            return
        task = trio.lowlevel.current_task()
        self._waiters[task] = waiter = _Waiter(task, slots, size)

        def abort(_: object) -> trio.lowlevel.Abort:
            del self._waiters[task]
            self.recheck()  # the next one may be smaller
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if self._open:
            self._granted -= waiter.size

    def leave(self) -> None:
        """Give the slot back."""
        self._free += 1
        if self._waiters:
            self.recheck()

    def recheck(self) -> None:
        """Bytes have been written, or a slot was given back: admit whom there is room for now."""
        for task, waiter in list(self._waiters.items()):
            if not self._room(waiter.size):
                return  # or a large message would wait for ever behind small ones
            if self._free < waiter.slots:
                continue  # only those that take no slot may pass
            del self._waiters[task]
            self._free -= waiter.slots
            self._granted += waiter.size
            trio.lowlevel.reschedule(task)

    def close(self) -> None:
        """Let everybody through: the connection has ended, and each caller will find that out."""
        self._open = False
        self._granted = 0
        for task, waiter in self._waiters.items():
            self._free -= waiter.slots
            trio.lowlevel.reschedule(task)
        self._waiters.clear()

    def _room(self, size: int) -> bool:
        unsent = self._unsent_bytes() + self._granted
        return unsent == 0 or unsent + size <= self._max_unsent
