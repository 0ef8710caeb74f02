"""Arguments and structured content checked against the schemas of tools, and what that may cost."""

from __future__ import annotations

import math
import pickle
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from helpers import alive, both_eras, fake, nothing_left
from scripted import Message, Peer, running, session, text
from trio_mcp_stdio import (
    Client,
    ClientOptions,
    InvalidArguments,
    LocalProtocolError,
    Validation,
    open_client,
)
from trio_mcp_stdio._client.validation import MAX_TOOLS, KnownTools
from trio_mcp_stdio._wire.schemas import DIALECTS, SchemaRefused, measure
from trio_mcp_stdio.types import CallToolResult, Tool

OBJECT = {"type": "object"}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
HOWTO = Path(__file__).parent.parent / "docs" / "howto" / "validation.md"


def check(schema: Any, value: Any, **settings: Any) -> tuple[str, ...]:
    """The problems that structured content has with an output schema."""
    known = KnownTools("server")
    known.remember((Tool(name="t", input_schema=OBJECT, output_schema=schema),))
    result = CallToolResult(structured_content=value)
    return known.mark("t", result, Validation(**settings), any_kind=True).problems


def only(problems: tuple[str, ...]) -> str:
    (problem,) = problems
    return problem


@asynccontextmanager
async def listed(
    era: str = "modern", validate: bool | Validation = True, **tool: Any
) -> AsyncIterator[tuple[Client, Peer]]:
    """A session in which a tool `t` has been listed."""
    options = ClientOptions(validate=validate)
    async with session(era, options) as (client, peer):
        async with running(client.all_tools):
            request = await peer.request("tools/list")
            await peer.reply(request, {"tools": [{"name": "t", "inputSchema": OBJECT, **tool}]})
        yield client, peer


async def called(client: Client, peer: Peer, result: Message, *args: Any, **options: Any) -> Any:
    async with running(lambda: client.call_tool("t", *args, **options)) as outcome:
        await peer.reply(await peer.request("tools/call"), result)
    return outcome[0]


# Results


@pytest.mark.field("K056")
@pytest.mark.requirement("TOOL-12")
@both_eras
async def test_structured_content_that_violates_its_schema_is_marked_and_nothing_more(
    era: str,
) -> None:
    with alive(), nothing_left():
        options = ClientOptions(validate=True)
        async with open_client(fake("pages", "wrong", era=era), options) as client:
            await client.list_tools()
            for _ in range(5):
                result = await client.call_tool("wrong", {"n": "not a number"})
                assert result.text == "fine"
                assert result.structured_content == {"n": "not a number"}
                assert only(result.problems).startswith("structuredContent.n: ")
                assert not result.is_error
            result = await client.call_tool("wrong", {"n": 5})
            assert result.problems == ()
            found = client.statistics()
            assert (found.errors, found.malformed, found.tolerated) == (era == "legacy", 0, 0)  # the probe's
            assert pickle.loads(pickle.dumps(result)) == result


async def test_nothing_is_checked_unless_asked_for() -> None:
    async with listed(validate=False, outputSchema=NUMBER) as (client, peer):
        wrong = text("", structuredContent={"n": "x"})
        assert (await called(client, peer, wrong)).problems == ()
        assert len((await called(client, peer, wrong, validate=True)).problems) == 1
        assert len((await called(client, peer, wrong, validate=Validation())).problems) == 1
        assert (await called(client, peer, wrong, validate=Validation(results=False))).problems == ()
        assert (await called(client, peer, wrong, validate=True, raw=True)) == wrong


async def test_a_call_may_turn_the_setting_of_the_client_off() -> None:
    async with listed(validate=True, outputSchema=NUMBER) as (client, peer):
        wrong = text("", structuredContent={"n": "x"})
        assert len((await called(client, peer, wrong)).problems) == 1
        assert (await called(client, peer, wrong, validate=False)).problems == ()


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (text(""), "is missing"),
        (text("", structuredContent=None), "null is not of type"),
        (text("failed", isError=True), None),
        (text("failed", isError=True, structuredContent=[]), None),
        (text("", structuredContent={"n": 10**30}), None),
    ],
)
async def test_which_results_have_to_match(result: Message, problem: str | None) -> None:
    async with listed(outputSchema=NUMBER) as (client, peer):
        found = (await called(client, peer, result)).problems
        assert found == () if problem is None else problem in only(found)


