"""Public data classes: what the protocol's messages carry.

All are immutable and picklable, take keyword arguments only and compare by value.  Field names are
the wire names in snake case (`mime_type` for `mimeType`, `meta` for `_meta`).  An optional field
that is absent is `UNSET`, never None; members that this version does not know are kept in `extra`
and sent back unchanged.  JSON objects without a fixed shape stay plain mappings.

Section names refer to the specification, revision 2026-07-28; the classes read the older revisions
as well.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, TypeVar, final

import attrs

from ._errors import InvalidResult, ToolError
from ._wire import convert
from ._wire.convert import LOCAL, SOFT, STRUCTURE, UNSET, JsonObject, RawModel, Record, UnsetType, WireModel

if TYPE_CHECKING:
    from ._types.elicitation import (
        BooleanSchema,
        ElicitRequest,
        ElicitRequestFormParams,
        ElicitRequestParams,
        ElicitRequestURLParams,
        ElicitResult,
        EnumOption,
        EnumSchema,
        LegacyTitledEnumSchema,
        MultiSelectEnumSchema,
        NumberSchema,
        PrimitiveSchemaDefinition,
        RequestedSchema,
        SingleSelectEnumSchema,
        StringSchema,
        TitledEnumItems,
        TitledMultiSelectEnumSchema,
        TitledSingleSelectEnumSchema,
        UnknownSchema,
        UntitledEnumItems,
        UntitledMultiSelectEnumSchema,
        UntitledSingleSelectEnumSchema,
    )
    from ._types.errors import (
        Error,
        MissingRequiredClientCapabilityErrorData,
        UnsupportedProtocolVersionErrorData,
        URLElicitationRequiredErrorData,
    )
    from ._types.inputs import (
        InputRequest,
        InputRequests,
        InputRequiredResult,
        InputResponse,
        InputResponses,
        ListRootsRequest,
        ListRootsResult,
        Root,
        UnknownInputRequest,
        UnknownInputResponse,
    )
    from ._types.meta import (
        EmptyResult,
        NotificationMetaObject,
        NotificationParams,
        PaginatedRequestParams,
        RequestMetaObject,
        RequestParams,
        ResultMetaObject,
        SubscriptionsListenResultMetaObject,
    )
    from ._types.notifications import (
        CancelledNotificationParams,
        ElicitationCompleteNotificationParams,
        LoggingMessageNotificationParams,
        ProgressNotificationParams,
        ResourceUpdatedNotificationParams,
    )
    from ._types.requests import (
        CallToolRequestParams,
        CompleteRequestParams,
        CompletionArgument,
        CompletionContext,
        CompletionReference,
        GetPromptRequestParams,
        InitializeRequestParams,
        InputResponseRequestParams,
        ReadResourceRequestParams,
        ResourceRequestParams,
        SetLevelRequestParams,
        SubscribeRequestParams,
        TaskRequestParams,
        UnsubscribeRequestParams,
    )
    from ._types.sampling import (
        CreateMessageRequest,
        CreateMessageRequestParams,
        CreateMessageResult,
        ModelHint,
        ModelPreferences,
        SamplingMessage,
        SamplingMessageContentBlock,
        ToolChoice,
        ToolResultContent,
        ToolUseContent,
    )
    from ._types.subscriptions import (
        SubscriptionFilter,
        SubscriptionsAcknowledgedNotificationParams,
        SubscriptionsListenRequestParams,
        SubscriptionsListenResult,
    )
    from ._types.tasks import (
        CancelTaskResult,
        CreateTaskResult,
        GetTaskPayloadResult,
        GetTaskResult,
        ListTasksResult,
        RelatedTaskMetadata,
        Task,
        TaskMetadata,
        TaskStatus,
        TaskStatusNotificationParams,
    )

__all__ = [
    "UNSET",
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "BooleanSchema",
    "CallToolRequestParams",
    "CallToolResult",
    "CancelTaskResult",
    "CancelledNotificationParams",
    "ClientCapabilities",
    "CompleteRequestParams",
    "CompleteResult",
    "Completion",
    "CompletionArgument",
    "CompletionContext",
    "CompletionReference",
    "ContentBlock",
    "CreateMessageRequest",
    "CreateMessageRequestParams",
    "CreateMessageResult",
    "CreateTaskResult",
    "DiscoverResult",
    "ElicitRequest",
    "ElicitRequestFormParams",
    "ElicitRequestParams",
    "ElicitRequestURLParams",
    "ElicitResult",
    "ElicitationCompleteNotificationParams",
    "EmbeddedResource",
    "EmptyResult",
    "EnumOption",
    "EnumSchema",
    "Error",
    "GetPromptRequestParams",
    "GetPromptResult",
    "GetTaskPayloadResult",
    "GetTaskResult",
    "Icon",
    "ImageContent",
    "Implementation",
    "InitializeRequestParams",
    "InitializeResult",
    "InputRequest",
    "InputRequests",
    "InputRequiredResult",
    "InputResponse",
    "InputResponseRequestParams",
    "InputResponses",
    "JsonObject",
    "LegacyTitledEnumSchema",
    "ListPromptsResult",
    "ListResourceTemplatesResult",
    "ListResourcesResult",
    "ListRootsRequest",
    "ListRootsResult",
    "ListTasksResult",
    "ListToolsResult",
    "LoggingLevel",
    "LoggingMessageNotificationParams",
    "MissingRequiredClientCapabilityErrorData",
    "ModelHint",
    "ModelPreferences",
    "MultiSelectEnumSchema",
    "Notification",
    "NotificationMetaObject",
    "NotificationParams",
    "NumberSchema",
    "PaginatedRequestParams",
    "PrimitiveSchemaDefinition",
    "ProcessExit",
    "ProgressNotificationParams",
    "ProgressToken",
    "ProgressUpdate",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "PromptReference",
    "ReadResourceRequestParams",
    "ReadResourceResult",
    "RelatedTaskMetadata",
    "RequestId",
    "RequestMetaObject",
    "RequestParams",
    "RequestedSchema",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "ResourceRequestParams",
    "ResourceTemplate",
    "ResourceTemplateReference",
    "ResourceUpdatedNotificationParams",
    "ResultMetaObject",
    "Role",
    "Root",
    "SamplingMessage",
    "SamplingMessageContentBlock",
    "ServerCapabilities",
    "SetLevelRequestParams",
    "SingleSelectEnumSchema",
    "StringSchema",
    "SubscribeRequestParams",
    "SubscriptionFilter",
    "SubscriptionsAcknowledgedNotificationParams",
    "SubscriptionsListenRequestParams",
    "SubscriptionsListenResult",
    "SubscriptionsListenResultMetaObject",
    "Task",
    "TaskMetadata",
    "TaskRequestParams",
    "TaskStatus",
    "TaskStatusNotificationParams",
    "TextContent",
    "TextResourceContents",
    "TitledEnumItems",
    "TitledMultiSelectEnumSchema",
    "TitledSingleSelectEnumSchema",
    "Tool",
    "ToolAnnotations",
    "ToolChoice",
    "ToolExecution",
    "ToolResultContent",
    "ToolUseContent",
    "URLElicitationRequiredErrorData",
    "UnknownContent",
    "UnknownInputRequest",
    "UnknownInputResponse",
    "UnknownSchema",
    "UnsetType",
    "UnsubscribeRequestParams",
    "UnsupportedProtocolVersionErrorData",
    "UntitledEnumItems",
    "UntitledMultiSelectEnumSchema",
    "UntitledSingleSelectEnumSchema",
]

_T = TypeVar("_T")

LoggingLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]
"""Severity of a log message, rising (server/utilities/logging)."""

ProgressToken: TypeAlias = int | str
"""What ties progress reports to a request (basic/patterns/progress)."""

RequestId: TypeAlias = int | str
"""Id of a request; 1 and "1" are different ones (basic: requests)."""

Role: TypeAlias = Literal["user", "assistant"]
"""Speaker of a prompt or sampling message (server/prompts)."""


# --- Implementations and capabilities ------------------------------------------------------------


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class Icon(WireModel):
    """An image that stands for an implementation, tool, resource or prompt (basic: icons)."""

    src: str
    """URI of the image, https or data."""
    mime_type: str | UnsetType = UNSET
    """Media type, where the one the source states is missing or generic."""
    sizes: tuple[str, ...] | UnsetType = UNSET
    """Sizes in the form `48x48`, or `any`."""
    theme: str | UnsetType = UNSET
    """Background it is made for: `light` or `dark`; later values arrive as they are."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class Implementation(WireModel):
    """Name and version of a client or server, for display only (basic: `_meta`, per-request fields)."""

    name: str
    """Name for programs."""
    version: str
    """Version in any form."""
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What it does."""
    website_url: str | UnsetType = UNSET
    """Its home page."""
    icons: tuple[Icon, ...] | UnsetType = UNSET
    """Icons for display."""


def _is_object(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not UNSET and not isinstance(value, Mapping):
        raise TypeError(f"capability {attribute.name!r} must be a mapping, not {value!r:.60}")


def _capability_value(value: Any) -> Any:
    # A settings object.  Some servers write true, or [] for an empty map; anything else is no offer.
    if isinstance(value, Mapping):
        return value
    return {} if value is True or value == [] else UNSET


_CAPABILITY: Final = {STRUCTURE: _capability_value}


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClientCapabilities(WireModel):
    """What a client can do; each field is a settings object, often empty (basic: capabilities).

    Unknown capabilities go in `extra`.
    """

    elicitation: JsonObject | UnsetType = attrs.field(
        default=UNSET, validator=_is_object, metadata=_CAPABILITY
    )
    """Can ask the user: `form`, `url`; an empty object means forms only."""
    experimental: JsonObject | UnsetType = attrs.field(
        default=UNSET, validator=_is_object, metadata=_CAPABILITY
    )
    """Non-standard capabilities."""
    extensions: JsonObject | UnsetType = attrs.field(
        default=UNSET, validator=_is_object, metadata=_CAPABILITY
    )
    """Extensions by identifier, each with its settings object."""
    roots: JsonObject | UnsetType = attrs.field(default=UNSET, validator=_is_object, metadata=_CAPABILITY)
    """Can list roots; `listChanged` in legacy revisions.  Deprecated."""
    sampling: JsonObject | UnsetType = attrs.field(default=UNSET, validator=_is_object, metadata=_CAPABILITY)
    """Can call a model: `tools`, `context`.  Deprecated."""
    tasks: JsonObject | UnsetType = attrs.field(default=UNSET, validator=_is_object, metadata=_CAPABILITY)
    """Runs requests as tasks: `list`, `cancel`, `requests` (2025-11-25 only)."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ServerCapabilities(WireModel):
    """What a server offers; each field is a settings object, often empty (basic: capabilities).

    Unknown capabilities go in `extra`.
    """

    completions: JsonObject | UnsetType = attrs.field(
        default=UNSET, validator=_is_object, metadata=_CAPABILITY
    )
    """Completes arguments."""
    experimental: JsonObject | UnsetType = attrs.field(
        default=UNSET, validator=_is_object, metadata=_CAPABILITY
    )
    """Non-standard capabilities."""
    extensions: JsonObject | UnsetType = attrs.field(
        default=UNSET, validator=_is_object, metadata=_CAPABILITY
    )
    """Extensions by identifier, each with its settings object."""
    logging: JsonObject | UnsetType = attrs.field(default=UNSET, validator=_is_object, metadata=_CAPABILITY)
    """Sends log messages.  Deprecated."""
    prompts: JsonObject | UnsetType = attrs.field(default=UNSET, validator=_is_object, metadata=_CAPABILITY)
    """Has prompts; `listChanged`."""
    resources: JsonObject | UnsetType = attrs.field(default=UNSET, validator=_is_object, metadata=_CAPABILITY)
    """Has resources; `subscribe`, `listChanged`."""
    tasks: JsonObject | UnsetType = attrs.field(default=UNSET, validator=_is_object, metadata=_CAPABILITY)
    """Runs requests as tasks: `list`, `cancel`, `requests` (2025-11-25 only)."""
    tools: JsonObject | UnsetType = attrs.field(default=UNSET, validator=_is_object, metadata=_CAPABILITY)
    """Has tools; `listChanged`."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class DiscoverResult(WireModel):
    """Answer to `server/discover` (server/discover)."""

    supported_versions: tuple[str, ...]
    """Revisions the server serves."""
    capabilities: ServerCapabilities
    """What it offers."""
    instructions: str | UnsetType = UNSET
    """Guidance for a model on using the server."""
    ttl_ms: int | UnsetType = UNSET
    """Milliseconds for which the answer may be reused."""
    cache_scope: str | UnsetType = UNSET
    """Who may share it: `public` or `private`."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata; names the server under `io.modelcontextprotocol/serverInfo`."""
    result_type: str | UnsetType = UNSET
    """`complete`; absent counts as that."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class InitializeResult(WireModel):
    """Answer to `initialize` (legacy revisions, basic/lifecycle)."""

    protocol_version: str
    """Revision the server chose."""
    capabilities: ServerCapabilities
    """What it offers."""
    server_info: Implementation | UnsetType = attrs.field(default=UNSET, metadata={SOFT: True})
    """Name and version of the server, UNSET when missing or malformed: it is only displayed."""
    instructions: str | UnsetType = UNSET
    """Guidance for a model on using the server."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


