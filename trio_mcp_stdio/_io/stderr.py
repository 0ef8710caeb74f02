"""Standard error of a server: drained from the first byte to the last, kept in a ring, handed to sinks.

A server blocks when nobody reads its stderr, so the drain depends on nothing: not on stdout, not on the
callers, not on a slow sink.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import IO, Final, Literal, Protocol, TypeAlias, cast, final

import attrs
import trio

from .callbacks import CallbackQueue

__all__ = ["StderrDrain", "StderrFile", "StderrPolicy", "StderrSink", "needs_pipe"]

MAX_LINE: Final = 16 * 1024
"""Bytes of one line that reach a sink; the rest of it is cut, with a mark."""

MAX_QUEUED_CHUNKS: Final = 256
"""Chunks that may wait for the thread that writes a file; past it the oldest are dropped."""

_READ_SIZE: Final = 64 * 1024


@final
@attrs.frozen
class StderrFile:
    """Append a server's standard error, byte for byte, to a file.

    It is written by a worker thread; while the disk is slower than the server the oldest waiting chunks
    are dropped, and the gap is marked.
    """

    path: str | os.PathLike[str]


StderrSink: TypeAlias = (
    Literal["capture", "inherit", "discard", "log"]
    | StderrFile
    | Callable[[str], None]
    | Callable[[str], Awaitable[None]]
)
StderrPolicy: TypeAlias = StderrSink | Sequence[StderrSink]


def _sinks(policy: StderrPolicy) -> list[StderrSink]:
    if isinstance(policy, str) or not isinstance(policy, Sequence):
        return [policy]  # pyright: ignore[reportReturnType]  # it takes any str for a possible sequence
    return list(cast("Sequence[StderrSink]", policy))


def needs_pipe(policy: StderrPolicy) -> Literal["pipe", "inherit", "discard"]:
    """What the child gets as descriptor 2.

    "inherit" or "discard" alone need no pipe, and then there is no tail for error texts; in company,
    "inherit" means a copy and "discard" nothing.
    """
    sinks = _sinks(policy)
    for sink in sinks:
        if isinstance(sink, str) and sink not in ("capture", "inherit", "discard", "log"):
            raise ValueError(
                f"stderr must be capture, inherit, discard, log, a StderrFile or a callable, not {sink!r}"
            )
    if sinks == ["inherit"]:
        return "inherit"
    return "discard" if sinks == ["discard"] else "pipe"


class _Sink(Protocol):
    def feed(self, chunk: bytes) -> None: ...
    def end(self) -> None: ...
    async def run(self) -> None: ...


class _LineSink:
    """Cuts the stream into lines for a callable."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._part = bytearray()
        self._cut = 0

    def feed(self, chunk: bytes) -> None:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._add(piece)
            self._flush()
        self._add(rest)

    def end(self) -> None:
        if self._part or self._cut:
            self._flush()

    async def run(self) -> None:
        """Nothing to do: lines are emitted as they come."""

    def _add(self, piece: bytes) -> None:
        room = MAX_LINE - len(self._part)
        self._part += piece[:room]
        self._cut += max(0, len(piece) - room)

    def _flush(self) -> None:
        text = self._part.decode("utf-8", "replace").rstrip("\r")
        if self._cut:
            text += f" [… {self._cut} bytes cut]"
        self._part.clear()
        self._cut = 0
        self._emit(text)


class _CallbackSink(_LineSink):
    def __init__(self, queue: CallbackQueue[str]) -> None:
        super().__init__(queue.put)
        self._queue = queue

    async def run(self) -> None:
        await self._queue.run()

    def end(self) -> None:
        super().end()
        self._queue.close()


