"""Many clients, left by every way out there is: afterwards everything is as it was before."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Awaitable, Callable

import pytest
import trio

from helpers import QUICK, alive, children, count_fds, fake, needs_proc, nothing_left
from trio_mcp_stdio import (
    Client,
    ClientClosed,
    ClientOptions,
    ClientState,
    NegotiationError,
    ServerExited,
    SpawnError,
    StartupTimeout,
    StdioServer,
    open_client,
    run_client,
)

WAYS: dict[str, Callable[[], Awaitable[None]]] = {}


def way(function: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    WAYS[function.__name__] = function
    return function


class Mine(Exception):
    pass


async def answered(client: Client) -> None:
    assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"


@way
async def normal() -> None:
    async with open_client(fake("echo")) as client:
        await answered(client)
    assert client.state is ClientState.CLOSED
    assert client.exit is not None
    assert (client.exit.returncode, client.exit.ending, client.exit.expected) == (0, "exited", True)


@way
async def error_in_the_block() -> None:
    async def user() -> None:
        async with open_client(fake("echo")) as client:
            await answered(client)
            raise Mine

    with pytest.raises(Mine):
        await user()


@way
async def error_with_calls_in_flight() -> None:
    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise Mine

    async def user() -> None:
        async with open_client(fake("deaths", "on-call", 1)) as client, trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(client.call_tool, "hold")
            nursery.start_soon(fail)

    with pytest.RaisesGroup(Mine):
        await user()


@way
async def outer_cancellation() -> None:
    with trio.CancelScope() as scope:
        async with open_client(fake("echo")) as client:
            await answered(client)
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert client.state is ClientState.CLOSED


@way
async def outer_deadline_while_calling() -> None:
    with trio.CancelScope() as scope:
        async with open_client(fake("deaths", "on-call", 1)) as client:
            scope.deadline = trio.current_time() + 0.01
            await client.call_tool("hold")
    assert scope.cancelled_caught


@way
async def cancellation_while_connecting() -> None:
    with trio.move_on_after(0.02) as scope:
        async with open_client(fake("negotiates", "/dev/null", "silent", timeouts=QUICK)):
            pytest.fail("it is not open")
    assert scope.cancelled_caught


@way
async def stop_from_another_task() -> None:
    async with trio.open_nursery() as nursery:
        client: Client = await nursery.start(run_client, fake("echo"))
        await answered(client)
        nursery.start_soon(trio.to_thread.run_sync, lambda: trio.from_thread.run_sync(client.stop))
        await client.wait_closed()
        with pytest.raises(ClientClosed):
            await client.call_tool("echo")


@way
async def nursery_cancelled() -> None:
    async with trio.open_nursery() as nursery:
        client: Client = await nursery.start(run_client, fake("echo"))
        await answered(client)
        nursery.cancel_scope.cancel()


@way
async def crash_during_a_call() -> None:
    async with open_client(fake("deaths", "on-call", 3)) as client:
        with pytest.raises(ServerExited) as info:
            await client.call_tool("echo")
        assert info.value.exit.returncode == 3
    assert client.state is ClientState.FAILED


@way
async def killed_during_a_call() -> None:
    async with open_client(fake("deaths", "killed-on-call")) as client:
        with pytest.raises(ServerExited) as info:
            await client.call_tool("echo")
        assert info.value.exit.signal == signal.SIGKILL


@way
async def crash_of_the_server_as_a_task() -> None:
    async with trio.open_nursery() as nursery:
        client: Client = await nursery.start(run_client, fake("deaths", "on-call", 3))
        with pytest.raises(ServerExited):
            await client.call_tool("echo")


@way
async def missing_command() -> None:
    with pytest.raises(SpawnError):
        await opened(StdioServer("no-such-command-anywhere"))


@way
async def no_program() -> None:
    with pytest.raises(SpawnError):
        await opened(StdioServer(__file__))


@way
async def status_2_at_the_start() -> None:
    with pytest.raises(ServerExited) as info:
        await opened(fake("deaths", "at-once", 2))
    assert info.value.exit.returncode == 2


@way
async def negotiation_error() -> None:
    with pytest.raises(NegotiationError):
        await opened(fake("echo", era="legacy"), ClientOptions(era="modern"))


@way
async def startup_timeout() -> None:
    server = fake("negotiates", "/dev/null", "silent", timeouts=QUICK)
    with pytest.raises(StartupTimeout):
        await opened(server, ClientOptions(startup_timeout=0.02, probe_timeout=0.01))


STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('{"jsonrpc":"2.0","method":"x/ready"}', flush=True)
time.sleep(600)
"""


@way
async def ignores_everything() -> None:
    """Ended by force: it notices neither the end of its input nor SIGTERM."""
    server = StdioServer(sys.executable, ["-S", "-E", "-c", STUBBORN], timeouts=QUICK)
    ready = trio.Event()
    options = ClientOptions(era="modern", probe=False, on_notification=lambda notification: ready.set())
    async with open_client(server, options) as client:
        await ready.wait()
    assert client.exit is not None
    assert client.exit.ending == "killed"


async def opened(server: StdioServer, options: ClientOptions | None = None) -> None:
    async with open_client(server, options):
        pytest.fail("it is not open")


@pytest.mark.parametrize("name", WAYS)
async def test_way_out_leaves_nothing(name: str) -> None:
    with alive(60), nothing_left():
        await WAYS[name]()


@needs_proc
@pytest.mark.parametrize(("clients", "at_once"), [(34, 6), pytest.param(200, 8, marks=pytest.mark.slow)])
async def test_counts_end_where_they_began(clients: int, at_once: int) -> None:
    """All ways in turn, several at a time: no client disturbs another, and nothing adds up."""
    names = [name for name in WAYS if name != "ignores_everything"]
    limiter = trio.CapacityLimiter(at_once)

    async def one(name: str) -> None:
        async with limiter:
            await WAYS[name]()

    gc.collect()
    descriptors, processes = count_fds(), len(children())
    with alive(300), nothing_left():
        async with trio.open_nursery() as nursery:
            for number in range(clients):
                nursery.start_soon(one, names[number % len(names)])
    assert (count_fds(), len(children())) == (descriptors, processes)


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WAYS if name != "ignores_everything"])
async def test_two_hundred_clients_by_one_way(name: str) -> None:
    descriptors, processes = count_fds(), len(children())
    with alive(300), nothing_left():
        for _ in range(200):
            await WAYS[name]()
    assert (count_fds(), len(children())) == (descriptors, processes)


@pytest.mark.slow
def test_threads_end_after_ten_idle_seconds() -> None:
    """Trio keeps idle worker threads for ten seconds; after that there are as many as before."""
    before = threading.active_count()

    async def main() -> None:
        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                for name in WAYS:
                    nursery.start_soon(WAYS[name])
            await trio.sleep(11)

    trio.run(main)
    assert threading.active_count() <= before


@needs_proc
async def test_objects_are_freed_without_the_collector() -> None:
    """A client is part of no cycle once it has been left."""

    async def crowd() -> None:
        for function in (normal, outer_cancellation, nursery_cancelled, ignores_everything):
            await function()

    with alive():
        await crowd()
        gc.collect()
        gc.disable()
        try:
            before = sum(isinstance(one, Client) for one in gc.get_objects())
            await crowd()
            await trio.lowlevel.checkpoint()
            after = sum(isinstance(one, Client) for one in gc.get_objects())
        finally:
            gc.enable()
    assert after <= before
