"""How a run is made."""

from __future__ import annotations

import sys
from typing import Literal

import attrs

from .fake import Language


@attrs.frozen(kw_only=True)
class Settings:
    """What the command line chooses.

    Attributes:
        smoke: everything once and briefly, to see that it works; the figures mean nothing.
        rounds: how often each figure is taken.
        peers: whether other clients are measured beside ours.
        era: era of the protocol, for the round trip.
        callers: numbers of concurrent callers, for the round trip.
        server: language of the fake server, None for C where there is a compiler.
        timeout: seconds that every call may take, for every client; None for no limit.
    """

    smoke: bool = False
    rounds: int = 5
    peers: bool = True
    era: Literal["modern", "legacy"] = "modern"
    callers: tuple[int, ...] = (1, 8, 64, 512)
    server: Language | None = None
    timeout: float | None = 60.0


def progress(text: str) -> None:
    """Tell whoever waits in front of a terminal what is being measured."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
