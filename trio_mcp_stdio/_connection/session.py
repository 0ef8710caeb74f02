"""One connection: a stream, its call table, and the requests of the callers.

The caller's own task opens the cancel scope of its request, waits in it, runs its progress callback and
raises.  Incoming bytes go the other way, from chunk to waiting caller, without anything being awaited.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

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
from .._wire.calls import Call, CallTable, LostCall, Outcome, TooLong
from .._wire.codec import encode_params, splice_meta, unstructure
from .._wire.convert import brief
from .._wire.jsonrpc import Failure, Malformed, Success, encode_request, preview
from .._wire.methods import Era
from .._wire.trace_context import TRACE_KEYS, check_trace_member
from ..types import Notification, ProgressUpdate
from .admission import Admission
from .dispatch import Dispatcher
from .inbound import Inbound
from .logs import LogSink
from .loss import Loss
from .notes import Notes
from .subscription import Subscription, Subscriptions
from .watchdog import Guard, Watchdog

if TYPE_CHECKING:
    from ..types import SubscriptionFilter

__all__ = ["ProgressHandler", "Session", "WireObserver"]

ProgressHandler: TypeAlias = Callable[[ProgressUpdate], None] | Callable[[ProgressUpdate], Awaitable[None]]
WireObserver: TypeAlias = Callable[[Literal["send", "receive"], bytes], None]

MAX_SECONDS: Final = 1e9
"""The longest limit, some thirty years; who wants none says None."""

_CANCELLED: Final = "the caller cancelled it"

_logger = logging.getLogger("trio_mcp_stdio.connection")
_call_logger = logging.getLogger("trio_mcp_stdio.client")


class Session:
    """The two directions of one stream, joined by a call table.

    Args:
        stream: the connected stream.
        name: server name, for logs and errors.
        answer: gives the result of a request of the peer, in the legacy era.
        on_ending: called once with the reason when the stream ends, breaks, or the peer sends what
            no connection survives.

    Attributes:
        table: the calls.
        dispatcher: the peer's requests.
        inbound: what the peer sends.
        notes: what was not quite right about it.
        loss: what ended the connection, None while it lives.
        stdout_ended: set when nothing more can be read.
        timed_out: requests that ran into a limit.
        observer_errors: exceptions that the observer raised.
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
        notifications: CallbackQueue[Notification] | None,
        logs: LogSink,
        observer: WireObserver | None,
        answer: Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]],
        on_ending: Callable[[Loss], None],
    ) -> None:
        self.name = name
        self.loss: Loss | None = None
        self.stdout_ended = trio.Event()
        self.timed_out = self.observer_errors = 0
        self.notes = Notes(name)
        self.table = CallTable(strict=strict, max_reply_bytes=max_unsent_bytes, note=self.notes.add_oddity)
        self.subscriptions = Subscriptions(notes=self.notes, server=name)
        self.dispatcher = Dispatcher(answer, reply=self._reply, name=name)
        self.inbound = Inbound(
            table=self.table,
            notes=self.notes,
            max_line_bytes=max_line_bytes,
            strict=strict,
            notifications=notifications,
            logs=logs,
            observe=None if observer is None else lambda line: self._observe("receive", line),
            dispatcher=self.dispatcher,
            subscriptions=self.subscriptions,
            reply=self._reply,
            end=self._end,
        )
        self.pump = Pump(
            stream,
            on_chunk=self.inbound.feed,
            on_eof=self._on_eof,
            next_batch=self.table.take_batch if observer is None else self._observed_batch,
            on_sent=self._on_sent,
            on_broken=self._on_broken,
        )
        self.watchdog = Watchdog()
        self._admission = Admission(
            max_in_flight=max_in_flight,
            max_unsent_bytes=max_unsent_bytes,
            unsent_bytes=self.table.count_unsent,
        )
        self._version: str | None = None
        self._meta = b""  # encoded members of every request's `_meta`, empty in a legacy connection
        self._observer = observer
        self._on_ending = on_ending
        self._ending = False

    def __repr__(self) -> str:
        state = "ended" if self.loss is not None else "open"
        return f"<Session with {self.name!r}, {self._version or 'not negotiated'}, {state}: {self.table!r}>"

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
        request_id: int | None = None,
    ) -> dict[str, Any]:
        """Send a request and wait for its result.

        One request is one cancel scope, which also holds the waiting for a slot.  However it is left
        without an answer, `CallTable.abandon` decides what goes out: nothing if no byte of the request
        did, else one `notifications/cancelled`.

        Args:
            request_id: an id that the call table has reserved; None to have it reserve one.

        Raises:
            LocalProtocolError: the parameters cannot be encoded; nothing was queued.
            RequestTimeout: a limit passed.
            RpcError: the peer answered with an error.
            RemoteProtocolError: the answer cannot be read.
            ConnectionLost: the connection ended first.
        """
        table = self.table
        if request_id is None:
            request_id = table.reserve_id()
        wants_progress = on_progress is not None or idle_timeout is not None
        try:
            line = self._encode(request_id, method, params, request_id if wants_progress else None, meta)
        except LocalProtocolError as error:
            error.server = self.name
            raise
        call: Call | None = None
        entered = False
        lines_before = self.inbound.lines_received
        scope = trio.CancelScope()
        guard = self.watchdog.watch(scope, timeout, idle_timeout)
        began = guard.began
        waiter = _CallWaiter(self, guard)
        with scope:
            try:
                if not self._admission.enter_nowait(len(line)):
                    await self._admission.enter(len(line))
                entered = True
                if self.loss is not None:
                    # Whoever is cancelled together with the client is told that, not of its end.
                    await trio.lowlevel.checkpoint()
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
                waiter.call = None  # the call knows the waiter: no cycle is left for the collector
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
        try:
            body = None if params is None else encode_params(params)
        except LocalProtocolError as error:
            error.server = self.name
            raise
        await trio.lowlevel.checkpoint()
        size = len(body or b"")
        if not self._admission.enter_nowait(size, slots=0):
            await self._admission.enter(size, slots=0)
        if self.loss is not None:
            raise self.loss.error(server=self.name, method=method)
        self.table.notify(method, body)
        self.pump.kick()

    async def listen(self, requested: SubscriptionFilter, timeout: float | None) -> Subscription:
        """Open a subscription of a modern connection; returns when the server has acknowledged it.

        It holds no slot, and only the acknowledgement has a limit.  Pair it with `unlisten`.

        Raises:
            RequestTimeout: the acknowledgement did not come within `timeout` seconds.
            RpcError: the server refused.
            ConnectionLost: the connection has ended.
        """
        request_id = self.table.reserve_id()
        params = {"notifications": unstructure(requested)}
        try:
            line = self._encode(request_id, methods.LISTEN, params, None, None)
        except LocalProtocolError as error:
            error.server = self.name
            raise
        lines_before = self.inbound.lines_received
        subscription = self.subscriptions.add(requested)
        scope = trio.CancelScope()
        guard = self.watchdog.watch(scope, timeout, None)
        began = guard.began
        try:
            with scope:
                if not self._admission.enter_nowait(len(line), slots=0):
                    await self._admission.enter(len(line), slots=0)
                if self.loss is not None:
                    await trio.lowlevel.checkpoint()
                    raise self.loss.error(server=self.name, method=methods.LISTEN)
                call = self.table.open(
                    request_id,
                    methods.LISTEN,
                    line,
                    wake=lambda: self._finish(subscription),
                    listen=True,
                )
                self.subscriptions.bind(subscription, call)
                self.pump.kick()
                await subscription.acknowledged(give_up=lambda: self.unlisten(subscription))
                if call.outcome is not None and not isinstance(call.outcome, Success):
                    raise self.error_for(methods.LISTEN, call.outcome)
                return subscription
        except BaseException:
            self.unlisten(subscription)
            raise
        finally:
            self.watchdog.forget(guard)
        self.unlisten(subscription)
        self.timed_out += 1
        assert timeout is not None
        raise RequestTimeout(
            method=methods.LISTEN,
            request_id=request_id,
            timeout=timeout,
            elapsed=trio.current_time() - began,
            received=self.received_since(began, lines_before),
            server=self.name,
        )

    def unlisten(self, subscription: Subscription) -> None:
        """Leave a subscription: one notice, if the server has heard of it and has not ended it."""
        call = subscription.call
        self.subscriptions.remove(subscription)
        if call is not None and self.table.abandon(call, "the subscription was left"):
            self.pump.kick()

    def _finish(self, subscription: Subscription) -> None:
        """A listen request has got its outcome."""
        outcome = None if subscription.call is None else subscription.call.outcome
        if outcome is not None:
            failed = not isinstance(outcome, Success)
            self.subscriptions.finish(
                subscription, self.error_for(methods.LISTEN, outcome) if failed else None
            )

    def open_negotiation_call(self, method: str, params: Mapping[str, Any], wake: Callable[[], None]) -> Call:
        """Queue a call of the negotiation, which is never cancelled on the wire."""
        if self.loss is not None:
            raise self.loss.error(server=self.name, method=method)
        request_id = self.table.reserve_id()
        line = encode_request(request_id, method, encode_params(params))
        call = self.table.open(request_id, method, line, wake=wake, cancellable=False)
        self.pump.kick()
        return call

    def expect_legacy(self) -> None:
        """The era is known before the version: a legacy server may send pings before it is initialized."""
        self.inbound.settle(Era.LEGACY, None)

    def settle_era(self, era: Era, version: str, meta: Mapping[str, Any]) -> None:
        """The negotiation is over: fix the era, and deal with what the peer asked meanwhile."""
        self._version = version
        self._meta = encode_params(meta)[1:-1] if meta else b""
        self.subscriptions.era = era
        self.inbound.settle(era, version)

    def lose(self, loss: Loss) -> None:
        """The connection has ended: every call fails, and every later one."""
        if self.loss is not None:
            return
        self.loss = loss
        self._ending = True
        self.notes.after_eof = loss.closed_here
        self.table.fail_all(loss)
        self.subscriptions.lose_all(loss.error(server=self.name))
        self._admission.close()

    def received_since(self, began: float, lines_before: int = 0) -> tuple[str, ...]:
        """What came instead of an answer, a sentence each."""
        said = self.notes.since(began)
        lines = self.inbound.lines_received - lines_before
        if lines:
            said.insert(0, f"{lines} line{'s' if lines > 1 else ''}, none of them the answer")
        if self.inbound.buffered:
            said.append(f"{self.inbound.buffered} bytes of a line without a newline")
        return tuple(said)

    def _encode(
        self,
        request_id: int,
        method: str,
        params: Mapping[str, Any] | None,
        token: int | None,
        meta: Mapping[str, Any] | None,
    ) -> bytes:
        """The line of a request, the caller's entries of `_meta` joined with the client's own."""
        if not isinstance(method, str):
            raise LocalProtocolError(f"a method is a string, not {brief(method)}")
        if isinstance(params, Mapping) and "_meta" in params:
            params, meta = _take_meta(params, meta)
        body = encode_params(params)
        members = [self._meta] if self._meta else []
        if meta:
            if not isinstance(meta, Mapping):
                raise LocalProtocolError(f"_meta must be a mapping, not {type(meta).__name__}")
            for key in meta:
                if key in _PROTOCOL_KEYS:
                    raise LocalProtocolError(f"_meta key {key!r} is set by the client itself")
                if key in TRACE_KEYS:
                    check_trace_member(key, meta[key])
            members.append(encode_params(meta)[1:-1])
        if token is not None:
            members.append(b'"progressToken":%d' % token)
        if members:
            body = splice_meta(body, b"{%b}" % b",".join(members))
        return encode_request(request_id, method, body)

    @property
    def waiting(self) -> int:
        """Callers that wait to be admitted."""
        return self._admission.waiting

    # --- the stream ---

    def _on_eof(self) -> None:
        cut_off = self.inbound.finish()
        self.stdout_ended.set()
        detail = "" if cut_off is None else f"; its last line was cut off: {cut_off}"
        self._end(Loss(reason=f"it closed its stdout{detail}"))

    def _on_sent(self, count: int) -> None:
        self.table.note_sent(count)
        if self._admission.waiting:
            self._admission.recheck()

    def _reply(self, line: bytes) -> None:
        if self.table.reply(line):
            self.pump.kick()

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

    def _end(self, loss: Loss) -> None:
        """Report the first thing that ends the connection; the calls fail when its story is complete."""
        if not self._ending:
            self._ending = True
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


def _take_meta(
    params: Mapping[str, Any], meta: Mapping[str, Any] | None
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Move `_meta` out of parameters given as a whole, where the client's own entries join it."""
    given = params["_meta"]
    if not isinstance(given, Mapping):
        raise LocalProtocolError(f"_meta must be a mapping, not {type(given).__name__}")
    return {key: value for key, value in params.items() if key != "_meta"}, {**given, **(meta or {})}


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
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is not None and not (numeric and 0 <= value <= MAX_SECONDS):
        raise LocalProtocolError(
            f"{name} must be a number of seconds, or None for no limit; not {brief(value)}"
        )
