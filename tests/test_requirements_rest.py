"""Framing over other streams, shapes of messages, error codes, metadata: the client's half of what is left.

Where a row says that something is never written, the test plays `whole_session`, which does everything that
makes a client write, and looks at every line that arrived.
"""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import trio_mcp_stdio
from helpers import SERVERS, alive, both_eras, fake, logged, nothing_left
from scripted import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    EVERY_CALL,
    LEGACY,
    LEGACY_VERSIONS,
    MODERN,
    VERSION_KEY,
    Message,
    Peer,
    running,
    session,
    text,
)
from trio_mcp_stdio import (
    Client,
    ClientOptions,
    Era,
    InputContext,
    InputHandlers,
    InvalidParams,
    InvalidResult,
    LocalProtocolError,
    Notification,
    ResourceNotFound,
    RpcError,
    StreamTransport,
    open_client,
)
from trio_mcp_stdio.types import (
    CreateMessageResult,
    ElicitResult,
    Implementation,
    PromptReference,
    ResourceTemplateReference,
    Root,
    TextContent,
)

ME = Implementation(name="me", version="2")
META = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}, CLIENT_KEY: {"name": "me", "version": "2"}}

every_revision = pytest.mark.parametrize("version", [MODERN, *LEGACY_VERSIONS])
every_legacy_revision = pytest.mark.parametrize("version", LEGACY_VERSIONS)

PLAIN_CODES = {-32700, -32600, -32601, -32602, -32603}
RESERVED_CODES = range(-32099, -32000 + 1)

FORM: Message = {
    "message": "Who?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}
SAMPLE: Message = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 10}
QUESTIONS: dict[str, Message] = {
    "ping": {},
    "roots/list": {},
    "elicitation/create": FORM,
    "sampling/createMessage": SAMPLE,
    "tools/list": {},
    "custom/unknown": {"a": 1},
}


async def fill_in(asked: Any, context: InputContext) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ann"})


async def say_hello(asked: Any, context: InputContext) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text="hello"), model="m")


HANDLERS = InputHandlers(
    elicit_form=fill_in, sample=say_hello, roots=[Root(uri="file:///home")], roots_changes=True
)


def era_of(version: str) -> str:
    return "modern" if version == MODERN else "legacy"


def revision(version: str) -> tuple[str, str]:
    """An era and the legacy version for `session`."""
    return era_of(version), LEGACY if version == MODERN else version


def asked(number: int | str | None, method: str, params: object) -> Message:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def kind_of(message: Any) -> str:
    """What a message is; fails for what is no message in the form of this protocol."""
    assert isinstance(message, dict)
    assert message["jsonrpc"] == "2.0"
    members = message.keys() - {"jsonrpc"}
    if "method" in message:
        assert isinstance(message["method"], str)
        assert isinstance(message.get("params", {}), dict)
        assert members <= {"id", "method", "params"}
        if "id" not in message:
            return "notification"
        assert type(message["id"]) in (int, str)
        return "request"
    if "error" in message:
        assert members == {"id", "error"}
        assert message["error"].keys() <= {"code", "message", "data"}
        assert type(message["error"]["code"]) is int
        assert isinstance(message["error"]["message"], str)
        return "error"
    assert members == {"id", "result"}
    assert isinstance(message["result"], dict)
    return "result"


