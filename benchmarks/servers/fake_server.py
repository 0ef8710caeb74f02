"""The server of fake_server.c, for machines without a C compiler: same arguments, same answers."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

READ_SIZE = 65_536


def results(modern: bool, text_bytes: int) -> dict[str, Any]:
    """The result of each method that the server has."""
    text = "".join("x" if count % 80 else "\n" for count in range(1, text_bytes + 1))
    tool = {"name": "text", "description": "Gives a text.", "inputSchema": {"type": "object"}}
    called, listed = {"content": [{"type": "text", "text": text}]}, {"tools": [tool]}
    capabilities: dict[str, Any] = {"tools": {}}
    if not modern:
        server = {"name": "fake", "version": "1"}
        initialized = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server}
        return {"tools/call": called, "tools/list": listed, "initialize": initialized, "ping": {}}
    complete, cacheable = {"resultType": "complete"}, {"ttlMs": 0, "cacheScope": "public"}
    discovered = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
    return {
        "tools/call": complete | called,
        "tools/list": complete | cacheable | listed,
        "server/discover": complete | discovered | cacheable,
    }


def main() -> None:
    era, text_bytes, *counters = sys.argv[1:]
    bodies = {
        method: b',"result":' + json.dumps(result, separators=(",", ":")).encode()
        for method, result in results(era == "modern", int(text_bytes)).items()
    }
    unknown = b',"error":{"code":-32601,"message":"Method not found"}'
    reads = requests = received = 0
    rest = b""
    while chunk := os.read(0, READ_SIZE):
        reads += 1
        received += len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        out = []
        for line in lines:
            message = json.loads(line)
            if "id" in message and "method" in message:
                requests += 1
                body = bodies.get(message["method"], unknown)
                out.append(b'{"jsonrpc":"2.0","id":%b%b}\n' % (json.dumps(message["id"]).encode(), body))
        view = memoryview(b"".join(out))
        while view:
            view = view[os.write(1, view) :]
    if counters:
        with open(counters[0], "w") as file:
            json.dump({"reads": reads, "requests": requests, "bytes": received}, file)


if __name__ == "__main__":
    main()
