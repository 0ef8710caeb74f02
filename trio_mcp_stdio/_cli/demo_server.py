"""The demo server as a process: `python -m trio_mcp_stdio._cli.demo_server`.

One thread reads stdin.  Everything else happens in the main thread, where the running calls take turns,
so any number of them run at once, report progress and can be cancelled.
"""

from __future__ import annotations

import os
import queue
import sys
import threading

from .demo_protocol import DemoServer

__all__ = ["serve"]


def serve() -> None:
    """Serve on stdin and stdout until either ends."""
    chunks: queue.Queue[bytes] = queue.Queue(maxsize=16)
    threading.Thread(target=_read, args=(chunks,), daemon=True).start()
    server = DemoServer(_write, log=lambda line: print(line, file=sys.stderr, flush=True))
    try:
        while True:
            try:
                chunk = chunks.get(timeout=server.run_due())
            except queue.Empty:
                continue
            if not chunk:
                break
            server.receive(chunk)
    except BrokenPipeError:
        pass  # nobody is left to answer to
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        server.close()


def _read(chunks: queue.Queue[bytes]) -> None:
    chunk = b"."
    while chunk:
        try:
            chunk = os.read(0, 65536)
        except OSError:
            chunk = b""
        chunks.put(chunk)


def _write(line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(1, rest) :]


if __name__ == "__main__":
    serve()
