"""Subscriptions against servers that others have published."""

from __future__ import annotations

from typing import Any

import pytest

from helpers import PATIENT, alive, logged, nothing_left
from tests.peers.catalogue import EVERYTHING, FASTMCP, OFFICIAL_MODERN, Peer
from tests.peers.environments import need
from trio_mcp_stdio import (
    Era,
    MethodNotFound,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerExited,
    StdioServer,
    Subscription,
    SubscriptionEnd,
    SubscriptionLost,
    ToolsListChanged,
    open_client,
)
from trio_mcp_stdio.types import SubscriptionFilter

pytestmark = pytest.mark.peers

PROBE = 30.0
"""A probe limit that starting an interpreter on a loaded machine does not use up: the era hangs on it."""

MOTTO = "memo://motto"
EVERY_LIST = SubscriptionFilter(
    tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
)


def launch(peer: Peer) -> StdioServer:
    need(peer.environment)
    command, *start = peer.command()
    return StdioServer(command, start, env=dict(peer.environment.env), name=peer.name, timeouts=PATIENT)


async def take(subscription: Subscription, number: int) -> list[Any]:
    return [await anext(subscription) for _ in range(number)]


@pytest.mark.requirement("SUBS-07", "SUBS-10", "SUBS-11", "SUBS-12")
async def test_official_server_tells_each_subscription_what_it_asked_for() -> None:
    server = launch(OFFICIAL_MODERN)
    log, options = logged(probe_timeout=PROBE)
    with alive(60), nothing_left():
        async with open_client(server, options) as client:
            assert client.era is Era.MODERN
            one_resource = SubscriptionFilter(resource_subscriptions=(MOTTO,))
            async with (
                client.listen(one_resource) as resource,
                client.listen(EVERY_LIST) as lists,
            ):
                assert resource.honored == resource.requested
                assert lists.honored == lists.requested
                await client.call_tool("change", {"uri": "memo://other"})
                await client.call_tool("change", {"uri": MOTTO})
                await client.call_tool("change_lists")
                assert await take(resource, 1) == [ResourceUpdated(MOTTO)]
                assert await take(lists, 3) == [
                    ToolsListChanged(),
                    PromptsListChanged(),
                    ResourcesListChanged(),
                ]
                assert (await client.read_resource(MOTTO)).contents
            await client.call_tool("change", {"uri": MOTTO})
            await client.call_tool("change_lists")
            found = client.statistics()
            assert (found.violations, found.unmatched, found.late) == (0, 0, 0)
    listens = [request["id"] for request in log.sent_of("subscriptions/listen")]
    notices = [notice["params"]["requestId"] for notice in log.sent_of("notifications/cancelled")]
    assert sorted(notices) == listens
    assert len(listens) == 2


@pytest.mark.requirement("SUBS-16")
async def test_crash_of_the_official_server_is_a_loss() -> None:
    server = launch(OFFICIAL_MODERN)
    _, options = logged(probe_timeout=PROBE)
    with alive(60), nothing_left():
        async with open_client(server, options) as client, client.listen(EVERY_LIST) as subscription:
            with pytest.raises(ServerExited):
                await client.call_tool("crash")
            with pytest.raises(SubscriptionLost) as info:
                await anext(subscription)
            assert isinstance(info.value.__cause__, ServerExited)
            assert subscription.end is SubscriptionEnd.LOST


@pytest.mark.slow
async def test_fastmcp() -> None:
    server = launch(FASTMCP)
    _, options = logged(probe_timeout=PROBE)
    with alive(60), nothing_left():
        async with open_client(server, options) as client:
            with pytest.raises(MethodNotFound):
                async with client.listen(EVERY_LIST):
                    pytest.fail("entered")
            assert (await client.call_tool("echo", {"text": "still there"})).text == "still there"


@pytest.mark.requirement("LEG-RES-01")
async def test_server_everything_tells_of_the_resources_that_were_subscribed_to() -> None:
    server = launch(EVERYTHING)
    log, options = logged(probe_timeout=PROBE)
    with alive(60), nothing_left():
        async with open_client(server, options) as client:
            assert client.era is Era.LEGACY
            uris = [resource.uri for resource in (await client.list_resources()).resources][:2]
            wanted = SubscriptionFilter(tools_list_changed=True, resource_subscriptions=tuple(uris))
            async with (
                client.listen(wanted) as both,
                client.listen(SubscriptionFilter(resource_subscriptions=(uris[0],))) as first,
            ):
                assert both.honored == wanted
                await client.call_tool("toggle-subscriber-updates")  # one round now, later ones in time
                try:
                    assert set(await take(both, 2)) == {ResourceUpdated(uri) for uri in uris}
                    assert await take(first, 1) == [ResourceUpdated(uris[0])]
                finally:
                    await client.call_tool("toggle-subscriber-updates")
            await client.list_tools()
            assert client.statistics().violations == 0

    def asked(method: str) -> list[str]:
        return [message["params"]["uri"] for message in log.sent_of(method)]

    assert asked("resources/subscribe") == uris
    assert sorted(asked("resources/unsubscribe")) == sorted(uris)
