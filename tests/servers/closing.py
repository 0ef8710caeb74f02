"""Serves plainly; the first argument says what it does at EOF and on SIGTERM.

Tool `pid` answers with the process id.  MODE is one of

idle        ignore EOF and sleep; SIGTERM ends it as usual
stubborn    ignore EOF and SIGTERM
spin        ignore SIGTERM and use the processor for ever at EOF
slow        at EOF wait DELAY seconds, write `clean` to MARKER and exit 0; on SIGTERM write `dirty` and exit 1
talkative   at EOF write 1 MB of notifications to stdout and 1 MB to stderr, then as `slow`
"""

from __future__ import annotations

import os
import signal
import sys
import time

import wire

MODE = sys.argv[1]


def leave(word: str, status: int) -> None:
    marker = sys.argv[2]
    with open(marker + ".new", "w") as file:
        file.write(word)
    os.rename(marker + ".new", marker)
    os._exit(status)


if MODE in ("stubborn", "spin"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
elif MODE in ("slow", "talkative"):
    signal.signal(signal.SIGTERM, lambda *_: leave("dirty", 1))

for request in wire.requests():
    if wire.tool(request) == "pid":
        wire.reply(request, wire.text(str(os.getpid())))
    else:
        wire.answer(request)

if MODE == "spin":
    while True:
        pass
elif MODE in ("slow", "talkative"):
    if MODE == "talkative":
        for _ in range(1000):
            wire.log("x" * 1000)
            wire.err("y" * 1000 + "\n")
    time.sleep(float(sys.argv[3]))
    leave("clean", 0)
else:
    wire.sleep_for_ever()
