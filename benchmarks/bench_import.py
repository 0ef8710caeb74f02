"""What `import trio_mcp_stdio` costs beside `import trio`, in time and in memory."""

from __future__ import annotations

import sys
import tempfile

import attrs

from .environments import OFFICIAL
from .processes import run_json
from .series import Goal, Metric, Sample, Series, Table, take_turns
from .settings import Settings, progress

CASE = "fresh process, compiled modules on disk"

METRICS = (
    Metric("seconds", "import ms", scale=1e3, digits=1),
    Metric("cpu", "CPU ms", scale=1e3, digits=1),
    Metric("rss_bytes", "resident MB", scale=1e-6, digits=1),
    Metric("modules", "modules"),
)

# Nothing is imported before the clock starts but what the interpreter has anyway.
_PROGRAM = """
import sys, time
modules, cpu, began = len(sys.modules), time.process_time(), time.perf_counter()
import {module}
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
modules = len(sys.modules) - modules
import json, resource
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
try:
    with open("/proc/self/statm") as file:
        rss = int(file.read().split()[1]) * resource.getpagesize()
except OSError:
    rss = peak
print(json.dumps(dict(seconds=seconds, cpu=cpu, modules=modules, rss_bytes=rss, peak_bytes=peak)))
"""


@attrs.frozen
class Subject:
    """A module, and the interpreter that has it."""

    name: str
    module: str
    python: str


def bench_import(settings: Settings) -> Table:
    """Import one module in a new interpreter, which reads its modules compiled and from a warm cache."""
    modules = [
        Subject("import trio", "trio", sys.executable),
        Subject("import trio_mcp_stdio", "trio_mcp_stdio", sys.executable),
    ]
    notes = []
    if settings.peers and OFFICIAL.python is not None:
        modules.append(Subject("import mcp (2.3.0)", "mcp", OFFICIAL.python))
    elif settings.peers:
        notes.append(f"{OFFICIAL.shown} is not installed; python -m benchmarks --set-up does that")
    base, ours = modules[0].name, modules[1].name
    goals = tuple(Goal(CASE, key, ours, base, 2.0) for key in ("seconds", "cpu", "rss_bytes"))
    table = Table("import", "one import in a new interpreter", base, METRICS, goals=goals, notes=notes)
    rounds = settings.rounds if settings.smoke else 4 * settings.rounds  # each takes a fraction of a second

    # Compiled modules in a place of their own: whether and where others may be written is the user's affair.
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}

        def measure(subject: Subject) -> Sample:
            progress(f"import: {subject.module}")
            return run_json([subject.python, "-c", _PROGRAM.format(module=subject.module)], env=environment)

        for subject in modules:
            measure(subject)  # compiles
        for subject, samples in take_turns(modules, rounds, measure):
            table.series.append(Series(CASE, subject.name, samples))
    return table
