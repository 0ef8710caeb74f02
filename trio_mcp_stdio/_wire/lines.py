"""The line splitter: bytes in any chunking -> whole lines, in linear time and bounded memory.

Only 0x0A separates lines (specification, stdio: messages are delimited by newlines).  U+2028, U+0085
and lone carriage returns are content, which rules out `splitlines` in all its forms.

How the time stays linear: every byte is scanned once by `bytes.split` as it arrives and copied at
most twice, once by that split and once into the bytearray of an unfinished line.  A finished line is
handed over as that bytearray, never copied again, and what has been searched is never searched again.
"""

from __future__ import annotations

import enum
from typing import Any

import attrs

__all__ = ["LineSplitter", "Oversized", "OversizedStage"]

KEPT = 4096
"""Bytes of head and of tail kept of a line that is too long, to find its id in."""

SKIP_FACTOR = 8
"""A line is skipped up to this many times the bound; past that it is called endless."""


class OversizedStage(enum.Enum):
    """What is known of a line past the bound."""

    OPEN = "open"
    """The bound was just passed: only the head is known."""
    ENDED = "ended"
    """Its newline came: head and tail are known, the lines after it are whole."""
    ENDLESS = "endless"
    """Still no newline at `SKIP_FACTOR` times the bound."""


@attrs.frozen(eq=False)
class Oversized:
    """A line past the bound.

    It is reported at the bound (OPEN), and once more when it ends (ENDED) or is given up (ENDLESS); a
    line that arrives whole in one chunk is reported once, as ENDED.
    """

    stage: OversizedStage
    head: bytes
    tail: bytes
    size: int


class _Skipped:
    """The line being skipped."""

    __slots__ = ("endless", "head", "size", "tail")

    def __init__(self, head: bytes, tail: bytes, size: int) -> None:
        self.head = head
        self.tail = tail
        self.size = size
        self.endless = False

    def report(self, stage: OversizedStage) -> Oversized:
        return Oversized(stage, self.head, self.tail if stage is OversizedStage.ENDED else b"", self.size)


Line = bytes | bytearray


class LineSplitter:
    """Cuts a byte stream into lines.

    Args:
        max_line_bytes: bound on one line without its newline, None for no bound.  Memory held never
            exceeds it by more than one chunk.
    """

    __slots__ = ("_limit", "_skipped", "_tail")

    def __init__(self, *, max_line_bytes: int | None = 16 * 2**20) -> None:
        if max_line_bytes is not None and max_line_bytes < 1:
            raise ValueError("max_line_bytes must be at least 1")
        self._limit = max_line_bytes
        self._tail = bytearray()
        self._skipped: _Skipped | None = None

    def feed(self, chunk: bytes) -> list[Line | Oversized]:
        """Take a chunk and return the lines it completes.

        They come without the newline and without one carriage return before it; blank ones are left out.
        """
        tail = self._tail
        if self._skipped is not None or (self._limit is not None and len(tail) + len(chunk) > self._limit):
            return self._feed_near_bound(chunk)
        lines: list[Any] = chunk.split(b"\n")
        rest = lines.pop()
        if not lines:
            tail += rest
            return lines
        if tail:
            tail += lines[0]
            lines[0] = tail
        self._tail = bytearray(rest)
        return _tidy(lines, b"\r" in chunk or tail.endswith(b"\r"))

    def finish(self) -> Line:
        """Return what stands after the last newline at the end of the stream, b"" when that is nothing."""
        rest = self._tail
        self._tail = bytearray()
        self._skipped = None
        return rest[:-1] if rest.endswith(b"\r") else rest

    @property
    def buffered(self) -> int:
        """Bytes held of an unfinished line."""
        if self._skipped is not None:
            return len(self._skipped.head) + len(self._skipped.tail)
        return len(self._tail)

    def _feed_near_bound(self, chunk: bytes) -> list[Line | Oversized]:
        lines: list[Line | Oversized] = []
        *ending, rest = chunk.split(b"\n")
        for piece in ending:
            self._extend(piece, lines)
            self._end_line(lines)
        self._extend(rest, lines)
        return _tidy(lines, True)

    def _extend(self, piece: bytes, out: list[Line | Oversized]) -> None:
        skipped = self._skipped
        limit = self._limit
        if skipped is not None and limit is not None:
            skipped.size += len(piece)
            skipped.tail = (skipped.tail + piece[-KEPT:])[-KEPT:]
            if not skipped.endless and skipped.size > SKIP_FACTOR * limit:
                skipped.endless = True
                out.append(skipped.report(OversizedStage.ENDLESS))
            return
        tail = self._tail
        size = len(tail) + len(piece)
        if limit is None or size <= limit:
            tail += piece
            return
        head = bytes(tail[:KEPT]) + piece[: max(0, KEPT - len(tail))]
        self._skipped = _Skipped(head, (bytes(tail[-KEPT:]) + piece[-KEPT:])[-KEPT:], size)
        self._tail = bytearray()
        out.append(self._skipped.report(OversizedStage.OPEN))

    def _end_line(self, out: list[Line | Oversized]) -> None:
        skipped = self._skipped
        if skipped is None:
            out.append(self._tail)
            self._tail = bytearray()
            return
        self._skipped = None
        if skipped.endless:
            return
        if out and isinstance(out[-1], Oversized) and out[-1].stage is OversizedStage.OPEN:
            out.pop()  # it began and ended within this chunk
        out.append(skipped.report(OversizedStage.ENDED))


def _tidy(lines: list[Line | Oversized], carriage_returns: bool) -> list[Line | Oversized]:
    if carriage_returns:
        lines = [
            line[:-1] if not isinstance(line, Oversized) and line.endswith(b"\r") else line for line in lines
        ]
    return [line for line in lines if line] if b"" in lines else lines
