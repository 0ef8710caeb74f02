"""`python -m trio_mcp_stdio`: the command line."""

from __future__ import annotations

from ._cli import main

if __name__ == "__main__":
    main()
