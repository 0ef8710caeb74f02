"""Modern connections: results that ask for input, and the rounds that give it."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from helpers import alive, assert_gone, fake, logged, nothing_left, until
from scripted import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    EVERY_CALL,
    VERSION_KEY,
    Message,
    Peer,
    running,
    session,
    text,
)
from trio_mcp_stdio import (
    UNSET,
    Client,
    ClientClosed,
    ClientOptions,
    Era,
    InputContext,
    InputHandlers,
    InputRequiredError,
    InvalidResult,
    LocalProtocolError,
    RequestTimeout,
    ServerExited,
    open_client,
)
from trio_mcp_stdio.types import (
    CallToolResult,
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    GetPromptResult,
    InputRequiredResult,
    InputResponse,
    ListRootsResult,
    ReadResourceResult,
    Root,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)

LONG = 1e6
"""Seconds for `session` under a clock that jumps."""

HOME = Root(uri="file:///home", name="Home")
ROOTS = {"method": "roots/list"}
ROOTS_ANSWER = {"roots": [{"uri": "file:///home", "name": "Home"}]}


def needs(requests: object = None, state: object = None, **more: Any) -> Message:
    """An interim result."""
    result: Message = {"resultType": "input_required", **more}
    if requests is not None:
        result["inputRequests"] = requests
    if state is not None:
        result["requestState"] = state
    return result


def form(required: list[str] | None = None, **fields: Any) -> Message:
    wanted = {"type": "object", "properties": fields or {"name": {"type": "string"}}}
    if required is not None:
        wanted["required"] = required
    return {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": wanted}}


def page(url: str = "https://example.com/") -> Message:
    return {"method": "elicitation/create", "params": {"mode": "url", "message": "Go", "url": url}}


def sample(*messages: Message, **more: Any) -> Message:
    said = list(messages) or [{"role": "user", "content": {"type": "text", "text": "hi"}}]
    return {"method": "sampling/createMessage", "params": {"messages": said, "maxTokens": 10, **more}}


def message(said: str = "hello", **more: Any) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text=said), model="m", **more)


async def fill_in(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ann"})


async def say_hello(asked: CreateMessageRequestParams, context: InputContext) -> CreateMessageResult:
    return message()


async def visit(asked: ElicitRequestURLParams, context: InputContext) -> ElicitResult:
    return ElicitResult(action="accept")


ALL = InputHandlers(elicit_form=fill_in, elicit_url=visit, sample=say_hello, sample_tools=True, roots=[HOME])


def options(inputs: InputHandlers = ALL, **more: Any) -> ClientOptions:
    return ClientOptions(inputs=inputs, **more)


def bare(request: Message) -> Message:
    """The parameters of a request without what every request and every retry adds."""
    added = ("_meta", "inputResponses", "requestState")
    return {name: value for name, value in request["params"].items() if name not in added}


async def ask(peer: Peer, *asked: object, state: object = None) -> tuple[Message, Message]:
    """Answer the next request with questions; the request and its repetition."""
    first = await peer.request()
    await peer.reply(first, needs({str(number): one for number, one in enumerate(asked)}, state))
    return first, await peer.request()


# what is announced


@pytest.mark.requirement("ELIC-01", "ELIC-02", "SAMP-01", "ROOTS-01")
@pytest.mark.parametrize(
    ("inputs", "announced"),
    [
        (InputHandlers(), {}),
        (InputHandlers(elicit_form=fill_in), {"elicitation": {"form": {}}}),
        (InputHandlers(elicit_url=visit), {"elicitation": {"url": {}}}),
        (InputHandlers(sample=say_hello), {"sampling": {}}),
        (InputHandlers(roots=[], roots_changes=True), {"roots": {}}),
        (ALL, {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}),
    ],
    ids=["none", "form", "url", "sampling", "roots", "all"],
)
async def test_each_request_announces_what_has_a_handler(
    inputs: InputHandlers, announced: dict[str, Any]
) -> None:
    async with session("modern", options(inputs)) as (client, peer):
        for call, _, result in EVERY_CALL.values():
            async with running(lambda call=call: call(client)):
                await peer.reply(await peer.request(), result)
        sent = [request["params"]["_meta"][CAPABILITIES_KEY] for request in peer.seen]
        assert len(sent) == len(EVERY_CALL) + 1  # server/discover, too
        assert sent == [announced] * len(sent)


def test_handlers_add_to_what_is_declared_by_hand() -> None:
    declared = ClientCapabilities(sampling={"context": {}}, experimental={"x": {}}, elicitation={"url": {}})
    inputs = InputHandlers(elicit_form=fill_in, sample=say_hello, sample_tools=True)

    announced = inputs.announce(declared, legacy=False)
    assert announced.sampling == {"context": {}, "tools": {}}
    assert announced.elicitation == {"form": {}, "url": {}}
    assert announced.experimental == {"x": {}}
    assert announced.roots is UNSET
    assert InputHandlers().announce(declared, legacy=True) is declared


@pytest.mark.requirement("ELIC-02")
@pytest.mark.parametrize(
    "settings",
    [
        {"sample_tools": True},
        {"roots_changes": True},
        {"max_rounds": -1},
        {"timeout": -1},
        {"timeout": float("inf")},
        {"timeout": float("nan")},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        InputHandlers(**settings)


# rounds


@pytest.mark.requirement("MRTR-16", "MRTR-18", "MRTR-34")
async def test_a_call_is_repeated_with_what_it_needs() -> None:
    async with session("modern", options()) as (client, peer):
        arguments = {"a": [1, None], "inputResponses": "mine"}
        meta: dict[str, object] = {"example.com/x": 1}
        async with running(lambda: client.call_tool("t", arguments, meta=meta)) as outcome:
            first = await peer.request("tools/call")
            await peer.reply(first, needs({"who": form(), "dirs": ROOTS, "say": sample()}, "one"))
            second = await peer.request("tools/call")
            await peer.reply(second, needs({"page": page()}, "two"))
            third = await peer.request("tools/call")
            await peer.reply(third, text("done"))
        assert outcome == [CallToolResult(content=(TextContent(text="done"),))]
        assert second["params"]["inputResponses"] == {
            "who": {"action": "accept", "content": {"name": "Ann"}},
            "dirs": ROOTS_ANSWER,
            "say": {"role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "m"},
        }
        assert third["params"]["inputResponses"] == {"page": {"action": "accept"}}
        assert [each["params"].get("requestState") for each in (first, second, third)] == [None, "one", "two"]
        assert bare(first) == bare(second) == bare(third) == {"name": "t", "arguments": arguments}
        metas = [each["params"]["_meta"] for each in (first, second, third)]
        assert metas[0] == metas[1] == metas[2]
        assert {VERSION_KEY, CAPABILITIES_KEY, CLIENT_KEY, "example.com/x"} <= metas[0].keys()
        assert len({each["id"] for each in (first, second, third)}) == 3
        assert client.statistics().in_flight == 0


CALLS: dict[str, tuple[Callable[[Client], Awaitable[Any]], Message, type]] = {
    "tools/call": (lambda client: client.call_tool("t"), {"content": []}, CallToolResult),
    "resources/read": (lambda client: client.read_resource("a:b"), {"contents": []}, ReadResourceResult),
    "prompts/get": (lambda client: client.get_prompt("p", {"x": "y"}), {"messages": []}, GetPromptResult),
}


@pytest.mark.requirement("MRTR-18")
@pytest.mark.parametrize("method", CALLS)
async def test_three_methods_may_need_input(method: str) -> None:
    call, final, cls = CALLS[method]
    async with session("modern", options()) as (client, peer):
        async with running(lambda: call(client)) as outcome:
            first, second = await ask(peer, ROOTS, state="s")
            await peer.reply(second, final)
        assert isinstance(outcome[0], cls)
        assert first["method"] == second["method"] == method
        assert bare(first) == bare(second) == EVERY_CALL_PARAMS[method]
        assert second["params"]["inputResponses"] == {"0": ROOTS_ANSWER}


EVERY_CALL_PARAMS = {
    "tools/call": {"name": "t"},
    "resources/read": {"uri": "a:b"},
    "prompts/get": {"name": "p", "arguments": {"x": "y"}},
}


@pytest.mark.requirement("MRTR-36")
@pytest.mark.parametrize("method", [name for name in EVERY_CALL if name not in (*CALLS, "custom/method")])
async def test_on_another_method_it_is_no_valid_result(method: str) -> None:
    async with session("modern", options()) as (client, peer):
        async with running(lambda: EVERY_CALL[method][0](client)) as outcome:
            await peer.reply(await peer.request(method), needs({"k": ROOTS}, "s"))
        (error,) = outcome
        assert isinstance(error, InvalidResult)
        assert error.method == method
        assert "input_required" in str(error)
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("MRTR-11")
async def test_the_keys_are_the_servers_own() -> None:
    keys = ["", "a b", "\u00e9\u4e16\U0001f600", "__proto__", "a.b[0]", '"\\\n', "k" * 5000]
    answered: dict[str, str | None] = {}

    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        answered[asked.message] = context.key
        return ElicitResult(action="accept", content={"name": asked.message})

    async with session("modern", options(InputHandlers(elicit_form=fill))) as (client, peer):
        async with running(lambda: client.call_tool("t")):
            first = await peer.request()
            asked = {key: form() for key in keys}
            for number, key in enumerate(keys):
                asked[key]["params"]["message"] = str(number)
            await peer.reply(first, needs(asked))
            second = await peer.request()
            await peer.reply(second, text("ok"))
        responses = second["params"]["inputResponses"]
        assert list(responses) == keys
        assert [responses[key]["content"]["name"] for key in keys] == [str(n) for n in range(len(keys))]
        assert answered == {str(number): key for number, key in enumerate(keys)}


STATES = {
    "json": '{ "b" :1,"a": [ 2.0,1e3 ]  }',
    "empty": "",
    "not json": '{"a',
    "url": "https://example.com/?q=1#%20",
    "escapes": '\\u0041\t\n\r\x00\x1f\x7f"\\/\u2028\u2029\ufeff',
    "astral": "\U0001f600\U0010ffff e\u0301 \u00e9",
    "long": base64.b64encode(bytes(range(256)) * 3072).decode(),
}


@pytest.mark.requirement("MRTR-13", "MRTR-14")
@pytest.mark.parametrize("name", STATES)
async def test_the_state_goes_back_byte_for_byte(name: str) -> None:
    state = STATES[name]
    assert name != "long" or len(state) == 2**20
    async with session("modern", options()) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            _, second = await ask(peer, ROOTS, state=state)
            await peer.reply(second, text("ok"))
        assert second["params"]["requestState"] == state
        assert outcome[0].text == "ok"


@pytest.mark.requirement("MRTR-13")
async def test_escaped_surrogate_pairs_and_slashes_mean_what_they_stand_for() -> None:
    async with session("modern", options()) as (client, peer):
        async with running(lambda: client.call_tool("t")):
            request = await peer.request()
            raw = b'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"input_required",' % request["id"]
            await peer.stream.send_all(raw + b'"requestState":"\\ud83d\\ude00\\/\\u00e9 \\u005cu"}}\n')
            again = await peer.request()
            await peer.reply(again, text("ok"))
        assert again["params"]["requestState"] == "\U0001f600/\u00e9 \\u"


@pytest.mark.requirement("MRTR-15")
async def test_a_state_is_forgotten_when_the_latest_result_has_none() -> None:
    async with session("modern", options()) as (client, peer):
        async with running(lambda: client.call_tool("t")):
            await peer.reply(await peer.request(), needs(state="old"))
            second = await peer.request()
            await peer.reply(second, needs({"k": ROOTS}))
            third = await peer.request()
            await peer.reply(third, text("ok"))
        assert second["params"]["requestState"] == "old"
        assert "inputResponses" not in second["params"]
        assert "requestState" not in third["params"]
        assert third["params"]["inputResponses"] == {"k": ROOTS_ANSWER}


@pytest.mark.requirement("MRTR-12")
async def test_rounds_without_questions_slow_down(autojump_clock: MockClock) -> None:
    times: list[float] = []
    async with session("modern", options(request_timeout=None), seconds=LONG) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            for _ in range(9):
                request = await peer.request()
                times.append(trio.current_time())
                await peer.reply(request, needs(state="s"))
            await peer.reply(await peer.request(), text("ok"))
        assert outcome[0].text == "ok"
        gaps = [after - before for before, after in itertools.pairwise(times)]
        assert gaps == pytest.approx([0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0])


@pytest.mark.requirement("SAMP-12")
@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_the_number_of_rounds_is_bounded(limit: int) -> None:
    inputs = InputHandlers(sample=say_hello, max_rounds=limit)
    async with session("modern", options(inputs)) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            for number in range(limit + 1):
                await peer.reply(await peer.request(), needs({"k": sample()}, str(number)))
        (error,) = outcome
        assert isinstance(error, InputRequiredError)
        assert error.method == "tools/call"
        assert error.server == client.name
        assert error.result["requestState"] == str(limit)
        assert "max_rounds" in str(error)
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("MRTR-10")
async def test_nothing_is_repeated_before_every_answer_is_there() -> None:
    gates = {"form": trio.Event(), "page": trio.Event(), "model": trio.Event()}
    began: set[str] = set()

    async def wait(name: str) -> None:
        began.add(name)
        await gates[name].wait()

    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        await wait("form")
        return ElicitResult(action="accept", content={})

    async def go(asked: ElicitRequestURLParams, context: InputContext) -> ElicitResult:
        await wait("page")
        return ElicitResult(action="accept")

    async def model(asked: CreateMessageRequestParams, context: InputContext) -> CreateMessageResult:
        await wait("model")
        return message()

    inputs = InputHandlers(elicit_form=fill, elicit_url=go, sample=model)
    async with (
        session("modern", options(inputs)) as (client, peer),
        running(lambda: client.call_tool("t")),
    ):
        await peer.reply(await peer.request(), needs({"f": form(), "p": page(), "m": sample()}))
        await wait_all_tasks_blocked()
        assert began == gates.keys()  # side by side
        seen = len(peer.seen)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.receive)
            for name in ("model", "form", "page"):
                await wait_all_tasks_blocked()
                assert len(peer.seen) == seen
                gates[name].set()
        again = peer.seen[-1]
        assert list(again["params"]["inputResponses"]) == ["f", "p", "m"]
        await peer.reply(again, text("ok"))


@pytest.mark.requirement("MRTR-17", "MRTR-16")
async def test_flows_side_by_side_share_nothing() -> None:
    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        await trio.lowlevel.checkpoint()
        return ElicitResult(action="accept", content={"name": asked.message})

    names = [f"flow{number}" for number in range(5)]
    results: dict[str, str] = {}
    async with session("modern", options(InputHandlers(elicit_form=fill))) as (client, peer):

        async def call(name: str) -> None:
            results[name] = (await client.call_tool(name)).text

        async with trio.open_nursery() as nursery:
            for name in (*names, "plain"):
                nursery.start_soon(call, name)
            requests: list[Message] = []
            for _ in range(1 + 3 * len(names)):
                request = await peer.request()
                requests.append(request)
                params = request["params"]
                name, responses = params["name"], params.get("inputResponses")
                if name == "plain":
                    assert "inputResponses" not in params
                    assert "requestState" not in params
                    await peer.reply(request, text(name))
                elif responses is None:
                    asked = form()
                    asked["params"]["message"] = name
                    await peer.reply(request, needs({name: asked}, f"{name} 1"))
                else:
                    assert responses == {name: {"action": "accept", "content": {"name": name}}}
                    assert params["requestState"].startswith(name)
                    if params["requestState"].endswith("1"):
                        asked = form()
                        asked["params"]["message"] = name
                        await peer.reply(request, needs({name: asked}, f"{name} 2"))
                    else:
                        await peer.reply(request, text(name))
        assert results == {name: name for name in (*names, "plain")}
        assert len({request["id"] for request in requests}) == len(requests)


# interim results that are no good


@pytest.mark.requirement("MRTR-37")
@pytest.mark.parametrize(
    "interim",
    [
        needs(),
        needs(state=1),
        needs(["k"]),
        needs({"k": None}),
        needs({"k": {}}),
        needs({"k": {"method": 1}}),
        needs({"k": {"method": ["roots/list"]}}),
        needs({"k": {"method": "tools/list"}}),
        needs({"k": {"method": "elicitation/create"}}),
        needs({"k": {"method": "elicitation/create", "params": [1]}}),
        needs({"k": form(f={"type": "string"}) | {"params": {"message": "m"}}}),
        needs({"k": {"method": "elicitation/create", "params": {"mode": "url", "message": "m"}}}),
        needs({"k": {"method": "elicitation/create", "params": {**form()["params"], "mode": "voice"}}}),
        needs({"k": {"method": "sampling/createMessage", "params": {"messages": []}}}),
        needs({"k": sample({"role": "system", "content": {"type": "text", "text": "x"}})}),
    ],
)
async def test_questions_of_the_wrong_shape_end_the_call(interim: Message) -> None:
    async with session("modern", options()) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request(), interim)
        (error,) = outcome
        assert isinstance(error, InvalidResult), error
        assert error.server == client.name
        assert error.problems
        client.stop()
        assert await peer.rest() == []


async def test_an_unknown_kind_of_question_keeps_every_handler_from_being_asked() -> None:
    asked: list[str] = []

    async def fill(form: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        asked.append(form.message)
        return ElicitResult(action="decline")

    async with session("modern", options(InputHandlers(elicit_form=fill))) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request(), needs({"a": form(), "b": {"method": "x/y"}}))
        (error,) = outcome
        assert isinstance(error, InvalidResult)
        assert "'b'" in error.problems[0]
        assert asked == []


@pytest.mark.requirement("MRTR-37", "ELIC-02", "SAMP-03")
@pytest.mark.parametrize(
    ("inputs", "question"),
    [
        (InputHandlers(), form()),
        (InputHandlers(), page()),
        (InputHandlers(), sample()),
        (InputHandlers(), ROOTS),
        (InputHandlers(elicit_form=fill_in), page()),
        (InputHandlers(elicit_url=visit), form()),
        (InputHandlers(sample=say_hello), sample(tools=[])),
        (InputHandlers(sample=say_hello), sample(toolChoice={"mode": "auto"})),
    ],
)
async def test_what_was_not_announced_is_not_answered(inputs: InputHandlers, question: Message) -> None:
    async with session("modern", options(inputs)) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request(), needs({"k": question}, "s"))
        (error,) = outcome
        assert isinstance(error, InputRequiredError)
        assert error.server == client.name
        assert error.result == needs({"k": question}, "s")
        assert "'k'" in str(error)
        client.stop()
        assert await peer.rest() == []


# handlers that fail


class Broken(Exception):
    """What a handler raises."""


@pytest.mark.requirement("MRTR-37")
async def test_what_a_handler_raises_ends_the_call_and_cancels_the_other_handlers() -> None:
    waiting, cancelled = trio.Event(), trio.Event()

    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        waiting.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async def model(asked: CreateMessageRequestParams, context: InputContext) -> CreateMessageResult:
        await waiting.wait()
        raise Broken("no model")

    inputs = InputHandlers(elicit_form=fill, sample=model, timeout=None)
    async with session("modern", options(inputs)) as (client, peer):

        async def serve() -> None:
            await peer.reply(await peer.request(), needs({"a": form(), "b": sample()}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            with pytest.raises(Broken, match="no model"):
                await client.call_tool("t")
        assert cancelled.is_set()
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request(), text("still here"))
        assert outcome[0].text == "still here"
        client.stop()
        assert await peer.rest() == []


async def test_of_several_failures_the_first_key_counts_and_the_others_are_noted() -> None:
    async def fail(asked: Any, context: InputContext) -> Any:
        raise Broken(context.key)

    inputs = InputHandlers(elicit_form=fail, sample=fail)
    async with session("modern", options(inputs)) as (client, peer):

        async def serve() -> None:
            await peer.reply(await peer.request(), needs({"first": form(), "second": sample()}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            with pytest.raises(Broken) as caught:
                await client.call_tool("t")
        assert str(caught.value) == "first"
        assert "'second'" in caught.value.__notes__[0]


async def test_a_handler_has_a_limit_of_its_own(autojump_clock: MockClock) -> None:
    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        await trio.sleep_forever()
        raise AssertionError

    inputs = InputHandlers(elicit_form=fill, timeout=90)
    async with session("modern", options(inputs), seconds=LONG) as (client, peer):
        began = trio.current_time()
        async with running(lambda: client.call_tool("t", timeout=5)) as outcome:
            await peer.reply(await peer.request(), needs({"k": form()}))
        (error,) = outcome
        assert isinstance(error, InputRequiredError)
        assert "90 s" in str(error)
        assert trio.current_time() - began == pytest.approx(90)


@pytest.mark.parametrize(
    ("inputs", "question"),
    [
        (InputHandlers(elicit_form=say_hello), form()),  # type: ignore[arg-type]
        (InputHandlers(elicit_url=say_hello), page()),  # type: ignore[arg-type]
        (InputHandlers(sample=fill_in), sample()),  # type: ignore[arg-type]
    ],
)
async def test_a_handler_that_returns_something_else_is_told_so(
    inputs: InputHandlers, question: Message
) -> None:
    async with session("modern", options(inputs)) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request(), needs({"k": question}))
        (error,) = outcome
        assert isinstance(error, LocalProtocolError)
        assert error.server == client.name
        assert "the handler returned" in str(error)


# time


async def test_one_deadline_for_all_rounds_stands_while_a_person_thinks(autojump_clock: MockClock) -> None:
    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        await trio.sleep(500)
        return ElicitResult(action="accept", content={})

    async with session("modern", options(InputHandlers(elicit_form=fill)), seconds=LONG) as (client, peer):
        began = trio.current_time()
        async with running(lambda: client.call_tool("t", timeout=10)) as outcome:
            for _ in range(3):
                request = await peer.request()
                await trio.sleep(3)
                await peer.reply(request, needs({"k": form()}))
            request = await peer.request()
            await peer.notification("notifications/cancelled")
        (error,) = outcome
        assert isinstance(error, RequestTimeout)
        assert (error.timeout, error.request_id, error.idle) == (10, request["id"], False)
        assert error.elapsed == pytest.approx(10)
        assert error.server == client.name
        assert trio.current_time() - began == pytest.approx(1510)
        async with running(lambda: client.call_tool("t", timeout=10)) as outcome:  # within it, all is well
            for _ in range(3):
                request = await peer.request()
                await trio.sleep(3)
                await peer.reply(request, needs({"k": form()}))
            await peer.reply(await peer.request(), text("ok"))
        assert outcome[0].text == "ok"


async def test_the_pauses_between_rounds_count_and_do_not_outlast_the_deadline(
    autojump_clock: MockClock,
) -> None:
    async with session("modern", options(InputHandlers(max_rounds=1000)), seconds=LONG) as (client, peer):
        began = trio.current_time()
        async with running(lambda: client.call_tool("t", timeout=4)) as outcome:
            for _ in range(8):
                await peer.reply(await peer.request(), needs(state="s"))
        (error,) = outcome
        assert isinstance(error, RequestTimeout)
        assert error.timeout == 4
        assert error.request_id is None
        assert error.elapsed == pytest.approx(4)
        assert trio.current_time() - began == pytest.approx(4)


async def test_an_idle_timeout_holds_for_each_round(autojump_clock: MockClock) -> None:
    async with session("modern", options(), seconds=LONG) as (client, peer):
        async with running(lambda: client.call_tool("t", timeout=None, idle_timeout=2)) as outcome:
            first, second = await ask(peer, ROOTS)
            assert first["params"]["_meta"]["progressToken"] != second["params"]["_meta"]["progressToken"]
        (error,) = outcome
        assert isinstance(error, RequestTimeout)
        assert (error.idle, error.timeout) == (True, 2)


async def test_no_limit_is_no_limit(autojump_clock: MockClock) -> None:
    async with session("modern", options(), seconds=LONG) as (client, peer):
        async with running(lambda: client.call_tool("t", timeout=None)) as outcome:
            _, second = await ask(peer, ROOTS)
            await trio.sleep(10_000)
            await peer.reply(second, text("ok"))
        assert outcome[0].text == "ok"


# cancellation


@pytest.mark.requirement("ELIC-31", "MRTR-37")
async def test_cancelling_a_call_cancels_its_handlers_and_writes_nothing() -> None:
    inside, ended = trio.Event(), trio.Event()

    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        inside.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with session("modern", options(InputHandlers(elicit_form=fill))) as (client, peer):
        scope = trio.CancelScope()

        async def call() -> None:
            with scope:
                await client.call_tool("t")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await peer.reply(await peer.request(), needs({"a": form(), "b": form()}))
            await inside.wait()
            scope.cancel()
        assert scope.cancelled_caught
        assert ended.is_set()
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request(), text("next"))
        assert outcome[0].text == "next"
        client.stop()
        assert await peer.rest() == []


async def test_a_cancellation_passes_several_handlers_as_one() -> None:
    began, raised = 0, list[BaseException]()

    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        nonlocal began
        began += 1
        await trio.sleep_forever()
        raise AssertionError

    async with session("modern", options(InputHandlers(elicit_form=fill))) as (client, peer):

        async def call() -> None:
            try:
                await client.call_tool("t")
            except BaseException as error:
                raised.append(error)
                raise

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await peer.reply(await peer.request(), needs({"a": form(), "b": form()}))
            await until(lambda: began == 2)
            nursery.cancel_scope.cancel()
        assert [type(error) for error in raised] == [trio.Cancelled]


async def test_an_interrupt_in_handlers_comes_out_as_it_is() -> None:
    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        raise KeyboardInterrupt

    async def model(asked: CreateMessageRequestParams, context: InputContext) -> CreateMessageResult:
        await trio.sleep_forever()
        raise AssertionError

    async with session("modern", options(InputHandlers(elicit_form=fill, sample=model))) as (client, peer):

        async def serve() -> None:
            await peer.reply(await peer.request(), needs({"a": form(), "b": sample(), "c": form()}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            with pytest.raises(KeyboardInterrupt):
                await client.call_tool("t")


async def test_a_handler_may_use_the_client_that_waits_for_it() -> None:
    async def model(asked: CreateMessageRequestParams, context: InputContext) -> CreateMessageResult:
        return message((await client.call_tool("inner")).text)

    async with session("modern", options(InputHandlers(sample=model), max_in_flight=1)) as (client, peer):
        async with running(lambda: client.call_tool("outer")) as outcome:
            await peer.reply(await peer.request(), needs({"k": sample()}))
            inner = await peer.request()
            assert inner["params"]["name"] == "inner"
            await peer.reply(inner, text("from inside"))
            again = await peer.request()
            assert again["params"]["inputResponses"]["k"]["content"]["text"] == "from inside"
            await peer.reply(again, text("ok"))
        assert outcome[0].text == "ok"


@pytest.mark.requirement("ELIC-22")
async def test_cancelling_a_later_round_cancels_that_round_on_the_wire() -> None:
    async with session("modern", options()) as (client, peer):
        scope = trio.CancelScope()

        async def call() -> None:
            with scope:
                await client.call_tool("t")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            first, second = await ask(peer, page())
            scope.cancel()
            notice = await peer.notification("notifications/cancelled")
        assert scope.cancelled_caught
        assert notice["params"]["requestId"] == second["id"] != first["id"]


async def test_closing_the_client_during_a_handler_fails_the_retry() -> None:
    inside, gate = trio.Event(), trio.Event()

    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        inside.set()
        await gate.wait()
        return ElicitResult(action="accept", content={})

    async with session("modern", options(InputHandlers(elicit_form=fill))) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request(), needs({"k": form()}))
            await inside.wait()
            client.stop()
            assert await peer.rest() == []
            await client.wait_closed()
            gate.set()
        assert isinstance(outcome[0], ClientClosed)


# taking it by hand


async def test_an_interim_result_can_be_taken_stored_and_answered_later() -> None:
    capabilities = ClientCapabilities(elicitation={"form": {}})
    stored = ""
    async with session("modern", ClientOptions(capabilities=capabilities)) as (client, peer):
        call = lambda: client.call_tool("t", {"a": 1}, allow_input_required=True)  # noqa: E731
        async with running(call) as outcome:
            await peer.reply(await peer.request(), needs({"who": form(), "dirs": ROOTS}, " { }"))
        (interim,) = outcome
        assert isinstance(interim, InputRequiredResult)
        assert interim.request_state == " { }"
        assert interim.input_requests is not UNSET
        assert set(interim.input_requests) == {"who", "dirs"}
        stored = json.dumps(interim.request_state)
        client.stop()
        assert await peer.rest() == []

    async with session("modern", ClientOptions(capabilities=capabilities)) as (client, peer):
        responses: dict[str, InputResponse] = {
            "who": ElicitResult(action="accept", content={"name": "Ann"}),
            "dirs": ListRootsResult(roots=(HOME,)),
        }
        call = lambda: client.call_tool(  # noqa: E731
            "t",
            {"a": 1},
            allow_input_required=True,
            input_responses=responses,
            request_state=json.loads(stored),
        )
        async with running(call) as outcome:
            request = await peer.request("tools/call")
            await peer.reply(request, text("resumed"))
        assert outcome[0].text == "resumed"
        assert bare(request) == {"name": "t", "arguments": {"a": 1}}
        assert request["params"]["requestState"] == " { }"
        assert request["params"]["inputResponses"] == {
            "who": {"action": "accept", "content": {"name": "Ann"}},
            "dirs": ROOTS_ANSWER,
        }


@pytest.mark.requirement("MRTR-15")
async def test_a_resumed_call_goes_on_with_handlers() -> None:
    async with session("modern", options()) as (client, peer):
        async with running(lambda: client.read_resource("a:b", request_state="kept")) as outcome:
            first, second = await ask(peer, ROOTS)
            await peer.reply(second, {"contents": []})
        assert isinstance(outcome[0], ReadResourceResult)
        assert first["params"]["requestState"] == "kept"
        assert "inputResponses" not in first["params"]
        assert "requestState" not in second["params"]


@pytest.mark.parametrize("method", CALLS)
async def test_raw_results_are_interim_ones_too(method: str) -> None:
    call: dict[str, Callable[[Client], Awaitable[Any]]] = {
        "tools/call": lambda client: client.call_tool("t", raw=True),
        "resources/read": lambda client: client.read_resource("a:b", raw=True),
        "prompts/get": lambda client: client.get_prompt("p", raw=True),
    }
    async with session("modern", options()) as (client, peer):
        async with running(lambda: call[method](client)) as outcome:
            await peer.reply(await peer.request(method), needs({"k": ROOTS}, "s"))
        assert outcome == [needs({"k": ROOTS}, "s")]


async def test_an_interim_result_with_nothing_in_it_is_not_handed_out() -> None:
    async with session("modern", options()) as (client, peer):
        async with running(lambda: client.get_prompt("p", allow_input_required=True)) as outcome:
            await peer.reply(await peer.request(), needs())
        assert isinstance(outcome[0], InvalidResult)


# elicitation


@pytest.mark.requirement("ELIC-05", "ELIC-17", "ELIC-31")
@pytest.mark.parametrize("mode", [{}, {"mode": "form"}], ids=["absent", "form"])
async def test_a_form_reaches_its_handler_as_it_is(mode: Message) -> None:
    seen: list[tuple[ElicitRequestFormParams, InputContext]] = []

    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        seen.append((asked, context))
        return ElicitResult(action="accept", content={"age": 3})

    question = form(["age"], age={"type": "integer", "title": "Age", "description": "years"})
    question["params"] |= mode
    inputs = InputHandlers(elicit_form=fill, elicit_url=visit)
    async with session("modern", options(inputs)) as (client, peer):
        async with running(lambda: client.call_tool("t")):
            _, second = await ask(peer, question)
            await peer.reply(second, text("ok"))
        (asked, context) = seen[0]
        assert asked.message == "Who?"
        assert asked.requested_schema.required == ("age",)
        assert context == InputContext(server=client.name, era=Era.MODERN, method="tools/call", key="0")
        assert second["params"]["inputResponses"]["0"] == {"action": "accept", "content": {"age": 3}}


DEFAULTS: dict[str, Any] = {
    "s": {"type": "string", "default": "x"},
    "i": {"type": "integer", "default": 3},
    "n": {"type": "number", "default": 1.5},
    "e": {"type": "string", "enum": ["a", "b"], "default": "b"},
    "b": {"type": "boolean", "default": True},
}


@pytest.mark.requirement("ELIC-09", "ELIC-10", "ELIC-17", "MRTR-37")
@pytest.mark.parametrize(
    ("result", "sent"),
    [
        (ElicitResult(action="accept"), {"s": "x", "i": 3, "n": 1.5, "e": "b", "b": True}),
        (
            ElicitResult(action="accept", content={"s": "y"}),
            {"s": "y", "i": 3, "n": 1.5, "e": "b", "b": True},
        ),
        (ElicitResult(action="decline"), None),
        (ElicitResult(action="decline", content={"s": "y"}), None),
        (ElicitResult(action="cancel", content={"s": 1}), None),
    ],
)
async def test_only_an_accepted_form_has_content_and_defaults(result: ElicitResult, sent: object) -> None:
    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        return result

    async with session("modern", options(InputHandlers(elicit_form=fill))) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            _, second = await ask(peer, form(**DEFAULTS))
            await peer.reply(second, text("ok"))
        expected = {"action": result.action} | ({} if sent is None else {"content": sent})
        assert second["params"]["inputResponses"]["0"] == expected
        assert outcome[0].text == "ok"


@pytest.mark.requirement("ELIC-11")
@pytest.mark.parametrize("content", [{"age": "x"}, {"age": float("inf")}, {}, {"age": 1, "more": 2}])
async def test_an_answer_that_does_not_fit_its_form_is_not_sent(content: dict[str, Any]) -> None:
    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        return ElicitResult(action="accept", content=content)

    async with session("modern", options(InputHandlers(elicit_form=fill))) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request(), needs({"k": form(["age"], age={"type": "integer"})}))
        (error,) = outcome
        assert isinstance(error, LocalProtocolError)
        assert error.server == client.name
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("ELIC-30")
async def test_an_answer_can_be_reviewed_before_anything_is_sent() -> None:
    drafts: list[str] = []

    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        for draft in ("Ann", "Anne"):
            drafts.append(draft)
            await wait_all_tasks_blocked()
            assert len(peer.seen) == 2
        return ElicitResult(action="accept", content={"name": drafts[-1]})

    async with session("modern", options(InputHandlers(elicit_form=fill))) as (client, peer):
        async with running(lambda: client.call_tool("t")):
            _, second = await ask(peer, form())
            await peer.reply(second, text("ok"))
        assert second["params"]["inputResponses"]["0"]["content"] == {"name": "Anne"}


@pytest.mark.requirement("ELIC-10", "ELIC-15", "ELIC-16", "ELIC-28")
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_a_page_is_shown_as_it_is_and_never_fetched(action: Any) -> None:
    asked: list[ElicitRequestURLParams] = []
    visitors: list[object] = []

    async def go(page: ElicitRequestURLParams, context: InputContext) -> ElicitResult:
        asked.append(page)
        await wait_all_tasks_blocked()
        return ElicitResult(action=action, content={"must not": "be sent"})

    async def accept(stream: trio.SocketStream) -> None:
        visitors.append(stream)

    async with (
        trio.open_nursery() as nursery,
        session("modern", options(InputHandlers(elicit_url=go))) as (client, peer),
    ):
        listen = functools.partial(trio.serve_tcp, accept, 0, host="127.0.0.1")
        listeners = await nursery.start(listen)
        port = listeners[0].socket.getsockname()[1]
        url = f"http://127.0.0.1:{port}/A?b=%20C#\u00e9"
        async with running(lambda: client.call_tool("t")):
            _, second = await ask(peer, page(url))
            await peer.reply(second, text("ok"))
        assert asked[0].url == url
        assert asked[0].message == "Go"
        assert second["params"]["inputResponses"]["0"] == {"action": action}
        assert visitors == []
        nursery.cancel_scope.cancel()


@pytest.mark.requirement("ELIC-22")
async def test_after_a_page_the_server_may_ask_once_more() -> None:
    async with session("modern", options()) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            _, second = await ask(peer, page())
            await peer.reply(second, needs({"again": page()}))
            third = await peer.request()
            await peer.reply(third, text("ok"))
        assert third["params"]["inputResponses"] == {"again": {"action": "accept"}}
        assert outcome[0].text == "ok"


@pytest.mark.requirement("ELIC-20")
async def test_a_notice_of_a_finished_elicitation_has_no_effect() -> None:
    async with session("modern", options()) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            first = await peer.request()
            await peer.notify("notifications/elicitation/complete", {"elicitationId": "e"})
            await peer.reply(first, needs({"k": page()}))
            second = await peer.request()
            await peer.notify("notifications/elicitation/complete", {"elicitationId": "e"})
            await peer.reply(second, text("ok"))
        assert outcome[0].text == "ok"
        client.stop()
        assert await peer.rest() == []
        assert "elicitationId" not in json.dumps(peer.seen)


# sampling


TOOL = {"name": "look", "inputSchema": {"type": "object"}}
USE = {"type": "tool_use", "id": "u1", "name": "look", "input": {}, "_meta": {"sig": "a"}}
RESULT = {"type": "tool_result", "toolUseId": "u1", "content": [], "_meta": {"sig": "b"}}
HI = {"type": "text", "text": "hi"}


@pytest.mark.requirement("SAMP-07", "SAMP-08", "SAMP-09", "SAMP-14", "SAMP-15")
async def test_a_sampling_request_reaches_its_handler_whole() -> None:
    seen: list[CreateMessageRequestParams] = []

    async def model(asked: CreateMessageRequestParams, context: InputContext) -> CreateMessageResult:
        seen.append(asked)
        return CreateMessageResult(
            role="assistant",
            content=(
                TextContent(text="see"),
                ToolUseContent(id="u2", name="look", input={}, meta={"sig": "c"}),
            ),
            model="whatever the client likes",
            stop_reason="vendor/odd",
        )

    question = sample(
        {"role": "user", "content": HI},
        {"role": "assistant", "content": [HI, USE]},
        {"role": "user", "content": [RESULT]},
        maxTokens=77,
        systemPrompt="be brief",
        temperature=0.5,
        stopSequences=["."],
        metadata={"vendor": 1},
        modelPreferences={"hints": [{"name": "first"}, {"name": "second"}], "costPriority": 1},
        tools=[TOOL],
        toolChoice={},
    )
    inputs = InputHandlers(sample=model, sample_tools=True)
    async with session("modern", options(inputs)) as (client, peer):
        async with running(lambda: client.call_tool("t")):
            _, second = await ask(peer, question)
            await peer.reply(second, text("ok"))
        (asked,) = seen
        assert asked.max_tokens == 77
        assert asked.system_prompt == "be brief"
        use, result = asked.messages[1].blocks[1], asked.messages[2].blocks[0]
        assert isinstance(use, ToolUseContent)
        assert use.meta == {"sig": "a"}
        assert isinstance(result, ToolResultContent)
        assert result.meta == {"sig": "b"}
        assert second["params"]["inputResponses"]["0"] == {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "tool_use", "id": "u2", "name": "look", "input": {}, "_meta": {"sig": "c"}},
            ],
            "model": "whatever the client likes",
            "stopReason": "vendor/odd",
        }


@pytest.mark.requirement("SAMP-11", "SAMP-16", "MRTR-37")
async def test_a_declined_sampling_ends_the_call_without_a_word_to_the_server() -> None:
    async def refuse(asked: CreateMessageRequestParams, context: InputContext) -> None:
        return None

    async with session("modern", options(InputHandlers(sample=refuse))) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request(), needs({"k": sample()}))
        assert isinstance(outcome[0], InputRequiredError)
        assert "rejected" in str(outcome[0])
        client.stop()
        assert await peer.rest() == []


SEQUENCES = {
    "mixed": [{"role": "assistant", "content": USE}, {"role": "user", "content": [RESULT, HI]}],
    "missing": [{"role": "assistant", "content": USE}, {"role": "user", "content": HI}],
    "none at the end": [{"role": "assistant", "content": [USE]}],
    "too few": [
        {"role": "assistant", "content": [USE, {**USE, "id": "u2"}]},
        {"role": "user", "content": [RESULT]},
    ],
    "too many": [{"role": "assistant", "content": USE}, {"role": "user", "content": [RESULT, RESULT]}],
    "another": [
        {"role": "assistant", "content": USE},
        {"role": "user", "content": {**RESULT, "toolUseId": "u9"}},
    ],
    "late": [
        {"role": "assistant", "content": USE},
        {"role": "user", "content": RESULT},
        {"role": "user", "content": RESULT},
    ],
    "of nothing": [{"role": "user", "content": RESULT}],
}


@pytest.mark.requirement("SAMP-17")
@pytest.mark.parametrize("name", SEQUENCES)
async def test_tool_results_that_do_not_match_are_not_given_to_the_model(name: str) -> None:
    async with session("modern", options()) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request(), needs({"k": sample(*SEQUENCES[name], tools=[TOOL])}))
        assert isinstance(outcome[0], InputRequiredError)
        assert "tool results" in str(outcome[0])


@pytest.mark.requirement("SAMP-18")
async def test_each_sampling_request_has_its_own_messages_only() -> None:
    seen: list[list[str]] = []

    async def model(asked: CreateMessageRequestParams, context: InputContext) -> CreateMessageResult:
        seen.append([said.text for said in asked.messages])
        return message()

    async with session("modern", options(InputHandlers(sample=model))) as (client, peer):
        async with running(lambda: client.call_tool("t")):
            said = [{"role": "user", "content": {"type": "text", "text": word}} for word in ("one", "two")]
            _, second = await ask(peer, sample(said[0]))
            await peer.reply(second, needs({"k": sample(said[1])}))
            await peer.reply(await peer.request(), text("ok"))
        assert seen == [["one"], ["two"]]


@pytest.mark.requirement("SAMP-16")
async def test_a_person_can_edit_the_request_and_the_result() -> None:
    prompts: list[str] = []

    async def model(asked: CreateMessageRequestParams, context: InputContext) -> CreateMessageResult:
        prompts.append(asked.messages[0].text.upper())
        return message(f"{prompts[-1]}, edited")

    async with session("modern", options(InputHandlers(sample=model))) as (client, peer):
        async with running(lambda: client.call_tool("t")):
            _, second = await ask(peer, sample())
            await peer.reply(second, text("ok"))
        assert second["params"]["inputResponses"]["0"]["content"]["text"] == "HI, edited"


@pytest.mark.requirement("SAMP-21")
async def test_no_log_and_no_error_repeats_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = {"type": "text", "text": "very private"}

    async def model(asked: CreateMessageRequestParams, context: InputContext) -> CreateMessageResult | None:
        return None if asked.max_tokens == 1 else message("very private")

    inputs = InputHandlers(sample=model, max_rounds=1)
    async with session("modern", options(inputs)) as (client, peer):
        for tokens, rounds in ((1, 1), (2, 2)):
            async with running(lambda: client.call_tool("t")) as outcome:
                for _ in range(rounds):
                    asked = sample({"role": "user", "content": secret}, maxTokens=tokens)
                    await peer.reply(await peer.request(), needs({"k": asked}))
            assert isinstance(outcome[0], InputRequiredError)
            assert "private" not in str(outcome[0])
            assert "private" not in repr(outcome[0])
    assert "private" not in caplog.text


@pytest.mark.requirement("SAMP-13", "ROOTS-06")
def test_what_is_deprecated_is_said_to_be() -> None:
    described = InputHandlers.__doc__ or ""

    for name in ("sample:", "roots:"):
        text = described.partition(name)[2].partition("\n        roots_changes")[0]
        assert "Deprecated" in text


# roots


@pytest.mark.requirement("ROOTS-02", "ROOTS-03")
@pytest.mark.parametrize(
    "uri",
    [
        "http://example.com/",
        "/home",
        "file:/home",
        "",
        "file:///a/../b",
        "file:///..",
        "file:///a/..\\b",
        "file:///a/%2e%2E/b",
        "file:///a/%2E./b",
        "file:///a%2F..%2Fb",
        "file:///a/..?x",
        "file:///a/..#x",
    ],
)
async def test_roots_are_directories_without_ways_out(uri: str) -> None:
    root = Root(uri=uri)
    with pytest.raises(LocalProtocolError, match="a root"):
        InputHandlers(roots=[root])

    async def listed(context: InputContext) -> list[Root]:
        return [HOME, root]

    async with session("modern", options(InputHandlers(roots=listed))) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request(), needs({"k": ROOTS}))
        assert isinstance(outcome[0], LocalProtocolError)
        assert outcome[0].server == client.name
        client.stop()
        assert await peer.rest() == []


def test_dots_in_names_of_roots_are_no_ways_out() -> None:
    for uri in (
        "file:///a..b",
        "file:///..a",
        "file:///.../b",
        "file:///a%20b/",
        "file://host/share",
        "file:///",
    ):
        InputHandlers(roots=(Root(uri=uri),))


@pytest.mark.requirement("ROOTS-05", "ROOTS-07")
async def test_roots_are_asked_for_each_time_and_their_change_is_not_told() -> None:
    now: list[Root] = []
    contexts: list[InputContext] = []

    async def listed(context: InputContext) -> list[Root]:
        contexts.append(context)
        return now

    inputs = InputHandlers(roots=listed, roots_changes=True)
    async with session("modern", options(inputs)) as (client, peer):
        for expected in ([], [{"uri": "file:///home", "name": "Home"}]):
            async with running(lambda: client.call_tool("t")):
                _, second = await ask(peer, ROOTS | {"params": {}})
                await peer.reply(second, text("ok"))
            assert second["params"]["inputResponses"]["0"] == {"roots": expected}
            now.append(HOME)
            assert not await client.roots_changed()
        assert [context.key for context in contexts] == ["0", "0"]
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("ROOTS-07")
async def test_a_provider_of_roots_may_refuse() -> None:
    async def refuse(context: InputContext) -> list[Root]:
        raise Broken(context.server)

    async with session("modern", options(InputHandlers(roots=refuse))) as (client, peer):

        async def serve() -> None:
            await peer.reply(await peer.request(), needs({"k": ROOTS}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            with pytest.raises(Broken, match=client.name):
                await client.call_tool("t")
        client.stop()
        assert await peer.rest() == []


async def test_a_provider_that_returns_no_roots_is_told_so() -> None:
    async def listed(context: InputContext) -> Any:
        return ["file:///a"]

    async with session("modern", options(InputHandlers(roots=listed))) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request(), needs({"k": ROOTS}))
        assert isinstance(outcome[0], LocalProtocolError)
        assert "str, not Root" in str(outcome[0])


# the other direction


@pytest.mark.field("K111")
async def test_a_request_of_the_server_is_never_answered() -> None:
    async with session("modern", options()) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            request = await peer.request()
            for asked in (ROOTS, form(), sample(), {"method": "ping"}):
                await peer.send({"jsonrpc": "2.0", "id": request["id"], **asked})
            await peer.send([{"jsonrpc": "2.0", "id": 99, **ROOTS}])
            await peer.notify("notifications/cancelled", {"requestId": request["id"]})
            await peer.reply(request, text("ok"))
        assert outcome[0].text == "ok"
        assert client.statistics().violations >= 5
        assert client.statistics().replies == 0
        client.stop()
        assert await peer.rest() == []


# real children


async def test_a_real_server_gets_all_it_asks_for_in_one_round() -> None:
    log, settings = logged(inputs=ALL)
    with alive(), nothing_left():
        async with open_client(fake("asks"), settings) as client:
            result = await client.call_tool("everything")
            asked = json.loads(result.text)
            assert asked == {
                "form": {"action": "accept", "content": {"name": "Ann"}},
                "page": {"action": "accept"},
                "model": {"role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "m"},
                "roots": ROOTS_ANSWER,
            }
            assert (await client.call_tool("rounds", {"count": 5})).text == "after 5 rounds"
        assert_gone(client.pid)
    assert all("method" in message for message in log.sent)


async def test_a_real_server_dies_while_a_person_thinks() -> None:
    gate = trio.Event()

    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        await gate.wait()
        return ElicitResult(action="accept", content={"name": "Ann"})

    with alive(), nothing_left():
        async with (
            open_client(fake("asks"), ClientOptions(inputs=InputHandlers(elicit_form=fill))) as client,
            trio.open_nursery() as nursery,
        ):

            async def answer() -> None:
                await until(lambda: client.exit is not None)
                gate.set()

            nursery.start_soon(answer)
            with pytest.raises(ServerExited):
                await client.call_tool("ask-and-die")
