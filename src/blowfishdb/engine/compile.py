"""A query made ready: its dataset, its cells, the policy on them, names for its answers, and the effort it takes.

Reads no data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from scipy.sparse import coo_array, csc_array, csr_array

from blowfishdb.accuracy.candidates import AnswerGuarantee, Candidate, Guarantee
from blowfishdb.accuracy.columns import ONE_MEAN, column_alphas, promised_columns, usual_error
from blowfishdb.errors import BlowfishError, Declined, QueryError, TooLarge
from blowfishdb.ledger.amounts import SUM
from blowfishdb.mechanisms import joint
from blowfishdb.mechanisms.joint import JointGroup, stacked
from blowfishdb.mechanisms.strategy import CellStrategy, Strategy
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.aggregates import (
    Aggregate,
    AggregateTable,
    compile_table,
    fine_axes,
    table_cells,
)
from blowfishdb.model.arguments import checked
from blowfishdb.model.cached import cached_property
from blowfishdb.model.calendar import DAY, Dates, Timestamps
from blowfishdb.model.cells import (
    Cells,
    ConstrainedParts,
    Labels,
    compile_cells,
    constrained_parts,
    cuts_of,
    merged_cells,
)
from blowfishdb.model.domain import Bins, Domain, Integers
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.numbers import Floats, Ints, show
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Axis, Predicate, atoms
from blowfishdb.model.query import PUBLISHED, Measure, Part, PartGroup, Query, measure_of, workload
from blowfishdb.model.serialize import number_column
from blowfishdb.model.workload import AllRanges, Rows, Sparse, Stacked, as_intervals, scaled_rows, unchanged
from blowfishdb.plan.certificate import CertifiedPlans
from blowfishdb.plan.loss import sparse_columns
from blowfishdb.plan.plan import EdgePlan, Plan, Problem
from blowfishdb.plan.program import GroupSelection
from blowfishdb.present.answer_values import AnswerAxis, AnswerTable, single
from blowfishdb.sources.base import Source

ANALYSTS = "analysts"
OWN = "own"
OFF = "off"
SHARING = (ANALYSTS, OWN, OFF)
"""Whose answers may share their noise: all analysts', each analyst's with their other ones, or nobody's."""
READ_ONLY = "declared read-only"
MOST_ANSWERS = 1_000_000
"""Numbers that one question may ask for."""


LONGEST_COUNT = 3600.0
"""Seconds after which a count is given up unless the configuration says otherwise."""


