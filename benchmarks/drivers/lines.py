"""One splitter on every shape of input."""

from __future__ import annotations

import gc
import json
import statistics
import time
import tracemalloc
from typing import Any

from benchmarks.drivers.workload import parameters
from benchmarks.splitters import SPLITTERS, Splitter


def chunks_of(line_bytes: int, chunk_bytes: int, lines: int) -> list[bytes]:
    """`lines` lines of `line_bytes` bytes, newlines included, cut into chunks."""
    stream = (b"x" * (line_bytes - 1) + b"\n") * lines
    return [stream[at : at + chunk_bytes] for at in range(0, len(stream), chunk_bytes)]


def split(splitter: Splitter, chunks: list[bytes]) -> int:
    """Feed all chunks, let go of each line at once, as a reader does; return the number of lines."""
    count = 0
    for chunk in chunks:
        count += len(splitter.feed(chunk))
    return count


def measure(name: str, shape: dict[str, int], repeats: int) -> dict[str, float]:
    """Seconds of CPU a line, the median of the repetitions, and the peak of memory in sizes of the line."""
    make, chunks, lines = SPLITTERS[name], chunks_of(**shape), shape["lines"]
    splitter = make()
    found = [line for chunk in chunks for line in splitter.feed(chunk)]
    expected = b"x" * (shape["line_bytes"] - 1)
    if len(found) != lines or any(line != expected for line in found):
        raise SystemExit(f"{name} does not split {shape}")
    del found

    times = []
    gc.collect()
    for _ in range(repeats):
        splitter = make()
        began = time.process_time_ns()
        split(splitter, chunks)
        times.append((time.process_time_ns() - began) / 1e9)

    tracemalloc.start()
    split(make(), chunks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"cpu_per_line": statistics.median(times) / lines, "peak_lines": peak / shape["line_bytes"]}


def main(given: dict[str, Any]) -> dict[str, dict[str, float]]:
    name, repeats = given["splitter"], given["repeats"]
    return {case: measure(name, shape, repeats) for case, shape in given["shapes"].items()}


if __name__ == "__main__":
    print(json.dumps(main(parameters())))
