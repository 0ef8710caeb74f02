"""The layers of the package: which module may import what, read from the source without importing it.

Lowest first: _errors and _version, _wire/convert, types, _types, _wire, _io, _connection, _client and
_server, testing, __init__; on top the command line. A module imports from below, or from its own folder
without a cycle. Imports for type checkers alone may point upwards, except that the pure modules never mention
trio, nor a module that could.
"""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import pytest

PACKAGE = "trio_mcp_stdio"
ROOT = Path(__file__).parent.parent / PACKAGE

LAYERS = (
    {"_errors", "_version"},
    {"_wire.convert"},
    {"types"},
    {"_types"},  # the classes that types loads on first use
    {"_wire"},
    {"_io"},
    {"_connection"},
    {"_client", "_server"},
    {"testing"},
    {""},  # the package's __init__
    {"_cli", "__main__"},
)
PURE = ("_errors", "_version", "types", "_types", "_wire")
FOLDERS = ("_types", "_wire", "_io", "_connection", "_client", "_server")

IMPURE = frozenset({"trio", "trio_typing", "pytest_trio", "anyio", "asyncio", "threading", "time"})
SYSTEM = frozenset(
    {
        "os",
        "subprocess",
        "signal",
        "socket",
        "fcntl",
        "ctypes",
        "select",
        "selectors",
        "resource",
        "pty",
        "msvcrt",
    }
)
JSON = frozenset({"json", "msgspec"})
CATTRS = frozenset({"cattr", "cattrs"})


@attrs.frozen
class Import:
    """One import statement's target, as a full dotted name."""

    target: str
    line: int
    typing_only: bool
    in_function: bool


def imports(source: str, module: str, *, is_package: bool) -> Iterator[Import]:
    """Every import of a module. `from a import b` gives ``a.b``, whether or not that is a module."""
    package = module if is_package else module.rpartition(".")[0]

    def visit(node: ast.AST, typing_only: bool, in_function: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, typing_only, in_function)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            for alias in node.names:
                yield Import(f"{base}.{alias.name}", node.lineno, typing_only, in_function)
        elif isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            for child in node.body:
                yield from visit(child, True, in_function)
            for child in node.orelse:
                yield from visit(child, typing_only, in_function)
        else:
            inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for child in ast.iter_child_nodes(node):
                yield from visit(child, typing_only, inside)

    return visit(ast.parse(source), False, False)


def read_package(root: Path) -> dict[str, str]:
    """The sources below a folder by path within it, such as ``_wire/lines.py``."""
    return {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in sorted(root.rglob("*.py"))}


def module_name(path: str) -> str:
    """The name within the package: ``_wire.lines``, ``_wire`` for its __init__, and "" for the root's."""
    return path.removesuffix(".py").removesuffix("__init__").rstrip("/").replace("/", ".")


def within(module: str, *places: str) -> bool:
    """Whether a module is one of the places or below it."""
    return any(module == place or module.startswith(f"{place}.") for place in places)


def layer_of(module: str) -> int | None:
    """The number of a module's layer; the longest name that fits decides."""
    fitting = [
        (len(name), number)
        for number, names in enumerate(LAYERS)
        for name in names
        if (within(module, name) if name else not module)
    ]
    return max(fitting)[1] if fitting else None


def violations(sources: Mapping[str, str]) -> list[str]:
    """What the sources of a package do against the rules, one line each."""
    modules = {module_name(path): path for path in sources}
    problems: list[str] = []
    edges: dict[str, set[str]] = {module: set() for module in modules}
    for module, path in modules.items():
        if layer_of(module) is None:
            problems.append(f"{path}: belongs to no layer")
            continue
        full = f"{PACKAGE}.{module}" if module else PACKAGE
        found = list(imports(sources[path], full, is_package=path.endswith("__init__.py")))
        if module in FOLDERS and any(not each.target.startswith("__future__.") for each in found):
            problems.append(f"{path}: the __init__ of a layer imports nothing")
        for each in found:
            where = f"{path}:{each.line}"
            target = _package_module(each.target, modules)
            if target is None:
                problems += [f"{where}: {text}" for text in _outside(module, each)]
            else:
                problems += [f"{where}: {text}" for text in _inside(module, target, each)]
                if not each.typing_only and target != module:
                    edges[module].add(target)
            if each.in_function and not _may_import_late(module, target):
                problems.append(f"{where}: imports {each.target} within a function")
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        ring = [
            module or "__init__" for module in error.args[1][:0:-1]
        ]  # importer first, closing member left out
        start = ring.index(min(ring))
        problems.append("import cycle: " + " -> ".join([*ring[start:], *ring[: start + 1]]))
    return problems


