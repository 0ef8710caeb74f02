"""The line splitter against an obvious one, and the work it does, counted in bytes."""

from __future__ import annotations

import tracemalloc
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trio_mcp_stdio._wire import lines
from trio_mcp_stdio._wire.lines import LineSplitter, Oversized, OversizedStage

OPEN, ENDED, ENDLESS = OversizedStage.OPEN, OversizedStage.ENDED, OversizedStage.ENDLESS

Event = bytes | tuple[OversizedStage, bytes, bytes, int]


class Reference:
    """Keeps everything, looks at one byte at a time, and does what the documentation says."""

    def __init__(self, limit: int | None, kept: int, factor: int) -> None:
        self.limit, self.kept, self.factor = limit, kept, factor
        self.line = b""
        self.head = b""
        self.opened = self.endless = False

    def feed(self, chunk: bytes) -> list[Event]:
        events: list[Event] = []
        for byte in chunk:
            if byte == 0x0A:
                self._end(events)
            else:
                self.line += bytes([byte])
        if self._too_long() and not self.opened:
            self.opened = True
            self.head = self.line[: self.kept]
            events.append((OPEN, self.head, b"", len(self.line)))
        elif self._given_up():
            self.endless = True
            events.append(self._report(ENDLESS))
        return events

    def finish(self) -> bytes:
        return b"" if self._too_long() else self.line.removesuffix(b"\r")

    def _too_long(self) -> bool:
        return self.limit is not None and len(self.line) > self.limit

    def _given_up(self) -> bool:
        assert self.limit is not None or not self.opened
        return self.opened and not self.endless and len(self.line) > self.factor * (self.limit or 0)

    def _report(self, stage: OversizedStage) -> Event:
        head = self.head if self.opened else self.line[: self.kept]
        return (stage, head, self.line[-self.kept :] if stage is ENDED else b"", len(self.line))

    def _end(self, events: list[Event]) -> None:
        if not self._too_long():
            if content := self.line.removesuffix(b"\r"):
                events.append(content)
        elif self._given_up():
            events.append(self._report(ENDLESS))
        elif not self.endless:
            events.append(self._report(ENDED))
        self.line = b""
        self.opened = self.endless = False


def plain(found: list[Any]) -> list[Event]:
    return [
        (one.stage, one.head, one.tail, one.size) if isinstance(one, Oversized) else bytes(one)
        for one in found
    ]


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """The data in chunks of these sizes, over and over."""
    chunks = []
    turn = 0
    while data:
        size = sizes[turn % len(sizes)]
        chunks.append(data[:size])
        data = data[size:]
        turn += 1
    return chunks


