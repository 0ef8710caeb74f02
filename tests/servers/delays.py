"""Takes its time.  Calls state in their arguments how long: `seconds`, and `every` for progress.

Argument: silent (reads one line, then nothing) | silent-calls (no answer to a call, nor to EOF) | parallel |
serial
"""

from __future__ import annotations

import sys
import threading
import time

import wire


def answer(request: wire.Message) -> None:
    arguments = wire.arguments(request)
    seconds, every = arguments.get("seconds", 0.0), arguments.get("every")
    if every is None:
        time.sleep(seconds)
    else:
        for step in range(round(seconds / every)):
            time.sleep(every)
            wire.progress(request, step + 1)
    wire.answer(request)


mode = sys.argv[1]
if mode == "silent":
    wire.read_line()
    wire.sleep_for_ever()
for request in wire.requests():
    if mode == "silent-calls":
        wire.sleep_for_ever()
    elif mode == "parallel":
        threading.Thread(target=answer, args=(request,), daemon=True).start()
    else:
        answer(request)
