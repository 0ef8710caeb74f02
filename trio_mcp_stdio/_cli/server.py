"""The server that a command is to use: what follows `--`, and the options that go with it."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import attrs
import click

from .. import ClientOptions, StdioServer, open_client
from .output import clean, is_terminal, write

__all__ = ["Launch", "ServerCommand", "server_options", "split"]

F = TypeVar("F", bound=Callable[..., Any])

EXAMPLE: Final = "-- uvx mcp-server-time"


def split(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """Divide the arguments at the first `--`: ours, and the server's command, None without any `--`.

    Done before click sees them, which would drop a `--` and read the server's options as ours.
    """
    args = list(argv)
    if "--" not in args:
        return args, None
    at = args.index("--")
    return args[:at], tuple(args[at + 1 :])


class ServerCommand(click.Command):
    """A command that takes a server."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line, with what follows `--`."""
        return [*super().collect_usage_pieces(ctx), "-- COMMAND [ARGS]..."]


def _variables(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> Mapping[str, str]:
    """Split each NAME=VALUE.  What is wrong with one is said without repeating it: it may hold a secret."""
    split_up = [value.partition("=") for value in values]
    if not all(name and equals for name, equals, _ in split_up):
        raise click.BadParameter("each has to be NAME=VALUE", ctx, param)
    return {name: value for name, _, value in split_up}


def _seconds(ctx: click.Context, param: click.Parameter, value: float) -> float | None:
    """A number of seconds, None for `inf`."""
    if not value > 0:
        raise click.BadParameter("it has to be a positive number of seconds", ctx, param)
    return None if math.isinf(value) else value


_OPTIONS: Final = (
    click.option(
        "--env",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_variables,
        help="Add a variable to the server's environment; its value is never shown.",
    ),
    click.option(
        "--inherit",
        metavar="NAME",
        multiple=True,
        help="Pass on a variable of this environment, or those that match NAME with a *.",
    ),
    click.option("--cwd", type=click.Path(exists=True, file_okay=False), help="Directory to start it in."),
    click.option("--name", help="Name of the server in messages.  [default: that of its command]"),
    click.option(
        "--era",
        type=click.Choice(["auto", "modern", "legacy"]),
        default="auto",
        show_default=True,
        help="Era of the protocol; auto asks the server.",
    ),
    click.option(
        "--timeout",
        type=float,
        callback=_seconds,
        metavar="SECONDS",
        default=60.0,
        show_default=True,
        help="Limit of each request; inf for none.",
    ),
    click.option(
        "--startup-timeout",
        type=float,
        callback=_seconds,
        metavar="SECONDS",
        default=60.0,
        show_default=True,
        help="Limit of start and handshake; inf for none.",
    ),
    click.option("--quiet", "-q", is_flag=True, help="Do not show what the server writes to stderr."),
)


def server_options(command: F) -> F:
    """Give a command the options of its server; they make a `Launch`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@attrs.frozen(kw_only=True)
class Launch:
    """How the server is started and spoken to."""

    command: tuple[str, ...]
    env: Mapping[str, str] = attrs.field(repr=False)
    inherit: tuple[str, ...]
    cwd: str | None
    name: str | None
    era: Literal["auto", "modern", "legacy"]
    timeout: float | None
    startup_timeout: float | None
    quiet: bool

    @classmethod
    def of(cls, ctx: click.Context, settings: Mapping[str, Any]) -> Launch:
        """What the command line asks for.

        Raises:
            click.UsageError: it names no server.
        """
        command: tuple[str, ...] | None = ctx.obj
        if not command:
            example = f"{ctx.command_path} {EXAMPLE}"
            raise click.UsageError(f"The server's command has to follow --, as in: {example}", ctx)
        return cls(command=command, **settings)

    def client(self) -> open_client:
        """The client, not yet started."""
        command, *args = self.command
        server = StdioServer(command, args, env=self.env, inherit=self.inherit, cwd=self.cwd)
        if self.name is not None:
            server = attrs.evolve(server, name=self.name)
        if not self.quiet:
            server = attrs.evolve(server, stderr=functools.partial(_show_stderr, server.name))
        options = ClientOptions(
            era=self.era, request_timeout=self.timeout, startup_timeout=self.startup_timeout
        )
        return open_client(server, options)


def _show_stderr(name: str, line: str) -> None:
    text = clean(line) if is_terminal(sys.stderr) else line
    write(sys.stderr, f"{name} | {text}\n")
