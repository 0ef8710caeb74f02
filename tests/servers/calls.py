"""A server whose tools do odd things; it exits at EOF.

pid     answers with the process id
fds     answers with the open descriptors as "number target", one a line
hang    is never answered
last    is answered; 100 ms later the server exits 0
"""

from __future__ import annotations

import os
import time

import wire


def descriptors() -> str:
    lines = []
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            lines.append(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:
            continue  # the descriptor of the listing itself
    return "\n".join(lines)


for request in wire.requests():
    tool = wire.tool(request)
    if tool == "pid":
        wire.reply(request, wire.text(str(os.getpid())))
    elif tool == "fds":
        wire.reply(request, wire.text(descriptors()))
    elif tool == "last":
        wire.answer(request)
        time.sleep(0.1)
        os._exit(0)
    elif tool != "hang":
        wire.answer(request)
