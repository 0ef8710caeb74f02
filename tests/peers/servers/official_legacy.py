"""A server on the official SDK's first generation, which knows the initialize handshake only."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel, Field

FRUITS = ("apple", "apricot", "banana", "cherry")


def note(marker: str, text: str) -> None:
    """Put a word into the marker file at once: a reader sees the old word or the new one."""
    new = Path(marker + ".new")
    new.write_text(text)
    new.replace(marker)


server = FastMCP("official-legacy", instructions="A peer for tests.")


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


class Order(BaseModel):
    """The fields of a form."""

    name: str
    count: int = 3
    size: str = Field("small", json_schema_extra={"enum": ["small", "large"]})
    wrapped: bool = False


@server.tool()
async def ask_form(ctx: Context) -> str:
    """Ask for an order by a form."""
    outcome = await ctx.elicit("What shall it be?", Order)
    return outcome.data.model_dump_json() if outcome.action == "accept" else outcome.action


@server.tool()
async def ask_model(ctx: Context) -> str:
    """Ask the client's model for a greeting."""
    said = SamplingMessage(role="user", content=TextContent(type="text", text="say hello"))
    answer = await ctx.session.create_message([said], max_tokens=16, system_prompt="be brief")
    assert isinstance(answer.content, TextContent)
    return f"{answer.model}: {answer.content.text}"


@server.tool()
async def ask_roots(ctx: Context) -> str:
    """Ask for the roots."""
    answer = await ctx.session.list_roots()
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool()
async def ask_page(ctx: Context) -> str:
    """Ask to visit a page."""
    answer = await ctx.elicit_url("Please sign", "https://example.com/first", "e1")
    await ctx.session.send_elicit_complete("e1")
    return answer.action


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
    return Completion(values=[fruit for fruit in FRUITS if fruit.startswith(argument.value)], hasMore=False)


if __name__ == "__main__":
    server.run("stdio")