@dataclass(frozen=True, eq=False)
class DatasetHandle:
    """Data with its domain, policy and account, at the versions in force. Never given to an analyst.

    `sharing` says whose answers may share noise; `read_only` that the curator vouches for rows that never change,
    `show_budget` that analysts see what is left of the data's own budget.
    `records` tells apart what else is counted of the same data: its people. `rows` is the number of records of the
    query that is planned, where that is public and was counted. `longest_count` is the number of seconds after which a
    count is given up, whatever it counts. `compiled` has queries that were compiled before.
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
    show_budget: bool = False
    longest_count: float = LONGEST_COUNT
    records: str = ""
    rows: int | None = None
    compiled: CompiledQueries | None = field(default=None, repr=False)

    def compile(self, query: Query) -> Compiled:
        """The cells and the problem of a query that has an answer."""
        make = compile_query if self.compiled is None else self.compiled.compile
        return make(self.domain, self.policy, query)

    def last_write(self) -> str | None:
        """A public mark of the last write to the data; None where nobody can tell."""
        return READ_ONLY if self.read_only else self.source.last_write()

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

    def check_answers(self, most: int = MOST_ANSWERS) -> None:
        """TooLarge for more numbers than one answer may have: making and sending them would keep others waiting."""
        numbers = self.problem.workload.shape[0]
        if numbers > most:
            raise TooLarge("answers of one question", numbers, most, "Ask for wider bins or fewer ranges.")

    @cached_property
    def row_digests(self) -> dict[tuple[str, ...], str]:
        """The digests of the counted rows that `engine/sharing.py` has made by now, by whose rows they are."""
        return {}

    @cached_property
    def descriptions(self) -> dict[tuple[str, int], dict[str, Any]]:
        """What answers say of the question and of what is hidden (`engine/release.py`), by account and snapshot."""
        return {}

    @cached_property
    def certified(self) -> CertifiedPlans:
        """The plans that were certified on the graph of this query by now."""
        return CertifiedPlans(self.problem.graph)

    @cached_property
    def tables(self) -> tuple[AnswerTable, ...]:
        """The tables whose rows are the answers, in their order; QueryError for quantiles of anything but numbers."""
        return _answer_tables(self)

    def alpha(self, target: Fraction) -> float:
        """An accuracy in the query's units in those of the problem; a table's columns have their tolerances."""
        if self.table is not None:
            return self.table.alpha
        if self.measure is None:
            return float(target)
        return float(target * self.measure.scale) * self._records

    def shown(self, alpha: float) -> float:
        """An accuracy of the problem in the query's units; of a mean without `rows` the sum's, of a table the first."""
        if self.table is not None:
            return self._first(column_alphas(self.table, alpha)[0], alpha)
        if self.measure is None:
            return alpha
        return alpha / self._records / self.measure.scale

    def usual(self, rmse: float) -> float:
        """An expected error of the problem's answers in the query's units; of a mean that of the largest values."""
        if self.table is not None:
            return self._first(usual_error(self.table, rmse), rmse)
        return self.shown(math.sqrt(2.0) * rmse if self._is_quotient else rmse)

    def promised(self, alpha: float) -> float | None:
        """The same accuracy; None for a table whose first column depends on how many records its groups have."""
        if self.table is not None and column_alphas(self.table, alpha)[0] is None:
            return None
        return self.shown(alpha)

    def _first(self, known: float | None, alpha: float) -> float:
        """What is known of the first column of a table, else how far off the rows are that it is read off."""
        if known is not None or self.table is None:
            return alpha if known is None else known
        block = self.table.blocks[next(iter(self.table.places[0].values()))]
        return alpha / (block.multiplier * block.scale)

    def guarantee(self, wanted: AnswerGuarantee) -> Guarantee:
        """What has to stay within `alpha` for the query's own answers to keep the guarantee that is wanted."""
        if self.table is not None:
            columns = promised_columns(self.table)
            if columns is not None:
                return replace(columns, together=columns.together or wanted == "simultaneous")
            # Each of its answers is read off several rows, all of which have to hold.
            is_joint = any(len(set(roles.values())) > 1 for roles in self.table.places)
            return "simultaneous" if is_joint else wanted
        if self.query.kind == "sum" and self.problem.workload.shape[0] > 1:
            # The interval is read off the sum and how far off its values may be.
            return "simultaneous"
        if not self._is_quotient:
            return wanted
        return ONE_MEAN if self.query.rows != 1 else "simultaneous"

    @property
    def _records(self) -> float:
        """By how many records an error is divided: both rows of a mean are in one unit (docs/proofs/joint.md)."""
        rows = self.query.rows
        if self.query.kind != "mean" or rows is None:
            return 1.0
        return 0.5 if self._is_quotient and rows == 1 else float(rows)

    @property
    def _is_quotient(self) -> bool:
        """Whether the answer is a mean of at least `rows` records, whose count is noisy."""
        return self.query.kind == "mean" and self.query.rows is not None and not self.is_count_exact

    @cached_property
    def is_count_exact(self) -> bool:
        """Whether no hidden move changes how many records a mean is taken over."""
        rows = csc_array(np.atleast_2d(np.asarray(self.problem.workload.dense()[-1])))
        return bool(unchanged(rows, self.problem.graph.components()).all())


@dataclass(frozen=True)
class QuantileOrder:
    """The axis along which quantiles are taken, how many of its cells are in order, and the levels in their order."""

    axis: int
    cells: int
    levels: tuple[Fraction, ...]


def group_selection(compiled: Compiled) -> GroupSelection:
    """The selection that a query of that kind asks for, with noise of scale 1."""
    query, cells = compiled.query, compiled.problem.graph.cells
    most = None if query.most is None else min(query.most, cells)
    return GroupSelection(Fraction(1), cells, most, query.above)


