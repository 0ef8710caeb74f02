"""The data classes that are loaded on first use: how they are loaded, and what their unions make of JSON."""

from __future__ import annotations

import ast
import importlib
import json
import pickle
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from trio_mcp_stdio import types
from trio_mcp_stdio._errors import InvalidResult
from trio_mcp_stdio._wire.codec import structure, unstructure
from trio_mcp_stdio.types import UNSET, EnumOption, TextContent

TYPES = Path(types.__file__)
ROOT = TYPES.parent.parent


def run(program: str, *arguments: str) -> str:
    """What a program prints in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(cls: Any, value: object) -> Any:
    return structure(cls, value, method="some/method")


def problems_of(cls: Any, value: object) -> list[str]:
    with pytest.raises(InvalidResult) as caught:
        read(cls, value)
    return sorted(caught.value.problems)


def survives(cls: Any, value: Any) -> Any:
    """Read a JSON value as a class, make sure that it is written back alike, and return what was read."""
    result = read(cls, value)
    written = [unstructure(item) for item in result] if isinstance(result, tuple) else unstructure(result)

    assert json.dumps(written, sort_keys=True) == json.dumps(value, sort_keys=True)
    return result


# --- Loading --------------------------------------------------------------------------------------


def test_the_package_does_not_load_them() -> None:
    program = "import sys, trio_mcp_stdio.types; print([name for name in sys.modules if '._types' in name])"

    assert run(program) == "[]\n"


def test_one_of_them_brings_only_what_it_is_made_of() -> None:
    program = (
        "import sys; from trio_mcp_stdio.types import SubscriptionFilter;"
        "print(sorted(name for name in sys.modules if '._types.' in name))"
    )

    assert run(program) == "['trio_mcp_stdio._types.subscriptions']\n"


def test_every_name_is_there_from_the_start() -> None:
    run(
        "from trio_mcp_stdio import types;"
        "assert set(types.__all__) <= set(dir(types));"
        "assert dir(types) == sorted(set(dir(types)));"
        "from trio_mcp_stdio.types import *;"
        "assert ElicitResult is types.ElicitResult is vars(types)['ElicitResult']"
    )


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match=r"module 'trio_mcp_stdio\.types' has no attribute 'Elicit'"):
        _ = types.Elicit  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'Elicit'"):
        exec("from trio_mcp_stdio.types import Elicit")


def test_pickles_load_where_nothing_was_imported() -> None:
    result = types.ElicitResult(action="accept", content={"a": 1})
    text = pickle.dumps(result).hex()
    program = "import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1])))"

    assert run(program, text) == f"{result!r}\n"


def test_problems_are_explained_although_others_were_before_they_were_loaded() -> None:
    program = """
from trio_mcp_stdio import types
from trio_mcp_stdio._errors import InvalidResult
from trio_mcp_stdio._wire.codec import structure
message = {"role": "user", "content": [{"type": "tool_use", "id": "1", "name": "n"}, {"type": "later"}]}
for name, value in [("Tool", {"name": "n"}), ("SamplingMessage", message)]:
    try:
        structure(getattr(types, name), value, method="any")
    except InvalidResult as error:
        print(*error.problems)
