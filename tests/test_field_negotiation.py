"""Agreeing on an era and a version with child processes that have views of their own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers import QUICK, alive, assert_gone, assert_plain, fake, logged, nothing_left
from scripted import LEGACY_VERSIONS, VERSION_KEY
from trio_mcp_stdio import (
    ClientOptions,
    Era,
    NegotiationError,
    RemoteProtocolError,
    ServerExited,
    StartupTimeout,
    StdioServer,
    open_client,
)

LONG: dict[str, float] = {"probe_timeout": 600.0, "startup_timeout": 600.0}
"""Limits that a test never reaches: what happens, happens at once."""


class Journal:
    """The file in which the server notes its starts and what it reads."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().split()

    def server(self, mode: str, *arguments: object, era: str = "legacy", **settings: Any) -> StdioServer:
        return fake("negotiates", self.path, mode, *arguments, era=era, name=f"{mode}-server", **settings)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


async def works(server: StdioServer, options: ClientOptions, era: Era) -> None:
    """Connect, check the era, call a tool, leave without a trace."""
    with alive(), nothing_left():
        async with open_client(server, options) as client:
            assert client.era is era
            assert client.server.era is era
            assert (await client.call_tool("echo", {"text": "works"})).text == "works"
        assert client.exit is not None
        assert (client.exit.returncode, client.exit.ending) == (0, "exited")


async def refuses(server: StdioServer, options: ClientOptions) -> NegotiationError:
    """Fail to connect without a trace."""
    with alive(), nothing_left(), pytest.raises(NegotiationError) as caught:
        async with open_client(server, options):
            pytest.fail("connected")
    assert_plain(caught.value, server)
    return caught.value


@pytest.mark.field("K101")
@pytest.mark.requirement("ERA-18")
async def test_server_that_dies_on_the_probe_is_started_once_more_in_the_legacy_era(journal: Journal) -> None:
    await works(journal.server("initialize-or-die"), ClientOptions(**LONG), Era.LEGACY)
    assert journal.lines == [
        "start", "server/discover",
        "start", "initialize", "notifications/initialized", "tools/call", "eof",
    ]  # fmt: skip


@pytest.mark.field("K101")
@pytest.mark.requirement("ERA-10", "ERA-18")
async def test_remembered_legacy_era_spares_the_probe_and_the_second_start(journal: Journal) -> None:
    options = ClientOptions(remembered=Era.LEGACY, **LONG)
    await works(journal.server("initialize-or-die"), options, Era.LEGACY)
    assert journal.lines == ["start", "initialize", "notifications/initialized", "tools/call", "eof"]


@pytest.mark.field("K101")
async def test_modern_only_client_does_not_start_a_server_again(journal: Journal) -> None:
    server = journal.server("initialize-or-die")
    with alive(), nothing_left(), pytest.raises(ServerExited) as caught:
        async with open_client(server, ClientOptions(era="modern", **LONG)):
            pytest.fail("connected")
    assert_plain(caught.value, server)
    assert caught.value.exit.returncode == 1
    assert "expected initialize" in str(caught.value)
    assert journal.lines == ["start", "server/discover"]


@pytest.mark.field("K102")
@pytest.mark.requirement("ERA-06", "ERA-17")
async def test_silence_on_the_probe_means_initialize_on_the_same_process(journal: Journal) -> None:
    log, options = logged(probe_timeout=0.3)
    await works(journal.server("ignores-probe"), options, Era.LEGACY)
    assert journal.lines == [
        "start", "server/discover", "initialize", "notifications/initialized", "tools/call", "eof",
    ]  # fmt: skip
    ids = [message["id"] for message in log.sent if "id" in message]
    assert len(set(ids)) == len(ids) == 3


@pytest.mark.field("K103")
@pytest.mark.requirement("ERA-05", "ERA-07")
@pytest.mark.parametrize(
    "error",
    [
        {"code": -32602, "message": "Invalid params"},
        {"code": -32600, "message": "Invalid request"},
        {"code": -32000, "message": "Server not initialized"},
        {"code": 0, "message": ""},
        {"code": "-32601", "message": "Method not found"},
        {"code": "METHOD_NOT_FOUND", "message": "Method not found"},
        {"code": -32022, "message": "no list of versions"},
        {"code": -32022, "message": "no list of versions", "data": {"supported": "2026-07-28"}},
        {"code": -32021, "message": "no capabilities named", "data": {"requiredCapabilities": ["roots"]}},
        {"code": -32601},
        "not even an object",
    ],
    ids=lambda error: json.dumps(error)[:40],
)
async def test_any_error_that_only_a_modern_server_could_send_aside_means_legacy(
    journal: Journal, error: object
) -> None:
    await works(journal.server("probe-error", json.dumps(error)), ClientOptions(**LONG), Era.LEGACY)
    assert journal.lines[:3] == ["start", "server/discover", "initialize"]
    assert journal.lines.count("start") == 1