# --- Content -------------------------------------------------------------------------------------


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class Annotations(WireModel):
    """Hints on how to use a resource or block of content (server/resources: annotations)."""

    audience: tuple[str, ...] | UnsetType = UNSET
    """Whom it is for: `user`, `assistant`; later values arrive as they are."""
    priority: float | UnsetType = UNSET
    """Importance from 0 (optional) to 1 (required)."""
    last_modified: str | UnsetType = UNSET
    """Time of the last change, ISO 8601."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class TextContent(WireModel):
    """A block of text (server/tools: text content)."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    """The text."""
    annotations: Annotations | UnsetType = UNSET
    """Hints on its use."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ImageContent(WireModel):
    """An image (server/tools: image content)."""

    type: ClassVar[Literal["image"]] = "image"
    data: str
    """The image in base64."""
    mime_type: str
    """Media type of the image."""
    annotations: Annotations | UnsetType = UNSET
    """Hints on its use."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class AudioContent(WireModel):
    """Recorded sound (server/tools: audio content)."""

    type: ClassVar[Literal["audio"]] = "audio"
    data: str
    """The sound in base64."""
    mime_type: str
    """Media type of the sound."""
    annotations: Annotations | UnsetType = UNSET
    """Hints on its use."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ResourceLink(WireModel):
    """A pointer to a resource, which need not be a listed one (server/tools: resource links)."""

    type: ClassVar[Literal["resource_link"]] = "resource_link"
    uri: str
    """URI to read."""
    name: str
    """Name for programs."""
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What it holds."""
    mime_type: str | UnsetType = UNSET
    """Media type, where known."""
    size: int | UnsetType = UNSET
    """Size in bytes before any encoding."""
    annotations: Annotations | UnsetType = UNSET
    """Hints on its use."""
    icons: tuple[Icon, ...] | UnsetType = UNSET
    """Icons for display."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class TextResourceContents(WireModel):
    """Contents of a resource, as text (server/resources: resource contents)."""

    uri: str
    """URI of the resource."""
    text: str
    """The text."""
    mime_type: str | UnsetType = UNSET
    """Media type, where known."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class BlobResourceContents(WireModel):
    """Contents of a resource, as bytes (server/resources: resource contents)."""

    uri: str
    """URI of the resource."""
    blob: str
    """The bytes in base64."""
    mime_type: str | UnsetType = UNSET
    """Media type, where known."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


