"""The client against servers that others have published: child processes in environments of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import trio

from helpers import PATIENT, alive, assert_exited, assert_gone, assert_plain, logged, nothing_left, until
from tests.peers.catalogue import (
    ALL_PEERS,
    EVERYTHING,
    FASTMCP,
    FILESYSTEM,
    GIT,
    OFFICIAL_LEGACY,
    OFFICIAL_MODERN,
    SDK_PEERS,
    TIME,
    Peer,
)
from tests.peers.environments import need
from trio_mcp_stdio import (
    Client,
    ClientOptions,
    ClientState,
    Delivery,
    Era,
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    NegotiationError,
    Notification,
    ProgressUpdate,
    RequestTimeout,
    ResourceNotFound,
    RpcError,
    ServerExited,
    ShutdownTimeouts,
    StdioServer,
    ToolError,
    open_client,
    run_client,
)
from trio_mcp_stdio.types import (
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    PromptReference,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

pytestmark = pytest.mark.peers

PROBE = 30.0
"""A probe limit that starting an interpreter on a loaded machine does not use up: the era hangs on it."""

OPTIONS = ClientOptions(probe_timeout=PROBE)


def of(*peers: Peer) -> pytest.MarkDecorator:
    """Parametrises a test over `peer`, whose environment is there when the test starts."""
    return pytest.mark.parametrize("peer", peers, indirect=True, ids=str)


# FastMCP stands on the official SDK and starts slowly: it is spared what depends on the layer below it.
of_sdks = of(*SDK_PEERS)
of_official_sdks = pytest.mark.parametrize(
    "peer",
    [OFFICIAL_MODERN, OFFICIAL_LEGACY, pytest.param(FASTMCP, marks=pytest.mark.slow)],
    indirect=True,
    ids=str,
)


@pytest.fixture
def peer(request: pytest.FixtureRequest) -> Peer:
    need(request.param.environment)
    return request.param


def launch(peer: Peer, *arguments: object, **settings: Any) -> StdioServer:
    """The definition of a peer's server."""
    settings.setdefault("name", peer.name)
    settings.setdefault("timeouts", PATIENT)
    command, *start = peer.command(*arguments)
    return StdioServer(command, start, env=dict(peer.environment.env), **settings)


def assert_ended_well(client: Client) -> None:
    """The server ended by itself once its stdin was closed, and nothing is left of it."""
    exit = client.exit
    assert exit is not None
    assert (exit.ending, exit.returncode, exit.signal) == ("exited", 0, None)
    assert exit.expected
    assert exit.leftovers == ()
    assert client.state is ClientState.CLOSED
    assert_gone(exit.pid)


def read(path: Path) -> str | None:
    """The text of a file, None while there is no such file."""
    return path.read_text() if path.exists() else None


async def wait_for_word(marker: Path, word: str) -> None:
    """Wait until the server has put a word into its marker file."""
    await until(lambda: read(marker) == word)


# Every peer


@pytest.mark.requirement("ERA-01", "ERA-03", "ERA-05", "STDIO-PROC-03", "LEG-INIT-04", "LEG-SHUT-01")
@of(*ALL_PEERS)
async def test_connects_lists_its_tools_and_ends_by_itself(peer: Peer, tmp_path: Path) -> None:
    server = launch(peer, *([tmp_path] if peer is FILESYSTEM else []))
    log, options = logged(probe_timeout=PROBE)
    with alive(60), nothing_left():
        async with open_client(server, options) as client:
            assert client.state is ClientState.READY
            assert client.name == peer.name
            assert client.era is client.server.era
            expected = ["server/discover"]
            if peer.era == "modern":
                assert client.era is Era.MODERN
                assert client.protocol_version == "2026-07-28"
                assert client.server.supported_versions == ("2026-07-28",)
            else:
                assert client.era is Era.LEGACY
                assert client.protocol_version == "2025-11-25"
                expected += ["initialize", "notifications/initialized"]
            assert client.server.info is not None
            assert client.server.info.name
            assert client.server.capabilities.tools
            tools = (await client.list_tools()).tools
            assert len({tool.name for tool in tools}) == len(tools) > 1
            assert all(tool.input_schema["type"] == "object" for tool in tools)
            assert [message["method"] for message in log.sent] == [*expected, "tools/list"]
        assert_ended_well(client)
    statistics = client.statistics()
    assert statistics.in_flight == statistics.malformed == statistics.violations == 0
    assert statistics.noise == statistics.unmatched == statistics.callback_errors == 0


