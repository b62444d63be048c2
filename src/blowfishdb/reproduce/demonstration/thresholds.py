"""Figure 3: the epsilon that an accuracy costs, by the threshold of the policy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import blowfishdb as bf
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Kind
from blowfishdb.reproduce.charts import legend_below, lines, plain
from blowfishdb.reproduce.demonstration.adult_domain import BETA, cheapest
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import matching, number
from blowfishdb.reproduce.settings import Settings
from blowfishdb.reproduce.ticks import COARSE, simple_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMN, VALUES = "capital_loss", 4357
ALPHA = 100.0
KINDS: dict[Kind, str] = {"histogram": "histogram", "cdf": "cumulative histogram", "ranges": "all ranges"}
MUCH = 1.5
SAME = 1.02
"""Prices that differ by less are the same: plans are found by search."""
CLAIM = "For a fixed accuracy a narrower threshold costs less epsilon, for histograms and cumulative histograms."


def cases(settings: Settings) -> list[Case]:
    """Each kind of question at each threshold; the number of values means the full graph."""
    some: tuple[int, ...] = (1, 10, 100, 1000, VALUES)
    thetas = settings.pick((1, VALUES), some, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, VALUES))
    kinds = settings.pick(("histogram", "cdf"), tuple(KINDS), tuple(KINDS))
    return [(kind, theta) for kind in kinds for theta in thetas]


def measure(settings: Settings, case: Case) -> list[Row]:
    """The least epsilon, and the mechanism that reaches it."""
    del settings
    kind = next(each for each in KINDS if each == case[0])
    theta = int(str(case[1]))
    policy = Policy() if theta >= VALUES else Policy({COLUMN: bf.threshold(theta)})
    best = cheapest(policy, bf.query(kind, COLUMN), ALPHA)
    return [{"question": KINDS[kind], "theta": theta, "epsilon": float(best.epsilon), "mechanism": best.mechanism}]


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    words = f"all answers within {ALPHA:g} people with probability {1 - BETA:g}"
    table = Table("epsilon", f"Least epsilon by threshold, capital loss, {words}", tuple(rows))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        own = {kind: matching(rows, question=kind) for kind in KINDS.values()}
        lines(axes, {k: [(number(r, "theta"), number(r, "epsilon")) for r in each] for k, each in own.items() if each})
        plain(axes, f"θ in dollars ({VALUES} is the full graph)", "least ε", words, log_x=True, log_y=True)
        simple_ticks(axes, COARSE)
        legend_below(figure, axes)

    title = "BlowfishDB demonstration, Figure 3: ε by threshold for a fixed accuracy, capital loss"
    return Result(
        (table,), (Picture("epsilon", title, "without noise: prices read no data", draw, (7.0, 4.2)),), judge(rows)
    )


def judge(rows: Sequence[Row]) -> Verdict:
    """Whether a narrower threshold is never dearer, and whether most thresholds save something, by kind of question."""
    prices = {kind: _by_theta(rows, kind) for kind in KINDS.values() if matching(rows, question=kind)}
    rise = max(narrow / wide for own in prices.values() for narrow, wide in pairwise(own.values()))
    savings = {kind: list(own.values())[-1] / next(iter(own.values())) for kind, own in prices.items()}
    useful = {kind: _cheaper(own) for kind, own in prices.items()}
    said = "; ".join(
        f"{kind}: {savings[kind]:.3g} times less at one step, cheaper than the full graph at {len(useful[kind])} of "
        f"{len(own) - 1} thresholds" + (f", up to θ = {useful[kind][-1]:g}" if useful[kind] else "")
        for kind, own in prices.items()
    )
    never = "is never dearer" if rise <= 1 else f"is dearer by {100 * (rise - 1):.1f} % at most"
    why = f"A narrower threshold {never}. {said[0].upper()}{said[1:]}."
    if len(useful.get(KINDS["histogram"], ())) < (len(next(iter(prices.values()))) - 1) / 2:
        why += " Any move between two cells changes two counts of a histogram, however near they are."
    mostly = [savings[kind] >= MUCH and len(useful[kind]) >= (len(own) - 1) / 2 for kind, own in prices.items()]
    return Verdict(CLAIM, how_it_holds([rise <= SAME, *mostly]), why)


def _by_theta(rows: Sequence[Row], kind: str) -> dict[float, float]:
    """The price of one kind of question by threshold, narrowest first."""
    return dict(sorted((number(row, "theta"), number(row, "epsilon")) for row in matching(rows, question=kind)))


def _cheaper(own: dict[float, float]) -> list[float]:
    """The thresholds at which a question is clearly cheaper than under the full graph, which is the last."""
    *narrow, (_, full) = own.items()
    return [theta for theta, price in narrow if price * SAME < full]


PROCEDURE = Procedure(cases, measure, conclude)
