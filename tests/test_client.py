"""The client as its user sees it: states, statistics, the two ways to open it, and wrong use."""

from __future__ import annotations

import math
import pickle
import signal
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from helpers import nothing_left
from scripted import Peer, connecting, discovered, pair, running, session, text
from trio_mcp_stdio import (
    DEFAULT,
    Client,
    ClientClosed,
    ClientOptions,
    ClientState,
    ClientStatistics,
    ConnectionLost,
    Era,
    LocalProtocolError,
    McpError,
    NegotiationError,
    Notification,
    ProgressUpdate,
    RequestTimeout,
    Secret,
    StartupTimeout,
    StderrFile,
    StdioServer,
    StreamTransport,
    open_client,
    run_client,
)
from trio_mcp_stdio.types import ClientCapabilities, Implementation

VIRTUAL = 100_000


async def serving(peer: Peer, era: str = "modern") -> None:
    """A whole server: the handshake, then an answer to everything."""
    await peer.shake_hands(era)
    await peer.serve()


# States and what is known


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_is_known_of_a_client(era: str) -> None:
    transport, peer = pair()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serving, peer, era)
            async with open_client(transport) as client:
                version = "2026-07-28" if era == "modern" else "2025-11-25"
                assert client.name == "stream"
                assert client.state is ClientState.READY
                assert client.era is client.server.era is Era(era)
                assert client.protocol_version == client.server.protocol_version == version
                assert client.server.info is not None
                assert client.server.info.name == "scripted"
                assert client.server.supported_versions == ((version,) if era == "modern" else ())
                assert client.pid is None
                assert client.exit is None
                assert repr(client) == f"<Client 'stream', ready, {era} {version}, 0 in flight>"
        assert client.state is ClientState.CLOSED
        assert repr(client) == f"<Client 'stream', closed, {era} {version}>"
        assert await client.wait_closed() is None
        assert client.server.info.name == "scripted"  # still there to be read


async def test_states_of_a_life() -> None:
    states: list[ClientState] = []
    async with session() as (client, peer):
        states.append(client.state)
        client.stop()
        states.append(client.state)
        await trio.testing.wait_all_tasks_blocked()
        states.append(client.state)
        await peer.rest()
        await client.wait_closed()
        states.append(client.state)
    assert states == [ClientState.READY, ClientState.READY, ClientState.CLOSING, ClientState.CLOSED]


async def test_end_by_the_peer_is_a_failure() -> None:
    async with session() as (client, peer):
        await peer.stream.send_eof()
        assert await client.wait_closed() is None
        assert client.state is ClientState.FAILED
        assert "failed" in repr(client)
        with pytest.raises(ConnectionLost) as info:
            await client.call_tool("t")
        assert type(info.value) is ConnectionLost
        assert client.statistics().requests == 1


async def test_everybody_may_wait_for_the_end() -> None:
    async with session() as (client, peer), trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(client.wait_closed)
        await trio.testing.wait_all_tasks_blocked()
        client.stop()
        await peer.rest()


async def test_statistics_count_what_happened() -> None:
    notified: list[Notification] = []
    async with session(options=ClientOptions(on_notification=notified.append)) as (client, peer):
        before = client.statistics()
        assert (before.requests, before.answered, before.in_flight) == (1, 1, 0)
        async with running(lambda: client.call_tool("t", on_progress=lambda update: None)) as outcome:
            request = await peer.request("tools/call")
            assert client.statistics().in_flight == 1
            assert "1 in flight" in repr(client)
            token = request["params"]["_meta"]["progressToken"]
            await peer.notify("notifications/progress", {"progressToken": token, "progress": 1})
            await peer.notify("notifications/message", {"level": "info", "data": 1})
            await peer.stream.send_all(b"noise\n")
            await peer.reply(request, text("ok"))
        assert outcome[0].text == "ok"
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.fail(await peer.request("tools/call"), -1, "no")
        found = client.statistics()
    assert (found.requests, found.answered, found.errors) == (3, 2, 1)
    assert (found.progress, found.notifications, found.noise) == (1, 1, 1)
    assert found.noise_previews == ("noise",)
    assert found.lines_received == 6
    assert found.bytes_sent > before.bytes_sent
    assert found.bytes_received > before.bytes_received
    assert notified == [Notification(method="notifications/message", params={"level": "info", "data": 1})]
    assert pickle.loads(pickle.dumps(found)) == found
    assert found != before
    assert ClientStatistics() == ClientStatistics()