async def whole_session(version: str, options: ClientOptions | None = None) -> list[Any]:
    """All that makes a client write, in one connection; every message it wrote, up to its end of file."""
    era, legacy_version = revision(version)
    options = options or ClientOptions(info=ME, inputs=HANDLERS)
    async with session(era, options, version=legacy_version) as (client, peer):
        for method, (call, _, result) in EVERY_CALL.items():
            async with running(lambda call=call: call(client)):  # type: ignore[misc]
                await peer.reply(await peer.request(method), result)
            async with running(lambda call=call: call(client)) as outcome:  # type: ignore[misc]
                await peer.fail(await peer.request(method), -32603)
            assert isinstance(outcome[0], RpcError)
            with trio.CancelScope() as scope:
                async with running(lambda call=call: call(client)):  # type: ignore[misc]
                    await peer.request(method)
                    scope.cancel()
            await peer.notification("notifications/cancelled")

        async with running(lambda: client.call_tool("t", timeout=0.01, on_progress=lambda update: None)):
            token = (await peer.request("tools/call"))["params"]["_meta"]["progressToken"]
            await peer.notify("notifications/progress", {"progressToken": token, "progress": 1})
        await peer.notification("notifications/cancelled")
        with pytest.raises(LocalProtocolError):
            await client.call_tool("t", {"a": float("nan")})
        await client.notify("com.example/notice", {"id": 5, "method": "m"})
        await peer.notification("com.example/notice")
        await client.notify("com.example/notice")
        await peer.notification("com.example/notice")

        await (modern_exchange if era == "modern" else legacy_exchange)(client, peer)

        await peer.stream.send_all(
            b'hello\n\n{"jsonrpc":\n{"jsonrpc":"2.0","id":null,"method":"ping"}\n\xff\n'
        )
        for number in (None, 10_000, "x"):
            await peer.send({"jsonrpc": "2.0", "id": number, "result": {}})
            await peer.fail(number, -32600)
        await peer.notify("notifications/unheard_of", {"id": 1})
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request("tools/call"), text("still there"))
        assert outcome[0].text == "still there"
        client.stop()
        assert await peer.rest() == []
    assert peer._buffer == b""  # nothing without a newline before the end
    return peer.seen


async def modern_exchange(client: Client, peer: Peer) -> None:
    """A call that needs input, and requests that a modern server may not send."""
    async with running(lambda: client.call_tool("t")) as outcome:
        interim = {
            "resultType": "input_required",
            "inputRequests": {"who": {"method": "elicitation/create", "params": FORM}},
            "requestState": "s",
        }
        await peer.reply(await peer.request("tools/call"), interim)
        await peer.reply(await peer.request("tools/call"), text("ok"))
    assert outcome[0].text == "ok"
    for method, params in QUESTIONS.items():
        await peer.send(asked("q", method, params))


async def legacy_exchange(client: Client, peer: Peer) -> None:
    """What only a session has, and requests of the server, each of which is answered."""
    for method, call in (("ping", client.ping), ("logging/setLevel", lambda: client.set_log_level("info"))):
        async with running(call):
            await peer.reply(await peer.request(method), {})
    assert await client.roots_changed()
    await peer.notification("notifications/roots/list_changed")
    for number, (method, params) in enumerate(QUESTIONS.items()):
        await peer.send(asked(f"q{number}", method, params))
        assert (await peer.receive())["id"] == f"q{number}"


# --- Framing and direction


async def call_plainly(client: Client) -> list[bytes]:
    """A few calls of `texts.py raw`; the lines that this server has read for them."""
    different: list[Message] = [{}, {"text": "a\nb\r\n\u2028 \U0010ffff"}, {"deep": [{"x": None}, 1.5, True]}]
    return [bytes.fromhex((await client.call_tool("raw", arguments)).text) for arguments in different]


@pytest.mark.requirement("STDIO-FRAME-09")
@both_eras
async def test_bytes_over_a_socket_are_those_over_pipes(era: str) -> None:
    over_pipes, options = logged(info=ME)
    with alive(), nothing_left():
        async with open_client(fake("texts", "raw", era=era), options) as client:
            read_from_pipe = await call_plainly(client)

    over_socket, options = logged(info=ME)
    ours, theirs = socket.socketpair()

    async def connect() -> trio.SocketStream:
        return trio.SocketStream(trio.socket.from_stdlib_socket(ours))

    with alive():
        with theirs:
            process = await trio.lowlevel.open_process(
                [sys.executable, str(SERVERS / "texts.py"), "raw"],
                stdin=theirs,
                stdout=theirs,
                env={**os.environ, "FAKE_ERA": era},
            )
        try:
            async with open_client(StreamTransport(connect), options) as client:
                read_from_socket = await call_plainly(client)
            assert await process.wait() == 0  # it saw the end of its input
        finally:
            if process.poll() is None:
                process.kill()
                await process.wait()

    assert over_socket.lines == over_pipes.lines
    assert read_from_socket == read_from_pipe
    sent = [line.removesuffix(b"\n") for direction, line in over_socket.lines if direction == "send"]
    assert sent[-3:] == read_from_socket


