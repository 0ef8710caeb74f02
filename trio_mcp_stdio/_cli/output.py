"""What the commands print: results on stdout, everything else on stderr.

A terminal gets tables and bold type, anything else plain aligned text.  What a server says is escaped
before a terminal could obey it.  When a reader has had enough and closes the pipe, the rest of the
output is dropped in silence, and the exit code still says how the work went.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Output", "clean", "console_for", "first_line", "flush", "is_terminal", "note", "write"]

WIDEST_CELL: Final = 60
"""Columns that plain text pads a cell to; a longer one pushes the rest of its row."""

_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")
_UNSAFE: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def clean(text: str) -> str:
    """The text without colours and with every control character escaped, except newlines and tabs."""
    text = _COLOUR.sub("", text).replace("\r\n", "\n")
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def first_line(text: str) -> str:
    """The first line with anything on it, its white space collapsed."""
    return next((" ".join(line.split()) for line in clean(text).splitlines() if line.strip()), "")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that can do more than print lines."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def console_for(stream: TextIO | None) -> Console:
    """A console that prints text as it is."""
    from rich.console import Console

    return Console(file=stream, highlight=False, markup=False, emoji=False)


def write(stream: TextIO | None, text: str) -> None:
    """Write text and flush it; a stream that is closed, or whose reader has gone, is given up."""
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        write(stream, text.encode(encoding, "backslashreplace").decode(encoding))
    except BrokenPipeError:
        _give_up(stream)
    except OSError:
        _give_up(stream)  # or what is buffered would fail again when the interpreter ends
        raise


def _give_up(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)


def note(text: str) -> None:
    """Tell the user something on stderr."""
    write(sys.stderr, f"trio-mcp: {clean(text)}\n")


def flush() -> None:
    """Write out whatever is left, so that the interpreter has nothing to complain about."""
    for stream in (sys.stdout, sys.stderr):
        write(stream, "")


class Output:
    """Stdout, as one command writes to it.

    Args:
        as_json: the results are one JSON document.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.on_terminal = is_terminal(sys.stdout)

    def print(self, text: str = "") -> None:
        """Text of a server, or our own: escaped on a terminal, as it is elsewhere."""
        write(sys.stdout, f"{clean(text) if self.on_terminal else text}\n")

    def json(self, document: Any) -> None:
        """The one document."""
        text = json.dumps(document, ensure_ascii=False, indent=2)
        try:
            text.encode(sys.stdout.encoding if sys.stdout is not None else "utf-8")
        except UnicodeEncodeError:
            text = json.dumps(document, indent=2)
        write(sys.stdout, f"{text}\n")

    def heading(self, text: str) -> None:
        """The title of what follows."""
        write(sys.stdout, f"\x1b[1m{text}\x1b[0m\n" if self.on_terminal else f"{text}\n")

    def fields(self, pairs: Sequence[tuple[str, str]], *, indent: int = 0) -> None:
        """Labels and what they stand for, below each other; a value may have several lines."""
        width = max((len(label) for label, _ in pairs), default=0) + 2
        margin = " " * (indent + width)
        for label, value in pairs:
            lines = clean(value).splitlines() or [""]
            text = f"\n{margin}".join(lines)
            write(sys.stdout, f"{' ' * indent}{label:<{width}}{text}".rstrip() + "\n")

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table, columns that are empty in every row left out."""
        used = [index for index in range(len(headers)) if any(row[index] for row in rows)]
        shown = [[clean(row[index]) for index in used] for row in rows]
        titles = [headers[index] for index in used]
        if self.on_terminal:
            write(sys.stdout, _rich_table(titles, shown))
        else:
            write(sys.stdout, _plain_table([title.upper() for title in titles], shown))


def _plain_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    from rich.cells import cell_len

    lines = [titles, *rows]
    widths = [min(WIDEST_CELL, max(cell_len(line[index]) for line in lines)) for index in range(len(titles))]
    text = io.StringIO()
    for line in lines:
        cells = [cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)]
        text.write(f"  {'  '.join(cells)}".rstrip() + "\n")
    return text.getvalue()


def _rich_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    from rich import box
    from rich.padding import Padding
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    for index, title in enumerate(titles):
        table.add_column(title, style="bold" if index == 0 else None, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = console_for(sys.stdout)
    with console.capture() as capture:
        console.print(Padding(table, (0, 0, 0, 2)))
    return capture.get()
