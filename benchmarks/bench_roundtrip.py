"""The round trip: a small `tools/call` through a real child process, by one caller and by many at once."""

from __future__ import annotations

import functools
import json
import os
import sys
import tempfile
from pathlib import Path

import attrs

from .environments import OFFICIAL
from .fake import FakeServer, fake_server
from .processes import run_driver
from .series import Goal, Metric, Sample, Series, Table, take_turns
from .settings import Settings, progress

OURS = "trio_mcp_stdio"

TEXT_BYTES = 100
"""Size of the text in each result."""

METRICS = (
    Metric("calls_per_second", "calls/s"),
    Metric("cpu_per_100k", "CPU s per 100k calls", digits=2),
    Metric("p50", "p50 us", scale=1e6),
    Metric("p99", "p99 us", scale=1e6, compared=False),
    Metric("requests_per_read", "requests/read", digits=1, compared=False),
    Metric("peak_bytes", "peak MB", scale=1e-6),
)


@attrs.frozen
class Subject:
    """A client: the driver that uses it, and the interpreter that has it."""

    name: str
    driver: str
    python: str


def subjects(settings: Settings) -> tuple[list[Subject], list[str]]:
    """The clients that can be measured here, and what is to be said of the others."""
    found, notes = [Subject(OURS, "ours", sys.executable)], []
    if settings.peers:
        if OFFICIAL.python is not None:
            found.append(Subject(OFFICIAL.shown, "official", OFFICIAL.python))
        else:
            notes.append(f"{OFFICIAL.shown} is not installed; python -m benchmarks --set-up does that")
    return found, notes


def bench_roundtrip(settings: Settings) -> Table:
    """Every client makes the same calls to the same server, as many at a time as there are callers.

    CPU is that of the client's process, user and system. A lone caller is measured on one CPU as well, where
    the system allows that: on two, most of the time goes into waking the other side.
    """
    server = fake_server(settings.server)
    clients, notes = subjects(settings)
    calls, warm_up = (200, 20) if settings.smoke else (20_000, 500)
    limit = "no timeout" if settings.timeout is None else f"timeout {settings.timeout:.0f} s"
    base = clients[-1].name
    table = Table(
        "roundtrip",
        f"{calls:,} tools/call with {TEXT_BYTES} B results, {settings.era} era, {limit}, typed results, "
        f"fake server in {server.language.replace('c', 'C').replace('python', 'Python')}",
        base,
        METRICS,
        notes=notes,
    )
    cases = [(f"{number} caller{'s' if number > 1 else ''}", number, False) for number in settings.callers]
    if 1 in settings.callers:
        if hasattr(os, "sched_setaffinity"):
            cases.insert(0, ("1 caller, one CPU", 1, True))
        else:
            table.notes.append("this system cannot pin a process to one CPU")
    for case, callers, pin in cases:
        work = {"callers": callers, "calls": calls, "warm_up": warm_up, "text_bytes": TEXT_BYTES}

        measure = functools.partial(_measure, server=server, settings=settings, case=case, pin=pin, work=work)
        for subject, samples in take_turns(clients, settings.rounds, measure):
            table.series.append(Series(case, subject.name, samples))
    if len(clients) > 1:
        wanted = {1: 1 / 2, 64: 1 / 6}
        table.goals = tuple(
            Goal(case, "cpu_per_100k", OURS, OFFICIAL.shown, wanted[callers])
            for case, callers, _ in cases
            if callers in wanted
        )
    return table


def _measure(
    subject: Subject, *, server: FakeServer, settings: Settings, case: str, pin: bool, work: dict[str, int]
) -> Sample:
    progress(f"roundtrip: {case}: {subject.name}")
    with tempfile.TemporaryDirectory() as folder:
        counters = Path(folder, "counters")
        parameters = {
            "server": server.start(settings.era, TEXT_BYTES, counters),
            "era": settings.era,
            "timeout": settings.timeout,
            "pin": pin,
            "work": work,
        }
        sample: dict[str, float] = run_driver(subject.python, subject.driver, parameters)
        counted = json.loads(counters.read_text())
    return sample | {"requests_per_read": counted["requests"] / counted["reads"]}
