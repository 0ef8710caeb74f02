"""Environments of the peers: made by ``python -m benchmarks --set-up``, apart from the project's own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import attrs
import trio

from .processes import cache_directory

_COMPLETE = "complete"  # written last: a folder without it is made again


@attrs.frozen
class Environment:
    """A virtual environment with pinned packages.

    Attributes:
        name: short name, for the folder.
        shown: what it stands for in tables.
        requirements: what pip installs.
    """

    name: str
    shown: str
    requirements: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Its place; another pin, or another Python, means another folder."""
        recipe = "\n".join((sys.version, sys.prefix, *self.requirements))
        return cache_directory() / f"{self.name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"

    @property
    def python(self) -> str | None:
        """Its interpreter, None while it has not been made."""
        return str(self._interpreter()) if (self.folder / _COMPLETE).exists() else None

    def make(self) -> None:
        """Make it, with plain pip and the settings that the user has.

        Raises:
            subprocess.CalledProcessError: pip failed, and has said why.
        """
        if self.python is not None:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        venv.create(self.folder, with_pip=True)
        pip = [str(self._interpreter()), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", *self.requirements], check=True)
        # Compiled now, so that the first measured start is like the others.
        subprocess.run([str(self._interpreter()), "-m", "compileall", "-q", str(self.folder)], check=False)
        (self.folder / _COMPLETE).touch()

    def _interpreter(self) -> Path:
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


# On the trio of the interpreter that runs this, so that both clients stand on the same one.
OFFICIAL = Environment("official", "mcp 2.3.0 on trio", ("mcp==2.3.0", f"trio=={trio.__version__}"))

ALL = (OFFICIAL,)


def make_all() -> None:
    """Make what is missing."""
    for environment in ALL:
        known = environment.python is not None
        print(f"{environment.shown}: {'there already' if known else 'installing'}", flush=True)
        environment.make()
    print(f"kept in {cache_directory()}")
