"""The call table: every request of this side from its first byte to its end.

This module is the heart of the client and has no clock, no event loop and no I/O.  All that may
happen to a call happens here, in synchronous steps:

    open ──► QUEUED ──take_batch──► WRITTEN ──receive──► SETTLED (answered)
               │                       │
               └──────abandon──────────┴──────────────► SETTLED (given up, or lost)

One rule carries cancellation: whoever stops waiting calls `abandon`.  A QUEUED call is forgotten
without a trace on the wire.  A WRITTEN one leaves the table and puts exactly one
`notifications/cancelled` into the control lane, in the same step; so a notice can be sent neither
twice, nor before its request, nor for an answered one.
"""

from __future__ import annotations

import enum
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final, TypeGuard

import attrs

from .._errors import Delivery
from ..types import ProgressUpdate
from . import methods
from .codec import encode_params
from .convert import UNSET, brief
from .jsonrpc import (
    Failure,
    Malformed,
    Notification,
    Request,
    RequestId,
    Success,
    encode_notification,
    encode_request,
)

__all__ = ["Call", "CallState", "CallStatistics", "CallTable", "LostCall", "Oddity", "Outcome", "TooLong"]

MAX_PROGRESS: Final = 16_384
"""Updates kept for one call whose caller does not take them; past it the oldest are dropped."""

MAX_PROGRESS_TEXT: Final = 4_096
"""Characters of the message of one update; what is longer is cut."""

MAX_REPLIES: Final = 1_024
"""Answers to the peer's requests that may wait while it does not read its input."""

MAX_ABANDONED: Final = 4_096
"""Abandoned ids remembered to tell a late answer from one that nothing explains."""


class CallState(enum.Enum):
    """Where a call is on its way."""

    QUEUED = "queued"
    WRITTEN = "written"
    SETTLED = "settled"


@attrs.frozen(eq=False)
class LostCall:
    """Outcome of a call whose connection ended; `why` is for the layer above."""

    why: Any
    delivery: Delivery


@attrs.frozen(eq=False)
class TooLong:
    """Outcome of a call whose answer was longer than the bound on a line."""

    limit: int
    size: int


class Oddity(enum.Enum):
    """Something received that is harmless, and may explain what goes wrong later."""

    STRING_ID = "an answer whose integer id came back as a string"
    LATE = "an answer to a request that was given up"
    UNMATCHED = "an answer that no request is waiting for"
    NULL_ID_ERROR = "an error without an id"
    STRAY_CANCEL = "a cancellation of a request that is not the peer's"
    STRAY_PROGRESS = "progress for no request that wants it"


Outcome = Success | Failure | Malformed | LostCall | TooLong


class Call:
    """One request in the table.

    Attributes:
        outcome: how it ended, None until then; stays None for an abandoned call.
        progress: updates that the caller has not taken yet, None when it did not ask for any.
    """

    __slots__ = (
        "cancellable",
        "end",
        "id",
        "line",
        "listen",
        "method",
        "outcome",
        "progress",
        "start",
        "state",
        "wake",
    )

    def __init__(
        self,
        request_id: RequestId,
        method: str,
        line: bytes,
        *,
        wake: Callable[[], None],
        cancellable: bool,
        wants_progress: bool,
        listen: bool,
    ) -> None:
        self.listen = listen
        self.id = request_id
        self.method = method
        self.line: bytes | None = line
        self.wake = wake
        self.cancellable = cancellable
        self.state = CallState.QUEUED
        self.progress: deque[ProgressUpdate] | None = deque() if wants_progress else None
        self.outcome: Outcome | None = None
        self.start = self.end = 0  # offsets in the stream of bytes handed to the writer

    def __repr__(self) -> str:
        return f"<Call {self.id!r} {self.method} {self.state.value}>"


@attrs.frozen(kw_only=True)
class CallStatistics:
    """Counters of one call table."""

    in_flight: int
    queued: int
    requests: int
    answered: int
    errors: int
    cancelled: int
    late: int
    unmatched: int
    string_ids: int
    null_id_errors: int
    malformed_answers: int
    oversized_answers: int
    progress: int
    progress_dropped: int
    unknown_progress: int
    stray_cancels: int
    replies: int
    replies_dropped: int
    bytes_sent: int
    unsent_bytes: int


