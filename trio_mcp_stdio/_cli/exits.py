"""Exit codes, and which error leads to which."""

from __future__ import annotations

import enum
import json

from .. import (
    ConnectionLost,
    InputRequiredError,
    LocalProtocolError,
    McpError,
    NegotiationError,
    ProtocolError,
    RequestTimeout,
    RpcError,
    ServerExited,
    SpawnError,
    ToolError,
)
from .._wire import methods

__all__ = ["Exit", "describe", "exit_of", "leaf"]


class Exit(enum.IntEnum):
    """What the program's exit code says."""

    OK = 0
    """Everything was done."""
    UNEXPECTED = 1
    """Something that no other code names."""
    USAGE = 2
    """The command line or what it names is wrong."""
    NO_CONNECTION = 4
    """The server cannot be started, or there is no version that both sides speak."""
    FAILED = 5
    """The tool reported an error or does not exist, or the server answered with an error."""
    TIMED_OUT = 6
    """No answer came in time."""
    SERVER_FAULT = 7
    """The server broke the protocol, or ended in the middle of a call."""
    INTERRUPTED = 130
    """Ctrl-C."""


def leaf(error: BaseException) -> BaseException:
    """The error that decides about the exit code: an interrupt or else the first, out of any groups."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [leaf(each) for each in error.exceptions]
    return next((each for each in leaves if isinstance(each, KeyboardInterrupt)), leaves[0])


def exit_of(error: BaseException) -> Exit:
    """The exit code for an error."""
    match error:
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case SpawnError() | NegotiationError():
            return Exit.NO_CONNECTION
        case ConnectionLost():
            return Exit.NO_CONNECTION if _while_connecting(error) else Exit.SERVER_FAULT
        case RequestTimeout():
            return Exit.TIMED_OUT
        case RpcError() | ToolError() | InputRequiredError():
            return Exit.FAILED
        case LocalProtocolError():
            return Exit.USAGE
        case ProtocolError():
            return Exit.SERVER_FAULT
        case _:
            return Exit.UNEXPECTED


def _while_connecting(error: ConnectionLost) -> bool:
    if isinstance(error, ServerExited) and error.phase != "serving":
        return True
    return error.method in (methods.DISCOVER, methods.INITIALIZE)


def describe(error: McpError, *, stderr_shown: bool) -> str:
    """An error for people, its details on lines of their own.

    Args:
        stderr_shown: what the server wrote to stderr has been shown already and is not repeated.
    """
    if stderr_shown:
        error.stderr_tail = ""
    text = str(error)
    if isinstance(error, RpcError) and error.data is not None:
        text += f"\n  data: {json.dumps(error.data, ensure_ascii=False)}"
    return text
