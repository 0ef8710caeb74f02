"""pytest plugin that ties tests to the rows of docs/requirements.tsv and docs/field-behaviours.tsv.

    @pytest.mark.requirement("CANCEL-01", "CANCEL-18")    # this test covers these requirements
    @pytest.mark.field("K012")                            # and this behaviour of real servers

An id that no row has fails the collection. ``--conformance-json=PATH`` writes what was collected, with the
ids and the outcome of each test; tests/conformance_table.py makes the table from it.

Tests are collected on every machine alike, so that the table is the same everywhere: a module that skips
itself is an error (skip in a fixture or by a mark instead). With REQUIRE_PEERS=1 in the environment a test
marked `peers` may not skip at all.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest

MARKERS = {"requirement": "requirements.tsv", "field": "field-behaviours.tsv"}


class Record(TypedDict):
    """One collected test in the report. `outcome` is None until the test has run."""

    nodeid: str
    requirement: list[str]
    field: list[str]
    outcome: str | None
    reason: str


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of one of the tab-separated files, by column name."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption("--conformance-json", metavar="PATH", help="write tests, ids and outcomes to PATH")
    parser.addini("conformance_docs", "folder of the requirement files", default="docs")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Conformance(config), "conformance-recorder")


class Conformance:
    """Checks the marks of one session and records its tests."""

    def __init__(self, config: pytest.Config) -> None:
        docs = config.rootpath / config.getini("conformance_docs")
        self._known = {
            marker: {row["id"] for row in read_rows(docs / name)} for marker, name in MARKERS.items()
        }
        self._report: str | None = config.getoption("--conformance-json")
        self._records: dict[str, Record] = {}

    @pytest.hookimpl(tryfirst=True)  # before anything is deselected
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        problems: list[str] = []
        for item in items:
            self._records[item.nodeid] = Record(
                nodeid=item.nodeid,
                requirement=sorted(set(self._marked(item, "requirement", problems))),
                field=sorted(set(self._marked(item, "field", problems))),
                outcome=None,
                reason="",
            )
        if problems:
            raise pytest.UsageError("\n".join(problems))

    def _marked(self, item: pytest.Item, marker: str, problems: list[str]) -> Iterator[str]:
        for mark in item.iter_markers(marker):
            if mark.kwargs or not mark.args:
                problems.append(f"{item.nodeid}: {marker} takes ids, and at least one")
            for name in mark.args:
                if name in self._known[marker]:
                    yield name
                else:
                    problems.append(f"{item.nodeid}: {marker} {name!r} is no row of {MARKERS[marker]}")

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.skipped:
            report.outcome = "failed"
            report.longrepr = f"skips itself as a whole, so its tests were not collected: {_reason(report)}"
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        expected_failure = hasattr(report, "wasxfail")
        if report.skipped and not expected_failure and item.get_closest_marker("peers") and _peers_required():
            report.outcome = "failed"
            report.longrepr = f"skipped although REQUIRE_PEERS=1: {_reason(report)}"
        self._record(report, expected_failure)
        return report

    def _record(self, report: pytest.TestReport, expected_failure: bool) -> None:
        record = self._records[report.nodeid]
        if report.failed:
            record["outcome"], record["reason"] = "failed", report.when
        elif report.skipped:
            record["outcome"] = "xfailed" if expected_failure else "skipped"
            record["reason"] = getattr(report, "wasxfail", "") or _reason(report)
        elif report.when == "call" and record["outcome"] is None:
            record["outcome"] = "passed"

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of pytest-xdist has ended: take over what came of the tests that it ran."""
        for record in getattr(node, "workeroutput", {}).get("conformance", ()):
            known = self._records.get(record["nodeid"])
            if known is None or known["outcome"] is None:
                self._records[record["nodeid"]] = record

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        handed_over = getattr(session.config, "workeroutput", None)
        if handed_over is not None:
            handed_over["conformance"] = list(self._records.values())
        elif self._report is not None:
            Path(self._report).write_text(
                json.dumps({"tests": list(self._records.values())}, indent=1) + "\n", encoding="utf-8"
            )


def _peers_required() -> bool:
    return os.environ.get("REQUIRE_PEERS") == "1"


def _reason(report: Any) -> str:
    """Why a report is a skip, in one line."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return " ".join(text.removeprefix("Skipped: ").split())
