"""JSON-RPC messages: lines -> message objects and back.

`decode` never raises.  Its fast path is one typed pass of msgspec over the line; whatever that
refuses goes down one slow path built on the standard library, which either finds a tolerable message
in the line (`Tolerated`), takes an array apart (`Batch`), or says what is wrong (`Malformed`).

Duplicate members of an object: the last one wins.
"""

from __future__ import annotations

import functools
import json
import math
import re
from typing import Any, Final, Literal, TypeAlias

import attrs
import msgspec

from .._errors import LocalProtocolError
from .convert import UNSET, UnsetType, brief

__all__ = [
    "Batch",
    "Failure",
    "Malformed",
    "Message",
    "Notification",
    "Request",
    "RequestId",
    "Success",
    "Tolerated",
    "decode",
    "encode_failure",
    "encode_notification",
    "encode_request",
    "encode_success",
    "encode_value",
    "find_id",
    "preview",
]

RequestId: TypeAlias = int | str

MAX_BATCH: Final = 1_024
"""Messages of one array that are looked at; a longer one is malformed as a whole."""


@attrs.define(eq=False)
class Request:
    """A request of the peer."""

    id: RequestId
    method: str
    params: dict[str, Any]


@attrs.define(eq=False)
class Notification:
    """A notification of the peer."""

    method: str
    params: dict[str, Any]


@attrs.define(eq=False)
class Success:
    """An answer with a result."""

    id: RequestId
    result: dict[str, Any]


@attrs.define(eq=False)
class Failure:
    """An answer with an error; `id` is None where the peer gave none, `data` None where absent."""

    id: RequestId | None
    code: int
    message: str
    data: Any


@attrs.define(eq=False)
class Malformed:
    """A line that is no message.  A value, never an exception.

    `id` names the request that the line was meant to answer, where that can be told; `noise` is True
    for a line that was no JSON-RPC message at all.
    """

    reason: str
    excerpt: bytes
    id: RequestId | None
    noise: bool


@attrs.define(eq=False)
class Tolerated:
    """A message with a fault that does not hide its meaning."""

    message: Message
    reason: str


@attrs.define(eq=False)
class Batch:
    """The messages of a JSON array on one line."""

    messages: list[Message | Malformed | Tolerated]


Message: TypeAlias = Request | Notification | Success | Failure


class _Error(msgspec.Struct):
    code: int
    message: str
    data: Any = None


