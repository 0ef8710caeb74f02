"""Subscriptions of a legacy session: `resources/subscribe`, and notifications that nobody asked for."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from helpers import alive, fake, logged, nothing_left
from scripted import LEGACY_VERSIONS, Peer, running, session, text
from trio_mcp_stdio import (
    Client,
    ClientClosed,
    ClientOptions,
    ConnectionLost,
    LocalProtocolError,
    PromptsListChanged,
    RequestTimeout,
    ResourcesListChanged,
    ResourceUpdated,
    ServerExited,
    Subscription,
    SubscriptionEnd,
    SubscriptionLost,
    ToolsListChanged,
    open_client,
)
from trio_mcp_stdio.types import SubscriptionFilter

SUBSCRIBE = "resources/subscribe"
UNSUBSCRIBE = "resources/unsubscribe"
UPDATED = "notifications/resources/updated"
EVERYTHING: dict[str, Any] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}
LISTS = SubscriptionFilter(tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True)
VIRTUAL = 100_000
"""Limit of a test on a virtual clock."""


def uris(*each: str) -> SubscriptionFilter:
    return SubscriptionFilter(resource_subscriptions=each)


@asynccontextmanager
async def legacy(options: ClientOptions | None = None, **more: Any) -> AsyncIterator[tuple[Client, Peer]]:
    more.setdefault("capabilities", EVERYTHING)
    async with session("legacy", options, **more) as found:
        yield found


@asynccontextmanager
async def listening(
    client: Client, peer: Peer, requested: SubscriptionFilter, asked: int = 0, refuse: str = ""
) -> AsyncIterator[Subscription]:
    """A subscription, after the peer has answered so many `resources/subscribe`; it may refuse one URI."""
    async with contextlib.AsyncExitStack() as stack:
        async with trio.open_nursery() as nursery:

            async def answer() -> None:
                for _ in range(asked):
                    request = await peer.request(SUBSCRIBE)
                    if request["params"]["uri"] == refuse:
                        await peer.fail(request, -32002, "Resource not found")
                    else:
                        await peer.reply(request, {})

            nursery.start_soon(answer)
            subscription = await stack.enter_async_context(client.listen(requested))
        yield subscription


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked()


async def updated(peer: Peer, *changed: str) -> None:
    for uri in changed:
        await peer.notify(UPDATED, {"uri": uri})
    await settle()


def waiting(subscription: Subscription) -> list[Any]:
    """The events that wait, without taking them."""
    return list(subscription._events)


def exchange(peer: Peer) -> list[tuple[str, str]]:
    """What was subscribed to and unsubscribed from, in order."""
    return [
        (message["method"], message["params"]["uri"])
        for message in peer.seen
        if message.get("method") in (SUBSCRIBE, UNSUBSCRIBE)
    ]


# What is honored


@pytest.mark.requirement("LEG-RES-01")
@pytest.mark.parametrize("version", LEGACY_VERSIONS)
async def test_subscribe_update_unsubscribe(version: str) -> None:
    async with legacy(version=version) as (client, peer):
        async with listening(client, peer, uris("a:1"), 1) as subscription:
            assert subscription.honored == subscription.requested == uris("a:1")
            await updated(peer, "a:1")
            assert await anext(subscription) == ResourceUpdated("a:1")
            assert client.statistics().in_flight == 0
        assert subscription.end is SubscriptionEnd.CLOSED
        request = await peer.request(UNSUBSCRIBE)
        await peer.reply(request, {})
        await updated(peer, "a:1")
        assert [event async for event in subscription] == []
        found = client.statistics()
        assert (found.unmatched, found.violations, found.cancelled) == (0, 0, 0)
    assert exchange(peer) == [(SUBSCRIBE, "a:1"), (UNSUBSCRIBE, "a:1")]


@pytest.mark.parametrize("settings", [{}, {"listChanged": False}, {"listChanged": "yes"}, {"listChanged": 1}])
async def test_only_what_was_declared_is_honored(settings: dict[str, Any]) -> None:
    capabilities = {"tools": settings, "resources": {**settings, "subscribe": False}}
    requested = SubscriptionFilter(
        tools_list_changed=True, prompts_list_changed=True, resource_subscriptions=("a:1",)
    )
    async with legacy(capabilities=capabilities) as (client, peer):
        async with listening(client, peer, requested) as subscription:
            assert subscription.honored == SubscriptionFilter()
            assert subscription.requested is requested
            await peer.notify("notifications/tools/list_changed")
            await updated(peer, "a:1")
            assert waiting(subscription) == []
        assert client.statistics().violations == 0
    assert exchange(peer) == []


async def test_lists_that_were_asked_for_and_declared() -> None:
    requested = SubscriptionFilter(tools_list_changed=True, prompts_list_changed=False)
    async with legacy() as (client, peer), listening(client, peer, requested) as subscription:
        assert subscription.honored == SubscriptionFilter(tools_list_changed=True)
        for kind in ("prompts", "resources", "tools", "tools"):
            await peer.notify(f"notifications/{kind}/list_changed")
        await settle()
        assert waiting(subscription) == [ToolsListChanged()]


async def test_list_changes_reach_everyone_once_each() -> None:
    async with (
        legacy() as (client, peer),
        listening(client, peer, LISTS) as one,
        listening(client, peer, LISTS) as two,
    ):
        for kind in ("tools", "prompts", "resources") * 2:
            # A tag means nothing here.
            await peer.notify(
                f"notifications/{kind}/list_changed",
                {"_meta": {"io.modelcontextprotocol/subscriptionId": 999}},
            )
        await settle()
        expected = [ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()]
        assert waiting(one) == waiting(two) == expected
        assert client.statistics().violations == 0
    assert exchange(peer) == []


async def test_one_uri_is_refused_and_the_others_stand() -> None:
    async with legacy() as (client, peer):
        requested = uris("a:1", "a:2", "a:1", "a:3")
        async with listening(client, peer, requested, 3, refuse="a:2") as subscription:
            assert subscription.honored == uris("a:1", "a:3")
            await updated(peer, "a:1", "a:3")
            assert waiting(subscription) == [ResourceUpdated("a:1"), ResourceUpdated("a:3")]
    assert exchange(peer) == [
        (SUBSCRIBE, "a:1"),
        (SUBSCRIBE, "a:2"),
        (SUBSCRIBE, "a:3"),
        (UNSUBSCRIBE, "a:1"),
        (UNSUBSCRIBE, "a:3"),
    ]


async def test_an_update_right_behind_the_answer_is_not_lost() -> None:
    async with legacy() as (client, peer):
        got: list[Any] = []

        async def consume() -> None:
            async with client.listen(uris("a:1")) as subscription:
                got.append(await anext(subscription))

        async with running(consume):
            request = await peer.request(SUBSCRIBE)
            await peer.send(
                {"jsonrpc": "2.0", "id": request["id"], "result": {}},
                {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": "a:1"}},
            )
    assert got == [ResourceUpdated("a:1")]


# Several that want the same


@pytest.mark.requirement("LEG-RES-01")
async def test_several_share_one_request_and_the_last_to_leave_ends_it() -> None:
    async with legacy() as (client, peer), listening(client, peer, uris("a:1"), 1) as one:
        async with listening(client, peer, uris("a:1", "a:2"), 1) as two:
            assert (one.honored, two.honored) == (uris("a:1"), uris("a:1", "a:2"))
            await updated(peer, "a:1")
            assert waiting(one) == waiting(two) == [ResourceUpdated("a:1")]
        await settle()
        await updated(peer, "a:1/x")
        assert waiting(one) == [ResourceUpdated("a:1"), ResourceUpdated("a:1/x")]
    assert exchange(peer) == [
        (SUBSCRIBE, "a:1"),
        (SUBSCRIBE, "a:2"),
        (UNSUBSCRIBE, "a:2"),
        (UNSUBSCRIBE, "a:1"),
    ]


@pytest.mark.requirement("LEG-RES-01")
async def test_after_the_last_has_left_it_is_asked_again() -> None:
    async with legacy() as (client, peer):
        for _ in range(2):
            async with listening(client, peer, uris("a:1"), 1):
                pass
            await peer.reply(await peer.request(UNSUBSCRIBE), {})
        await settle()
        assert client.statistics().unmatched == 0
    assert exchange(peer) == [(SUBSCRIBE, "a:1"), (UNSUBSCRIBE, "a:1")] * 2


async def test_an_update_goes_to_those_it_concerns() -> None:
    async with (
        legacy() as (client, peer),
        listening(client, peer, uris("file:///a", "db:x"), 2) as one,
        listening(client, peer, uris("file:///a/b", "file:///c/"), 2) as two,
        listening(client, peer, LISTS) as three,
    ):
        await updated(peer, "file:///a/b", "db:x", "file:///ab", "file:///c/d")
        assert waiting(one) == [
            ResourceUpdated("file:///a/b"),  # a part of what it wants
            ResourceUpdated("db:x"),
            ResourceUpdated("file:///ab"),  # nobody can tell whose it is
        ]
        assert waiting(two) == [
            ResourceUpdated("file:///a/b"),
            ResourceUpdated("file:///ab"),
            ResourceUpdated("file:///c/d"),
        ]
        assert waiting(three) == []


@pytest.mark.parametrize("refused", [False, True])
async def test_who_comes_while_the_server_is_asked_waits_for_its_answer(refused: bool) -> None:
    async with legacy() as (client, peer):
        honored: list[SubscriptionFilter] = []
        left = trio.Event()

        async def enter() -> None:
            async with client.listen(uris("a:1")) as subscription:
                honored.append(subscription.honored)
                await left.wait()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(enter)
            nursery.start_soon(enter)
            first = await peer.request(SUBSCRIBE)
            await settle()
            assert honored == []
            if refused:
                await peer.fail(first, -32002, "Resource not found")
                await peer.fail(await peer.request(SUBSCRIBE), -32002, "Resource not found")
            else:
                await peer.reply(first, {})
            await settle()
            left.set()
    expected = SubscriptionFilter() if refused else uris("a:1")
    assert honored == [expected, expected]
    rest = [(SUBSCRIBE, "a:1")] if refused else [(UNSUBSCRIBE, "a:1")]
    assert exchange(peer) == [(SUBSCRIBE, "a:1"), *rest]


async def test_who_waited_asks_when_the_first_is_cancelled() -> None:
    async with legacy() as (client, peer), trio.open_nursery() as nursery:
        scope, entered = trio.CancelScope(), trio.Event()

        async def first() -> None:
            with scope:
                async with client.listen(uris("a:1")):
                    pytest.fail("entered")

        async def second() -> None:
            async with client.listen(uris("a:1")) as subscription:
                assert subscription.honored == uris("a:1")
                entered.set()

        nursery.start_soon(first)
        request = await peer.request(SUBSCRIBE)
        nursery.start_soon(second)
        await settle()
        scope.cancel()
        notice = await peer.notification("notifications/cancelled")
        assert notice["params"]["requestId"] == request["id"]
        await peer.reply(await peer.request(SUBSCRIBE), {})
        await entered.wait()
        await peer.request(UNSUBSCRIBE)
    assert exchange(peer) == [(SUBSCRIBE, "a:1"), (SUBSCRIBE, "a:1"), (UNSUBSCRIBE, "a:1")]


# Leaving and losing


@pytest.mark.requirement("LEG-RES-01")
async def test_leaving_while_cancelled_unsubscribes_as_well() -> None:
    async with legacy() as (client, peer):
        with trio.CancelScope() as scope:
            async with listening(client, peer, uris("a:1", "a:2"), 2) as subscription:
                scope.cancel()
                await anext(subscription)
        assert scope.cancelled_caught
        assert subscription.end is SubscriptionEnd.CLOSED
    assert exchange(peer)[2:] == [(UNSUBSCRIBE, "a:1"), (UNSUBSCRIBE, "a:2")]


async def test_cancelled_in_the_middle_of_entering_it_undoes_what_was_done() -> None:
    async with legacy() as (client, peer), trio.open_nursery() as nursery:

        async def enter() -> None:
            async with client.listen(uris("a:1", "a:2", "a:3")):
                pytest.fail("entered")

        nursery.start_soon(enter)
        await peer.reply(await peer.request(SUBSCRIBE), {})
        await peer.request(SUBSCRIBE)
        nursery.cancel_scope.cancel()
    assert exchange(peer)[2:] == [(UNSUBSCRIBE, "a:1"), (UNSUBSCRIBE, "a:2")]


async def test_a_server_that_does_not_answer_runs_into_the_limit(autojump_clock: MockClock) -> None:
    async with legacy(ClientOptions(request_timeout=5), seconds=VIRTUAL) as (client, peer):

        async def enter() -> None:
            async with client.listen(uris("a:1", "a:2")):
                pytest.fail("entered")

        async with running(enter) as outcome:
            await peer.reply(await peer.request(SUBSCRIBE), {})
            await peer.request(SUBSCRIBE)
        (error,) = outcome
        assert isinstance(error, RequestTimeout)
        assert (error.method, error.timeout) == (SUBSCRIBE, 5)
        assert client.statistics().timed_out == 1
    assert exchange(peer)[2:] == [(UNSUBSCRIBE, "a:1"), (UNSUBSCRIBE, "a:2")]


async def test_it_never_times_out_once_entered(autojump_clock: MockClock) -> None:
    async with (
        legacy(ClientOptions(request_timeout=5), seconds=VIRTUAL) as (client, peer),
        listening(client, peer, uris("a:1"), 1) as subscription,
    ):
        await trio.sleep(3_600)
        await updated(peer, "a:1")
        assert await anext(subscription) == ResourceUpdated("a:1")


async def test_left_while_another_task_iterates() -> None:
    async with legacy() as (client, peer), trio.open_nursery() as nursery:
        got: list[Any] = []

        async def consume(subscription: Subscription) -> None:
            got.extend([event async for event in subscription])
            got.append("ended")

        async with listening(client, peer, uris("a:1"), 1) as subscription:
            nursery.start_soon(consume, subscription)
            await updated(peer, "a:1")
            with pytest.raises(LocalProtocolError):
                await anext(subscription)
        await settle()
        assert got == [ResourceUpdated("a:1"), "ended"]


async def test_loss_of_the_connection_ends_all() -> None:
    async with (
        legacy() as (client, peer),
        listening(client, peer, uris("a:1"), 1) as one,
        listening(client, peer, LISTS) as two,
    ):
        await updated(peer, "a:1")
        await peer.stream.send_eof()
        assert await anext(one) == ResourceUpdated("a:1")
        for subscription in (one, two):
            with pytest.raises(SubscriptionLost) as info:
                await anext(subscription)
            assert isinstance(info.value.__cause__, ConnectionLost)
            assert subscription.end is SubscriptionEnd.LOST
        # One that asks the server for nothing would wait for ever.
        for requested in (LISTS, uris("a:2")):
            with pytest.raises(ConnectionLost):
                async with client.listen(requested):
                    pytest.fail("entered")


async def test_closing_the_client_is_a_loss() -> None:
    async with legacy() as (client, peer), listening(client, peer, LISTS) as subscription:
        async with running(lambda: anext(subscription)) as outcome:
            await settle()
            client.stop()
            await peer.rest()
        (error,) = outcome
        assert isinstance(error, SubscriptionLost)
        assert isinstance(error.__cause__, ClientClosed)


async def test_too_many_distinct_events_lose_the_slow_one_only() -> None:
    async with (
        legacy() as (client, peer),
        listening(client, peer, uris("a:1"), 1) as slow,
        listening(client, peer, uris("a:1")) as quick,
    ):
        for number in range(1_025):
            await peer.notify(UPDATED, {"uri": f"a:1/{number}"})
            assert await anext(quick) == ResourceUpdated(f"a:1/{number}")
        with pytest.raises(SubscriptionLost, match="1024 events waited"):
            await anext(slow)
        assert quick.end is None
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request("tools/call"), text("ok"))
        assert outcome[0].text == "ok"


@pytest.mark.parametrize("params", [None, {}, {"uri": 7}, {"uri": None}])
async def test_an_update_without_a_uri_reaches_nobody(params: object) -> None:
    async with legacy() as (client, peer), listening(client, peer, uris("a:1"), 1) as subscription:
        await peer.notify(UPDATED, params)
        await settle()
        assert waiting(subscription) == []


async def test_each_step_of_entering_is_a_checkpoint() -> None:
    async with legacy() as (client, _):
        with trio.testing.assert_checkpoints():
            listens = client.listen(LISTS)
            await listens.__aenter__()
        await listens.__aexit__(None, None, None)
        with pytest.raises(LocalProtocolError):
            await listens.__aenter__()


# Real processes


@pytest.mark.requirement("LEG-RES-01")
async def test_a_whole_life() -> None:
    log, options = logged()
    requested = SubscriptionFilter(tools_list_changed=True, resource_subscriptions=("a:1", "a:2"))
    with alive(), nothing_left():
        async with open_client(fake("changes", era="legacy"), options) as client:
            async with client.listen(requested) as subscription:
                assert subscription.honored == requested
                await client.call_tool("touch", {"uri": "a:3"})
                await client.call_tool("touch", {"uri": "a:2"})
                await client.call_tool("lists")
                got = [await anext(subscription) for _ in range(2)]
                assert got == [ResourceUpdated("a:2"), ToolsListChanged()]
            async with client.listen(LISTS) as other:
                await client.call_tool("touch", {"uri": "a:2"})
                assert waiting(other) == []
    assert [message["params"]["uri"] for message in log.sent_of(UNSUBSCRIBE)] == ["a:1", "a:2"]


async def test_a_crash_is_a_loss_that_tells_of_the_exit() -> None:
    with alive(), nothing_left():
        async with (
            open_client(fake("changes", era="legacy")) as client,
            client.listen(uris("a:1")) as subscription,
        ):
            with pytest.raises(ServerExited):
                await client.call_tool("crash")
            with pytest.raises(SubscriptionLost) as info:
                await anext(subscription)
            assert isinstance(info.value.__cause__, ServerExited)
            assert info.value.__cause__.exit.returncode == 3
