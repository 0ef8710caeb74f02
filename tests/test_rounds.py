"""The bookkeeping of multi round trips, without any connection."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp_stdio._wire.input_required import FIRST_DELAY, LONGEST_DELAY, InputRounds

PARAMS = {"name": "t", "arguments": {"a": 1}}
QUESTION = {"method": "roots/list"}


def rounds(limit: int = 10) -> InputRounds:
    return InputRounds(PARAMS, limit=limit)


@pytest.mark.requirement("MRTR-18", "MRTR-11")
def test_a_retry_is_the_original_with_answers_and_state() -> None:
    flow = rounds()

    assert flow.accept({"inputRequests": {"": QUESTION}, "requestState": "s"}) == {"": QUESTION}
    assert flow.retry({"": {"roots": []}}) == {
        **PARAMS,
        "inputResponses": {"": {"roots": []}},
        "requestState": "s",
    }
    assert PARAMS == {"name": "t", "arguments": {"a": 1}}


@pytest.mark.requirement("MRTR-13", "MRTR-14")
@pytest.mark.parametrize(
    "state", ["", '{ "a" :1 }', "{", "https://example.com/?a=b", "\\u0041 \U0001f600 \n"]
)
def test_the_state_goes_back_as_it_came(state: str) -> None:
    flow = rounds()
    flow.accept({"requestState": state})

    assert flow.retry({}) == {**PARAMS, "requestState": state}


@pytest.mark.requirement("MRTR-15")
def test_the_state_is_that_of_the_latest_result_only() -> None:
    flow = rounds()
    flow.accept({"requestState": "old"})
    flow.accept({"inputRequests": {"k": QUESTION}})

    assert flow.retry({"k": {}}) == {**PARAMS, "inputResponses": {"k": {}}}


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"inputRequests": None, "requestState": None},
        {"inputRequests": []},
        {"inputRequests": "k", "requestState": "s"},
        {"requestState": 1},
        {"inputRequests": {}, "requestState": {"a": 1}},
    ],
)
def test_an_interim_result_of_the_wrong_shape_is_refused(result: dict[str, Any]) -> None:
    flow = rounds()

    with pytest.raises(ValueError, match=r"inputRequests|requestState"):
        flow.accept(result)
    assert flow.rounds == 0


@pytest.mark.requirement("MRTR-12")
def test_repetitions_without_a_question_become_slower_up_to_a_bound() -> None:
    flow = rounds(limit=100)
    delays = []
    for _ in range(12):
        flow.accept({"requestState": "s"})
        delays.append(flow.delay)

    assert delays[:4] == [0.0, FIRST_DELAY, 2 * FIRST_DELAY, 4 * FIRST_DELAY]
    assert delays[-1] == LONGEST_DELAY
    assert delays == sorted(delays)
    flow.accept({"inputRequests": {"k": QUESTION}, "requestState": "s"})
    assert flow.delay == 0.0
    flow.accept({"inputRequests": {}})  # nothing is asked either
    assert flow.delay == 0.0
    flow.accept({"inputRequests": {}})
    assert flow.delay == FIRST_DELAY


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_the_limit_counts_repetitions(limit: int) -> None:
    flow = rounds(limit)
    for _ in range(limit):
        flow.accept({"requestState": "s"})
        assert not flow.exhausted
    flow.accept({"requestState": "s"})

    assert flow.exhausted
