"""The command line at a terminal and in a pipe: tables, interrupts, readers that go away."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
import trio

from helpers import SERVERS, alive, assert_gone

ROOT = Path(__file__).parent.parent
PROGRAM = [sys.executable, "-m", "trio_mcp_stdio"]
DEMO = ["--", sys.executable, "-m", "trio_mcp_stdio._cli.demo_server"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "TERM": "xterm"}


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """A test run in the background may ignore SIGINT, and its children would inherit that."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@asynccontextmanager
async def started(
    *args: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE, **env: str
) -> AsyncIterator[trio.Process]:
    """The program, running; killed at the latest when the block is left."""
    process = await trio.lowlevel.open_process(
        [*PROGRAM, *args], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env={**ENVIRONMENT, **env}
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    await stream.aclose()


async def read_all(stream: trio.abc.ReceiveStream | None, *, until: bytes | None = None) -> bytes:
    """Everything up to the end, or up to some bytes."""
    assert stream is not None
    text = b""
    while until is None or until not in text:
        chunk = await stream.receive_some()
        if not chunk:
            assert until is None, f"{until!r} did not come: {text!r}"
            break
        text += chunk
    return text


def terminal(columns: int = 100) -> tuple[int, int]:
    """The two ends of a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    return ours, theirs


def read_terminal(fd: int) -> bytes:
    """What was written to a terminal, up to its last writer's end."""
    text = b""
    while True:
        try:
            chunk = os.read(fd, 65536)
        except OSError:  # Linux says EIO, others an empty read
            chunk = b""
        if not chunk:
            os.close(fd)
            return text
        text += chunk


async def at_terminal(*args: str, columns: int = 100, **env: str) -> tuple[int, str]:
    """Exit code, and what the terminal was sent."""
    ours, theirs = terminal(columns)
    with alive(60):
        async with started(*args, stdout=theirs, stderr=theirs, **env) as process:
            os.close(theirs)
            text = await trio.to_thread.run_sync(read_terminal, ours)
            return await process.wait(), text.decode()


# Terminals


async def test_a_terminal_gets_a_table_that_fits() -> None:
    code, text = await at_terminal("list", *DEMO, columns=60)

    lines = text.splitlines()
    assert code == 0
    assert lines[0] == "\x1b[1mTools: 4\x1b[0m"
    assert "Name" in lines[1]
    assert "\N{BOX DRAWINGS LIGHT HORIZONTAL}" in lines[2]
    assert "from [pause]" in text
    assert "Arguments" in lines[1]


async def test_without_colours_or_on_a_dumb_terminal_the_table_is_readable() -> None:
    _, plain = await at_terminal("list", *DEMO, TERM="dumb")
    _, colourless = await at_terminal("list", *DEMO, NO_COLOR="1")

    assert "\x1b" not in plain
    assert "  NAME       ARGUMENTS     DESCRIPTION\r\n" in plain
    assert "\x1b[3" not in colourless
    assert "Arguments" in colourless


@pytest.mark.parametrize("options", [[], ["--legacy"]])
async def test_demo_is_live_on_a_terminal(options: list[str]) -> None:
    code, text = await at_terminal("demo", *options)

    assert code == 0
    assert "5 of 8, 3 to go" in text
    assert text.count("count down from 8") > 5
    last = text[text.rindex("count down from 8") :]
    assert "\N{BOX DRAWINGS HEAVY HORIZONTAL}" * 20 in last
    assert "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * 20 + "   0." in last
    assert "cancelled by the client" in last
    assert "still running: none" in last
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h")  # the cursor is back


async def test_what_a_tool_prints_cannot_reach_the_terminal_as_it_is() -> None:
    code, text = await at_terminal("call", "nope\x1b]0;x\x07", *DEMO)

    assert code == 5
    assert "\x1b]" not in text
    assert "\x07" not in text


async def test_progress_is_a_bar_on_a_terminal_and_the_result_stays_clean() -> None:
    ours, theirs = terminal()
    with alive():
        async with started(
            "call", "countdown", "from=3", "pause=0.01", "--progress", *DEMO, stderr=theirs
        ) as process:
            os.close(theirs)
            shown = (await trio.to_thread.run_sync(read_terminal, ours)).decode()
            assert await read_all(process.stdout) == b"liftoff\n"
            assert await process.wait() == 0

    assert "countdown" in shown
    assert "3 of 3, now" in shown


# Readers that go away


@pytest.mark.parametrize(
    "args",
    [
        ["list", *DEMO],
        ["list", "--json", *DEMO],
        ["probe", *DEMO],
        ["call", "add", "a=1", "b=1", *DEMO],
        ["demo"],
    ],
)
async def test_closed_stdout_is_no_error_and_says_nothing(args: list[str]) -> None:
    with alive():
        async with started(*args) as process:
            assert process.stdout is not None
            await process.stdout.aclose()
            assert await read_all(process.stderr) == b""
            assert await process.wait() == 0


async def test_closed_stdout_does_not_hide_that_the_tool_failed() -> None:
    with alive():
        async with started("call", "add", "a=x", "b=1", *DEMO) as process:
            assert process.stdout is not None
            await process.stdout.aclose()
            assert await read_all(process.stderr) == b"trio-mcp: the tool reported an error\n"
            assert await process.wait() == 5


async def test_closed_stderr_changes_nothing() -> None:
    with alive():
        async with started("call", "nope", *DEMO) as process:
            assert process.stderr is not None
            await process.stderr.aclose()
            assert await read_all(process.stdout) == b""
            assert await process.wait() == 5


async def test_a_pipeline_that_wants_nothing_is_quiet() -> None:
    command = " ".join(f"'{word}'" for word in [*PROGRAM, "list", *DEMO])
    with alive():
        done = await trio.run_process(
            ["sh", "-c", f"{command} | head -n 0"], capture_stdout=True, capture_stderr=True, env=ENVIRONMENT
        )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# Signals


def server_of(process: trio.Process) -> int:
    (child,) = psutil.Process(process.pid).children()
    return child.pid


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_a_signal_in_the_middle_of_a_call_ends_the_server_quietly(
    signum: signal.Signals, code: int
) -> None:
    with alive():
        async with started(
            "call", "countdown", "from=1000", "pause=0.05", "-q", "--progress", *DEMO
        ) as process:
            shown = await read_all(process.stderr, until=b"progress: 2 of 1000")
            server = server_of(process)
            process.send_signal(signum)
            shown += await read_all(process.stderr)
            assert await read_all(process.stdout) == b""
            assert await process.wait() == code

    assert {line.split()[0] for line in shown.decode().splitlines()} == {"progress:"}
    assert_gone(server)


async def test_interrupted_demo_is_quiet_too() -> None:
    with alive():
        async with started("demo") as process:
            shown = await read_all(process.stdout, until=b"calls at once")
            server = server_of(process)
            process.send_signal(signal.SIGINT)
            await read_all(process.stdout)
            assert await read_all(process.stderr) == b""
            assert await process.wait() == 130

    assert b"cancelled" in shown
    assert_gone(server)


async def test_interrupts_while_a_stubborn_server_is_being_ended_change_nothing(tmp_path: Path) -> None:
    script = tmp_path / "stubborn.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(SERVERS)!r})\n"
        "import wire\n"
        "for request in wire.requests():\n"
        "    wire.err('called\\n')\n"
        "wire.err('deaf\\n')\n"
        "wire.sleep_for_ever()\n"
    )
    with alive(60):
        async with started("call", "x", "--", sys.executable, str(script)) as process:
            shown = await read_all(process.stderr, until=b"called\n")
            server = server_of(process)
            process.send_signal(signal.SIGINT)
            shown += await read_all(process.stderr, until=b"deaf\n")
            process.send_signal(signal.SIGINT)
            shown += await read_all(process.stderr)
            assert await process.wait() == 130

    assert b"Traceback" not in shown
    assert all(b" | " in line for line in shown.splitlines())
    assert_gone(server)


