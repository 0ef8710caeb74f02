"""A server process from its launch to its reaped end.

The ladder that ends it, after the specification's order of closing stdin, waiting, and only then using
force: EOF → wait → SIGTERM to the group → wait → SIGKILL to the group → bounded reap → sweep of what
the process left in its group.  Every wait has a limit, and the whole runs to its end whatever
cancellation surrounds it (the caller shields it).
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, final

import attrs
import trio

from .._errors import SpawnError
from ..types import ProcessExit

if sys.platform == "win32":
    from . import process_windows as platform
else:
    from . import process_posix as platform

__all__ = ["Command", "ServerProcess", "ShutdownTimeouts", "describe_exit", "host_environment", "spawn"]


@final
@attrs.frozen(kw_only=True)
class ShutdownTimeouts:
    """Limits of the steps that end a server, in seconds.

    A server that obeys is gone long before any of them; one that ignores EOF and SIGTERM costs
    `flush + exit + term` and is then killed.
    """

    flush: float = 0.5
    """For lines already queued to be written before stdin is closed."""
    exit: float = 2.0
    """For the server to exit by itself once its stdin is closed."""
    term: float = 2.0
    """For it to exit after SIGTERM."""
    reap: float = 2.0
    """For the system to report its end after SIGKILL."""

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self).items():
            if not 0 <= value < float("inf"):
                raise ValueError(f"ShutdownTimeouts.{name} must be a finite number of seconds, not {value!r}")


@attrs.frozen(kw_only=True)
class Command:
    """What to start.

    Attributes:
        argv: program and arguments.
        env: the whole environment of the child.
        cwd: its working directory, None for this process's own.
        shown: `argv` as it may be shown, secrets masked.
        name: server name, for errors.
        stderr: what the child gets as descriptor 2.
    """

    argv: tuple[str, ...] = attrs.field(repr=False)
    env: Mapping[str, str] = attrs.field(repr=False)
    cwd: str | None
    shown: tuple[str, ...]
    name: str
    stderr: Literal["pipe", "inherit", "discard"] = "pipe"


def host_environment() -> Mapping[str, str]:
    """The environment of this process."""
    return os.environ


_STDERR: Final[Mapping[str, int | None]] = {
    "pipe": subprocess.PIPE,
    "inherit": None,
    "discard": subprocess.DEVNULL,
}


async def spawn(command: Command) -> ServerProcess:
    """Start a server in a session of its own, with only descriptors 0 to 2 inherited.

    Cancellation: the process is either not started, or returned.

    Raises:
        SpawnError: the command or the directory cannot be used.
    """
    cwd = _check_cwd(command)
    executable = _look_up(command, cwd)
    try:
        process = await trio.lowlevel.open_process(
            list(command.argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=_STDERR[command.stderr],
            cwd=cwd,
            env=dict(command.env),
            executable=executable,
            **platform.popen_options(),
        )
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            reason = f"{executable} is no program: neither a binary nor a script that starts with #!"
        else:
            reason = f"{executable} cannot be started: {error.strerror or error}"
        raise _spawn_error(command, reason) from error
    except ValueError as error:  # a null byte, a lone surrogate, an illegal variable name
        raise _spawn_error(command, f"the command cannot be passed to the system: {error}") from error
    return ServerProcess(process, command)


def _spawn_error(command: Command, reason: str, *, path: str | None = None) -> SpawnError:
    message = f"cannot start {' '.join(command.shown)}: {reason}"
    return SpawnError(message, argv=command.shown, path=path, server=command.name)


def _check_cwd(command: Command) -> str | None:
    if command.cwd is None:
        try:
            os.getcwd()
        except OSError as error:
            reason = "the current directory of this process is gone; give the server a cwd"
            raise _spawn_error(command, reason) from error
        return None
    if not os.path.isdir(command.cwd):
        what = "is no directory" if os.path.exists(command.cwd) else "does not exist"
        raise _spawn_error(command, f"its working directory {command.cwd} {what}")
    return command.cwd


def _look_up(command: Command, cwd: str | None) -> str:
    """The program's file: looked up in the child's own PATH, a relative path against its directory."""
    program = command.argv[0]
    if not program:
        raise _spawn_error(command, "the command is empty")
    if os.path.dirname(program):
        file = os.path.abspath(os.path.join(cwd or "", program))
        if not os.path.exists(file) and sys.platform != "win32":
            raise _spawn_error(command, f"{file} does not exist")
        if os.path.isdir(file):
            raise _spawn_error(command, f"{file} is a directory")
        found = shutil.which(file)
        if found is None:
            raise _spawn_error(command, f"{file} is not executable")
        return found
    path = command.env.get("PATH", os.defpath)
    found = shutil.which(program, path=path)
    if found is not None:
        return os.path.abspath(found)
    for directory in path.split(os.pathsep):
        file = os.path.join(directory, program)
        if os.path.isfile(file):
            raise _spawn_error(command, f"{file} is not executable", path=path)
    raise _spawn_error(command, f"there is no program {program!r} in PATH, which is {path}", path=path)


class ServerProcess:
    """A running server process.

    Attributes:
        stream: its stdin and stdout as one stream; `send_eof` closes stdin.
        stderr: the read end of its stderr, None if that is no pipe.
        exited: set once the end of the process has been observed, and reaped.
    """

    def __init__(self, process: trio.Process, command: Command) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self.command = command
        self.pid = process.pid
        self.stream: trio.abc.HalfCloseableStream = trio.StapledStream(process.stdin, process.stdout)
        self.stderr: trio.abc.ReceiveStream | None = process.stderr
        self.exited = trio.Event()
        self.returncode: int | None = None
        self._group_alive = True

    def __repr__(self) -> str:
        state = "running" if self.returncode is None else f"returncode {self.returncode}"
        return f"<ServerProcess {self.command.name!r} pid {self.pid} {state}>"

    @trio.lowlevel.enable_ki_protection
    async def watch(self) -> None:
        """Wait for the process and reap it at once, whoever else is interested."""
        self.returncode = await self._process.wait()
        # From here on the pid may be given to another process, but a group keeps its number while it
        # has members: what is found now decides whether that number may still be signalled later.
        self._group_alive = platform.group_exists(self.pid)
        self.exited.set()

    def exit_status(
        self,
        *,
        ending: Literal["exited", "terminated", "killed", "unreaped"] = "exited",
        expected: bool,
        stderr_tail: str,
        leftovers: tuple[int, ...] = (),
    ) -> ProcessExit:
        """Describe the end of the process as far as it is known now."""
        code = self.returncode
        return ProcessExit(
            pid=self.pid,
            returncode=code,
            signal=-code if code is not None and code < 0 else None,
            ending=ending,
            expected=expected,
            stderr_tail=stderr_tail,
            leftovers=leftovers,
        )

    async def shut_down(
        self,
        timeouts: ShutdownTimeouts,
        *,
        close_stdin: Callable[[], Awaitable[None]],
        stdout_ended: trio.Event,
        sweep: bool,
        detached: bool,
    ) -> tuple[Literal["exited", "terminated", "killed", "unreaped"], tuple[int, ...]]:
        """Carry out the ladder; call it shielded, with `watch` running.

        Args:
            close_stdin: closes the child's stdin.
            stdout_ended: set when its stdout has ended, by which survivors of its group are told from
                the server itself.
            sweep: end what the process left in its group.
            detached: the process ended early and what it started is the server.

        Returns:
            How the process ended, and the pids found in its group after its end.
        """
        crashed = self.exited.is_set() and not detached
        await close_stdin()
        ending: Literal["exited", "terminated", "killed", "unreaped"] = "exited"
        deadline = trio.current_time() + (0 if crashed else timeouts.exit)
        if not await self._exits_within(timeouts.exit):
            ending = "terminated"
            platform.terminate(self._process)
            if not await self._exits_within(timeouts.term):
                ending = "killed"
                platform.kill(self._process)
                if not await self._exits_within(timeouts.reap):
                    return "unreaped", ()
        leftovers = await self._sweep(timeouts, deadline, stdout_ended) if sweep else ()
        return ending, leftovers

    async def _exits_within(self, seconds: float) -> bool:
        with trio.move_on_after(seconds):
            await self.exited.wait()
        return self.exited.is_set()

    async def _sweep(
        self, timeouts: ShutdownTimeouts, deadline: float, stdout_ended: trio.Event
    ) -> tuple[int, ...]:
        """End what is left of the group.

        A launcher may end before the server it started.  As long as stdout is open that server is
        taken to be at work on its own end, and gets what remains of the time given for it.
        """
        if not self._group_alive:
            return ()
        with trio.move_on_at(deadline):
            while not stdout_ended.is_set() and platform.group_exists(self.pid):
                await _poll(stdout_ended)
        leftovers = platform.group_members(self.pid)
        if not platform.group_exists(self.pid):
            return ()
        for send, limit in ((platform.terminate_group, timeouts.term), (platform.kill_group, timeouts.reap)):
            send(self.pid)
            with trio.move_on_after(limit):
                while platform.group_exists(self.pid):  # noqa: ASYNC110  # no system reports its end
                    await trio.sleep(_POLL)
                break
        return leftovers

    async def close(self) -> None:
        """Close what is left of the pipes; does not block."""
        await trio.aclose_forcefully(self.stream)
        if self.stderr is not None:
            await trio.aclose_forcefully(self.stderr)


def describe_exit(exit: ProcessExit) -> str:
    """A few words on how a process ended."""
    if exit.signal is not None:
        try:
            name = signal.Signals(exit.signal).name
        except ValueError:
            name = f"signal {exit.signal}"
        return f"was ended by {name}"
    if exit.returncode is None:
        return "could not be ended"
    return f"exited with status {exit.returncode}"


_POLL: Final = 0.01
"""Seconds between two looks at a process group, whose end no system reports."""


async def _poll(event: trio.Event) -> None:
    with trio.move_on_after(_POLL):
        await event.wait()
