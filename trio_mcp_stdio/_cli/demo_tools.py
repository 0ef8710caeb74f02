"""The tools of the demo server.

A running tool is a generator: it yields a `Pause` wherever it would wait, so any number of them run side by
side in one thread, and closing it is what cancelling it means.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, TypeAlias

import attrs

__all__ = ["TOOLS", "BadArguments", "Pause", "Result", "Steps", "ToolDefinition", "content"]

Result: TypeAlias = dict[str, Any]


@attrs.frozen
class Pause:
    """Wait this long, after reporting progress where there is some."""

    seconds: float
    progress: float | None = None
    total: float | None = None
    message: str | None = None


Steps: TypeAlias = Generator[Pause, None, Result]


class BadArguments(Exception):
    """The arguments of a call do not fit; its text is for whoever made them."""


@attrs.frozen(kw_only=True)
class ToolDefinition:
    """One tool: what it is called, what it takes, how it runs."""

    name: str
    description: str
    properties: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...] = ()
    run: Callable[[Mapping[str, Any]], Steps]

    def on_wire(self) -> dict[str, Any]:
        """Its entry in the answer to `tools/list`."""
        schema: dict[str, Any] = {
            "type": "object",
            "properties": dict(self.properties),
            "additionalProperties": False,
        }
        if self.required:
            schema["required"] = list(self.required)
        return {"name": self.name, "description": self.description, "inputSchema": schema}

    def start(self, arguments: Mapping[str, Any]) -> Steps:
        """Begin a call.

        Raises:
            BadArguments: the arguments break the schema.
        """
        for name in arguments:
            if name not in self.properties:
                raise BadArguments(f"{self.name} takes no argument {name!r:.80}")
        for name, schema in self.properties.items():
            if name in arguments:
                _check(name, arguments[name], schema)
            elif name in self.required:
                raise BadArguments(f"{self.name} needs the argument {name}")
        defaults = {
            name: schema["default"] for name, schema in self.properties.items() if "default" in schema
        }
        return self.run({**defaults, **arguments})


def _check(name: str, value: object, schema: Mapping[str, Any]) -> None:
    integer = schema["type"] == "integer"
    if isinstance(value, bool) or not isinstance(value, int if integer else int | float):
        raise BadArguments(f"{name} has to be {'an integer' if integer else 'a number'}")
    low, high = schema.get("minimum", value), schema.get("maximum", value)
    if not low <= value <= high:
        raise BadArguments(f"{name} has to be from {low} to {high}")


def content(text: str, **more: Any) -> Result:
    """The result of a call with one block of text."""
    return {"content": [{"type": "text", "text": text}], **more}


def _add(arguments: Mapping[str, Any]) -> Steps:
    yield from ()
    return content(json.dumps(arguments["a"] + arguments["b"], allow_nan=False))


def _countdown(arguments: Mapping[str, Any]) -> Steps:
    total = arguments["from"]
    for left in range(total, 0, -1):
        message = f"{left - 1} to go" if left > 1 else "now"
        yield Pause(arguments["pause"])
        yield Pause(0, progress=total - left + 1, total=total, message=message)
    return content("liftoff")


def _sleep(arguments: Mapping[str, Any]) -> Steps:
    yield Pause(arguments["seconds"])
    return content(f"slept {arguments['seconds']:g} s")


_NUMBER: Final = {"type": "number"}

TOOLS: Final = (
    ToolDefinition(
        name="add",
        description="Add two numbers.",
        properties={"a": _NUMBER, "b": _NUMBER},
        required=("a", "b"),
        run=_add,
    ),
    ToolDefinition(
        name="countdown",
        description="Count down to zero, reporting each step as progress.",
        properties={
            "from": {"type": "integer", "minimum": 1, "maximum": 1000},
            "pause": {"type": "number", "minimum": 0, "maximum": 60, "default": 0.1},
        },
        required=("from",),
        run=_countdown,
    ),
    ToolDefinition(
        name="sleep",
        description="Do nothing for some seconds.",
        properties={"seconds": {"type": "number", "minimum": 0, "maximum": 3600}},
        required=("seconds",),
        run=_sleep,
    ),
)
"""The tools that need nothing of the server; it adds the one that tells about its calls."""
