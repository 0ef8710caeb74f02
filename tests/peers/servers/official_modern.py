"""A server on the official SDK's second generation: it opens in the era of the first request."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import anyio
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, ListRoots, MCPServer, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsResult,
    PromptReference,
    ResourceTemplateReference,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

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


class Order(BaseModel):
    """The fields of a form."""

    name: str
    count: int = 3
    size: Literal["small", "large"] = "small"
    wrapped: bool = False


def order() -> Elicit[Order]:
    """Whatever asks for an order."""
    return Elicit("What shall it be?", Order)


def greeting_of_a_model() -> Sample:
    """Whatever asks for a greeting."""
    said = SamplingMessage(role="user", content=TextContent(type="text", text="say hello"))
    return Sample([said], max_tokens=16, system_prompt="be brief")


def roots() -> ListRoots:
    """Whatever asks for the roots."""
    return ListRoots()


Ordered = Annotated[ElicitationResult[Order], Resolve(order)]
Greeted = Annotated[CreateMessageResult, Resolve(greeting_of_a_model)]
Rooted = Annotated[ListRootsResult, Resolve(roots)]


def tell_order(outcome: ElicitationResult[Order]) -> str:
    """The order in one line, or what became of it."""
    return outcome.data.model_dump_json() if outcome.action == "accept" else outcome.action


@server.tool()
async def ask_form(answer: Ordered) -> str:
    """Ask for an order by a form."""
    return tell_order(answer)


@server.tool()
async def ask_model(answer: Greeted) -> str:
    """Ask the client's model for a greeting."""
    assert isinstance(answer.content, TextContent)
    return f"{answer.model}: {answer.content.text}"


@server.tool()
async def ask_roots(answer: Rooted) -> str:
    """Ask for the roots."""
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool()
async def ask_all(form: Ordered, model: Greeted, directories: Rooted) -> str:
    """Ask for everything in one call."""
    return f"{tell_order(form)} {model.model} {len(directories.roots)}"


@server.tool()
async def ask_page(ctx: Context) -> str | InputRequiredResult:
    """Ask twice to visit a page, with a state that has to come back."""
    answers = ctx.input_responses or {}
    if "second" in answers:
        answer = answers["second"]
        assert isinstance(answer, ElicitResult)
        return f"{ctx.request_state} {answer.action}"
    key = "first" if not answers else "second"
    page = ElicitRequestURLParams(message="Please sign", url=f"https://example.com/{key}")
    state = '{ "asked" : "%s"}' % key  # noqa: UP031 - braces and odd spacing
    return InputRequiredResult(input_requests={key: ElicitRequest(params=page)}, request_state=state)


@server.tool()
async def change(uri: str, ctx: Context) -> str:
    """Tell subscribers that a resource has changed."""
    await ctx.notify_resource_updated(uri)
    return uri


@server.tool()
async def change_lists(ctx: Context) -> str:
    """Tell subscribers that each list has changed."""
    await ctx.notify_tools_changed()
    await ctx.notify_prompts_changed()
    await ctx.notify_resources_changed()
    return "changed"


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