# Opening and closing


@pytest.mark.parametrize("form", ["open_client", "run_client"])
async def test_both_forms_leave_nothing(form: str) -> None:
    transport, peer = pair()
    with trio.fail_after(30), nothing_left():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serving, peer)
            if form == "open_client":
                async with open_client(transport) as client:
                    assert (await client.call_tool("t", {"text": "hello"})).text == "hello"
            else:
                client = await nursery.start(run_client, transport)
                assert (await client.call_tool("t", {"text": "hello"})).text == "hello"
                client.stop()
                await client.wait_closed()
    assert client.state is ClientState.CLOSED


async def test_run_client_returns_when_the_connection_ends() -> None:
    transport, peer = pair()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.shake_hands)
            client: Client = await nursery.start(run_client, transport)
            await peer.stream.aclose()
            # The nursery ends by itself, without an error: the end is told to the calls.
    assert client.state is ClientState.FAILED


async def test_run_client_is_cancelled_with_its_nursery() -> None:
    transport, peer = pair()
    with trio.fail_after(30), nothing_left():
        async with trio.open_nursery() as outer:
            outer.start_soon(serving, peer)
            async with trio.open_nursery() as nursery:
                client: Client = await nursery.start(run_client, transport)
                nursery.cancel_scope.cancel()
            assert client.state is ClientState.CLOSED


@pytest.mark.parametrize("form", ["open_client", "run_client"])
async def test_what_connecting_raises_is_raised_plain(form: str) -> None:
    class Mine(Exception):
        pass

    async def fail() -> trio.abc.HalfCloseableStream:
        await trio.lowlevel.checkpoint()
        raise Mine

    async def connect() -> None:
        if form == "open_client":
            async with open_client(StreamTransport(fail)):
                pytest.fail("it is not open")
        async with trio.open_nursery() as nursery:
            try:
                await nursery.start(run_client, StreamTransport(fail))
            except Mine as error:
                caught.append(error)
        raise caught[0]

    caught: list[Mine] = []
    with trio.fail_after(30), nothing_left(), pytest.raises(Mine):
        await connect()


async def test_refusal_is_plain_and_the_stream_is_closed() -> None:
    async with connecting(ClientOptions(era="modern")) as attempt:
        await attempt.peer.fail(await attempt.peer.request("server/discover"), -32601, "Method not found")
        rest = await attempt.peer.rest()
        error = await attempt.refused()
    assert rest == []
    assert type(error) is NegotiationError
    assert error.error is not None
    assert error.error.code == -32601


async def test_startup_timeout_is_plain(autojump_clock: MockClock) -> None:
    async with connecting(ClientOptions(startup_timeout=30), seconds=VIRTUAL) as attempt:
        await attempt.peer.request("server/discover")
        await attempt.peer.request("initialize")
        await attempt.peer.stream.send_all(b"Starting up...\n")
        assert await attempt.peer.rest() == []
        error = await attempt.refused()
    assert type(error) is StartupTimeout
    assert error.timeout == 30
    assert error.phase == "initialize"
    assert any("Starting up" in line for line in error.received)


async def test_cancelled_while_connecting(autojump_clock: MockClock) -> None:
    transport, peer = pair()
    with trio.fail_after(VIRTUAL), nothing_left():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.rest)
            with trio.move_on_after(1) as scope:
                async with open_client(transport):
                    pytest.fail("it is not open")
            assert scope.cancelled_caught
    assert [message["method"] for message in peer.seen] == ["server/discover"]


