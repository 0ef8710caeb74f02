"""The results as tables of plain text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from .machine import summary
from .series import Goal, Metric, Ratio, Table


@attrs.frozen
class Report:
    """One run.

    Attributes:
        machine: what it ran on.
        settings: how it ran.
        tables: what came out.
    """

    machine: dict[str, Any]
    settings: dict[str, Any]
    tables: tuple[Table, ...]

    def as_json(self) -> dict[str, Any]:
        """Everything that was measured, and the medians and ratios made of it."""
        return {
            "machine": self.machine,
            "settings": self.settings,
            "tables": [_table_as_json(table) for table in self.tables],
        }

    def as_text(self) -> str:
        """The tables for a terminal."""
        smoke = bool(self.settings["smoke"])
        parts = [f"{'smoke run: the figures mean nothing' if smoke else 'full run'}; {summary(self.machine)}"]
        parts += [table_as_text(table, with_goals=not smoke) for table in self.tables]
        return "\n\n".join(parts)


def table_as_text(table: Table, *, with_goals: bool = True) -> str:
    """A heading, a block of rows for each case, then the goals and the notes."""
    rows = [["", *(metric.heading for metric in table.metrics)]]
    for case in _cases(table):
        rows.append([case])
        for series in (one for one in table.series if one.case == case):
            cells = [_cell(table, metric, case, series.subject) for metric in table.metrics]
            rows.append([f"  {series.subject}", *cells])
    lines = [f"{table.name}: {table.title}", f"medians; in brackets the ratio to {table.base}", ""]
    lines += _aligned(rows)
    if with_goals and table.goals:
        lines += ["", *(_goal_as_text(table, goal) for goal in table.goals)]
    return "\n".join([*lines, *(f"note: {note}" for note in table.notes)])


def _cases(table: Table) -> Iterable[str]:
    return dict.fromkeys(series.case for series in table.series)


def _cell(table: Table, metric: Metric, case: str, subject: str) -> str:
    series = table.find(case, subject)
    value = None if series is None else series.median(metric.key)
    if value is None:
        return "-"
    text = f"{value * metric.scale:,.{metric.digits}f}"
    if not metric.compared:
        return text
    ratio = None if subject == table.base else table.ratio(case, metric.key, subject)
    # The bracket of the base is left blank, so that the figures stand below each other.
    return f"{text}{'' if ratio is None else f' ({_shown(ratio.value)})':>9}"


def _shown(ratio: float) -> str:
    return f"{ratio:.3f}" if ratio < 0.1 else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    width = max(len(row) for row in rows)
    widths = [max(len(row[at]) for row in rows if len(row) > max(at, 1)) for at in range(width)]
    lines = []
    for row in rows:
        first, *rest = row
        cells = [cell.rjust(size) for cell, size in zip(rest, widths[1:], strict=False)]
        lines.append("   ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines


def _goal_as_text(table: Table, goal: Goal) -> str:
    ratio = table.ratio(goal.case, goal.metric, goal.subject, goal.base)
    heading = next(metric.heading for metric in table.metrics if metric.key == goal.metric)
    text = f"goal: {goal.case}, {heading}, {goal.subject} to {goal.base}: at most {goal.most:.3g}"
    if ratio is None:
        return f"{text}; not measured"
    verdict = "reached" if ratio.value <= goal.most else "MISSED"
    return f"{text}; {verdict}: {ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f} over the rounds)"


def _table_as_json(table: Table) -> dict[str, Any]:
    series = []
    for one in table.series:
        keys = list(one.samples[0]) if one.samples else []
        ratios = {key: table.ratio(one.case, key, one.subject) for key in keys}
        series.append(
            {
                "case": one.case,
                "subject": one.subject,
                "medians": {key: one.median(key) for key in keys},
                "ratios": {key: _ratio_as_json(ratio) for key, ratio in ratios.items()},
                "samples": [dict(sample) for sample in one.samples],
            }
        )
    return {
        "name": table.name,
        "title": table.title,
        "base": table.base,
        "metrics": [attrs.asdict(metric) for metric in table.metrics],
        "series": series,
        "goals": [
            attrs.asdict(goal)
            | {"ratio": _ratio_as_json(table.ratio(goal.case, goal.metric, goal.subject, goal.base))}
            for goal in table.goals
        ],
        "notes": table.notes,
    }


def _ratio_as_json(ratio: Ratio | None) -> dict[str, float] | None:
    return None if ratio is None else attrs.asdict(ratio)