ResourceContents: TypeAlias = TextResourceContents | BlobResourceContents
"""Contents of a resource: text, or bytes in base64 (server/resources)."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class EmbeddedResource(WireModel):
    """A resource with its contents (server/tools: embedded resources)."""

    type: ClassVar[Literal["resource"]] = "resource"
    resource: ResourceContents
    """The contents."""
    annotations: Annotations | UnsetType = UNSET
    """Hints on its use."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class UnknownContent(RawModel):
    """A block whose type this version does not know, or that states none (MSG-21 leaves room for them)."""

    raw: Any
    """The whole block as received; sent back unchanged."""

    @property
    def type(self) -> str | None:
        """The type that the block states, None without one."""
        stated = self.raw.get("type") if isinstance(self.raw, Mapping) else None
        return stated if isinstance(stated, str) else None


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
)
"""One block of a tool result or prompt message (server/tools, server/prompts)."""


# --- Tools ---------------------------------------------------------------------------------------


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolAnnotations(WireModel):
    """Hints on what a tool does, not to be trusted unless the server is (server/tools: tool)."""

    title: str | UnsetType = UNSET
    """Name for people."""
    read_only_hint: bool | UnsetType = UNSET
    """Changes nothing; absent means false."""
    destructive_hint: bool | UnsetType = UNSET
    """May destroy, not only add; absent means true."""
    idempotent_hint: bool | UnsetType = UNSET
    """Calling it again with the same arguments has no further effect; absent means false."""
    open_world_hint: bool | UnsetType = UNSET
    """Deals with entities outside; absent means true."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolExecution(WireModel):
    """How a tool may be run (2025-11-25 only, server/tools: tool)."""

    task_support: str | UnsetType = UNSET
    """As a task: `forbidden`, `optional` or `required`; absent means forbidden."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class Tool(WireModel):
    """Definition of a tool (server/tools: tool)."""

    name: str
    """Name to call it by; case matters."""
    input_schema: JsonObject
    """JSON Schema of the arguments, an object schema."""
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What it does."""
    output_schema: JsonObject | UnsetType = UNSET
    """JSON Schema of `structured_content`."""
    annotations: ToolAnnotations | UnsetType = UNSET
    """Hints on what it does."""
    execution: ToolExecution | UnsetType = UNSET
    """How it may be run (2025-11-25 only)."""
    icons: tuple[Icon, ...] | UnsetType = UNSET
    """Icons for display."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ListToolsResult(WireModel):
    """One page of `tools/list` (server/tools: listing tools)."""

    tools: tuple[Tool, ...]
    """Tools of this page."""
    next_cursor: str | UnsetType = UNSET
    """Cursor of the next page, UNSET on the last one; an empty string is a cursor."""
    ttl_ms: int | UnsetType = UNSET
    """Milliseconds for which the page may be reused."""
    cache_scope: str | UnsetType = UNSET
    """Who may share it: `public` or `private`."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""
    result_type: str | UnsetType = UNSET
    """`complete`; absent counts as that."""
    problems: tuple[str, ...] = attrs.field(default=(), metadata={LOCAL: True})
    """Of each entry that cannot be read, and is left out: which one, and why; never sent."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallToolResult(WireModel):
    """Outcome of `tools/call` (server/tools: tool result).

    A failure inside the tool is a result as well: `is_error` is true and `content` says what went wrong.
    """

    content: tuple[ContentBlock, ...] = ()
    """Unstructured output."""
    structured_content: Any = UNSET
    """Structured output: any JSON value, so None means null; UNSET when there is none."""
    is_error: bool | UnsetType = UNSET
    """The tool failed; absent means false."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""
    result_type: str | UnsetType = UNSET
    """`complete`; absent counts as that."""
    problems: tuple[str, ...] = attrs.field(default=(), metadata={LOCAL: True})
    """What validation found wrong with `structured_content`, empty without validation; never sent."""

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return "\n".join([block.text for block in self.content if isinstance(block, TextContent)])

    def raise_for_error(self) -> CallToolResult:
        """Return this result.

        Raises:
            ToolError: `is_error` is true.
        """
        if self.is_error:
            raise ToolError(self)
        return self

    def structured_as(self, cls: type[_T]) -> _T:
        """Read `structured_content` as `cls`: an attrs class, a dataclass, or anything else cattrs knows.

        Raises:
            InvalidResult: there is none, or it does not fit.
        """
        if self.structured_content is UNSET:
            raise InvalidResult(method="tools/call", problems=["structuredContent: is missing"])
        return convert.structure(cls, self.structured_content, method="tools/call", path="structuredContent")


# --- Resources -----------------------------------------------------------------------------------


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class Resource(WireModel):
    """A resource that the server lists (server/resources: resource)."""

    uri: str
    """URI to read."""
    name: str
    """Name for programs."""
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What it holds."""
    mime_type: str | UnsetType = UNSET
    """Media type, where known."""
    size: int | UnsetType = UNSET
    """Size in bytes before any encoding."""
    annotations: Annotations | UnsetType = UNSET
    """Hints on its use."""
    icons: tuple[Icon, ...] | UnsetType = UNSET
    """Icons for display."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ResourceTemplate(WireModel):
    """A family of resources (server/resources: resource templates)."""

    uri_template: str
    """URI template, RFC 6570."""
    name: str
    """Name for programs."""
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What the resources hold."""
    mime_type: str | UnsetType = UNSET
    """Media type, where all have the same."""
    annotations: Annotations | UnsetType = UNSET
    """Hints on their use."""
    icons: tuple[Icon, ...] | UnsetType = UNSET
    """Icons for display."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ListResourcesResult(WireModel):
    """One page of `resources/list` (server/resources: listing resources)."""

    resources: tuple[Resource, ...]
    """Resources of this page."""
    next_cursor: str | UnsetType = UNSET
    """Cursor of the next page, UNSET on the last one; an empty string is a cursor."""
    ttl_ms: int | UnsetType = UNSET
    """Milliseconds for which the page may be reused."""
    cache_scope: str | UnsetType = UNSET
    """Who may share it: `public` or `private`."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""
    result_type: str | UnsetType = UNSET
    """`complete`; absent counts as that."""
    problems: tuple[str, ...] = attrs.field(default=(), metadata={LOCAL: True})
    """Of each entry that cannot be read, and is left out: which one, and why; never sent."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ListResourceTemplatesResult(WireModel):
    """One page of `resources/templates/list` (server/resources: resource templates)."""

    resource_templates: tuple[ResourceTemplate, ...]
    """Templates of this page."""
    next_cursor: str | UnsetType = UNSET
    """Cursor of the next page, UNSET on the last one; an empty string is a cursor."""
    ttl_ms: int | UnsetType = UNSET
    """Milliseconds for which the page may be reused."""
    cache_scope: str | UnsetType = UNSET
    """Who may share it: `public` or `private`."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""
    result_type: str | UnsetType = UNSET
    """`complete`; absent counts as that."""
    problems: tuple[str, ...] = attrs.field(default=(), metadata={LOCAL: True})
    """Of each entry that cannot be read, and is left out: which one, and why; never sent."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ReadResourceResult(WireModel):
    """Outcome of `resources/read` (server/resources: reading resources)."""

    contents: tuple[ResourceContents, ...]
    """Contents, one entry for each resource below the URI."""
    ttl_ms: int | UnsetType = UNSET
    """Milliseconds for which the contents may be reused."""
    cache_scope: str | UnsetType = UNSET
    """Who may share them: `public` or `private`."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""
    result_type: str | UnsetType = UNSET
    """`complete`; absent counts as that."""


