"""The peer's requests, by a dispatcher that nothing is connected to."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp_stdio import LocalProtocolError, RpcError
from trio_mcp_stdio._connection.dispatch import MAX_RUNNING, Dispatcher
from trio_mcp_stdio._wire.jsonrpc import Request


@attrs.define
class Desk:
    """Handlers that wait for their gate, and what was answered."""

    gates: dict[str, trio.Event] = attrs.field(factory=dict)
    sent: list[Any] = attrs.field(factory=list)
    cancelled: list[str] = attrs.field(factory=list)
    dispatcher: Dispatcher = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.dispatcher = Dispatcher(self.handle, reply=self.reply, name="desk")

    def reply(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        self.sent.append(json.loads(line))

    async def handle(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method == "at-once":
            return {"n": params["n"]}
        if method == "raise":
            raise params["error"]
        if method == "bad-result":
            return {"n": float("nan")}
        gate = self.gates.setdefault(method, trio.Event())
        try:
            await gate.wait()
        except trio.Cancelled:
            self.cancelled.append(method)
            if method == "stubborn":
                return {"too": "late"}
            raise
        return {"was": method}

    def start(self, *requests: Request, **options: Any) -> None:
        self.dispatcher.start(requests, **options)

    def open(self, method: str) -> None:
        self.gates[method].set()


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            made.dispatcher.nursery = nursery
            yield made
            nursery.cancel_scope.cancel()


def result(request_id: int | str, value: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


def codes(sent: list[Any]) -> list[tuple[int | str, int]]:
    return [(message["id"], message["error"]["code"]) for message in sent]


async def test_requests_run_side_by_side_and_are_answered_as_they_end() -> None:
    async with desk() as made:
        made.start(Request(1, "slow", {}))
        made.start(Request("1", "quick", {}))  # another id
        await wait_all_tasks_blocked()
        assert "2 running" in repr(made.dispatcher)
        made.open("quick")
        await wait_all_tasks_blocked()
        assert made.sent == [result("1", {"was": "quick"})]
        made.open("slow")
        await wait_all_tasks_blocked()
        assert made.sent[1:] == [result(1, {"was": "slow"})]
        made.start(Request(1, "at-once", {"n": 0}))  # the id is free again
        await wait_all_tasks_blocked()
        assert made.sent[2:] == [result(1, {"n": 0})]


async def test_an_id_in_use_is_refused_and_the_first_goes_on() -> None:
    async with desk() as made:
        made.start(Request(7, "slow", {}))
        made.start(Request(7, "at-once", {"n": 1}))
        await wait_all_tasks_blocked()
        assert codes(made.sent) == [(7, -32600)]
        made.open("slow")
        await wait_all_tasks_blocked()
        assert made.sent[1:] == [result(7, {"was": "slow"})]


async def test_no_more_than_so_many_run_at_a_time() -> None:
    async with desk() as made:
        for number in range(MAX_RUNNING + 2):
            made.start(Request(number, "slow", {}))
        await wait_all_tasks_blocked()
        assert codes(made.sent) == [(MAX_RUNNING, -32603), (MAX_RUNNING + 1, -32603)]
        made.sent.clear()
        made.open("slow")
        await wait_all_tasks_blocked()
        assert sorted(message["id"] for message in made.sent) == list(range(MAX_RUNNING))


def test_nothing_runs_before_the_connection_has_a_nursery() -> None:
    made = Desk()
    made.start(Request(1, "at-once", {"n": 1}))

    assert codes(made.sent) == [(1, -32603)]


@pytest.mark.requirement("LEG-CANCEL-03", "LEG-CANCEL-05", "LEG-CANCEL-06")
async def test_a_cancelled_request_stops_and_is_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trio_mcp_stdio.connection")
    async with desk() as made:
        made.start(Request(1, "slow", {}))
        made.start(Request(2, "other", {}))
        await wait_all_tasks_blocked()
        assert made.dispatcher.cancel(1, "no longer needed")
        await wait_all_tasks_blocked()
        assert made.cancelled == ["slow"]
        assert not made.dispatcher.cancel(1, "again")
        made.open("other")
        await wait_all_tasks_blocked()
        assert made.sent == [result(2, {"was": "other"})]
    assert "no longer needed" in caplog.text


@pytest.mark.requirement("LEG-CANCEL-03", "LEG-CANCEL-05")
async def test_one_cancelled_in_the_step_of_its_arrival_is_not_answered() -> None:
    async with desk() as made:
        made.start(Request(1, "at-once", {"n": 1}))  # its handler would never notice
        made.start(Request(2, "raise", {"error": ValueError()}))
        assert made.dispatcher.cancel(1, None)
        assert made.dispatcher.cancel(2, None)
        await wait_all_tasks_blocked()
        assert made.sent == []


async def test_a_handler_that_swallows_its_cancellation_is_not_answered_either() -> None:
    async with desk() as made:
        made.start(Request(1, "stubborn", {}))
        await wait_all_tasks_blocked()
        assert made.dispatcher.cancel(1, "stop")
        await wait_all_tasks_blocked()
        assert made.cancelled == ["stubborn"]
        assert made.sent == []


@pytest.mark.requirement("LEG-CANCEL-02", "LEG-CANCEL-04")
async def test_cancellations_of_nothing_are_told_from_others() -> None:
    async with desk() as made:
        made.start(Request(1, "slow", {}))
        await wait_all_tasks_blocked()
        for unknown in (2, "1", True, None, 1.5, [], {}):
            assert not made.dispatcher.cancel(unknown, "?")
        await wait_all_tasks_blocked()
        assert made.cancelled == []


@pytest.mark.parametrize(
    ("code", "sent"),
    [
        (-1, -1),
        (7, 7),
        (-32601, -32601),
        (-32602, -32602),
        (-32603, -32603),
        (-32000, -32603),
        (-32002, -32603),
        (-32021, -32603),
        (-32042, -32603),
        (-32099, -32603),
        (-32768, -32603),
        (-32769, -32769),
        (-31999, -31999),
    ],
)
async def test_codes_that_the_specification_reserves_are_not_minted(code: int, sent: int) -> None:
    async with desk() as made:
        made.start(Request(1, "raise", {"error": RpcError(code, "why " * 1000)}))
        await wait_all_tasks_blocked()
        assert codes(made.sent) == [(1, sent)]
        assert made.sent[0]["error"]["message"] == ("why " * 1000)[:1000]


@pytest.mark.parametrize("error", [ValueError("private"), LocalProtocolError("private")])
async def test_other_failures_are_logged_and_answered_without_details(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with desk() as made:
        made.start(Request(1, "raise", {"error": error}))
        await wait_all_tasks_blocked()
        assert codes(made.sent) == [(1, -32603)]
        assert "private" not in str(made.sent)
    assert "desk: " in caplog.text


async def test_a_result_without_a_json_form_is_an_internal_error() -> None:
    async with desk() as made:
        made.start(Request(1, "bad-result", {}))
        await wait_all_tasks_blocked()
        assert codes(made.sent) == [(1, -32603)]


@pytest.mark.requirement("LEG-BATCH-04")
async def test_a_batch_is_answered_as_one_array_when_all_have_ended() -> None:
    async with desk() as made:
        pong = b'{"jsonrpc":"2.0","id":9,"result":{}}\n'
        made.start(
            Request(1, "slow", {}),
            Request(2, "at-once", {"n": 2}),
            Request(2, "at-once", {"n": 3}),
            Request(4, "gone", {}),
            ready=[pong],
            batch=True,
        )
        await wait_all_tasks_blocked()
        assert made.sent == []
        assert made.dispatcher.cancel(4, "not that one")
        made.open("slow")
        await wait_all_tasks_blocked()
    (answers,) = made.sent
    assert answers[0] == result(9, {})
    assert (answers[1]["id"], answers[1]["error"]["code"]) == (2, -32600)
    assert answers[2:] == [result(1, {"was": "slow"}), result(2, {"n": 2})]


@pytest.mark.requirement("LEG-BATCH-04")
async def test_a_batch_without_anything_to_answer_is_not_answered() -> None:
    async with desk() as made:
        made.start(Request(1, "slow", {}), Request(2, "slow", {}), batch=True)
        await wait_all_tasks_blocked()
        made.dispatcher.cancel(1, None)
        made.dispatcher.cancel(2, None)
        await wait_all_tasks_blocked()
        assert made.sent == []
        made.start(batch=True)
        assert made.sent == []


async def test_a_batch_of_too_many_has_the_refusals_in_its_array() -> None:
    async with desk() as made:
        requests = [Request(n, "at-once", {"n": n}) for n in range(MAX_RUNNING + 1)]
        made.start(*requests, batch=True)
        await wait_all_tasks_blocked()
    (answers,) = made.sent
    assert codes(answers[:1]) == [(MAX_RUNNING, -32603)]
    assert len(answers) == MAX_RUNNING + 1
