"""Waking one task: the cheapest hand-over trio has."""

from __future__ import annotations

import trio

__all__ = ["Waiter"]


class Waiter:
    """Lets one task wait for a synchronous `wake`.

    A second reschedule of a task before it runs is an error in trio, so only an armed waiter is
    rescheduled; a wake without anyone waiting is forgotten: the waiting side looks at its state first.
    """

    __slots__ = ("_task",)

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None

    def wake(self) -> None:
        """Wake the task if it is waiting."""
        task = self._task
        if task is not None:
            self._task = None
            trio.lowlevel.reschedule(task)

    def abort(self, raise_cancel: object) -> trio.lowlevel.Abort:
        """What trio calls when the waiting task is cancelled."""
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

    async def wait(self) -> None:
        """Wait for the next `wake`."""
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self.abort)
