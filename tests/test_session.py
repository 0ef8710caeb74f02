"""One connection with many callers: what happens at the same time, in every order."""

from __future__ import annotations

import contextlib
import gc
import json
import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from scripted import MODERN, Message, Peer, discovered, pair, running, session, text
from trio_mcp_stdio import (
    Client,
    ClientClosed,
    ClientOptions,
    ConnectionLost,
    Delivery,
    LineTooLong,
    LocalProtocolError,
    McpError,
    Notification,
    ProgressUpdate,
    RemoteProtocolError,
    RequestTimeout,
    StreamTransport,
    open_client,
)
from trio_mcp_stdio._wire.calls import Call
from trio_mcp_stdio.types import CallToolResult

VIRTUAL = 100_000
"""Limit of a test on a virtual clock."""


def token_of(request: Message) -> Any:
    return request["params"]["_meta"]["progressToken"]


def progress(request: Message, value: float) -> Message:
    params = {"progressToken": token_of(request), "progress": value}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def answer(request: Message, value: str = "ok") -> Message:
    return {"jsonrpc": "2.0", "id": request["id"], "result": text(value)}


def cancelled_ids(messages: list[Any]) -> list[int]:
    return [
        message["params"]["requestId"]
        for message in messages
        if message.get("method") == "notifications/cancelled"
    ]