async def test_connecting_is_cancelled_while_the_stream_is_being_opened() -> None:
    async def never() -> trio.abc.HalfCloseableStream:
        await trio.sleep_forever()
        raise AssertionError

    with trio.fail_after(30), nothing_left():
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run_client, StreamTransport(never))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught


async def test_many_clients_at_once() -> None:
    with trio.fail_after(30), nothing_left():
        async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
            clients = []
            for _ in range(20):
                transport, peer = pair()
                nursery.start_soon(serving, peer)
                clients.append(await stack.enter_async_context(open_client(transport)))
            async with trio.open_nursery() as callers:
                for client in clients:
                    for _ in range(5):
                        callers.start_soon(client.call_tool, "t")
            assert {client.statistics().answered for client in clients} == {6}
    assert {client.state for client in clients} == {ClientState.CLOSED}


async def test_error_of_the_block_is_plain() -> None:
    class Mine(Exception):
        pass

    async def user() -> None:
        async with open_client(transport) as client:
            await client.call_tool("t")
            raise Mine

    transport, peer = pair()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serving, peer)
            with pytest.raises(Mine) as info:
                await user()
    assert info.value.__context__ is None


async def test_error_of_the_block_is_plain_when_the_time_runs_out_during_the_shutdown(
    autojump_clock: MockClock,
) -> None:
    """A peer that lingers makes the shutdown last longer than the limit around it."""

    class Mine(Exception):
        pass

    async def user() -> None:
        with trio.move_on_after(1):
            async with open_client(transport):
                raise Mine

    transport, peer = pair()
    with trio.fail_after(VIRTUAL):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.shake_hands)
            with pytest.raises(Mine):
                await user()


def test_interrupt_is_plain() -> None:
    async def main() -> None:
        transport, peer = pair()
        async with open_client(transport, ClientOptions(era="modern", probe=False)) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(peer.serve)
                await client.call_tool("t")
                nursery.cancel_scope.cancel()
            signal.raise_signal(signal.SIGINT)
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main, clock=MockClock(autojump_threshold=0))


async def test_shutdown_is_bounded_with_a_peer_that_does_nothing(autojump_clock: MockClock) -> None:
    transport, peer = pair()
    with trio.fail_after(VIRTUAL):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.shake_hands)
            async with open_client(transport):
                began = trio.current_time()
        assert trio.current_time() - began <= transport.flush + transport.linger + 1


@pytest.mark.parametrize("cancelled", [False, True])
async def test_shutdown_is_bounded_with_a_peer_that_does_not_read(
    autojump_clock: MockClock, cancelled: bool
) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()

    async def connect() -> trio.abc.HalfCloseableStream:
        return ours

    transport = StreamTransport(connect)
    with trio.fail_after(VIRTUAL), nothing_left():
        with trio.CancelScope() as scope:
            async with open_client(transport, ClientOptions(era="modern", probe=False)) as client:
                async with trio.open_nursery() as nursery:
                    for _ in range(10):
                        nursery.start_soon(client.call_tool, "t")
                    await trio.testing.wait_all_tasks_blocked()
                    nursery.cancel_scope.cancel()
                began = trio.current_time()
                if cancelled:
                    scope.cancel()
        assert trio.current_time() - began <= transport.flush + transport.linger + 1
        await theirs.aclose()


# Use from other tasks and threads


async def test_stopped_from_another_task_while_the_block_waits() -> None:
    async with session() as (client, peer):
        async with running(client.wait_closed) as outcome, trio.open_nursery() as nursery:
            nursery.start_soon(peer.rest)
            nursery.start_soon(trio.to_thread.run_sync, lambda: trio.from_thread.run_sync(client.stop))
        assert outcome == [None]


async def test_calls_from_other_threads() -> None:
    transport, peer = pair()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serving, peer)
            async with open_client(transport) as client:
                results: list[str] = []

                def work(name: str) -> None:
                    results.append(trio.from_thread.run(client.call_tool, "t", {"text": name}).text)

                async with trio.open_nursery() as threads:
                    for name in "abc":
                        threads.start_soon(trio.to_thread.run_sync, work, name)
    assert sorted(results) == ["a", "b", "c"]


