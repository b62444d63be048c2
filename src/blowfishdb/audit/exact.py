"""Exact: on tiny domains the probability of every output, on every pair of neighbouring tables, against e^epsilon.

Noise weights an output by q^|k| with q = exp(-1 / scale), so the log of a ratio of probabilities is a rational number.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from blowfishdb.audit.exact_selections import selection_lines
from blowfishdb.audit.tape import Tape, taped
from blowfishdb.audit.verdicts import Line, amount, judged, not_tested
from blowfishdb.engine.compiled import compile_query
from blowfishdb.engine.measure import measure
from blowfishdb.errors import Declined
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.arrays import Ints
from blowfishdb.model.domain import Domain, domain, integers
from blowfishdb.model.graphs.families import custom, full, line, partition, threshold
from blowfishdb.model.graphs.metric import metric
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query, query
from blowfishdb.plan.certificate import CertifiedPlan, calibrate
from blowfishdb.plan.plan import Plan
from blowfishdb.plan.problem import Problem

CELLS = 3
REACH = 2
"""Outputs are gone through so far beyond the true rows; further out ratios do not change any more."""
TABLES = tuple(counts for counts in itertools.product(range(3), repeat=CELLS) if sum(counts) == 2)
PLAIN, WITH_NULL = domain({"x": integers(0, CELLS - 1, null=0)}), domain({"x": integers(0, CELLS - 2)})


def _apart(one: object, two: object) -> int:
    return abs(int(str(one)) - int(str(two)))


HIDDEN: dict[str, tuple[Domain, Policy, tuple[tuple[int, int], ...]]] = {
    "full": (PLAIN, Policy({"x": full()}), ((0, 1), (0, 2), (1, 2))),
    "nothing declared": (PLAIN, Policy(), ((0, 1), (0, 2), (1, 2))),
    "line": (PLAIN, Policy({"x": line()}), ((0, 1), (1, 2))),
    "threshold": (PLAIN, Policy({"x": threshold(2)}), ((0, 1), (0, 2), (1, 2))),
    "custom": (PLAIN, Policy({"x": custom([(0, 2)])}), ((0, 2),)),
    "metric": (PLAIN, Policy({"x": metric(range(CELLS), _apart, theta=1)}), ((0, 1), (1, 2))),
    "partition and NULL": (WITH_NULL, Policy({"x": partition(cuts=[1])}), ((0, 2), (1, 2))),
    "partition": (PLAIN, Policy({"x": partition(cuts=[1])}), ((1, 2),)),
}
"""Policies, with the pairs of cells that they hide from each other, written down by hand; NULL is the last cell."""
INFINITE = Fraction(10**9)
"""Stands for the loss of rows that differ and are published exactly."""
QUESTIONS: dict[str, Query] = {
    "histogram": query("histogram", "x"),
    "cdf": query("cdf", "x"),
    "ranges": query("ranges", "x"),
}


def exact_lines(*, quick: bool) -> Iterator[Line]:
    """Every measurement on three values, then every selection on a few cells."""
    for (said, (declared, policy, pairs)), (asked, question) in itertools.product(HIDDEN.items(), QUESTIONS.items()):
        problem = compile_query(declared, policy, question).problem
        yield _measurements(f"{asked} of 3 values, {said}", problem, pairs)
    yield from selection_lines(quick=quick)


def _measurements(subject: str, problem: Problem, pairs: Sequence[tuple[int, int]]) -> Line:
    """All mechanisms: the largest log-ratio over all outputs and all neighbouring tables of two rows."""
    troubles: list[str] = []
    tried, worst = 0, Fraction(0)
    for name, propose in MECHANISMS.items():
        try:
            rows = propose(problem).plan(Fraction(1))
        except Declined:
            continue
        if isinstance(rows, Plan) and not rows.parts:
            troubles.append(f"{name}: everything would be published exactly")
        if not isinstance(rows, Plan) or not rows.parts:
            continue
        plan, proof = calibrate(rows, problem.graph, Fraction(1))
        found = largest_ratio(CertifiedPlan(plan, problem.graph), pairs)
        tried, worst = tried + 1, max(worst, found)
        if found > proof.epsilon:
            troubles.append(f"{name}: an output is e^{amount(found)} times likelier, certified {amount(proof.epsilon)}")
        if proof.is_tight and found < proof.epsilon:
            troubles.append(f"{name}: certified as tight at {amount(proof.epsilon)}, largest ratio e^{amount(found)}")
    if not tried and not troubles:
        return not_tested("exact", subject, "every output", "no mechanism measures fixed rows here")
    said = f"{tried} mechanisms, largest log-ratio {amount(worst)}"
    return judged("exact", subject, "every output", troubles, said, tried)


def largest_ratio(
    certified: CertifiedPlan, pairs: Sequence[tuple[int, int]], tables: Sequence[tuple[int, ...]] = TABLES
) -> Fraction:
    """The largest log of P(output | table) / P(output | neighbour) over all outputs and tables.

    The rows and the scales are those that the engine's own measurement uses; rows are independent, so each row's
    outputs are gone through on their own.
    """
    worst = Fraction(0)
    with taped() as tape:
        shown = {counts: _published(tape, certified, counts) for counts in tables}
    for counts in tables:
        for source, target in (*pairs, *((b, a) for a, b in pairs)):
            moved = list(counts)
            moved[source] -= 1
            moved[target] += 1
            if min(moved) < 0:
                continue
            (here, exact, weights, unit), (there, other, _, _) = shown[counts], shown[tuple(moved)]
            if not np.array_equal(exact, other):
                return INFINITE
            rows = zip(here.tolist(), there.tolist(), weights.tolist(), strict=True)
            worst = max(worst, sum((_row_ratio(a, b, w) / unit for a, b, w in rows), Fraction(0)))
    return worst


def _published(tape: Tape, certified: CertifiedPlan, counts: tuple[int, ...]) -> tuple[Ints, Ints, Ints, Fraction]:
    """The rows without their noise, the exact rows, and the weights and unit of the noise that is asked for."""
    tape.play([])
    found = measure(certified, np.array(counts, dtype=np.int64))
    (draw,) = tape.take()
    return found.noisy, found.exact, draw.weights, draw.unit


def _row_ratio(here: int, there: int, weight: int) -> Fraction:
    """For one row: the largest over all outputs of (|output - there| - |output - here|) weight."""
    outputs = range(min(here, there) - REACH, max(here, there) + REACH + 1)
    return Fraction(max(abs(out - there) - abs(out - here) for out in outputs) * weight)
