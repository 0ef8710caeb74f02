"""Input that a server asks for: elicitation, sampling and roots, in both eras.

In the modern era a server puts its questions into an interim result and the client repeats the request
with the answers; in the legacy era it sends requests of its own.  The handlers are the same.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, final
from urllib.parse import unquote

import attrs
import trio

from .. import types
from .._errors import InputRequiredError, InvalidResult, LocalProtocolError, McpError
from .._wire import methods
from .._wire.codec import structure, unstructure
from .._wire.convert import UNSET
from .._wire.forms import check_content, with_defaults
from .._wire.methods import Era

if TYPE_CHECKING:
    from ..types import (
        ClientCapabilities,
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitRequestFormParams,
        ElicitRequestURLParams,
        ElicitResult,
        Root,
    )

__all__ = ["InputContext", "InputHandlers", "InputRefused", "answer_all"]

T = TypeVar("T")

USER_REJECTED: Final = -1

_KINDS: Final = (methods.ELICIT, methods.SAMPLE, methods.ROOTS_LIST)


@final
@attrs.frozen(kw_only=True)
class InputContext:
    """What a handler is told beside the question.

    Attributes:
        server: name of the server that asks, as configured.
        era: era of the connection.
        method: the request of this client that needs the input, None in the legacy era, where a question
            belongs to no request.
        key: the server's own key for the question, None in the legacy era.
    """

    server: str
    era: Era
    method: str | None = None
    key: str | None = None


FormHandler: TypeAlias = "Callable[[ElicitRequestFormParams, InputContext], Awaitable[ElicitResult]]"
UrlHandler: TypeAlias = "Callable[[ElicitRequestURLParams, InputContext], Awaitable[ElicitResult]]"
SampleHandler: TypeAlias = (
    "Callable[[CreateMessageRequestParams, InputContext], Awaitable[CreateMessageResult | None]]"
)
RootsHandler: TypeAlias = "Callable[[InputContext], Awaitable[Sequence[Root]]]"


class InputRefused(Exception):
    """A question that cannot be answered: `code` is the error that a legacy server gets."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@final
