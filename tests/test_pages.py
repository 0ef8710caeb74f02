"""Lists that come in pages, and lists of which some items cannot be read."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio

from helpers import SERVERS, alive, both_eras, fake, logged, nothing_left
from scripted import LEGACY_VERSIONS, Message, Peer, complaints, running, session
from trio_mcp_stdio import (
    UNSET,
    Client,
    ClientOptions,
    EndlessList,
    InvalidParams,
    InvalidResult,
    LocalProtocolError,
    Pages,
    RemoteProtocolError,
    RequestTimeout,
    open_client,
)
from trio_mcp_stdio.types import ListToolsResult

SCHEMA = {"type": "object"}


def tools(*names: str, **more: Any) -> Message:
    return {"tools": [{"name": name, "inputSchema": SCHEMA} for name in names], **more}


@attrs.frozen
class Kind:
    """One of the four lists."""

    method: str
    member: str
    every: Callable[[Client], Awaitable[tuple[Any, ...]]]
    pages: Callable[[Client], Pages[Any]]
    items_of: Callable[[Any], tuple[Any, ...]]
    good: Callable[[str], Message]
    bad: Message
    names: str

    def page(self, *names: str, **more: Any) -> Message:
        return {self.member: [self.good(name) for name in names], **more}


KINDS = [
    Kind(
        "tools/list",
        "tools",
        lambda client: client.all_tools(),
        lambda client: client.tool_pages(),
        lambda page: page.tools,
        lambda name: {"name": name, "inputSchema": SCHEMA},
        {"name": "odd", "inputSchema": None},
        "'odd'",
    ),
    Kind(
        "resources/list",
        "resources",
        lambda client: client.all_resources(),
        lambda client: client.resource_pages(),
        lambda page: page.resources,
        lambda name: {"uri": f"a:{name}", "name": name},
        {"uri": "a:odd"},
        "'a:odd'",
    ),
    Kind(
        "resources/templates/list",
        "resourceTemplates",
        lambda client: client.all_resource_templates(),
        lambda client: client.resource_template_pages(),
        lambda page: page.resource_templates,
        lambda name: {"uriTemplate": f"a:{name}/{{x}}", "name": name},
        {"uriTemplate": 5, "name": "odd"},
        "'odd'",
    ),
    Kind(
        "prompts/list",
        "prompts",
        lambda client: client.all_prompts(),
        lambda client: client.prompt_pages(),
        lambda page: page.prompts,
        lambda name: {"name": name},
        {"name": "odd", "arguments": [{}]},
        "'odd'",
    ),
]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.member)


async def serve_pages(peer: Peer, kind: Kind, pages: list[Message]) -> list[object]:
    """Answer with these pages in turn; the cursors that were asked for, UNSET for none."""
    cursors: list[object] = []
    for page in pages:
        request = await peer.request(kind.method)
        cursors.append(request["params"].get("cursor", UNSET) if "params" in request else UNSET)
        await peer.reply(request, page)
    return cursors


# Whole lists


@pytest.mark.requirement(
    "PAGE-01", "PAGE-02", "PAGE-03", "PAGE-04", "PROMPT-14", "LEG-PAGE-01", "LEG-PAGE-02"
)
@both_eras
@each_kind
async def test_all_follows_every_cursor_until_there_is_none(era: str, kind: Kind) -> None:
    names = [f"n{number}" for number in range(1000)]
    odd = 'a b {"x":\t1} é\u2028\U0001f600'
    async with session(era) as (client, peer):
        async with running(lambda: kind.every(client)) as outcome:
            cursors = await serve_pages(
                peer,
                kind,
                [
                    kind.page(nextCursor=""),
                    kind.page(*names, nextCursor=odd),
                    kind.page("last", nextCursor="null"),
                    kind.page(nextCursor=None),
                ],
            )
        (items,) = outcome
        assert [item.name for item in items] == [*names, "last"]
        assert cursors == [UNSET, "", odd, "null"]
        assert client.statistics().in_flight == 0


@pytest.mark.requirement("PAGE-05", "LEG-PAGE-02")
@pytest.mark.parametrize("version", ["2026-07-28", *LEGACY_VERSIONS])
@each_kind
async def test_a_list_without_pages_takes_one_request(version: str, kind: Kind) -> None:
    era = "modern" if version == "2026-07-28" else "legacy"
    async with session(era, version=version) as (client, peer):
        async with running(lambda: kind.every(client)) as outcome:
            await serve_pages(peer, kind, [kind.page("one", "two")])
        assert [item.name for item in outcome[0]] == ["one", "two"]
        before = len(peer.seen)
        client.stop()
        assert [message for message in await peer.rest() if "id" in message] == []
        assert len(peer.seen) >= before


@pytest.mark.field("K116")
@both_eras
async def test_a_repeated_cursor_is_an_error_that_keeps_what_was_read(era: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("pages", "repeats", era=era)) as client:
            with pytest.raises(EndlessList, match="'same' comes again after 2 pages") as caught:
                await client.all_tools()
            assert [tool.name for tool in caught.value.items] == ["again", "again"]
            assert (caught.value.method, caught.value.server) == ("tools/list", "pages")
            assert pickle.loads(pickle.dumps(caught.value)).items == caught.value.items
            assert (await client.call_tool("echo", {"text": "next"})).text == "next"


@pytest.mark.field("K116")
@both_eras
async def test_too_many_pages_are_an_error_that_keeps_what_was_read(era: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("pages", "endless", era=era)) as client:
            with pytest.raises(EndlessList, match="1000 pages, and more to come") as caught:
                await client.all_tools()
            assert [tool.name for tool in caught.value.items] == [f"t{number}" for number in range(1000)]
            with pytest.raises(EndlessList) as caught:
                await client.all_tools(max_pages=3)
            assert len(caught.value.items) == 3


@pytest.mark.field("K116")
@both_eras
async def test_three_proper_pages_are_read_whole(era: str) -> None:
    log, options = logged()
    with alive(), nothing_left():
        async with open_client(fake("pages", "three", era=era), options) as client:
            assert [tool.name for tool in await client.all_tools(max_pages=3)] == ["t0", "t1", "t2"]
    assert [message["params"].get("cursor") for message in log.sent_of("tools/list")] == [None, "", "two"]


@pytest.mark.requirement("LEG-PAGE-02")
@both_eras
async def test_an_error_on_a_later_page_is_raised_as_it_is(era: str) -> None:
    async with session(era) as (client, peer):
        async with running(client.all_tools) as outcome:
            await peer.reply(await peer.request("tools/list"), tools("one", nextCursor="two"))
            await peer.fail(await peer.request("tools/list"), -32602, "Invalid cursor")
        (error,) = outcome
        assert isinstance(error, InvalidParams)
        assert error.message == "Invalid cursor"


async def test_one_limit_holds_for_all_pages(autojump_clock: trio.testing.MockClock) -> None:
    async with session(options=ClientOptions(request_timeout=10.0), seconds=1000) as (client, peer):
        async with running(client.all_tools) as outcome:
            for number in range(4):
                request = await peer.request("tools/list")
                await trio.sleep(3)
                if number < 3:
                    await peer.reply(request, tools("x", nextCursor=str(number)))
            await peer.notification("notifications/cancelled")
        (error,) = outcome
        assert isinstance(error, RequestTimeout)
        assert (error.timeout, error.elapsed, error.idle) == (10.0, pytest.approx(10.0), False)
        assert error.request_id == request["id"]
        assert "timeout of 10 s passed after 10.000 s" in str(error)


async def test_no_limit_and_a_limit_in_idleness(autojump_clock: trio.testing.MockClock) -> None:
    async with session(seconds=10_000) as (client, peer):
        async with running(lambda: client.all_tools(timeout=None, idle_timeout=100)) as outcome:
            request = await peer.request("tools/list")
            await trio.sleep(99)
            await peer.reply(request, tools("x", nextCursor="y"))
            await peer.request("tools/list")
            await peer.notification("notifications/cancelled")
        assert isinstance(outcome[0], RequestTimeout)
        assert (outcome[0].idle, outcome[0].timeout) == (True, 100)


@pytest.mark.parametrize("max_pages", [0, -1, 1.5, None])
async def test_a_bound_that_is_none_is_refused_before_anything_is_sent(max_pages: Any) -> None:
    async with session() as (client, peer):
        before = len(peer.seen)
        with pytest.raises(LocalProtocolError, match="max_pages"):
            await client.all_tools(max_pages=max_pages)
        with pytest.raises(LocalProtocolError, match="max_pages"):
            client.tool_pages(max_pages=max_pages)
        with pytest.raises(LocalProtocolError, match="timeout"):
            await client.all_tools(timeout=-1)
        assert len(peer.seen) == before


async def test_cancelling_a_list_cancels_the_page_in_flight() -> None:
    async with session() as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(client.all_tools)
        await peer.reply(await peer.request("tools/list"), tools("one", nextCursor="two"))
        request = await peer.request("tools/list")
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            notice = await peer.notification("notifications/cancelled")
        assert notice["params"]["requestId"] == request["id"]


# Page by page


@pytest.mark.requirement("PAGE-01", "PAGE-02", "PAGE-03", "PAGE-04")
@both_eras
@each_kind
async def test_pages_are_asked_for_one_at_a_time(era: str, kind: Kind) -> None:
    async with session(era) as (client, peer):
        pages = kind.pages(client)
        assert (repr(pages), pages.cursor) == (f"<Pages of {kind.method}, 0 read>", UNSET)
        before = len(peer.seen)
        found = []
        for number, following in enumerate(["", "x", None]):
            assert len(peer.seen) == before + number  # nothing is asked for ahead
            async with running(lambda: anext(pages)) as outcome:
                await serve_pages(peer, kind, [kind.page(f"n{number}", nextCursor=following)])
            found += [item.name for item in kind.items_of(outcome[0])]
            assert pages.cursor == (UNSET if following is None else following)
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(pages)
        assert found == ["n0", "n1", "n2"]
        assert len(peer.seen) == before + 3
        assert "ended" in repr(pages)


@both_eras
async def test_iterating_with_async_for_may_be_left_at_any_page(era: str) -> None:
    log, options = logged()
    with alive(), nothing_left():
        async with open_client(fake("pages", "endless", era=era), options) as client:
            async for page in client.tool_pages():
                if page.tools[0].name == "t4":
                    break
            async for page in client.tool_pages("7"):  # from a cursor kept from before
                assert page.tools[0].name == "t7"
                break
    assert len(log.sent_of("tools/list")) == 6


async def test_pages_after_an_error_or_a_cancellation_go_on_with_the_same_page() -> None:
    async with session() as (client, peer):
        pages = client.tool_pages()
        async with running(lambda: anext(pages)) as outcome:
            await peer.reply(await peer.request("tools/list"), tools("one", nextCursor="two"))
        async with running(lambda: anext(pages)) as outcome:
            await peer.fail(await peer.request("tools/list"), -32000, "not now")
        with trio.CancelScope() as scope:
            scope.cancel()
            await anext(pages)
        async with running(lambda: anext(pages)) as outcome:
            request = await peer.request("tools/list")
            await peer.reply(request, tools("two"))
        assert request["params"]["cursor"] == "two"
        assert outcome[0].tools[0].name == "two"


async def test_the_guards_hold_for_pages_and_the_last_page_is_handed_out() -> None:
    async with session() as (client, peer):
        for cursors, bound, reason in [
            (["a", "b", "a"], 1000, "'a' comes again after 3 pages"),
            (["a", "b"], 2, "2 pages, and more"),
        ]:
            pages = client.tool_pages(max_pages=bound)
            read: list[ListToolsResult] = []

            async def read_all(pages: Pages[ListToolsResult], read: list[ListToolsResult]) -> None:
                async for page in pages:
                    read.append(page)  # noqa: PERF401

            async with running(lambda pages=pages, read=read: read_all(pages, read)) as outcome:
                for cursor in cursors:
                    await peer.reply(await peer.request("tools/list"), tools(nextCursor=cursor))
            assert len(read) == len(cursors)
            assert isinstance(outcome[0], EndlessList)
            assert isinstance(outcome[0], RemoteProtocolError)
            assert reason in str(outcome[0])
            assert outcome[0].items == ()


async def test_two_tasks_cannot_share_an_iteration() -> None:
    async with session() as (client, peer):
        pages = client.tool_pages()
        async with running(lambda: anext(pages)) as outcome:
            request = await peer.request("tools/list")
            with pytest.raises(LocalProtocolError, match="another task"):
                await anext(pages)
            await peer.reply(request, tools("one"))
        assert outcome[0].tools[0].name == "one"


# Items that cannot be read


@pytest.mark.field("K055")
@both_eras
@pytest.mark.parametrize("mode", ["bad", "bad-true"])
async def test_a_bad_tool_costs_only_itself_and_is_named(
    era: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    with alive(), nothing_left():
        async with open_client(fake("pages", mode, era=era)) as client:
            for _ in range(3):
                page = await client.list_tools()
                assert [tool.name for tool in page.tools] == ["first", "last"]
                (problem,) = page.problems
                assert problem.startswith("tools[1] 'broken': inputSchema: ")
            assert [tool.name for tool in await client.all_tools()] == ["first", "last"]
            raw = await client.list_tools(raw=True)
            assert [tool["name"] for tool in raw["tools"]] == ["first", "broken", "last"]
            assert client.statistics().tolerated == 4
    (warning,) = complaints(caplog)
    assert "'broken'" in warning


@pytest.mark.field("K055")
@both_eras
async def test_the_command_line_lists_the_others_and_notes_the_bad_one(era: str) -> None:
    command = [sys.executable, "-m", "trio_mcp_stdio", "list", "--tools", "--env", f"FAKE_ERA={era}", "--"]
    with alive(), nothing_left():
        done = await trio.run_process(
            [*command, sys.executable, str(SERVERS / "pages.py"), "bad"],
            capture_stdout=True,
            capture_stderr=True,
        )
    assert b"first" in done.stdout
    assert b"last" in done.stdout
    assert b"tools[1] 'broken': inputSchema: is missing" in done.stderr


@pytest.mark.field("K055")
@both_eras
@each_kind
async def test_a_bad_item_of_any_list_costs_only_itself(era: str, kind: Kind) -> None:
    async with session(era) as (client, peer):
        page = kind.page("one", "two")
        page[kind.member][1:1] = [kind.bad, 5, None]
        async with running(lambda: anext(kind.pages(client))) as outcome:
            await peer.reply(await peer.request(kind.method), page)
        (result,) = outcome
        assert [item.name for item in kind.items_of(result)] == ["one", "two"]
        assert len(result.problems) == 3
        assert kind.names in result.problems[0]
        assert result.problems[1] == f"{kind.member}[2]: expected an object, got a number"
        assert "problems" not in pickle.loads(pickle.dumps(result)).extra


@both_eras
async def test_what_is_wrong_with_the_list_itself_is_an_error(era: str) -> None:
    async with session(era) as (client, peer):
        for result in ({}, {"tools": {"a": 1}}, {"tools": [{}], "nextCursor": 5}):
            async with running(client.list_tools) as outcome:
                await peer.reply(await peer.request("tools/list"), result)
            assert isinstance(outcome[0], InvalidResult)
            assert outcome[0].server == client.name
