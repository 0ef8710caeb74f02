"""Servers that take too long, against child processes on raw bytes."""

from __future__ import annotations

import pytest
import trio

from helpers import QUICK, alive, assert_gone, assert_plain, both_eras, fake, logged, nothing_left
from scripted import complaints
from trio_mcp_stdio import ClientOptions, RequestTimeout, StartupTimeout, open_client


@pytest.mark.field("K058")
@pytest.mark.requirement("TIME-01", "LEG-TIME-01")
def test_every_default_limit_is_finite() -> None:
    options = ClientOptions()
    for limit in (options.request_timeout, options.startup_timeout, options.probe_timeout):
        assert limit is not None
        assert 0 < limit < 600


@pytest.mark.field("K058")
@pytest.mark.requirement("LEG-INIT-10")
@pytest.mark.parametrize("era", ["auto", "modern", "legacy"])
async def test_connecting_to_a_silent_server_ends_with_the_startup_limit(era: str) -> None:
    server = fake("delays", "silent", timeouts=QUICK, name="mute")
    log, options = logged(era=era, startup_timeout=0.6, probe_timeout=0.2)
    with alive(), nothing_left(), pytest.raises(StartupTimeout) as caught:
        async with open_client(server, options):
            pytest.fail("connected to a server that says nothing")
    error = caught.value
    assert_plain(error, server)
    assert error.timeout == 0.6
    assert error.phase == ("probe" if era == "modern" else "initialize")
    assert error.phase in str(error)
    assert "0.6" in str(error)
    assert error.exit is not None
    assert error.exit.ending == "terminated"
    assert_gone(error.exit.pid)
    expected = {
        "auto": ["server/discover", "initialize"],
        "modern": ["server/discover"],
        "legacy": ["initialize"],
    }
    assert [message["method"] for message in log.sent] == expected[era]


@pytest.mark.field("K058")
@pytest.mark.requirement("TIME-02", "LEG-TIME-01")
@both_eras
async def test_timeout_of_a_call_names_server_method_and_elapsed_time(era: str) -> None:
    server = fake("delays", "silent-calls", era=era, timeouts=QUICK, name="mute")
    with alive(), nothing_left():
        async with open_client(server, ClientOptions(request_timeout=0.3)) as client:
            for call, method in (
                (lambda: client.call_tool("hold"), "tools/call"),
                (lambda: client.list_tools(), "tools/list"),
                (lambda: client.read_resource("a:b"), "resources/read"),
                (lambda: client.request("custom/method"), "custom/method"),
            ):
                with pytest.raises(RequestTimeout) as caught:
                    await call()
                error = caught.value
                assert_plain(error, server)
                assert not isinstance(error, trio.TooSlowError)
                assert (error.method, error.timeout, error.idle) == (method, 0.3, False)
                assert error.elapsed >= 0.3
                assert f"{error.elapsed:.1f}" in str(error)
                assert method in str(error)
                assert error.request_id is not None
            assert client.statistics().timed_out == 4
        assert client.exit is not None
        assert client.exit.ending == "terminated"
        assert_gone(client.pid)


@pytest.mark.field("K059")
@both_eras
async def test_late_answer_is_dropped_quietly(era: str, caplog: pytest.LogCaptureFixture) -> None:
    with alive(), nothing_left():
        async with open_client(fake("delays", "serial", era=era)) as client:
            with pytest.raises(RequestTimeout):
                await client.call_tool("echo", {"seconds": 1.0, "text": "late"}, timeout=0.3)
            assert (await client.call_tool("echo", {"text": "next"})).text == "next"
            found = client.statistics()
            assert (found.late, found.timed_out, found.unmatched, found.in_flight) == (1, 1, 0, 0)
    assert complaints(caplog) == []


@pytest.mark.field("K060")
@pytest.mark.requirement("TIME-04", "LEG-TIME-02")
@both_eras
async def test_idle_timeout_asks_for_progress_and_is_extended_by_it(era: str) -> None:
    log, options = logged()
    arguments = {"seconds": 3.0, "every": 0.2, "text": "done"}
    with alive(), nothing_left():
        async with open_client(fake("delays", "parallel", era=era), options) as client:
            result = await client.call_tool("echo", arguments, idle_timeout=1.5)
            assert result.text == "done"
            assert client.statistics().progress == 15
            await client.call_tool("echo")
    with_limit, without = log.sent_of("tools/call")
    assert with_limit["params"]["_meta"]["progressToken"] is not None
    assert "progressToken" not in without["params"].get("_meta", {})


@pytest.mark.field("K060")
@pytest.mark.requirement("TIME-04", "TIME-05", "LEG-TIME-02")
@both_eras
async def test_idle_timeout_acts_when_progress_stops_and_the_total_one_in_any_case(era: str) -> None:
    with alive(), nothing_left():
        async with open_client(fake("delays", "parallel", era=era)) as client:
            with pytest.raises(RequestTimeout) as caught:
                await client.call_tool("echo", {"seconds": 5}, idle_timeout=0.3)
            assert (caught.value.idle, caught.value.timeout) == (True, 0.3)
            arguments = {"seconds": 5, "every": 0.05}
            with pytest.raises(RequestTimeout) as caught:
                await client.call_tool("echo", arguments, idle_timeout=20, timeout=0.5)
            assert (caught.value.idle, caught.value.timeout) == (False, 0.5)


@pytest.mark.field("K061")
@pytest.mark.requirement("TIME-03", "LEG-TIME-02")
@both_eras
async def test_the_given_timeout_is_the_one_that_acts(era: str) -> None:
    arguments = {"seconds": 1.5, "text": "done"}
    succeeded: list[float | None] = []

    with alive(60), nothing_left():
        for default in (0.3, 120.0):
            works_by_default = default > 1
            async with open_client(
                fake("delays", "parallel", era=era), ClientOptions(request_timeout=default)
            ) as client:

                async def expect_timeout(**given: float) -> None:
                    with pytest.raises(RequestTimeout) as caught:
                        await client.call_tool("echo", arguments, **given)
                    assert caught.value.timeout == 0.3

                async def expect_success(**given: float | None) -> None:
                    assert (await client.call_tool("echo", arguments, **given)).text == "done"
                    succeeded.append(given.get("timeout"))

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(lambda: expect_timeout(timeout=0.3))
                    nursery.start_soon(lambda: expect_success(timeout=120.0))
                    nursery.start_soon(lambda: expect_success(timeout=None))
                    nursery.start_soon(expect_success if works_by_default else expect_timeout)
    assert len(succeeded) == 5
