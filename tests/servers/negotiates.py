"""Servers with views of their own about the handshake.

The first argument is a file to which every start and every method appends a line.  The second:

initialize-or-die            ends with status 1 when the first line is not initialize
always-dies                  ends with status 1 whatever the first line is
ignores-probe                never answers server/discover
probe-error JSON             answers the probe with the JSON as its error
null-id-error                answers the probe with an error whose id is null
rejects-version JSON [once]  answers the probe with -32022 and the JSON as `supported`, the first one only
initialize-says JSON         the JSON is merged into the answer to initialize; a null takes the member out
executes                     answers the probe with -32601, and any call at once, whatever came before
silent                       answers nothing
"""

from __future__ import annotations

import json
import sys
from typing import Any

import wire

journal, mode, *rest = sys.argv[1:]
given: Any = json.loads(rest[0]) if rest else None


def note(word: str) -> None:
    with open(journal, "a") as file:
        file.write(word + "\n")


def probe(message: wire.Message, number: int) -> None:
    if mode in ("ignores-probe", "silent"):
        pass
    elif mode == "probe-error":
        wire.send({"jsonrpc": "2.0", "id": message["id"], "error": given})
    elif mode == "null-id-error":
        wire.fail(None, -32600, "Missing ID field")
    elif mode == "rejects-version":
        if number == 1 or "once" not in rest:
            asked = message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"]
            wire.fail(
                message, -32022, "Unsupported protocol version", {"supported": given, "requested": asked}
            )
        else:
            wire.reply(message, wire.discovered())
    else:
        wire.fail(message, -32601, "Method not found")


def initialize(message: wire.Message) -> None:
    if mode == "silent":
        return
    asked = message["params"]["protocolVersion"]
    result = wire.initialized(asked)
    if mode == "initialize-says":
        result = {key: value for key, value in (result | given).items() if value is not None}
    wire.send({"jsonrpc": "2.0", "id": message["id"], "result": result})


note("start")
methods: list[str] = []
while (message := wire.read_message()) is not None:
    methods.append(message["method"])
    note(methods[-1])
    if mode == "always-dies" or (mode == "initialize-or-die" and methods[0] != "initialize"):
        wire.err("expected initialize\n")
        sys.exit(1)
    if methods[-1] == "server/discover":
        probe(message, methods.count("server/discover"))
    elif methods[-1] == "initialize":
        initialize(message)
    elif "id" in message:
        wire.answer(message)
note("eof")
