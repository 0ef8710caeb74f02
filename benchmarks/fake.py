"""The fake server: which one this machine can have, and how it is started."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

import attrs

from .processes import cache_directory

_SOURCES = Path(__file__).with_name("servers")
_FLAGS = ("-O2",)

Language = Literal["c", "python"]


@attrs.frozen
class FakeServer:
    """A server that can be started.

    Attributes:
        language: what it is written in.
        command: how it is started, less its arguments.
    """

    language: Language
    command: tuple[str, ...]

    def start(self, era: str, text_bytes: int, counters: Path | None = None) -> list[str]:
        """The command line of a server for one measurement."""
        return [*self.command, era, str(text_bytes), *([] if counters is None else [str(counters)])]


def find_compiler() -> str | None:
    """A C compiler, the one that CC names before others."""
    names = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


def fake_server(language: Language | None = None) -> FakeServer:
    """The server in C where it can be compiled, else the one in Python; or the one asked for.

    Raises:
        OSError: the one in C was asked for, and there is no compiler.
        subprocess.CalledProcessError: it was asked for, and does not compile.
    """
    if language != "python":
        try:
            return FakeServer("c", (str(_compile()),))
        except (OSError, subprocess.CalledProcessError):
            if language == "c":
                raise
    # Without site packages it starts faster, and nothing that is installed can get in its way.
    return FakeServer("python", (sys.executable, "-I", "-S", str(_SOURCES / "fake_server.py")))


def _compile() -> Path:
    source = _SOURCES / "fake_server.c"
    recipe = source.read_bytes() + " ".join((*_FLAGS, platform.machine(), sys.platform)).encode()
    program = cache_directory() / f"fake_server-{hashlib.sha256(recipe).hexdigest()[:12]}"
    if program.exists():
        return program
    compiler = find_compiler()
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    program.parent.mkdir(parents=True, exist_ok=True)
    new = program.with_suffix(f".{os.getpid()}")
    subprocess.run([compiler, *_FLAGS, "-o", str(new), str(source)], check=True, capture_output=True)
    new.replace(program)
    return program
