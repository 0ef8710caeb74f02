"""Never stops writing notifications from the end of the handshake until stdin ends."""

from __future__ import annotations

import os
import threading

import wire


def read() -> None:
    for request in wire.requests():
        wire.answer(request)
    os._exit(0)


def notify_for_ever() -> None:
    number = 0
    while True:
        number += 1
        wire.write(
            wire.line({"jsonrpc": "2.0", "method": "notifications/tick", "params": {"number": number}})
        )


while (message := wire.read_message()) is not None and wire.handshake(message):
    if message["method"] == ("server/discover" if wire.ERA == "modern" else "notifications/initialized"):
        threading.Thread(target=notify_for_ever, daemon=True).start()
        read()
