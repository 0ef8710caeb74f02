"""Text that tempts a line splitter, a decoder or an encoder, as real bytes from and to a child process."""

from __future__ import annotations

import io
import json
import logging

import pytest

from helpers import alive, both_eras, fake, logged, nothing_left
from scripted import complaints
from trio_mcp_stdio import LocalProtocolError, RpcError, open_client

REPLACED = "a\N{REPLACEMENT CHARACTER}b"
LONE = "\udcaf"


@pytest.mark.field("K039")
@pytest.mark.requirement("STDIO-FRAME-05")
@both_eras
async def test_only_a_newline_byte_splits_lines(era: str) -> None:
    log, options = logged()
    with alive(), nothing_left():
        async with open_client(fake("texts", "separators", era=era), options) as client:
            for _ in range(3):
                result = await client.call_tool("echo")
                assert result.text == "one\u2028two\u2029three\u0085four"
        found = client.statistics()
    assert (found.noise, found.malformed) == (0, 0)
    assert b"\xe2\x80\xa8" in log.received[-1]
    assert b"\xe2\x80\xa9" in log.received[-1]


@pytest.mark.field("K040")
@both_eras
async def test_character_that_arrives_byte_by_byte_is_whole(era: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("texts", "dribble", era=era)) as client:
            assert (await client.call_tool("echo")).text == "\N{GRINNING FACE}"
            assert client.statistics().malformed == 0


@pytest.mark.field("K041")
@both_eras
async def test_bad_utf8_in_the_handshake_is_replaced_with_a_warning(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    with alive(), nothing_left():
        async with open_client(fake("texts", "bad-utf8-handshake", era=era)) as client:
            assert client.server.instructions == REPLACED
            assert (await client.call_tool("echo", {"text": "goes on"})).text == "goes on"
    assert len(complaints(caplog)) == 1
    assert "UTF-8" in complaints(caplog)[0]


@pytest.mark.field("K041")
@both_eras
async def test_bad_utf8_in_answers_is_replaced_with_one_warning(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    with alive(), nothing_left():
        async with open_client(fake("texts", "bad-utf8", era=era)) as client:
            for _ in range(3):
                assert (await client.call_tool("echo")).text == REPLACED
    assert len(complaints(caplog)) == 1


@pytest.mark.field("K043")
@both_eras
async def test_half_a_surrogate_pair_is_delivered_and_breaks_neither_writer_nor_log(
    era: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A log file as programs have it: strict UTF-8, at the most talkative level, and errors not swallowed.
    written = io.BytesIO()
    handler = logging.StreamHandler(io.TextIOWrapper(written, encoding="utf-8", write_through=True))
    failures: list[logging.LogRecord] = []
    monkeypatch.setattr(handler, "handleError", failures.append)
    caplog.set_level(logging.DEBUG, "trio_mcp_stdio")
    monkeypatch.setattr(logging.getLogger("trio_mcp_stdio"), "handlers", [handler])
    with alive(), nothing_left():
        async with open_client(fake("texts", "surrogate", era=era)) as client:
            result = await client.call_tool("half")
            assert result.text == "\ud83d"
            with pytest.raises(RpcError) as caught:
                await client.call_tool("half-error")
            assert caught.value.message == "\ud83d"
            with pytest.raises(LocalProtocolError):
                await client.call_tool("echo", {"text": result.text})
            assert (await client.call_tool("echo", {"text": "fine"})).text == "fine"
            assert client.statistics().noise == 1
            "".join(client.statistics().noise_previews).encode()
    assert failures == []
    assert written.getvalue()
    assert json.loads(json.dumps(result.text)) == "\ud83d"


@pytest.mark.field("K044")
@pytest.mark.requirement("STDIO-FRAME-01")
@both_eras
@pytest.mark.parametrize(
    "arguments",
    [{"text": LONE}, {LONE: 1}, {"deep": [{"er": {"text": f"a{LONE}b"}}]}],
    ids=["value", "key", "deep"],
)
async def test_text_that_cannot_be_encoded_raises_in_the_caller_before_any_byte(
    era: str, arguments: dict[str, object]
) -> None:
    log, options = logged()
    with alive(), nothing_left():
        async with open_client(fake("texts", "plain", era=era), options) as client:
            await client.call_tool("echo")
            before = len(log.sent)
            with pytest.raises(LocalProtocolError) as caught:
                await client.call_tool("echo", arguments)
            str(caught.value).encode()
            with pytest.raises(LocalProtocolError):
                await client.call_tool(f"echo{LONE}")
            with pytest.raises(LocalProtocolError):
                await client.call_tool("echo", meta={"com.example/note": LONE})
            with pytest.raises(LocalProtocolError):
                await client.request("tools/call", {"name": "echo", "arguments": arguments})
            with pytest.raises(LocalProtocolError):
                await client.request(f"custom/{LONE}")
            with pytest.raises(LocalProtocolError):
                await client.notify(f"notifications/{LONE}")
            assert len(log.sent) == before
            found = client.statistics()
            assert (found.in_flight, found.unsent_bytes) == (0, 0)
            assert (await client.call_tool("echo", {"text": "next"})).text == "next"


@pytest.mark.field("K044")
@pytest.mark.requirement("STDIO-FRAME-01", "STDIO-FRAME-02")
@both_eras
@pytest.mark.parametrize(
    "lines", ["\u2028\u2029\u0085", "a\nb\r\nc", "\U0010ffff\ud7ff\x00\x7f", "שלום 世界 😀"]
)
async def test_outgoing_text_is_one_line_of_valid_utf8(era: str, lines: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("texts", "raw", era=era)) as client:
            raw = bytes.fromhex((await client.call_tool("raw", {"text": lines, lines: 1})).text)
    arguments = json.loads(raw.decode("utf-8", errors="strict"))["params"]["arguments"]
    assert arguments == {"text": lines, lines: 1}
