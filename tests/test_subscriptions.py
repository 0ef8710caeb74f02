"""Subscriptions of a modern connection: `Client.listen` against a scripted peer and real processes."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from helpers import alive, assert_gone, both_eras, fake, logged, nothing_left
from scripted import Message, Peer, complaints, pair, running, session, text
from trio_mcp_stdio import (
    Client,
    ClientClosed,
    ClientOptions,
    ConnectionLost,
    LineTooLong,
    LocalProtocolError,
    McpError,
    MethodNotFound,
    Notification,
    PromptsListChanged,
    RemoteProtocolError,
    RequestTimeout,
    ResourcesListChanged,
    ResourceUpdated,
    RpcError,
    ServerExited,
    StreamTransport,
    Subscription,
    SubscriptionEnd,
    SubscriptionEvent,
    SubscriptionLost,
    ToolsListChanged,
    open_client,
    run_client,
)
from trio_mcp_stdio.types import SubscriptionFilter

LISTEN = "subscriptions/listen"
CANCELLED = "notifications/cancelled"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS_CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
KEY = "io.modelcontextprotocol/subscriptionId"

TOOLS = SubscriptionFilter(tools_list_changed=True)
ALL = SubscriptionFilter(
    tools_list_changed=True,
    prompts_list_changed=True,
    resources_list_changed=True,
    resource_subscriptions=("a:1", "a:2"),
)
VIRTUAL = 100_000
"""Limit of a test on a virtual clock."""


def tagged(tag: object, method: str = TOOLS_CHANGED, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": {KEY: tag}}}


def acknowledgement(request: Message, honored: object = None) -> Message:
    asked = request["params"]["notifications"]
    return tagged(request["id"], ACKNOWLEDGED, notifications=asked if honored is None else honored)


def result_of(request: Message) -> Message:
    result = {"resultType": "complete", "_meta": {KEY: request["id"]}}
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def cancellation_of(request: Message) -> Message:
    return {"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": request["id"], "reason": "over"}}


@asynccontextmanager
async def listening(
    client: Client, peer: Peer, requested: SubscriptionFilter = TOOLS, honored: object = None
) -> AsyncIterator[tuple[Subscription, Message]]:
    """A subscription that the peer has acknowledged, and its request."""
    async with contextlib.AsyncExitStack() as stack:
        async with trio.open_nursery() as nursery:
            requests: list[Message] = []

            async def acknowledge() -> None:
                requests.append(await peer.request(LISTEN))
                await peer.send(acknowledgement(requests[0], honored))

            nursery.start_soon(acknowledge)
            subscription = await stack.enter_async_context(client.listen(requested))
        yield subscription, requests[0]


async def drain(subscription: Subscription) -> list[SubscriptionEvent]:
    """All events up to the end."""
    return [event async for event in subscription]


async def take(subscription: Subscription, number: int) -> list[SubscriptionEvent]:
    return [await anext(subscription) for _ in range(number)]


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked()


async def answer_calls(peer: Peer, number: int) -> None:
    """Answer so many tool calls, past whatever else is sent."""
    while number:
        message = await peer.receive()
        if message["method"] == "tools/call":
            await peer.reply(message, text("ok"))
            number -= 1


async def call(client: Client, peer: Peer) -> None:
    """One tool call, answered."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer_calls, peer, 1)
        await client.call_tool("t")


def of_method(peer: Peer, method: str) -> list[Message]:
    return [message for message in peer.seen if message.get("method") == method]


def cancelled_ids(peer: Peer) -> list[Any]:
    return [message["params"]["requestId"] for message in of_method(peer, CANCELLED)]


# What is asked for, and what is agreed on


@pytest.mark.requirement("SUBS-07")
async def test_what_the_server_honors_is_told_and_counts() -> None:
    async with session() as (client, peer):
        honored = {"toolsListChanged": True, "promptsListChanged": False, "later": 1}
        async with listening(client, peer, ALL, honored) as (subscription, request):
            assert request["params"]["notifications"] == {
                "toolsListChanged": True,
                "promptsListChanged": True,
                "resourcesListChanged": True,
                "resourceSubscriptions": ["a:1", "a:2"],
            }
            assert subscription.requested is ALL
            assert subscription.honored.tools_list_changed is True
            assert not subscription.honored.prompts_list_changed
            assert not subscription.honored.resources_list_changed
            assert not subscription.honored.resource_subscriptions
            await peer.send(
                tagged(request["id"], "notifications/prompts/list_changed"),
                tagged(request["id"], UPDATED, uri="a:1"),
                acknowledgement(request, {"promptsListChanged": True}),
                tagged(request["id"], "notifications/prompts/list_changed"),
                tagged(request["id"]),
                result_of(request),
            )
            assert await drain(subscription) == [ToolsListChanged()]
        assert client.statistics().violations == 3


