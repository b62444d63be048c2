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
    """Whether a narrower threshold is never dearer, and how much it saves by kind of question."""
    savings, falls = {}, True
    for kind in KINDS.values():
        own = [
            number(row, "epsilon") for row in sorted(matching(rows, question=kind), key=lambda r: number(r, "theta"))
        ]
        if own:
            savings[kind] = own[-1] / own[0]
            falls = falls and all(narrow <= wide for narrow, wide in pairwise(own))
    said = ", ".join(f"{saved:.3g} times ({kind})" for kind, saved in savings.items())
    why = (
        f"From the full graph to one step the price falls {said}; the histogram is cheaper than under the full graph "
        f"{_up_to(rows)}, since any move between two cells changes two of its counts, however near they are."
    )
    return Verdict(CLAIM, how_it_holds([falls, *(saved >= MUCH for saved in savings.values())]), why)


def _up_to(rows: Sequence[Row]) -> str:
    """The widest threshold below the full graph at which the histogram is cheaper."""
    own = sorted(matching(rows, question=KINDS["histogram"]), key=lambda row: number(row, "theta"))
    cheaper = [number(row, "theta") for row in own if number(row, "epsilon") < number(own[-1], "epsilon")]
    return f"up to θ = {cheaper[-1]:g} only" if cheaper else "at no threshold"


PROCEDURE = Procedure(cases, measure, conclude)
