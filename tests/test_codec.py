"""Encoding of parameters, and the reading and writing of data classes."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import math
import pickle
import sys
import types as std_types
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp_stdio._errors import InvalidResult, LocalProtocolError
from trio_mcp_stdio._wire.codec import (
    MAX_DEPTH,
    encode_params,
    lenient,
    splice_meta,
    structure,
    unstructure,
)
from trio_mcp_stdio.types import (
    UNSET,
    CallToolResult,
    ClientCapabilities,
    DiscoverResult,
    GetPromptResult,
    Implementation,
    InitializeResult,
    ListToolsResult,
    PromptReference,
    ReadResourceResult,
    ResourceTemplateReference,
    ServerCapabilities,
    TextContent,
    Tool,
    UnknownContent,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
json_objects = st.dictionaries(st.text(max_size=8), json_values, max_size=5)


def problems_of(cls: type[Any], value: object) -> list[str]:
    with pytest.raises(InvalidResult) as caught:
        structure(cls, value, method="some/method")

    assert caught.value.method == "some/method"
    assert caught.value.__cause__ is not None
    return caught.value.problems


# --- encode_params --------------------------------------------------------------------------------


@given(json_objects)
def test_json_survives_encoding(params: dict[str, Any]) -> None:
    encoded = encode_params(params)

    assert params == json.loads(encoded)
    assert b"\n" not in encoded
    assert b"\r" not in encoded
    encoded.decode("utf-8")


def test_output_is_compact() -> None:
    assert '{"a":[1,2.5,"é\\n",null,true],"b":{}}'.encode() == encode_params(
        {"a": [1, 2.5, "é\n", None, True], "b": {}}
    )
    assert b"{}" == encode_params(None) == encode_params({})


@pytest.mark.requirement("TOOL-27")
@pytest.mark.parametrize("number", [0, -1, 2**53 + 1, 2**63, 2**64, -(2**64), 10**400, 1e300, -0.5])
def test_numbers_are_exact(number: float) -> None:
    assert {"x": number} == json.loads(encode_params({"x": number}))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.field("K054")
def test_non_finite_floats_are_refused(value: float) -> None:
    with pytest.raises(LocalProtocolError, match=r"^arguments\.x\[3\]: .*is not a JSON number"):
        encode_params({"arguments": {"x": [1, 2, 3, value]}})


@attrs.frozen
class Stranger:
    x: int = 1


class Number(msgspec.Struct):
    x: int = 1


class Colour(enum.Enum):
    NO_TEXT = (1, 2)


@pytest.mark.parametrize(
    "value",
    [
        b"x",
        bytearray(b"x"),
        memoryview(b"x"),
        {1},
        frozenset(),
        datetime.datetime(2026, 1, 1),
        datetime.date(2026, 1, 1),
        datetime.timedelta(1),
        decimal.Decimal(1),
        1j,
        object(),
        Stranger(),
        Number(),
        msgspec.Raw(b"1"),
        Colour.NO_TEXT,
        UNSET,
        range(3),
        iter([]),
        Tool,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_lacks_is_refused_with_its_path(value: object) -> None:
    for params in ({"arguments": {"x": [0, value]}}, {"arguments": OrderedDict(x=(0, value))}):
        with pytest.raises(LocalProtocolError, match=r"^arguments\.x\[1\]: .* is not a JSON value"):
            encode_params(params)


@pytest.mark.parametrize("key", [1, None, 2.5, True, b"a", ("a",)])
def test_keys_must_be_strings(key: object) -> None:
    with pytest.raises(LocalProtocolError, match=r"^arguments\.x: key .* is not a string"):
        encode_params({"arguments": {"x": {key: 1}}})


def test_a_path_quotes_keys_that_are_no_identifiers() -> None:
    with pytest.raises(LocalProtocolError, match=r"^a\['b c'\]\[''\]\.d\[0\]: "):
        encode_params({"a": {"b c": {"": {"d": [b""]}}}})


@pytest.mark.field("K044")
@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"a": {"b": "x\udcaf"}}, "a.b"),
        ({"a": ["ok", "\ud83d"]}, r"a\[1\]"),
        ({"\udfff": 1}, r"\['\\udfff'\]"),
    ],
)
def test_lone_surrogates_are_refused(params: dict[str, Any], path: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"^{path}: .*surrogate") as caught:
        encode_params(params)
    str(caught.value).encode()


@pytest.mark.parametrize("params", [[], "x", 1, {"a"}, b"{}"])
def test_params_must_be_a_mapping(params: Any) -> None:
    with pytest.raises(LocalProtocolError, match="params must be a mapping"):
        encode_params(params)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = [loop, loop]

    with pytest.raises(LocalProtocolError, match=r"^loop\.a\[0\]\.a\[0\].*contains itself"):
        encode_params({"loop": loop})


def nested(depth: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(depth - 1):
        value = [value]
    return {"x": value}


def test_nesting_is_bounded() -> None:
    assert encode_params(nested(MAX_DEPTH)).startswith(b'{"x":[[')

    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(LocalProtocolError, match="nested deeper"):
            encode_params(nested(depth))


def test_nesting_near_the_end_of_the_stack_is_refused_plainly() -> None:
    def descend(levels: int) -> bytes:
        return descend(levels - 1) if levels else encode_params(nested(MAX_DEPTH))

    frame = sys._getframe()
    used = 0
    while frame is not None:
        used, frame = used + 1, frame.f_back  # type: ignore[assignment]
    with pytest.raises(LocalProtocolError, match="too deep"):
        descend(sys.getrecursionlimit() - used - 100)


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not this"


class Whole(int):
    pass


class Fraction(float):
    pass


class Level(enum.IntEnum):
    HIGH = 3


class Shade(enum.StrEnum):
    DARK = "dark"


class Plain(enum.Enum):
    NAME = "name"
    YES = True


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Text("text"), "text"),
        (Whole(7), 7),
        (Fraction(0.5), 0.5),
        (Level.HIGH, 3),
        (Shade.DARK, "dark"),
        (Plain.NAME, "name"),
        (Plain.YES, True),
        ((1, (2,)), [1, [2]]),
        (Point(1, 2), [1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (std_types.MappingProxyType({"a": [1]}), {"a": [1]}),
        ({Text("key"): {Shade.DARK: 1}}, {"key": {"dark": 1}}),
    ],
    ids=repr,
)
def test_close_relatives_of_json_types_are_accepted(value: object, expected: object) -> None:
    decoded = json.loads(encode_params({"x": value}))["x"]

    assert expected == decoded
    assert type(expected) is type(decoded)
    assert {"x": expected} == json.loads(encode_params(std_types.MappingProxyType({"x": value})))


@pytest.mark.skipif(not hasattr(sys, "set_int_max_str_digits"), reason="no limit on digits")
def test_an_integer_too_long_to_print_is_refused_in_the_caller() -> None:
    with pytest.raises(LocalProtocolError, match=r"^x\[0\]: the integer is too long"):
        encode_params({"x": [10**5000]})


def test_data_classes_are_encoded_anywhere_in_the_parameters() -> None:
    block = TextContent(text="x", extra={"later": [1]})
    encoded = encode_params({"blocks": [block, UnknownContent(raw={"type": "new"}), UnknownContent(raw=[1])]})

    assert json.loads(encoded) == {
        "blocks": [{"type": "text", "text": "x", "later": [1]}, {"type": "new"}, [1]]
    }


def test_the_unserialisable_inside_a_data_class_is_named() -> None:
    with pytest.raises(LocalProtocolError, match=r"^block\._meta\.k: a set"):
        encode_params({"block": TextContent(text="x", meta={"k": {1}})})


def test_encoding_leaves_the_parameters_alone() -> None:
    params = {"a": OrderedDict(x=(1, Shade.DARK))}
    encode_params(params)

    assert {"a": OrderedDict(x=(1, Shade.DARK))} == params
    assert Shade.DARK is params["a"]["x"][1]


# --- splice_meta ----------------------------------------------------------------------------------


@given(json_objects, json_objects)
def test_splicing_appends_the_member(params: dict[str, Any], meta: dict[str, Any]) -> None:
    params.pop("_meta", None)
    spliced = splice_meta(encode_params(params), encode_params(meta))

    assert {**params, "_meta": meta} == json.loads(spliced)


def test_splicing_into_an_empty_object() -> None:
    assert splice_meta(b"{}", b'{"a":1}') == b'{"_meta":{"a":1}}'
    assert splice_meta(b'{"x":1}', b"{}") == b'{"x":1,"_meta":{}}'


# --- structure ------------------------------------------------------------------------------------


@pytest.mark.requirement("TOOL-19")
def test_a_plain_tool_result() -> None:
    result = structure(CallToolResult, {"content": [{"type": "text", "text": "hi"}]}, method="tools/call")

    assert CallToolResult(content=(TextContent(text="hi"),)) == result
    assert not result.is_error
    assert result.structured_content is UNSET


def test_a_tool_result_without_content_is_empty() -> None:
    for value in ({}, {"content": None}, {"resultType": "complete"}):
        assert structure(CallToolResult, value, method="tools/call").content == ()


@pytest.mark.parametrize(
    "block",
    [{"type": "hologram", "depth": 3}, {"type": 5}, {"type": []}, {"text": "x"}, {}, "text", None, 7, []],
)
def test_an_unknown_block_costs_only_itself(block: object) -> None:
    value = {"content": [{"type": "text", "text": "a"}, block, {"type": "text", "text": "b"}]}
    result = structure(CallToolResult, value, method="tools/call")

    assert UnknownContent(raw=block) == result.content[1]
    assert result.text == "a\nb"
    assert value == unstructure(result)


@pytest.mark.requirement("MSG-21")
def test_unknown_members_are_kept_at_every_level() -> None:
    value = {
        "content": [
            {
                "type": "text",
                "text": "x",
                "later": None,
                "annotations": {"audience": ["robot"], "mood": "good"},
            },
            {"type": "resource", "resource": {"uri": "a:b", "blob": "", "z": 0}, "_meta": {"k": None}},
        ],
        "extra": {"extra": 1},
        "type": "tool_result",
        "resultType": "complete",
    }
    result = structure(CallToolResult, value, method="tools/call")

    assert result.extra == {"extra": {"extra": 1}, "type": "tool_result"}
    assert value == unstructure(result)


@pytest.mark.parametrize("content", [None, 0, False, "", "x", [1], {}, {"a": None}, 1.5])
def test_structured_content_is_any_json_value(content: object) -> None:
    value = {"content": [], "structuredContent": content}
    result = structure(CallToolResult, value, method="tools/call")

    assert content == result.structured_content
    assert type(content) is type(result.structured_content)
    assert value == unstructure(result)


@pytest.mark.requirement("PAGE-03", "PAGE-04")
def test_only_an_absent_cursor_ends_a_list() -> None:
    assert structure(ListToolsResult, {"tools": []}, method="tools/list").next_cursor is UNSET
    assert (
        structure(ListToolsResult, {"tools": [], "nextCursor": None}, method="tools/list").next_cursor
        is UNSET
    )
    assert structure(ListToolsResult, {"tools": [], "nextCursor": ""}, method="tools/list").next_cursor == ""


def test_null_counts_as_absent_for_optional_members() -> None:
    value = {"name": "t", "inputSchema": {}, "title": None, "icons": None, "annotations": None, "_meta": None}

    assert Tool(name="t", input_schema={}) == structure(Tool, value, method="tools/list")


def test_problems_name_the_path_and_what_was_found() -> None:
    content = [
        {"type": "text", "text": "fine"},
        {"type": "text"},
        {"type": "image", "data": 1, "mimeType": None},
    ]

    assert sorted(problems_of(CallToolResult, {"content": content, "isError": "no"})) == [
        "content[1].text: is missing",
        "content[2].data: expected a string, got a number",
        "content[2].mimeType: expected a string, got null",
        "isError: expected a boolean, got a string",
    ]


def test_a_bad_tool_is_reported_by_name() -> None:
    good = {"name": "good", "inputSchema": {"type": "object"}}

    assert problems_of(ListToolsResult, {"tools": [good, {"name": "bad"}, good]}) == [
        "tools[1].inputSchema: is missing (in 'bad')"
    ]
    assert problems_of(
        ListToolsResult, {"tools": [{"name": "bad", "inputSchema": True}, {"inputSchema": {}}]}
    ) == [
        "tools[0].inputSchema: expected an object, got a boolean (in 'bad')",
        "tools[1].name: is missing",
    ]


def test_the_number_of_problems_is_bounded() -> None:
    problems = problems_of(ListToolsResult, {"tools": [{}] * 1000})

    assert len(problems) == 21
    assert problems[-1] == "and 1980 more"


@pytest.mark.parametrize("value", [None, [1], "text", 5, True])
def test_a_result_must_be_an_object(value: object) -> None:
    (problem,) = problems_of(CallToolResult, value)
    assert problem.startswith("expected an object, got ")


@pytest.mark.parametrize("value", ["text", {"0": {}}, None, 5])
def test_arrays_must_be_arrays(value: object) -> None:
    (problem,) = problems_of(ListToolsResult, {"tools": value})
    assert problem.startswith("tools: expected an array, got ")


def test_an_invalid_result_pickles() -> None:
    with pytest.raises(InvalidResult) as caught:
        structure(ListToolsResult, {}, method="tools/list")

    revived = pickle.loads(pickle.dumps(caught.value))
    assert ["tools: is missing"] == revived.problems == caught.value.problems


def test_roles_and_discriminators_are_checked() -> None:
    message = {"role": "system", "content": {"type": "text", "text": "x"}}

    assert problems_of(GetPromptResult, {"messages": [message]}) == [
        "messages[0].role: expected one of 'user', 'assistant', got 'system'"
    ]
    assert problems_of(TextContent, {"type": "image", "text": "x"}) == [
        "expected the type 'text', got 'image'"
    ]


def test_integers_may_be_written_as_floats_but_not_as_booleans() -> None:
    assert structure(ListToolsResult, {"tools": [], "ttlMs": 5.0}, method="tools/list").ttl_ms == 5
    for ttl in (1.5, True, "5"):
        (problem,) = problems_of(ListToolsResult, {"tools": [], "ttlMs": ttl})
        assert problem.startswith("ttlMs: expected an integer, got ")


def test_resource_contents_are_text_or_blob() -> None:
    value = {"contents": [{"uri": "a:b", "text": ""}, {"uri": "a:c", "blob": "AA=="}]}
    result = structure(ReadResourceResult, value, method="resources/read")

    assert [type(c).__name__ for c in result.contents] == ["TextResourceContents", "BlobResourceContents"]
    assert value == unstructure(result)
    assert problems_of(ReadResourceResult, {"contents": [{"uri": "a:b"}]}) == ["contents[0].text: is missing"]


@pytest.mark.requirement("VER-12")
def test_unknown_capabilities_are_exposed() -> None:
    offered = {"tools": {"listChanged": True}, "telepathy": {"range": 3}, "experimental": {"x": {}}}
    value = {"supportedVersions": ["2026-07-28"], "capabilities": offered}
    capabilities = structure(DiscoverResult, value, method="server/discover").capabilities

    assert capabilities.extra == {"telepathy": {"range": 3}}
    assert capabilities.tools == {"listChanged": True}
    assert offered == unstructure(capabilities)


def test_capabilities_in_a_wrong_shape_do_not_fail_the_connection() -> None:
    offered = {"tools": [], "prompts": True, "logging": False, "resources": None, "completions": "yes"}

    assert ServerCapabilities(tools={}, prompts={}) == structure(
        ServerCapabilities, offered, method="initialize"
    )
    assert ServerCapabilities() == structure(ServerCapabilities, [], method="initialize")


@pytest.mark.requirement("DISC-10", "META-13")
@pytest.mark.parametrize("info", [None, [], {}, "x", {"name": 5, "version": "1"}, {"name": "n"}])
def test_a_malformed_server_info_is_ignored(info: object) -> None:
    value = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}

    assert structure(InitializeResult, value, method="initialize").server_info is UNSET
    assert lenient(Implementation, info) is None


def test_lenient_reads_what_is_well_formed() -> None:
    assert Implementation(name="n", version="1") == lenient(Implementation, {"name": "n", "version": "1"})


def test_a_class_nobody_can_read_is_the_callers_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="can be read as"):
        structure(Callable, {}, method="x")  # type: ignore[arg-type]


# --- unstructure ----------------------------------------------------------------------------------


def test_absent_fields_are_left_out_and_discriminators_never() -> None:
    assert unstructure(TextContent(text="")) == {"type": "text", "text": ""}
    assert unstructure(PromptReference(name="p")) == {"type": "ref/prompt", "name": "p"}
    assert unstructure(ResourceTemplateReference(uri="u")) == {"type": "ref/resource", "uri": "u"}
    assert unstructure(ClientCapabilities()) == {}


def test_extra_never_overrides_a_field() -> None:
    extra = {"text": "other", "type": "image", "_meta": {"a": 1}, "new": 1}

    assert unstructure(TextContent(text="x", extra=extra)) == {
        "type": "text",
        "text": "x",
        "_meta": {"a": 1},
        "new": 1,
    }


@pytest.mark.requirement("META-21")
@pytest.mark.parametrize("value", [True, [], "form", None])
def test_a_capability_is_declared_as_an_object(value: Any) -> None:
    with pytest.raises(TypeError, match="'elicitation' must be a mapping"):
        ClientCapabilities(elicitation=value)


@pytest.mark.requirement("META-22")
@given(json_objects)
def test_metadata_is_passed_on_unchanged(meta: dict[str, Any]) -> None:
    value = {"content": [], "_meta": {"io.modelcontextprotocol/later": None, **meta}}

    assert value == unstructure(structure(CallToolResult, value, method="tools/call"))
