"""The documentation tells the truth: programs run, outputs and defaults are the real ones, links work.

Every ``python`` block of the README and of docs/ is a complete program and is run as one, in a folder of its
own; a comment ``<!-- not run: reason -->`` before it is the only exception. A ``text`` block after
``<!-- output -->`` is compared with what the program printed. Commands of ``sh`` blocks that begin with
``trio-mcp`` are run as well.

Programs and commands that start a published server with ``uvx`` find a program of that name in front of their
PATH, which starts the same server from the environment that the tests keep for it.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest

import trio_mcp_stdio
from tests.peers.catalogue import TIME
from tests.peers.environments import need
from trio_mcp_stdio import Client, ClientOptions, ClientStatistics, McpError, ShutdownTimeouts, StdioServer
from trio_mcp_stdio import types as wire_types
from trio_mcp_stdio._cli.exits import Exit
from trio_mcp_stdio._connection.transports import _POSIX_VARIABLES, _WINDOWS_VARIABLES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MEASURED = {"conformance.md", "benchmarks.md"}
"""Pages that are made, in whole or in part, by programs of their own."""
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in DOCS.rglob("*.md") if page.name not in MEASURED and "_build" not in page.parts),
]
PUBLISHED = {"mcp-server-time": TIME}
"""What `uvx` can start here."""

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="stands a shell script in for a program")


# Pages


@attrs.frozen
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    comment: str
    """The text of the comment right before it, empty without one."""
    output: str | None = None
    """What the page says that it prints."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"

    @property
    def is_run(self) -> bool:
        return not self.comment.startswith("not run: ")


def _blocks(page: Path) -> Iterator[Block]:
    comment, fence, start, body = "", "", 0, list[str]()
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if fence:
            if line.rstrip() == "```":
                yield Block(page, start, fence[3:], "".join(f"{each}\n" for each in body), comment)
                fence = comment = ""
            else:
                body.append(line)
        elif line.startswith("```"):
            fence, start, body = line.rstrip(), number, []
        elif found := re.fullmatch(r"<!-- (.*) -->", line):
            comment = found[1]
        elif line.strip():
            comment = ""
    assert not fence, f"{page}: the block of line {start} is not closed"


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page; outputs have joined the blocks that print them."""
    blocks: list[Block] = []
    for block in _blocks(page):
        if block.comment == "output":
            blocks[-1] = attrs.evolve(blocks[-1], output=block.text)
        else:
            blocks.append(block)
    return blocks


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
PROGRAMS = [block for block in BLOCKS if block.language == "python" and block.is_run]
COMMANDS = [
    attrs.evolve(block, text=line, line=block.line + number)
    for block in BLOCKS
    if block.language == "sh"
    for number, line in enumerate(block.text.splitlines(), 1)
    if line.startswith("trio-mcp ")
]


def each(blocks: Sequence[Block]) -> pytest.MarkDecorator:
    """Parametrises a test over blocks; those that need a published server are marked."""
    return pytest.mark.parametrize(
        "block",
        [
            pytest.param(block, id=str(block), marks=[pytest.mark.peers] if "uvx" in block.text else [])
            for block in blocks
        ],
    )


def normalized(text: str) -> str:
    """A text in which all numbers with a decimal point are alike, and those that the system chose."""
    text = re.sub(r"(?<![\d.])\d+\.\d+(?![\d.]*\d)", "#", text)  # but not 0.1.0
    return re.sub(r"\b(process +|request |pid )\d+", r"\1#", text)


@attrs.frozen
class Table:
    """A table of a page, its cells without the padding."""

    heading: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def tables_of(page: Path) -> list[Table]:
    """The tables of a page, each with the heading that it stands under."""
    tables: list[Table] = []
    heading, inside = "", False
    for line in page.read_text("utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not line.startswith("|"):
            inside = False
            continue
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        if not inside:
            tables.append(Table(heading, cells, []))
        elif not set(line) <= set("|-: "):
            tables[-1].rows.append(cells)
        inside = True
    return tables


def code_of(cell: str) -> str:
    """The first code span of a cell, empty without one."""
    found = re.search(r"`([^`]+)`", cell)
    return "" if found is None else found[1]


# Programs and commands


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory in which this package can be imported, by a program there and by its children."""
    (tmp_path / "trio_mcp_stdio").symlink_to(Path(trio_mcp_stdio.__file__).parent)
    return tmp_path