@pytest.mark.parametrize("content", [[1], "x", 0, False, None, 1.5])
async def test_modern_structured_content_may_be_of_any_kind(content: Any) -> None:
    async with listed("modern") as (client, peer):
        result = await called(client, peer, text("", structuredContent=content))
        assert (result.structured_content, result.problems) == (content, ())


@pytest.mark.parametrize("content", [[1], "x", 0, False, None])
async def test_legacy_structured_content_has_to_be_an_object(content: Any) -> None:
    async with listed("legacy") as (client, peer):
        result = await called(client, peer, text("", structuredContent=content))
        assert result.structured_content == content
        assert "expected an object" in only(result.problems)
        assert (await called(client, peer, text("", structuredContent={}))).problems == ()


async def test_a_tool_that_was_never_listed_is_not_looked_up_and_its_content_is_marked_as_unchecked() -> None:
    async with session(options=ClientOptions(validate=True)) as (client, peer):
        result = await called(client, peer, text("", structuredContent={"n": 1}))
        assert "not checked: the tool 't' is in no list" in only(result.problems)
        assert (await called(client, peer, text("no structure"))).problems == ()
        checks = Validation(arguments=True)
        with pytest.raises(InvalidArguments, match="is in no list"):
            await client.call_tool("t", validate=checks)
        assert [message["method"] for message in peer.seen if "id" in message][1:] == ["tools/call"] * 2


async def test_a_later_list_replaces_a_schema() -> None:
    async with listed(outputSchema=NUMBER) as (client, peer):
        content = text("", structuredContent={"n": 1})
        assert (await called(client, peer, content)).problems == ()
        async with running(client.list_tools):
            tool = {"name": "t", "inputSchema": OBJECT, "outputSchema": {"required": ["m"]}}
            await peer.reply(await peer.request("tools/list"), {"tools": [tool]})
        assert "m" in only((await called(client, peer, content)).problems)


def test_the_memory_of_tools_is_bounded() -> None:
    known = KnownTools("server")
    known.remember(tuple(Tool(name=f"t{number}", input_schema=OBJECT) for number in range(MAX_TOOLS + 1)))
    result = CallToolResult(structured_content=1)

    assert known.mark("t1", result, Validation(), any_kind=True) is result
    assert known.mark("t0", result, Validation(), any_kind=True).problems != ()


# Arguments


@both_eras
async def test_arguments_that_do_not_match_raise_before_anything_is_queued(era: str) -> None:
    async with listed(era, Validation(arguments=True), inputSchema=NUMBER) as (client, peer):
        before, requests = len(peer.seen), client.statistics().requests
        for arguments in ({"n": "x"}, {}, None, {"n": 1.5}):
            with pytest.raises(InvalidArguments) as caught:
                await client.call_tool("t", arguments)
            assert isinstance(caught.value, LocalProtocolError)
            assert (caught.value.tool, caught.value.server) == ("t", client.name)
            assert only(tuple(caught.value.problems)).startswith("arguments")
            assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems
        with pytest.raises(LocalProtocolError, match=r"arguments\.n|n: nan"):
            await client.call_tool("t", {"n": math.nan})
        assert (len(peer.seen), client.statistics().requests) == (before, requests)
        assert (await called(client, peer, text("ok"), {"n": 1})).text == "ok"
        assert (await called(client, peer, text("ok"), {"n": "x"}, validate=False)).text == "ok"


async def test_arguments_are_left_to_the_server_unless_asked_for() -> None:
    async with listed(inputSchema=NUMBER) as (client, peer):
        assert (await called(client, peer, text("told"), {"n": "x"})).text == "told"


async def test_arguments_are_checked_as_they_are_on_the_wire() -> None:
    schema = {"properties": {"t": {"type": "object", "required": ["inputSchema"]}, "l": {"type": "array"}}}
    async with listed(validate=Validation(arguments=True), inputSchema=schema) as (client, peer):
        arguments = {"t": Tool(name="x", input_schema={}), "l": (1, 2)}
        assert (await called(client, peer, text("ok"), arguments)).text == "ok"


async def test_an_input_schema_that_cannot_be_used_is_an_error_of_its_own() -> None:
    schema = {"$ref": "https://example.invalid/schema"}
    async with listed(validate=Validation(arguments=True), inputSchema=schema) as (client, _):
        with pytest.raises(InvalidArguments, match="not checked: the input schema cannot be used"):
            await client.call_tool("t", {})


# The extra, and settings


