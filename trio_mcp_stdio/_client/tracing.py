"""Spans and histograms of a client's requests, after OpenTelemetry's semantic conventions for MCP.

Loaded only when `ClientOptions.tracing` asks for it: this is the one module that needs the `otel` extra.
What is recorded goes to the tracer and meter providers that the application has set up; where it has set up
none, it goes nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import trio
from opentelemetry import metrics, propagate, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from .._connection.session import ProgressHandler, Session
from .._errors import McpError, RequestTimeout, RpcError
from .._version import __version__
from .._wire import methods
from .._wire.calls import Call
from .._wire.jsonrpc import RequestId
from .._wire.trace_context import TRACE_KEYS, TRACEPARENT, TRACESTATE, is_trace_member

__all__ = ["Tracing"]

_BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Seconds at which the buckets of both histograms end."""

MAX_TARGET: Final = 200
"""Characters of the name of a tool or prompt that become part of a span's name."""

_TARGETS: Final = {
    methods.TOOLS_CALL: ("name", "gen_ai.tool.name"),
    methods.PROMPTS_GET: ("name", "gen_ai.prompt.name"),
}
"""By method: the parameter that a request is about, of few values, and the attribute for it."""

_WITH_URI: Final = frozenset({methods.RESOURCES_READ, "resources/subscribe", "resources/unsubscribe"})


@attrs.frozen
class _Opening:
    """A request of the handshake that waits for its answer."""

    span: Span
    attributes: dict[str, str]
    began: float


class Tracing:
    """What one client records.

    Args:
        transport: value of `network.transport`, None where it is not known.
    """

    def __init__(self, transport: str | None) -> None:
        self._common: dict[str, str] = {} if transport is None else {"network.transport": transport}
        self._tracer = trace.get_tracer("trio_mcp_stdio", __version__)
        meter = metrics.get_meter("trio_mcp_stdio", __version__)
        self._operations = meter.create_histogram(
            "mcp.client.operation.duration",
            unit="s",
            description="Time from a request to its answer, as the client sees it.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._sessions = meter.create_histogram(
            "mcp.client.session.duration",
            unit="s",
            description="Time from the end of the handshake to the end of the connection.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._began: float | None = None
        self._open: dict[RequestId, _Opening] = {}

    def __repr__(self) -> str:
        return f"<Tracing: {self._common}>"

    def opened(self, call: Call) -> None:
        """A request of the handshake was queued, which no task of a caller waits for."""
        attributes = {"mcp.method.name": call.method, **self._common}
        span = self._tracer.start_span(
            call.method,
            kind=SpanKind.CLIENT,
            attributes={**attributes, "jsonrpc.request.id": str(call.id)},
        )
        self._open[call.id] = _Opening(span, attributes, trio.current_time())

    def ended(self, call: Call, error: McpError | None) -> None:
        """A request of the handshake was answered, failed, or nobody waits for it any more."""
        failure: dict[str, str] = {}
        if error is not None:
            failure = _failure(error)
        elif call.outcome is None:
            failure = {"error.type": "timeout"}
        self._end(self._open.pop(call.id), failure, error.message if isinstance(error, RpcError) else None)

    def begin_session(self, version: str) -> None:
        """A revision was agreed on."""
        self._common["mcp.protocol.version"] = version
        self._began = trio.current_time()

    def end_session(self, error: BaseException | None) -> None:
        """The connection has ended, with an error unless this side ended it."""
        failure = {} if error is None else _failure(error)
        for opening in self._open.values():  # requests of the handshake without an answer
            self._end(opening, failure or {"error.type": "cancelled"}, None)
        self._open.clear()
        if self._began is None:
            return
        self._sessions.record(trio.current_time() - self._began, {**self._common, **failure})
        self._began = None

    def _end(self, opening: _Opening, failure: Mapping[str, str], description: str | None) -> None:
        if failure:
            _fail(opening.span, failure, description)
        opening.span.end()
        self._operations.record(trio.current_time() - opening.began, {**opening.attributes, **failure})

    async def request(
        self,
        session: Session,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        timeout: float | None,
        idle_timeout: float | None = None,
        on_progress: ProgressHandler | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """`Session.request` within a span, which is the current one for the progress callback, too."""
        request_id = session.table.reserve_id()
        attributes = {"mcp.method.name": method, **self._common}
        name = method
        if method in _TARGETS and params:
            member, attribute = _TARGETS[method]
            target = params.get(member)
            if isinstance(target, str):
                attributes[attribute] = target
                name = f"{method} {target[:MAX_TARGET]}"
        if method == methods.TOOLS_CALL:
            attributes["gen_ai.operation.name"] = "execute_tool"
        own = {"jsonrpc.request.id": str(request_id)}
        if method in _WITH_URI and params and isinstance(params.get("uri"), str):
            own["mcp.resource.uri"] = params["uri"]
        began = trio.current_time()
        failure: dict[str, str] = {}
        with self._tracer.start_as_current_span(
            name,
            kind=SpanKind.CLIENT,
            attributes={**attributes, **own},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                result = await session.request(
                    method,
                    params,
                    timeout=timeout,
                    idle_timeout=idle_timeout,
                    on_progress=on_progress,
                    meta=_with_context(meta, params),
                    request_id=request_id,
                )
                if method == methods.TOOLS_CALL and result.get("isError") is True:
                    failure = {"error.type": "tool_error"}
                    _fail(span, failure, None)
                return result
            except BaseException as error:
                failure = _failure(error)
                _fail(span, failure, error.message if isinstance(error, RpcError) else None)
                raise
            finally:
                self._operations.record(trio.current_time() - began, {**attributes, **failure})


def _with_context(meta: Mapping[str, Any] | None, params: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The caller's entries of `_meta`, and the current context beside them as the propagators write it.

    What the caller gives wins; the state of one trace is never put beside the parent of another.
    """
    if meta and not isinstance(meta, Mapping):
        return meta  # refused where it is encoded
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    given = meta or {}
    among_params = (params or {}).get("_meta")
    taken = {*given, *(among_params if isinstance(among_params, Mapping) else ())}
    if TRACEPARENT in taken:
        taken.add(TRACESTATE)
    added = {
        key: value
        for key, value in carrier.items()
        if key not in taken and (key not in TRACE_KEYS or is_trace_member(key, value))
    }
    return {**given, **added}


def _failure(error: BaseException) -> dict[str, str]:
    if isinstance(error, RpcError):
        return {"error.type": str(error.code), "rpc.response.status_code": str(error.code)}
    if isinstance(error, RequestTimeout):
        return {"error.type": "timeout"}
    if isinstance(error, trio.Cancelled):
        return {"error.type": "cancelled"}
    return {"error.type": type(error).__name__}


def _fail(span: Span, failure: Mapping[str, str], description: str | None) -> None:
    span.set_attributes(failure)
    span.set_status(Status(StatusCode.ERROR, description))
