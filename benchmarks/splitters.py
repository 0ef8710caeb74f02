"""Line splitters: ours, and plain ones to hold it against.

A splitter is made anew for each stream; its `feed` takes a chunk and returns the lines that it completes,
without their newlines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from trio_mcp_stdio._wire.lines import LineSplitter

Line = bytes | bytearray


class Splitter(Protocol):
    """What all of them can do."""

    def feed(self, chunk: bytes) -> Sequence[object]:
        """Take a chunk, return lines."""


class FindAndDelete:
    """A bytearray, searched once; each line is copied out and deleted from its front."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, chunk: bytes) -> list[Line]:
        buffer = self._buffer
        buffer += chunk
        lines: list[Line] = []
        while (end := buffer.find(b"\n", self._searched)) >= 0:
            lines.append(bytes(buffer[:end]))
            del buffer[: end + 1]
            self._searched = 0
        self._searched = len(buffer)
        return lines


class FindAndTrim:
    """A bytearray, searched once; lines are copied out, and what they leave is deleted once a chunk."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, chunk: bytes) -> list[Line]:
        buffer = self._buffer
        buffer += chunk
        lines: list[Line] = []
        start, searched = 0, self._searched
        while (end := buffer.find(b"\n", searched)) >= 0:
            lines.append(bytes(buffer[start:end]))
            start = searched = end + 1
        del buffer[:start]
        self._searched = len(buffer)
        return lines


class JoinAndSplit:
    """What is left and what is new are joined and split anew: quadratic in the length of a line."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[Line]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return list(lines)


class Pieces:
    """Pieces of the unfinished line in a list, joined when it ends."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> list[Line]:
        lines: list[Line] = list(chunk.split(b"\n"))
        rest = bytes(lines.pop())
        if lines and self._pieces:
            lines[0] = b"".join([*self._pieces, lines[0]])
            self._pieces.clear()
        if rest:
            self._pieces.append(rest)
        return lines


OURS = "LineSplitter"

SPLITTERS: dict[str, Callable[[], Splitter]] = {
    OURS: LineSplitter,  # with its default bound, which none of the others has
    "find, delete each line": FindAndDelete,
    "find, delete each chunk": FindAndTrim,
    "(rest + chunk).split": JoinAndSplit,
    "list of pieces": Pieces,
}