async def test_left_by_the_wrong_task() -> None:
    transport, peer = pair()
    with trio.fail_after(30), nothing_left():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serving, peer)
            manager = open_client(transport)
            client = await manager.__aenter__()
            caught: list[BaseException] = []

            async def leave() -> None:
                try:
                    await manager.__aexit__(None, None, None)
                except LocalProtocolError as error:
                    caught.append(error)

            async with trio.open_nursery() as other:
                other.start_soon(leave)
            assert len(caught) == 1
            assert (await client.call_tool("t")).text == "ok"
            await manager.__aexit__(None, None, None)
    assert client.state is ClientState.CLOSED


async def test_entered_twice_is_a_clear_error() -> None:
    transport, peer = pair()
    with trio.fail_after(30), nothing_left():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serving, peer)
            manager = open_client(transport)
            async with manager as client:
                with pytest.raises(LocalProtocolError, match="once"):
                    await manager.__aenter__()
                assert (await client.call_tool("t")).text == "ok"
            with pytest.raises(LocalProtocolError, match="once"):
                await manager.__aenter__()


async def test_use_after_the_end() -> None:
    async with session("legacy") as (client, peer):
        client.stop()
        await peer.rest()
        await client.wait_closed()
        for call in (
            lambda: client.call_tool("t"),
            lambda: client.list_tools(timeout=1),
            lambda: client.request("x", on_progress=lambda update: None),
            lambda: client.notify("x"),
            client.ping,
        ):
            with pytest.raises(ClientClosed):
                await call()  # type: ignore[no-untyped-call]
        client.stop()
        assert client.state is ClientState.CLOSED
        assert client.statistics().in_flight == 0


# Wrong use


@pytest.mark.parametrize("value", [-1, -0.5, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["timeout", "idle_timeout"])
async def test_limit_that_is_none(name: str, value: float) -> None:
    async with session() as (client, peer):
        with pytest.raises(LocalProtocolError, match=name):
            await client.call_tool("t", **{name: value})  # type: ignore[call-overload]
        assert client.statistics().requests == 1
        client.stop()
        assert await peer.rest() == []


async def test_default_timeout_is_the_one_of_the_options(autojump_clock: MockClock) -> None:
    async with session(options=ClientOptions(request_timeout=7), seconds=VIRTUAL) as (client, _):
        for options in ({}, {"timeout": DEFAULT}):
            with pytest.raises(RequestTimeout) as info:
                await client.call_tool("t", **options)  # type: ignore[call-overload]
            assert info.value.timeout == 7
            assert info.value.elapsed == pytest.approx(7)
        with trio.move_on_after(5000) as scope:
            await client.call_tool("t", timeout=None)
        assert scope.cancelled_caught


async def test_ping_belongs_to_the_legacy_era(autojump_clock: MockClock) -> None:
    async with session("modern", seconds=VIRTUAL) as (client, _):
        with pytest.raises(LocalProtocolError, match="ping"):
            await client.ping()
    for answer in ("result", "error"):
        async with session("legacy", seconds=VIRTUAL) as (client, peer):
            async with running(client.ping) as outcome:
                request = await peer.request("ping")
                await trio.sleep(3)
                if answer == "result":
                    await peer.reply(request, {})
                else:
                    await peer.fail(request, -32601, "Method not found")
            assert outcome == [pytest.approx(3)]
            with pytest.raises(RequestTimeout):
                await client.ping(timeout=1)


async def test_cancellations_are_not_for_notify() -> None:
    async with session("legacy") as (client, peer):
        with pytest.raises(LocalProtocolError, match="notifications/cancelled"):
            await client.notify("notifications/cancelled", {"requestId": 1})
        client.stop()
        assert await peer.rest() == []


@pytest.mark.parametrize("number", [0, -5])
@pytest.mark.parametrize("name", ["max_in_flight", "max_unsent_bytes", "max_line_bytes"])
def test_bounds_below_one_are_refused(name: str, number: int) -> None:
    with pytest.raises(ValueError, match=name):
        ClientOptions(**{name: number})


@pytest.mark.parametrize("name", ["request_timeout", "probe_timeout", "startup_timeout"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf])
def test_times_that_are_none_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        ClientOptions(**{name: value})


def test_options_that_contradict_each_other() -> None:
    with pytest.raises(ValueError, match="probe"):
        ClientOptions(probe=False)
    with pytest.raises(ValueError, match="era"):
        ClientOptions(era="old")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ClientOptions(remembered="legacy")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ClientOptions(None)  # type: ignore[call-arg, misc]


# Definitions


async def connect_nowhere() -> trio.abc.HalfCloseableStream:
    raise NotImplementedError


def take(notification: Notification) -> None: ...


DEFINITIONS: list[Any] = [
    ClientOptions(),
    ClientOptions(
        info=Implementation(name="me", version="1"),
        capabilities=ClientCapabilities(roots={}),
        era="modern",
        probe=False,
        remembered=Era.LEGACY,
        max_line_bytes=None,
        request_timeout=None,
        startup_timeout=None,
        on_notification=take,
    ),
    StdioServer("serve", ["--key", Secret("hidden")], env={"A": "b", "C": None}, inherit=("X_*",), cwd="/"),
    StdioServer("serve", stderr=["capture", "log", StderrFile("/tmp/x")], sweep=False),
    StreamTransport(connect_nowhere, name="nowhere", flush=1, linger=2),
    Secret("hidden"),
    ClientStatistics(requests=5, noise_previews=("a", "b")),
]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: type(definition).__name__)
def test_definition_pickles_and_is_frozen(definition: Any) -> None:
    again = pickle.loads(pickle.dumps(definition))
    assert again == definition
    assert repr(again) == repr(definition)
    assert "hidden" not in repr(definition)
    with pytest.raises(AttributeError):
        setattr(definition, type(definition).__attrs_attrs__[0].name, None)


