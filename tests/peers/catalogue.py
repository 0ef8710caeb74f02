"""The peers: which servers, at which versions, and what they are known to speak."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import attrs

from .environments import NODE, Environment, NodeEnvironment, PythonEnvironment, command_line

_SCRIPTS = Path(__file__).with_name("servers")
_OFFICIAL = "mcp==2.3.0"  # held fast where it is only a dependency: the era that a server speaks hangs on it
_EVERYTHING = "{folder}/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
_FILESYSTEM = "{folder}/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"


@attrs.frozen
class Peer:
    """A server that others have published, or a small one written with an SDK that others have published."""

    name: str
    environment: Environment
    era: Literal["modern", "legacy"]
    """What an unprejudiced client agrees on with it."""
    unknown_method: int = -32601
    """The error code of its answer to a method that nobody has."""

    def command(self, *arguments: object) -> list[str]:
        """The command line, for an environment that has been made."""
        return command_line(self.environment, *map(str, arguments))

    def __str__(self) -> str:
        return self.name


OFFICIAL_MODERN = Peer(
    "official-modern",
    PythonEnvironment("mcp2", (_OFFICIAL,), (str(_SCRIPTS / "official_modern.py"),)),
    "modern",
)
OFFICIAL_LEGACY = Peer(
    "official-legacy",
    PythonEnvironment("mcp1", ("mcp==1.30.0",), (str(_SCRIPTS / "official_legacy.py"),)),
    "legacy",
    unknown_method=-32602,
)
FASTMCP = Peer(
    "fastmcp",
    PythonEnvironment(
        "fastmcp",
        ("fastmcp==4.2.3", _OFFICIAL),
        (str(_SCRIPTS / "fastmcp_server.py"),),
        env=(("FASTMCP_CHECK_FOR_UPDATES", "off"),),  # its banner asks a registry for news otherwise
    ),
    "modern",
)
TIME = Peer(
    "time",
    PythonEnvironment("time", ("mcp-server-time==2026.10.19", _OFFICIAL), ("-m", "mcp_server_time")),
    "modern",
)
GIT = Peer(
    "git",
    PythonEnvironment("git", ("mcp-server-git==2026.10.19", _OFFICIAL), ("-m", "mcp_server_git")),
    "modern",
)
EVERYTHING = Peer(
    "everything",
    NodeEnvironment("everything", ("@modelcontextprotocol/server-everything@2026.8.31",), (_EVERYTHING,)),
    "legacy",
)
FILESYSTEM = Peer(
    "filesystem",
    NodeEnvironment(
        "filesystem", ("@modelcontextprotocol/server-filesystem@2026.8.31",), (_FILESYSTEM,), ("{folder}",)
    ),
    "legacy",
)

SDK_PEERS = (OFFICIAL_MODERN, OFFICIAL_LEGACY, FASTMCP)
"""Servers of ours on SDKs of others; all have the same tools, resources and prompts."""

ALL_PEERS = (*SDK_PEERS, TIME, GIT, EVERYTHING, FILESYSTEM)

ENVIRONMENTS: tuple[Environment, ...] = (NODE, *(peer.environment for peer in ALL_PEERS))