PIECES = st.one_of(
    st.sampled_from(
        [b"\n", b"\n", b"\r\n", b"\r", b"\n\n", b"\r\r\n", b" ", b"{}", b"\x00", b"\x0b\x0c\x1c\x1d\x1e\x85"]
    ),
    st.sampled_from("\u2028\u2029\u0085").map(str.encode),
    st.binary(max_size=12),
    st.integers(1, 40).map(lambda n: b"x" * n),
    st.integers(60, 200).map(lambda n: b"abcdefghij" * (n // 10)),
)
DATA = st.lists(PIECES, max_size=30).map(b"".join)
SIZES = st.lists(st.integers(1, 70), min_size=1, max_size=8)


@pytest.mark.requirement("STDIO-FRAME-05", "STDIO-FRAME-14", "STDIO-FRAME-16")
@given(data=DATA, sizes=SIZES, limit=st.none() | st.integers(1, 60), kept=st.integers(1, 30))
@example(data=b"ab\r\ncd\n", sizes=[3], limit=3, kept=4)
@example(data=b"x" * 900 + b"\n\nok\n", sizes=[64], limit=10, kept=4)
@example(data=b"x" * 81 + b"\nok\n", sizes=[80, 1], limit=10, kept=4)
def test_agrees_with_the_obvious_splitter(
    data: bytes, sizes: list[int], limit: int | None, kept: int
) -> None:
    with mock.patch.object(lines, "KEPT", kept):
        splitter = LineSplitter(max_line_bytes=limit)
        reference = Reference(limit, kept, lines.SKIP_FACTOR)
        for chunk in cut(data, sizes):
            assert plain(splitter.feed(chunk)) == reference.feed(chunk)
            if not reference._too_long():
                assert splitter.buffered == len(reference.line)
            elif limit is not None:
                assert splitter.buffered <= 2 * kept
        assert splitter.finish() == reference.finish()


@given(data=DATA, first=SIZES, second=SIZES)
def test_chunking_does_not_matter(data: bytes, first: list[int], second: list[int]) -> None:
    found = []
    for sizes in (first, second, [max(1, len(data))]):
        splitter = LineSplitter(max_line_bytes=None)
        lines_found = [bytes(line) for chunk in cut(data, sizes) for line in splitter.feed(chunk)]
        found.append((lines_found, bytes(splitter.finish())))
    assert found[0] == found[1] == found[2]


@given(data=DATA, sizes=SIZES, limit=st.integers(1, 60))
def test_each_line_past_the_bound_is_told_of_once(data: bytes, sizes: list[int], limit: int) -> None:
    splitter = LineSplitter(max_line_bytes=limit)
    reports = [
        event for chunk in cut(data, sizes) for event in splitter.feed(chunk) if type(event) is Oversized
    ]
    *complete, rest = data.split(b"\n")
    told = sum(report.stage is not OPEN for report in reports)
    assert sum(len(line) > limit for line in complete) <= told
    assert told <= sum(len(line) > limit for line in (*complete, rest))
    opened = False
    for report in reports:
        assert report.size > limit
        assert not (opened and report.stage is OPEN)
        opened = report.stage is OPEN


def test_nothing_is_lost_between_two_uses() -> None:
    splitter = LineSplitter(max_line_bytes=4)
    assert splitter.feed(b"rest\r"[:4]) == []
    assert splitter.finish() == b"rest"
    assert splitter.buffered == 0
    assert plain(splitter.feed(b"toolong")) == [(OPEN, b"toolong", b"", 7)]
    assert splitter.finish() == b""
    assert splitter.buffered == 0
    assert splitter.feed(b"next\n") == [b"next"]


def test_carriage_return_in_the_chunk_before() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\r") == []
    assert splitter.feed(b"\ntwo") == [b"one"]
    assert splitter.feed(b"\r") == []
    assert splitter.finish() == b"two"


def test_line_of_exactly_the_bound_is_a_line() -> None:
    for chunks in ([b"12345\n"], [b"12345", b"\n"], [b"123", b"45\n"], [b"1", b"2", b"3", b"4", b"5", b"\n"]):
        splitter = LineSplitter(max_line_bytes=5)
        assert [line for chunk in chunks for line in splitter.feed(chunk)] == [b"12345"]


def test_lines_around_a_long_one_are_whole() -> None:
    splitter = LineSplitter(max_line_bytes=10)
    found = plain(splitter.feed(b"before\n" + b"y" * 50 + b"\nafter\nnext"))
    assert found == [b"before", (ENDED, b"y" * 50, b"y" * 50, 50), b"after"]
    assert splitter.finish() == b"next"


@pytest.mark.parametrize("limit", [0, -1])
def test_bound_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        LineSplitter(max_line_bytes=limit)


# Work, counted


class Work:
    """Bytes looked at and bytes copied."""

    scanned = 0
    copied = 0


class CountedBytes(bytes):
    """A chunk that counts what is done to it."""

    def split(self, *args: Any, **kwargs: Any) -> Any:
        Work.scanned += len(self)
        Work.copied += len(self)
        return super().split(*args, **kwargs)

    def find(self, *args: Any) -> int:
        Work.scanned += len(self)
        return super().find(*args)

    def __contains__(self, item: Any) -> bool:
        Work.scanned += len(self)
        return super().__contains__(item)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        Work.copied += len(found) if isinstance(found, bytes) else 1
        return found

    def __add__(self, other: Any) -> Any:
        Work.copied += len(self) + len(other)
        return CountedBytes(super().__add__(other))

    def __radd__(self, other: Any) -> Any:
        Work.copied += len(self) + len(other)
        return CountedBytes(other + bytes(self))


class CountedBytearray(bytearray):
    """The splitter's memory, likewise.  Growing in place counts what is added: it is amortised."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        Work.copied += len(self)

    def __iadd__(self, other: Any) -> Any:
        Work.copied += len(other)
        return super().__iadd__(other)

    def extend(self, other: Any) -> None:
        Work.copied += len(other)
        super().extend(other)

    def __add__(self, other: Any) -> Any:
        return CountedBytearray(super().__add__(other))

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        Work.copied += len(found) if isinstance(found, (bytes, bytearray)) else 1
        return found

    def __delitem__(self, key: Any) -> None:
        Work.copied += len(self)  # what stands behind it moves
        super().__delitem__(key)

    def __contains__(self, item: Any) -> bool:
        Work.scanned += len(self)
        return super().__contains__(item)

    def find(self, *args: Any) -> int:
        start = args[1] if len(args) > 1 else 0
        Work.scanned += len(self) - start
        return super().find(*args)

    def index(self, *args: Any) -> int:
        start = args[1] if len(args) > 1 else 0
        Work.scanned += len(self) - start
        return super().index(*args)

    def split(self, *args: Any, **kwargs: Any) -> Any:
        Work.scanned += len(self)
        Work.copied += len(self)
        return super().split(*args, **kwargs)


def work(data: bytes, size: int, limit: int | None) -> tuple[int, int, list[Any]]:
    """Bytes scanned and copied for data that comes in chunks of one size."""
    with mock.patch.object(lines, "bytearray", CountedBytearray, create=True):
        splitter = LineSplitter(max_line_bytes=limit)
        chunks = [CountedBytes(data[start : start + size]) for start in range(0, len(data), size)]
        Work.scanned = Work.copied = 0
        found = [line for chunk in chunks for line in splitter.feed(chunk)]
        found.append(splitter.finish())
        return Work.scanned, Work.copied, found


CHUNKS = {1: 20_000, 97: 150_000, 64 * 1024: 1_000_000}
"""Size of the chunks -> length of the data."""

SHAPES = {
    "one long line": lambda size: b"x" * (size - 1) + b"\n",
    "one long line without an end": lambda size: b"x" * size,
    "short lines": lambda size: (b"x" * 108 + b"\r\n") * (size // 110),
    "tiny lines": lambda size: b"x\n" * (size // 2),
    "only newlines": lambda size: b"\n" * size,
    "long and short": lambda size: (b"x" * 9_000 + b"\n" + b"y\n" * 50) * (size // 9_101),
}


def test_counting_tells_a_quadratic_splitter() -> None:
    rest = CountedBytearray()
    Work.scanned = Work.copied = 0
    for _ in range(1000):
        rest += b"x"
        assert rest.find(b"\n") < 0
    assert Work.scanned > 400 * 1000
    Work.scanned = Work.copied = 0
    for _ in range(1000):
        rest = CountedBytearray(rest + b"x")
    assert Work.copied > 400 * 1000


@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_work_is_linear_for_any_chunking(shape: str, size: int) -> None:
    for length in (CHUNKS[size], 2 * CHUNKS[size]):
        data = SHAPES[shape](length)
        scanned, copied, found = work(data, size, None)
        assert [line for line in found if line] == [
            line.removesuffix(b"\r") for line in data.split(b"\n") if line
        ]
        # Scanned for newlines and for carriage returns; copied twice, and once more to cut off a \r.
        assert scanned <= 2 * len(data)
        assert copied <= 3 * len(data)


@pytest.mark.parametrize("size", CHUNKS)
def test_work_near_the_bound_is_linear(size: int) -> None:
    length = CHUNKS[size] // 10
    data = (b"x" * length + b"\n") * 10
    scanned, copied, found = work(data, size, length)
    assert len(found) == 11
    assert scanned <= 2 * len(data)
    assert copied <= 3 * len(data)


@pytest.mark.parametrize("size", CHUNKS)
def test_work_for_a_skipped_line_is_linear(size: int) -> None:
    for length in (CHUNKS[size], 2 * CHUNKS[size]):
        data = b"x" * length + b"\n"
        scanned, copied, found = work(data, size, length // 4)
        assert [event.stage for event in found if isinstance(event, Oversized)][-1] is ENDED
        assert scanned <= 2 * len(data)
        # What stays is a head and a tail of constant size, whose copying counts for each chunk.
        assert copied <= 3 * len(data) + (len(data) // size + 2) * 2 * lines.KEPT


@pytest.mark.requirement("STDIO-FRAME-14")
@pytest.mark.parametrize("size", [97, 8 * 1024, 64 * 1024])
def test_memory_stays_within_the_bound(size: int) -> None:
    limit = 128 * 1024
    chunk = b"x" * size
    splitter = LineSplitter(max_line_bytes=limit)
    highest = 0
    tracemalloc.start()
    try:
        start, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(2 * lines.SKIP_FACTOR * limit // size):
            splitter.feed(chunk)
            highest = max(highest, splitter.buffered)
        peak = tracemalloc.get_traced_memory()[1] - start
    finally:
        tracemalloc.stop()
    assert highest <= limit
    # A bytearray over-allocates by an eighth, and moves when it grows.
    assert peak <= 2.25 * limit + 4 * size + 64 * 1024
    assert splitter.buffered <= 2 * lines.KEPT


def test_many_lines_in_one_chunk_hold_nothing_back() -> None:
    splitter = LineSplitter(max_line_bytes=1000)
    assert len(splitter.feed(b"line\n" * 10_000)) == 10_000
    assert splitter.buffered == 0
