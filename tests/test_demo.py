"""The bundled demo server, on raw bytes, and the command that shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from helpers import alive, both_eras, nothing_left
from trio_mcp_stdio import ClientOptions, StdioServer, open_client
from trio_mcp_stdio._cli.demo_protocol import MAX_LINE, DemoServer

ROOT = Path(__file__).parent.parent
MODULE = "trio_mcp_stdio._cli.demo_server"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}

Message = dict[str, Any]


class Raw:
    """The server's two ends, on bytes."""

    def __init__(self, era: str, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.era = era
        self.process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._pending = b""

    async def send(self, line: bytes) -> None:
        await self._stdin.send_all(line + b"\n")

    async def request(self, request_id: object, method: str, **params: Any) -> None:
        """Send a request of the era."""
        await self.send(json.dumps(request(self.era, request_id, method, **params)).encode())

    async def notify(self, method: str, **params: Any) -> None:
        await self.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    async def read(self) -> Message:
        """The next message; whatever is on stdout has to be one."""
        while b"\n" not in self._pending:
            chunk = await self._stdout.receive_some()
            assert chunk, f"ended after {self._pending!r}"
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        message = json.loads(line.decode("utf-8", "strict"))
        assert message["jsonrpc"] == "2.0"
        return dict(message)

    async def ask(self, request_id: object, method: str, **params: Any) -> Message:
        await self.request(request_id, method, **params)
        return await self.read()

    async def close(self) -> None:
        await self._stdin.aclose()
        await self._stdout.aclose()

    async def end(self) -> int:
        """Close stdin; the rest of stdout has to be empty."""
        await self._stdin.aclose()
        rest = self._pending
        async for chunk in self._stdout:
            rest += chunk
        assert rest == b""
        return await self.process.wait()


def request(era: str, request_id: object, method: str, **params: Any) -> Message:
    """A request, with the metadata that its era asks for."""
    meta = params.pop("_meta", {})
    if era == "modern":
        meta = META | meta
    if meta:
        params["_meta"] = meta
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


@asynccontextmanager
async def raw(era: str) -> AsyncIterator[Raw]:
    """The server as a process; in the legacy era its session is open."""
    with alive():
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
        )
        server = Raw(era, process)
        try:
            if era == "legacy":
                answer = await server.ask("init", "initialize", **INITIALIZE)
                assert answer["result"]["protocolVersion"] == LEGACY
                await server.notify("notifications/initialized")
            yield server
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                await server.close()


def error(message: Message) -> tuple[Any, int]:
    return message.get("id"), message["error"]["code"]


class InProcess(DemoServer):
    """The server without a process, its clock set by hand."""

    def __init__(self) -> None:
        self.time = 0.0
        self.lines: list[bytes] = []
        self.logged: list[str] = []
        super().__init__(self.lines.append, log=self.logged.append, clock=lambda: self.time)

    def take(self) -> list[Message]:
        """What it has written since, decoded; each line holds one message."""
        for line in self.lines:
            assert line.endswith(b"\n")
            assert line.count(b"\n") == 1
        messages = [json.loads(line) for line in self.lines]
        self.lines.clear()
        return messages

    def ask(self, *messages: object) -> list[Message]:
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.receive(line + b"\n")
        return self.take()


# The process


async def test_discover_describes_the_server() -> None:
    async with raw("modern") as server:
        answer = await server.ask(1, "server/discover")

        result = answer["result"]
        assert answer.get("id") == 1
        assert result["resultType"] == "complete"
        assert result["supportedVersions"] == [MODERN]
        assert result["capabilities"] == {"tools": {}}
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "trio-mcp-demo"
        assert (result["ttlMs"], result["cacheScope"]) == (0, "public")
        assert await server.end() == 0


@both_eras
async def test_tools_are_listed_in_the_form_of_the_era(era: str) -> None:
    async with raw(era) as server:
        result = (await server.ask("a", "tools/list"))["result"]

        assert [tool["name"] for tool in result["tools"]] == ["add", "countdown", "sleep", "cancelled"]
        assert all(tool["inputSchema"]["type"] == "object" for tool in result["tools"])
        assert ("resultType" in result) == ("ttlMs" in result) == ("_meta" in result) == (era == "modern")
        assert await server.end() == 0


