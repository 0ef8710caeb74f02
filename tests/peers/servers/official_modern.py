"""A server on the official SDK's second generation: it opens in the era of the first request."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)

FRUITS = ("apple", "apricot", "banana", "cherry")


def note(marker: str, text: str) -> None:
    """Put a word into the marker file at once: a reader sees the old word or the new one."""
    new = Path(marker + ".new")
    new.write_text(text)
    new.replace(marker)


server = MCPServer("official-modern", version="1.0.0", instructions="A peer for tests.")


@server.tool()
async def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@server.tool()
async def fail() -> str:
    """Always fail, as a tool does."""
    raise ToolError("this tool always fails")


@server.tool()
async def slow(seconds: float, marker: str) -> str:
    """Sleep, and leave in the marker file how far it came."""
    note(marker, "started")
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        note(marker, "cancelled")
        raise
    note(marker, "finished")
    return "finished"


@server.tool()
async def progress(n: int, ctx: Context) -> str:
    """Report n steps."""
    for step in range(1, n + 1):
        await ctx.report_progress(step, n, f"step {step}")
    return f"{n} steps"


@server.tool()
async def crash() -> str:
    """End the whole process in the middle of the call."""
    os._exit(3)


@server.tool()
async def pid() -> int:
    """The number of the process that serves."""
    return os.getpid()


@server.resource("memo://motto", name="motto", mime_type="text/plain")
def motto() -> str:
    """One line of text."""
    return "nothing is left behind"


@server.resource("memo://greeting/{name}", name="greeting", mime_type="text/plain")
def greeting(name: str) -> str:
    """A greeting for one name."""
    return f"hello {name}"


@server.prompt()
def review(fruit: str) -> str:
    """Ask for a review of one fruit."""
    return f"Please review the {fruit}."


@server.completion()
async def complete(
    ref: PromptReference | ResourceTemplateReference,
    argument: CompletionArgument,
    context: CompletionContext | None,
) -> Completion | None:
    """Fruits by prefix, for the prompt's argument."""
    if not isinstance(ref, PromptReference) or argument.name != "fruit":
        return None
    return Completion(values=[fruit for fruit in FRUITS if fruit.startswith(argument.value)], has_more=False)


if __name__ == "__main__":
    server.run("stdio")
