"""The version of this package, below every layer that names it on the wire."""

from __future__ import annotations

__version__ = "0.1.0"
