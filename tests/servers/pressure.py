"""A server that makes pipes full.  MODE is one of

slow PAUSE  reads stdin in pieces of 4,096 bytes with a pause after each, and sends a log notification of 8 KB
            after every eight of them; answers with the length of the argument `text`
duplex      a call of `big` is answered with 2 MB, and no stdin is read until that is written; other calls are
            answered with the length of the argument `text`
chatty N    sends N notifications before each answer to a call
"""

from __future__ import annotations

import json
import os
import sys
import time

import wire

MODE = sys.argv[1]


def answer_with_length(request: wire.Message) -> None:
    wire.reply(request, wire.text(str(len(wire.arguments(request).get("text", "")))))


def serve_slowly(pause: float) -> None:
    pending, pieces = bytearray(), 0
    while piece := os.read(0, 4096):
        pieces += 1
        if pieces % 8 == 0:
            wire.log({"pieces": pieces, "padding": "p" * 8192})
        pending += piece
        *lines, rest = pending.split(b"\n")
        pending = bytearray(rest)
        for line in lines:
            message = json.loads(line)
            if not wire.handshake(message) and "id" in message:
                answer_with_length(message)
        time.sleep(pause)


if MODE == "slow":
    serve_slowly(float(sys.argv[2]))
else:
    for request in wire.requests():
        if MODE == "duplex" and wire.tool(request) == "big":
            wire.reply(request, wire.text("b" * 2_000_000))
        elif MODE == "duplex":
            answer_with_length(request)
        else:
            for number in range(int(sys.argv[2])):
                wire.log({"number": number})
            wire.answer(request)