@pytest.mark.requirement("ERA-19", "ERA-05")
@of(OFFICIAL_MODERN, OFFICIAL_LEGACY, EVERYTHING)
async def test_a_probe_limit_shorter_than_the_start_changes_no_era(peer: Peer) -> None:
    log, options = logged(probe_timeout=0.001)
    with alive(60), nothing_left():
        async with open_client(launch(peer), options) as client:
            assert client.era is Era[peer.era.upper()]
            assert (await client.list_tools()).tools
        assert len(log.sent_of("server/discover")) == len(log.sent_of("initialize")) == 1
        assert len(log.sent_of("notifications/initialized")) == (1 if peer.era == "legacy" else 0)
        assert log.sent_of("notifications/cancelled") == []
        assert_ended_well(client)


@pytest.mark.requirement("LEG-INIT-01", "LEG-VER-02")
@of_official_sdks
async def test_the_legacy_era_alone_asks_no_probe(peer: Peer) -> None:
    log, options = logged(era="legacy")
    with alive(60), nothing_left():
        async with open_client(launch(peer), options) as client:
            assert client.era is Era.LEGACY
            assert client.protocol_version == "2025-11-25"
            assert (await client.call_tool("add", {"a": 2, "b": 3})).structured_content == {"result": 5}
            assert 0 <= await client.ping() < 60
        assert [m["method"] for m in log.sent[:2]] == ["initialize", "notifications/initialized"]
        assert_ended_well(client)


@pytest.mark.requirement("ERA-08")
@of(OFFICIAL_LEGACY, EVERYTHING)
async def test_the_modern_era_alone_refuses_a_legacy_server(peer: Peer) -> None:
    server = launch(peer)
    log, options = logged(era="modern", probe_timeout=PROBE)
    with alive(60), nothing_left(), pytest.raises(NegotiationError) as caught:
        async with open_client(server, options):
            pytest.fail("connected to a server of the other era")
    assert_plain(caught.value, server)
    assert log.sent_of("initialize") == []


# The same tools, resources and prompts on three SDKs


@pytest.mark.requirement("STDIO-FRAME-01", "STDIO-FRAME-02", "STDIO-FRAME-05", "TOOL-19", "TOOL-27")
@pytest.mark.requirement("TOOL-20", "ERR-10")
@of_sdks
async def test_calls_and_what_may_go_wrong_with_them(peer: Peer) -> None:
    server = launch(peer)
    with alive(60), nothing_left():
        async with open_client(server, OPTIONS) as client:
            assert client.server.instructions == "A peer for tests."
            assert (await client.call_tool("pid")).structured_content == {"result": client.pid}
            text = "línea\u2028 two\r\nthree \U0001f600 \U0010ffff \u05e9\u05dc\u05d5\u05dd\x85\x00"
            result = await client.call_tool("echo", {"text": text})
            assert isinstance(result, CallToolResult)
            assert not result.is_error
            assert result.text == text
            assert result.structured_content == {"result": text}
            assert result.raise_for_error() is result
            result = await client.call_tool("add", {"a": 2**53 + 1, "b": -1})
            assert result.structured_content == {"result": 2**53}
            long = "x" * 3_000_000
            assert (await client.call_tool("echo", {"text": long})).text == long

            # Failures of tools are results ...
            for name, arguments, said in (
                ("fail", {}, "this tool always fails"),
                ("add", {"a": "one"}, "valid integer"),
                ("no_such_tool", {}, "no_such_tool"),
            ):
                result = await client.call_tool(name, arguments)
                assert result.is_error is True
                assert said in result.text
                with pytest.raises(ToolError):
                    result.raise_for_error()

            # ... errors of requests are raised.
            with pytest.raises(RpcError) as caught:
                await client.request("no/such", {"x": 1})
            assert_plain(caught.value, server)
            assert caught.value.code == peer.unknown_method
            assert caught.value.method == "no/such"
            assert isinstance(
                caught.value, MethodNotFound if peer.unknown_method == -32601 else InvalidParams
            )
            if peer.era == "modern":
                with pytest.raises(LocalProtocolError):
                    await client.ping()
            else:
                assert 0 <= await client.ping() < 60
            assert (await client.call_tool("echo", {"text": "still here"})).text == "still here"
        assert_ended_well(client)