@pytest.mark.field("K104")
@pytest.mark.requirement("ERR-18")
async def test_error_without_id_answers_the_probe(journal: Journal) -> None:
    await works(journal.server("null-id-error"), ClientOptions(**LONG), Era.LEGACY)
    assert journal.lines[:3] == ["start", "server/discover", "initialize"]
    assert journal.lines.count("start") == 1


@pytest.mark.field("K105")
@pytest.mark.requirement("ERA-04", "VER-05")
@pytest.mark.parametrize("supported", [["2026-07-28"], ["2099-01-01", "2026-07-28", "2025-11-25"]])
async def test_rejected_version_is_asked_again_at_a_common_one(
    journal: Journal, supported: list[str]
) -> None:
    log, options = logged(**LONG)
    server = journal.server("rejects-version", json.dumps(supported), "once", era="modern")
    await works(server, options, Era.MODERN)
    assert journal.lines == ["start", "server/discover", "server/discover", "tools/call", "eof"]
    first, second = log.sent_of("server/discover")
    assert first["id"] != second["id"]
    for message in log.sent[1:]:
        assert message["params"]["_meta"][VERSION_KEY] == "2026-07-28"


@pytest.mark.field("K105")
@pytest.mark.requirement("ERA-04", "VER-06")
@pytest.mark.parametrize("era", ["auto", "modern"])
async def test_no_common_version_is_an_error_that_names_both_sides(journal: Journal, era: str) -> None:
    server = journal.server("rejects-version", '["2030-01-01"]', era="modern")
    error = await refuses(server, ClientOptions(era=era, **LONG))
    assert error.supported == ("2030-01-01",)
    assert "2026-07-28" in error.attempted
    assert "2030-01-01" in str(error)
    assert "2026-07-28" in str(error)
    assert journal.lines == ["start", "server/discover", "eof"]


@pytest.mark.field("K105")
@pytest.mark.requirement("ERA-04")
async def test_second_rejection_of_the_version_is_an_error(journal: Journal) -> None:
    server = journal.server("rejects-version", '["2026-07-28"]', era="modern")
    error = await refuses(server, ClientOptions(**LONG))
    assert error.supported == ("2026-07-28",)
    assert journal.lines == ["start", "server/discover", "server/discover", "eof"]


@pytest.mark.field("K105")
@pytest.mark.requirement("ERA-20")
@pytest.mark.parametrize("supported", [["2025-06-18"], ["2030-01-01", "2024-11-05", "2025-06-18"]])
async def test_listed_legacy_version_is_taken_by_a_client_of_both_eras(
    journal: Journal, supported: list[str]
) -> None:
    log, options = logged(**LONG)
    await works(journal.server("rejects-version", json.dumps(supported)), options, Era.LEGACY)
    (request,) = log.sent_of("initialize")
    assert request["params"]["protocolVersion"] == "2025-06-18"


@pytest.mark.field("K105")
@pytest.mark.requirement("ERA-20")
async def test_listed_legacy_version_is_no_help_to_a_modern_only_client(journal: Journal) -> None:
    server = journal.server("rejects-version", '["2025-11-25"]')
    error = await refuses(server, ClientOptions(era="modern", **LONG))
    assert error.supported == ("2025-11-25",)
    assert journal.lines == ["start", "server/discover", "eof"]


@pytest.mark.field("K105")
@pytest.mark.requirement("ERA-04")
@pytest.mark.parametrize(
    "error",
    [
        {"code": -32021, "message": "m", "data": {"requiredCapabilities": {"roots": {}}}},
        {"code": -32020, "message": "m"},
        {"code": -32020, "message": "m", "data": {"anything": [1]}},
        {"code": -32020, "message": "m", "data": "text"},
    ],
    ids=lambda error: json.dumps(error)[:60],
)
@pytest.mark.parametrize("era", ["auto", "modern"])
async def test_other_modern_errors_to_the_probe_are_reported_without_initialize(
    journal: Journal, error: dict[str, Any], era: str
) -> None:
    found = await refuses(journal.server("probe-error", json.dumps(error)), ClientOptions(era=era, **LONG))
    assert found.error is not None
    assert (found.error.code, found.error.data) == (error["code"], error.get("data"))
    assert found.phase == "probe"
    assert journal.lines == ["start", "server/discover", "eof"]


