"""Process trees: wrappers, orphans, zombies, and leaks on every way out."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import trio

import trio_mcp_stdio
from helpers import (
    QUICK,
    SERVERS,
    alive,
    assert_exited,
    assert_gone,
    assert_plain,
    assert_tells,
    both_eras,
    children,
    count_fds,
    fake,
    is_running,
    needs_proc,
    nothing_left,
    until,
    wait_gone,
)
from trio_mcp_stdio import (
    Client,
    ClientOptions,
    ClientState,
    McpError,
    ServerExited,
    ShutdownTimeouts,
    StartupTimeout,
    StdioServer,
    open_client,
)


async def ask_pid(client: Client, tool: str = "pid") -> int:
    return int((await client.call_tool(tool)).text)


def wrapped(mode: str) -> StdioServer:
    """The server `closing` as the child of a shell that forwards no signals."""
    command = shlex.join([sys.executable, str(SERVERS / "closing.py"), mode])
    return StdioServer("/bin/sh", ["-c", f"{command}; exit $?"], name="wrapped", timeouts=QUICK)


@pytest.mark.field("K008")
@pytest.mark.requirement("STDIO-PROC-04", "STDIO-PROC-05")
@pytest.mark.parametrize(("mode", "ending"), [("idle", "terminated"), ("stubborn", "terminated")])
async def test_whole_group_of_a_shell_wrapper_is_ended(mode: str, ending: str) -> None:
    with alive(), nothing_left():
        async with open_client(wrapped(mode)) as client:
            pid = await ask_pid(client)
            assert client.pid is not None
            assert pid != client.pid
            assert os.getpgid(pid) == client.pid
            assert os.getpgid(pid) != os.getpgid(0)
        assert not is_running(pid)
        assert_gone(client.pid)
        assert client.exit is not None
        assert client.exit.ending == ending


@pytest.mark.field("K008")
@pytest.mark.parametrize("mode", ["idle", "stubborn"])
async def test_group_of_a_shell_wrapper_is_ended_when_the_scope_is_cancelled(mode: str) -> None:
    with alive(), nothing_left():
        with trio.CancelScope() as scope:
            async with open_client(wrapped(mode)) as client:
                pid = await ask_pid(client)
                scope.cancel()
        assert not is_running(pid)
        assert_gone(client.pid)


@pytest.mark.field("K008")
async def test_helper_left_by_a_server_that_exited_cleanly_is_ended() -> None:
    # What is left may be the real server, so it has the whole time for the exit to go by itself.
    server = fake("launcher", "leftover", timeouts=ShutdownTimeouts(exit=2.0, term=30.0))
    with alive(), nothing_left():
        async with open_client(server) as client:
            helper = await ask_pid(client, "helper")
        assert not is_running(helper)
        assert_gone(client.pid)
        assert client.exit is not None
        assert (client.exit.returncode, client.exit.ending) == (0, "exited")
        assert client.exit.leftovers == (helper,)


@pytest.mark.field("K008")
async def test_helper_left_by_a_server_stays_when_the_sweep_is_off() -> None:
    with alive(), nothing_left():
        async with open_client(fake("launcher", "leftover", sweep=False)) as client:
            helper = await ask_pid(client, "helper")
        try:
            assert is_running(helper)
        finally:
            os.kill(helper, signal.SIGKILL)
            await wait_gone(helper)


@pytest.mark.field("K009")
@both_eras
async def test_worker_outlives_its_launcher_that_exits_before_the_handshake(era: str) -> None:
    silence = 0.2
    server = fake("launcher", "handover", era=era, timeouts=QUICK, exit_silence=silence)
    with alive(), nothing_left():
        async with open_client(server) as client:
            worker = await ask_pid(client)
            assert worker != client.pid
            # Much longer than the silence (and the search for an exit status) that would end a server which
            # lost its process after the handshake.
            await trio.sleep(silence + 2.5)
            assert (await client.call_tool("echo", {"text": "still here"})).text == "still here"
            assert client.state is ClientState.READY
            assert [child for child in children() if child.status() == psutil.STATUS_ZOMBIE] == []
        assert not is_running(worker)
        assert_gone(client.pid)


@pytest.mark.field("K009")
async def test_silent_worker_of_a_launcher_that_exited_is_waited_for_within_the_startup_limit() -> None:
    server = fake("launcher", "mute", timeouts=QUICK, exit_silence=0.1)
    with alive(), nothing_left():
        began = trio.current_time()
        with pytest.raises(StartupTimeout) as caught:
            async with open_client(server, ClientOptions(probe_timeout=0.3, startup_timeout=1.5)):
                pytest.fail("nobody answered")
        assert trio.current_time() - began >= 1.5
        assert_tells(caught.value, server)
        assert caught.value.timeout == 1.5


@pytest.mark.field("K009")
@pytest.mark.requirement("STDIO-PROC-11")
@both_eras
async def test_crash_is_noticed_although_a_helper_holds_stdout(era: str) -> None:
    server = fake("launcher", "helper", era=era, timeouts=QUICK, exit_silence=0.3)
    with alive(), nothing_left():
        async with open_client(server) as client:
            helper = await ask_pid(client, "helper")
            with pytest.raises(ServerExited) as caught:
                await client.call_tool("crash")
            assert_exited(caught.value, server, status=3)
            with pytest.raises(McpError) as caught_later:
                await client.call_tool("echo")
            assert_plain(caught_later.value, server)
        assert not is_running(helper)
        assert_gone(client.pid)
        assert client.exit is not None
        assert (client.exit.returncode, client.exit.expected) == (3, False)


@pytest.mark.field("K010")
@pytest.mark.requirement("STDIO-PROC-05")
async def test_server_that_spins_is_killed_and_uses_no_more_processor() -> None:
    with alive(), nothing_left():
        async with open_client(fake("closing", "spin", timeouts=QUICK)) as client:
            pid = await ask_pid(client)
            assert pid == client.pid
        assert client.exit is not None
        assert (client.exit.ending, client.exit.signal) == ("killed", signal.SIGKILL)
        assert_gone(pid)


@pytest.mark.field("K011")
@pytest.mark.requirement("STDIO-PROC-19")
@needs_proc
@pytest.mark.parametrize("times", [5, pytest.param(50, marks=pytest.mark.slow)])
async def test_clients_left_by_cancellation_in_mid_call_leave_no_child(times: int) -> None:
    with alive(180), nothing_left():
        for _ in range(times):
            with trio.CancelScope() as scope:
                async with open_client(fake("calls")) as client, trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "hang")
                    await client.call_tool("echo")
                    assert client.statistics().in_flight == 1
                    scope.cancel()
            assert scope.cancelled_caught
            assert_gone(client.pid)
        assert children() == []


@pytest.mark.field("K011")
@needs_proc
@pytest.mark.slow
async def test_fifty_clients_open_at_once_leave_no_child_when_all_are_cancelled() -> None:
    ready = 0

    async def stay(nursery: trio.Nursery) -> None:
        nonlocal ready
        async with open_client(fake("calls"), ClientOptions(probe_timeout=60)) as client:
            await client.call_tool("echo")
            ready += 1
            if ready == 50:
                nursery.cancel_scope.cancel()
            await client.call_tool("hang")

    with alive(180), nothing_left():
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(stay, nursery)
        assert ready == 50
        assert children() == []


@pytest.mark.field("K012")
@pytest.mark.requirement("STDIO-PROC-19")
@pytest.mark.parametrize(("script", "mode"), [("calls", ""), ("closing", "idle"), ("closing", "stubborn")])
async def test_process_is_gone_when_a_cancelled_block_has_unwound(script: str, mode: str) -> None:
    after_block = False
    with alive(), nothing_left():
        async with trio.open_nursery() as outer:
            async with open_client(fake(script, mode, timeouts=QUICK)) as client:
                pid = await ask_pid(client)
                outer.cancel_scope.cancel()
                await client.call_tool("hang", timeout=None)
            after_block = True
        assert outer.cancel_scope.cancelled_caught  # the cancellation went on
        assert not after_block
        assert_gone(pid)


@pytest.mark.field("K012")
async def test_outer_deadline_leaves_as_the_plain_error_of_trio() -> None:
    with alive(), nothing_left():
        with pytest.raises(trio.TooSlowError):  # noqa: PT012 - it passes through the block
            async with open_client(fake("calls")) as client:
                with trio.fail_after(0.1):
                    await client.call_tool("hang")
        assert_gone(client.pid)


@pytest.mark.field("K012")
async def test_clean_up_is_bounded_although_it_is_shielded() -> None:
    waits = ShutdownTimeouts(flush=0.1, exit=0.2, term=0.2, reap=5.0)
    with alive(), nothing_left():
        with trio.CancelScope() as scope:
            async with open_client(fake("closing", "stubborn", timeouts=waits)) as client:
                await client.call_tool("echo")
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        assert client.exit is not None
        assert client.exit.ending == "killed"
        assert_gone(client.pid)


async def fail_to_connect(server: StdioServer, options: ClientOptions) -> None:
    with pytest.raises(McpError) as caught:
        async with open_client(server, options):
            pytest.fail("the answer was no answer")
    assert_tells(caught.value, server, stderr="about to answer wrongly")


@pytest.mark.field("K013")
@pytest.mark.requirement("LEG-INIT-10")
@needs_proc
@pytest.mark.parametrize("times", [10, pytest.param(200, marks=pytest.mark.slow)])
async def test_failed_connects_leave_children_and_descriptors_flat(times: int) -> None:
    options = ClientOptions(era="legacy")
    with alive(240), nothing_left():
        fds = count_fds()
        for _ in range(times):
            await fail_to_connect(fake("bad_start", "result"), options)
            # Released before the error was raised, not some time later.
            assert children() == []
            assert count_fds() == fds


@pytest.mark.field("K013")
@needs_proc
@pytest.mark.parametrize("mode", ["line", "result"])
async def test_failed_connects_in_parallel_leave_nothing(mode: str) -> None:
    options = ClientOptions(probe_timeout=0.2, startup_timeout=1.0)
    with alive(60), nothing_left():
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(fail_to_connect, fake("bad_start", mode, timeouts=QUICK), options)


@pytest.mark.field("K014")
@both_eras
async def test_exit_of_an_idle_server_is_awaited_at_once(era: str) -> None:
    server = fake("calls", era=era)
    with alive(), nothing_left():
        async with open_client(server) as client:
            assert (await client.call_tool("last")).text == "ok"
            await until(lambda: not children())  # nobody asks the client for anything
            ended = await client.wait_closed()
            assert ended is not None
            assert (ended.returncode, ended.ending, ended.expected) == (0, "exited", False)
            assert_gone(client.pid)
            with pytest.raises(ServerExited) as caught:
                await client.call_tool("echo")
            assert_exited(caught.value, server, status=0)


@pytest.fixture
def host(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A host program with a client for each of the given fake servers."""
    package = Path(trio_mcp_stdio.__file__).parent.parent
    process = subprocess.Popen(
        [sys.executable, str(SERVERS / "client_host.py"), *request.param],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(package)},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


async def pids_of(host: subprocess.Popen[str]) -> list[int]:
    assert host.stdout is not None
    return [int(word) for word in (await trio.to_thread.run_sync(host.stdout.readline)).split()]


@pytest.mark.field("K015")
@pytest.mark.parametrize("host", [["echo", "echo", "echo"]], indirect=True)
async def test_servers_see_eof_when_the_host_is_killed(host: subprocess.Popen[str]) -> None:
    with alive():
        pids = await pids_of(host)
        assert len(pids) == 3
        assert all(map(is_running, pids))
        host.kill()
        await trio.to_thread.run_sync(host.wait)
        for pid in pids:
            await wait_gone(pid)


@pytest.mark.field("K015")
@pytest.mark.requirement("STDIO-PROC-01")
@needs_proc
async def test_server_inherits_three_pipes_and_nothing_else(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        with alive(), nothing_left():
            async with open_client(fake("calls")) as first, open_client(fake("calls")) as second:
                for client in (first, second):
                    lines = (await client.call_tool("fds")).text.splitlines()
                    assert [line.split()[0] for line in lines] == ["0", "1", "2"]
                    assert all(line.split()[1].startswith(("pipe:", "socket:")) for line in lines)
