"""Servers that end, or half end, while a client uses them: callers are told at once, plainly, in full."""

from __future__ import annotations

import pickle
import signal
from pathlib import Path

import pytest
import trio
import trio.testing

from helpers import (
    PATIENT,
    QUICK,
    alive,
    assert_exited,
    assert_gone,
    assert_plain,
    both_eras,
    fake,
    nothing_left,
)
from trio_mcp_stdio import (
    Client,
    ClientOptions,
    ClientState,
    ConnectionLost,
    Delivery,
    ServerExited,
    open_client,
)


async def lose_calls(client: Client, count: int, last: str) -> list[ConnectionLost]:
    """Start calls without any timeout, the last one of a tool of its own; the error of each."""
    lost: list[ConnectionLost] = []

    async def call(name: str) -> None:
        with pytest.raises(ConnectionLost) as caught:
            await client.call_tool(name, timeout=None)
        lost.append(caught.value)

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(call, "hold" if number < count - 1 else last)
            if number == count - 2:
                await trio.testing.wait_all_tasks_blocked()
    return lost


@pytest.mark.field("K067")
@pytest.mark.requirement("STDIO-PROC-11")
@both_eras
@pytest.mark.parametrize("how", ["status", "signal"])
async def test_death_during_calls_fails_all_of_them_with_status_and_stderr(era: str, how: str) -> None:
    mode = ["on-call", 1] if how == "status" else ["killed-on-call"]
    server = fake("deaths", *mode, era=era, name="brittle")
    expected = {"status": 1} if how == "status" else {"killed_by": signal.SIGKILL}
    with alive(), nothing_left():
        async with open_client(server) as client:
            lost = await lose_calls(client, 3, "crash")
            assert len(lost) == 3
            for error in lost:
                assert_exited(error, server, stderr="Traceback: the tool broke", **expected)  # type: ignore[arg-type]
                assert error.delivery is Delivery.OUTCOME_UNKNOWN
                assert error.method == "tools/call"
                assert not error.exit.expected
                again = pickle.loads(pickle.dumps(error))
                assert (str(again), again.exit) == (str(error), error.exit)
            with pytest.raises(ServerExited) as caught:
                await client.call_tool("late")
            assert_exited(caught.value, server, stderr="Traceback: the tool broke", **expected)  # type: ignore[arg-type]
            assert caught.value.delivery is Delivery.NOT_SENT
            assert await client.wait_closed() == client.exit
            assert client.state is ClientState.FAILED
            assert_gone(client.pid)


@pytest.mark.field("K068")
@both_eras
@pytest.mark.parametrize("how", ["usage", "silent", "signal"])
@pytest.mark.parametrize("mode", ["auto", "modern", "legacy"])
async def test_death_at_the_start_fails_the_connect_at_once_with_everything_known(
    era: str, how: str, mode: str
) -> None:
    arguments = {"usage": ["at-once", 2], "silent": ["at-once", 0], "signal": ["killed-at-once"]}[how]
    server = fake("deaths", *arguments, era=era, name="brittle")
    options = ClientOptions(era=mode, startup_timeout=600, probe_timeout=600)
    with alive(), nothing_left(), pytest.raises(ServerExited) as caught:
        async with open_client(server, options):
            pytest.fail("connected")
    error = caught.value
    if how == "signal":
        assert_exited(error, server, killed_by=signal.SIGKILL, stderr="out of memory")
    elif how == "usage":
        assert_exited(error, server, status=2, stderr="usage: bad flag --x")
    else:
        assert_exited(error, server, status=0)
    assert error.phase == ("probe" if mode == "modern" else "initialize")
    assert error.phase in str(error)
    assert error.command[0] == server.command
    assert not error.exit.expected
    assert_gone(error.exit.pid)


@pytest.mark.field("K069")
@both_eras
@pytest.mark.parametrize("leave", ["wait", "leave"])
async def test_end_of_stdout_fails_calls_now_and_starts_the_shutdown(era: str, leave: str) -> None:
    server = fake("deaths", "close-stdout", era=era, timeouts=QUICK, name="brittle")
    with alive(), nothing_left():
        async with open_client(server) as client:
            lost = await lose_calls(client, 3, "hold")
            assert len(lost) == 3
            for error in lost:
                assert_plain(error, server)
                assert "stdout" in str(error)
                assert error.delivery is Delivery.OUTCOME_UNKNOWN
            if leave == "wait":
                ended = await client.wait_closed()
                assert ended is not None
                assert ended.ending == "terminated"
                assert_gone(client.pid)
        assert client.exit is not None
        assert (client.exit.ending, client.exit.signal) == ("terminated", signal.SIGTERM)
        assert_gone(client.pid)


@pytest.mark.field("K070")
@both_eras
async def test_failed_write_ends_the_session_and_the_process(era: str) -> None:
    server = fake("deaths", "close-stdin", era=era, timeouts=QUICK, name="brittle")
    with alive(), nothing_left():
        async with open_client(server) as client:
            assert (await client.call_tool("echo", {"text": "last"})).text == "last"
            lost = await lose_calls(client, 3, "hold")
            assert len(lost) == 3
            for error in lost:
                assert_plain(error, server)
                assert "stdin" in str(error)
                assert error.delivery is Delivery.NOT_SENT
            ended = await client.wait_closed()
            assert ended is not None
            assert ended.ending in ("terminated", "exited")  # SIGTERM, or EPIPE from its next log line
            assert_gone(client.pid)
            with pytest.raises(ConnectionLost) as caught:
                await client.call_tool("echo")
            assert_plain(caught.value, server)


@pytest.mark.field("K071")
@both_eras
async def test_answers_before_an_exit_are_delivered_and_exit_zero_is_unexpected(era: str) -> None:
    server = fake("deaths", "after-three", era=era, name="brittle", timeouts=PATIENT)
    found: list[str] = []
    with alive(), nothing_left():
        async with open_client(server) as client:

            async def call(text: str) -> None:
                found.append((await client.call_tool("echo", {"text": text})).text)

            async with trio.open_nursery() as nursery:
                for text in ("a", "b", "c"):
                    nursery.start_soon(call, text)
            assert sorted(found) == ["a", "b", "c"]
            ended = await client.wait_closed()
            assert ended is not None
            assert (ended.returncode, ended.ending, ended.expected) == (0, "exited", False)
            with pytest.raises(ServerExited) as caught:
                await client.call_tool("echo")
            assert_exited(caught.value, server, status=0)
            assert_gone(client.pid)


@pytest.mark.field("K068")
async def test_death_on_the_probe_costs_one_more_start_at_most(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with alive(), nothing_left(), pytest.raises(ServerExited) as caught:
        async with open_client(fake("negotiates", journal, "always-dies")):
            pytest.fail("connected")
    assert caught.value.exit.returncode == 1
    assert caught.value.phase == "initialize"
    assert journal.read_text().split() == ["start", "server/discover", "start", "initialize"]
