"""A server whose tools, prompts and resources change when it is told so.

Its tools:

    burst         send 200 changes of the list of tools, then answer
    touch URI     tell those who watch a resource that it has changed
    lists         tell of a change of each list
    finish        end every subscription with a result
    cancel        end every subscription with a cancellation
    crash         end the process

With the argument `restless` the list of tools changes after each time it is read.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import wire

KEY = "io.modelcontextprotocol/subscriptionId"
KINDS = ("tools", "prompts", "resources")

wire.CAPABILITIES.update({kind: {"listChanged": True} for kind in KINDS})
wire.CAPABILITIES["resources"]["subscribe"] = True

listens: dict[Any, wire.Message] = {}
watched: set[str] = set()


def changed(method: str, **params: Any) -> list[wire.Message]:
    """The notifications of one change, one for each subscription that wants it."""
    name = f"notifications/{method}"
    if wire.ERA == "legacy":
        if params and params["uri"] not in watched:
            return []
        return [{"jsonrpc": "2.0", "method": name, **({"params": params} if params else {})}]
    return [
        {"jsonrpc": "2.0", "method": name, "params": {**params, "_meta": {KEY: tag}}}
        for tag, wanted in listens.items()
        if (
            params["uri"] in wanted.get("resourceSubscriptions", ())
            if params
            else wanted.get(method.split("/")[0] + "ListChanged")
        )
    ]


def send_all(messages: list[wire.Message]) -> None:
    wire.write(b"".join(map(wire.line, messages)))


def call(request: wire.Message) -> None:
    name = wire.tool(request)
    if name == "burst":
        send_all(changed("tools/list_changed") * 200)
    elif name == "touch":
        send_all(changed("resources/updated", uri=wire.arguments(request)["uri"]))
    elif name == "lists":
        for kind in KINDS:
            send_all(changed(f"{kind}/list_changed"))
    elif name == "finish":
        for tag in listens:
            wire.reply(tag, {"_meta": {KEY: tag}})
        listens.clear()
    elif name == "cancel":
        for tag in listens:
            wire.notify("notifications/cancelled", {"requestId": tag})
        listens.clear()
    elif name == "crash":
        wire.err("out of order\n")
        os._exit(3)
    wire.answer(request)


for message in wire.messages():
    method = message.get("method")
    if method == "subscriptions/listen" and wire.ERA == "modern":
        listens[message["id"]] = wanted = message["params"]["notifications"]
        wire.notify(
            "notifications/subscriptions/acknowledged",
            {"notifications": wanted, "_meta": {KEY: message["id"]}},
        )
    elif method == "notifications/cancelled":
        listens.pop(message["params"]["requestId"], None)
    elif method == "resources/subscribe" and wire.ERA == "legacy":
        watched.add(message["params"]["uri"])
        wire.reply(message, {})
    elif method == "resources/unsubscribe" and wire.ERA == "legacy":
        watched.discard(message["params"]["uri"])
        wire.reply(message, {})
    elif method == "tools/call":
        call(message)
    elif "id" in message:
        wire.answer(message)
        if method == "tools/list" and "restless" in sys.argv:
            send_all(changed("tools/list_changed"))
