"""`trio-mcp list`: what a server offers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import click

from .. import UNSET, Client, MethodNotFound, Pages, UnsetType
from .._wire.codec import unstructure
from ..types import Prompt, Resource, ResourceTemplate, Tool
from .exits import Exit
from .job import Job
from .output import Output, first_line, note
from .server import Launch, ServerCommand, server_options

__all__ = ["list_", "tool_row"]


@attrs.frozen
class Kind:
    """Something a server can list.

    Attributes:
        option: name of its option.
        capability: what announces it.
        member: member of the result that holds it.
        columns: titles of its table.
        row: its row of the table.
    """

    option: str
    capability: str
    member: str
    columns: tuple[str, ...]
    row: Callable[[Any], tuple[str, ...]]

    async def fetch(self, client: Client) -> Sequence[Any]:
        """Every page of it; what cannot be read is left out, with a note."""
        name = "resource_templates" if self.option == "templates" else self.option
        pages: Pages[Any] = getattr(client, f"{name.removesuffix('s')}_pages")()
        items: list[Any] = []
        async for page in pages:
            items += getattr(page, name)
            for problem in page.problems:
                note(f"left out, because it cannot be read: {problem}")
        return items


def _said(*texts: str | UnsetType) -> str:
    return next((line for text in texts if text and (line := first_line(text))), "")


def _arguments(given: Sequence[tuple[str, bool]]) -> str:
    ordered = sorted(given, key=lambda each: not each[1])
    return " ".join(name if required else f"[{name}]" for name, required in ordered)


def tool_row(tool: Tool) -> tuple[str, ...]:
    """Name, arguments, what it does."""
    properties, required = tool.input_schema.get("properties"), tool.input_schema.get("required")
    needed = set(map(str, required)) if isinstance(required, list) else set()
    named = properties if isinstance(properties, Mapping) else {}
    arguments = _arguments([(name, name in needed) for name in named])
    return tool.name, arguments, _said(tool.description, tool.title)


def _resource_row(resource: Resource) -> tuple[str, ...]:
    about = _said(resource.description, resource.title)
    return resource.uri, resource.name, resource.mime_type or "", about


def _template_row(template: ResourceTemplate) -> tuple[str, ...]:
    about = _said(template.description, template.title)
    return template.uri_template, template.name, template.mime_type or "", about


def _prompt_row(prompt: Prompt) -> tuple[str, ...]:
    arguments = _arguments([(each.name, bool(each.required)) for each in prompt.arguments or ()])
    return prompt.name, arguments, _said(prompt.description, prompt.title)


_ABOUT_RESOURCE: Final = ("URI", "Name", "Type", "Description")
KINDS: Final = (
    Kind("tools", "tools", "tools", ("Name", "Arguments", "Description"), tool_row),
    Kind("resources", "resources", "resources", _ABOUT_RESOURCE, _resource_row),
    Kind("templates", "resources", "resourceTemplates", _ABOUT_RESOURCE, _template_row),
    Kind("prompts", "prompts", "prompts", ("Name", "Arguments", "Description"), _prompt_row),
)


@click.command("list", cls=ServerCommand)
@click.option("--tools", is_flag=True, help="List its tools.")
@click.option("--resources", is_flag=True, help="List its resources.")
@click.option("--templates", is_flag=True, help="List its resource templates.")
@click.option("--prompts", is_flag=True, help="List its prompts.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@server_options
@click.pass_context
def list_(ctx: click.Context, /, as_json: bool, **settings: Any) -> Job:
    """List what a server offers: by default everything that it announces."""
    wanted = [kind for kind in KINDS if settings.pop(kind.option)]
    launch = Launch.of(ctx, settings)
    work = functools.partial(_list, launch, Output(as_json=as_json), wanted)
    return Job(work, stderr_shown=not launch.quiet)


async def _list(launch: Launch, output: Output, wanted: Sequence[Kind]) -> Exit:
    async with launch.client() as client:
        found: list[tuple[Kind, Sequence[Any]]] = []
        if wanted:
            found = [(kind, await kind.fetch(client)) for kind in wanted]
        else:
            found = [
                (kind, await _fetch_announced(kind, client))
                for kind in KINDS
                if getattr(client.server.capabilities, kind.capability) is not UNSET
            ]
        _show(output, found)
    return Exit.OK


async def _fetch_announced(kind: Kind, client: Client) -> Sequence[Any]:
    try:
        return await kind.fetch(client)
    except MethodNotFound:
        if kind.option != "templates":
            raise
        return ()  # announcing resources promises no templates


def _show(output: Output, found: Sequence[tuple[Kind, Sequence[Any]]]) -> None:
    if output.as_json:
        output.json({kind.member: [unstructure(item) for item in items] for kind, items in found})
        return
    if not found:
        note("the server announces no tools, resources or prompts")
    for number, (kind, items) in enumerate(found):
        if number:
            output.print()
        name = "resource templates" if kind.option == "templates" else kind.option
        output.heading(f"{name.capitalize()}: {len(items) or 'none'}")
        if items:
            output.table(kind.columns, [kind.row(item) for item in items])
