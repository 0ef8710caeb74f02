"""Published servers as peers of the client under test; ``python -m tests.peers`` installs all of them."""

from __future__ import annotations
