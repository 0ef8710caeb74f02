"""Lists that come in pages, and lists with items that are no good.

Arguments: what the lists do, and for some of them a number.

    three        three proper pages
    repeats      the same cursor for ever
    endless N    a new cursor with every page
    bad          three tools, of which the middle one has no inputSchema, then (each list) others
    bad-true     the middle one has `"inputSchema": true`
    wrong        tool calls whose structuredContent violates the schema
"""

from __future__ import annotations

import sys

import wire

MODE = sys.argv[1]
SCHEMA = {"type": "object"}
OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def tool(name: str, **more: object) -> wire.Message:
    return {"name": name, "inputSchema": SCHEMA, **more}


def listed(request: wire.Message) -> wire.Message:
    cursor = request.get("params", {}).get("cursor")
    if MODE == "three":
        number = {None: 0, "": 1, "two": 2}[cursor]
        following = {0: {"nextCursor": ""}, 1: {"nextCursor": "two"}, 2: {}}[number]
        return {"tools": [tool(f"t{number}")], **following}
    if MODE == "repeats":
        return {"tools": [tool("again")], "nextCursor": "same"}
    if MODE == "endless":
        number = int(cursor or 0)
        return {"tools": [tool(f"t{number}")], "nextCursor": str(number + 1)}
    if MODE == "wrong":
        return {"tools": [tool("wrong", outputSchema=OUTPUT)]}
    broken = {"name": "broken"} | ({"inputSchema": True} if MODE == "bad-true" else {})
    return {"tools": [tool("first"), broken, tool("last")]}


for request in wire.requests():
    if request["method"] == "tools/list":
        found = listed(request)
        wire.reply(request, found | ({"ttlMs": 0, "cacheScope": "private"} if wire.ERA == "modern" else {}))
    elif MODE == "wrong" and "n" in wire.arguments(request):
        wire.reply(request, wire.text("fine", structuredContent={"n": wire.arguments(request)["n"]}))
    else:
        wire.answer(request)
