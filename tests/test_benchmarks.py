"""The benchmarks run and give figures of the right shape; no figure is held against a clock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.fake import FakeServer, fake_server, find_compiler
from benchmarks.report import table_as_text
from benchmarks.series import Goal, Metric, Series, Table, take_turns
from benchmarks.splitters import SPLITTERS

ROOT = Path(__file__).parent.parent
LIMIT = 120  # seconds; a liveness limit

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")


def run_benchmarks(*arguments: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """Run the command; return what it printed and the JSON it wrote."""
    file = folder / "figures.json"
    command = [sys.executable, "-m", "benchmarks", "--smoke", "--no-peers", "--json", str(file), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    written: dict[str, Any] = json.loads(file.read_text())
    return done.stdout, written


def samples_of(table: dict[str, Any], subject: str) -> dict[str, dict[str, float]]:
    """The one sample that a smoke run takes, by case."""
    return {one["case"]: one["samples"][0] for one in table["series"] if one["subject"] == subject}


def test_lines_and_import_run_as_smoke_tests(tmp_path: Path) -> None:
    """Both give a positive figure for every subject in every case, as text and as JSON."""
    text, written = run_benchmarks("lines", "import", folder=tmp_path)

    lines, imports = written["tables"]
    assert [lines["name"], imports["name"]] == ["lines", "import"]
    for subject in SPLITTERS:
        assert subject in text
        samples = samples_of(lines, subject)
        assert len(samples) == 7
        assert all(sample["cpu_per_line"] > 0 for sample in samples.values())
    # The peak of ours on one long line is that line and a chunk or two, where plain splitters need more.
    assert samples_of(lines, "LineSplitter")["16 MiB line, 64 KiB chunks"]["peak_lines"] < 1.5
    for module in ("trio", "trio_mcp_stdio"):
        (sample,) = samples_of(imports, f"import {module}").values()
        assert sample["seconds"] > 0
        assert sample["rss_bytes"] > 2**20
    (ours,) = (one for one in imports["series"] if one["subject"] == "import trio_mcp_stdio")
    assert ours["ratios"]["modules"]["value"] > 1
    assert written["machine"]["cpus"] >= 1
    assert "smoke run" in text


@pytest.mark.parametrize("language", [pytest.param("c", marks=needs_compiler), "python"])
def test_concurrent_requests_share_reads(language: str, tmp_path: Path) -> None:
    """What 64 callers ask at once reaches the server in fewer pieces than there are requests."""
    _, written = run_benchmarks(
        "roundtrip", "--callers", "1", "64", "--server", language, "--era", "legacy", folder=tmp_path
    )

    samples = samples_of(written["tables"][0], "trio_mcp_stdio")

    assert samples["1 caller"]["calls"] == 200
    assert samples["1 caller"]["requests_per_read"] <= 1
    assert samples["64 callers"]["calls"] == 3 * 64
    assert samples["64 callers"]["requests_per_read"] > 2
    for sample in samples.values():
        assert 0 < sample["p50"] <= sample["p99"]
        assert sample["cpu_per_100k"] > 0


@pytest.mark.parametrize("arguments", [["no-such-benchmark"], ["--rounds", "0"], ["--callers", "0"]])
def test_nonsense_is_refused(arguments: list[str]) -> None:
    """The command says what is wrong and measures nothing."""
    command = [sys.executable, "-m", "benchmarks", *arguments]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=LIMIT, check=False)

    assert done.returncode == 2
    assert b"usage:" in done.stderr


# The fake servers

REQUESTS = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
    {
        "jsonrpc": "2.0",
        "id": "two",
        "method": "server/discover",
        "params": {"_meta": {"id": 9, "method": "x"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"method": "tools/list", "params": {}, "id": -3, "jsonrpc": "2.0"},
    {"jsonrpc": "2.0", "id": 4, "method": "ping"},
    {"method": "tools/call", "params": {"name": 'a "quoted\\" }{', "arguments": {"id": [{}]}}, "id": 'i"\\'},
    {"jsonrpc": "2.0", "id": 5, "method": "no/such"},
]


def converse(server: FakeServer, era: str, folder: Path) -> tuple[list[Any], dict[str, int]]:
    """Send all requests in small pieces; return the answers and what the server has counted."""
    counters = folder / server.language
    command = server.start(era, 200, counters)
    text = "".join(json.dumps(request, ensure_ascii=False) + "\n" for request in REQUESTS).encode()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for start in range(0, len(text), 50):
            process.stdin.write(text[start : start + 50])
        process.stdin.close()
        answers = [json.loads(line) for line in process.stdout.read().splitlines()]
        process.wait(LIMIT)
    counted: dict[str, int] = json.loads(counters.read_text())
    return answers, counted


@needs_compiler
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_both_fake_servers_answer_alike(era: str, tmp_path: Path) -> None:
    """The server in C and the one in Python give the same answers, with the ids they were sent."""
    answers, counted = converse(fake_server("c"), era, tmp_path)
    others, other_count = converse(fake_server("python"), era, tmp_path)

    assert answers == others
    assert [answer["id"] for answer in answers] == [1, "two", -3, 4, 'i"\\', 5]
    refused = [answer["id"] for answer in answers if "error" in answer]
    assert refused == ([1, 4, 5] if era == "modern" else ["two", 5])
    (block,) = answers[4]["result"]["content"]
    assert len(block["text"]) == 200
    assert counted["requests"] == other_count["requests"] == 6
    assert counted["bytes"] == other_count["bytes"]


# The splitters


@pytest.mark.parametrize("name", SPLITTERS)
@given(
    lines=st.lists(
        st.binary(min_size=1, max_size=12).map(lambda line: line.translate(None, b"\r\n") or b"x")
    ),
    size=st.integers(1, 20),
)
def test_splitters_agree(name: str, lines: list[bytes], size: int) -> None:
    """All that are compared do the same work."""
    stream = b"".join(line + b"\n" for line in lines)
    splitter = SPLITTERS[name]()

    found = [line for at in range(0, len(stream), size) for line in splitter.feed(stream[at : at + size])]

    assert found == lines


# Tables


def test_subjects_take_turns() -> None:
    """Every round has every subject once, in the opposite order of the round before."""
    order: list[str] = []

    taken = take_turns(["a", "b"], 3, lambda name: order.append(name) or {"n": len(order)})

    assert "".join(order) == "abbaab"
    assert taken == [("a", ({"n": 1}, {"n": 4}, {"n": 5})), ("b", ({"n": 2}, {"n": 3}, {"n": 6}))]


def test_ratios_are_of_medians() -> None:
    """The ratio is that of the medians, its range that of the rounds; a goal says whether it is reached."""
    table = Table("t", "title", "base", (Metric("s", "ms", scale=1e3),))
    table.series += [
        Series("case", "base", ({"s": 1.0}, {"s": 2.0}, {"s": 4.0})),
        Series("case", "new", ({"s": 0.5}, {"s": 0.5}, {"s": 0.4})),
    ]
    ratio = table.ratio("case", "s", "new")
    assert ratio is not None

    assert (ratio.value, ratio.low, ratio.high) == (0.25, 0.1, 0.5)
    table.goals = (Goal("case", "s", "new", "base", 0.3), Goal("case", "s", "new", "base", 0.2))
    text = table_as_text(table)
    assert "500   (0.25)" in text
    assert text.index("at most 0.3; reached") < text.index("at most 0.2; MISSED")
    assert table.ratio("case", "s", "absent") is None
