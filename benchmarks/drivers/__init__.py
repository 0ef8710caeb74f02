"""Programs that do the work, each in a process of its own: ``python -m benchmarks.drivers.NAME PARAMETERS``.

The parameters are one JSON object, and so is the line that a driver prints. Drivers of peers run in the
environment of the peer, so what they import from here may need nothing but the standard library and trio.
"""

from __future__ import annotations
