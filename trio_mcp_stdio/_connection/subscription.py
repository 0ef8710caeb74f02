"""Subscriptions: what a server tells of its changes, as an async iterator.

In a modern connection a subscription is one `subscriptions/listen` request: an entry of the call table that
nobody waits for.  What belongs to it is tagged with its id.  In a legacy session the same object rides on
`resources/subscribe` and on the notifications that a server sends unasked
(specification, basic: subscriptions; 2025-11-25, server: resources, subscriptions).
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import attrs
import trio

from .. import types
from .._errors import LocalProtocolError, McpError, SubscriptionLost
from .._io.waiter import Waiter
from .._wire import methods
from .._wire.calls import Call, CallState
from .._wire.codec import lenient
from .._wire.convert import UNSET, brief
from .._wire.jsonrpc import Notification, RequestId
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

MAX_LEFT: Final = 1_024
"""Subscriptions that were left and are remembered: what the server sent before it knew is no fault."""


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
    """The connection ended, the server answered with an error, or the consumer was too slow."""


_LISTS: Final[Mapping[str, tuple[str, SubscriptionEvent]]] = {
    methods.TOOLS_CHANGED: ("tools_list_changed", ToolsListChanged()),
    methods.PROMPTS_CHANGED: ("prompts_list_changed", PromptsListChanged()),
    methods.RESOURCES_CHANGED: ("resources_list_changed", ResourcesListChanged()),
}


@final
class Subscription:
    """Changes of a server, made by `Client.listen`: `async for event in subscription`.

    Events that are equal to one still waiting are merged.  Iteration ends when the server ends the
    subscription, and raises `SubscriptionLost` when the connection ended, the server answered with an error,
    or more than 1,024 distinct events waited: refetch what matters then, and listen again.  One task at a
    time may iterate; once the subscription was left, its iteration ends too.

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
        self._waiter = _Waiter()
        self._waiting = False
        self.call: Call | None = None
        self._acknowledged = False
        self._failure: McpError | None = None

    def __repr__(self) -> str:
        state = "open" if self.end is None else self.end.value
        return f"<Subscription to {self._server!r}, {state}, {len(self._events)} events waiting>"

    async def acknowledged(self, give_up: Callable[[], None]) -> None:
        """Wait until the server has said what it will report, or has ended the subscription.

        `give_up` is called in the very step in which the wait is cancelled.
        """
        self._waiter.give_up = give_up
        try:
            while not self._acknowledged and self.end is None:
                await self._waiter.wait()
        finally:
            self._waiter.give_up = None

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> SubscriptionEvent:
        if self._waiting:
            raise LocalProtocolError("another task iterates over this subscription", server=self._server)
        self._waiting = True
        try:
            if self._events or self.end is not None:
                await trio.lowlevel.checkpoint()
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


class _Waiter(Waiter):
    """Gives a subscription up in the step in which waiting for its acknowledgement is cancelled.

    Were that left to the task, which runs a tick later, the writer could send the request meanwhile.
    """

    __slots__ = ("give_up",)

    def __init__(self) -> None:
        super().__init__()
        self.give_up: Callable[[], None] | None = None

    def abort(self, raise_cancel: object) -> trio.lowlevel.Abort:
        result = super().abort(raise_cancel)
        if self.give_up is not None:
            self.give_up()
        return result


@attrs.define(eq=False)
class _Uri:
    """A URI that a legacy server is asked to watch.

    Attributes:
        wanted: subscriptions that want it.
        watched: the server has agreed.
        asking: held by the one that asks it; the others wait for the outcome.
    """

    wanted: int = 0
    watched: bool = False
    asking: trio.Lock = attrs.field(factory=trio.Lock)