def variables(folder: Path, block: Block) -> dict[str, str]:
    """The environment for a program: its PATH begins with stand-ins for what a reader has installed."""
    programs = {"python": [sys.executable], "trio-mcp": [sys.executable, "-m", "trio_mcp_stdio"]}
    if "uvx" in block.text:
        (name,) = [name for name in PUBLISHED if name in block.text]
        need(PUBLISHED[name].environment)
        programs["uvx"] = PUBLISHED[name].command()
    bin = folder / "bin"
    bin.mkdir()
    for program, command in programs.items():
        drop = "shift\n" if program == "uvx" else ""  # the name of the package
        words = " ".join(f"'{word}'" for word in command)
        (bin / program).write_text(f'#!/bin/sh\n{drop}exec {words} "$@"\n')
        (bin / program).chmod(0o755)
    unwanted = {"PYTHONPATH", "PYTHONWARNINGS", "PYTEST_ADDOPTS"}
    environ = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {**environ, "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}", "PYTHONUTF8": "1"}


def run(command: list[str], folder: Path, block: Block) -> str:
    """Run to the end; it has to succeed and to say nothing on stderr. Returns what it printed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables(folder, block),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), f"{block}\n{done.stdout}{done.stderr}"
    return done.stdout


@on_posix
@each(PROGRAMS)
def test_program_runs_and_prints_what_the_page_says(block: Block, folder: Path) -> None:
    (folder / "program.py").write_text(block.text, "utf-8")

    printed = run([sys.executable, "-W", "error", "program.py"], folder, block)

    if block.output is not None:
        assert normalized(printed) == normalized(block.output)


@on_posix
@each(COMMANDS)
def test_command_works(block: Block, folder: Path) -> None:
    quiet = block.text.replace(" -- ", " --quiet -- ").replace(" --progress", "")

    printed = run(["sh", "-c", quiet], folder, block)

    assert printed
    if block.output is not None:
        assert normalized(printed) == normalized(block.output)


def test_exceptions_from_running_are_few_and_give_a_reason() -> None:
    left_out = [block for block in BLOCKS if block.language == "python" and not block.is_run]

    assert len(left_out) <= 2
    assert all(len(block.comment) > len("not run: ") for block in left_out)
    assert len(PROGRAMS) > 20
    assert len(COMMANDS) > 5


def test_blocks_are_of_known_languages() -> None:
    known = {"python", "sh", "text", "{toctree}", "{eval-rst}", "{glossary}"}

    assert [str(block) for block in BLOCKS if block.language not in known] == []


def test_what_finds_blocks_finds_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        textwrap.dedent("""\
            ```python
            print(1.5)
            ```

            <!-- output -->
            ```text
            2.5
            ```

            <!-- not run: a reason -->

            ```python
            ...
            ```
            <!-- a comment -->
            A sentence.
            ```sh
            true
            ```
        """)
    )

    program, left_out, command = blocks_of(page)

    assert (program.line, program.text, program.output) == (1, "print(1.5)\n", "2.5\n")
    assert (left_out.is_run, left_out.output) == (False, None)
    assert (command.language, command.comment) == ("sh", "")
    assert normalized("1.50 s, 0.1.0, process  7, 3") == "# s, 0.1.0, process  #, 3"


# Links


def anchors_of(page: Path) -> set[str]:
    """The anchors that the headings of a page make."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    broken = []
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        if not goal.exists() or (anchor and anchor not in anchors_of(goal)):
            broken.append(target)

    assert broken == []


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = [
        line
        for block in blocks_of(DOCS / "index.md")
        if block.language == "{toctree}"
        for line in block.text.splitlines()
        if line and not line.startswith(":")
    ]
    existing = {
        page.relative_to(DOCS).with_suffix("").as_posix()
        for page in DOCS.rglob("*.md")
        if not {"_build", "changes"} & set(page.parts)
    }

    assert len(listed) == len(set(listed))
    assert {*listed, "index"} == existing


def test_sphinx_builds_without_a_warning(tmp_path: Path) -> None:
    missing = [name for name in ("sphinx", "myst_parser") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} cannot be found; the extra docs brings it")
    output = [tmp_path / "html", "-d", tmp_path / "doctrees"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", DOCS, *output],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "html" / "index.html").exists()


# The reference

REFERENCE = DOCS / "reference.md"


def headings_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {heading.replace("\\", "") for heading in headings}


def fields_of(cls: Any) -> list[str]:
    return [field.name for field in attrs.fields(cls)]


def example_of(name: str) -> Any:
    """A definition that gives nothing but what it has to."""
    required = {"StdioServer": ["bin/server"], "StreamTransport": [_no_stream]}
    return getattr(trio_mcp_stdio, name)(*required.get(name, []))


async def _no_stream() -> Any: ...


def request_defaults() -> dict[str, object]:
    """The keywords that every request takes."""
    parameters = inspect.signature(Client._request).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}


