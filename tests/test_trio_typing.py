"""Programs that still annotate with trio_typing can start our tasks: run time only.

trio_typing's stub packages replace trio's own annotations, so it is kept out of the environment that checks
types, and these tests skip there.
"""

from __future__ import annotations

import inspect
import json
import typing
from types import ModuleType

import pytest
import trio
import trio.testing

from trio_mcp_stdio import Client, ClientOptions, Era, StreamTransport, run_client


@pytest.fixture
def trio_typing() -> ModuleType:
    module: ModuleType = pytest.importorskip("trio_typing", reason="trio_typing is not installed")
    return module


async def serve(stream: trio.abc.Stream) -> None:
    """A server of the modern era that knows server/discover only; ends at the end of its input."""
    received = b""
    async for chunk in stream:
        received += chunk
        while b"\n" in received:
            line, _, received = received.partition(b"\n")
            request = json.loads(line)
            result = {
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {},
                "ttlMs": 0,
                "cacheScope": "private",
            }
            answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
            await stream.send_all(json.dumps(answer).encode() + b"\n")
    await stream.aclose()


async def test_a_task_annotated_with_trio_typing_starts_a_client(trio_typing: ModuleType) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    statuses: list[object] = []

    async def connect() -> trio.StapledStream[typing.Any, typing.Any]:
        return ours

    async def application(task_status: typing.Any = trio.TASK_STATUS_IGNORED) -> None:
        statuses.append(task_status)
        async with trio.open_nursery() as inner:
            client = await inner.start(run_client, StreamTransport(connect), ClientOptions(probe_timeout=30))
            task_status.started(client)
            await client.wait_closed()

    application.__annotations__["task_status"] = trio_typing.TaskStatus[Client]

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, theirs)
            client = await nursery.start(application)
            assert isinstance(client, Client)
            assert client.era is Era.MODERN
            client.stop()

    assert typing.get_type_hints(application)["task_status"] == trio_typing.TaskStatus[Client]
    assert isinstance(statuses[0], trio_typing.TaskStatus)


def test_the_default_status_of_run_client_is_one(
    trio_typing: ModuleType,
) -> None:
    default = inspect.signature(run_client).parameters["task_status"].default

    assert isinstance(default, trio_typing.TaskStatus)


def test_its_nursery_is_the_real_one(trio_typing: ModuleType) -> None:
    assert trio_typing.Nursery is trio.Nursery