async def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    async with listed(outputSchema=NUMBER) as (client, peer):
        before = len(peer.seen)
        with pytest.raises(LocalProtocolError, match=r"trio_mcp_stdio\[validate\]") as caught:
            await client.call_tool("t")
        assert caught.value.server == client.name
        assert len(peer.seen) == before
        assert (await called(client, peer, text("ok"), validate=False)).text == "ok"


@pytest.mark.parametrize("name", ["max_schema_bytes", "max_schema_depth", "max_steps"])
@pytest.mark.parametrize("value", [0, -1, None, "1"])
def test_bounds_have_to_be_positive(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Validation(**{name: value})


async def test_odd_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="validate"):
        ClientOptions(validate="yes")  # type: ignore[arg-type]
    async with listed() as (client, peer):
        before = len(peer.seen)
        with pytest.raises(LocalProtocolError, match="validate"):
            await client.call_tool("t", validate="yes")  # type: ignore[call-overload]
        assert len(peer.seen) == before


def test_settings_are_frozen_comparable_and_picklable() -> None:
    assert pickle.loads(pickle.dumps(Validation(arguments=True))) == Validation(arguments=True)
    assert hash(Validation()) == hash(Validation())


# Dialects


@pytest.mark.requirement("JSCH-01", "JSCH-18", "LEG-SCHEMA-01")
def test_a_schema_that_names_no_dialect_is_read_as_2020_12() -> None:
    schema = {"prefixItems": [{"type": "integer"}], "items": False}

    assert check(schema, [1]) == ()
    assert len(check(schema, ["x"])) == 1
    assert len(check(schema, [1, 2])) == 1


@pytest.mark.requirement("JSCH-02")
@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"properties": {"a": True}, "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
        (
            {"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": {"type": "string"}},
            {"a": 1, "b": "x"},
            {"b": 1},
        ),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"b": 1}, {"a": 1}),
        ({"$defs": {"n": {"$anchor": "n", "type": "integer"}}, "items": {"$ref": "#n"}}, [1], ["x"]),
        (
            {
                "$id": "https://example.com/strict",
                "$dynamicAnchor": "node",
                "$ref": "tree",
                "unevaluatedProperties": False,
                "$defs": {
                    "tree": {
                        "$id": "tree",
                        "$dynamicAnchor": "node",
                        "properties": {"children": {"items": {"$dynamicRef": "#node"}}},
                    }
                },
            },
            {"children": [{"children": []}]},
            {"children": [{"daat": 1}]},
        ),
        ({"if": {"type": "integer"}, "then": {"minimum": 5}, "else": {"type": "string"}}, 7, 3),
        ({"contains": {"const": 1}, "minContains": 2}, [1, 1], [1]),
    ],
)
def test_what_is_new_in_2020_12_is_understood(schema: Any, good: Any, bad: Any) -> None:
    assert check(schema, good) == ()
    assert len(check(schema, bad)) >= 1


@pytest.mark.requirement("JSCH-03", "JSCH-05")
@pytest.mark.parametrize(
    ("dialect", "schema", "good", "bad"),
    [
        ("http://json-schema.org/draft-07/schema#", {"items": [{"type": "integer"}]}, [1], ["x"]),
        ("http://json-schema.org/draft-07/schema", {"items": [{"type": "integer"}]}, [1], ["x"]),
        ("http://json-schema.org/draft-06/schema#", {"exclusiveMinimum": 1}, 2, 1),
        ("http://json-schema.org/draft-04/schema#", {"minimum": 1, "exclusiveMinimum": True}, 2, 1),
        ("https://json-schema.org/draft/2019-09/schema", {"items": [{"type": "integer"}]}, [1], ["x"]),
        ("https://json-schema.org/draft/2020-12/schema", {"prefixItems": [{"type": "integer"}]}, [1], ["x"]),
    ],
)
def test_a_schema_is_read_in_the_dialect_it_names(dialect: str, schema: Any, good: Any, bad: Any) -> None:
    assert check({"$schema": dialect, **schema}, good) == ()
    assert len(check({"$schema": dialect, **schema}, bad)) == 1


@pytest.mark.requirement("JSCH-05")
@both_eras
async def test_an_unknown_dialect_is_named_and_costs_only_the_check(era: str) -> None:
    schema = {"$schema": "urn:x:dialect", **OBJECT}
    async with listed(era, outputSchema=schema) as (client, peer):
        result = await called(client, peer, text("ok", structuredContent={}))
        assert result.text == "ok"
        assert "the dialect 'urn:x:dialect' is not supported" in only(result.problems)
    assert "dialect" in only(check({"properties": {"a": schema}}, {}))


