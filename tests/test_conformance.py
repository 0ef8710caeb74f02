"""The plugin and the table that tie tests to requirements, and the rows of docs/ that tests must cover."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import conformance_table as table
from tests.conformance import Record, read_rows

DOCS = table.ROOT / "docs"
REQUIREMENTS = "id\tlevel\tarea\trequirement\tsubject\n"
FIELD = "id\tbehaviour\n"
INI = """\
[pytest]
addopts = -p no:cacheprovider -p tests.conformance --strict-markers
markers =
    slow: left out
    peers: published servers
    requirement(*ids): rows
    field(*ids): rows
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of its own, with three requirements and one behaviour."""
    monkeypatch.setenv("PYTHONPATH", str(table.ROOT))
    monkeypatch.delenv("REQUIRE_PEERS", raising=False)
    pytester.makefile(".ini", pytest=INI)
    docs = pytester.mkdir("docs")
    (docs / "requirements.tsv").write_text(
        f"{REQUIREMENTS}R-1\tMUST\tframing\tfirst | odd\t\nR-2\tMUST\tframing\tsecond\tserver\n"
        "R-3\tMAY\ticons\tthird\tnot applicable: nothing is drawn\n",
        encoding="utf-8",
    )
    (docs / "field-behaviours.tsv").write_text(f"{FIELD}K001\tdies\n", encoding="utf-8")
    return pytester


def run(project: pytest.Pytester, source: str, *arguments: str) -> tuple[pytest.RunResult, dict[str, Record]]:
    """Run one test module; its result, and its records by the name of the test."""
    project.makepyfile(test_it=source)
    result = project.runpytest_inprocess("--conformance-json=out.json", *arguments)
    path = project.path / "out.json"
    records = table.read_report(path) if path.exists() else []
    return result, {record["nodeid"].partition("::")[2]: record for record in records}


# the plugin


def test_outcomes_of_parallel_workers_come_together(project: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    project.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.requirement("R-1")
        @pytest.mark.parametrize("n", range(6))
        def test_this(n):
            if n == 5:
                pytest.skip("not here")
        """
    )
    project.runpytest_subprocess("-n", "2", "--conformance-json=out.json", timeout=120)
    records = table.read_report(project.path / "out.json")

    assert sorted(str(record["outcome"]) for record in records) == ["passed"] * 5 + ["skipped"]
    assert {tuple(record["requirement"]) for record in records} == {("R-1",)}


def test_several_ids_on_a_test_and_on_its_class_are_recorded(project: pytest.Pytester) -> None:
    result, records = run(
        project,
        """
        import pytest

        @pytest.mark.requirement("R-1", "R-2")
        class TestIt:
            @pytest.mark.requirement("R-1")
            @pytest.mark.field("K001")
            @pytest.mark.parametrize("n", [1, 2])
            def test_this(self, n): ...
        """,
    )

    result.assert_outcomes(passed=2)
    assert records["TestIt::test_this[1]"] == {
        "nodeid": "test_it.py::TestIt::test_this[1]",
        "requirement": ["R-1", "R-2"],
        "field": ["K001"],
        "outcome": "passed",
        "reason": "",
    }


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ('requirement("R-9")', "*requirement 'R-9' is no row of requirements.tsv*"),
        ('requirement("R-1", "R-9")', "*requirement 'R-9' is no row of requirements.tsv*"),
        ('field("R-1")', "*field 'R-1' is no row of field-behaviours.tsv*"),
        ("requirement()", "*requirement takes ids, and at least one*"),
        ('requirement("R-1", reason="x")', "*requirement takes ids, and at least one*"),
        ("field", "*field takes ids, and at least one*"),
    ],
)
def test_a_bad_id_fails_the_collection(project: pytest.Pytester, mark: str, message: str) -> None:
    result, _ = run(project, f"import pytest\n@pytest.mark.{mark}\ndef test_this(): ...\n")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


