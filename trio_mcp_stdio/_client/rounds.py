"""The rounds of a request that needs input: questions out of interim results, answers into its repetition."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from .._errors import InputRequiredError, InvalidResult, RequestTimeout
from .._wire.codec import unstructure
from .._wire.convert import UNSET, Record, UnsetType
from .._wire.input_required import InputRounds
from .inputs import InputHandlers, answer_all

__all__ = ["needs_input", "resumed", "supply_input"]


def needs_input(result: Mapping[str, Any]) -> bool:
    """Whether a result is an interim one."""
    return result.get("resultType") == "input_required"


def resumed(
    params: dict[str, Any], responses: Mapping[str, Any] | None, state: str | UnsetType
) -> dict[str, Any]:
    """The parameters of a request that takes up an interim result of an earlier one."""
    if responses is None and state is UNSET:
        return params
    params = dict(params)
    if responses is not None:
        params["inputResponses"] = {
            key: unstructure(response) if isinstance(response, Record) else response
            for key, response in responses.items()
        }
    if state is not UNSET:
        params["requestState"] = state
    return params


async def supply_input(
    request: Callable[[dict[str, Any], float | None], Awaitable[dict[str, Any]]],
    *,
    method: str,
    params: Mapping[str, Any],
    result: dict[str, Any],
    handlers: InputHandlers,
    timeout: float | None,
    spent: float,
    server: str,
    version: str,
) -> dict[str, Any]:
    """Repeat a request with the input it asks for, until it is answered.

    One deadline holds over all rounds; its clock stands while handlers are at work.

    Args:
        request: sends the request with these parameters, within this many seconds.
        params: the original parameters.
        result: the first interim result.
        timeout: seconds for all rounds, None for no limit.
        spent: seconds of it used by the first round.
    """
    rounds = InputRounds(params, limit=handlers.max_rounds)
    while needs_input(result):
        try:
            questions = rounds.accept(result)
        except ValueError as error:
            raise InvalidResult(method=method, problems=[str(error)], server=server) from None
        if rounds.exhausted:
            reason = f"it was asked for more than {handlers.max_rounds} times (max_rounds)"
            raise InputRequiredError(method=method, result=result, reason=reason, server=server)
        answers = await answer_all(
            handlers, questions, server=server, method=method, version=version, result=result
        )
        left = math.inf if timeout is None else timeout - spent
        began = trio.current_time()
        await trio.sleep(max(0.0, min(rounds.delay, left)))
        spent += trio.current_time() - began
        if timeout is not None and spent >= timeout:
            raise RequestTimeout(
                method=method, request_id=None, timeout=timeout, elapsed=spent, server=server
            )
        began = trio.current_time()
        try:
            result = await request(rounds.retry(answers), None if timeout is None else timeout - spent)
        except RequestTimeout as error:
            if timeout is None or error.idle:
                raise
            # What the caller set is the limit of all rounds; that of this one is no concern of theirs.
            raise RequestTimeout(
                method=method,
                request_id=error.request_id,
                timeout=timeout,
                elapsed=spent + error.elapsed,
                received=error.received,
                server=server,
            ) from None
        spent += trio.current_time() - began
    return result
