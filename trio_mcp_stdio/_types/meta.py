"""Parameters and results that carry nothing but metadata, and the metadata that the protocol defines.

The field `meta` of a data class is a plain mapping, since anybody may put members of their own there.
The classes here describe the members that the specification defines.
"""

from __future__ import annotations

from typing import final

import attrs

from .._wire.convert import SOFT, UNSET, WIRE_NAME, JsonObject, UnsetType, WireModel
from ..types import ClientCapabilities, Implementation, LoggingLevel, ProgressToken, RequestId

__all__ = [
    "EmptyResult",
    "NotificationMetaObject",
    "NotificationParams",
    "PaginatedRequestParams",
    "RequestMetaObject",
    "RequestParams",
    "ResultMetaObject",
    "SubscriptionsListenResultMetaObject",
]


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class RequestMetaObject(WireModel):
    """Metadata of a request (basic: `_meta`, per-request fields)."""

    protocol_version: str = attrs.field(metadata={WIRE_NAME: "io.modelcontextprotocol/protocolVersion"})
    """Revision of the request."""
    client_capabilities: ClientCapabilities = attrs.field(
        metadata={WIRE_NAME: "io.modelcontextprotocol/clientCapabilities"}
    )
    """What the client can do during this request."""
    client_info: Implementation | UnsetType = attrs.field(
        default=UNSET, metadata={WIRE_NAME: "io.modelcontextprotocol/clientInfo", SOFT: True}
    )
    """Name and version of the client, UNSET when missing or malformed: it is only displayed."""
    log_level: LoggingLevel | UnsetType = attrs.field(
        default=UNSET, metadata={WIRE_NAME: "io.modelcontextprotocol/logLevel"}
    )
    """Lowest severity of the log messages wanted; absent means none are.  Deprecated."""
    progress_token: ProgressToken | UnsetType = UNSET
    """Asks for progress reports, which will carry this token."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class NotificationMetaObject(WireModel):
    """Metadata of a notification (basic/patterns/subscriptions)."""

    subscription_id: RequestId | UnsetType = attrs.field(
        default=UNSET, metadata={WIRE_NAME: "io.modelcontextprotocol/subscriptionId"}
    )
    """Id of the `subscriptions/listen` request that it belongs to."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ResultMetaObject(WireModel):
    """Metadata of a result (basic: `_meta`)."""

    server_info: Implementation | UnsetType = attrs.field(
        default=UNSET, metadata={WIRE_NAME: "io.modelcontextprotocol/serverInfo", SOFT: True}
    )
    """Name and version of the server, UNSET when missing or malformed: it is only displayed."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class SubscriptionsListenResultMetaObject(WireModel):
    """Metadata of the result that ends a subscription (basic/patterns/subscriptions)."""

    subscription_id: RequestId = attrs.field(metadata={WIRE_NAME: "io.modelcontextprotocol/subscriptionId"})
    """Id of the `subscriptions/listen` request that it ends."""
    server_info: Implementation | UnsetType = attrs.field(
        default=UNSET, metadata={WIRE_NAME: "io.modelcontextprotocol/serverInfo", SOFT: True}
    )
    """Name and version of the server, UNSET when missing or malformed: it is only displayed."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class RequestParams(WireModel):
    """Parameters of a request that needs none of its own (basic: requests)."""

    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class PaginatedRequestParams(WireModel):
    """Parameters of a request for one page of a list (server/utilities/pagination)."""

    cursor: str | UnsetType = UNSET
    """Where the page begins, as the page before it said; absent for the first one."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class NotificationParams(WireModel):
    """Parameters of a notification that needs none of its own (basic: notifications)."""

    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class EmptyResult(WireModel):
    """A result without members of its own, as of `ping` (basic: results)."""

    meta: JsonObject | UnsetType = UNSET
    """Metadata."""
    result_type: str | UnsetType = UNSET
    """`complete`; absent counts as that."""
