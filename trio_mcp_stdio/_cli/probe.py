"""`trio-mcp probe`: what a server says of itself, and how it behaves."""

from __future__ import annotations

import functools
from typing import Any

import click
import trio

from .. import UNSET, Client, ClientStatistics
from .._wire.codec import unstructure
from .exits import Exit
from .job import Job
from .output import Output
from .server import Launch, ServerCommand, server_options
from .wording import announced, ending, title

__all__ = ["probe"]


@click.command(cls=ServerCommand)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@server_options
@click.pass_context
def probe(ctx: click.Context, /, as_json: bool, **settings: Any) -> Job:
    """Start a server, show what it says of itself, and end it."""
    launch = Launch.of(ctx, settings)
    return Job(functools.partial(_probe, launch, Output(as_json=as_json)), stderr_shown=not launch.quiet)


async def _probe(launch: Launch, output: Output) -> Exit:
    began = ready = trio.current_time()
    async with launch.client() as client:
        ready = trio.current_time()
    ended = trio.current_time()
    if output.as_json:
        output.json(_document(client, ready - began, ended - ready))
    else:
        output.fields(_fields(client, ready - began, ended - ready))
    return Exit.OK


def _fields(client: Client, ready: float, ended: float) -> list[tuple[str, str]]:
    server, exit, statistics = client.server, client.exit, client.statistics()
    pairs = [
        ("server", title(server)),
        ("era", server.era.value),
        ("version", server.protocol_version),
        ("also serves", ", ".join(v for v in server.supported_versions if v != server.protocol_version)),
        ("capabilities", announced(server)),
        ("instructions", server.instructions or ""),
        ("ready after", f"{ready:.2f} s"),
        ("noise", _noise(statistics)),
        ("stderr", f"{statistics.stderr_bytes} bytes" if statistics.stderr_bytes else ""),
        ("exit", ending(exit, ended)),
        ("left behind", ", ".join(map(str, exit.leftovers)) if exit is not None else ""),
    ]
    return [(label, value) for label, value in pairs if value]


def _noise(statistics: ClientStatistics) -> str:
    counts = {
        "lines that are no messages": statistics.noise,
        "messages that cannot be read": statistics.malformed,
        "messages that break the rules": statistics.violations,
        "messages with a fault": statistics.tolerated,
    }
    found = [f"{count} {what}" for what, count in counts.items() if count]
    return "\n".join([", ".join(found) or "none", *statistics.noise_previews])


def _document(client: Client, ready: float, ended: float) -> dict[str, Any]:
    server, exit, statistics = client.server, client.exit, client.statistics()
    return {
        "name": client.name,
        "pid": client.pid,
        "era": server.era.value,
        "protocolVersion": server.protocol_version,
        "supportedVersions": list(server.supported_versions),
        "serverInfo": None if server.info is None else unstructure(server.info),
        "capabilities": unstructure(server.capabilities),
        "instructions": None if server.instructions is UNSET else server.instructions,
        "readySeconds": round(ready, 3),
        "noise": {
            "lines": statistics.noise,
            "malformed": statistics.malformed,
            "violations": statistics.violations,
            "tolerated": statistics.tolerated,
            "previews": list(statistics.noise_previews),
        },
        "stderrBytes": statistics.stderr_bytes,
        "exit": None
        if exit is None
        else {
            "returncode": exit.returncode,
            "signal": exit.signal,
            "ending": exit.ending,
            "expected": exit.expected,
            "leftovers": list(exit.leftovers),
            "seconds": round(ended, 3),
        },
    }