def _package_module(target: str, modules: Mapping[str, str]) -> str | None:
    """The module of the package that importing a target loads, or None for a module of somebody else."""
    if not within(target, PACKAGE):
        return None
    name = target.removeprefix(PACKAGE).removeprefix(".")
    while name not in modules:
        name = name.rpartition(".")[0]
    return name


def _outside(module: str, each: Import) -> Iterator[str]:
    top = each.target.partition(".")[0]
    if top in IMPURE and within(module, *PURE):
        yield f"the pure layers import no {top}"
    if top in SYSTEM and not each.typing_only and not within(module, "_io", "_cli"):
        yield f"only _io imports {top}"
    if top == "subprocess" and within(module, "_cli"):
        yield "only _io imports subprocess"
    if top in CATTRS and module not in {"_wire.convert", "_wire.codec"}:
        yield f"only _wire/convert and _wire/codec import {top}"
    if top in JSON and module not in {"_wire.jsonrpc", "_wire.codec"} and not within(module, "_cli"):
        yield f"only _wire/jsonrpc and _wire/codec import {top}"


def _inside(module: str, target: str, each: Import) -> Iterator[str]:
    own, other = layer_of(module), layer_of(target)
    if own is None or other is None:
        return
    if within(module, *PURE) and not within(target, *PURE):
        yield f"the pure layers import nothing that may import trio: {target or '__init__'}"
    elif each.typing_only:
        return
    elif not target and not within(module, "_cli", "__main__"):
        yield "nothing inside imports the package's __init__"
    elif other > own:
        yield f"imports upwards: {target}"
    elif other == own and module.partition(".")[0] != target.partition(".")[0] and own < len(LAYERS) - 1:
        yield f"imports sideways: {target}"


def _may_import_late(module: str, target: str | None) -> bool:
    platform_choice = module == "_io.process" and (target or "").startswith("_io.process_")
    return platform_choice or within(module, "_cli")


def test_the_package_keeps_its_layers() -> None:
    sources = read_package(ROOT)

    assert len(sources) > 10
    assert violations(sources) == []


CLEAN = {
    "__init__.py": "from ._errors import McpError as McpError\nfrom ._client.client import Client\n",
    "__main__.py": "from ._cli import main\nmain()\n",
    "_errors.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .types import ProcessExit\n",
    "_version.py": "",
    "types.py": "from ._wire.convert import register\nfrom ._errors import McpError\n",
    "testing.py": "import trio\nfrom ._client import client\n",
    "_wire/__init__.py": '"""Pure."""\nfrom __future__ import annotations\n',
    "_wire/convert.py": "import cattrs\nimport attrs\n",
    "_wire/codec.py": "import cattrs.gen, json, msgspec\nfrom . import convert\nfrom ..types import Tool\n",
    "_wire/jsonrpc.py": "import json, msgspec\nfrom .lines import LineSplitter\n",
    "_wire/lines.py": "",
    "_io/__init__.py": "",
    "_io/process.py": "import os, subprocess, trio\ndef f():\n    from .process_posix import spawn\n",
    "_io/process_posix.py": "import signal, fcntl\nfrom .._wire.lines import LineSplitter\n",
    "_client/__init__.py": "",
    "_client/client.py": "import trio\nfrom .._io import process\nfrom ..types import Tool\n",
    "_server/__init__.py": "",
    "_server/server.py": "import trio\n",
    "_cli/__init__.py": "import os, json\ndef main():\n    from .. import Client\n    import rich\n",
}


def test_a_package_that_keeps_the_rules_has_no_violations() -> None:
    assert violations(CLEAN) == []


