"""Benchmarks of the client beside its peers: ``python -m benchmarks``. The method: docs/benchmarks.md."""

from __future__ import annotations
