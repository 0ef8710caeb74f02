"""POSIX: sessions, groups and signals.

A server is started as the leader of a session of its own, so its pid is the number of its group and a
terminal's Ctrl-C does not reach it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any

import trio

assert sys.platform != "win32"

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
    """Options for `open_process`."""
    return {"start_new_session": True}


def terminate(process: trio.Process) -> None:
    """SIGTERM to the group of a process that has not been reaped."""
    terminate_group(process.pid)


def kill(process: trio.Process) -> None:
    """SIGKILL likewise."""
    kill_group(process.pid)


def terminate_group(group: int) -> None:
    """SIGTERM to all members of a group."""
    _signal_group(group, signal.SIGTERM)


def kill_group(group: int) -> None:
    """SIGKILL likewise."""
    _signal_group(group, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> None:
    # It may be gone, or belong to a foreign user; the bounded wait that follows finds out.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def group_exists(group: int) -> bool:
    """Whether a group has a member that is alive."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    if sys.platform == "linux":
        # A member that is dead but not reaped by its parent cannot be ended any further.
        return bool(group_members(group)) or not os.path.isdir("/proc/self")
    return True


def group_members(group: int) -> tuple[int, ...]:
    """Pids of the living members, where the system can list them; else empty."""
    if sys.platform != "linux":
        return ()
    members = []
    try:
        entries = os.listdir("/proc")
    except OSError:
        return ()
    for entry in entries:
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                # The name is in parentheses and may hold anything, so the fields are counted from its end.
                state, _parent, pgrp = file.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # it ended meanwhile
        if int(pgrp) == group and state not in (b"Z", b"X"):
            members.append(int(entry))
    return tuple(members)
