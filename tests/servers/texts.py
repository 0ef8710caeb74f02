"""Replies whose text is unusual: line separators, single bytes, bad UTF-8, half a surrogate pair.

Argument: separators | dribble | bad-utf8 | bad-utf8-handshake | surrogate | raw
"""

from __future__ import annotations

import json
import sys
import time

import wire

SEPARATED = "one\u2028two\u2029three\u0085four"
EMOJI = "\N{GRINNING FACE}"


def with_bad_byte(message: wire.Message) -> bytes:
    """The line of a message, each `@` in it replaced by the byte 97, which is no UTF-8 there."""
    return wire.line(message).replace(b"@", b"\x97")


def handshake(message: wire.Message) -> None:
    """Answer the handshake with a bad byte in its instructions."""
    if message["method"] == "server/discover" and wire.ERA == "modern":
        result = wire.discovered()
    elif message["method"] == "initialize":
        result = wire.initialized()
    else:
        wire.handshake(message)
        return
    wire.write(with_bad_byte(wire.response(message, result | {"instructions": "a@b"})))


def main(mode: str) -> None:
    if mode == "bad-utf8-handshake":
        while (message := wire.read_message()) is not None and message[
            "method"
        ] != "notifications/initialized":
            handshake(message)
            if wire.ERA == "modern":
                break
        mode = "plain"
    while (line := wire.read_line()) is not None:
        message = json.loads(line)
        if wire.handshake(message) or "id" not in message:
            continue
        if mode == "separators":
            wire.reply(message, wire.text(SEPARATED))
        elif mode == "dribble":
            for byte in wire.line(wire.response(message, wire.text(EMOJI))):
                wire.write(bytes([byte]))
                time.sleep(0.02)
        elif mode == "bad-utf8":
            wire.write(with_bad_byte(wire.response(message, wire.text("a@b"))))
        elif mode == "surrogate" and wire.tool(message) == "half":
            # A notification, a line that is noise and an answer, each with the six characters of the escape.
            wire.write(
                wire.line(
                    {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "@"}}
                ).replace(b"@", b"\\ud83d")
            )
            wire.write(b'["\\ud83d"] noise \\ud83d\n')
            wire.write(wire.line(wire.response(message, wire.text("@"))).replace(b"@", b"\\ud83d"))
        elif mode == "surrogate" and wire.tool(message) == "half-error":
            wire.write(wire.line(wire.failure(message, -32000, "@")).replace(b"@", b"\\ud83d"))
        elif mode == "raw":
            wire.reply(message, wire.text(line.hex()))
        else:
            wire.answer(message)


main(sys.argv[1])