@attrs.frozen(kw_only=True)
class InputHandlers:
    """How this client answers what a server asks.  Only what has a handler is announced.

    Handlers are async and run in the task of the call that needs them (modern), or in a task of the client
    (legacy), side by side; they are cancelled with the call, or by the server.  What one raises ends the
    call with that exception (modern), or is answered as an error (legacy).

    Args:
        elicit_form: fills in a form; defaults of the schema are added to an accepted answer, which is then
            checked against the schema.  Nothing is sent before it returns, so answers can be reviewed.
        elicit_url: asks the user to visit a page.  Nothing is fetched or opened by this package;
            `describe_url` takes the address apart for display.
        sample: asks a model for a message; None declines.  Deprecated by the specification for new servers.
        sample_tools: the `sample` handler knows tools.
        roots: the directories a server may work in, as a sequence or a function asked each time.
            Deprecated by the specification for new servers.
        roots_changes: announce that `Client.roots_changed` will be called (legacy only).
        timeout: seconds that one handler may take, None for no limit.  The time does not count
            towards the timeout of the call.
        max_rounds: how often one request is repeated with input before it fails.
    """

    elicit_form: FormHandler | None = None
    elicit_url: UrlHandler | None = None
    sample: SampleHandler | None = None
    sample_tools: bool = False
    roots: Sequence[Root] | RootsHandler | None = None
    roots_changes: bool = False
    timeout: float | None = 600.0
    max_rounds: int = 10

    def __attrs_post_init__(self) -> None:
        if self.sample_tools and self.sample is None:
            raise ValueError("sample_tools needs a sample handler")
        if self.roots_changes and self.roots is None:
            raise ValueError("roots_changes needs roots")
        if self.max_rounds < 0:
            raise ValueError(f"max_rounds must not be negative: {self.max_rounds!r}")
        if self.timeout is not None and not 0 <= self.timeout < float("inf"):
            raise ValueError(f"timeout must be a number of seconds, or None: {self.timeout!r}")
        if isinstance(self.roots, Sequence):
            for root in self.roots:
                _check_root(root)

    def announce(self, capabilities: ClientCapabilities, *, legacy: bool) -> ClientCapabilities:
        """The capabilities with what these handlers stand for."""
        changes: dict[str, Any] = {}
        modes: dict[str, Any] = {}
        if self.elicit_form is not None:
            modes["form"] = {}
        if self.elicit_url is not None:
            modes["url"] = {}
        if modes:
            changes["elicitation"] = modes
        if self.sample is not None:
            changes["sampling"] = {"tools": {}} if self.sample_tools else {}
        if self.roots is not None:
            changes["roots"] = {"listChanged": True} if legacy and self.roots_changes else {}
        for name, settings in changes.items():
            changes[name] = {**(getattr(capabilities, name) or {}), **settings}
        return attrs.evolve(capabilities, **changes) if changes else capabilities

    async def answer(
        self, method: str, params: Mapping[str, Any], context: InputContext, version: str
    ) -> dict[str, Any]:
        """Answer one question; returns the result as it goes onto the wire.

        Raises:
            InputRefused: there is no handler, the handler declined, or the limit passed.
            InvalidResult: the question has the wrong shape.
            LocalProtocolError: the handler's answer does.
        """
        with trio.CancelScope() as scope:
            if self.timeout is not None:
                scope.deadline = trio.current_time() + self.timeout
            if method == methods.ELICIT:
                return await self._elicit(params, context)
            if method == methods.SAMPLE and self.sample is not None:
                return await self._sample(self.sample, params, context, version)
            if method == methods.ROOTS_LIST and self.roots is not None:
                return await self._list_roots(self.roots, context)
            raise InputRefused(methods.METHOD_NOT_FOUND, f"no handler for {method}")
        raise InputRefused(
            methods.INTERNAL_ERROR, f"the handler of {method} took more than {self.timeout:g} s"
        )

    async def _elicit(self, params: Mapping[str, Any], context: InputContext) -> dict[str, Any]:
        if params.get("mode") == "url":
            if self.elicit_url is None:
                raise self._no_mode("url")
            page = structure(types.ElicitRequestURLParams, params, method=methods.ELICIT)
            result = await self.elicit_url(page, context)
            _check_type(result, types.ElicitResult)
            return unstructure(attrs.evolve(result, content=UNSET))
        if self.elicit_form is None:
            raise self._no_mode("form")
        form = structure(types.ElicitRequestFormParams, params, method=methods.ELICIT)
        result = await self.elicit_form(form, context)
        _check_type(result, types.ElicitResult)
        if result.action != "accept":
            return unstructure(attrs.evolve(result, content=UNSET))
        content = with_defaults(form.requested_schema, result.content or {})
        problems = check_content(form.requested_schema, content)
        if problems:
            raise LocalProtocolError(
                f"the answer to an elicitation does not fit its form: {'; '.join(problems)}",
                server=context.server,
            )
        return unstructure(attrs.evolve(result, content=content))

    def _no_mode(self, mode: str) -> InputRefused:
        if self.elicit_form is None and self.elicit_url is None:
            return InputRefused(methods.METHOD_NOT_FOUND, f"no handler for {methods.ELICIT}")
        return InputRefused(methods.INVALID_PARAMS, f"no handler for elicitation in {mode} mode")

    async def _sample(
        self, handler: SampleHandler, params: Mapping[str, Any], context: InputContext, version: str
    ) -> dict[str, Any]:
        asked = structure(types.CreateMessageRequestParams, params, method=methods.SAMPLE)
        if not self.sample_tools and (asked.tools is not UNSET or asked.tool_choice is not UNSET):
            raise InputRefused(methods.INVALID_PARAMS, "sampling with tools was not announced")
        _check_tool_results(asked)
        result = await handler(asked, context)
        if result is None:
            raise InputRefused(USER_REJECTED, "the user rejected the sampling request")
        _check_type(result, types.CreateMessageResult)
        _check_blocks(result, version)
        return unstructure(result)

    async def _list_roots(
        self, roots: Sequence[Root] | RootsHandler, context: InputContext
    ) -> dict[str, Any]:
        listed = tuple(roots if isinstance(roots, Sequence) else await roots(context))
        for root in listed:
            _check_root(root)
        return unstructure(types.ListRootsResult(roots=listed))


