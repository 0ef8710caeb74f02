"""Servers that end, or half end.

Argument: on-call STATUS | killed-on-call | at-once STATUS | killed-at-once | close-stdout | close-stdin |
after-three
"""

from __future__ import annotations

import os
import signal
import sys
import time

import wire


def end(status: int) -> None:
    os._exit(status)


mode = sys.argv[1]
if mode == "at-once":
    status = int(sys.argv[2])
    if status:
        wire.err("usage: bad flag --x\n")
    end(status)
if mode == "killed-at-once":
    wire.err("out of memory\n")
    os.kill(os.getpid(), signal.SIGKILL)

held: list[wire.Message] = []
for request in wire.requests():
    if mode in ("on-call", "killed-on-call"):
        if wire.tool(request) == "hold":
            continue
        wire.err("Traceback: the tool broke\n")
        if mode == "killed-on-call":
            os.kill(os.getpid(), signal.SIGKILL)
        end(int(sys.argv[2]))
    elif mode == "close-stdout":
        os.close(1)
        time.sleep(60)
        end(3)
    elif mode == "close-stdin":
        os.close(0)
        wire.answer(request)
        while True:
            wire.log("still here")
            time.sleep(0.02)
    elif mode == "after-three":
        held.append(request)
        if len(held) == 3:
            answers = [wire.response(one, wire.text(wire.arguments(one)["text"])) for one in held]
            wire.write(b"".join(map(wire.line, answers)))
            end(0)
