"""Errors as they are on the wire, and what they carry; the exceptions are another matter."""

from __future__ import annotations

from typing import Any, final

import attrs

from .._wire.convert import UNSET, UnsetType, WireModel
from ..types import ClientCapabilities
from .elicitation import ElicitRequestURLParams

__all__ = [
    "Error",
    "MissingRequiredClientCapabilityErrorData",
    "URLElicitationRequiredErrorData",
    "UnsupportedProtocolVersionErrorData",
]


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class Error(WireModel):
    """The error of a response (basic: responses)."""

    code: int
    """What went wrong, for programs."""
    message: str
    """What went wrong, in one sentence."""
    data: Any = UNSET
    """More on it: any JSON value, so None means null; UNSET when there is none."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class MissingRequiredClientCapabilityErrorData(WireModel):
    """Data of error -32021: the request needs capabilities that were not declared (basic/versioning)."""

    required_capabilities: ClientCapabilities
    """Those capabilities."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class UnsupportedProtocolVersionErrorData(WireModel):
    """Data of error -32022: the server does not serve the revision (basic/versioning)."""

    supported: tuple[str, ...]
    """Revisions that it serves."""
    requested: str | UnsetType = UNSET
    """Revision that was asked for."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class URLElicitationRequiredErrorData(WireModel):
    """Data of error -32042: pages to visit before another attempt (2025-11-25 client/elicitation)."""

    elicitations: tuple[ElicitRequestURLParams, ...]
    """The pages."""
