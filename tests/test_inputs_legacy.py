"""Legacy connections: requests of the server, answered by the same handlers."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from helpers import alive, assert_gone, fake, logged, nothing_left, until
from scripted import LEGACY, LEGACY_VERSIONS, Message, Peer, connecting, initialized, running, session, text
from trio_mcp_stdio import (
    ClientOptions,
    Era,
    InputContext,
    InputHandlers,
    RpcError,
    ServerExited,
    open_client,
)
from trio_mcp_stdio.types import (
    AudioContent,
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    Root,
    TextContent,
    ToolUseContent,
)

LONG = 1e6
"""Seconds for `session` under a clock that jumps."""

HOME = Root(uri="file:///home", name="Home")
HI = {"type": "text", "text": "hi"}
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
PAGE = {"mode": "url", "message": "Go", "url": "https://example.com/", "elicitationId": "e"}
SAMPLE = {"messages": [{"role": "user", "content": HI}], "maxTokens": 10}

QUESTIONS = {"elicitation/create": FORM, "sampling/createMessage": SAMPLE, "roots/list": {}}
ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ann"}},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "hello"},
        "model": "m",
    },
    "roots/list": {"roots": [{"uri": "file:///home", "name": "Home"}]},
}


async def fill_in(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ann"})


async def visit(asked: ElicitRequestURLParams, context: InputContext) -> ElicitResult:
    return ElicitResult(action="accept", content={"must not": "be sent"})


async def say_hello(asked: CreateMessageRequestParams, context: InputContext) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text="hello"), model="m")


ALL = InputHandlers(elicit_form=fill_in, elicit_url=visit, sample=say_hello, sample_tools=True, roots=[HOME])


def options(inputs: InputHandlers = ALL, **more: Any) -> ClientOptions:
    return ClientOptions(inputs=inputs, **more)


def request(request_id: int | str, method: str, params: object = None) -> Message:
    message: Message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return message if params is None else {**message, "params": params}


def answer(request_id: int | str, result: object) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


async def ask(peer: Peer, method: str, params: object = None, *, id: int | str = "q") -> Message:
    """Send a request; its answer, whose id is the same."""
    await peer.send(request(id, method, params))
    received = await peer.receive()
    assert received["id"] == id
    assert "method" not in received
    return received


async def code_of(peer: Peer, method: str, params: object = None) -> int:
    """Send a request; the code of the error that answers it."""
    error = (await ask(peer, method, params))["error"]
    assert set(error) == {"code", "message"}
    return error["code"]


class Stuck:
    """A form handler that waits until its gate opens."""

    def __init__(self) -> None:
        self.gate = trio.Event()
        self.running = 0
        self.ended = 0

    async def __call__(self, asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        self.running += 1
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
            self.ended += 1
        return ElicitResult(action="decline")


# what is announced


@pytest.mark.requirement("LEG-SAMP-01", "LEG-ELIC-01", "LEG-ROOTS-01")
@pytest.mark.parametrize(
    ("inputs", "announced"),
    [
        (InputHandlers(), {}),
        (InputHandlers(elicit_form=fill_in), {"elicitation": {"form": {}}}),
        (InputHandlers(elicit_url=visit), {"elicitation": {"url": {}}}),
        (InputHandlers(sample=say_hello), {"sampling": {}}),
        (InputHandlers(roots=[]), {"roots": {}}),
        (InputHandlers(roots=[], roots_changes=True), {"roots": {"listChanged": True}}),
        (ALL, {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}),
    ],
    ids=["none", "form", "url", "sampling", "roots", "changes", "all"],
)
async def test_what_has_a_handler_is_announced_once(inputs: InputHandlers, announced: object) -> None:
    async with session("legacy", options(inputs)) as (client, peer):
        async with running(lambda: client.call_tool("t")):
            await peer.reply(await peer.request(), text("ok"))
        told = [message for message in peer.seen if "capabilities" in message.get("params", {})]
        assert [message["method"] for message in told] == ["initialize"]
        assert told[0]["params"]["capabilities"] == announced
        assert "_meta" not in peer.seen[-1]["params"]


# answers


@pytest.mark.requirement("LEG-SAMP-01", "LEG-ELIC-01", "LEG-ROOTS-01")
@pytest.mark.parametrize("version", LEGACY_VERSIONS)
@pytest.mark.parametrize("method", QUESTIONS)
async def test_each_question_is_answered_in_every_revision(method: str, version: str) -> None:
    async with session("legacy", options(), version=version) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            call = await peer.request()
            assert await ask(peer, method, QUESTIONS[method]) == answer("q", ANSWERS[method])
            assert (await ask(peer, method, QUESTIONS[method], id=0))["result"] == ANSWERS[method]
            await peer.reply(call, text("ok"))
        assert outcome[0].text == "ok"
        assert client.statistics().replies == 2


async def test_a_question_outside_of_any_call_is_answered_too() -> None:
    contexts: list[InputContext] = []

    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        contexts.append(context)
        return ElicitResult(action="cancel")

    async with session("legacy", options(InputHandlers(elicit_form=fill))) as (client, peer):
        assert (await ask(peer, "elicitation/create", FORM))["result"] == {"action": "cancel"}
        assert contexts == [InputContext(server=client.name, era=Era.LEGACY)]


async def test_questions_before_the_handshake_has_ended_are_answered_after_it() -> None:
    async with connecting(options()) as attempt:
        peer = attempt.peer
        await peer.send(request("early", "roots/list"))
        await peer.fail(await peer.request("server/discover"), -32601)
        await peer.reply(await peer.request("initialize"), initialized())
        await attempt.connected()
        received = [await peer.receive(), await peer.receive()]
        assert answer("early", ANSWERS["roots/list"]) in received


# elicitation


@pytest.mark.requirement("LEG-ELIC-01")
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_all_three_actions_and_only_accept_has_content(action: Any) -> None:
    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        return ElicitResult(action=action, content={"name": "Ann"})

    async with session("legacy", options(InputHandlers(elicit_form=fill))) as (_, peer):
        result = (await ask(peer, "elicitation/create", FORM))["result"]
        assert result == {"action": action} | ({"content": {"name": "Ann"}} if action == "accept" else {})


@pytest.mark.requirement("LEG-ELIC-01", "LEG-ELIC-04")
async def test_a_page_is_agreed_to_and_the_notice_of_its_end_ignored() -> None:
    asked: list[ElicitRequestURLParams] = []

    async def go(page: ElicitRequestURLParams, context: InputContext) -> ElicitResult:
        asked.append(page)
        return ElicitResult(action="accept")

    async with session("legacy", options(InputHandlers(elicit_url=go))) as (client, peer):
        for finished in ("unknown", None, 1):
            await peer.notify("notifications/elicitation/complete", {"elicitationId": finished})
        assert (await ask(peer, "elicitation/create", PAGE))["result"] == {"action": "accept"}
        assert asked[0].elicitation_id == "e"
        for _ in range(2):
            await peer.notify("notifications/elicitation/complete", {"elicitationId": "e"})
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request(), text("ok"))
        assert outcome[0].text == "ok"
        assert client.statistics().violations == 0


@pytest.mark.requirement("LEG-ELIC-06")
async def test_defaults_are_applied_to_what_was_left_out() -> None:
    fields = {
        "s": {"type": "string", "default": "x"},
        "i": {"type": "integer", "default": 3},
        "n": {"type": "number", "default": 1.5},
        "b": {"type": "boolean", "default": False},
        "e": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"], "default": "b"},
        "m": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]},
    }

    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        return ElicitResult(action="accept", content={"s": "y"})

    async with session("legacy", options(InputHandlers(elicit_form=fill))) as (_, peer):
        params = {"message": "m", "requestedSchema": {"type": "object", "properties": fields}}
        result = (await ask(peer, "elicitation/create", params))["result"]
        assert result["content"] == {"s": "y", "i": 3, "n": 1.5, "b": False, "e": "b", "m": ["a"]}


# sampling


@pytest.mark.requirement("LEG-SAMP-02")
async def test_a_rejected_sampling_is_error_minus_one() -> None:
    async def refuse(asked: CreateMessageRequestParams, context: InputContext) -> None:
        return None

    async with session("legacy", options(InputHandlers(sample=refuse))) as (_, peer):
        assert await code_of(peer, "sampling/createMessage", SAMPLE) == -1


USE = {"type": "tool_use", "id": "u", "name": "n", "input": {}}
RESULT = {"type": "tool_result", "toolUseId": "u", "content": []}


@pytest.mark.requirement("LEG-SAMP-03")
@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "assistant", "content": USE}, {"role": "user", "content": [RESULT, HI]}],
        [{"role": "assistant", "content": USE}, {"role": "user", "content": HI}],
        [{"role": "user", "content": RESULT}],
    ],
    ids=["mixed", "missing", "extra"],
)
async def test_bad_sequences_of_tool_results_are_invalid_params(messages: list[Message]) -> None:
    async with session("legacy", options()) as (_, peer):
        assert await code_of(peer, "sampling/createMessage", {**SAMPLE, "messages": messages}) == -32602


@pytest.mark.requirement("LEG-SAMP-03")
async def test_tools_are_for_handlers_that_know_them() -> None:
    tools = {**SAMPLE, "tools": [{"name": "n", "inputSchema": {"type": "object"}}]}
    messages = [{"role": "assistant", "content": [USE]}, {"role": "user", "content": [RESULT]}]
    async with session("legacy", options(InputHandlers(sample=say_hello))) as (_, peer):
        assert await code_of(peer, "sampling/createMessage", tools) == -32602
    async with session("legacy", options()) as (_, peer):
        good = await ask(peer, "sampling/createMessage", {**tools, "messages": messages})
        assert good["result"] == ANSWERS["sampling/createMessage"]


@pytest.mark.requirement("LEG-SAMP-04")
@pytest.mark.parametrize(
    ("content", "since"),
    [
        (TextContent(text="x"), "2024-11-05"),
        (AudioContent(data="QQ==", mime_type="audio/wav"), "2025-03-26"),
        ((TextContent(text="x"),), "2025-11-25"),
        (ToolUseContent(id="u", name="n", input={}), "2025-11-25"),
    ],
    ids=["text", "audio", "list", "tool use"],
)
@pytest.mark.parametrize("version", LEGACY_VERSIONS)
async def test_content_that_the_revision_lacks_is_not_sent(content: Any, since: str, version: str) -> None:
    async def model(asked: CreateMessageRequestParams, context: InputContext) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=content, model="m")

    async with session("legacy", options(InputHandlers(sample=model)), version=version) as (_, peer):
        received = await ask(peer, "sampling/createMessage", SAMPLE)
        if version >= since:
            assert received["result"]["model"] == "m"
        else:
            assert received["error"]["code"] == -32603


# roots


@pytest.mark.requirement("LEG-ROOTS-02")
@pytest.mark.parametrize(
    "inputs",
    [
        InputHandlers(roots=[HOME], roots_changes=True),
        InputHandlers(roots=[HOME]),
        InputHandlers(),
    ],
    ids=["announced", "not announced", "no roots"],
)
async def test_changes_of_roots_are_told_if_that_was_announced(inputs: InputHandlers) -> None:
    async with session("legacy", options(inputs)) as (client, peer):
        assert await client.roots_changed() is inputs.roots_changes
        if inputs.roots_changes:
            notice = await peer.notification("notifications/roots/list_changed")
            assert "params" not in notice
        client.stop()
        assert await peer.rest() == []


async def test_roots_are_asked_for_each_time() -> None:
    now: list[Root] = []

    async def listed(context: InputContext) -> list[Root]:
        return now

    async with session("legacy", options(InputHandlers(roots=listed))) as (_, peer):
        assert (await ask(peer, "roots/list"))["result"] == {"roots": []}
        now.append(HOME)
        assert (await ask(peer, "roots/list", {}))["result"] == ANSWERS["roots/list"]
        now.append(Root(uri="https://example.com/"))
        assert await code_of(peer, "roots/list") == -32603


# errors


@pytest.mark.requirement("LEG-ROOTS-03")
@pytest.mark.parametrize("method", [*QUESTIONS, "tools/list", "no/such/method"])
async def test_what_has_no_handler_is_not_found(method: str) -> None:
    async with session("legacy") as (client, peer):
        assert await code_of(peer, method, QUESTIONS.get(method)) == -32601
        assert client.statistics().violations == 0


@pytest.mark.requirement("LEG-ELIC-02")
@pytest.mark.parametrize(
    ("inputs", "params"),
    [(InputHandlers(elicit_form=fill_in), PAGE), (InputHandlers(elicit_url=visit), FORM)],
    ids=["url", "form"],
)
async def test_a_mode_that_was_not_announced_is_invalid_params(
    inputs: InputHandlers, params: Message
) -> None:
    async with session("legacy", options(inputs)) as (_, peer):
        assert await code_of(peer, "elicitation/create", params) == -32602


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("elicitation/create", None),
        ("elicitation/create", {"message": "m"}),
        ("elicitation/create", {**FORM, "mode": "voice"}),
        ("elicitation/create", {"mode": "url", "message": "m"}),
        ("sampling/createMessage", {"messages": []}),
        ("sampling/createMessage", {**SAMPLE, "messages": [{"role": "system", "content": HI}]}),
    ],
)
async def test_questions_of_the_wrong_shape_are_invalid_params(method: str, params: object) -> None:
    async with session("legacy", options()) as (_, peer):
        assert await code_of(peer, method, params) == -32602


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (ValueError("private"), -32603),
        (RpcError(-32602, "no"), -32602),
        (RpcError(5, "no"), 5),
        (RpcError(-32002, "private code"), -32603),
        (RpcError(-32042, "private code"), -32603),
    ],
    ids=str,
)
async def test_what_a_handler_raises_is_answered_as_an_error(
    raised: Exception, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(asked: Any, context: InputContext) -> Any:
        raise raised

    async with session("legacy", options(InputHandlers(elicit_form=fail))) as (client, peer):
        received = await ask(peer, "elicitation/create", FORM)
        assert received["error"]["code"] == code
        assert "ValueError" not in json.dumps(received)
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request(), text("unharmed"))
        assert outcome[0].text == "unharmed"


async def test_an_answer_that_does_not_fit_its_form_is_an_internal_error() -> None:
    async def fill(asked: ElicitRequestFormParams, context: InputContext) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": 1})

    async with session("legacy", options(InputHandlers(elicit_form=fill))) as (_, peer):
        assert await code_of(peer, "elicitation/create", FORM) == -32603


async def test_a_handler_has_a_limit(autojump_clock: MockClock) -> None:
    stuck = Stuck()
    inputs = InputHandlers(elicit_form=stuck, timeout=600)
    async with session("legacy", options(inputs), seconds=LONG) as (_, peer):
        began = trio.current_time()
        assert await code_of(peer, "elicitation/create", FORM) == -32603
        assert trio.current_time() - began == pytest.approx(600)
        assert (stuck.running, stuck.ended) == (0, 1)


# several at a time


async def test_a_stuck_handler_holds_up_nothing() -> None:
    stuck = Stuck()
    inputs = InputHandlers(elicit_form=stuck, sample=say_hello, roots=[HOME])
    async with session("legacy", options(inputs)) as (client, peer):
        await peer.send(request("stuck", "elicitation/create", FORM))
        for number in range(20):
            async with running(lambda: client.call_tool("t")) as outcome:
                call = await peer.request()
                assert await ask(peer, "ping", id=number) == answer(number, {})
                assert "result" in await ask(peer, "sampling/createMessage", SAMPLE, id=number)
                await peer.notify("notifications/message", {"level": "info", "data": number})
                await peer.reply(call, text("ok"))
            assert outcome[0].text == "ok"
        assert stuck.running == 1
        stuck.gate.set()
        assert await peer.receive() == answer("stuck", {"action": "decline"})


async def test_an_id_that_is_in_use_is_refused() -> None:
    stuck = Stuck()
    async with session("legacy", options(InputHandlers(elicit_form=stuck))) as (_, peer):
        await peer.send(request(1, "elicitation/create", FORM))
        assert (await ask(peer, "elicitation/create", FORM, id=1))["error"]["code"] == -32600
        await peer.send(request("1", "elicitation/create", FORM))  # another id
        await until(lambda: stuck.running == 2)
        stuck.gate.set()
        answers = [await peer.receive(), await peer.receive()]
        assert {message["id"] for message in answers} == {1, "1"}
        assert all(message["result"] == {"action": "decline"} for message in answers)


async def test_sixty_four_run_at_a_time_and_more_are_refused() -> None:
    stuck = Stuck()
    async with session("legacy", options(InputHandlers(elicit_form=stuck))) as (client, peer):
        await peer.send(*(request(number, "elicitation/create", FORM) for number in range(70)))
        refused = [await peer.receive() for _ in range(6)]
        assert [message["id"] for message in refused] == list(range(64, 70))
        assert {message["error"]["code"] for message in refused} == {-32603}
        assert stuck.running == 64
        async with running(lambda: client.call_tool("t")) as outcome:
            call = await peer.request()
            assert await ask(peer, "ping") == answer("q", {})
            await peer.reply(call, text("ok"))
        assert outcome[0].text == "ok"
        stuck.gate.set()
        assert sorted([(await peer.receive())["id"] for _ in range(64)]) == list(range(64))


# cancelled by the server


@pytest.mark.requirement("LEG-CANCEL-01", "LEG-CANCEL-03", "LEG-CANCEL-06")
async def test_a_request_that_the_server_cancels_ends_its_handler_and_gets_no_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "trio_mcp_stdio.connection")
    ended = trio.Event()

    async def model(asked: CreateMessageRequestParams, context: InputContext) -> CreateMessageResult:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    stuck = Stuck()
    async with session("legacy", options(InputHandlers(sample=model, elicit_form=stuck))) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            call = await peer.request()
            await peer.send(
                request(5, "sampling/createMessage", SAMPLE), request(6, "elicitation/create", FORM)
            )
            await until(lambda: stuck.running == 1)
            await peer.notify("notifications/cancelled", {"requestId": 5, "reason": "user gave up"})
            await ended.wait()
            await peer.notify("notifications/cancelled", {"requestId": 5, "reason": "once more"})
            assert stuck.running == 1
            stuck.gate.set()
            assert await peer.receive() == answer(6, {"action": "decline"})
            await peer.reply(call, text("ok"))
        assert outcome[0].text == "ok"
        client.stop()
        assert await peer.rest() == []
    assert "user gave up" in caplog.text


@pytest.mark.requirement("LEG-CANCEL-03", "LEG-CANCEL-05")
async def test_a_cancellation_right_behind_its_request_finds_it() -> None:
    async with session("legacy", options()) as (client, peer):
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        await peer.send(request(1, "roots/list"), cancel)
        assert await ask(peer, "roots/list", id=2) == answer(2, ANSWERS["roots/list"])
        await peer.send(cancel)  # and one for what has long ended
        assert await ask(peer, "roots/list", id=1) == answer(1, ANSWERS["roots/list"])
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("LEG-CANCEL-02", "LEG-CANCEL-04")
async def test_cancellations_that_name_nothing_are_ignored() -> None:
    stuck = Stuck()
    async with session("legacy", options(InputHandlers(elicit_form=stuck))) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            call = await peer.request()
            await peer.send(request("mine", "elicitation/create", FORM))
            for named in (call["id"], "nobody", 12345, True, None, 1.5, ["mine"]):
                await peer.notify("notifications/cancelled", {"requestId": named})
            await peer.notify("notifications/cancelled", {})
            await peer.notify("notifications/cancelled")
            await until(lambda: stuck.running == 1)
            await peer.reply(call, text("ok"))
        assert outcome[0].text == "ok"
        assert stuck.running == 1
        stuck.gate.set()
        assert (await peer.receive())["id"] == "mine"


# the same id in both directions


@pytest.mark.field("K111")
@pytest.mark.requirement("LEG-ROOTS-03", "LEG-CANCEL-02")
@pytest.mark.parametrize("inputs", [ALL, InputHandlers()], ids=["handler", "none"])
async def test_a_server_may_use_the_id_of_a_pending_call(inputs: InputHandlers) -> None:
    async with session("legacy", options(inputs)) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            call = await peer.request()
            received = await ask(peer, "roots/list", id=call["id"])
            assert outcome == []
            if inputs is ALL:
                assert received["result"] == ANSWERS["roots/list"]
            else:
                assert received["error"]["code"] == -32601
            await peer.reply(call, text("held until then"))
        assert outcome[0].text == "held until then"


@pytest.mark.field("K111")
@pytest.mark.requirement("LEG-CANCEL-02")
async def test_either_side_cancels_its_own_request_of_the_same_id() -> None:
    stuck = Stuck()
    async with session("legacy", options(InputHandlers(elicit_form=stuck))) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            call = await peer.request()
            await peer.send(request(call["id"], "elicitation/create", FORM))
            await until(lambda: stuck.running == 1)
            await peer.notify("notifications/cancelled", {"requestId": call["id"]})
            await until(lambda: stuck.ended == 1)
            assert outcome == []
            await peer.reply(call, text("not mine to cancel"))
        assert outcome[0].text == "not mine to cancel"

        scope = trio.CancelScope()

        async def cancelled_call() -> None:
            with scope:
                await client.call_tool("t")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancelled_call)
            call = await peer.request()
            await peer.send(request(call["id"], "elicitation/create", FORM))
            await until(lambda: stuck.running == 1)
            scope.cancel()
            assert (await peer.notification("notifications/cancelled"))["params"]["requestId"] == call["id"]
        assert stuck.running == 1
        stuck.gate.set()
        assert await peer.receive() == answer(call["id"], {"action": "decline"})


# batches


def ids(array: list[Message]) -> list[Any]:
    return [message["id"] for message in array]


@pytest.mark.requirement("LEG-BATCH-01", "LEG-BATCH-04", "LEG-BATCH-05")
async def test_a_batch_is_answered_as_one_array() -> None:
    stuck = Stuck()
    inputs = InputHandlers(elicit_form=stuck, sample=say_hello, roots=[HOME])
    async with session("legacy", options(inputs), version="2025-03-26") as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            call = await peer.request()
            await peer.send(
                [
                    request("slow", "elicitation/create", FORM),
                    request("ping", "ping"),
                    {
                        "jsonrpc": "2.0",
                        "method": "notifications/message",
                        "params": {"level": "info", "data": 1},
                    },
                    request("roots", "roots/list"),
                    request("none", "no/such/method"),
                    request("model", "sampling/createMessage", SAMPLE),
                    answer(call["id"], text("ok")),
                ]
            )
        assert outcome[0].text == "ok"  # not held up by the handler
        await until(lambda: stuck.running == 1)
        assert await ask(peer, "ping", id="alone") == answer("alone", {})
        stuck.gate.set()
        array = await peer.receive()
        answers = {message["id"]: message for message in array}
        assert sorted(ids(array)) == ["model", "none", "ping", "roots", "slow"]
        assert answers["slow"]["result"] == {"action": "decline"}
        assert answers["ping"]["result"] == {}
        assert answers["roots"]["result"] == ANSWERS["roots/list"]
        assert answers["none"]["error"]["code"] == -32601
        assert answers["model"]["result"] == ANSWERS["sampling/createMessage"]


@pytest.mark.requirement("LEG-BATCH-04", "LEG-CANCEL-03")
async def test_what_is_cancelled_out_of_a_batch_is_not_in_its_answer() -> None:
    stuck = Stuck()
    inputs = InputHandlers(elicit_form=stuck, roots=[HOME])
    async with session("legacy", options(inputs), version="2025-03-26") as (client, peer):
        await peer.send([request(1, "elicitation/create", FORM), request(2, "roots/list")])
        await until(lambda: stuck.running == 1)
        await peer.notify("notifications/cancelled", {"requestId": 1})
        assert await peer.receive() == [answer(2, ANSWERS["roots/list"])]
        await peer.send([request(3, "elicitation/create", FORM)])
        await until(lambda: stuck.running == 1)
        await peer.notify("notifications/cancelled", {"requestId": 3})
        assert await ask(peer, "ping") == answer("q", {})
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("LEG-BATCH-01", "LEG-BATCH-04")
async def test_batches_of_notifications_and_empty_ones() -> None:
    async with session("legacy", options(), version="2025-03-26") as (client, peer):
        await peer.send([{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}])
        await peer.send([])
        error = await peer.receive()
        assert (error["id"], error["error"]["code"]) == (None, -32600)
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("LEG-BATCH-06")
@pytest.mark.parametrize("version", [v for v in LEGACY_VERSIONS if v != "2025-03-26"])
async def test_in_other_revisions_no_request_of_an_array_is_carried_out(version: str) -> None:
    stuck = Stuck()
    async with session("legacy", options(InputHandlers(elicit_form=stuck)), version=version) as (
        client,
        peer,
    ):
        await peer.send([request(1, "elicitation/create", FORM), request(2, "ping")])
        error = await peer.receive()
        assert (error["id"], error["error"]["code"]) == (None, -32600)
        client.stop()
        assert await peer.rest() == []
        assert (stuck.running, stuck.ended) == (0, 0)


@pytest.mark.requirement("LEG-BATCH-02", "LEG-BATCH-03")
async def test_the_client_sends_no_batches_of_its_own() -> None:
    log, settings = logged(inputs=ALL)
    async with session("legacy", settings, version="2025-03-26") as (client, peer):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(client.call_tool, "t")
            for _ in range(5):
                await peer.reply(await peer.request(), text("ok"))
        assert await ask(peer, "roots/list") == answer("q", ANSWERS["roots/list"])
    assert all(isinstance(message, dict) for message in log.sent)


# the end


@pytest.mark.parametrize("version", ["2025-03-26", LEGACY])
async def test_handlers_are_gone_when_the_client_has_closed(version: str) -> None:
    stuck = Stuck()
    tasks = trio.lowlevel.current_statistics().tasks_living
    async with session("legacy", options(InputHandlers(elicit_form=stuck)), version=version) as (
        client,
        peer,
    ):
        questions = [request(number, "elicitation/create", FORM) for number in range(3)]
        await peer.send(*([questions] if version == "2025-03-26" else questions))
        await until(lambda: stuck.running == 3)
        client.stop()
        assert await peer.rest() == []
        await client.wait_closed()
        assert (stuck.running, stuck.ended) == (0, 3)
    assert trio.lowlevel.current_statistics().tasks_living == tasks


async def test_handlers_are_gone_when_the_server_has_closed() -> None:
    stuck = Stuck()
    async with session("legacy", options(InputHandlers(elicit_form=stuck))) as (client, peer):
        await peer.send(request(1, "elicitation/create", FORM))
        await until(lambda: stuck.running == 1)
        await peer.stream.send_eof()
        await client.wait_closed()
        assert (stuck.running, stuck.ended) == (0, 1)


async def test_capabilities_declared_by_hand_have_no_handlers() -> None:
    declared = ClientCapabilities(sampling={}, roots={})
    async with session("legacy", ClientOptions(capabilities=declared)) as (_, peer):
        assert peer.seen[1]["params"]["capabilities"] == {"sampling": {}, "roots": {}}
        assert await code_of(peer, "sampling/createMessage", SAMPLE) == -32601


# real children


async def test_a_real_server_asks_for_everything_at_once() -> None:
    with alive(), nothing_left():
        async with open_client(fake("asks", era="legacy"), options()) as client:
            asked = json.loads((await client.call_tool("everything")).text)
            assert asked == {
                "form": ANSWERS["elicitation/create"],
                "page": {"action": "accept"},
                "model": ANSWERS["sampling/createMessage"],
                "roots": ANSWERS["roots/list"],
            }
        assert_gone(client.pid)


async def test_a_real_server_goes_on_while_a_handler_is_stuck_and_takes_its_question_back() -> None:
    stuck = Stuck()
    log, settings = logged(inputs=InputHandlers(elicit_form=stuck))
    with alive(), nothing_left():
        async with open_client(fake("asks", era="legacy"), settings) as client:
            assert (await client.call_tool("stuck")).text == "asked"
            await until(lambda: stuck.running == 1)
            for _ in range(10):
                assert (await client.call_tool("echo", {"text": "x"})).text == "x"
            assert stuck.running == 1
            assert (await client.call_tool("stop")).text == "stopped"
            await until(lambda: stuck.ended == 1)
        assert_gone(client.pid)
    assert all("method" in message for message in log.sent)


async def test_leaving_while_a_handler_is_stuck_leaves_nothing() -> None:
    stuck = Stuck()
    with alive(), nothing_left():
        async with open_client(
            fake("asks", era="legacy"), options(InputHandlers(elicit_form=stuck))
        ) as client:
            await client.call_tool("stuck")
            await until(lambda: stuck.running == 1)
        assert (stuck.running, stuck.ended) == (0, 1)
        assert_gone(client.pid)


async def test_a_server_that_dies_ends_its_handlers() -> None:
    stuck = Stuck()
    with alive(), nothing_left():
        async with open_client(
            fake("asks", era="legacy"), options(InputHandlers(elicit_form=stuck))
        ) as client:
            with pytest.raises(ServerExited):
                await client.call_tool("ask-and-die")
            await client.wait_closed()
            assert stuck.running == 0
