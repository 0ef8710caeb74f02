"""The program: its commands, and the way from the arguments to the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from .._version import __version__
from .call import call
from .demo import demo
from .exits import Exit
from .job import Job
from .listing import list_
from .output import flush
from .probe import probe
from .server import split

__all__ = ["run"]


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    commands=[demo, probe, list_, call],
    epilog="The server's command follows the first --, as in: trio-mcp list -- uvx mcp-server-time",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def program() -> None:
    """Start a Model Context Protocol server, talk to it over stdio, and end it."""


def run(args: Sequence[str]) -> int:
    """Carry out a command line.

    Returns:
        The exit code, see `Exit`.
    """
    own, server = split(args)
    try:
        # Without standalone mode click hands on its errors, and what the command returns.
        job: Any = program.main(own or ["--help"], prog_name="trio-mcp", obj=server, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return Exit.USAGE
    except click.Abort:
        return Exit.INTERRUPTED
    try:
        return job.run() if isinstance(job, Job) else int(job or 0)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    finally:
        flush()
