"""The life of a server process: the launch, and the ladder that ends it, step by step on a virtual clock."""

from __future__ import annotations

import errno
import math
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from helpers import alive, assert_gone, needs_proc, nothing_left
from trio_mcp_stdio import ProcessExit, ShutdownTimeouts, SpawnError
from trio_mcp_stdio._io import process as module
from trio_mcp_stdio._io.process import Command, ServerProcess, describe_exit, spawn

PYTHON = (sys.executable, "-S", "-E", "-c")
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and groups of POSIX")


def command(*argv: str, **settings: Any) -> Command:
    settings.setdefault("env", dict(os.environ))
    settings.setdefault("cwd", None)
    return Command(argv=argv, shown=(argv[0], "***"), name="unit", **settings)


# Definitions


@pytest.mark.parametrize("value", [-1, -0.001, math.nan, math.inf])
@pytest.mark.parametrize("name", ["flush", "exit", "term", "reap"])
def test_time_that_is_none_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        ShutdownTimeouts(**{name: value})


def test_timeouts_are_plain_values() -> None:
    timeouts = ShutdownTimeouts(flush=0, exit=1, term=2, reap=3)
    assert pickle.loads(pickle.dumps(timeouts)) == timeouts
    assert ShutdownTimeouts() != timeouts
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        timeouts.exit = 5  # type: ignore[misc]


def test_command_hides_arguments_and_environment() -> None:
    text = repr(command("serve", "--key=hidden", env={"KEY": "hidden", "PATH": "/bin"}))
    assert "hidden" not in text
    assert "***" in text


@pytest.mark.parametrize(
    ("returncode", "number", "expected"),
    [
        (0, None, "exited with status 0"),
        (2, None, "exited with status 2"),
        (-9, 9, "was ended by SIGKILL"),
        (-250, 250, "was ended by signal 250"),
        (None, None, "could not be ended"),
    ],
)
def test_end_in_words(returncode: int | None, number: int | None, expected: str) -> None:
    ended = ProcessExit(pid=1, returncode=returncode, signal=number, ending="exited", expected=True)
    assert describe_exit(ended) == expected


# The launch


@asynccontextmanager
async def spawned(what: Command) -> AsyncIterator[ServerProcess]:
    """A watched process, ended by force when the block is left."""
    process = await spawn(what)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.watch)
        try:
            yield process
        finally:
            with trio.CancelScope(shield=True):
                if not process.exited.is_set():
                    os.kill(process.pid, signal.SIGKILL)
                    await process.exited.wait()
                await process.close()


async def output(process: ServerProcess) -> bytes:
    data = b""
    while chunk := await process.stream.receive_some():
        data += chunk
    return data


@posix
async def test_process_has_pipes_and_a_session_of_its_own() -> None:
    script = "import os, sys; print(os.getpgid(0), os.getsid(0), sys.stdin.read())"
    with alive(), nothing_left():
        async with spawned(command(*PYTHON, script)) as process:
            assert "running" in repr(process)
            await process.stream.send_all(b"input")
            await process.stream.send_eof()
            assert (await output(process)).split() == [b"%d" % process.pid] * 2 + [b"input"]
            await process.exited.wait()
            assert process.returncode == 0
            assert "returncode 0" in repr(process)
        assert_gone(process.pid)


@needs_proc
async def test_only_three_descriptors_are_inherited() -> None:
    script = "import os; print(*sorted(os.listdir('/proc/self/fd'), key=int))"
    leaked = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(leaked, True)
    try:
        with alive(), nothing_left():
            async with spawned(command(*PYTHON, script)) as process:
                found = (await output(process)).split()
    finally:
        os.close(leaked)
    assert found[:3] == [b"0", b"1", b"2"]
    assert len(found) == 4  # and the one that lists them


@pytest.mark.parametrize(("stderr", "has_pipe"), [("pipe", True), ("inherit", False), ("discard", False)])
async def test_standard_error(stderr: Any, has_pipe: bool, capfd: pytest.CaptureFixture[str]) -> None:
    script = "import sys; print('complaint', file=sys.stderr)"
    with alive(), nothing_left():
        async with spawned(command(*PYTHON, script, stderr=stderr)) as process:
            assert (process.stderr is not None) == has_pipe
            if process.stderr is not None:
                assert await process.stderr.receive_some() == b"complaint\n"
            await process.exited.wait()
    assert ("complaint" in capfd.readouterr().err) == (stderr == "inherit")