@both_eras
async def test_unknown_methods_malformed_lines_and_bad_versions_are_refused_and_it_goes_on(era: str) -> None:
    async with raw(era) as server:
        assert error(await server.ask(1, "no/such")) == (1, -32601)
        await server.send(b"{bad")
        assert error(await server.read()) == (None, -32700)
        future = {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
        refusal = await server.ask(2, "tools/list", _meta=future)
        assert error(refusal) == (2, -32022)
        assert refusal["error"]["data"] == {"supported": [MODERN], "requested": "2099-01-01"}

        answer = await server.ask(3, "tools/call", name="add", arguments={"a": 2, "b": 2.5})
        assert answer["result"]["content"] == [{"type": "text", "text": "4.5"}]
        assert await server.end() == 0


async def test_ping_is_answered_in_the_legacy_era_before_and_after_initialize() -> None:
    async with raw("modern") as server:
        await server.send(b'{"jsonrpc":"2.0","id":0,"method":"ping"}')
        assert await server.read() == {"jsonrpc": "2.0", "id": 0, "result": {}}
        assert error(await server.ask(1, "ping")) == (1, -32601)

    async with raw("legacy") as server:
        assert (await server.ask(2, "ping"))["result"] == {}


@both_eras
async def test_calls_run_at_once_and_report_progress_under_their_own_token(era: str) -> None:
    async with raw(era) as server:
        for number, token in enumerate(("0", 0)):
            arguments = {"from": 3, "pause": 0.05}
            await server.request(
                number, "tools/call", name="countdown", arguments=arguments, _meta={"progressToken": token}
            )
        messages = [await server.read() for _ in range(8)]

        for token in ("0", 0):
            reports = [m["params"] for m in messages if m.get("method") == "notifications/progress"]
            own = [params for params in reports if type(params["progressToken"]) is type(token)]
            assert [params["progress"] for params in own] == [1, 2, 3]
            assert {params["total"] for params in own} == {3}
        ended = [number for number, message in enumerate(messages) if "result" in message]
        assert ended[0] > 3  # both were running before either had ended
        assert await server.end() == 0


@both_eras
async def test_cancelled_call_is_stopped_told_and_never_answered(era: str) -> None:
    async with raw(era) as server:
        await server.request(5, "tools/call", name="sleep", arguments={"seconds": 3600})
        await server.notify("notifications/cancelled", requestId=5, reason="enough")
        answer = await server.ask(6, "tools/call", name="cancelled")

        told = answer["result"]["structuredContent"]
        assert answer.get("id") == 6
        assert [(call.get("id"), call["tool"]) for call in told["cancelled"]] == [(5, "sleep")]
        assert told["running"] == 0
        assert json.loads(answer["result"]["content"][0]["text"]) == told
        assert await server.end() == 0


@both_eras
async def test_end_of_input_ends_it_at_once_with_calls_running(era: str) -> None:
    async with raw(era) as server:
        await server.request(1, "tools/call", name="sleep", arguments={"seconds": 3600})
        assert await server.end() == 0


async def test_it_ends_quietly_when_nobody_reads_its_output() -> None:
    with alive():
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        await process.stdout.aclose()
        await process.stdin.send_all(b"{bad\n")

        assert await process.wait() == 0
        assert [chunk async for chunk in process.stderr] == []
        await process.stdin.aclose()
        await process.stderr.aclose()


@both_eras
async def test_the_client_finds_nothing_to_tolerate_in_it(era: Any) -> None:
    server = StdioServer(sys.executable, ["-m", MODULE], env={"PYTHONPATH": str(ROOT)})
    with alive(), nothing_left():
        async with open_client(server, ClientOptions(era=era, strict=True)) as client:
            await client.list_tools()
            progress: list[float] = []
            await client.call_tool(
                "countdown",
                {"from": 2, "pause": 0},
                on_progress=lambda update: progress.append(update.progress),
            )
            failed = await client.call_tool("add", {"a": True, "b": 1})
            statistics = client.statistics()

    assert progress == [1, 2]
    assert failed.is_error
    assert (statistics.noise, statistics.malformed, statistics.violations, statistics.tolerated) == (
        0,
        0,
        0,
        0,
    )
    assert (statistics.unknown_progress, statistics.unmatched) == (0, 0)
    assert client.exit is not None
    assert (client.exit.returncode, client.exit.stderr_tail) == (0, "")


# What it says, without a process


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        (None, -32602),
        ({}, -32602),
        ({"io.modelcontextprotocol/clientCapabilities": {}}, -32602),
        ({"io.modelcontextprotocol/protocolVersion": MODERN}, -32602),
        ({**META, "io.modelcontextprotocol/protocolVersion": 5}, -32602),
        ({**META, "io.modelcontextprotocol/clientCapabilities": []}, -32602),
        ({**META, "io.modelcontextprotocol/protocolVersion": LEGACY}, -32022),
        ({**META, "io.modelcontextprotocol/protocolVersion": "\ud800"}, -32022),
    ],
)
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call"])
def test_metadata_that_is_missing_or_wrong_is_refused(meta: object, code: int, method: str) -> None:
    params = {} if meta is None else {"_meta": meta}

    (answer,) = InProcess().ask({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})

    assert error(answer) == (7, code)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":', (None, -32700)),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', (None, -32700)),
        (b"\xff\xfe", (None, -32700)),
        (b"[" * 100_000, (None, -32700)),
        (b"5", (None, -32600)),
        (b'"text"', (None, -32600)),
        (b"null", (None, -32600)),
        (b"{}", (None, -32600)),
        (b"[]", (None, -32600)),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', (None, -32600)),
        (b'{"id":"x","method":"ping"}', ("x", -32600)),
        (b'{"jsonrpc":"1.0","id":3,"method":"ping"}', (3, -32600)),
        (b'{"jsonrpc":"2.0","id":4,"method":5}', (4, -32600)),
        (b'{"jsonrpc":"2.0","id":4,"method":"ping","params":[1]}', (4, -32600)),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', (None, -32600)),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', (None, -32600)),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', (None, -32600)),
        (b'{"jsonrpc":"2.0","id":9,"method":"' + b"x" * MAX_LINE + b'"}', (9, -32600)),
    ],
)
def test_lines_that_are_no_request_are_refused(line: bytes, expected: tuple[Any, int]) -> None:
    server = InProcess()

    (answer,) = server.ask(line)

    assert error(answer) == expected
    assert server.ask({"jsonrpc": "2.0", "id": 2, "method": "ping"}) == [
        {"jsonrpc": "2.0", "id": 2, "result": {}}
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\r",
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":true}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}',
        b'{"jsonrpc":"2.0","method":"notifications/other"}',
        b'{"jsonrpc":"2.0","method":7}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":5}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}',
    ],
)
def test_notifications_and_answers_are_never_answered(line: bytes) -> None:
    assert InProcess().ask(line) == []


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, -32602),
        ({"name": 5}, -32602),
        ({"name": "add", "arguments": [1, 2]}, -32602),
        ({"name": "nope"}, -32602),
        ({"name": "ADD", "arguments": {"a": 1, "b": 1}}, -32602),
        ({"name": "\ud800"}, -32602),
        ({"name": "sleep", "arguments": {"seconds": 1}, "_meta": {"progressToken": 1.5}}, -32602),
        ({"name": "sleep", "arguments": {"seconds": 1}, "_meta": {"progressToken": "\ud800"}}, -32602),
    ],
)
def test_calls_of_the_wrong_shape_are_errors(params: Message, code: int) -> None:
    (answer,) = InProcess().ask(request("modern", 1, "tools/call", **params))

    assert error(answer) == (1, code)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("add", {}),
        ("add", {"a": 1}),
        ("add", {"a": "1", "b": 1}),
        ("add", {"a": True, "b": 1}),
        ("add", {"a": 1, "b": 1, "\ud800": 1}),
        ("add", {"a": 1e308, "b": 1e308}),
        ("countdown", {"from": 0}),
        ("countdown", {"from": 1.5}),
        ("sleep", {"seconds": -1}),
        ("sleep", {"seconds": 1e30}),
    ],
)
def test_arguments_that_do_not_fit_are_failures_of_the_tool(tool: str, arguments: Message) -> None:
    (answer,) = InProcess().ask(request("modern", 1, "tools/call", name=tool, arguments=arguments))

    assert answer["result"]["isError"] is True
    assert answer["result"]["content"][0]["text"]


