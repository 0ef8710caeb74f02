"""What a server is started with, and starts that fail or take their time."""

from __future__ import annotations

import inspect
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import trio

import trio_mcp_stdio
from helpers import (
    SERVERS,
    alive,
    assert_gone,
    assert_plain,
    both_eras,
    count_fds,
    fake,
    logged,
    needs_proc,
    nothing_left,
)
from scripted import complaints
from trio_mcp_stdio import (
    ClientOptions,
    Era,
    RequestTimeout,
    Secret,
    ServerExited,
    SpawnError,
    StartupTimeout,
    StdioServer,
    open_client,
)

SAFE = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TZ", "TMPDIR"}
ROOT = Path(trio_mcp_stdio.__file__).parent.parent


def launched(*arguments: object, command: str = sys.executable, **settings: Any) -> StdioServer:
    """A server of launches.py that gets no variable of the test's own."""
    return StdioServer(
        command, [str(SERVERS / "launches.py"), *map(str, arguments or ("-", "plain"))], **settings
    )


def real(path: Path) -> str:
    """How a process names its working directory."""
    return str(path.resolve())


def is_directory(path: str) -> bool:
    return Path(path).is_dir()


async def ask(server: StdioServer, tool: str) -> Any:
    """Connect, let the server tell something, leave."""
    with alive():
        async with open_client(server) as client:
            return json.loads((await client.call_tool(tool)).text)


@pytest.mark.field("K081")
@both_eras
async def test_stdin_stays_open_for_a_slow_start(era: str) -> None:
    options = ClientOptions(probe_timeout=0.2)
    with alive(), nothing_left():
        async with open_client(fake("launches", "-", "slow", 1, era=era), options) as client:
            assert client.era is Era(client.era)
            assert client.era is (Era.MODERN if era == "modern" else Era.LEGACY)
            assert (await client.call_tool("echo", {"text": "works"})).text == "works"
        assert client.exit is not None
        assert (client.exit.returncode, client.exit.ending) == (0, "exited")


@pytest.mark.field("K082")
@both_eras
async def test_startup_limit_names_what_arrived_only_after_eof(era: str) -> None:
    server = fake("launches", "-", "hoard", era=era, name="hoarder")
    with alive(), nothing_left(), pytest.raises(StartupTimeout) as caught:
        async with open_client(server, ClientOptions(startup_timeout=0.6, probe_timeout=0.2)):
            pytest.fail("connected")
    error = caught.value
    assert_plain(error, server)
    assert error.exit is not None
    assert (error.exit.returncode, error.exit.ending) == (0, "exited")
    assert_gone(error.exit.pid)
    assert len(error.received) >= 2  # the answers to the probe and to initialize
    for sentence in error.received:
        assert sentence in str(error)
    assert len([sentence for sentence in error.received if "after the end of its input" in sentence]) == 2


@pytest.mark.field("K082")
@both_eras
async def test_late_bytes_during_close_do_no_harm(era: str, caplog: pytest.LogCaptureFixture) -> None:
    with alive(), nothing_left():
        async with open_client(fake("launches", "-", "afterwards", era=era)) as client:
            with pytest.raises(RequestTimeout):
                await client.call_tool("hold", timeout=0.05)
            assert (await client.call_tool("echo", {"text": "works"})).text == "works"
        assert client.exit is not None
        assert (client.exit.returncode, client.exit.ending, client.exit.expected) == (0, "exited", True)
    assert [message for message in complaints(caplog) if "good bye" not in message] == []


@pytest.mark.field("K084", "K085")
@pytest.mark.requirement("STDIO-PROC-17", "LEG-INIT-13")
@both_eras
async def test_credentials_go_through_the_environment_and_never_over_the_wire(era: str) -> None:
    log, options = logged()
    with alive(), nothing_left():
        async with open_client(
            fake("launches", "-", "plain", era=era, env={"API_KEY": "k3y"}), options
        ) as client:
            found = json.loads((await client.call_tool("environ")).text)
            assert found["API_KEY"] == "k3y"
    sent = json.dumps(log.sent)
    assert "k3y" not in sent
    assert "authorization" not in sent.lower()