async def gather(calls: list[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Run calls at once; the outcome of each in its place."""
    outcomes: list[Any] = [None] * len(calls)

    async def run(index: int) -> None:
        try:
            outcomes[index] = await calls[index]()
        except McpError as error:
            outcomes[index] = error

    async with trio.open_nursery() as nursery:
        for index in range(len(calls)):
            nursery.start_soon(run, index)
    return outcomes


async def hang_up(peer: Peer) -> None:
    """Close both directions at once, as the end of a process does."""
    await peer.stream.aclose()
    peer._ended = True


def assert_idle(client: Client) -> None:
    """Nothing of any call is left, and a slot is free."""
    found = client.statistics()
    assert (found.in_flight, found.queued, found.waiting, found.unsent_bytes) == (0, 0, 0, 0)


# An answer and a cancellation in the same tick


@pytest.mark.requirement("CANCEL-11")
async def test_answer_just_before_the_cancellation() -> None:
    """The notification that cancels comes in one chunk with the answer, behind it."""
    scope = trio.CancelScope()
    options = ClientOptions(on_notification=lambda notification: scope.cancel())
    async with session(options=options) as (client, peer):
        results = []

        async def call() -> None:
            with scope:
                results.append(await client.call_tool("t"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            request = await peer.request("tools/call")
            await peer.send(answer(request), {"jsonrpc": "2.0", "method": "x/now"})
        assert results[0].text == "ok"
        assert scope.cancel_called
        assert client.statistics().cancelled == 0
        assert_idle(client)
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("CANCEL-11")
async def test_answer_just_after_the_cancellation() -> None:
    scope = trio.CancelScope()
    options = ClientOptions(on_notification=lambda notification: scope.cancel())
    async with session(options=options) as (client, peer):
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                with scope:
                    await client.call_tool("t")

            nursery.start_soon(call)
            request = await peer.request("tools/call")
            await peer.send({"jsonrpc": "2.0", "method": "x/now"}, answer(request))
        assert scope.cancelled_caught
        found = client.statistics()
        assert (found.cancelled, found.late, found.answered - 1) == (1, 1, 0)
        assert_idle(client)
        client.stop()
        assert cancelled_ids(await peer.rest()) == [request["id"]]


@pytest.mark.parametrize("seed", range(30))
async def test_answer_at_the_moment_of_the_timeout(autojump_clock: MockClock, seed: int) -> None:
    """Either may win; the loser leaves no trace but the one that belongs to it."""
    async with session(seconds=VIRTUAL) as (client, peer):
        async with running(lambda: client.call_tool("t", timeout=5)) as outcome:
            request = await peer.request("tools/call")
            await trio.sleep_until(trio.current_time() + 5)
            await peer.reply(request, text("just"))
        found = client.statistics()
        await trio.testing.wait_all_tasks_blocked()
        found = client.statistics()
        if isinstance(outcome[0], RequestTimeout):
            assert (found.cancelled, found.late, found.timed_out) == (1, 1, 1)
        else:
            assert outcome[0].text == "just"
            assert (found.cancelled, found.late, found.timed_out) == (0, 0, 0)
        assert_idle(client)
        client.stop()
        assert len(cancelled_ids(await peer.rest())) == found.cancelled


@pytest.mark.requirement("CANCEL-18")
async def test_call_cancelled_before_the_writer_runs_is_never_written() -> None:
    async with session() as (client, peer):
        for _ in range(20):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "t")
                    nursery.start_soon(client.call_tool, "t")
                    await trio.lowlevel.cancel_shielded_checkpoint()
                    scope.cancel()
        assert_idle(client)
        found = client.statistics()
        client.stop()
        rest = await peer.rest()
        requested = [message["id"] for message in rest if "id" in message]
        assert cancelled_ids(rest) == requested
        assert len(requested) == found.cancelled


@pytest.mark.parametrize("trial", range(10))
async def test_no_notice_is_lost_when_client_and_callers_are_cancelled_together(trial: int) -> None:
    """Also of callers that had just been woken by progress when it happened."""
    transport, peer = pair()
    count = 20
    requests: list[Message] = []

    async def serve() -> None:
        await peer.shake_hands()
        requests.extend([await peer.request("tools/call") for _ in range(count)])
        await peer.send(
            *(progress(request, 1) for request in requests), {"jsonrpc": "2.0", "method": "x/now"}
        )
        await peer.rest()

    scope = trio.CancelScope()
    options = ClientOptions(on_notification=lambda notification: scope.cancel())
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            with scope:
                async with open_client(transport, options) as client, trio.open_nursery() as callers:
                    for _ in range(count):
                        callers.start_soon(lambda: client.call_tool("t", on_progress=lambda update: None))
    assert scope.cancelled_caught
    assert sorted(cancelled_ids(peer.seen)) == sorted(request["id"] for request in requests)


@pytest.mark.parametrize("how", ["answer", "error", "timeout", "cancel", "progress"])
async def test_call_that_is_over_is_freed_without_the_collector(autojump_clock: MockClock, how: str) -> None:
    """Its result may be large, and a cycle would hold it until some later collection."""
    async with session(seconds=VIRTUAL) as (client, peer):

        async def once() -> None:
            with contextlib.suppress(McpError), trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(caller)
                    request = await peer.request("tools/call")
                    if how == "error":
                        await peer.fail(request, -1, "no")
                    elif how == "cancel":
                        scope.cancel()
                    elif how != "timeout":
                        await peer.send(
                            *([progress(request, 1)] if how == "progress" else []), answer(request)
                        )
            if how in ("timeout", "cancel"):
                await peer.notification("notifications/cancelled")

        async def caller() -> None:
            options: dict[str, Any] = {"timeout": 5} if how == "timeout" else {}
            if how == "progress":
                options["on_progress"] = lambda update: None
            with contextlib.suppress(McpError):
                await client.call_tool("t", **options)

        def alive_calls() -> int:
            return sum(isinstance(one, (Call, CallToolResult)) for one in gc.get_objects())

        await once()
        gc.collect()
        gc.disable()
        try:
            before = alive_calls()
            for _ in range(20):
                await once()
            await trio.lowlevel.checkpoint()
            assert alive_calls() <= before + 1
        finally:
            gc.enable()


# Waiting for a slot


async def test_timeout_while_waiting_for_a_slot(autojump_clock: MockClock) -> None:
    async with session(options=ClientOptions(max_in_flight=1), seconds=VIRTUAL) as (client, peer):
        async with running(lambda: client.call_tool("first", timeout=None)) as first:
            request = await peer.request("tools/call")
            for options in ({"timeout": 5}, {"timeout": 50, "idle_timeout": 5}):
                began = trio.current_time()
                with pytest.raises(RequestTimeout) as info:
                    await client.call_tool("second", **options)  # type: ignore[call-overload]
                assert info.value.request_id is None
                assert info.value.elapsed == pytest.approx(5)
                assert trio.current_time() - began == pytest.approx(5)
                assert client.statistics().waiting == 0
            await peer.reply(request, text("done"))
        assert first[0].text == "done"
        async with running(lambda: client.call_tool("third")):
            assert (await peer.request())["params"]["name"] == "third"
            await peer.reply(peer.seen[-1], text("ok"))
        assert client.statistics().cancelled == 0
        assert_idle(client)


async def test_abandoned_call_frees_its_slot_at_once(autojump_clock: MockClock) -> None:
    """The server may be slow to notice; the next call does not wait for it."""
    async with session(options=ClientOptions(max_in_flight=2), seconds=VIRTUAL) as (client, peer):
        calls = [lambda: client.call_tool("t", timeout=1) for _ in range(10)]
        outcomes = await gather(calls)
        assert all(isinstance(outcome, RequestTimeout) for outcome in outcomes)
        # Ten at once, two at a time: the rest timed out in the queue.
        assert [outcome.request_id is not None for outcome in outcomes].count(True) == 2
        for _ in range(5):
            outcomes = await gather(calls[:2])
            assert all(outcome.request_id is not None for outcome in outcomes)
        assert_idle(client)
        client.stop()
        rest = await peer.rest()
        assert cancelled_ids(rest) == sorted(cancelled_ids(rest))
        assert len(cancelled_ids(rest)) == 12


@pytest.mark.parametrize("how", ["stop", "peer"])
async def test_end_while_a_hundred_wait_for_a_slot(how: str) -> None:
    async with session(options=ClientOptions(max_in_flight=10)) as (client, peer):
        async with trio.open_nursery() as nursery:
            outcomes: list[Any] = []

            async def calls() -> None:
                outcomes.extend(await gather([lambda: client.call_tool("t") for _ in range(110)]))

            nursery.start_soon(calls)
            await trio.testing.wait_all_tasks_blocked()
            assert client.statistics().waiting == 100
            if how == "stop":
                client.stop()
            else:
                for _ in range(10):
                    await peer.request("tools/call")
                await hang_up(peer)
        kind = ClientClosed if how == "stop" else ConnectionLost
        assert {type(outcome) for outcome in outcomes} == {kind}
        deliveries = [outcome.delivery for outcome in outcomes]
        assert deliveries.count(Delivery.NOT_SENT) == 100
        assert deliveries.count(Delivery.OUTCOME_UNKNOWN) == 10
        assert {outcome.method for outcome in outcomes} == {"tools/call"}
        found = client.statistics()
        assert (found.in_flight, found.waiting) == (0, 0)
        with pytest.raises(kind):
            await client.call_tool("after the end")


async def test_notification_is_not_held_up_by_calls_that_wait_for_a_slot(autojump_clock: MockClock) -> None:
    """A progress callback that notifies would otherwise wait for its own call to end."""
    async with session("legacy", ClientOptions(max_in_flight=1), seconds=VIRTUAL) as (client, peer):
        notified = []

        async def notify(update: ProgressUpdate) -> None:
            await client.notify("notifications/roots/list_changed")
            notified.append(update)

        async with running(lambda: client.call_tool("first", on_progress=notify, timeout=60)) as first:
            request = await peer.request("tools/call")
            async with running(lambda: client.call_tool("second", timeout=None)) as second:
                await trio.testing.wait_all_tasks_blocked()
                assert client.statistics().waiting == 1
                await peer.send(progress(request, 1), answer(request))
                await peer.notification("notifications/roots/list_changed")
                await peer.reply(await peer.request("tools/call"), text("ok"))
        assert len(notified) == 1
        assert (first[0].text, second[0].text) == ("ok", "ok")


async def test_large_message_is_admitted_when_nothing_waits_to_be_written() -> None:
    async with session(options=ClientOptions(max_unsent_bytes=100)) as (client, peer):
        for _ in range(2):
            async with running(lambda: client.call_tool("t", {"x": "y" * 10_000})) as outcome:
                await peer.reply(await peer.request("tools/call"), text("ok"))
            assert outcome[0].text == "ok"


async def test_unsent_bytes_are_bounded_while_the_peer_does_not_read() -> None:
    limit = 20_000
    ours, theirs = trio.testing.lockstep_stream_pair()

    async def connect() -> trio.abc.HalfCloseableStream:
        return ours

    options = ClientOptions(era="modern", probe=False, max_unsent_bytes=limit)
    transport = StreamTransport(connect, linger=0)
    with trio.fail_after(30):
        async with open_client(transport, options) as client, trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(lambda: client.call_tool("t", {"x": "y" * 1000}))
            await trio.testing.wait_all_tasks_blocked()
            found = client.statistics()
            # A batch that the stream has taken cannot be counted as unsent: it cannot tell.
            assert found.unsent_bytes <= limit
            assert 0 < found.waiting < 200
            nursery.cancel_scope.cancel()
        await theirs.aclose()
    assert client.statistics().in_flight == 0


# Progress


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_progress_comes_in_order_and_before_the_result(asynchronous: bool) -> None:
    events: list[Any] = []

    def note(update: ProgressUpdate) -> None:
        events.append((update.progress, trio.lowlevel.current_task().name))

    async def note_slowly(update: ProgressUpdate) -> None:
        await trio.lowlevel.checkpoint()
        note(update)

    async with session() as (client, peer), trio.open_nursery() as nursery:

        async def call() -> None:
            await client.call_tool("t", on_progress=note_slowly if asynchronous else note)
            events.append("result")

        nursery.start_soon(call, name="the caller")
        request = await peer.request("tools/call")
        await peer.send(progress(request, 1))
        await trio.testing.wait_all_tasks_blocked()
        await peer.send(*(progress(request, value) for value in range(2, 50)), answer(request))
    assert events == [*((value, "the caller") for value in range(1, 50)), "result"]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("answered", [False, True])
async def test_progress_callback_that_raises(asynchronous: bool, answered: bool) -> None:
    class Mine(Exception):
        pass

    def fail(update: ProgressUpdate) -> None:
        raise Mine

    async def fail_later(update: ProgressUpdate) -> None:
        await trio.lowlevel.checkpoint()
        raise Mine

    async with session() as (client, peer):
        async with running(lambda: client.call_tool("other")) as other:
            bystander = await peer.request("tools/call")
            caught: list[BaseException] = []

            async def call() -> None:
                try:
                    await client.call_tool("t", on_progress=fail_later if asynchronous else fail)
                except Exception as error:
                    caught.append(error)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                request = await peer.request("tools/call")
                await peer.send(progress(request, 1), *([answer(request)] if answered else []))
            assert [type(error) for error in caught] == [Mine]
            assert client.statistics().in_flight == 1
            if not answered:
                notice = await peer.notification("notifications/cancelled")
                assert notice["params"]["requestId"] == request["id"]
                assert "callback" in notice["params"]["reason"]
            await peer.reply(bystander, text("unharmed"))
        assert other[0].text == "unharmed"
        assert_idle(client)
        client.stop()
        assert await peer.rest() == []


async def test_interrupt_in_a_progress_callback_is_plain() -> None:
    async with session() as (client, peer):
        caught: list[BaseException] = []

        def interrupt(update: ProgressUpdate) -> None:
            raise KeyboardInterrupt

        async def call() -> None:
            try:
                await client.call_tool("t", on_progress=interrupt)
            except KeyboardInterrupt as error:
                caught.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await peer.send(progress(await peer.request("tools/call"), 1))
        assert len(caught) == 1
        await peer.notification("notifications/cancelled")


async def test_total_timeout_interrupts_an_asynchronous_callback(autojump_clock: MockClock) -> None:
    async def busy(update: ProgressUpdate) -> None:
        await trio.sleep(1000)

    async with session(seconds=VIRTUAL) as (client, peer):
        async with running(
            lambda: client.call_tool("t", timeout=20, idle_timeout=3, on_progress=busy)
        ) as outcome:
            request = await peer.request("tools/call")
            await peer.send(progress(request, 1))
            notice = await peer.notification("notifications/cancelled")
        error = outcome[0]
        assert isinstance(error, RequestTimeout)
        assert (error.idle, error.timeout, error.elapsed) == (False, 20, pytest.approx(20))
        assert notice["params"] == {"requestId": request["id"], "reason": "timeout passed"}
        assert_idle(client)


async def test_idle_timeout_after_a_callback_that_took_longer(autojump_clock: MockClock) -> None:
    async def busy(update: ProgressUpdate) -> None:
        await trio.sleep(10)

    async with session(seconds=VIRTUAL) as (client, peer):
        call = lambda: client.call_tool("t", timeout=None, idle_timeout=3, on_progress=busy)  # noqa: E731
        async with running(call) as outcome:
            request = await peer.request("tools/call")
            await peer.send(progress(request, 1))
            await peer.notification("notifications/cancelled")
        assert isinstance(outcome[0], RequestTimeout)
        assert outcome[0].idle
        assert outcome[0].elapsed == pytest.approx(13)


async def test_answer_while_the_callback_is_busy_is_not_cancelled_any_more() -> None:
    async with session() as (client, peer):
        busy, scope = trio.Event(), trio.CancelScope()

        async def wait(update: ProgressUpdate) -> None:
            busy.set()
            await trio.sleep_forever()

        async def call() -> None:
            with scope:
                await client.call_tool("t", on_progress=wait)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            request = await peer.request("tools/call")
            await peer.send(progress(request, 1))
            await busy.wait()
            await peer.send(answer(request))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
        assert scope.cancelled_caught
        assert client.statistics().cancelled == 0
        assert_idle(client)
        client.stop()
        assert await peer.rest() == []


async def test_end_of_the_connection_while_the_callback_is_busy() -> None:
    async with session() as (client, peer):
        gate = trio.Event()
        updates = []

        async def wait(update: ProgressUpdate) -> None:
            await gate.wait()
            updates.append(update.progress)

        async with running(lambda: client.call_tool("t", on_progress=wait)) as outcome:
            request = await peer.request("tools/call")
            await peer.send(progress(request, 1), progress(request, 2))
            await trio.testing.wait_all_tasks_blocked()
            await hang_up(peer)
            await client.wait_closed()
            assert outcome == []
            gate.set()
        assert type(outcome[0]) is ConnectionLost
        assert updates == [1, 2]


async def test_call_from_within_a_progress_callback() -> None:
    async with session() as (client, peer):
        inner: list[str] = []

        async def ask(update: ProgressUpdate) -> None:
            inner.append((await client.call_tool("inner")).text)

        async with running(lambda: client.call_tool("outer", on_progress=ask)) as outcome:
            request = await peer.request("tools/call")
            await peer.send(progress(request, 1), answer(request, "outer"))
            await peer.reply(await peer.request("tools/call"), text("inner"))
        assert (inner, outcome[0].text) == (["inner"], "outer")


# Ends


async def test_stop_during_calls(autojump_clock: MockClock) -> None:
    async with session(seconds=VIRTUAL) as (client, peer):
        async with trio.open_nursery() as nursery:
            outcomes: list[Any] = []

            async def calls() -> None:
                outcomes.extend(
                    await gather([lambda: client.call_tool("t", timeout=None) for _ in range(50)])
                )

            nursery.start_soon(calls)
            await trio.testing.wait_all_tasks_blocked()
            client.stop()
            client.stop()
        assert {type(outcome) for outcome in outcomes} == {ClientClosed}
        assert {outcome.delivery for outcome in outcomes} == {Delivery.OUTCOME_UNKNOWN}
        rest = await peer.rest()
        assert [message["method"] for message in rest] == ["tools/call"] * 50


async def test_stop_in_the_tick_of_the_call() -> None:
    async with session() as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            client.stop()
        assert type(outcome[0]) is ClientClosed
        rest = await peer.rest()
        delivered = [message["method"] for message in rest]
        assert delivered == (["tools/call"] if outcome[0].delivery is Delivery.OUTCOME_UNKNOWN else [])


async def test_answers_before_the_end_of_the_stream_are_delivered() -> None:
    async with session() as (client, peer):
        async with trio.open_nursery() as nursery:
            outcomes: list[Any] = []

            async def calls() -> None:
                outcomes.extend(await gather([lambda: client.call_tool("t") for _ in range(3)]))

            nursery.start_soon(calls)
            requests = [await peer.request("tools/call") for _ in range(3)]
            whole = json.dumps(answer(requests[0])).encode() + b"\n"
            without_newline = json.dumps(answer(requests[1])).encode()
            await peer.stream.send_all(whole + without_newline)
            await hang_up(peer)
        kinds = sorted(type(outcome).__name__ for outcome in outcomes)
        assert kinds == ["CallToolResult", "CallToolResult", "ConnectionLost"]


@pytest.mark.requirement("STDIO-FRAME-15")
@pytest.mark.parametrize("rest", [b'{"jsonrpc":"2.0","id":', b"Traceback (most rec"])
async def test_partial_line_at_the_end_is_told(rest: bytes) -> None:
    async with session() as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.request("tools/call")
            await peer.stream.send_all(rest)
            await trio.testing.wait_all_tasks_blocked()
            await hang_up(peer)
        assert type(outcome[0]) is ConnectionLost
        assert "stdout" in outcome[0].reason
        assert rest.decode() in str(outcome[0])


async def test_peer_that_ends_only_its_own_direction() -> None:
    async with session() as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.request("tools/call")
            await peer.stream.send_eof()
        assert type(outcome[0]) is ConnectionLost
        assert await peer.rest() == []  # and gets the end of file in return


async def test_unencodable_argument_leaves_no_trace() -> None:
    async with session(options=ClientOptions(max_in_flight=1)) as (client, peer):
        for bad in (float("nan"), b"bytes", {1, 2}, "\ud800", {1: 2}, object()):
            with pytest.raises(LocalProtocolError):
                await client.call_tool("t", {"x": bad})
            with pytest.raises(LocalProtocolError):
                await client.call_tool("t", meta={"x": bad})
            with pytest.raises(LocalProtocolError):
                await client.notify("notifications/x", {"x": bad})
        assert_idle(client)
        assert client.statistics().requests == 1  # the probe
        client.stop()
        assert await peer.rest() == []


@pytest.mark.parametrize("method", ["tools/\ud800", "\udfff"])
async def test_unencodable_method_leaves_no_trace(method: str) -> None:
    async with session("legacy") as (client, peer):
        with pytest.raises(LocalProtocolError):
            await client.request(method)
        with pytest.raises(LocalProtocolError):
            await client.notify(method)
        assert_idle(client)
        client.stop()
        assert await peer.rest() == []


# Lines past the bound


BOUND = ClientOptions(max_line_bytes=10_000)


def long_answer(request: Message, size: int = 50_000) -> Message:
    return answer(request, "x" * size)


async def test_oversized_answer_costs_its_request_only() -> None:
    async with session(options=BOUND) as (client, peer):
        async with (
            running(lambda: client.call_tool("a")) as first,
            running(lambda: client.call_tool("b")) as second,
        ):
            requests = {}
            for _ in range(2):
                request = await peer.request("tools/call")
                requests[request["params"]["name"]] = request
            await peer.send(long_answer(requests["a"]), answer(requests["b"], "short"))
        assert type(first[0]) is LineTooLong
        assert (first[0].limit, first[0].server) == (10_000, client.name)
        assert second[0].text == "short"
        assert client.statistics().oversized == 1
        async with running(lambda: client.call_tool("next")) as third:
            await peer.reply(await peer.request("tools/call"), text("fine"))
        assert third[0].text == "fine"


@pytest.mark.requirement("CANCEL-10")
async def test_oversized_answer_to_a_request_that_was_given_up_costs_nothing(
    autojump_clock: MockClock,
) -> None:
    """The race of a cancellation and an answer is harmless however long the answer is."""
    async with session(options=BOUND, seconds=VIRTUAL) as (client, peer):
        scope = trio.CancelScope()

        async def call() -> None:
            with scope:
                await client.call_tool("given up")

        async with running(lambda: client.call_tool("bystander")) as outcome:
            bystander = await peer.request("tools/call")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                request = await peer.request("tools/call")
                scope.cancel()
            await peer.notification("notifications/cancelled")
            await peer.send(long_answer(request), answer(bystander))
        assert outcome[0].text == "ok"


async def test_oversized_request_of_the_peer_does_not_fail_ours_of_the_same_id(
    autojump_clock: MockClock,
) -> None:
    """The two sides number their requests apart: the peer's own request is lost, or the connection."""
    async with session("legacy", BOUND, seconds=VIRTUAL) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            ours = await peer.request("tools/call")
            theirs = {"jsonrpc": "2.0", "id": ours["id"], "method": "sampling/createMessage"}
            await peer.send({**theirs, "params": {"x": "y" * 50_000}})
            await trio.testing.wait_all_tasks_blocked()
            if not outcome:
                await peer.send(answer(ours))
        if isinstance(outcome[0], McpError):
            assert "the answer to tools/call" not in str(outcome[0])


@pytest.mark.parametrize("size", [1, 97, 4096, 65_536])
async def test_oversized_lines_one_after_the_other(size: int) -> None:
    async with session(options=BOUND) as (client, peer):
        for _ in range(3):
            async with running(lambda: client.call_tool("t")) as outcome:
                request = await peer.request("tools/call")
                data = json.dumps(long_answer(request, 10_000)).encode() + b"\n"
                for start in range(0, len(data), size):
                    await peer.stream.send_all(data[start : start + size])
            assert type(outcome[0]) is LineTooLong
        assert client.statistics().oversized == 3
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request("tools/call"), text("fine"))
        assert outcome[0].text == "fine"


async def test_endless_line_ends_the_connection(autojump_clock: MockClock) -> None:
    async with session(options=BOUND, seconds=VIRTUAL) as (client, peer):
        async with (
            running(lambda: client.call_tool("a")) as first,
            running(lambda: client.call_tool("b")) as second,
        ):
            request = await peer.request("tools/call")
            await peer.request("tools/call")
            head = json.dumps(answer(request)).encode()[:-10]
            await peer.stream.send_all(head)
            for _ in range(100):
                await peer.stream.send_all(b"x" * 5000)
                await trio.testing.wait_all_tasks_blocked()
                if first and second:
                    break
        assert {type(outcome[0]) for outcome in (first, second)} == {LineTooLong}
        await client.wait_closed()


# The rest of what may come


async def test_requests_of_the_peer_before_the_era_is_known() -> None:
    transport, peer = pair()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                probe = await peer.request("server/discover")
                flood = ({"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(5000))
                await peer.send(*flood)
                await trio.testing.wait_all_tasks_blocked()
                await peer.reply(probe, discovered())
                assert await peer.rest() == []

            nursery.start_soon(serve)
            async with open_client(transport) as client:
                assert client.statistics().violations == 5000
                assert client.statistics().replies == 0


@pytest.mark.parametrize("large", ["method", "id"])
async def test_replies_to_a_peer_that_does_not_read_are_bounded(large: str) -> None:
    """In number, and in bytes: what has to be repeated in an answer is the peer's to choose."""
    ours, theirs = trio.testing.lockstep_stream_pair()

    async def connect() -> trio.abc.HalfCloseableStream:
        return ours

    options = ClientOptions(era="legacy", startup_timeout=None, max_unsent_bytes=500_000)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            peer = Peer(theirs)
            nursery.start_soon(lambda: peer.shake_hands("legacy"))
            async with open_client(StreamTransport(connect, flush=0, linger=0), options) as client:
                long = "x" * 2000
                for start in range(0, 5000, 100):
                    ids: list[Any] = list(range(start, start + 100))
                    if large == "id":
                        ids = [f"{long}{number}" for number in ids]
                    method = long if large == "method" else "m"
                    await peer.send(*({"jsonrpc": "2.0", "id": n, "method": method} for n in ids))
                found = client.statistics()
                assert found.replies + found.replies_dropped == 5000
                assert found.replies_dropped > 3000
                assert found.unsent_bytes < 1_000_000
            await theirs.aclose()


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(0, 1, 2, 3, -1, 10**18, 10**400, 1.0, 1.5, 1e308, None, True, False),
        *("1", "2", "", "2.0", "\ud800", "x" * 300, "\x1b[31m\n", "notifications/progress"),
        *([], {}, [1], {"a": None}, [[[[[]]]]], {"uri": 1}),
    ]
)
METHODS = st.sampled_from(["notifications/cancelled", "notifications/message", "ping", "x/y", "", "\ud800"])


def some(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """An object with some of these members, of any kind."""
    return st.dictionaries(st.sampled_from(names), ODD)


MESSAGES = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "id": ODD,
            "method": METHODS | ODD,
            "result": ODD | some("content", "_meta", "isError"),
            "error": ODD | some("code", "message", "data"),
            "params": ODD | some("requestId", "reason", "level", "data"),
        },
    ),
    st.fixed_dictionaries(
        {"id": st.integers(1, 4)}, optional={"result": ODD, "error": some("code", "message")}
    ),
    some("progress", "total", "message").flatmap(
        lambda params: st.integers(1, 4).map(
            lambda token: {"method": "notifications/progress", "params": {"progressToken": token, **params}}
        )
    ),
)
WHOLE = MESSAGES.map(lambda message: {"jsonrpc": "2.0", **message})
LINES = (WHOLE | WHOLE | MESSAGES | ODD | st.lists(WHOLE | ODD, max_size=3)).map(
    lambda message: json.dumps(message).encode() + b"\n"
)
CHUNKS = st.lists(LINES | LINES | LINES | st.binary(max_size=20), max_size=12).map(b"".join)


