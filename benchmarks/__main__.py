"""The command line."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence

from . import environments
from .processes import ChildFailed
from .run import BENCHMARKS, run
from .settings import Settings


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the client beside its peers; docs/benchmarks.md tells the method.",
    )
    option = parser.add_argument
    option("names", nargs="*", metavar="BENCHMARK", help=f"one of {', '.join(BENCHMARKS)}; default all")
    option("--set-up", action="store_true", help="only install the peers, in environments of their own")
    option("--smoke", action="store_true", help="everything once and briefly, to see that it works")
    option("--json", metavar="FILE", help="write everything that was measured there")
    option("--rounds", type=int, metavar="N", help="how often each figure is taken, default 5")
    option("--no-peers", action="store_true", help="measure nothing beside our own client")
    option("--era", choices=("modern", "legacy"), default="modern", help="for the round trip")
    option("--callers", type=int, nargs="+", metavar="N", help="for the round trip, default 1 8 64 512")
    option("--server", choices=("c", "python"), help="the fake server, default C where it compiles")
    option("--no-timeout", action="store_true", help="calls without a timeout, for every client")
    chosen = parser.parse_args(arguments)
    unknown = sorted(set(chosen.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    if any(number is not None and number < 1 for number in [*(chosen.callers or ()), chosen.rounds]):
        parser.error("callers and rounds are numbers above 0")
    return chosen


def settings_from(chosen: argparse.Namespace) -> Settings:
    defaults = Settings()
    return Settings(
        smoke=chosen.smoke,
        rounds=chosen.rounds or (1 if chosen.smoke else defaults.rounds),
        peers=not chosen.no_peers,
        era=chosen.era,
        callers=tuple(chosen.callers or defaults.callers),
        server=chosen.server,
        timeout=None if chosen.no_timeout else defaults.timeout,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parse(arguments)
    try:
        if chosen.set_up:
            environments.make_all()
            return 0
        report = run(chosen.names, settings_from(chosen))
    except (ChildFailed, subprocess.CalledProcessError, OSError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    print(report.as_text())
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump(report.as_json(), file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