@pytest.mark.field("K084")
async def test_variables_are_passed_on_by_name_by_pattern_or_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere")
    monkeypatch.setenv("OTHER", "x")
    with nothing_left():
        plain = await ask(launched(), "environ")
        assert plain.keys().isdisjoint({"HTTPS_PROXY", "XDG_CONFIG_HOME", "OTHER"})
        named = await ask(launched(inherit=["HTTPS_PROXY", "XDG_CONFIG_HOME", "NOT_SET"]), "environ")
        assert named["HTTPS_PROXY"] == "http://proxy:3128"
        assert named["XDG_CONFIG_HOME"] == "/somewhere"
        assert named.keys().isdisjoint({"OTHER", "NOT_SET"})
        pattern = await ask(launched(inherit=["XDG_*"], env={"OTHER": "mine"}), "environ")
        assert pattern["XDG_CONFIG_HOME"] == "/somewhere"
        assert pattern["OTHER"] == "mine"
        assert "HTTPS_PROXY" not in pattern
        everything = await ask(launched(inherit=["*"]), "environ")
        assert os.environ.items() <= everything.items()


@pytest.mark.field("K084")
def test_documentation_names_the_proxy_variables() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    documentation = [inspect.getdoc(StdioServer) or "", *(page.read_text() for page in pages)]
    assert any("HTTPS_PROXY" in page and "inherit" in page for page in documentation)


