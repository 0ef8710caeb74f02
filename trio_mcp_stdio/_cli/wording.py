"""How the commands put things: servers, their ends, progress."""

from __future__ import annotations

from .. import UNSET, ProcessExit, ProgressUpdate, ServerDescription
from .._io.process import describe_exit
from .._wire.codec import unstructure
from .output import clean, first_line

__all__ = ["amount", "announced", "ending", "title"]


def title(server: ServerDescription) -> str:
    """Name and version of a server."""
    info = server.info
    if info is None:
        return "(it gave no name)"
    named = f" ({info.title})" if info.title and info.title != info.name else ""
    return first_line(f"{info.name} {info.version}{named}")


def announced(server: ServerDescription) -> str:
    """What a server announces, with the settings that are switched on."""
    shown = []
    for name, settings in unstructure(server.capabilities).items():
        on = [key for key, value in settings.items() if value] if isinstance(settings, dict) else []
        shown.append(f"{name} ({', '.join(on)})" if on else name)
    return first_line(", ".join(shown)) or "nothing"


def ending(exit: ProcessExit | None, seconds: float) -> str:
    """How a server ended, so many seconds after its input was closed."""
    if exit is None:
        return "is not known to have ended"
    if not exit.expected:
        return f"{describe_exit(exit)} before it was asked to"
    how = describe_exit(exit)
    if exit.ending == "exited" and exit.signal is None:
        how = f"exited by itself with status {exit.returncode}"
    elif exit.ending in ("terminated", "killed"):
        how += " after a SIGTERM" if exit.signal is None else ", which was ours"
    return f"{how}, {seconds:.2f} s after its input was closed"


def amount(update: ProgressUpdate) -> str:
    """How far a request is."""
    of = f" of {update.total:g}" if update.total is not UNSET else ""
    message = f", {clean(update.message)}" if update.message else ""
    return f"{update.progress:g}{of}{message}"