def quantile_order(compiled: Compiled) -> QuantileOrder | None:
    """The order of a query for quantiles of one attribute and nothing else, perhaps by groups; None for others."""
    query, cells, table = compiled.query, compiled.cells, compiled.table
    if query.kind == "quantiles":
        return QuantileOrder(0, cells.plain[0], query.levels)
    levels = tuple(part.level for part in query.aggregates if part.level is not None and part.where is None)
    factors = {part.factors for part in query.aggregates}
    if table is None or len(levels) < len(query.aggregates) or len(factors) > 1:
        return None
    (name,) = factors.pop()
    axis = cells.axes.index(name)
    groups = table.groups.graph.cells if table.groups.axes else 1
    if name in table.groups.axes or groups * cells.graph.shape[axis] != cells.graph.cells:
        return None
    return QuantileOrder(axis, cells.plain[axis], levels)


@checked(QueryError)
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


Compile: TypeAlias = Callable[[Domain, Policy, Query], Compiled]
MOST_COMPILED = 64
COMPILED_CELLS = 4096
"""Larger queries are compiled anew: they take memory, and little of their time goes into it."""


@dataclass(eq=False)
class CompiledQueries:
    """The last small queries that were compiled, with what was worked out of their cells and graphs since.

    A domain and a policy are the very objects that a query was compiled for: nothing of them is compared or hashed.
    """

    most: int = MOST_COMPILED
    _recent: tuple[tuple[Domain, Policy, str, Compiled], ...] = ()

    def __reduce__(self) -> tuple[type[CompiledQueries], tuple[int]]:
        """Another process compiles by itself."""
        return CompiledQueries, (self.most,)

    def compile(self, domain: Domain, policy: Policy, query: Query) -> Compiled:
        """What `compile_query` gives."""
        # Values that are equal and of other types are shown in other ways.
        shown = repr(query)
        for known, hidden, text, compiled in self._recent:
            if known is domain and hidden is policy and text == shown and compiled.query == query:
                return compiled
        compiled = compile_query(domain, policy, query)
        if max(compiled.problem.workload.shape) <= COMPILED_CELLS:
            # A thread that adds one at the same moment may lose it, which costs the time to compile it again.
            self._recent = ((domain, policy, shown, compiled), *self._recent[: self.most - 1])
        return compiled


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
        AnswerAxis(name, labels.column() if isinstance(labels, Labels) else tuple(labels), plain, *_edges(cells, name))
        for name, labels, plain in zip(cells.axes, cells.labels, cells.plain, strict=True)
    )


def _edges(cells: Cells, name: str) -> tuple[Sequence[float], bool]:
    """The ends of the groups on a number line, where they lie side by side on one; and whether they are days."""
    axis = cells.layout[name]
    if axis.plain == 0 or not axis.in_order or not np.array_equal(axis.firsts[1:], axis.lasts[:-1] + 1):
        return (), False
    ends = np.append(axis.firsts, axis.lasts[-1] + 1)
    attribute = axis.segments.attribute
    match attribute:
        case Integers():
            return number_column(attribute.low + ends - 0.5), False
        case Bins():
            return number_column(attribute.edge_doubles(ends)), False
        case Dates():
            return number_column(attribute.starts(ends).astype(np.float64)), True
        case Timestamps():
            return number_column((attribute.first_period + ends) * attribute.step / DAY), True
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
    """The lowest and highest value of each ordinary cell of an axis; QueryError where they are not numbers."""
    axis = cells.layout[name]
    attribute = axis.segments.attribute
    match attribute:
        case Bins(whole=False):
            return attribute.edge_doubles(axis.firsts), attribute.edge_doubles(axis.lasts + 1)
        case Integers() | Bins():
            firsts, lasts = attribute.value_ends(axis.firsts, axis.lasts, attribute.denominator)
            return firsts / attribute.denominator, lasts / attribute.denominator
    raise QueryError(f"quantiles of {name} are not numbers; ask for its cdf instead")


MOST_COMMON = 2**16
MOST_ENTRIES = 2**22
"""Common cells, and rows times cells, up to which questions are put into one plan."""
MOST_TIMES = 1000
TABLES = ("table", "histogram", "histogram2d")
"""Kinds that may be columns of one table, where their groups and filters are the same."""