@pytest.mark.field("K085")
@pytest.mark.parametrize("given", [None, {"A": "1"}, {"PATH": os.defpath, "A": ""}])
async def test_given_variables_are_added_to_the_safe_ones_only(
    given: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cr3t")
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("HOME", "/home/of/nobody")
    with nothing_left():
        found = await ask(launched(env=given), "environ")
    given = given or {}
    assert given.items() <= found.items()
    assert "s3cr3t" not in repr(found)
    extra = {name for name in found.keys() - given.keys() if not name.startswith("LC_")}
    assert extra <= SAFE
    assert found["HOME"] == "/home/of/nobody"
    assert found["LC_TIME"] == "C"
    assert found["PATH"] == given.get("PATH", os.environ["PATH"])


@pytest.mark.field("K086")
async def test_errors_repr_and_logs_never_show_values_of_variables_or_secret_arguments(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    missing = StdioServer(
        "no-such-cmd-xyz", ["--key", Secret("s3cr3t-key"), "visible"], env={"TOKEN": "s3cr3t-token"}
    )
    with alive(), nothing_left(), pytest.raises(SpawnError) as caught:
        async with open_client(missing):
            pytest.fail("connected")
    error = caught.value
    assert_plain(error, missing)
    shown = [str(error), repr(error), repr(error.argv), repr(vars(error)), repr(missing), str(missing)]
    shown += [caplog.text, repr(pickle.loads(pickle.dumps(error))), *traceback.format_exception(error)]
    assert not any("s3cr3t" in text for text in shown)
    assert "no-such-cmd-xyz" in str(error)
    assert "visible" in repr(missing)
    assert "TOKEN" in repr(missing)


@pytest.mark.field("K086")
async def test_secret_arguments_reach_the_server_and_stay_out_of_its_death(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    script = str(SERVERS / "launches.py")
    server = StdioServer(
        sys.executable, [script, "-", "plain", Secret("s3cr3t-key")], env={"TOKEN": "s3cr3t-token"}
    )
    with nothing_left():
        assert (await ask(server, "arguments"))[-1] == "s3cr3t-key"
        assert (await ask(server, "environ"))["TOKEN"] == "s3cr3t-token"
    caplog.clear()  # the observer's own text above; what follows is only the package's
    dying = StdioServer(
        sys.executable, [str(SERVERS / "deaths.py"), "at-once", "2", Secret("s3cr3t-key")], env=server.env
    )
    with alive(), nothing_left(), pytest.raises(ServerExited) as caught:
        async with open_client(dying):
            pytest.fail("connected")
    error = caught.value
    for text in (str(error), repr(error), repr(error.command), repr(vars(error)), caplog.text, repr(dying)):
        assert "s3cr3t" not in text
    assert "at-once" in str(error)
    assert pickle.loads(pickle.dumps(server)) == server


@pytest.mark.field("K087")
@pytest.mark.parametrize("what", ["missing", "file"])
async def test_bad_working_directory_is_named(what: str, tmp_path: Path) -> None:
    cwd = tmp_path / "place"
    if what == "file":
        cwd.write_text("")
    server = launched(cwd=cwd)
    with alive(), nothing_left(), pytest.raises(SpawnError) as caught:
        async with open_client(server):
            pytest.fail("connected")
    assert_plain(caught.value, server)
    assert str(cwd) in str(caught.value)
    assert "director" in str(caught.value)


@pytest.mark.field("K087")
async def test_good_working_directory_is_used(tmp_path: Path) -> None:
    with nothing_left():
        assert await ask(launched(cwd=tmp_path), "cwd") == real(tmp_path)
        assert await ask(launched(cwd=str(tmp_path)), "cwd") == real(tmp_path)


@pytest.mark.field("K088")
@pytest.mark.parametrize("path", [None, "{tmp}/a:{tmp}/b"])
async def test_unknown_command_is_reported_with_the_path_that_was_searched(
    path: str | None, tmp_path: Path
) -> None:
    searched = os.environ["PATH"] if path is None else path.format(tmp=tmp_path)
    server = StdioServer("no-such-cmd-xyz", ["--x"], env={} if path is None else {"PATH": searched})
    with alive(), nothing_left(), pytest.raises(SpawnError) as caught:
        async with open_client(server):
            pytest.fail("connected")
    error = caught.value
    assert_plain(error, server)
    assert error.path == searched
    assert searched in str(error)
    assert error.argv == ("no-such-cmd-xyz", "--x")
    assert "no-such-cmd-xyz" in str(error)


@pytest.mark.field("K088")
@pytest.mark.parametrize("kind", ["not executable", "no shebang", "bad interpreter", "directory"])
@pytest.mark.parametrize("given", ["path", "name"])
async def test_command_that_cannot_run_is_reported(kind: str, given: str, tmp_path: Path) -> None:
    script = tmp_path / "my-server"
    if kind == "directory":
        script.mkdir()
    else:
        script.write_text({"bad interpreter": "#!/no/such/interpreter\n"}.get(kind, "print('hello')\n"))
        script.chmod(0o644 if kind == "not executable" else 0o755)
    if given == "path":
        server = StdioServer(str(script))
    else:
        server = StdioServer("my-server", env={"PATH": f"{tmp_path}:{os.defpath}"})
    with alive(), nothing_left(), pytest.raises(SpawnError) as caught:
        async with open_client(server):
            pytest.fail("connected")
    error = caught.value
    assert_plain(error, server)
    assert "my-server" in str(error)
    if given == "path" or kind != "directory":
        assert str(script) in str(error)
    if kind in ("no shebang", "bad interpreter"):
        assert isinstance(error.__cause__, OSError)


@pytest.mark.field("K088")
async def test_command_is_looked_up_in_the_path_of_the_child_and_relative_to_its_directory(
    tmp_path: Path,
) -> None:
    script = tmp_path / "my-server"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {SERVERS / "launches.py"} "$@"\n')
    script.chmod(0o755)
    with nothing_left():
        by_name = StdioServer("my-server", ["-", "plain"], env={"PATH": f"{tmp_path}:{os.defpath}"})
        assert (await ask(by_name, "arguments"))[1:] == ["-", "plain"]
        by_path = StdioServer("./my-server", ["-", "plain"], cwd=tmp_path)
        assert await ask(by_path, "cwd") == real(tmp_path)


@pytest.mark.field("K089")
@pytest.mark.parametrize("given", [False, True], ids=["default", "cwd given"])
async def test_removed_working_directory_of_the_client_gives_a_clear_error_or_a_valid_one(
    given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    server = launched(cwd=tmp_path) if given else launched()
    with nothing_left():
        try:
            found = await ask(server, "cwd")
        except SpawnError as exc:
            error: SpawnError | None = exc
        else:
            error = None
            assert is_directory(found)
    if error is not None:
        assert not given
        assert_plain(error, server)
        assert "director" in str(error)


def start_host(command: list[str]) -> subprocess.Popen[str]:
    """A program of its own process group that uses the server with this command."""
    return subprocess.Popen(
        [sys.executable, str(SERVERS / "interrupted_host.py"), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


@pytest.mark.field("K095")
@pytest.mark.requirement("STDIO-PROC-02")
async def test_interrupt_of_the_foreground_group_reaches_only_the_host(tmp_path: Path) -> None:
    log = tmp_path / "log"
    host = start_host([sys.executable, str(SERVERS / "launches.py"), "-", "interrupts", str(log)])
    with host:
        try:
            with alive(60):
                assert host.stdout is not None
                assert await trio.to_thread.run_sync(host.stdout.readline) == "ready\n"
                os.killpg(host.pid, signal.SIGINT)
                out, err = await trio.to_thread.run_sync(host.communicate)
        finally:
            host.kill()
    assert out == "ended exited 0\ninterrupted\n"
    assert err == ""
    assert log.read_text() == "eof\n"


@pytest.mark.field("K096")
@needs_proc
async def test_server_sees_eof_while_a_later_one_lives_and_gets_three_descriptors(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        with alive(), nothing_left():
            async with trio.open_nursery() as nursery:
                first = await nursery.start(trio_mcp_stdio.run_client, fake("launches", "-", "plain"))
                second = await nursery.start(trio_mcp_stdio.run_client, fake("launches", "-", "plain"))
                first.stop()
                ended = await first.wait_closed()
                assert ended is not None
                assert (ended.returncode, ended.ending) == (0, "exited")
                assert json.loads((await second.call_tool("fds")).text) == [0, 1, 2]
                second.stop()


@pytest.mark.field("K097")
@needs_proc
@pytest.mark.parametrize(
    ("connects", "crashes", "failures"),
    [
        pytest.param(30, 10, 10, id="some"),
        pytest.param(1000, 200, 200, id="all", marks=pytest.mark.slow),
    ],
)
async def test_descriptors_stay_flat_over_many_connections(
    connects: int, crashes: int, failures: int
) -> None:
    def light(script: str, *arguments: str) -> StdioServer:
        """Started without the site module, which is most of the time of a start."""
        return StdioServer(sys.executable, ["-S", "-E", str(SERVERS / f"{script}.py"), *arguments])

    counts: list[int] = []
    with alive(900), nothing_left():
        for _ in range(connects):
            async with open_client(light("launches", "-", "plain")) as client:
                await client.call_tool("echo")
            counts.append(count_fds())
        for _ in range(crashes):
            async with open_client(light("deaths", "on-call", "1")) as client:
                with pytest.raises(ServerExited):
                    await client.call_tool("crash")
            counts.append(count_fds())
        for number in range(failures):
            broken = [light("deaths", "at-once", "2"), StdioServer("no-such-cmd-xyz")][number % 2]
            with pytest.raises((ServerExited, SpawnError)):
                async with open_client(broken):
                    pytest.fail("connected")
            counts.append(count_fds())
    assert set(counts) == {counts[0]}


@pytest.mark.field("K120")
@both_eras
async def test_one_process_serves_every_call_of_a_client(era: str, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    with alive(), nothing_left():
        async with open_client(fake("launches", starts, "plain", era=era)) as client:
            for number in range(100):
                assert (await client.call_tool("echo", {"text": f"{number}"})).text == f"{number}"
    assert starts.read_text().split() == [str(client.pid)]