async def test_what_was_not_asked_for_is_not_delivered_though_the_server_says_so() -> None:
    async with session() as (client, peer):
        honored = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["a:1"]}
        async with listening(client, peer, TOOLS, honored) as (subscription, request):
            tag = request["id"]
            await peer.send(
                tagged(tag, "notifications/prompts/list_changed"),
                tagged(tag, UPDATED, uri="a:1"),
                tagged(tag),
            )
            await peer.send(result_of(request))
            assert await drain(subscription) == [ToolsListChanged()]
        assert client.statistics().violations == 2


@pytest.mark.requirement("SUBS-07")
@pytest.mark.parametrize("honored", [{}, [], 7, "all", {"toolsListChanged": "yes"}])
async def test_an_acknowledgement_of_nothing_does_not_hang(honored: object) -> None:
    async with session() as (client, peer):
        async with listening(client, peer, ALL, honored) as (subscription, request):
            assert not subscription.honored.tools_list_changed
            assert not subscription.honored.resource_subscriptions
            assert subscription.end is None
            await peer.send(tagged(request["id"]), result_of(request))
            assert await drain(subscription) == []
        assert client.statistics().violations == 1


async def test_nothing_is_delivered_before_the_acknowledgement() -> None:
    async with session() as (client, peer):
        got: list[SubscriptionEvent] = []

        async def consume() -> None:
            async with client.listen(TOOLS) as subscription:
                got.extend(await drain(subscription))

        async with running(consume):
            request = await peer.request(LISTEN)
            await peer.send(tagged(request["id"]), acknowledgement(request), result_of(request))
        assert got == []
        assert client.statistics().violations == 1


async def test_every_kind_of_event_in_order() -> None:
    async with session() as (client, peer), listening(client, peer, ALL) as (subscription, request):
        tag = request["id"]
        await peer.send(
            tagged(tag, UPDATED, uri="a:2/part"),
            tagged(tag, "notifications/resources/list_changed"),
            tagged(tag, UPDATED, uri="a:1"),
            tagged(tag, "notifications/prompts/list_changed"),
            tagged(tag),
        )
        assert await take(subscription, 5) == [
            ResourceUpdated("a:2/part"),
            ResourcesListChanged(),
            ResourceUpdated("a:1"),
            PromptsListChanged(),
            ToolsListChanged(),
        ]


@pytest.mark.parametrize("uri", [None, 7, ["a:1"]])
async def test_an_update_without_a_uri_is_a_violation(uri: object) -> None:
    async with session() as (client, peer), listening(client, peer, ALL) as (subscription, request):
        await peer.send(tagged(request["id"], UPDATED, uri=uri), result_of(request))
        assert await drain(subscription) == []
        assert client.statistics().violations == 1


# Whose event it is


@pytest.mark.requirement("SUBS-10", "SUBS-28")
async def test_ids_are_compared_by_type_and_value() -> None:
    transport, peer = pair()
    options = ClientOptions(era="modern", probe=False)  # so that the first id goes to a subscription
    with alive():
        async with trio.open_nursery() as nursery:
            client = await nursery.start(run_client, transport, options)
            async with (
                listening(client, peer, ALL) as (one, first),
                listening(client, peer, ALL) as (two, second),
            ):
                assert (first["id"], second["id"]) == (1, 2)
                strangers = ["1", "2", True, False, 1.0, 0, "0", "", None, [1], {"1": 1}, 3, 10**30]
                for tag in strangers:
                    await peer.send(tagged(tag))
                await peer.send(
                    tagged(1, UPDATED, uri="a:1"), tagged(2, UPDATED, uri="a:2"), result_of(first)
                )
                await peer.send(result_of(second))
                assert await drain(one) == [ResourceUpdated("a:1")]
                assert await drain(two) == [ResourceUpdated("a:2")]
            assert client.statistics().violations == len(strangers)
            client.stop()
            nursery.start_soon(peer.rest)


