"""Serves plainly, with other bytes on stdout.  MODE is one of

banner      `Demo Server v1.0 started` first, then a text line after every message
colour      a line with terminal escapes after every message
bom         stdout starts with a byte order mark; tool `first` gives the first bytes of stdin in hexadecimal
crlf        every message ends with CR LF CR LF; exits with status 7 if it reads any CR
json        a JSON object that is no message after the answer to tools/list
values      `[db] Connected to store`, `null`, `42` and `"ready"` before the first answer
header      answers tools/call with a Content-Length header and a body without newline
header-now  the same for the first request
build       400 lines of a build log on a call, then exit 0 without an answer
"""

from __future__ import annotations

import json
import os
import sys

import wire

MODE = sys.argv[1]
first = b""


def say(data: bytes) -> None:
    """What follows every message in this mode."""
    if MODE == "banner":
        data += b"processing request\n"
    elif MODE == "colour":
        data += b"\x1b[33m[2026] info\x1b[0m\n"
    wire.write(data)


def send(message: object) -> None:
    say(wire.line(message, b"\r\n\r\n" if MODE == "crlf" else b"\n"))


def header(message: wire.Message) -> None:
    body = wire.line(message, b"")
    wire.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)


def serve(request: wire.Message) -> None:
    tool = wire.tool(request)
    if MODE == "header" and tool != "tools/list":
        header(wire.response(request, wire.text("ok")))
    elif MODE == "build" and tool != "tools/list":
        for number in range(400):
            wire.write(b"[%d/400] Compiling module\n" % number)
        os._exit(0)
    elif tool == "first":
        wire.reply(request, wire.text(first[:3].hex()))
    else:
        wire.answer(request)
        if MODE == "json" and tool == "tools/list":
            wire.write(b'{"status":200,"message":"Success","results":[],"duration":1189}\n')


wire.send = send
if MODE == "banner":
    wire.write(b"Demo Server v1.0 started\n")
elif MODE == "bom":
    wire.write(b"\xef\xbb\xbf")
elif MODE == "values":
    wire.write(b'[db] Connected to store\nnull\n42\n"ready"\n')

while (line := wire.read_line()) is not None:
    first = first or line
    if MODE == "crlf" and b"\r" in line:
        os._exit(7)
    message = json.loads(line)
    if MODE == "header-now":
        wire.err("speaking with headers\n")
        header(wire.response(message, wire.discovered()))
    elif not wire.handshake(message) and "id" in message:
        serve(message)
