"""One negotiated connection: lines in, calls out, and the messages of the peer in between.

Incoming bytes are handled synchronously in the reader's task, from chunk to waiting caller; nothing here
may await in that direction.  The caller's own task opens the cancel scope of its request, waits in it,
runs its progress callback and raises.
"""

from __future__ import annotations

import inspect
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import trio

from .._errors import (
    LineTooLong,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
)
from .._io.callbacks import CallbackQueue
from .._io.pump import Pump
from .._io.waiter import Waiter
from .._wire import methods
from .._wire.calls import Call, CallTable, LostCall, Oddity, Outcome, TooLong
from .._wire.codec import encode_params, splice_meta
from .._wire.jsonrpc import (
    Batch,
    Failure,
    Malformed,
    Message,
    Notification,
    Request,
    Success,
    Tolerated,
    decode,
    encode_failure,
    encode_request,
    encode_success,
    find_id,
    preview,
)
from .._wire.lines import LineSplitter, Oversized, OversizedStage
from .._wire.methods import Era
from ..types import Notification as PublicNotification
from ..types import ProgressUpdate
from .admission import Admission
from .loss import Loss
from .watchdog import Guard, Watchdog

__all__ = ["ProgressHandler", "Session", "WireObserver"]

ProgressHandler: TypeAlias = Callable[[ProgressUpdate], None] | Callable[[ProgressUpdate], Awaitable[None]]
WireObserver: TypeAlias = Callable[[Literal["send", "receive"], bytes], None]

_CANCELLED: Final = "the caller cancelled it"

MAX_PREVIEWS: Final = 5
"""First lines that were no messages, kept for error texts."""

MAX_HELD: Final = 64
"""Requests of the peer held back while the era is unknown, which decides whether they may be answered."""

_logger = logging.getLogger("trio_mcp_stdio.connection")
_call_logger = logging.getLogger("trio_mcp_stdio.client")


