"""Appendix C: from how many records on the parity behind a label is learnt from noisy cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.analysis.parity import eliminate_parity, walsh_hadamard
from blowfishdb.engine.present.colours import QUIET
from blowfishdb.errors import InvalidInput
from blowfishdb.inference.nonnegative import nonnegative
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.reproduce.baselines.drawing import noisy
from blowfishdb.reproduce.charts import legend_below, lines, plain
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.random_inputs import Generator, generator
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import number, trials_of
from blowfishdb.reproduce.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = 7
"""Attributes beside the label."""
FLIPPED = 0.1
"""The share of labels that are wrong before any noise is added."""
ALPHA = Fraction(1, 10)
SURE = 0.95
LEARNERS = {"all_parities": "all parities at once (Walsh-Hadamard)", "elimination": "elimination, as in the paper"}
CLAIM = "From β ln(β/α) / (α (1/2 - η)) records on, the parity is learnt from the released cells."


def stated_records() -> float:
    """The number of records from which on the paper says that the parity can be learnt; β is the number of cells."""
    cells, alpha = float(2 ** (BITS + 1)), float(ALPHA)
    return cells * math.log(cells / alpha) / (alpha * (0.5 - FLIPPED))


def cases(settings: Settings) -> list[Case]:
    """Numbers of records, as shares of the stated one."""
    return [(power,) for power in settings.pick((-3, 0), tuple(range(-11, 1, 1)), tuple(range(-12, 2)))]


def measure(settings: Settings, case: Case) -> list[Row]:
    """How often each learner finds the parity."""
    records = max(1, round(stated_records() * 2.0 ** int(str(case[0]))))
    trials = settings.pick(3, 40, 200)
    found = dict.fromkeys(LEARNERS, 0)
    for trial in range(trials):
        draw = generator(settings.seed, "parity", records, trial)
        secret, counts = drawn_records(draw, records)
        cells = noisy(counts.reshape(-1), 1 / ALPHA).reshape(counts.shape)
        found["all_parities"] += best_parity(cells) == secret
        found["elimination"] += eliminated(draw, cells, records) == secret
    shares = {name: times / trials for name, times in found.items()}
    return [{"records": records, "share_of_stated": records / stated_records(), "trials": trials, **shares}]


def drawn_records(draw: Generator, records: int) -> tuple[int, Ints]:
    """A secret parity, and the counts of uniform records (attributes by label), some labels flipped."""
    secret = int(draw.integers(1, 2**BITS))
    values = draw.integers(0, 2**BITS, records)
    labels = np.bitwise_count(values & secret) % 2 ^ (draw.random(records) < FLIPPED)
    return secret, np.bincount(values * 2 + labels, minlength=2 ** (BITS + 1)).reshape(-1, 2)


def best_parity(cells: Floats) -> int:
    """The parity that agrees with most of the noisy counts."""
    return int(np.argmax(walsh_hadamard(cells[:, 0] - cells[:, 1])))


def eliminated(draw: Generator, cells: Floats, records: int) -> int:
    """The parity that elimination finds in records drawn from the released counts; 0 when it finds none."""
    weights = nonnegative(cells.reshape(-1), float(records))
    drawn = draw.choice(weights.size, min(records, 4000), p=weights / weights.sum())
    bits = drawn[:, None] // 2 >> np.arange(BITS) & 1
    try:
        return int(eliminate_parity(bits, drawn % 2) @ 2 ** np.arange(BITS))
    except InvalidInput:
        return 0


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("learnt", "How often the parity is learnt, by number of records", tuple(rows))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        lines(
            axes, {words: [(number(r, "records"), number(r, name)) for r in rows] for name, words in LEARNERS.items()}
        )
        axes.axvline(stated_records(), color=QUIET, linestyle="--", label="stated number of records")
        plain(axes, "records", "share of trials in which it is learnt", log_x=True)
        legend_below(figure, axes, columns=3)

    how = f"α = {float(ALPHA):g}, {FLIPPED:.0%} of labels flipped"
    title = f"Partitioning, Appendix C: parities of {BITS} attributes, {how}"
    return Result((table,), (Picture("learnt", title, f"{trials_of(rows)} each", draw, (7.4, 4.0)),), judge(rows))


def judge(rows: Sequence[Row]) -> Verdict:
    """Whether both learners are sure from the stated number on, and from where on they really are."""
    beyond = [row for row in rows if number(row, "share_of_stated") >= 0.99]
    sure = {name: all(number(row, name) >= SURE for row in beyond) for name in LEARNERS}
    first = {name: sure_from(rows, name) for name in LEARNERS}
    said = "; ".join(f"{words} {_words(first[name])}" for name, words in LEARNERS.items())
    why = f"The paper asks for {stated_records():,.0f} records; {SURE:.0%} of the trials succeed: {said}."
    return Verdict(CLAIM, how_it_holds([*sure.values()]), why)


def sure_from(rows: Sequence[Row], name: str) -> float | None:
    """The least number of records from which on the learner is sure; None when it never is."""
    found = None
    for row in sorted(rows, key=lambda each: -number(each, "records")):
        if number(row, name) < SURE:
            return found
        found = number(row, "records")
    return found


def _words(records: float | None) -> str:
    return "at no number tried" if records is None else f"from {records:,.0f} records on"


PROCEDURE = Procedure(cases, measure, conclude)
