"""Section 3: a policy that is projected on the cells of a question, against the policy on the whole domain."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

import blowfishdb as bf
from blowfishdb.engine.compiled import compile_query
from blowfishdb.errors import InvalidInput
from blowfishdb.mechanisms import optimized
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.plan.certificate import certify
from blowfishdb.reproduce.charts import legend_below, lines, plain
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import distinct, matching, number
from blowfishdb.reproduce.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ASKED, THETA = 8, 2
"""The question is a cumulative histogram of one attribute with so many values, under this threshold."""
STATIC, PROJECTED, ENGINE = "whole policy, as a matrix", "projected policy, as a matrix", "BlowfishDB's engine"
MUCH = 10.0
CLAIM = "A projected policy gives the accuracy and privacy of the whole one, and saves much time and memory."


def cases(settings: Settings) -> list[Case]:
    """Ever more values of an attribute that is not asked about; the whole policy only as long as it fits."""
    others = settings.pick((1, 4), (1, 4, 16, 64), (1, 2, 4, 8, 16, 32, 64, 128))
    beyond = settings.pick((1000,), (10**3, 10**5), (10**3, 10**4, 10**5, 10**6))
    whole = [(method, other) for other in others for method in (STATIC, PROJECTED, ENGINE)]
    return [*whole, *((method, other) for other in beyond for method in (PROJECTED, ENGINE))]


def table_with(other: int) -> tuple[Domain, Policy]:
    """One attribute that is asked about and one that is not, which move one at a time (Definition 3.2)."""
    domain = bf.domain({"asked": bf.integers(1, ASKED, null=1), "other": bf.integers(1, other, null=1)})
    policy = {"asked": bf.threshold(THETA), "other": bf.threshold(1)}
    return domain, Policy(policy, composition="attribute")


def measure(settings: Settings, case: Case) -> list[Row]:
    """Seconds and peak memory of getting ready to answer, and the expected error of an answer at epsilon 1."""
    del settings
    method, other = str(case[0]), int(str(case[1]))
    work = {STATIC: whole_policy, PROJECTED: projected_policy, ENGINE: engine}[method]
    domain, policy = table_with(other)
    work(*table_with(1))
    start = time.process_time()
    error = work(domain, policy)
    seconds = time.process_time() - start
    peak = peak_megabytes(lambda: work(domain, policy))
    return [{"method": method, "values": ASKED * other, "error": error, "seconds": seconds, "peak_mb": peak}]


def peak_megabytes(work: Callable[[], object]) -> float:
    """The most memory that the work holds at once, beyond what was held before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def whole_policy(domain: Domain, policy: Policy) -> float:
    """The demonstration's transformation on every value of the domain."""
    graph = compile_cells(domain, policy, ["asked", "other"]).graph
    cumulative = np.repeat(np.tril(np.ones((ASKED, ASKED))), graph.cells // ASKED, axis=1)
    return transformed_error(graph, cumulative)


def projected_policy(domain: Domain, policy: Policy) -> float:
    """The same on the cells of the question."""
    graph = compile_cells(domain, policy, ["asked"]).graph
    return transformed_error(graph, np.tril(np.ones((ASKED, ASKED))))


def transformed_error(graph: CellGraph, workload: Floats) -> float:
    """The root mean squared error at epsilon 1 when the transformed workload W P is measured itself.

    P has a row for each vertex but the last and a column for each edge. The transformed data are found with its
    pseudo-inverse, as the demonstration does; the noise of an answer has the scale of the largest column of W P.
    """
    incidence = incidence_matrix(graph.value_edges(), graph.cells)
    reduced = workload[:, :-1] - workload[:, -1:]
    transformed = reduced @ incidence
    counts = np.ones(graph.cells - 1)
    if not np.allclose(incidence @ (np.linalg.pinv(incidence) @ counts), counts):
        raise InvalidInput("the policy does not join all values: its matrix has no right inverse")
    return float(np.sqrt(2.0) * np.abs(transformed).sum(axis=0).max())


def incidence_matrix(edges: Ints, cells: int) -> Floats:
    """P of the appendix: 1 and -1 in the rows of an edge's ends, without the row of the last vertex."""
    found = np.zeros((cells, len(edges)))
    found[edges[:, 0], np.arange(len(edges))] = 1.0
    found[edges[:, 1], np.arange(len(edges))] = -1.0
    return found[:-1]


def engine(domain: Domain, policy: Policy) -> float:
    """The root mean squared error at epsilon 1 of an optimised and certified plan, compiled from the question."""
    problem = compile_query(domain, policy, bf.query("cdf", "asked")).problem
    strategy = optimized.propose(problem)
    plan = strategy.plan(Fraction(1))
    scales = float(certify(plan, problem.graph).epsilon) / plan.weights
    return float(np.sqrt(strategy.answer_variances(2.0 * scales**2).mean()))


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("costs", "Time and memory of getting ready, by size of the domain", tuple(rows))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2)
        own = {method: matching(rows, method=method) for method in distinct(rows, "method")}
        for axes, column, words in zip(
            panels, ("seconds", "peak_mb"), ("CPU seconds", "peak memory (MB)"), strict=True
        ):
            lines(axes, {m: [(number(r, "values"), max(number(r, column), 1e-4)) for r in o] for m, o in own.items()})
            plain(axes, "values of the domain", words, log_x=True, log_y=True)
        legend_below(figure, panels[0])

    title = "BlowfishDB demonstration, section 3: whole policy against projected policy, cumulative histogram"
    return Result((table,), (Picture("costs", title, "one run each", draw, (8.8, 3.9)),), judge(rows))


def judge(rows: Sequence[Row]) -> Verdict:
    """Whether both give the same error, and how much the largest whole policy that was tried costs more."""
    pairs = [(row, _partner(rows, row)) for row in matching(rows, method=STATIC)]
    same = all(abs(number(one, "error") / number(two, "error") - 1) < 1e-9 for one, two in pairs)
    whole, small = max(pairs, key=lambda pair: number(pair[0], "values"))
    faster = number(whole, "seconds") / max(number(small, "seconds"), 1e-4)
    leaner = number(whole, "peak_mb") / number(small, "peak_mb")
    largest = max(matching(rows, method=ENGINE), key=lambda row: number(row, "values"))
    better = number(small, "error") / number(largest, "error")
    why = (
        f"At {number(whole, 'values'):,.0f} values the whole policy takes {faster:,.0f} times the time and "
        f"{leaner:,.0f} times the memory, {'at the same' if same else 'and not at the same'} error; compiled "
        f"symbolically, a question on {number(largest, 'values'):,.0f} values is ready in "
        f"{number(largest, 'seconds'):.2g} CPU seconds, and an optimised plan has {better:.3g} times less "
        "error than the transformed workload."
    )
    return Verdict(CLAIM, how_it_holds([same, faster >= MUCH, leaner >= MUCH]), why)


def _partner(rows: Sequence[Row], row: Row) -> Row:
    return matching(rows, method=PROJECTED, values=number(row, "values"))[0]


PROCEDURE = Procedure(cases, measure, conclude)
