"""The data classes: what holds for all of them, and the few methods they have."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import json
import pickle
import types as std_types
import typing
from collections.abc import Mapping
from typing import Any, Literal

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trio_mcp_stdio import types
from trio_mcp_stdio._errors import InvalidResult, ToolError
from trio_mcp_stdio._wire.codec import structure, unstructure
from trio_mcp_stdio._wire.convert import LOCAL, RawModel, Record, WireModel, to_camel, wire_names
from trio_mcp_stdio.types import UNSET, CallToolResult, TextContent, UnknownContent, UnsetType

CLASSES: list[Any] = [
    value
    for name in types.__all__
    if isinstance(value := getattr(types, name), type)
    and issubclass(value, Record)
    and value.__name__ == name  # not a second name
]
MODELS: list[Any] = [cls for cls in CLASSES if issubclass(cls, WireModel | RawModel)]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
json_objects = st.dictionaries(st.text(max_size=5), json_values, max_size=3)
# Members of later revisions: nothing that would make an object look like another one.
unknown_members = st.dictionaries(st.text(max_size=5).map("later/{}".format), json_values, max_size=2)

WHAT_MAKES_IT_UNKNOWN: dict[Any, dict[str, Any]] = {
    types.UnknownContent: {"type": "later"},
    types.UnknownInputRequest: {"method": "later/wish"},
    types.UnknownInputResponse: {},
    types.UnknownSchema: {"type": "object"},
}


def values_for(annotation: Any) -> st.SearchStrategy[Any]:
    """Strategy for any annotation that the data classes use."""
    if annotation is Any:
        return json_values
    if annotation is UnsetType:
        return st.just(UNSET)
    if annotation == types.JsonObject:
        return json_objects
    origin = typing.get_origin(annotation)
    if origin in (std_types.UnionType, typing.Union):
        return st.one_of([values_for(member) for member in typing.get_args(annotation)])
    if origin is Literal:
        return st.sampled_from(typing.get_args(annotation))
    if origin is tuple:
        return st.lists(values_for(typing.get_args(annotation)[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(st.text(max_size=5), values_for(typing.get_args(annotation)[1]), max_size=2)
    if issubclass(annotation, Record):
        return instances_of(annotation)
    by_type: dict[Any, st.SearchStrategy[Any]] = {
        str: st.text(max_size=5),
        bool: st.booleans(),
        int: st.integers(),
        float: st.integers() | st.floats(allow_nan=False, allow_infinity=False),
        type(None): st.none(),
    }
    return by_type[annotation]


@functools.cache
def instances_of(cls: Any) -> st.SearchStrategy[Any]:
    """Strategy for a data class, with values for every field that is sent."""
    attrs.resolve_types(cls)
    sent = wire_names(cls)
    fields = {field.name: values_for(field.type) for field in attrs.fields(cls) if field.name in sent}
    for field in attrs.fields(cls):
        if field.type is Any and field.default is UNSET:
            fields[field.name] |= st.just(UNSET)
        if LOCAL in field.metadata:
            fields[field.name] = st.just(field.default)  # not on the wire
    if issubclass(cls, WireModel):
        fields["extra"] = unknown_members
    if issubclass(cls, RawModel):
        fields["raw"] = unknown_members.map(lambda raw: raw | WHAT_MAKES_IT_UNKNOWN[cls])
    if cls is types.InputRequiredResult:
        fields["request_state"] = values_for(str)  # it must have this or the other
    return st.builds(cls, **fields)


every_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
every_model = pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
some = settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])


def test_the_list_of_names_is_sorted_and_complete() -> None:
    public = {
        name
        for name, value in vars(types).items()
        if isinstance(value, type) and value.__module__ == types.__name__ and not name.startswith("_")
    }

    assert sorted(types.__all__, key=lambda name: (name != "UNSET", name)) == types.__all__
    assert public <= set(types.__all__)
    assert len(CLASSES) == 107


@every_class
def test_classes_are_final_frozen_slotted_and_documented(cls: Any) -> None:
    assert cls.__final__
    assert "__slots__" in cls.__dict__
    assert not any("__dict__" in base.__dict__ for base in cls.__mro__[:-1])
    assert "(" in cls.__doc__, "no section of the specification is named"
    assert all(field.kw_only for field in attrs.fields(cls))


@every_class
def test_every_field_is_documented(cls: Any) -> None:
    source = inspect.getsource(cls)
    own = [field.name for field in attrs.fields(cls) if not field.inherited]
    documented = source.count('\n    """') - source.count('\n    """\n', source.index('"""') + 3)

    assert len(own) <= documented


@every_class
@some
@given(data=st.data())
def test_instances_pickle_copy_and_compare(cls: Any, data: st.DataObject) -> None:
    value = data.draw(instances_of(cls))

    for twin in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
        assert value == twin
        assert hash(value) == hash(twin)
        assert repr(value) == repr(twin)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(value, attrs.fields(cls)[0].name, None)


