"""Servers that tell what they were started with, or are special from the start to the end.

The first argument is a file to which every start appends a line, "-" for none.  The second: plain |
slow SECONDS (sleeps before the first read) | hoard (writes its replies only after EOF) |
afterwards (also writes after EOF) | interrupts FILE (notes every SIGINT in the file, then at EOF "eof")

Tools: environ, cwd, fds, arguments; any other is an echo.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import wire


def report(request: wire.Message) -> None:
    kind = wire.tool(request)
    if kind == "environ":
        found: object = dict(os.environ)
    elif kind == "cwd":
        try:
            found = os.getcwd()
        except OSError as exc:
            found = repr(exc)
    elif kind == "fds":
        # The descriptor that lists the directory is in the list, but no longer open.
        found = [fd for fd in sorted(map(int, os.listdir("/proc/self/fd"))) if is_open(fd)]
    elif kind == "arguments":
        found = sys.argv
    else:
        wire.answer(request)
        return
    wire.reply(request, wire.text(json.dumps(found)))


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def hoard() -> None:
    answers = b""
    write = wire.write

    def keep(data: bytes, fd: int = 1) -> None:
        nonlocal answers
        answers += data

    wire.write = keep
    wire.serve()
    write(answers)


starts, mode, *rest = sys.argv[1:]
if starts != "-":
    with open(starts, "a") as file:
        file.write(f"{os.getpid()}\n")
if mode == "slow":
    time.sleep(float(rest[0]))
if mode == "interrupts":
    signal.signal(signal.SIGINT, lambda *_: wire.write(b"interrupted\n", log))
    log = os.open(rest[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
if mode == "hoard":
    hoard()
else:
    for request in wire.requests():
        if wire.tool(request) != "hold":
            report(request)
if mode == "afterwards":
    wire.log("one thing more")
    wire.write(b"good bye\n" + wire.line(wire.response(1, {})) + b'{"cut off')
if mode == "interrupts":
    wire.write(b"eof\n", log)
