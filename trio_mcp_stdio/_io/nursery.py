"""A nursery for service tasks that wraps nobody's exceptions.

A plain nursery puts whatever passes through it into an exception group.  This one is never given the
exception of its body: the inner nursery is cancelled and closed as if the body had ended well, and then
the exception goes on its own way, unwrapped.  The service tasks themselves are written not to raise; if
one does, that is a bug, and its group comes out as it is.
"""

from __future__ import annotations

from types import TracebackType

import trio

from .._errors import LocalProtocolError

__all__ = ["ServiceNursery"]


class ServiceNursery:
    """Async context manager: `async with ServiceNursery() as nursery`.  Leaving it cancels the tasks."""

    def __init__(self) -> None:
        self._manager = trio.open_nursery()
        self._nursery: trio.Nursery | None = None
        self._task: trio.lowlevel.Task | None = None

    async def __aenter__(self) -> trio.Nursery:
        self._task = trio.lowlevel.current_task()
        self._nursery = await self._manager.__aenter__()
        return self._nursery

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._nursery is not None
        assert self._task is not None
        task = trio.lowlevel.current_task()
        if task is not self._task:
            # Trio would take the whole run down for a nursery left in the wrong task.  Nothing has
            # been touched yet: the right task can still leave properly.
            raise LocalProtocolError(
                f"entered in task {self._task.name!r}, left in task {task.name!r}: a client has to be left "
                "by the task that entered it; to open and close one from different tasks, use "
                "nursery.start(run_client, ...) and client.stop()"
            )
        self._nursery.cancel_scope.cancel(reason="the service ends")
        try:
            await self._manager.__aexit__(None, None, None)
        except BaseException as error:
            # An outer cancellation may meet us while the tasks end.  The body's own exception goes first;
            # the cancellation will be delivered again at the next checkpoint.
            bugs = _without_cancelled(error)
            interrupt = _interrupt_in(bugs)
            if interrupt is not None:
                # Ctrl-C while the tasks end: no bug of theirs, and no reason for a group.
                raise interrupt from None
            if exc is None:
                raise
            if bugs is not None and isinstance(exc, trio.Cancelled):
                raise
            if bugs is not None:
                raise BaseExceptionGroup(bugs.message, [*bugs.exceptions, exc]) from None
        finally:
            del self._nursery, self._manager, exc, traceback


def _without_cancelled(error: BaseException) -> BaseExceptionGroup[BaseException] | None:
    """What is left of the error of a nursery without cancellations."""
    if isinstance(error, trio.Cancelled):
        return None
    if not isinstance(error, BaseExceptionGroup):
        error = BaseExceptionGroup("Exceptions from service tasks", [error])
    return error.split(trio.Cancelled)[1]


def _interrupt_in(group: BaseExceptionGroup[BaseException] | None) -> KeyboardInterrupt | None:
    """The interrupt that a group consists of, None if it holds anything else."""
    error: BaseException | None = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error if isinstance(error, KeyboardInterrupt) else None
