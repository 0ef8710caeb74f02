"""Servers that log.

Argument: flood CALLS MESSAGES
"""

from __future__ import annotations

import sys

import wire


def flood(calls: int, number: int) -> None:
    """Hold so many calls, log 1 KB as fast as it goes, and answer one call after each equal share of it."""
    held: list[wire.Message] = []
    for request in wire.requests():
        held.append(request)
        if len(held) < calls:
            continue
        share = number // calls
        for start in range(0, number, share):
            wire.write(b"".join(map(message, range(start, start + share))))
            wire.answer(held.pop())


def message(number: int) -> bytes:
    params = {"level": "info", "logger": "flood", "data": f"{number:07d} " + "x" * 1000}
    return wire.line({"jsonrpc": "2.0", "method": "notifications/message", "params": params})


flood(int(sys.argv[2]), int(sys.argv[3]))