@pytest.mark.requirement("SUBS-28")
async def test_untagged_and_unknown_ones_reach_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async with session() as (client, peer), listening(client, peer, ALL) as (subscription, request):
        strangers: list[Any] = [None, {}, {"_meta": {}}, {"_meta": 7}, {"_meta": {KEY: 999}}]
        for params in strangers:
            await peer.notify(TOOLS_CHANGED, params)
        await peer.notify(ACKNOWLEDGED, {"notifications": {}})
        await peer.send(result_of(request))
        assert await drain(subscription) == []
        assert client.statistics().violations == 6
    (said,) = complaints(caplog)
    assert "a change notification for no subscription" in said


@pytest.mark.requirement("SUBS-11")
async def test_fifty_at_once_each_get_exactly_their_events() -> None:
    names = ("tools", "prompts", "resources")
    events = (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged())
    async with session() as (client, peer), contextlib.AsyncExitStack() as stack:
        opened = []
        for number in range(50):
            chosen: dict[str, Any] = {
                f"{name}_list_changed": bool(number >> bit & 1) for bit, name in enumerate(names)
            }
            requested = SubscriptionFilter(**chosen, resource_subscriptions=(f"a:{number}",))
            opened.append(await stack.enter_async_context(listening(client, peer, requested)))
        for bit, name in reversed(list(enumerate(names))):
            for number, (_, request) in enumerate(opened):
                if number >> bit & 1:
                    await peer.send(tagged(request["id"], f"notifications/{name}/list_changed"))
        for number, (_, request) in reversed(list(enumerate(opened))):
            await peer.send(tagged(request["id"], UPDATED, uri=f"a:{number}"))
        for _, request in opened:
            await peer.send(result_of(request))

        for number, (subscription, _) in enumerate(opened):
            expected = [event for bit, event in reversed(list(enumerate(events))) if number >> bit & 1]
            assert await drain(subscription) == [*expected, ResourceUpdated(f"a:{number}")]
        assert client.statistics().violations == 0


async def test_events_reach_on_notification_as_well() -> None:
    got: list[Notification] = []
    options = ClientOptions(on_notification=got.append)
    async with session(options=options) as (client, peer), listening(client, peer) as (subscription, request):
        await peer.send(tagged(request["id"]), tagged(request["id"]), result_of(request))
        assert await drain(subscription) == [ToolsListChanged()]
        await settle()
        assert [each.method for each in got] == [ACKNOWLEDGED, TOOLS_CHANGED, TOOLS_CHANGED]
        assert client.statistics().notifications == 3


# Its ends


@pytest.mark.requirement("SUBS-12")
async def test_leaving_sends_one_cancellation_and_nothing_else() -> None:
    async with session() as (client, peer):
        async with listening(client, peer) as (subscription, request):
            assert "open" in repr(subscription)
        assert subscription.end is SubscriptionEnd.CLOSED
        assert "closed" in repr(subscription)
        assert await drain(subscription) == []
        await call(client, peer)
    assert cancelled_ids(peer) == [request["id"]]
    assert [message["method"] for message in peer.seen] == [
        "server/discover",
        LISTEN,
        CANCELLED,
        "tools/call",
    ]


async def test_what_was_under_way_when_it_was_left_is_no_violation(caplog: pytest.LogCaptureFixture) -> None:
    async with session() as (client, peer):
        async with listening(client, peer) as (_, request):
            pass
        await peer.send(tagged(request["id"]), cancellation_of(request), result_of(request))
        await call(client, peer)
        found = client.statistics()
        assert (found.violations, found.late, found.unmatched, found.cancelled) == (0, 1, 0, 1)
        await peer.send(tagged(str(request["id"])))
        await call(client, peer)
        assert client.statistics().violations == 1
    assert len(complaints(caplog)) == 1


@pytest.mark.requirement("SUBS-16")
async def test_a_result_ends_it_well_and_nothing_is_sent() -> None:
    async with session() as (client, peer):
        async with listening(client, peer) as (subscription, request):
            await peer.send(tagged(request["id"]), result_of(request))
            assert await drain(subscription) == [ToolsListChanged()]
            assert await drain(subscription) == []
            assert subscription.end is SubscriptionEnd.COMPLETED
        assert subscription.end is SubscriptionEnd.COMPLETED
        assert client.statistics().answered == 2
    assert cancelled_ids(peer) == []