@dataclass(frozen=True, eq=False)
class JoinedPart:
    """A question among others: its `rows` over the cells of its group, each `times` what is asked.

    They are the rows from `start` on, of the group or of the whole.
    """

    part: Part
    compiled: Compiled
    rows: Rows
    start: int
    times: int = 1

    @property
    def stop(self) -> int:
        """The end of its rows."""
        return self.start + self.rows.shape[0]

    @property
    def counts_all(self) -> bool:
        """Whether every record counts, so that a public total is one of this question too."""
        return self.compiled.query.where is None

    @property
    def alpha(self) -> float:
        """How far off its rows may be."""
        return self.compiled.alpha(self.part.alpha) * self.times

    @property
    def guarantee(self) -> Guarantee:
        """What the accuracy speaks of: all answers at once, or each of them."""
        return self.compiled.guarantee("per-query" if self.part.per_query else "simultaneous")

    def among(self, candidate: Candidate) -> Candidate:
        """The strategy of a group, of which this question's rows alone are looked at."""
        if (self.start, self.stop) == (0, candidate.problem.workload.shape[0]):
            return candidate
        problem = Problem(candidate.problem.graph, self.rows)
        strategy = PartStrategy(problem, candidate.strategy, self.start, self.stop)
        return Candidate(problem, strategy, candidate.plan)


@dataclass(frozen=True, eq=False)
class PartStrategy(Strategy):
    """The answers `[start, stop)` of another strategy."""

    problem: Problem
    inner: Strategy
    start: int
    stop: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "mechanism", self.inner.mechanism)

    @property
    def direct(self) -> Ints | None:
        """The noise variable of each answer, where each has one."""
        return None if self.inner.direct is None else self.inner.direct[self.start : self.stop]

    def plan(self, unit: Fraction) -> Plan | EdgePlan:
        """The measurements of all answers."""
        return self.inner.plan(unit)

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The answers."""
        if isinstance(self.inner, CellStrategy):
            return np.asarray(self.problem.workload.dot(self.inner.estimate_cells(measured, exact, variances)))
        return self.inner.decode(measured, exact, variances)[self.start : self.stop]

    def answer_variances(self, variances: Floats) -> Floats:
        """The expected squared error of each answer."""
        return self.inner.answer_variances(variances)[self.start : self.stop]


@dataclass(frozen=True, eq=False)
class JoinedGroup:
    """Questions that are read off the same rows; `parts` are numbered from the group's first row on."""

    queries: tuple[Query, ...]
    cells: Cells
    rows: Rows
    parts: tuple[JoinedPart, ...]

    @property
    def problem(self) -> Problem:
        """The group by itself."""
        return Problem(self.cells.graph, self.rows)


@dataclass(frozen=True, eq=False)
class Joined:
    """Questions over common cells: their problem, the groups, and the parts in the order in which they were asked."""

    cells: Cells
    problem: Problem
    groups: tuple[JoinedGroup, ...]
    parts: tuple[JoinedPart, ...]


def join(domain: Domain, policy: Policy, query: Query, compiled: Sequence[Compiled]) -> Joined:
    """The questions of a joint query that was planned, over the cells that all of them need.

    Declined where these are too many, or where no common cells are known.
    """
    if not query.groups:
        raise QueryError("questions that are answered together are planned first: ask for their preview")
    groups = tuple(join_group(domain, policy, query.parts, compiled, group) for group in query.groups)
    cells = groups[0].cells
    maps: list[csr_array | None] = [None]
    if len(groups) > 1:
        cells = _common_cells(domain, policy, [one for group in groups for one in group.queries])
        maps = [_map(group.cells, cells) for group in groups]
        if sum(group.rows.shape[0] for group in groups) * cells.graph.cells > MOST_ENTRIES:
            raise Declined(joint.NAME, "the questions need too many rows together; ask them one by one")
    measured = tuple(
        JointGroup(group.cells.graph, group.rows, planned.mechanism, MECHANISMS[planned.mechanism], planned.level, each)
        for group, planned, each in zip(groups, query.groups, maps, strict=True)
    )
    parts: dict[int, JoinedPart] = {}
    start = 0
    for group, planned in zip(groups, query.groups, strict=True):
        for place, part in zip(planned.members, group.parts, strict=True):
            parts[place] = replace(part, start=start + part.start)
        start += group.rows.shape[0]
    return Joined(
        cells, Problem(cells.graph, stacked(measured)), groups, tuple(parts[place] for place in sorted(parts))
    )


