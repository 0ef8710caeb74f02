"""Messages made to hurt: each costs little, and nobody but its sender."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from helpers import alive, both_eras
from scripted import running, session
from trio_mcp_stdio import InvalidResult, LocalProtocolError
from trio_mcp_stdio._wire.convert import brief
from trio_mcp_stdio._wire.jsonrpc import MAX_BATCH, Malformed, decode


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def test_array_of_half_a_million_numbers_is_one_malformed_line() -> None:
    line = b"[" + b"1," * 500_000 + b'{"jsonrpc":"2.0","method":"x"}]'
    found = decode(line)
    assert isinstance(found, Malformed)
    assert str(MAX_BATCH) in found.reason


@pytest.mark.parametrize("blank", [b" ", b"\t", b"\r", b" \t\r", b"\xef\xbb\xbf", b"\x1b[0m"])
def test_line_of_nothing_visible_is_noise(blank: bytes) -> None:
    found = decode(blank * 1_000_000)
    assert isinstance(found, Malformed)
    assert found.noise


@pytest.mark.parametrize("depth", [10, 500, 900, 5_000])
def test_any_depth_has_a_short_representation(depth: int) -> None:
    assert len(brief(nested(depth))) <= 200


def test_control_characters_are_escaped_in_a_representation() -> None:
    assert "\x1b" not in brief("a\n\x1b[31m")


@both_eras
@pytest.mark.parametrize("depth", [300, 900])
async def test_deeply_nested_ids_do_not_disturb_the_reader(era: str, depth: int) -> None:
    with alive():
        async with session(era) as (client, peer):
            deep = nested(depth)
            await peer.notify("notifications/cancelled", {"requestId": deep, "reason": deep})
            await peer.notify("notifications/progress", {"progressToken": deep, "progress": 1})
            await peer.notify(
                "notifications/tools/list_changed",
                {"_meta": {"io.modelcontextprotocol/subscriptionId": deep}},
            )
            async with running(lambda: client.call_tool("echo")) as outcome:
                request = await peer.request("tools/call")
                await peer.reply(request, {"content": [{"type": "text", "text": "fine"}]})
            assert outcome[0].text == "fine"


async def test_hundred_thousand_questions_are_refused_at_once() -> None:
    with alive():
        async with session("modern") as (client, peer):
            questions = {str(number): {"method": "roots/list"} for number in range(100_000)}
            async with running(lambda: client.call_tool("echo")) as outcome:
                request = await peer.request("tools/call")
                await peer.reply(request, {"resultType": "input_required", "inputRequests": questions})
            assert isinstance(outcome[0], InvalidResult)
            assert "inputRequests" in str(outcome[0])


async def test_names_of_the_peer_reach_no_log_unescaped(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with alive():
        async with session("modern") as (client, peer):
            await peer.send({"jsonrpc": "2.0", "id": 1, "method": "x\n\x1b[31mgotcha"})
            async with running(lambda: client.call_tool("echo")):
                request = await peer.request("tools/call")
                await peer.reply(request, {"content": []})
            assert client.statistics().violations == 1
    assert any("gotcha" in record.getMessage() for record in caplog.records)
    assert not any("\x1b" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("timeout", [10**400, "5", True, -1, float("nan"), [1]])
async def test_limit_that_is_no_number_of_seconds_is_refused(timeout: Any) -> None:
    with alive():
        async with session("modern") as (client, _):
            with pytest.raises(LocalProtocolError, match="timeout"):
                await client.call_tool("echo", timeout=timeout)


@pytest.mark.parametrize("method", [5, None, [], b"x"])
async def test_method_that_is_no_string_is_refused(method: Any) -> None:
    with alive():
        async with session("modern") as (client, _):
            with pytest.raises(LocalProtocolError):
                await client.request(method, timeout=1)
            with pytest.raises(LocalProtocolError):
                await client.notify(method)


async def test_parameters_that_are_no_mapping_are_refused() -> None:
    parameters: Any = [1]
    with alive():
        async with session("modern") as (client, _):
            with pytest.raises(LocalProtocolError, match="mapping"):
                await client.request("x", parameters)
