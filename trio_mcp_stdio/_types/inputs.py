"""Requests that are answered in several rounds: what the server needs, and what it is given.

Roots are here as well, since they are asked for in this way; they are deprecated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias, final

import attrs

from .._wire import convert
from .._wire.convert import UNSET, JsonObject, RawModel, UnsetType, WireModel
from .elicitation import ElicitRequest, ElicitResult
from .meta import RequestParams
from .sampling import CreateMessageRequest, CreateMessageResult

__all__ = [
    "InputRequest",
    "InputRequests",
    "InputRequiredResult",
    "InputResponse",
    "InputResponses",
    "ListRootsRequest",
    "ListRootsResult",
    "Root",
    "UnknownInputRequest",
    "UnknownInputResponse",
]


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class Root(WireModel):
    """A directory or file that the server may work on (client/roots)."""

    uri: str
    """Its URI, which begins with `file://`."""
    name: str | UnsetType = UNSET
    """Name for people."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ListRootsRequest(WireModel):
    """Asks for the roots (client/roots)."""

    method: ClassVar[Literal["roots/list"]] = "roots/list"
    params: RequestParams | UnsetType = UNSET
    """Metadata only."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ListRootsResult(WireModel):
    """The roots (client/roots)."""

    roots: tuple[Root, ...]
    """All of them."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class UnknownInputRequest(RawModel):
    """Input of a kind that this version does not know (basic/patterns/mrtr)."""

    raw: Any
    """The whole request as received; sent back unchanged."""

    @property
    def method(self) -> str | None:
        """The method that it states, None without one."""
        stated = self.raw.get("method") if isinstance(self.raw, Mapping) else None
        return stated if isinstance(stated, str) else None


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class UnknownInputResponse(RawModel):
    """An answer in a shape that this version does not know (basic/patterns/mrtr)."""

    raw: Any
    """The whole answer as received; sent back unchanged."""


InputRequest: TypeAlias = ElicitRequest | CreateMessageRequest | ListRootsRequest | UnknownInputRequest
"""One thing that the server needs to go on (basic/patterns/mrtr)."""

InputRequests: TypeAlias = Mapping[str, InputRequest]
"""All that the server needs, by keys of its own (basic/patterns/mrtr)."""

InputResponse: TypeAlias = ElicitResult | CreateMessageResult | ListRootsResult | UnknownInputResponse
"""The answer to one input request (basic/patterns/mrtr)."""

InputResponses: TypeAlias = Mapping[str, InputResponse]
"""The answers, by the keys of the input requests (basic/patterns/mrtr)."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class InputRequiredResult(WireModel):
    """Interim answer: the server needs something before it can go on (basic/patterns/mrtr).

    At least one of `input_requests` and `request_state` is there.
    """

    result_type: ClassVar[Literal["input_required"]] = "input_required"
    input_requests: InputRequests | UnsetType = UNSET
    """What it needs, by keys of its own."""
    request_state: str | UnsetType = UNSET
    """To be sent back unchanged, and to be left out when there is none."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""

    def __attrs_post_init__(self) -> None:
        if self.input_requests is UNSET and self.request_state is UNSET:
            raise ValueError("has neither inputRequests nor requestState")


# --- Unions --------------------------------------------------------------------------------------


def _response_class(value: Any) -> type:
    if isinstance(value, Mapping):
        if "action" in value:
            return ElicitResult
        if "model" in value:
            return CreateMessageResult
        if "roots" in value:
            return ListRootsResult
    return UnknownInputResponse


convert.union_by_tag(InputRequest, "method")
convert.union_by_shape(InputResponse, _response_class)
