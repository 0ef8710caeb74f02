"""Checking arguments and structured content against the schemas of tools.

The validator is the extra `validate`, jsonschema-rs.  It holds the interpreter's lock while it works, so
that a thread would neither let other tasks run nor could be given up; instead the work is bounded before it
begins (`_wire.schemas`).
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Mapping
from typing import Any, Final, final

import attrs

from .._errors import InvalidArguments, LocalProtocolError
from .._wire.codec import as_json
from .._wire.convert import UNSET, json_kind
from .._wire.schemas import DIALECTS, Outline, SchemaRefused, measure
from ..types import CallToolResult, Tool

__all__ = ["KnownTools", "Validation"]

MAX_TOOLS: Final = 4096
"""Tools whose schemas a client remembers, the latest ones."""

_MAX_DEPTH: Final = 256
_EXPLAINED_STEPS: Final = 20_000  # past them, finding all reasons takes much memory
_PROBLEMS: Final = 20
_BACKTRACKING: Final = 10_000
_PATTERN_BYTES: Final = 2**20


def _at_least_one(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{attribute.name} must be at least 1, not {value!r}")


@final
@attrs.frozen(kw_only=True)
class Validation:
    """What is checked against the schemas of a tool, and how much that may cost.

    Args:
        results: check structured content against `output_schema`; what is wrong is told in
            `CallToolResult.problems`.
        arguments: check arguments against `input_schema`; what is wrong raises `InvalidArguments` before
            anything is queued.
        max_schema_bytes: size of a schema, as compact JSON.
        max_schema_depth: levels of subschemas within one another.
        max_steps: how often subschemas may be applied to values in one check, by an upper bound that is
            computed before it; a step takes up to some 50 ns, during which nothing else runs.
    """

    results: bool = True
    arguments: bool = False
    max_schema_bytes: int = attrs.field(default=2**18, validator=_at_least_one)
    max_schema_depth: int = attrs.field(default=64, validator=_at_least_one)
    max_steps: int = attrs.field(default=10_000_000, validator=_at_least_one)


class _Checker:
    """One schema, ready to check values with."""

    def __init__(self, schema: Mapping[str, Any], settings: Validation) -> None:
        self._outline: Outline = measure(
            schema, max_bytes=settings.max_schema_bytes, max_depth=settings.max_schema_depth
        )
        library = _library()
        options = library.FancyRegexOptions(backtrack_limit=_BACKTRACKING, size_limit=_PATTERN_BYTES)
        make = getattr(library, DIALECTS[self._outline.dialect])
        try:
            self._validator: Any = make(schema, offline=True, pattern_options=options)
        except Exception as error:
            raise SchemaRefused(_sentence(error)) from error

    def problems(self, value: Any, max_steps: int, name: str) -> list[str]:
        """What is wrong with a JSON value, a sentence each, beginning with its path from `name` on.

        Raises:
            SchemaRefused: the schema cannot be used with this value.
        """
        size, depth = _extent(value)
        steps = size * self._outline.steps(depth)
        if steps > max_steps:
            raise SchemaRefused(
                f"checking takes up to {steps:,.6g} steps, more than {max_steps:,} (max_steps)"
            )
        try:
            if self._validator.is_valid(value):
                return []
            if steps <= _EXPLAINED_STEPS:
                errors = list(itertools.islice(self._validator.iter_errors(value), _PROBLEMS + 1))
            elif self._outline.branches:
                return [f"{name}: does not match its schema"]
            else:
                errors = [_first_error(self._validator, value)]
        except Exception as error:
            raise SchemaRefused(_sentence(error)) from error
        found = [f"{name}{_path(error.instance_path)}: {_sentence(error)}" for error in errors[:_PROBLEMS]]
        return found + [f"{name}: and more"] * (len(errors) > _PROBLEMS)


@attrs.define(eq=False)
class _Entry:
    """A tool as it was listed last, and what was made of its schemas."""

    tool: Tool
    checkers: dict[tuple[str, Validation], _Checker | SchemaRefused] = attrs.field(factory=dict)

    def checker(self, member: str, schema: Mapping[str, Any], settings: Validation) -> _Checker:
        key = (member, settings)
        made = self.checkers.get(key)
        if made is None:
            try:
                made = _Checker(schema, settings)
            except SchemaRefused as error:
                made = error.with_traceback(None)
            self.checkers[key] = made
        if isinstance(made, SchemaRefused):
            raise made
        return made


class KnownTools:
    """The tools that a client has seen in lists, to check calls of them."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._entries: dict[str, _Entry] = {}

    def remember(self, tools: tuple[Tool, ...]) -> None:
        """Take over what a list says."""
        for tool in tools:
            known = self._entries.pop(tool.name, None)
            self._entries[tool.name] = known if known is not None and known.tool == tool else _Entry(tool)
        while len(self._entries) > MAX_TOOLS:
            del self._entries[next(iter(self._entries))]

    def settings(self, asked: bool | Validation, default: bool | Validation) -> Validation | None:
        """What is to be checked, None for nothing.

        Raises:
            LocalProtocolError: the validator is not installed.
        """
        if asked is True and isinstance(default, Validation):
            asked = default
        if asked is False:
            return None
        if not isinstance(asked, bool | Validation):
            raise LocalProtocolError(
                f"validate must be True, False or a Validation, not {asked!r:.80}", server=self._server
            )
        found = Validation() if asked is True else asked
        if not found.results and not found.arguments:
            return None
        try:
            _library()
        except LocalProtocolError as error:
            error.server = self._server
            raise
        return found

    def check_arguments(self, name: str, arguments: Mapping[str, Any] | None, settings: Validation) -> None:
        """Check arguments against the input schema.

        Raises:
            InvalidArguments: they do not match, or cannot be checked.
            LocalProtocolError: they have no JSON form.
        """
        entry = self._entries.get(name)
        if entry is None:
            problems = [f"arguments: {_unlisted(name)}"]
        else:
            value = as_json(arguments)
            try:
                checker = entry.checker("input", entry.tool.input_schema, settings)
                problems = checker.problems(value, settings.max_steps, "arguments")
            except SchemaRefused as error:
                problems = [f"arguments: not checked: the input schema cannot be used: {error}"]
        if problems:
            raise InvalidArguments(tool=name, problems=problems, server=self._server)

    def mark(
        self, name: str, result: CallToolResult, settings: Validation, *, any_kind: bool
    ) -> CallToolResult:
        """The result, with what is wrong with its structured content.

        Args:
            any_kind: whether the revision knows structured content that is no object.
        """
        if result.is_error:
            return result  # a failure has nothing to match
        problems = self._result_problems(name, result.structured_content, settings, any_kind)
        return attrs.evolve(result, problems=tuple(problems)) if problems else result

    def _result_problems(self, name: str, content: Any, settings: Validation, any_kind: bool) -> list[str]:
        entry = self._entries.get(name)
        schema = UNSET if entry is None else entry.tool.output_schema
        if content is UNSET:
            missing = "structuredContent: is missing, but the tool has an output schema"
            return [] if schema is UNSET else [missing]
        problems: list[str] = []
        if not any_kind and not isinstance(content, Mapping):
            problems.append(f"structuredContent: expected an object, got {json_kind(content)}")
        if entry is None:
            return [*problems, f"structuredContent: {_unlisted(name)}"]
        if isinstance(schema, Mapping):
            try:
                checker = entry.checker("output", schema, settings)
                problems += checker.problems(content, settings.max_steps, "structuredContent")
            except SchemaRefused as error:
                problems.append(f"structuredContent: not checked: the output schema cannot be used: {error}")
        return problems


