"""Parameters of notifications."""

from __future__ import annotations

from typing import Any, final

import attrs

from .._wire.convert import UNSET, JsonObject, UnsetType, WireModel
from ..types import LoggingLevel, ProgressToken, RequestId

__all__ = [
    "CancelledNotificationParams",
    "ElicitationCompleteNotificationParams",
    "LoggingMessageNotificationParams",
    "ProgressNotificationParams",
    "ResourceUpdatedNotificationParams",
]


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class CancelledNotificationParams(WireModel):
    """Parameters of `notifications/cancelled` (basic/patterns/cancellation)."""

    request_id: RequestId | UnsetType = UNSET
    """Id of the request; must be there, except in 2025-11-25."""
    reason: str | UnsetType = UNSET
    """Why, for logs and people."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ProgressNotificationParams(WireModel):
    """Parameters of `notifications/progress` (basic/patterns/progress)."""

    progress_token: ProgressToken
    """Token that the request carried."""
    progress: float
    """How far it is; rises with each report."""
    total: float | UnsetType = UNSET
    """Where it ends, if known."""
    message: str | UnsetType = UNSET
    """What is being done."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class LoggingMessageNotificationParams(WireModel):
    """Parameters of `notifications/message` (server/utilities/logging)."""

    level: LoggingLevel
    """Severity."""
    data: Any
    """What is logged: any JSON value."""
    logger: str | UnsetType = UNSET
    """Name of the logger."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ResourceUpdatedNotificationParams(WireModel):
    """Parameters of `notifications/resources/updated` (server/resources: subscriptions)."""

    uri: str
    """URI of what changed, which may lie below the one subscribed to."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ElicitationCompleteNotificationParams(WireModel):
    """Parameters of `notifications/elicitation/complete` (2025-11-25 only, client/elicitation)."""

    elicitation_id: str
    """Id that the request had."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""
