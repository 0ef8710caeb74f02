"""The two ways to open a client: a block, and a task."""

from __future__ import annotations

from types import TracebackType
from typing import final

import trio

from .._connection.transports import Transport
from .._errors import (
    LocalProtocolError,
)
from .._io.nursery import ServiceNursery
from .client import Client
from .options import ClientOptions
from .supervisor import Supervisor

__all__ = ["open_client", "run_client"]


@final
class open_client:
    """Start a server and connect to it: `async with open_client(StdioServer(...)) as client`.

    Leaving the block ends the server in order (close stdin, wait, SIGTERM, wait, SIGKILL), bounded by
    `ShutdownTimeouts`, also while a cancellation passes through.  Exceptions of the block pass unchanged.
    The block has to be left by the task that entered it.

    Args:
        transport: how the server is reached.
        options: settings, default `ClientOptions()`.

    Raises:
        SpawnError: the server cannot be started.
        ServerExited: it ended before a revision was agreed on.
        NegotiationError: there is no common revision (`StartupTimeout`: none within the limit).
    """

    def __init__(self, transport: Transport, options: ClientOptions | None = None) -> None:
        self._supervisor = Supervisor(transport, ClientOptions() if options is None else options)
        self._nursery = ServiceNursery()
        self._entered = False

    async def __aenter__(self) -> Client:
        if self._entered:
            raise LocalProtocolError(
                "an open_client(...) can be entered once; make another one",
                server=self._supervisor.transport.name,
            )
        self._entered = True
        nursery = await self._nursery.__aenter__()
        try:
            await nursery.start(self._run)
        except BaseException as error:
            await self._nursery.__aexit__(type(error), error, error.__traceback__)
            raise
        return Client(self._supervisor)

    async def _run(self, *, task_status: trio.TaskStatus[None]) -> None:
        await self._supervisor.run(task_status=task_status)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._nursery.__aexit__(exc_type, exc, traceback)


async def run_client(
    transport: Transport,
    options: ClientOptions | None = None,
    *,
    task_status: trio.TaskStatus[Client] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a client as a task: `client = await nursery.start(run_client, StdioServer(...))`.

    Returns when the connection has ended, for whatever reason; `Client.stop` ends it from any task.

    Raises:
        SpawnError, ServerExited, NegotiationError: as `open_client`, before it has started.
    """
    async with open_client(transport, options) as client:
        task_status.started(client)
        await client.wait_closed()
