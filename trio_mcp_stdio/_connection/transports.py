"""Transports: how a server is reached.

A transport is a definition: frozen, picklable, usable any number of times.  Connecting gives an endpoint,
which is one live stream and what has to be done to end it.  Every transport frames messages the same
way; what differs is the launch and the shutdown.
"""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, final

import attrs
import trio

from .._io.process import Command, ServerProcess, ShutdownTimeouts, host_environment, spawn
from .._io.stderr import StderrDrain, StderrPolicy, needs_pipe
from ..types import ProcessExit

__all__ = ["Endpoint", "Secret", "StdioServer", "StreamTransport", "Transport"]

DRAIN_LIMIT: Final = 0.5
"""Seconds for the rest of stdout and stderr after a process has ended; something else may hold them open."""


class Endpoint(Protocol):
    """One live connection to a server."""

    stream: trio.abc.HalfCloseableStream
    command: Sequence[str]
    exit_silence: float
    flush_limit: float

    @property
    def process(self) -> ServerProcess | None: ...

    @property
    def stderr(self) -> StderrDrain | None: ...

    async def run(self) -> None:
        """Attend to everything but the stream, until cancelled or done."""

    async def settle(self) -> None:
        """Wait for all that is still to be learned about an end: the exit, and the end of stderr."""

    def exit_status(self) -> ProcessExit | None:
        """The end of the process as far as it is known, None where there is none."""

    async def shut_down(
        self,
        *,
        close_stdin: Callable[[], Awaitable[None]],
        stdout_ended: trio.Event,
        detached: bool,
        expected: bool,
    ) -> ProcessExit | None:
        """End the server, bounded, and close everything.  Called shielded."""


class Transport(Protocol):
    """What `open_client` takes."""

    @property
    def name(self) -> str:
        """Name for logs and errors."""
        ...

    async def connect(self) -> Endpoint:
        """Reach the server."""
        ...


@final
@attrs.frozen(repr=False)
class Secret:
    """A command-line argument that is shown as `***` in representations, logs and errors."""

    value: str

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"


_POSIX_VARIABLES: Final = (
    "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_*", "TZ", "TMPDIR",
)  # fmt: skip
_WINDOWS_VARIABLES: Final = (
    "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT",
    "PROCESSOR_ARCHITECTURE", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP",
    "USERNAME", "USERPROFILE", "WINDIR",
)  # fmt: skip
SAFE_VARIABLES: Final = _WINDOWS_VARIABLES if sys.platform == "win32" else _POSIX_VARIABLES


def _arguments(args: Sequence[str | Secret]) -> tuple[str | Secret, ...]:
    if isinstance(args, (str, bytes)):
        raise TypeError("args must be a sequence of arguments, not one string")
    return tuple(arg if isinstance(arg, Secret) else str(arg) for arg in args)


def _environment(env: Mapping[str, str | None] | None) -> Mapping[str, str | None]:
    return dict(env or {})


def _directory(cwd: object) -> str | None:
    return None if cwd is None else str(cwd)


def _patterns(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError("inherit must be a sequence of names, not one string")
    return tuple(names)


def _base_name(server: StdioServer) -> str:
    return server.command.replace("\\", "/").rstrip("/").rpartition("/")[2] or server.command


def _only_names(env: Mapping[str, str | None]) -> str:
    return "{" + ", ".join(f"{name!r}: ***" for name in env) + "}"


@final
@attrs.frozen
class StdioServer:
    """A server that is started as a child process and spoken to over its stdin and stdout.

    It runs in a session of its own, so a terminal's Ctrl-C reaches the client only, and with descriptors
    0 to 2 only.  Values of `env` never appear in representations, logs or errors.

    Args:
        command: program; looked up in the PATH of the child's environment, a relative path is taken
            from `cwd`.  Never a shell line.
        args: its arguments; wrap one in `Secret` to keep it out of logs and errors.
        env: variables added to the default environment, None as a value removes one.
        inherit: names of further variables of this process to pass on, `*` patterns allowed, such as
            `("HTTPS_PROXY", "XDG_*")`; `("*",)` passes all.  By default only HOME, LOGNAME, PATH, SHELL,
            TERM, USER, LANG, LC_*, TZ and TMPDIR are passed (on Windows what programs need there).
        cwd: working directory, default this process's own.
        name: name in logs and errors, default the base name of `command`.
        stderr: where its standard error goes: "capture" (kept for error texts only), "inherit" (the
            client's own stderr), "discard", "log" (logger `trio_mcp_stdio.stderr.<name>`), a `StderrFile`,
            a callable that gets each line, or a sequence of these.
        stderr_bytes: size in bytes of the tail kept of it.
        timeouts: limits of the shutdown.
        exit_silence: seconds of silence on stdout after the process has ended, while something else
            holds stdout open, until the server counts as dead.
        sweep: end processes that the server leaves in its process group.
    """

    command: str = attrs.field(converter=str)
    args: tuple[str | Secret, ...] = attrs.field(default=(), converter=_arguments)
    env: Mapping[str, str | None] = attrs.field(
        kw_only=True, default=None, converter=_environment, repr=_only_names
    )
    inherit: tuple[str, ...] = attrs.field(kw_only=True, default=(), converter=_patterns)
    cwd: str | None = attrs.field(kw_only=True, default=None, converter=_directory)
    name: str = attrs.field(kw_only=True, default=attrs.Factory(_base_name, takes_self=True))
    stderr: StderrPolicy = attrs.field(kw_only=True, default="capture")
    stderr_bytes: int = attrs.field(kw_only=True, default=65_536)
    timeouts: ShutdownTimeouts = attrs.field(kw_only=True, factory=ShutdownTimeouts)
    exit_silence: float = attrs.field(kw_only=True, default=2.0)
    sweep: bool = attrs.field(kw_only=True, default=True)

    def __attrs_post_init__(self) -> None:
        needs_pipe(self.stderr)  # refuses an unknown policy here, not at the start

    def environment(self) -> dict[str, str]:
        """The whole environment that the child would get now."""
        patterns = (*SAFE_VARIABLES, *self.inherit)
        environment = {
            name: value
            for name, value in host_environment().items()
            # A value that begins so is a shell function, which old shells would run.
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns) and not value.startswith("()")
        }
        for name, value in self.env.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        return environment

    async def connect(self) -> Endpoint:
        """Start the process.

        Raises:
            SpawnError: it cannot be started.
        """
        command = Command(
            argv=(
                self.command,
                *(arg.value if isinstance(arg, Secret) else arg for arg in self.args),
            ),
            env=self.environment(),
            cwd=self.cwd,
            shown=(self.command, *map(str, self.args)),
            name=self.name,
            stderr=needs_pipe(self.stderr),
        )
        return _ProcessEndpoint(await spawn(command), self)