def join_group(
    domain: Domain, policy: Policy, parts: Sequence[Part], compiled: Sequence[Compiled], group: PartGroup
) -> JoinedGroup:
    """The rows of some of the questions over the cells that these need."""
    members = [(parts[place], compiled[place]) for place in group.members]
    if any(counts_people(part.query) for part, _ in members):
        raise Declined(joint.NAME, "persons are counted over cells of their own, and asked for by themselves")
    if group.mechanism == joint.NAME:
        return _columns(domain, policy, members)
    queries = tuple(part.query for part, _ in members)
    if len(members) == 1:
        part, one = members[0]
        rows = one.problem.workload
        return JoinedGroup(queries, one.cells, rows, (JoinedPart(part, one, rows, 0),))
    cells = _common_cells(domain, policy, queries)
    widest = max(part.alpha for part, _ in members)
    joined, start = list[JoinedPart](), 0
    for part, one in members:
        times = min(MOST_TIMES, max(1, round(widest / part.alpha)))
        added = JoinedPart(part, one, scaled_rows(_over(one, cells), times), start, times)
        joined.append(added)
        start = added.stop
    return JoinedGroup(queries, cells, Stacked(tuple(member.rows for member in joined)), tuple(joined))


def _over(compiled: Compiled, cells: Cells) -> Rows:
    """The rows of a question over common cells; as they are where these are its own."""
    rows, into = compiled.problem.workload, _map(compiled.cells, cells)
    if into.shape[0] == into.shape[1] == into.nnz and np.array_equal(into.indices, np.arange(into.nnz)):
        return rows
    if rows.shape[0] * cells.graph.cells > MOST_ENTRIES:
        raise Declined(joint.NAME, "the questions need too many rows together; ask them one by one")
    return Sparse(csr_array(csr_array(sparse_columns(rows)) @ into))


def counts_people(query: Query) -> bool:
    """Whether a question counts persons, which no count of records tells."""
    return any(part.function == "people" for part in query.aggregates)


def may_be_columns(queries: Iterable[Query]) -> bool:
    """Whether the questions can be columns of one table; it takes one that is a table to make it worth while."""
    listed = list(queries)
    first = listed[0]
    alike = all((one.axes, one.where) == (first.axes, first.where) for one in listed)
    return alike and all(one.kind in TABLES for one in listed) and any(one.kind == "table" for one in listed)


def _columns(domain: Domain, policy: Policy, members: Sequence[tuple[Part, Compiled]]) -> JoinedGroup:
    """The questions as columns of one table: what two of them need is measured once."""
    if not may_be_columns(part.query for part, _ in members):
        raise QueryError("only questions about the same groups and records are columns of one table")
    columns: list[Aggregate] = []
    spans = []
    for part, one in members:
        aggregates = one.query.aggregates or (Aggregate("count", tolerance=part.alpha),)
        spans.append((len(columns), len(columns) + len(aggregates)))
        columns += [replace(each, name=f"{len(columns) + place}") for place, each in enumerate(aggregates)]
    first = members[0][1].query
    sizes = [one.query.rows for _, one in members if one.query.rows is not None]
    table = compile_table(domain, policy, first.axes, first.where, tuple(columns), min(sizes, default=None))
    whole = Query("table", first.axes, first.where, aggregates=tuple(columns), rows=table.size)
    starts = np.cumsum([0, *(block.rows.shape[0] for block in table.blocks)])
    joined = []
    for (part, one), (begin, end) in zip(members, spans, strict=True):
        if one.query.kind == "table":
            part_table = replace(table, aggregates=one.query.aggregates, places=table.places[begin:end])
            compiled = replace(
                one, cells=table.cells, problem=Problem(table.cells.graph, table.workload), table=part_table
            )
            joined.append(JoinedPart(part, compiled, table.workload, 0))
            continue
        place = table.places[begin]["count"]
        rows, times = table.workload.parts[place], table.blocks[place].multiplier
        joined.append(JoinedPart(part, one, rows, int(starts[place]), times))
    return JoinedGroup((whole,), table.cells, table.workload, tuple(joined))