@pytest.mark.requirement("CANCEL-01", "CANCEL-02", "CANCEL-03", "CANCEL-10", "CANCEL-18", "LEG-CANCEL-01")
@pytest.mark.requirement("LEG-CANCEL-04", "LEG-CANCEL-05")
@of_sdks
async def test_cancelling_a_call_stops_it_on_the_server(peer: Peer, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    log, options = logged(probe_timeout=PROBE)
    with alive(60), nothing_left():
        async with open_client(launch(peer), options) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "slow", {"seconds": 600, "marker": str(marker)})
                await wait_for_word(marker, "started")
                nursery.cancel_scope.cancel()
            await wait_for_word(marker, "cancelled")
            # A round trip more, so that whatever the server says about the cancelled call has arrived.
            assert (await client.call_tool("echo", {"text": "next"})).text == "next"
            statistics = client.statistics()
            assert statistics.cancelled == 1
            assert statistics.in_flight == 0
            # The older SDK answers a cancelled request with an error, against the rules; nobody may see it.
            assert statistics.late == (1 if peer is OFFICIAL_LEGACY else 0)
        assert_ended_well(client)
    [notice] = log.sent_of("notifications/cancelled")
    [call, _] = log.sent_of("tools/call")
    assert notice["params"]["requestId"] == call["id"]
    assert type(notice["params"]["requestId"]) is type(call["id"])


