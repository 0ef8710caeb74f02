"""stderr of a server: always drained, captured, tagged, and never taken for a failure."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

import trio_mcp_stdio
from helpers import SERVERS, MemoryWatch, alive, both_eras, fake, nothing_left, until
from trio_mcp_stdio import ClientOptions, Era, StderrFile, open_client

EARLY, IN_CALL = 200_000, 1_000_009
"""What the server `stderr flood` writes before its first answer and in a call."""


def sink(name: str, tmp_path: Path) -> Any:
    async def never_returns(line: str) -> None:
        await trio.sleep_forever()

    def raises(line: str) -> None:
        raise ZeroDivisionError(line)

    return {
        "file": StderrFile(tmp_path / "stderr.log"),
        "callback": lambda line: None,
        "stuck callback": never_returns,
        "failing callback": raises,
        "several": ["capture", lambda line: None, StderrFile(tmp_path / "stderr.log")],
    }.get(name, name)


@pytest.mark.field("K016")
@pytest.mark.requirement("STDIO-STREAM-04", "STDIO-STREAM-05", "LEG-FRAME-05", "LEG-FRAME-06")
@pytest.mark.parametrize(
    "name", ["capture", "discard", "log", "file", "callback", "stuck callback", "failing callback", "several"]
)
async def test_flood_of_stderr_is_drained_before_and_during_calls(name: str, tmp_path: Path) -> None:
    with alive(60), nothing_left():
        async with open_client(fake("stderr", "flood", stderr=sink(name, tmp_path))) as client:
            result = await client.call_tool("flood", {"text": "answered"})
            assert result.text == "answered"
            assert (await client.call_tool("echo", {"text": "next"})).text == "next"
        assert client.exit is not None
        assert client.exit.returncode == 0
        if name in ("capture", "several"):
            assert client.exit.stderr_tail.rstrip().endswith("call end")
            assert client.statistics().stderr_bytes == EARLY + IN_CALL
        if name in ("file", "several"):
            written = (tmp_path / "stderr.log").read_bytes()
            assert len(written) == EARLY + IN_CALL
            assert written.startswith(b"e" * 99 + b"\n")
            assert written.endswith(b"c\ncall end\n")


@pytest.mark.field("K016")
@both_eras
@pytest.mark.parametrize("level", [logging.DEBUG, logging.CRITICAL + 1])
async def test_draining_does_not_depend_on_the_log_level(
    era: str, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level, logger="trio_mcp_stdio")
    with alive(60), nothing_left():
        async with open_client(fake("stderr", "flood", era=era, stderr=["capture", "log"])) as client:
            assert (await client.call_tool("flood")).text == "ok"
        assert client.exit is not None
        assert client.exit.stderr_tail.rstrip().endswith("call end")
        assert client.statistics().stderr_bytes == EARLY + IN_CALL


@pytest.mark.field("K016")
async def test_stderr_is_drained_while_the_caller_does_nothing() -> None:
    with alive(60), nothing_left():
        async with open_client(fake("stderr", "flood")) as client:
            await client.notify("notifications/flood")  # nobody waits for anything
            await until(lambda: client.statistics().stderr_bytes == EARLY + IN_CALL)


@pytest.mark.field("K017")
@pytest.mark.requirement("STDIO-STREAM-05", "LEG-FRAME-06")
async def test_stderr_of_a_probe_that_fails_is_kept_but_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with alive(), nothing_left():
        async with open_client(fake("stderr", "probe", era="legacy")) as client:
            assert client.era is Era.LEGACY
            assert (await client.call_tool("echo", {"text": "works"})).text == "works"
            assert client.statistics().stderr_bytes == 70_000
        assert client.exit is not None
        assert client.exit.stderr_tail.rstrip().endswith("ppprobe end")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.field("K017")
async def test_stderr_of_the_probe_is_in_the_error_of_a_later_death() -> None:
    with alive(), nothing_left():
        async with open_client(fake("stderr", "probe", era="legacy")) as client:
            with pytest.raises(trio_mcp_stdio.ServerExited) as caught:
                await client.call_tool("exit")
        assert "probe end" in caught.value.exit.stderr_tail
        assert "probe end" in str(caught.value)
        assert caught.value.exit.returncode == 5


@pytest.mark.field("K018")
async def test_stderr_of_the_host_program_stays_clean_by_default() -> None:
    package = Path(trio_mcp_stdio.__file__).parent.parent
    with alive(60):
        done = await trio.run_process(
            [sys.executable, "-W", "error", str(SERVERS / "client_host.py"), "stderr:lines", "stderr:flood"],
            capture_stdout=True,
            capture_stderr=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(package)},
        )
    assert len(done.stdout.split()) == 2
    assert done.stderr == b""


@pytest.mark.field("K018")
@pytest.mark.requirement("STDIO-STREAM-04")
async def test_stderr_is_captured_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    with alive(), nothing_left():
        async with open_client(fake("stderr", "lines")) as client:
            await client.call_tool("echo")
        assert client.exit is not None
        assert client.exit.stderr_tail.splitlines() == [f"line {number}" for number in range(100)]
    assert capfd.readouterr().err == ""


@pytest.mark.field("K018")
@pytest.mark.requirement("STDIO-STREAM-04", "LEG-FRAME-05")
@both_eras
async def test_lines_of_stderr_go_to_the_chosen_sinks_with_the_name_of_the_server(
    era: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    lines: list[str] = []
    async_lines: list[str] = []

    async def append(line: str) -> None:
        await trio.lowlevel.checkpoint()
        async_lines.append(line)

    sinks = [lines.append, append, "log", StderrFile(tmp_path / "stderr.log")]
    with alive(), nothing_left():
        async with open_client(fake("stderr", "lines", era=era, name="talker", stderr=sinks)) as client:
            await client.call_tool("echo")
    expected = [f"line {number}" for number in range(100)]
    assert lines == expected
    assert async_lines == expected
    assert (tmp_path / "stderr.log").read_text().splitlines() == expected
    logged = [record for record in caplog.records if record.name == "trio_mcp_stdio.stderr.talker"]
    assert [record.getMessage() for record in logged] == expected
    assert capfd.readouterr().err == ""


@pytest.mark.field("K018")
@pytest.mark.requirement("STDIO-STREAM-04")
async def test_stderr_goes_to_the_one_of_the_host_when_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    with alive(), nothing_left():
        async with open_client(fake("stderr", "lines", stderr="inherit")) as client:
            await client.call_tool("echo")
    assert [line for line in capfd.readouterr().err.splitlines() if "line 42" in line] != []


@pytest.mark.field("K019")
@both_eras
@pytest.mark.parametrize("with_callback", [False, True])
async def test_memory_stays_flat_under_endless_stderr_without_newline(era: str, with_callback: bool) -> None:
    lines: list[str] = []
    server = fake(
        "stderr", "endless", era=era, stderr=["capture", lines.append] if with_callback else "capture"
    )
    with alive(120), nothing_left():
        async with open_client(server) as client:
            await client.call_tool("echo")
            with MemoryWatch() as memory:
                await client.call_tool("flood")
                while client.statistics().stderr_bytes < 50 * 2**20:
                    assert (await client.call_tool("echo", {"text": "works"})).text == "works"
            assert memory.growth < 16 * 2**20
        assert client.exit is not None
        assert client.exit.stderr_tail.strip("x") != client.exit.stderr_tail
        assert len(client.exit.stderr_tail) <= server.stderr_bytes + 200
    if with_callback:
        assert len(lines) >= 1
        assert sum(map(len, lines)) < 2**20
        assert lines[0].startswith("x" * 1000)
        assert lines[0].strip("x") != ""  # the mark where the line was cut


@pytest.mark.field("K019")
async def test_size_of_the_kept_tail_is_a_setting() -> None:
    with alive(), nothing_left():
        async with open_client(fake("stderr", "flood", stderr_bytes=1000)) as client:
            await client.call_tool("flood")
        assert client.exit is not None
        assert 900 <= len(client.exit.stderr_tail) <= 1200
        assert client.exit.stderr_tail.rstrip().endswith("call end")


@pytest.mark.field("K020")
@pytest.mark.requirement("STDIO-STREAM-05", "LEG-FRAME-06")
@both_eras
@pytest.mark.parametrize("policy", ["capture", "log"])
async def test_words_on_stderr_are_information_only(
    era: str, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with alive(), nothing_left():
        async with open_client(
            fake("stderr", "hint", era=era, stderr=policy), ClientOptions(strict=True)
        ) as client:
            assert (await client.call_tool("echo")).text == "ok"
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
            assert client.statistics().noise == 0
        assert client.exit is not None
        assert client.exit.returncode == 0
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
