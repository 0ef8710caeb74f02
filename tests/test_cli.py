"""The command line: what each command prints, and which exit code says what."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from helpers import SERVERS, alive, both_eras
from trio_mcp_stdio import (
    ClientClosed,
    ConnectionLost,
    Delivery,
    InputRequiredError,
    InvalidResult,
    LocalProtocolError,
    McpError,
    MethodNotFound,
    NegotiationError,
    ProcessExit,
    RemoteProtocolError,
    RequestTimeout,
    ServerExited,
    SpawnError,
    StartupTimeout,
    ToolError,
    __version__,
)
from trio_mcp_stdio._cli.exits import Exit, exit_of, leaf
from trio_mcp_stdio._cli.output import clean, first_line
from trio_mcp_stdio._cli.program import run
from trio_mcp_stdio._cli.server import split
from trio_mcp_stdio.types import CallToolResult

ROOT = Path(__file__).parent.parent
DEMO = ["--", sys.executable, "-m", "trio_mcp_stdio._cli.demo_server"]

OFFERS = """
import os
import sys

sys.path.insert(0, SERVERS)
import wire

MODE = sys.argv[1]
if MODE == "nothing":
    wire.CAPABILITIES.clear()
    wire.INFO.clear()
elif MODE == "evil":
    wire.INFO.update(name="\\x1b[2Jevil", version="1\\n2")

