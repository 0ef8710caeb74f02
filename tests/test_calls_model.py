"""The call table under any interleaving of what can happen to it, against a model that reads the bytes."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any, ClassVar
from unittest import mock

import attrs
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trio_mcp_stdio import Delivery
from trio_mcp_stdio._wire import calls
from trio_mcp_stdio._wire.calls import Call, CallState, CallTable, LostCall, TooLong
from trio_mcp_stdio._wire.jsonrpc import (
    Failure,
    Malformed,
    Notification,
    Request,
    Success,
    encode_failure,
    encode_request,
)

LIMITS = {"MAX_ABANDONED": 2, "MAX_PROGRESS": 3, "MAX_REPLIES": 3}
"""Small, so that every bound is reached."""

METHOD_NOT_FOUND = -32601


@attrs.define(eq=False)
class Model:
    """What is known of one call without looking into the table."""

    call: Call
    line: bytes
    cancellable: bool
    wants_progress: bool
    state: str = "queued"  # then: written, ended, abandoned
    wakes: int = 0
    expected_wakes: int = 0
    outcome: Any = None
    updates: list[float] = attrs.field(factory=list)

    @property
    def live(self) -> bool:
        return self.state in ("queued", "written")


class CallTableMachine(RuleBasedStateMachine):
    """Drives one table; `self.out` is what a peer would read if the writer got everything through."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = [mock.patch.object(calls, name, value) for name, value in LIMITS.items()]
        for patch in self.patches:
            patch.start()
        self.strict = False
        self.models: dict[int, Model] = {}
        self.out = bytearray()
        self.sent = 0
        self.control: list[bytes] = []  # lines in the two lanes before the requests, oldest first
        self.replies: list[bytes] = []
        self.queue: list[Model] = []
        self.abandoned: OrderedDict[int, None] = OrderedDict()
        self.notices: list[int] = []  # ids, in the order in which they have to be on the wire
        self.notified = False
        self.counts = dict.fromkeys(
            ("answered", "errors", "late", "unmatched", "strings", "null", "stray"), 0
        )
        self.lost = False

    def teardown(self) -> None:
        try:
            self.read_to_the_end()
        finally:
            for patch in self.patches:
                patch.stop()

    @initialize(strict=st.booleans())
    def start(self, strict: bool) -> None:
        self.strict = strict
        self.oddities: list[Any] = []
        self.table = CallTable(strict=strict, note=lambda oddity, text: self.oddities.append((oddity, text)))

    # --- choosing ---

    def written(self) -> list[Model]:
        return [model for model in self.models.values() if model.state == "written"]

    def some_id(self, data: st.DataObject) -> int:
        """Any id there ever was, sometimes one that there was not."""
        return data.draw(st.integers(-1, len(self.models) + 2), label="id")

    def end(self, model: Model, outcome: Any) -> None:
        assert model.live
        if model.state == "queued":
            self.queue.remove(model)
        model.state = "ended"
        model.outcome = outcome
        model.expected_wakes += 1

    def matched(self, request_id: int | str, *, strict: bool | None = None) -> Model | None:
        """The written call that an id on the wire means."""
        if isinstance(request_id, str):
            if (
                (self.strict if strict is None else strict)
                or not request_id.isdecimal()
                or str(int(request_id)) != request_id
            ):
                return None
            request_id = int(request_id)
        model = self.models.get(request_id)
        return model if model is not None and model.state == "written" else None

    # --- this side ---

    @rule(size=st.integers(0, 90), cancellable=st.booleans(), progress=st.booleans())
    def open(self, size: int, cancellable: bool, progress: bool) -> None:
        request_id = self.table.reserve_id()
        assert request_id not in self.models
        line = encode_request(request_id, "m", json.dumps({"x": "y" * size}).encode())
        model: Model

        def wake() -> None:
            model.wakes += 1

        call = self.table.open(
            request_id, "m", line, wake=wake, cancellable=cancellable, wants_progress=progress
        )
        model = self.models[request_id] = Model(call, line, cancellable, progress)
        self.queue.append(model)

    @rule(limit=st.integers(1, 400) | st.just(65_536))
    def take_batch(self, limit: int) -> None:
        there_was = bool(self.control or self.replies or self.queue)
        batch = self.table.take_batch(limit)
        assert (batch is not None) == there_was
        if batch is None:
            return
        lines = batch.splitlines(keepends=True)
        assert len(batch) <= limit or len(lines) == 1
        for line in lines:
            if self.control and line == self.control[0]:
                self.control.pop(0)
            elif self.replies and line == self.replies[0]:
                self.replies.pop(0)
            else:
                model = self.queue.pop(0)
                assert line == model.line
                model.state = "written"
        self.out += batch

    @precondition(lambda self: self.sent < len(self.out))
    @rule(share=st.floats(0, 1))
    def note_sent(self, share: float) -> None:
        count = max(1, int(share * (len(self.out) - self.sent)))
        self.table.note_sent(count)
        self.sent += count

    @precondition(lambda self: self.models)
    @rule(data=st.data(), reason=st.sampled_from(["timeout passed", "the caller cancelled it", "naïve \n"]))
    def abandon(self, data: st.DataObject, reason: str) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.models)), label="id")
        model = self.models[request_id]
        told = self.table.abandon(model.call, reason)
        assert told == (model.state == "written" and model.cancellable)
        if told:
            params = {"requestId": request_id, "reason": reason}
            self.control.append(notification("notifications/cancelled", params))
            self.notices.append(request_id)
            self.notified = True
        if model.state == "written":
            self.abandoned[request_id] = None
            if len(self.abandoned) > LIMITS["MAX_ABANDONED"]:
                self.abandoned.popitem(last=False)
        if model.state == "queued":
            self.queue.remove(model)
        if model.live:
            model.state = "abandoned"

    @rule(size=st.none() | st.integers(0, 60))
    def notify(self, size: int | None) -> None:
        params = None if size is None else {"x": "z" * size}
        self.table.notify("n", None if params is None else json.dumps(params, separators=(",", ":")).encode())
        self.control.append(notification("n", params))
        self.notified = True

    @rule(size=st.integers(0, 60))
    def reply(self, size: int) -> None:
        line = encode_failure("r", 1, "w" * size)
        accepted = self.table.reply(line)
        assert accepted == (len(self.replies) < LIMITS["MAX_REPLIES"])
        if accepted:
            self.replies.append(line)

    # --- the peer ---

    @rule(
        data=st.data(),
        form=st.sampled_from(["int", "int", "int", "str", "padded", "negative"]),
        success=st.booleans(),
        code=st.sampled_from([METHOD_NOT_FOUND, -1, 5]),
    )
    def answer(self, data: st.DataObject, form: str, success: bool, code: int) -> None:
        """Also the late, the second, the premature and the unasked-for."""
        number = self.some_id(data)
        request_id: int | str = {
            "int": number,
            "str": str(number),
            "padded": f"0{number}",
            "negative": -number,
        }[form]
        message = Success(request_id, {"of": number}) if success else Failure(request_id, code, "no", None)
        model = self.matched(request_id, strict=False)
        assert self.table.receive(message) is None
        if model is not None:
            in_wrong_type = isinstance(request_id, str)
            self.counts["strings"] += in_wrong_type
            if in_wrong_type and self.strict:
                assert isinstance(model.call.outcome, Malformed)
                assert model.call.outcome.id == model.call.id
                self.end(model, model.call.outcome)
            else:
                self.counts["answered" if success else "errors"] += 1
                self.end(model, message)
            return
        plain = request_id
        if isinstance(plain, str) and plain.isdecimal() and str(int(plain)) == plain:
            plain = int(plain)
        if plain in self.abandoned:
            del self.abandoned[plain]  # type: ignore[arg-type]
            self.counts["late"] += 1
        else:
            self.counts["unmatched"] += 1

    @rule(code=st.sampled_from([METHOD_NOT_FOUND, -1]))
    def error_without_id(self, code: int) -> None:
        message = Failure(None, code, "who are you", None)
        written = self.written()
        assert self.table.receive(message) is None
        self.counts["null"] += 1
        if len(written) == 1 and not (code == METHOD_NOT_FOUND and self.notified):
            self.counts["errors"] += 1
            self.end(written[0], message)

    @rule(
        data=st.data(),
        as_string=st.booleans(),
        value=st.sampled_from([0, 0.5, 10**9, None, True, "1", float("nan"), float("inf")]),
    )
    def progress(self, data: st.DataObject, as_string: bool, value: Any) -> None:
        number = self.some_id(data)
        token: Any = str(number) if as_string else number
        model = self.matched(token)
        self.table.receive(
            Notification("notifications/progress", {"progressToken": token, "progress": value, "total": "?"})
        )
        valid = type(value) in (int, float) and value == value and abs(value) != float("inf")
        if model is not None and model.wants_progress and valid:
            model.updates = [*model.updates, value][-LIMITS["MAX_PROGRESS"] :]
            model.expected_wakes += 1

    @rule(token=st.sampled_from([None, True, 1.0, [1], {}, "x"]))
    def progress_for_nothing(self, token: Any) -> None:
        params = {"progressToken": token, "progress": 1}
        assert self.table.receive(Notification("notifications/progress", params)) is None

    @precondition(lambda self: any(model.updates for model in self.models.values() if model.live))
    @rule(data=st.data())
    def take_progress(self, data: st.DataObject) -> None:
        model = data.draw(
            st.sampled_from([model for model in self.models.values() if model.updates and model.live])
        )
        assert model.call.progress is not None
        assert model.call.progress.popleft().progress == model.updates.pop(0)

    @rule(data=st.data(), as_string=st.booleans(), too_long=st.booleans())
    def garbage_for_one(self, data: st.DataObject, as_string: bool, too_long: bool) -> None:
        """A line that cannot be read, but whose id was found."""
        number = self.some_id(data)
        request_id: int | str = str(number) if as_string else number
        outcome = TooLong(10, 20) if too_long else Malformed("why", b"{", request_id, noise=False)
        model = self.matched(request_id)
        late = request_id in self.abandoned
        assert self.table.fail(request_id, outcome) == (model is not None or late)
        if model is not None:
            self.end(model, outcome)
        if late:
            del self.abandoned[number]
            self.counts["late"] += 1

    @rule(data=st.data())
    def message_of_its_own(self, data: st.DataObject) -> None:
        """Requests and notifications of the peer are handed on, whatever ids are in them."""
        number = self.some_id(data)
        request = Request(number, "ping", {})
        assert self.table.receive(request) is request
        for method, params in (
            ("notifications/message", {"data": number}),
            ("notifications/cancelled", {"requestId": number}),
            ("notifications/cancelled", {}),
        ):
            notice = Notification(method, params)
            assert self.table.receive(notice) is notice
        self.counts["stray"] += 2

    @rule()
    def end_of_everything(self) -> None:
        why = object()
        expected = {request_id: self.delivered(model) for request_id, model in self.models.items()}
        live = [model for model in self.models.values() if model.live]
        self.table.fail_all(why)
        for model in live:
            outcome = model.call.outcome
            assert isinstance(outcome, LostCall)
            assert outcome.why is why
            assert outcome.delivery is expected[model.call.id]  # type: ignore[index]
            self.end(model, outcome)

    # --- what holds after every step ---

    def offset(self, model: Model) -> int:
        """Where the line of a request begins in the output, -1 when it is not in it."""
        if self.out.startswith(model.line):
            return 0
        found = self.out.find(b"\n" + model.line)
        return found if found < 0 else found + 1

    def delivered(self, model: Model) -> Delivery:
        start = self.offset(model)
        if start < 0 or self.sent <= start:
            return Delivery.NOT_SENT
        return Delivery.PARTLY_SENT if self.sent < start + len(model.line) else Delivery.OUTCOME_UNKNOWN

    @invariant()
    def calls_are_where_they_belong(self) -> None:
        states = {
            "queued": CallState.QUEUED,
            "written": CallState.WRITTEN,
            "ended": CallState.SETTLED,
            "abandoned": CallState.SETTLED,
        }
        for request_id, model in self.models.items():
            call = model.call
            assert call.state is states[model.state]
            assert call.outcome is model.outcome
            assert model.wakes == model.expected_wakes
            assert self.table.is_pending(request_id) == (model.state == "written")
            if model.live:
                assert self.table.delivery(call) is self.delivered(model)
            if model.wants_progress:
                assert [update.progress for update in call.progress or ()] == model.updates
            else:
                assert call.progress is None
            if model.state != "queued":
                assert call.line is None  # nobody keeps what has been handed over

    @invariant()
    def output_is_whole_lines_in_order(self) -> None:
        assert self.out == b"" or self.out.endswith(b"\n")
        seen: set[int] = set()
        cancelled: list[int] = []
        for line in self.out.splitlines():
            message = json.loads(line)
            if message.get("method") == "m":
                assert message["id"] not in seen
                seen.add(message["id"])
            elif message.get("method") == "notifications/cancelled":
                request_id = message["params"]["requestId"]
                assert type(request_id) is int
                assert request_id in seen
                cancelled.append(request_id)
        assert len(set(cancelled)) == len(cancelled)
        assert cancelled == self.notices[: len(cancelled)]
        for request_id, model in self.models.items():
            if model.state == "queued":
                assert request_id not in seen
            elif model.state == "written":
                assert request_id in seen

    @invariant()
    def bytes_add_up(self) -> None:
        waiting = [*self.control, *self.replies, *[model.line for model in self.queue]]
        statistics = self.table.statistics()
        assert self.table.has_output == bool(waiting)
        assert self.table.count_unsent() == sum(map(len, waiting)) + len(self.out) - self.sent
        assert statistics.unsent_bytes == self.table.count_unsent()
        assert statistics.bytes_sent == self.sent

    @invariant()
    def counters_agree(self) -> None:
        statistics = self.table.statistics()
        live = [model for model in self.models.values() if model.live]
        assert statistics.in_flight == len(live)
        assert statistics.queued == len(self.queue)
        assert statistics.requests == len(self.models)
        assert statistics.cancelled == len(self.notices)
        assert statistics.answered == self.counts["answered"]
        assert statistics.errors == self.counts["errors"]
        assert statistics.late == self.counts["late"]
        assert statistics.unmatched == self.counts["unmatched"]
        assert statistics.string_ids == self.counts["strings"]
        assert statistics.null_id_errors == self.counts["null"]
        assert statistics.stray_cancels == self.counts["stray"]

    @invariant()
    def nothing_grows(self) -> None:
        """Whatever the table keeps is bounded by what is live and what waits to be written."""
        live = sum(model.live for model in self.models.values())
        bound = max(live, len(self.control), len(self.replies), LIMITS["MAX_ABANDONED"])
        for name, value in vars(self.table).items():
            if hasattr(value, "__len__"):
                assert len(value) <= bound, name

    def read_to_the_end(self) -> None:
        """When all has been written, every notice that was promised has been, and nothing is held."""
        while (batch := self.table.take_batch(50)) is not None:
            self.out += batch
        self.table.note_sent(len(self.out) - self.sent)
        messages = [json.loads(line) for line in self.out.splitlines()]
        cancelled = [
            m["params"]["requestId"] for m in messages if m.get("method") == "notifications/cancelled"
        ]
        assert cancelled == self.notices
        requested = [m["id"] for m in messages if m.get("method") == "m"]
        never = {i for i, model in self.models.items() if model.state == "abandoned" and i not in requested}
        assert not never & set(cancelled)
        assert requested == sorted(requested)
        assert self.table.count_unsent() == 0
        assert not self.table.has_output
        self.table.fail_all(None)
        for model in self.models.values():
            assert (model.call.outcome is None) == (model.state == "abandoned")
        statistics = self.table.statistics()
        assert (statistics.in_flight, statistics.queued, statistics.unsent_bytes) == (0, 0, 0)
        held = {
            name: len(value)
            for name, value in vars(self.table).items()
            if hasattr(value, "__len__") and len(value)
        }
        assert sum(held.values()) <= LIMITS["MAX_ABANDONED"], held


def notification(method: str, params: dict[str, Any] | None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


@pytest.mark.requirement(
    "CANCEL-01",
    "CANCEL-02",
    "CANCEL-03",
    "CANCEL-04",
    "CANCEL-10",
    "CANCEL-11",
    "MSG-05",
    "MSG-06",
    "PROG-02",
)
class TestCallTable(CallTableMachine.TestCase):  # type: ignore[name-defined, misc]
    settings: ClassVar[settings] = settings(
        max_examples=120, stateful_step_count=60, suppress_health_check=[HealthCheck.too_slow]
    )
