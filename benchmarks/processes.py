"""Fresh processes, each of which measures one thing and prints it as JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import platformdirs

ROOT = Path(__file__).parent.parent
"""The checkout that is measured."""

LIMIT = 600.0
"""Seconds after which a process counts as hung."""


class ChildFailed(Exception):
    """A process ended with an error, or printed no JSON."""


def cache_directory() -> Path:
    """Where everything is kept that takes time to make; may be deleted at any time."""
    return Path(platformdirs.user_cache_dir("trio_mcp_stdio-benchmarks", appauthor=False))


def run_driver(python: str, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Run a module of `benchmarks.drivers` with an interpreter; return what it printed."""
    return run_json([python, "-m", f"benchmarks.drivers.{name}", json.dumps(parameters)])


def run_json(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a command that sees the checkout; return the JSON object that it printed.

    Raises:
        ChildFailed: it failed; the text has the end of its stderr.
    """
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ChildFailed(f"{' '.join(command)[:200]}: not done after {LIMIT:.0f} s") from None
    try:
        if done.returncode == 0:
            printed: dict[str, Any] = json.loads(done.stdout)
            return printed
    except ValueError:
        pass
    said = (done.stderr or done.stdout).decode(errors="replace")
    raise ChildFailed(f"{' '.join(command)[:200]}: exit {done.returncode}: {said[-2000:]}")
