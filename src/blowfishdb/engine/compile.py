"""A query made ready: its dataset, its cells, the policy on them, and names for its answers. Reads no data."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from blowfishdb.errors import PolicyError, QueryError
from blowfishdb.inference.consistent import NO_CONSTRAINED_ANSWERS, ConstrainedAnswers
from blowfishdb.ledger.values import SUM
from blowfishdb.model.calendar import DAY, Dates, Timestamps
from blowfishdb.model.cells import NO_PART, Cells, ConstrainedParts, compile_cells, constrained_parts
from blowfishdb.model.domain import Bins, Domain, Integers
from blowfishdb.model.groups import AxisCells, Segments
from blowfishdb.model.numbers import Bools, Floats, Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.projection import factor_graph
from blowfishdb.model.query import PUBLISHED, Measure, Query, measure_of, workload
from blowfishdb.model.workload import AllRanges, as_intervals
from blowfishdb.plan.plan import Problem
from blowfishdb.present.released import AnswerAxis, AnswerTable, single
from blowfishdb.sources.base import Source


@dataclass(frozen=True, eq=False)
class DatasetHandle:
    """Data with its domain, policy and account, at the versions in force. Never given to an analyst."""

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

    def versions(self) -> dict[str, str | int]:
        """What an answer belongs to: the account, the versions and the snapshot."""
        return {
            "account": self.account,
            "policy": self.policy_version,
            "domain": self.domain_version,
            "snapshot": self.snapshot,
        }


@dataclass(frozen=True, eq=False)
class Compiled:
    """A query over a domain under a policy, as cells and as the problem that mechanisms solve.

    For sums and means `measure` tells what each cell counts for; their rows are in units of one over `scale`. `known`
    are totals of cells that public constraints tell.
    """

    query: Query
    cells: Cells
    problem: Problem
    measure: Measure | None = None
    known: ConstrainedParts | None = None

    @property
    def answers(self) -> int:
        """How many numbers the answer will have."""
        if self.query.kind in ("sum", "mean"):
            return 1
        return len(self.query.levels) or self.problem.workload.shape[0]

    @property
    def scale(self) -> int:
        """The number of units of the problem's answers in one unit of the query's."""
        return 1 if self.measure is None else self.measure.scale


def compile_query(domain: Domain, policy: Policy, query: Query) -> Compiled:
    """The cells and the problem of a query that has an answer."""
    if query.kind in PUBLISHED:
        raise QueryError(f"{query.kind} is published, not answered: ask for a histogram, or publish it")
    cells = compile_cells(domain, policy, query.axes, query.where)
    measure = measure_of(cells) if query.kind in ("sum", "mean") else None
    problem = Problem(cells.graph, workload(query, cells))
    return Compiled(query, cells, problem, measure, constrained_parts(domain, policy, cells))


NAMED_ANSWERS = 2_000_000
"""More ranges than this are numbered, not named."""


def answer_tables(compiled: Compiled) -> tuple[AnswerTable, ...]:
    """The tables whose rows are the answers, in the order of the answers."""
    if compiled.query.kind == "ranges":
        return _range_tables(compiled)
    axes = cell_axes(compiled.cells)
    if compiled.query.kind == "marginals":
        return tuple(AnswerTable(tuple(axes[place] for place in subset)) for subset in _subsets(compiled))
    return (AnswerTable(axes),)


def cell_axes(cells: Cells) -> tuple[AnswerAxis, ...]:
    """The cells along each axis; without groups one axis with one label."""
    if not cells.axes:
        return (AnswerAxis("records", ("all",), 1),)
    return tuple(_axis(cells, place) for place in range(len(cells.axes)))


def _axis(cells: Cells, place: int) -> AnswerAxis:
    name = cells.axes[place]
    edges, in_days = _edges(cells, name)
    return AnswerAxis(name, tuple(cells.labels[place]), cells.plain[place], edges, in_days)


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
    found = rows.intervals() if isinstance(rows, AllRanges) else as_intervals(rows)
    if found is None or rows.shape[0] > NAMED_ANSWERS:
        return single(cells.axes[0], tuple(map(str, range(rows.shape[0]))))
    spans = zip(found.low.tolist(), found.high.tolist(), strict=True)
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


MOST_ENTRIES = 2**24
"""Answers, or cells, times known parts, up to which it is looked for answers that are sums of parts."""


def constrained_answers(compiled: Compiled) -> ConstrainedAnswers:
    """The answers that add up whole known parts and nothing else; rows of 0 and 1 only."""
    known, rows = compiled.known, compiled.problem.workload
    if known is None or compiled.measure is not None or max(rows.shape) * (known.count + 1) > MOST_ENTRIES:
        return NO_CONSTRAINED_ANSWERS
    member = np.zeros((known.labels.size, known.count + 1), dtype=np.int64)
    # The last column gathers the cells that are in no part.
    member[np.arange(known.labels.size), known.labels] = 1
    held = rows.dot(member)
    whole = (held == 0) | (held == member.sum(axis=0))
    told = np.flatnonzero(np.all(whole, axis=1) & (held[:, NO_PART] == 0))
    taken = (held[told, :-1] > 0).astype(np.float64)
    return ConstrainedAnswers(told, taken @ known.totals.astype(np.float64))


def chosen(known: ConstrainedAnswers, start: int, stop: int) -> ConstrainedAnswers:
    """The known ones among the answers [start, stop), numbered from start."""
    own = (known.places >= start) & (known.places < stop)
    return ConstrainedAnswers(known.places[own] - start, known.values[own])


def with_total(known: ConstrainedParts, total: float | None) -> tuple[Ints, Floats]:
    """Labels and totals of the parts; with a known total the cells in no part are one more."""
    totals = known.totals.astype(np.float64)
    free = known.labels == NO_PART
    if total is None or not free.any():
        return known.labels, totals
    return np.where(free, known.count, known.labels), np.append(totals, max(0.0, total - float(totals.sum())))


MOST_VALUES = 4096


def check_parallel(domain: Domain, policy: Policy, name: str) -> None:
    """Refuses an attribute whose values are not told apart by any edge, so that nothing runs side by side."""
    attribute = domain.find(name, PolicyError)
    if policy.grid_of(name) is not None:
        raise PolicyError(f"{name} is in a joint threshold; only an attribute of its own can be accounted side by side")
    if policy.constraints:
        raise PolicyError("public constraints tie records together, so nothing can be accounted side by side")
    if attribute.size > MOST_VALUES:
        raise PolicyError(f"{name} has {attribute.size:,} values; side by side at most {MOST_VALUES:,} are accounted")
    if int(_components(domain, policy, name)[0].max()) == 0:
        raise PolicyError(
            f"the policy hides every value of {name} among the others (NULL and outside included), so no two parts of "
            "the data are separate. Declare it public, or a partition, with public NULL and outside"
        )


def _components(domain: Domain, policy: Policy, name: str) -> tuple[Ints, Ints]:
    """For each value of the attribute, special cells last: the component it is in, and its code."""
    declared = policy.applied(domain)
    attribute = declared[name]
    values = np.arange(attribute.size)
    axis = AxisCells.finest_of(Segments(attribute, values))
    slots = np.array([slot.code for slot in attribute.slots], dtype=np.int64)
    return factor_graph(declared, policy, (name,), {name: axis}).components(), np.concatenate([values, slots])


def kept_components(domain: Domain, policy: Policy, name: str, cells: Cells) -> list[int]:
    """The components with a value that some counted record may have."""
    labels, codes = _components(domain, policy, name)
    kept: Bools = np.ones(codes.size, dtype=np.bool_)
    if name in cells.attributes:
        layout: Mapping[str, AxisCells] = cells.layout
        own = layout[name] if name in layout else compile_cells(domain, policy, (name,), cells.where).layout[name]
        kept = own.cell_of[own.segments.of(codes)] >= 0
    return [int(label) for label in np.unique(labels[kept])]
