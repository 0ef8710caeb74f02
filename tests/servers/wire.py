"""Raw bytes of the protocol for the fake servers in this folder.

Standard library only, unbuffered, synchronous: everything is `os.read` and `os.write` on descriptors 0 and 1,
so that a script decides about every byte and every pause.  A script is started by its path and finds this
module beside it::

    import wire

    for request in wire.requests():  # answers the handshake of the era, yields the rest, ends at EOF
        wire.reply(request, wire.text("hello"))

The era is taken from the environment variable FAKE_ERA, "modern" (default) or "legacy".  In the legacy era
`server/discover` gets -32601 and `initialize` is answered.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

ERA = os.environ.get("FAKE_ERA", "modern")
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
INFO = {"name": "fake", "version": "1.0"}
CAPABILITIES: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}

Message = dict[str, Any]

_pending = bytearray()


# Output


def write(data: bytes, fd: int = 1) -> None:
    """Write all of `data` to a descriptor (stdout by default), however many system calls that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def dribble(data: bytes, size: int = 1, pause: float = 0.0) -> None:
    """Write `data` in pieces of `size` bytes with a pause after each."""
    for start in range(0, len(data), size):
        write(data[start : start + size])
        if pause:
            time.sleep(pause)


def err(text: str) -> None:
    """Write text to stderr, unbuffered."""
    write(text.encode(), 2)


def line(message: object, end: bytes = b"\n") -> bytes:
    """One message as the bytes of one line."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + end


def send(message: object) -> None:
    write(line(message))


def response(request: Message | int | str, result: Message) -> Message:
    """The response message for a request (or a bare id); the modern era gets its `resultType`."""
    if ERA == "modern":
        result = {"resultType": "complete", **result}
    return {"jsonrpc": "2.0", "id": _id_of(request), "result": result}


def failure(request: Message | int | str | None, code: int, message: str, data: object = None) -> Message:
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": _id_of(request), "error": error}


def reply(request: Message | int | str, result: Message) -> None:
    send(response(request, result))


def fail(request: Message | int | str | None, code: int, message: str, data: object = None) -> None:
    send(failure(request, code, message, data))


def notify(method: str, params: object = None) -> None:
    send({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))


def log(data: object, level: str = "info") -> None:
    notify("notifications/message", {"level": level, "data": data})


def progress(request: Message, value: float, total: float | None = None) -> bool:
    """Send progress if the request carries a token; say whether it did."""
    token = request.get("params", {}).get("_meta", {}).get("progressToken")
    if token is not None:
        params = {"progressToken": token, "progress": value}
        notify("notifications/progress", params | ({} if total is None else {"total": total}))
    return token is not None


def text(value: str, **more: Any) -> Message:
    """The result of a tool call with one text block."""
    return {"content": [{"type": "text", "text": value}], **more}


def tools(*names: str) -> Message:
    """The result of tools/list."""
    found = [{"name": name, "inputSchema": {"type": "object"}} for name in names or ("echo",)]
    return {"tools": found} | _hints()


# Input


def read_line() -> bytes | None:
    """The next line without its newline; None at the end of stdin."""
    while (end := _pending.find(b"\n")) < 0:
        chunk = os.read(0, 65536)
        if not chunk:
            return None
        _pending.extend(chunk)
    found = bytes(_pending[:end])
    del _pending[: end + 1]
    return found


def read_message() -> Message | None:
    """The next message; None at the end of stdin."""
    found = read_line()
    return None if found is None else json.loads(found)


def wait_for_eof() -> None:
    """Read stdin to its end and forget what comes."""
    while os.read(0, 65536):
        pass


def sleep_for_ever() -> None:
    while True:
        time.sleep(3600)


# Handshake and the usual loop


def discovered() -> Message:
    return {
        "supportedVersions": [MODERN],
        "capabilities": CAPABILITIES,
        "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
    } | _hints()


def initialized(version: str = LEGACY) -> Message:
    return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": INFO}


def handshake(message: Message) -> bool:
    """Answer `message` if it belongs to the handshake of this era, and say whether it did."""
    method = message.get("method")
    if method == "server/discover":
        if ERA == "modern":
            reply(message, discovered())
        else:
            fail(message, -32601, "Method not found")
    elif method == "initialize" and ERA == "legacy":
        asked = message["params"]["protocolVersion"]
        reply(message, initialized(asked if isinstance(asked, str) else LEGACY))
    elif method == "initialize":
        fail(message, -32022, "Unsupported", {"supported": [MODERN], "requested": "initialize"})
    elif method != "notifications/initialized":
        return False
    return True


def messages() -> Iterator[Message]:
    """Every request and notification up to EOF; those of the handshake are answered, not yielded."""
    while (message := read_message()) is not None:
        if not handshake(message):
            yield message


def requests() -> Iterator[Message]:
    """As `messages`, requests only."""
    return (message for message in messages() if "id" in message)


def tool(request: Message) -> str:
    """The name of the tool a request calls, or the method for other requests."""
    return str(request["params"]["name"] if request["method"] == "tools/call" else request["method"])


def arguments(request: Message) -> Message:
    return request.get("params", {}).get("arguments") or {}


def answer(request: Message) -> None:
    """A plain answer: one tool in tools/list, `{}` to ping, "ok" or the argument `text` to tools/call."""
    if request["method"] == "tools/list":
        reply(request, tools())
    elif request["method"] == "tools/call":
        reply(request, text(str(arguments(request).get("text", "ok"))))
    elif request["method"] == "ping" and ERA == "legacy":
        reply(request, {})
    else:
        fail(request, -32601, "Method not found")


def serve() -> None:
    """Answer plainly up to EOF."""
    for request in requests():
        answer(request)


def _hints() -> Message:
    return {"ttlMs": 0, "cacheScope": "private"} if ERA == "modern" else {}


def _id_of(request: Message | int | str | None) -> int | str | None:
    return request["id"] if isinstance(request, dict) else request