@pytest.mark.requirement("STDIO-FRAME-10")
async def test_custom_transport_keeps_format_patterns_and_metadata() -> None:
    async with session("modern", ClientOptions(info=ME)) as (client, peer):
        for method, (call, params, result) in EVERY_CALL.items():
            async with running(lambda call=call: call(client)) as outcome:  # type: ignore[misc]
                request = await peer.request(method)
                answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
                for byte in json.dumps(answer).encode():
                    await peer.stream.send_all(bytes([byte]))
                await trio.testing.wait_all_tasks_blocked()
                assert outcome == []  # a line ends with its newline and not before
                await peer.stream.send_all(b"\n")
            assert not isinstance(outcome[0], Exception)
            expected = {"jsonrpc": "2.0", "id": request["id"], "method": method}
            assert request == {**expected, "params": {**params, "_meta": META}}
    # The other patterns (cancellation, progress, input, refusal) with the same checks of form.
    for message in await whole_session(MODERN):
        if kind_of(message) == "request":
            meta = message["params"]["_meta"]
            assert meta.keys() - {"progressToken"} == META.keys()
            assert meta[VERSION_KEY] == MODERN


@pytest.mark.requirement("STDIO-STREAM-06")
@pytest.mark.parametrize("inputs", [InputHandlers(), HANDLERS], ids=["no handlers", "handlers"])
async def test_requests_of_a_modern_server_are_violations_and_never_answered(inputs: InputHandlers) -> None:
    log, options = logged(inputs=inputs)
    async with session("modern", options) as (client, peer):
        async with running(lambda: client.call_tool("t")):
            call = await peer.request("tools/call")
            count = 0
            for number in (call["id"], "q", -1):
                for method, params in QUESTIONS.items():
                    await peer.send(asked(number, method, params))
                    count += 1
            await peer.send([asked("b", "ping", {}), asked("c", "roots/list", {})])
            await trio.testing.wait_all_tasks_blocked()
            assert client.statistics().violations == count + 3  # both of the array, and the array
            await peer.send(asked(None, "ping", {}), asked(1, "ping", [1]), {"jsonrpc": "2.0", "id": 1})
            await trio.testing.wait_all_tasks_blocked()
            assert client.statistics().replies == 0
            await peer.reply(call, text("ok"))
        client.stop()
        assert await peer.rest() == []
    assert [message for message in log.sent if "result" in message or "error" in message] == []
    assert [message["method"] for message in log.sent] == ["server/discover", "tools/call"]


@pytest.mark.requirement("STDIO-STREAM-11")
async def test_modern_client_writes_requests_and_notifications_only() -> None:
    kinds = Counter(map(kind_of, await whole_session(MODERN)))
    assert kinds.keys() == {"request", "notification"}


@pytest.mark.requirement("LEG-FRAME-04")
@every_legacy_revision
async def test_legacy_client_writes_messages_only(version: str) -> None:
    seen = await whole_session(version)
    kinds = Counter(map(kind_of, seen))
    assert kinds.keys() == {"request", "notification", "result", "error"}
    answered = [message["id"] for message in seen if "method" not in message]
    assert answered == [f"q{number}" for number in range(len(QUESTIONS))]


@pytest.mark.requirement("LEG-FRAME-01")
@every_legacy_revision
async def test_text_after_the_initialization_is_utf8(version: str) -> None:
    value = "\N{GRINNING FACE} \u05e9\u05dc\u05d5\u05dd \U0010ffff \u2028 \x00"
    log, options = logged()
    async with session("legacy", options, version=version) as (client, peer):
        async with running(lambda: client.call_tool("echo", {value: value})) as outcome:
            request = await peer.request("tools/call")
            answer = {"jsonrpc": "2.0", "id": request["id"], "result": text(value)}
            await peer.stream.send_all(json.dumps(answer, ensure_ascii=False).encode() + b"\n")
        assert outcome[0].text == value
        assert client.statistics().malformed == 0
    assert request["params"]["arguments"] == {value: value}
    for _, line in log.lines:
        line.decode("utf-8", errors="strict")


