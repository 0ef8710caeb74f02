"""Not a server: a program that has a client for each of the given fake servers, `SCRIPT[:MODE]...`.

Writes their process ids in one line when all are connected and called once, and leaves when its stdin ends.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import trio

from trio_mcp_stdio import StdioServer, open_client

HERE = Path(__file__).parent


async def main() -> None:
    async with contextlib.AsyncExitStack() as stack:
        pids = []
        for name in sys.argv[1:]:
            script, *arguments = name.split(":")
            server = StdioServer(sys.executable, [str(HERE / f"{script}.py"), *arguments], name=name)
            client = await stack.enter_async_context(open_client(server))
            await client.call_tool("echo")
            pids.append(client.pid)
        print(*pids, flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)


trio.run(main)
