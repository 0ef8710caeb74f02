"""A cancellation at every step: the outer scope is cancelled before the n-th step of any task, for every n.

Whatever the step, the client leaves no task, process or descriptor, and its peer has read whole messages.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from helpers import PATIENT, nothing_left
from scripted import initialized, pair, text
from trio_mcp_stdio import (
    Client,
    ClientClosed,
    ClientOptions,
    ClientState,
    ConnectionLost,
    ProgressUpdate,
    RequestTimeout,
    StdioServer,
    StreamTransport,
    open_client,
    run_client,
)


@attrs.define(eq=False)
class AtStep(trio.abc.Instrument):
    """Does something before the n-th step after its beginning; with None it only counts."""

    act: Callable[[], object]
    at: int | None
    steps: int = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.steps == self.at:
            self.act()
        self.steps += 1

    @property
    def acted(self) -> bool:
        return self.at is not None and self.steps > self.at

    def __enter__(self) -> None:
        trio.lowlevel.add_instrument(self)

    def __exit__(self, *exc_info: object) -> None:
        trio.lowlevel.remove_instrument(self)


def check_messages(data: bytes) -> list[dict[str, Any]]:
    """Whole lines, each a message; a notice at most once for a request, and only after it."""
    assert data == b"" or data.endswith(b"\n"), data[-200:]
    messages = [json.loads(line) for line in data.splitlines()]
    requests: set[int] = set()
    cancelled: set[int] = set()
    for message in messages:
        assert message["jsonrpc"] == "2.0"
        if "id" in message:
            assert message["id"] not in requests
            requests.add(message["id"])
        elif message["method"] == "notifications/cancelled":
            number = message["params"]["requestId"]
            assert number in requests
            assert number not in cancelled
            cancelled.add(number)
    opening = {m["id"] for m in messages if m["method"] in ("server/discover", "initialize")}
    assert not opening & cancelled
    return messages


@attrs.define(eq=False)
class MemoryServer:
    """Answers like a tool server and keeps the bytes it reads."""

    stream: trio.abc.HalfCloseableStream
    era: str
    data: bytearray = attrs.field(factory=bytearray)

    def hang_up(self) -> None:
        for direction in (self.stream.send_stream, self.stream.receive_stream):  # type: ignore[attr-defined]
            direction.close()

    async def run(self) -> None:
        with contextlib.suppress(trio.ClosedResourceError):
            await self._serve()

    async def _serve(self) -> None:
        done = 0
        async for chunk in self.stream:  # type: ignore[attr-defined]
            self.data += chunk
            while (end := self.data.find(b"\n", done)) >= 0:
                message = json.loads(self.data[done:end])
                done = end + 1
                answer = b"".join(json.dumps(one).encode() + b"\n" for one in self.answers(message))
                if answer:
                    # Once the client has gone the rest is still read.
                    with contextlib.suppress(trio.BrokenResourceError):
                        await self.stream.send_all(answer)
        await self.stream.aclose()

    def answers(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        method = message["method"]
        params = message.get("params", {})
        if "id" not in message or params.get("name") == "silent":
            return []
        result: dict[str, Any] = {}
        before: list[dict[str, Any]] = []
        if method == "server/discover":
            if self.era == "legacy":
                error = {"code": -32601, "message": "Method not found"}
                return [{"jsonrpc": "2.0", "id": message["id"], "error": error}]
            result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}
        elif method == "initialize":
            result = initialized()
        elif method == "tools/list":
            result = {"tools": []}
        elif method == "tools/call":
            token = params["_meta"]["progressToken"]
            for value in (1, 2):
                update = {"progressToken": token, "progress": value}
                before.append({"jsonrpc": "2.0", "method": "notifications/progress", "params": update})
            result = text("ok")
        return [*before, {"jsonrpc": "2.0", "id": message["id"], "result": result}]


async def use(client: Client) -> None:
    """List, two calls at once with progress, and a timeout."""
    updates: list[float] = []

    def note(update: ProgressUpdate) -> None:
        updates.append(update.progress)

    async def note_later(update: ProgressUpdate) -> None:
        await trio.lowlevel.checkpoint()
        updates.append(update.progress)

    assert (await client.list_tools()).tools == ()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: client.call_tool("one", on_progress=note))
        nursery.start_soon(lambda: client.call_tool("two", on_progress=note_later))
    assert sorted(updates) == [1, 1, 2, 2]
    with pytest.raises(RequestTimeout):
        await client.call_tool("silent", timeout=0.01)


@contextlib.contextmanager
def in_this_order(order: int) -> Iterator[None]:
    """Trio runs the tasks of a tick in the order of their wake-ups or, as often, in the reverse one (0)."""
    with pytest.MonkeyPatch.context() as patch:
        fixed = random.Random(0)
        patch.setattr(fixed, "random", lambda: float(order))
        patch.setattr("trio._core._run._r", fixed)
        yield


Inside = Callable[[StreamTransport, MemoryServer, int | None], Awaitable[tuple[bool, int]]]
"""One session, disturbed at a step.  Returns whether it was disturbed at all, and how many steps it took."""


def run_over_memory(inside: Inside, at: int | None, era: str, order: int) -> tuple[bool, int]:
    """One session on a virtual clock, with everything looked at afterwards."""

    async def main() -> tuple[bool, int]:
        transport, peer = pair()
        server = MemoryServer(peer.stream, era)
        with trio.fail_after(1000), nothing_left():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.run)
                acted, steps = await inside(transport, server, at)
                await trio.testing.wait_all_tasks_blocked()
                if not server.data:
                    nursery.cancel_scope.cancel()  # a stream that was never handed over has no end
        messages = check_messages(bytes(server.data))
        if not acted:
            notices = [m for m in messages if m["method"] == "notifications/cancelled"]
            assert len(notices) == 1
        return acted, steps

    with in_this_order(order):
        return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def run_at_every_step(inside: Inside, era: str, order: int) -> None:
    acted, steps = run_over_memory(inside, None, era, order)
    assert not acted
    assert steps > 30
    at = 0
    while run_over_memory(inside, at, era, order)[0]:
        at += 1
        assert at <= 2 * steps
    assert at >= steps // 2


def assert_over(client: Client) -> None:
    assert client.state in (ClientState.CLOSED, ClientState.FAILED)
    found = client.statistics()
    assert (found.in_flight, found.queued, found.waiting) == (0, 0, 0)


async def cancel_the_client(
    transport: StreamTransport, server: MemoryServer, at: int | None
) -> tuple[bool, int]:
    clients: list[Client] = []
    scope = trio.CancelScope()
    steps = AtStep(scope.cancel, at)
    with scope, steps:
        async with open_client(transport) as client:
            clients.append(client)
            await use(client)
    for client in clients:
        assert_over(client)
    return steps.acted, steps.steps


async def cancel_the_task(
    transport: StreamTransport, server: MemoryServer, at: int | None
) -> tuple[bool, int]:
    clients: list[Client] = []
    scope = trio.CancelScope()
    steps = AtStep(scope.cancel, at)
    with scope, steps:
        async with trio.open_nursery() as nursery:
            client: Client = await nursery.start(run_client, transport)
            clients.append(client)
            await use(client)
            client.stop()
    for client in clients:
        assert_over(client)
    return steps.acted, steps.steps


async def cancel_the_calls(
    transport: StreamTransport, server: MemoryServer, at: int | None
) -> tuple[bool, int]:
    """The client lives on, unharmed."""
    scope = trio.CancelScope()
    steps = AtStep(scope.cancel, at)
    async with open_client(transport) as client:
        with scope, steps:
            await use(client)
        assert (await client.list_tools()).tools == ()
        found = client.statistics()
        assert (found.in_flight, found.queued, found.waiting) == (0, 0, 0)
    await trio.testing.wait_all_tasks_blocked()
    assert server.data.count(b"notifications/cancelled") == found.cancelled
    assert_over(client)
    return steps.acted, steps.steps


async def stop_the_client(
    transport: StreamTransport, server: MemoryServer, at: int | None
) -> tuple[bool, int]:
    """Calls end with their answer or with `ClientClosed`, and nothing else."""
    clients: list[Client] = []
    steps = AtStep(lambda: [client.stop() for client in clients], at)
    with steps:
        async with open_client(transport) as client:
            clients.append(client)
            try:
                await use(client)
            except* ClientClosed:
                pass
    assert client.state is ClientState.CLOSED
    assert_over(client)
    return steps.acted, steps.steps


async def hang_up(transport: StreamTransport, server: MemoryServer, at: int | None) -> tuple[bool, int]:
    """The peer closes both directions; calls end with their answer or with `ConnectionLost`."""
    clients: list[Client] = []
    lost: list[BaseException] = []
    steps = AtStep(server.hang_up, at)
    with steps:
        try:
            async with open_client(transport) as client:
                clients.append(client)
                await use(client)
        except* ConnectionLost as group:
            lost.extend(group.exceptions)
    assert not any(isinstance(error, ClientClosed) for error in lost)
    for client in clients:
        assert_over(client)
    return steps.acted, steps.steps


@pytest.mark.requirement("STDIO-FRAME-07", "CANCEL-04", "CANCEL-18")
@pytest.mark.parametrize(("era", "order"), [("modern", 0), ("modern", 1), ("legacy", 1), ("legacy", 0)])
@pytest.mark.parametrize(
    "inside", [cancel_the_client, cancel_the_task, cancel_the_calls, stop_the_client, hang_up]
)
def test_every_step_over_memory(inside: Inside, era: str, order: int) -> None:
    run_at_every_step(inside, era, order)


@pytest.mark.parametrize("order", [0, 1])
def test_interrupt_at_every_step_over_memory(order: int) -> None:
    """It comes out plain, and the connection is ended in order before it does."""

    def run(at: int | None) -> AtStep:
        steps = AtStep(lambda: signal.raise_signal(signal.SIGINT), at)
        clients: list[Client] = []
        servers: list[MemoryServer] = []

        async def main() -> None:
            transport, peer = pair()
            servers.append(MemoryServer(peer.stream, "modern"))
            trio.lowlevel.spawn_system_task(servers[0].run)
            with trio.fail_after(1000), steps:
                async with open_client(transport) as client:
                    clients.append(client)
                    await client.list_tools()
                    for name in ("one", "two"):
                        await client.call_tool(name, on_progress=lambda update: None)

        clock = trio.testing.MockClock(autojump_threshold=0)
        with in_this_order(order), contextlib.suppress(KeyboardInterrupt):
            trio.run(main, clock=clock)
            assert not steps.acted
        check_messages(bytes(servers[0].data))
        for client in clients:
            assert_over(client)
        return steps

    assert run(None).steps > 30
    at = 0
    while run(at).acted:
        at += 1


SERVER = """
import json, os, sys
data = bytearray()
journal = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def send(*messages):
    try:
        os.write(1, b"".join(json.dumps(message).encode() + b"\\n" for message in messages))
    except BrokenPipeError:
        pass
