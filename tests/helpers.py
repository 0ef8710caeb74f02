"""What the tests against real child processes share.

Imported as `helpers`.  A typical test runs the server `tests/servers/echo.py` like this::

    with alive(), nothing_left():
        async with open_client(fake("echo", era=era)) as client:
            ...
        assert_gone(client.pid)
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import attrs
import psutil
import pytest
import trio

from trio_mcp_stdio import ClientOptions, McpError, ServerExited, ShutdownTimeouts, StdioServer

SERVERS = Path(__file__).parent / "servers"
ERAS = ("modern", "legacy")

both_eras = pytest.mark.parametrize("era", ERAS)
"""Parametrises a test over `era`."""

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")

QUICK = ShutdownTimeouts(flush=0.2, exit=0.4, term=0.4, reap=5.0)
"""Short grace periods, for servers that will not go by themselves."""

PATIENT = ShutdownTimeouts(flush=5.0, exit=30.0, term=30.0, reap=30.0)
"""Grace periods that a loaded machine does not use up, for servers that will go by themselves."""


def alive(seconds: float = 30) -> contextlib.AbstractContextManager[trio.CancelScope]:
    """The limit on liveness: nothing in a test may hang, and nothing is measured by it."""
    return trio.fail_after(seconds)


def fake(
    script: str, *args: object, era: str = "modern", env: dict[str, str] | None = None, **settings: Any
) -> StdioServer:
    """The definition of a fake server: a script of `tests/servers`, without its ``.py``."""
    settings.setdefault("name", script)
    settings.setdefault("timeouts", PATIENT)
    command = [str(SERVERS / f"{script}.py"), *map(str, args)]
    return StdioServer(sys.executable, command, env={"FAKE_ERA": era, **(env or {})}, **settings)


@attrs.define
class WireLog:
    """Every line of a connection, for `ClientOptions(on_wire=WireLog())`."""

    lines: list[tuple[str, bytes]] = attrs.field(factory=list)

    def __call__(self, direction: Literal["send", "receive"], line: bytes) -> None:
        self.lines.append((direction, bytes(line)))

    @property
    def sent(self) -> list[dict[str, Any]]:
        """What the client wrote, decoded."""
        return [json.loads(line) for direction, line in self.lines if direction == "send"]

    @property
    def received(self) -> list[bytes]:
        """What the server wrote, as bytes."""
        return [line for direction, line in self.lines if direction == "receive"]

    def sent_of(self, method: str) -> list[dict[str, Any]]:
        return [message for message in self.sent if message.get("method") == method]


def logged(**settings: Any) -> tuple[WireLog, ClientOptions]:
    """A wire log and client options that fill it."""
    log = WireLog()
    return log, ClientOptions(on_wire=log, **settings)


# Leftovers


def children() -> list[psutil.Process]:
    """Every descendant of this process, zombies included."""
    return psutil.Process().children(recursive=True)


def count_fds() -> int:
    """How many descriptors this process has; -1 where that cannot be counted (see `needs_proc`)."""
    path = Path("/proc/self/fd")
    return len(os.listdir(path)) if path.is_dir() else -1


def is_running(pid: int) -> bool:
    """Whether a process runs; a zombie of this process counts, one that init has yet to reap does not."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE or process.ppid() == os.getpid()
    except psutil.NoSuchProcess:
        return False


def group_members(pgid: int) -> list[int]:
    """The running members of a process group."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getpgid(pid) == pgid and is_running(pid):
                found.append(pid)
    return found


def assert_gone(pid: int | None) -> None:
    """The process and all of its group have ended, and nobody is left to be reaped."""
    assert pid is not None
    assert not is_running(pid)
    assert group_members(pid) == []


async def until(condition: Callable[[], bool]) -> None:
    """Poll for something that only the system or statistics can show; `alive` around it is its limit."""
    while not condition():  # noqa: ASYNC110 - nobody sets an event for it
        await trio.sleep(0.01)


async def wait_gone(pid: int) -> None:
    """Wait until a process that is not ours to reap has ended."""
    await until(lambda: not is_running(pid))


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """Around a client's whole life: no child, zombie, descriptor or trio task more than before."""
    before = {process.pid for process in children()}
    fds, tasks = count_fds(), trio.lowlevel.current_statistics().tasks_living
    yield
    assert [process for process in children() if process.pid not in before] == []
    assert count_fds() == fds
    assert trio.lowlevel.current_statistics().tasks_living == tasks


class MemoryWatch(trio.abc.Instrument):
    """The highest resident size inside ``with MemoryWatch() as memory:``, seen from trio's own loop."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self.start = self.peak = self._process.memory_info().rss

    @property
    def growth(self) -> int:
        return self.peak - self.start

    def before_io_wait(self, timeout: float) -> None:
        self.peak = max(self.peak, self._process.memory_info().rss)

    def __enter__(self) -> MemoryWatch:
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.before_io_wait(0)
        trio.lowlevel.remove_instrument(self)


# Errors


def assert_plain(error: BaseException, server: StdioServer) -> None:
    """One typed exception, not a group, that names the server and its command."""
    assert isinstance(error, McpError)
    assert not isinstance(error, BaseExceptionGroup)
    assert error.server == server.name
    assert server.name in str(error)


def assert_tells(error: BaseException, server: StdioServer, stderr: str = "") -> None:
    """As `assert_plain`, and the text alone tells the command and the end of stderr."""
    assert_plain(error, server)
    assert str(server.command) in str(error)
    assert stderr in str(error)


def assert_exited(
    error: BaseException,
    server: StdioServer,
    *,
    status: int | None = None,
    killed_by: signal.Signals | None = None,
    stderr: str = "",
) -> None:
    """A `ServerExited` that tells server, command, exit status or signal, and the end of stderr."""
    assert_tells(error, server, stderr)
    assert isinstance(error, ServerExited)
    said = str(error)
    if killed_by is None:
        assert error.exit.signal is None
        assert (error.exit.returncode, error.exit.ending) == (status, "exited")
        assert re.search(rf"\b(status|code) {status}\b", said)
    else:
        assert error.exit.signal == killed_by
        assert error.exit.returncode == -killed_by
        assert killed_by.name in said
    assert stderr in error.exit.stderr_tail