# --- Prompts and completion ----------------------------------------------------------------------


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptArgument(WireModel):
    """An argument that a prompt takes (server/prompts: prompt)."""

    name: str
    """Name of the argument."""
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What it is for."""
    required: bool | UnsetType = UNSET
    """Must be given; absent means false."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class Prompt(WireModel):
    """Definition of a prompt (server/prompts: prompt)."""

    name: str
    """Name to get it by."""
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What it is for."""
    arguments: tuple[PromptArgument, ...] | UnsetType = UNSET
    """Arguments it takes."""
    icons: tuple[Icon, ...] | UnsetType = UNSET
    """Icons for display."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptMessage(WireModel):
    """One message of a prompt (server/prompts: prompt message)."""

    role: Role
    """Who speaks."""
    content: ContentBlock
    """What is said, one block."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ListPromptsResult(WireModel):
    """One page of `prompts/list` (server/prompts: listing prompts)."""

    prompts: tuple[Prompt, ...]
    """Prompts of this page."""
    next_cursor: str | UnsetType = UNSET
    """Cursor of the next page, UNSET on the last one; an empty string is a cursor."""
    ttl_ms: int | UnsetType = UNSET
    """Milliseconds for which the page may be reused."""
    cache_scope: str | UnsetType = UNSET
    """Who may share it: `public` or `private`."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""
    result_type: str | UnsetType = UNSET
    """`complete`; absent counts as that."""
    problems: tuple[str, ...] = attrs.field(default=(), metadata={LOCAL: True})
    """Of each entry that cannot be read, and is left out: which one, and why; never sent."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class GetPromptResult(WireModel):
    """Outcome of `prompts/get` (server/prompts: getting a prompt)."""

    messages: tuple[PromptMessage, ...]
    """The messages, in order."""
    description: str | UnsetType = UNSET
    """What the prompt is for."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""
    result_type: str | UnsetType = UNSET
    """`complete`; absent counts as that."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptReference(WireModel):
    """Names a prompt whose argument is to be completed (server/utilities/completion)."""

    type: ClassVar[Literal["ref/prompt"]] = "ref/prompt"
    name: str
    """Name of the prompt."""
    title: str | UnsetType = UNSET
    """Name for people."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ResourceTemplateReference(WireModel):
    """Names a resource template whose variable is to be completed (server/utilities/completion)."""

    type: ClassVar[Literal["ref/resource"]] = "ref/resource"
    uri: str
    """The URI template."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class Completion(WireModel):
    """Proposed values of an argument (server/utilities/completion)."""

    values: tuple[str, ...]
    """The values, at most 100."""
    total: int | UnsetType = UNSET
    """How many there are in all."""
    has_more: bool | UnsetType = UNSET
    """There are more than were sent."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class CompleteResult(WireModel):
    """Outcome of `completion/complete` (server/utilities/completion)."""

    completion: Completion
    """The proposals."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""
    result_type: str | UnsetType = UNSET
    """`complete`; absent counts as that."""


# --- What happens on a connection ----------------------------------------------------------------


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ProgressUpdate(Record):
    """One report on a running request (basic/utilities/progress)."""

    progress: float
    """How far it is; rises with each report."""
    total: float | UnsetType = UNSET
    """Where it ends, if known."""
    message: str | UnsetType = UNSET
    """What is being done."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class Notification(Record):
    """A notification as the server sent it (basic: notifications)."""

    method: str
    """Its method, such as `notifications/message`."""
    params: JsonObject = attrs.field(factory=dict)
    """Its parameters, empty when there are none."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ProcessExit(Record):
    """How a server process ended (basic/transports: stdio, shutdown)."""

    pid: int
    """Process id it had."""
    returncode: int | None
    """Exit status, negative for a signal as in `subprocess`; None while not reaped."""
    signal: int | None
    """Number of the signal that ended it, whoever sent it."""
    ending: Literal["exited", "terminated", "killed", "unreaped"]
    """By itself, after our SIGTERM, after our SIGKILL, or not known to have ended at all."""
    expected: bool
    """It was asked to end."""
    stderr_tail: str = ""
    """The last it wrote to stderr."""
    leftovers: tuple[int, ...] = ()
    """Process ids found in its group after its end; they were ended, too."""


# --- Unions ---------------------------------------------------------------------------------------


def _contents_class(value: Any) -> type:
    is_blob = isinstance(value, Mapping) and value.get("text") is None and "blob" in value
    return BlobResourceContents if is_blob else TextResourceContents


convert.union_by_tag(ContentBlock, "type")
convert.union_by_shape(ResourceContents, _contents_class)


# --- Classes that are loaded on first use ---------------------------------------------------------

_LATER: Final = {
    "elicitation": {
        "BooleanSchema",
        "ElicitRequest",
        "ElicitRequestFormParams",
        "ElicitRequestParams",
        "ElicitRequestURLParams",
        "ElicitResult",
        "EnumOption",
        "EnumSchema",
        "LegacyTitledEnumSchema",
        "MultiSelectEnumSchema",
        "NumberSchema",
        "PrimitiveSchemaDefinition",
        "RequestedSchema",
        "SingleSelectEnumSchema",
        "StringSchema",
        "TitledEnumItems",
        "TitledMultiSelectEnumSchema",
        "TitledSingleSelectEnumSchema",
        "UnknownSchema",
        "UntitledEnumItems",
        "UntitledMultiSelectEnumSchema",
        "UntitledSingleSelectEnumSchema",
    },
    "errors": {
        "Error",
        "MissingRequiredClientCapabilityErrorData",
        "URLElicitationRequiredErrorData",
        "UnsupportedProtocolVersionErrorData",
    },
    "inputs": {
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
    },
    "meta": {
        "EmptyResult",
        "NotificationMetaObject",
        "NotificationParams",
        "PaginatedRequestParams",
        "RequestMetaObject",
        "RequestParams",
        "ResultMetaObject",
        "SubscriptionsListenResultMetaObject",
    },
    "notifications": {
        "CancelledNotificationParams",
        "ElicitationCompleteNotificationParams",
        "LoggingMessageNotificationParams",
        "ProgressNotificationParams",
        "ResourceUpdatedNotificationParams",
    },
    "requests": {
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
    },
    "sampling": {
        "CreateMessageRequest",
        "CreateMessageRequestParams",
        "CreateMessageResult",
        "ModelHint",
        "ModelPreferences",
        "SamplingMessage",
        "SamplingMessageContentBlock",
        "ToolChoice",
        "ToolResultContent",
        "ToolUseContent",
    },
    "subscriptions": {
        "SubscriptionFilter",
        "SubscriptionsAcknowledgedNotificationParams",
        "SubscriptionsListenRequestParams",
        "SubscriptionsListenResult",
    },
    "tasks": {
        "CancelTaskResult",
        "CreateTaskResult",
        "GetTaskPayloadResult",
        "GetTaskResult",
        "ListTasksResult",
        "RelatedTaskMetadata",
        "Task",
        "TaskMetadata",
        "TaskStatus",
        "TaskStatusNotificationParams",
    },
}

if not TYPE_CHECKING:
    # Hidden from type checkers, which would take it for a promise that every name exists.

    def __getattr__(name: str) -> Any:
        for module, names in _LATER.items():
            if name in names:
                value = getattr(importlib.import_module(f"._types.{module}", __package__), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


# --- The hot path ---------------------------------------------------------------------------------

_PLAIN_RESULT: Final = frozenset({"content", "isError", "structuredContent", "resultType", "_meta"})
_PLAIN_TEXT: Final = frozenset({"type", "text"})


def _call_tool_result_hook(cls: Any, conv: Any) -> convert.Hook:
    """The general hook, with a short cut for what nearly every tool answers: text blocks without extras."""
    general = convert.model_hook(cls, conv)

    def structure_call_tool_result(value: Any, _: Any) -> Any:
        if value.__class__ is not dict or not value.keys() <= _PLAIN_RESULT:
            return general(value, cls)
        content, is_error = value.get("content"), value.get("isError", UNSET)
        result_type, meta = value.get("resultType", UNSET), value.get("_meta", UNSET)
        if (
            content.__class__ is not list
            or not (is_error is False or is_error is UNSET or is_error is True)
            or not (result_type.__class__ is str or result_type is UNSET)
            or not (meta.__class__ is dict or meta is UNSET)
        ):
            return general(value, cls)
        blocks = []
        for block in content:
            if block.__class__ is not dict or block.keys() != _PLAIN_TEXT or block["type"] != "text":
                return general(value, cls)
            text = block["text"]
            if text.__class__ is not str:
                return general(value, cls)
            blocks.append(TextContent(text=text))
        return CallToolResult(
            content=tuple(blocks),
            structured_content=value.get("structuredContent", UNSET),
            is_error=is_error,
            meta=meta,
            result_type=result_type,
        )

    return structure_call_tool_result


def _register(conv: Any) -> None:
    conv.register_structure_hook_factory(lambda cls: cls is CallToolResult, _call_tool_result_hook)


convert.extend(_register)