@pytest.mark.requirement("CANCEL-16")
async def test_a_cancellation_ends_the_one_that_it_names() -> None:
    async with session() as (client, peer):
        async with (
            listening(client, peer) as (one, first),
            listening(client, peer) as (two, second),
        ):
            for stranger in (str(first["id"]), True, None, 999, [first["id"]]):
                await peer.notify(CANCELLED, {"requestId": stranger})
            await peer.send(cancellation_of(first))
            assert await drain(one) == []
            assert (one.end, two.end) == (SubscriptionEnd.CANCELLED, None)
            await peer.send(tagged(second["id"]))
            assert await take(two, 1) == [ToolsListChanged()]
        assert client.statistics().violations == 5
    assert cancelled_ids(peer) == [second["id"]]


@pytest.mark.requirement("CANCEL-16", "SUBS-16")
@pytest.mark.parametrize("leave_between", [False, True])
@pytest.mark.parametrize("order", ["cancel", "result", "cancel result", "result cancel", "cancel cancel"])
async def test_server_ends_it_with_a_cancellation_and_a_result(
    order: str, leave_between: bool, caplog: pytest.LogCaptureFixture
) -> None:
    make = {"cancel": cancellation_of, "result": result_of}
    first, *more = order.split()
    async with session() as (client, peer):
        async with listening(client, peer) as (subscription, request):
            await peer.send(tagged(request["id"]), make[first](request))
            if not leave_between:
                await peer.send(*[make[each](request) for each in more])
            assert await drain(subscription) == [ToolsListChanged()]
        await peer.send(*[make[each](request) for each in more if leave_between])
        await call(client, peer)
        expected = SubscriptionEnd.CANCELLED if first == "cancel" else SubscriptionEnd.COMPLETED
        assert subscription.end is expected
        found = client.statistics()
        assert (found.violations, found.unmatched, found.cancelled) == (0, 0, 0)
        assert found.late == (order == "cancel result")
    assert cancelled_ids(peer) == []
    assert complaints(caplog) == []


async def test_it_may_end_before_it_is_acknowledged() -> None:
    async with session() as (client, peer):
        ended: list[Subscription] = []

        async def consume() -> None:
            async with client.listen(TOOLS) as subscription:
                ended.append(subscription)
                assert await drain(subscription) == []

        for make in (result_of, cancellation_of):
            async with running(consume) as outcome:
                await peer.send(make(await peer.request(LISTEN)))
            assert outcome == [None]
        assert [each.end for each in ended] == [SubscriptionEnd.COMPLETED, SubscriptionEnd.CANCELLED]
    assert cancelled_ids(peer) == []


@pytest.mark.requirement("SUBS-16")
async def test_end_of_the_stream_is_a_loss() -> None:
    async with session() as (client, peer), listening(client, peer) as (subscription, request):
        await peer.send(tagged(request["id"]))
        await peer.stream.send_eof()
        assert await take(subscription, 1) == [ToolsListChanged()]
        for _ in range(2):
            with pytest.raises(SubscriptionLost) as info:
                await anext(subscription)
            assert isinstance(info.value.__cause__, ConnectionLost)
            assert info.value.server == client.name
        assert subscription.end is SubscriptionEnd.LOST
        with pytest.raises(ConnectionLost):
            async with client.listen(TOOLS):
                pytest.fail("entered")


async def test_closing_the_client_is_a_loss() -> None:
    async with session() as (client, peer), listening(client, peer) as (subscription, _):
        async with running(lambda: anext(subscription)) as outcome:
            await settle()
            client.stop()
            await peer.rest()
        (error,) = outcome
        assert isinstance(error, SubscriptionLost)
        assert isinstance(error.__cause__, ClientClosed)