def _common_cells(domain: Domain, policy: Policy, queries: Sequence[Query]) -> Cells:
    """Cells of which the cells of every query are made."""
    axes: dict[str, Axis] = {}
    for query in queries:
        for axis in fine_axes(query.axes, query.aggregates):
            known = axes.setdefault(axis.attribute, axis)
            if known != axis or axis.groups:
                axes[axis.attribute] = Axis(axis.attribute)
    where = queries[0].where
    conditions: list[Predicate] = [
        part.where for query in queries for part in query.aggregates if part.where is not None
    ]
    if any(query.where != where for query in queries):
        where, conditions = None, conditions + [query.where for query in queries if query.where is not None]
    cells = compile_cells(domain, policy, tuple(axes.values()), where, conditions)
    if cells.graph.cells > MOST_COMMON:
        raise Declined(joint.NAME, "the questions need too many cells together; ask them one by one")
    return cells


def _map(cells: Cells, common: Cells) -> csr_array:
    """For each cell the common cells that it is made of."""
    merged = merged_cells(cells, common)
    if merged is None:
        raise Declined(joint.NAME, "no common cells of these questions are known; ask them one by one")
    counted = np.flatnonzero(merged != ZERO)
    entries = np.ones(counted.size, dtype=np.int64), (merged[counted], counted)
    return csr_array(coo_array(entries, shape=(cells.graph.cells, merged.size)))


def looked_at(query: Query) -> frozenset[str]:
    """The attributes that the answer depends on."""
    names = {atom.attribute for condition in _conditions(query) for atom in atoms(condition)}
    return frozenset(names | {axis.attribute for axis in fine_axes(query.axes, query.aggregates)})


def starts_of(domain: Domain, query: Query) -> Mapping[str, frozenset[int]]:
    """Where a query cuts each attribute that it looks at."""
    cuts = cuts_of(domain, fine_axes(query.axes, query.aggregates), _conditions(query))
    return {name: frozenset(cut.starts.tolist()) for name, cut in cuts.items()}


def _conditions(query: Query) -> list[Predicate | None]:
    return [query.where, *(part.where for part in query.aggregates)]


Result = TypeVar("Result")
SEVERAL_AXES = 4
"""Cells of several attributes take about this many times the work of those of one: more strategies, no short cuts."""
CELL_BY_CELL = ("count", "histogram", "cdf")
"""Kinds with at most one answer for each cell."""
FEW_CELLS = 256
"""Up to this effort nobody minds whether it is a little less."""


class Compute(Protocol):
    """Does a piece of arithmetic, given a function of the package and values that hold no data.

    `effort` is asked for before it starts. A server does heavy pieces elsewhere, one after another.
    """

    def __call__(self, effort: Callable[[], int], function: Callable[..., Result], *arguments: object) -> Result: ...


def compute_here(effort: Callable[[], int], function: Callable[..., Result], *arguments: object) -> Result:
    """The result, computed in this thread whatever the effort."""
    del effort
    return function(*arguments)


def query_effort(domain: Domain, policy: Policy, query: Query, make: Compile | None = None) -> int:
    """About the number of cells and answers that planning goes through, as if they were those of one attribute.

    1 for a query that is refused: its refusal takes no time. `make` compiles the query, `compile_query` without one.
    """
    make = make or compile_query
    if query.parts:
        # Each is quoted alone, and again with others.
        return len(query.parts) * sum(query_effort(domain, policy, part.query, make) for part in query.parts)
    axes, several = query.axes, 1 if len(query.axes) <= 1 else SEVERAL_AXES
    histogram = Query("histogram", axes, query.where) if query.kind in PUBLISHED else query
    try:
        if query.kind in CELL_BY_CELL and not any(axis.groups or axis.edges for axis in axes):
            # Bins are no more than values: where these are few, the cells need not be made to tell.
            most = several * math.prod(domain.find(axis.attribute).total_size for axis in axes)
            if most <= FEW_CELLS:
                return most
        problem = make(domain, policy, histogram).problem
    except BlowfishError:
        return 1
    # The number of ranges grows with the square of the cells, the work only with the cells and a little.
    rows = min(problem.workload.shape[0], problem.graph.cells * math.ceil(math.log2(problem.graph.cells + 1)))
    return max(problem.graph.cells, rows) * several
