"""All benchmarks by name, and one run of some of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from . import machine
from .bench_import import bench_import
from .bench_lines import bench_lines
from .bench_roundtrip import bench_roundtrip
from .report import Report
from .series import Table
from .settings import Settings, progress

BENCHMARKS: dict[str, Callable[[Settings], Table]] = {
    "roundtrip": bench_roundtrip,  # the realistic one first
    "lines": bench_lines,
    "import": bench_import,
}


def run(names: Sequence[str], settings: Settings) -> Report:
    """Run benchmarks one after the other; all of them for no names.

    Raises:
        ChildFailed: one of the processes failed.
    """
    described = machine.describe()
    tables = tuple(BENCHMARKS[name](settings) for name in names or BENCHMARKS)
    progress("")
    return Report(described, attrs.asdict(settings), tables)
