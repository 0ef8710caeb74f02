"""Subscriptions: what a server tells of its changes, as an async iterator.

In a modern connection a subscription is one `subscriptions/listen` request: an entry of the call table that
nobody waits for.  What belongs to it is tagged with its id.  In a legacy session the same object rides on
`resources/subscribe` and on the notifications that a server sends unasked
(specification, basic: subscriptions; 2025-11-25, server: resources, subscriptions).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import attrs

from .. import types
from .._errors import LocalProtocolError, McpError, SubscriptionLost
from .._io.waiter import Waiter
from .._wire import methods
from .._wire.calls import Call, LostCall
from .._wire.codec import lenient
from .._wire.convert import UNSET
from .._wire.jsonrpc import Notification, RequestId, Success
from .._wire.methods import Era
from .notes import Notes

if TYPE_CHECKING:
    from ..types import SubscriptionFilter

__all__ = [
    "PromptsListChanged",
    "ResourceUpdated",
    "ResourcesListChanged",
    "Subscription",
    "SubscriptionEnd",
    "SubscriptionEvent",
    "Subscriptions",
    "ToolsListChanged",
]

MAX_EVENTS: Final = 1_024
"""Distinct events that may wait for a consumer; past it the subscription is lost, and says so."""


@final
@attrs.frozen
class ToolsListChanged:
    """The list of tools has changed."""


@final
@attrs.frozen
class PromptsListChanged:
    """The list of prompts has changed."""


@final
@attrs.frozen
class ResourcesListChanged:
    """The list of resources, or of resource templates, has changed."""


@final
@attrs.frozen
class ResourceUpdated:
    """A resource has changed; `uri` may name a part of one that was subscribed to."""

    uri: str


SubscriptionEvent: TypeAlias = ToolsListChanged | PromptsListChanged | ResourcesListChanged | ResourceUpdated


class SubscriptionEnd(enum.Enum):
    """How a subscription ended."""

    COMPLETED = "completed"
    """The server ended it with a result."""
    CANCELLED = "cancelled"
    """The server ended it with a cancellation."""
    CLOSED = "closed"
    """This side left it."""
    LOST = "lost"
    """The connection ended, or the consumer was too slow."""


_LISTS: Final[Mapping[str, tuple[str, SubscriptionEvent]]] = {
    methods.TOOLS_CHANGED: ("tools_list_changed", ToolsListChanged()),
    methods.PROMPTS_CHANGED: ("prompts_list_changed", PromptsListChanged()),
    methods.RESOURCES_CHANGED: ("resources_list_changed", ResourcesListChanged()),
}


@final
class Subscription:
    """Changes of a server, made by `Client.listen`: `async for event in subscription`.

    Events that are equal to one still waiting are merged.  Iteration ends when the server ends the
    subscription, and raises `SubscriptionLost` when the connection ended or more than 1,024 distinct events
    waited: refetch what matters then, and listen again.  One task at a time may iterate.

    Attributes:
        requested: what was asked for.
        honored: what the server agreed to report, which may be less.
        end: how it ended, None while it lives.
    """

    def __init__(self, requested: SubscriptionFilter, *, server: str) -> None:
        self.requested = requested
        self.honored: SubscriptionFilter = types.SubscriptionFilter()
        self.end: SubscriptionEnd | None = None
        self._server = server
        self._events: dict[SubscriptionEvent, None] = {}
        self._waiter = Waiter()
        self._waiting = False
        self.call: Call | None = None
        self._acknowledged = False
        self._failure: McpError | None = None

    def __repr__(self) -> str:
        state = "open" if self.end is None else self.end.value
        return f"<Subscription to {self._server!r}, {state}, {len(self._events)} events waiting>"

    async def acknowledged(self) -> None:
        """Wait until the server has said what it will report, or has ended the subscription."""
        while not self._acknowledged and self.end is None:
            await self._waiter.wait()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> SubscriptionEvent:
        if self._waiting:
            raise LocalProtocolError("another task iterates over this subscription", server=self._server)
        self._waiting = True
        try:
            while not self._events and self.end is None:
                await self._waiter.wait()
        finally:
            self._waiting = False
        if self._events:
            event = next(iter(self._events))
            del self._events[event]
            return event
        if self.end is SubscriptionEnd.LOST:
            assert self._failure is not None
            raise SubscriptionLost(self._failure.message, server=self._server) from self._failure
        raise StopAsyncIteration


class Subscriptions:
    """The subscriptions of one session, and the way of notifications to them."""

    def __init__(self, *, notes: Notes, server: str) -> None:
        self._notes = notes
        self._server = server
        self._open: list[Subscription] = []
        self._by_id: dict[RequestId, Subscription] = {}
        self._uris: dict[str, int] = {}
        self.era: Era | None = None

    def __repr__(self) -> str:
        return f"<Subscriptions: {len(self._open)} open>"

    # --- life of one ---

    def add(self, requested: SubscriptionFilter) -> Subscription:
        """Make a subscription, which gets no events yet."""
        subscription = Subscription(requested, server=self._server)
        self._open.append(subscription)
        return subscription

    def bind(self, subscription: Subscription, call: Call) -> None:
        """In a modern connection: the listen request that events are tagged with."""
        subscription.call = call
        self._by_id[call.id] = subscription

    def acknowledge(self, subscription: Subscription, honored: SubscriptionFilter) -> None:
        """What the server will report; the first word counts."""
        if not subscription._acknowledged:
            subscription._acknowledged = True
            subscription.honored = honored
            subscription._waiter.wake()

    def remove(self, subscription: Subscription) -> None:
        """This side leaves it."""
        if subscription in self._open:
            self._open.remove(subscription)
        if subscription.call is not None:
            self._by_id.pop(subscription.call.id, None)
        if subscription.end is None:
            subscription.end = SubscriptionEnd.CLOSED
        subscription._waiter.wake()

    def wake(self, subscription: Subscription) -> None:
        """The listen request has got an outcome: the subscription ends with it."""
        call = subscription.call
        if call is None or call.outcome is None or subscription.end is not None:
            return
        if isinstance(call.outcome, LostCall):
            self._lose(subscription, call.outcome.why.error(server=self._server, method=methods.LISTEN))
        else:
            succeeded = isinstance(call.outcome, Success)
            subscription.end = SubscriptionEnd.COMPLETED if succeeded else SubscriptionEnd.LOST
            subscription._waiter.wake()

    def lose_all(self, failure: McpError) -> None:
        """The connection has ended."""
        for subscription in self._open:
            self._lose(subscription, failure)

    def _lose(self, subscription: Subscription, failure: McpError) -> None:
        if subscription.end is None:
            subscription.end = SubscriptionEnd.LOST
            subscription._failure = failure
            subscription._waiter.wake()

    # --- legacy: one resources/subscribe for all who want a URI ---

    def count_uri(self, uri: str, change: int) -> int:
        """Add to the number of subscriptions that want a URI; returns it."""
        count = self._uris.get(uri, 0) + change
        if count > 0:
            self._uris[uri] = count
        else:
            self._uris.pop(uri, None)
        return count

    # --- what comes in ---

    def cancelled_by_peer(self, request_id: object) -> Call | None:
        """The listen request that a cancellation of the peer names, None if it names none."""
        subscription = self._by_id.get(request_id) if type(request_id) is int else None
        if subscription is None or subscription.call is None:
            return None
        if subscription.end is None:
            subscription.end = SubscriptionEnd.CANCELLED
            subscription._waiter.wake()
        return subscription.call

    def deliver(self, notification: Notification) -> None:
        """Hand a notification to the subscriptions it belongs to, if it is about a change."""
        method, params = notification.method, notification.params
        if method not in _ROUTED:
            return
        if self.era is not Era.MODERN:
            for subscription in self._open:
                self._offer(subscription, method, params, tagged=False)
            return
        meta = params.get("_meta")
        tag = meta.get(methods.META_SUBSCRIPTION_ID) if isinstance(meta, dict) else None
        # 1 and "1" are different subscriptions, and True is none.
        target = self._by_id.get(tag) if type(tag) is int else None
        if target is None:
            self._notes.add_violation("a change notification for no subscription", f"{method}, {tag!r:.60}")
        elif method == methods.ACKNOWLEDGED:
            honored = lenient(types.SubscriptionFilter, params.get("notifications"))
            self.acknowledge(target, honored or types.SubscriptionFilter())
        else:
            self._offer(target, method, params, tagged=True)

    def _offer(
        self, subscription: Subscription, method: str, params: Mapping[str, Any], *, tagged: bool
    ) -> None:
        honored = subscription.honored
        event: SubscriptionEvent
        if method == methods.RESOURCE_UPDATED:
            uri = params.get("uri")
            wanted = bool(honored.resource_subscriptions) and isinstance(uri, str)
            event = ResourceUpdated(str(uri))
        elif method in _LISTS:
            field, event = _LISTS[method]
            wanted = bool(getattr(honored, field))
        else:
            return
        if not wanted:
            if tagged:
                self._notes.add_violation("a change that was not subscribed to", method)
            return
        if subscription.end is not None or event in subscription._events:
            return
        if len(subscription._events) >= MAX_EVENTS:
            subscription._events.clear()
            failure = McpError(f"more than {MAX_EVENTS} events waited for a consumer", server=self._server)
            self._lose(subscription, failure)
            return
        subscription._events[event] = None
        subscription._waiter.wake()


_ROUTED: Final = frozenset({*_LISTS, methods.RESOURCE_UPDATED, methods.ACKNOWLEDGED})


def wanted_uris(requested: SubscriptionFilter) -> Iterator[str]:
    """The URIs of a filter, each once."""
    yield from dict.fromkeys(requested.resource_subscriptions or ())


def legacy_honored(
    requested: SubscriptionFilter, capabilities: Any, uris: tuple[str, ...]
) -> SubscriptionFilter:
    """What a legacy server reports by what it announced: list changes it has declared, and these URIs."""

    def declared(name: str) -> bool:
        settings = getattr(capabilities, name)
        return isinstance(settings, Mapping) and settings.get("listChanged") is True

    chosen: dict[str, Any] = {
        f"{name}_list_changed": True
        for name in ("tools", "prompts", "resources")
        if getattr(requested, f"{name}_list_changed") and declared(name)
    }
    return types.SubscriptionFilter(**chosen, resource_subscriptions=uris or UNSET)
