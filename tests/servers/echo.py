"""A well-behaved server: answers plainly and exits at EOF."""

from __future__ import annotations

import wire

wire.serve()