def test_sessions_of_both_eras_live_side_by_side() -> None:
    server = InProcess()

    (initialized,) = server.ask(request("legacy", 1, "initialize", **INITIALIZE | {"protocolVersion": "1.0"}))
    modern, legacy, unknown = server.ask(
        request("modern", 2, "tools/list"),
        request("legacy", 3, "tools/list"),
        request("legacy", 4, "server/discover"),
    )

    assert initialized["result"]["protocolVersion"] == LEGACY
    assert modern["result"]["resultType"] == "complete"
    assert "resultType" not in legacy["result"]
    assert error(unknown) == (4, -32601)
    assert error(server.ask(request("legacy", 5, "initialize"))[0]) == (5, -32602)
    assert error(server.ask(request("modern", 6, "initialize", **INITIALIZE))[0]) == (6, -32601)


def test_ids_are_told_apart_by_type_and_not_used_twice_at_a_time() -> None:
    server = InProcess()
    sleep = {"name": "sleep", "arguments": {"seconds": 5}}

    assert server.ask(request("modern", 1, "tools/call", **sleep)) == []
    assert server.ask(request("modern", "1", "tools/call", **sleep)) == []
    (refusal,) = server.ask(request("modern", 1, "tools/list"))
    assert error(refusal) == (1, -32600)

    cancel = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": "1", "reason": "\x1b["},
    }
    assert server.ask(cancel) == []
    assert server.logged == ["stopped sleep after 0.00 s, reason: '\\x1b['"]
    assert server.run_due() == 5
    server.time = 5.0
    assert server.run_due() is None
    (answer,) = server.take()
    assert answer["id"] == 1
    assert answer["result"]["content"][0]["text"] == "slept 5 s"