@pytest.mark.requirement("STDIO-FRAME-13")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("version", [MODERN, "2025-03-26", "2025-11-25"])
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(chunk=CHUNKS)
async def test_nothing_that_a_peer_sends_crashes_the_client(version: str, strict: bool, chunk: bytes) -> None:
    """Whatever comes, a call ends with an answer, an error of this package, or goes on."""
    era = "modern" if version == MODERN else "legacy"
    options = ClientOptions(strict=strict, max_line_bytes=1000, on_notification=lambda notification: None)
    async with session(era, options, version=version) as (client, peer):
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: client.call_tool("t", on_progress=lambda update: None),
            lambda: client.request("x/y"),
        ]

        async def send() -> None:
            for _ in calls:
                await peer.request()
            await peer.stream.send_all(chunk)
            await trio.testing.wait_all_tasks_blocked()
            await peer.stream.send_eof()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            outcomes = await gather(calls)
        for outcome in outcomes:
            assert isinstance(outcome, (CallToolResult, dict, McpError))
            str(outcome)
            pickle.loads(pickle.dumps(outcome))
        await client.wait_closed()
        assert client.statistics().in_flight == 0
        repr(client)


async def test_strict_session_ends_at_the_first_fault() -> None:
    async with session(options=ClientOptions(strict=True)) as (client, peer):
        async with running(lambda: client.request("custom/method")) as outcome:
            request = await peer.request("custom/method")
            await peer.stream.send_all(b"Listening...\n")
            await peer.send(answer(request))
        assert type(outcome[0]) is RemoteProtocolError
        assert "Listening..." in str(outcome[0])