def _first_error(validator: Any, value: Any) -> Any:
    try:
        validator.validate(value)
    except ValueError as error:
        return error
    raise SchemaRefused("the validator contradicts itself")


def _unlisted(name: str) -> str:
    return f"not checked: the tool {name!r:.130} is in no list that this client has read"


def _library() -> Any:
    try:
        return importlib.import_module("jsonschema_rs")
    except ImportError:
        raise LocalProtocolError(
            "validation needs the extra `validate`: pip install 'trio_mcp_stdio[validate]'"
        ) from None


def _extent(value: Any) -> tuple[int, int]:
    """How much there is in a JSON value, and how deep it is nested."""
    size, depth = 0, 0
    level = [value]
    while level:
        if depth > _MAX_DEPTH:
            raise SchemaRefused(f"the value is nested deeper than {_MAX_DEPTH} levels")
        below: list[Any] = []
        for each in level:
            size += 1
            if isinstance(each, str):
                size += len(each) // 64
            elif isinstance(each, Mapping):
                size += len(each)
                below += each.values()
            elif isinstance(each, list | tuple):
                below += each
        level = below
        depth += 1
    return size, depth - 1


def _path(path: list[str | int]) -> str:
    return "".join(
        f".{part}" if isinstance(part, str) and part.isidentifier() else f"[{part!r:.80}]" for part in path
    )


def _sentence(error: Exception) -> str:
    text = str(getattr(error, "message", error))
    return text if len(text) <= 300 else f"{text[:200]} ... {text[-80:]}"