@pytest.mark.requirement("TIME-02", "TIME-03", "TOOL-28", "ERR-10", "LEG-TIME-01", "LEG-TIME-02")
@of_sdks
async def test_a_call_that_times_out_is_cancelled_and_the_next_one_works(peer: Peer, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    server = launch(peer)
    log, options = logged(probe_timeout=PROBE)
    with alive(60), nothing_left():
        async with open_client(server, options) as client:
            # Before the clock runs, let the server load whatever its first call needs.
            assert (await client.call_tool("echo", {"text": "first"})).text == "first"
            with pytest.raises(RequestTimeout) as caught:
                await client.call_tool("slow", {"seconds": 600, "marker": str(marker)}, timeout=1.0)
            error = caught.value
            assert_plain(error, server)
            assert (error.method, error.timeout, error.idle) == ("tools/call", 1.0, False)
            assert error.elapsed >= 0.99
            await wait_for_word(marker, "cancelled")
            assert (await client.call_tool("echo", {"text": "next"})).text == "next"
            assert client.statistics().timed_out == 1
        assert_ended_well(client)
    [notice] = log.sent_of("notifications/cancelled")
    assert notice["params"]["requestId"] == error.request_id


@pytest.mark.requirement("PROG-01", "LEG-PROG-01")
@of_sdks
async def test_progress_arrives_in_order_and_before_the_result(peer: Peer) -> None:
    updates: list[ProgressUpdate] = []

    async def slowly(update: ProgressUpdate) -> None:
        await trio.lowlevel.checkpoint()
        updates.append(update)

    with alive(60), nothing_left():
        async with open_client(launch(peer), OPTIONS) as client:
            for on_progress in (updates.append, slowly):
                updates.clear()
                result = await client.call_tool("progress", {"n": 50}, on_progress=on_progress)
                assert result.text == "50 steps"
                assert [update.progress for update in updates] == list(range(1, 51))
                assert {update.total for update in updates} == {50}
                assert [update.message for update in updates] == [f"step {n}" for n in range(1, 51)]
            await client.call_tool("progress", {"n": 5})
            statistics = client.statistics()
            assert statistics.progress == 100
            assert statistics.progress_dropped == statistics.unknown_progress == 0
        assert_ended_well(client)


@pytest.mark.requirement("STDIO-STREAM-08", "STDIO-STREAM-12", "MSG-05")
@of_official_sdks
async def test_many_calls_at_once_overtake_one_that_hangs(peer: Peer, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    answers: dict[int, object] = {}

    async def ask(client: Client, n: int) -> None:
        result = await client.call_tool("add", {"a": n, "b": 1000})
        answers[n] = result.structured_content

    with alive(60), nothing_left():
        async with open_client(launch(peer), OPTIONS) as client:
            async with trio.open_nursery() as hanging:
                hanging.start_soon(client.call_tool, "slow", {"seconds": 600, "marker": str(marker)})
                await wait_for_word(marker, "started")
                async with trio.open_nursery() as nursery:
                    for n in range(200):
                        nursery.start_soon(ask, client, n)
                assert read(marker) == "started"
                assert client.statistics().in_flight == 1
                hanging.cancel_scope.cancel()
            await wait_for_word(marker, "cancelled")
        assert_ended_well(client)
    assert answers == {n: {"result": n + 1000} for n in range(200)}


@pytest.mark.requirement("COMP-03", "PROMPT-10")
@of_sdks
async def test_resources_prompts_and_completion(peer: Peer) -> None:
    with alive(60), nothing_left():
        async with open_client(launch(peer), OPTIONS) as client:
            [resource] = (await client.list_resources()).resources
            assert (resource.uri, resource.name, resource.mime_type) == (
                "memo://motto",
                "motto",
                "text/plain",
            )
            [template] = (await client.list_resource_templates()).resource_templates
            assert template.uri_template == "memo://greeting/{name}"
            for uri, text in (
                ("memo://motto", "nothing is left behind"),
                ("memo://greeting/ada", "hello ada"),
            ):
                [contents] = (await client.read_resource(uri)).contents
                assert isinstance(contents, TextResourceContents)
                assert (contents.uri, contents.text) == (uri, text)
            # The older SDK tells a missing resource by an error code of its own making.
            with pytest.raises(RpcError if peer is OFFICIAL_LEGACY else ResourceNotFound) as caught:
                await client.read_resource("memo://missing")
            assert "memo://missing" in str(caught.value)

            [prompt] = (await client.list_prompts()).prompts
            assert prompt.name == "review"
            assert [(argument.name, argument.required) for argument in prompt.arguments] == [("fruit", True)]
            [message] = (await client.get_prompt("review", {"fruit": "fig"})).messages
            assert message.role == "user"
            assert message.content == TextContent(text="Please review the fig.")
            with pytest.raises(RpcError):
                await client.get_prompt("no_such_prompt")
            assert client.server.capabilities.completions == {}
            reference = PromptReference(name="review")
            result = await client.complete(reference, ("fruit", "ap"))
            assert result.completion.values == ("apple", "apricot")
            result = await client.complete(reference, ("fruit", "z"))
            assert result.completion.values == ()
        assert_ended_well(client)


@pytest.mark.requirement("STDIO-PROC-11", "STDIO-PROC-19")
@of_official_sdks
async def test_a_server_that_crashes_in_a_call_fails_every_call(peer: Peer, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    server = launch(peer)
    errors: list[ServerExited] = []

    async def ask(client: Client) -> None:
        with pytest.raises(ServerExited) as caught:
            await client.call_tool("slow", {"seconds": 600, "marker": str(marker)})
        errors.append(caught.value)

    with alive(60), nothing_left():
        async with open_client(server, OPTIONS) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, client)
                await wait_for_word(marker, "started")
                with pytest.raises(ServerExited) as caught:
                    await client.call_tool("crash")
                errors.append(caught.value)
            assert await client.wait_closed() == client.exit
            assert client.state is ClientState.FAILED
            with pytest.raises(ServerExited) as caught:
                await client.call_tool("echo", {"text": "anybody there?"})
            assert_exited(caught.value, server, status=3)
            assert caught.value.delivery is Delivery.NOT_SENT
    assert len(errors) == 2
    for error in errors:
        assert_exited(error, server, status=3)
        assert error.delivery is Delivery.OUTCOME_UNKNOWN
        assert not error.exit.expected
        assert error.exit.leftovers == ()
    assert client.exit == errors[0].exit
    assert_gone(client.exit.pid)


@pytest.mark.requirement("CANCEL-18", "STDIO-PROC-02", "STDIO-PROC-19", "LEG-SHUT-01")
@of_official_sdks
async def test_leaving_the_block_in_mid_call_lets_the_server_clean_up(peer: Peer, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    with alive(60), nothing_left():
        with trio.CancelScope() as scope:
            async with open_client(launch(peer), OPTIONS) as client, trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "slow", {"seconds": 600, "marker": str(marker)})
                await wait_for_word(marker, "started")
                scope.cancel()
        assert scope.cancelled_caught
        assert_ended_well(client)
        assert read(marker) == "cancelled"


# Published servers


@pytest.mark.requirement("STDIO-PROC-14")
@of(TIME)
async def test_time(peer: Peer) -> None:
    server = launch(peer, "--local-timezone", "Europe/Lisbon")
    with alive(60), nothing_left():
        async with trio.open_nursery() as nursery:
            client = await nursery.start(run_client, server, OPTIONS)
            result = await client.call_tool("get_current_time", {"timezone": "Asia/Tokyo"})
            assert not result.is_error
            assert result.structured_content["timezone"] == "Asia/Tokyo"
            offset = datetime.fromisoformat(result.structured_content["datetime"]).utcoffset()
            assert offset is not None
            assert offset.total_seconds() == 9 * 3600
            assert json.loads(result.text) == result.structured_content

            result = await client.call_tool("get_current_time", {"timezone": "Mars/Olympus_Mons"})
            assert result.is_error is True
            assert "Invalid timezone" in result.text
            with pytest.raises(InvalidParams):
                await client.call_tool("set_current_time", {"timezone": "Asia/Tokyo"})

            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert tools.keys() == {"get_current_time", "convert_time"}
            schema = tools["get_current_time"].input_schema
            assert "Europe/Lisbon" in schema["properties"]["timezone"]["description"]
            assert tools["convert_time"].annotations.read_only_hint is True
            client.stop()
        assert_ended_well(client)


@of(TIME)
async def test_a_server_that_refuses_its_arguments_says_so(peer: Peer) -> None:
    server = launch(peer, "--local-timezone", "Mars/Olympus_Mons")
    with alive(60), nothing_left(), pytest.raises(ServerExited) as caught:
        async with open_client(server, OPTIONS):
            pytest.fail("connected to a server that does not start")
    assert_exited(caught.value, server, status=1, stderr="invalid --local-timezone 'Mars/Olympus_Mons'")
    # A server that does not survive the probe gets one more start, without it.
    assert caught.value.phase == "initialize"


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Path]:
    """A repository with one commit, and one file more."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("no git command, which the server needs")
    folder = tmp_path / "repository"
    folder.mkdir()

    def run(*arguments: str) -> None:
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run([git, "-C", str(folder), *identity, *arguments], check=True, capture_output=True)

    run("init", "--quiet")
    (folder / "kept.txt").write_text("kept\n")
    run("add", "kept.txt")
    run("commit", "--quiet", "--message", "first commit")
    (folder / "loose.txt").write_text("loose\n")
    return folder


@of(GIT)
async def test_git(peer: Peer, repository: Path) -> None:
    server = launch(peer, "--repository", repository)
    here = {"repo_path": str(repository)}
    with alive(60), nothing_left():
        async with open_client(server, OPTIONS) as client:
            status = await client.call_tool("git_status", here)
            assert not status.is_error
            assert "loose.txt" in status.text
            log = (await client.call_tool("git_log", {**here, "max_count": 5})).text
            assert "first commit" in log
            assert "Ada" in log

            await client.call_tool("git_add", {**here, "files": ["loose.txt"]})
            assert "new file:   loose.txt" in (await client.call_tool("git_status", here)).text
            assert "+loose" in (await client.call_tool("git_diff_staged", here)).text

            outside = await client.call_tool("git_status", {"repo_path": str(repository.parent)})
            assert outside.is_error is True
            assert "outside the allowed repository" in outside.text
        assert_ended_well(client)


@pytest.mark.requirement("STDIO-PROC-17", "LEG-INIT-13", "TOOL-19")
@of(EVERYTHING)
async def test_everything(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_SECRET", "not for servers")
    notifications: list[Notification] = []
    options = ClientOptions(on_notification=notifications.append)
    with alive(60), nothing_left():
        async with open_client(launch(peer), options) as client:
            assert (await client.call_tool("echo", {"message": "hé"})).text == "Echo: hé"
            assert "5" in (await client.call_tool("get-sum", {"a": 2, "b": 3})).text
            assert (await client.call_tool("get-sum", {"a": "two"})).is_error is True
            assert (await client.call_tool("no-such-tool")).is_error is True
            with pytest.raises(MethodNotFound):
                await client.request("no/such")

            environment = json.loads((await client.call_tool("get-env")).text)
            assert "PATH" in environment
            assert "PEER_SECRET" not in environment

            weather = await client.call_tool("get-structured-content", {"location": "Chicago"})
            assert json.loads(weather.text) == weather.structured_content
            kinds = {type(block) for block in (await client.call_tool("get-tiny-image")).content}
            assert kinds == {TextContent, ImageContent}
            links = await client.call_tool("get-resource-links", {"count": 2})
            assert [type(block) for block in links.content] == [TextContent, ResourceLink, ResourceLink]
            embedded = await client.call_tool(
                "get-resource-reference", {"resourceType": "Text", "resourceId": 1}
            )
            assert EmbeddedResource in {type(block) for block in embedded.content}
            annotated = await client.call_tool("get-annotated-message", {"messageType": "error"})
            assert annotated.content[0].annotations.priority == 1

            resources = (await client.list_resources()).resources
            contents = (await client.read_resource(resources[0].uri)).contents
            assert isinstance(contents[0], TextResourceContents)
            templates = (await client.list_resource_templates()).resource_templates
            assert "demo://resource/dynamic/text/{resourceId}" in [t.uri_template for t in templates]
            with pytest.raises(InvalidParams):
                await client.read_resource("demo://missing")
            assert "args-prompt" in [prompt.name for prompt in (await client.list_prompts()).prompts]
            [message] = (await client.get_prompt("args-prompt", {"city": "Oslo"})).messages
            assert "Oslo" in message.content.text
            with pytest.raises(InvalidParams):
                await client.get_prompt("args-prompt")
            reference = PromptReference(name="completable-prompt")
            result = await client.complete(reference, ("department", "E"))
            assert result.completion.values == ("Engineering",)
            assert (result.completion.total, result.completion.has_more) == (1, False)
            assert 0 <= await client.ping() < 60
        assert_ended_well(client)
    # It changes its list of tools once it knows what the client can do.
    assert "notifications/tools/list_changed" in [notification.method for notification in notifications]


@pytest.mark.requirement("TIME-04", "LEG-TIME-02", "LEG-PROG-01")
@of(EVERYTHING)
async def test_everything_makes_progress_past_an_idle_limit(peer: Peer) -> None:
    updates: list[ProgressUpdate] = []
    operation = {"duration": 3, "steps": 6}
    with alive(60), nothing_left():
        async with open_client(launch(peer)) as client:
            result = await client.call_tool(
                "trigger-long-running-operation", operation, idle_timeout=2.0, on_progress=updates.append
            )
            assert "completed" in result.text
            assert [(update.progress, update.total) for update in updates] == [(n, 6) for n in range(1, 7)]
        assert_ended_well(client)


@pytest.mark.requirement("CANCEL-02", "LEG-CANCEL-01", "LEG-PROG-03")
@of(EVERYTHING)
async def test_everything_goes_on_reporting_a_cancelled_call(peer: Peer) -> None:
    log, options = logged()
    with alive(60), nothing_left():
        async with open_client(launch(peer), options) as client:
            with trio.CancelScope() as scope:
                await client.call_tool(
                    "trigger-long-running-operation",
                    {"duration": 1, "steps": 10},
                    on_progress=lambda update: scope.cancel(),
                )
            assert scope.cancelled_caught
            assert (await client.call_tool("echo", {"message": "next"})).text == "Echo: next"
            # Its operation takes no notice of the notification, nor the client of what it goes on to report.
            await until(lambda: client.statistics().unknown_progress > 0)
            assert client.statistics().violations == 0
        assert_ended_well(client)
    assert len(log.sent_of("notifications/cancelled")) == 1


@pytest.mark.requirement("STDIO-PROC-04", "STDIO-PROC-05", "LEG-SHUT-01")
@of(EVERYTHING)
async def test_everything_stays_for_a_running_operation_and_is_terminated(peer: Peer) -> None:
    impatient = ShutdownTimeouts(flush=5.0, exit=0.5, term=30.0, reap=30.0)
    reported = trio.Event()
    with alive(60), nothing_left():
        with trio.CancelScope() as scope:
            async with (
                open_client(launch(peer, timeouts=impatient)) as client,
                trio.open_nursery() as nursery,
            ):

                async def operate() -> None:
                    await client.call_tool(
                        "trigger-long-running-operation",
                        {"duration": 600, "steps": 6000},
                        on_progress=lambda update: reported.set(),
                    )

                nursery.start_soon(operate)
                await reported.wait()
                scope.cancel()
        assert client.exit is not None
        assert (client.exit.ending, client.exit.expected) == ("terminated", True)
        assert client.exit.leftovers == ()
        assert_gone(client.exit.pid)


@of(FILESYSTEM)
async def test_filesystem(peer: Peer, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    outside = tmp_path / "outside.txt"
    outside.write_text("out of reach\n")
    inside = str(allowed / "note.txt")
    content = "first line\nzweite Zeile: ä\u2028\n"
    with alive(60), nothing_left():
        async with open_client(launch(peer, allowed)) as client:
            written = await client.call_tool("write_file", {"path": inside, "content": content})
            assert not written.is_error
            assert read(allowed / "note.txt") == content
            assert (await client.call_tool("read_text_file", {"path": inside})).text == content
            listing = await client.call_tool("list_directory", {"path": str(allowed)})
            assert "note.txt" in listing.text

            refused = await client.call_tool("read_text_file", {"path": str(outside)})
            assert refused.is_error is True
            assert "Access denied" in refused.text
            refused = await client.call_tool("write_file", {"path": str(outside), "content": "changed"})
            assert refused.is_error is True
            assert read(outside) == "out of reach\n"
            missing = await client.call_tool("read_text_file", {"path": str(allowed / "missing.txt")})
            assert missing.is_error is True
        assert_ended_well(client)
