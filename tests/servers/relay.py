"""A launcher that relays its stdin to a worker in another session, as container command lines do.

Only the relay of EOF ends the worker; the death of the launcher does not, since the worker's end of file is a
byte of its own (EOT).  MARKER gets `eof` when the worker has ended so, `signal` if SIGTERM came first;
MARKER.pid holds the worker's process id.  MODE is `serve` (only the tool `hang` and `ping` get no answer) or
`mute` (nothing does).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import wire

MODE, MARKER = sys.argv[1:3]
EOT = b"\x04\n"


def mark(path: str, word: str) -> None:
    with open(path + ".new", "w") as file:
        file.write(word)
    os.rename(path + ".new", path)


def work() -> None:
    while (line := wire.read_line()) != EOT[:-1]:
        if line is None:
            wire.sleep_for_ever()  # the launcher died without a word
        elif MODE != "mute":
            message = json.loads(line)
            if not wire.handshake(message) and "id" in message and wire.tool(message) not in ("hang", "ping"):
                wire.answer(message)


def launch() -> None:
    def on_sigterm(*_: object) -> None:
        mark(MARKER, "signal")
        os._exit(1)

    signal.signal(signal.SIGTERM, on_sigterm)
    worker = subprocess.Popen(
        [sys.executable, *sys.argv, "work"], stdin=subprocess.PIPE, start_new_session=True, bufsize=0
    )
    assert worker.stdin is not None
    mark(MARKER + ".pid", str(worker.pid))
    while chunk := os.read(0, 65536):
        wire.write(chunk, worker.stdin.fileno())
    time.sleep(0.2)  # a signal sent without a grace period arrives here
    wire.write(EOT, worker.stdin.fileno())
    worker.wait()
    mark(MARKER, "eof")


work() if sys.argv[3:] == ["work"] else launch()
