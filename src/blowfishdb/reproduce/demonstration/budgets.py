"""Section 1: how many questions of an exploration a budget answers, against a standard system for DP such as APEx."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import blowfishdb as bf
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query
from blowfishdb.reproduce.charts import legend_below, lines, plain
from blowfishdb.reproduce.demonstration.adult_domain import BETA, ROWS, cheapest
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.random_inputs import generator
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import distinct, matching, number
from blowfishdb.reproduce.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACCURACIES = (0.004, 0.01)
"""Answers within so many of all rows."""
BUDGETS = (0.25, 0.5, 1.0, 2.0, 4.0)
ORDERS = 200
"""Explorations: orders in which the same questions are asked."""
MUCH = 1.2
CLAIM = "Analysts can ask more questions within a budget than under a standard system for differential privacy (APEx)."

STEPS = {"age": 5, "hours": 5, "education": 1, "capital_loss": 100}
NEAR = {name: bf.threshold(theta) for name, theta in STEPS.items()}


@dataclass(frozen=True)
class System:
    """A policy, the mechanisms that compete, and whether each attribute has an account of its own."""

    policy: Policy
    mechanisms: Mapping[str, Mechanism]
    by_attribute: bool = False


APEX, PLAIN, THRESHOLDS, APART = (
    "APEx-like, DP",
    "BlowfishDB, DP",
    "BlowfishDB, thresholds",
    "BlowfishDB, thresholds, one attribute at a time",
)
SYSTEMS = {
    APEX: System(Policy(), {name: MECHANISMS[name] for name in ("identity", "hierarchy")}),
    PLAIN: System(Policy(), MECHANISMS),
    THRESHOLDS: System(Policy(NEAR), MECHANISMS),
    APART: System(Policy(NEAR, composition="attribute"), MECHANISMS, by_attribute=True),
}
"""APEx translates an accuracy into the cheaper of a Laplace and a hierarchical mechanism."""


def questions(settings: Settings) -> dict[str, Query]:
    """The prototype's templates at two granularities: histograms, cumulative histograms, and pairs of attributes."""
    widths = {"age": (1, 5), "hours": (1, 10), "education": (1, 2), "capital_loss": (20, 200)}
    some = {name: widths[name] for name in settings.pick(("age",), tuple(widths), tuple(widths))}
    found: dict[str, Query] = {}
    for name, each in some.items():
        for width in each:
            binned = bf.col(name).bins(width) if width > 1 else name
            found[f"histogram of {name} by {width}"] = bf.query("histogram", binned)
            found[f"cumulative {name} by {width}"] = bf.query("cdf", binned)
    for one, two in settings.pick(
        (), (("age", "hours"), ("education", "hours")), (("age", "hours"), ("age", "education"))
    ):
        axes = [bf.col(name).bins(widths[name][1]) for name in (one, two)]
        found[f"{one} by {two}"] = bf.query("histogram2d", axes)
    return found


def cases(settings: Settings) -> list[Case]:
    """Each question under each system at each accuracy."""
    shares = settings.pick(ACCURACIES[1:], ACCURACIES, ACCURACIES)
    return [(system, asked, share) for asked in questions(settings) for system in SYSTEMS for share in shares]


def measure(settings: Settings, case: Case) -> list[Row]:
    """What the question costs."""
    name, asked, share = str(case[0]), str(case[1]), float(str(case[2]))
    system, question = SYSTEMS[name], questions(settings)[asked]
    best = cheapest(system.policy, question, share * ROWS, dict(system.mechanisms))
    touched = " ".join(axis.attribute for axis in question.axes)
    return [
        {
            "system": name,
            "question": asked,
            "within": share * ROWS,
            "attributes": touched,
            "epsilon": float(best.epsilon),
            "mechanism": best.mechanism,
        }
    ]


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    answered = answered_rows(settings, rows)
    asked = len(matching(rows, system=APEX))
    tables = (
        Table("answered", f"Questions answered of {asked}, mean over {ORDERS} orders", tuple(answered)),
        Table("prices", "What each question costs under each system", tuple(rows)),
    )

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        own = {system: matching(answered, system=system) for system in distinct(answered, "system")}
        lines(axes, {s: [(number(r, "budget"), number(r, "answered")) for r in each] for s, each in own.items()})
        axes.set_xscale("log", base=2)
        plain(axes, "budget ε", f"questions answered of {asked}")
        axes.set_xticks(BUDGETS, [f"{budget:g}" for budget in BUDGETS])
        legend_below(figure, axes, columns=2)

    title = f"BlowfishDB demonstration: questions answered within a budget, Adult's domain, β = {BETA:g}"
    return Result(
        tables,
        (Picture("answered", title, f"mean of {ORDERS:,} orders of the questions", draw, (7.2, 4.6)),),
        judge(answered, asked),
    )


def answered_rows(settings: Settings, rows: Sequence[Row]) -> list[Row]:
    """For each system and budget the mean number of questions that are answered, over random orders."""
    found: list[Row] = []
    for name, system in SYSTEMS.items():
        own = matching(rows, system=name)
        for budget in BUDGETS:
            draw = generator(settings.seed, "exploration")
            orders = [draw.permutation(len(own)) for _ in range(ORDERS)]
            counts = [answered([own[place] for place in order], budget, system.by_attribute) for order in orders]
            found.append({"system": name, "budget": budget, "answered": float(np.mean(counts))})
    return found


def answered(asked: Sequence[Row], budget: float, by_attribute: bool) -> int:
    """How many are answered in this order; one that is too dear is refused, and the next is asked.

    With one attribute moving at a time, a release costs the attributes it looks at, and the dearest account counts.
    """
    spent: dict[str, float] = {}
    count = 0
    for row in asked:
        accounts = str(row["attributes"]).split() if by_attribute else ["all"]
        if all(spent.get(name, 0.0) + number(row, "epsilon") <= budget for name in accounts):
            for name in accounts:
                spent[name] = spent.get(name, 0.0) + number(row, "epsilon")
            count += 1
    return count


def judge(rows: Sequence[Row], asked: int) -> Verdict:
    """Whether thresholds answer more at every budget that is not enough for all, and how much is due to mechanisms."""
    short = [b for b in BUDGETS if 0 < _answered(rows, APEX, b) < asked]
    gains = {name: [_answered(rows, name, b) / _answered(rows, APEX, b) for b in short] for name in SYSTEMS}
    more = bool(short) and all(gain >= 1.0 for gain in gains[THRESHOLDS])
    much = bool(short) and float(np.mean(gains[THRESHOLDS])) >= MUCH
    means = {name: float(np.mean(each)) if each else 1.0 for name, each in gains.items()}
    why = (
        f"On average over the budgets thresholds answer {means[THRESHOLDS]:.3g} times as many questions as the "
        f"APEx-like system, and better mechanisms alone, without any policy, {means[PLAIN]:.3g} times as many; with "
        f"one attribute moving at a time and an account for each it is {means[APART]:.3g} times, but a record that "
        "changes in several attributes then loses the sum over them."
    )
    return Verdict(CLAIM, how_it_holds([more, much]), why)


def _answered(rows: Sequence[Row], system: str, budget: float) -> float:
    (row,) = matching(rows, system=system, budget=budget)
    return number(row, "answered")


PROCEDURE = Procedure(cases, measure, conclude)
