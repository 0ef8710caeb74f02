"""The work that every client is given, and how it is measured."""

from __future__ import annotations

import gc
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio


def parameters() -> dict[str, Any]:
    """What this process is to do; pins it, and so its children, to one CPU when that is part of it."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    if given.get("pin"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return given


def peak_bytes() -> int:
    """The most memory that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


async def measure(
    call: Callable[[], Awaitable[Any]], *, callers: int, calls: int, warm_up: int, text_bytes: int
) -> dict[str, float]:
    """Let tasks call again and again, so that always `callers` calls are in flight, and measure that.

    Args:
        call: one call, with a typed result as its client makes it.
        callers: how many tasks.
        calls: about how many calls in total: each task makes an equal share of them.
        warm_up: how many calls before the measurement.
        text_bytes: size of the text that each result has to hold.
    """
    share = max(1, calls // callers)
    for _ in range(warm_up):
        _check(await call(), text_bytes)
    latencies: list[float] = []
    clock = time.perf_counter

    async def caller() -> None:
        for _ in range(share):
            began = clock()
            await call()
            latencies.append(clock() - began)

    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = clock()
    async with trio.open_nursery() as nursery:
        for _ in range(callers):
            nursery.start_soon(caller)
    wall = clock() - began
    after = resource.getrusage(resource.RUSAGE_SELF)

    _check(await call(), text_bytes)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    percentiles = statistics.quantiles(latencies, n=100) if len(latencies) > 1 else latencies * 99
    return {
        "calls": len(latencies),
        "wall": wall,
        "cpu_user": user,
        "cpu_system": system,
        "calls_per_second": len(latencies) / wall,
        "cpu_per_100k": (user + system) / len(latencies) * 100_000,
        "p50": percentiles[49],
        "p99": percentiles[98],
        "peak_bytes": peak_bytes(),
    }


def _check(result: Any, text_bytes: int) -> None:
    text = result.content[0].text
    if len(text) != text_bytes:
        raise SystemExit(f"a result with a text of {len(text)} instead of {text_bytes} bytes")
