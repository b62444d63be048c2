"""A query made ready: its dataset, its cells, the policy on them, and names for its answers. Reads no data."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from scipy.sparse import csc_array

from blowfishdb.engine.joined import Joined, join
from blowfishdb.errors import QueryError
from blowfishdb.ledger.values import SUM
from blowfishdb.model.aggregates import Aggregate, AggregateTable, column_alphas, compile_table, table_cells, unchanged
from blowfishdb.model.cached import cached_property
from blowfishdb.model.calendar import DAY, Dates, Timestamps
from blowfishdb.model.cells import Cells, ConstrainedParts, compile_cells, constrained_parts
from blowfishdb.model.domain import Bins, Domain, Integers
from blowfishdb.model.numbers import Floats, show
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import PUBLISHED, Measure, Query, measure_of, workload
from blowfishdb.model.workload import AllRanges, as_intervals
from blowfishdb.plan.plan import Problem
from blowfishdb.present.answer_values import AnswerAxis, AnswerTable, single
from blowfishdb.sources.base import Source

ANALYSTS = "analysts"
OWN = "own"
OFF = "off"
SHARING = (ANALYSTS, OWN, OFF)
"""Whose answers may share their noise: all analysts', each analyst's with their other ones, or nobody's."""
READ_ONLY = "declared read-only"


@dataclass(frozen=True, eq=False)
class DatasetHandle:
    """Data with its domain, policy and account, at the versions in force. Never given to an analyst.

    `sharing` says whose answers may share noise; `read_only` that the curator vouches for rows that never change.
    `records` tells apart what else is counted of the same data: its people.
    """

    name: str
    domain: Domain
    policy: Policy
    account: str
    policy_version: int
    domain_version: int
    snapshot: int
    source: Source = field(repr=False)
    accounting: str = SUM
    pad_to: Fraction | None = None
    sharing: str = OFF
    read_only: bool = False
    records: str = ""

    def content(self) -> str | None:
        """A digest that is the same as long as every row is; None where nobody can tell."""
        return READ_ONLY if self.read_only else self.source.content()

    def versions(self) -> dict[str, str | int]:
        """What an answer belongs to: the account, the versions and the snapshot."""
        versions: dict[str, str | int] = {
            "account": self.account,
            "policy": self.policy_version,
            "domain": self.domain_version,
            "snapshot": self.snapshot,
        }
        return {**versions, "records": self.records} if self.records else versions


@dataclass(frozen=True, eq=False)
class Compiled:
    """A query over a domain under a policy, as cells and as the problem that mechanisms solve.

    `table` has the blocks and columns of a table of aggregates. For sums and means `measure` tells what each cell
    counts for; their rows are in units of one over `scale`. `known` are totals of cells that public constraints tell.
    `joined` has the questions of a joint query.
    """

    query: Query
    cells: Cells
    problem: Problem
    measure: Measure | None = None
    known: ConstrainedParts | None = None
    table: AggregateTable | None = None
    joined: Joined | None = None

    @property
    def answers(self) -> int:
        """How many numbers the answer will have."""
        if self.table is not None or self.joined is not None:
            return sum(each.size for each in self.tables)
        if self.query.kind in ("sum", "mean"):
            return 1
        return len(self.query.levels) or self.problem.workload.shape[0]

    @cached_property
    def tables(self) -> tuple[AnswerTable, ...]:
        """The tables whose rows are the answers, in their order; QueryError for quantiles of what is no number."""
        return _answer_tables(self)

    def alpha(self, target: Fraction) -> float:
        """An accuracy in the query's units in those of the problem; a table's columns have their tolerances."""
        if self.table is not None:
            return self.table.alpha
        if self.measure is None:
            return float(target)
        wanted, rows = float(target * self.measure.scale), self.query.rows
        if rows is None:
            return wanted
        # Both rows of a mean are in one unit: the count's is multiplied by the spread (docs/proofs/joint.md).
        return wanted * rows if self.is_count_exact else wanted * rows / (2 + wanted / self.measure.spread)

    def shown(self, alpha: float) -> float:
        """An accuracy of the problem in the query's units; of a mean without `rows` the sum's, of a table the first."""
        if self.table is not None:
            first = column_alphas(self.table, alpha)[0]
            block = self.table.blocks[next(iter(self.table.places[0].values()))]
            return alpha / (block.multiplier * block.scale) if first is None else first
        if self.measure is None:
            return alpha
        rows = self.query.rows
        if rows is None:
            return alpha / self.measure.scale
        rest = rows if self.is_count_exact else rows - alpha / self.measure.spread
        times = 1 if self.is_count_exact else 2
        return times * alpha / rest / self.measure.scale if rest > 0 else float("inf")

    @cached_property
    def is_count_exact(self) -> bool:
        """Whether no hidden move changes how many records a mean is taken over."""
        rows = csc_array(np.atleast_2d(np.asarray(self.problem.workload.dense()[-1])))
        return bool(unchanged(rows, self.problem.graph.components()).all())


