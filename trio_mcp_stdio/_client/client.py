"""The client: the calls, and the two ways to open it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal, TypeVar, Unpack, final, overload

import trio

from .._connection.session import Session, check_limit
from .._connection.transports import Transport
from .._errors import (
    InputRequiredError,
    InvalidResult,
    LocalProtocolError,
    McpError,
    RpcError,
    UnsupportedProtocolVersion,
)
from .._io.nursery import ServiceNursery
from .._wire import methods
from .._wire.codec import structure, unstructure
from .._wire.convert import UNSET, UnsetType
from .._wire.methods import Era
from ..types import (
    CallToolResult,
    CompleteResult,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ProcessExit,
    PromptReference,
    ReadResourceResult,
    ResourceTemplateReference,
)
from .options import DEFAULT, ClientOptions, Default, RequestOptions
from .statistics import ClientStatistics, collect
from .supervisor import ClientState, ServerDescription, Supervisor

__all__ = ["Client", "open_client", "run_client"]

T = TypeVar("T")

# A library says nothing on its own: what it logs goes where the application sends it.
logging.getLogger("trio_mcp_stdio").addHandler(logging.NullHandler())

_MAY_NEED_INPUT = frozenset({methods.TOOLS_CALL, methods.RESOURCES_READ, methods.PROMPTS_GET})

_SENT_BY_CLIENT = frozenset({methods.CANCELLED, methods.INITIALIZED})
_LEGACY_NOTIFICATIONS = frozenset({methods.PROGRESS, methods.ROOTS_CHANGED})

# Which announced capability a method belongs to; looked at under `strict` only.
_CAPABILITY = {
    methods.TOOLS_LIST: "tools",
    methods.TOOLS_CALL: "tools",
    methods.RESOURCES_LIST: "resources",
    methods.RESOURCE_TEMPLATES_LIST: "resources",
    methods.RESOURCES_READ: "resources",
    methods.PROMPTS_LIST: "prompts",
    methods.PROMPTS_GET: "prompts",
    methods.COMPLETE: "completions",
}


@final
class Client:
    """A connected client.  Made by `open_client` and `run_client` only.

    Any number of tasks of one trio run may use it at the same time; other threads go through
    `trio.from_thread.run(client.call_tool, ...)`.

    Cancellation of any request: the cancel scope around the call decides.  If the request was not yet
    written, nothing is; otherwise exactly one `notifications/cancelled` goes out, and the call returns at
    once without waiting for the server to agree.

    Every request takes the keywords of `RequestOptions` and may raise:

    - `LocalProtocolError`: an argument has no JSON form; nothing was queued;
    - `RequestTimeout`: `timeout` or `idle_timeout` passed;
    - `RpcError`: the server answered with an error;
    - `RemoteProtocolError`: the answer cannot be read (`InvalidResult`: it has the wrong shape);
    - `ConnectionLost`: the connection ended first; `ServerExited` when the process did.

    With `raw=True` a method returns the decoded result as a dict, unchecked.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def __repr__(self) -> str:
        supervisor = self._supervisor
        server = supervisor.server
        parts = [repr(supervisor.transport.name), supervisor.state.value]
        if server is not None:
            parts.append(f"{server.era.value} {server.protocol_version}")
        if supervisor.pid is not None:
            parts.append(f"pid {supervisor.pid}")
        if supervisor.state is ClientState.READY:
            parts.append(f"{self.statistics().in_flight} in flight")
        return f"<Client {', '.join(parts)}>"

    # --- what is known ---

    @property
    def name(self) -> str:
        """Name of the server in logs and errors."""
        return self._supervisor.transport.name

    @property
    def state(self) -> ClientState:
        """Where the client is in its life."""
        return self._supervisor.state

    @property
    def server(self) -> ServerDescription:
        """What the server said of itself in the negotiation."""
        server = self._supervisor.server
        assert server is not None
        return server

    @property
    def era(self) -> Era:
        """Era of the connection.

        It may be handed to a later client of the same server as `ClientOptions.remembered`.
        """
        return self.server.era

    @property
    def protocol_version(self) -> str:
        """Revision agreed on."""
        return self.server.protocol_version

    @property
    def pid(self) -> int | None:
        """Process id of the server, None where there is no process."""
        return self._supervisor.pid

    @property
    def exit(self) -> ProcessExit | None:
        """How the process ended, None while it has not, and where there is none."""
        return self._supervisor.exit

    def statistics(self) -> ClientStatistics:
        """A snapshot of the counters."""
        return collect(self._supervisor)

    # --- life ---

    def stop(self) -> None:
        """Start the shutdown and return at once; idempotent, from any task.

        Calls in flight raise `ClientClosed`.  `wait_closed` tells when it is done.
        """
        self._supervisor.stop()

    async def wait_closed(self) -> ProcessExit | None:
        """Wait until the connection has ended, for whatever reason, and the process with it.

        Returns:
            How the process ended, None where there is none.
        """
        await self._supervisor.closed.wait()
        return self._supervisor.exit

    # --- requests ---

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, **options: Unpack[RequestOptions]
    ) -> dict[str, Any]:
        """Send any request and return its result as decoded, unchecked."""
        return await self._request(method, params, **options)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification.  Waits only while more than `max_unsent_bytes` wait to be written.

        In a modern connection the protocol has nothing for this method to send: the one notification of a
        client, `notifications/cancelled`, is sent by the cancel scope around a call.

        Raises:
            LocalProtocolError: the parameters have no JSON form, or the method is not the caller's.
            ConnectionLost: the connection has ended.
        """
        if method in _SENT_BY_CLIENT:
            raise LocalProtocolError(f"{method} is sent by the client itself", server=self.name)
        if self.era is Era.MODERN and method in _LEGACY_NOTIFICATIONS:
            raise LocalProtocolError(f"{method} does not exist in a modern connection", server=self.name)
        await self._session.notify(method, params)

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        raw: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> CallToolResult: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        raw: Literal[True],
        **options: Unpack[RequestOptions],
    ) -> dict[str, Any]: ...
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        raw: bool = False,
        **options: Unpack[RequestOptions],
    ) -> CallToolResult | dict[str, Any]:
        """Call a tool (specification, server: tools).

        A tool that fails gives a result with `is_error`, no exception; see `CallToolResult.raise_for_error`.
        """
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        return await self._call(CallToolResult, methods.TOOLS_CALL, params, raw, options)

    @overload
    async def list_tools(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        raw: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> ListToolsResult: ...
    @overload
    async def list_tools(
        self, cursor: str | UnsetType = UNSET, *, raw: Literal[True], **options: Unpack[RequestOptions]
    ) -> dict[str, Any]: ...
    async def list_tools(
        self, cursor: str | UnsetType = UNSET, *, raw: bool = False, **options: Unpack[RequestOptions]
    ) -> ListToolsResult | dict[str, Any]:
        """One page of the server's tools; `cursor` is the `next_cursor` of the page before."""
        return await self._call(ListToolsResult, methods.TOOLS_LIST, _page(cursor), raw, options)

    @overload
    async def list_resources(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        raw: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> ListResourcesResult: ...
    @overload
    async def list_resources(
        self, cursor: str | UnsetType = UNSET, *, raw: Literal[True], **options: Unpack[RequestOptions]
    ) -> dict[str, Any]: ...
    async def list_resources(
        self, cursor: str | UnsetType = UNSET, *, raw: bool = False, **options: Unpack[RequestOptions]
    ) -> ListResourcesResult | dict[str, Any]:
        """One page of the server's resources."""
        return await self._call(ListResourcesResult, methods.RESOURCES_LIST, _page(cursor), raw, options)

    @overload
    async def list_resource_templates(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        raw: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> ListResourceTemplatesResult: ...
    @overload
    async def list_resource_templates(
        self, cursor: str | UnsetType = UNSET, *, raw: Literal[True], **options: Unpack[RequestOptions]
    ) -> dict[str, Any]: ...
    async def list_resource_templates(
        self, cursor: str | UnsetType = UNSET, *, raw: bool = False, **options: Unpack[RequestOptions]
    ) -> ListResourceTemplatesResult | dict[str, Any]:
        """One page of the server's resource templates."""
        return await self._call(
            ListResourceTemplatesResult, methods.RESOURCE_TEMPLATES_LIST, _page(cursor), raw, options
        )

    @overload
    async def read_resource(
        self, uri: str, *, raw: Literal[False] = False, **options: Unpack[RequestOptions]
    ) -> ReadResourceResult: ...
    @overload
    async def read_resource(
        self, uri: str, *, raw: Literal[True], **options: Unpack[RequestOptions]
    ) -> dict[str, Any]: ...
    async def read_resource(
        self, uri: str, *, raw: bool = False, **options: Unpack[RequestOptions]
    ) -> ReadResourceResult | dict[str, Any]:
        """Read a resource.

        Raises:
            ResourceNotFound: there is none at this URI.
        """
        return await self._call(ReadResourceResult, methods.RESOURCES_READ, {"uri": uri}, raw, options)

    @overload
    async def list_prompts(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        raw: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> ListPromptsResult: ...
    @overload
    async def list_prompts(
        self, cursor: str | UnsetType = UNSET, *, raw: Literal[True], **options: Unpack[RequestOptions]
    ) -> dict[str, Any]: ...
    async def list_prompts(
        self, cursor: str | UnsetType = UNSET, *, raw: bool = False, **options: Unpack[RequestOptions]
    ) -> ListPromptsResult | dict[str, Any]:
        """One page of the server's prompts."""
        return await self._call(ListPromptsResult, methods.PROMPTS_LIST, _page(cursor), raw, options)

    @overload
    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        raw: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> GetPromptResult: ...
    @overload
    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        raw: Literal[True],
        **options: Unpack[RequestOptions],
    ) -> dict[str, Any]: ...
    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        raw: bool = False,
        **options: Unpack[RequestOptions],
    ) -> GetPromptResult | dict[str, Any]:
        """Render a prompt."""
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        return await self._call(GetPromptResult, methods.PROMPTS_GET, params, raw, options)

    @overload
    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,
        argument: tuple[str, str],
        *,
        context: Mapping[str, str] | None = None,
        raw: Literal[False] = False,
        **options: Unpack[RequestOptions],
    ) -> CompleteResult: ...
    @overload
    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,
        argument: tuple[str, str],
        *,
        context: Mapping[str, str] | None = None,
        raw: Literal[True],
        **options: Unpack[RequestOptions],
    ) -> dict[str, Any]: ...
    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,
        argument: tuple[str, str],
        *,
        context: Mapping[str, str] | None = None,
        raw: bool = False,
        **options: Unpack[RequestOptions],
    ) -> CompleteResult | dict[str, Any]:
        """Ask for completions of an argument.

        Args:
            ref: the prompt or resource template that the argument belongs to.
            argument: its name, and the value typed so far.
            context: arguments that already have a value; left out in sessions before 2025-06-18, whose
                revisions do not have it.
        """
        name, value = argument
        params: dict[str, Any] = {"ref": unstructure(ref), "argument": {"name": name, "value": value}}
        if context is not None and self.protocol_version >= "2025-06-18":
            params["context"] = {"arguments": dict(context)}
        return await self._call(CompleteResult, methods.COMPLETE, params, raw, options)

    async def ping(self, *, timeout: float | Default | None = DEFAULT) -> float:
        """Ask a legacy server for a sign of life; any reply counts, an error too.

        Returns:
            Seconds until the reply.

        Raises:
            LocalProtocolError: the connection is modern, where `ping` does not exist.
        """
        if self.era is Era.MODERN:
            raise LocalProtocolError("ping does not exist in a modern connection", server=self.name)
        began = trio.current_time()
        with contextlib.suppress(RpcError):  # whoever refuses is alive
            await self._request(methods.PING, None, timeout=timeout)
        return trio.current_time() - began

    # --- inside ---

    @property
    def _session(self) -> Session:
        session = self._supervisor.session
        assert session is not None
        return session

    async def _call(
        self, cls: type[T], method: str, params: dict[str, Any], raw: bool, options: RequestOptions
    ) -> T | dict[str, Any]:
        result = await self._request(method, params, **options)
        if raw:
            return result
        kind = result.get("resultType", "complete")
        if kind != "complete" and self.era is Era.MODERN:
            raise self._wrong_kind(method, kind, result)
        try:
            return structure(cls, result, method=method)
        except InvalidResult as error:
            error.server = self.name
            raise

    def _wrong_kind(self, method: str, kind: object, result: dict[str, Any]) -> McpError:
        if kind == "input_required" and method in _MAY_NEED_INPUT:
            return InputRequiredError(method=method, result=result, server=self.name)
        problem = f"resultType: {kind!r:.80} is unknown"
        return InvalidResult(method=method, problems=[problem], server=self.name)

    async def _request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        timeout: float | Default | None = DEFAULT,
        idle_timeout: float | None = None,
        on_progress: Any = None,
        meta: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        supervisor = self._supervisor
        if timeout is DEFAULT:
            timeout = supervisor.options.request_timeout
        else:
            check_limit("timeout", timeout)
        if idle_timeout is not None:
            check_limit("idle_timeout", idle_timeout)
        if supervisor.options.strict:
            self._check_announced(method)
        session = self._session
        began = trio.current_time() if not supervisor.probed else 0.0
        try:
            return await session.request(
                method,
                params,
                timeout=timeout,
                idle_timeout=idle_timeout,
                on_progress=on_progress,
                meta=meta,
            )
        except UnsupportedProtocolVersion as error:
            # Without a probe the first answer may be this one; it is asked again once, under a new id.
            if supervisor.probed or self.protocol_version not in error.supported:
                raise
            supervisor.probed = True
        if timeout is not None:
            timeout = max(0.0, timeout - (trio.current_time() - began))
        return await session.request(
            method, params, timeout=timeout, idle_timeout=idle_timeout, on_progress=on_progress, meta=meta
        )

    def _check_announced(self, method: str) -> None:
        capability = _CAPABILITY.get(method)
        if capability is None or not self._supervisor.probed:
            return
        if getattr(self.server.capabilities, capability) is UNSET:
            raise LocalProtocolError(f"{method}: the server has not announced {capability}", server=self.name)


def _page(cursor: str | UnsetType) -> dict[str, Any]:
    return {} if cursor is UNSET else {"cursor": cursor}


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
