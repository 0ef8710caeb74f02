"""The bare converter: JSON values to data classes and back, without knowing any of the classes.

Reading goes through functions that cattrs generates, once per class and on first use.  The good
path collects nothing; only when it fails is the value read a second time by a converter that
gathers every problem with its path.

Lower than `types`; never imports trio.
"""

from __future__ import annotations

import enum
import functools
import itertools
import operator
import reprlib
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.errors import (
    ClassValidationError,
    IterableValidationError,
    IterableValidationNote,
    StructureHandlerNotFoundError,
)
from cattrs.gen import make_dict_structure_fn, override

from .._errors import InvalidResult, LocalProtocolError

__all__ = [
    "LOCAL",
    "SOFT",
    "STRUCTURE",
    "UNSET",
    "WIRE_NAME",
    "Converter",
    "JsonObject",
    "RawModel",
    "Record",
    "UnsetType",
    "WireModel",
    "converter",
    "extend",
    "json_kind",
    "lenient",
    "structure",
    "to_camel",
    "to_wire",
    "union_by_shape",
    "union_by_tag",
    "wire_names",
]

T = TypeVar("T")
Hook: TypeAlias = Callable[[Any, Any], Any]

JsonObject: TypeAlias = Mapping[str, Any]
"""A JSON object kept as it is."""

LOCAL: Final = "local"
"""Field metadata: not a member of the JSON object, but what this side adds to it; never written."""

SOFT: Final = "soft"
"""Field metadata: a value that cannot be read counts as absent instead of failing the whole object."""

STRUCTURE: Final = "structure"
"""Field metadata: function from the JSON value to the field's value, instead of what the type says."""

WIRE_NAME: Final = "wire_name"
"""Field metadata: name of the member, where it is not the field's name in camel case."""

_CONSTANTS: Final = ("type", "mode", "method", "result_type")
"""Class variables that a data class writes and insists on: they tell the members of a union apart."""

_MAX_PROBLEMS: Final = 20


class UnsetType(enum.Enum):
    """Type of `UNSET`, the value of an optional field that is absent.

    Distinct from None, which is JSON's null.  Falsy, so that `if tool.title:` reads naturally.
    """

    UNSET = "UNSET"

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "UNSET"

    __str__ = __repr__


UNSET: Final = UnsetType.UNSET
"""The one value of `UnsetType`: this optional field is absent."""


_repr = reprlib.Repr()
_repr.maxlevel = 3
_repr.maxstring = _repr.maxother = _repr.maxlong = 60


def brief(value: object) -> str:
    """A short representation of any value, however large or deep, with control characters escaped."""
    return _repr.repr(value)[:200]


@functools.cache
def to_camel(name: str) -> str:
    """Wire name of a field: `mime_type` is `mimeType`, `meta` is `_meta`."""
    if name == "meta":
        return "_meta"
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


# --- Base classes ------------------------------------------------------------------------------


@functools.cache
def _names(cls: type[attrs.AttrsInstance]) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(cls))


class Record:
    """Base of the data classes: equality, hash and representation, shared instead of generated.

    Generating them for every class would double the time it takes to import the package.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if self.__class__ is not other.__class__:
            return NotImplemented
        names = _names(cast(Any, self.__class__))
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __hash__(self) -> int:
        # JSON objects and arrays cannot be hashed and take no part; equal records still hash alike.
        values = [getattr(self, name) for name in _names(cast(Any, self.__class__))]
        hashable = (str, int, float, tuple, Record, UnsetType)
        return hash((self.__class__, *(value for value in values if isinstance(value, hashable))))

    def __repr__(self) -> str:
        shown = []
        for name in _names(cast(Any, self.__class__)):
            value = getattr(self, name)
            if value is not UNSET and not (name == "extra" and not value):
                shown.append(f"{name}={value!r}")
        return f"{self.__class__.__name__}({', '.join(shown)})"

    def _to_wire(self) -> Any:
        constants, fields = _plan(cast(Any, self.__class__))
        result: dict[str, Any] = dict(constants)
        for name, wire_name, unstructure in fields:
            value = getattr(self, name)
            if value is not UNSET:
                result[wire_name] = unstructure(value)
        return result


@attrs.frozen(kw_only=True, eq=False, repr=False)
class WireModel(Record):
    """Base of the data classes that mirror a JSON object of the schema."""

    extra: JsonObject = attrs.field(factory=dict)
    """Members of the object that this version does not know, by wire name; sent back unchanged."""

    def _to_wire(self) -> Any:
        result = super()._to_wire()
        for key, value in self.extra.items():
            result.setdefault(key, value)
        return result


class RawModel(Record):
    """Base of the data classes for what this version does not know; each has the one field `raw`."""

    __slots__ = ()

    raw: Any

    def _to_wire(self) -> Any:
        return self.raw


@functools.cache
def wire_names(cls: type[attrs.AttrsInstance]) -> Mapping[str, str]:
    """Names of a data class's members by field name, without `extra` and what is `LOCAL`."""
    return {
        field.name: field.metadata.get(WIRE_NAME) or to_camel(field.name)
        for field in attrs.fields(cls)
        if field.name != "extra" and LOCAL not in field.metadata
    }


