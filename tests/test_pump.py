"""The two loops that own a stream, over memory, lockstep and real pipes."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from helpers import count_fds, needs_proc
from trio_mcp_stdio._io.pump import Pump

posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")


class Harness:
    """A pump, what it has been given, and what it has reported."""

    def __init__(self, stream: trio.abc.HalfCloseableStream) -> None:
        self.batches: list[bytes] = []
        self.received: list[bytes] = []
        self.sent: list[int] = []
        self.eofs = self.broken = self.asked = 0
        self.pump = Pump(
            stream,
            on_chunk=self.received.append,
            on_eof=self._on_eof,
            next_batch=self._next_batch,
            on_sent=self.sent.append,
            on_broken=self._on_broken,
        )

    def _on_eof(self) -> None:
        self.eofs += 1

    def _on_broken(self) -> None:
        self.broken += 1

    def _next_batch(self) -> bytes | None:
        """Everything that waits, in one piece."""
        self.asked += 1
        batch = b"".join(self.batches)
        self.batches.clear()
        return batch or None

    def queue(self, data: bytes) -> None:
        self.batches.append(data)
        self.pump.kick()


@asynccontextmanager
async def pumping(stream: trio.abc.HalfCloseableStream, *, seconds: float = 30) -> AsyncIterator[Harness]:
    harness = Harness(stream)
    with trio.fail_after(seconds):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(harness.pump.run_writer)
            nursery.start_soon(harness.pump.run_reader)
            yield harness
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def pipes(*, small: bool = False) -> AsyncIterator[tuple[trio.StapledStream, trio.StapledStream]]:
    """Two ends joined by two real pipes, the one to the far end as small as the system lets it be."""
    far_in, near_out = os.pipe()
    near_in, far_out = os.pipe()
    if small and sys.platform == "linux":
        import fcntl

        fcntl.fcntl(near_out, fcntl.F_SETPIPE_SZ, 4096)  # type: ignore[attr-defined, unused-ignore]
    near = trio.StapledStream(trio.lowlevel.FdStream(near_out), trio.lowlevel.FdStream(near_in))
    far = trio.StapledStream(trio.lowlevel.FdStream(far_out), trio.lowlevel.FdStream(far_in))
    try:
        yield near, far
    finally:
        for end in (near, far):
            await trio.aclose_forcefully(end)


async def read_exactly(stream: trio.abc.ReceiveStream, count: int, size: int | None = None) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = await stream.receive_some(size)
        assert chunk
        data += chunk
    return bytes(data)


MAKERS: list[Callable[[], tuple[trio.abc.HalfCloseableStream, trio.abc.HalfCloseableStream]]] = [
    trio.testing.memory_stream_pair,
    trio.testing.lockstep_stream_pair,
]


@pytest.mark.parametrize("make", MAKERS)
async def test_both_directions(
    make: Callable[[], tuple[trio.abc.HalfCloseableStream, trio.abc.HalfCloseableStream]],
) -> None:
    ours, theirs = make()
    async with pumping(ours) as harness:
        harness.queue(b"request\n")
        assert await read_exactly(theirs, 8) == b"request\n"
        await theirs.send_all(b"answer\n")
        await trio.testing.wait_all_tasks_blocked()
        assert b"".join(harness.received) == b"answer\n"
        assert all(type(chunk) is bytes for chunk in harness.received)
        assert sum(harness.sent) == 8
        assert harness.eofs == harness.broken == 0


@pytest.mark.requirement("STDIO-FRAME-06")
async def test_callers_of_one_tick_leave_in_one_write() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    writes: list[bytes] = []
    send_all = ours.send_stream.send_all

    async def recorded(data: bytes) -> None:
        writes.append(bytes(data))
        await send_all(data)

    ours.send_stream.send_all = recorded  # type: ignore[method-assign]
    async with pumping(ours) as harness:
        await trio.testing.wait_all_tasks_blocked()

        async def caller(number: int) -> None:
            harness.queue(b"%d\n" % number)
            harness.pump.kick()

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(caller, number)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(await read_exactly(theirs, 290)) == sorted(b"".join(b"%d\n" % n for n in range(100)))
        assert len(writes) == 1
        harness.queue(b"next\n")
        await trio.testing.wait_all_tasks_blocked()
        assert len(writes) == 2


async def test_what_was_queued_before_the_writer_began_is_written() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    harness = Harness(ours)
    harness.queue(b"early\n")
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(harness.pump.run_writer)
            assert await read_exactly(theirs, 6) == b"early\n"
            nursery.cancel_scope.cancel()


async def test_kick_without_output_does_nothing() -> None:
    ours, _ = trio.testing.memory_stream_pair()
    async with pumping(ours) as harness:
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            harness.pump.kick()
            harness.pump.kick()
            await trio.testing.wait_all_tasks_blocked()
        assert harness.asked == 4
        assert not harness.sent


@posix
async def test_every_byte_arrives_through_a_small_pipe_with_a_slow_reader() -> None:
    data = bytes(range(256)) * 1024
    async with pipes(small=True) as (near, far), pumping(near) as harness:
        harness.queue(data)
        harness.queue(b"end")
        await trio.testing.wait_all_tasks_blocked()
        assert 0 < sum(harness.sent) < len(data)  # only what the pipe took
        read = 0
        while read < len(data):
            before = sum(harness.sent)
            chunk = await far.receive_some(777)
            assert data.startswith(chunk, read)
            read += len(chunk)
            await trio.testing.wait_all_tasks_blocked()
            assert sum(harness.sent) >= before
            assert sum(harness.sent) >= read
            if read + 777 >= len(data):
                break
        rest = await read_exactly(far, len(data) + 3 - read)
        assert data[:read] + rest == data + b"end"
        assert sum(harness.sent) == len(data) + 3


@posix
async def test_count_is_exact_when_the_reader_goes_away() -> None:
    """What was counted is what the pipe has taken, which is what a peer could have read."""
    data = b"x" * 1_000_000
    async with pipes() as (near, far), pumping(near) as harness:
        harness.queue(data)
        await trio.testing.wait_all_tasks_blocked()
        taken = sum(harness.sent)
        got = len(await read_exactly(far, 1000, 1000))
        await trio.testing.wait_all_tasks_blocked()
        await far.receive_stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert harness.broken == 1
        assert taken <= sum(harness.sent) < len(data)
        assert got <= sum(harness.sent)
        harness.queue(b"more")
        await harness.pump.flush()  # returns: nothing will be written any more
        assert harness.broken == 1
        assert harness.eofs == 0  # the other direction lives on
        await far.send_all(b"last words\n")
        await trio.testing.wait_all_tasks_blocked()
        assert b"".join(harness.received) == b"last words\n"


async def test_all_of_a_batch_counts_where_the_stream_cannot_tell() -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    async with pumping(ours) as harness:
        harness.queue(b"x" * 1000)
        await trio.testing.wait_all_tasks_blocked()
        assert harness.sent == [1000]
        await read_exactly(theirs, 1000, 10)
        assert harness.sent == [1000]


@pytest.mark.parametrize("make", MAKERS)
async def test_broken_is_told_once(
    make: Callable[[], tuple[trio.abc.HalfCloseableStream, trio.abc.HalfCloseableStream]],
) -> None:
    ours, theirs = make()
    async with pumping(ours) as harness:
        await theirs.aclose()
        await trio.testing.wait_all_tasks_blocked()
        harness.queue(b"x\n")
        await trio.testing.wait_all_tasks_blocked()
        harness.queue(b"y\n")
        await trio.testing.wait_all_tasks_blocked()
        assert harness.broken == 1
        assert harness.eofs == 1
        assert "closed for writing" in repr(harness.pump)
        await harness.pump.flush()
        await harness.pump.send_eof()


@posix
async def test_broken_pipe() -> None:
    async with pipes() as (near, far), pumping(near) as harness:
        await trio.aclose_forcefully(far)
        harness.queue(b"x\n")
        await trio.testing.wait_all_tasks_blocked()
        assert (harness.broken, harness.eofs) == (1, 1)
        assert not harness.sent


async def test_eof_is_told_once_and_writing_goes_on() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    async with pumping(ours) as harness:
        await theirs.send_all(b"partial line")
        await theirs.send_eof()
        await trio.testing.wait_all_tasks_blocked()
        assert (harness.received, harness.eofs) == ([b"partial line"], 1)
        harness.queue(b"still there\n")
        assert await read_exactly(theirs, 12) == b"still there\n"
        assert harness.broken == 0


async def test_flush_waits_for_what_is_queued() -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    async with pumping(ours) as harness:
        await harness.pump.flush()  # nothing queued
        harness.queue(b"x" * 100)
        flushed = trio.Event()

        async def flush() -> None:
            await harness.pump.flush()
            flushed.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flush)
            await trio.testing.wait_all_tasks_blocked()
            await read_exactly(theirs, 50, 50)
            await trio.testing.wait_all_tasks_blocked()
            assert not flushed.is_set()
            await read_exactly(theirs, 50, 50)
        assert flushed.is_set()


async def test_two_may_wait_for_the_flush(autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    async with pumping(ours, seconds=5) as harness:
        harness.queue(b"x" * 100)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(harness.pump.flush)
                await trio.testing.wait_all_tasks_blocked()
            await read_exactly(theirs, 100, 100)


async def test_flush_before_the_writer_runs() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    harness = Harness(ours)
    harness.queue(b"x\n")
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(harness.pump.flush)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(harness.pump.run_writer)
            assert await read_exactly(theirs, 2) == b"x\n"
            await trio.testing.wait_all_tasks_blocked()
            await harness.pump.send_eof()


async def test_flush_ends_when_the_writer_is_cancelled() -> None:
    ours, _ = trio.testing.lockstep_stream_pair()
    harness = Harness(ours)
    harness.queue(b"x" * 100)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def write() -> None:
                with scope:
                    await harness.pump.run_writer()

            nursery.start_soon(write)
            nursery.start_soon(harness.pump.flush)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert harness.broken == 0


async def test_send_eof_is_no_fault() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    async with pumping(ours) as harness:
        harness.queue(b"last\n")
        await harness.pump.flush()
        await harness.pump.send_eof()
        assert await read_exactly(theirs, 5) == b"last\n"
        assert await theirs.receive_some() == b""
        harness.queue(b"never\n")
        await harness.pump.flush()
        await harness.pump.send_eof()
        assert harness.broken == 0
        await theirs.send_all(b"answer\n")
        await theirs.send_eof()
        await trio.testing.wait_all_tasks_blocked()
        assert (harness.received, harness.eofs) == ([b"answer\n"], 1)


@posix
async def test_send_eof_cuts_off_a_write_that_is_stuck() -> None:
    """With a peer that does not read nothing else would end it; it is no fault of the stream."""
    async with pipes() as (near, far), pumping(near) as harness:
        harness.queue(b"x" * 1_000_000)
        await trio.testing.wait_all_tasks_blocked()
        count = sum(harness.sent)
        await harness.pump.send_eof()
        await trio.testing.wait_all_tasks_blocked()
        assert harness.broken == 0
        assert len(await read_exactly(far, count)) == count
        assert await far.receive_some() == b""


@posix
@needs_proc
async def test_descriptor_that_was_closed_is_not_written_to() -> None:
    """Its number may belong to something else by the time the writer looks again."""
    before = count_fds()
    async with pipes() as (near, far), pumping(near) as harness:
        harness.queue(b"x" * 1_000_000)
        await trio.testing.wait_all_tasks_blocked()
        await trio.aclose_forcefully(near)
        reused_in, reused_out = os.pipe()
        try:
            while (await far.receive_some()) != b"":
                pass
            harness.queue(b"stray")
            await trio.testing.wait_all_tasks_blocked()
            os.set_blocking(reused_in, False)
            with pytest.raises(BlockingIOError):
                os.read(reused_in, 10)
        finally:
            os.close(reused_in)
            os.close(reused_out)
    assert count_fds() == before


async def test_reader_does_not_wait_for_the_writer() -> None:
    """The classic lock-up of two full pipes: both sides write, and the peer reads only when it was read."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    async with pumping(ours) as harness:
        harness.queue(b"x" * 100_000)
        await trio.testing.wait_all_tasks_blocked()
        await theirs.send_all(b"y" * 100_000)
        assert sum(map(len, harness.received)) == 100_000
        await read_exactly(theirs, 100_000)


async def test_reader_takes_over_other_byte_types() -> None:
    class Odd(trio.abc.HalfCloseableStream):
        def __init__(self) -> None:
            self.left = [bytearray(b"one"), memoryview(b"two"), b"three", b""]

        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            await trio.lowlevel.checkpoint()
            return self.left.pop(0)  # type: ignore[return-value]

        async def send_all(self, data: object) -> None: ...
        async def wait_send_all_might_not_block(self) -> None: ...
        async def send_eof(self) -> None: ...
        async def aclose(self) -> None: ...

    harness = Harness(Odd())
    with trio.fail_after(30):
        await harness.pump.run_reader()
    assert harness.received == [b"one", b"two", b"three"]
    assert {type(chunk) for chunk in harness.received} == {bytes}
    assert harness.eofs == 1


@pytest.mark.parametrize("error", [trio.BrokenResourceError, trio.ClosedResourceError])
async def test_read_that_fails_is_the_end(error: type[Exception]) -> None:
    ours, _ = trio.testing.memory_stream_pair()

    async def fail(max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        raise error

    ours.receive_stream.receive_some = fail  # type: ignore[method-assign]
    harness = Harness(ours)
    with trio.fail_after(30):
        await harness.pump.run_reader()
    assert harness.eofs == 1
