"""Subscriptions: which changes a client wants to hear of."""

from __future__ import annotations

from typing import Any, final

import attrs

from .._wire.convert import UNSET, JsonObject, UnsetType, WireModel
from ..types import RequestId

__all__ = [
    "SubscriptionFilter",
    "SubscriptionsAcknowledgedNotificationParams",
    "SubscriptionsListenRequestParams",
    "SubscriptionsListenResult",
]


def _subscription_id(meta: JsonObject | UnsetType) -> RequestId | None:
    stated: Any = meta.get("io.modelcontextprotocol/subscriptionId") if meta else None
    return stated if isinstance(stated, int | str) and not isinstance(stated, bool) else None


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class SubscriptionFilter(WireModel):
    """The changes that a client wants to hear of (basic/patterns/subscriptions)."""

    tools_list_changed: bool | UnsetType = UNSET
    """Changes of the list of tools."""
    prompts_list_changed: bool | UnsetType = UNSET
    """Changes of the list of prompts."""
    resources_list_changed: bool | UnsetType = UNSET
    """Changes of the list of resources."""
    resource_subscriptions: tuple[str, ...] | UnsetType = UNSET
    """URIs of the resources whose changes count."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class SubscriptionsListenRequestParams(WireModel):
    """Parameters of `subscriptions/listen` (basic/patterns/subscriptions)."""

    notifications: SubscriptionFilter
    """The changes wanted."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class SubscriptionsAcknowledgedNotificationParams(WireModel):
    """Parameters of `notifications/subscriptions/acknowledged` (basic/patterns/subscriptions)."""

    notifications: SubscriptionFilter
    """Those of the changes wanted that the server will report."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""

    @property
    def subscription_id(self) -> RequestId | None:
        """Id of the `subscriptions/listen` request, None where the metadata states none."""
        return _subscription_id(self.meta)


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class SubscriptionsListenResult(WireModel):
    """Tells that the server ended the subscription (basic/patterns/subscriptions)."""

    meta: JsonObject | UnsetType = UNSET
    """Metadata."""
    result_type: str | UnsetType = UNSET
    """`complete`; absent counts as that."""

    @property
    def subscription_id(self) -> RequestId | None:
        """Id of the `subscriptions/listen` request, None where the metadata states none."""
        return _subscription_id(self.meta)
