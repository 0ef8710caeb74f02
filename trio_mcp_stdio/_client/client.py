"""The client: the calls, and the two ways to open it."""

from __future__ import annotations

import contextlib
import functools
import logging
import operator
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast, final, overload

import trio

from .. import types
from .._connection.logs import check_level, with_level
from .._connection.session import Session, check_limit
from .._connection.transports import Transport
from .._errors import (
    InvalidResult,
    LocalProtocolError,
    RpcError,
    UnsupportedProtocolVersion,
)
from .._io.nursery import ServiceNursery
from .._wire import methods
from .._wire.codec import structure, unstructure
from .._wire.convert import UNSET, UnsetType
from .._wire.listing import read_result
from .._wire.methods import Era
from ..types import (
    CallToolResult,
    CompleteResult,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    LoggingLevel,
    ProcessExit,
    Prompt,
    PromptReference,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
    Tool,
)
from .listening import Listening
from .options import DEFAULT, ClientOptions, Default, RequestOptions
from .pages import MAX_PAGES, Page, Pages, collect_pages
from .rounds import needs_input, resumed, supply_input
from .statistics import ClientStatistics, collect
from .supervisor import ClientState, ServerDescription, Supervisor
from .validation import KnownTools, Validation

if TYPE_CHECKING:
    from ..types import InputRequiredResult, InputResponse, SubscriptionFilter

__all__ = ["Client", "open_client", "run_client"]

T = TypeVar("T")
P = TypeVar("P", bound=Page)

