"""Elicitation: the server asks the user, by a form or by a page to visit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias, final

import attrs

from .._wire import convert
from .._wire.convert import UNSET, WIRE_NAME, JsonObject, RawModel, UnsetType, WireModel
from .tasks import TaskMetadata

__all__ = [
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
]


# --- Fields of a form ----------------------------------------------------------------------------


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class StringSchema(WireModel):
    """A field for text (client/elicitation: requested schema)."""

    type: ClassVar[Literal["string"]] = "string"
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What to enter."""
    min_length: int | UnsetType = UNSET
    """Least number of characters."""
    max_length: int | UnsetType = UNSET
    """Greatest number of characters."""
    format: str | UnsetType = UNSET
    """Form of the text: `email`, `uri`, `date` or `date-time`; other values arrive as they are."""
    default: str | UnsetType = UNSET
    """Value to begin with."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class NumberSchema(WireModel):
    """A field for a number (client/elicitation: requested schema)."""

    type: Literal["number", "integer"]
    """Whether fractions are allowed."""
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What to enter."""
    minimum: float | UnsetType = UNSET
    """Least value."""
    maximum: float | UnsetType = UNSET
    """Greatest value."""
    default: float | UnsetType = UNSET
    """Value to begin with."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class BooleanSchema(WireModel):
    """A field for yes or no (client/elicitation: requested schema)."""

    type: ClassVar[Literal["boolean"]] = "boolean"
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What is asked."""
    default: bool | UnsetType = UNSET
    """Value to begin with."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class EnumOption(WireModel):
    """One of the values to choose from (client/elicitation: requested schema)."""

    const: str
    """The value."""
    title: str
    """Name for people."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class UntitledSingleSelectEnumSchema(WireModel):
    """A field to choose one of some values, shown as they are (client/elicitation: requested schema)."""

    type: ClassVar[Literal["string"]] = "string"
    enum: tuple[str, ...]
    """The values."""
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What to choose."""
    default: str | UnsetType = UNSET
    """Value to begin with."""

    @property
    def options(self) -> tuple[EnumOption, ...]:
        """The values, each as its own name for people."""
        return _plain_options(self.enum)


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class TitledSingleSelectEnumSchema(WireModel):
    """A field to choose one of some values that have names (client/elicitation: requested schema)."""

    type: ClassVar[Literal["string"]] = "string"
    one_of: tuple[EnumOption, ...]
    """The values with their names."""
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What to choose."""
    default: str | UnsetType = UNSET
    """Value to begin with."""

    @property
    def options(self) -> tuple[EnumOption, ...]:
        """The values with their names for people."""
        return self.one_of


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class LegacyTitledEnumSchema(WireModel):
    """A field to choose one value, with the names beside the values (client/elicitation: requested schema).

    Deprecated.  Without `enum_names` it is an `UntitledSingleSelectEnumSchema`.
    """

    type: ClassVar[Literal["string"]] = "string"
    enum: tuple[str, ...]
    """The values."""
    enum_names: tuple[str, ...]
    """Their names for people, in the same order."""
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What to choose."""
    default: str | UnsetType = UNSET
    """Value to begin with."""

    @property
    def options(self) -> tuple[EnumOption, ...]:
        """The values with their names for people; a value beyond the names is its own."""
        names = self.enum_names + self.enum[len(self.enum_names) :]
        pairs = zip(self.enum, names, strict=False)
        return tuple(EnumOption(const=value, title=name) for value, name in pairs)


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class UntitledEnumItems(WireModel):
    """What an `UntitledMultiSelectEnumSchema` offers (client/elicitation: requested schema)."""

    type: ClassVar[Literal["string"]] = "string"
    enum: tuple[str, ...]
    """The values."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class UntitledMultiSelectEnumSchema(WireModel):
    """A field to choose several of some values, shown as they are (client/elicitation: requested schema)."""

    type: ClassVar[Literal["array"]] = "array"
    items: UntitledEnumItems
    """What is offered."""
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What to choose."""
    min_items: int | UnsetType = UNSET
    """Least number of values to choose."""
    max_items: int | UnsetType = UNSET
    """Greatest number of values to choose."""
    default: tuple[str, ...] | UnsetType = UNSET
    """Values to begin with."""

    @property
    def options(self) -> tuple[EnumOption, ...]:
        """The values, each as its own name for people."""
        return _plain_options(self.items.enum)


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class TitledEnumItems(WireModel):
    """What a `TitledMultiSelectEnumSchema` offers (client/elicitation: requested schema)."""

    any_of: tuple[EnumOption, ...]
    """The values with their names."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class TitledMultiSelectEnumSchema(WireModel):
    """A field to choose several of some values that have names (client/elicitation: requested schema)."""

    type: ClassVar[Literal["array"]] = "array"
    items: TitledEnumItems
    """What is offered."""
    title: str | UnsetType = UNSET
    """Name for people."""
    description: str | UnsetType = UNSET
    """What to choose."""
    min_items: int | UnsetType = UNSET
    """Least number of values to choose."""
    max_items: int | UnsetType = UNSET
    """Greatest number of values to choose."""
    default: tuple[str, ...] | UnsetType = UNSET
    """Values to begin with."""

    @property
    def options(self) -> tuple[EnumOption, ...]:
        """The values with their names for people."""
        return self.items.any_of


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class UnknownSchema(RawModel):
    """A field of a kind that the specification does not allow (client/elicitation: requested schema)."""

    raw: Any
    """The whole field as received; sent back unchanged."""


