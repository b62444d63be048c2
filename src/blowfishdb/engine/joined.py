"""Several questions as one: the cells that all of them need, and the rows of each over the cells of its group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array, csr_array

from blowfishdb.accuracy.candidates import Candidate, EstimatesCells, Guarantee
from blowfishdb.errors import Declined, QueryError
from blowfishdb.mechanisms import joint
from blowfishdb.mechanisms.joint import Group, stacked
from blowfishdb.mechanisms.strategy import Strategy
from blowfishdb.model.aggregates import Aggregate, compile_table, fine_axes, scaled_rows
from blowfishdb.model.cells import Cells, compile_cells, merged_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Axis, Predicate, atoms
from blowfishdb.model.query import Part, PartGroup, Query
from blowfishdb.model.workload import Rows, Sparse, Stacked
from blowfishdb.plan.loss import sparse_columns
from blowfishdb.plan.plan import EdgePlan, Plan, Problem

if TYPE_CHECKING:
    from blowfishdb.engine.compile import Compiled

MOST_CELLS = 2**16
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
        return "per-query" if self.part.per_query else "simultaneous"

    def among(self, candidate: Candidate) -> Candidate:
        """The strategy of a group, of which this question's rows alone are looked at."""
        if (self.start, self.stop) == (0, candidate.problem.workload.shape[0]):
            return candidate
        problem = Problem(candidate.problem.graph, self.rows)
        strategy = PartStrategy(problem, candidate.strategy, self.start, self.stop)
        return Candidate(problem, strategy, candidate.plan)


@dataclass(frozen=True, eq=False)
class PartStrategy:
    """The answers `[start, stop)` of another strategy, divided by `times`."""

    problem: Problem
    inner: Strategy
    start: int
    stop: int
    times: int = 1

    @property
    def mechanism(self) -> str:
        """The mechanism that measures."""
        return self.inner.mechanism

    @property
    def direct(self) -> Ints | None:
        """The noise variable of each answer, where each has one."""
        return None if self.inner.direct is None or self.times > 1 else self.inner.direct[self.start : self.stop]

    def plan(self, unit: Fraction) -> Plan | EdgePlan:
        """The measurements of all answers."""
        return self.inner.plan(unit)

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The answers."""
        if self.times == 1 and isinstance(self.inner, EstimatesCells):
            return np.asarray(self.problem.workload.dot(self.inner.estimate_cells(measured, exact, variances)))
        return self.inner.decode(measured, exact, variances)[self.start : self.stop] / self.times

    def answer_variances(self, variances: Floats) -> Floats:
        """The expected squared error of each answer."""
        return self.inner.answer_variances(variances)[self.start : self.stop] / self.times**2


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
        Group(group.cells.graph, group.rows, planned.mechanism, planned.level, each)
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
        own = JoinedPart(part, one, scaled_rows(_over(one, cells), times), start, times)
        joined.append(own)
        start = own.stop
    return JoinedGroup(queries, cells, Stacked(tuple(own.rows for own in joined)), tuple(joined))


def _over(compiled: Compiled, cells: Cells) -> Rows:
    """The rows of a question over common cells; as they are where these are its own."""
    rows, into = compiled.problem.workload, _map(compiled.cells, cells)
    if into.shape[0] == into.shape[1] == into.nnz and np.array_equal(into.indices, np.arange(into.nnz)):
        return rows
    if rows.shape[0] * cells.graph.cells > MOST_ENTRIES:
        raise Declined(joint.NAME, "the questions need too many rows together; ask them one by one")
    return Sparse(csr_array(csr_array(sparse_columns(rows)) @ into))


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
            own = replace(table, aggregates=one.query.aggregates, places=table.places[begin:end])
            compiled = replace(one, cells=table.cells, problem=Problem(table.cells.graph, table.workload), table=own)
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
    if cells.graph.cells > MOST_CELLS:
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
    conditions = [query.where, *(part.where for part in query.aggregates)]
    names = {atom.attribute for condition in conditions for atom in atoms(condition)}
    return frozenset(names | {axis.attribute for axis in fine_axes(query.axes, query.aggregates)})