async def test_an_interrupt_after_the_result_leaves_the_result() -> None:
    with alive(60):
        async with started(
            "call", "echo", "text=kept", "--", sys.executable, str(SERVERS / "closing.py"), "idle"
        ) as process:
            out = await read_all(process.stdout, until=b"kept\n")
            server = server_of(process)
            process.send_signal(signal.SIGINT)
            assert await read_all(process.stderr) == b""
            assert await process.wait() == 130

    assert out == b"kept\n"
    assert_gone(server)


async def test_an_interrupt_is_not_lost_while_nobody_reads_the_output(tmp_path: Path) -> None:
    script = tmp_path / "long.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(SERVERS)!r})\n"
        "import wire\n"
        "for request in wire.requests():\n"
        "    wire.reply(request, wire.text('x' * 1_000_000))\n"
    )
    with alive():
        async with started("call", "x", "--", sys.executable, str(script)) as process:
            await read_some(process.stdout)
            server = server_of(process)
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 130

    assert_gone(server)


async def read_some(stream: trio.abc.ReceiveStream | None) -> None:
    assert stream is not None
    assert await stream.receive_some(10)  # type: ignore[call-arg]


async def test_what_is_ignored_from_the_start_stays_ignored() -> None:
    args = ["call", "countdown", "from=6", "pause=0.1", "-q", "--progress", *DEMO]
    with alive():
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            async with started(*args) as process:
                await read_all(process.stderr, until=b"progress: 1 of")
                process.send_signal(signal.SIGHUP)
                assert await read_all(process.stdout) == b"liftoff\n"
                assert await process.wait() == 0
        finally:
            signal.signal(signal.SIGHUP, before)
