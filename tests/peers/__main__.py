"""Make the environments of all peers now, so that no test has to."""

from __future__ import annotations

import sys
import time

from .catalogue import ENVIRONMENTS
from .environments import Unavailable, build, cache_directory, is_complete


def main() -> int:
    print(f"peers are kept in {cache_directory()}")
    failures = 0
    for environment in ENVIRONMENTS:
        had, started = is_complete(environment), time.monotonic()
        try:
            build(environment)
        except Unavailable as exc:
            failures += 1
            outcome = f"failed: {exc}"
        else:
            outcome = "there already" if had else f"made in {time.monotonic() - started:.1f} s"
        print(f"{environment.name:12} {' '.join(environment.requirements)}: {outcome}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