@pytest.mark.requirement("JSCH-04")
def test_the_dialects_are_documented() -> None:
    page = HOWTO.read_text("utf-8")

    assert [dialect for dialect in DIALECTS if dialect not in page] == []


# References


@pytest.mark.requirement("JSCH-07", "JSCH-08", "JSCH-10")
@both_eras
async def test_a_reference_into_the_network_is_never_followed_and_does_not_pass(era: str) -> None:
    async with trio.open_nursery() as nursery:
        reached: list[object] = []

        async def canary(stream: trio.SocketStream) -> None:
            reached.append(stream)
            await stream.aclose()

        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        host, port = listener.socket.getsockname()
        nursery.start_soon(trio.serve_listeners, canary, [listener])
        for schema in (
            {"$ref": f"http://{host}:{port}/schema"},
            {"properties": {"a": {"$ref": f"http://{host}:{port}/schema#/x"}}},
            {"$id": f"http://{host}:{port}/root", "properties": {"a": {"$ref": "other"}}},
            {"$dynamicRef": f"http://{host}:{port}/schema#node"},
        ):
            checks = Validation(arguments=True)
            async with listed(era, inputSchema=schema, outputSchema=schema) as (client, peer):
                result = await called(client, peer, text("ok", structuredContent={"a": 1}))
                assert result.text == "ok"
                assert "nothing is fetched" in only(result.problems)
                with pytest.raises(InvalidArguments, match="nothing is fetched"):
                    await client.call_tool("t", {}, validate=checks)
        assert reached == []
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "reference",
    [
        Path(__file__).as_uri(),
        "file:///etc/hostname",
        "schema.json",
        "//example.invalid/schema",
        "urn:x:y",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
def test_no_reference_leads_out_of_the_schema(reference: str) -> None:
    assert "leads out of it" in only(check({"properties": {"a": {"$ref": reference}}}, {}))


@pytest.mark.parametrize("reference", ["#/$defs/none", "#none", "#/type", "#/required/0"])
def test_a_reference_that_leads_nowhere_is_no_pass(reference: str) -> None:
    schema = {"$ref": reference, "type": "object", "required": ["a"]}

    assert "not checked" in only(check(schema, {"a": 1}))


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"a/b~c d": NUMBER}, "items": {"$ref": "#/$defs/a~1b~0c%20d"}},
        {"$defs": {"a": {"$id": "a.json", **NUMBER}}, "items": {"$ref": "a.json"}},
        {"$id": "urn:x:y", "$defs": {"a": NUMBER}, "items": {"$ref": "#/$defs/a"}},
        {
            "$id": "http://x/y",
            "$defs": {"a": {"$id": "z", "$anchor": "b", **NUMBER}},
            "items": {"$ref": "z#b"},
        },
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"a": {"$id": "#a", **NUMBER}},
            "items": {"$ref": "#a"},
        },
        {"properties": {"$ref": NUMBER, "$id": NUMBER}, "items": NUMBER},
        {"const": [{"n": 1}], "default": {"$ref": "http://x/y"}},
    ],
)
def test_references_within_the_schema_work(schema: Any) -> None:
    assert check(schema, [{"n": 1}]) == ()
    assert len(check(schema, [{"n": "x"}])) == 1


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}},
        {"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}},
        {"$defs": {"a": {"$id": ""}}},
    ],
)
def test_names_that_two_parts_of_a_schema_have_are_refused(schema: Any) -> None:
    assert "two of its parts are called" in only(check(schema, 1))


def test_recursive_references_of_2019_09_work() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$recursiveAnchor": True,
        "properties": {"v": {"type": "integer"}, "c": {"items": {"$recursiveRef": "#"}}},
    }

    assert check(schema, {"c": [{"v": 1, "c": []}]}) == ()
    assert only(check(schema, {"c": [{"v": "x"}]})).startswith("structuredContent.c[0].v: ")


# What it may cost


def bomb(height: int, keyword: str = "anyOf", leaf: Any = None) -> dict[str, Any]:
    """A small schema that takes 2 ** height steps."""
    definitions = {"a0": leaf or {"type": "string"}}
    for number in range(1, height):
        below = f"#/$defs/a{number - 1}"
        definitions[f"a{number}"] = {keyword: [{"$ref": below}, {"$ref": below}]}
    return {"$defs": definitions, "$ref": f"#/$defs/a{height - 1}"}


