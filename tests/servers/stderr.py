"""Serves plainly, with much on stderr.  MODE is one of

flood       200 KB before the first answer, 1 MB more in each call of the tool `flood` or for a notification
            `notifications/flood`
probe       70,000 bytes and an error -32602 for server/discover (use it in the legacy era)
lines       100 lines at the start
endless     50 MB without a newline from a thread, begun by the tool `flood`, while calls go on
hint        the line `Resolving dependencies` at the start

The tool `exit` ends the process with status 5.
"""

from __future__ import annotations

import os
import sys
import threading

import wire

MODE = sys.argv[1]


def flood_once() -> None:
    wire.err(("c" * 99 + "\n") * 10_000)
    wire.err("call end\n")


def flood_endlessly() -> None:
    block = b"x" * 2**20
    for _ in range(50):
        wire.write(block, 2)


if MODE == "flood":
    wire.err(("e" * 99 + "\n") * 2000)
elif MODE == "lines":
    for number in range(100):
        wire.err(f"line {number}\n")
elif MODE == "hint":
    wire.err("Resolving dependencies\n")

flood = threading.Thread(target=flood_endlessly)

while (message := wire.read_message()) is not None:
    if MODE == "probe" and message["method"] == "server/discover":
        wire.err("p" * 69_990 + "probe end\n")
        wire.fail(message, -32602, "Invalid params")
    elif message["method"] == "notifications/flood":
        flood_once()
    elif wire.handshake(message) or "id" not in message:
        continue
    elif wire.tool(message) == "flood":
        if MODE == "endless":
            flood.start()
        else:
            flood_once()
        wire.answer(message)
    elif wire.tool(message) == "exit":
        os._exit(5)
    else:
        wire.answer(message)
