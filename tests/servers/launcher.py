"""Processes that are not what they seem: MODE is one of

handover    forks and exits 0 at once; the child serves and ignores EOF
mute        forks and exits 0 at once; the child holds the pipes and says nothing
helper      starts a helper that holds stdout and says nothing; tool `crash` exits with status 3
leftover    starts such a helper; exits 0 at EOF while the helper stays

Tool `pid` answers with the serving process's id, tool `helper` with the helper's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import wire

MODE = sys.argv[1]
helper = 0

if MODE in ("handover", "mute"):
    launcher = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == launcher:
        time.sleep(0.001)
    if MODE == "mute":
        wire.sleep_for_ever()
else:
    command = [sys.executable, "-c", "import time; time.sleep(3600)"]
    helper = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid

for request in wire.requests():
    if wire.tool(request) == "crash":
        os._exit(3)
    elif wire.tool(request) == "pid":
        wire.reply(request, wire.text(str(os.getpid())))
    elif wire.tool(request) == "helper":
        wire.reply(request, wire.text(str(helper)))
    else:
        wire.answer(request)

if MODE == "handover":
    wire.sleep_for_ever()
os._exit(0)