# A library says nothing on its own: what it logs goes where the application sends it.
logging.getLogger("trio_mcp_stdio").addHandler(logging.NullHandler())

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
    methods.SET_LEVEL: "logging",
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
        self._tools = KnownTools(supervisor.transport.name)

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

    # --- whole lists ---

    async def all_tools(
        self, *, max_pages: int = MAX_PAGES, **options: Unpack[RequestOptions]
    ) -> tuple[Tool, ...]:
        """All tools of the server, from all pages.

        `timeout` limits all pages together; `idle_timeout` each of them.  Items that cannot be read are left
        out; the pages tell them.

        Raises:
            EndlessList: a cursor came a second time, or there are more than `max_pages` pages.
        """
        return await self._all(ListToolsResult, "tools", methods.TOOLS_LIST, max_pages, options)

    def tool_pages(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        max_pages: int = MAX_PAGES,
        **options: Unpack[RequestOptions],
    ) -> Pages[ListToolsResult]:
        """The pages of the server's tools, each asked for when it is wanted, from `cursor` on.

        Each page is a request with a `timeout` of its own.
        """
        return self._pages(ListToolsResult, methods.TOOLS_LIST, cursor, max_pages, options)

    async def all_resources(
        self, *, max_pages: int = MAX_PAGES, **options: Unpack[RequestOptions]
    ) -> tuple[Resource, ...]:
        """All resources of the server, from all pages; otherwise as `all_tools`."""
        return await self._all(ListResourcesResult, "resources", methods.RESOURCES_LIST, max_pages, options)

    def resource_pages(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        max_pages: int = MAX_PAGES,
        **options: Unpack[RequestOptions],
    ) -> Pages[ListResourcesResult]:
        """The pages of the server's resources; otherwise as `tool_pages`."""
        return self._pages(ListResourcesResult, methods.RESOURCES_LIST, cursor, max_pages, options)

    async def all_resource_templates(
        self, *, max_pages: int = MAX_PAGES, **options: Unpack[RequestOptions]
    ) -> tuple[ResourceTemplate, ...]:
        """All resource templates of the server, from all pages; otherwise as `all_tools`."""
        return await self._all(
            ListResourceTemplatesResult,
            "resource_templates",
            methods.RESOURCE_TEMPLATES_LIST,
            max_pages,
            options,
        )

    def resource_template_pages(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        max_pages: int = MAX_PAGES,
        **options: Unpack[RequestOptions],
    ) -> Pages[ListResourceTemplatesResult]:
        """The pages of the server's resource templates; otherwise as `tool_pages`."""
        return self._pages(
            ListResourceTemplatesResult, methods.RESOURCE_TEMPLATES_LIST, cursor, max_pages, options
        )

    async def all_prompts(
        self, *, max_pages: int = MAX_PAGES, **options: Unpack[RequestOptions]
    ) -> tuple[Prompt, ...]:
        """All prompts of the server, from all pages; otherwise as `all_tools`."""
        return await self._all(ListPromptsResult, "prompts", methods.PROMPTS_LIST, max_pages, options)

    def prompt_pages(
        self,
        cursor: str | UnsetType = UNSET,
        *,
        max_pages: int = MAX_PAGES,
        **options: Unpack[RequestOptions],
    ) -> Pages[ListPromptsResult]:
        """The pages of the server's prompts; otherwise as `tool_pages`."""
        return self._pages(ListPromptsResult, methods.PROMPTS_LIST, cursor, max_pages, options)

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

    # --- inside ---

    @property
    def _session(self) -> Session:
        session = self._supervisor.session
        assert session is not None
        return session

    def _pages(
        self,
        cls: type[P],
        method: str,
        cursor: str | UnsetType,
        max_pages: int,
        options: RequestOptions,
    ) -> Pages[P]:
        async def ask(at: str | UnsetType) -> P:
            return cast(P, await self._call(cls, method, _page(at), False, options))

        return Pages(ask, method=method, server=self.name, cursor=cursor, max_pages=max_pages)

    async def _all(
        self, cls: type[Any], member: str, method: str, max_pages: int, options: RequestOptions
    ) -> tuple[Any, ...]:
        timeout = options.get("timeout", DEFAULT)
        if timeout is DEFAULT:
            timeout = self._supervisor.options.request_timeout
        else:
            check_limit("timeout", timeout)

        async def ask(at: str | UnsetType, left: float | None) -> Any:
            return await self._call(cls, method, _page(at), False, {**options, "timeout": left})

        return await collect_pages(
            ask,
            operator.attrgetter(member),
            method=method,
            server=self.name,
            max_pages=max_pages,
            timeout=timeout,
        )

    async def _call(
        self, cls: type[T], method: str, params: dict[str, Any], raw: bool, options: RequestOptions
    ) -> T | dict[str, Any]:
        result = await self._request(method, params, **options)
        return result if raw else self._read(cls, method, result)

    async def _call_with_input(
        self,
        cls: type[T],
        method: str,
        params: dict[str, Any],
        raw: bool,
        allow_input_required: bool,
        responses: Mapping[str, Any] | None,
        state: str | UnsetType,
        options: RequestOptions,
    ) -> T | InputRequiredResult | dict[str, Any]:
        """Call a method whose answer may need input first (basic: multi round-trip requests)."""
        began = trio.current_time()
        result = await self._request(method, resumed(params, responses, state), **options)
        if raw:
            return result
        if needs_input(result) and self.era is Era.MODERN:
            if allow_input_required:
                return structure(types.InputRequiredResult, result, method=method)

            async def request(params: dict[str, Any], timeout: float | None) -> dict[str, Any]:
                again: RequestOptions = {**options, "timeout": timeout}
                return await self._request(method, params, **again)

            timeout = options.get("timeout", DEFAULT)
            if timeout is DEFAULT:
                timeout = self._supervisor.options.request_timeout
            result = await supply_input(
                request,
                method=method,
                params=params,
                result=result,
                handlers=self._supervisor.options.inputs,
                timeout=timeout,
                spent=trio.current_time() - began,
                server=self.name,
                version=self.protocol_version,
            )
        return self._read(cls, method, result)

    def _read(self, cls: type[T], method: str, result: dict[str, Any]) -> T:
        kind = result.get("resultType", "complete")
        if kind != "complete" and self.era is Era.MODERN:
            problem = f"resultType: {kind!r:.80} is not defined for this method"
            raise InvalidResult(method=method, problems=[problem], server=self.name)
        try:
            if cls is CallToolResult:  # nothing more is to be done with it
                return structure(cls, result, method=method)
            read = read_result(cls, result, method=method)
        except InvalidResult as error:
            error.server = self.name
            raise
        if isinstance(read, ListToolsResult):
            self._tools.remember(read.tools)
        if problems := getattr(read, "problems", None):
            shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" * (len(problems) > 5))
            self._session.notes.add_tolerated(f"items of {method} that cannot be read, left out", shown)
        return read

    async def _request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        timeout: float | Default | None = DEFAULT,
        idle_timeout: float | None = None,
        on_progress: Any = None,
        meta: Mapping[str, Any] | None = None,
        log_level: LoggingLevel | Default | None = DEFAULT,
    ) -> dict[str, Any]:
        supervisor = self._supervisor
        if timeout is DEFAULT:
            timeout = supervisor.options.request_timeout
        else:
            check_limit("timeout", timeout)
        if idle_timeout is not None:
            check_limit("idle_timeout", idle_timeout)
        if log_level is DEFAULT:
            log_level = supervisor.options.log_level
            if log_level is not None and self.era is Era.LEGACY:
                log_level = None  # the session was told
        elif log_level is not None:
            self._check_log_level(log_level)
            if self.era is Era.LEGACY:
                raise LocalProtocolError(
                    "log_level of a request does not exist in a legacy connection: use set_log_level",
                    server=self.name,
                )
        if log_level is not None:
            meta = with_level(meta, params, log_level)
        if supervisor.options.strict:
            self._check_announced(method)
        send = self._session.request
        if supervisor.tracing is not None:
            send = functools.partial(supervisor.tracing.request, self._session)
        began = trio.current_time() if not supervisor.probed else 0.0
        try:
            return await send(
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
        return await send(
            method, params, timeout=timeout, idle_timeout=idle_timeout, on_progress=on_progress, meta=meta
        )

    def _check_log_level(self, level: LoggingLevel) -> None:
        try:
            check_level(level)
        except LocalProtocolError as error:
            error.server = self.name
            raise

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
