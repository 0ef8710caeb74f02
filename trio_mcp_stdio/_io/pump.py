"""The two loops that own the two directions of a stream.

The reader awaits nothing but its stream, or a full pipe in the other direction could stop it and both
sides would wait for each other.  The writer is the only task that sends: what concurrent callers queue
in one tick leaves in one write, and no cancelled caller can cut a line in half.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Final

import trio

from .waiter import Waiter

__all__ = ["Pump"]

READ_SIZE: Final = 256 * 1024


class Pump:
    """Reader and writer of one stream.  Every callback is synchronous.

    Args:
        stream: the stream; nobody else may send or receive on it.
        on_chunk: called with what was read.
        on_eof: called once when nothing more can be read.
        next_batch: returns the next bytes to write, None when there are none; it is asked again after
            each `kick`.
        on_sent: called with a count of bytes that have left.  Where the stream cannot tell (anything
            but a POSIX descriptor), all bytes of a batch are counted before it is sent.
        on_broken: called once when nothing more can be written, other than after `send_eof`.
    """

    def __init__(
        self,
        stream: trio.abc.HalfCloseableStream,
        *,
        on_chunk: Callable[[bytes], None],
        on_eof: Callable[[], None],
        next_batch: Callable[[], bytes | None],
        on_sent: Callable[[int], None],
        on_broken: Callable[[], None],
    ) -> None:
        self._stream = stream
        self._on_chunk = on_chunk
        self._on_eof = on_eof
        self._next_batch = next_batch
        self._on_sent = on_sent
        self._on_broken = on_broken
        self._output = Waiter()
        self._writable = True
        self._idle = trio.Event()
        self._fileno: Callable[[], int] | None = None
        if sys.platform != "win32" and isinstance(stream, trio.StapledStream):
            pipe = stream.send_stream
            if isinstance(pipe, trio.lowlevel.FdStream):
                self._fileno = pipe.fileno

    def __repr__(self) -> str:
        return f"<Pump{'' if self._writable else ': closed for writing'}>"

    def kick(self) -> None:
        """There is output.  Any number of kicks in one tick wake the writer once."""
        self._output.wake()

    @trio.lowlevel.enable_ki_protection
    async def run_writer(self) -> None:
        """Write until the stream is closed or broken.  Never raises on its account."""
        send = self._send_all if self._fileno is None else self._send_to_descriptor
        try:
            while self._writable:
                batch = self._next_batch()
                if batch is None:
                    self._idle.set()
                    await self._output.wait()
                else:
                    await send(batch)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            if self._writable:
                self._writable = False
                self._on_broken()
        finally:
            self._writable = False
            self._idle.set()

    @trio.lowlevel.enable_ki_protection
    async def run_reader(self) -> None:
        """Read until the stream ends, breaks or is closed.  Never raises on its account."""
        receive, on_chunk = self._stream.receive_some, self._on_chunk
        try:
            while chunk := await receive(READ_SIZE):
                on_chunk(bytes(chunk) if type(chunk) is not bytes else chunk)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # no more to read, as at a clean end
        self._on_eof()

    async def flush(self) -> None:
        """Wait until all that is queued now has been written, or can no longer be."""
        if self._writable:
            if self._idle.is_set():
                self._idle = trio.Event()
            self.kick()
        await self._idle.wait()

    async def send_eof(self) -> None:
        """Close the direction to the peer.  A write under way is cut off."""
        self._writable = False
        self.kick()
        # The peer may have closed it first.
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            await self._stream.send_eof()

    async def _send_all(self, batch: bytes) -> None:
        self._on_sent(len(batch))
        await self._stream.send_all(batch)

    async def _send_to_descriptor(self, batch: bytes) -> None:
        # FdStream.send_all cannot say how much it wrote when it fails; the delivery of a lost request
        # hangs on that count.
        assert self._fileno is not None
        rest = memoryview(batch)
        while rest:
            if not self._writable:
                raise trio.ClosedResourceError
            descriptor = self._fileno()
            try:
                count = os.write(descriptor, rest)
            except BlockingIOError:
                await trio.lowlevel.wait_writable(descriptor)
                continue
            rest = rest[count:]
            self._on_sent(count)
