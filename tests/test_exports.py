"""What the package shows to its users: complete, final, documented, and re-exported from where it is made."""

from __future__ import annotations

import ast
import enum
import importlib
import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import trio_mcp_stdio
from trio_mcp_stdio import _errors, types

INIT = Path(trio_mcp_stdio.__file__)

MODULES = [trio_mcp_stdio, types]
if importlib.util.find_spec("trio_mcp_stdio.testing"):
    MODULES.append(importlib.import_module("trio_mcp_stdio.testing"))

MEANT_FOR_SUBCLASSING: frozenset[str] = frozenset()
"""Public classes, apart from exceptions, that users may derive from."""

each_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)


def public(module: ModuleType) -> Iterator[tuple[str, object]]:
    for name in module.__all__:
        yield name, getattr(module, name)


def public_classes(module: ModuleType) -> Iterator[type]:
    return (value for _, value in public(module) if isinstance(value, type))


def order(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest, each in alphabetical order: the order that ruff keeps."""
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, name


def is_extensible(cls: type) -> bool:
    """Whether users could derive from a class: it is neither final nor an enum with members."""
    if issubclass(cls, enum.Enum) and len(cls):
        return False
    return not vars(cls).get("__final__", False)


def undocumented(cls: type) -> Iterator[str]:
    """A class and those of its own public functions and properties that have no docstring."""
    if not vars(cls).get("__doc__"):
        yield cls.__name__
    for name, value in vars(cls).items():
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        documentable = inspect.isfunction(function) or isinstance(function, property)
        if documentable and not name.startswith("_") and not function.__doc__:
            yield f"{cls.__name__}.{name}"


@each_module
def test_all_is_sorted_and_resolves(module: ModuleType) -> None:
    assert module.__all__ == sorted(set(module.__all__), key=order)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_all_is_complete() -> None:
    imported = {
        alias.asname or alias.name
        for node in ast.parse(INIT.read_text("utf-8")).body
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }

    public_names = {name for name in imported if not name.startswith("_")}
    assert set(trio_mcp_stdio.__all__) == public_names | {"__version__"}


def test_init_only_reexports() -> None:
    docstring, *statements = ast.parse(INIT.read_text("utf-8")).body
    others = [node for node in statements if not isinstance(node, ast.ImportFrom)]

    assert isinstance(docstring, ast.Expr)
    assert [ast.unparse(node).partition(" = ")[0] for node in others] == ["__all__"]


def test_every_exception_is_reexported() -> None:
    raised = {
        name
        for name, value in vars(_errors).items()
        if isinstance(value, type)
        and issubclass(value, BaseException)
        and value.__module__ == _errors.__name__
    }

    assert raised - set(trio_mcp_stdio.__all__) == set()
    assert len(raised) > 10


def test_every_exception_is_an_mcp_error() -> None:
    exceptions = [cls for cls in public_classes(trio_mcp_stdio) if issubclass(cls, BaseException)]

    assert [cls.__name__ for cls in exceptions if not issubclass(cls, trio_mcp_stdio.McpError)] == []


@each_module
def test_public_classes_are_final(module: ModuleType) -> None:
    extensible = {
        cls.__name__
        for cls in public_classes(module)
        if is_extensible(cls) and not issubclass(cls, BaseException)
    }

    assert extensible - MEANT_FOR_SUBCLASSING == set()


@each_module
def test_public_names_are_documented(module: ModuleType) -> None:
    missing = [
        name for name, value in public(module) if inspect.isroutine(value) and not inspect.getdoc(value)
    ]
    for cls in public_classes(module):
        if cls.__module__.startswith("trio_mcp_stdio"):
            missing += undocumented(cls)

    assert module.__doc__
    assert missing == []


def test_what_finds_faults_finds_them() -> None:
    class Open:
        def method(self) -> None: ...

        @property
        def value(self) -> int:
            return 1

        @classmethod
        def make(cls) -> None: ...

        def documented(self) -> None:
            """Says so."""

        def _private(self) -> None: ...

    assert is_extensible(Open)
    assert not is_extensible(trio_mcp_stdio.Era)
    assert list(undocumented(Open)) == ["Open", "Open.method", "Open.value", "Open.make"]
    assert sorted(["open_client", "Era", "UNSET", "Client", "__version__"], key=order) == [
        "UNSET",
        "Client",
        "Era",
        "__version__",
        "open_client",
    ]
