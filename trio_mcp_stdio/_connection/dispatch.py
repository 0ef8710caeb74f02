"""The peer's requests: each in a task and a cancel scope of its own.

The reader hands a request over and goes on at once; the scope stands under the request's id before its
task has run a step, so that a cancellation which follows at once finds it.  A cancelled request is not
answered (specification, basic: cancellation).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from .._errors import McpError, RpcError
from .._wire import methods
from .._wire.codec import encode_params
from .._wire.convert import brief
from .._wire.jsonrpc import Request, RequestId, encode_failure, encode_success

__all__ = ["Dispatcher"]

MAX_RUNNING: Final = 64
"""Requests of the peer that are worked on at a time; further ones are refused."""

_logger = logging.getLogger("trio_mcp_stdio.connection")


@attrs.define(eq=False)
class _Running:
    request: Request
    scope: trio.CancelScope
    answer: bytes | None = None


class Dispatcher:
    """Runs the handlers of the peer's requests.

    Args:
        handle: gives the result of a request.  An `RpcError` that it raises is the answer; any other
            exception is logged and answered as an internal error.
        reply: sends an answer.
        name: server name, for logs.
    """

    def __init__(
        self,
        handle: Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]],
        *,
        reply: Callable[[bytes], None],
        name: str,
    ) -> None:
        self._handle = handle
        self._reply = reply
        self._name = name
        self._running: dict[RequestId, _Running] = {}
        self.nursery: trio.Nursery | None = None
        """Where the handlers run; set by the owner of the connection."""

    def __repr__(self) -> str:
        return f"<Dispatcher: {len(self._running)} running>"

    def start(self, requests: Sequence[Request], *, ready: Sequence[bytes] = (), batch: bool = False) -> None:
        """Work on a request, or on those of a batch, which are answered together.

        Args:
            ready: answers of the batch that are there already.
        """
        refused = list(ready)
        accepted: list[_Running] = []
        for request in requests:
            if self.nursery is None or len(self._running) >= MAX_RUNNING:
                refused.append(
                    encode_failure(request.id, methods.INTERNAL_ERROR, "Too many requests at a time")
                )
            elif request.id in self._running:
                refused.append(encode_failure(request.id, methods.INVALID_REQUEST, "This id is in use"))
            else:
                running = _Running(request, trio.CancelScope())
                self._running[request.id] = running
                accepted.append(running)
        if not accepted or self.nursery is None:
            self._send(refused, batch)
        elif batch:
            self.nursery.start_soon(self._run_batch, accepted, refused)
        else:
            self._send(refused, batch)
            self.nursery.start_soon(self._run_one, accepted[0])

    def cancel(self, request_id: object, reason: object) -> bool:
        """The peer cancels one of its requests; False when it is not running."""
        running = self._running.get(request_id) if isinstance(request_id, (int, str)) else None
        if running is None or isinstance(request_id, bool):
            return False
        method = brief(running.request.method)
        _logger.info("%s: it cancels its %s: %s", self._name, method, brief(reason))
        running.scope.cancel(reason="the peer cancelled the request")
        return True

    def cancel_all(self) -> None:
        """The connection ends: no answer is wanted any more, and no request is taken."""
        self.nursery = None
        for running in self._running.values():
            running.scope.cancel(reason="the connection ends")

    async def _run_one(self, running: _Running) -> None:
        await self._run(running)
        if running.answer is not None:
            self._send([running.answer], batch=False)

    async def _run_batch(self, batch: list[_Running], answers: list[bytes]) -> None:
        async with trio.open_nursery() as nursery:
            for running in batch:
                nursery.start_soon(self._run, running)
        self._send(
            [*answers, *(running.answer for running in batch if running.answer is not None)], batch=True
        )

    async def _run(self, running: _Running) -> None:
        request = running.request
        try:
            with running.scope:
                running.answer = await self._answer(request)
            if running.scope.cancel_called:
                running.answer = None  # the handler did not notice
        finally:
            del self._running[request.id]

    async def _answer(self, request: Request) -> bytes:
        try:
            return encode_success(
                request.id, encode_params(await self._handle(request.method, request.params))
            )
        except RpcError as error:
            return encode_failure(request.id, _allowed(error.code), error.message[:1000])
        except McpError as error:
            _logger.warning("%s: its %s cannot be answered: %s", self._name, brief(request.method), error)
            return encode_failure(request.id, methods.INTERNAL_ERROR, "The answer is not valid")
        except Exception:
            _logger.exception("%s: the handler of its %s raised", self._name, brief(request.method))
            return encode_failure(request.id, methods.INTERNAL_ERROR, "Internal error")

    def _send(self, answers: Sequence[bytes], batch: bool) -> None:
        if batch and answers:
            self._reply(b"[%b]\n" % b",".join(answer.rstrip(b"\n") for answer in answers))
        elif not batch:
            for answer in answers:
                self._reply(answer)


def _allowed(code: int) -> int:
    """Codes that the specification reserves are not for handlers to invent (basic: error codes)."""
    defined = (-32700, -32600, -32601, -32602, -32603)
    return code if code in defined or not -32768 <= code <= -32000 else methods.INTERNAL_ERROR
