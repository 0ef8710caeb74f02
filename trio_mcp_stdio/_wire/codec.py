"""Between Python values and JSON: reading results, and encoding what the caller passes.

`encode_params` is where a caller's mistake is found, before anything is queued.  msgspec alone would
write NaN as null, bytes as base64, sets as arrays and integer keys as strings without a word.

Pure: never imports trio.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .._errors import LocalProtocolError
from .convert import UNSET, Record, lenient, structure, to_wire

__all__ = ["MAX_DEPTH", "as_json", "encode_params", "lenient", "splice_meta", "structure", "unstructure"]

MAX_DEPTH: Final = 256
"""Deepest nesting that is sent; peers' parsers give up at some depth as well."""

_encode: Final = msgspec.json.Encoder().encode
_EXACT: Final = frozenset({str, int, bool, type(None)})


def unstructure(value: Record) -> dict[str, Any]:
    """Turn a data class into its JSON object: wire names, absent fields left out, `extra` merged in."""
    result: dict[str, Any] = to_wire(value)
    return result


def encode_params(params: Mapping[str, Any] | None) -> bytes:
    """Encode the parameters of a message as one compact JSON object without any newline; None is `{}`.

    Data classes of `types` are accepted anywhere in it.  Integers are exact, whatever their size.

    Raises:
        LocalProtocolError: a value has no JSON form; the message starts with its path, `arguments.x[3]`.
    """
    if params is None:
        return b"{}"
    if not isinstance(params, Mapping):
        raise LocalProtocolError(f"params must be a mapping, not {type(params).__name__}")
    try:
        if params.__class__ is dict and _is_plain(params, MAX_DEPTH):
            return _encode(params)
    except (ValueError, RecursionError):
        pass  # a lone surrogate, or an integer of too many digits: the walk below finds the place
    try:
        return _encode(_plain(params, "", MAX_DEPTH))
    except RecursionError:
        raise LocalProtocolError("params: nested too deep for the stack that is left") from None


def as_json(params: Mapping[str, Any] | None) -> Any:
    """What parameters are on the wire: a copy in which data classes, enums and the like are plain JSON.

    Raises:
        LocalProtocolError: as `encode_params`.
    """
    return msgspec.json.decode(encode_params(params))


def splice_meta(params: bytes, meta: bytes) -> bytes:
    """Append a `_meta` member to an encoded object that has none."""
    return b'{"_meta":%b}' % meta if params == b"{}" else b'%b,"_meta":%b}' % (params[:-1], meta)


def _is_plain(value: Any, depth: int) -> bool:
    """Whether a container holds nothing but exact JSON types.  Kept lean: it runs on every call."""
    if not depth:
        return False
    if value.__class__ is dict:
        for key in value:
            if key.__class__ is not str:
                return False
        value = value.values()
    for item in value:
        cls = item.__class__
        if cls in _EXACT:
            continue
        if cls is dict or cls is list or cls is tuple:
            if not _is_plain(item, depth - 1):
                return False
        elif cls is not float or not math.isfinite(item):
            return False
    return True


def _plain(value: Any, path: str, depth: int) -> Any:
    """Reduce a value to exact JSON types, or raise with its path."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, enum.Enum) and value is not UNSET and isinstance(value.value, str | int):
        return _plain(value.value, path, depth)
    if isinstance(value, str):
        return _plain_string(value, path)
    if isinstance(value, int):
        return _plain_integer(value, path)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _refused(path, f"{value!r} is not a JSON number")
        return float.__float__(value)
    if isinstance(value, Record):
        value = to_wire(value)
        if not isinstance(value, Mapping):
            return _plain(value, path, depth)
    if isinstance(value, Mapping | list | tuple):
        if not depth:
            raise _refused(path[:200], f"nested deeper than {MAX_DEPTH} levels, or contains itself")
        if isinstance(value, Mapping):
            return {
                _plain_key(key, path): _plain(item, _below(path, key), depth - 1)
                for key, item in value.items()
            }
        return [_plain(item, f"{path}[{index}]", depth - 1) for index, item in enumerate(value)]
    if value is UNSET:
        raise _refused(path, "UNSET is not a JSON value; leave the member out")
    raise _refused(path, f"{_article(type(value).__name__)} is not a JSON value")


def _plain_string(value: str, path: str) -> str:
    value = str.__str__(value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _refused(
            path, f"the string holds a lone surrogate (at index {error.start}), which UTF-8 cannot express"
        ) from None
    return value


def _plain_integer(value: int, path: str) -> int:
    value = int.__int__(value)
    try:
        _encode(value)
    except ValueError as error:  # the interpreter limits how many digits it converts
        raise _refused(path, f"the integer is too long to be written: {error}") from None
    return value


def _plain_key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise _refused(path, f"key {key!r:.80} is not a string")
    return _plain_string(key, _below(path, key))


def _below(path: str, key: Any) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f"{path}.{key}" if path else str.__str__(key)
    return f"{path}[{key!r:.80}]"


def _article(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def _refused(path: str, reason: str) -> LocalProtocolError:
    return LocalProtocolError(f"{path or 'params'}: {reason}")