class Subscriptions:
    """The subscriptions of one session, and the way of notifications to them."""

    def __init__(self, *, notes: Notes, server: str) -> None:
        self._notes = notes
        self._server = server
        self._open: list[Subscription] = []
        self._by_id: dict[RequestId, Subscription] = {}
        self._left: OrderedDict[RequestId, Call] = OrderedDict()
        self._uris: dict[str, _Uri] = {}
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
        call = subscription.call
        if call is not None and self._by_id.pop(call.id, None) is not None:
            call.wake = _nothing  # the call knows the subscription: no cycle is left for the collector
            if call.state is not CallState.QUEUED:
                self._left[call.id] = call
                if len(self._left) > MAX_LEFT:
                    self._left.popitem(last=False)
        self._close(subscription, SubscriptionEnd.CLOSED)

    def finish(self, subscription: Subscription, failure: McpError | None) -> None:
        """The listen request has got an outcome, a result or this error: the subscription ends with it."""
        if failure is None:
            self._close(subscription, SubscriptionEnd.COMPLETED)
        else:
            self._lose(subscription, failure)

    def lose_all(self, failure: McpError) -> None:
        """The connection has ended."""
        for subscription in self._open:
            self._lose(subscription, failure)

    def _lose(self, subscription: Subscription, failure: McpError) -> None:
        if subscription.end is None:
            subscription._failure = failure
            self._close(subscription, SubscriptionEnd.LOST)

    def _close(self, subscription: Subscription, end: SubscriptionEnd) -> None:
        if subscription.end is None:
            subscription.end = end
            subscription._waiter.wake()

    # --- legacy: one resources/subscribe for all who want a URI ---

    async def want_uri(self, uri: str, ask: Callable[[], Awaitable[object]]) -> None:
        """Have a URI watched; `ask` is called unless the server has agreed before, never twice at a time."""
        state = self._uris.setdefault(uri, _Uri())
        state.wanted += 1
        async with state.asking:
            if not state.watched:
                await ask()
                state.watched = True

    def drop_uri(self, uri: str) -> bool:
        """Undo `want_uri`, however that ended; True when nobody wants the URI any more."""
        state = self._uris[uri]
        state.wanted -= 1
        if not state.wanted:
            del self._uris[uri]
        return not state.wanted

    # --- what comes in ---

    def cancelled_by_peer(self, request_id: object) -> Call | None:
        """The listen request that a cancellation of the peer names, None if it names none."""
        subscription = self._find(request_id)
        if subscription is not None:
            self._close(subscription, SubscriptionEnd.CANCELLED)
            return subscription.call
        return self._left.get(request_id) if type(request_id) is int else None

    def deliver(self, notification: Notification) -> None:
        """Hand a notification to the subscriptions it belongs to, if it is about a change."""
        method, params = notification.method, notification.params
        if method not in _ROUTED:
            return
        if self.era is not Era.MODERN:
            self._deliver_untagged(method, params)
            return
        meta = params.get("_meta")
        tag = meta.get(methods.META_SUBSCRIPTION_ID) if isinstance(meta, dict) else None
        target = self._find(tag)
        if target is None:
            if type(tag) is not int or tag not in self._left:
                self._notes.add_violation(
                    "a change notification for no subscription", f"{method}, {brief(tag)}"
                )
        elif method == methods.ACKNOWLEDGED:
            honored = lenient(types.SubscriptionFilter, params.get("notifications"))
            self.acknowledge(target, honored or types.SubscriptionFilter())
        elif not self._offer(target, method, params):
            self._notes.add_violation("a change that was not subscribed to", method)

    def _find(self, tag: object) -> Subscription | None:
        """The subscription with this id: 1 and "1" are different ones, and True is none."""
        subscription = self._by_id.get(tag) if type(tag) is int else None
        if subscription is None or subscription.call is None or subscription.call.state is CallState.QUEUED:
            return None  # nothing can belong to a request that has not been written
        return subscription

    def _deliver_untagged(self, method: str, params: Mapping[str, Any]) -> None:
        """To all who want it; of a resource, to those it seems to concern, else to all who want any."""
        uri = params.get("uri")
        concerned: list[Subscription] = []
        if method == methods.RESOURCE_UPDATED and isinstance(uri, str):
            concerned = [each for each in self._open if _concerns(uri, each.honored)]
        for subscription in concerned or self._open:
            self._offer(subscription, method, params)

    def _offer(self, subscription: Subscription, method: str, params: Mapping[str, Any]) -> bool:
        """Keep an event for a consumer; False if it is not one that was asked for and agreed on."""
        event: SubscriptionEvent
        if method == methods.RESOURCE_UPDATED:
            uri = params.get("uri")
            if not isinstance(uri, str):
                return False
            field, event = "resource_subscriptions", ResourceUpdated(uri)
        elif method in _LISTS:
            field, event = _LISTS[method]
        else:
            return False
        if not (getattr(subscription.requested, field) and getattr(subscription.honored, field)):
            return False
        if subscription.end is not None or event in subscription._events:
            return True
        if len(subscription._events) >= MAX_EVENTS:
            subscription._events.clear()
            failure = McpError(f"more than {MAX_EVENTS} events waited for a consumer", server=self._server)
            self._lose(subscription, failure)
            return True
        subscription._events[event] = None
        subscription._waiter.wake()
        return True


_ROUTED: Final = frozenset({*_LISTS, methods.RESOURCE_UPDATED, methods.ACKNOWLEDGED})


def _nothing() -> None: ...


def _concerns(uri: str, honored: SubscriptionFilter) -> bool:
    """Whether a URI is one of those watched, or by its looks a part of one."""
    return any(
        uri == base or (uri.startswith(base) and (base.endswith("/") or uri[len(base)] in "/?#"))
        for base in honored.resource_subscriptions or ()
    )


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