while chunk := os.read(0, 65536):
    os.write(journal, chunk)
    data += chunk
    *lines, rest = data.split(b"\\n")
    data = bytearray(rest)
    for line in lines:
        message = json.loads(line)
        params = message.get("params", {})
        method, number = message["method"], message.get("id")
        answer = {"jsonrpc": "2.0", "id": number}
        if number is None or params.get("name") == "silent":
            continue
        if method == "server/discover":
            send({**answer, "result": {"supportedVersions": ["2026-07-28"], "capabilities": {}}})
        elif method == "tools/list":
            send({**answer, "result": {"tools": []}})
        else:
            updates = [{"progressToken": params["_meta"]["progressToken"], "progress": n} for n in (1, 2)]
            send(
                *({"jsonrpc": "2.0", "method": "notifications/progress", "params": one} for one in updates),
                {**answer, "result": {"content": []}},
            )
os.write(journal, b"")
"""


def run_over_a_child(at: int | None, journal: Path) -> tuple[bool, int]:
    """One session with a real server that keeps what it reads."""
    command = ["-S", "-E", "-c", SERVER, str(journal)]
    server = StdioServer(
        sys.executable, command, name="sweep", timeouts=PATIENT, stderr=["capture", lambda line: None]
    )
    scope = trio.CancelScope()
    steps = AtStep(scope.cancel, at)

    async def main() -> None:
        with trio.fail_after(60), nothing_left(), scope, steps:
            async with open_client(server) as client:
                await use(client)

    journal.write_bytes(b"")
    trio.run(main)
    check_messages(journal.read_bytes())
    return scope.cancelled_caught, steps.steps


@pytest.mark.requirement("STDIO-FRAME-07", "CANCEL-18")
@pytest.mark.parametrize("count", [20, pytest.param(300, marks=pytest.mark.slow)])
def test_many_steps_over_a_child(tmp_path: Path, count: int) -> None:
    journal = tmp_path / "journal"
    cancelled, steps = run_over_a_child(None, journal)
    assert not cancelled
    assert steps > 50
    for at in range(0, steps, max(1, steps // count)):
        run_over_a_child(at, journal)


STUCK = """
import json, os, sys, time
line = os.read(0, 65536)
number = json.loads(line)["id"]
result = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
os.write(1, json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode() + b"\\n")
begun = os.read(0, 1)
os.write(1, b'{"jsonrpc":"2.0","method":"x/stuck"}\\n')
while os.getppid() == int(sys.argv[1]) and not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
while chunk := os.read(0, 65536):
    begun += chunk
