"""Opening and leaving a subscription, in both eras."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, final

import trio

from .._connection.session import Session
from .._connection.subscription import Subscription, legacy_honored, wanted_uris
from .._errors import LocalProtocolError, RpcError
from .._wire import methods
from .._wire.codec import encode_params
from .._wire.convert import UNSET
from .._wire.methods import Era

if TYPE_CHECKING:
    from ..types import ServerCapabilities, SubscriptionFilter

__all__ = ["Listening"]


@final
class Listening:
    """Async context manager over one subscription; made by `Client.listen`.

    Args:
        request: sends a request of a legacy session, within the same limit.
        timeout: seconds for the server to acknowledge, None for no limit.
    """

    def __init__(
        self,
        session: Session,
        requested: SubscriptionFilter,
        *,
        era: Era,
        capabilities: ServerCapabilities,
        request: Callable[[str, dict[str, Any]], Awaitable[object]],
        timeout: float | None,
    ) -> None:
        self._session = session
        self._requested = requested
        self._era = era
        self._capabilities = capabilities
        self._request = request
        self._timeout = timeout
        self._subscription: Subscription | None = None
        self._uris: list[str] = []
        self._entered = False

    async def __aenter__(self) -> Subscription:
        if self._entered:
            raise LocalProtocolError("what listen() returns can be entered once", server=self._session.name)
        self._entered = True
        if self._era is Era.MODERN:
            self._subscription = await self._session.listen(self._requested, self._timeout)
            return self._subscription
        await trio.lowlevel.checkpoint()
        if self._session.loss is not None:
            raise self._session.loss.error(server=self._session.name)
        subscriptions = self._session.subscriptions
        self._subscription = subscription = subscriptions.add(self._requested)
        try:
            subscription.honored = self._honored()
            for uri in wanted_uris(self._requested) if self._knows_resources() else ():
                await self._subscribe(subscription, uri)
        except BaseException:
            self._leave()
            raise
        subscriptions.acknowledge(subscription, self._honored())
        return subscription

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        """Synchronous, so that no cancellation can come between."""
        session, subscription = self._session, self._subscription
        assert subscription is not None
        session.unlisten(subscription)
        for uri in self._uris:
            if session.subscriptions.drop_uri(uri) and session.loss is None:
                session.table.post_request(methods.UNSUBSCRIBE, encode_params({"uri": uri}))
                session.pump.kick()
        self._uris.clear()

    def _knows_resources(self) -> bool:
        settings = self._capabilities.resources
        return settings is not UNSET and settings.get("subscribe") is True

    def _honored(self) -> SubscriptionFilter:
        return legacy_honored(self._requested, self._capabilities, tuple(self._uris))

    async def _subscribe(self, subscription: Subscription, uri: str) -> None:
        """One `resources/subscribe` serves all who want a URI; one that the server refuses is left out."""
        self._uris.append(uri)
        subscription.honored = self._honored()  # by now: an update may stand right behind the answer
        try:
            await self._session.subscriptions.want_uri(
                uri, lambda: self._request(methods.SUBSCRIBE, {"uri": uri})
            )
        except RpcError:
            self._uris.remove(uri)
            self._session.subscriptions.drop_uri(uri)
            subscription.honored = self._honored()