"""

    assert run(program).splitlines() == [
        "inputSchema: is missing",
        "content[0].input: is missing (in 'n')",
    ]


def test_the_lists_of_names_agree() -> None:
    tree = ast.parse(TYPES.read_text("utf-8"))
    for_checkers = {
        f"{node.module}": {alias.name for alias in node.names}
        for statement in tree.body
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
        for node in statement.body
        if isinstance(node, ast.ImportFrom)
    }
    modules = {
        f"_types.{path.stem}": importlib.import_module(f"trio_mcp_stdio._types.{path.stem}")
        for path in (TYPES.parent / "_types").glob("[a-z]*.py")
    }

    assert for_checkers == {name: set(module.__all__) for name, module in modules.items()}
    assert for_checkers == {f"_types.{name}": names for name, names in types._LATER.items()}
    assert set().union(*for_checkers.values()) <= set(types.__all__)


# --- Constants ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (types.StringSchema(), {"type": "string"}),
        (types.BooleanSchema(), {"type": "boolean"}),
        (types.NumberSchema(type="integer"), {"type": "integer"}),
        (types.RequestedSchema(properties={}), {"type": "object", "properties": {}}),
        (types.ListRootsRequest(), {"method": "roots/list"}),
        (types.ElicitRequestURLParams(message="m", url="u"), {"mode": "url", "message": "m", "url": "u"}),
        (types.InputRequiredResult(request_state=""), {"resultType": "input_required", "requestState": ""}),
        (
            types.ToolUseContent(id="1", name="n", input={}),
            {"type": "tool_use", "id": "1", "name": "n", "input": {}},
        ),
    ],
)
def test_constants_are_never_left_out(value: Any, written: dict[str, Any]) -> None:
    assert unstructure(value) == written
    assert read(type(value), written) == value


@pytest.mark.parametrize(
    ("cls", "value", "problem"),
    [
        (types.InputRequiredResult, {}, "expected the resultType 'input_required', got None"),
        (types.ListRootsRequest, {"method": "ping"}, "expected the method 'roots/list', got 'ping'"),
        (types.ElicitRequestURLParams, {"mode": "form"}, "expected the mode 'url', got 'form'"),
        (types.ElicitRequestFormParams, {"mode": "url"}, "mode: expected one of 'form', got 'url'"),
    ],
)
def test_constants_are_checked(cls: Any, value: object, problem: str) -> None:
    assert problem in problems_of(cls, value)


# --- Elicitation ----------------------------------------------------------------------------------

OPTIONS = [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]


@pytest.mark.requirement("ELIC-21")
@pytest.mark.parametrize(
    ("cls", "schema"),
    [
        (types.StringSchema, {"type": "string", "minLength": 1, "format": "email", "default": ""}),
        (types.StringSchema, {"type": "string", "format": "uuid", "pattern": "x"}),
        (types.NumberSchema, {"type": "number", "minimum": 0.5, "maximum": 2, "default": 1}),
        (types.NumberSchema, {"type": "integer", "enum": [1, 2]}),
        (types.BooleanSchema, {"type": "boolean", "default": False}),
        (types.UntitledSingleSelectEnumSchema, {"type": "string", "enum": ["a", "b"], "default": "a"}),
        (types.UntitledSingleSelectEnumSchema, {"type": "string", "enum": []}),
        (types.TitledSingleSelectEnumSchema, {"type": "string", "oneOf": OPTIONS, "title": "t"}),
        (types.LegacyTitledEnumSchema, {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}),
        (
            types.UntitledMultiSelectEnumSchema,
            {"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1, "default": ["a"]},
        ),
        (
            types.TitledMultiSelectEnumSchema,
            {"type": "array", "items": {"anyOf": OPTIONS, "x": 1}, "maxItems": 2, "description": "d"},
        ),
        (types.UnknownSchema, {"type": "object", "properties": {}}),
        (types.UnknownSchema, {"type": "array", "items": {"type": "number"}}),
        (types.UnknownSchema, {"type": "array", "items": []}),
        (types.UnknownSchema, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (types.UnknownSchema, {"type": ["string", "null"]}),
        (types.UnknownSchema, {"enum": ["a"]}),
        (types.UnknownSchema, {"type": None}),
        (types.UnknownSchema, True),
    ],
    ids=str,
)
def test_fields_of_a_form_are_told_apart(cls: Any, schema: Any) -> None:
    value = {"type": "object", "properties": {"field": schema}}

    assert type(survives(types.RequestedSchema, value).properties["field"]) is cls


@pytest.mark.requirement("ELIC-21")
@pytest.mark.parametrize(
    ("schema", "titles"),
    [
        (types.UntitledSingleSelectEnumSchema(enum=("a", "b")), "ab"),
        (types.UntitledMultiSelectEnumSchema(items=types.UntitledEnumItems(enum=("a", "b"))), "ab"),
        (types.LegacyTitledEnumSchema(enum=("a", "b"), enum_names=("A", "B")), "AB"),
        (types.LegacyTitledEnumSchema(enum=("a", "b"), enum_names=("A",)), "Ab"),
        (types.LegacyTitledEnumSchema(enum=("a", "b"), enum_names=("A", "B", "C")), "AB"),
        (read(types.TitledSingleSelectEnumSchema, {"type": "string", "oneOf": OPTIONS}), "AB"),
        (read(types.TitledMultiSelectEnumSchema, {"type": "array", "items": {"anyOf": OPTIONS}}), "AB"),
    ],
)
def test_all_choices_have_options(schema: types.EnumSchema, titles: str) -> None:
    expected = [EnumOption(const="a", title=titles[0]), EnumOption(const="b", title=titles[1])]

    assert expected == list(schema.options)


def test_fields_keep_their_order() -> None:
    value = {"type": "object", "properties": {name: {"type": "string"} for name in "zay"}}

    assert list(survives(types.RequestedSchema, value).properties) == ["z", "a", "y"]


def test_a_schema_keeps_its_dialect_and_what_is_unknown() -> None:
    value = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {}}
    schema = survives(types.RequestedSchema, {**value, "$defs": {"A": {}}, "required": []})

    assert value["$schema"] == schema.schema
    assert schema.extra == {"$defs": {"A": {}}}


@pytest.mark.requirement("ELIC-05")
def test_an_elicitation_is_a_form_unless_it_says_otherwise() -> None:
    form = {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}
    page = {"mode": "url", "message": "m", "url": "https://example.org", "elicitationId": "e"}

    for params in (form, {**form, "mode": "form"}, {**form, "task": {"ttl": 5}}):
        assert isinstance(survives(types.ElicitRequestParams, params), types.ElicitRequestFormParams)
    assert survives(types.ElicitRequestParams, page).elicitation_id == "e"
    assert problems_of(
        types.ElicitRequest, {"method": "elicitation/create", "params": {**form, "mode": "fax"}}
    ) == ["params.mode: expected one of 'form', got 'fax'"]


# --- Sampling -------------------------------------------------------------------------------------

BLOCKS = {
    "TextContent": {"type": "text", "text": "a"},
    "ImageContent": {"type": "image", "data": "", "mimeType": "image/png"},
    "AudioContent": {"type": "audio", "data": "", "mimeType": "audio/wav"},
    "ToolUseContent": {"type": "tool_use", "id": "1", "name": "n", "input": {"x": 1}, "_meta": {"a": 1}},
    "ToolResultContent": {
        "type": "tool_result",
        "toolUseId": "1",
        "content": [
            {"type": "text", "text": "a"},
            {"type": "resource", "resource": {"uri": "a:b", "text": ""}},
        ],
        "structuredContent": None,
        "isError": False,
    },
    "UnknownContent": {"type": "resource_link", "uri": "a:b", "name": "not allowed here"},
}


@pytest.mark.requirement("SAMP-09", "SAMP-15")
def test_content_of_a_message_is_one_block_or_several() -> None:
    for name, block in BLOCKS.items():
        message = survives(types.SamplingMessage, {"role": "user", "content": block})
        assert type(message.content).__name__ == name
        assert message.blocks == (message.content,)
    several = survives(types.SamplingMessage, {"role": "assistant", "content": list(BLOCKS.values())})
    assert list(BLOCKS) == [type(block).__name__ for block in several.blocks]
    assert several.content == several.blocks
    assert survives(types.SamplingMessage, {"role": "user", "content": []}).blocks == ()


def test_text_of_a_message() -> None:
    one = TextContent(text="a")
    image = types.ImageContent(data="", mime_type="image/png")
    answer = types.CreateMessageResult(
        role="assistant", model="m", content=(one, image, TextContent(text="b"))
    )

    assert types.SamplingMessage(role="user", content=one).text == "a"
    assert types.SamplingMessage(role="user", content=image).text == ""
    assert answer.text == "a\nb"
    assert len(answer.blocks) == 3


def test_problems_within_messages_are_located() -> None:
    params = {
        "messages": [
            {"role": "user", "content": {"type": "text"}},
            {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "tool_use", "id": 5}]},
        ],
        "maxTokens": 1.5,
        "toolChoice": {"mode": "sometimes"},
    }

    assert problems_of(types.CreateMessageRequestParams, params) == [
        "maxTokens: expected an integer, got a number",
        "messages[0].content.text: is missing",
        "messages[1].content[1].id: expected a string, got a number",
        "messages[1].content[1].input: is missing",
        "messages[1].content[1].name: is missing",
        "toolChoice.mode: expected one of 'auto', 'required', 'none', got 'sometimes'",
    ]


# --- Input requests -------------------------------------------------------------------------------


@pytest.mark.requirement("SAMP-14")
def test_input_requests_and_responses_are_told_apart() -> None:
    requests = {
        "form": {
            "method": "elicitation/create",
            "params": {"message": "m", "requestedSchema": {"type": "object", "properties": {}}},
        },
        "model": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
        "roots": {"method": "roots/list"},
        "roots too": {"method": "roots/list", "params": {"_meta": {"a": 1}}},
        "later": {"method": "later/wish", "params": [1]},
        "none": 5,
    }
    responses = {
        "form": {"action": "cancel"},
        "model": {"role": "assistant", "content": BLOCKS["TextContent"], "model": "m", "stopReason": "tired"},
        "roots": {"roots": [{"uri": "file:///a", "name": "n", "_meta": {}}]},
        "roots too": {"roots": []},
        "later": {"wish": True},
        "none": 5,
    }
    result = survives(types.InputRequiredResult, {"resultType": "input_required", "inputRequests": requests})
    params = survives(
        types.CallToolRequestParams, {"name": "t", "inputResponses": responses, "requestState": ""}
    )

    assert [type(request).__name__ for request in result.input_requests.values()] == [
        "ElicitRequest",
        "CreateMessageRequest",
        "ListRootsRequest",
        "ListRootsRequest",
        "UnknownInputRequest",
        "UnknownInputRequest",
    ]
    assert result.input_requests["later"].method == "later/wish"
    assert result.input_requests["none"].method is None
    assert types.UnknownInputRequest(raw={"method": 5}).method is None
    assert [type(response).__name__ for response in params.input_responses.values()] == [
        "ElicitResult",
        "CreateMessageResult",
        "ListRootsResult",
        "ListRootsResult",
        "UnknownInputResponse",
        "UnknownInputResponse",
    ]


def test_problems_within_maps_are_located() -> None:
    value = {
        "resultType": "input_required",
        "inputRequests": {
            "a": {"method": "roots/list"},
            "b c": {"method": "elicitation/create", "params": {}},
        },
    }

    assert problems_of(types.InputRequiredResult, value) == [
        "inputRequests['b c'].params.message: is missing",
        "inputRequests['b c'].params.requestedSchema: is missing",
    ]
    assert problems_of(types.InputRequiredResult, {**value, "inputRequests": [1]}) == [
        "inputRequests: expected an object, got an array"
    ]
    assert problems_of(types.GetPromptRequestParams, {"name": "p", "arguments": {"n": 1}}) == [
        "arguments['n']: expected a string, got a number"
    ]


def test_an_empty_array_is_an_empty_map() -> None:
    assert (
        read(types.InputRequiredResult, {"resultType": "input_required", "inputRequests": []}).input_requests
        == {}
    )


def test_an_input_required_result_says_what_it_needs_or_has_a_state() -> None:
    with pytest.raises(ValueError, match="has neither inputRequests nor requestState"):
        types.InputRequiredResult()

    assert types.InputRequiredResult(input_requests={}).request_state is UNSET
    assert types.InputRequiredResult(request_state="").input_requests is UNSET
    assert problems_of(types.InputRequiredResult, {"resultType": "input_required"}) == [
        "has neither inputRequests nor requestState"
    ]


def test_maps_of_any_kind_are_written() -> None:
    responses: Any = {"a": types.ElicitResult(action="decline"), "b": {"action": "cancel"}}
    params = types.CallToolRequestParams(name="t", input_responses=MappingProxyType(responses))

    assert unstructure(params) == {
        "name": "t",
        "inputResponses": {"a": {"action": "decline"}, "b": {"action": "cancel"}},
    }


# --- The rest -------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_id", [0, 1, -5, 2**70, "", "1"])
def test_ids_are_kept_as_they_are(request_id: int | str) -> None:
    params = survives(types.CancelledNotificationParams, {"requestId": request_id})

    assert params.request_id == request_id
    assert type(params.request_id) is type(request_id)


def test_ids_are_strings_or_integers() -> None:
    assert read(types.CancelledNotificationParams, {"requestId": 1.0}).request_id == 1
    assert read(types.CancelledNotificationParams, {"requestId": None}).request_id is UNSET
    for wrong, kind in ((True, "a boolean"), ([], "an array")):
        assert problems_of(types.CancelledNotificationParams, {"requestId": wrong}) == [
            f"requestId: expected a string or an integer, got {kind}"
        ]
    assert problems_of(types.ProgressNotificationParams, {"progressToken": 1.5, "progress": 1}) == [
        "progressToken: expected an integer, got a number"
    ]


def test_what_a_subscription_belongs_to() -> None:
    key = "io.modelcontextprotocol/subscriptionId"

    for subscription_id in (0, "", "1"):
        result = types.SubscriptionsListenResult(meta={key: subscription_id})
        assert result.subscription_id == subscription_id
    for meta in (UNSET, {}, {key: None}, {key: True}):
        acknowledged = types.SubscriptionsAcknowledgedNotificationParams(
            notifications=types.SubscriptionFilter(tools_list_changed=True), meta=meta
        )
        assert acknowledged.subscription_id is None


def test_metadata_has_names_of_its_own() -> None:
    prefix = "io.modelcontextprotocol/"
    value = {
        f"{prefix}protocolVersion": "2026-07-28",
        f"{prefix}clientCapabilities": {"sampling": {}},
        f"{prefix}clientInfo": {"name": "n", "version": "1"},
        f"{prefix}logLevel": "info",
        "progressToken": 5,
        "traceparent": "kept",
    }
    meta = survives(types.RequestMetaObject, value)

    assert meta.protocol_version == "2026-07-28"
    assert meta.client_info == types.Implementation(name="n", version="1")
    assert meta.extra == {"traceparent": "kept"}
    assert read(types.RequestMetaObject, {**value, f"{prefix}clientInfo": 5}).client_info is UNSET
    assert problems_of(types.RequestMetaObject, {f"{prefix}protocolVersion": 5}) == [
        f"{prefix}clientCapabilities: is missing",
        f"{prefix}protocolVersion: expected a string, got a number",
    ]


def test_a_log_message_may_carry_null() -> None:
    assert survives(types.LoggingMessageNotificationParams, {"level": "info", "data": None}).data is None
    assert problems_of(types.LoggingMessageNotificationParams, {"level": "info"}) == ["data: is missing"]


def test_a_task_may_be_kept_for_ever() -> None:
    task = {"taskId": "1", "status": "working", "createdAt": "c", "lastUpdatedAt": "l", "ttl": None}

    assert survives(types.GetTaskResult, task).ttl is None
    assert survives(types.CreateTaskResult, {"task": {**task, "ttl": 5, "pollInterval": 1}}).task.ttl == 5
    assert problems_of(types.Task, {**task, "ttl": "long", "status": "lost"}) == [
        "status: expected one of 'working', 'input_required', 'completed', 'failed', 'cancelled', got 'lost'",
        "ttl: expected an integer, got a string",
    ]


def test_references_are_told_apart() -> None:
    argument = {"name": "n", "value": ""}
    prompt = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": argument}
    template = {
        "ref": {"type": "ref/resource", "uri": "u"},
        "argument": argument,
        "context": {"arguments": {"a": "b"}},
    }

    assert isinstance(survives(types.CompleteRequestParams, prompt).ref, types.PromptReference)
    assert isinstance(survives(types.CompleteRequestParams, template).ref, types.ResourceTemplateReference)
    assert problems_of(types.CompleteRequestParams, {"ref": {"type": "ref/tool"}, "argument": argument}) == [
        "ref: expected the type 'ref/resource', got 'ref/tool'"
    ]
