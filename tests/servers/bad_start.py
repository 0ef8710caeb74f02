"""Answers the first request wrongly and stays alive until EOF.

MODE is `line` (the line is `{"foo":1}`) or `result` (the result is `{"foo":1}`).
"""

from __future__ import annotations

import sys

import wire

wire.err("about to answer wrongly\n")
request = wire.read_message()
if request is not None:
    wire.send({"foo": 1} if sys.argv[1] == "line" else wire.response(request, {"foo": 1}))
wire.wait_for_eof()
