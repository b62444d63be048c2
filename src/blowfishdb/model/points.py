"""Records as points: numeric columns value by value, and the policy on them, however many combinations there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from blowfishdb.errors import QueryError, TooLarge
from blowfishdb.model.cellgraph import Composition, Factor, Presence, factor_shape
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.constraint_graph import moves_at_once
from blowfishdb.model.domain import Bins, Domain, Integers
from blowfishdb.model.encoding import digest
from blowfishdb.model.graphs import GridGraph
from blowfishdb.model.groups import AxisCells, Grouping, Segments, atom_runs, grouping, segments
from blowfishdb.model.numbers import Bools, Floats, Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Axis, Predicate, atoms
from blowfishdb.model.projection import complete, factor_graph, passing

MOST_COLUMNS = 8
MOST_VALUES = 2**20


@dataclass(frozen=True, eq=False)
class PointGraph:
    """Which moves of one point the policy hides, column by column; the product is never written out.

    Column j has `plain[j]` values in order; cells of `factors` beyond them are NULL or outside and are no points.
    `leaves` tells that some move leads to a record that the filter rejects.
    """

    factors: tuple[Factor, ...]
    plain: tuple[int, ...]
    composition: Composition
    leaves: bool
    presence: Presence
    rows_per_person: int = 1

    @cached_property
    def can_vanish(self) -> bool:
        """Whether a hidden move can take a point away: by the filter, by absence, or to NULL or outside."""
        special = any(_joins_special(factor, self.plain[start]) for factor, start, _ in self.spans)
        return self.leaves or self.presence != "public" or special

    @property
    def spans(self) -> tuple[tuple[Factor, int, int], ...]:
        """Each factor with the columns [start, stop) it is about."""
        spans, start = [], 0
        for factor in self.factors:
            stop = start + len(factor_shape(factor))
            spans.append((factor, start, stop))
            start = stop
        return tuple(spans)

    def digest(self) -> str:
        """A hash of everything above."""
        factors = tuple(factor.fingerprint() for factor in self.factors)
        content = (self.composition, self.leaves, self.presence, self.rows_per_person, self.plain, factors)
        return digest(("points", *content))


def _joins_special(factor: Factor, plain: int) -> bool:
    if isinstance(factor, GridGraph):
        return any(universal.size > 0 for universal in factor.universal)
    return any(bool(np.any(factor.neighbours(cell) < plain)) for cell in range(plain, factor.size))


@dataclass(frozen=True, eq=False)
class Points:
    """The columns of a question about points, in an order that keeps those of a joint threshold together.

    `attributes` are all that the columns and the filter look at; `cuts` and `layout` say how.
    """

    graph: PointGraph
    axes: tuple[str, ...]
    attributes: tuple[str, ...]
    where: Predicate | None
    cuts: Mapping[str, Segments]
    layout: Mapping[str, AxisCells]

    def middles(self, column: int) -> tuple[Ints, Fraction]:
        """The middle of each value of a column, as whole multiples of the given number."""
        axis = self.layout[self.axes[column]]
        attribute = axis.segments.attribute
        if not isinstance(attribute, Integers | Bins):
            raise QueryError(f"{self.axes[column]} is no number")
        scale = attribute.denominator
        low, high = attribute.spans(axis.firsts, axis.lasts, scale)
        return low + high, Fraction(1, 2 * scale)

    def positions(self, column: int) -> Floats:
        """The middle of each value of a column."""
        numerators, unit = self.middles(column)
        return numerators.astype(np.float64) * float(unit)

    def place(self, columns: Mapping[str, Ints]) -> tuple[Ints, Bools]:
        """The value of each record in each column (records by columns), and which records are points that count."""
        where = {name: self.cuts[name].of(np.asarray(columns[name])) for name in self.attributes}
        values = np.stack([self.layout[name].cell_of[where[name]] for name in self.axes], axis=1)
        counts = np.all((values >= 0) & (values < np.array(self.graph.plain)), axis=1)
        return values, counts & passing(self.where, self.cuts, where)


def compile_points(domain: Domain, policy: Policy, columns: tuple[Axis, ...], where: Predicate | None = None) -> Points:
    """The columns as points, with the policy on their values; reads no data."""
    filtered = compile_cells(domain, policy, (), where)
    domain = policy.applied(domain)
    named = {axis.attribute: axis for axis in columns}
    if not 1 <= len(columns) <= MOST_COLUMNS or len(named) != len(columns):
        raise QueryError(f"points have 1 to {MOST_COLUMNS} different columns, not {len(columns)}")
    axes = tuple(name for names in policy.factors(named) for name in names)
    groups = {name: _numeric_groups(named[name], domain) for name in axes}
    conditions = atoms(where)
    cuts, layout = {}, {}
    for name in dict.fromkeys([*axes, *(atom.attribute for atom in conditions)]):
        pieces = [groups[name].runs] if name in groups else []
        pieces += [atom_runs(atom, domain.find(name)) for atom in conditions if atom.attribute == name]
        cuts[name] = segments(domain.find(name), pieces)
        if name in groups:
            everything = np.ones(cuts[name].count, dtype=np.bool_)
            layout[name] = AxisCells.of(cuts[name], cuts[name].groups(groups[name]), everything)
    moves = moves_at_once(domain, policy)
    policy_factors = tuple(factor_graph(domain, policy, names, layout) for names in policy.factors(axes))
    graph = PointGraph(
        # Public constraints make records change together by moves of any length (docs/proofs/constraints.md).
        factors=policy_factors if moves is None else tuple(complete(layout[name].cells) for name in axes),
        plain=tuple(layout[name].plain for name in axes),
        composition=policy.composition if moves is None else "record",
        leaves=bool(filtered.graph.outside.any()) or (moves is not None and where is not None),
        presence="secret" if moves is not None and policy.presence == "only" else policy.presence,
        rows_per_person=policy.rows_per_person if moves is None else moves,
    )
    return Points(graph, axes, tuple(cuts), where, cuts, layout)


def _numeric_groups(axis: Axis, domain: Domain) -> Grouping:
    """The values or bins of one column; all of them count."""
    attribute = domain.find(axis.attribute)
    if not isinstance(attribute, Integers | Bins):
        raise QueryError(f"{axis.attribute} is no bounded number; points are made of integers and numeric bins")
    if axis.groups or axis.edges or axis.unit is not None:
        raise QueryError(f"{axis.attribute}: points take whole columns, or bins of one width")
    if axis.width is None and attribute.size > MOST_VALUES:
        advice = f"Use wider bins: col({axis.attribute!r}).bins(...)."
        raise TooLarge(f"values of {axis.attribute}", attribute.size, MOST_VALUES, advice)
    bins = grouping(axis, attribute)
    if bins.count > MOST_VALUES:
        raise TooLarge(f"bins of {axis.attribute}", bins.count, MOST_VALUES, "Use wider bins.")
    return bins
