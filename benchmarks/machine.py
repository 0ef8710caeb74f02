"""What the figures were measured on; no name of the machine or of anybody on it."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

_DISTRIBUTIONS = ("trio", "attrs", "cattrs", "msgspec")


def describe() -> dict[str, Any]:
    """Processor count, system, Python, packages, and how busy the machine is."""
    return {
        "cpus": os.cpu_count(),
        "usable_cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.system(),
        "release": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "packages": {name: metadata.version(name) for name in _DISTRIBUTIONS},
        "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
    }


def summary(machine: dict[str, Any]) -> str:
    """The same in one line."""
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    load = "" if machine["load"] is None else f"; load {machine['load'][0]:.1f}"
    return (
        f"{machine['usable_cpus']} CPUs, {machine['system']} {machine['architecture']}, "
        f"{machine['implementation']} {machine['python']}, {packages}{load}"
    )
