"""Input for servers on the official SDK, in both eras."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from helpers import PATIENT, WireLog, alive, assert_gone, logged, nothing_left
from tests.peers.catalogue import OFFICIAL_LEGACY, OFFICIAL_MODERN, Peer
from tests.peers.environments import need
from trio_mcp_stdio import (
    Client,
    Era,
    InputContext,
    InputHandlers,
    InputRequiredError,
    LocalProtocolError,
    RpcError,
    StdioServer,
    open_client,
)
from trio_mcp_stdio.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    Root,
    TextContent,
)

pytestmark = pytest.mark.peers

ROOTS = [Root(uri="file:///home/ann", name="Ann"), Root(uri="file:///srv/with%20space")]

CASES = [(OFFICIAL_MODERN, Era.MODERN), (OFFICIAL_MODERN, Era.LEGACY), (OFFICIAL_LEGACY, Era.LEGACY)]

everywhere = pytest.mark.parametrize(
    ("peer", "era"), CASES, indirect=["peer"], ids=[f"{peer}-{era.value}" for peer, era in CASES]
)
of_modern = pytest.mark.parametrize("peer", [OFFICIAL_MODERN], indirect=True, ids=str)
of_legacy = pytest.mark.parametrize("peer", [OFFICIAL_LEGACY], indirect=True, ids=str)


@pytest.fixture
def peer(request: pytest.FixtureRequest) -> Peer:
    need(request.param.environment)
    return request.param


class Person:
    """Answers whatever is asked, and remembers what that was."""

    def __init__(self, action: Any = "accept", content: dict[str, Any] | None = None) -> None:
        self.action = action
        self.content = {"name": "Ann"} if content is None else content
        self.asked: list[tuple[Any, InputContext]] = []

    async def fill_in(self, form: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        self.asked.append((form, context))
        return ElicitResult(action=self.action, content=self.content)

    async def visit(self, page: ElicitRequestURLParams, context: InputContext) -> ElicitResult:
        self.asked.append((page, context))
        return ElicitResult(action=self.action)

    async def sample(
        self, asked: CreateMessageRequestParams, context: InputContext
    ) -> CreateMessageResult | None:
        self.asked.append((asked, context))
        if self.action != "accept":
            return None
        return CreateMessageResult(role="assistant", content=TextContent(text="hello"), model="small")

    @property
    def handlers(self) -> InputHandlers:
        return InputHandlers(elicit_form=self.fill_in, elicit_url=self.visit, sample=self.sample, roots=ROOTS)


@asynccontextmanager
async def connected(peer: Peer, era: Era, handlers: InputHandlers) -> AsyncIterator[tuple[Client, WireLog]]:
    command, *start = peer.command()
    server = StdioServer(command, start, env=dict(peer.environment.env), name=peer.name, timeouts=PATIENT)
    log, options = logged(inputs=handlers, era=era.value, probe_timeout=30.0)
    with alive(60), nothing_left():
        async with open_client(server, options) as client:
            assert client.era is era
            yield client, log
        assert_gone(client.pid)
    if era is Era.MODERN:
        assert all("method" in message for message in log.sent)  # no response of any kind


@pytest.mark.requirement("ELIC-01", "ELIC-09", "LEG-ELIC-01", "LEG-ELIC-06", "MRTR-18")
@everywhere
async def test_a_form_with_defaults(peer: Peer, era: Era) -> None:
    person = Person()
    async with connected(peer, era, person.handlers) as (client, log):
        result = await client.call_tool("ask_form")
        assert not result.is_error, result.text
        assert json.loads(result.text) == {"name": "Ann", "count": 3, "size": "small", "wrapped": False}
        ((form, context),) = person.asked
        assert form.message == "What shall it be?"
        assert set(form.requested_schema.properties) == {"name", "count", "size", "wrapped"}
        assert context.era is era
        assert context.server == peer.name
        assert len(log.sent_of("tools/call")) == (2 if era is Era.MODERN else 1)


@pytest.mark.requirement("ELIC-10", "LEG-ELIC-01", "MRTR-37")
@pytest.mark.parametrize("action", ["decline", "cancel"])
@everywhere
async def test_a_form_that_is_not_filled_in(peer: Peer, era: Era, action: str) -> None:
    async with connected(peer, era, Person(action).handlers) as (client, _):
        assert (await client.call_tool("ask_form")).text == action


@pytest.mark.requirement("ELIC-11")
@of_modern
async def test_a_form_that_is_filled_in_wrongly_is_not_sent(peer: Peer) -> None:
    person = Person(content={"name": "Ann", "size": "huge"})
    async with connected(peer, Era.MODERN, person.handlers) as (client, log):
        with pytest.raises(LocalProtocolError, match="size: must be one of 'small', 'large'"):
            await client.call_tool("ask_form")
        assert len(log.sent_of("tools/call")) == 1
        assert (await client.call_tool("echo", {"text": "still here"})).text == "still here"


@pytest.mark.requirement("SAMP-01", "SAMP-07", "LEG-SAMP-01")
@everywhere
async def test_a_message_of_a_model(peer: Peer, era: Era) -> None:
    person = Person()
    async with connected(peer, era, person.handlers) as (client, _):
        result = await client.call_tool("ask_model")
        assert result.text == "small: hello"
        ((asked, _context),) = person.asked
        assert asked.max_tokens == 16
        assert asked.system_prompt == "be brief"
        assert [message.text for message in asked.messages] == ["say hello"]


@pytest.mark.requirement("SAMP-11", "LEG-SAMP-02")
@everywhere
async def test_a_message_that_the_user_refuses(peer: Peer, era: Era) -> None:
    async with connected(peer, era, Person("decline").handlers) as (client, log):
        if era is Era.MODERN:
            with pytest.raises(InputRequiredError, match="rejected"):
                await client.call_tool("ask_model")
        else:
            refused = True
            with contextlib.suppress(RpcError):  # which of the two it is differs from version to version
                refused = (await client.call_tool("ask_model")).is_error is True
            assert refused
            codes = [message["error"]["code"] for message in log.sent if "error" in message]
            assert codes == [-1]


@pytest.mark.requirement("ROOTS-01", "LEG-ROOTS-01")
@everywhere
async def test_the_roots(peer: Peer, era: Era) -> None:
    async with connected(peer, era, Person().handlers) as (client, _):
        assert (await client.call_tool("ask_roots")).text == " ".join(root.uri for root in ROOTS)


@pytest.mark.requirement("MRTR-13", "MRTR-16", "ELIC-16")
@of_modern
async def test_pages_over_three_rounds_with_a_state(peer: Peer) -> None:
    person = Person()
    async with connected(peer, Era.MODERN, person.handlers) as (client, log):
        assert (await client.call_tool("ask_page")).text == '{ "asked" : "second"} accept'
        assert [page.url for page, _ in person.asked] == [
            "https://example.com/first",
            "https://example.com/second",
        ]
        calls = log.sent_of("tools/call")
        assert len({call["id"] for call in calls}) == len(calls) == 3
        stated = [
            json.loads(line)["result"].get("requestState")
            for line in log.received
            if b'"input_required"' in line
        ]
        assert [call["params"].get("requestState") for call in calls] == [None, *stated]


@pytest.mark.requirement("LEG-ELIC-01", "LEG-ELIC-04")
@of_legacy
async def test_a_page_and_the_notice_that_it_is_done(peer: Peer) -> None:
    person = Person()
    async with connected(peer, Era.LEGACY, person.handlers) as (client, _):
        assert (await client.call_tool("ask_page")).text == "accept"
        ((page, _context),) = person.asked
        assert (page.url, page.elicitation_id) == ("https://example.com/first", "e1")


@pytest.mark.requirement("MRTR-10")
@pytest.mark.parametrize(("peer", "era"), CASES[:2], indirect=["peer"], ids=["modern", "legacy"])
async def test_everything_in_one_call_and_many_calls_at_once(peer: Peer, era: Era) -> None:
    async with connected(peer, era, Person().handlers) as (client, _):
        texts: list[str] = []

        async def call() -> None:
            texts.append((await client.call_tool("ask_all")).text)

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(call)
        order = '{"name":"Ann","count":3,"size":"small","wrapped":false}'
        assert texts == [f"{order} small 2"] * 10


@of_modern
async def test_an_interim_result_taken_up_by_another_call(peer: Peer) -> None:
    async with connected(peer, Era.MODERN, Person().handlers) as (client, _):
        interim = await client.call_tool("ask_form", allow_input_required=True)
        assert isinstance(interim, InputRequiredResult)
        assert interim.input_requests
        answers = {
            key: ElicitResult(action="accept", content={"name": "Bo", "count": 1, "size": "large"})
            for key in interim.input_requests
        }
        result = await client.call_tool(
            "ask_form", input_responses=answers, request_state=interim.request_state
        )
        assert json.loads(result.text) == {"name": "Bo", "count": 1, "size": "large", "wrapped": False}


@pytest.mark.requirement("LEG-CANCEL-01")
@everywhere
async def test_a_call_cancelled_while_a_person_thinks(peer: Peer, era: Era) -> None:
    asked, left = trio.Event(), trio.Event()

    async def think(form: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        asked.set()
        try:
            await trio.sleep_forever()
        finally:
            left.set()
        raise AssertionError

    async with connected(peer, era, InputHandlers(elicit_form=think)) as (client, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "ask_form")
            await asked.wait()
            nursery.cancel_scope.cancel()
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        if era is Era.MODERN:
            assert left.is_set()
    assert left.is_set()
