"""The revisions with `initialize`, the client's half: over a memory pair with a scripted server."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from helpers import logged
from scripted import (
    EVERY_CALL,
    LEGACY,
    LEGACY_VERSIONS,
    MODERN,
    Message,
    connecting,
    initialized,
    running,
    session,
    text,
)
from trio_mcp_stdio import (
    ClientOptions,
    Era,
    LocalProtocolError,
    NegotiationError,
    Notification,
    RequestTimeout,
    RpcError,
    StartupTimeout,
)
from trio_mcp_stdio.types import ClientCapabilities, Implementation, PromptReference

ME = Implementation(name="me", version="2")
LEGACY_ONLY: dict[str, Any] = {"era": "legacy", "startup_timeout": 600.0}

every_version = pytest.mark.parametrize("version", LEGACY_VERSIONS)


def ping(number: object) -> Message:
    return {"jsonrpc": "2.0", "id": number, "method": "ping"}


def pong(number: object) -> Message:
    return {"jsonrpc": "2.0", "id": number, "result": {}}


# --- Handshake


@pytest.mark.requirement(
    "LEG-INIT-01", "LEG-INIT-02", "LEG-INIT-04", "LEG-INIT-05", "LEG-INIT-12", "LEG-VER-01", "LEG-VER-02"
)
async def test_handshake_word_for_word() -> None:
    log, options = logged(
        info=ME, capabilities=ClientCapabilities(roots={"listChanged": True}), **LEGACY_ONLY
    )
    async with connecting(options) as attempt:
        request = await attempt.peer.receive()
        assert request == {
            "jsonrpc": "2.0",
            "id": request["id"],
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"roots": {"listChanged": True}},
                "clientInfo": {"name": "me", "version": "2"},
            },
        }
        # Whatever the server says meanwhile, nothing but the answer to a ping follows before its answer.
        await attempt.peer.notify("notifications/message", {"level": "info", "data": "starting"})
        await trio.testing.wait_all_tasks_blocked()
        assert len(log.sent) == 1
        assert not attempt.done.is_set()
        await attempt.peer.reply(request, initialized(instructions="be kind"))
        assert await attempt.peer.receive() == {"jsonrpc": "2.0", "method": "notifications/initialized"}
        client = await attempt.connected()
        assert (client.era, client.protocol_version) == (Era.LEGACY, LEGACY)
        assert client.server.instructions == "be kind"
        assert client.server.info is not None
        assert client.server.info.name == "scripted"
        async with running(client.list_tools):
            listing = await attempt.peer.request("tools/list")
            await attempt.peer.reply(listing, {"tools": []})
        client.stop()
        assert await attempt.peer.rest() == []


@pytest.mark.requirement("LEG-INIT-02", "LEG-INIT-12")
async def test_client_without_capabilities_declares_none() -> None:
    async with connecting(ClientOptions(**LEGACY_ONLY)) as attempt:
        request = await attempt.peer.request("initialize")
        assert request["params"]["capabilities"] == {}
        assert request["params"]["clientInfo"].keys() >= {"name", "version"}
        await attempt.peer.reply(request, initialized())
        await attempt.connected()


@pytest.mark.requirement("LEG-INIT-07", "LEG-INIT-10")
@pytest.mark.parametrize("how", ["timeout", "cancelled", "version"])
async def test_initialize_is_never_cancelled_on_the_wire(how: str) -> None:
    options = ClientOptions(era="legacy", startup_timeout=0.1 if how == "timeout" else 600)
    with trio.CancelScope() as scope:
        async with connecting(options) as attempt:
            request = await attempt.peer.request("initialize")
            if how == "cancelled":
                with trio.CancelScope(shield=True):
                    scope.cancel()
                    assert await attempt.peer.rest() == []
            elif how == "version":
                await attempt.peer.reply(request, initialized("1999-01-01"))
            assert await attempt.peer.rest() == []
            if how == "timeout":
                error = await attempt.refused()
                assert isinstance(error, StartupTimeout)
                assert error.phase == "initialize"
    assert scope.cancelled_caught == (how == "cancelled")
    assert [message["method"] for message in attempt.peer.seen] == ["initialize"]


@pytest.mark.requirement("LEG-INIT-10", "LEG-VER-05")
@pytest.mark.parametrize(
    ("code", "data", "supported"),
    [
        (
            -32602,
            {"supported": ["1999-01-01", "2024-10-07"], "requested": LEGACY},
            ("1999-01-01", "2024-10-07"),
        ),
        (-32602, {"supported": "everything"}, ()),
        (-32603, None, ()),
        (0, "text", ()),
    ],
)
async def test_refused_initialize_is_a_clear_error(code: int, data: Any, supported: tuple[str, ...]) -> None:
    async with connecting(ClientOptions(**LEGACY_ONLY)) as attempt:
        request = await attempt.peer.request("initialize")
        await attempt.peer.fail(request, code, "unsupported protocol version", data)
        assert await attempt.peer.rest() == []
        error = await attempt.refused()
        assert isinstance(error, NegotiationError)
        assert error.supported == supported
        assert error.attempted == (LEGACY,)
        assert error.error is not None
        assert (error.error.code, error.error.data) == (code, data)
        for part in ("unsupported protocol version", LEGACY, *supported):
            assert part in str(error)


@pytest.mark.requirement("LEG-INIT-08", "LEG-INIT-09")
@every_version
async def test_strict_client_refuses_what_was_not_announced(version: str) -> None:
    options = ClientOptions(strict=True)
    async with session("legacy", options, version=version, capabilities={"tools": {}}) as (client, peer):
        for method, (call, _, result) in EVERY_CALL.items():
            if method.startswith(("tools/", "custom/")):
                async with running(lambda call=call: call(client)):  # type: ignore[misc]
                    await peer.reply(await peer.request(method), result)
            else:
                with pytest.raises(LocalProtocolError, match=method):
                    await call(client)
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("LEG-INIT-12", "LEG-MSG-09", "LEG-VER-06")
@every_version
async def test_every_request_word_for_word(version: str) -> None:
    # The exact messages; each is valid under the schema of each of these revisions.
    async with session("legacy", version=version) as (client, peer):
        assert client.protocol_version == version
        for method, (call, params, result) in EVERY_CALL.items():
            async with running(lambda call=call: call(client)):  # type: ignore[misc]
                request = await peer.request(method)
                await peer.reply(request, result)
            assert type(request["id"]) is int
            expected = {"jsonrpc": "2.0", "id": request["id"], "method": method, "params": params}
            assert {"params": {}, **request} == expected
        async with running(client.ping):
            request = await peer.request("ping")
            await peer.reply(request, {})
        assert {"params": {}, **request} == {"params": {}, **ping(request["id"])}


@pytest.mark.requirement("LEG-INIT-12", "LEG-MSG-10")
async def test_meta_of_a_request_holds_only_what_was_asked_for() -> None:
    odd = {"io.modelcontextprotocol/x": None, "com.example/y": [1, {"z": None}]}
    async with session("legacy") as (client, peer):
        meta = {"com.example/x": {"y": 1}}
        async with running(lambda: client.call_tool("t", meta=meta)) as outcome:
            request = await peer.request("tools/call")
            await peer.reply(request, text("ok", _meta=odd))
        assert request["params"] == {"name": "t", "_meta": meta}
        assert outcome[0].meta == odd
        async with running(lambda: client.call_tool("t", on_progress=lambda update: None)):
            request = await peer.request("tools/call")
            await peer.reply(request, text("ok"))
        assert request["params"]["_meta"].keys() == {"progressToken"}


# --- Messages


@pytest.mark.requirement("LEG-MSG-01", "LEG-MSG-02")
async def test_ids_are_integers_and_never_used_again() -> None:
    async with session("legacy", seconds=120) as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(peer.serve)

        async def call_often() -> None:
            for _ in range(100):
                await client.call_tool("echo")

        async with trio.open_nursery() as callers:
            for _ in range(100):
                callers.start_soon(call_often)
        ids = [message["id"] for message in peer.seen if "id" in message]
        assert len(set(ids)) == len(ids) == 10_000 + 2  # the probe and initialize, too
        assert {type(number) for number in ids} == {int}
        client.stop()


@pytest.mark.requirement("LEG-MSG-02", "LEG-MSG-03", "LEG-MSG-04", "LEG-MSG-05", "LEG-PING-01")
@every_version
async def test_every_request_of_the_server_is_answered_under_its_own_id(version: str) -> None:
    async with session("legacy", version=version) as (client, peer):
        async with running(lambda: client.call_tool("echo")) as outcome:
            request = await peer.request("tools/call")
            for number in (
                request["id"],
                str(request["id"]),
                0,
                -1,
                "",
                "a b",
                2**53 + 1,
                2**70,
                "\N{SNOWMAN}",
            ):
                await peer.send(ping(number))
                assert await peer.receive() == pong(number)
                for method in (
                    "foo/bar",
                    "roots/list",
                    "sampling/createMessage",
                    "elicitation/create",
                    "tools/list",
                ):
                    await peer.send({"jsonrpc": "2.0", "id": number, "method": method, "params": {"a": 1}})
                    answer = await peer.receive()
                    assert answer.keys() == {"jsonrpc", "id", "error"}
                    assert (answer["id"], type(answer["id"])) == (number, type(number))
                    assert answer["error"]["code"] == -32601
                    assert isinstance(answer["error"]["message"], str)
            assert outcome == []
            await peer.reply(request, text("mine"))
        assert outcome[0].text == "mine"


@pytest.mark.requirement("LEG-MSG-02", "LEG-MSG-06")
@every_version
async def test_notifications_and_requests_without_a_usable_id_are_not_answered(version: str) -> None:
    received: list[Notification] = []
    options = ClientOptions(on_notification=received.append)
    async with session("legacy", options, version=version) as (client, peer):
        await peer.notify("notifications/unheard_of", {"a": 1})
        await peer.notify("foo/bar")
        await peer.notify("ping")
        for number in (None, [1], {}, True, 1.5):
            await peer.send(ping(number))
        await peer.send(ping("last"))
        assert await peer.receive() == pong("last")
        assert [one.method for one in received] == ["notifications/unheard_of", "foo/bar", "ping"]
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("LEG-MSG-07")
@every_version
@pytest.mark.parametrize("shape", ["null", "absent"])
async def test_error_without_id_is_accepted_in_every_revision(version: str, shape: str) -> None:
    async with session("legacy", version=version) as (client, peer):
        async with running(lambda: client.call_tool("echo")) as outcome:
            await peer.request("tools/call")
            error: Message = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}}
            await peer.send(error | ({"id": None} if shape == "null" else {}))
        assert isinstance(outcome[0], RpcError)
        assert outcome[0].code == -32700


@pytest.mark.requirement("LEG-MSG-08")
@every_version
@pytest.mark.parametrize("more", [{}, {"resultType": "unheard_of", "ttlMs": 60_000, "cacheScope": "public"}])
async def test_results_are_complete_and_never_served_from_a_cache(version: str, more: Message) -> None:
    async with session("legacy", version=version) as (client, peer):
        for number in range(3):
            async with running(client.list_tools) as outcome:
                request = await peer.request("tools/list")
                tool = {"name": f"tool{number}", "inputSchema": {"type": "object"}}
                await peer.reply(request, {"tools": [tool], **more})
            assert [tool.name for tool in outcome[0].tools] == [f"tool{number}"]
            async with running(lambda: client.call_tool("echo")) as outcome:
                await peer.reply(await peer.request("tools/call"), text("ok", **more))
            assert outcome[0].text == "ok"


# --- Ping


@pytest.mark.requirement("LEG-PING-01")
@every_version
async def test_ping_goes_both_ways_while_a_call_runs(version: str) -> None:
    async with session("legacy", version=version) as (client, peer):
        async with running(lambda: client.call_tool("slow")) as outcome:
            call = await peer.request("tools/call")
            async with running(client.ping) as seconds:
                await peer.send(ping("p-1"))
                seen = [await peer.receive(), await peer.receive()]
                (request,) = [message for message in seen if "method" in message]
                assert request["method"] == "ping"
                assert pong("p-1") in seen
                await peer.reply(request, {})
            assert isinstance(seconds[0], float)
            assert outcome == []
            await peer.reply(call, text("ok"))
        assert outcome[0].text == "ok"


@pytest.mark.requirement("LEG-PING-01")
async def test_ping_does_not_exist_in_a_modern_connection() -> None:
    async with session("modern") as (client, peer):
        with pytest.raises(LocalProtocolError):
            await client.ping()
        await peer.send(ping(1))
        await trio.testing.wait_all_tasks_blocked()
        assert client.statistics().violations == 1
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("LEG-PING-02", "LEG-PING-05")
async def test_unanswered_ping_is_an_error_after_the_given_time(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "trio_mcp_stdio")
    async with session("legacy", seconds=10_000) as (client, peer):
        for limit, given in ((60.0, {}), (2.5, {"timeout": 2.5})):
            began = trio.current_time()
            async with running(lambda given=given: client.ping(**given)) as outcome:  # type: ignore[misc]
                request = await peer.request("ping")
                notice = await peer.notification("notifications/cancelled")
            assert isinstance(outcome[0], RequestTimeout)
            assert (outcome[0].method, outcome[0].timeout) == ("ping", limit)
            assert notice["params"]["requestId"] == request["id"]
            assert trio.current_time() - began == pytest.approx(limit)
    assert len([message for message in caplog.messages if "ping" in message]) == 2


@pytest.mark.requirement("LEG-PING-03")
async def test_nothing_is_sent_while_nothing_is_asked_for(autojump_clock: trio.testing.MockClock) -> None:
    async with session("legacy", seconds=10**6) as (client, peer):
        with trio.move_on_after(100_000) as scope:
            await peer.receive()
        assert scope.cancelled_caught
        for _ in range(3):  # at a rate of the caller's own
            async with running(client.ping):
                await peer.reply(await peer.request("ping"), {})
            await trio.sleep(30)


@pytest.mark.requirement("LEG-PING-04", "LEG-INIT-05")
async def test_ping_of_the_server_is_answered_before_the_initialization_is_complete() -> None:
    async with connecting(ClientOptions(**LEGACY_ONLY)) as attempt:
        request = await attempt.peer.request("initialize")
        await attempt.peer.send(ping("early"))
        await attempt.peer.send(ping(request["id"]))
        assert await attempt.peer.receive() == pong("early")
        assert await attempt.peer.receive() == pong(request["id"])
        await attempt.peer.reply(request, initialized())
        await attempt.peer.notification("notifications/initialized")
        await attempt.connected()


# --- Batches


@pytest.mark.requirement("LEG-BATCH-01", "LEG-BATCH-04", "LEG-BATCH-05")
async def test_batch_is_unpacked_and_its_requests_are_answered_in_one_array() -> None:
    received: list[Notification] = []
    options = ClientOptions(on_notification=received.append)
    async with session("legacy", options, version="2025-03-26") as (client, peer):
        async with (
            running(lambda: client.call_tool("a")) as first,
            running(lambda: client.call_tool("b")) as second,
        ):
            requests = [await peer.request("tools/call"), await peer.request("tools/call")]
            results = [
                {"jsonrpc": "2.0", "id": request["id"], "result": text(request["params"]["name"])}
                for request in requests
            ]
            await peer.send(
                [
                    ping(1),
                    results[1],
                    {"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": 1}},
                    {"jsonrpc": "2.0", "id": "two", "method": "foo/bar"},
                    results[0],
                ]
            )
            answers = await peer.receive()
        assert isinstance(answers, list)
        assert len(answers) == 2
        assert pong(1) in answers
        (refusal,) = [answer for answer in answers if answer["id"] == "two"]
        assert refusal["error"]["code"] == -32601
        assert (first[0].text, second[0].text) == ("a", "b")
        assert [one.params for one in received] == [{"a": 1}]
        assert client.statistics().malformed == 0


@pytest.mark.requirement("LEG-BATCH-04")
async def test_batch_of_notifications_is_not_answered() -> None:
    received: list[Notification] = []
    options = ClientOptions(on_notification=received.append)
    async with session("legacy", options, version="2025-03-26") as (client, peer):
        notification = {"jsonrpc": "2.0", "method": "notifications/x"}
        await peer.send([notification, notification])
        await peer.send(ping("next"))
        assert await peer.receive() == pong("next")
        assert len(received) == 2
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("LEG-BATCH-04")
async def test_empty_batch_is_one_error() -> None:
    async with session("legacy", version="2025-03-26") as (_, peer):
        await peer.send([])
        await peer.send(ping("next"))
        seen = [await peer.receive(), await peer.receive()]
        assert pong("next") in seen
        (error,) = [message for message in seen if "error" in message]
        assert error["error"]["code"] == -32600


@pytest.mark.requirement("LEG-BATCH-02", "LEG-BATCH-03")
@every_version
async def test_client_sends_no_batches(version: str) -> None:
    log, options = logged()
    async with session("legacy", options, version=version) as (client, peer), trio.open_nursery() as nursery:
        nursery.start_soon(peer.serve)
        async with trio.open_nursery() as callers:
            for _ in range(100):
                callers.start_soon(client.call_tool, "echo")
        client.stop()
    assert all(isinstance(message, dict) for message in log.sent)
    assert len(log.sent) == 103


@pytest.mark.requirement("LEG-BATCH-06")
@pytest.mark.parametrize("version", [version for version in LEGACY_VERSIONS if version != "2025-03-26"])
async def test_batch_of_requests_is_not_carried_out_where_batches_do_not_exist(version: str) -> None:
    async with session("legacy", version=version) as (client, peer):
        await peer.send([ping("in a batch"), ping("another")])
        await peer.send(ping("alone"))
        seen = [await peer.receive()]
        while seen[-1] != pong("alone"):
            seen.append(await peer.receive())
        client.stop()
        seen += await peer.rest()
        seen.remove(pong("alone"))
        assert len(seen) == 1
        assert seen[0]["error"]["code"] == -32600


# --- Cancellation, timeouts, progress: what differs from the modern era; the rest runs for both eras there


@pytest.mark.requirement("LEG-CANCEL-01", "LEG-TIME-01")
@every_version
@pytest.mark.parametrize("how", ["scope", "timeout"])
async def test_abandoned_call_is_cancelled_in_every_revision(version: str, how: str) -> None:
    async with session("legacy", version=version) as (client, peer):
        with trio.CancelScope() as scope:
            async with running(lambda: client.call_tool("hold", timeout=0.05 if how == "timeout" else None)):
                request = await peer.request("tools/call")
                if how == "scope":
                    scope.cancel()
        notice = await peer.notification("notifications/cancelled")
        assert notice["params"]["requestId"] == request["id"]
        assert notice["params"].keys() <= {"requestId", "reason"}
        client.stop()
        assert await peer.rest() == []


@pytest.mark.requirement("LEG-CANCEL-02")
async def test_server_can_cancel_neither_calls_of_the_client_nor_answers_already_given() -> None:
    async with session("legacy") as (client, peer):
        async with running(lambda: client.call_tool("echo")) as outcome:
            request = await peer.request("tools/call")
            await peer.send(ping(request["id"]))
            await peer.notify("notifications/cancelled", {"requestId": request["id"]})
            assert await peer.receive() == pong(request["id"])
            await trio.testing.wait_all_tasks_blocked()
            assert outcome == []
            await peer.reply(request, text("mine"))
        assert outcome[0].text == "mine"


@pytest.mark.requirement("LEG-PROG-01", "LEG-PROG-02", "LEG-PROG-04")
@every_version
async def test_progress_arrives_in_every_revision_and_none_is_sent(version: str) -> None:
    updates: list[tuple[float, object, object]] = []
    log, options = logged()
    async with (
        session("legacy", options, version=version) as (client, peer),
        running(
            lambda: client.call_tool(
                "slow",
                on_progress=lambda update: updates.append((update.progress, update.total, update.message)),
            )
        ),
    ):
        request = await peer.request("tools/call")
        token = request["params"]["_meta"]["progressToken"]
        assert type(token) in (int, str)
        for value in (1, 2.5):
            params = {"progressToken": token, "progress": value, "total": 3, "message": "going on"}
            await peer.notify("notifications/progress", params)
        await peer.reply(request, text("ok"))
    assert updates == [(1, 3, "going on"), (2.5, 3, "going on")]
    assert log.sent_of("notifications/progress") == []


@pytest.mark.requirement("LEG-INIT-08", "LEG-INIT-09")
@every_version
async def test_context_of_a_completion_is_left_out_where_it_does_not_exist(version: str) -> None:
    async with session("legacy", version=version) as (client, peer):
        async with running(
            lambda: client.complete(PromptReference(name="p"), ("a", "b"), context={"c": "d"})
        ) as outcome:
            request = await peer.request("completion/complete")
            await peer.reply(request, {"completion": {"values": ["x"]}})
        assert outcome[0].completion.values == ("x",)
        assert request["params"].get("context") == (
            {"arguments": {"c": "d"}} if version >= "2025-06-18" else None
        )


@pytest.mark.requirement("LEG-VER-01", "LEG-VER-02")
async def test_initialize_after_a_probe_never_asks_for_a_modern_version() -> None:
    async with connecting(ClientOptions(startup_timeout=600)) as attempt:
        await attempt.peer.fail(await attempt.peer.request("server/discover"), -32601)
        request = await attempt.peer.request("initialize")
        assert request["params"]["protocolVersion"] == LEGACY != MODERN
        assert "_meta" not in request["params"]
        await attempt.peer.reply(request, initialized())
        await attempt.connected()