class _Envelope(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    result: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    error: _Error | msgspec.UnsetType = msgspec.UNSET


_decode_envelope = msgspec.json.Decoder(_Envelope).decode

_ABSENT: Final = msgspec.UNSET


def decode(line: bytes | bytearray) -> Message | Tolerated | Batch | Malformed:
    """Read one line.  Never raises, whatever the bytes."""
    try:
        envelope = _decode_envelope(line)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors, as is bad UTF-8
        return _salvage(line)
    request_id = envelope.id
    if envelope.method is _ABSENT:
        if envelope.result is not _ABSENT and envelope.error is _ABSENT:
            if request_id is not None and request_id is not _ABSENT:
                return Success(request_id, envelope.result)
        elif envelope.error is not _ABSENT and envelope.result is _ABSENT:
            error = envelope.error
            return Failure(
                None if request_id is _ABSENT else request_id, error.code, error.message, error.data
            )
    elif envelope.result is _ABSENT and envelope.error is _ABSENT:
        params = envelope.params
        if params is None or params is _ABSENT:
            params = {}
        if request_id is _ABSENT:
            return Notification(envelope.method, params)
        if request_id is not None:
            return Request(request_id, envelope.method, params)
    return _salvage(line)


# --- the slow path ---------------------------------------------------------------------------------

_LEADING_JUNK = re.compile(rb"(?:\xef\xbb\xbf|\x1b\[[0-?]*[ -/]*[@-~]|[ \t\r]++)++")
_MAY_BEGIN = frozenset({b"{", b"[", b" ", b"\t", b"\r", b"\xef", b"\x1b"})
_EXCERPT = 200
_SEARCHED = 65_536


@attrs.frozen(eq=False)
class _Fault:
    """Stands in a decoded value for what the standard decoder lets through and JSON does not."""

    reason: str


def _constant(name: str) -> _Fault:
    return _Fault(f"{name} is not JSON")


def _digits(digits: str) -> int | _Fault:
    try:
        return int(digits)
    except ValueError:  # the interpreter's limit
        return _Fault(f"an integer of {len(digits)} digits")


def _float(text: str) -> float | _Fault:
    number = float(text)
    return number if math.isfinite(number) else _Fault(f"{text:.40} is past the range of numbers")


def _fault_in(value: Any) -> _Fault | None:
    """The first fault in a decoded value; not recursive, since the value may be nested deeply."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, _Fault):
            return item
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return None


def _salvage(line: bytes | bytearray) -> Message | Tolerated | Batch | Malformed:
    reasons: list[str] = []
    if bytes(line[:1]) not in _MAY_BEGIN:  # what programs print is told apart without a decoder
        return Malformed("not JSON", bytes(line[:_EXCERPT]), None, noise=True)
    body = bytes(line)
    junk = _LEADING_JUNK.match(body, 0, _SEARCHED)
    if junk is not None and body[junk.end() : junk.end() + 1] in (b"{", b"["):
        reasons.append("bytes before the message")
        body = body[junk.end() :]
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        reasons.append("invalid UTF-8, replaced")
        text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text, parse_constant=_constant, parse_int=_digits, parse_float=_float)
    except RecursionError:
        return _unreadable(body, "nested too deeply")
    except ValueError as error:
        return _unreadable(body, f"not JSON ({error})")
    if not isinstance(value, list):
        return _strict_message(value, body, reasons)
    if len(value) > MAX_BATCH:
        return Malformed(f"an array of more than {MAX_BATCH} items", body[:_EXCERPT], None, noise=False)
    if value and not any(isinstance(item, dict) and "jsonrpc" in item for item in value):
        return Malformed("a JSON array that holds no message", body[:_EXCERPT], None, noise=True)
    return Batch([_strict_message(item, body, list(reasons)) for item in value])


def _strict_message(value: Any, body: bytes, reasons: list[str]) -> Message | Tolerated | Malformed:
    message = _message(value, body, reasons)
    fault = _fault_in(value)
    if fault is None:
        return message
    if isinstance(message, Tolerated):
        message = message.message
    answered = message.id if isinstance(message, (Success, Failure, Malformed)) else None
    noise = isinstance(message, Malformed) and message.noise
    return Malformed(fault.reason, body[:_EXCERPT], answered, noise=noise)


def _unreadable(body: bytes, reason: str) -> Malformed:
    head = body[:_SEARCHED]
    ours = head.lstrip().startswith(b"{") and (b'"jsonrpc"' in head or b'"jsonrpc"' in body[-_SEARCHED:])
    return Malformed(reason, body[:_EXCERPT], find_id(head) if ours else None, noise=not ours)


def _message(value: Any, body: bytes, reasons: list[str]) -> Message | Tolerated | Malformed:
    excerpt = body[:_EXCERPT]
    if not isinstance(value, dict):
        return Malformed("JSON, but no object", excerpt, None, noise=True)
    request_id = value.get("id")
    if isinstance(request_id, float) and request_id.is_integer():
        request_id = int(request_id)
        reasons.append("an id written as a fraction")
    if isinstance(request_id, bool) or not isinstance(request_id, (int, str)):
        bad_id = "id" in value and request_id is not None
        request_id = None
    else:
        bad_id = False
    answers = "result" in value or "error" in value
    if value.get("jsonrpc") != "2.0":
        noise = not (answers and "id" in value) and "jsonrpc" not in value
        return Malformed('no "jsonrpc": "2.0"', excerpt, request_id if answers else None, noise=noise)
    if bad_id:
        return Malformed("an id that is neither a string nor an integer", excerpt, None, noise=False)

    message: Message
    if "method" in value and not answers:
        method, params = value["method"], value.get("params")
        if not isinstance(method, str):
            return Malformed("a method that is no string", excerpt, None, noise=False)
        if params is None or params == []:
            params = {}  # an empty array stands for no parameters
        if not isinstance(params, dict):
            return Malformed("params that are no object", excerpt, None, noise=False)
        if "id" not in value:
            message = Notification(method, params)
        elif request_id is None:
            return Malformed("a request whose id is null", excerpt, None, noise=False)
        else:
            message = Request(request_id, method, params)
    elif "method" in value or not answers:
        return Malformed("neither request, notification nor answer", excerpt, request_id, noise=False)
    else:
        # JSON-RPC 1.0 wrote both members, one of them null; JSON-RPC 2.0 forbids it.
        error, result = value.get("error"), value.get("result")
        if error is not None and result is not None:
            return Malformed("an answer with both result and error", excerpt, request_id, noise=False)
        if "error" in value and "result" in value and (error is not None or result is not None):
            reasons.append("an answer with both members, one of them null")
        if error is not None:
            message = _failure(request_id, error, reasons)
        elif not isinstance(result, dict):
            return Malformed("a result that is no object", excerpt, request_id, noise=False)
        elif request_id is None:
            return Malformed("a result without an id", excerpt, None, noise=False)
        else:
            message = Success(request_id, result)
    return Tolerated(message, "; ".join(reasons)) if reasons else message


def _failure(request_id: RequestId | None, error: Any, reasons: list[str]) -> Failure:
    if not isinstance(error, dict):
        reasons.append("an error that is no object")
        return Failure(request_id, 0, _text(error), None)
    code, message = error.get("code"), error.get("message")
    if isinstance(code, bool) or not isinstance(code, int):
        reasons.append(f"an error code that is no integer: {brief(code)}")
        try:
            code = int(code) if isinstance(code, (str, float)) else 0  # "-32601", -32601.0
        except (ValueError, OverflowError):
            code = 0
    if not isinstance(message, str):
        reasons.append("an error message that is no string")
        message = _text(message)
    return Failure(request_id, code, message, error.get("data"))


def _text(value: Any) -> str:
    """What stands where a text should."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, default=repr)
    except RecursionError:
        return "(nested too deeply)"


# --- ids of lines that cannot be decoded -----------------------------------------------------------

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*'
_TOKEN = re.compile(_STRING + rb'"?|[{}\[\]]', re.DOTALL)
_COLON = re.compile(rb"\s*:")
_ID_VALUE = re.compile(rb"\s*:\s*(-?[0-9]{1,40}|" + _STRING + rb'")\s*[,}]', re.DOTALL)
_ID_AT_END = re.compile(
    rb'[,{]\s*"id"\s*:\s*(-?[0-9]{1,40}|' + _STRING + rb'")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z',
    re.DOTALL,
)


def find_id(head: bytes, tail: bytes = b"", *, of_request: bool = False) -> RequestId | None:
    """Find the id of an answer of which only the head and the tail can be read.

    In the head, strings and brackets are followed, so that only a member of the outermost object
    counts.  In the tail the member has to be the last one, or the last but `jsonrpc`: nothing else
    can be told to be top-level from behind.  A message with a method is no answer: its id is one of the
    peer's own, and is returned only if `of_request` asks for it.
    """
    depth = 0
    found: RequestId | None = None
    for token in _TOKEN.finditer(head):
        first = token[0][:1]
        if first in b"{[":
            depth += 1
        elif first in b"}]":
            depth -= 1
        elif depth == 1 and token[0] == b'"method"' and _COLON.match(head, token.end()):
            if not of_request:
                return None
        elif depth == 1 and token[0] == b'"id"' and found is None:
            value = _ID_VALUE.match(head, token.end())
            found = None if value is None else _id_from_text(value[1])
    if found is not None:
        return found
    at_end = _ID_AT_END.search(tail)
    return None if at_end is None else _id_from_text(at_end[1])


def _id_from_text(text: bytes) -> RequestId | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, (int, str)) else None


