"""What a client is told at its start."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias, TypedDict, final

import attrs

from .._connection.logs import LEVELS, LogHandler
from .._connection.session import ProgressHandler, WireObserver
from .._version import __version__
from .._wire.methods import Era
from ..types import ClientCapabilities, Implementation, LoggingLevel, Notification
from .inputs import InputHandlers
from .validation import Validation

__all__ = ["DEFAULT", "ClientOptions", "Default", "NotificationHandler", "RequestOptions"]

NotificationHandler: TypeAlias = Callable[[Notification], None] | Callable[[Notification], Awaitable[None]]


class Default(enum.Enum):
    """Stands for the client's own setting."""

    DEFAULT = "default"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = Default.DEFAULT


@final
class RequestOptions(TypedDict, total=False):
    """Keywords that every request takes.

    timeout: seconds for the whole request, waiting for a slot included; None for no limit; default
        `ClientOptions.request_timeout`.  When it passes, one `notifications/cancelled` is sent if the
        request was, and `RequestTimeout` is raised.
    idle_timeout: seconds without progress, never past `timeout`.  Asks the server for progress by itself.
    on_progress: called with each `ProgressUpdate`, in the caller's task, in order, before the request
        returns; may be async.  What it raises ends the request.
    meta: entries added to the request's `_meta`.  `traceparent`, `tracestate` and `baggage` have to be in the
        form that the W3C gives them.
    log_level: in a modern connection, the lowest severity of the log messages that the server may send on
        account of this request; None for none; default `ClientOptions.log_level`.  It is deprecated in the
        protocol.  In a legacy connection a level raises `LocalProtocolError`: see `Client.set_log_level`.
    """

    timeout: float | Default | None
    idle_timeout: float | None
    on_progress: ProgressHandler | None
    meta: dict[str, object] | None
    log_level: LoggingLevel | Default | None


def _positive(_: object, attribute: attrs.Attribute[Any], value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"{attribute.name} must be at least 1, not {value!r}")


def _seconds(_: object, attribute: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 <= value < float("inf"):
        raise ValueError(f"{attribute.name} must be a number of seconds, not {value!r}")


def _implementation() -> Implementation:
    return Implementation(name="trio_mcp_stdio", version=__version__)


@final
@attrs.frozen(kw_only=True)
class ClientOptions:
    """Settings of one client.  Times are in seconds.

    Args:
        info: how this client names itself.
        capabilities: what it declares beside what `inputs` stands for; in a modern connection with each
            request, in a legacy one once.
        inputs: handlers for what a server asks: elicitation, sampling, roots.
        send_client_info: False leaves the client's name out of modern requests.
        request_timeout: limit of a request that gives none of its own; None for no limit.
        probe_timeout: silence after `server/discover` that stands for a legacy server.
        startup_timeout: limit of the whole handshake; None for no limit.
        era: "auto" settles the era by asking; "modern" never falls back; "legacy" never asks.
        probe: False lets a client with `era="modern"` send its first request without asking.
        remembered: era found by an earlier client of the same server (`Client.era`).
        max_in_flight: requests in flight at a time; further callers wait.  1 is strict one-at-a-time.
        max_unsent_bytes: high-water mark of bytes waiting to be written; further callers wait.
        max_line_bytes: bound on one incoming line; None for no bound.
        strict: end the connection at what is otherwise tolerated and counted (lines that are no
            messages, ids in the wrong type), and refuse locally what the server has not announced.
        on_notification: called with every notification of the server that is not progress of a request.
            An async one runs in a task of its own, at most 4,096 behind, the oldest dropped and counted.
        log_level: lowest severity of the log messages wanted; None leaves it to the server.  A modern server
            is told with each request, a legacy one once, after the handshake, if it announced logging.
        on_log: called with each `LogMessage` of the server, as `on_notification` is with notifications.
            Without it they go to the logger `trio_mcp_stdio.server.<name>`.
        tracing: record a span and a duration of every request with OpenTelemetry, and carry the trace to the
            server in its `_meta`.  Needs the `otel` extra.
        validate: check calls of tools against their schemas: True for `Validation()`, or one of your own.
            Only tools that this client has listed are known.  Needs the extra `validate`.
        on_wire: called with every line in either direction; synchronous, must not block.
    """

    info: Implementation = attrs.field(factory=_implementation)
    capabilities: ClientCapabilities = attrs.field(factory=ClientCapabilities)
    inputs: InputHandlers = attrs.field(factory=InputHandlers)
    send_client_info: bool = True
    request_timeout: float | None = attrs.field(default=60.0, validator=_seconds)
    probe_timeout: float = attrs.field(default=5.0, validator=_seconds)
    startup_timeout: float | None = attrs.field(default=60.0, validator=_seconds)
    era: Literal["auto", "modern", "legacy"] = attrs.field(
        default="auto", validator=attrs.validators.in_(("auto", "modern", "legacy"))
    )
    probe: bool = True
    remembered: Era | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.instance_of(Era))
    )
    max_in_flight: int = attrs.field(default=1024, validator=_positive)
    max_unsent_bytes: int = attrs.field(default=8 * 2**20, validator=_positive)
    max_line_bytes: int | None = attrs.field(default=16 * 2**20, validator=_positive)
    strict: bool = False
    on_notification: NotificationHandler | None = None
    log_level: LoggingLevel | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.in_(LEVELS))
    )
    on_log: LogHandler | None = None
    tracing: bool = False
    validate: bool | Validation = attrs.field(
        default=False, validator=attrs.validators.instance_of((bool, Validation))
    )
    on_wire: WireObserver | None = None

    def __attrs_post_init__(self) -> None:
        if not self.probe and self.era != "modern":
            raise ValueError('probe=False needs era="modern": without asking, the era has to be known')
