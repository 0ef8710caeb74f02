"""Sampling: the server asks for a message of a model.  Deprecated in revision 2026-07-28."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias, final

import attrs

from .._wire import convert
from .._wire.convert import UNSET, JsonObject, UnsetType, WireModel
from ..types import AudioContent, ContentBlock, ImageContent, Role, TextContent, Tool, UnknownContent
from .tasks import TaskMetadata

__all__ = [
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
]


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolUseContent(WireModel):
    """A model's wish to call a tool (client/sampling: tools)."""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    id: str
    """Id that the outcome refers to."""
    name: str
    """Name of the tool."""
    input: JsonObject
    """Arguments of the call."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolResultContent(WireModel):
    """Outcome of a tool call, told to the model (client/sampling: tools)."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    tool_use_id: str
    """Id of the wish that it answers."""
    content: tuple[ContentBlock, ...]
    """Unstructured output."""
    structured_content: Any = UNSET
    """Structured output: any JSON value, so None means null; UNSET when there is none."""
    is_error: bool | UnsetType = UNSET
    """The tool failed; absent means false."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


SamplingMessageContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | UnknownContent
)
"""One block of a sampling message (client/sampling)."""

_Content: TypeAlias = SamplingMessageContentBlock | tuple[SamplingMessageContentBlock, ...]


def _blocks(content: _Content) -> tuple[SamplingMessageContentBlock, ...]:
    return content if isinstance(content, tuple) else (content,)


def _text(content: _Content) -> str:
    return "\n".join([block.text for block in _blocks(content) if isinstance(block, TextContent)])


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class SamplingMessage(WireModel):
    """One message of the conversation with the model (client/sampling: messages)."""

    role: Role
    """Who speaks."""
    content: SamplingMessageContentBlock | tuple[SamplingMessageContentBlock, ...]
    """What is said: one block, or from 2025-11-25 on several."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""

    @property
    def blocks(self) -> tuple[SamplingMessageContentBlock, ...]:
        """The content as a tuple, also when it is one block."""
        return _blocks(self.content)

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return _text(self.content)


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelHint(WireModel):
    """A model that would do (client/sampling: model preferences)."""

    name: str | UnsetType = UNSET
    """Part of the name of a model; the client may take its equal from another vendor."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelPreferences(WireModel):
    """What the server wants of the model; the client decides (client/sampling: model preferences)."""

    hints: tuple[ModelHint, ...] | UnsetType = UNSET
    """Models that would do; the first that is there is taken, whatever the priorities say."""
    cost_priority: float | UnsetType = UNSET
    """How much low cost matters, from 0 to 1."""
    speed_priority: float | UnsetType = UNSET
    """How much speed matters, from 0 to 1."""
    intelligence_priority: float | UnsetType = UNSET
    """How much ability matters, from 0 to 1."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolChoice(WireModel):
    """Whether the model uses tools (client/sampling: tool choice modes)."""

    mode: Literal["auto", "required", "none"] | UnsetType = UNSET
    """As it likes, at least one, or none; absent means as it likes."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class CreateMessageRequestParams(WireModel):
    """Asks for a message of a model (client/sampling)."""

    messages: tuple[SamplingMessage, ...]
    """The conversation so far."""
    max_tokens: int
    """Greatest number of tokens to sample."""
    model_preferences: ModelPreferences | UnsetType = UNSET
    """Which model to take."""
    system_prompt: str | UnsetType = UNSET
    """System prompt; the client may change it or leave it out."""
    include_context: Literal["none", "thisServer", "allServers"] | UnsetType = UNSET
    """Servers whose context to add; absent means none.  The other values are deprecated."""
    temperature: float | UnsetType = UNSET
    """Temperature to sample with."""
    stop_sequences: tuple[str, ...] | UnsetType = UNSET
    """Texts at which to stop."""
    metadata: JsonObject | UnsetType = UNSET
    """Passed on to the model's provider."""
    tools: tuple[Tool, ...] | UnsetType = UNSET
    """Tools that the model may use."""
    tool_choice: ToolChoice | UnsetType = UNSET
    """Whether it uses them."""
    task: TaskMetadata | UnsetType = UNSET
    """Asks for it to be run as a task (2025-11-25 only)."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class CreateMessageRequest(WireModel):
    """Input needed from a model (client/sampling)."""

    method: ClassVar[Literal["sampling/createMessage"]] = "sampling/createMessage"
    params: CreateMessageRequestParams
    """What is asked."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class CreateMessageResult(WireModel):
    """The model's message (client/sampling)."""

    role: Role
    """Who speaks, as a rule `assistant`."""
    content: SamplingMessageContentBlock | tuple[SamplingMessageContentBlock, ...]
    """What is said: one block, or from 2025-11-25 on several."""
    model: str
    """Name of the model."""
    stop_reason: str | UnsetType = UNSET
    """Why it stopped, where known: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or anything else."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""

    @property
    def blocks(self) -> tuple[SamplingMessageContentBlock, ...]:
        """The content as a tuple, also when it is one block."""
        return _blocks(self.content)

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return _text(self.content)


# --- Unions --------------------------------------------------------------------------------------


def _content_class(value: Any) -> Any:
    several = isinstance(value, list | tuple)
    return tuple[SamplingMessageContentBlock, ...] if several else SamplingMessageContentBlock


convert.union_by_tag(SamplingMessageContentBlock, "type")
convert.union_by_shape(_Content, _content_class)