def _constants(cls: type) -> dict[str, str]:
    values = {name: cls.__dict__.get(name) for name in _CONSTANTS}
    return {to_camel(name): value for name, value in values.items() if isinstance(value, str)}


@functools.cache
def _plan(
    cls: type[attrs.AttrsInstance],
) -> tuple[dict[str, str], tuple[tuple[str, str, Callable[[Any], Any]], ...]]:
    attrs.resolve_types(cls)
    names = wire_names(cls)
    return _constants(cls), tuple(
        (field.name, names[field.name], _map_to_wire if _is_map(_without_unset(field.type)) else to_wire)
        for field in attrs.fields(cls)
        if field.name in names
    )


def to_wire(value: Any) -> Any:
    """Turn data classes into JSON objects; any other value is returned as it is, not copied."""
    if isinstance(value, Record):
        return value._to_wire()
    if value.__class__ is tuple:
        return [to_wire(item) for item in value]
    return value


def _map_to_wire(value: Any) -> Any:
    return {key: to_wire(item) for key, item in value.items()} if isinstance(value, Mapping) else value


# --- Strict hooks for JSON's own types ----------------------------------------------------------


def json_kind(value: object) -> str:
    """Name the kind of a JSON value, with its article: `a string`, `an object`, `null`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "an array"
    return type(value).__name__


def _mismatch(expected: str, value: object) -> TypeError:
    return TypeError(f"expected {expected}, got {json_kind(value)}")


def _string(value: Any, _: Any) -> str:
    if value.__class__ is str or isinstance(value, str):
        return value
    raise _mismatch("a string", value)


def _boolean(value: Any, _: Any) -> bool:
    if value is True or value is False:
        return value
    raise _mismatch("a boolean", value)


def _integer(value: Any, _: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():  # JSON knows one kind of number: 1.0 is an integer
        return int(value)
    raise _mismatch("an integer", value)


def _number(value: Any, _: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise _mismatch("a number", value)


def _object(value: Any, _: Any) -> JsonObject:
    if value.__class__ is dict or isinstance(value, Mapping):
        return cast(JsonObject, value)
    if value == []:
        return {}  # how languages with one type for maps and lists write an empty map
    raise _mismatch("an object", value)


def _request_id(value: Any, _: Any) -> int | str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _integer(value, int)
    raise _mismatch("a string or an integer", value)


def _literal(value: Any, literal: Any) -> Any:
    choices = get_args(literal)
    if not any(value == choice and value.__class__ is choice.__class__ for choice in choices):
        raise ValueError(f"expected one of {', '.join(map(repr, choices))}, got {brief(value)}")
    return value


def _tuple_factory(cls: Any, conv: Converter) -> Hook:
    item_type = get_args(cls)[0]
    item_hook: Hook = conv.get_structure_hook(item_type)

    def structure_tuple(value: Any, _: Any) -> tuple[Any, ...]:
        if value.__class__ is not list and not isinstance(value, list | tuple):
            raise _mismatch("an array", value)
        # Saves the frame that a comprehension costs.
        return tuple(map(item_hook, value, itertools.repeat(item_type)))

    def structure_tuple_explained(value: Any, _: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise _mismatch("an array", value)
        items: list[Any] = []
        errors: list[Exception] = []
        for index, item in enumerate(value):
            try:
                items.append(item_hook(item, item_type))
            except Exception as error:
                error.add_note(IterableValidationNote(f"at index {index}", index, item_type))
                errors.append(error)
        if errors:
            # pyright takes the constructor from ExceptionGroup instead of cattrs' own
            raise IterableValidationError("invalid items", errors, cls)  # pyright: ignore[reportCallIssue]
        return tuple(items)

    return structure_tuple_explained if conv.detailed_validation else structure_tuple


def _map_factory(cls: Any, conv: Converter) -> Hook:
    item_type = get_args(cls)[1]
    item_hook: Hook = conv.get_structure_hook(item_type)

    def structure_map(value: Any, _: Any) -> JsonObject:
        return {key: item_hook(item, item_type) for key, item in _object(value, cls).items()}

    def structure_map_explained(value: Any, _: Any) -> JsonObject:
        items: dict[str, Any] = {}
        errors: list[Exception] = []
        for key, item in _object(value, cls).items():
            try:
                items[key] = item_hook(item, item_type)
            except Exception as error:
                error.add_note(IterableValidationNote(f"at key {key!r}", key, item_type))
                errors.append(error)
        if errors:
            raise IterableValidationError("invalid items", errors, cls)  # pyright: ignore[reportCallIssue]
        return items

    return structure_map_explained if conv.detailed_validation else structure_map


# --- Hooks for data classes ---------------------------------------------------------------------


def _without_unset(annotation: Any) -> Any:
    if get_origin(annotation) not in (types.UnionType, Union):  # the latter where a Literal is a member
        return annotation
    members: list[Any] = [member for member in get_args(annotation) if member is not UnsetType]
    return functools.reduce(operator.or_, members)


def _optional(inner: Hook, inner_type: Any, default: Any, *, soft: bool) -> Hook:
    def structure_optional(value: Any, _: Any) -> Any:
        return default if value is None else inner(value, inner_type)

    def structure_soft(value: Any, _: Any) -> Any:
        if value is None:
            return default
        try:
            return inner(value, inner_type)
        except Exception:
            return default

    return structure_soft if soft else structure_optional


def _as_it_is(value: Any, _: Any) -> Any:
    return value


def _field_hook(field: attrs.Attribute[Any], conv: Converter) -> Hook:
    field_type = _without_unset(field.type)
    if field_type is Any:
        return _as_it_is
    custom = field.metadata.get(STRUCTURE)
    hook: Hook = conv.get_structure_hook(field_type) if custom is None else lambda value, _: custom(value)
    if field.default is attrs.NOTHING:
        return hook
    return _optional(hook, field_type, field.default, soft=SOFT in field.metadata)


def model_hook(cls: Any, conv: Converter) -> Hook:
    attrs.resolve_types(cls)
    names = wire_names(cls)
    overrides: dict[str, Any] = {
        field.name: override(rename=names[field.name], struct_hook=_field_hook(field, conv))
        if field.name in names
        else override(omit=True)
        for field in attrs.fields(cls)
    }
    generated = make_dict_structure_fn(cls, conv, **overrides)
    constants = tuple(_constants(cls).items())
    known = frozenset(names.values()) | {name for name, _ in constants}
    set_attribute = object.__setattr__

    def structure_model(value: Any, _: Any = cls) -> Any:
        if value.__class__ is not dict:
            value = _object(value, cls)
        for name, constant in constants:
            if value.get(name) != constant:
                raise ValueError(f"expected the {name} {constant!r}, got {brief(value.get(name))}")
        model = generated(value, cls)
        if not value.keys() <= known:
            # The one write to a frozen object, before anybody else has seen it.
            set_attribute(model, "extra", {key: item for key, item in value.items() if key not in known})
        return model

    return structure_model


def _is_wire_model(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, WireModel)


def _raw_factory(cls: Any, _: Converter) -> Hook:
    return lambda value, _: cls(raw=value)


def _is_raw_model(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, RawModel)


def _is_record(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, Record)


def _is_literal(cls: Any) -> bool:
    origin: Any = get_origin(cls)
    return origin is Literal


def _is_tuple_of_one_type(cls: Any) -> bool:
    return get_origin(cls) is tuple and get_args(cls)[1:] == (Ellipsis,)


def _is_map(cls: Any) -> bool:
    # Those with values of any kind are left as they are.
    return get_origin(cls) is Mapping and get_args(cls)[1] is not Any


def _new_converter(*, detailed: bool) -> Converter:
    conv = Converter(detailed_validation=detailed)
    conv.register_structure_hook_func(_is_literal, _literal)
    conv.register_structure_hook_func(lambda cls: bool(cls == JsonObject), _object)
    conv.register_structure_hook_func(lambda cls: bool(cls == int | str), _request_id)
    conv.register_structure_hook_factory(_is_tuple_of_one_type, _tuple_factory)
    conv.register_structure_hook_factory(_is_map, _map_factory)
    conv.register_structure_hook_factory(_is_raw_model, _raw_factory)
    conv.register_structure_hook_factory(_is_wire_model, model_hook)
    conv.register_structure_hook(str, _string)
    conv.register_structure_hook(bool, _boolean)
    conv.register_structure_hook(int, _integer)
    conv.register_structure_hook(float, _number)
    conv.register_unstructure_hook_func(_is_record, to_wire)
    for extension in _extensions:
        extension(conv)
    return conv


_extensions: list[Callable[[Converter], None]] = []

converter: Final = _new_converter(detailed=False)
"""The converter of the good path.  Hooks are added with `extend`, so that both converters have them."""


@functools.cache
def _explaining_converter() -> Converter:
    return _new_converter(detailed=True)


def extend(register: Callable[[Converter], None]) -> None:
    """Add hooks to the converter, and to the explaining one when it comes to be (again)."""
    _extensions.append(register)
    register(converter)
    _explaining_converter.cache_clear()


def union_by_tag(union: Any, tag: str) -> None:
    """Read a union as the member whose constant `tag` the JSON object has, else as its `RawModel`."""
    classes = {_constants(cls)[tag]: cls for cls in get_args(union) if not _is_raw_model(cls)}
    (unknown,) = filter(_is_raw_model, get_args(union))

    def factory(_: Any, conv: Converter) -> Hook:
        hooks: dict[Any, Hook] = {name: conv.get_structure_hook(cls) for name, cls in classes.items()}

        def structure_union(value: Any, _: Any) -> Any:
            try:
                hook = hooks[value[tag]]
            except (LookupError, TypeError):
                return unknown(raw=value)
            return hook(value, None)

        return structure_union

    _extend_union(union, factory)


def union_by_shape(union: Any, choose: Callable[[Any], Any]) -> None:
    """Read a union as the one of its members that `choose` names for the JSON value."""

    def factory(_: Any, conv: Converter) -> Hook:
        hook_of: Callable[[Any], Hook] = functools.cache(conv.get_structure_hook)

        def structure_union(value: Any, _: Any) -> Any:
            member = choose(value)
            return hook_of(member)(value, member)

        return structure_union

    _extend_union(union, factory)


def _extend_union(union: Any, factory: Callable[[Any, Converter], Hook]) -> None:
    def register(conv: Converter) -> None:
        conv.register_structure_hook_factory(lambda cls: bool(cls == union), factory)

    extend(register)


# --- Reading ------------------------------------------------------------------------------------


class _Hooks(dict[Any, Hook]):
    """Structure function of each class asked for so far."""

    def __missing__(self, cls: Any) -> Hook:
        hook = self[cls] = converter.get_structure_hook(cls)
        return hook


_hooks: Final = _Hooks()


def structure(cls: type[T], value: object, *, method: str, path: str = "") -> T:
    """Read a JSON value as `cls`.

    Raises:
        InvalidResult: the value does not fit; `problems` holds lines such as `content[0].text: is missing`.
        LocalProtocolError: `cls` is not a class that can be read.
    """
    try:
        return cast(T, _hooks[cls](value, cls))
    except StructureHandlerNotFoundError as error:
        raise LocalProtocolError(f"no JSON value can be read as {cls!r}") from error
    except Exception as error:
        failure = error
    try:
        _explaining_converter().structure(value, cls)
    except Exception as error:
        failure = error
    problems: list[str] = []
    _collect(failure, value, path, problems)
    if len(problems) > _MAX_PROBLEMS:
        problems[_MAX_PROBLEMS:] = [f"and {len(problems) - _MAX_PROBLEMS} more"]
    raise InvalidResult(method=method, problems=problems) from failure


def lenient(cls: type[T], value: object) -> T | None:
    """Read a JSON value as `cls`; None when it does not fit.  For what is only displayed."""
    try:
        return cast(T, _hooks[cls](value, cls))
    except Exception:
        return None


def _collect(error: BaseException, value: Any, path: str, problems: list[str], name: str = "") -> None:
    """Flatten cattrs' tree of exceptions into one line a leaf."""
    if isinstance(error, ClassValidationError):
        renamed = _is_wire_model(error.cl)
        located, others = error.group_exceptions()
        for inner, note in located:
            key = wire_names(error.cl)[note.name] if renamed else note.name
            _collect(inner, _member(value, key), f"{path}.{key}" if path else key, problems, name)
    elif isinstance(error, IterableValidationError):
        items, others = error.group_exceptions()
        for inner, item_note in items:
            item = _member(value, item_note.index)
            item_name = _member(item, "name")
            label = f" (in {item_name!r:.60})" if isinstance(item_name, str) else name
            _collect(inner, item, f"{path}[{item_note.index!r}]", problems, label)
    else:
        reason = "is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
        problems.append(f"{path}: {reason}{name}" if path else f"{reason}{name}")
        return
    for other in others:
        _collect(other, value, path, problems, name)


def _member(value: Any, key: Any) -> Any:
    try:
        return value[key]
    except (LookupError, TypeError):
        return None