OUTCOMES = """
import pytest

@pytest.fixture
def broken():
    raise RuntimeError("setup")

@pytest.fixture
def leaking():
    yield
    raise RuntimeError("teardown")

def test_passes(): ...
def test_fails(): assert 0
def test_breaks_before(broken): ...
def test_breaks_after(leaking): ...
def test_skips(): pytest.skip("no such  thing")
@pytest.mark.skipif(True, reason="elsewhere")
def test_is_skipped(): ...
@pytest.mark.xfail(reason="known")
def test_is_expected_to_fail(): assert 0
@pytest.mark.slow
def test_is_left_out(): ...
"""


def test_outcomes_are_recorded(project: pytest.Pytester) -> None:
    _, records = run(project, OUTCOMES, "-m", "not slow")

    assert {name: (record["outcome"], record["reason"]) for name, record in records.items()} == {
        "test_passes": ("passed", ""),
        "test_fails": ("failed", "call"),
        "test_breaks_before": ("failed", "setup"),
        "test_breaks_after": ("failed", "teardown"),
        "test_skips": ("skipped", "no such thing"),
        "test_is_skipped": ("skipped", "elsewhere"),
        "test_is_expected_to_fail": ("xfailed", "known"),
        "test_is_left_out": (None, ""),
    }


def test_collecting_alone_writes_the_report_too(project: pytest.Pytester) -> None:
    result, records = run(project, OUTCOMES, "--collect-only")

    assert result.ret == 0
    assert {record["outcome"] for record in records.values()} == {None}
    assert len(records) == 8


def test_a_module_that_skips_itself_is_an_error(project: pytest.Pytester) -> None:
    result, _ = run(project, "import pytest\npytest.skip('not here', allow_module_level=True)\n")

    assert result.ret != 0
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*its tests were not collected: not here*"])


PEERS = """
import pytest

@pytest.mark.peers
def test_in_the_test(): pytest.skip("registry not reachable")
@pytest.mark.peers
@pytest.mark.skipif(True, reason="by mark")
def test_by_mark(): ...
@pytest.mark.peers
@pytest.mark.xfail(reason="known")
def test_known(): assert 0
def test_other(): pytest.skip("no peer")
@pytest.mark.peers
def test_present(): ...
"""


def test_peers_may_skip_by_default(project: pytest.Pytester) -> None:
    result, _ = run(project, PEERS)

    result.assert_outcomes(skipped=3, xfailed=1, passed=1)
    assert result.ret == 0


