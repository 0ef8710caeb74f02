"""The round trip through `trio_mcp_stdio`."""

from __future__ import annotations

import functools
import json
from typing import Any

import trio

from benchmarks.drivers.workload import measure, parameters
from trio_mcp_stdio import ClientOptions, StdioServer, open_client


async def main(given: dict[str, Any]) -> dict[str, float]:
    command, *arguments = given["server"]
    options = ClientOptions(request_timeout=given["timeout"])
    async with open_client(StdioServer(command, arguments), options) as client:
        if client.era.value != given["era"]:
            raise SystemExit(f"negotiated the {client.era.value} era instead of the {given['era']} one")
        await client.list_tools()
        call = functools.partial(client.call_tool, "text", {"query": "small"})
        return await measure(call, **given["work"])


if __name__ == "__main__":
    print(json.dumps(trio.run(main, parameters())))
