"""The exception tree.

Every error of this package derives from `McpError`, arrives plain (never inside an exception group
of ours) and pickles.  Faults found on this side and errors sent by the peer are unrelated types, so
that one can never be taken for the other (specification, basic: error codes of local conditions).

Lowest layer: imports nothing of the package at run time.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from typing import Self

    from .types import CallToolResult, ProcessExit

__all__ = [
    "ClientClosed",
    "ConnectionLost",
    "Delivery",
    "EndlessList",
    "InputRequiredError",
    "InvalidArguments",
    "InvalidParams",
    "InvalidResult",
    "LineTooLong",
    "LocalProtocolError",
    "McpError",
    "MethodNotFound",
    "MissingClientCapability",
    "NegotiationError",
    "ProtocolError",
    "RemoteProtocolError",
    "RequestTimeout",
    "ResourceNotFound",
    "RpcError",
    "ServerExited",
    "SpawnError",
    "StartupTimeout",
    "SubscriptionLost",
    "ToolError",
    "UnsupportedProtocolVersion",
]


class Delivery(enum.Enum):
    """How far a lost request got on its way to the server."""

    NOT_SENT = "not sent"
    """No byte of it was written: repeating it is always safe."""
    PARTLY_SENT = "partly sent"
    """Some bytes were written.  Not safe to repeat: a reader may act on what it has at EOF."""
    OUTCOME_UNKNOWN = "outcome unknown"
    """It was written whole, or the stream cannot tell: the server may have carried it out."""


def _revive(cls: type[McpError], args: tuple[object, ...], state: dict[str, Any]) -> McpError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


class McpError(Exception):
    """Base of every error this package raises.

    Attributes:
        server: name of the server concerned, where one is known.
        command: its command as it may be shown, where the error ends the connection; else empty.
        stderr_tail: the last of its stderr known then.
    """

    def __init__(self, message: str, *, server: str | None = None) -> None:
        super().__init__(message)
        self.server = server
        self.command: tuple[str, ...] = ()
        self.stderr_tail = ""

    def about(self, *, command: Sequence[str], stderr_tail: str) -> Self:
        """Add what is known of the server process; returns the error itself."""
        self.command = tuple(command)
        self.stderr_tail = stderr_tail
        return self

    @property
    def message(self) -> str:
        """The text given, without the server name and details that `str()` adds."""
        return str(self.args[0]) if self.args else ""

    def _details(self) -> Sequence[str]:
        return ()

    def __str__(self) -> str:
        head = self.message if self.server is None else f"{self.server}: {self.message}"
        lines = [head, *self._details()]
        if self.command:
            lines.append(f"  command: {' '.join(self.command)}")
        if self.stderr_tail:
            lines += ["  stderr ended with:", _indent(self.stderr_tail)]
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own version calls cls(*args), which loses keyword-only attributes.
        return _revive, (type(self), self.args, self.__dict__.copy())


class ProtocolError(McpError):
    """Abstract: one of the two sides broke the rules.  Raised as one of its two subclasses."""


class LocalProtocolError(ProtocolError):
    """This side was asked for something that the protocol or this package's interface forbids.

    Raised in the caller before any byte is queued.
    """


class InvalidArguments(LocalProtocolError):
    """The arguments of a tool do not match its input schema, or cannot be checked against it.

    Raised where `Validation.arguments` is on; nothing was queued.

    Attributes:
        tool: name of the tool.
        problems: one sentence a problem, each starting with the path of the offending value.
    """

    def __init__(self, *, tool: str, problems: Sequence[str], server: str | None = None) -> None:
        super().__init__(f"invalid arguments of {tool}: {'; '.join(problems)}", server=server)
        self.tool = tool
        self.problems = list(problems)


class RemoteProtocolError(ProtocolError):
    """The peer sent something that the protocol forbids, and it cost this request or the connection."""


class LineTooLong(RemoteProtocolError):
    """The server sent a line longer than `ClientOptions.max_line_bytes`.

    Attributes:
        limit: the bound in bytes.
        size: bytes of the line seen when the error was raised; the line may go on.
    """

    def __init__(self, message: str, *, limit: int, size: int, server: str | None = None) -> None:
        super().__init__(message, server=server)
        self.limit = limit
        self.size = size


class InvalidResult(RemoteProtocolError):
    """A result does not have the shape that its method defines.

    Only this request fails.  `client.request` (or `raw=True`) hands out any result unchecked.

    Attributes:
        method: method that was called.
        problems: one sentence a problem, each starting with the path of the offending value.
    """

    def __init__(self, *, method: str, problems: Sequence[str], server: str | None = None) -> None:
        super().__init__(f"invalid result of {method}: {'; '.join(problems)}", server=server)
        self.method = method
        self.problems = list(problems)


class EndlessList(RemoteProtocolError):
    """A list has no end: a cursor came a second time, or there were more pages than `max_pages`.

    Attributes:
        method: method of the list.
        items: what was read; empty where the pages were handed out one by one.
    """

    def __init__(
        self, message: str, *, method: str, items: Sequence[Any] = (), server: str | None = None
    ) -> None:
        super().__init__(message, server=server)
        self.method = method
        self.items = tuple(items)


class RpcError(McpError):
    """The peer answered a request with a JSON-RPC error.

    Codes from -32000 to -32019 get no meaning except -32002 (specification, basic: error codes).

    Attributes:
        code: integer code as received.
        data: the error's `data`, None when absent.
        method: method that was called.
    """

    def __init__(
        self,
        code: int,
        message: str,
        data: Any = None,
        *,
        method: str | None = None,
        server: str | None = None,
    ) -> None:
        super().__init__(message, server=server)
        self.code = code
        self.data = data
        self.method = method

    @classmethod
    def from_wire(
        cls, code: int, message: str, data: Any, *, method: str | None, server: str | None
    ) -> RpcError:
        """Make the most specific subclass for a received error."""
        kind = _KINDS.get(code, RpcError)
        if code == -32602 and method == "resources/read" and isinstance(data, Mapping) and "uri" in data:
            kind = ResourceNotFound
        return kind(code, message, data, method=method, server=server)

    def __str__(self) -> str:
        head = f"{self.message} (code {self.code}{f', {self.method}' if self.method else ''})"
        return head if self.server is None else f"{self.server}: {head}"


class MethodNotFound(RpcError):
    """Code -32601: the server does not know the method, or has not announced its capability."""


class InvalidParams(RpcError):
    """Code -32602: malformed parameters, an unknown tool or prompt, or a rejected cursor."""


class ResourceNotFound(InvalidParams):
    """`resources/read` named a resource that does not exist.

    Code -32602 with `data.uri`, or the -32002 of the revisions before 2026-07-28.
    """


class UnsupportedProtocolVersion(RpcError):
    """Code -32022: the server does not serve the protocol version of this request."""

    @property
    def supported(self) -> list[str]:
        """Versions that the server named, empty when it named none."""
        return string_list(self.data, "supported")

    @property
    def requested(self) -> str | None:
        """Version that the server says was asked for."""
        requested = self.data.get("requested") if isinstance(self.data, Mapping) else None
        return requested if isinstance(requested, str) else None


class MissingClientCapability(RpcError):
    """Code -32021: the request needs a client capability that was not declared."""

    @property
    def required(self) -> Mapping[str, Any]:
        """Capabilities that the server asks for, empty when it named none."""
        required = self.data.get("requiredCapabilities") if isinstance(self.data, Mapping) else None
        return required if isinstance(required, Mapping) else {}


_KINDS: Mapping[int, type[RpcError]] = {
    -32601: MethodNotFound,
    -32602: InvalidParams,
    -32002: ResourceNotFound,
    -32021: MissingClientCapability,
    -32022: UnsupportedProtocolVersion,
}


def string_list(data: object, member: str) -> list[str]:
    """The list of strings at `data[member]`, empty when there is no such list."""
    value = data.get(member) if isinstance(data, Mapping) else None
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return list(value)
    return []


class RequestTimeout(McpError):
    """No answer came within the time given; the server was told with one `notifications/cancelled`.

    Never a `trio.TooSlowError`, which means a deadline of the caller's own.

    Attributes:
        method: method that was called.
        request_id: id on the wire, None when the time passed before anything was queued.
        timeout: the limit in seconds that acted.
        elapsed: seconds since the call began.
        idle: True when `idle_timeout` acted, False for the total `timeout`.
        received: what the server sent instead, a sentence each, oldest first.
    """

    def __init__(
        self,
        *,
        method: str,
        request_id: int | str | None,
        timeout: float,
        elapsed: float,
        idle: bool = False,
        received: Sequence[str] = (),
        server: str | None = None,
    ) -> None:
        limit = f"idle timeout of {timeout:g} s" if idle else f"timeout of {timeout:g} s"
        super().__init__(f"{method} got no answer: {limit} passed after {elapsed:.3f} s", server=server)
        self.method = method
        self.request_id = request_id
        self.timeout = timeout
        self.elapsed = elapsed
        self.idle = idle
        self.received = tuple(received)

    def _details(self) -> Sequence[str]:
        return _received_details(self.received)


def _received_details(received: Sequence[str]) -> Sequence[str]:
    if not received:
        return ()
    return ["  received instead:", *(f"    {line}" for line in received)]


class ConnectionLost(McpError):
    """The connection ended before the request was answered.

    Attributes:
        delivery: how far the request got.
        reason: what ended the connection.
        method: method that was called, None when no request is concerned.
    """

    def __init__(
        self,
        reason: str,
        *,
        delivery: Delivery,
        method: str | None = None,
        server: str | None = None,
    ) -> None:
        super().__init__(reason, server=server)
        self.delivery = delivery
        self.method = method

    @property
    def reason(self) -> str:
        """What ended the connection."""
        return self.message

    def _details(self) -> Sequence[str]:
        return [f"  {self.method}: {self.delivery.value}"] if self.method is not None else []


class ServerExited(ConnectionLost):
    """The server process ended, or is ending, before the request was answered.

    Attributes:
        exit: status, signal, stderr tail and leftovers of the process.
        phase: what the connection was doing: "probe", "initialize" or "serving".
        noise: first lines on stdout that were no protocol messages, escaped and cut.
    """

    def __init__(
        self,
        reason: str,
        *,
        exit: ProcessExit,
        phase: str,
        delivery: Delivery,
        noise: Sequence[str] = (),
        method: str | None = None,
        server: str | None = None,
    ) -> None:
        super().__init__(reason, delivery=delivery, method=method, server=server)
        self.exit = exit
        self.phase = phase
        self.noise = tuple(noise)

    def _details(self) -> Sequence[str]:
        lines = [*super()._details(), f"  phase: {self.phase}"]
        if self.noise:
            lines += ["  not protocol messages on stdout:", *(f"    {line}" for line in self.noise)]
        return lines


class ClientClosed(ConnectionLost):
    """The client was closed on this side: its block was left, or `stop` was called."""


class SpawnError(McpError):
    """The server process could not be started; `__cause__` is the `OSError` where there is one.

    Attributes:
        argv: the command as given, secrets masked.
        path: the search path in which the command was looked up, None if it names a file.
    """

    def __init__(
        self, message: str, *, argv: Sequence[str], path: str | None = None, server: str | None = None
    ) -> None:
        super().__init__(message, server=server)
        self.argv = tuple(argv)
        self.path = path


class NegotiationError(McpError):
    """The two sides found no protocol revision to speak.

    Attributes:
        supported: versions that the server named, empty when it named none.
        attempted: versions that this client asked for.
        phase: "probe" or "initialize".
        error: the server's own error where it sent one.
        received: what else the server sent, a sentence each.
    """

    def __init__(
        self,
        message: str,
        *,
        supported: Sequence[str] = (),
        attempted: Sequence[str] = (),
        phase: Literal["probe", "initialize"] = "probe",
        error: RpcError | None = None,
        received: Sequence[str] = (),
        server: str | None = None,
    ) -> None:
        super().__init__(message, server=server)
        self.supported = tuple(supported)
        self.attempted = tuple(attempted)
        self.phase = phase
        self.error = error
        self.received = tuple(received)

    def _details(self) -> Sequence[str]:
        lines: list[str] = []
        if self.supported:
            lines.append(f"  the server supports: {', '.join(self.supported)}")
        if self.attempted:
            lines.append(f"  this client asked for: {', '.join(self.attempted)}")
        if self.error is not None:
            lines.append(f"  the server said: {self.error}")
        return [*lines, *_received_details(self.received)]


class StartupTimeout(NegotiationError):
    """The server did not finish the handshake within `ClientOptions.startup_timeout`.

    Attributes:
        timeout: the limit in seconds.
        exit: how the process ended afterwards, None when the server is no child process.
    """

    def __init__(
        self,
        *,
        timeout: float,
        phase: Literal["probe", "initialize"],
        attempted: Sequence[str] = (),
        exit: ProcessExit | None = None,
        received: Sequence[str] = (),
        server: str | None = None,
    ) -> None:
        super().__init__(
            f"no usable answer to the {phase} within the start-up limit of {timeout:g} s "
            "(a package runner may still have been downloading: raise startup_timeout)",
            attempted=attempted,
            phase=phase,
            received=received,
            server=server,
        )
        self.timeout = timeout
        self.exit = exit


class InputRequiredError(McpError):
    """The server asks for input (`resultType: "input_required"`) that this client does not give.

    There is no handler for it, or the handler declined, took too long, or was asked too often.

    Attributes:
        method: method that was called.
        result: the interim result as received.
    """

    def __init__(
        self, *, method: str, result: Mapping[str, Any], reason: str, server: str | None = None
    ) -> None:
        super().__init__(f"{method} needs input: {reason}", server=server)
        self.method = method
        self.result = result


class SubscriptionLost(McpError):
    """A subscription ended without the server saying so; `__cause__` tells why.

    The connection ended, or the consumer was too slow: what was subscribed to may have changed unnoticed.
    """


class ToolError(McpError):
    """A tool reported a failure (`isError`); raised only by `CallToolResult.raise_for_error`.

    Attributes:
        result: the whole result.
    """

    def __init__(self, result: CallToolResult, *, server: str | None = None) -> None:
        super().__init__(result.text or "the tool reported an error without text", server=server)
        self.result = result
