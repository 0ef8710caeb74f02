"""A server at the other end of a memory pair, for tests that no process is needed for.

A test reads as a transcript: the client's call runs in a task, the test itself plays the server::

    async with session() as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "echo")
        request = await peer.request("tools/call")
        await peer.reply(request, text("hello"))
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from trio_mcp_stdio import Client, ClientOptions, McpError, StreamTransport, run_client
from trio_mcp_stdio.types import PromptReference

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
LEGACY_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
INFO = {"name": "scripted", "version": "1.0"}
CAPABILITIES: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}}

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"

Message = dict[str, Any]


def text(value: str, **more: Any) -> Message:
    return {"content": [{"type": "text", "text": value}], **more}


def discovered(*versions: str, **more: Any) -> Message:
    return {
        "resultType": "complete",
        "supportedVersions": list(versions or (MODERN,)),
        "capabilities": CAPABILITIES,
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {SERVER_KEY: INFO},
        **more,
    }


def initialized(version: str = LEGACY, **more: Any) -> Message:
    return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": INFO, **more}


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the package has logged at warning level or above."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.name.startswith("trio_mcp_stdio")
    ]


@attrs.define(eq=False)
class Peer:
    """The server's end.  `seen` has every message read so far."""

    stream: trio.abc.HalfCloseableStream
    seen: list[Any] = attrs.field(factory=list)
    _buffer: bytearray = attrs.field(factory=bytearray)
    _sending: trio.Lock = attrs.field(factory=trio.Lock)
    _ended: bool = False

    async def receive(self) -> Any:
        """The next message, whatever it is; `trio.EndOfChannel` at the end."""
        while (end := self._buffer.find(b"\n")) < 0:
            chunk = await self.stream.receive_some()
            if not chunk:
                raise trio.EndOfChannel
            self._buffer.extend(chunk)
        self.seen.append(json.loads(self._buffer[:end].decode()))
        del self._buffer[: end + 1]
        return self.seen[-1]

    async def request(self, method: str | None = None) -> Message:
        """The next message, which has to be a request (of this method)."""
        message = await self.receive()
        assert isinstance(message, dict)
        assert "id" in message
        assert method in (None, message["method"])
        return message

    async def notification(self, method: str) -> Message:
        """The next message, which has to be this notification."""
        message = await self.receive()
        assert message["method"] == method
        assert "id" not in message
        return message

    async def send(self, *messages: object) -> None:
        """Write messages, each on a line, in one piece."""
        async with self._sending:
            await self.stream.send_all(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    async def reply(self, request: Message | int | str | None, result: Mapping[str, Any]) -> None:
        await self.send({"jsonrpc": "2.0", "id": _id_of(request), "result": result})

    async def fail(
        self, request: Message | int | str | None, code: object, message: str = "no", data: object = None
    ) -> None:
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        await self.send({"jsonrpc": "2.0", "id": _id_of(request), "error": error})

    async def notify(self, method: str, params: object = None) -> None:
        await self.send({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    async def shake_hands(self, era: str = "modern", version: str = LEGACY, **more: Any) -> None:
        """Answer the whole handshake of an era; `more` goes into its result."""
        request = await self.request()
        if era == "modern":
            assert request["method"] == "server/discover"
            await self.reply(request, discovered(**more))
            return
        if request["method"] == "server/discover":
            await self.fail(request, -32601, "Method not found")
            request = await self.request()
        assert request["method"] == "initialize"
        await self.reply(request, initialized(version, **more))
        await self.notification("notifications/initialized")

    async def serve(self) -> None:
        """Answer every request up to the end like a tool call, with its argument `text`."""
        self._ended = True
        try:
            while True:
                message = await self.receive()
                if "id" in message and "method" in message:
                    arguments = message.get("params", {}).get("arguments", {})
                    await self.reply(message, text(str(arguments.get("text", "ok"))))
        except trio.EndOfChannel:
            await self.stream.aclose()

    async def rest(self) -> list[Any]:
        """Everything up to the client's end of file; closes this end, too.  Nothing when called again."""
        found: list[Any] = []
        if self._ended:
            return found
        self._ended = True
        try:
            while True:
                found.append(await self.receive())
        except trio.EndOfChannel:
            await self.stream.aclose()
        return found


def pair() -> tuple[StreamTransport, Peer]:
    """A transport for one client, and the peer it will talk to."""
    ours, theirs = trio.testing.memory_stream_pair()

    async def connect() -> trio.abc.HalfCloseableStream:
        return ours

    return StreamTransport(connect), Peer(theirs)


@attrs.define(eq=False)
class Attempt:
    """What became of connecting: a client or an error, once `done`."""

    peer: Peer
    done: trio.Event = attrs.field(factory=trio.Event)
    client: Client | None = None
    error: McpError | None = None

    async def connected(self) -> Client:
        await self.done.wait()
        assert self.error is None
        assert self.client is not None
        return self.client

    async def refused(self) -> McpError:
        await self.done.wait()
        assert self.error is not None
        return self.error


@asynccontextmanager
async def connecting(options: ClientOptions, *, seconds: float = 30) -> AsyncIterator[Attempt]:
    """A client that connects while the block plays the server; at the end it is stopped."""
    transport, peer = pair()
    attempt = Attempt(peer)

    async def connect() -> None:
        try:
            attempt.client = await nursery.start(run_client, transport, options)
        except McpError as error:
            attempt.error = error
        attempt.done.set()

    with trio.fail_after(seconds):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connect)
            yield attempt
            nursery.start_soon(peer.rest)
            if attempt.client is not None:
                attempt.client.stop()


@asynccontextmanager
async def running(call: Callable[[], Awaitable[Any]]) -> AsyncIterator[list[Any]]:
    """A call in a task of its own, next to the block; its result or error is in the list afterwards."""
    outcome: list[Any] = []

    async def run() -> None:
        try:
            outcome.append(await call())
        except McpError as error:
            outcome.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        yield outcome


EVERY_CALL: dict[str, tuple[Callable[[Client], Awaitable[Any]], Message, Message]] = {
    "tools/list": (lambda client: client.list_tools(), {}, {"tools": []}),
    "tools/call": (
        lambda client: client.call_tool("t", {"a": 1}),
        {"name": "t", "arguments": {"a": 1}},
        text(""),
    ),
    "resources/list": (lambda client: client.list_resources(cursor=""), {"cursor": ""}, {"resources": []}),
    "resources/templates/list": (
        lambda client: client.list_resource_templates(),
        {},
        {"resourceTemplates": []},
    ),
    "resources/read": (lambda client: client.read_resource("a:b"), {"uri": "a:b"}, {"contents": []}),
    "prompts/list": (lambda client: client.list_prompts(), {}, {"prompts": []}),
    "prompts/get": (
        lambda client: client.get_prompt("p", {"a": "b"}),
        {"name": "p", "arguments": {"a": "b"}},
        {"messages": []},
    ),
    "completion/complete": (
        lambda client: client.complete(PromptReference(name="p"), ("a", "b")),
        {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "b"}},
        {"completion": {"values": []}},
    ),
    "custom/method": (lambda client: client.request("custom/method", {"x": None}), {"x": None}, {}),
}
"""By method: the call, its parameters on the wire apart from `_meta`, and a result."""


@asynccontextmanager
async def session(
    era: str = "modern",
    options: ClientOptions | None = None,
    *,
    version: str = LEGACY,
    seconds: float = 30,
    **more: Any,
) -> AsyncIterator[tuple[Client, Peer]]:
    """A client and its peer, past the handshake; at the end the client is stopped, the peer reads it all."""
    transport, peer = pair()
    with trio.fail_after(seconds):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: peer.shake_hands(era, version, **more))
            client = await nursery.start(run_client, transport, options or ClientOptions())
            await trio.testing.wait_all_tasks_blocked()
            yield client, peer
            client.stop()
            nursery.start_soon(peer.rest)


def _id_of(request: Message | int | str | None) -> int | str | None:
    return request["id"] if isinstance(request, dict) else request