def _check_type(result: object, cls: type) -> None:
    if not isinstance(result, cls):
        raise LocalProtocolError(f"the handler returned {type(result).__name__}, not {cls.__name__}")


def _check_root(root: Root) -> None:
    _check_type(root, types.Root)
    if not root.uri.startswith("file://"):
        raise LocalProtocolError(f"a root has to be a file:// URI, not {root.uri!r:.200}")
    if ".." in re.split(r"[/\\?#]", unquote(root.uri)):
        raise LocalProtocolError(f"a root must not hold '..': {root.uri!r:.200}")


def _check_blocks(result: CreateMessageResult, version: str) -> None:
    """Refuse what the revision does not have (the peer could not read it)."""
    if isinstance(result.content, tuple) and version < "2025-11-25":
        raise LocalProtocolError(f"a sampling result is one block in revision {version}, not several")
    for block in result.blocks:
        if isinstance(block, types.ToolUseContent | types.ToolResultContent) and version < "2025-11-25":
            raise LocalProtocolError(f"sampling has no tools in revision {version}")
        if isinstance(block, types.AudioContent) and version < "2025-03-26":
            raise LocalProtocolError(f"there is no audio in revision {version}")


def _check_tool_results(asked: CreateMessageRequestParams) -> None:
    """A message with tool results holds nothing else, and answers the tool uses before it (2025-11-25)."""
    wanted: list[str] = []
    for message in asked.messages:
        results = [block for block in message.blocks if isinstance(block, types.ToolResultContent)]
        if results and len(results) < len(message.blocks):
            raise InputRefused(methods.INVALID_PARAMS, "a message mixes tool results with other content")
        if sorted(block.tool_use_id for block in results) != wanted:
            raise InputRefused(methods.INVALID_PARAMS, "tool results do not match the tool uses before them")
        wanted = sorted(block.id for block in message.blocks if isinstance(block, types.ToolUseContent))
    if wanted:
        raise InputRefused(methods.INVALID_PARAMS, "tool results are missing for the last tool uses")


async def answer_all(
    handlers: InputHandlers,
    requests: Mapping[str, Any],
    *,
    server: str,
    method: str,
    version: str,
    result: Mapping[str, Any],
) -> dict[str, Any]:
    """Answer all questions of an interim result side by side; returns the answers under the same keys.

    The first failure cancels the other handlers: without all answers there is no use for any.

    Raises:
        InputRequiredError: a question has no handler, or was declined.
        InvalidResult, LocalProtocolError: as `InputHandlers.answer`; and whatever a handler raises.  With
            several failures the first in the order of the keys is raised, the others are noted on it.
    """
    problems = [
        f"inputRequests[{key!r:.80}]: asks for nothing that the specification knows"
        for key, request in requests.items()
        if not isinstance(request, Mapping) or request.get("method") not in _KINDS
    ]
    if problems:
        raise InvalidResult(method=method, problems=problems, server=server)
    answers: dict[str, Any] = {}
    failures: dict[str, Exception] = {}

    async def answer(key: str, request: Any) -> None:
        try:
            params = request.get("params")
            context = InputContext(server=server, era=Era.MODERN, method=method, key=key)
            answers[key] = await handlers.answer(
                request["method"], params if isinstance(params, Mapping) else {}, context, version
            )
        except InputRefused as refused:
            failures[key] = InputRequiredError(
                method=method, result=result, reason=f"{refused} (asked for as {key!r})", server=server
            )
        except Exception as error:
            if isinstance(error, McpError) and error.server is None:
                error.server = server
            failures[key] = error
        if failures:
            nursery.cancel_scope.cancel(reason="an input failed")

    try:
        async with trio.open_nursery() as nursery:
            for key, request in requests.items():
                nursery.start_soon(answer, key, request)
    except BaseExceptionGroup as group:  # cancellations, and the like of KeyboardInterrupt
        raise _first(group) from None
    for key in requests:
        if key in failures:
            error = failures[key]
            for other in requests:
                if other != key and other in failures:
                    error.add_note(f"input {other!r} failed as well: {failures[other]!r}")
            try:
                raise error
            finally:
                del error, failures
    return {key: answers[key] for key in requests}


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """One exception for those of several handlers; cancellations come last."""
    error: BaseException = group.split(trio.Cancelled)[1] or group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
