"""Not a server: a program that uses one, and reports how its child ended when it is interrupted.

Arguments: the command of the server.  Writes "ready" when connected.
"""

from __future__ import annotations

import sys

import trio

from trio_mcp_stdio import ShutdownTimeouts, StdioServer, open_client

SERVER = StdioServer(sys.argv[1], sys.argv[2:], timeouts=ShutdownTimeouts(flush=5, exit=30, term=5, reap=5))


async def main() -> None:
    client = None
    try:
        async with open_client(SERVER) as client:
            print("ready", flush=True)
            await client.call_tool("hold", timeout=None)
    finally:
        found = client and client.exit
        print("ended", found and found.ending, found and found.returncode, flush=True)


try:
    trio.run(main)
except KeyboardInterrupt:
    print("interrupted", flush=True)
