"""Not a server but a host program: a client for each SCRIPT[:ARGUMENT].

Prints the servers' process ids when all are connected, and closes at its own EOF.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import trio

from trio_mcp_stdio import StdioServer, open_client


async def main() -> None:
    async with contextlib.AsyncExitStack() as stack:
        pids = []
        for word in sys.argv[1:]:
            script, *arguments = word.split(":")
            path = Path(__file__).with_name(f"{script}.py")
            server = StdioServer(sys.executable, [str(path), *arguments])
            client = await stack.enter_async_context(open_client(server))
            await client.call_tool("echo")
            pids.append(client.pid)
        print(*pids, flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)


trio.run(main)
