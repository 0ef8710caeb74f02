"""Servers that send more than answers.

Argument: pings | refuses-ping | last-progress | stray-progress | backwards NUMBER
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time

import wire

IDS: list[object] = ["p-1", 0, 1, 2, "2", "", 2**53 + 1, "p-\N{SNOWMAN}", -7]


def pings(wanted: int = 12, limit: float = 10.0) -> None:
    """During a call ping every 100 ms, wait `limit` seconds for each answer; then answer the call."""
    incoming: queue.SimpleQueue[wire.Message | None] = queue.SimpleQueue()
    threading.Thread(target=read_into, args=(incoming,), daemon=True).start()
    call: wire.Message | None = None
    sent = answered = 0
    waiting: dict[str, float] = {}
    next_ping = 0.0
    while True:
        now = time.monotonic()
        if call is not None and sent < wanted and now >= next_ping:
            number = IDS[sent % len(IDS)]
            sent += 1
            wire.send({"jsonrpc": "2.0", "id": number, "method": "ping"})
            wire.progress(call, sent)
            waiting[repr(number)] = now + limit
            next_ping = now + 0.1
        if waiting and now > min(waiting.values()):
            wire.err(f"no answer to one of {list(waiting)}\n")
            os._exit(9)
        if call is not None and answered == wanted:
            wire.answer(call)
            call, sent, answered = None, 0, 0
        try:
            message = incoming.get(timeout=0.02)
        except queue.Empty:
            continue
        if message is None:
            return
        if "method" in message:
            call = message if "id" in message else call
        elif message != {"jsonrpc": "2.0", "id": message.get("id"), "result": {}}:
            wire.err(f"not an empty result: {message}\n")
            os._exit(8)
        else:
            del waiting[repr(message["id"])]
            answered += 1


def read_into(incoming: queue.SimpleQueue[wire.Message | None]) -> None:
    for message in wire.messages():
        incoming.put(message)
    incoming.put(None)


def refuses_ping() -> None:
    codes = [-32601, -32600]
    for request in wire.requests():
        if request["method"] == "ping" and codes:
            wire.fail(request, codes.pop(0), "no ping here")
        else:
            wire.answer(request)


def last_progress() -> None:
    """One write: progress, the reply, progress once more."""
    for request in wire.requests():
        token = request["params"].get("_meta", {}).get("progressToken")
        lines = [wire.response(request, wire.text("ok"))]
        if token is not None:
            first, last = (
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": n},
                }
                for n in (1, 2)
            )
            lines = [first, *lines, last]
        wire.write(b"".join(map(wire.line, lines)))


def stray_progress() -> None:
    for request in wire.requests():
        for token in ("tool-call-4", None, 3.5):
            wire.notify("notifications/progress", {"progressToken": token, "progress": 1})
        wire.notify("notifications/progress", {"progress": 1})
        wire.progress(request, 1)
        wire.answer(request)


def backwards(number: int) -> None:
    """Holds calls until `number` of them are there, takes half a second, answers the last first."""
    held: list[wire.Message] = []
    for request in wire.requests():
        held.append(request)
        if len(held) == number:
            time.sleep(0.5)
            while held:
                wire.answer(held.pop())


mode = sys.argv[1]
if mode == "pings":
    pings()
elif mode == "refuses-ping":
    refuses_ping()
elif mode == "last-progress":
    last_progress()
elif mode == "stray-progress":
    stray_progress()
else:
    backwards(int(sys.argv[2]))