async def test_observer_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(direction: str, line: bytes) -> None:
        raise ZeroDivisionError(direction)

    async with session(options=ClientOptions(on_wire=fail)) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request("tools/call"), text("fine"))
        assert outcome[0].text == "fine"
        assert client.statistics().callback_errors == 4
    assert sum(record.exc_info is not None for record in caplog.records) == 1


async def test_call_from_within_a_notification_callback() -> None:
    results: list[str] = []
    holder: list[Client] = []

    async def ask(notification: Notification) -> None:
        results.append((await holder[0].call_tool("t")).text)

    async with session(options=ClientOptions(on_notification=ask)) as (client, peer):
        holder.append(client)
        await peer.notify("notifications/message", {"level": "info", "data": 1})
        await peer.reply(await peer.request("tools/call"), text("asked"))
        await trio.testing.wait_all_tasks_blocked()
    assert results == ["asked"]


async def test_stop_from_within_a_notification_callback() -> None:
    holder: list[Client] = []
    options = ClientOptions(on_notification=lambda notification: holder[0].stop())
    async with session(options=options) as (client, peer):
        holder.append(client)
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.request("tools/call")
            await peer.notify("x/now")
            await peer.rest()
        assert type(outcome[0]) is ClientClosed


async def test_timeout_tells_what_came_instead(autojump_clock: MockClock) -> None:
    async with session(seconds=VIRTUAL) as (client, peer):
        async with running(lambda: client.call_tool("t", timeout=5)) as outcome:
            request = await peer.request("tools/call")
            await peer.stream.send_all(b"hello\n\x1b[31mred\n")
            await peer.send({"jsonrpc": "2.0", "id": request["id"] + 1000, "result": {}})
            await peer.stream.send_all(b'{"unfinished": ')
        said = "\n".join(outcome[0].received)
        for part in (
            "3 lines",
            "hello",
            "red",
            str(request["id"] + 1000),
            "15 bytes of a line without a newline",
        ):
            assert part in said
        assert "\x1b" not in str(outcome[0])


async def test_probe_that_was_never_answered_does_not_count_as_a_call(autojump_clock: MockClock) -> None:
    """Nobody waits for it once `initialize` was answered."""
    transport, peer = pair()

    async def serve() -> None:
        await peer.request("server/discover")
        await peer.shake_hands("legacy")
        request = await peer.request("tools/call")
        await peer.fail(None, -32600, f"nobody asked for {request['id']}")
        await peer.rest()

    with trio.fail_after(VIRTUAL):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            async with open_client(transport) as client:
                assert client.statistics().in_flight == 0
                assert "0 in flight" in repr(client)
                # With one request pending, an error without an id is its answer.
                with pytest.raises(McpError, match="nobody asked"):
                    await client.call_tool("t", timeout=50)