@pytest.mark.field("K106")
@pytest.mark.requirement("LEG-VER-05", "LEG-INIT-10")
@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", None, 20251125, ["2025-11-25"], ""])
async def test_unknown_version_in_the_answer_to_initialize_ends_the_connection(
    journal: Journal, version: object
) -> None:
    server = journal.server("initialize-says", json.dumps({"protocolVersion": version}))
    error = await refuses(server, ClientOptions(**LONG))
    assert error.phase == "initialize"
    for known in LEGACY_VERSIONS:
        assert known in str(error)
    if isinstance(version, str):
        assert repr(version) in str(error)
        assert error.supported == (version,)
    else:
        assert "protocolVersion" in str(error)
    # stdin is closed and the server leaves by itself; `initialized` was never sent.
    assert journal.lines == ["start", "server/discover", "initialize", "eof"]


@pytest.mark.field("K107")
@pytest.mark.requirement("LEG-VER-06")
@pytest.mark.parametrize("version", LEGACY_VERSIONS)
@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_every_known_legacy_version_is_accepted(journal: Journal, version: str, era: str) -> None:
    server = journal.server("initialize-says", json.dumps({"protocolVersion": version}))
    with alive(), nothing_left():
        async with open_client(server, ClientOptions(era=era, **LONG)) as client:
            assert (client.era, client.protocol_version) == (Era.LEGACY, version)
            assert (await client.call_tool("echo", {"text": "works"})).text == "works"
    assert journal.lines.count("start") == 1


@pytest.mark.field("K108")
@pytest.mark.requirement("ERA-01", "ERA-08")
async def test_modern_only_client_runs_nothing_on_a_legacy_server(journal: Journal) -> None:
    error = await refuses(journal.server("executes"), ClientOptions(era="modern", **LONG))
    assert error.phase == "probe"
    assert error.error is not None
    assert error.error.code == -32601
    assert journal.lines == ["start", "server/discover", "eof"]


@pytest.mark.field("K108")
@pytest.mark.requirement("ERA-01", "LEG-INIT-04")
async def test_era_is_decided_before_the_first_request(journal: Journal) -> None:
    await works(journal.server("executes"), ClientOptions(**LONG), Era.LEGACY)
    assert journal.lines == [
        "start", "server/discover", "initialize", "notifications/initialized", "tools/call", "eof",
    ]  # fmt: skip


@pytest.mark.field("K108")
@pytest.mark.requirement("VER-08", "DISC-08")
async def test_without_probing_a_modern_client_sends_its_first_request_straight_away(
    journal: Journal,
) -> None:
    server = journal.server("executes", era="modern")
    await works(server, ClientOptions(era="modern", probe=False), Era.MODERN)
    assert journal.lines == ["start", "tools/call", "eof"]


@pytest.mark.field("K102", "K058")
async def test_modern_only_client_waits_for_the_probe_up_to_the_startup_limit(journal: Journal) -> None:
    server = journal.server("ignores-probe", timeouts=QUICK)
    error = await refuses(server, ClientOptions(era="modern", probe_timeout=0.1, startup_timeout=0.6))
    assert isinstance(error, StartupTimeout)
    assert (error.timeout, error.phase) == (0.6, "probe")
    assert error.exit is not None
    assert_gone(error.exit.pid)
    assert "initialize" not in journal.lines


@pytest.mark.parametrize("mode", ["auto", "modern", "legacy"])
async def test_server_that_echoes_its_input_is_recognised_at_once(mode: Any) -> None:
    echo = "import os\nwhile data := os.read(0, 65536): os.write(1, data)"
    server = StdioServer(sys.executable, ["-c", echo], name="echo")
    with alive(), nothing_left():
        with pytest.raises(RemoteProtocolError, match="echo its input") as caught:
            async with open_client(server, ClientOptions(era=mode, startup_timeout=600)):
                pytest.fail("accepted")
        assert_plain(caught.value, server)