async def test_environment_is_the_given_one_and_nothing_else() -> None:
    script = "import os; print(dict(os.environ))"
    with alive(), nothing_left():
        async with spawned(command(*PYTHON, script, env={"ONLY": "this"})) as process:
            found = eval(await output(process))
    found.pop("LC_CTYPE", None)  # set by the interpreter itself
    assert found == {"ONLY": "this"}


BAD: dict[str, Callable[[Path], tuple[Command, str]]] = {
    "not in the path": lambda path: (
        command("no-such-program", env={"PATH": str(path)}),
        "there is no program 'no-such-program' in PATH",
    ),
    "no path at all": lambda path: (command("no-such-program", env={}), "there is no program"),
    "empty": lambda path: (command(""), "the command is empty"),
    "no such file": lambda path: (command(str(path / "gone")), "does not exist"),
    "a directory": lambda path: (command(str(path)), "is a directory"),
    "not executable": lambda path: (command(str(path / "plain")), "is not executable"),
    "not executable, in the path": lambda path: (
        command("plain", env={"PATH": str(path)}),
        "is not executable",
    ),
    "no interpreter": lambda path: (command(str(path / "headless")), "neither a binary nor a script"),
    "a null byte": lambda path: (command(*PYTHON, "a\0b"), "cannot be passed to the system"),
    "a lone surrogate": lambda path: (command(*PYTHON, "\ud800"), "cannot be passed to the system"),
    "a bad variable": lambda path: (
        command(*PYTHON, "", env={"A=B": "c"}),
        "cannot be passed to the system",
    ),
    "no such directory": lambda path: (command(*PYTHON, "", cwd=str(path / "gone")), "does not exist"),
    "a file as directory": lambda path: (command(*PYTHON, "", cwd=str(path / "plain")), "is no directory"),
}


