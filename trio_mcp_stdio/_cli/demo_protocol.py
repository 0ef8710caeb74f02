"""What the demo server says: requests of either era to answers, without I/O.

A request that carries the metadata of the modern revision is served by it alone.  `initialize` opens a
legacy session, and requests without that metadata belong to it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from .._errors import LocalProtocolError
from .._version import __version__
from .._wire import methods
from .._wire.codec import encode_params
from .._wire.convert import UNSET
from .._wire.jsonrpc import (
    Batch,
    Malformed,
    Notification,
    Request,
    RequestId,
    Tolerated,
    decode,
    encode_failure,
    encode_notification,
    encode_success,
    find_id,
)
from .._wire.lines import LineSplitter, Oversized, OversizedStage
from .._wire.methods import INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_VERSION, Era
from .demo_calls import Call, Calls
from .demo_tools import BadArguments, Pause, Result, content

__all__ = ["DemoServer"]

PARSE_ERROR: Final = -32700
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

MODERN_VERSION: Final = methods.MODERN_VERSIONS[0]
LEGACY_VERSION: Final = methods.LEGACY_VERSIONS[0]
"""The one legacy revision served; a client that asks for another is offered this one."""

MAX_LINE: Final = 2**20
"""Longest line taken, in bytes."""

INFO: Final = {"name": "trio-mcp-demo", "version": __version__}
INSTRUCTIONS: Final = "Tools to try a client with: some answer at once, some take their time."


class _Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class DemoServer:
    """The server: takes chunks of input, hands out lines, and is told when to go on.

    Args:
        write: takes each line of output.
        log: takes each line for people.
        clock: seconds, from any beginning.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        *,
        log: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._log = log
        self._splitter = LineSplitter(max_line_bytes=MAX_LINE)
        self._legacy = False  # whether a legacy session is open
        self._calls = Calls(clock=clock, on_result=self._end_call, on_progress=self._report)
        self.run_due = self._calls.run_due
        self.close = self._calls.close

    # --- input ---

    def receive(self, chunk: bytes) -> None:
        """Take some bytes of input."""
        for line in self._splitter.feed(chunk):
            if isinstance(line, Oversized):
                if line.stage is not OversizedStage.OPEN:
                    too_long = f"the line is longer than {MAX_LINE} bytes"
                    self._fail(find_id(line.head, line.tail, of_request=True), INVALID_REQUEST, too_long)
                continue
            message = decode(line)
            if isinstance(message, Tolerated):
                message = message.message
            match message:
                case Request():
                    self._on_request(message)
                case Notification(method=methods.CANCELLED):
                    self._on_cancelled(message.params)
                case Malformed() | Batch():
                    self._on_malformed(bytes(line))
                case _:
                    pass  # other notifications tell it nothing, and answers belong to no request of its own

    def _on_malformed(self, line: bytes) -> None:
        try:
            value = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            self._fail(None, PARSE_ERROR, "the line is not JSON")
            return
        request_id = None
        if isinstance(value, dict):
            is_answer = "method" not in value and ("result" in value or "error" in value)
            if is_answer or ("method" in value and "id" not in value):
                return  # neither answers nor notifications are ever answered
            request_id = value.get("id")
        self._fail(request_id if _is_id(request_id) else None, INVALID_REQUEST, "the line is no request")

    def _on_cancelled(self, params: Mapping[str, Any]) -> None:
        stopped = self._calls.cancel(params.get("requestId"))
        if stopped is not None:
            tool, seconds = stopped
            self._log(f"stopped {tool} after {seconds:.2f} s, reason: {params.get('reason')!a:.200}")

    # --- requests ---

    def _on_request(self, request: Request) -> None:
        try:
            if request.id in self._calls:
                raise _Refusal(INVALID_REQUEST, "a request of this id is still being served")
            era = self._era_of(request)
            answer = self._methods(era).get(request.method)
            if answer is None:
                raise _Refusal(METHOD_NOT_FOUND, f"unknown method {request.method!r:.80}")
            result = answer(request, era)
            if result is not None:
                self._succeed(request.id, era, result)
        except _Refusal as refusal:
            self._fail(request.id, refusal.code, str(refusal), refusal.data)

    def _era_of(self, request: Request) -> Era:
        meta = request.params.get("_meta")
        if not isinstance(meta, dict) or methods.META_VERSION not in meta:
            if self._legacy or request.method in (methods.INITIALIZE, methods.PING):
                return Era.LEGACY
            raise _Refusal(INVALID_PARAMS, f"_meta has to name {methods.META_VERSION}")
        version = meta[methods.META_VERSION]
        if not isinstance(version, str):
            raise _Refusal(INVALID_PARAMS, f"{methods.META_VERSION} has to be a string")
        if not isinstance(meta.get(methods.META_CAPABILITIES), dict):
            raise _Refusal(INVALID_PARAMS, f"_meta has to hold {methods.META_CAPABILITIES}, an object")
        if version != MODERN_VERSION:
            requested = version.encode("utf-8", "replace").decode()
            data = {"supported": [MODERN_VERSION], "requested": requested}
            raise _Refusal(UNSUPPORTED_VERSION, "unsupported protocol version", data)
        return Era.MODERN

    def _methods(self, era: Era) -> Mapping[str, Callable[[Request, Era], Result | None]]:
        both = {methods.TOOLS_LIST: self._list_tools, methods.TOOLS_CALL: self._call_tool}
        if era is Era.MODERN:
            return {methods.DISCOVER: self._discover, **both}
        return {methods.INITIALIZE: self._initialize, methods.PING: lambda *_: {}, **both}

    def _discover(self, _: Request, era: Era) -> Result:
        return {
            "supportedVersions": [MODERN_VERSION],
            "capabilities": {"tools": {}},
            "instructions": INSTRUCTIONS,
            **_caching(era),
        }

    def _initialize(self, request: Request, _: Era) -> Result:
        if not isinstance(request.params.get("protocolVersion"), str):
            raise _Refusal(INVALID_PARAMS, "protocolVersion has to be a string")
        self._legacy = True
        return {
            "protocolVersion": LEGACY_VERSION,
            "capabilities": {"tools": {}},
            "serverInfo": INFO,
            "instructions": INSTRUCTIONS,
        }

    def _list_tools(self, request: Request, era: Era) -> Result:
        if request.params.get("cursor") is not None:
            raise _Refusal(INVALID_PARAMS, "unknown cursor")
        return {"tools": [tool.on_wire() for tool in self._calls.tools.values()], **_caching(era)}

    def _call_tool(self, request: Request, era: Era) -> Result | None:
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str):
            raise _Refusal(INVALID_PARAMS, "name has to be a string")
        if arguments is not None and not isinstance(arguments, dict):
            raise _Refusal(INVALID_PARAMS, "arguments have to be an object")
        tool = self._calls.tools.get(name)
        if tool is None:
            raise _Refusal(INVALID_PARAMS, f"unknown tool {name!r:.80}")
        if self._calls.is_full:
            raise _Refusal(INTERNAL_ERROR, "too many calls are running already")
        token = _progress_token(request.params.get("_meta"))
        try:
            self._calls.start(request.id, era, tool, arguments or {}, token)
        except BadArguments as error:
            return content(str(error), isError=True)
        return None

    # --- output ---

    def _end_call(self, call: Call, result: Result) -> None:
        self._succeed(call.id, call.era, result)

    def _report(self, token: RequestId, pause: Pause) -> None:
        params = {"progress": pause.progress, "total": pause.total, "message": pause.message}
        stated = {name: value for name, value in params.items() if value is not None}
        self._write(encode_notification(methods.PROGRESS, encode_params({"progressToken": token, **stated})))

    def _succeed(self, request_id: RequestId, era: Era, result: Result) -> None:
        if era is Era.MODERN:
            result = {"resultType": "complete", **result, "_meta": {methods.META_SERVER_INFO: INFO}}
        try:
            encoded = encode_params(result)
        except LocalProtocolError as error:
            self._fail(request_id, INTERNAL_ERROR, f"the result cannot be sent: {error}")
        else:
            self._write(encode_success(request_id, encoded))

    def _fail(
        self, request_id: RequestId | None, code: int, message: str, data: dict[str, Any] | None = None
    ) -> None:
        # An id that cannot be read is left out, as both revisions that this server speaks have it.
        named = UNSET if request_id is None else request_id
        self._write(encode_failure(named, code, message, UNSET if data is None else data))


def _caching(era: Era) -> Result:
    return {"ttlMs": 0, "cacheScope": "public"} if era is Era.MODERN else {}


def _is_id(value: object) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _progress_token(meta: object) -> RequestId | None:
    token = meta.get(methods.PROGRESS_TOKEN) if isinstance(meta, dict) else None
    if token is None:
        return None
    try:
        if isinstance(token, int | str) and not isinstance(token, bool):
            encode_params({"token": token})  # a lone surrogate could not be sent back
            return token
    except LocalProtocolError:
        pass
    raise _Refusal(INVALID_PARAMS, "progressToken has to be a string or an integer")


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
