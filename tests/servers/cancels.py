"""Servers that watch what a client cancels.

Argument: journal FILE (writes every line it reads to the file, answers only the tool `echo`) |
counter (counts calls, holds three, answers the two that are not cancelled) |
confirm (answers a cancelled call with an error)
"""

from __future__ import annotations

import json
import os
import sys

import wire


def journal(path: str) -> None:
    with open(path, "ab", buffering=0) as file:
        while (line := wire.read_line()) is not None:
            file.write(line + b"\n")
            message = json.loads(line)
            if not wire.handshake(message) and "id" in message and wire.tool(message) == "echo":
                wire.answer(message)


def counter() -> None:
    count = 0
    held: dict[int, int] = {}
    for message in wire.messages():
        if message["method"] == "tools/call":
            count += 1
            if wire.tool(message) == "hold":
                held[message["id"]] = count
            else:
                wire.reply(message, wire.text(f"{count} of {os.getpid()}"))
        elif message["method"] == "notifications/cancelled":
            held.pop(message["params"]["requestId"])
            for number, found in held.items():
                wire.reply(number, wire.text(f"{found} of {os.getpid()}"))
            held.clear()


def confirm() -> None:
    for message in wire.messages():
        if message["method"] == "notifications/cancelled":
            wire.fail(message["params"]["requestId"], 0, "Request cancelled")
        elif wire.tool(message) == "echo":
            wire.answer(message)


mode = sys.argv[1]
if mode == "journal":
    journal(sys.argv[2])
elif mode == "counter":
    counter()
else:
    confirm()
