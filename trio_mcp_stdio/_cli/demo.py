"""`trio-mcp demo`: the client at work on a real child process, in a second or so."""

from __future__ import annotations

import functools
import math
import sys
from typing import Any, Final

import attrs
import click
import trio

from .. import Client, ClientOptions, StdioServer, open_client
from .board import Board, Entry
from .exits import Exit
from .job import Job
from .listing import tool_row
from .output import Output
from .wording import ending, title

__all__ = ["demo"]

MODULE: Final = "trio_mcp_stdio._cli.demo_server"
PATIENCE: Final = 0.6
"""Seconds after which the call that is to be cancelled is given up."""


@attrs.frozen
class Attempt:
    """One of the calls.

    Attributes:
        label: what it is, in a few words.
        patience: seconds after which it is cancelled.
    """

    label: str
    tool: str
    arguments: dict[str, Any]
    patience: float = math.inf


ATTEMPTS: Final = (
    Attempt("add 19 and 23", "add", {"a": 19, "b": 23}),
    Attempt("count down from 5", "countdown", {"from": 5, "pause": 0.08}),
    Attempt("count down from 8", "countdown", {"from": 8, "pause": 0.1}),
    Attempt("sleep for a minute", "sleep", {"seconds": 60}, PATIENCE),
)


@click.command()
@click.option("--legacy", is_flag=True, help="Speak the legacy era: a session opened with initialize.")
@click.pass_context
def demo(ctx: click.Context, /, legacy: bool) -> Job:
    """Start the bundled server and show what the client does with it."""
    if ctx.obj is not None:
        raise click.UsageError("demo starts its own server; probe, list and call take one after --.", ctx)
    return Job(functools.partial(_demo, Output(), legacy), stderr_shown=False)


async def _demo(output: Output, legacy: bool) -> Exit:
    server = StdioServer(sys.executable, ["-m", MODULE], name="demo server", inherit=("PYTHON*",))
    options = ClientOptions(era="legacy" if legacy else "auto")
    began = leaving = trio.current_time()
    async with open_client(server, options) as client:
        _show_server(output, client, trio.current_time() - began)

        tools = (await client.list_tools()).tools
        output.print()
        output.heading(f"It offers {len(tools)} tools")
        output.table(("Name", "Arguments", "Description"), [tool_row(tool) for tool in tools])

        output.print()
        output.heading(f"{len(ATTEMPTS)} calls at once")
        with Board(output) as board:
            entries = [board.add(attempt.label) for attempt in ATTEMPTS]
            async with trio.open_nursery() as nursery:
                for attempt, entry in zip(ATTEMPTS, entries, strict=True):
                    nursery.start_soon(_try, client, attempt, entry)

        output.print()
        output.heading("The call that was cancelled")
        output.print(f"  {await _verdict(client)}")
        leaving = trio.current_time()
    output.print()
    output.heading("The end")
    output.print(f"  the server {ending(client.exit, trio.current_time() - leaving)}")
    return Exit.OK


def _show_server(output: Output, client: Client, ready: float) -> None:
    output.heading("A server was started as a child process")
    output.fields(
        [
            ("command", f"python -m {MODULE}"),
            ("process", str(client.pid)),
            ("server", title(client.server)),
            ("era", client.era.value),
            ("version", client.protocol_version),
            ("ready", f"{ready:.2f} s after its start"),
        ],
        indent=2,
    )


async def _try(client: Client, attempt: Attempt, entry: Entry) -> None:
    began = trio.current_time()
    with trio.move_on_after(attempt.patience) as scope:
        result = await client.call_tool(attempt.tool, attempt.arguments, on_progress=entry.update)
        entry.finish(result.raise_for_error().text, trio.current_time() - began, complete=True)
    if scope.cancelled_caught:
        entry.finish("cancelled by the client", trio.current_time() - began, complete=False)


async def _verdict(client: Client) -> str:
    """What the server itself says of the cancelled call."""
    told = (await client.call_tool("cancelled")).raise_for_error().structured_content
    if not told["cancelled"]:
        return "the server says that it stopped nothing"
    stopped = told["cancelled"][-1]
    return (
        f"the server says that it stopped {stopped['tool']} (request {stopped['id']}) after "
        f"{stopped['seconds']:.2f} s; calls still running: {told['running'] or 'none'}"
    )