class CallTable:
    """The requests in flight on one connection, and the two lanes of lines to be written.

    Args:
        strict: an answer whose integer id comes back as a string fails its call; otherwise it is
            accepted.
        max_reply_bytes: bytes of answers that may wait while the peer does not read; they repeat ids that
            the peer chose.
        note: called with each oddity and a few words on it.
    """

    def __init__(
        self,
        *,
        strict: bool = False,
        max_reply_bytes: int = 8 * 2**20,
        note: Callable[[Oddity, str], None] = lambda oddity, text: None,
    ) -> None:
        self._strict = strict
        self._max_reply_bytes = max_reply_bytes
        self._note = note
        self._calls: dict[RequestId, Call] = {}
        self._queue: OrderedDict[RequestId, Call] = OrderedDict()
        self._control: deque[bytes] = deque()
        self._replies: deque[bytes] = deque()
        self._abandoned: OrderedDict[RequestId, None] = OrderedDict()
        self._next_id = 1
        self._notified = False
        self._reply_bytes = 0  # bytes of answers that wait
        self._unsent = 0  # bytes of lines that no batch has taken
        self._handed = 0  # bytes handed out in batches, ever
        self._sent = 0  # bytes of those known to be written

        self._requests = self._answered = self._errors = self._cancelled = 0
        self._late = self._unmatched = self._string_ids = self._null_id_errors = 0
        self._malformed = self._oversized = 0
        self._progress = self._progress_dropped = self._unknown_progress = 0
        self._stray_cancels = self._reply_count = self._replies_dropped = 0

    def __repr__(self) -> str:
        return f"<CallTable: {len(self._calls)} in flight, {len(self._queue)} of them queued>"

    # --- outgoing ---

    def reserve_id(self) -> int:
        """A fresh id.  Ids rise and are never used again on this connection."""
        request_id = self._next_id
        self._next_id += 1
        return request_id

    def open(
        self,
        request_id: RequestId,
        method: str,
        line: bytes,
        *,
        wake: Callable[[], None],
        cancellable: bool = True,
        wants_progress: bool = False,
        listen: bool = False,
    ) -> Call:
        """Enter a request and queue its line.  From here on its answer can be matched.

        `wake` is called, from `receive` or `fail_all`, each time there is something new for the caller
        and at its end.  A `listen` stays open as long as its subscription, and counts as no call in flight.
        """
        if request_id in self._calls:
            raise ValueError(f"request id {request_id!r} is in use")
        call = Call(
            request_id,
            method,
            line,
            wake=wake,
            cancellable=cancellable,
            wants_progress=wants_progress,
            listen=listen,
        )
        self._calls[request_id] = self._queue[request_id] = call
        self._unsent += len(line)
        self._requests += 1
        return call

    def abandon(self, call: Call, reason: str) -> bool:
        """Stop waiting for a call.  Does nothing if it has ended.

        Returns:
            True if a `notifications/cancelled` was queued for it.
        """
        if call.state is CallState.SETTLED:
            return False
        written = call.state is CallState.WRITTEN
        self._settle(call)
        if not written:
            return False
        self._remember_abandoned(call.id)
        if not call.cancellable:
            return False
        self._cancelled += 1
        self._post(methods.CANCELLED, {"requestId": call.id, "reason": reason})
        return True

    def forget(self, call: Call) -> None:
        """The peer has ended a request of this side: no notice is due, and a late answer is no surprise."""
        if call.state is not CallState.SETTLED:
            self._settle(call)
            self._remember_abandoned(call.id)

    def post_request(self, method: str, params: bytes) -> None:
        """Queue a request whose answer nobody waits for, ahead of queued requests."""
        request_id = self.reserve_id()
        self._append_control(encode_request(request_id, method, params))
        self._remember_abandoned(request_id)

    def notify(self, method: str, params: bytes | None) -> None:
        """Queue a notification, ahead of queued requests."""
        self._notified = True
        self._append_control(encode_notification(method, params))

    def reply(self, line: bytes) -> bool:
        """Queue an answer to a request of the peer; False, and counted, when too much waits already."""
        if len(self._replies) >= MAX_REPLIES or self._reply_bytes + len(line) > self._max_reply_bytes:
            self._replies_dropped += 1
            return False
        self._replies.append(line)
        self._reply_bytes += len(line)
        self._unsent += len(line)
        self._reply_count += 1
        return True

    def take_batch(self, limit: int = 65_536) -> bytes | None:
        """The next bytes to write: notices first, then answers, then requests, which become WRITTEN.

        Only a request of the negotiation goes before answers: `initialize` is the first line of a session.
        At most `limit` bytes, or one line that is longer; None when there is nothing.
        """
        parts: list[bytes] = []
        size = 0
        queue = self._queue
        while True:
            # The first line of all is looked for anew each time: a line that does not fit any more must
            # not be overtaken by a shorter one behind it.
            call = next(iter(queue.values())) if queue else None
            lane = self._control or (self._replies if call is None or call.cancellable else None)
            line = lane[0] if lane else None if call is None else call.line
            if line is None or (size and size + len(line) > limit):
                break
            if lane:
                lane.popleft()
                if lane is self._replies:
                    self._reply_bytes -= len(line)
            elif call is not None:
                del queue[call.id]
                call.state = CallState.WRITTEN
                call.line = None
                call.start = self._handed + size
                call.end = call.start + len(line)
            size += len(line)
            parts.append(line)
        if not parts:
            return None
        self._handed += size
        self._unsent -= size
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def note_sent(self, count: int) -> None:
        """`count` more bytes of the batches taken have been written, or may have been."""
        self._sent += count

    @property
    def has_output(self) -> bool:
        """Whether `take_batch` would return something."""
        return bool(self._control or self._replies or self._queue)

    def count_unsent(self) -> int:
        """Bytes queued or handed to the writer that are not known to be written."""
        return self._unsent + self._handed - self._sent

    def is_pending(self, request_id: RequestId | None) -> bool:
        """Whether a written call with this id waits for its answer."""
        return request_id is not None and self._find_written(request_id, strict=self._strict) is not None

    # --- incoming ---

    def receive(self, message: Request | Notification | Success | Failure) -> Request | Notification | None:
        """Take one message; return it when it is not about a call of this table."""
        if isinstance(message, Success):
            call = self._calls.get(message.id)
            if call is None or call.state is not CallState.WRITTEN:
                call = self._match(message)
                if call is None:
                    return None
            self._answered += 1
            self._end(call, message)
            return None
        if isinstance(message, Notification):
            if message.method == methods.PROGRESS:
                self._receive_progress(message.params)
                return None
            if message.method == methods.CANCELLED:
                # The requests of this side are not the peer's to cancel.
                self._stray_cancels += 1
                self._note(Oddity.STRAY_CANCEL, f"requestId {brief(message.params.get('requestId'))}")
            return message
        if isinstance(message, Failure):
            call = self._match(message)
            if call is not None:
                self._errors += 1
                self._end(call, message)
            return None
        return message

    def fail(self, request_id: RequestId, outcome: Malformed | TooLong) -> bool:
        """End the one call whose answer cannot be used; False when no such call is pending.

        True also for one that was given up: its answer is merely late.
        """
        if request_id in self._abandoned:
            self._take_late(request_id)
            return True
        call = self._find_written(request_id, strict=self._strict)
        if call is None:
            return False
        if isinstance(outcome, TooLong):
            self._oversized += 1
        else:
            self._malformed += 1
        self._end(call, outcome)
        return True

    def fail_all(self, why: Any) -> None:
        """The connection has ended: every call is lost, each with how far it got."""
        for call in list(self._calls.values()):
            self._end(call, LostCall(why, self.delivery(call)))

    def delivery(self, call: Call) -> Delivery:
        """How far a call's line got."""
        if call.state is CallState.QUEUED or self._sent <= call.start:
            return Delivery.NOT_SENT
        return Delivery.PARTLY_SENT if self._sent < call.end else Delivery.OUTCOME_UNKNOWN

    def statistics(self) -> CallStatistics:
        """A snapshot of the counters."""
        return CallStatistics(
            in_flight=sum(not call.listen for call in self._calls.values()),
            queued=len(self._queue),
            requests=self._requests,
            answered=self._answered,
            errors=self._errors,
            cancelled=self._cancelled,
            late=self._late,
            unmatched=self._unmatched,
            string_ids=self._string_ids,
            null_id_errors=self._null_id_errors,
            malformed_answers=self._malformed,
            oversized_answers=self._oversized,
            progress=self._progress,
            progress_dropped=self._progress_dropped,
            unknown_progress=self._unknown_progress,
            stray_cancels=self._stray_cancels,
            replies=self._reply_count,
            replies_dropped=self._replies_dropped,
            bytes_sent=self._sent,
            unsent_bytes=self.count_unsent(),
        )

    # --- inside ---

    def _settle(self, call: Call) -> None:
        del self._calls[call.id]
        if call.state is CallState.QUEUED:
            del self._queue[call.id]
            self._unsent -= len(call.line or b"")
            call.line = None
        call.state = CallState.SETTLED

    def _end(self, call: Call, outcome: Outcome) -> None:
        self._settle(call)
        call.outcome = outcome
        call.wake()

    def _post(self, method: str, params: dict[str, Any]) -> None:
        self._notified = True
        self._append_control(encode_notification(method, encode_params(params)))

    def _append_control(self, line: bytes) -> None:
        self._control.append(line)
        self._unsent += len(line)

    def _find_written(self, request_id: RequestId, *, strict: bool) -> Call | None:
        """The call an incoming id means, unless it is still queued: nothing can have answered that one.

        Unless strictly, a numeric string may mean an integer id, never the other way round.
        """
        call = self._calls.get(request_id)
        if call is None and not strict and isinstance(request_id, str):
            call = self._calls.get(_integer(request_id))
        return call if call is not None and call.state is CallState.WRITTEN else None

    def _match(self, message: Success | Failure) -> Call | None:
        """The call that an answer ends; the rest is counted and noted."""
        if message.id is None:
            return self._match_without_id(message)
        call = self._find_written(message.id, strict=False)
        if call is not None:
            if call.id == message.id:
                return call
            self._string_ids += 1
            self._note(Oddity.STRING_ID, repr(message.id))
            if not self._strict:
                return call
            self._end(
                call, Malformed(Oddity.STRING_ID.value, repr(message.id).encode(), call.id, noise=False)
            )
            return None
        request_id = message.id
        if request_id not in self._abandoned and isinstance(request_id, str):
            request_id = _integer(request_id)
        if request_id in self._abandoned:
            self._take_late(request_id)
        else:
            self._unmatched += 1
            second = isinstance(request_id, int) and 0 < request_id < self._next_id
            kind = "an error" if isinstance(message, Failure) else "a result"
            self._note(
                Oddity.UNMATCHED, f"{kind} with id {message.id!r:.60}{', already settled' if second else ''}"
            )
        return None

    def _remember_abandoned(self, request_id: RequestId) -> None:
        self._abandoned[request_id] = None
        if len(self._abandoned) > MAX_ABANDONED:
            self._abandoned.popitem(last=False)

    def _take_late(self, request_id: RequestId) -> None:
        del self._abandoned[request_id]
        self._late += 1
        self._note(Oddity.LATE, f"id {request_id!r}")

    def _match_without_id(self, message: Success | Failure) -> Call | None:
        """An error without an id answers the only request pending, if there is just one.

        Except -32601 once a notification was sent: it is the usual wrong answer to one of those.
        """
        self._null_id_errors += 1
        if isinstance(message, Failure):
            self._note(Oddity.NULL_ID_ERROR, f"code {message.code}: {message.message:.200}")
            if message.code == methods.METHOD_NOT_FOUND and self._notified:
                return None
        written = [
            call for call in self._calls.values() if call.state is CallState.WRITTEN and not call.listen
        ]
        return written[0] if len(written) == 1 else None

    def _receive_progress(self, params: dict[str, Any]) -> None:
        token, update = params.get("progressToken"), _progress_update(params)
        call = (
            self._find_written(token, strict=self._strict)
            if isinstance(token, (int, str)) and not isinstance(token, bool)
            else None
        )
        if call is None or call.progress is None or update is None:
            self._unknown_progress += 1
            self._note(Oddity.STRAY_PROGRESS, f"progressToken {brief(token)}")
            return
        self._progress += 1
        if len(call.progress) >= MAX_PROGRESS:
            call.progress.popleft()
            self._progress_dropped += 1
        call.progress.append(update)
        call.wake()


def _progress_update(params: dict[str, Any]) -> ProgressUpdate | None:
    progress, total, message = params.get("progress"), params.get("total"), params.get("message")
    if not _is_number(progress):
        return None
    return ProgressUpdate(
        progress=progress,
        total=total if _is_number(total) else UNSET,
        message=message[:MAX_PROGRESS_TEXT] if isinstance(message, str) else UNSET,
    )


def _integer(text: str) -> int | str:
    """The integer that a string writes in its one usual form, else the string itself."""
    if len(text) < 20 and text.isascii() and text.isdecimal() and str(int(text)) == text:
        return int(text)
    return text


def _is_number(value: Any) -> TypeGuard[int | float]:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)