def test_a_skipped_peer_is_a_failure_when_peers_are_required(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUIRE_PEERS", "1")

    result, records = run(project, PEERS)

    # a skip before the call counts as an error of the set-up
    result.assert_outcomes(failed=1, errors=1, skipped=1, xfailed=1, passed=1)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*skipped although REQUIRE_PEERS=1: registry not reachable*"])
    assert records["test_by_mark"]["outcome"] == "failed"
    assert records["test_other"]["outcome"] == "skipped"


# the table


def record(name: str, *, outcome: str | None = None, reason: str = "", **ids: list[str]) -> Record:
    return Record(
        nodeid=f"tests/test_it.py::{name}",
        requirement=ids.get("requirement", []),
        field=ids.get("field", []),
        outcome=outcome,
        reason=reason,
    )


COMPLETE = [
    record("test_one[a]", requirement=["R-1"]),
    record("test_one[b]", requirement=["R-1"], field=["K001"]),
    record("test_two", requirement=["R-1", "R-2"]),
]


def test_the_table_lists_each_row_with_its_tests(project: pytest.Pytester) -> None:
    lines = table.render(project.path, COMPLETE).splitlines()

    both = "`test_it.py::test_one`<br>`test_it.py::test_two`"
    assert f"| R-1 | MUST | first \\| odd | covered | {both} |" in lines
    assert "| R-2 | MUST | second | later subject: server | `test_it.py::test_two` |" in lines
    assert "| R-3 | MAY | third | not applicable: nothing is drawn |  |" in lines
    assert "| K001 | dies | covered | `test_it.py::test_one` |" in lines
    assert "| covered | 1 |" in lines


def test_the_table_does_not_depend_on_outcomes_or_on_parameters(project: pytest.Pytester) -> None:
    ran: list[Any] = [dict(each, outcome="skipped", reason="here") for each in reversed(COMPLETE)]
    ran.append(record("test_one[c]", requirement=["R-1"]))

    assert table.render(project.path, ran) == table.render(project.path, COMPLETE)


def test_check_accepts_what_was_written(project: pytest.Pytester) -> None:
    (project.path / table.TABLE).write_text(table.render(project.path, COMPLETE), encoding="utf-8")

    assert table.check(project.path, COMPLETE) == []


def test_check_names_a_claim_that_no_collected_test_makes_good(project: pytest.Pytester) -> None:
    (project.path / table.TABLE).write_text(table.render(project.path, COMPLETE), encoding="utf-8")

    assert table.check(project.path, COMPLETE[:2]) == [
        "R-1: claims tests/test_it.py::test_two, which was not collected",
        "R-2: claims tests/test_it.py::test_two, which was not collected",
        f"{table.TABLE} is out of date: run python -m tests.conformance_table",
    ]


def test_check_names_rows_without_a_test(project: pytest.Pytester) -> None:
    (project.path / table.TABLE).write_text(table.render(project.path, []), encoding="utf-8")

    assert table.check(project.path, []) == [
        "R-1: not covered by any collected test",
        "K001: not covered by any collected test",
    ]


def test_check_refuses_a_missing_file_and_an_unknown_subject(project: pytest.Pytester) -> None:
    (project.path / "docs" / "requirements.tsv").write_text(
        f"{REQUIREMENTS}R-1\tMUST\tframing\tfirst\tsomeday\n", encoding="utf-8"
    )

    assert table.check(project.path, COMPLETE) == [
        "R-1: unknown subject 'someday'",
        f"{table.TABLE} is out of date: run python -m tests.conformance_table",
    ]


def test_the_report_of_a_run_names_what_was_skipped_and_why(project: pytest.Pytester) -> None:
    first = [
        record("test_one", outcome="skipped", reason="registry not reachable", requirement=["R-1"]),
        record("test_two", requirement=["R-2"]),
        record("test_three", field=["K001"]),
    ]
    second = [record("test_one", requirement=["R-1"]), record("test_three", outcome="failed", field=["K001"])]

    assert table.report(project.path, table.merge([first, second])).splitlines() == [
        "R-1: skipped (registry not reachable)",
        "requirement rows: 1 skipped, 1 later subject, 1 not applicable",
        "K001: failed",
        "field rows: 1 failed",
        "0 passed, 1 failed, 1 skipped",
    ]


def test_one_passed_test_covers_a_row_whose_other_test_was_skipped(project: pytest.Pytester) -> None:
    records = [
        record("test_one", outcome="skipped", reason="no", requirement=["R-1"]),
        record("test_two", outcome="passed", requirement=["R-1"]),
        record("test_three", field=["K001"]),
    ]

    lines = table.report(project.path, records).splitlines()
    assert "requirement rows: 1 covered, 1 later subject, 1 not applicable" in lines
    assert "K001: not run" in lines


def test_main_reports_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"tests": [record("test_one", outcome="passed")]}), encoding="utf-8")

    assert table.main(["--report", str(path)]) == 0
    assert capsys.readouterr().out.endswith("1 passed, 0 failed, 0 skipped\n")


def test_a_module_that_cannot_be_imported_stops_the_table(project: pytest.Pytester) -> None:
    project.makeconftest("def pytest_addoption(parser): parser.addoption('--slow', action='store_true')")
    project.makepyfile(test_it="import no_such_module")

    with pytest.raises(table.CollectionError, match="no_such_module"):
        table.collect(project.path)


# this project's own rows


def test_every_row_of_this_project_is_complete() -> None:
    rows = read_rows(DOCS / "requirements.tsv")

    assert table.check_subjects(rows) == []
    assert all(row["id"] and row["revision"] and row["locator"] and row["requirement"] for row in rows)
    assert {row["side"] for row in rows} == {"client", "both"}
    ids = [row["id"] for name in table.MARKERS.values() for row in read_rows(DOCS / name)]
    assert len(ids) == len(set(ids))


def test_every_behaviour_of_real_servers_has_a_collected_test() -> None:
    covering = table.tests_by_id(table.collect(), "field")

    assert [row["id"] for row in read_rows(DOCS / "field-behaviours.tsv") if row["id"] not in covering] == []
