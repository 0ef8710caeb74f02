"""Log messages of the server: the levels asked for, and the sink they reach."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from helpers import alive, both_eras, fake, nothing_left
from scripted import CAPABILITIES, complaints, connecting, running, session, text
from trio_mcp_stdio import (
    Client,
    ClientOptions,
    InvalidParams,
    LocalProtocolError,
    LogMessage,
    RequestOptions,
    open_client,
)
from trio_mcp_stdio._connection import logs
from trio_mcp_stdio.types import LoggingLevel

KEY = "io.modelcontextprotocol/logLevel"
LEVELS: tuple[LoggingLevel, ...] = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)


def from_server(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith("trio_mcp_stdio.server.")]


async def exchange(call: Callable[[], Awaitable[Any]], peer: Any, *messages: object) -> dict[str, Any]:
    """Run a call whose answer comes after these log messages; the request that it sent."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        request: dict[str, Any] = await peer.request()
        for params in messages:
            await peer.notify("notifications/message", params)
        await peer.reply(request, text("ok"))
    return request


# The sink


@pytest.mark.requirement("LOG-08")
@both_eras
@pytest.mark.parametrize("level", LEVELS)
async def test_messages_go_to_the_standard_logging(
    era: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trio_mcp_stdio")
    async with session(era) as (client, peer):
        params = {"level": level, "logger": "db", "data": "it is full"}
        await exchange(lambda: client.call_tool("t"), peer, params)

    (record,) = from_server(caplog)
    standard = {"notice": "INFO", "alert": "CRITICAL", "emergency": "CRITICAL"}
    assert record.name == f"trio_mcp_stdio.server.{client.name}"
    assert record.levelname == standard.get(level, level.upper())
    assert record.getMessage() == "db: it is full"
    assert vars(record)["mcp_message"] == LogMessage(level=level, logger="db", data="it is full")


async def test_nothing_is_formatted_that_nobody_wants(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_shown", lambda message: pytest.fail("formatted"))
    caplog.set_level(logging.WARNING, "trio_mcp_stdio")
    async with session() as (client, peer):
        await exchange(lambda: client.call_tool("t"), peer, {"level": "notice", "data": "x"})
        found = client.statistics()

    assert (found.log_messages, found.callback_errors) == (1, 0)


@pytest.mark.parametrize(
    ("params", "shown"),
    [
        ({"data": "red \x1b[31m\nforged: line\r"}, r"red \x1b[31m\nforged: line\r"),
        ({"data": "\x9b31m \u202e back \ud800"}, r"\x9b31m \u202e back \ud800"),
        ({"data": "naïve ☃"}, "naïve ☃"),
        ({"data": "x", "logger": "a\x07b"}, r"a\x07b: x"),
        ({"data": "x", "logger": ""}, "x"),
        ({"data": {"a": [1, None, "\x1b"]}}, '{"a":[1,null,"\\u001b"]}'),
        ({"data": None}, "null"),
        ({"data": "y" * 20_000}, "y" * 16_384 + "… (20000 characters)"),
        ({"data": "x", "logger": "z" * 300}, "z" * 200 + "… (300 characters): x"),
    ],
)
async def test_no_terminal_obeys_what_is_logged(
    params: dict[str, Any], shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "trio_mcp_stdio")
    async with session() as (client, peer):
        await exchange(lambda: client.call_tool("t"), peer, {"level": "info", **params})

    (record,) = from_server(caplog)
    assert record.getMessage() == shown
    assert record.getMessage().isprintable()


@both_eras
async def test_a_callback_gets_any_json_value(era: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "trio_mcp_stdio")
    values: list[Any] = ["text", None, 1.5, True, [1, {}], {"a": None}]
    got: list[LogMessage] = []
    notified: list[str] = []
    options = ClientOptions(on_log=got.append, on_notification=lambda each: notified.append(each.method))
    async with session(era, options) as (client, peer):
        messages = [{"level": "info", "data": value, "later": 1} for value in values]
        await exchange(
            lambda: client.call_tool("t"), peer, *messages, {"level": "info", "data": 0, "_meta": {}}
        )

    assert [message.data for message in got] == [*values, 0]
    assert [message.meta for message in got][-2:] == [LogMessage(level="info", data=0).meta, {}]
    assert from_server(caplog) == []
    assert notified == ["notifications/message"] * 7


@pytest.mark.parametrize(
    "params",
    [
        None,
        {"level": "info"},
        {"data": "x"},
        {"level": "loud", "data": "x"},
        {"level": "INFO", "data": "x"},
        {"level": ["info"], "data": "x"},
        {"level": None, "data": "x"},
        {"level": "info", "data": "x", "logger": 1},
        {"level": "info", "data": "x", "logger": None},
    ],
)
async def test_a_malformed_message_is_counted_and_costs_nothing(params: object) -> None:
    got: list[LogMessage] = []
    async with session(options=ClientOptions(on_log=got.append, strict=True)) as (client, peer):
        await exchange(lambda: client.call_tool("t"), peer, params, {"level": "info", "data": "good"})
        found = client.statistics()

    assert [message.data for message in got] == ["good"]
    assert (found.log_messages, found.log_messages_malformed, found.notifications) == (1, 1, 2)


async def test_a_callback_that_raises_is_counted_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    def broken(message: LogMessage) -> None:
        raise ValueError(message.data)

    async with session(options=ClientOptions(on_log=broken)) as (client, peer):
        await exchange(lambda: client.call_tool("t"), peer, *[{"level": "info", "data": n} for n in range(3)])
        found = client.statistics()

    assert found.callback_errors == 3
    assert complaints(caplog) == ["the log callback raised; it goes on being called"]


async def test_an_async_callback_runs_beside_the_reader_and_sees_the_end() -> None:
    got: list[LogMessage] = []
    go = trio.Event()

    async def on_log(message: LogMessage) -> None:
        await go.wait()
        got.append(message)

    async with session(options=ClientOptions(on_log=on_log)) as (client, peer):
        await exchange(lambda: client.call_tool("t"), peer, *[{"level": "info", "data": n} for n in range(3)])
        assert got == []
        go.set()
        client.stop()
        await peer.rest()
        await client.wait_closed()

    assert [message.data for message in got] == [0, 1, 2]


@pytest.mark.requirement("LOG-11")
async def test_messages_of_concurrent_calls_reach_the_one_sink() -> None:
    got: list[LogMessage] = []
    async with (
        session(options=ClientOptions(on_log=got.append)) as (client, peer),
        running(lambda: client.call_tool("a", log_level="debug")),
        running(lambda: client.call_tool("b", log_level="error")),
    ):
        requests = [await peer.request("tools/call"), await peer.request("tools/call")]
        for request in requests:
            data = f"from {request['params']['name']}"
            await peer.notify("notifications/message", {"level": "error", "data": data})
        for request in requests:
            await peer.reply(request, text("ok"))

    assert {message.data for message in got} == {"from a", "from b"}
    assert not hasattr(got[0], "request_id")


@pytest.mark.requirement("LEG-LOG-03")
@both_eras
async def test_messages_before_the_end_of_the_handshake_are_accepted(era: str) -> None:
    got: list[LogMessage] = []
    options = ClientOptions(on_log=got.append, era="legacy" if era == "legacy" else "auto")
    async with connecting(options) as attempt:
        await attempt.peer.notify("notifications/message", {"level": "warning", "data": "loading"})
        await attempt.peer.shake_hands(era)
        client = await attempt.connected()
        assert client.statistics().log_messages == 1

    assert [message.data for message in got] == ["loading"]


# Levels in the modern era


@pytest.mark.parametrize(
    ("default", "keywords", "expected"),
    [
        (None, {}, None),
        (None, {"log_level": "debug"}, "debug"),
        ("error", {}, "error"),
        ("error", {"log_level": "info"}, "info"),
        ("error", {"log_level": None}, None),
        ("error", {"meta": {KEY: "alert"}}, "alert"),
        ("error", {"meta": {"com.example/a": 1}}, "error"),
        (None, {"log_level": "debug", "meta": {KEY: "alert"}}, "alert"),
    ],
)
async def test_the_level_travels_with_each_request(
    default: LoggingLevel | None, keywords: dict[str, Any], expected: str | None
) -> None:
    async with session(options=ClientOptions(log_level=default)) as (client, peer):
        request = await exchange(lambda: client.call_tool("t", **keywords), peer)

    assert request["params"]["_meta"].get(KEY) == expected
    assert json.dumps(request).count(KEY) == (expected is not None)
    if "com.example/a" in keywords.get("meta", {}):
        assert request["params"]["_meta"]["com.example/a"] == 1


async def test_a_level_among_the_parameters_wins_over_the_default() -> None:
    async with session(options=ClientOptions(log_level="error")) as (client, peer):
        params = {"name": "t", "_meta": {KEY: "notice"}}
        request = await exchange(lambda: client.request("tools/call", params), peer)
        other = await exchange(lambda: client.request("tools/call", {"_meta": {"a": 1}}), peer)

    assert request["params"]["_meta"][KEY] == "notice"
    assert (other["params"]["_meta"][KEY], other["params"]["_meta"]["a"]) == ("error", 1)


async def test_every_request_takes_a_level() -> None:
    async with session(options=ClientOptions()) as (client, peer):
        request = await exchange(lambda: client.request("custom/method", log_level="critical"), peer)

    assert request["params"]["_meta"][KEY] == "critical"


@pytest.mark.requirement("LOG-08")
def test_the_level_of_a_request_is_marked_as_deprecated() -> None:
    assert "deprecated" in (RequestOptions.__doc__ or "")


@both_eras
@pytest.mark.parametrize("level", ["loud", "INFO", "", 3, ["info"]])
async def test_an_unknown_level_is_refused_before_anything_is_sent(era: str, level: Any) -> None:
    async with session(era) as (client, peer):
        with pytest.raises(LocalProtocolError, match="is not a log level; there are debug, info") as caught:
            await client.call_tool("t", log_level=level)
        assert caught.value.server == client.name
        if era == "legacy":
            with pytest.raises(LocalProtocolError, match="is not a log level"):
                await client.set_log_level(level)
        client.stop()
        assert await peer.rest() == []
    with pytest.raises(ValueError, match="log_level"):
        ClientOptions(log_level=level)


async def test_a_modern_connection_has_no_level_of_its_own() -> None:
    async with session() as (client, peer):
        with pytest.raises(LocalProtocolError, match="log_level= of a request"):
            await client.set_log_level("info")
        client.stop()
        assert await peer.rest() == []


# Levels in the legacy era


@pytest.mark.requirement("LEG-LOG-01")
async def test_a_legacy_session_is_told_its_level() -> None:
    async with session("legacy") as (client, peer):
        async with running(lambda: client.set_log_level("warning")) as outcome:
            request = await peer.request("logging/setLevel")
            await peer.reply(request, {})
        assert outcome == [None]
        assert request["params"] == {"level": "warning"}
        async with running(lambda: client.set_log_level("debug")) as outcome:
            await peer.fail(await peer.request("logging/setLevel"), -32602, "no such level")
        assert isinstance(outcome[0], InvalidParams)


async def test_a_request_of_a_legacy_session_has_no_level() -> None:
    async with session("legacy", ClientOptions(log_level=None)) as (client, peer):
        with pytest.raises(LocalProtocolError, match="use set_log_level"):
            await client.call_tool("t", log_level="info")
        request = await exchange(lambda: client.call_tool("t", log_level=None), peer)

    assert "_meta" not in request["params"]


async def test_strict_wants_logging_to_be_announced() -> None:
    options = ClientOptions(strict=True)
    async with session("legacy", options, capabilities={"tools": {}}) as (client, _):
        with pytest.raises(LocalProtocolError, match="has not announced logging"):
            await client.set_log_level("info")


@pytest.mark.requirement("LEG-LOG-01")
@pytest.mark.parametrize("answer", ["result", "error"])
async def test_the_level_of_the_options_is_set_once_and_before_any_call(
    answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with session("legacy", ClientOptions(log_level="notice")) as (client, peer):
        async with running(lambda: client.call_tool("t")):
            first = await peer.request("logging/setLevel")
            call = await peer.request("tools/call")
            if answer == "result":
                await peer.reply(first, {})
            else:
                await peer.fail(first, -32602)
            await peer.reply(call, text("ok"))
        await exchange(lambda: client.call_tool("t"), peer)
        assert client.statistics().in_flight == 0

    assert first["params"] == {"level": "notice"}
    assert "_meta" not in call["params"]
    warning = f"{client.name}: it did not accept the log level"
    assert complaints(caplog) == ([] if answer == "result" else [warning])


async def test_a_level_that_nobody_confirms_is_forgotten(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    options = ClientOptions(log_level="notice", request_timeout=5)
    async with session("legacy", options) as (client, peer):
        await peer.request("logging/setLevel")
        await trio.sleep(6)
        assert client.statistics().in_flight == 0
        client.stop()
        assert await peer.rest() == []

    assert complaints(caplog) == [f"{client.name}: it did not accept the log level"]


async def test_the_end_of_the_client_waits_for_no_confirmation(caplog: pytest.LogCaptureFixture) -> None:
    async with session("legacy", ClientOptions(log_level="notice")) as (client, peer):
        await peer.request("logging/setLevel")
        client.stop()
        assert await peer.rest() == []
        await client.wait_closed()

    assert complaints(caplog) == []


async def test_a_server_that_announced_no_logging_is_asked_for_none() -> None:
    without = {name: value for name, value in CAPABILITIES.items() if name != "logging"}
    async with session("legacy", ClientOptions(log_level="notice"), capabilities=without) as (client, peer):
        await exchange(lambda: client.call_tool("t"), peer)

    assert [message["method"] for message in peer.seen[-1:]] == ["tools/call"]


# Too many of them


@pytest.mark.field("K117")
@both_eras
async def test_a_flood_of_messages_delays_no_answer(era: str) -> None:
    calls, number = 100, 100_000
    got: list[LogMessage] = []
    answered: list[int] = []
    go = trio.Event()

    async def on_log(message: LogMessage) -> None:
        await go.wait()
        got.append(message)

    async def call(client: Client, n: int) -> None:
        result = await client.call_tool("t", {"text": str(n)})
        assert result.text == str(n)
        answered.append(client.statistics().log_messages)

    with alive(120), nothing_left():
        options = ClientOptions(on_log=on_log, log_level=None)
        async with open_client(fake("logs", "flood", calls, number, era=era), options) as client:
            async with trio.open_nursery() as nursery:
                for n in range(calls):
                    nursery.start_soon(call, client, n)
            found = client.statistics()
            assert got == []  # the callback has not been let on: no answer waited for it
            go.set()

    assert len(answered) == calls
    assert found.log_messages == number
    assert found.log_messages_dropped >= number - 4_096 - 1
    assert len(got) == number - found.log_messages_dropped
    assert [message.data[:7] for message in got[1:]] == [
        f"{n:07d}" for n in range(number - len(got) + 1, number)
    ]
