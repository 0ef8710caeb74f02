"""Asks for input: within its results in the modern era, by requests of its own in the legacy one.

Tools:

    everything   a form, a page, a model's message and the roots, all at once; the text is the answers as JSON
    rounds       `count` rounds that only hand out a state (modern only)
    ask-and-die  a form, and then the end of the process
    stuck        a form whose answer nobody waits for: the call is answered at once
    stop         takes back the question of `stuck`
"""

from __future__ import annotations

import json
import os
from typing import Any

import wire

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
FORM = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": SCHEMA}}
PAGE = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "Go", "url": "https://example.com/"},
}
SAID = {"role": "user", "content": {"type": "text", "text": "hi"}}
MODEL = {"method": "sampling/createMessage", "params": {"messages": [SAID], "maxTokens": 10}}
QUESTIONS: dict[str, wire.Message] = {
    "form": FORM,
    "page": PAGE,
    "model": MODEL,
    "roots": {"method": "roots/list"},
}


def modern(request: wire.Message) -> None:
    params, name = request["params"], wire.tool(request)
    if name == "everything":
        if "inputResponses" in params:
            wire.reply(request, wire.text(json.dumps(params["inputResponses"])))
        else:
            wire.reply(request, {"resultType": "input_required", "inputRequests": QUESTIONS})
    elif name == "rounds":
        done = int(params.get("requestState", "0"))
        if done < wire.arguments(request)["count"]:
            wire.reply(request, {"resultType": "input_required", "requestState": str(done + 1)})
        else:
            wire.reply(request, wire.text(f"after {done} rounds"))
    elif name == "ask-and-die":
        wire.reply(request, {"resultType": "input_required", "inputRequests": {"who": FORM}})
        os._exit(7)
    else:
        wire.answer(request)


def legacy(request: wire.Message) -> None:
    name = wire.tool(request)
    if name == "everything":
        for key, question in QUESTIONS.items():
            wire.send({"jsonrpc": "2.0", "id": key, **question})
        answers: dict[str, Any] = {}
        while len(answers) < len(QUESTIONS):
            message = wire.read_message()
            if message is None:
                return
            answers[message["id"]] = message.get("result", message.get("error"))
        wire.reply(request, wire.text(json.dumps(answers)))
    elif name == "stuck":
        wire.send({"jsonrpc": "2.0", "id": "stuck", **FORM})
        wire.reply(request, wire.text("asked"))
    elif name == "stop":
        wire.notify("notifications/cancelled", {"requestId": "stuck", "reason": "enough"})
        wire.reply(request, wire.text("stopped"))
    elif name == "ask-and-die":
        wire.send({"jsonrpc": "2.0", "id": "q", **FORM})
        os._exit(7)
    else:
        wire.answer(request)


for asked in wire.messages():
    if "id" in asked and "method" in asked:
        (modern if wire.ERA == "modern" else legacy)(asked)
