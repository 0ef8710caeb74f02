"""The line splitter beside plain ones, on lines and chunks of many sizes; no pipe, no JSON."""

from __future__ import annotations

import sys

import attrs

from .processes import run_driver
from .series import Metric, Series, Table, take_turns
from .settings import Settings, progress
from .splitters import OURS, SPLITTERS

KIB, MIB = 2**10, 2**20

METRICS = (
    Metric("cpu_per_line", "CPU us per line", scale=1e6, digits=3),
    Metric("peak_lines", "peak memory, lines", digits=1, compared=False),
)


@attrs.frozen
class Shape:
    """An input: so many lines of a size, newline included, in chunks of a size."""

    line_bytes: int
    chunk_bytes: int
    lines: int


SHAPES = {
    "100 B lines, 64 KiB chunks": Shape(100, 64 * KIB, 60_000),
    "3 KB lines, 64 KiB chunks": Shape(3_000, 64 * KIB, 4_000),
    "64 KiB lines, 64 KiB chunks": Shape(64 * KIB - 100, 64 * KIB, 400),  # chunks that end inside lines
    "8 MiB line, 64 KiB chunks": Shape(8 * MIB, 64 * KIB, 1),
    "16 MiB line, 64 KiB chunks": Shape(16 * MIB, 64 * KIB, 1),
    "64 KiB line, 97 B chunks": Shape(64 * KIB, 97, 1),
    "64 KiB line, 1 B chunks": Shape(64 * KIB, 1, 1),
}


def bench_lines(settings: Settings) -> Table:
    """Each splitter gets a fresh process a round, in which it splits every shape of input several times."""
    shapes = {name: attrs.asdict(shape) for name, shape in SHAPES.items()}
    repeats = 5
    if settings.smoke:
        repeats = 1
        for shape in shapes.values():  # a smaller stream of the same shape
            shape["lines"] = max(1, shape["lines"] // 20)
            shape["line_bytes"] = min(shape["line_bytes"], MIB, 16 * KIB * shape["chunk_bytes"])

    def measure(splitter: str) -> dict[str, dict[str, float]]:
        progress(f"lines: {splitter}")
        given = {"splitter": splitter, "shapes": shapes, "repeats": repeats}
        return run_driver(sys.executable, "lines", given)

    table = Table("lines", "splitting a stream into lines", OURS, METRICS)
    taken = take_turns(list(SPLITTERS), settings.rounds, measure)
    for case in shapes:
        table.series += [
            Series(case, splitter, tuple(sample[case] for sample in samples)) for splitter, samples in taken
        ]
    return table