def test_every_public_name_has_its_place_in_the_reference() -> None:
    exceptions = [
        name
        for name in trio_mcp_stdio.__all__
        if inspect.isclass(value := getattr(trio_mcp_stdio, name)) and issubclass(value, McpError)
    ]
    (table,) = [table for table in tables_of(REFERENCE) if table.columns[0] == "exception"]

    assert {code_of(row[0]) for row in table.rows} == set(exceptions)
    assert set(trio_mcp_stdio.__all__) - set(exceptions) - headings_of(REFERENCE) == set()


def test_every_method_of_a_client_is_in_the_reference() -> None:
    methods = [name for name, _ in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")]
    text = REFERENCE.read_text("utf-8")

    assert len(methods) > 10
    assert [name for name in methods if not re.search(rf"`(await )?{name}\(", text)] == []


@pytest.mark.parametrize(
    "name",
    ["ClientOptions", "Validation", "StdioServer", "StreamTransport", "ShutdownTimeouts", "RequestOptions"],
)
def test_settings_and_their_defaults_in_the_reference(name: str) -> None:
    (table,) = [table for table in tables_of(REFERENCE) if table.heading == name]
    documented = {code_of(row[0]): row[1] for row in table.rows}
    if name == "RequestOptions":
        actual = request_defaults()
        assert set(actual) == set(trio_mcp_stdio.RequestOptions.__annotations__)
    else:
        example = example_of(name)
        actual = {field: getattr(example, field) for field in fields_of(type(example))}

    assert table.columns[:2] == ("name", "default")
    assert set(documented) == set(actual)
    namespace = {**vars(trio_mcp_stdio), "types": wire_types}
    for field, default in documented.items():
        if default == "base name of `command`":
            assert actual[field] == "server"
        elif default != "required":
            assert eval(code_of(default), namespace) == actual[field], field


def test_attributes_in_the_reference() -> None:
    tables = [table for table in tables_of(REFERENCE) if table.columns[0] == "attribute"]

    for table in tables:
        cls = getattr(trio_mcp_stdio, table.heading)
        members = {name: value for base in cls.__mro__ for name, value in vars(base).items()}
        properties = {name for name, value in members.items() if isinstance(value, property)}
        expected = fields_of(cls) if attrs.has(cls) else {name for name in properties if name[0] != "_"}
        assert {code_of(row[0]) for row in table.rows} == set(expected), table.heading
    assert {"Client", "ClientStatistics", "ProcessExit"} <= {table.heading for table in tables}


def test_attributes_of_exceptions_in_the_reference() -> None:
    (table,) = [table for table in tables_of(REFERENCE) if table.columns[0] == "exception"]

    for row in table.rows:
        cls = getattr(trio_mcp_stdio, code_of(row[0]))
        _, _, section = (inspect.getdoc(cls) or "").partition("Attributes:\n")
        named = set(re.findall(r"^    (\w+):", section, re.MULTILINE))
        named |= {name for name, value in vars(cls).items() if isinstance(value, property)}
        assert set(re.findall(r"`(\w+)`", row[2])) == named, cls.__name__


def test_the_tree_of_exceptions_in_the_reference() -> None:
    (tree,) = [block.text for block in blocks_of(REFERENCE) if block.text.startswith("McpError\n")]
    path: list[str] = []
    for line in tree.splitlines():
        name = line.lstrip("│├└─ ")
        depth = (len(line) - len(name)) // 3
        path[depth:] = [name]
        cls = getattr(trio_mcp_stdio, name)
        assert cls.__bases__ == ((getattr(trio_mcp_stdio, path[depth - 1]),) if depth else (Exception,))

    assert tree.count("\n") == sum(
        inspect.isclass(value) and issubclass(value, McpError) for value in vars(trio_mcp_stdio).values()
    )


# Limits and bounds

UNITS = {"KiB": 2**10, "MiB": 2**20}


def number_of(text: str) -> float:
    """A number as the tables write it: 1,024 or 8 MiB or 0.5."""
    digits, _, unit = text.replace(",", "").partition(" ")
    return float(digits) * (UNITS[unit] if unit else 1)


def actual_of(name: str) -> float:
    """The value of a setting (`ClientOptions.era`) or of a constant (`_wire.lines.KEPT`) in the code."""
    owner, _, attribute = name.rpartition(".")
    if owner.startswith("_"):
        return getattr(importlib.import_module(f"trio_mcp_stdio.{owner}"), attribute)
    return getattr(example_of(owner), attribute)


@pytest.mark.parametrize("name", ["timeouts.md", "backpressure.md"])
def test_defaults_in_the_tables_are_those_of_the_code(name: str) -> None:
    checked = 0
    for table in tables_of(DOCS / name):
        assert table.columns[0] in {"limit", "bound", "constant"}
        for row in table.rows:
            setting = code_of(row[0])
            if setting.endswith("="):
                stated = trio_mcp_stdio.DEFAULT if row[1] == "`DEFAULT`" else None
                assert request_defaults()[setting[:-1]] is stated
                assert row[1] in {"`DEFAULT`", "none"}
            else:
                assert number_of(row[1]) == actual_of(setting), setting
            checked += 1

    assert checked > 10


@pytest.mark.parametrize(("name", "kind"), [("timeouts.md", "time"), ("backpressure.md", "size")])
def test_no_limit_is_left_out(name: str, kind: Literal["time", "size"]) -> None:
    settings = {
        "time": {
            *(f"ClientOptions.{field}" for field in fields_of(ClientOptions) if field.endswith("timeout")),
            *(f"ShutdownTimeouts.{field}" for field in fields_of(ShutdownTimeouts)),
        },
        "size": {
            *(f"ClientOptions.{field}" for field in fields_of(ClientOptions) if field.startswith("max_")),
            *(f"StdioServer.{field}" for field in fields_of(StdioServer) if field.endswith("_bytes")),
        },
    }[kind]
    constants = {
        f"{path.relative_to(ROOT / 'trio_mcp_stdio').with_suffix('').as_posix().replace('/', '.')}.{constant}"
        for path in (ROOT / "trio_mcp_stdio").rglob("*.py")
        if "_cli" not in path.parts
        for constant in re.findall(
            r"^([A-Z]\w*_LIMIT): Final" if kind == "time" else r"^(MAX_\w+): Final",
            path.read_text("utf-8"),
            re.MULTILINE,
        )
    }
    documented = {code_of(row[0]) for table in tables_of(DOCS / name) for row in table.rows}

    assert settings | constants <= documented


def test_the_default_variables_are_named() -> None:
    text = (DOCS / "howto" / "environment-and-secrets.md").read_text("utf-8")
    section = text.partition("## The default variables")[2].partition("\n## ")[0]
    posix, windows = section.partition("On Windows")[::2]

    assert set(re.findall(r"`([A-Z_*]+)`", posix)) == set(_POSIX_VARIABLES)
    assert set(re.findall(r"`([A-Z_*]+)`", windows)) == set(_WINDOWS_VARIABLES)


# Diagnosis


DIAGNOSE = DOCS / "howto" / "diagnose.md"


def test_the_counters_that_are_explained_exist() -> None:
    (table,) = [table for table in tables_of(DIAGNOSE) if table.columns[0] == "counter"]
    named = {name for row in table.rows for name in re.findall(r"`(\w+)`", row[0])}

    assert named <= set(fields_of(ClientStatistics))


def test_every_exit_code_is_explained() -> None:
    (table,) = [table for table in tables_of(DIAGNOSE) if table.columns[0] == "code"]

    assert [int(row[0]) for row in table.rows] == sorted(Exit)


def test_every_logger_is_named() -> None:
    used = {
        re.sub(r"\{.*\}", "<name>", name)
        for path in (ROOT / "trio_mcp_stdio").rglob("*.py")
        if "_cli" not in path.parts
        for name in re.findall(r'getLogger\(f?"([^"]+)"\)', path.read_text("utf-8"))
    }
    (table,) = [table for table in tables_of(DIAGNOSE) if table.columns[0] == "logger"]

    assert {code_of(row[0]) for row in table.rows} == used - {"trio_mcp_stdio"}  # the parent of all


# Changes, and what the specification wants to be documented


def test_the_changelog_knows_this_version() -> None:
    headings = re.findall(r"^## (\S+)", (DOCS / "changelog.md").read_text("utf-8"), re.MULTILINE)

    assert headings[0] == trio_mcp_stdio.__version__


def test_fragments_of_the_changelog_are_named_as_told() -> None:
    rule = re.compile(r"README\.md|[\w-]+\.(breaking|added|changed|fixed)\.md")
    names = [path.name for path in (DOCS / "changes").iterdir()]

    assert [name for name in names if not rule.fullmatch(name)] == []


@pytest.mark.requirement("STDIO-FRAME-11")
def test_custom_transports_are_documented() -> None:
    headings = headings_of(DOCS / "howto" / "custom-streams.md")

    assert {
        "How connections are made",
        "How messages are framed",
        "How requests are cancelled",
        "How connections are ended",
    } <= headings


@pytest.mark.requirement("STDIO-FRAME-17")
def test_what_happens_to_duplicate_members_is_documented() -> None:
    rows = {row[0]: row[1] for table in tables_of(DOCS / "design.md") for row in table.rows if len(row) == 2}

    assert rows["duplicate members of an object"] == "the last one wins"
