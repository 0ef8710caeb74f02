"""The call table, one behaviour at a time; tests/test_calls_model.py has the interleavings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trio_mcp_stdio import Delivery
from trio_mcp_stdio._wire import calls
from trio_mcp_stdio._wire.calls import Call, CallState, CallTable, LostCall, Oddity
from trio_mcp_stdio._wire.jsonrpc import (
    Failure,
    Malformed,
    Notification,
    Success,
    encode_request,
    encode_success,
)


def opened(table: CallTable, size: int = 0, **options: Any) -> tuple[Call, list[int]]:
    """A call in the table, and a list that grows each time it is woken."""
    woken: list[int] = []
    request_id = table.reserve_id()
    line = encode_request(request_id, "tools/call", b'{"x":"%b"}' % (b"y" * size))
    options.setdefault("wake", lambda: woken.append(1))
    return table.open(request_id, "tools/call", line, **options), woken


def written(table: CallTable, size: int = 0, **options: Any) -> tuple[Call, list[int]]:
    call, woken = opened(table, size, **options)
    batch = table.take_batch()
    assert batch is not None
    assert call.state is CallState.WRITTEN
    return call, woken


def drained(table: CallTable, limit: int = 65_536) -> list[bytes]:
    """The batches that are left."""
    batches = []
    while (batch := table.take_batch(limit)) is not None:
        batches.append(batch)
    return batches


def methods(batches: list[bytes]) -> list[str]:
    """What the lines of the batches are, in order."""
    return [json.loads(line).get("method", "answer") for batch in batches for line in batch.splitlines()]


def test_ids_rise_and_are_never_used_again() -> None:
    table = CallTable()
    first, _ = opened(table)
    table.abandon(first, "")
    second, _ = written(table)
    table.receive(Success(second.id, {}))
    assert [first.id, second.id, table.reserve_id()] == [1, 2, 3]


def test_id_in_use_is_refused() -> None:
    table = CallTable()
    call, _ = opened(table)
    with pytest.raises(ValueError, match="in use"):
        table.open(call.id, "m", b"{}\n", wake=lambda: None)
    assert table.statistics().requests == 1


def test_queued_call_leaves_no_trace() -> None:
    table = CallTable()
    call, woken = opened(table)
    assert not table.abandon(call, "changed its mind")
    assert call.state is CallState.SETTLED
    assert call.outcome is None
    assert not woken
    assert table.count_unsent() == 0
    assert not table.has_output
    assert table.take_batch() is None


@pytest.mark.requirement("CANCEL-01", "CANCEL-03", "CANCEL-14")
def test_written_call_gets_one_notice() -> None:
    table = CallTable()
    call, woken = written(table)
    assert table.abandon(call, "the caller cancelled it")
    assert not table.abandon(call, "again")
    (batch,) = drained(table)
    assert json.loads(batch) == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": call.id, "reason": "the caller cancelled it"},
    }
    assert not woken


def test_answered_call_gets_none() -> None:
    table = CallTable()
    call, woken = written(table)
    table.receive(Success(call.id, {}))
    assert not table.abandon(call, "too late")
    assert not table.has_output
    assert woken == [1]


def test_lost_call_gets_none() -> None:
    table = CallTable()
    call, _ = written(table)
    table.fail_all("why")
    assert not table.abandon(call, "too late")
    assert not table.has_output


def test_call_of_the_negotiation_gets_none() -> None:
    table = CallTable()
    call, _ = written(table, cancellable=False)
    assert not table.abandon(call, "x")
    assert not table.has_output
    assert table.statistics().cancelled == 0


def test_queued_call_cannot_be_answered() -> None:
    """Nothing can have answered what nobody has seen; its id may be guessed all the same."""
    table = CallTable()
    call, woken = opened(table)
    table.receive(Success(call.id, {}))
    table.receive(Failure(str(call.id), -1, "", None))
    table.receive(Failure(None, -1, "", None))
    assert not table.fail(call.id, calls.TooLong(1, 2))
    assert call.state is CallState.QUEUED
    assert not woken
    assert table.statistics().unmatched == 2


@pytest.mark.requirement("CANCEL-10")
def test_late_answer_is_told_from_a_second_one() -> None:
    noted: list[tuple[Oddity, str]] = []
    table = CallTable(note=lambda oddity, text: noted.append((oddity, text)))
    given_up, _ = written(table)
    answered, _ = written(table)
    table.abandon(given_up, "")
    for _ in range(2):
        table.receive(Success(given_up.id, {}))
        table.receive(Success(answered.id, {}))
    assert [oddity for oddity, _ in noted] == [Oddity.LATE, Oddity.UNMATCHED, Oddity.UNMATCHED]
    assert "already settled" in noted[2][1]
    statistics = table.statistics()
    assert (statistics.late, statistics.unmatched, statistics.answered) == (1, 2, 1)


def test_abandoned_ids_are_remembered_up_to_a_bound() -> None:
    table = CallTable()
    given_up = []
    for _ in range(calls.MAX_ABANDONED + 10):
        call, _ = written(table)
        table.abandon(call, "")
        given_up.append(call)
    drained(table)
    for call in (given_up[0], given_up[9], given_up[10], given_up[-1]):
        table.receive(Success(call.id, {}))
    assert (table.statistics().late, table.statistics().unmatched) == (2, 2)


@pytest.mark.parametrize("text", ["01", " 1", "1 ", "+1", "1.0", "-1", "", "١", "1" * 30, "one"])
def test_only_the_usual_form_of_an_integer_stands_for_it(text: str) -> None:
    table = CallTable()
    call, _ = written(table)
    table.receive(Success(text, {}))
    assert call.state is CallState.WRITTEN
    assert table.statistics().unmatched == 1


def test_string_id_of_this_side_is_not_met_by_an_integer() -> None:
    table = CallTable()
    call = table.open("7", "m", b"{}\n", wake=lambda: None)
    table.take_batch()
    table.receive(Success(7, {}))
    assert call.state is CallState.WRITTEN
    table.receive(Success("7", {}))
    assert call.state is CallState.SETTLED


@pytest.mark.parametrize("answer", [Success("1", {}), Failure("1", -1, "no", None)])
def test_string_for_an_integer_fails_the_call_when_strict(answer: Success | Failure) -> None:
    table = CallTable(strict=True)
    call, woken = written(table)
    table.receive(answer)
    assert isinstance(call.outcome, Malformed)
    assert call.outcome.id == call.id
    assert woken == [1]
    assert table.statistics().string_ids == 1


def test_string_for_an_integer_is_accepted_otherwise() -> None:
    table = CallTable()
    call, woken = written(table)
    answer = Success("1", {})
    table.receive(answer)
    assert call.outcome is answer
    assert woken == [1]
    assert table.statistics().string_ids == 1


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("notified", [False, True])
@pytest.mark.parametrize("code", [-32601, -32600])
def test_error_without_an_id(others: int, notified: bool, code: int) -> None:
    table = CallTable()
    call, woken = written(table)
    for _ in range(others):
        written(table)
    opened(table)  # one that is queued does not count
    if notified:
        table.notify("n", None)
    table.receive(Failure(None, code, "x", None))
    matched = not others and not (notified and code == -32601)
    assert (call.outcome is not None) == matched
    assert bool(woken) == matched
    assert table.statistics().null_id_errors == 1


@pytest.mark.requirement("PROG-10")
def test_newest_progress_is_kept_at_the_bound() -> None:
    table = CallTable()
    call, woken = written(table, wants_progress=True)
    count = calls.MAX_PROGRESS + 5
    for value in range(count):
        table.receive(Notification("notifications/progress", {"progressToken": call.id, "progress": value}))
    assert call.progress is not None
    assert [call.progress[0].progress, call.progress[-1].progress] == [5, count - 1]
    assert len(woken) == count
    assert (table.statistics().progress, table.statistics().progress_dropped) == (count, 5)


@pytest.mark.parametrize(
    "value",
    [10**400, -(10**400), 1e308, 5e-324, 2**63, True, "1", None, [], {}],
    ids=lambda value: repr(value)[:10],
)
@pytest.mark.parametrize("member", ["progress", "total", "message"])
def test_no_value_in_progress_raises(member: str, value: object) -> None:
    table = CallTable()
    call, _ = written(table, wants_progress=True)
    params = {"progressToken": call.id, "progress": 1, "total": 2, "message": "x", member: value}
    table.receive(Notification("notifications/progress", params))
    found = table.statistics()
    assert found.progress + found.unknown_progress == 1
    assert call.state is CallState.WRITTEN


def test_progress_after_the_answer_is_dropped() -> None:
    table = CallTable()
    call, woken = written(table, wants_progress=True)
    table.receive(Success(call.id, {}))
    table.receive(Notification("notifications/progress", {"progressToken": call.id, "progress": 1}))
    assert woken == [1]
    assert not call.progress
    assert table.statistics().unknown_progress == 1


def test_replies_are_bounded() -> None:
    table = CallTable()
    accepted = [table.reply(encode_success(n, b"{}")) for n in range(calls.MAX_REPLIES + 3)]
    assert accepted == [True] * calls.MAX_REPLIES + [False] * 3
    assert (table.statistics().replies, table.statistics().replies_dropped) == (calls.MAX_REPLIES, 3)
    drained(table)
    assert table.reply(encode_success(1, b"{}"))


def test_lanes_in_their_order() -> None:
    table = CallTable()
    opened(table)
    table.reply(encode_success(1, b"{}"))
    table.notify("n", None)
    assert methods(drained(table)) == ["n", "answer", "tools/call"]


def test_request_of_the_negotiation_goes_before_answers() -> None:
    """`initialize` is the first message of a session, whatever the server has asked meanwhile."""
    table = CallTable()
    table.reply(encode_success(1, b"{}"))
    opened(table, cancellable=False)
    opened(table)
    assert methods(drained(table)) == ["tools/call", "answer", "tools/call"]


def test_request_never_overtakes_a_notification() -> None:
    """Also when the notification does not fit into a batch that the request would fit into."""
    table = CallTable()
    table.notify("first", b'{"x":"%b"}' % (b"y" * 60))
    table.notify("second", b'{"x":"%b"}' % (b"y" * 60))
    table.reply(encode_success(1, b'{"x":"%b"}' % (b"y" * 60)))
    opened(table)
    assert methods(drained(table, limit=180)) == ["first", "second", "answer", "tools/call"]


def test_batch_is_bounded_by_lines() -> None:
    table = CallTable()
    sizes = [10, 10, 500, 10, 10]
    lines = [opened(table, size)[0].line for size in sizes]
    batches = drained(table, limit=200)
    assert b"".join(batches) == b"".join(line for line in lines if line)
    assert [batch.count(b"\n") for batch in batches] == [2, 1, 2]


def test_delivery_follows_the_bytes() -> None:
    table = CallTable()
    first, _ = opened(table)
    second, _ = opened(table)
    assert first.line is not None
    size = len(first.line)
    assert table.delivery(first) is Delivery.NOT_SENT
    table.take_batch()
    assert table.delivery(first) is Delivery.NOT_SENT
    table.note_sent(1)
    assert table.delivery(first) is Delivery.PARTLY_SENT
    assert table.delivery(second) is Delivery.NOT_SENT
    table.note_sent(size - 2)
    assert table.delivery(first) is Delivery.PARTLY_SENT
    table.note_sent(1)
    assert table.delivery(first) is Delivery.OUTCOME_UNKNOWN
    assert table.delivery(second) is Delivery.NOT_SENT
    table.note_sent(1)
    third, _ = opened(table)
    table.fail_all("why")
    outcomes = [call.outcome for call in (first, second, third)]
    assert all(isinstance(outcome, LostCall) and outcome.why == "why" for outcome in outcomes)
    assert [outcome.delivery for outcome in outcomes if isinstance(outcome, LostCall)] == [
        Delivery.OUTCOME_UNKNOWN,
        Delivery.PARTLY_SENT,
        Delivery.NOT_SENT,
    ]


def test_failing_all_twice_changes_nothing() -> None:
    table = CallTable()
    call, woken = written(table)
    table.fail_all("first")
    table.fail_all("second")
    assert isinstance(call.outcome, LostCall)
    assert call.outcome.why == "first"
    assert woken == [1]


def test_caller_that_is_woken_may_use_the_table() -> None:
    """A wake-up that opens and abandons calls in the middle of the end of all of them."""
    table = CallTable()
    others: list[Call] = []

    def wake() -> None:
        others.append(opened(table)[0])
        if others[0].state is CallState.QUEUED:
            table.abandon(others[0], "")

    for _ in range(3):
        written(table, wake=wake)
    table.fail_all("why")
    assert table.statistics().in_flight == 2


def test_representations() -> None:
    table = CallTable()
    call, _ = opened(table)
    assert repr(call) == "<Call 1 tools/call queued>"
    assert "1 in flight, 1 of them queued" in repr(table)