@pytest.mark.requirement("LEG-FRAME-07")
@every_legacy_revision
async def test_every_legacy_revision_is_spoken_over_stdio(version: str, tmp_path: Path) -> None:
    says = json.dumps({"protocolVersion": version})
    server = fake("negotiates", tmp_path / "journal", "initialize-says", says, era="legacy")
    with alive(), nothing_left():
        async with open_client(server) as client:
            assert (client.era, client.protocol_version) == (Era.LEGACY, version)
            assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
        assert client.exit is not None
        assert client.exit.returncode == 0


# --- Messages


@pytest.mark.requirement("MSG-04")
@every_revision
async def test_ids_are_never_null(version: str) -> None:
    requests = [message for message in await whole_session(version) if kind_of(message) == "request"]
    assert len(requests) > 3 * len(EVERY_CALL)
    assert {type(request["id"]) for request in requests} == {int}


@pytest.mark.requirement("MSG-18")
@every_revision
async def test_notifications_carry_no_id(version: str) -> None:
    seen = await whole_session(version)
    notices = [
        message
        for message in seen
        if message.get("method", "").startswith(("notifications/", "com.example/notice"))
    ]
    expected = {"notifications/cancelled", "com.example/notice"}
    if version != MODERN:
        expected |= {"notifications/initialized", "notifications/roots/list_changed"}
    assert {notice["method"] for notice in notices} == expected
    for notice in notices:
        assert notice.keys() <= {"jsonrpc", "method", "params"}
    assert {"id": 5, "method": "m"} in [notice.get("params") for notice in notices]


@pytest.mark.requirement("MSG-17")
@every_revision
async def test_notifications_are_never_answered(version: str) -> None:
    era, legacy_version = revision(version)
    received: list[Notification] = []
    options = ClientOptions(on_notification=received.append, inputs=HANDLERS)
    async with session(era, options, version=legacy_version) as (client, peer):
        async with running(lambda: client.call_tool("t")) as outcome:
            call = await peer.request("tools/call")
            for method in (
                "notifications/message", "notifications/progress", "notifications/cancelled",
                "notifications/tools/list_changed", "notifications/resources/updated",
                "notifications/initialized", "notifications/unheard_of", "custom/unknown", *QUESTIONS,
            ):  # fmt: skip
                for params in (None, {}, {"requestId": -7, "progressToken": [], "level": 5}, [], [1], "x", 5):
                    await peer.send({"jsonrpc": "2.0", "method": method, "params": params})
                    await peer.send({"jsonrpc": "2.0", "method": method, "params": params, "id": None})
            for odd in (5, None, [], {}):
                await peer.send({"jsonrpc": "2.0", "method": odd}, {"jsonrpc": "1.0", "method": "ping"})
            await trio.testing.wait_all_tasks_blocked()
            assert outcome == []
            await peer.reply(call, text("ok"))
        assert outcome[0].text == "ok"
        assert {"notifications/unheard_of", "custom/unknown"} <= {one.method for one in received}
        assert client.statistics().replies == 0
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("MSG-10")
@pytest.mark.parametrize("method", EVERY_CALL)
async def test_result_without_a_type_is_complete(method: str) -> None:
    call, _, result = EVERY_CALL[method]
    assert "resultType" not in result
    async with session() as (client, peer):
        outcomes = []
        for given in (result, {**result, "resultType": "complete"}):
            async with running(lambda: call(client)) as outcome:
                await peer.reply(await peer.request(method), given)
            outcomes += outcome
        assert not isinstance(outcomes[0], Exception)
        if not isinstance(outcomes[0], dict):
            assert type(outcomes[0]) is type(outcomes[1])
        client.stop()
        assert await peer.rest() == []  # nothing was asked again


