"""How environments of peers are made, kept, made again, and skipped; no registry is asked here."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import psutil
import pytest

from tests.peers import environments
from tests.peers.catalogue import ALL_PEERS, ENVIRONMENTS
from tests.peers.environments import (
    NodeEnvironment,
    PythonEnvironment,
    Unavailable,
    build,
    cache_directory,
    folder_of,
    is_complete,
    need,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory, and a process that has built nothing yet."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TRIO_MCP_PEERS_DIR", str(folder))
    for name in ("_built", "_failed", "_unreachable"):
        monkeypatch.setattr(environments, name, {})
    return folder


Installer = Callable[[Path, tuple[str, ...]], None]


@attrs.define
class Installs:
    """Stands in for pip: counts, and does what a test wants."""

    what: Installer
    times: int = 0

    def __call__(self, venv: Path, requirements: tuple[str, ...], limit: float) -> None:
        self.times += 1
        assert 0 < limit <= environments.BUILD_LIMIT
        self.what(venv, requirements)


def link_interpreter(venv: Path, requirements: tuple[str, ...]) -> None:
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to(sys.executable)


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> Installs:
    stand_in = Installs(link_interpreter)
    monkeypatch.setattr(environments, "_install_python", stand_in)
    return stand_in


needs_links = pytest.mark.skipif(sys.platform == "win32", reason="puts a link in the place of an interpreter")

TRIAL = "open('tried', 'a').write('x')"
SOME = PythonEnvironment("some", ("thing==1.0",), ("-c", TRIAL))


def runs(pid: int) -> bool:
    """Whether a process runs; one that only waits for its parent's interest does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def forget() -> None:
    """As a new process would begin."""
    environments._built.clear()
    environments._failed.clear()
    environments._unreachable.clear()


def test_every_requirement_is_pinned() -> None:
    for environment in ENVIRONMENTS:
        at = "@" if isinstance(environment, NodeEnvironment) else "=="
        for requirement in environment.requirements:
            name, _, version = requirement.rpartition(at)
            assert name
            assert version[0].isdigit()
    assert len({peer.name for peer in ALL_PEERS}) == len(ALL_PEERS)


def test_folders_depend_on_all_that_is_installed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = {folder_of(environment) for environment in ENVIRONMENTS}
    assert len(folders) == len(ENVIRONMENTS)
    assert {folder.parent for folder in folders} == {cache} == {cache_directory()}
    assert folder_of(SOME) == folder_of(attrs.evolve(SOME, start=("elsewhere.py",)))
    assert folder_of(SOME) != folder_of(attrs.evolve(SOME, requirements=("thing==1.1",)))
    before = folder_of(SOME)
    monkeypatch.setattr(environments.platform, "python_version", lambda: "3.99.1")
    assert folder_of(SOME) != before


def test_the_default_is_the_cache_directory_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIO_MCP_PEERS_DIR")
    assert cache_directory().name == "trio_mcp_stdio-peers"


@needs_links
def test_an_environment_is_made_once_and_tried(installs: Installs) -> None:
    assert not is_complete(SOME)
    folder = build(SOME)
    assert is_complete(SOME)
    assert build(SOME) == folder == folder_of(SOME)
    forget()
    assert need(SOME) == folder
    assert installs.times == 1
    assert (folder / "tried").read_text() == "x"


@needs_links
def test_a_half_made_environment_is_made_again(installs: Installs) -> None:
    folder = folder_of(SOME)
    (folder / "venv/bin").mkdir(parents=True)
    (folder / "debris").write_text("half of something")
    assert build(SOME) == folder
    assert not (folder / "debris").exists()
    assert installs.times == 1


@needs_links
def test_an_environment_whose_interpreter_is_gone_is_made_again(installs: Installs) -> None:
    link = build(SOME) / "venv/bin/python"
    link.unlink()
    link.symlink_to("/no/such/interpreter")
    forget()
    assert not is_complete(SOME)
    build(SOME)
    assert is_complete(SOME)
    assert installs.times == 2


@needs_links
def test_a_server_that_fails_its_trial_is_no_peer(installs: Installs) -> None:
    broken = attrs.evolve(SOME, start=("-c", "raise SystemExit('no such module as x')"))
    with pytest.raises(Unavailable, match=r"exit 1: no such module as x"):
        build(broken)
    assert not is_complete(broken)
    with pytest.raises(pytest.skip.Exception, match=r"some: .*no such module as x"):
        need(broken)
    assert installs.times == 1


@needs_links
@pytest.mark.parametrize("waiting", ["time.sleep(60)", "pass"], ids=["itself", "for-its-child"])
def test_a_trial_is_bounded_and_ended_with_its_children(
    installs: Installs, monkeypatch: pytest.MonkeyPatch, waiting: str
) -> None:
    script = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open("child", "w").write(str(child.pid))
"""
    monkeypatch.setattr(environments, "BUILD_LIMIT", 1.0)
    monkeypatch.setattr(environments, "LEAST_TRIAL", 1.0)
    stuck = attrs.evolve(SOME, start=("-c", script + waiting))
    with pytest.raises(Unavailable, match="timed out after 1 s") as caught:
        build(stuck)
    assert not caught.value.unreachable
    deadline = time.monotonic() + 30
    while runs(int((folder_of(stuck) / "child").read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_registry_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(venv: Path, requirements: tuple[str, ...]) -> None:
        said = "Retrying after NewConnectionError: Network is unreachable\\nERROR: No matching distribution"
        script = f"print({said!r}); raise SystemExit(1)"
        environments._run("pip install", [sys.executable, "-c", script], 60)

    stand_in = Installs(unreachable)
    monkeypatch.setattr(environments, "_install_python", stand_in)
    with pytest.raises(pytest.skip.Exception, match="Network is unreachable"):
        need(SOME)
    with pytest.raises(pytest.skip.Exception, match=r"other: .*Network is unreachable"):
        need(attrs.evolve(SOME, name="other"))
    assert stand_in.times == 1


def test_another_failure_costs_one_environment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(venv: Path, requirements: tuple[str, ...]) -> None:
        environments._run(
            "pip install", [sys.executable, "-c", "raise SystemExit('No matching distribution for it')"], 60
        )

    stand_in = Installs(refused)
    monkeypatch.setattr(environments, "_install_python", stand_in)
    for environment in (SOME, SOME, attrs.evolve(SOME, name="other")):
        with pytest.raises(Unavailable, match="No matching distribution"):
            build(environment)
    assert stand_in.times == 2


def test_a_place_that_cannot_be_written_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRIO_MCP_PEERS_DIR", str(tmp_path / "file/below"))
    with pytest.raises(Unavailable, match="cannot make it in"):
        build(SOME)
