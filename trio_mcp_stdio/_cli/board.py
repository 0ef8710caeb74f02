"""Several calls at once, shown: live on a terminal, elsewhere a line for each when it ends."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import attrs

from .. import ProgressUpdate
from .output import Output, console_for
from .wording import amount

if TYPE_CHECKING:
    from rich.live import Live

__all__ = ["Board", "Entry"]

BAR: Final = 20
"""Columns of a bar."""


@attrs.define(eq=False)
class Entry:
    """One call.

    Attributes:
        label: what it is.
        state: how far it is, and in the end what came of it.
        done: the share that is done, from 0 to 1.
        updates: how many reports of progress came.
        seconds: how long it took, None while it runs.
    """

    board: Board = attrs.field(repr=False)
    label: str
    state: str = ""
    done: float = 0.0
    updates: int = 0
    seconds: float | None = None

    def update(self, update: ProgressUpdate) -> None:
        """The server reported progress."""
        self.updates += 1
        self.done = min(1.0, update.progress / update.total) if update.total else 0.0
        self.state = amount(update)
        self.board.refresh()

    def finish(self, state: str, seconds: float, *, complete: bool) -> None:
        """The call has ended."""
        self.state, self.seconds = state, seconds
        if complete:
            self.done = 1.0
        self.board.refresh(ended=self)


class Board:
    """A line for each call."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._entries: list[Entry] = []
        self._live: Live | None = None
        encoding = sys.stdout.encoding.lower() if sys.stdout is not None else ""
        self._full, self._empty = ("━", "─") if encoding.startswith("utf") else ("#", "-")

    def __enter__(self) -> Board:
        if self._output.on_terminal:
            from rich.live import Live

            # Redrawn at every change: a thread would go on drawing while an interrupt unwinds.
            self._live = Live(console=console_for(sys.stdout), auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._live is not None:
            self._live.stop()

    def add(self, label: str) -> Entry:
        """A new line."""
        entry = Entry(self, label)
        self._entries.append(entry)
        self.refresh()
        return entry

    def refresh(self, *, ended: Entry | None = None) -> None:
        """Something has changed; `ended` is the call that has ended by it."""
        if self._live is not None:
            from rich.text import Text

            text = "\n".join(self._line(entry, self._bar(entry)) for entry in self._entries)
            self._live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
        elif ended is not None:
            reports = f", after {ended.updates} progress reports" if ended.updates else ""
            self._output.print(self._line(ended) + reports)

    def _bar(self, entry: Entry) -> str:
        full = round(BAR * entry.done)
        return self._full * full + self._empty * (BAR - full)

    def _line(self, entry: Entry, bar: str = "") -> str:
        width = max(len(each.label) for each in self._entries)
        took = "" if entry.seconds is None else f"{entry.seconds:.2f} s"
        cells = [f"{entry.label:<{width}}", *([bar] if bar else ()), f"{took:>7}", entry.state]
        return f"  {'  '.join(cells)}".rstrip()