@pytest.mark.requirement("MSG-11")
@pytest.mark.parametrize("method", [method for method in EVERY_CALL if method != "custom/method"])
@pytest.mark.parametrize("kind", ["partial", "Complete", "", None, 1, True, ["complete"]], ids=repr)
async def test_unknown_type_of_a_result_makes_it_invalid(method: str, kind: object) -> None:
    call, _, result = EVERY_CALL[method]
    async with session() as (client, peer):
        async with running(lambda: call(client)) as outcome:
            await peer.reply(await peer.request(method), {**result, "resultType": kind})
        (error,) = outcome
        assert isinstance(error, InvalidResult)
        assert error.method == method
        assert "resultType" in str(error)
        async with running(lambda: call(client)) as outcome:
            await peer.reply(await peer.request(method), {**result, "resultType": "complete"})
        assert not isinstance(outcome[0], Exception)
        client.stop()
        assert await peer.rest() == []


# --- Errors


@pytest.mark.requirement("ERR-01", "ERR-04", "ERR-05")
@pytest.mark.parametrize("question", ["elicitation/create", "sampling/createMessage", "roots/list"])
async def test_handlers_cannot_emit_reserved_codes(question: str) -> None:
    codes = iter(RESERVED_CODES)

    async def refuse(*args: Any) -> Any:
        raise RpcError(next(codes), "no")

    options = ClientOptions(inputs=InputHandlers(elicit_form=refuse, sample=refuse, roots=refuse))
    async with session("legacy", options) as (_, peer):
        for number in range(len(RESERVED_CODES)):
            await peer.send(asked(number, question, QUESTIONS[question]))
            answer = await peer.receive()
            assert (answer["id"], answer["error"]["code"]) == (number, -32603)
    assert next(codes, None) is None


@pytest.mark.requirement("ERR-02", "ERR-04", "ERR-05")
@every_legacy_revision
async def test_each_error_that_is_emitted_has_the_code_for_its_cause(version: str) -> None:
    async def fail(*args: Any) -> Any:
        raise ZeroDivisionError

    stuck = trio.Event()

    async def wait(*args: Any) -> Any:
        await stuck.wait()
        return CreateMessageResult(role="assistant", content=TextContent(text=""), model="m")

    options = ClientOptions(inputs=InputHandlers(elicit_form=fail, sample=wait))
    async with session("legacy", options, version=version) as (_, peer):

        async def code(*messages: object) -> int:
            await peer.send(*messages)
            answer = await peer.receive()
            return (answer[0] if isinstance(answer, list) else answer)["error"]["code"]

        assert await code(asked(1, "custom/unknown", {})) == -32601
        assert await code(asked(2, "roots/list", {})) == -32601  # has no handler
        assert await code(asked(3, "elicitation/create", {"mode": "form"})) == -32602
        assert await code(asked(4, "sampling/createMessage", {"messages": 5})) == -32602
        assert await code(asked(5, "elicitation/create", FORM)) == -32603
        await peer.send(asked(6, "sampling/createMessage", SAMPLE))
        assert await code(asked(6, "sampling/createMessage", SAMPLE)) == -32600  # id in use
        for number in range(7, 70):
            await peer.send(asked(number, "sampling/createMessage", SAMPLE))
        assert await code(asked(70, "sampling/createMessage", SAMPLE)) == -32603  # too many
        batch = [asked(71, "custom/unknown", {})]
        if version == "2025-03-26":
            assert await code([]) == -32600
            assert await code(batch) == -32603  # too many as well
        else:
            assert await code(batch) == -32600
        stuck.set()


@pytest.mark.requirement("ERR-02", "ERR-04", "ERR-05")
@every_revision
async def test_whole_session_emits_plain_codes_only(version: str) -> None:
    seen = await whole_session(version)
    codes = {message["error"]["code"] for message in seen if "error" in message}
    assert codes == (set() if version == MODERN else {-32601})


def constants() -> list[tuple[str, object]]:
    """Each constant in the source of the package, negative numbers as such, with the name of its file."""
    found: list[tuple[str, object]] = []
    for path in sorted(Path(trio_mcp_stdio.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Constant, ast.UnaryOp)):
                try:
                    found.append((path.name, ast.literal_eval(node)))
                except ValueError:
                    continue
    return found


