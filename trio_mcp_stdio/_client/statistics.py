"""Counters of a client."""

from __future__ import annotations

from typing import final

import attrs

from .supervisor import Supervisor

__all__ = ["ClientStatistics", "collect"]


@final
@attrs.frozen(kw_only=True)
class ClientStatistics:
    """A snapshot of a client's counters, from its start.

    Attributes:
        in_flight: requests that wait for their answer, queued ones included.
        queued: requests of which no byte has been handed to the writer.
        waiting: callers that wait for a slot or for room in the queue.
        requests: requests queued, those of the negotiation included.
        answered: results received for them.
        errors: errors received for them.
        cancelled: `notifications/cancelled` sent.
        timed_out: requests that ran into a limit.
        late: answers to requests given up before.
        unmatched: answers that no request was waiting for.
        noise: lines that were no protocol messages.
        malformed: lines meant as messages that could not be read.
        tolerated: messages with a fault that did not hide their meaning.
        violations: messages that the peer must not send, such as requests in a modern connection.
        string_ids: answers whose integer id came back as a string.
        null_id_errors: errors without an id.
        oversized: lines longer than the bound.
        notifications: notifications received, progress of requests not included.
        notifications_dropped: those that `on_notification` was too slow for.
        log_messages: log messages among them that could be read.
        log_messages_dropped: those that `on_log` was too slow for.
        log_messages_malformed: those that could not be read.
        progress: progress received for requests.
        progress_dropped: updates that a caller was too slow for.
        unknown_progress: progress that belongs to no request that wants it.
        replies: answers queued to requests of the server, in the legacy era.
        replies_dropped: answers given up because the server did not read its input.
        bytes_sent: bytes written to the server.
        bytes_received: bytes read from its stdout.
        lines_received: lines among them.
        unsent_bytes: bytes that wait to be written.
        stderr_bytes: bytes read from its stderr.
        callback_errors: exceptions raised by callbacks.
        noise_previews: the first lines of noise, escaped and cut.
    """

    in_flight: int = 0
    queued: int = 0
    waiting: int = 0
    requests: int = 0
    answered: int = 0
    errors: int = 0
    cancelled: int = 0
    timed_out: int = 0
    late: int = 0
    unmatched: int = 0
    noise: int = 0
    malformed: int = 0
    tolerated: int = 0
    violations: int = 0
    string_ids: int = 0
    null_id_errors: int = 0
    oversized: int = 0
    notifications: int = 0
    notifications_dropped: int = 0
    log_messages: int = 0
    log_messages_dropped: int = 0
    log_messages_malformed: int = 0
    progress: int = 0
    progress_dropped: int = 0
    unknown_progress: int = 0
    replies: int = 0
    replies_dropped: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    lines_received: int = 0
    unsent_bytes: int = 0
    stderr_bytes: int = 0
    callback_errors: int = 0
    noise_previews: tuple[str, ...] = ()


def collect(supervisor: Supervisor) -> ClientStatistics:
    """The counters as they stand."""
    session, queue, logs = supervisor.session, supervisor.notifications, supervisor.logs
    if session is None or logs is None:
        return ClientStatistics()
    calls = session.table.statistics()
    return ClientStatistics(
        in_flight=calls.in_flight,
        queued=calls.queued,
        waiting=session.waiting,
        requests=calls.requests,
        answered=calls.answered,
        errors=calls.errors,
        cancelled=calls.cancelled,
        timed_out=session.timed_out,
        late=calls.late,
        unmatched=calls.unmatched,
        noise=session.notes.noise,
        malformed=session.notes.malformed,
        tolerated=session.notes.tolerated,
        violations=session.notes.violations,
        string_ids=calls.string_ids,
        null_id_errors=calls.null_id_errors,
        oversized=session.notes.oversized,
        notifications=session.inbound.notification_count,
        notifications_dropped=0 if queue is None else queue.dropped,
        log_messages=logs.received,
        log_messages_dropped=logs.dropped,
        log_messages_malformed=logs.malformed,
        progress=calls.progress,
        progress_dropped=calls.progress_dropped,
        unknown_progress=calls.unknown_progress,
        replies=calls.replies,
        replies_dropped=calls.replies_dropped,
        bytes_sent=calls.bytes_sent,
        bytes_received=session.inbound.bytes_received,
        lines_received=session.inbound.lines_received,
        unsent_bytes=calls.unsent_bytes,
        stderr_bytes=supervisor.stderr_bytes(),
        callback_errors=session.observer_errors
        + supervisor.callback_errors()
        + logs.errors
        + (0 if queue is None else queue.errors),
        noise_previews=tuple(session.notes.noise_previews),
    )