class _ProcessEndpoint:
    def __init__(self, process: ServerProcess, server: StdioServer) -> None:
        self._server = server
        self._process = process
        self._drain = (
            None
            if process.stderr is None
            else StderrDrain(process.stderr, server.stderr, ring_bytes=server.stderr_bytes, name=server.name)
        )
        self.stream = process.stream
        self.command: Sequence[str] = process.command.shown
        self.exit_silence = server.exit_silence
        self.flush_limit = server.timeouts.flush

    @property
    def process(self) -> ServerProcess | None:
        return self._process

    @property
    def stderr(self) -> StderrDrain | None:
        return self._drain

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._process.watch)
            if self._drain is not None:
                nursery.start_soon(self._drain.run)

    async def settle(self) -> None:
        await self._process.exited.wait()
        if self._drain is not None:
            await self._drain.finished.wait()

    def exit_status(self) -> ProcessExit | None:
        if not self._process.exited.is_set():
            return None
        return self._process.exit_status(expected=False, stderr_tail=self._tail())

    def _tail(self) -> str:
        return "" if self._drain is None else self._drain.tail()

    async def shut_down(
        self,
        *,
        close_stdin: Callable[[], Awaitable[None]],
        stdout_ended: trio.Event,
        detached: bool,
        expected: bool,
    ) -> ProcessExit | None:
        expected = expected and not self._process.exited.is_set()
        ending: Literal["exited", "terminated", "killed", "unreaped"] = "unreaped"
        leftovers: tuple[int, ...] = ()
        try:
            ending, leftovers = await self._process.shut_down(
                self._server.timeouts,
                close_stdin=close_stdin,
                stdout_ended=stdout_ended,
                sweep=self._server.sweep,
                detached=detached,
            )
            if ending != "unreaped":
                with trio.move_on_after(DRAIN_LIMIT):
                    await stdout_ended.wait()
                    await self.settle()
        finally:
            await self._process.close()
        return self._process.exit_status(
            ending=ending, expected=expected, stderr_tail=self._tail(), leftovers=leftovers
        )


@final
@attrs.frozen
class StreamTransport:
    """Any half-closeable byte stream with the same framing.

    How connections are made: by the callable given, once for each connection.  How messages are framed:
    one JSON-RPC message a line, UTF-8, as on stdio.  How requests are cancelled: by
    `notifications/cancelled`, as on stdio (specification, transports: custom transports).

    Args:
        open: async function without arguments that returns a connected stream.
        name: name in logs and errors.
        flush: seconds for queued lines to be written before the end of input is sent.
        linger: seconds for the peer to end its direction after that; then the stream is closed.
    """

    open: Callable[[], Awaitable[trio.abc.HalfCloseableStream]]
    name: str = attrs.field(kw_only=True, default="stream")
    flush: float = attrs.field(kw_only=True, default=0.5)
    linger: float = attrs.field(kw_only=True, default=2.0)

    async def connect(self) -> Endpoint:
        """Open the stream; what the callable raises is raised."""
        return _StreamEndpoint(await self.open(), self)


class _StreamEndpoint:
    process: Any = None
    stderr: Any = None
    command: Sequence[str] = ()
    exit_silence = 0.0

    def __init__(self, stream: trio.abc.HalfCloseableStream, transport: StreamTransport) -> None:
        self.stream = stream
        self.flush_limit = transport.flush
        self._linger = transport.linger

    async def run(self) -> None:
        """Nothing to do beside the stream."""

    async def settle(self) -> None:
        """Nothing more to learn."""

    def exit_status(self) -> ProcessExit | None:
        return None

    async def shut_down(
        self,
        *,
        close_stdin: Callable[[], Awaitable[None]],
        stdout_ended: trio.Event,
        detached: bool,
        expected: bool,
    ) -> ProcessExit | None:
        try:
            await close_stdin()
            with trio.move_on_after(self._linger):
                await stdout_ended.wait()
        finally:
            await trio.aclose_forcefully(self.stream)
        return None