def compile_query(domain: Domain, policy: Policy, query: Query) -> Compiled:
    """The cells and the problem of a query that has an answer."""
    if query.kind in PUBLISHED:
        raise QueryError(f"{query.kind} is published, not answered: ask for a histogram, or publish it")
    if query.kind == "joint":
        parts = [compile_query(domain, policy, with_tolerances(part.query, part.alpha)) for part in query.parts]
        joined = join(domain, policy, query, parts)
        return Compiled(query, joined.cells, joined.problem, joined=joined)
    if query.kind == "table":
        table = compile_table(domain, policy, query.axes, query.where, query.aggregates, query.rows)
        return Compiled(query, table.cells, Problem(table.cells.graph, table.workload), table=table)
    cells = compile_cells(domain, policy, query.axes, query.where)
    measure = measure_of(cells) if query.kind in ("sum", "mean") else None
    problem = Problem(cells.graph, workload(query, cells))
    return Compiled(query, cells, problem, measure, constrained_parts(domain, policy, cells))


def query_cells(domain: Domain, policy: Policy, query: Query) -> Cells:
    """The cells of a query, without its workload."""
    if query.kind == "table":
        return table_cells(domain, policy, query.axes, query.where, query.aggregates)
    return compile_cells(domain, policy, query.axes, query.where)


def with_tolerances(query: Query, alpha: Fraction | None) -> Query:
    """The query whose aggregates have the accuracy of the whole table where they have none of their own."""
    if query.kind != "table":
        return query
    if alpha is None:
        return replace(query, aggregates=tuple(replace(part, tolerance=None) for part in query.aggregates))
    wanted = (part if part.tolerance is not None else replace(part, tolerance=alpha) for part in query.aggregates)
    return replace(query, aggregates=tuple(wanted))


NAMED_ANSWERS = 2_000_000
"""More ranges than this are numbered, not named."""


def _answer_tables(compiled: Compiled) -> tuple[AnswerTable, ...]:
    """The tables whose rows are the answers, in the order of the answers; QueryError for quantiles of no numbers."""
    kind = compiled.query.kind
    if compiled.joined is not None:
        return tuple(table for part in compiled.joined.parts for table in part.compiled.tables)
    if compiled.table is not None:
        return tuple(_column_table(compiled.table, part) for part in compiled.table.aggregates)
    if kind in ("sum", "mean"):
        return single("attribute", [compiled.query.axes[0].attribute])
    if kind == "linear":
        return single("row", tuple(map(str, range(len(compiled.query.linear)))))
    if kind == "quantiles":
        cell_ends(compiled.cells, compiled.cells.axes[0])
        return single("quantile", [f"{show(100 * level)} %" for level in compiled.query.levels])
    if kind == "ranges":
        return _range_tables(compiled)
    axes = cell_axes(compiled.cells)
    if kind == "marginals":
        return tuple(AnswerTable(tuple(axes[place] for place in subset)) for subset in _subsets(compiled))
    return (AnswerTable(axes),)


