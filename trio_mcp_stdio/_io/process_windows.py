"""Windows: TerminateProcess instead of signals.  Not run by this project's own tests, which have no Windows.

There are no groups to signal here; ending a whole tree needs a job object, which this module does not
set up.  `terminate` ends the process at once, so the ladder's second step is also its last.
"""

from __future__ import annotations

import subprocess
from typing import Any

import trio

__all__ = [
    "group_exists",
    "group_members",
    "kill",
    "kill_group",
    "popen_options",
    "terminate",
    "terminate_group",
]


def popen_options() -> dict[str, Any]:
    """Options for `open_process`: no console window, and no Ctrl-C of this console."""
    flags = getattr(subprocess, "CREATE_NO_WINDOW", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    return {"creationflags": flags}


def terminate(process: trio.Process) -> None:
    """TerminateProcess."""
    process.terminate()


def kill(process: trio.Process) -> None:
    """TerminateProcess."""
    process.kill()


def terminate_group(group: int) -> None:
    """Nothing: see the module's text."""


def kill_group(group: int) -> None:
    """Nothing: see the module's text."""


def group_exists(group: int) -> bool:
    """False: there is no group."""
    return False


def group_members(group: int) -> tuple[int, ...]:
    """Empty."""
    return ()