async def test_stop_while_the_acknowledgement_is_awaited() -> None:
    async with session() as (client, peer):

        async def enter() -> None:
            async with client.listen(TOOLS):
                pytest.fail("entered")

        async with running(enter) as outcome:
            await peer.request(LISTEN)
            client.stop()
            await peer.rest()
        assert isinstance(outcome[0], ClientClosed)


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        ({"error": {"code": -32603, "message": "Overloaded"}}, RpcError),
        ({"result": 7}, RemoteProtocolError),
        ({"result": {"big": "x" * 5_000}}, LineTooLong),
    ],
)
async def test_an_answer_that_is_no_result_is_a_loss(answer: Message, cause: type[McpError]) -> None:
    async with (
        session(options=ClientOptions(max_line_bytes=2_000)) as (client, peer),
        listening(client, peer) as (subscription, request),
    ):
        await peer.send(tagged(request["id"]), {"jsonrpc": "2.0", "id": request["id"], **answer})
        assert await take(subscription, 1) == [ToolsListChanged()]
        with pytest.raises(SubscriptionLost) as info:
            await anext(subscription)
        assert isinstance(info.value.__cause__, cause)
        assert subscription.end is SubscriptionEnd.LOST
    assert cancelled_ids(peer) == []


@pytest.mark.parametrize(("code", "kind"), [(-32601, MethodNotFound), (-32603, RpcError)])
async def test_refusal(code: int, kind: type[RpcError]) -> None:
    async with session() as (client, peer):

        async def enter() -> None:
            async with client.listen(TOOLS):
                pytest.fail("entered")

        async with running(enter) as outcome:
            await peer.fail(await peer.request(LISTEN), code, "Not here")
        (error,) = outcome
        assert isinstance(error, kind)
        assert (error.code, error.method, error.server) == (code, LISTEN, client.name)
        assert client.statistics().errors == 1
    assert cancelled_ids(peer) == []


async def test_a_filter_that_has_no_json_form_raises_in_the_caller() -> None:
    async with session() as (client, peer):
        with pytest.raises(LocalProtocolError) as info:
            async with client.listen(SubscriptionFilter(resource_subscriptions=("a:\ud800",))):
                pytest.fail("entered")
        assert info.value.server == client.name
        with pytest.raises(LocalProtocolError):
            client.listen(TOOLS, timeout=-1)
    assert of_method(peer, LISTEN) == []


