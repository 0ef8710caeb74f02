"""What a JSON Schema may cost, found before it is used: size, nesting, references, and steps of validation.

A schema comes from the server and may be a trap: references that lead into the network, or a few hundred
bytes that a validator works on for years.  A validator cannot be interrupted, so the work is bounded before
it begins.  A step is one keyword of one subschema, applied to one value.  `Outline.steps` is an upper bound
for each value; it grows with the nesting alone, and is exact enough to tell schemas that people write from
bombs.

Pure: never imports trio, nor a validator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from .codec import encode_params

__all__ = ["DEFAULT_DIALECT", "DIALECTS", "Outline", "SchemaRefused", "measure"]

DIALECTS: Final[Mapping[str, str]] = {
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}
"""The dialects that `$schema` may name, without the empty fragment, and the class that knows each."""

DEFAULT_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_APPLIED_AT_ONCE: Final = 100
"""Subschemas that may be nested for one and the same value."""

_TABLE: Final = 200_000
"""Entries of the table of steps, subschemas times levels, that are computed at most."""

# How keywords hold subschemas.  To the same value:
_HERE: Final = frozenset({"not", "if", "then", "else"})
_HERE_LIST: Final = frozenset({"allOf", "anyOf", "oneOf"})
_HERE_MAP: Final = frozenset({"dependentSchemas", "dependencies"})
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
# To the members of it, each of them, or at most one of a group to each:
_BELOW: Final = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "items",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_BELOW_MAP: Final = frozenset({"patternProperties"})
_BELOW_ONE_OF_LIST: Final = frozenset({"prefixItems", "items"})
_BELOW_ONE_OF_MAP: Final = frozenset({"properties"})
# Not at all by themselves:
_NOT_APPLIED: Final = frozenset({"$defs", "definitions"})
_MAPS: Final = _HERE_MAP | _BELOW_MAP | _BELOW_ONE_OF_MAP | _NOT_APPLIED
_ENOUGH: Final = 10**15
"""Steps past which nothing is counted."""

_DATA: Final = frozenset({"const", "default", "enum", "examples"})


class SchemaRefused(Exception):
    """A schema is not used; the text says why."""


class Outline:
    """The measure of one schema.

    Attributes:
        dialect: URI of its dialect.
        branches: it has alternatives, each of which has its own reasons not to match.
    """

    def __init__(self, dialect: str, index: _Index) -> None:
        self.dialect = dialect
        self.branches = any("anyOf" in node or "oneOf" in node for node in index.applied())
        self._index = index
        self._root = index.root
        self._levels: list[dict[int, int]] = [{}]
        self._settled = False

    def steps(self, depth: int) -> int:
        """Upper bound of the steps for each value within one that is `depth` levels deep.

        Raises:
            SchemaRefused: it applies itself to the same value without end, or is too large to be measured.
        """
        while len(self._levels) <= depth + 1 and not self._settled:
            self._add_level()
        return self._levels[min(depth + 1, len(self._levels) - 1)][id(self._root)]

    def _add_level(self) -> None:
        nodes = self._index.applied()
        if len(nodes) * len(self._levels) > _TABLE:
            raise SchemaRefused("it is too large for the nesting of the value")
        level = _Level(self._index, self._levels[-1])
        counted = {id(node): level.steps(node, 0) for node in nodes}
        self._settled = counted == self._levels[-1]
        self._levels.append(counted)


class _Level:
    """Steps of every subschema for values of one more level than those before."""

    def __init__(self, index: _Index, before: Mapping[int, int]) -> None:
        self._index = index
        self._before = before
        self._known: dict[int, int] = {}
        self._open: set[int] = set()

    def steps(self, node: object, nested: int) -> int:
        if not isinstance(node, Mapping):
            return 1
        key = id(node)
        known = self._known.get(key)
        if known is not None:
            return known
        if key in self._open:
            raise SchemaRefused("it refers to itself without end")
        if nested > _APPLIED_AT_ONCE:
            raise SchemaRefused(f"it applies more than {_APPLIED_AT_ONCE} nested schemas to one value")
        self._open.add(key)
        here = sum(self.steps(each, nested + 1) for each in self._index.here(node))
        below = sum(max((self._seen(each) for each in group), default=0) for group in _below(node))
        self._open.remove(key)
        if "unevaluatedProperties" in node or "unevaluatedItems" in node:
            here *= 2  # applied again, to find what they have left
        total = self._known[key] = min(_ENOUGH, len(node) + _weight(node) + here + below)
        return total

    def _seen(self, node: object) -> int:
        return self._before.get(id(node), 1)


def _weight(node: Mapping[str, Any]) -> int:
    values = node.get("enum")
    weight = len(values) // 8 if isinstance(values, list) else 0
    patterns = [node["pattern"]] if isinstance(node.get("pattern"), str) else []
    if isinstance(node.get("patternProperties"), Mapping):
        patterns += node["patternProperties"]
    for pattern in patterns:
        # What looks around or back is tried step by step, up to a bound; the rest takes linear time.
        weight += 200 if "(?=" in pattern or "(?!" in pattern or "(?<" in pattern or "\\" in pattern else 4
    return weight


def _below(node: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Subschemas that are applied to a member of the value; of a group, one at most to each member."""
    for keyword, value in node.items():
        if isinstance(value, Mapping):
            if keyword in _BELOW:
                yield [value]
            elif keyword in _BELOW_ONE_OF_MAP:
                yield list(value.values())
            elif keyword in _BELOW_MAP:
                for each in value.values():
                    yield [each]
        elif isinstance(value, list) and keyword in _BELOW_ONE_OF_LIST:
            yield value


