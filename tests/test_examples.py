"""The specification's own examples and schemas, where they are at hand: what the data classes make of them.

The examples are looked for in the folder that TRIO_MCP_SPEC_EXAMPLES names, then beside the checkout; the
schemas beside the examples.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import attrs
import pytest

from trio_mcp_stdio import types
from trio_mcp_stdio._wire.codec import structure, unstructure
from trio_mcp_stdio._wire.convert import Record, WireModel, to_camel, wire_names
from trio_mcp_stdio._wire.jsonrpc import Failure, Notification, Request, Success, decode

ROOT = Path(__file__).parent.parent


def _examples_folder() -> Path | None:
    """Where the examples are, as Definition/name.json at any depth."""
    named = os.environ.get("TRIO_MCP_SPEC_EXAMPLES")
    folder = Path(named) if named else ROOT.parent / "shared" / "spec" / "examples"
    return folder if folder.is_dir() else None


FOLDER = _examples_folder()
EXAMPLES = sorted(FOLDER.rglob("*.json")) if FOLDER else []
SCHEMAS = sorted((FOLDER.parent / "schema").glob("*.json")) if FOLDER else []

needs_examples = pytest.mark.skipif(
    not EXAMPLES,
    reason="the specification's examples are not here (TRIO_MCP_SPEC_EXAMPLES names their folder)",
)
needs_schemas = pytest.mark.skipif(
    not SCHEMAS, reason="the specification's schemas are not beside its examples"
)

PARAMS: dict[str, Any] = {
    "DiscoverRequest": types.RequestParams,
    "ListPromptsRequest": types.PaginatedRequestParams,
    "ListResourceTemplatesRequest": types.PaginatedRequestParams,
    "ListResourcesRequest": types.PaginatedRequestParams,
    "ListToolsRequest": types.PaginatedRequestParams,
    "PromptListChangedNotification": types.NotificationParams,
    "ResourceListChangedNotification": types.NotificationParams,
    "ToolListChangedNotification": types.NotificationParams,
}
"""Parameters of the messages whose parameters have no class of that message's name."""


UNDEFINED = {"ListRootsRequest": {"id"}}
"""Members that an example has although its definition has not."""


def unwrapped(definition: str, value: Any) -> list[tuple[Any, Any]]:
    """The data classes that an instance of a definition is made of, each with its JSON value."""
    named = getattr(types, definition, None)
    if named is not None:
        return [(named, value)]
    if definition.endswith("Error"):
        return _unwrapped_error(definition, value)
    message = decode(json.dumps(value).encode())
    if definition.endswith("ResultResponse"):
        assert isinstance(message, Success)
        return [(getattr(types, definition.removesuffix("Response")), value["result"])]
    assert isinstance(message, Request | Notification)
    return [(PARAMS.get(definition) or getattr(types, f"{definition}Params"), value["params"])]


def _unwrapped_error(definition: str, value: Any) -> list[tuple[Any, Any]]:
    error = value
    if "jsonrpc" in value:
        assert isinstance(decode(json.dumps(value).encode()), Failure)
        error = value["error"]
    data = getattr(types, f"{definition}Data", None)
    return [(types.Error, error)] + ([(data, error["data"])] if data else [])


def exact(value: Any) -> str:
    """A JSON value as text, for comparing it without taking 1 for 1.0 or True."""
    return json.dumps(value, sort_keys=True)


@needs_examples
def test_all_examples_are_there() -> None:
    assert len(EXAMPLES) >= 129


@needs_examples
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_example_comes_back_as_it_was(path: Path) -> None:
    value = json.loads(path.read_text("utf-8"))

    for cls, part in unwrapped(path.parent.name, value):
        read = structure(cls, part, method="example")
        if isinstance(read, Record):
            written: Any = unstructure(read)
        else:  # a map of data classes
            written = {key: unstructure(item) for key, item in read.items()}
            assert not any(type(item).__name__.startswith("Unknown") for item in read.values())

        assert exact(written) == exact(part)
        assert set(getattr(read, "extra", {})) == UNDEFINED.get(path.parent.name, set())


# --- The schemas ----------------------------------------------------------------------------------

ENVELOPES = ("Request", "Notification", "Response", "Error")
"""Ends of the names of whole messages, of which the data classes describe the contents only."""

ELSEWHERE = {
    # parts that other definitions are put together from
    "Annotated",
    "BaseMetadata",
    "CacheableResult",
    "Icons",
    "PaginatedResult",
    "Result",
    "TaskAugmentedRequestParams",
    # plain values
    "Cursor",
    "JSONArray",
    "JSONObject",
    "JSONValue",
    "MetaObject",
    "ResultType",
    # unions of messages and results
    "ClientResult",
    "JSONRPCMessage",
    "ServerResult",
    "JSONRPCBatchRequest",
    "JSONRPCBatchResponse",
    # an older name
    "ResourceReference",
}


CONSTANTS = ("type", "mode", "method", "result_type")


def properties(name: str, schema: dict[str, Any]) -> set[str]:
    """Names of the members that a definition lists, with those that it takes over from others."""
    definition = schema[name]
    found = set(definition.get("properties", {}))
    for part in definition.get("allOf", []):
        found |= properties(part["$ref"].rpartition("/")[2], schema)
    return found


def is_model(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, WireModel)


def definitions() -> list[Any]:
    """Every definition of every schema, as a parameter: its name, and all definitions of its revision."""
    found = []
    for path in SCHEMAS:
        content = json.loads(path.read_text("utf-8"))
        schema = content.get("$defs") or content["definitions"]
        found += [pytest.param(name, schema, id=f"{path.stem}/{name}") for name in schema]
    return found


@needs_schemas
@pytest.mark.parametrize(("name", "schema"), definitions())
def test_a_definition_has_a_class_with_all_its_members(name: str, schema: dict[str, Any]) -> None:
    described: Any = getattr(types, name, None)
    if described is None:
        assert name in ELSEWHERE or name.endswith(ENVELOPES)
        return
    if not is_model(described):
        return  # a union or a plain value
    names = set(wire_names(described).values())
    members = properties(name, schema)
    if "jsonrpc" in members:  # a whole message in the older revisions
        members -= {"jsonrpc", "id"}
    constants = {
        to_camel(member) for member in CONSTANTS if isinstance(getattr(described, member, None), str)
    }

    assert members - constants <= names
    assert constants <= members
    for field in attrs.fields(described):
        if field.default is attrs.NOTHING:
            assert wire_names(described)[field.name] in members
