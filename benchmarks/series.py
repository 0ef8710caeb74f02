"""What is measured: samples of a subject in a case, gathered in turns, and the tables that hold them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import attrs

Sample = Mapping[str, float]
S = TypeVar("S")
T = TypeVar("T")


@attrs.frozen
class Series:
    """The samples of one subject in one case, one a round."""

    case: str
    subject: str
    samples: tuple[Sample, ...]

    def values(self, metric: str) -> list[float]:
        """One figure of each round; empty where this subject has none."""
        return [sample[metric] for sample in self.samples if metric in sample]

    def median(self, metric: str) -> float | None:
        """The median over the rounds, None where there are no figures."""
        values = self.values(metric)
        return statistics.median(values) if values else None


@attrs.frozen
class Ratio:
    """The ratio of two medians; `low` and `high` are the extremes of the ratios of single rounds."""

    value: float
    low: float
    high: float


@attrs.frozen
class Metric:
    """A figure that every sample has.

    Attributes:
        key: its name in the sample.
        heading: its name in the table, with the unit.
        scale: what it is multiplied by to be in that unit.
        digits: how many decimals are shown.
        compared: whether its ratio to the base is shown.
    """

    key: str
    heading: str
    scale: float = 1.0
    digits: int = 0
    compared: bool = True


@attrs.frozen
class Goal:
    """A ratio that a table has to show."""

    case: str
    metric: str
    subject: str
    base: str
    most: float


@attrs.define
class Table:
    """All series of one benchmark.

    Attributes:
        name: name of the benchmark.
        title: what was done.
        base: the subject that the ratios are to.
        metrics: the columns.
        series: the rows, those of a case together.
        goals: what the table has to show.
        notes: what a reader has to know.
    """

    name: str
    title: str
    base: str
    metrics: tuple[Metric, ...]
    series: list[Series] = attrs.field(factory=list)
    goals: tuple[Goal, ...] = ()
    notes: list[str] = attrs.field(factory=list)

    def find(self, case: str, subject: str) -> Series | None:
        """The series of a subject in a case."""
        found = (one for one in self.series if (one.case, one.subject) == (case, subject))
        return next(found, None)

    def ratio(self, case: str, metric: str, subject: str, base: str | None = None) -> Ratio | None:
        """How a subject compares to the base in a case; None where one of them is missing."""
        over, under = self.find(case, subject), self.find(case, base or self.base)
        if over is None or under is None:
            return None
        above, below = over.values(metric), under.values(metric)
        rounds = [a / b for a, b in zip(above, below, strict=False) if b]
        if not rounds or not statistics.median(below):
            return None
        return Ratio(statistics.median(above) / statistics.median(below), min(rounds), max(rounds))


def take_turns(
    subjects: Sequence[S], rounds: int, measure: Callable[[S], T]
) -> list[tuple[S, tuple[T, ...]]]:
    """Measure each subject once a round, in the order A B, then B A, then A B, and so on.

    So what slows the machine down for a while slows all of them down, and none always comes after the same.
    """
    samples: list[list[T]] = [[] for _ in subjects]
    order = list(range(len(subjects)))
    for _ in range(rounds):
        for index in order:
            samples[index].append(measure(subjects[index]))
        order.reverse()
    return [(subject, tuple(taken)) for subject, taken in zip(subjects, samples, strict=True)]
