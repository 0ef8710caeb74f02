"""A server with long, split, cut-off and endless lines.  Tools:

size        answers with BYTES bytes of text; in pieces of PIECE bytes if that is given
together    is answered only when three such calls are there, by one write with three lines
pieces      is answered in five writes, 50 ms apart
bytewise    is answered byte by byte
burst       one write: the answer, a newline, then BYTES bytes without newline that name no call
cut         is answered with half a message; then exit 1
tail        is answered without newline; then exit 0
endless     blocks of 1 MB of `A` for ever, no newline
wait        is never answered

With the argument `endless` the blocks come before the handshake.
"""

from __future__ import annotations

import os
import sys

import wire


def endless() -> None:
    wire.err("endless from here\n")
    while True:
        wire.write(b"A" * 2**20)


if sys.argv[1:] == ["endless"]:
    endless()

together: list[wire.Message] = []
for request in wire.requests():
    tool, arguments = wire.tool(request), wire.arguments(request)
    data = wire.line(wire.response(request, wire.text("t" * arguments.get("bytes", 0))))
    if tool == "size":
        wire.dribble(data, arguments.get("piece", len(data)))
    elif tool == "together":
        together.append(request)
        if len(together) == 3:
            answers = [wire.response(one, wire.text(wire.arguments(one)["text"])) for one in together]
            wire.write(b"".join(map(wire.line, answers)))
            together.clear()
    elif tool == "pieces":
        wire.dribble(data, len(data) // 5 + 1, 0.05)
    elif tool == "bytewise":
        wire.dribble(data)
    elif tool == "burst":
        wire.err("bursting\n")
        answer = wire.line(wire.response(request, wire.text("delivered")))
        wire.write(answer + b"B" * arguments["bytes"])
    elif tool == "cut":
        wire.write(data[: len(data) // 2])
        os._exit(1)
    elif tool == "tail":
        wire.write(data[:-1])
        os._exit(0)
    elif tool == "endless":
        endless()
    elif tool != "wait":
        wire.answer(request)