class _Index:
    """Where the references of a schema lead."""

    def __init__(self, root: Mapping[str, Any], dialect: str, max_depth: int) -> None:
        self.root = root
        self._resources: dict[str, Mapping[str, Any]] = {"": root}
        self._anchors: dict[str, Any] = {}
        self._dynamic: dict[str, list[Any]] = {}
        self._bases: dict[int, str] = {}
        self._nodes: list[Mapping[str, Any]] = []
        self._targets: dict[int, list[Any]] = {}
        self._identifier = "id" if dialect.endswith("draft-04/schema") else "$id"
        self._walk(max_depth)
        for node in self._nodes:
            found = [
                target
                for keyword in _REFERENCES
                if isinstance(node.get(keyword), str)
                for target in self._resolve(node, keyword, node[keyword])
            ]
            if found:
                self._targets[id(node)] = found

    def applied(self) -> list[Mapping[str, Any]]:
        """Every subschema."""
        return self._nodes

    def here(self, node: Mapping[str, Any]) -> Iterator[Any]:
        """Subschemas that are applied to the same value."""
        yield from self._targets.get(id(node), ())
        for keyword, value in node.items():
            if isinstance(value, list):
                if keyword in _HERE_LIST:
                    yield from value
            elif isinstance(value, Mapping):
                if keyword in _HERE:
                    yield value
                elif keyword in _HERE_MAP:
                    yield from value.values()

    def _walk(self, max_depth: int) -> None:
        todo: list[tuple[Any, str, int]] = [(self.root, "", 0)]
        while todo:
            node, base, depth = todo.pop()
            if isinstance(node, list):
                todo += [(each, base, depth) for each in node]
                continue
            if not isinstance(node, Mapping):
                continue
            if depth > max_depth:
                raise SchemaRefused(f"it is nested deeper than {max_depth} levels (max_schema_depth)")
            base = self._enter(node, base)
            for keyword, value in node.items():
                if keyword in _DATA:
                    continue
                if keyword in _MAPS and isinstance(value, Mapping):
                    todo += [(each, base, depth + 1) for each in value.values()]
                else:
                    todo.append((value, base, depth + 1))

    def _enter(self, node: Mapping[str, Any], base: str) -> str:
        named = node.get("$schema")
        if isinstance(named, str) and named.removesuffix("#") not in DIALECTS:
            raise SchemaRefused(f"the dialect {named!r:.100} is not supported")
        identifier = node.get(self._identifier)
        if isinstance(identifier, str):
            if identifier.startswith("#"):
                _enter_once(self._anchors, base + identifier, node)
            else:
                base = urldefrag(_join(base, identifier)).url
                _enter_once(self._resources, base, node)
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = node.get(keyword)
            if isinstance(anchor, str):
                _enter_once(self._anchors, f"{base}#{anchor}", node)
                if keyword == "$dynamicAnchor":
                    self._dynamic.setdefault(anchor, []).append(node)
        if node.get("$recursiveAnchor") is True:
            self._dynamic.setdefault("", []).append(node)
        self._bases[id(node)] = base
        self._nodes.append(node)
        return base

    def _resolve(self, node: Mapping[str, Any], keyword: str, reference: str) -> list[Any]:
        whole = _join(self._bases[id(node)], reference)
        url, fragment = urldefrag(whole)
        resource = self._resources.get(url)
        if resource is None:
            raise SchemaRefused(f"{keyword} {reference!r:.200} leads out of it, and nothing is fetched")
        if not fragment:
            target: Any = resource
        elif fragment.startswith("/"):
            target = _at(resource, unquote(fragment))
        else:
            target = self._anchors.get(whole)
        if target is None:
            raise SchemaRefused(f"{keyword} {reference!r:.200} leads nowhere")
        if isinstance(target, Mapping) and id(target) not in self._bases:
            raise SchemaRefused(f"{keyword} {reference!r:.200} does not lead to a schema")
        if keyword == "$ref":
            return [target]
        # Which one it leads to depends on the way that led here; all of them are counted.
        return [target, *(each for each in self._dynamic.get(fragment, ()) if each is not target)]


def _enter_once(names: dict[str, Any], name: str, node: Mapping[str, Any]) -> None:
    # Of two, the validator could follow the other one than was counted.
    if names.setdefault(name, node) is not node:
        raise SchemaRefused(f"two of its parts are called {name!r:.200}")


def _join(base: str, reference: str) -> str:
    if reference.startswith("#"):
        return base + reference
    return urljoin(base, reference)


def _at(resource: Any, pointer: str) -> Any:
    found = resource
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found


def measure(schema: Mapping[str, Any], *, max_bytes: int, max_depth: int) -> Outline:
    """Look at a schema before it is used.

    Raises:
        SchemaRefused: it is too large or nested too deep, names a dialect that is not supported, or has a
            reference that leads out of it.
        LocalProtocolError: it is not JSON.
    """
    size = len(encode_params(schema))
    if size > max_bytes:
        raise SchemaRefused(f"it has {size:,} bytes, more than {max_bytes:,} (max_schema_bytes)")
    named = schema.get("$schema", DEFAULT_DIALECT)
    if not isinstance(named, str):
        raise SchemaRefused("$schema is not a string")
    dialect = named.removesuffix("#")
    return Outline(dialect, _Index(schema, dialect, max_depth))
