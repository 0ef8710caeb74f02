"""Requests: from a method of the client to the session, and from a result to its class."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import trio

from .. import types
from .._connection.logs import check_level, with_level
from .._connection.session import Session, check_limit
from .._errors import (
    InvalidResult,
    LocalProtocolError,
    UnsupportedProtocolVersion,
)
from .._wire import methods
from .._wire.codec import structure
from .._wire.convert import UNSET, UnsetType, brief
from .._wire.listing import read_result
from .._wire.methods import Era
from ..types import (
    CallToolResult,
    ListToolsResult,
    LoggingLevel,
)
from .options import DEFAULT, Default, RequestOptions
from .rounds import needs_input, resumed, supply_input
from .supervisor import ServerDescription, Supervisor
from .validation import KnownTools

if TYPE_CHECKING:
    from ..types import InputRequiredResult

__all__ = ["Requests"]

T = TypeVar("T")

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


class Requests:
    """The part of a client that sends requests and reads results."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._tools = KnownTools(supervisor.transport.name)

    # --- what is known ---

    @property
    def name(self) -> str:
        """Name of the server in logs and errors."""
        return self._supervisor.transport.name

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
        if not isinstance(method, str):
            raise LocalProtocolError(f"a method is a string, not {brief(method)}", server=self.name)
        if method in _SENT_BY_CLIENT:
            raise LocalProtocolError(f"{method} is sent by the client itself", server=self.name)
        if self.era is Era.MODERN and method in _LEGACY_NOTIFICATIONS:
            raise LocalProtocolError(f"{method} does not exist in a modern connection", server=self.name)
        await self._session.notify(method, params)

    # --- for the methods that name theirs ---

    @property
    def _session(self) -> Session:
        session = self._supervisor.session
        assert session is not None
        return session

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
            problem = f"resultType: {brief(kind)} is not defined for this method"
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