@pytest.mark.requirement("ERR-01", "ERR-04")
def test_source_has_no_reserved_code_of_its_own() -> None:
    found = {
        (name, value) for name, value in constants() if isinstance(value, int) and value in RESERVED_CODES
    }
    assert {value for _, value in found} == {-32000, -32002, -32020, -32021, -32022}
    assert [name for name, value in found if value == -32000] == ["dispatch.py"]  # the end of the range
    assert [name for name, value in found if value == -32002] == ["_errors.py"]  # received, never sent


@pytest.mark.requirement("ERR-03")
@both_eras
async def test_codes_left_to_implementations_have_no_special_meaning(era: str) -> None:
    async with session(era) as (client, peer):
        for code in range(-32019, -32000 + 1):
            if code == -32002:
                continue
            for data in (None, {"supported": [MODERN], "requested": LEGACY, "uri": "a:b"}):
                for method in ("tools/call", "resources/read", "custom/method"):
                    call, _, _ = EVERY_CALL[method]
                    async with running(lambda call=call: call(client)) as outcome:  # type: ignore[misc]
                        await peer.fail(await peer.request(method), code, "why", data)
                    (error,) = outcome
                    assert type(error) is RpcError
                    assert (error.code, error.message, error.data) == (code, "why", data)
        assert client.era.value == era
        async with running(lambda: client.call_tool("t")) as outcome:
            await peer.reply(await peer.request("tools/call"), text("ok"))
        assert outcome[0].text == "ok"
        client.stop()
        assert await peer.rest() == []  # neither tried again nor negotiated


@pytest.mark.requirement("ERR-08")
@every_revision
@pytest.mark.parametrize(
    ("code", "data", "kind"),
    [
        (-32002, None, ResourceNotFound),
        (-32002, {"uri": "a:b"}, ResourceNotFound),
        (-32602, {"uri": "a:b"}, ResourceNotFound),
        (-32602, None, InvalidParams),
    ],
)
async def test_resource_not_found_by_either_code(
    version: str, code: int, data: Any, kind: type[RpcError]
) -> None:
    era, legacy_version = revision(version)
    async with session(era, version=legacy_version) as (client, peer):
        async with running(lambda: client.read_resource("a:b")) as outcome:
            await peer.fail(await peer.request("resources/read"), code, "Resource not found", data)
        assert type(outcome[0]) is kind
        assert outcome[0].code == code


# --- Metadata and completion


@pytest.mark.requirement("META-16")
@every_revision
async def test_prefixes_on_the_wire_are_in_reverse_dns_order(version: str) -> None:
    keys: set[str] = set()
    for message in await whole_session(version):
        body = message.get("params", message.get("result", {}))
        keys |= body.get("_meta", {}).keys()
    # A legacy session has been preceded by a probe in the modern form.
    assert keys == {"progressToken", VERSION_KEY, CAPABILITIES_KEY, CLIENT_KEY}
    assert {key.partition("/")[0] for key in keys if "/" in key} <= {"io.modelcontextprotocol"}


@pytest.mark.requirement("META-16")
def test_prefixes_in_the_source_are_in_reverse_dns_order() -> None:
    texts = {value for _, value in constants() if isinstance(value, str)}
    prefixes = {
        found[1]
        for value in texts
        if (found := re.fullmatch(r"([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)/[A-Za-z0-9._-]*", value))
    }
    assert prefixes == {"io.modelcontextprotocol"}


@pytest.mark.requirement("COMP-05")
@pytest.mark.parametrize(
    "reference",
    [PromptReference(name="p"), ResourceTemplateReference(uri="a:{b}")],
    ids=["prompt", "template"],
)
async def test_arguments_chosen_before_go_into_the_context_of_a_completion(reference: Any) -> None:
    async with session() as (client, peer):
        for context in ({"c": "d", "e": "שלום"}, {}, None):
            async with running(
                lambda context=context: client.complete(reference, ("a", "b"), context=context)  # type: ignore[misc]
            ) as outcome:
                request = await peer.request("completion/complete")
                await peer.reply(request, {"completion": {"values": ["x"]}})
            assert outcome[0].completion.values == ("x",)
            assert request["params"]["argument"] == {"name": "a", "value": "b"}
            if context is None:
                assert "context" not in request["params"]
            else:
                assert request["params"]["context"] == {"arguments": context}
