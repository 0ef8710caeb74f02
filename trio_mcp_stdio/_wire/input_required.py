"""Multi round trips: the bookkeeping of a request that needs input before it can be answered.

    request ──► input_required(inputRequests, requestState) ──► the same request again, under a new id,
                with the answers and the state ──► … ──► complete

The state belongs to the server: it goes back as it came, and is left out when the latest result had none
(specification, basic: multi round-trip requests).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["InputRounds"]

FIRST_DELAY: Final = 0.05
LONGEST_DELAY: Final = 2.0
"""Seconds before a round that merely repeats the request: the second such in a row waits FIRST_DELAY,
each further one twice as long, up to LONGEST_DELAY."""
MAX_QUESTIONS: Final = 64
"""Input requests that one interim result may hold."""


class InputRounds:
    """The rounds of one request.

    Args:
        params: the original parameters, without `inputResponses` and `requestState`.
        limit: how many times the request is repeated at most.

    Attributes:
        rounds: interim results so far.
        delay: seconds to wait before the next round.
    """

    def __init__(self, params: Mapping[str, Any], *, limit: int) -> None:
        self._params = params
        self._limit = limit
        self._state: Any = None
        self._repeats = 0
        self.rounds = 0
        self.delay = 0.0

    @property
    def exhausted(self) -> bool:
        """Whether the limit has been reached."""
        return self.rounds > self._limit

    def accept(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take an interim result; return what it asks for, by key.

        Raises:
            ValueError: it has neither input requests nor a state, or they have the wrong shape.
        """
        requests, state = result.get("inputRequests"), result.get("requestState")
        if requests is None and state is None:
            raise ValueError("has neither inputRequests nor requestState")
        if requests is not None and not isinstance(requests, Mapping):
            raise ValueError("inputRequests: is no object")
        if state is not None and not isinstance(state, str):
            raise ValueError("requestState: is no string")
        if requests is not None and len(requests) > MAX_QUESTIONS:
            raise ValueError(f"inputRequests: more than {MAX_QUESTIONS} of them")
        self.rounds += 1
        self._state = state
        self._repeats = 0 if requests else self._repeats + 1
        self.delay = 0.0
        if self._repeats > 1:
            self.delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(self._repeats - 2, 16))
        return requests or {}

    def retry(self, responses: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the next round."""
        params = dict(self._params)
        if responses:
            params["inputResponses"] = dict(responses)
        if self._state is not None:
            params["requestState"] = self._state
        return params