class _ThreadSink:
    """Writes chunks from a worker thread, behind a bounded queue.

    The thread is abandoned when the sink is cancelled, since opening or writing a FIFO may block for
    ever; an abandoned thread goes on with the queue if it ever comes free.
    """

    def __init__(self, open_file: Callable[[], IO[bytes]], *, close: bool, logger: logging.Logger) -> None:
        self._open_file = open_file
        self._close = close
        self._logger = logger
        self._chunks: deque[bytes] = deque()
        self._dropped = 0
        self._ended = False
        self._news = trio.Event()
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()  # held by the one thread at work on the file

    def feed(self, chunk: bytes) -> None:
        if len(self._chunks) >= MAX_QUEUED_CHUNKS:
            # The thread may have taken the last one meanwhile.
            with contextlib.suppress(IndexError):
                self._dropped += len(self._chunks.popleft())
        self._chunks.append(chunk)
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def run(self) -> None:
        try:
            last = False
            while not last:
                await self._news.wait()
                self._news = trio.Event()
                last = self._ended
                await trio.to_thread.run_sync(self._write, last, abandon_on_cancel=True)
        except (OSError, ValueError) as error:
            self._logger.error("stderr cannot be written: %s", error)

    def _write(self, last: bool) -> None:
        with self._lock:
            if self._file is None:
                self._file = self._open_file()
            while self._chunks:
                chunk = self._chunks.popleft()
                if self._dropped:
                    self._file.write(b"[... %d bytes dropped]\n" % self._dropped)
                    self._dropped = 0
                self._file.write(chunk)
            self._file.flush()
            if last and self._close:
                self._file.close()


def _own_stderr() -> IO[bytes]:
    stream = sys.stderr
    return getattr(stream, "buffer", None) or open(2, "wb", closefd=False)


class StderrDrain:
    """Reads one server's standard error to its end.

    Args:
        stream: the read end of the pipe.
        policy: where it goes, beside the ring.
        ring_bytes: size of the ring from which tails are taken.
        name: server name, for loggers.
    """

    def __init__(
        self, stream: trio.abc.ReceiveStream, policy: StderrPolicy, *, ring_bytes: int, name: str
    ) -> None:
        self._stream = stream
        self._limit = ring_bytes
        self._ring = bytearray()
        self.total = 0
        """Bytes read so far."""
        self.finished = trio.Event()
        """Set at the end of the stream."""
        self._callbacks: list[CallbackQueue[str]] = []
        logger = logging.getLogger(f"trio_mcp_stdio.stderr.{name}")
        self._sinks: list[_Sink] = [
            sink for one in _sinks(policy) if (sink := self._make_sink(one, logger)) is not None
        ]

    def _make_sink(self, sink: StderrSink, logger: logging.Logger) -> _Sink | None:
        if sink == "log":
            return _LineSink(lambda line: logger.info("%s", line))
        if sink == "inherit":
            return _ThreadSink(_own_stderr, close=False, logger=logger)
        if isinstance(sink, StderrFile):
            return _ThreadSink(lambda: open(sink.path, "ab"), close=True, logger=logger)
        if isinstance(sink, str):
            return None
        queue = CallbackQueue(sink, what="stderr callback", logger=logger)
        self._callbacks.append(queue)
        return _CallbackSink(queue)

    def __repr__(self) -> str:
        return f"<StderrDrain: {self.total} bytes{', finished' if self.finished.is_set() else ''}>"

    @property
    def callback_errors(self) -> int:
        """Exceptions raised by callbacks."""
        return sum(queue.errors for queue in self._callbacks)

    def tail(self) -> str:
        """What the ring holds, decoded; what was dropped before it is named."""
        text = self._ring.decode("utf-8", "replace").rstrip("\n")
        dropped = self.total - len(self._ring)
        return f"[… {dropped} bytes of stderr dropped]\n{text}" if dropped else text

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Drain to the end.  Sinks run beside it and can neither stop nor slow it."""
        async with trio.open_nursery() as nursery:
            for sink in self._sinks:
                nursery.start_soon(sink.run)
            try:
                while chunk := await self._stream.receive_some(_READ_SIZE):
                    self._take(bytes(chunk))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            finally:
                self.finished.set()
                for sink in self._sinks:
                    sink.end()

    def _take(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self._ring += chunk
        if len(self._ring) > self._limit:
            del self._ring[: len(self._ring) - self._limit]
        for sink in self._sinks:
            sink.feed(chunk)
