"""Trace context in `_meta`, and what OpenTelemetry gets to see of a client."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from opentelemetry import baggage, context, metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from helpers import alive, assert_gone, both_eras, fake, nothing_left
from scripted import LEGACY, MODERN, Peer, connecting, initialized, pair, running, session, text
from trio_mcp_stdio import Client, ClientOptions, ConnectionLost, LocalProtocolError, LogMessage, open_client
from trio_mcp_stdio._wire.trace_context import is_trace_member

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"

# The form of the members


@pytest.mark.requirement("META-18")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("traceparent", PARENT),
        ("traceparent", PARENT[:-2] + "00"),
        ("traceparent", "cc" + PARENT[2:] + "-what-the-future-holds"),
        ("tracestate", ""),
        ("tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        ("tracestate", "1a-2@vendor/x*y_z=a b;c:d , , b=!"),
        ("tracestate", ",".join(f"k{n}=v" for n in range(32))),
        ("tracestate", "k=" + "v" * 256),
        ("baggage", "userId=alice"),
        ("baggage", "userId =   Am%C3%A9lie , serverNode=DF%2028; a ;b = c,isProduction=false"),
        ("baggage", "empty="),
    ],
)
async def test_a_trace_context_travels_as_it_was_given(key: str, value: str) -> None:
    async with session() as (client, peer):
        request, _ = await exchange(client, peer, meta={key: value})

    assert request["params"]["_meta"][key] == value


@pytest.mark.requirement("META-18")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("traceparent", ""),
        ("traceparent", PARENT.upper()),
        ("traceparent", "ff" + PARENT[2:]),
        ("traceparent", PARENT + "-more"),
        ("traceparent", PARENT + "\n"),
        ("traceparent", PARENT[:-1]),
        ("traceparent", f"00-{'0' * 32}-00f067aa0ba902b7-01"),
        ("traceparent", f"00-{TRACE}-{'0' * 16}-01"),
        ("traceparent", 1),
        ("traceparent", None),
        ("tracestate", "novalue"),
        ("tracestate", "a="),
        ("tracestate", "Upper=1"),
        ("tracestate", "a=1,a=2"),
        ("tracestate", "a=b=c"),
        ("tracestate", "a=tab\there"),
        ("tracestate", "k=" + "v" * 257),
        ("tracestate", ",".join(f"k{n}=v" for n in range(33))),
        ("tracestate", ["a=1"]),
        ("baggage", ""),
        ("baggage", "novalue"),
        ("baggage", "a=1,,b=2"),
        ("baggage", "a=naïve"),
        ("baggage", 'a="quoted"'),
        ("baggage", "a=1;"),
        ("baggage", "spa ce=1"),
        ("baggage", {"a": "1"}),
    ],
)
async def test_a_malformed_trace_context_is_refused_before_anything_is_sent(key: str, value: object) -> None:
    async with session() as (client, peer):
        for call in (
            lambda: client.call_tool("t", meta={key: value}),
            lambda: client.request("tools/call", {"_meta": {key: value}}),
        ):
            with pytest.raises(LocalProtocolError, match=rf"_meta\.{key}: .* is not of its form") as caught:
                await call()
            assert caught.value.server == client.name
        client.stop()
        assert await peer.rest() == []


def test_checking_takes_linear_time() -> None:
    for key in ("traceparent", "tracestate", "baggage"):
        for piece in ("a", "a=", "a=1;", "a=1,", " =", "-", "a ="):
            assert not is_trace_member(key, piece * 200_000 + "\x00")


# What is recorded

HANDSHAKE = {"server/discover", "initialize", "logging/setLevel"}


@attrs.define
class Recorded:
    """The spans and histograms of a test."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    tracer: trace.Tracer

    @property
    def spans(self) -> list[ReadableSpan]:
        """Those of a caller's requests."""
        return [span for span in self.exporter.get_finished_spans() if span.name not in HANDSHAKE]

    @property
    def handshake(self) -> list[tuple[str, dict[str, Any]]]:
        """Names and attributes of the others."""
        spans = [span for span in self.exporter.get_finished_spans() if span.name in HANDSHAKE]
        return [(span.name, dict(span.attributes or {})) for span in spans]

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name and metric.unit == "s"
            for point in metric.data.data_points
            if point.attributes.get("mcp.method.name") not in HANDSHAKE
        ]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    """Providers of this test alone, where the real ones can be set once in a process."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer", tracers.get_tracer)
    monkeypatch.setattr(metrics, "get_meter", meters.get_meter)
    yield Recorded(exporter, reader, tracers.get_tracer("test"))
    tracers.shutdown()
    meters.shutdown()


TRACING = ClientOptions(tracing=True)


async def exchange(
    client: Client,
    peer: Peer,
    method: str = "tools/call",
    params: dict[str, Any] | None = None,
    result: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[dict[str, Any], Any]:
    """The request that a call sent, and what came of it."""
    given = {"name": "t"} if params is None else params
    async with running(lambda: client.request(method, given, **options)) as outcome:
        request = await peer.request(method)
        await peer.reply(request, text("ok") if result is None else result)
    return request, outcome[0]


@both_eras
async def test_a_tool_call_is_a_client_span(era: str, recorded: Recorded) -> None:
    async with session(era, TRACING) as (client, peer):
        request, _ = await exchange(client, peer)

    (span,) = recorded.spans
    assert span.name == "tools/call t"
    assert span.kind is SpanKind.CLIENT
    assert span.status.status_code is StatusCode.UNSET
    assert span.parent is None
    assert dict(span.attributes or {}) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": MODERN if era == "modern" else LEGACY,
        "gen_ai.tool.name": "t",
        "gen_ai.operation.name": "execute_tool",
        "jsonrpc.request.id": str(request["id"]),
    }
    found = trace.format_trace_id(span.context.trace_id), trace.format_span_id(span.context.span_id)
    assert request["params"]["_meta"]["traceparent"].startswith(f"00-{found[0]}-{found[1]}-")


@pytest.mark.parametrize(
    ("method", "params", "name", "more"),
    [
        ("tools/list", {}, "tools/list", {}),
        ("prompts/get", {"name": "p"}, "prompts/get p", {"gen_ai.prompt.name": "p"}),
        ("resources/read", {"uri": "a:b"}, "resources/read", {"mcp.resource.uri": "a:b"}),
        ("custom/method", {"name": "x", "uri": "y"}, "custom/method", {}),
        (
            "tools/call",
            {"name": "n" * 300},
            "tools/call " + "n" * 200,
            {"gen_ai.tool.name": "n" * 300},
        ),
    ],
)
async def test_targets_and_attributes_by_method(
    method: str, params: dict[str, Any], name: str, more: dict[str, str], recorded: Recorded
) -> None:
    async with session(options=TRACING) as (client, peer):
        await exchange(client, peer, method, params)

    (span,) = recorded.spans
    attributes = dict(span.attributes or {})
    assert span.name == name
    assert attributes.items() >= {"mcp.method.name": method, **more}.items()
    others = {"gen_ai.tool.name", "gen_ai.prompt.name", "mcp.resource.uri"} - set(more)
    assert others & set(attributes) == set()


@pytest.mark.requirement("META-18")
async def test_the_context_of_the_caller_reaches_the_server(recorded: Recorded) -> None:
    token = context.attach(baggage.set_baggage("user", "Zoë"))
    try:
        async with session(options=TRACING) as (client, peer):
            with recorded.tracer.start_as_current_span("outer") as outer:
                request, _ = await exchange(client, peer, meta={"com.example/a": 1})
    finally:
        context.detach(token)

    span, _ = recorded.spans
    meta = request["params"]["_meta"]
    assert span.parent == outer.get_span_context()
    assert meta["traceparent"].split("-")[1] == trace.format_trace_id(outer.get_span_context().trace_id)
    assert meta["baggage"] == "user=Zo%C3%AB"
    assert meta["com.example/a"] == 1
    assert all(is_trace_member(key, meta[key]) for key in ("traceparent", "baggage"))


@pytest.mark.parametrize("among_params", [False, True])
async def test_a_context_that_is_given_wins(among_params: bool, recorded: Recorded) -> None:
    state = trace.TraceState([("a", "1")])
    parent = trace.SpanContext(1, 2, True, trace.TraceFlags(1), state)
    given = {"traceparent": PARENT, "baggage": "a=b"}
    with trace.use_span(trace.NonRecordingSpan(parent)):
        async with session(options=TRACING) as (client, peer):
            if among_params:
                request, _ = await exchange(client, peer, params={"name": "t", "_meta": given})
            else:
                request, _ = await exchange(client, peer, meta=given)
            other, _ = await exchange(client, peer)

    meta = request["params"]["_meta"]
    assert {key: meta.get(key) for key in ("traceparent", "tracestate", "baggage")} == {
        **given,
        "tracestate": None,
    }
    assert other["params"]["_meta"]["tracestate"] == "a=1"


async def test_an_error_of_the_server(recorded: Recorded) -> None:
    async with session(options=TRACING) as (client, peer):
        async with running(lambda: client.call_tool("t")):
            await peer.fail(await peer.request(), -32602, "no such tool")
        (point,) = recorded.points("mcp.client.operation.duration")

    (span,) = recorded.spans
    expected = {"error.type": "-32602", "rpc.response.status_code": "-32602"}
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "no such tool")
    assert dict(span.attributes or {}).items() >= expected.items()
    assert point.attributes.items() >= expected.items()
    assert span.events == ()


async def test_a_tool_that_fails(recorded: Recorded) -> None:
    async with session(options=TRACING) as (client, peer):
        _, result = await exchange(client, peer, result=text("no", isError=True))

    (span,) = recorded.spans
    assert result["isError"]
    assert span.status.status_code is StatusCode.ERROR
    assert dict(span.attributes or {})["error.type"] == "tool_error"


async def test_a_request_that_ends_without_an_answer(
    recorded: Recorded, autojump_clock: trio.testing.MockClock
) -> None:
    def broken(update: object) -> None:
        raise ZeroDivisionError

    async with session(options=TRACING) as (client, peer):
        async with running(lambda: client.call_tool("timeout", timeout=3)) as outcome:
            await peer.request()
        assert type(outcome[0]).__name__ == "RequestTimeout"
        with trio.move_on_after(5):
            await client.call_tool("cancelled")
        with pytest.raises(LocalProtocolError):
            await client.call_tool("unsendable", {"a": {1}})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.rest)
            async with running(lambda: client.call_tool("closed")):
                await trio.testing.wait_all_tasks_blocked()
                client.stop()
        points = {
            point.attributes["gen_ai.tool.name"]: (point.attributes["error.type"], point.sum)
            for point in recorded.points("mcp.client.operation.duration")
        }

    errors = {
        "timeout": "timeout",
        "cancelled": "cancelled",
        "unsendable": "LocalProtocolError",
        "closed": "ClientClosed",
    }
    assert {
        span.name.split()[1]: dict(span.attributes or {})["error.type"] for span in recorded.spans
    } == errors
    assert all(span.status.status_code is StatusCode.ERROR for span in recorded.spans)
    assert {name: error for name, (error, _) in points.items()} == errors
    assert (points["timeout"][1], points["cancelled"][1], points["unsendable"][1]) == (3, 5, 0)


async def test_what_a_progress_callback_does_belongs_to_the_span(recorded: Recorded) -> None:
    def on_progress(update: object) -> None:
        recorded.tracer.start_span("inner").end()

    async with (
        session(options=TRACING) as (client, peer),
        running(lambda: client.call_tool("t", on_progress=on_progress)),
    ):
        request = await peer.request()
        token = request["params"]["_meta"]["progressToken"]
        await peer.notify("notifications/progress", {"progressToken": token, "progress": 1})
        await trio.testing.wait_all_tasks_blocked()
        await peer.reply(request, text("ok"))

    inner, outer = recorded.spans
    assert inner.parent == outer.context


async def test_concurrent_calls_do_not_share_a_span(recorded: Recorded) -> None:
    async with session(options=TRACING) as (client, peer):
        async with trio.open_nursery() as nursery:
            for n in range(10):
                nursery.start_soon(client.call_tool, f"t{n}")
            for request in [await peer.request() for _ in range(10)]:
                await peer.reply(request, text("ok"))
        assert not trace.get_current_span().get_span_context().is_valid

    assert {span.name for span in recorded.spans} == {f"tools/call t{n}" for n in range(10)}
    assert len({span.context.trace_id for span in recorded.spans}) == 10


async def test_durations(recorded: Recorded, autojump_clock: trio.testing.MockClock) -> None:
    async with session(options=TRACING) as (client, peer):
        for seconds in (1.5, 4):
            async with running(lambda: client.call_tool("t")):
                request = await peer.request()
                await trio.sleep(seconds)
                await peer.reply(request, text("ok"))
        assert recorded.points("mcp.client.session.duration") == []
        client.stop()
        await peer.rest()
        await client.wait_closed()

    (calls,), (life,) = map(recorded.points, ("mcp.client.operation.duration", "mcp.client.session.duration"))
    assert (calls.count, calls.sum) == (2, 5.5)
    assert calls.explicit_bounds == (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
    assert calls.explicit_bounds == life.explicit_bounds
    assert calls.attributes == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": MODERN,
        "gen_ai.tool.name": "t",
        "gen_ai.operation.name": "execute_tool",
    }
    assert (life.count, life.attributes) == (1, {"mcp.protocol.version": MODERN})
    assert life.sum >= 5.5


async def test_a_process_is_reached_through_a_pipe(recorded: Recorded) -> None:
    with alive(), nothing_left():
        async with open_client(fake("echo"), TRACING) as client:
            await client.call_tool("t")
        assert_gone(client.pid)
    (span,) = recorded.spans
    (life,) = recorded.points("mcp.client.session.duration")
    assert dict(span.attributes or {})["network.transport"] == "pipe"
    assert life.attributes == {"network.transport": "pipe", "mcp.protocol.version": MODERN}


async def test_a_connection_that_the_server_ends_is_an_error(recorded: Recorded) -> None:
    async with session(options=TRACING) as (client, peer):
        await peer.stream.send_eof()
        await client.wait_closed()
        (life,) = recorded.points("mcp.client.session.duration")

    assert life.attributes == {"mcp.protocol.version": MODERN, "error.type": "ConnectionLost"}


async def test_the_handshake_has_its_spans(recorded: Recorded) -> None:
    options = ClientOptions(tracing=True, log_level="info")
    with recorded.tracer.start_as_current_span("outer") as outer:
        async with session("legacy", options) as (_, peer):
            await peer.reply(await peer.request("logging/setLevel"), {})
            await trio.testing.wait_all_tasks_blocked()
    spans = [span for span in recorded.exporter.get_finished_spans() if span.name in HANDSHAKE]

    assert [span.parent for span in spans] == [outer.get_span_context()] * 3
    refused = {"error.type": "-32601", "rpc.response.status_code": "-32601"}
    assert recorded.handshake == [
        ("server/discover", {"mcp.method.name": "server/discover", "jsonrpc.request.id": "1", **refused}),
        ("initialize", {"mcp.method.name": "initialize", "jsonrpc.request.id": "2"}),
        (
            "logging/setLevel",
            {
                "mcp.method.name": "logging/setLevel",
                "mcp.protocol.version": LEGACY,
                "jsonrpc.request.id": "3",
            },
        ),
    ]


async def test_a_probe_that_nobody_answers_has_a_span(
    recorded: Recorded, autojump_clock: trio.testing.MockClock
) -> None:
    async with connecting(ClientOptions(tracing=True, probe_timeout=2)) as attempt:
        await attempt.peer.request("server/discover")
        await attempt.peer.reply(await attempt.peer.request("initialize"), initialized())
        await attempt.connected()

    errors = {name: attributes.get("error.type") for name, attributes in recorded.handshake}
    assert errors == {"initialize": None, "server/discover": "timeout"}


@pytest.mark.parametrize(("end", "error"), [("cancel", "cancelled"), ("close", "ConnectionLost")])
async def test_a_handshake_that_does_not_end_leaves_no_open_span(
    end: str, error: str, recorded: Recorded
) -> None:
    transport, peer = pair()

    async def serve() -> None:
        await peer.request("server/discover")
        if end == "cancel":
            scope.cancel()
        else:
            await peer.stream.send_eof()
        await peer.rest()

    with alive():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            with trio.CancelScope() as scope, contextlib.suppress(ConnectionLost):
                async with open_client(transport, TRACING):
                    pytest.fail("connected")

    ((name, attributes),) = recorded.handshake
    assert (name, attributes["error.type"]) == ("server/discover", error)
    assert recorded.points("mcp.client.session.duration") == []


# At no cost


def test_nothing_of_it_is_imported_unless_asked_for() -> None:
    program = (
        "import sys, trio_mcp_stdio; "
        "print([name for name in sys.modules if 'opentelemetry' in name or 'tracing' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


async def test_nothing_is_recorded_or_sent_unless_asked_for(recorded: Recorded) -> None:
    async with session("legacy") as (client, peer):
        with recorded.tracer.start_as_current_span("outer"):
            request, _ = await exchange(client, peer)

    assert [span.name for span in recorded.spans] == ["outer"]
    assert "_meta" not in request["params"]


async def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "trio_mcp_stdio._client.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(LocalProtocolError, match=r"trio_mcp_stdio\[otel\]") as caught:
        open_client(fake("echo"), TRACING)

    assert caught.value.server == "echo"


async def test_without_providers_everything_works_and_nothing_is_sent() -> None:
    async with session(options=TRACING) as (client, peer):
        request, result = await exchange(client, peer)

    assert result == text("ok")
    assert "traceparent" not in request["params"]["_meta"]


@both_eras
@pytest.mark.parametrize("tracing", [False, True])
@pytest.mark.parametrize("meta", [["traceparent"], "traceparent", 1])
async def test_meta_that_is_no_mapping_is_refused(era: str, tracing: bool, meta: Any) -> None:
    options = ClientOptions(tracing=tracing, log_level="info" if era == "modern" else None)
    async with session(era, options) as (client, peer):
        with pytest.raises(LocalProtocolError, match="_meta must be a mapping, not"):
            await client.call_tool("t", meta=meta)
        client.stop()
        assert await peer.rest() == []


def test_options_and_messages_can_be_pickled() -> None:
    options = ClientOptions(tracing=True, log_level="info", on_log=print)
    message = LogMessage(level="info", data={"a": [1]})

    assert pickle.loads(pickle.dumps(options)) == options
    assert pickle.loads(pickle.dumps(message)) == message
