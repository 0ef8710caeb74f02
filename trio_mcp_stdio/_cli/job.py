"""The work of a command, run to its exit code."""

from __future__ import annotations

import logging
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Final, final

import attrs
import trio

from .. import McpError
from .._io.nursery import ServiceNursery
from .exits import Exit, describe, exit_of, leaf
from .output import note, write

__all__ = ["Job"]

_ENDING: Final = ("SIGTERM", "SIGHUP", "SIGBREAK")
"""Signals that end the work in order.  SIGINT is not among them: it interrupts writing as well."""


@final
@attrs.frozen
class Job:
    """What a command has to do.

    Args:
        work: does it and returns the exit code.
        stderr_shown: what the server writes to stderr is shown as it comes.
    """

    work: Callable[[], Awaitable[Exit]]
    stderr_shown: bool = True

    def run(self) -> int:
        """Do it; every error is told in a few words and becomes an exit code."""
        logger = logging.getLogger("trio_mcp_stdio")
        logger.addHandler(handler := _Notes(logging.WARNING))
        try:
            return trio.run(_until_signalled, self.work)
        except BaseException as error:
            return self._report(leaf(error))
        finally:
            logger.removeHandler(handler)

    def _report(self, error: BaseException) -> int:
        if isinstance(error, SystemExit):
            raise error
        if isinstance(error, McpError):
            note(describe(error, stderr_shown=self.stderr_shown))
        elif isinstance(error, OSError):
            note(str(error))
        elif not isinstance(error, KeyboardInterrupt):
            write(sys.stderr, "".join(traceback.format_exception(error)))
        return exit_of(error)


class _Notes(logging.Handler):
    """Shows the library's warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


async def _until_signalled(work: Callable[[], Awaitable[Exit]]) -> int:
    wanted = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    # What is ignored stays ignored: whoever started this wanted it to outlive a hang-up.
    wanted = [each for each in wanted if signal.getsignal(each) is not signal.SIG_IGN]
    came: list[int] = []
    with trio.open_signal_receiver(*wanted) as signals:
        async with ServiceNursery() as nursery:
            with trio.CancelScope() as scope:

                async def watch() -> None:
                    async for each in signals:
                        came.append(each)
                        scope.cancel(reason="a signal asks the program to end")

                nursery.start_soon(watch)
                return await work()
    return 128 + came[0]