async def test_what_listen_returns_is_entered_once() -> None:
    async with session() as (client, peer):
        listens = client.listen(TOOLS)

        async def acknowledge() -> None:
            await peer.send(acknowledgement(await peer.request(LISTEN)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(acknowledge)
            async with listens:
                with pytest.raises(LocalProtocolError):
                    await listens.__aenter__()
        with pytest.raises(LocalProtocolError):
            await listens.__aenter__()
    assert len(cancelled_ids(peer)) == 1


# Merging, and its bound


async def test_equal_events_that_wait_are_merged() -> None:
    async with session() as (client, peer), listening(client, peer, ALL) as (subscription, request):
        tag = request["id"]
        for _ in range(3):
            await peer.send(tagged(tag), tagged(tag, UPDATED, uri="a:1"), tagged(tag, UPDATED, uri="a:2"))
        await settle()
        assert "3 events waiting" in repr(subscription)
        assert await take(subscription, 1) == [ToolsListChanged()]
        await peer.send(tagged(tag), tagged(tag, UPDATED, uri="a:2"), result_of(request))
        assert await drain(subscription) == [
            ResourceUpdated("a:1"),
            ResourceUpdated("a:2"),
            ToolsListChanged(),
        ]


@pytest.mark.parametrize("number", [1_024, 1_025])
async def test_too_many_distinct_events_lose_it(number: int) -> None:
    async with session() as (client, peer):
        async with listening(client, peer, ALL) as (subscription, request):
            tag = request["id"]
            lines = [tagged(tag, UPDATED, uri=f"a:1/{each}") for each in range(number)]
            await peer.send(*lines, *lines[:1_024])
            await call(client, peer)
            if number == 1_024:
                assert len(await take(subscription, number)) == number
                assert subscription.end is None
            else:
                with pytest.raises(SubscriptionLost, match="1024 events waited") as info:
                    await anext(subscription)
                assert info.value.__cause__ is not None
                assert subscription.end is SubscriptionEnd.LOST
        assert client.statistics().violations == 0
    assert cancelled_ids(peer) == [request["id"]]


# Limits, slots and counters


@pytest.mark.requirement("SUBS-27")
async def test_an_idle_subscription_never_times_out(autojump_clock: MockClock) -> None:
    options = ClientOptions(request_timeout=5)
    async with session(options=options, seconds=VIRTUAL) as (client, peer):
        async with listening(client, peer) as (subscription, request):
            async with running(lambda: anext(subscription)) as outcome:
                await trio.sleep(15)
                assert cancelled_ids(peer) == []
                await peer.send(tagged(request["id"]))
            assert outcome == [ToolsListChanged()]
            await trio.sleep(3_600)
            assert subscription.end is None
        assert client.statistics().timed_out == 0
    assert cancelled_ids(peer) == [request["id"]]


@pytest.mark.requirement("SUBS-27")
@pytest.mark.parametrize("own", [True, False])
async def test_the_acknowledgement_has_a_limit(autojump_clock: MockClock, own: bool) -> None:
    options = ClientOptions(request_timeout=100 if own else 5)
    async with session(options=options, seconds=VIRTUAL) as (client, peer):

        async def enter() -> None:
            async with client.listen(TOOLS, **({"timeout": 5} if own else {})):
                pytest.fail("entered")

        async with running(enter) as outcome:
            request = await peer.request(LISTEN)
            await trio.sleep(4)
            await peer.notify("notifications/message", {"level": "info", "data": "x"})
        (error,) = outcome
        assert isinstance(error, RequestTimeout)
        assert (error.method, error.request_id, error.timeout, error.elapsed) == (LISTEN, request["id"], 5, 5)
        assert error.received == ("1 line, none of them the answer",)
        await peer.send(acknowledgement(request), tagged(request["id"]), result_of(request))
        await call(client, peer)
        found = client.statistics()
        assert (found.timed_out, found.cancelled, found.late, found.violations) == (1, 1, 1, 0)
    assert cancelled_ids(peer) == [request["id"]]


async def test_no_limit_at_all(autojump_clock: MockClock) -> None:
    async with session(seconds=VIRTUAL) as (client, peer):
        entered = trio.Event()

        async def enter() -> None:
            async with client.listen(TOOLS, timeout=None):
                entered.set()

        async with running(enter):
            request = await peer.request(LISTEN)
            await trio.sleep(1_000)
            assert not entered.is_set()
            await peer.send(acknowledgement(request))
        assert entered.is_set()


async def test_it_holds_no_slot() -> None:
    async with session(options=ClientOptions(max_in_flight=1)) as (client, peer):
        async with (
            listening(client, peer, ALL) as (subscription, request),
            listening(client, peer) as (_, other),
        ):
            found = client.statistics()
            assert (found.in_flight, found.queued, found.waiting, found.requests) == (0, 0, 0, 3)
            async with running(lambda: client.call_tool("t")) as outcome:
                held = await peer.request("tools/call")
                async with listening(client, peer):
                    assert client.statistics().in_flight == 1
                assert (await peer.notification(CANCELLED))["params"]["requestId"] != held["id"]
                await peer.send(tagged(request["id"]))
                assert await take(subscription, 1) == [ToolsListChanged()]
                await peer.reply(held, text("ok"))
            assert outcome[0].text == "ok"
            await call(client, peer)
        await settle()
        assert client.statistics().cancelled == 3
    assert {request["id"], other["id"]} < set(cancelled_ids(peer))


async def test_a_consumer_that_never_reads_holds_nothing_up() -> None:
    async with session() as (client, peer), listening(client, peer, ALL) as (subscription, request):
        for number in range(20):
            lines = [tagged(request["id"], UPDATED, uri=f"a:1/{number}/{each}") for each in range(100)]
            await peer.send(*lines)
            await call(client, peer)
        assert subscription.end is SubscriptionEnd.LOST
        assert client.statistics().notifications == 2_001


async def test_an_error_without_an_id_is_not_for_a_subscription() -> None:
    async with session() as (client, peer), listening(client, peer) as (subscription, request):
        await peer.fail(None, -32700, "Parse error")
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.request("tools/call")
            await peer.fail(None, -32603, "Broken")
        assert isinstance(outcome[0], RpcError)
        assert subscription.end is None
        await peer.send(tagged(request["id"]))
        assert await take(subscription, 1) == [ToolsListChanged()]
        assert client.statistics().null_id_errors == 2


# Cancellation


async def test_cancelled_before_it_is_written_it_leaves_no_trace() -> None:
    async with session() as (client, peer):
        with trio.CancelScope() as scope:
            scope.cancel()
            async with client.listen(TOOLS):
                pytest.fail("entered")
        assert scope.cancelled_caught
        await call(client, peer)
        assert client.statistics().in_flight == 0
    assert of_method(peer, LISTEN) == of_method(peer, CANCELLED) == []


async def test_cancelled_around_the_moment_of_writing() -> None:
    written = 0
    async with session() as (client, peer):
        for _ in range(40):
            async with trio.open_nursery() as nursery:

                async def enter() -> None:
                    async with client.listen(TOOLS):
                        pytest.fail("entered")

                nursery.start_soon(enter)
                before = client.statistics().requests
                while client.statistics().requests == before:
                    await trio.lowlevel.checkpoint()
                written += not client.statistics().queued
                nursery.cancel_scope.cancel()
        await call(client, peer)
    assert len(of_method(peer, LISTEN)) == written
    assert cancelled_ids(peer) == [request["id"] for request in of_method(peer, LISTEN)]


async def test_cancelled_while_it_waits_for_room_it_leaves_no_trace() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    peer, gate = Peer(theirs), trio.Event()
    deliver: Any = ours.send_stream.send_all_hook

    async def deliver_later() -> None:
        await gate.wait()
        await deliver()

    ours.send_stream.send_all_hook = deliver_later

    async def connect() -> trio.abc.HalfCloseableStream:
        return ours

    options = ClientOptions(era="modern", probe=False, max_unsent_bytes=1)
    with alive():
        async with trio.open_nursery() as nursery:
            client = await nursery.start(run_client, StreamTransport(connect), options)
            async with running(lambda: client.call_tool("a")), running(lambda: client.call_tool("b")):
                await settle()  # the one is being written, for as long as the gate is closed; the other waits
                async with trio.open_nursery() as inner:

                    async def enter() -> None:
                        async with client.listen(TOOLS):
                            pytest.fail("entered")

                    inner.start_soon(enter)
                    await settle()
                    assert client.statistics().waiting == 1
                    inner.cancel_scope.cancel()
                gate.set()
                await answer_calls(peer, 2)
            await call(client, peer)
            client.stop()
            nursery.start_soon(peer.rest)
    assert [message["method"] for message in peer.seen] == ["tools/call"] * 3


async def test_cancelled_while_it_waits_for_the_acknowledgement() -> None:
    async with session() as (client, peer):
        async with trio.open_nursery() as nursery:

            async def enter() -> None:
                async with client.listen(TOOLS):
                    pytest.fail("entered")

            nursery.start_soon(enter)
            request = await peer.request(LISTEN)
            nursery.cancel_scope.cancel()
        await peer.send(acknowledgement(request), tagged(request["id"]))
        await call(client, peer)
        found = client.statistics()
        assert (found.cancelled, found.violations) == (1, 0)
    assert cancelled_ids(peer) == [request["id"]]


async def test_cancelled_while_it_iterates() -> None:
    async with session() as (client, peer):
        with trio.CancelScope() as scope:
            async with listening(client, peer) as (subscription, request), trio.open_nursery() as nursery:
                nursery.start_soon(drain, subscription)
                await settle()
                scope.cancel()
        assert scope.cancelled_caught
        assert subscription.end is SubscriptionEnd.CLOSED
    assert cancelled_ids(peer) == [request["id"]]


async def test_a_cancelled_iteration_loses_no_event() -> None:
    async with session() as (client, peer), listening(client, peer) as (subscription, request):
        with trio.move_on_after(0):
            await anext(subscription)
        await peer.send(tagged(request["id"]))
        await settle()
        with trio.CancelScope() as scope:
            scope.cancel()
            await anext(subscription)
        assert scope.cancelled_caught
        assert await take(subscription, 1) == [ToolsListChanged()]


async def test_each_step_of_an_iteration_is_a_checkpoint() -> None:
    async with session() as (client, peer), listening(client, peer) as (subscription, request):
        await peer.send(tagged(request["id"]), result_of(request))
        await settle()
        with trio.testing.assert_checkpoints():
            await anext(subscription)
        with trio.testing.assert_checkpoints(), pytest.raises(StopAsyncIteration):
            await anext(subscription)


# Several tasks


async def test_only_one_task_iterates_at_a_time() -> None:
    async with session() as (client, peer), listening(client, peer) as (subscription, request):
        async with running(lambda: anext(subscription)) as outcome:
            await settle()
            with pytest.raises(LocalProtocolError, match="another task"):
                await anext(subscription)
            await peer.send(tagged(request["id"]))
        assert outcome == [ToolsListChanged()]
        await peer.send(result_of(request))
        assert await drain(subscription) == []


async def test_left_while_another_task_iterates() -> None:
    async with session() as (client, peer):
        async with trio.open_nursery() as nursery:
            got: list[list[SubscriptionEvent]] = []

            async def consume(subscription: Subscription) -> None:
                got.append(await drain(subscription))

            async with listening(client, peer) as (subscription, request):
                nursery.start_soon(consume, subscription)
                await peer.send(tagged(request["id"]))
                await settle()
        assert got == [[ToolsListChanged()]]
        assert subscription.end is SubscriptionEnd.CLOSED
    assert cancelled_ids(peer) == [request["id"]]


@pytest.mark.parametrize("how", ["left", "completed", "cancelled"])
async def test_one_that_is_over_is_freed_without_the_collector(how: str) -> None:
    async with session() as (client, peer):
        gc.collect()
        gc.disable()
        try:
            async with listening(client, peer) as (subscription, request):
                if how != "left":
                    await peer.send(result_of(request) if how == "completed" else cancellation_of(request))
                    await drain(subscription)
            seen = weakref.ref(subscription)
            del subscription
            await settle()
            assert seen() is None
        finally:
            gc.enable()


# Real processes


@pytest.mark.requirement("SUBS-16")
async def test_a_crash_is_a_loss_that_tells_of_the_exit() -> None:
    server = fake("changes")
    with alive(), nothing_left():
        async with open_client(server) as client:
            async with client.listen(TOOLS) as subscription:
                with pytest.raises(ServerExited):
                    await client.call_tool("crash")
                with pytest.raises(SubscriptionLost) as info:
                    await anext(subscription)
                cause = info.value.__cause__
                assert isinstance(cause, ServerExited)
                assert (cause.exit.returncode, cause.exit.stderr_tail.strip()) == (3, "out of order")
            with pytest.raises(ServerExited):
                async with client.listen(TOOLS):
                    pytest.fail("entered")
        assert client.exit is not None
        assert_gone(client.exit.pid)


@pytest.mark.requirement("SUBS-12", "SUBS-16", "CANCEL-16")
@pytest.mark.parametrize(
    ("tool", "end"), [("finish", SubscriptionEnd.COMPLETED), ("cancel", SubscriptionEnd.CANCELLED)]
)
async def test_a_whole_life(tool: str, end: SubscriptionEnd) -> None:
    log, options = logged()
    with alive(), nothing_left():
        async with open_client(fake("changes"), options) as client:
            async with client.listen(ALL) as subscription, client.listen(TOOLS) as other:
                await client.call_tool("touch", {"uri": "a:2"})
                await client.call_tool("lists")
                assert await take(subscription, 4) == [
                    ResourceUpdated("a:2"),
                    ToolsListChanged(),
                    PromptsListChanged(),
                    ResourcesListChanged(),
                ]
                assert await take(other, 1) == [ToolsListChanged()]
                await client.call_tool(tool)
                assert await drain(subscription) == await drain(other) == []
                assert subscription.end is other.end is end
            async with client.listen(TOOLS):
                pass
            assert (await client.call_tool("lists")).text == "ok"
            assert client.statistics().violations == 0
    (notice,) = log.sent_of(CANCELLED)
    assert notice["params"]["requestId"] == log.sent_of(LISTEN)[-1]["id"]


@pytest.mark.field("K115")
@both_eras
async def test_two_hundred_changes_in_one_call_are_one_event_and_nothing_refreshes_by_itself(
    era: str,
) -> None:
    log, options = logged()
    with alive(), nothing_left():
        async with (
            open_client(fake("changes", "restless", era=era), options) as client,
            client.listen(TOOLS) as subscription,
        ):
            await client.call_tool("burst")
            assert log.sent_of("tools/list") == []
            assert await take(subscription, 1) == [ToolsListChanged()]
            # The list changes whenever it is read: each reading brings one event, however many came.
            for _ in range(5):
                await client.list_tools()
                await client.call_tool("burst")
                assert await take(subscription, 1) == [ToolsListChanged()]
            with trio.move_on_after(0) as scope:
                await anext(subscription)
            assert scope.cancelled_caught
    assert len(log.sent_of("tools/list")) == 5