@pytest.mark.parametrize(
    ("path", "source", "message"),
    [
        ("_wire/lines.py", "import trio", "the pure layers import no trio"),
        ("_wire/lines.py", "from trio.lowlevel import checkpoint", "the pure layers import no trio"),
        ("_wire/lines.py", "if TYPE_CHECKING:\n    import trio", "the pure layers import no trio"),
        ("_wire/lines.py", "import time", "the pure layers import no time"),
        ("types.py", "import trio", "the pure layers import no trio"),
        ("_errors.py", "def f():\n    import trio", "the pure layers import no trio"),
        (
            "_errors.py",
            "import typing\nif typing.TYPE_CHECKING:\n    from ._client.client import Client",
            "the pure layers import nothing that may import trio: _client.client",
        ),
        ("_errors.py", "from .types import Tool", "imports upwards: types"),
        (
            "_errors.py",
            "if TYPE_CHECKING:\n    pass\nelse:\n    from .types import Tool",
            "imports upwards: types",
        ),
        ("_wire/convert.py", "from ..types import Tool", "imports upwards: types"),
        ("types.py", "from ._wire.codec import structure", "imports upwards: _wire.codec"),
        ("types.py", "import trio_mcp_stdio._wire.codec", "imports upwards: _wire.codec"),
        ("_io/process.py", "from .._client.client import Client", "imports upwards: _client.client"),
        ("_io/process.py", "from trio_mcp_stdio._client import client", "imports upwards: _client.client"),
        (
            "_io/process.py",
            "try:\n    from .. import testing\nexcept ImportError: pass",
            "imports upwards: testing",
        ),
        (
            "_client/client.py",
            "class C:\n    from .._server import server",
            "imports sideways: _server.server",
        ),
        ("_client/client.py", "from .._cli import main", "imports upwards: _cli"),
        ("_client/client.py", "from .. import McpError", "nothing inside imports the package's __init__"),
        ("_client/client.py", "import trio_mcp_stdio", "nothing inside imports the package's __init__"),
        (
            "testing.py",
            "from trio_mcp_stdio import open_client",
            "nothing inside imports the package's __init__",
        ),
        ("testing.py", "from . import open_client", "nothing inside imports the package's __init__"),
        ("_client/client.py", "import os", "only _io imports os"),
        ("_client/client.py", "from os.path import join", "only _io imports os"),
        ("_client/client.py", "import subprocess as s", "only _io imports subprocess"),
        ("_cli/__init__.py", "import subprocess", "only _io imports subprocess"),
        ("testing.py", "import socket", "only _io imports socket"),
        ("_wire/lines.py", "import signal", "only _io imports signal"),
        ("types.py", "import cattrs", "only _wire/convert and _wire/codec import cattrs"),
        (
            "_client/client.py",
            "from cattrs.errors import X",
            "only _wire/convert and _wire/codec import cattrs",
        ),
        ("_client/client.py", "import json", "only _wire/jsonrpc and _wire/codec import json"),
        ("types.py", "from msgspec import UNSET", "only _wire/jsonrpc and _wire/codec import msgspec"),
        ("_client/client.py", "def f():\n    import decimal", "imports decimal within a function"),
        (
            "_client/client.py",
            "class A:\n    async def f(self):\n        from math import pi",
            "within a function",
        ),
        ("_io/process.py", "def f():\n    import decimal", "imports decimal within a function"),
        ("_io/process.py", "def f():\n    from . import other", "within a function"),
        ("_wire/__init__.py", "from .lines import LineSplitter", "the __init__ of a layer imports nothing"),
        (
            "_wire/lines.py",
            "from .jsonrpc import decode",
            "import cycle: _wire.jsonrpc -> _wire.lines -> _wire.jsonrpc",
        ),
        ("_io/process_posix.py", "from .process import X", "import cycle: "),
        ("extra.py", "", "extra.py: belongs to no layer"),
        ("_other/thing.py", "", "_other/thing.py: belongs to no layer"),
    ],
)
def test_each_rule_finds_what_breaks_it(path: str, source: str, message: str) -> None:
    broken = {**CLEAN, path: source}

    found = violations(broken)

    assert len(found) >= 1
    assert any(message in problem and (path in problem or "cycle" in problem) for problem in found), found


def test_imports_for_type_checkers_count_neither_for_the_order_nor_as_a_cycle() -> None:
    guarded = "if TYPE_CHECKING:\n    import os\n    from .._client.client import Client\n"

    assert violations({**CLEAN, "_io/process_posix.py": guarded}) == []
