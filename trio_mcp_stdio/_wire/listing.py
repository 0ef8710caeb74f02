"""Reading the results of the four lists item by item: what cannot be read costs only itself.

Pure: never imports trio.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import attrs

from .._errors import InvalidResult
from ..types import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
)
from .convert import structure, wire_names

__all__ = ["read_result"]

T = TypeVar("T")

_ITEMS: Final[Mapping[Any, tuple[str, Any, tuple[str, ...]]]] = {
    ListToolsResult: ("tools", Tool, ("name",)),
    ListResourcesResult: ("resources", Resource, ("uri", "name")),
    ListResourceTemplatesResult: ("resource_templates", ResourceTemplate, ("uriTemplate", "name")),
    ListPromptsResult: ("prompts", Prompt, ("name",)),
}
"""By class: the field of its items, their class, and the members that name one, best first."""


def read_result(cls: type[T], value: object, *, method: str) -> T:
    """Read a result.  An item of a list that cannot be read is left out and told in `problems`.

    Raises:
        InvalidResult: the result as a whole does not fit.
    """
    try:
        return structure(cls, value, method=method)
    except InvalidResult:
        if cls not in _ITEMS or not isinstance(value, Mapping):
            raise
        field, item_class, naming = _ITEMS[cls]
        member = wire_names(cls)[field]  # type: ignore[arg-type]  # every one of them is an attrs class
        given = value.get(member)
        if not isinstance(given, list | tuple):
            raise
    items: list[Any] = []
    problems: list[str] = []
    for index, item in enumerate(given):
        try:
            items.append(structure(item_class, item, method=method))
        except InvalidResult as error:
            problems.append(f"{member}[{index}]{_called(item, naming)}: {'; '.join(error.problems)}")
    # What is wrong with the rest of the result is raised here.
    rest: Any = structure(cls, {**value, member: []}, method=method)
    result: T = attrs.evolve(rest, **{field: tuple(items), "problems": tuple(problems)})
    return result


def _called(item: object, naming: tuple[str, ...]) -> str:
    names = [item.get(member) for member in naming] if isinstance(item, Mapping) else []
    return next((f" {name!r:.130}" for name in names if isinstance(name, str)), "")
