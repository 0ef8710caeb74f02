"""What ended a connection, and the error that each of its callers gets for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from .._errors import ClientClosed, ConnectionLost, Delivery, McpError, ServerExited
from .._io.process import describe_exit
from ..types import ProcessExit

__all__ = ["Loss"]


@attrs.frozen(kw_only=True)
class Loss:
    """The end of a connection.

    Attributes:
        reason: what ended it.
        exit: the end of the process, None while it runs or where there is none.
        phase: "probe", "initialize" or "serving".
        command: the command as it may be shown, empty where there is none.
        stderr_tail: the last of its stderr known by then.
        noise: first lines that were no messages.
        closed_here: this side closed it.
        fault: makes the error instead, for a fault of the peer that ended the connection.
    """

    reason: str
    exit: ProcessExit | None = None
    phase: str = "serving"
    command: Sequence[str] = ()
    stderr_tail: str = ""
    noise: Sequence[str] = ()
    closed_here: bool = False
    fault: Callable[[], McpError] | None = None

    def error(
        self, *, server: str, method: str | None = None, delivery: Delivery = Delivery.NOT_SENT
    ) -> McpError:
        """A fresh error for one caller."""
        if self.fault is not None:
            error = self.fault()
            error.server = server
            return error.about(command=self.command, stderr_tail=self.stderr_tail)
        if self.closed_here:
            return ClientClosed(self.reason, delivery=delivery, method=method, server=server)
        if self.exit is None:
            lost = ConnectionLost(self.reason, delivery=delivery, method=method, server=server)
            return lost.about(command=self.command, stderr_tail=self.stderr_tail)
        unexpected = "" if self.exit.expected or self.exit.returncode != 0 else ", though nobody asked it to"
        return ServerExited(
            f"the server {describe_exit(self.exit)}{unexpected} ({self.reason})",
            exit=self.exit,
            phase=self.phase,
            delivery=delivery,
            noise=self.noise,
            method=method,
            server=server,
        ).about(command=self.command, stderr_tail=self.exit.stderr_tail)