def _column_table(table: AggregateTable, aggregate: Aggregate) -> AnswerTable:
    """The groups of one column; running counts leave out what stands beside the order."""
    if aggregate.function == "quantile":
        cell_ends(table.cells, aggregate.factors[0])
    axes = cell_axes(table.groups)
    if aggregate.function == "running":
        axes = tuple(
            replace(axis, labels=axis.labels[: axis.plain]) if axis.name in aggregate.factors else axis for axis in axes
        )
    return AnswerTable(axes)


def cell_axes(cells: Cells) -> tuple[AnswerAxis, ...]:
    """The cells along each axis; without groups one axis with one label."""
    if not cells.axes:
        return (AnswerAxis("records", ("all",), 1),)
    return tuple(
        AnswerAxis(name, tuple(cells.labels[place]), cells.plain[place], *_edges(cells, name))
        for place, name in enumerate(cells.axes)
    )


def _edges(cells: Cells, name: str) -> tuple[tuple[float, ...], bool]:
    """The ends of the groups on a number line, where they lie side by side on one; and whether they are days."""
    axis = cells.layout[name]
    if axis.plain == 0 or not axis.in_order or not np.array_equal(axis.firsts[1:], axis.lasts[:-1] + 1):
        return (), False
    ends = np.append(axis.firsts, axis.lasts[-1] + 1)
    attribute = axis.segments.attribute
    match attribute:
        case Integers():
            return tuple((attribute.low + ends - 0.5).tolist()), False
        case Bins():
            return tuple(attribute.edge_doubles(ends).tolist()), False
        case Dates():
            return tuple(attribute.starts(ends).astype(np.float64).tolist()), True
        case Timestamps():
            return tuple(((attribute.first_period + ends) * attribute.step / DAY).tolist()), True
    return (), False


def _range_tables(compiled: Compiled) -> tuple[AnswerTable, ...]:
    cells, rows = compiled.cells, compiled.problem.workload
    if compiled.query.boxes:
        order = [[axis.attribute for axis in compiled.query.axes].index(name) for name in cells.axes]
        axes = []
        for place, name in enumerate(cells.axes):
            labels = tuple(_span(cells, place, *box[order[place]]) for box in compiled.query.boxes)
            axes.append(AnswerAxis(name, labels, len(labels)))
        return (AnswerTable(tuple(axes), crossed=False),)
    intervals = rows.intervals() if isinstance(rows, AllRanges) else as_intervals(rows)
    if intervals is None or rows.shape[0] > NAMED_ANSWERS:
        return single(cells.axes[0], tuple(map(str, range(rows.shape[0]))))
    spans = zip(intervals.low.tolist(), intervals.high.tolist(), strict=True)
    return single(cells.axes[0], tuple(_span(cells, 0, low, high) for low, high in spans))


def _span(cells: Cells, axis: int, low: int, high: int) -> str:
    names = cells.labels[axis]
    return names[low] if high - low == 1 else f"{names[low]} to {names[high - 1]}"


def _subsets(compiled: Compiled) -> list[list[int]]:
    """The axes of each marginal."""
    cells, query = compiled.cells, compiled.query
    if query.ways is not None:
        return [list(chosen) for chosen in itertools.combinations(range(len(cells.axes)), query.ways)]
    return [sorted(cells.axes.index(name) for name in subset) for subset in query.subsets]


def cell_ends(cells: Cells, name: str) -> tuple[Floats, Floats]:
    """The lowest and highest value of each ordinary cell of an axis; QueryError where they are no numbers."""
    axis = cells.layout[name]
    attribute = axis.segments.attribute
    match attribute:
        case Integers():
            firsts, lasts = (ends.astype(np.float64) + float(attribute.low) for ends in (axis.firsts, axis.lasts))
            return firsts, lasts
        case Bins():
            return attribute.edge_doubles(axis.firsts), attribute.edge_doubles(axis.lasts + 1)
    raise QueryError(f"quantiles of {name} are no numbers; ask for its cdf instead")