@every_model
@some
@given(data=st.data())
def test_instances_survive_the_wire(cls: Any, data: st.DataObject) -> None:
    value = data.draw(instances_of(cls))
    on_the_wire = unstructure(value)
    text = json.dumps(on_the_wire)  # which knows neither UNSET nor data classes
    twin = structure(cls, json.loads(text), method="any")

    assert isinstance(on_the_wire, dict)
    assert value == twin
    assert json.dumps(unstructure(twin)) == text


def test_instances_differ_by_class_and_by_field() -> None:
    reference = types.ResourceTemplateReference(uri="a")
    link = types.TextResourceContents(uri="a", text="b")

    assert reference != link
    assert reference != "a"
    assert link != attrs.evolve(link, text="c")
    assert link != attrs.evolve(link, extra={"x": 1})
    assert link == attrs.evolve(attrs.evolve(link, text="c"), text="b")


def test_representation_leaves_out_what_is_absent() -> None:
    assert repr(TextContent(text="x")) == "TextContent(text='x')"
    assert repr(TextContent(text="x", extra={"a": 1})) == "TextContent(extra={'a': 1}, text='x')"


def test_unset_is_one_falsy_value() -> None:
    assert not UNSET
    assert "UNSET" == repr(UNSET) == str(UNSET)
    assert UNSET is pickle.loads(pickle.dumps(UNSET))
    assert UNSET is copy.deepcopy(UNSET)
    assert list(UnsetType) == [UNSET]


@pytest.mark.parametrize(
    ("name", "wire_name"),
    [
        ("uri", "uri"),
        ("mime_type", "mimeType"),
        ("meta", "_meta"),
        ("is_error", "isError"),
        ("website_url", "websiteUrl"),
        ("ttl_ms", "ttlMs"),
        ("read_only_hint", "readOnlyHint"),
        ("uri_template", "uriTemplate"),
    ],
)
def test_wire_names(name: str, wire_name: str) -> None:
    assert wire_name == to_camel(name)


def test_extra_is_not_shared_between_instances() -> None:
    assert TextContent(text="").extra is not TextContent(text="").extra
    assert isinstance(TextContent(text="").extra, Mapping)


# --- CallToolResult -------------------------------------------------------------------------------


def test_text_joins_the_text_blocks() -> None:
    image = types.ImageContent(data="", mime_type="image/png")
    result = CallToolResult(
        content=(TextContent(text="a"), image, UnknownContent(raw={}), TextContent(text="b"))
    )

    assert result.text == "a\nb"
    assert CallToolResult().text == ""


@pytest.mark.requirement("TOOL-20")
def test_raise_for_error() -> None:
    fine = CallToolResult(is_error=False)
    failed = CallToolResult(content=(TextContent(text="disk full"),), is_error=True)

    assert fine is fine.raise_for_error()
    with pytest.raises(ToolError, match="disk full") as caught:
        failed.raise_for_error()
    assert failed is caught.value.result
    assert failed == pickle.loads(pickle.dumps(caught.value)).result


@attrs.frozen
class Wind:
    speed: float
    from_where: str = "west"


@dataclasses.dataclass
class Weather:
    place: str
    winds: list[Wind]
    rain: bool | None = None


def test_structured_content_is_read_as_a_class_of_the_caller() -> None:
    result = CallToolResult(
        structured_content={"place": "here", "winds": [{"speed": 3, "from_where": "east"}]}
    )

    assert Weather(place="here", winds=[Wind(3, "east")]) == result.structured_as(Weather)
    assert CallToolResult(structured_content={"a": 1}).structured_as(dict[str, int]) == {"a": 1}
    assert CallToolResult(structured_content=[1, 2]).structured_as(tuple[int, ...]) == (1, 2)


def test_structured_content_that_does_not_fit() -> None:
    result = CallToolResult(structured_content={"winds": [{"speed": 1}, {"from_where": 5}]})
    with pytest.raises(InvalidResult) as caught:
        result.structured_as(Weather)

    assert sorted(caught.value.problems) == [
        "structuredContent.place: is missing",
        "structuredContent.winds[1].from_where: expected a string, got a number",
        "structuredContent.winds[1].speed: is missing",
    ]


def test_structured_content_that_is_absent() -> None:
    with pytest.raises(InvalidResult, match="structuredContent: is missing"):
        CallToolResult().structured_as(Weather)
    with pytest.raises(InvalidResult, match="structuredContent: "):
        CallToolResult(structured_content=None).structured_as(Weather)


def test_unknown_content_states_its_type() -> None:
    assert UnknownContent(raw={"type": "later"}).type == "later"
    assert UnknownContent(raw={"type": 5}).type is None
    assert UnknownContent(raw="text").type is None