open(sys.argv[3], "wb").write(begun)
"""


def test_line_is_cut_only_after_the_flush_limit_by_a_peer_that_does_not_read(tmp_path: Path) -> None:
    """Then there is no other way; what was written of the line is followed by the end of the file alone."""
    journal, release = tmp_path / "journal", tmp_path / "release"
    command = ["-S", "-E", "-c", STUCK, str(os.getpid()), str(release), str(journal)]
    server = StdioServer(sys.executable, command, name="stuck", timeouts=attrs.evolve(PATIENT, flush=0.2))

    async def main() -> None:
        stuck, scope = trio.Event(), trio.CancelScope()
        options = ClientOptions(on_notification=lambda notification: stuck.set())

        async def let_it_read() -> None:
            await stuck.wait()
            scope.cancel()
            await trio.sleep(0.5)  # past the flush limit
            release.touch()

        with trio.fail_after(60), nothing_left():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(let_it_read)
                with scope:
                    async with open_client(server, options) as client, trio.open_nursery() as calls:
                        for _ in range(3):
                            calls.start_soon(lambda: client.call_tool("t", {"x": "y" * 1_000_000}))

    trio.run(main)
    data = journal.read_bytes()
    assert 10_000 < len(data) < 1_000_000
    assert b"\n" not in data