def preview(data: bytes | bytearray, limit: int = 100) -> str:
    """A short text for logs and errors, with every control byte escaped so that no terminal obeys it."""
    text = data[:limit].decode("utf-8", "backslashreplace")
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return escaped + ("…" if len(data) > limit else "")


# --- encoding --------------------------------------------------------------------------------------

_encode = msgspec.json.Encoder().encode


@functools.lru_cache(maxsize=256)
def _quoted(method: str) -> bytes:
    try:
        return _encode(method)
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"method {method!r} has no UTF-8 form: {error.reason}") from error


def encode_request(request_id: RequestId, method: str, params: bytes) -> bytes:
    """A request line, newline included; `params` is an encoded object."""
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}\n' % (
        b"%d" % request_id if type(request_id) is int else encode_value(request_id),
        _quoted(method),
        params,
    )


def encode_notification(method: str, params: bytes | None) -> bytes:
    """A notification line, newline included; None leaves `params` out."""
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}\n' % _quoted(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}\n' % (_quoted(method), params)


def encode_success(request_id: RequestId, result: bytes) -> bytes:
    """An answer line with an encoded result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (encode_value(request_id), result)


def encode_failure(
    request_id: RequestId | UnsetType | None, code: int, message: str, data: Any = UNSET
) -> bytes:
    """An answer line with an error; `data` is left out when UNSET.

    An error about a message without a readable id has the id None, which revisions before 2025-11-25
    require, or UNSET, which leaves it out, as the later ones have it.
    """
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not UNSET:
        error["data"] = data
    if isinstance(request_id, UnsetType):
        return b'{"jsonrpc":"2.0","error":%b}\n' % encode_value(error)
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (encode_value(request_id), encode_value(error))


def encode_value(value: Any) -> bytes:
    """Encode what may come from the peer: a lone surrogate came in as an escape, and becomes one again."""
    try:
        return _encode(value)
    except (OverflowError, UnicodeEncodeError):
        return json.dumps(value).encode("ascii")
