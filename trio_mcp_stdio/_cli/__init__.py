"""The command line.  Its packages are an extra: nothing imports them before they are known to exist."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the program with these arguments, default those of the process, and exit with its code."""
    missing = [name for name in ("click", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f'trio-mcp needs the packages of its extra "cli" ({" and ".join(missing)} cannot be found): '
            "pip install 'trio_mcp_stdio[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    from .program import run

    sys.exit(run(sys.argv[1:] if args is None else args))