PAGES = {None: ("one", ""), "": ("two", "3"), "3": ("three", None)}
SCHEMA = {"type": "object", "properties": {"b": {}, "a": {}}, "required": ["a"]}
RESOURCES = [{"uri": "file:///x", "name": "x", "mimeType": "text/plain"}]
PROMPTS = [{"name": "write", "arguments": [{"name": "topic", "required": True}, {"name": "tone"}]}]
BLOCKS = [
    {"type": "text", "text": "plain \\x1b[31m and \\u2603"},
    {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    {"type": "resource_link", "uri": "file:///x", "name": "x"},
    {"type": "resource", "resource": {"uri": "file:///y", "text": "embedded"}},
    {"type": "resource", "resource": {"uri": "file:///z", "blob": "AAAA"}},
    {"type": "hologram", "depth": 3},
]


def page(cursor):
    if MODE == "ring":
        return ("same", "again")
    if MODE == "endless":
        return (str(cursor), str(int(cursor or 0) + 1))
    return PAGES[cursor]


def tools(cursor):
    name, following = page(cursor)
    tool = {"name": name, "inputSchema": SCHEMA, "description": "\\n  About   " + name + "\\nmore"}
    return {"tools": [tool]} | ({} if following is None else {"nextCursor": following})


for request in wire.requests():
    name = wire.tool(request)
    hints = {"ttlMs": 0, "cacheScope": "private"} if wire.ERA == "modern" else {}
    if name == "tools/list":
        wire.reply(request, tools(request["params"].get("cursor")) | hints)
    elif name == "resources/list":
        wire.reply(request, {"resources": RESOURCES, **hints})
    elif name == "prompts/list":
        wire.reply(request, {"prompts": PROMPTS, **hints})
    elif name == "echo":
        wire.reply(request, {"content": [], "structuredContent": wire.arguments(request)})
    elif name == "blocks":
        wire.reply(request, {"content": BLOCKS})
    elif name == "fails":
        wire.reply(request, wire.text("no luck", isError=True))
    elif name == "needs":
        result = {"resultType": "input_required", "inputRequests": {"where": {"method": "roots/list"}}}
        wire.send({"jsonrpc": "2.0", "id": request["id"], "result": result})
    elif name == "wrong":
        wire.reply(request, {"content": 5})
    elif name == "has":
        wire.reply(request, wire.text(str(os.environ.get(wire.arguments(request)["name"]))))
    elif name == "where":
        wire.err("on stderr\\n")
        wire.reply(request, wire.text(os.getcwd()))
    else:
        wire.fail(request, -32601, "Method not found")
"""
"""Lists in pages, and tools for each kind of result.

MODE is all | nothing (announces nothing, has no name) | evil (a name that is no name) | ring (a cursor that
comes again) | endless (a list without an end).
"""


async def cli(*args: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program as a process of its own, warnings being errors."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", **env}
    with alive(60):
        return await trio.run_process(
            [sys.executable, "-m", "trio_mcp_stdio", *args],
            stdin=stdin,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env=environment,
        )


def fake(script: str, *args: str, era: str = "modern") -> list[str]:
    """The end of a command line that uses one of the fake servers."""
    return ["--env", f"FAKE_ERA={era}", "--", sys.executable, str(SERVERS / f"{script}.py"), *args]


@pytest.fixture
def offers(tmp_path: Path) -> Any:
    """As `fake`, for the server above."""
    script = tmp_path / "offers.py"
    script.write_text(OFFERS.replace("SERVERS", repr(str(SERVERS))), "utf-8")

    def make(mode: str = "all", era: str = "modern") -> list[str]:
        return ["--env", f"FAKE_ERA={era}", "--", sys.executable, str(script), mode]

    return make


def words(output: bytes) -> str:
    return " ".join(output.decode().split())


# probe


@both_eras
async def test_probe_shows_what_was_agreed_on_and_how_it_ended(era: str) -> None:
    done = await cli("probe", "--era", era, *DEMO)

    text = words(done.stdout)
    assert done.returncode == 0
    assert done.stderr == b""
    assert "server trio-mcp-demo" in text
    assert f"era {era} version {'2026-07-28' if era == 'modern' else '2025-11-25'}" in text
    assert "capabilities tools instructions Tools to try a client with" in text
    assert "noise none exit exited by itself with status 0" in text


async def test_probe_as_json_is_one_document() -> None:
    done = await cli("probe", "--json", *fake("noise", "banner"))

    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert (document["era"], document["protocolVersion"]) == ("modern", "2026-07-28")
    assert document["serverInfo"] == {"name": "fake", "version": "1.0"}
    assert document["capabilities"]["tools"] == {}
    assert document["instructions"] is None
    assert document["noise"]["lines"] >= 1
    assert document["noise"]["previews"][0] == "Demo Server v1.0 started"
    assert (document["exit"]["returncode"], document["exit"]["expected"]) == (0, True)
    assert document["readySeconds"] > 0


async def test_probe_tells_noise_and_a_server_that_has_to_be_terminated() -> None:
    noisy = await cli("probe", *fake("noise", "banner"))
    idle = await cli("probe", *fake("closing", "idle"))

    assert "lines that are no messages Demo Server v1.0 started" in words(noisy.stdout)
    assert noisy.stderr.startswith(b"trio-mcp: ")
    assert "exit was ended by SIGTERM, which was ours" in words(idle.stdout)
    assert idle.returncode == 0


async def test_what_a_server_calls_itself_cannot_reach_a_terminal(offers: Any) -> None:
    done = await cli("probe", *offers("evil"))

    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert b"\\x1b[2Jevil 1" in done.stdout


# list


@both_eras
async def test_list_shows_everything_that_is_announced_on_all_pages(era: str, offers: Any) -> None:
    done = await cli("list", *offers(era=era))

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines() == [
        "Tools: 3",
        "  NAME   ARGUMENTS  DESCRIPTION",
        "  one    a [b]      About one",
        "  two    a [b]      About two",
        "  three  a [b]      About three",
        "",
        "Resources: 1",
        "  URI        NAME  TYPE",
        "  file:///x  x     text/plain",
        "",
        "Resource templates: none",
        "",
        "Prompts: 1",
        "  NAME   ARGUMENTS",
        "  write  topic [tone]",
    ]


async def test_list_as_json_is_one_document_of_what_was_asked_for(offers: Any) -> None:
    everything = json.loads((await cli("list", "--json", *offers())).stdout)
    some = json.loads((await cli("list", "--json", "--prompts", "--tools", *offers())).stdout)

    assert set(everything) == {"tools", "resources", "resourceTemplates", "prompts"}
    assert [tool["name"] for tool in everything["tools"]] == ["one", "two", "three"]
    assert everything["resources"][0]["mimeType"] == "text/plain"
    assert everything["resourceTemplates"] == []
    assert set(some) == {"tools", "prompts"}


async def test_list_asks_for_what_is_named_even_when_it_is_not_announced(offers: Any) -> None:
    announced = await cli("list", *offers("nothing"))
    named = await cli("list", "--tools", *offers("nothing"))
    refused = await cli("list", "--templates", *offers())

    assert (announced.returncode, announced.stdout) == (0, b"")
    assert announced.stderr == b"trio-mcp: the server announces no tools, resources or prompts\n"
    assert (named.returncode, named.stderr) == (0, b"")
    assert b"three" in named.stdout
    assert (refused.returncode, refused.stdout) == (5, b"")
    assert b"-32601" in refused.stderr


@pytest.mark.parametrize(("mode", "why"), [("ring", "comes again"), ("endless", "1000 pages")])
async def test_list_without_an_end_is_the_servers_fault(mode: str, why: str, offers: Any) -> None:
    done = await cli("list", "--tools", *offers(mode))

    assert (done.returncode, done.stdout) == (7, b"")
    assert why in done.stderr.decode()


# call


async def test_call_prints_the_result_and_nothing_else() -> None:
    done = await cli("call", "add", "a=19", "b=2.3e1", *DEMO)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"42.0\n", b"")


@both_eras
async def test_call_takes_pairs_json_a_file_or_stdin(era: str, offers: Any, tmp_path: Path) -> None:
    document = {"text": "ü", "list": [1, None], "1": {"x": True}}
    file = tmp_path / "args.json"
    file.write_text(json.dumps(document), "utf-8")

    pairs = await cli(
        "call", "echo", "n=1", "s=one", 't="1"', "l=[1]", "e=", "x=NaN", "q=a=b", *offers(era=era)
    )
    assert json.loads(pairs.stdout) == {
        "n": 1, "s": "one", "t": "1", "l": [1], "e": "", "x": "NaN", "q": "a=b",
    }  # fmt: skip
    for given in (json.dumps(document), f"@{file}", "@-"):
        done = await cli(
            "call", "echo", "--args", given, *offers(era=era), stdin=json.dumps(document).encode()
        )
        assert (done.returncode, json.loads(done.stdout)) == (0, document)


async def test_call_names_what_is_no_text(offers: Any) -> None:
    done = await cli("call", "blocks", *offers(), PYTHONIOENCODING="utf-8")

    assert done.returncode == 0
    assert done.stdout.decode().splitlines() == [
        "plain \x1b[31m and \u2603",  # as it is: this is no terminal
        "[image: image/png, 3 bytes; --json shows it]",
        "[resource: file:///x (x)]",
        "embedded",
        "[resource: file:///z; --json shows it]",
        '{"type": "hologram", "depth": 3}',
    ]


async def test_results_survive_a_stdout_that_cannot_encode_them(offers: Any) -> None:
    text = await cli("call", "blocks", *offers(), PYTHONIOENCODING="ascii")
    document = await cli("call", "blocks", "--json", *offers(), PYTHONIOENCODING="ascii")

    assert (text.returncode, document.returncode) == (0, 0)
    assert b"and \\u2603\n" in text.stdout
    assert json.loads(document.stdout)["content"][0]["text"].endswith("\u2603")


async def test_call_as_json_keeps_the_whole_result(offers: Any) -> None:
    done = await cli("call", "blocks", "--json", *offers())
    failed = await cli("call", "fails", "--json", *offers())

    assert json.loads(done.stdout)["content"][5] == {"type": "hologram", "depth": 3}
    assert json.loads(failed.stdout)["isError"] is True
    assert failed.returncode == 5


async def test_progress_goes_to_stderr() -> None:
    done = await cli("call", "countdown", "from=2", "pause=0", "--progress", *DEMO)

    assert (done.returncode, done.stdout) == (0, b"liftoff\n")
    assert done.stderr.decode().splitlines() == ["progress: 1 of 2, 1 to go", "progress: 2 of 2, now"]


async def test_stderr_of_the_server_is_shown_with_its_name_unless_silenced(offers: Any) -> None:
    shown = await cli("call", "where", "--name", "mine", *offers())
    silent = await cli("call", "where", "-q", *offers())

    assert shown.stderr == b"mine | on stderr\n"
    assert silent.stderr == b""
    assert shown.stdout == silent.stdout


async def test_the_server_gets_its_directory_and_only_the_variables_it_is_given(
    offers: Any, tmp_path: Path
) -> None:
    env = {"CLI_TEST_ONE": "1", "CLI_TEST_TWO": "2"}
    directory = await trio.Path(tmp_path).resolve()
    where = await cli("call", "where", "-q", "--cwd", str(tmp_path), *offers())
    assert where.stdout.decode() == f"{directory}\n"

    for options, expected in (
        ([], b"None"),
        (["--inherit", "CLI_TEST_ONE"], b"1"),
        (["--inherit", "CLI_TEST_*"], b"1"),
        (["--env", "CLI_TEST_ONE=x=y"], b"x=y"),
        (["--env", "CLI_TEST_ONE="], b""),
    ):
        done = await cli("call", "has", "name=CLI_TEST_ONE", *options, *offers(), **env)
        assert done.stdout == expected + b"\n"


# Exit codes


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
async def test_1_output_that_cannot_be_written() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        with alive():
            done = await trio.run_process(
                [sys.executable, "-m", "trio_mcp_stdio", "call", "add", "a=1", "b=1", *DEMO],
                stdout=full,
                capture_stderr=True,
                check=False,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
    finally:
        os.close(full)

    assert done.returncode == 1
    assert done.stderr.decode().count("\n") == 1
    assert b"No space left" in done.stderr


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["unknown"], "No such command"),
        (["probe"], "has to follow --"),
        (["probe", "--"], "has to follow --"),
        (["probe", "--unknown", *DEMO], "No such option"),
        (["probe", "--era", "future", *DEMO], "'future'"),
        (["probe", "--timeout", "0", *DEMO], "positive number"),
        (["probe", "--timeout", "nan", *DEMO], "positive number"),
        (["probe", "--timeout", "soon", *DEMO], "'soon'"),
        (["probe", "--cwd", "/no/such/place", *DEMO], "does not exist"),
        (["demo", *DEMO], "starts its own server"),
        (["call", *DEMO], "Missing argument"),
        (["call", "add", "a", *DEMO], "NAME=VALUE"),
        (["call", "add", "a=1", "a=2", *DEMO], "given twice"),
        (["call", "add", "a=1", "--args", "{}", *DEMO], "not both"),
        (["call", "add", "--args", "[]", *DEMO], "JSON object"),
        (["call", "add", "--args", "{", *DEMO], "is not JSON"),
        (["call", "add", "--args", '{"a": NaN}', *DEMO], "NaN"),
        (["call", "add", "--args", '{"a": "\\ud800"}', *DEMO], "surrogate"),
        (["call", "add", "--args", "@/no/such/file", *DEMO], "cannot be read"),
    ],
)
def test_2_usage(args: list[str], why: str, capfd: pytest.CaptureFixture[str]) -> None:
    code = run(args)

    out, err = capfd.readouterr()
    assert (code, out) == (2, "")
    assert why in err


def test_2_a_variable_without_a_value_is_not_repeated(capfd: pytest.CaptureFixture[str]) -> None:
    code = run(["probe", "--env", "hunter2", *DEMO])

    _, err = capfd.readouterr()
    assert code == 2
    assert "NAME=VALUE" in err
    assert "hunter2" not in err


async def test_values_of_variables_are_never_shown() -> None:
    for command in (["deaths", "at-once", "3"], ["deaths", "on-call", "3"]):
        done = await cli("call", "x", "--env", "SECRET=hunter2", *fake(*command))
        assert done.returncode != 0
        assert b"hunter2" not in done.stdout + done.stderr
    missing = await cli("probe", "--env", "SECRET=hunter2", "--", "/no/such/program")
    assert b"hunter2" not in missing.stderr


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--", "/no/such/program"], "does not exist"),
        (fake("deaths", "at-once", "3"), "exited with status 3"),
        (fake("deaths", "killed-at-once"), "SIGKILL"),
        (["--era", "modern", *fake("echo", era="legacy")], "2026-07-28"),
        (["--startup-timeout", "0.3", *fake("negotiates", os.devnull, "silent")], "0.3 s"),
    ],
)
async def test_4_no_connection(args: list[str], why: str) -> None:
    done = await cli("probe", *args)

    assert (done.returncode, done.stdout) == (4, b"")
    assert done.stderr.decode().count("trio-mcp: ") == 1
    assert why in done.stderr.decode()


async def test_4_stderr_of_the_server_is_told_once() -> None:
    shown = await cli("probe", *fake("deaths", "at-once", "3"))
    silent = await cli("probe", "-q", *fake("deaths", "at-once", "3"))

    assert b"python3 | usage" in shown.stderr or b" | usage: bad flag --x" in shown.stderr
    assert b"stderr ended with" not in shown.stderr
    assert b" | " not in silent.stderr
    assert silent.stderr.decode().rstrip().endswith("stderr ended with:\n    usage: bad flag --x")


@pytest.mark.parametrize(
    ("tool", "out", "why"),
    [
        ("fails", b"no luck\n", "the tool reported an error"),
        ("unknown", b"", "-32601"),
        ("needs", b"", "needs input"),
    ],
)
async def test_5_the_tool_failed(tool: str, out: bytes, why: str, offers: Any) -> None:
    done = await cli("call", tool, *offers())

    assert (done.returncode, done.stdout) == (5, out)
    assert why in done.stderr.decode()


@both_eras
async def test_5_the_tool_does_not_exist(era: str) -> None:
    done = await cli("call", "nope", "--era", era, *DEMO)

    assert (done.returncode, done.stdout) == (5, b"")
    assert b"unknown tool 'nope' (code -32602" in done.stderr


async def test_6_timed_out() -> None:
    done = await cli("call", "sleep", "seconds=60", "--timeout", "0.3", "-q", *DEMO)

    assert (done.returncode, done.stdout) == (6, b"")
    assert b"timeout of 0.3 s passed" in done.stderr


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (fake("deaths", "on-call", "3"), "exited with status 3"),
        (fake("deaths", "killed-on-call"), "SIGKILL"),
        (fake("deaths", "close-stdout"), "stdout"),
        (fake("noise", "header-now"), "Content-Length"),
    ],
)
async def test_7_the_server_died_or_broke_the_protocol(args: list[str], why: str) -> None:
    done = await cli("call", "x", *args)

    assert (done.returncode, done.stdout) == (7, b"")
    assert why in done.stderr.decode()
    assert b"Traceback (most recent" not in done.stderr


async def test_7_a_result_of_the_wrong_shape(offers: Any) -> None:
    done = await cli("call", "wrong", *offers())

    assert (done.returncode, done.stdout) == (7, b"")
    assert b"invalid result of tools/call: content" in done.stderr


_EXIT = ProcessExit(pid=1, returncode=0, signal=None, ending="exited", expected=False)


def _exited(phase: str) -> ServerExited:
    return ServerExited("gone", exit=_EXIT, phase=phase, delivery=Delivery.NOT_SENT)


def _lost(method: str | None) -> ConnectionLost:
    return ConnectionLost("gone", delivery=Delivery.NOT_SENT, method=method)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (SpawnError("", argv=()), Exit.NO_CONNECTION),
        (NegotiationError(""), Exit.NO_CONNECTION),
        (StartupTimeout(timeout=1, phase="probe"), Exit.NO_CONNECTION),
        (_exited("probe"), Exit.NO_CONNECTION),
        (_exited("initialize"), Exit.NO_CONNECTION),
        (_exited("serving"), Exit.SERVER_FAULT),
        (_lost("server/discover"), Exit.NO_CONNECTION),
        (_lost("initialize"), Exit.NO_CONNECTION),
        (_lost("tools/call"), Exit.SERVER_FAULT),
        (_lost(None), Exit.SERVER_FAULT),
        (ClientClosed("", delivery=Delivery.NOT_SENT), Exit.SERVER_FAULT),
        (RequestTimeout(method="x", request_id=1, timeout=1, elapsed=1), Exit.TIMED_OUT),
        (MethodNotFound(-32601, ""), Exit.FAILED),
        (ToolError(CallToolResult()), Exit.FAILED),
        (InputRequiredError(method="x", result={}, reason="no handler"), Exit.FAILED),
        (LocalProtocolError(""), Exit.USAGE),
        (RemoteProtocolError(""), Exit.SERVER_FAULT),
        (InvalidResult(method="x", problems=[]), Exit.SERVER_FAULT),
        (McpError(""), Exit.UNEXPECTED),
        (ValueError(), Exit.UNEXPECTED),
    ],
)
def test_every_error_has_its_code(error: BaseException, code: Exit) -> None:
    assert exit_of(error) is code


def test_the_error_that_decides_is_found_in_groups() -> None:
    first, interrupt = ValueError("first"), KeyboardInterrupt()
    group = BaseExceptionGroup("", [ExceptionGroup("", [first, OSError()]), interrupt])

    assert leaf(first) is first
    assert leaf(ExceptionGroup("", [ExceptionGroup("", [first]), OSError()])) is first
    assert leaf(group) is interrupt


# The program


@pytest.mark.parametrize("package", ["click", "rich"])
async def test_without_its_packages_it_names_the_extra_and_exits_2(package: str) -> None:
    code = (
        f"import runpy, sys; sys.modules[{package!r}] = None; "
        "runpy.run_module('trio_mcp_stdio', run_name='__main__')"
    )
    with alive():
        done = await trio.run_process(
            [sys.executable, "-c", code],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().count("\n") == 1
    assert "pip install 'trio_mcp_stdio[cli]'" in done.stderr.decode()


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], "Commands:"),
        (["-h"], "Commands:"),
        (["call", "--help"], "Usage: trio-mcp call [OPTIONS] TOOL [NAME=VALUE]... -- COMMAND [ARGS]..."),
        (["--version"], f"trio-mcp {__version__}\n"),
    ],
)
def test_help_and_version_need_no_server(
    args: list[str], expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code = run(args)

    out, err = capfd.readouterr()
    assert (code, err) == (0, "")
    assert expected in out


@pytest.mark.parametrize(
    ("argv", "own", "server"),
    [
        ([], [], None),
        (["probe"], ["probe"], None),
        (["probe", "--"], ["probe"], ()),
        (["probe", "--", "x", "--help"], ["probe"], ("x", "--help")),
        (["probe", "--", "x", "--", "y"], ["probe"], ("x", "--", "y")),
    ],
)
def test_arguments_are_split_at_the_first_double_dash(
    argv: list[str], own: list[str], server: tuple[str, ...] | None
) -> None:
    assert split(argv) == (own, server)


async def test_everything_after_the_first_double_dash_reaches_the_server() -> None:
    code = "import sys; sys.stderr.write(repr(sys.argv[1:]))"
    done = await cli("probe", "-q", "--", sys.executable, "-c", code, "--json", "--", "-q")

    assert done.returncode == 4
    assert b"['--json', '--', '-q']" in done.stderr


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain ü \N{SNOWMAN}\tx\n", "plain ü \N{SNOWMAN}\tx\n"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b2J\x00\x7f", "\\x9b2J\\x00\\x7f"),
        ("\u202egnp.exe\u2028", "\\u202egnp.exe\\u2028"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_shown_not_obeyed(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned
    assert first_line(f"\n \n{text}") == " ".join(cleaned.split("\n")[0].split())
