"""Learning from released counts: parities (Appendix C) and decision trees (Section 4.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.analysis.olap import walsh_hadamard
from blowfishdb.errors import InvalidInput
from blowfishdb.inference.consistency import nonnegative
from blowfishdb.mechanisms.table import DATA_AWARE
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity
from blowfishdb.plan.plan import Problem
from blowfishdb.present.chart import INK, QUIET
from papers.baselines.noise import noisy, one_record, release
from papers.charts import legend_below, lines, plain
from papers.data import Generator, generator
from papers.experiment import (
    Case,
    Picture,
    Procedure,
    Result,
    Row,
    Settings,
    Table,
    Verdict,
    distinct,
    how_it_holds,
    matching,
    number,
    trials_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Appendix C: from how many records on the parity behind a label is learnt from noisy cells.

BITS = 7
"""Attributes beside the label."""
FLIPPED = 0.1
"""The share of labels that are wrong before any noise is added."""
ALPHA = Fraction(1, 10)
SURE = 0.95
LEARNERS = {"all_parities": "all parities at once (Walsh-Hadamard)", "elimination": "elimination, as in the paper"}
PARITIES_CLAIM = "From β ln(β/α) / (α (1/2 - η)) records on, the parity is learnt from the released cells."


def stated_records() -> float:
    """The number of records from which on the paper says that the parity can be learnt; β is the number of cells."""
    cells, alpha = float(2 ** (BITS + 1)), float(ALPHA)
    return cells * math.log(cells / alpha) / (alpha * (0.5 - FLIPPED))


def parities_cases(settings: Settings) -> list[Case]:
    """Numbers of records, as shares of the stated one."""
    return [(power,) for power in settings.pick((-3, 0), tuple(range(-11, 1, 1)), tuple(range(-12, 2)))]


def parities_measure(settings: Settings, case: Case) -> list[Row]:
    """How often each learner finds the parity."""
    records = max(1, round(stated_records() * 2.0 ** int(str(case[0]))))
    trials = settings.pick(3, 40, 200)
    learnt = dict.fromkeys(LEARNERS, 0)
    for trial in range(trials):
        draw = generator(settings.seed, "parity", records, trial)
        secret, counts = drawn_records(draw, records)
        cells = noisy(counts.reshape(-1), 1 / ALPHA).reshape(counts.shape)
        learnt["all_parities"] += best_parity(cells) == secret
        learnt["elimination"] += eliminated(draw, cells, records) == secret
    shares = {name: times / trials for name, times in learnt.items()}
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


def eliminate_parity(records: Ints, labels: Ints, rounds: int = 101) -> Ints:
    """The parity vector by elimination and majority (Blum, Kalai, Wasserman), for records whose order is random.

    Each round takes fresh records, adds them up modulo 2 until single bits remain, and votes with their labels. A
    share eta of flipped labels makes a vote right with probability at least (1 + (1 - 2 eta)^d) / 2.
    """
    count, bits = records.shape
    if labels.shape != (count,) or np.any((records | 1) != 1) or np.any((labels | 1) != 1):
        raise InvalidInput("records and labels are made of 0 and 1, one label per record")
    size = 2 * bits + 8
    if count < size:
        raise InvalidInput(f"{bits} attributes need at least {size} records")
    votes, voters = np.zeros(bits), np.zeros(bits)
    for place in range(min(rounds, count // size)):
        part = slice(place * size, (place + 1) * size)
        solved, value = _solve(np.column_stack([records[part], labels[part]]))
        votes[solved] += value
        voters[solved] += 1
    if np.any(voters == 0):
        raise InvalidInput("some attribute never varies by itself in these records, so its part cannot be learnt")
    return (votes > voters / 2).astype(np.int64)


def _solve(system: Ints) -> tuple[Ints, Ints]:
    """Gauss and Jordan modulo 2: the bits that stand alone in some row, and the labels of those rows."""
    rows, bits = system.copy(), system.shape[1] - 1
    top = 0
    for bit in range(bits):
        with_bit = np.flatnonzero(rows[top:, bit])
        if with_bit.size == 0:
            continue
        rows[[top, top + with_bit[0]]] = rows[[top + with_bit[0], top]]
        others = (rows[:, bit] == 1) & (np.arange(rows.shape[0]) != top)
        rows[others] ^= rows[top]
        top += 1
    single = np.flatnonzero(rows[:top, :bits].sum(axis=1) == 1)
    return np.argmax(rows[single, :bits], axis=1), rows[single, bits]


def parities_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
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
    return Result(
        (table,), (Picture("learnt", title, f"{trials_of(rows)} each", draw, (7.4, 4.0)),), parities_judge(rows)
    )


def parities_judge(rows: Sequence[Row]) -> Verdict:
    """Whether both learners are sure from the stated number on, and from where on they really are."""
    beyond = [row for row in rows if number(row, "share_of_stated") >= 0.99]
    sure = {name: all(number(row, name) >= SURE for row in beyond) for name in LEARNERS}
    first = {name: sure_from(rows, name) for name in LEARNERS}
    figures = "; ".join(f"{words} {_words(first[name])}" for name, words in LEARNERS.items())
    why = f"The paper asks for {stated_records():,.0f} records; {SURE:.0%} of the trials succeed: {figures}."
    return Verdict(PARITIES_CLAIM, how_it_holds([*sure.values()]), why)


def sure_from(rows: Sequence[Row], name: str) -> float | None:
    """The least number of records from which on the learner is sure; None when it never is."""
    least = None
    for row in sorted(rows, key=lambda each: -number(each, "records")):
        if number(row, name) < SURE:
            return least
        least = number(row, "records")
    return least


def _words(records: float | None) -> str:
    return "at no number tried" if records is None else f"from {records:,.0f} records on"


PARITIES_PROCEDURE = Procedure(parities_cases, parities_measure, parities_conclude)


# Section 4.4: a decision tree learnt from released counts of the Adult table, tested on rows that it has not seen.

DEPTH = 4
AGES = tuple(range(20, 70, 5))
"""Ages are grouped by these cut points."""
MARRIED = ("Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent", "Separated", "Divorced", "Widowed")
METHODS = {"cells": "cells", "kd-tree (BlowfishDB)": "kdtree"}
EXACT, MAJORITY = "exact counts", "most frequent answer"
NEAR = 0.01
TREES_CLAIM = "Released counts serve for learning tasks such as decision trees."


@lru_cache(maxsize=1)
def adult() -> tuple[Ints, Ints]:
    """Counts of the training rows and of the test rows: education, marital status, age, sex, and income above 50K."""
    import pyarrow.parquet as parquet

    names = ["education_num", "marital_status", "age", "sex", "income", "split"]
    with as_file(files("blowfishdb") / "data" / "adult.parquet") as path:
        table = parquet.read_table(path, columns=names).to_pydict()
    place = {status: number + 1 for number, status in enumerate(MARRIED)}
    columns = np.stack(
        [
            np.array(table["education_num"]) - 1,
            [place.get(status, 0) for status in table["marital_status"]],
            np.digitize(table["age"], AGES),
            [sex == "Male" for sex in table["sex"]],
            [income.startswith(">50K") for income in table["income"]],
        ]
    )
    shape = (16, len(MARRIED) + 1, len(AGES) + 1, 2, 2)
    cells = np.ravel_multi_index(tuple(columns.astype(np.int64)), shape)
    is_test = np.array([split != "train" for split in table["split"]])
    size = int(np.prod(shape))
    train, test = (np.bincount(cells[part], minlength=size).astype(np.int64) for part in (~is_test, is_test))
    return train.reshape(shape), test.reshape(shape)


def trees_cases(settings: Settings) -> list[Case]:
    """Each way to release, at each alpha."""
    alphas = settings.pick(
        ("1",), ("0.01", "0.03", "0.1", "0.3", "1"), ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1")
    )
    return [(EXACT, "0"), (MAJORITY, "0"), *((name, alpha) for name in METHODS for alpha in alphas)]


def trees_measure(settings: Settings, case: Case) -> list[Row]:
    """The share of test rows that the tree puts right, over several releases."""
    name, alpha = str(case[0]), str(case[1])
    train, test = adult()
    if name in (EXACT, MAJORITY):
        shares = [share_right(tree_labels(train.astype(np.float64), DEPTH if name == EXACT else 0), test)]
    else:
        problem = Problem(one_record(*train.shape), Identity(train.size))
        shares = []
        for _ in range(settings.pick(1, 5, 20)):
            cells = release(DATA_AWARE[METHODS[name]], problem, Fraction(alpha), train.reshape(-1)).cells
            shares.append(share_right(tree_labels(np.maximum(cells, 0.0).reshape(train.shape), DEPTH), test))
    return [{"method": name, "alpha": float(alpha), "right": float(np.mean(shares)), "trials": len(shares)}]


def tree_labels(counts: Floats, depth: int) -> Ints:
    """The answer for every cell of a tree that cuts by the attribute that tells most about the label (ID3).

    The last axis is the label. An attribute that was cut has one value left and is not cut again.
    """
    majority = int(np.argmax(counts.sum(axis=tuple(range(counts.ndim - 1)))))
    open_axes = [axis for axis in range(counts.ndim - 1) if counts.shape[axis] > 1]
    if depth == 0 or not open_axes or counts.sum() <= 0:
        return np.full(counts.shape[:-1], majority)
    axis = min(open_axes, key=lambda each: _uncertainty(counts, each))
    parts = [tree_labels(counts.take([value], axis), depth - 1) for value in range(counts.shape[axis])]
    return np.concatenate(parts, axis=axis)


def _uncertainty(counts: Floats, axis: int) -> float:
    """The entropy of the label that is left when the axis is known, times the number of records."""
    others = tuple(each for each in range(counts.ndim - 1) if each != axis)
    table = counts.sum(axis=others)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
    return float(-np.sum(table * np.log(np.maximum(shares, 1e-300))))


def share_right(labels: Ints, test: Ints) -> float:
    """The share of records whose label is the one given to their cell."""
    return float(np.take_along_axis(test, labels[..., None], axis=-1).sum() / test.sum())


def trees_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("right", "Share of test rows that the tree puts right", tuple(rows))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        own = {name: matching(rows, method=name) for name in distinct(rows, "method") if name in METHODS}
        lines(
            axes, {name: [(number(row, "alpha"), number(row, "right")) for row in each] for name, each in own.items()}
        )
        for name, colour, style in ((EXACT, INK, "--"), (MAJORITY, QUIET, ":")):
            axes.axhline(number(matching(rows, method=name)[0], "right"), color=colour, linestyle=style, label=name)
        plain(axes, "α", "share of test rows put right", log_x=True)
        legend_below(figure, axes)

    title = "Partitioning, Section 4.4: a decision tree from released counts, Adult"
    trials = f"mean of {trials_of(row for row in rows if row['method'] in METHODS)}"
    return Result((table,), (Picture("right", title, trials, draw, (7.0, 4.0)),), trees_judge(rows))


def trees_judge(rows: Sequence[Row]) -> Verdict:
    """Whether trees from released counts are nearly as good as from exact ones, at the largest and smallest alpha."""
    exact, majority = (number(matching(rows, method=name)[0], "right") for name in (EXACT, MAJORITY))
    alphas = sorted({number(row, "alpha") for row in rows if row["method"] in METHODS})
    best = {a: max(number(row, "right") for row in matching(rows, alpha=a)) for a in alphas}
    enough = next((alpha for alpha in alphas if best[alpha] >= exact - NEAR), None)
    figures = f"from α = {enough:g} on" if enough is not None else "at no α tried"
    why = (
        f"A tree of depth {DEPTH} puts {exact:.1%} of the test rows right from exact counts and {majority:.1%} without "
        f"any; from released counts it comes within a point of that {figures}, and at α = {alphas[0]:g} it reaches "
        f"{best[alphas[0]]:.1%}."
    )
    return Verdict(TREES_CLAIM, how_it_holds([best[alphas[-1]] >= exact - NEAR, best[alphas[0]] > majority]), why)


TREES_PROCEDURE = Procedure(trees_cases, trees_measure, trees_conclude)
