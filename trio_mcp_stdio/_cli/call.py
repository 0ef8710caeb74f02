"""`trio-mcp call`: one call of one tool."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import click

from .. import UNSET, LocalProtocolError, ProgressUpdate
from .._wire.codec import encode_params, unstructure
from ..types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from .exits import Exit
from .job import Job
from .output import Output, clean, console_for, is_terminal, note, write
from .server import Launch, ServerCommand, server_options
from .wording import amount

__all__ = ["call"]


@click.command(cls=ServerCommand)
@click.argument("tool")
@click.argument("pairs", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--args",
    "document",
    metavar="JSON",
    help="The arguments as a JSON object; @FILE reads it from a file, @- from stdin.",
)
@click.option("--progress", is_flag=True, help="Show the progress that the server reports.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as one JSON document.")
@server_options
@click.pass_context
def call(
    ctx: click.Context,
    /,
    tool: str,
    pairs: Sequence[str],
    document: str | None,
    progress: bool,
    as_json: bool,
    **settings: Any,
) -> Job:
    """Call a tool and print its result.

    A VALUE that is JSON is passed as that, any other as a string.
    """
    if document is not None and pairs:
        raise click.UsageError("Give the arguments as NAME=VALUE or with --args, not both.", ctx)
    arguments = _from_pairs(pairs) if document is None else _from_document(document)
    try:
        encode_params(arguments)
    except LocalProtocolError as error:
        raise click.UsageError(f"These arguments cannot be sent: {error}", ctx) from error
    launch = Launch.of(ctx, settings)
    work = functools.partial(_call, launch, Output(as_json=as_json), tool, arguments, progress)
    return Job(work, stderr_shown=not launch.quiet)


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _from_pairs(pairs: Sequence[str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise click.UsageError(f"An argument of the tool has to be NAME=VALUE, not {pair!r}.")
        if name in arguments:
            raise click.UsageError(f"The argument {name!r} is given twice.")
        try:
            arguments[name] = _loads(value)
        except (ValueError, RecursionError):
            arguments[name] = value
    return arguments


def _from_document(document: str) -> dict[str, Any]:
    where = "--args"
    try:
        if document == "@-":
            where, document = "stdin", sys.stdin.read()
        elif document.startswith("@"):
            where, document = document[1:], Path(document[1:]).read_text("utf-8")
        arguments = _loads(document)
    except OSError as error:
        raise click.UsageError(f"--args: {where} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--args: {where} is not JSON: {error}.") from error
    if not isinstance(arguments, dict):
        raise click.UsageError(f"--args: {where} has to hold a JSON object.")
    return arguments


async def _call(launch: Launch, output: Output, tool: str, arguments: dict[str, Any], progress: bool) -> Exit:
    code = Exit.OK
    async with launch.client() as client:
        with _progress_bar(tool) if progress else nullcontext() as report:
            result = await client.call_tool(tool, arguments, on_progress=report)
        _show(output, result)
        if result.is_error:
            note("the tool reported an error")
            code = Exit.FAILED
    return code


def _show(output: Output, result: CallToolResult) -> None:
    if output.as_json:
        output.json(unstructure(result))
    elif result.content:
        for block in result.content:
            output.print(_text_of(block))
    elif result.structured_content is not UNSET:
        output.json(result.structured_content)


def _text_of(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            return f"[{block.type}: {block.mime_type}, {len(block.data) * 3 // 4} bytes; --json shows it]"
        case ResourceLink():
            return f"[resource: {block.uri} ({block.name})]"
        case EmbeddedResource(resource=TextResourceContents() as contents):
            return contents.text
        case EmbeddedResource():
            return f"[resource: {block.resource.uri}; --json shows it]"
        case _:
            return json.dumps(block.raw, ensure_ascii=False)


class _PlainProgress(AbstractContextManager[Callable[[ProgressUpdate], None]]):
    """A line on stderr for each update."""

    def __enter__(self) -> Callable[[ProgressUpdate], None]:
        return lambda update: write(sys.stderr, f"progress: {amount(update)}\n")

    def __exit__(self, *exc_info: object) -> None:
        """Nothing is left to be put in order."""


class _ProgressBar(AbstractContextManager[Callable[[ProgressUpdate], None]]):
    """A bar on the terminal, gone when the call has ended."""

    def __init__(self, tool: str) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        # Refreshed by the updates themselves: a thread would go on drawing while an interrupt unwinds.
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[state]}", markup=False),
            console=console_for(sys.stderr),
            auto_refresh=False,
            transient=True,
        )
        self._task = self._bar.add_task(clean(tool), total=1, state="")

    def __enter__(self) -> Callable[[ProgressUpdate], None]:
        self._bar.start()
        return self._update

    def __exit__(self, *exc_info: object) -> None:
        self._bar.stop()

    def _update(self, update: ProgressUpdate) -> None:
        total = update.total or None
        done = update.progress if total is not None else 0
        self._bar.update(self._task, completed=done, total=total or 1, state=amount(update))
        self._bar.refresh()


def _progress_bar(tool: str) -> AbstractContextManager[Callable[[ProgressUpdate], None]]:
    return _ProgressBar(tool) if is_terminal(sys.stderr) else _PlainProgress()
