"""Revision 2026-07-28, the client's half: what it writes and accepts, with a scripted server."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest
import trio
import trio.testing

from helpers import logged
from scripted import (
    CAPABILITIES,
    CAPABILITIES_KEY,
    CLIENT_KEY,
    EVERY_CALL,
    INFO,
    LEGACY,
    MODERN,
    SERVER_KEY,
    VERSION_KEY,
    Message,
    connecting,
    discovered,
    initialized,
    running,
    session,
    text,
)
from trio_mcp_stdio import (
    UNSET,
    ClientOptions,
    Era,
    LocalProtocolError,
    NegotiationError,
    Notification,
    ProgressUpdate,
    RequestTimeout,
    StartupTimeout,
)
from trio_mcp_stdio.types import ClientCapabilities, Implementation

LONG: dict[str, float] = {"probe_timeout": 600.0, "startup_timeout": 600.0}
ME = Implementation(name="me", version="2")
META = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}, CLIENT_KEY: {"name": "me", "version": "2"}}


def methods(messages: list[Any]) -> list[str]:
    return [message["method"] for message in messages if "method" in message]


def cancelled_ids(messages: list[Any]) -> list[int]:
    notices = [message for message in messages if message.get("method") == "notifications/cancelled"]
    return [notice["params"]["requestId"] for notice in notices]


# --- Negotiation


@pytest.mark.requirement("ERA-01", "ERA-02", "DISC-02", "META-01", "META-02", "META-03")
async def test_probe_is_the_first_line_and_the_only_one_until_it_is_answered() -> None:
    log, options = logged(info=ME, **LONG)
    async with connecting(options) as attempt:
        probe = await attempt.peer.request()
        await trio.testing.wait_all_tasks_blocked()
        assert log.sent == [
            {"jsonrpc": "2.0", "id": probe["id"], "method": "server/discover", "params": {"_meta": META}}
        ]
        assert not attempt.done.is_set()
        await attempt.peer.reply(probe, discovered())
        client = await attempt.connected()
        assert (client.era, client.protocol_version) == (Era.MODERN, MODERN)
        client.stop()
        assert await attempt.peer.rest() == []


@pytest.mark.requirement("ERA-03", "DISC-07")
@pytest.mark.parametrize("versions", [[MODERN], [MODERN, "2099-01-01"], ["2099-01-01", MODERN, LEGACY]])
async def test_discover_result_settles_the_era_and_a_listed_version_is_used(versions: list[str]) -> None:
    log, options = logged(**LONG)
    async with session("modern", options, supportedVersions=versions) as (client, peer):
        assert client.era is Era.MODERN
        assert client.server.protocol_version == MODERN
        assert list(client.server.supported_versions) == versions
        for _ in range(3):
            async with running(client.list_tools):
                await peer.reply(await peer.request("tools/list"), {"tools": []})
    assert methods(log.sent) == ["server/discover"] + ["tools/list"] * 3
    assert all(message["params"]["_meta"][VERSION_KEY] == MODERN for message in log.sent)


@pytest.mark.requirement("ERA-05", "ERA-07", "ERA-17")
@pytest.mark.parametrize(
    "code",
    [-32601, -32602, -32600, -32603, -32700, -32000, -32001, -32003, -32004, -32042, -1, 0, 1, 404, -32099],
)
async def test_fallback_depends_on_no_particular_error_code(code: int) -> None:
    async with connecting(ClientOptions(**LONG)) as attempt:
        probe = await attempt.peer.request("server/discover")
        await attempt.peer.fail(probe, code, "whatever", {"supported": [MODERN]})
        request = await attempt.peer.request("initialize")
        assert request["id"] != probe["id"]
        await attempt.peer.reply(request, initialized())
        await attempt.peer.notification("notifications/initialized")
        assert (await attempt.connected()).era is Era.LEGACY


@pytest.mark.requirement("ERA-05")
@pytest.mark.parametrize("result", [{}, {"supportedVersions": "2026-07-28"}, {"content": []}])
async def test_result_that_is_no_discover_result_means_legacy(result: Message) -> None:
    async with connecting(ClientOptions(**LONG)) as attempt:
        await attempt.peer.reply(await attempt.peer.request("server/discover"), result)
        await attempt.peer.reply(await attempt.peer.request("initialize"), initialized())
        await attempt.peer.notification("notifications/initialized")
        assert (await attempt.connected()).era is Era.LEGACY


@pytest.mark.requirement("ERA-20")
@pytest.mark.parametrize("how", ["result", "error"])
@pytest.mark.parametrize("era", ["auto", "modern"])
async def test_only_legacy_versions_listed(how: str, era: str) -> None:
    versions = ["2024-11-05", "2025-06-18", "2099-01-01"]
    async with connecting(ClientOptions(era=era, **LONG)) as attempt:
        probe = await attempt.peer.request("server/discover")
        if how == "result":
            await attempt.peer.reply(probe, discovered(*versions))
        else:
            await attempt.peer.fail(probe, -32022, "no", {"supported": versions, "requested": MODERN})
        if era == "modern":
            assert await attempt.peer.rest() == []
            error = await attempt.refused()
            assert isinstance(error, NegotiationError)
            assert error.supported == tuple(versions)
        else:
            request = await attempt.peer.request("initialize")
            assert request["params"]["protocolVersion"] == "2025-06-18"
            await attempt.peer.reply(request, initialized("2025-06-18"))
            await attempt.peer.notification("notifications/initialized")
            client = await attempt.connected()
            assert (client.era, client.protocol_version) == (Era.LEGACY, "2025-06-18")


@pytest.mark.requirement("ERA-09")
async def test_server_is_probed_once_in_the_life_of_a_connection() -> None:
    async with session() as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(peer.serve)
        for _ in range(1000):
            await client.call_tool("echo")
        assert methods(peer.seen) == ["server/discover"] + ["tools/call"] * 1000
        client.stop()


@pytest.mark.requirement("ERA-10")
@pytest.mark.parametrize(
    ("code", "data"), [(-32601, None), (-32602, {"supported": [MODERN]}), (-32022, {"supported": [MODERN]})]
)
async def test_remembered_legacy_era_that_proves_wrong_is_probed_once(code: int, data: Any) -> None:
    async with connecting(ClientOptions(remembered=Era.LEGACY, **LONG)) as attempt:
        await attempt.peer.fail(await attempt.peer.request("initialize"), code, "no", data)
        await attempt.peer.reply(await attempt.peer.request("server/discover"), discovered())
        assert (await attempt.connected()).era is Era.MODERN
    assert methods(attempt.peer.seen) == ["initialize", "server/discover"]


@pytest.mark.requirement("ERA-10")
async def test_remembered_era_that_proves_wrong_with_no_other_left_is_an_error() -> None:
    async with connecting(ClientOptions(remembered=Era.LEGACY, **LONG)) as attempt:
        await attempt.peer.fail(await attempt.peer.request("initialize"), -32601)
        await attempt.peer.fail(await attempt.peer.request("server/discover"), -32601)
        assert await attempt.peer.rest() == []
        assert isinstance(await attempt.refused(), NegotiationError)


@pytest.mark.requirement("ERA-10")
async def test_remembered_modern_era_is_still_probed() -> None:
    async with connecting(ClientOptions(remembered=Era.MODERN, **LONG)) as attempt:
        await attempt.peer.fail(await attempt.peer.request("server/discover"), -32601)
        await attempt.peer.reply(await attempt.peer.request("initialize"), initialized())
        await attempt.peer.notification("notifications/initialized")
        assert (await attempt.connected()).era is Era.LEGACY


@pytest.mark.requirement("ERA-06", "ERA-19")
@pytest.mark.parametrize("order", ["discover first", "initialize first"])
async def test_success_of_initialize_means_legacy_also_next_to_a_late_discover_result(order: str) -> None:
    log, options = logged(probe_timeout=0.01, startup_timeout=600)
    async with connecting(options) as attempt:
        probe = await attempt.peer.request("server/discover")
        request = await attempt.peer.request("initialize")
        answers = [
            {"jsonrpc": "2.0", "id": probe["id"], "result": discovered()},
            {"jsonrpc": "2.0", "id": request["id"], "result": initialized()},
        ]
        await attempt.peer.send(*(answers if order == "discover first" else reversed(answers)))
        await attempt.peer.notification("notifications/initialized")
        client = await attempt.connected()
        assert (client.era, client.protocol_version) == (Era.LEGACY, LEGACY)
        async with running(lambda: client.call_tool("echo")):
            call = await attempt.peer.request("tools/call")
            await attempt.peer.reply(call, text("ok"))
        assert VERSION_KEY not in call["params"].get("_meta", {})
    assert methods(log.sent) == ["server/discover", "initialize", "notifications/initialized", "tools/call"]


@pytest.mark.requirement("ERA-19")
@pytest.mark.parametrize("order", ["discover first", "initialize first"])
async def test_refused_initialize_next_to_a_late_discover_result_means_modern(order: str) -> None:
    log, options = logged(probe_timeout=0.01, startup_timeout=600)
    async with connecting(options) as attempt:
        probe = await attempt.peer.request("server/discover")
        request = await attempt.peer.request("initialize")
        answers = [
            {"jsonrpc": "2.0", "id": probe["id"], "result": discovered()},
            {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no"}},
        ]
        await attempt.peer.send(*(answers if order == "discover first" else reversed(answers)))
        client = await attempt.connected()
        assert (client.era, client.protocol_version) == (Era.MODERN, MODERN)
        async with running(lambda: client.call_tool("echo")):
            call = await attempt.peer.request("tools/call")
            await attempt.peer.reply(call, text("ok"))
        assert call["params"]["_meta"][VERSION_KEY] == MODERN
    assert methods(log.sent) == ["server/discover", "initialize", "tools/call"]


@pytest.mark.requirement("ERA-04", "ERA-19")
async def test_modern_error_to_initialize_is_modern_evidence() -> None:
    async with connecting(ClientOptions(probe_timeout=0.01, startup_timeout=600)) as attempt:
        await attempt.peer.request("server/discover")
        request = await attempt.peer.request("initialize")
        await attempt.peer.fail(request, -32022, "no", {"supported": [MODERN], "requested": LEGACY})
        again = await attempt.peer.request("server/discover")
        assert again["id"] > request["id"]
        await attempt.peer.reply(again, discovered())
        assert (await attempt.connected()).era is Era.MODERN


@pytest.mark.requirement("ERA-21")
@pytest.mark.parametrize("verdict", ["legacy", "modern"])
async def test_no_message_of_the_server_is_answered_before_the_era_is_known(verdict: str) -> None:
    received: list[Notification] = []
    log, options = logged(on_notification=received.append, **LONG)
    async with connecting(options) as attempt:
        peer = attempt.peer
        probe = await peer.request("server/discover")
        await peer.notify("notifications/message", {"level": "info", "data": "starting"})
        await peer.send({"jsonrpc": "2.0", "id": probe["id"], "method": "ping"})
        await trio.testing.wait_all_tasks_blocked()
        assert len(log.sent) == 1
        assert [one.params["data"] for one in received] == ["starting"]
        if verdict == "modern":
            await peer.reply(probe, discovered())
            client = await attempt.connected()
            assert client.statistics().violations == 1
            client.stop()
            assert await peer.rest() == []
        else:
            # The verdict is there with the error; the answer to the ping may go before or after initialize.
            await peer.fail(probe, -32601)
            seen = [await peer.receive()]
            if seen[-1].get("method") != "initialize":
                seen.append(await peer.receive())
            await peer.reply(seen[-1], initialized())
            while len(seen) < 3:
                seen.append(await peer.receive())
            await attempt.connected()
            assert {"jsonrpc": "2.0", "id": probe["id"], "result": {}} in seen
            assert {"jsonrpc": "2.0", "method": "notifications/initialized"} in seen


# --- Version and discover


@pytest.mark.requirement("VER-05")
async def test_request_rejected_for_its_version_is_sent_again_at_a_common_one() -> None:
    async with connecting(ClientOptions(era="modern", probe=False)) as attempt:
        client = await attempt.connected()
        async with running(lambda: client.call_tool("echo", {"text": "a"})) as outcome:
            first = await attempt.peer.request("tools/call")
            await attempt.peer.fail(first, -32022, "no", {"supported": [MODERN], "requested": MODERN})
            second = await attempt.peer.request("tools/call")
            await attempt.peer.reply(second, text("ok"))
        assert outcome[0].text == "ok"
    assert second["id"] != first["id"]
    assert second["params"] == first["params"]


@pytest.mark.requirement("VER-08", "DISC-08")
async def test_any_method_can_be_the_first_without_probing() -> None:
    log, options = logged(era="modern", probe=False)
    async with connecting(options) as attempt:
        client = await attempt.connected()
        assert (client.era, client.protocol_version, client.server.info) == (Era.MODERN, MODERN, None)
        async with running(lambda: client.read_resource("a:b")):
            request = await attempt.peer.request("resources/read")
            await attempt.peer.reply(request, {"contents": []})
        assert request["params"]["_meta"][VERSION_KEY] == MODERN
    assert methods(log.sent) == ["resources/read"]


@pytest.mark.requirement("VER-12")
async def test_unknown_capabilities_are_ignored_and_exposed() -> None:
    capabilities = {**CAPABILITIES, "teleport": {"range": [1, None]}, "experimental": {"x": {"y": 1}}}
    async with session(capabilities=capabilities) as (client, peer):
        found = client.server.capabilities
        assert found.extra == {"teleport": {"range": [1, None]}}
        assert found.experimental == {"x": {"y": 1}}
        assert found.tools == {}
        async with running(client.list_tools):
            await peer.reply(await peer.request("tools/list"), {"tools": []})


@pytest.mark.requirement("DISC-10", "META-13")
@pytest.mark.parametrize(
    ("info", "name"),
    [
        (None, None),
        ("scripted", None),
        ([], None),
        (1, None),
        ({}, None),
        ({"name": 5, "version": []}, None),
        ({"name": "scripted"}, None),
        (INFO, "scripted"),
        ({**INFO, "icons": "none", "unknown": [1]}, "scripted"),
    ],
)
async def test_server_info_is_for_display_only(info: Any, name: str | None) -> None:
    async with session(_meta={SERVER_KEY: info}) as (client, peer):
        assert client.era is Era.MODERN
        if name is None:
            assert client.server.info is None
        elif "icons" not in info:
            assert client.server.info is not None
            assert client.server.info.name == name
        for other in (INFO, {"name": "somebody else", "version": "0"}, None, "text"):
            async with running(lambda: client.call_tool("echo")) as outcome:
                request = await peer.request("tools/call")
                await peer.reply(request, text("ok", _meta={SERVER_KEY: other}))
            assert outcome[0].text == "ok"


@pytest.mark.requirement("DISC-10", "META-13")
async def test_server_info_may_be_absent() -> None:
    async with session(_meta=None) as (client, peer):
        assert client.server.info is None
        async with running(client.list_tools):
            await peer.reply(await peer.request("tools/list"), {"tools": []})


# --- Request metadata


@pytest.mark.requirement("META-01", "META-02", "META-03", "META-13")
@pytest.mark.parametrize("send_client_info", [True, False])
async def test_every_request_carries_version_capabilities_and_client(send_client_info: bool) -> None:
    log, options = logged(info=ME, send_client_info=send_client_info)
    expected = META if send_client_info else {key: META[key] for key in META if key != CLIENT_KEY}
    async with session("modern", options) as (client, peer):
        for method, (call, params, result) in EVERY_CALL.items():
            async with running(lambda call=call: call(client)):  # type: ignore[misc]
                request = await peer.request(method)
                await peer.reply(request, result)
            assert request["params"] == {**params, "_meta": expected}
    assert log.sent[0]["params"] == {"_meta": expected}


@pytest.mark.requirement("META-20")
async def test_user_entries_are_merged_with_the_required_keys() -> None:
    async with session("modern", ClientOptions(info=ME)) as (client, peer):
        meta = {"com.example/x": {"deep": [1, None]}, "plain": 1}
        async with running(lambda: client.call_tool("echo", meta=meta, on_progress=lambda update: None)):
            request = await peer.request("tools/call")
            await peer.reply(request, text("ok"))
        assert request["params"]["_meta"] == {
            **META,
            **meta,
            "progressToken": request["params"]["_meta"]["progressToken"],
        }
        params = {"a": 1, "_meta": meta}
        async with running(lambda: client.request("custom/method", params)):
            request = await peer.request("custom/method")
            await peer.reply(request, {})
        assert request["params"] == {"a": 1, "_meta": {**META, **meta}}
        assert params == {"a": 1, "_meta": meta}


@pytest.mark.requirement("META-20")
@pytest.mark.parametrize("key", [VERSION_KEY, CAPABILITIES_KEY, CLIENT_KEY])
@pytest.mark.parametrize("value", [None, "2025-11-25", {}])
async def test_required_keys_cannot_be_removed_or_replaced(key: str, value: Any) -> None:
    async with session() as (client, peer):
        with pytest.raises(LocalProtocolError, match=r"io\.modelcontextprotocol"):
            await client.call_tool("echo", meta={key: value})
        with pytest.raises(LocalProtocolError, match=r"io\.modelcontextprotocol"):
            await client.request("custom/method", {"_meta": {key: value}}, timeout=1)
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("META-21")
async def test_declared_capabilities_are_objects() -> None:
    capabilities = ClientCapabilities(
        roots={}, sampling={"tools": {}}, elicitation={"form": {}}, experimental={"x": {}}
    )
    async with connecting(ClientOptions(capabilities=capabilities, **LONG)) as attempt:
        probe = await attempt.peer.request("server/discover")
        declared = probe["params"]["_meta"][CAPABILITIES_KEY]
        assert declared == {
            "roots": {}, "sampling": {"tools": {}}, "elicitation": {"form": {}}, "experimental": {"x": {}},
        }  # fmt: skip
        await attempt.peer.reply(probe, discovered())
        await attempt.connected()


@pytest.mark.requirement("META-21")
@pytest.mark.parametrize("name", ["roots", "sampling", "elicitation", "extensions", "experimental"])
@pytest.mark.parametrize("value", [True, [], "yes", None])
def test_capability_that_is_no_object_is_refused(name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError, LocalProtocolError)):
        ClientCapabilities(**{name: value})


@pytest.mark.requirement("META-22")
async def test_unknown_reserved_keys_pass_unchanged() -> None:
    odd = {
        "io.modelcontextprotocol/null": None,
        "io.modelcontextprotocol/list": [1, {"a": [None]}],
        "io.modelcontextprotocol/deep": {"a": {"b": {"c": []}}},
        "dev.mcp/number": 1.5,
    }
    received: list[Notification] = []
    async with session("modern", ClientOptions(on_notification=received.append)) as (client, peer):
        for method, (call, _, result) in EVERY_CALL.items():
            async with running(lambda call=call: call(client)) as outcome:  # type: ignore[misc]
                request = await peer.request(method)
                await peer.notify("notifications/message", {"level": "info", "data": 1, "_meta": odd})
                await peer.reply(request, {**result, "_meta": odd})
            (found,) = outcome
            assert (found["_meta"] if isinstance(found, dict) else found.meta) == odd
        assert [one.params["_meta"] for one in received] == [odd] * len(EVERY_CALL)


# --- Cancellation


@pytest.mark.requirement("CANCEL-01", "CANCEL-02", "CANCEL-03", "CANCEL-18")
@pytest.mark.parametrize("how", ["timeout", "scope", "deadline", "sibling", "callback"])
async def test_abandoned_request_is_cancelled_once_however_it_was_abandoned(how: str) -> None:
    async with session() as (client, peer):

        def stop(update: ProgressUpdate) -> None:
            raise ZeroDivisionError

        async def call(scope: trio.CancelScope) -> None:
            with scope:
                await client.call_tool(
                    "hold",
                    timeout=0.05 if how == "timeout" else None,
                    on_progress=stop if how == "callback" else None,
                )

        async def fail_when_written() -> None:
            await written.wait()
            raise ZeroDivisionError

        scope = trio.CancelScope()
        written = trio.Event()
        if how == "deadline":
            scope.deadline = trio.current_time() + 0.05
        raised: list[BaseException] = []

        async def abandon() -> None:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(call, scope)
                    if how == "sibling":
                        nursery.start_soon(fail_when_written)
            except* (RequestTimeout, ZeroDivisionError) as group:
                raised.extend(group.exceptions)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(abandon)
            request = await peer.request("tools/call")
            written.set()
            if how == "scope":
                scope.cancel()
            elif how == "callback":
                token = request["params"]["_meta"]["progressToken"]
                await peer.notify("notifications/progress", {"progressToken": token, "progress": 1})
            notice = await peer.notification("notifications/cancelled")
        assert notice["params"]["requestId"] == request["id"]
        assert type(notice["params"]["requestId"]) is int
        expected = {"timeout": RequestTimeout, "sibling": ZeroDivisionError, "callback": ZeroDivisionError}
        assert [type(error) for error in raised] == ([expected[how]] if how in expected else [])
        assert client.statistics().cancelled == 1
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("CANCEL-04", "LEG-CANCEL-02")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_call_that_never_reached_the_wire_leaves_no_trace(era: str) -> None:
    async with session(era, ClientOptions(max_in_flight=1)) as (client, peer):
        for _ in range(20):
            with trio.CancelScope() as cancelled_before:
                cancelled_before.cancel()
                await client.call_tool("never")
            assert cancelled_before.cancelled_caught
        async with running(lambda: client.call_tool("first")) as outcome:
            request = await peer.request("tools/call")
            with trio.move_on_after(0.02) as waiting_for_a_slot:
                await client.call_tool("second")
            assert waiting_for_a_slot.cancelled_caught
            with pytest.raises(RequestTimeout) as caught:
                await client.call_tool("third", timeout=0.02)
            assert caught.value.request_id is None
            await peer.reply(request, text("ok"))
        assert outcome[0].text == "ok"
        with trio.CancelScope() as after_the_answer:
            async with running(lambda: client.call_tool("fourth")):
                await peer.reply(await peer.request("tools/call"), text("ok"))
            after_the_answer.cancel()
            await trio.lowlevel.checkpoint()
        assert client.statistics().cancelled == 0
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("CANCEL-09", "CANCEL-17", "LEG-CANCEL-02", "LEG-CANCEL-04")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_cancellations_by_the_server_are_ignored(era: str) -> None:
    async with session(era) as (client, peer):
        async with running(lambda: client.call_tool("done")):
            done = await peer.request("tools/call")
            await peer.reply(done, text("ok"))
        async with running(lambda: client.call_tool("echo")) as outcome:
            request = await peer.request("tools/call")
            for params in (
                {"requestId": request["id"]}, {"requestId": request["id"], "reason": "because"},
                {"requestId": done["id"]}, {"requestId": 10_000}, {"requestId": "x"}, {"requestId": None},
                {"requestId": [1]}, {"requestId": {}}, {"requestId": True}, {}, [], None,
            ):  # fmt: skip
                await peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            await trio.testing.wait_all_tasks_blocked()
            assert outcome == []  # goes on waiting
            assert client.statistics().violations > 0
            await peer.reply(request, text("after all"))
        assert outcome[0].text == "after all"
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("CANCEL-10", "LEG-CANCEL-04")
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("answer", ["result", "error", "malformed", "progress"])
async def test_late_answer_to_a_cancelled_request_is_discarded(era: str, answer: str) -> None:
    async with session(era) as (client, peer):
        with trio.CancelScope() as scope:
            async with running(lambda: client.call_tool("hold", on_progress=lambda update: None)):
                request = await peer.request("tools/call")
                scope.cancel()
        await peer.notification("notifications/cancelled")
        if answer == "result":
            await peer.reply(request, text("late"))
        elif answer == "error":
            await peer.fail(request, -32603, "late")
        elif answer == "malformed":
            await peer.send({"jsonrpc": "2.0", "id": request["id"], "result": 5, "error": 5})
        else:
            token = request["params"]["_meta"]["progressToken"]
            await peer.notify("notifications/progress", {"progressToken": token, "progress": 1})
        async with running(lambda: client.call_tool("echo")) as outcome:
            await peer.reply(await peer.request("tools/call"), text("next"))
        assert outcome[0].text == "next"
        if answer in ("result", "error"):
            assert client.statistics().late == 1


@pytest.mark.requirement("CANCEL-11", "LEG-CANCEL-05")
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_races_between_answers_and_cancellations_are_harmless(era: str, count: int) -> None:
    rng = random.Random(count)
    answered: list[str] = []
    async with session(era, seconds=300) as (client, peer), trio.open_nursery() as server:

        async def answer(request: Message) -> None:
            for _ in range(rng.randrange(8)):
                await trio.lowlevel.checkpoint()
            await peer.reply(request, text(request["params"]["arguments"]["text"]))

        async def serve() -> None:
            while True:
                message = await peer.receive()
                if "id" in message:
                    server.start_soon(answer, message)

        async def call(number: int) -> None:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def cancel(steps: int) -> None:
                        for _ in range(steps):
                            await trio.lowlevel.checkpoint()
                        scope.cancel()

                    nursery.start_soon(cancel, rng.randrange(80))
                    result = await client.call_tool("echo", {"text": str(number)})
                    assert result.text == str(number)
                    answered.append(result.text)
                    nursery.cancel_scope.cancel()

        server.start_soon(serve)
        for first in range(0, count, 10):
            async with trio.open_nursery() as callers:
                for number in range(first, first + 10):
                    callers.start_soon(call, number)
        result = await client.call_tool("echo", {"text": "still fine"})
        assert result.text == "still fine"
        found = client.statistics()
        assert found.in_flight == 0
        assert found.unmatched == 0
        assert 0 < len(answered) < count
        cancelled = cancelled_ids(peer.seen)
        assert len(cancelled) == len(set(cancelled)) == found.cancelled
        server.cancel_scope.cancel()


@pytest.mark.requirement("CANCEL-14", "CANCEL-15", "CANCEL-19", "LEG-CANCEL-06")
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("how", ["timeout", "scope"])
async def test_reason_of_a_cancellation_is_sent_and_logged_when_it_is_requested(
    era: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trio_mcp_stdio")
    async with session(era) as (client, peer):
        with trio.CancelScope() as scope:
            async with running(lambda: client.call_tool("hold", timeout=0.05 if how == "timeout" else None)):
                request = await peer.request("tools/call")
                if how == "scope":
                    scope.cancel()
        # Logged before anything can have been answered.
        notice = await peer.notification("notifications/cancelled")
        reason = notice["params"]["reason"]
        assert isinstance(reason, str)
        assert reason
        assert ("timeout" in reason) == (how == "timeout")
        records = [record.getMessage() for record in caplog.records if reason in record.getMessage()]
        assert len(records) == 1
        assert "tools/call" in records[0]
        assert str(request["id"]) in records[0]


# --- Timeouts, with a virtual clock


@pytest.mark.requirement("TIME-01", "TIME-02", "LEG-TIME-01")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_every_request_has_a_timeout_by_default(
    era: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with session(era, seconds=10_000) as (client, peer):
        for method, (call, _, _) in EVERY_CALL.items():
            began = trio.current_time()
            async with running(lambda call=call: call(client)) as outcome:  # type: ignore[misc]
                request = await peer.request(method)
                notice = await peer.notification("notifications/cancelled")
            (error,) = outcome
            assert isinstance(error, RequestTimeout)
            assert (error.timeout, error.method, error.request_id) == (60.0, method, request["id"])
            assert notice["params"]["requestId"] == request["id"]
            assert trio.current_time() - began == pytest.approx(60)
            assert error.elapsed == pytest.approx(60)


@pytest.mark.requirement("TIME-01", "LEG-TIME-01", "LEG-INIT-07", "LEG-INIT-10")
async def test_connecting_has_limits_by_default(autojump_clock: trio.testing.MockClock) -> None:
    async with connecting(ClientOptions(), seconds=10_000) as attempt:
        began = trio.current_time()
        await attempt.peer.request("server/discover")
        assert trio.current_time() - began == pytest.approx(0)
        await attempt.peer.request("initialize")
        assert trio.current_time() - began == pytest.approx(5)
        with pytest.raises(trio.EndOfChannel):
            await attempt.peer.receive()
        assert trio.current_time() - began == pytest.approx(60)
        await attempt.peer.rest()
        assert isinstance(await attempt.refused(), StartupTimeout)


@pytest.mark.requirement("TIME-03", "LEG-TIME-02")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_concurrent_calls_time_out_each_at_its_own_time(
    era: str, autojump_clock: trio.testing.MockClock
) -> None:
    ended: dict[float, float] = {}
    async with session(era) as (client, _):

        async def call(timeout: float) -> None:
            with pytest.raises(RequestTimeout) as caught:
                await client.call_tool("hold", timeout=timeout)
            assert caught.value.timeout == timeout
            ended[timeout] = trio.current_time() - began

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for timeout in (1, 0.1, 0.5, 3):
                nursery.start_soon(call, timeout)
    assert ended == pytest.approx({0.1: 0.1, 0.5: 0.5, 1: 1, 3: 3})


@pytest.mark.requirement("TIME-04", "TIME-05", "LEG-TIME-02")
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize(
    ("limits", "ends_at"),
    [
        ({"idle_timeout": 0.3}, None),
        ({"idle_timeout": 0.3, "timeout": None}, None),
        ({"timeout": 0.3}, 0.3),
        ({"idle_timeout": 0.3, "timeout": 0.75}, 0.75),
        ({"idle_timeout": 0.05}, 0.05),
    ],
)
async def test_progress_extends_only_the_idle_timeout(
    era: str, limits: dict[str, Any], ends_at: float | None, autojump_clock: trio.testing.MockClock
) -> None:
    async with session(era) as (client, peer):
        began = trio.current_time()
        with trio.CancelScope() as server:

            async def call() -> Any:
                try:
                    return await client.call_tool("hold", on_progress=lambda update: None, **limits)
                finally:
                    server.cancel()

            async with running(call) as outcome:
                request = await peer.request("tools/call")
                token = request["params"]["_meta"]["progressToken"]
                for step in range(10):
                    await trio.sleep(0.1)
                    await peer.notify("notifications/progress", {"progressToken": token, "progress": step})
                await peer.reply(request, text("ok"))
        passed = trio.current_time() - began
        if ends_at is None:
            assert outcome[0].text == "ok"
            assert passed == pytest.approx(1)
        else:
            assert isinstance(outcome[0], RequestTimeout)
            assert outcome[0].timeout == passed == pytest.approx(ends_at)
            assert outcome[0].idle == (limits.get("timeout") is None)


# --- Progress


@pytest.mark.requirement("PROG-01", "PROG-02", "LEG-PROG-01", "LEG-PROG-04")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_progress_tokens_of_running_requests_are_integers_and_differ(era: str) -> None:
    found: dict[int, list[ProgressUpdate]] = {}
    async with session(era) as (client, peer):

        async def call(number: int) -> None:
            found[number] = []
            await client.call_tool("hold", {"number": number}, on_progress=found[number].append)

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(call, number)
            requests = [await peer.request("tools/call") for _ in range(100)]
            tokens = [request["params"]["_meta"]["progressToken"] for request in requests]
            assert len(set(map(repr, tokens))) == 100
            assert all(type(token) in (int, str) for token in tokens)
            for request, token in zip(requests, tokens, strict=True):
                number = request["params"]["arguments"]["number"]
                for value in (number, number + 0.5):
                    params = {
                        "progressToken": token,
                        "progress": value,
                        "total": 1000,
                        "message": f"at {value}",
                    }
                    await peer.notify("notifications/progress", params)
                await peer.notify("notifications/progress", {"progressToken": token, "progress": number + 1})
            for request in reversed(requests):
                await peer.reply(request, text("ok"))
    for number, updates in found.items():
        assert [update.progress for update in updates] == [number, number + 0.5, number + 1]
        assert [update.total for update in updates] == [1000, 1000, UNSET]
        assert [update.message for update in updates] == [f"at {number}", f"at {number + 0.5}", UNSET]


@pytest.mark.requirement("PROG-01", "PROG-02")
@pytest.mark.parametrize("token", [1.5, True, None, [], {}])
async def test_token_that_is_neither_string_nor_integer_is_refused(token: Any) -> None:
    async with session() as (client, peer):
        with pytest.raises(LocalProtocolError):
            await client.call_tool("echo", meta={"progressToken": token})
        with pytest.raises(LocalProtocolError):
            await client.request("custom/method", {"_meta": {"progressToken": token}}, timeout=1)
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("PROG-02")
async def test_second_token_of_the_same_value_is_refused() -> None:
    # Tokens are the client's own; a caller's would have to be refused while it is in use.
    async with session() as (client, peer):
        with trio.CancelScope() as scope:
            async with running(lambda: client.call_tool("echo", on_progress=lambda update: None)):
                token = (await peer.request("tools/call"))["params"]["_meta"]["progressToken"]
                with pytest.raises(LocalProtocolError):
                    await client.call_tool("echo", meta={"progressToken": token})
                scope.cancel()


@pytest.mark.requirement("PROG-11")
async def test_flood_of_progress_is_bounded_and_the_newest_is_kept() -> None:
    count = 40_000
    updates: list[float] = []
    flooded = trio.Event()

    async def slow(update: ProgressUpdate) -> None:
        updates.append(update.progress)
        await flooded.wait()

    async with session() as (client, peer), running(lambda: client.call_tool("hold", on_progress=slow)):
        request = await peer.request("tools/call")
        token = request["params"]["_meta"]["progressToken"]
        for start in range(0, count, 4000):
            await peer.send(
                *(
                    {
                        "jsonrpc": "2.0",
                        "method": "notifications/progress",
                        "params": {"progressToken": token, "progress": value},
                    }
                    for value in range(start, start + 4000)
                )
            )
        await peer.reply(request, text("ok"))
        await trio.testing.wait_all_tasks_blocked()
        found = client.statistics()
        flooded.set()
    assert updates[-1] == count - 1
    assert updates == sorted(updates)
    assert 1 < len(updates) <= 16_384 + 1
    assert found.progress == count
    assert found.progress_dropped == count - len(updates)


@pytest.mark.requirement("PROG-13")
async def test_client_sends_no_notification_but_cancelled() -> None:
    log, options = logged()
    async with session("modern", options) as (client, peer):
        for method, (call, _, result) in EVERY_CALL.items():
            async with running(lambda call=call: call(client)):  # type: ignore[misc]
                await peer.reply(await peer.request(method), result)
        with trio.CancelScope() as scope:
            async with running(lambda: client.call_tool("hold", on_progress=lambda update: None)):
                await peer.request("tools/call")
                scope.cancel()
        await peer.notification("notifications/cancelled")
    assert {message["method"] for message in log.sent if "id" not in message} == {"notifications/cancelled"}


@pytest.mark.requirement("PROG-13")
async def test_sending_progress_is_refused() -> None:
    async with session() as (client, peer):
        with pytest.raises(LocalProtocolError):
            await client.notify("notifications/progress", {"progressToken": 1, "progress": 1})
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("STDIO-STREAM-08")
async def test_true_is_not_the_id_one() -> None:
    async with connecting(ClientOptions(era="modern", probe=False)) as attempt:
        client = await attempt.connected()
        async with running(lambda: client.call_tool("echo")) as outcome:
            request = await attempt.peer.request("tools/call")
            assert request["id"] == 1
            for look in (True, 1.5, "01", [1]):
                await attempt.peer.send({"jsonrpc": "2.0", "id": look, "result": text("wrong")})
            await trio.testing.wait_all_tasks_blocked()
            assert outcome == []
            await attempt.peer.reply(request, text("right"))
        assert outcome[0].text == "right"
