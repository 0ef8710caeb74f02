"""The README: its two commands, the output it shows, and what it says of itself.

Its programs and other commands are run by tests/test_documentation.py.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import trio_mcp_stdio
from tests.test_documentation import Block, blocks_of, normalized
from trio_mcp_stdio import Client
from trio_mcp_stdio._wire import methods

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TEXT = README.read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def marked(comment: str) -> Block:
    (block,) = [block for block in blocks_of(README) if block.comment == comment]
    return block


def test_the_two_commands_start_from_a_bare_python() -> None:
    for comment, end in (("demo-command", ".venv/bin/trio-mcp demo"), ("test-command", "-m pytest -n 4")):
        (command,) = marked(comment).text.splitlines()
        make, install, start = command.split(" && ")

        assert marked(comment).language == "sh"
        assert make == "python3 -m venv .venv"
        assert set(re.findall(r"\[([\w,-]+)\]", install)) <= set(PROJECT["optional-dependencies"])
        assert start.endswith(end)


def test_the_demo_prints_what_is_shown() -> None:
    shown = marked("demo-output").text
    done = subprocess.run(
        [sys.executable, "-m", "trio_mcp_stdio", "demo"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    # Calls end in another order on a loaded machine.
    assert sorted(normalized(done.stdout).splitlines()) == sorted(normalized(shown).splitlines())


def test_what_is_not_there_yet_is_said_and_true() -> None:
    _, _, status = TEXT.partition("## Status")

    assert f"Version {trio_mcp_stdio.__version__} is the client" in status
    for missing in ("the server side", "caching", "tasks", "restart"):
        assert missing in status
    assert not {"Server", "serve_stdio", "RestartPolicy"} & set(trio_mcp_stdio.__all__)
    assert not hasattr(Client, "tasks")


def test_the_revisions_that_are_named_are_those_that_are_spoken() -> None:
    named = set(re.findall(r"\d{4}-\d{2}-\d{2}", TEXT.partition("## What it guarantees")[2]))

    assert named == {*methods.MODERN_VERSIONS, methods.LEGACY_VERSIONS[0], methods.LEGACY_VERSIONS[-1]}


def test_python_version_and_licence_are_those_of_the_package() -> None:
    assert f"Python {PROJECT['requires-python'].removeprefix('>=')} or newer" in TEXT
    assert PROJECT["license"] in TEXT.partition("## Licence")[2]
    assert (ROOT / "LICENSE").is_file()
