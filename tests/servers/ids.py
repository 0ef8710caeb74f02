"""Answers with odd ids and odd shapes.

Argument: plain | strings | odd-ids | null-error CODE null|absent | null-error-of-two | null-result | twice |
unread-notification | array VERSION | nan | nan-array | empty-params
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import wire


def requests_as(version: str) -> Iterator[wire.Message]:
    """As `wire.requests`, but `initialize` is answered with a version of our choice."""
    while (message := wire.read_message()) is not None:
        if message.get("method") == "initialize":
            wire.reply(message, wire.initialized(version))
        elif not wire.handshake(message) and "id" in message:
            yield message


def echo(request: wire.Message) -> wire.Message:
    return wire.response(request, wire.text(str(wire.arguments(request).get("text", "ok"))))


def strings() -> None:
    plain = wire.send

    def send(message: object) -> None:
        assert isinstance(message, dict)
        plain({**message, "id": str(message["id"])} if "id" in message else message)

    wire.send = send
    wire.serve()


def odd_ids() -> None:
    """Every call is answered under ids that only look like its own, then properly."""
    for request in wire.requests():
        number = request["id"]
        arabic = "".join(chr(0x0660 + int(digit)) for digit in str(number))
        looks: list[object] = [
            True, number + 0.5, [number], {"id": number}, 2**70, "", "nope", f" {number}", f"{number} ",
            f"+{number}", f"0{number}", f"{number}.0", hex(number), arabic, f"{number}_", -number, None,
        ]  # fmt: skip
        for look in looks:
            wire.send(wire.response(number, wire.text("wrong")) | {"id": look})
        wire.send(echo(request))


def null_error(code: int, shape: str) -> None:
    """The tool `fail` gets only an error without id."""
    for request in wire.requests():
        if wire.tool(request) == "fail":
            error = wire.failure(None, code, "tool failed")
            if shape == "absent":
                del error["id"]
            wire.send(error)
        elif wire.tool(request) != "hold":
            wire.answer(request)


def null_error_of_two() -> None:
    requests = wire.requests()
    for first in requests:
        second = next(requests)
        wire.fail(None, -32700, "Parse error")
        wire.send(echo(second))
        wire.send(echo(first))


def null_result() -> None:
    for request in wire.requests():
        wire.write(
            wire.line(wire.response(request, wire.text("wrong")) | {"id": None}) + wire.line(echo(request))
        )


def twice() -> None:
    for request in wire.requests():
        wire.write(wire.line(echo(request)) + wire.line(wire.failure(request, -32603, "the same id again")))


def unread_notification() -> None:
    error = wire.failure(None, -32601, "Method not found")
    del error["id"]
    while (message := wire.read_message()) is not None:
        if message["method"] == "notifications/initialized":
            wire.send(error)
        elif not wire.handshake(message) and "id" in message:
            wire.send(error)
            wire.send(echo(message))


def array(version: str) -> None:
    """Answers calls two at a time, in one array; something that is no answer lies between."""
    requests = requests_as(version)
    for first in requests:
        second = next(requests)
        wire.send([echo(second), 42, echo(first)])


def nan() -> None:
    """The argument `token` goes into the answer as it is."""
    for request in wire.requests():
        token = wire.arguments(request).get("token")
        answer = wire.line(
            echo(request) if token is None else wire.response(request, {"content": [], "x": ["@"]})
        )
        wire.write(answer.replace(b'"@"', str(token).encode()))


def nan_array() -> None:
    """Answers calls two at a time, in one array; the first answer holds a NaN."""
    requests = wire.requests()
    for first in requests:
        second = next(requests)
        answers = [wire.response(first, {"content": [], "x": ["@"]}), echo(second)]
        wire.write(wire.line(answers).replace(b'"@"', b"NaN"))


def empty_params() -> None:
    for request in wire.requests():
        for method in ("tools/list_changed", "message", "progress", "cancelled", "unheard_of"):
            for params in ([], None):
                wire.send({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params})
        wire.send(echo(request))


mode, *rest = sys.argv[1:]
if mode == "plain":
    wire.serve()
elif mode == "strings":
    strings()
elif mode == "odd-ids":
    odd_ids()
elif mode == "null-error":
    null_error(int(rest[0]), rest[1])
elif mode == "null-error-of-two":
    null_error_of_two()
elif mode == "null-result":
    null_result()
elif mode == "twice":
    twice()
elif mode == "unread-notification":
    unread_notification()
elif mode == "array":
    array(rest[0])
elif mode == "nan":
    nan()
elif mode == "nan-array":
    nan_array()
elif mode == "empty-params":
    empty_params()
else:
    sys.exit(f"unknown mode {mode}")