@posix
@pytest.mark.parametrize("case", BAD)
async def test_command_that_cannot_be_started(case: str, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("text")
    (tmp_path / "headless").write_text("no interpreter line")
    (tmp_path / "headless").chmod(0o755)
    what, expected = BAD[case](tmp_path)
    with alive(), nothing_left(), pytest.raises(SpawnError) as info:
        await spawn(what)
    assert expected in str(info.value)
    assert info.value.server == "unit"
    assert info.value.argv == what.shown
    cause = info.value.__cause__
    assert cause is None or isinstance(cause, (OSError, ValueError))
    if case == "no interpreter":
        assert isinstance(cause, OSError)
        assert cause.errno == errno.ENOEXEC


@posix
async def test_relative_command_is_taken_from_its_directory(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "tool"
    tool.write_text(f"#!{sys.executable}\nprint('found')\n")
    tool.chmod(0o755)
    with alive(), nothing_left():
        for argv in ("./bin/tool", "bin/tool", "bin/../bin/tool"):
            async with spawned(command(argv, cwd=str(tmp_path))) as process:
                assert await output(process) == b"found\n"


async def test_cancelled_launch_either_starts_nothing_or_returns_the_process() -> None:
    with alive(), nothing_left():
        with trio.CancelScope() as scope:
            scope.cancel()
            await spawn(command(*PYTHON, ""))
        assert scope.cancelled_caught


# The ladder


class FakeProcess:
    """What the ladder needs of a `trio.Process`; it ends when the test says so."""

    def __init__(self) -> None:
        self.pid = 4711
        self.stdin, self.stdout = trio.testing.memory_stream_one_way_pair()
        self.stderr = None
        self.ended = trio.Event()
        self.returncode = 0

    async def wait(self) -> int:
        await self.ended.wait()
        return self.returncode

    def end(self, returncode: int = 0) -> None:
        self.returncode = returncode
        self.ended.set()


class Ladder:
    """Runs the ladder over a process that ends at a given step; notes what was done, and when."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, ends_at: str, took: float = 0.0) -> None:
        self.process = FakeProcess()
        self.server = ServerProcess(self.process, command("serve"))  # type: ignore[arg-type]
        self.ends_at = ends_at
        self.took = took
        self.steps: list[tuple[str, float]] = []
        self.group: list[int] = []
        self.stubborn = False
        self.stdout_ended = trio.Event()
        for name, function in (
            ("terminate", lambda process: self._step("SIGTERM")),
            ("kill", lambda process: self._step("SIGKILL")),
            ("terminate_group", lambda group: self._sweep("sweep SIGTERM")),
            ("kill_group", lambda group: self._sweep("sweep SIGKILL")),
            ("group_exists", lambda group: bool(self.group)),
            ("group_members", lambda group: tuple(self.group)),
        ):
            monkeypatch.setattr(module.platform, name, function)

    def _note(self, what: str) -> None:
        self.steps.append((what, round(trio.current_time() - self.began, 3)))

    def _step(self, what: str) -> None:
        self._note(what)
        if what == self.ends_at:
            self.nursery.start_soon(self._end_later, {"SIGTERM": -15, "SIGKILL": -9}.get(what, 0))

    def _sweep(self, what: str) -> None:
        self._note(what)
        if not self.stubborn or what == "sweep SIGKILL":
            self.group.clear()

    async def _end_later(self, returncode: int) -> None:
        await trio.sleep(self.took)
        self.process.end(returncode)

    async def close_stdin(self) -> None:
        self._step("EOF")

    async def run(self, **options: Any) -> tuple[str, tuple[int, ...]]:
        options = {"sweep": True, "detached": False, **options}
        async with trio.open_nursery() as self.nursery:
            self.nursery.start_soon(self.server.watch)
            await trio.testing.wait_all_tasks_blocked()
            self.began = trio.current_time()
            found = await self.server.shut_down(
                ShutdownTimeouts(exit=2, term=3, reap=5),
                close_stdin=self.close_stdin,
                stdout_ended=self.stdout_ended,
                **options,
            )
            self._note("end")
            self.nursery.cancel_scope.cancel()
        return found


@pytest.mark.requirement("STDIO-PROC-04", "STDIO-PROC-05", "LEG-SHUT-01")
@pytest.mark.parametrize(
    ("ends_at", "took", "ending", "steps"),
    [
        ("EOF", 0, "exited", [("EOF", 0), ("end", 0)]),
        ("EOF", 1.9, "exited", [("EOF", 0), ("end", 1.9)]),
        ("SIGTERM", 0, "terminated", [("EOF", 0), ("SIGTERM", 2), ("end", 2)]),
        ("SIGTERM", 2.9, "terminated", [("EOF", 0), ("SIGTERM", 2), ("end", 4.9)]),
        ("SIGKILL", 0, "killed", [("EOF", 0), ("SIGTERM", 2), ("SIGKILL", 5), ("end", 5)]),
        ("SIGKILL", 4.9, "killed", [("EOF", 0), ("SIGTERM", 2), ("SIGKILL", 5), ("end", 9.9)]),
        ("never", 0, "unreaped", [("EOF", 0), ("SIGTERM", 2), ("SIGKILL", 5), ("end", 10)]),
    ],
)
async def test_ladder(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    ends_at: str,
    took: float,
    ending: str,
    steps: list[tuple[str, float]],
) -> None:
    ladder = Ladder(monkeypatch, ends_at=ends_at, took=took)
    ladder.stdout_ended.set()
    with trio.fail_after(1000):
        assert await ladder.run() == (ending, ())
    assert ladder.steps == steps
    status = ladder.server.exit_status(ending=ending, expected=True, stderr_tail="")  # type: ignore[arg-type]
    expected = {"SIGTERM": -15, "SIGKILL": -9, "never": None}.get(ends_at, 0)
    assert status.returncode == expected
    assert status.signal == (-expected if expected else None)


async def test_ladder_after_a_crash_waits_for_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ladder = Ladder(monkeypatch, ends_at="crash")
    ladder.process.end(3)
    ladder.group = [1, 2]  # something holds stdout open
    with trio.fail_after(1000):
        assert await ladder.run() == ("exited", (1, 2))
    assert ladder.steps == [("EOF", 0), ("sweep SIGTERM", 0), ("end", 0)]


async def test_what_is_left_in_the_group_is_ended(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ladder = Ladder(monkeypatch, ends_at="EOF")
    ladder.group = [1, 2]
    ladder.stubborn = True
    ladder.stdout_ended.set()
    with trio.fail_after(1000):
        assert await ladder.run() == ("exited", (1, 2))
    assert [what for what, _ in ladder.steps] == ["EOF", "sweep SIGTERM", "sweep SIGKILL", "end"]
    assert ladder.steps[2][1] == pytest.approx(3, abs=0.1)


async def test_server_behind_a_launcher_gets_its_time(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends at once, but what it started still has stdout: it is given the rest of `exit`."""
    ladder = Ladder(monkeypatch, ends_at="EOF", took=0.5)
    ladder.group = [1]

    async def finish() -> None:
        await trio.sleep(1.5)
        ladder.group.clear()
        ladder.stdout_ended.set()

    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(finish)
            assert await ladder.run() == ("exited", ())
    assert ladder.steps[-1] == ("end", pytest.approx(1.5, abs=0.1))


async def test_server_behind_a_launcher_that_will_not_go(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ladder = Ladder(monkeypatch, ends_at="EOF", took=0.5)
    ladder.group = [1]
    with trio.fail_after(1000):
        assert await ladder.run() == ("exited", (1,))
    assert ladder.steps == [
        ("EOF", 0),
        ("sweep SIGTERM", pytest.approx(2, abs=0.1)),
        ("end", pytest.approx(2, abs=0.1)),
    ]


async def test_detached_server_gets_its_time_after_the_launcher(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ladder = Ladder(monkeypatch, ends_at="launch")
    ladder.process.end(0)
    ladder.group = [1]
    with trio.fail_after(1000):
        assert await ladder.run(detached=True) == ("exited", (1,))
    assert ladder.steps[1] == ("sweep SIGTERM", pytest.approx(2, abs=0.1))


async def test_sweep_can_be_left_out(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    ladder = Ladder(monkeypatch, ends_at="EOF")
    ladder.group = [1]
    with trio.fail_after(1000):
        assert await ladder.run(sweep=False) == ("exited", ())
    assert ladder.steps == [("EOF", 0), ("end", 0)]


async def test_number_of_a_group_that_ended_is_never_signalled_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may belong to strangers by then."""
    ladder = Ladder(monkeypatch, ends_at="crash")
    ladder.process.end(0)
    found = []

    async def reuse() -> None:
        await ladder.server.exited.wait()
        ladder.group = [99]
        found.append(ladder.server.exited.is_set())

    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reuse)
            assert await ladder.run() == ("exited", ())
    assert found == [True]
    assert [what for what, _ in ladder.steps] == ["EOF", "end"]


# Real groups


@posix
async def test_grandchild_is_found_and_ended() -> None:
    script = (
        "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True); sys.stdin.read()"
    )
    with alive(), nothing_left():
        async with spawned(command(*PYTHON, script)) as process:
            grandchild = int(await process.stream.receive_some())
            ending, leftovers = await process.shut_down(
                ShutdownTimeouts(exit=0.3),
                close_stdin=process.stream.send_eof,
                stdout_ended=trio.Event(),
                sweep=True,
                detached=False,
            )
            assert ending == "exited"
            if sys.platform == "linux":
                assert leftovers == (grandchild,)
        assert_gone(process.pid)


@posix
def test_groups_are_told_apart() -> None:
    from trio_mcp_stdio._io import process_posix

    child = subprocess.Popen([*PYTHON, "import time; time.sleep(600)"], start_new_session=True)
    try:
        assert process_posix.group_exists(child.pid)
        if sys.platform == "linux":
            assert process_posix.group_members(child.pid) == (child.pid,)
        assert not process_posix.group_exists(2**22 + 1)
        assert process_posix.group_members(2**22 + 1) == ()
        process_posix.terminate_group(2**22 + 1)  # nobody there: no error
        process_posix.kill_group(child.pid)
        # Dead but not reaped: it cannot be ended any further, and does not count.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        if sys.platform == "linux":
            assert not process_posix.group_exists(child.pid)
    finally:
        child.kill()
        child.wait()
