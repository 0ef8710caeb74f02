"""The client: the calls, and what is known of the connection."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack, final, overload

import trio

from .._connection.session import check_limit
from .._errors import (
    LocalProtocolError,
    RpcError,
)
from .._wire import methods
from .._wire.codec import unstructure
from .._wire.convert import UNSET, UnsetType
from .._wire.methods import Era
from ..types import (
    CallToolResult,
    CompleteResult,
    GetPromptResult,
    LoggingLevel,
    ProcessExit,
    PromptReference,
    ReadResourceResult,
    ResourceTemplateReference,
)
from .listening import Listening
from .lists import Lists
from .options import DEFAULT, Default, RequestOptions
from .statistics import ClientStatistics, collect
from .supervisor import ClientState
from .validation import Validation

if TYPE_CHECKING:
    from ..types import InputRequiredResult, InputResponse, SubscriptionFilter


__all__ = ["Client"]

# A library says nothing on its own: what it logs goes where the application sends it.
logging.getLogger("trio_mcp_stdio").addHandler(logging.NullHandler())


@final
class Client(Lists):
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
    def state(self) -> ClientState:
        """Where the client is in its life."""
        return self._supervisor.state

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

    # --- calls ---

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        raw: Literal[False] = False,
        validate: bool | Validation | Default = DEFAULT,
        allow_input_required: Literal[False] = False,
        input_responses: Mapping[str, InputResponse] | None = None,
        request_state: str | UnsetType = UNSET,
        **options: Unpack[RequestOptions],
    ) -> CallToolResult: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        raw: Literal[False] = False,
        validate: bool | Validation | Default = DEFAULT,
        allow_input_required: Literal[True],
        input_responses: Mapping[str, InputResponse] | None = None,
        request_state: str | UnsetType = UNSET,
        **options: Unpack[RequestOptions],
    ) -> CallToolResult | InputRequiredResult: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        raw: Literal[True],
        validate: bool | Validation | Default = DEFAULT,
        allow_input_required: bool = False,
        input_responses: Mapping[str, InputResponse] | None = None,
        request_state: str | UnsetType = UNSET,
        **options: Unpack[RequestOptions],
    ) -> dict[str, Any]: ...
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        raw: bool = False,
        validate: bool | Validation | Default = DEFAULT,
        allow_input_required: bool = False,
        input_responses: Mapping[str, InputResponse] | None = None,
        request_state: str | UnsetType = UNSET,
        **options: Unpack[RequestOptions],
    ) -> CallToolResult | InputRequiredResult | dict[str, Any]:
        """Call a tool (specification, server: tools).

        A tool that fails gives a result with `is_error`, no exception; see `CallToolResult.raise_for_error`.

        A modern server may need input first.  It is asked of `ClientOptions.inputs`, and the call repeated
        with it, as often as needed.

        Args:
            allow_input_required: return the interim `InputRequiredResult` instead; it can be stored, and
                the call taken up later with `input_responses` (the answers under the same keys) and
                `request_state` (as it was in the interim result).
            raw: return any result as decoded, an interim one too; nothing of it is checked.
            validate: check the call against the schemas of the tool; `ClientOptions.validate` by default.
                What is wrong with the result is told in its `problems`.

        Raises:
            InvalidArguments: with `Validation.arguments`; nothing was queued.
        """
        default = self._supervisor.options.validate
        checks = self._tools.settings(default if validate is DEFAULT else validate, default)
        if checks is not None and checks.arguments:
            self._tools.check_arguments(name, arguments, checks)
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        result = await self._call_with_input(
            CallToolResult,
            methods.TOOLS_CALL,
            params,
            raw,
            allow_input_required,
            input_responses,
            request_state,
            options,
        )
        if checks is None or not checks.results or not isinstance(result, CallToolResult):
            return result
        any_kind = self.era is Era.MODERN  # before, structured content is an object
        return self._tools.mark(name, result, checks, any_kind=any_kind)

    @overload
    async def read_resource(
        self,
        uri: str,
        *,
        raw: Literal[False] = False,
        allow_input_required: Literal[False] = False,
        input_responses: Mapping[str, InputResponse] | None = None,
        request_state: str | UnsetType = UNSET,
        **options: Unpack[RequestOptions],
    ) -> ReadResourceResult: ...
    @overload
    async def read_resource(
        self,
        uri: str,
        *,
        raw: Literal[False] = False,
        allow_input_required: Literal[True],
        input_responses: Mapping[str, InputResponse] | None = None,
        request_state: str | UnsetType = UNSET,
        **options: Unpack[RequestOptions],
    ) -> ReadResourceResult | InputRequiredResult: ...
    @overload
    async def read_resource(
        self,
        uri: str,
        *,
        raw: Literal[True],
        allow_input_required: bool = False,
        input_responses: Mapping[str, InputResponse] | None = None,
        request_state: str | UnsetType = UNSET,
        **options: Unpack[RequestOptions],
    ) -> dict[str, Any]: ...
    async def read_resource(
        self,
        uri: str,
        *,
        raw: bool = False,
        allow_input_required: bool = False,
        input_responses: Mapping[str, InputResponse] | None = None,
        request_state: str | UnsetType = UNSET,
        **options: Unpack[RequestOptions],
    ) -> ReadResourceResult | InputRequiredResult | dict[str, Any]:
        """Read a resource.

        Raises:
            ResourceNotFound: there is none at this URI.
        """
        return await self._call_with_input(
            ReadResourceResult,
            methods.RESOURCES_READ,
            {"uri": uri},
            raw,
            allow_input_required,
            input_responses,
            request_state,
            options,
        )

    @overload
    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        raw: Literal[False] = False,
        allow_input_required: Literal[False] = False,
        input_responses: Mapping[str, InputResponse] | None = None,
        request_state: str | UnsetType = UNSET,
        **options: Unpack[RequestOptions],
    ) -> GetPromptResult: ...
    @overload
    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        raw: Literal[False] = False,
        allow_input_required: Literal[True],
        input_responses: Mapping[str, InputResponse] | None = None,
        request_state: str | UnsetType = UNSET,
        **options: Unpack[RequestOptions],
    ) -> GetPromptResult | InputRequiredResult: ...
    @overload
    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        raw: Literal[True],
        allow_input_required: bool = False,
        input_responses: Mapping[str, InputResponse] | None = None,
        request_state: str | UnsetType = UNSET,
        **options: Unpack[RequestOptions],
    ) -> dict[str, Any]: ...
    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        raw: bool = False,
        allow_input_required: bool = False,
        input_responses: Mapping[str, InputResponse] | None = None,
        request_state: str | UnsetType = UNSET,
        **options: Unpack[RequestOptions],
    ) -> GetPromptResult | InputRequiredResult | dict[str, Any]:
        """Render a prompt."""
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        return await self._call_with_input(
            GetPromptResult,
            methods.PROMPTS_GET,
            params,
            raw,
            allow_input_required,
            input_responses,
            request_state,
            options,
        )

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

    # --- beside the calls ---

    def listen(
        self, requested: SubscriptionFilter, *, timeout: float | Default | None = DEFAULT
    ) -> Listening:
        """Subscribe to changes: `async with client.listen(SubscriptionFilter(...)) as subscription`.

        The block begins when the server has said what it will report (`Subscription.honored`); leaving it
        ends the subscription.  Any number may be open; none of them holds a slot, and none times out.

        In a modern connection this is one `subscriptions/listen`.  In a legacy session it rides on
        `resources/subscribe` and on the notifications that the server has announced.

        Args:
            requested: the changes wanted.
            timeout: seconds for the server to acknowledge (legacy: for each `resources/subscribe`).

        Raises:
            RequestTimeout: it did not.
            RpcError: the server refuses.
            ConnectionLost: the connection has ended.
        """
        limit = self._supervisor.options.request_timeout if isinstance(timeout, Default) else timeout
        check_limit("timeout", limit)

        async def request(method: str, params: dict[str, Any]) -> object:
            return await self._request(method, params, timeout=limit)

        return Listening(
            self._session,
            requested,
            era=self.era,
            capabilities=self.server.capabilities,
            request=request,
            timeout=limit,
        )

    async def roots_changed(self) -> bool:
        """Tell a legacy server that the roots have changed, if `InputHandlers.roots_changes` announced that.

        Returns:
            Whether it was told.  A modern server asks each time, and is never told.
        """
        inputs = self._supervisor.options.inputs
        if self.era is Era.MODERN or not inputs.roots_changes:
            return False
        await self._session.notify(methods.ROOTS_CHANGED, None)
        return True

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

    async def set_log_level(self, level: LoggingLevel, *, timeout: float | Default | None = DEFAULT) -> None:
        """Tell a legacy server the lowest severity of the log messages wanted, until it is told otherwise.

        Args:
            level: one of the eight severities.
            timeout: seconds, as of any request.

        Raises:
            LocalProtocolError: the level is unknown, or the connection is modern, where each request has its
                own: `ClientOptions.log_level`, and `log_level=` of a request.
            InvalidParams: the server does not know the level.
        """
        if self.era is Era.MODERN:
            raise LocalProtocolError(
                "set_log_level does not exist in a modern connection: "
                "use ClientOptions.log_level, or log_level= of a request",
                server=self.name,
            )
        self._check_log_level(level)
        await self._request(methods.SET_LEVEL, {"level": level}, timeout=timeout)
