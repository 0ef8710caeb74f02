"""The round trip through the client of the official SDK, on trio; runs in the environment of that SDK."""

from __future__ import annotations

import functools
import json
from typing import Any

import trio
from mcp import Client, StdioServerParameters

from benchmarks.drivers.workload import measure, parameters


async def main(given: dict[str, Any]) -> dict[str, float]:
    command, *arguments = given["server"]
    server = StdioServerParameters(command=command, args=arguments)
    async with Client(server, read_timeout_seconds=given["timeout"]) as client:
        era = "modern" if client.protocol_version >= "2026" else "legacy"
        if era != given["era"]:
            raise SystemExit(f"negotiated the {era} era instead of the {given['era']} one")
        await client.list_tools()
        call = functools.partial(client.call_tool, "text", {"query": "small"})
        return await measure(call, **given["work"])


if __name__ == "__main__":
    print(json.dumps(trio.run(main, parameters())))
