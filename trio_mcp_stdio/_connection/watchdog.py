"""The watchdog: one task that keeps the deadlines of all calls.

A trio deadline on each call's scope halves the rate, so deadlines are kept in a heap here, and the
watchdog calls `scope.cancel()` for the call whose time has passed.  The scope stays the call's own: one
request, one scope, one notice.
"""

from __future__ import annotations

import heapq
import math
from typing import Final

import trio

__all__ = ["Guard", "Watchdog"]

_COMPACT_FROM: Final = 64


class Guard:
    """The limits of one call.

    Attributes:
        began: when the call began, on the trio clock.
        fired: "timeout" or "idle timeout" once one of the limits has passed, else None.
    """

    __slots__ = ("began", "deadline", "fired", "hard", "idle", "live", "queued", "scope")

    def __init__(self, scope: trio.CancelScope, hard: float, idle: float | None, now: float) -> None:
        self.scope = scope
        self.began = now
        self.hard = hard
        self.idle = idle
        self.live = True
        self.deadline = hard if idle is None else min(hard, now + idle)
        self.queued = math.inf  # the deadline under which it stands in the heap
        self.fired: str | None = None


class Watchdog:
    """Cancels the scopes of calls whose time has passed."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Guard]] = []
        self._count = 0
        self._live = 0
        self._wait = trio.CancelScope()

    def __repr__(self) -> str:
        return f"<Watchdog: {self._live} calls>"

    def watch(self, scope: trio.CancelScope, timeout: float | None, idle: float | None) -> Guard:
        """Guard a call that begins now; limits in seconds, None for no limit.  Pair it with `forget`."""
        now = trio.current_time()
        guard = Guard(scope, math.inf if timeout is None else now + timeout, idle, now)
        self._live += 1
        if guard.deadline < math.inf:
            self._push(guard)
        return guard

    def touch(self, guard: Guard) -> None:
        """There was progress: the idle limit starts anew, never past the total one."""
        if guard.idle is not None:
            guard.deadline = min(guard.hard, trio.current_time() + guard.idle)
            if guard.deadline < guard.queued:
                self._push(guard)
                self._compact()

    def suspend_idle(self, guard: Guard) -> None:
        """Only the total limit counts until the next `touch`: the caller itself is busy."""
        guard.deadline = guard.hard

    def forget(self, guard: Guard) -> None:
        """The call is over."""
        guard.live = False
        self._live -= 1
        if self._live == 0:
            # Park without a deadline, so that a virtual clock has nothing of ours to jump to.
            self._heap.clear()
            self._wait.deadline = math.inf
        else:
            self._compact()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            self._wait = trio.CancelScope(deadline=self._heap[0][0] if self._heap else math.inf)
            with self._wait:
                await trio.sleep_forever()
            self._expire(trio.current_time())

    def _push(self, guard: Guard) -> None:
        self._count += 1
        guard.queued = guard.deadline
        heapq.heappush(self._heap, (guard.deadline, self._count, guard))
        if guard.deadline < self._wait.deadline:
            self._wait.deadline = guard.deadline

    def _compact(self) -> None:
        """Drop the entries of calls that are over, and of deadlines that have moved, once they prevail."""
        if len(self._heap) > 2 * self._live + _COMPACT_FROM:
            self._heap = [entry for entry in self._heap if entry[2].live and entry[0] == entry[2].queued]
            heapq.heapify(self._heap)

    def _expire(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            deadline, _, guard = heapq.heappop(self._heap)
            if not guard.live or deadline != guard.queued:
                continue
            guard.queued = math.inf
            if guard.deadline > now:  # moved by progress since it was entered
                if guard.deadline < math.inf:
                    self._push(guard)
                continue
            guard.fired = "timeout" if guard.deadline == guard.hard else "idle timeout"
            guard.scope.cancel(reason=f"{guard.fired} of the request")