async def test_definition_can_be_used_again() -> None:
    streams: list[Peer] = []

    async def connect() -> trio.abc.HalfCloseableStream:
        ours, theirs = trio.testing.memory_stream_pair()
        streams.append(Peer(theirs))
        nursery.start_soon(serving, streams[-1])
        return ours

    transport = StreamTransport(connect)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                async with open_client(transport) as client:
                    assert (await client.call_tool("t")).text == "ok"
    assert len(streams) == 3


async def test_progress_handler_may_be_any_callable() -> None:
    class Keep:
        def __init__(self) -> None:
            self.seen: list[float] = []

        async def __call__(self, update: ProgressUpdate) -> None:
            await trio.lowlevel.checkpoint()
            self.seen.append(update.progress)

    keep = Keep()
    async with session() as (client, peer), running(lambda: client.call_tool("t", on_progress=keep)):
        request = await peer.request("tools/call")
        token = request["params"]["_meta"]["progressToken"]
        await peer.notify("notifications/progress", {"progressToken": token, "progress": 1})
        await peer.reply(request, text("ok"))
    assert keep.seen == [1]


async def test_late_discover_result_after_the_start_is_ignored(autojump_clock: MockClock) -> None:
    transport, peer = pair()

    async def serve() -> None:
        probe = await peer.request("server/discover")
        await peer.shake_hands("legacy")
        await peer.reply(probe, discovered())
        await peer.serve()

    with trio.fail_after(VIRTUAL):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            async with open_client(transport) as client:
                await trio.testing.wait_all_tasks_blocked()
                assert client.era is Era.LEGACY
                assert (await client.call_tool("t")).text == "ok"
                assert client.statistics().in_flight == 0


async def test_error_of_a_call_names_server_and_method() -> None:
    async with session() as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.fail(await peer.request("tools/call"), -1, "no")
        assert isinstance(outcome[0], McpError)
        assert (outcome[0].server, outcome[0].method) == ("stream", "tools/call")  # type: ignore[attr-defined]