class Session:
    """The two directions of one stream, joined by a call table.

    Args:
        stream: the connected stream.
        name: server name, for logs and errors.
        on_ending: called once with the reason when the stream ends, breaks, or the peer sends what
            no connection survives.

    Attributes:
        era: era of the connection, None until it is settled.
        version: protocol revision, None until then.
        loss: what ended the connection, None while it lives.
        stdout_ended: set when nothing more can be read.
    """

    def __init__(
        self,
        stream: trio.abc.HalfCloseableStream,
        *,
        name: str,
        max_line_bytes: int | None,
        max_in_flight: int,
        max_unsent_bytes: int,
        strict: bool,
        notifications: CallbackQueue[PublicNotification] | None,
        observer: WireObserver | None,
        on_ending: Callable[[Loss], None],
    ) -> None:
        self.name = name
        self.era: Era | None = None
        self.version: str | None = None
        self.loss: Loss | None = None
        self.stdout_ended = trio.Event()
        self.meta = b""  # encoded members of every request's `_meta`, empty in a legacy connection
        self.table = CallTable(strict=strict, note=self._note)
        self.pump = Pump(
            stream,
            on_chunk=self._on_chunk,
            on_eof=self._on_eof,
            next_batch=self.table.take_batch if observer is None else self._observed_batch,
            on_sent=self._on_sent,
            on_broken=self._on_broken,
        )
        self.watchdog = Watchdog()
        self._admission = Admission(
            max_in_flight=max_in_flight,
            max_unsent_bytes=max_unsent_bytes,
            unsent_bytes=lambda: self.table.unsent_bytes,
        )
        self._splitter = LineSplitter(max_line_bytes=max_line_bytes)
        self._max_line_bytes = max_line_bytes
        self._strict = strict
        self._notifications = notifications
        self._observer = observer
        self._on_ending = on_ending
        self._held: list[Request] | None = []
        self._ending = False
        self._skipping = False  # inside a line past the bound
        self._attributed = False  # the call that it answers has failed
        self._oddities: deque[tuple[float, str]] = deque(maxlen=16)
        self._warned: set[str] = set()

        self.bytes_received = self.lines_received = 0
        self.noise = self.malformed = self.violations = self.tolerated = self.oversized = 0
        self.notification_count = self.timed_out = 0
        self.observer_errors = 0
        self.noise_previews: list[str] = []
        self._messages = 0

    def __repr__(self) -> str:
        state = "ended" if self.loss is not None else "open"
        return f"<Session with {self.name!r}, {self.version or 'not negotiated'}, {state}: {self.table!r}>"

    # --- calls ---

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        timeout: float | None,
        idle_timeout: float | None = None,
        on_progress: ProgressHandler | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Send a request and wait for its result.

        One request is one cancel scope, which also holds the waiting for a slot.  However it is left
        without an answer, `CallTable.abandon` decides what goes out: nothing if no byte of the request
        did, else one `notifications/cancelled`.

        Raises:
            LocalProtocolError: the parameters cannot be encoded; nothing was queued.
            RequestTimeout: a limit passed.
            RpcError: the peer answered with an error.
            RemoteProtocolError: the answer cannot be read.
            ConnectionLost: the connection ended first.
        """
        body = encode_params(params)
        table = self.table
        request_id = table.reserve_id()
        wants_progress = on_progress is not None or idle_timeout is not None
        body = self._add_meta(body, request_id if wants_progress else None, meta)
        line = encode_request(request_id, method, body)
        call: Call | None = None
        entered = False
        lines_before = self.lines_received
        began = trio.current_time()
        scope = trio.CancelScope()
        guard = self.watchdog.watch(scope, timeout, idle_timeout)
        waiter = _CallWaiter(self, guard)
        with scope:
            try:
                if not self._admission.enter_nowait(len(line)):
                    await self._admission.enter(len(line))
                entered = True
                if self.loss is not None:
                    raise self.loss.error(server=self.name, method=method)
                call = table.open(request_id, method, line, wake=waiter.wake, wants_progress=wants_progress)
                waiter.call = call
                self.pump.kick()
                await waiter.wait()
                if wants_progress:
                    await self._follow(call, waiter, on_progress)
            except BaseException as error:
                if call is not None:  # left from within the progress callback
                    cancelled = isinstance(error, trio.Cancelled)
                    self.give_up(call, guard, _CANCELLED if cancelled else "the progress callback raised")
                raise
            finally:
                self.watchdog.forget(guard)
                if entered:
                    self._admission.leave()
        outcome = None if call is None else call.outcome
        if isinstance(outcome, Success):
            return outcome.result
        if outcome is None:
            assert guard.fired is not None
            limit = timeout if guard.fired == "timeout" else idle_timeout
            assert limit is not None
            self.timed_out += 1
            raise RequestTimeout(
                method=method,
                request_id=None if call is None else request_id,
                timeout=limit,
                elapsed=trio.current_time() - began,
                idle=guard.fired != "timeout",
                received=self.received_since(began, lines_before),
                server=self.name,
            )
        raise self.error_for(method, outcome)

    def give_up(self, call: Call, guard: Guard, reason: str) -> None:
        """Stop waiting for a call, in the same step in which that is decided."""
        if guard.fired is not None:
            reason = f"{guard.fired} passed"
        if self.table.abandon(call, reason):
            self.pump.kick()
            _call_logger.info("%s: cancelling %s (id %s): %s", self.name, call.method, call.id, reason)

    async def _follow(self, call: Call, waiter: _CallWaiter, on_progress: ProgressHandler | None) -> None:
        """Hand progress to the caller, in order, until the answer is there; the answer comes last."""
        progress = call.progress
        assert progress is not None
        while True:
            while progress:
                update = progress.popleft()
                if on_progress is not None:
                    self.watchdog.suspend_idle(waiter.guard)
                    outcome = on_progress(update)
                    if inspect.isawaitable(outcome):
                        await outcome
            if call.outcome is not None:
                return
            self.watchdog.touch(waiter.guard)
            await waiter.wait()

    def error_for(self, method: str, outcome: Outcome) -> McpError:
        """The error that an outcome other than a result is raised as."""
        if isinstance(outcome, Failure):
            return RpcError.from_wire(
                outcome.code, outcome.message, outcome.data, method=method, server=self.name
            )
        if isinstance(outcome, LostCall):
            loss: Loss = outcome.why
            return loss.error(server=self.name, method=method, delivery=outcome.delivery)
        if isinstance(outcome, TooLong):
            return LineTooLong(
                f"the answer to {method} is longer than max_line_bytes ({outcome.limit} bytes)",
                limit=outcome.limit,
                size=outcome.size,
                server=self.name,
            )
        assert isinstance(outcome, Malformed)
        return RemoteProtocolError(
            f"the answer to {method} cannot be read: {outcome.reason}: {preview(outcome.excerpt)}",
            server=self.name,
        )

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Queue a notification; waits only while too many bytes wait to be written.

        Raises:
            LocalProtocolError: the parameters cannot be encoded.
            ConnectionLost: the connection has ended.
        """
        body = None if params is None else encode_params(params)
        await trio.lowlevel.checkpoint()
        size = len(body or b"")
        if not self._admission.enter_nowait(size, slots=0):
            await self._admission.enter(size, slots=0)
        if self.loss is not None:
            raise self.loss.error(server=self.name, method=method)
        self.table.notify(method, body)
        self.pump.kick()

    def open_negotiation_call(self, method: str, params: Mapping[str, Any], wake: Callable[[], None]) -> Call:
        """Queue a call of the negotiation, which is never cancelled on the wire."""
        if self.loss is not None:
            raise self.loss.error(server=self.name, method=method)
        request_id = self.table.reserve_id()
        line = encode_request(request_id, method, encode_params(params))
        call = self.table.open(request_id, method, line, wake=wake, cancellable=False)
        self.pump.kick()
        return call

    def settle_era(self, era: Era, version: str, meta: Mapping[str, Any]) -> None:
        """The negotiation is over: fix the era, and deal with what the peer asked meanwhile."""
        self.era = era
        self.version = version
        self.meta = encode_params(meta)[1:-1] if meta else b""
        held, self._held = self._held, None
        for request in held or ():
            self._on_request(request)

    def lose(self, loss: Loss) -> None:
        """The connection has ended: every call fails, and every later one."""
        if self.loss is not None:
            return
        self.loss = loss
        self._ending = True
        self.table.fail_all(loss)
        self._admission.close()

    def received_since(self, began: float, lines_before: int = 0) -> tuple[str, ...]:
        """What came instead of an answer, a sentence each."""
        said = [text for when, text in self._oddities if when >= began]
        lines = self.lines_received - lines_before
        if lines:
            said.insert(0, f"{lines} line{'s' if lines > 1 else ''}, none of them the answer")
        if self._splitter.buffered:
            said.append(f"{self._splitter.buffered} bytes of a line without a newline")
        return tuple(said)

    def _add_meta(self, body: bytes, token: int | None, meta: Mapping[str, Any] | None) -> bytes:
        members = [self.meta] if self.meta else []
        if meta:
            for key in meta:
                if key in _PROTOCOL_KEYS:
                    raise LocalProtocolError(
                        f"_meta key {key!r} is set by the client itself", server=self.name
                    )
            members.append(encode_params(meta)[1:-1])
        if token is not None:
            members.append(b'"progressToken":%d' % token)
        return splice_meta(body, b"{%b}" % b",".join(members)) if members else body

    @property
    def waiting(self) -> int:
        """Callers that wait to be admitted."""
        return self._admission.waiting

    # --- bytes and lines coming in: all of it in the reader's task ---

    def _on_chunk(self, chunk: bytes) -> None:
        self.bytes_received += len(chunk)
        for line in self._splitter.feed(chunk):
            if self.loss is not None and self.loss.fault is not None:
                return  # no connection survives what came before this line
            if isinstance(line, Oversized):
                self._on_oversized(line)
            else:
                self._on_line(line)

    def _on_line(self, line: bytes | bytearray) -> None:
        self.lines_received += 1
        if self._observer is not None:
            self._observe("receive", bytes(line))
        message = decode(line)
        if type(message) is Success:
            self._messages += 1
            self.table.receive(message)
        elif isinstance(message, Malformed):
            self._on_malformed(message)
        elif isinstance(message, Batch):
            self._on_batch(message, line)
        elif isinstance(message, Tolerated):
            self._tolerate(message.reason, line)
            self._on_message(message.message)
        else:
            self._on_message(message)

    def _on_message(self, message: Message) -> None:
        self._messages += 1
        rest = self.table.receive(message)
        if isinstance(rest, Notification):
            self.notification_count += 1
            if self._notifications is not None:
                self._notifications.put(PublicNotification(method=rest.method, params=rest.params))
        elif isinstance(rest, Request):
            self._on_request(rest)

    def _on_request(self, request: Request) -> None:
        """A request of the peer: an answer in the legacy era, a violation in the modern one."""
        if self._held is not None:
            if len(self._held) < MAX_HELD:
                self._held.append(request)
            else:
                self._violation(f"more than {MAX_HELD} requests before the era was known")
        elif self.era is Era.LEGACY:
            if self.table.reply(self._answer(request)):
                self.pump.kick()
        else:
            self._violation(f"request {request.method}, but only clients send requests in this revision")

    def _answer(self, request: Request) -> bytes:
        if request.method == methods.PING:
            return encode_success(request.id, b"{}")
        return encode_failure(request.id, methods.METHOD_NOT_FOUND, f"Method not found: {request.method}")

    def _on_batch(self, batch: Batch, line: bytes | bytearray) -> None:
        batches_exist = self.version == methods.BATCH_VERSION
        if not batches_exist:
            self._tolerate("a JSON array of messages, which this revision does not have", line)
        answers: list[bytes] = []
        refused = False
        for item in batch.messages:
            message = item.message if isinstance(item, Tolerated) else item
            if isinstance(message, Malformed):
                self._on_malformed(message)
            elif isinstance(message, Request) and self.era is Era.LEGACY:
                if batches_exist:
                    answers.append(self._answer(message))
                refused = not batches_exist
            else:
                self._on_message(message)
        if answers:
            # JSON-RPC 2.0: the answers to a batch are one array.
            reply = b"[%b]\n" % b",".join(answer.rstrip(b"\n") for answer in answers)
        elif refused:
            reply = encode_failure(None, methods.INVALID_REQUEST, "Batches do not exist in this revision")
        else:
            return
        if self.table.reply(reply):
            self.pump.kick()

    def _on_malformed(self, malformed: Malformed) -> None:
        shown = preview(malformed.excerpt)
        if malformed.noise:
            self.noise += 1
            if len(self.noise_previews) < MAX_PREVIEWS:
                self.noise_previews.append(shown)
            self._remember(f"no message: {shown}")
            self._warn_once("noise", "%s: not a protocol message on stdout, skipped: %s", self.name, shown)
            if self._messages == 0 and malformed.excerpt[:15].lower() == b"content-length:":
                self._fatal(
                    "the server frames its messages with Content-Length headers (as the Language Server "
                    "Protocol does); MCP over stdio has one message a line"
                )
        else:
            self.malformed += 1
            self._remember(f"malformed message ({malformed.reason}): {shown}")
            self._warn_once("malformed", "%s: malformed message (%s): %s", self.name, malformed.reason, shown)
            if malformed.id is not None and self.table.fail(malformed.id, malformed):
                return
        if self._strict:
            self._fatal(f"not a protocol message on stdout ({malformed.reason}): {shown}")

    def _on_oversized(self, line: Oversized) -> None:
        """A line past the bound costs the request it answers, if that can be told, else the connection."""
        assert self._max_line_bytes is not None
        if line.stage is not OversizedStage.ENDLESS:
            self.oversized += line.stage is OversizedStage.OPEN or not self._skipping
        self._skipping = line.stage is not OversizedStage.ENDED
        if self._attributed:  # its call has failed already
            self._attributed = self._skipping
            if line.stage is OversizedStage.ENDLESS:
                self._too_long(line)
            return
        is_object = line.head.lstrip().startswith(b"{")
        request_id = find_id(line.head, line.tail) if is_object else None
        outcome = TooLong(self._max_line_bytes, line.size)
        if request_id is not None and self.table.fail(request_id, outcome):
            self._attributed = self._skipping
        elif line.stage is not OversizedStage.OPEN or not is_object:
            self._too_long(line)

    def _on_eof(self) -> None:
        rest = self._splitter.finish()
        truncated = bool(rest) and isinstance(decode(rest), Malformed)
        if truncated:
            self._remember(f"cut off at the end of the stream: {preview(rest)}")
        elif rest:
            self._on_line(rest)
        self.stdout_ended.set()
        cut_off = f"; its last line was cut off: {preview(rest)}" if truncated else ""
        self._end(Loss(reason=f"it closed its stdout{cut_off}"))

    # --- the other direction ---

    def _on_sent(self, count: int) -> None:
        self.table.note_sent(count)
        if self._admission.waiting:
            self._admission.recheck()

    def _on_broken(self) -> None:
        self._end(Loss(reason="it closed its stdin"))

    def _observed_batch(self) -> bytes | None:
        batch = self.table.take_batch()
        if batch is not None:
            for line in batch.splitlines():  # our own lines: \n is the only line break in encoded JSON
                self._observe("send", line)
        return batch

    def _observe(self, direction: Literal["send", "receive"], line: bytes) -> None:
        assert self._observer is not None
        try:
            self._observer(direction, line)
        except Exception:
            self.observer_errors += 1
            if self.observer_errors == 1:
                _logger.exception("%s: the wire observer raised; it goes on being called", self.name)

    # --- notes, warnings, ends ---

    def _note(self, oddity: Oddity, text: str) -> None:
        self._remember(f"{oddity.value}: {text}")
        if oddity is Oddity.STRAY_CANCEL:
            self._violation(f"{oddity.value} ({text})")
        elif oddity is Oddity.STRING_ID:
            self._warn_once(oddity.name, "%s: %s: %s", self.name, oddity.value, text)
        else:
            _logger.debug("%s: %s: %s", self.name, oddity.value, text)

    def _tolerate(self, reason: str, line: bytes | bytearray) -> None:
        self.tolerated += 1
        self._remember(f"{reason}: {preview(line)}")
        self._warn_once(reason, "%s: tolerated: %s: %s", self.name, reason, preview(line))
        if self._strict:
            self._fatal(f"{reason}: {preview(line)}")

    def _violation(self, text: str) -> None:
        self.violations += 1
        self._remember(text)
        self._warn_once(f"violation: {text[:20]}", "%s: protocol violation: %s", self.name, text)

    def _remember(self, text: str) -> None:
        if self.loss is not None and self.loss.closed_here:
            text = f"after the end of its input: {text}"
        self._oddities.append((trio.current_time(), text))

    def _warn_once(self, key: str, message: str, *args: object) -> None:
        if key in self._warned or len(self._warned) >= 64:
            _logger.debug(message, *args)
        else:
            self._warned.add(key)
            _logger.warning(message, *args)

    def _too_long(self, line: Oversized) -> None:
        limit, size, shown = self._max_line_bytes or 0, line.size, preview(line.head)
        self._end(
            Loss(
                reason="a line too long",
                fault=lambda: LineTooLong(
                    f"a line longer than max_line_bytes ({limit} bytes), the answer to no request: {shown}",
                    limit=limit,
                    size=size,
                ),
            )
        )

    def _fatal(self, text: str) -> None:
        self._end(Loss(reason=text, fault=lambda: RemoteProtocolError(text)))

    def _end(self, loss: Loss) -> None:
        """Report the first thing that ends the connection.

        The calls fail when its story is complete, which for a fault of the peer it is at once.
        """
        if not self._ending:
            self._ending = True
            if loss.fault is not None:
                self.lose(loss)
            self._on_ending(loss)


class _CallWaiter(Waiter):
    """Waits for a call, and gives it up in the very step in which the wait is cancelled.

    Were that left to the task, which runs a tick later, the writer could send the request meanwhile.
    """

    __slots__ = ("call", "guard", "session")

    def __init__(self, session: Session, guard: Guard) -> None:
        super().__init__()
        self.session = session
        self.guard = guard
        self.call: Call | None = None

    def abort(self, raise_cancel: object) -> trio.lowlevel.Abort:
        if self.call is not None:
            self.session.give_up(self.call, self.guard, _CANCELLED)
        return super().abort(raise_cancel)


_PROTOCOL_KEYS: Final = frozenset(
    {
        methods.META_VERSION,
        methods.META_CAPABILITIES,
        methods.META_CLIENT_INFO,
        methods.PROGRESS_TOKEN,
    }
)


def check_limit(name: str, value: float | None) -> None:
    """Refuse a limit that is no number of seconds."""
    if value is not None and not 0 <= value < math.inf:
        raise LocalProtocolError(f"{name} must be a number of seconds, or None for no limit; not {value!r}")
