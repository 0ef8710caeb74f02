"""Matching answers to requests when ids, shapes or companions are odd, against child processes."""

from __future__ import annotations

import logging
import math

import pytest
import trio

from helpers import alive, both_eras, fake, logged, nothing_left
from scripted import LEGACY_VERSIONS, complaints
from trio_mcp_stdio import (
    Client,
    ClientOptions,
    Era,
    LocalProtocolError,
    MethodNotFound,
    Notification,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
    open_client,
)


async def echo_all(client: Client, *texts: str) -> list[str]:
    """Call `echo` with each text at once; the answers in the order of the texts."""
    found = dict.fromkeys(texts, "")

    async def echo(text: str) -> None:
        found[text] = (await client.call_tool("echo", {"text": text})).text

    async with trio.open_nursery() as nursery:
        for text in texts:
            nursery.start_soon(echo, text)
    return list(found.values())


@pytest.mark.field("K045")
@both_eras
async def test_numeric_string_ids_are_matched_with_one_warning(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    with alive(), nothing_left():
        async with open_client(fake("ids", "strings", era=era)) as client:
            assert await echo_all(client, "a", "b", "c") == ["a", "b", "c"]
            assert (await client.call_tool("echo", {"text": "d"})).text == "d"
            found = client.statistics()
            assert found.string_ids >= 4 + (era == "modern")
            assert (found.unmatched, found.in_flight) == (0, 0)
    assert len(complaints(caplog)) == 1


@pytest.mark.field("K045", "K046")
@pytest.mark.requirement("STDIO-STREAM-08")
@both_eras
async def test_ids_that_only_look_alike_are_not_matched_and_do_not_stop_the_reader(era: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("ids", "odd-ids", era=era)) as client:
            assert (await client.call_tool("echo", {"text": "one"})).text == "one"
            assert await echo_all(client, "a", "b", "c") == ["a", "b", "c"]
            found = client.statistics()
            assert found.string_ids == 0
            assert found.unmatched + found.malformed == 4 * 17


@pytest.mark.field("K046")
@pytest.mark.requirement("ERR-18")
@both_eras
async def test_error_without_id_is_logged_and_not_guessed_when_several_requests_are_pending(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trio_mcp_stdio")
    with alive(), nothing_left():
        async with open_client(fake("ids", "null-error-of-two", era=era)) as client:
            assert await echo_all(client, "a", "b") == ["a", "b"]
            assert client.statistics().null_id_errors == 1
            assert await echo_all(client, "c", "d") == ["c", "d"]
    assert "Parse error" in caplog.text


@pytest.mark.field("K047")
@both_eras
@pytest.mark.parametrize("shape", ["null", "absent"])
async def test_error_without_id_fails_the_only_pending_request_at_once(era: str, shape: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("ids", "null-error", -32000, shape, era=era)) as client:
            with pytest.raises(RpcError) as caught:
                await client.call_tool("fail", timeout=None)
            error = caught.value
            assert (error.code, error.message, error.method) == (-32000, "tool failed", "tools/call")
            assert error.server == client.name
            assert (await client.call_tool("echo", {"text": "next"})).text == "next"
            assert client.statistics().null_id_errors == 1


@pytest.mark.field("K047")
@pytest.mark.parametrize("shape", ["null", "absent"])
async def test_method_not_found_without_id_fails_the_only_request_when_no_notification_was_sent(
    shape: str,
) -> None:
    with alive(), nothing_left():
        async with open_client(fake("ids", "null-error", -32601, shape)) as client:
            with pytest.raises(MethodNotFound):
                await client.call_tool("fail", timeout=None)


@pytest.mark.field("K047", "K051")
@both_eras
@pytest.mark.parametrize("shape", ["null", "absent"])
async def test_method_not_found_without_id_after_a_notification_is_only_named_in_a_timeout(
    era: str, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trio_mcp_stdio")
    with alive(), nothing_left():
        async with open_client(fake("ids", "null-error", -32601, shape, era=era)) as client:
            if era == "modern":
                with pytest.raises(RequestTimeout):  # its notice is the notification
                    await client.call_tool("hold", timeout=0.1)
            with pytest.raises(RequestTimeout) as caught:
                await client.call_tool("fail", timeout=1)
            assert any("-32601" in line for line in caught.value.received)
            assert "-32601" in str(caught.value)
            assert (await client.call_tool("echo", {"text": "next"})).text == "next"
    assert "-32601" in caplog.text


@pytest.mark.field("K047")
@both_eras
async def test_result_without_id_is_never_matched(era: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("ids", "null-result", era=era)) as client:
            assert (await client.call_tool("echo", {"text": "right"})).text == "right"
            found = client.statistics()
            assert found.unmatched + found.malformed == 1


@pytest.mark.field("K048")
@pytest.mark.requirement("MSG-05")
@both_eras
async def test_second_answer_to_one_id_is_ignored_with_a_debug_note(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trio_mcp_stdio")
    log, options = logged()
    with alive(), nothing_left():
        async with open_client(fake("ids", "twice", era=era), options) as client:
            for number in range(10):
                assert (await client.call_tool("echo", {"text": str(number)})).text == str(number)
            await client.call_tool("echo")
            assert client.statistics().unmatched >= 10
    assert complaints(caplog) == []
    assert any("no request is waiting" in message or "unmatched" in message for message in caplog.messages)
    ids = [message["id"] for message in log.sent if "id" in message]
    assert len(set(ids)) == len(ids)


@pytest.mark.field("K049")
@pytest.mark.parametrize(
    ("in_a_row", "at_once"),
    [pytest.param(500, 2_000, id="some"), pytest.param(10_000, 10_000, id="all", marks=pytest.mark.slow)],
)
@both_eras
async def test_no_immediate_answer_is_lost(era: str, in_a_row: int, at_once: int) -> None:
    with alive(300), nothing_left():
        async with open_client(fake("ids", "plain", era=era)) as client:
            for number in range(in_a_row):
                assert (await client.call_tool("echo", {"text": f"{number}"})).text == f"{number}"

            async def call(first: int) -> None:
                for number in range(first, at_once, 100):
                    assert (await client.call_tool("echo", {"text": f"{number}"})).text == f"{number}"

            async with trio.open_nursery() as nursery:
                for first in range(100):
                    nursery.start_soon(call, first)
            found = client.statistics()
            assert (found.in_flight, found.unmatched, found.late) == (0, 0, 0)


@pytest.mark.field("K051")
@pytest.mark.requirement("LEG-MSG-07")
async def test_error_for_the_initialized_notification_is_a_debug_note(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "trio_mcp_stdio")
    with alive(), nothing_left():
        async with open_client(fake("ids", "unread-notification", era="legacy")) as client:
            # The server sends the error after the notification, and again while the call is pending.
            assert (await client.call_tool("echo", {"text": "works"})).text == "works"
            assert client.statistics().null_id_errors == 2
    assert complaints(caplog) == []
    noted = [record for record in caplog.records if "Method not found" in record.getMessage()]
    assert [record.levelno for record in noted] == [logging.DEBUG] * len(noted)
    assert noted != []


@pytest.mark.field("K052")
@pytest.mark.requirement("LEG-BATCH-05")
@pytest.mark.parametrize("version", ["2026-07-28", *LEGACY_VERSIONS])
async def test_array_of_answers_is_taken_apart(version: str, caplog: pytest.LogCaptureFixture) -> None:
    era = "modern" if version == "2026-07-28" else "legacy"
    with alive(), nothing_left():
        async with open_client(fake("ids", "array", version, era=era)) as client:
            assert client.protocol_version == version
            assert await echo_all(client, "a", "b") == ["a", "b"]
            assert await echo_all(client, "c", "d") == ["c", "d"]
            assert client.statistics().in_flight == 0
    about_arrays = [message for message in complaints(caplog) if "array" in message or "batch" in message]
    assert len(about_arrays) == (0 if version == "2025-03-26" else 1)


@pytest.mark.field("K054")
@pytest.mark.requirement("STDIO-FRAME-17")
@both_eras
@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity", "nan", "1e", "01"])
async def test_answer_with_a_number_that_json_does_not_have_fails_only_its_request(
    era: str, token: str
) -> None:
    with alive(), nothing_left():
        server = fake("ids", "nan", era=era)
        async with open_client(server) as client:
            with pytest.raises(RemoteProtocolError) as caught:
                await client.call_tool("echo", {"token": token}, timeout=None)
            assert caught.value.server == server.name
            assert client.statistics().malformed == 1
            assert (await client.call_tool("echo", {"text": "next"})).text == "next"


@pytest.mark.field("K052", "K054")
@both_eras
async def test_array_with_a_number_that_json_does_not_have_leaves_no_call_waiting(era: str) -> None:
    outcomes: list[str] = []
    with alive(), nothing_left():
        async with open_client(fake("ids", "nan-array", era=era)) as client:

            async def call(text: str) -> None:
                try:
                    outcomes.append((await client.call_tool("echo", {"text": text}, timeout=5)).text)
                except RemoteProtocolError:
                    outcomes.append("unreadable")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, "a")
                nursery.start_soon(call, "b")
            assert len(outcomes) == 2
            assert "unreadable" in outcomes
            assert client.statistics().in_flight == 0


@pytest.mark.field("K054")
@pytest.mark.requirement("STDIO-FRAME-08")
@both_eras
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
async def test_number_that_json_does_not_have_raises_in_the_caller_before_any_byte(
    era: str, number: float
) -> None:
    log, options = logged()
    with alive(), nothing_left():
        async with open_client(fake("ids", "plain", era=era), options) as client:
            await client.call_tool("echo", {"text": None})
            before = len(log.sent)
            for arguments in ({"x": number}, {"x": [None, {"y": (1.5, number)}]}):
                with pytest.raises(LocalProtocolError):
                    await client.call_tool("echo", arguments)
            with pytest.raises(LocalProtocolError):
                await client.request("tools/call", {"name": "echo", "arguments": {"x": number}})
            with pytest.raises(LocalProtocolError):
                await client.call_tool("echo", meta={"com.example/x": number})
            with pytest.raises(LocalProtocolError):
                await client.notify("notifications/x", {"x": number})
            assert len(log.sent) == before
            assert (await client.call_tool("echo", {"text": "next"})).text == "next"


@pytest.mark.field("K057")
@both_eras
async def test_empty_or_null_params_of_a_notification_are_an_empty_object(era: str) -> None:
    received: list[Notification] = []
    with alive(), nothing_left():
        options = ClientOptions(on_notification=received.append)
        async with open_client(fake("ids", "empty-params", era=era), options) as client:
            assert client.era is Era(client.era)
            for _ in range(2):
                assert (await client.call_tool("echo", {"text": "works"})).text == "works"
            found = client.statistics()
            assert (found.malformed, found.noise) == (0, 0)
    for method in ("tools/list_changed", "message", "unheard_of"):
        same = [one for one in received if one.method == f"notifications/{method}"]
        assert [one.params for one in same] == [{}] * 4
