"""Closing a server: bounded, in the right order, without losing work."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import pytest
import trio

from helpers import (
    ERAS,
    PATIENT,
    QUICK,
    alive,
    assert_gone,
    assert_plain,
    both_eras,
    fake,
    is_running,
    nothing_left,
    until,
    wait_gone,
)
from trio_mcp_stdio import (
    ClientOptions,
    ClientState,
    RequestTimeout,
    ShutdownTimeouts,
    StartupTimeout,
    StdioServer,
    open_client,
    run_client,
)


@pytest.mark.field("K001")
@pytest.mark.requirement("STDIO-PROC-04", "STDIO-PROC-05", "LEG-SHUT-01")
@both_eras
async def test_server_that_ignores_eof_is_ended_by_sigterm_and_its_answer_is_kept(era: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("closing", "idle", era=era, timeouts=QUICK)) as client:
            result = await client.call_tool("echo", {"text": "kept"})

        assert client.exit is not None
        assert (client.exit.ending, client.exit.signal) == ("terminated", signal.SIGTERM)
        assert client.exit.returncode == -signal.SIGTERM
        assert client.exit.expected
        assert client.state is ClientState.CLOSED
        assert_gone(client.pid)
    assert result.text == "kept"


@pytest.mark.field("K001")
async def test_answer_outlives_a_slow_close_that_is_itself_cancelled() -> None:
    result = None
    with alive(), nothing_left():
        with trio.CancelScope() as scope:
            async with open_client(fake("closing", "idle", timeouts=QUICK)) as client:
                result = await client.call_tool("echo", {"text": "kept"})
                scope.cancel()
        assert client.exit is not None
        assert client.exit.ending == "terminated"
        assert_gone(client.pid)
    assert result is not None
    assert result.text == "kept"


@pytest.mark.field("K001")
async def test_slow_close_is_bounded_for_a_client_that_runs_as_a_task() -> None:
    with alive(), nothing_left():
        async with trio.open_nursery() as nursery:
            client = await nursery.start(run_client, fake("closing", "idle", timeouts=QUICK))
            result = await client.call_tool("echo", {"text": "kept"})
            client.stop()
            ended = await client.wait_closed()
        assert ended == client.exit
        assert ended is not None
        assert ended.ending == "terminated"
        assert_gone(client.pid)
    assert result.text == "kept"


@pytest.mark.field("K002")
@pytest.mark.requirement("STDIO-PROC-02", "STDIO-PROC-03", "LEG-SHUT-01")
@both_eras
async def test_server_that_leaves_by_itself_after_eof_gets_no_signal(era: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    with alive(), nothing_left():
        async with open_client(fake("closing", "slow", marker, 0.3, era=era)) as client:
            await client.call_tool("echo")
        assert marker.read_text() == "clean"
        assert client.exit is not None
        assert (client.exit.ending, client.exit.returncode, client.exit.signal) == ("exited", 0, None)
        assert client.exit.expected
        assert_gone(client.pid)


@pytest.mark.field("K002")
async def test_default_grace_period_is_enough_for_a_server_that_needs_300_ms(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    defaults = ShutdownTimeouts()
    assert (defaults.flush, defaults.exit, defaults.term, defaults.reap) == (0.5, 2.0, 2.0, 2.0)
    with alive(), nothing_left():
        async with open_client(fake("closing", "slow", marker, 0.3, timeouts=defaults)) as client:
            await client.call_tool("echo")
        assert marker.read_text() == "clean"


@pytest.mark.field("K002")
@pytest.mark.requirement("STDIO-PROC-18")
async def test_output_after_eof_is_drained_so_that_the_server_can_finish(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    with alive(), nothing_left():
        async with open_client(fake("closing", "talkative", marker, 0)) as client:
            await client.call_tool("echo")
        assert marker.read_text() == "clean"
        assert client.exit is not None
        assert (client.exit.ending, client.exit.returncode) == ("exited", 0)
        assert client.statistics().bytes_received > 1_000_000
        assert client.statistics().stderr_bytes == 1_001_000


WAYS_OUT = ("close", "error", "cancel", "call timeout", "stop", "failed connect", "cancelled connect")


async def open_and_leave(way: str, server: StdioServer, started: Path) -> None:
    """Open a client and leave it in one of the `WAYS_OUT`."""
    if way == "failed connect":
        with pytest.raises(StartupTimeout) as caught:
            async with open_client(server, ClientOptions(probe_timeout=0.1, startup_timeout=2.0)):
                pytest.fail("nobody answered")
        assert_plain(caught.value, server)
    elif way == "cancelled connect":
        async with trio.open_nursery() as nursery:

            async def connect() -> None:
                async with open_client(server):
                    pytest.fail("nobody answered")

            nursery.start_soon(connect)
            await until(started.exists)
            nursery.cancel_scope.cancel()
    elif way == "stop":
        async with trio.open_nursery() as nursery:
            client = await nursery.start(run_client, server)
            client.stop()
    elif way == "error":
        with pytest.raises(ZeroDivisionError):
            async with open_client(server):
                raise ZeroDivisionError
    else:
        with trio.CancelScope() as scope:
            async with open_client(server) as client:
                await client.call_tool("echo")
                if way == "cancel":
                    scope.cancel()
                elif way == "call timeout":
                    with pytest.raises(RequestTimeout):
                        await client.call_tool("hang", timeout=0.1)


@pytest.mark.field("K003")
@pytest.mark.requirement("STDIO-PROC-02", "STDIO-PROC-03")
@pytest.mark.parametrize("way", WAYS_OUT)
async def test_eof_is_delivered_before_any_signal_on_every_way_out(way: str, tmp_path: Path) -> None:
    marker, pid_file = tmp_path / "marker", tmp_path / "marker.pid"
    server = fake("relay", "mute" if "connect" in way else "serve", marker, timeouts=PATIENT)
    worker = 0
    try:
        with alive(60), nothing_left():
            await open_and_leave(way, server, pid_file)
            worker = int(pid_file.read_text())

            assert marker.read_text() == "eof"
            await wait_gone(worker)
    finally:
        if worker and is_running(worker):
            os.kill(worker, signal.SIGKILL)


@pytest.mark.field("K003")
async def test_eof_is_delivered_before_any_signal_after_an_unanswered_ping(tmp_path: Path) -> None:
    marker, pid_file = tmp_path / "marker", tmp_path / "marker.pid"
    server = fake("relay", "serve", marker, era="legacy")
    worker = 0
    try:
        with alive(60), nothing_left():
            async with open_client(server) as client:
                worker = int(pid_file.read_text())
                with pytest.raises(RequestTimeout):
                    await client.request("ping", timeout=0.1)
            assert marker.read_text() == "eof"
            await wait_gone(worker)
    finally:
        if worker and is_running(worker):
            os.kill(worker, signal.SIGKILL)


@pytest.mark.field("K004")
@pytest.mark.requirement("STDIO-PROC-04", "STDIO-PROC-05", "LEG-SHUT-01")
@both_eras
async def test_server_that_ignores_eof_and_sigterm_is_killed(era: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("closing", "stubborn", era=era, timeouts=QUICK)) as client:
            await client.call_tool("echo")
        assert client.exit is not None
        assert (client.exit.ending, client.exit.signal) == ("killed", signal.SIGKILL)
        assert client.exit.returncode == -signal.SIGKILL
        assert client.exit.expected
        assert_gone(client.pid)


@pytest.mark.field("K004")
async def test_time_until_sigkill_is_what_the_grace_periods_say() -> None:
    waits = ShutdownTimeouts(flush=0.1, exit=0.6, term=0.9, reap=30.0)
    with alive(), nothing_left():
        async with open_client(fake("closing", "stubborn", timeouts=waits)) as client:
            await client.call_tool("echo")
            began = trio.current_time()
        # Not earlier than both waits; how much later depends on the machine.
        assert trio.current_time() - began >= waits.exit + waits.term
        assert client.exit is not None
        assert client.exit.ending == "killed"


@pytest.mark.field("K005")
@pytest.mark.slow
async def test_longer_grace_period_lets_a_slow_server_finish(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    waits = ShutdownTimeouts(exit=6.0)
    with alive(), nothing_left():
        async with open_client(fake("closing", "slow", marker, 4, timeouts=waits)) as client:
            await client.call_tool("echo")
        assert marker.read_text() == "clean"
        assert client.exit is not None
        assert (client.exit.ending, client.exit.returncode) == ("exited", 0)


@pytest.mark.field("K005")
async def test_grace_periods_belong_to_the_server_definition(tmp_path: Path) -> None:
    markers = [tmp_path / "patient", tmp_path / "hurried"]
    patient = fake("closing", "slow", markers[0], 1, timeouts=PATIENT)
    hurried = fake("closing", "slow", markers[1], 30, timeouts=ShutdownTimeouts(exit=0.1, term=30.0))
    with alive(60), nothing_left():
        async with open_client(patient) as first, open_client(hurried) as second:
            await first.call_tool("echo")
            await second.call_tool("echo")
        assert [marker.read_text() for marker in markers] == ["clean", "dirty"]
        assert first.exit is not None
        assert second.exit is not None
        assert (first.exit.ending, first.exit.returncode) == ("exited", 0)
        assert (second.exit.ending, second.exit.returncode) == ("terminated", 1)


@pytest.mark.field("K006")
@pytest.mark.parametrize("times", [5, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("era", ERAS)
async def test_normal_close_is_silent(era: str, times: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with alive(120), nothing_left():
        for number in range(times):
            async with open_client(fake("echo", era=era)) as client:
                result = await client.call_tool("echo", {"text": str(number)})
            assert result.text == str(number)
            assert client.exit is not None
            assert (client.exit.returncode, client.exit.ending) == (0, "exited")
            assert client.exit.expected
            assert client.exit.stderr_tail == ""
            assert client.exit.leftovers == ()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
