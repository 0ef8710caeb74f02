"""What a connection saw that was not quite right: counted, warned of once, remembered for error texts."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

import trio

from .._wire.calls import Oddity

__all__ = ["Notes"]

MAX_PREVIEWS: Final = 5
"""First lines that were no messages, kept for error texts."""

MAX_REMEMBERED: Final = 16
"""Latest oddities, kept for the text of a timeout."""

MAX_WARNINGS: Final = 64
"""Kinds of fault that are warned of; whatever comes after is logged at debug level."""

_logger = logging.getLogger("trio_mcp_stdio.connection")


class Notes:
    """The notes of one connection.

    Attributes:
        noise: lines that were no protocol messages.
        malformed: lines meant as messages that could not be read.
        tolerated: messages with a fault that did not hide their meaning.
        violations: messages that the peer must not send.
        oversized: lines longer than the bound.
        noise_previews: the first lines of noise, escaped and cut.
        after_eof: this side has ended its direction; what comes now came too late.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._remembered: deque[tuple[float, str]] = deque(maxlen=MAX_REMEMBERED)
        self._warned: set[str] = set()
        self.noise = self.malformed = self.tolerated = self.violations = self.oversized = 0
        self.noise_previews: list[str] = []
        self.after_eof = False

    def __repr__(self) -> str:
        return f"<Notes on {self._name!r}: {len(self._remembered)} remembered>"

    def since(self, began: float) -> list[str]:
        """What has been remembered since a moment of the trio clock, oldest first."""
        return [text for when, text in self._remembered if when >= began]

    def add_noise(self, shown: str) -> None:
        """A line that is no protocol message."""
        self.noise += 1
        if len(self.noise_previews) < MAX_PREVIEWS:
            self.noise_previews.append(shown)
        self.remember(f"no protocol message: {shown}")
        self._warn_once("noise", f"not a protocol message on stdout, skipped: {shown}")

    def add_malformed(self, reason: str, shown: str) -> None:
        """A line meant as a message that cannot be read."""
        self.malformed += 1
        self.remember(f"malformed message ({reason}): {shown}")
        self._warn_once("malformed", f"malformed message ({reason}): {shown}")

    def add_tolerated(self, reason: str, shown: str) -> None:
        """A message with a fault that does not hide its meaning."""
        self.tolerated += 1
        self.remember(f"{reason}: {shown}")
        self._warn_once(reason, f"tolerated: {reason}: {shown}")

    def add_violation(self, kind: str, text: str) -> None:
        """A message that the peer must not send; the first of a kind is warned of."""
        self.violations += 1
        self.remember(f"{kind}: {text}")
        self._warn_once(kind, f"protocol violation: {kind}: {text}")

    def add_oddity(self, oddity: Oddity, text: str) -> None:
        """Something the call table could not use."""
        if oddity is Oddity.STRAY_CANCEL:
            self.add_violation(oddity.value, text)
            return
        self.remember(f"{oddity.value}: {text}")
        if oddity is Oddity.STRING_ID:
            self._warn_once(oddity.name, f"{oddity.value}: {text}")
        else:
            _logger.debug("%s: %s: %s", self._name, oddity.value, text)

    def remember(self, text: str) -> None:
        """Keep a sentence for the text of a later error."""
        if self.after_eof:
            text = f"after the end of its input: {text}"
        self._remembered.append((trio.current_time(), text))

    def _warn_once(self, kind: str, text: str) -> None:
        if kind in self._warned or len(self._warned) >= MAX_WARNINGS:
            _logger.debug("%s: %s", self._name, text)
        else:
            self._warned.add(kind)
            _logger.warning("%s: %s", self._name, text)