def test_progress_is_sent_only_to_those_who_ask_for_it() -> None:
    server = InProcess()
    arguments = {"from": 2, "pause": 0}

    server.ask(request("modern", 1, "tools/call", name="countdown", arguments=arguments))
    while server.run_due() is not None:
        pass

    assert [message.get("method") for message in server.take()] == [None]


def test_the_number_of_calls_and_of_those_remembered_is_bounded() -> None:
    server = InProcess()
    for number in range(1000):
        server.ask(request("modern", number, "tools/call", name="sleep", arguments={"seconds": 1}))

    (refusal,) = server.ask(request("modern", "more", "tools/call", name="sleep", arguments={"seconds": 1}))
    assert error(refusal) == ("more", -32603)

    for number in range(1000):
        server.ask({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
    (answer,) = server.ask(request("modern", "tell", "tools/call", name="cancelled"))
    assert len(answer["result"]["structuredContent"]["cancelled"]) == 100


_pieces = st.one_of(
    st.binary(max_size=30),
    st.sampled_from(
        [b"\n", b"\r\n", b"[", b"{", b'"id":', b'"method":"tools/call"', b'"jsonrpc":"2.0"', b"}"]
    ),
    st.builds(
        lambda *parts: json.dumps(request(*parts)).encode() + b"\n",
        st.sampled_from(["modern", "legacy"]),
        st.one_of(st.integers(), st.text(), st.none(), st.booleans(), st.floats(allow_nan=False)),
        st.sampled_from(["tools/call", "tools/list", "initialize", "ping", "server/discover", "\ud800"]),
    ),
)


@given(st.lists(_pieces, max_size=30))
def test_whatever_it_is_sent_it_writes_messages_only(pieces: list[bytes]) -> None:
    server = InProcess()

    for piece in pieces:
        server.receive(piece)
        server.run_due()

    for message in server.take():
        assert message["jsonrpc"] == "2.0"
        assert ("result" in message) != ("error" in message)


# The command


@pytest.mark.parametrize(
    ("options", "era", "version"), [([], "modern", MODERN), (["--legacy"], "legacy", LEGACY)]
)
async def test_demo_shows_the_whole_of_it(options: list[str], era: str, version: str) -> None:
    with alive(60):
        done = await trio.run_process(
            [sys.executable, "-m", "trio_mcp_stdio", "demo", *options],
            env={**ENVIRONMENT, "PYTHONWARNINGS": "error"},
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )

    assert done.returncode == 0
    assert done.stderr == b""
    text = done.stdout.decode()
    words = " ".join(text.split())
    assert f"era {era} version {version}" in words
    for tool in ("add a b", "countdown from [pause]", "sleep seconds", "cancelled Tell"):
        assert tool in words
    assert "liftoff, after 5 progress reports" in words
    assert "liftoff, after 8 progress reports" in words
    assert "cancelled by the client" in words
    assert "the server says that it stopped sleep" in words
    assert "still running: none" in words
    assert "the server exited by itself with status 0" in words
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 110
