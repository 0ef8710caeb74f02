"""What the peer sends: bytes → lines → messages → calls, notifications, and answers to its requests.

All of it is synchronous and runs in the reader's task.  One bad message costs at most one request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .._errors import LineTooLong, RemoteProtocolError
from .._io.callbacks import CallbackQueue
from .._wire import methods
from .._wire.calls import CallTable, TooLong
from .._wire.convert import brief
from .._wire.jsonrpc import (
    Batch,
    Malformed,
    Message,
    Notification,
    Request,
    Success,
    Tolerated,
    decode,
    encode_failure,
    encode_success,
    find_id,
    preview,
)
from .._wire.lines import LineSplitter, Oversized, OversizedStage
from .._wire.methods import Era
from ..types import Notification as PublicNotification
from .dispatch import Dispatcher
from .logs import LogSink
from .loss import Loss
from .notes import Notes
from .subscription import Subscriptions

__all__ = ["Inbound"]

_CLIENT_OPENINGS: Final = (methods.DISCOVER, methods.INITIALIZE)

MAX_HELD: Final = 64
"""Requests of the peer held back while the era is unknown, which decides whether they may be answered."""

MAX_HELD_BYTES: Final = 65_536
"""Size of a request that is held back."""


class Inbound:
    """The receiving half of a session.

    Args:
        table: takes answers and progress.
        notes: takes everything odd.
        max_line_bytes: bound on one line.
        strict: end the connection at what is otherwise tolerated.
        notifications: takes notifications, None to drop them.
        logs: takes log messages, beside that.
        observe: called with each line, None for nobody.
        dispatcher: takes requests of the peer.
        subscriptions: take what the peer tells of its changes.
        reply: sends an answer that needs no handler.
        end: called with a fault that no connection survives; no line is looked at after it.

    Attributes:
        bytes_received, lines_received: counts of what came in.
        notification_count: notifications, progress of requests not included.
    """

    def __init__(
        self,
        *,
        table: CallTable,
        notes: Notes,
        max_line_bytes: int | None,
        strict: bool,
        notifications: CallbackQueue[PublicNotification] | None,
        logs: LogSink,
        observe: Callable[[bytes], None] | None,
        dispatcher: Dispatcher,
        subscriptions: Subscriptions,
        reply: Callable[[bytes], None],
        end: Callable[[Loss], None],
    ) -> None:
        self._table = table
        self._notes = notes
        self._splitter = LineSplitter(max_line_bytes=max_line_bytes)
        self._max_line_bytes = max_line_bytes
        self._strict = strict
        self._notifications = notifications
        self._logs = logs
        self._observe = observe
        self._dispatcher = dispatcher
        self._subscriptions = subscriptions
        self._reply = reply
        self._end = end
        self._era: Era | None = None
        self._version: str | None = None
        self._held: list[Request] = []
        self._dead = False
        self._skipping = False  # inside a line past the bound
        self._attributed = False  # the call that it answers has failed
        self._messages = 0
        self._line_size = 0
        self.bytes_received = self.lines_received = 0
        self.notification_count = 0

    def __repr__(self) -> str:
        return f"<Inbound: {self.lines_received} lines, {self._splitter.buffered} bytes of the next>"

    @property
    def buffered(self) -> int:
        """Bytes of a line whose newline has not come."""
        return self._splitter.buffered

    def settle(self, era: Era, version: str | None) -> None:
        """The era is known, and later the version: deal with the requests that waited for it."""
        self._era = era
        self._version = version
        held, self._held = self._held, []
        for request in held:
            self._on_request(request)

    def feed(self, chunk: bytes) -> None:
        """Take what was read."""
        self.bytes_received += len(chunk)
        for line in self._splitter.feed(chunk):
            if self._dead:
                return
            if isinstance(line, Oversized):
                self._on_oversized(line)
            else:
                self._on_line(line)

    def finish(self) -> str | None:
        """The stream has ended: take what stands after the last newline if it is a whole message.

        Returns:
            A preview of it if it is not, None if all is well.
        """
        rest = self._splitter.finish()
        if rest and not self._dead:
            if isinstance(decode(rest), Malformed):
                shown = preview(rest)
                self._notes.remember(f"cut off at the end of the stream: {shown}")
                return shown
            self._on_line(rest)
        return None

    def _on_line(self, line: bytes | bytearray) -> None:
        self.lines_received += 1
        self._line_size = len(line)
        if self._observe is not None:
            self._observe(bytes(line))
        message = decode(line)
        if isinstance(message, Success):
            self._messages += 1
            self._table.receive(message)
        elif isinstance(message, Malformed):
            self._on_malformed(message)
        elif isinstance(message, Tolerated):
            self._on_tolerated(message, line)
        elif isinstance(message, Batch):
            self._on_batch(message, line)
        else:
            self._on_message(message)

    def _on_message(self, message: Message) -> None:
        self._messages += 1
        if isinstance(message, Notification) and message.method == methods.CANCELLED:
            self._on_cancelled(message)
            return
        rest = self._table.receive(message)
        if isinstance(rest, Notification):
            self.notification_count += 1
            self._subscriptions.deliver(rest)
            if rest.method == methods.LOG_MESSAGE:
                self._logs.receive(rest.params, self._line_size)
            if self._notifications is not None:
                public = PublicNotification(method=rest.method, params=rest.params)
                self._notifications.put(public, self._line_size)
        elif isinstance(rest, Request):
            self._on_request(rest)

    def _on_cancelled(self, notice: Notification) -> None:
        """The peer cancels: a request of its own, or a subscription; nothing else is its to cancel."""
        self.notification_count += 1
        request_id = notice.params.get("requestId")
        listen = self._subscriptions.cancelled_by_peer(request_id)
        if listen is not None:
            self._table.forget(listen)
        elif not self._dispatcher.cancel(request_id, notice.params.get("reason")):
            self._table.receive(notice)
        if self._notifications is not None:
            public = PublicNotification(method=notice.method, params=notice.params)
            self._notifications.put(public, self._line_size)

    def _on_request(self, request: Request) -> None:
        """A request of the peer: an answer in the legacy era, a violation in the modern one."""
        if request.method in _CLIENT_OPENINGS:
            self._fatal(f"the server sends {request.method} itself: does it merely echo its input?")
        elif self._era is None and len(self._held) < MAX_HELD and self._line_size <= MAX_HELD_BYTES:
            self._held.append(request)
        elif self._era is Era.LEGACY and request.method == methods.PING:
            self._reply(encode_success(request.id, b"{}"))
        elif self._era is Era.LEGACY:
            self._dispatcher.start([request])
        else:
            self._notes.add_violation("a request, which only clients may send", brief(request.method))

    def _on_tolerated(self, tolerated: Tolerated, line: bytes | bytearray) -> None:
        self._notes.add_tolerated(tolerated.reason, preview(line))
        if self._strict:
            self._fatal(f"{tolerated.reason}: {preview(line)}")
        else:
            self._on_message(tolerated.message)

    def _on_batch(self, batch: Batch, line: bytes | bytearray) -> None:
        """An array of messages: part of one revision, and taken apart in every other as well.

        JSON-RPC 2.0: the answers to a batch are one array.
        """
        batches_exist = self._version == methods.BATCH_VERSION
        if not batch.messages:
            self._notes.add_malformed("an empty array", preview(line))
            if batches_exist:
                self._reply(encode_failure(None, methods.INVALID_REQUEST, "An empty batch"))
            return
        if not batches_exist:
            self._notes.add_violation(
                "an array of messages, which this revision does not have", preview(line)
            )
            if self._strict:
                self._fatal(f"an array of messages: {preview(line)}")
                return
        pongs: list[bytes] = []
        requests: list[Request] = []
        for item in batch.messages:
            if isinstance(item, Malformed):
                self._on_malformed(item)
            elif isinstance(item, Tolerated):
                self._on_tolerated(item, line)
            elif isinstance(item, Request) and self._era is Era.LEGACY:
                if item.method == methods.PING:
                    pongs.append(encode_success(item.id, b"{}"))
                else:
                    requests.append(item)
            else:
                self._on_message(item)
        if not (pongs or requests):
            return
        if batches_exist:
            self._dispatcher.start(requests, ready=pongs, batch=True)
        else:
            self._reply(
                encode_failure(None, methods.INVALID_REQUEST, "Batches do not exist in this revision")
            )

    def _on_malformed(self, malformed: Malformed) -> None:
        shown = preview(malformed.excerpt)
        if malformed.noise:
            self._notes.add_noise(shown)
            if self._messages == 0 and malformed.excerpt[:15].lower() == b"content-length:":
                self._fatal(
                    "the server frames its messages with Content-Length headers, as the Language Server "
                    "Protocol does; MCP over stdio has one message a line"
                )
        else:
            self._notes.add_malformed(malformed.reason, shown)
            if malformed.id is not None and self._table.fail(malformed.id, malformed):
                return
        if self._strict:
            self._fatal(f"not a protocol message on stdout ({malformed.reason}): {shown}")

    def _on_oversized(self, line: Oversized) -> None:
        """A line past the bound costs the request it answers, if that can be told, else the connection."""
        assert self._max_line_bytes is not None
        if not self._skipping:
            self._notes.oversized += 1
        attributed = self._attributed
        self._skipping = line.stage is not OversizedStage.ENDED
        self._attributed = attributed and self._skipping
        if attributed:  # its call has failed already
            if line.stage is OversizedStage.ENDLESS:
                self._too_long(line)
            return
        is_object = line.head.lstrip().startswith(b"{")
        request_id = find_id(line.head, line.tail) if is_object else None
        outcome = TooLong(self._max_line_bytes, line.size)
        if request_id is not None and self._table.fail(request_id, outcome):
            self._attributed = self._skipping
        elif line.stage is not OversizedStage.OPEN or not is_object:
            self._too_long(line)

    def _too_long(self, line: Oversized) -> None:
        limit, size, shown = self._max_line_bytes or 0, line.size, preview(line.head)
        self._dead = True
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
        self._dead = True
        self._end(Loss(reason=text, fault=lambda: RemoteProtocolError(text)))