@pytest.mark.requirement("JSCH-11")
@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf"])
@pytest.mark.parametrize("height", [25, 40, 90, 2000])
def test_an_exponential_schema_is_refused_before_it_is_used(keyword: str, height: int) -> None:
    schema = bomb(height, keyword)
    began = time.monotonic()

    assert "not checked: the output schema cannot be used" in only(check(schema, 1))
    assert time.monotonic() - began < 10


@pytest.mark.requirement("JSCH-11")
def test_a_schema_that_explodes_with_the_nesting_of_the_value_is_refused() -> None:
    again = {"x": {"$ref": "#/$defs/n"}}
    branches = [{"properties": again, "required": ["x"]}, {"properties": again, "required": ["y"]}]
    schema = {"$defs": {"n": {"anyOf": branches}}, "$ref": "#/$defs/n"}
    deep: Any = {}
    for _ in range(40):
        deep = {"x": deep}

    assert check(schema, {"y": 1}) == ()
    assert "max_steps" in only(check(schema, deep))


def test_the_number_of_steps_is_a_setting() -> None:
    schema = bomb(12)

    assert check(schema, "x") == ()
    assert "max_steps" in only(check(schema, "x", max_steps=1000))


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"anyOf": [{"not": {"$ref": "#"}}]}])
def test_a_schema_that_refers_to_itself_without_end_is_refused(schema: Any) -> None:
    assert "refers to itself without end" in only(check(schema, 1))


def test_recursive_schemas_that_people_write_are_fine() -> None:
    tree: Any = {"type": "object", "properties": {"v": {"type": "integer"}, "c": {"items": {"$ref": "#"}}}}
    value: Any = {"v": "x", "c": []}
    for _ in range(60):
        value = {"v": 1, "c": [value, {"v": 2}]}

    assert only(check(tree, value)).startswith("structuredContent.c[0].c[0].")


def test_large_values_are_checked() -> None:
    rows = {"items": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}

    assert check(rows, [{"a": number} for number in range(50_000)]) == ()
    assert only(check(rows, [{"a": "x"}] * 50_000)).startswith("structuredContent[0].a: ")
    either = {"items": {"anyOf": [{"type": "string"}, {"type": "boolean"}]}}
    assert check(either, [1] * 50_000) == ("structuredContent: does not match its schema",)


def test_size_and_depth_of_a_schema_are_bounded() -> None:
    deep: Any = {}
    for _ in range(70):
        deep = {"not": deep}

    assert "max_schema_depth" in only(check(deep, 1))
    assert "max_schema_bytes" in only(check({"description": "x" * 2**18}, 1))
    assert check({"description": "x" * 2**18}, 1, max_schema_bytes=2**20) == ()


def test_values_nested_too_deep_are_not_checked() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]

    assert "nested deeper" in only(check({"items": True}, deep))


def test_patterns_cannot_run_away() -> None:
    began = time.monotonic()

    assert len(check({"items": {"pattern": r"(?=a)(a|aa)+\1$"}}, ["a" * 60 + "!"] * 100)) >= 1
    assert "not checked" in only(check({"pattern": "(a{1000}){1000}"}, "a"))
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("schema", [{"type": "objekt"}, {"pattern": "("}, {"required": "a"}, {"$schema": 5}])
def test_a_schema_that_is_none_does_not_pass(schema: Any) -> None:
    assert "not checked: the output schema cannot be used" in only(check(schema, {}))
    assert "not checked" in only(check(schema, {}))  # and is remembered as that


def test_only_the_first_problems_are_told() -> None:
    problems = check({"items": {"type": "string"}}, [1] * 100)

    assert len(problems) == 21
    assert problems[-1] == "structuredContent: and more"
    assert all(len(each) < 400 for each in check({"items": {"type": "integer"}}, ["x" * 10_000]))


def test_odd_paths_are_told() -> None:
    schema = {"additionalProperties": {"items": {"type": "string"}}}

    assert only(check(schema, {"a b": [1]})).startswith("structuredContent['a b'][0]: ")


def test_the_measure_alone() -> None:
    outline = measure(NUMBER, max_bytes=1000, max_depth=10)

    assert outline.steps(0) <= outline.steps(1) == outline.steps(5) < 20
    with pytest.raises(SchemaRefused, match="nested schemas"):
        measure(bomb(200), max_bytes=10**6, max_depth=64).steps(0)
