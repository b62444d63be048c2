"""Exponential quantiles on three values: the law of what the engine draws, vector by vector, on all neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy.quantiles import QuantileQuote, quantiles_at
from blowfishdb.audit.exact import HIDDEN, PLAIN
from blowfishdb.audit.report import Line, Losses, amount, judged
from blowfishdb.audit.tape import replaced, taped
from blowfishdb.engine.compile import Compiled, compile_query
from blowfishdb.engine.measure import choose_quantiles
from blowfishdb.model.domain import Domain
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import query
from blowfishdb.noise.quantile_sampler import SpreadRecords, sample_quantiles

PARTS = 3
"""Positions of a cell that are gone through, instead of many thousands: the loss is the same for any number."""
ROWS = 4
PRICE = Fraction(6)
"""So expensive that the most likely outputs hide nothing of what an unlikely one tells."""
ABSENT = -1
LEVELS = {"median": ("0.5",), "quartiles": ("0.25", "0.5", "0.75"), "tails": ("0.05", "0.95")}
Asked = tuple[SpreadRecords, tuple[Fraction, ...], Fraction]
"""What the engine asked the sampler for: records, wanted numbers between, and unit."""

Law = tuple[int, float, list[Floats]]
"""The records counted, one over the scale of the noise on their number, and the law for each published number."""


def quantile_lines() -> Iterator[Line]:
    """Every policy whose pairs are written down by hand, and records that come and go."""
    cells = range(PLAIN["x"].size)
    absence = tuple((cell, ABSENT) for cell in cells)
    policies: dict[str, tuple[Domain, Policy, tuple[tuple[int, int], ...]]] = {
        **HIDDEN,
        "presence only": (PLAIN, Policy(presence="only"), absence),
        "presence secret": (PLAIN, Policy(presence="secret"), (*absence, *itertools.combinations(cells, 2))),
    }
    for label, (declared, policy, pairs) in policies.items():
        losses = Losses(1e-9)
        for name, levels in LEVELS.items():
            compiled = compile_query(declared, policy, query("quantiles", "x", levels=levels))
            graph, plain = compiled.problem.graph, compiled.cells.plain[0]
            quote = quantiles_at(graph, plain, compiled.query.levels, PRICE, 0.05)
            ratio = Fraction(_largest_ratio(compiled, quote, pairs))
            losses.compare(f"{name}, log-ratio of an output", ratio, quote.epsilon)
        summary = f"largest log-ratio {amount(losses.worst)} of {PRICE} charged"
        yield judged(f"exponential quantiles of 3 values, {label}", "every output", losses.violations, summary)


def _largest_ratio(compiled: Compiled, quote: QuantileQuote, pairs: tuple[tuple[int, int], ...]) -> float:
    """The largest log of P(output | table) / P(output | neighbour) over all tables of a few rows."""
    size, most = compiled.problem.graph.cells, 0.0
    tables = [table for table in itertools.product(range(ROWS + 1), repeat=size) if sum(table) <= ROWS]
    asked: list[Asked] = []

    def recorded(records: SpreadRecords, gaps: tuple[Fraction, ...], unit: Fraction) -> Ints:
        asked.append((records, gaps, unit))
        return np.zeros(len(gaps) - 1, dtype=np.int64)

    def law(table: tuple[int, ...]) -> Law:
        counts, laws = np.array(table, dtype=np.int64), list[Floats]()
        for published in (ROWS,) if quote.plan.count_unit is None else (0, ROWS):
            # The published number is the same for all tables: what the noise makes up for is its loss.
            tape.play([np.array([published - int(counts[: quote.plan.cells].sum())])])
            choose_quantiles(quote.plan, compiled.problem.graph, quote.certificate, counts)
            laws.append(_log_chances(*asked.pop()))
        draws = tape.take()
        return int(counts[: quote.plan.cells].sum()), float(1 / draws[0].unit) if draws else 0.0, laws

    with taped() as tape, replaced({sample_quantiles: recorded}):
        by_table = {table: law(table) for table in tables}
    for table, (one, two) in itertools.product(tables, (*pairs, *((b, a) for a, b in pairs))):
        moved = list(table)
        for cell, change in ((one, -1), (two, 1)):
            if cell != ABSENT:
                moved[cell] += change
        there = by_table.get(tuple(moved))
        if there is not None:
            most = max(most, _ratio(by_table[table], there))
    return most


def _log_chances(records: SpreadRecords, gaps: tuple[Fraction, ...], unit: Fraction) -> Floats:
    """The log chance of every ordered vector of positions, by the definition of the mechanism."""
    few = SpreadRecords(records.counts, PARTS)
    ranks = few.ranks(np.arange(few.positions)) / (2.0 * PARTS)
    vectors = np.array(list(itertools.combinations_with_replacement(ranks.tolist(), len(gaps) - 1)))
    between = np.diff(vectors, axis=1, prepend=0.0, append=float(few.total))
    off = np.abs(between - np.array([float(gap) for gap in gaps])).sum(axis=1)
    logs = -off / (2.0 * float(unit))
    chances: Floats = logs - np.logaddexp.reduce(logs)
    return chances


def _ratio(here: Law, there: Law) -> float:
    counted = abs(here[0] - there[0]) * here[1]
    return counted + max(float(np.max(np.abs(a - b))) for a, b in zip(here[2], there[2], strict=True))