SingleSelectEnumSchema: TypeAlias = UntitledSingleSelectEnumSchema | TitledSingleSelectEnumSchema
"""A field to choose one of some values (client/elicitation: requested schema)."""

MultiSelectEnumSchema: TypeAlias = UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema
"""A field to choose several of some values (client/elicitation: requested schema)."""

EnumSchema: TypeAlias = (
    UntitledSingleSelectEnumSchema
    | TitledSingleSelectEnumSchema
    | UntitledMultiSelectEnumSchema
    | TitledMultiSelectEnumSchema
    | LegacyTitledEnumSchema
)
"""A field to choose from some values; all of them have `options` (client/elicitation: requested schema)."""

PrimitiveSchemaDefinition: TypeAlias = (
    StringSchema
    | NumberSchema
    | BooleanSchema
    | UntitledSingleSelectEnumSchema
    | TitledSingleSelectEnumSchema
    | UntitledMultiSelectEnumSchema
    | TitledMultiSelectEnumSchema
    | LegacyTitledEnumSchema
    | UnknownSchema
)
"""One field of a form (client/elicitation: requested schema)."""


def _plain_options(values: tuple[str, ...]) -> tuple[EnumOption, ...]:
    return tuple(EnumOption(const=value, title=value) for value in values)


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class RequestedSchema(WireModel):
    """Schema of a form's answer, an object without nesting (client/elicitation: requested schema)."""

    type: ClassVar[Literal["object"]] = "object"
    properties: Mapping[str, PrimitiveSchemaDefinition]
    """Fields of the form by name, in their order."""
    required: tuple[str, ...] | UnsetType = UNSET
    """Names of the fields that must be filled in."""
    schema: str | UnsetType = attrs.field(default=UNSET, metadata={WIRE_NAME: "$schema"})
    """Dialect of the schema (`$schema`)."""


# --- Requests and answers ------------------------------------------------------------------------


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ElicitRequestFormParams(WireModel):
    """Asks the user to fill in a form (client/elicitation: form mode)."""

    message: str
    """What is asked, and why."""
    requested_schema: RequestedSchema
    """Fields of the form."""
    mode: Literal["form"] | UnsetType = UNSET
    """`form`; absent means that."""
    task: TaskMetadata | UnsetType = UNSET
    """Asks for it to be run as a task (2025-11-25 only)."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ElicitRequestURLParams(WireModel):
    """Asks the user to visit a page (client/elicitation: URL mode)."""

    mode: ClassVar[Literal["url"]] = "url"
    message: str
    """Why it is needed."""
    url: str
    """Address of the page; never opened without consent."""
    elicitation_id: str | UnsetType = UNSET
    """Id by which the server will report that it is done (2025-11-25 only)."""
    task: TaskMetadata | UnsetType = UNSET
    """Asks for it to be run as a task (2025-11-25 only)."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


ElicitRequestParams: TypeAlias = ElicitRequestFormParams | ElicitRequestURLParams
"""What is asked of the user (client/elicitation)."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ElicitRequest(WireModel):
    """Input needed from the user (client/elicitation)."""

    method: ClassVar[Literal["elicitation/create"]] = "elicitation/create"
    params: ElicitRequestParams
    """What is asked."""


@final
@attrs.frozen(kw_only=True, eq=False, repr=False)
class ElicitResult(WireModel):
    """What the user did (client/elicitation: response actions)."""

    action: Literal["accept", "decline", "cancel"]
    """Agreed, refused, or dismissed the question."""
    content: JsonObject | UnsetType = UNSET
    """Values by the name of the field, with `accept` in form mode only."""
    meta: JsonObject | UnsetType = UNSET
    """Metadata."""


# --- Unions --------------------------------------------------------------------------------------

_BY_TYPE: Mapping[Any, type] = {
    "string": StringSchema,
    "number": NumberSchema,
    "integer": NumberSchema,
    "boolean": BooleanSchema,
}


def _schema_class(value: Any) -> type:
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind == "string":
        if value.get("oneOf") is not None:
            return TitledSingleSelectEnumSchema
        if value.get("enum") is not None:
            titled = value.get("enumNames") is not None
            return LegacyTitledEnumSchema if titled else UntitledSingleSelectEnumSchema
    elif kind == "array":
        items = value.get("items")
        if isinstance(items, Mapping):
            if items.get("anyOf") is not None:
                return TitledMultiSelectEnumSchema
            if items.get("enum") is not None:
                return UntitledMultiSelectEnumSchema
    return _BY_TYPE.get(kind, UnknownSchema) if isinstance(kind, str) else UnknownSchema


def _params_class(value: Any) -> type:
    is_url = isinstance(value, Mapping) and value.get("mode") == ElicitRequestURLParams.mode
    return ElicitRequestURLParams if is_url else ElicitRequestFormParams


convert.union_by_shape(PrimitiveSchemaDefinition, _schema_class)
convert.union_by_shape(ElicitRequestParams, _params_class)
