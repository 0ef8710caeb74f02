"""Parameters of the requests that a client sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, final

import attrs

from .._wire import convert
from .._wire.convert import UNSET, JsonObject, UnsetType, WireModel
from ..types import (
    ClientCapabilities,
    Implementation,
    LoggingLevel,
    PromptReference,
    ResourceTemplateReference,
)
from .inputs import InputResponses
from .tasks import TaskMetadata

__all__ = [
    "CallToolRequestParams",
    "CompleteRequestParams",
    "CompletionArgument",
    "CompletionContext",
    "CompletionReference",
    "GetPromptRequestParams",
    "InitializeRequestParams",
    "InputResponseRequestParams",
    "ReadResourceRequestParams",
    "ResourceRequestParams",
    "SetLevelRequestParams",
    "SubscribeRequestParams",
    "TaskRequestParams",
    "UnsubscribeRequestParams",
]


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class InitializeRequestParams(WireModel):
    """Parameters of `initialize` (legacy revisions, basic/lifecycle)."""

    protocol_version: str
    """Newest revision that the client wants."""
    capabilities: ClientCapabilities
    """What it can do."""
    client_info: Implementation
    """Its name and version."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class InputResponseRequestParams(WireModel):
    """What is added to the parameters of a request when it is sent again (basic/patterns/mrtr)."""

    input_responses: InputResponses | UnsetType = UNSET
    """What the server asked for, by its keys."""
    request_state: str | UnsetType = UNSET
    """The state it sent, unchanged."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallToolRequestParams(WireModel):
    """Parameters of `tools/call` (server/tools: calling tools)."""

    name: str
    """Name of the tool."""
    arguments: JsonObject | UnsetType = UNSET
    """Arguments that fit its input schema."""
    input_responses: InputResponses | UnsetType = UNSET
    """What the server asked for, by its keys."""
    request_state: str | UnsetType = UNSET
    """The state it sent, unchanged."""
    task: TaskMetadata | UnsetType = UNSET
    """Asks for it to be run as a task (2025-11-25 only)."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ReadResourceRequestParams(WireModel):
    """Parameters of `resources/read` (server/resources: reading resources)."""

    uri: str
    """URI of the resource."""
    input_responses: InputResponses | UnsetType = UNSET
    """What the server asked for, by its keys."""
    request_state: str | UnsetType = UNSET
    """The state it sent, unchanged."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class GetPromptRequestParams(WireModel):
    """Parameters of `prompts/get` (server/prompts: getting a prompt)."""

    name: str
    """Name of the prompt."""
    arguments: Mapping[str, str] | UnsetType = UNSET
    """Its arguments."""
    input_responses: InputResponses | UnsetType = UNSET
    """What the server asked for, by its keys."""
    request_state: str | UnsetType = UNSET
    """The state it sent, unchanged."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


CompletionReference: TypeAlias = PromptReference | ResourceTemplateReference
"""What an argument belongs to (server/utilities/completion)."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class CompletionArgument(WireModel):
    """The argument to complete (server/utilities/completion)."""

    name: str
    """Its name."""
    value: str
    """What has been entered so far."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class CompletionContext(WireModel):
    """What a completion may depend on (server/utilities/completion)."""

    arguments: Mapping[str, str] | UnsetType = UNSET
    """Values of the other arguments."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class CompleteRequestParams(WireModel):
    """Parameters of `completion/complete` (server/utilities/completion)."""

    ref: CompletionReference
    """What the argument belongs to."""
    argument: CompletionArgument
    """The argument to complete."""
    context: CompletionContext | UnsetType = UNSET
    """What else is known."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ResourceRequestParams(WireModel):
    """Parameters of a request that names a resource (server/resources)."""

    uri: str
    """URI of the resource."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


SubscribeRequestParams: TypeAlias = ResourceRequestParams
"""Parameters of `resources/subscribe` (legacy revisions, server/resources: subscriptions)."""

UnsubscribeRequestParams: TypeAlias = ResourceRequestParams
"""Parameters of `resources/unsubscribe` (legacy revisions, server/resources: subscriptions)."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class SetLevelRequestParams(WireModel):
    """Parameters of `logging/setLevel` (legacy revisions, server/utilities/logging)."""

    level: LoggingLevel
    """Lowest severity of the log messages wanted."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskRequestParams(WireModel):
    """Parameters of `tasks/get`, `tasks/result` and `tasks/cancel` (2025-11-25 basic/utilities/tasks)."""

    task_id: str
    """Id of the task."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


def _reference_class(value: Any) -> type:
    names_prompt = isinstance(value, Mapping) and value.get("type") == PromptReference.type
    return PromptReference if names_prompt else ResourceTemplateReference


convert.union_by_shape(CompletionReference, _reference_class)
