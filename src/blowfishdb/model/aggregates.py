"""Aggregates of groups: counts, sums, means, spreads, quantiles and shares as blocks of integer rows over the cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

import numpy as np
from scipy.sparse import csc_array, csr_array

from blowfishdb.errors import QueryError, TooLarge, between
from blowfishdb.model.arguments import checked
from blowfishdb.model.cached import cached_property
from blowfishdb.model.cells import Cells, compile_cells, middles
from blowfishdb.model.domain import Attribute, Bins, Domain, Integers, is_storable
from blowfishdb.model.graphs import GridGraph, JointEdges
from blowfishdb.model.groups import along, first_codes, first_segments, grouping
from blowfishdb.model.numbers import Bools, Ints, product_ends, show
from blowfishdb.model.policy import Person, Policy, Row
from blowfishdb.model.predicate import PREDICATES, Atom, Axis, Both, Predicate, Truth, atoms, truth
from blowfishdb.model.serialize import PASSING, encode
from blowfishdb.model.workload import (
    Identity,
    Intervals,
    Kronecker,
    Prefix,
    Rows,
    Sparse,
    Stacked,
    as_matrix,
    largest_entry,
    scaled_rows,
    total,
    unchanged,
)

Function = Literal[
    "count",
    "people",
    "sum",
    "mean",
    "variance",
    "stddev",
    "variance_pop",
    "stddev_pop",
    "quantile",
    "share",
    "running",
]
WORDS = {
    "stddev": "standard deviation",
    "stddev_pop": "standard deviation",
    "variance_pop": "variance",
    "running": "running count",
}
MEDIAN = Fraction(1, 2)
PERCENT = 100
SPREADS = ("variance", "stddev", "variance_pop", "stddev_pop")
PLAIN = ("count", "people", "quantile", "running")
"""Aggregates whose accuracy is that of the one block they are read off."""
MOST_AGGREGATES = 64
MOST_FACTORS = 4
MOST_ENTRIES = 2**25
"""Entries of rows that are not products and so are written out."""
LARGEST_ENTRY = 2**40
MOST_CELLS, COARSE_CELLS = 2**21, 2**18
"""Cells of a table; where means need more, their values are rounded so that about the second number is left."""
ROUNDING = 1e-9
"""Quotients that are whole numbers up to rounding are not rounded up to the next one."""
SQUARE_LEVELS = 512
"""Squares are taken of values rounded to so many steps on each side of the middle; intervals cover the rounding."""
FINEST = 64
COARSEST_ENTRY = 2**18
"""Blocks are scaled against each other by whole numbers: as finely as FINEST while entries stay below this."""


Affine: TypeAlias = tuple[Fraction, Fraction]
"""The numbers a and b of a factor a x + b."""
UNCHANGED: Affine = (Fraction(1), Fraction(0))
LARGEST_CONSTANT = 10**9


@checked(QueryError)
@dataclass(frozen=True)
class Aggregate:
    """One column of a table over groups.

    `factors` are the attributes whose product is added up or averaged, or the one whose quantile or running count is
    asked; a count of factors counts the records in which they are not NULL. `people` counts different persons: its one
    factor is the column of their ids, as the policy names it. `where` restricts the records that count.
    A share divides by the count of the groups that agree in the attributes `of` (of all records where that is empty)
    and is multiplied by `times`. `tolerance` is how far off the column may be, in its own units, where that was asked;
    one that was asked in percent is `relative` until it is known of what. With `affine` a sum or mean is of the product
    of a x + b over its factors x, such as price * (1 - discount).
    """

    function: Function
    factors: tuple[str, ...] = ()
    where: Predicate | None = None
    level: Fraction | None = None
    of: tuple[str, ...] = ()
    times: int = 1
    affine: tuple[Affine, ...] = ()
    name: str = ""
    tolerance: Fraction | None = None
    relative: Fraction | None = field(default=None, metadata=PASSING)

    def __post_init__(self) -> None:
        if self.function not in get_args(Function):
            raise QueryError(f"an aggregate is one of {', '.join(get_args(Function))}, not {self.function!r}")
        least, most = {
            "count": (0, MOST_FACTORS),
            "share": (0, 0),
            "sum": (1, MOST_FACTORS),
            "mean": (1, MOST_FACTORS),
        }.get(self.function, (1, 1))
        if not least <= len(self.factors) <= most or len(set(self.factors)) != len(self.factors):
            wanted = between(least, most, "attribute" if most == 1 else "different attribute")
            raise QueryError(f"a {self.function} is of {wanted}, not {len(self.factors)}")
        if self.where is not None and not isinstance(self.where, PREDICATES):
            raise QueryError(f"a filter is a condition such as col('age') >= 18, not {self.where!r}")
        if (self.level is None) == (self.function == "quantile") or (self.level is not None and not 0 < self.level < 1):
            raise QueryError("a quantile has a level strictly between 0 and 1, and nothing else has one")
        if self.function != "share" and (self.of or self.times != 1):
            raise QueryError("only shares divide by other groups")
        if type(self.times) is not int or not 1 <= self.times <= 1_000_000:
            raise QueryError("a share is multiplied by a whole number from 1 to a million: 100 gives percent")
        if self.affine and (self.function not in ("sum", "mean") or len(self.affine) != len(self.factors)):
            raise QueryError("only sums and means take a x + b, with two numbers for each attribute")
        constants = [number for pair in self.affine for number in pair]
        if any(max(abs(number.numerator), number.denominator) > LARGEST_CONSTANT for number in constants):
            raise QueryError("the constants of a sum are numbers of at most nine digits")
        if any(scale == 0 for scale, _ in self.affine):
            raise QueryError("an attribute times 0 has nothing to add up")
        if self.tolerance is not None and self.tolerance < 0:
            raise QueryError("a tolerance is a number of at least 0")
        if not isinstance(self.name, str) or not is_storable(self.name):
            raise QueryError(f"the name of a column is text that can be stored, not {self.name!r}")

    @property
    def title(self) -> str:
        """The column's heading: its name, or the aggregate in words."""
        if self.name:
            return self.name
        inner = "*".join(self.factors)
        if self.level is not None:
            return f"median_{inner}" if self.level == MEDIAN else f"q{float(100 * self.level):g}_{inner}"
        if self.function == "people":
            return "people"
        return f"{self.function}_{inner}" if inner else self.function

    @property
    def words(self) -> str:
        """The aggregate as people call it: "mean of cost", "median of age", "percent of ward"."""
        inner = " × ".join(self.factors)
        if self.level is not None:
            return f"{show(100 * self.level)} % quantile of {inner}" if self.level != MEDIAN else f"median of {inner}"
        if self.function in ("share", "people"):
            return {"people": "persons"}.get(self.function, "percentages" if self.times == PERCENT else "shares")
        name = WORDS.get(self.function, self.function)
        return f"{name} of {inner}" if inner else name


@dataclass(frozen=True)
class Block:
    """Rows of one kind, one for each group of the attributes `by`.

    Each record counts for the `power`-th power of the product of its factors, with `is_centred` less the middle of the
    declared values, with `is_rounded` in coarse steps; `is_running` asks for running counts.
    """

    by: tuple[str, ...]
    factors: tuple[str, ...] = ()
    power: int = 0
    is_centred: bool = False
    is_rounded: bool = False
    where: Predicate | None = None
    is_running: bool = False
    affine: tuple[Affine, ...] = ()


@dataclass(frozen=True, eq=False)
class BlockRows:
    """A block as rows over the cells.

    The entries of a sum are values less `offset`, in units of one over `scale`; those of a spread are such values, or
    their squares, in steps of `step` units. `largest` is the largest entry; `multiplier` makes one alpha of all
    blocks together mean what is wanted of each.
    """

    block: Block
    rows: Rows
    largest: int
    offset: int = 0
    scale: int = 1
    step: int = 1
    multiplier: int = 1
    ends: tuple[int, int] = (0, 0)
    """The least and the greatest value, in the same units."""
    is_exact: bool = False
    """Whether no hidden move changes any of the rows; looked at for counts."""
    coarse: float = 0.0
    """How far a declared value may be from the middle of its cell, where cells hold several; in the same units."""
    inside: float = 0.0
    """How far a value may be from what its cell counts for: `coarse`, and where in a declared bin it lies."""
    reach: tuple[float, float] = (0.0, 0.0)
    """The least and the greatest value of a record, wherever in its cell it lies."""

    @property
    def spread(self) -> int:
        """The most that a value differs from the offset, at least 1."""
        return max(self.ends[1] - self.offset, self.offset - self.ends[0], 1)


@dataclass(frozen=True, eq=False)
class Blocks(Stacked):
    """The rows of all blocks of a table, each times its multiplier; `running` tells which are running counts."""

    running: tuple[bool, ...] = ()
    multipliers: tuple[int, ...] = ()
    plain: tuple[Rows, ...] = ()
    """The blocks without their multipliers."""

    def fingerprint(self) -> bytes:
        return encode(("blocks", self.running, *(part.fingerprint() for part in self.parts)))


@dataclass(frozen=True, eq=False)
class AggregateTable:
    """The cells and blocks of a table of aggregates; `places` are the blocks that each column is read off.

    `cells` are as fine as the rows need, `groups` the groups themselves. Where every column has a tolerance, the blocks
    are scaled so that all keep theirs where every answer of `workload` is within `alpha`.
    """

    aggregates: tuple[Aggregate, ...]
    cells: Cells
    groups: Cells
    blocks: tuple[BlockRows, ...]
    places: tuple[Mapping[str, int], ...]
    size: int | None

    @property
    def counts_people(self) -> bool:
        """Whether persons are counted, not records."""
        return self.aggregates[0].function == "people"

    @cached_property
    def workload(self) -> Blocks:
        """The rows of all blocks."""
        return Blocks(
            tuple(scaled_rows(block.rows, block.multiplier) for block in self.blocks),
            tuple(block.block.is_running for block in self.blocks),
            tuple(block.multiplier for block in self.blocks),
            tuple(block.rows for block in self.blocks),
        )

    @cached_property
    def alpha(self) -> float:
        """How far off the answers of the workload may be for every column to keep its tolerance."""
        wanted = block_alphas(self.aggregates, self.places, self.blocks, self.size)
        noisy = [(alpha, block) for alpha, block in zip(wanted, self.blocks, strict=True) if not block.is_exact]
        return min((alpha * block.multiplier for alpha, block in noisy), default=1.0)


def compile_table(
    domain: Domain,
    policy: Policy,
    axes: tuple[Axis, ...],
    where: Predicate | None,
    aggregates: tuple[Aggregate, ...],
    size: int | None,
) -> AggregateTable:
    """The cells, blocks and columns of a table of aggregates; reads no data."""
    if not 0 < len(aggregates) <= MOST_AGGREGATES:
        raise QueryError(f"a table has 1 to {MOST_AGGREGATES} aggregates, not {len(aggregates)}")
    groups = compile_cells(domain, policy, axes, where)
    cells = table_cells(domain, policy, axes, where, aggregates)
    builder = _Builder(cells, groups)
    if aggregates[0].function == "people":
        if cells.graph.shape != groups.graph.shape:
            raise QueryError("a FILTER of COUNT(DISTINCT ...) is about attributes that are not grouped; use WHERE")
        block = builder.rows(Block(tuple(axis.attribute for axis in axes)))
        places = ({"count": 0},) * len(aggregates)
        return AggregateTable(aggregates, cells, groups, (block,), places, size)
    named = {axis.attribute: axis for axis in axes}
    is_targeted = all(aggregate.tolerance is not None for aggregate in aggregates)
    choices = []
    # Less the middle of the declared values a sum costs less, but then its count is needed as well.
    for is_centred in (True, False):
        keys: dict[Block, int] = {}
        places = tuple(
            {
                role: keys.setdefault(builder.plain(block), len(keys))
                for role, block in _blocks_of(
                    aggregate, named, aggregates, is_centred=is_centred, is_counted=builder.needs_count(aggregate)
                )
            }
            for aggregate in aggregates
        )
        blocks = [builder.rows(block) for block in keys]
        wanted = block_alphas(aggregates, places, blocks, size) if is_targeted else _balanced_alphas(blocks)
        cost = sum(
            0.0 if b.is_exact else b.largest / max(alpha, ROUNDING) for b, alpha in zip(blocks, wanted, strict=True)
        )
        choices.append((cost, places, blocks, wanted))
    _, places, blocks, wanted = min(choices, key=lambda choice: choice[0] if is_targeted else 0.0)
    return AggregateTable(aggregates, cells, groups, _multiplied(blocks, wanted), places, size)


def fine_axes(axes: tuple[Axis, ...], aggregates: Iterable[Aggregate]) -> tuple[Axis, ...]:
    """The groups and the attributes that are added up, the latter by every declared value."""
    counted = (aggregate for aggregate in aggregates if aggregate.function != "people")
    needed = tuple(dict.fromkeys(name for aggregate in counted for name in aggregate.factors))
    named = {axis.attribute: axis for axis in axes}
    fine = [Axis(name) if name in needed else axis for name, axis in named.items()]
    return (*fine, *(Axis(name) for name in needed if name not in named))


def table_cells(
    domain: Domain,
    policy: Policy,
    axes: tuple[Axis, ...],
    where: Predicate | None,
    aggregates: tuple[Aggregate, ...],
) -> Cells:
    """The groups, cut as finely as the values and the conditions of the aggregates need; for people the groups."""
    if any(aggregate.function == "people" for aggregate in aggregates):
        return _people_cells(domain, policy, axes, where, aggregates)
    fine = fine_axes(axes, aggregates)
    conditions = [aggregate.where for aggregate in aggregates if aggregate.where is not None]
    is_chosen = all(aggregate.function == "quantile" for aggregate in aggregates)
    try:
        cells = compile_cells(domain, policy, fine, where, conditions)
        if cells.graph.cells <= MOST_CELLS or is_chosen:
            return cells
        too_large = TooLarge("cells of one question", cells.graph.cells, MOST_CELLS, TOO_MANY)
    except TooLarge as error:
        too_large = error
    coarse = _coarse_axes(policy.applied(domain), axes, fine, aggregates)
    if coarse is None:
        raise too_large
    cells = compile_cells(domain, policy, coarse, where, conditions)
    if cells.graph.cells > MOST_CELLS:
        raise too_large
    return cells


TOO_MANY = "Ask for wider bins or fewer attributes; AVG(x) of many values is taken of rounded ones."


def _coarse_axes(
    domain: Domain, axes: tuple[Axis, ...], fine: tuple[Axis, ...], aggregates: tuple[Aggregate, ...]
) -> tuple[Axis, ...] | None:
    """The axes with the values of the widest one in bins, where means alone are taken of it; None where they are not.

    Means are then of the middles of the bins, and their intervals cover the rounding (docs/proofs/joint.md).
    """
    counts = {axis.attribute: grouping(axis, domain.find(axis.attribute)).count for axis in axes}
    sizes = {axis.attribute: domain.find(axis.attribute).size for axis in fine if axis.attribute not in counts}
    if not sizes:
        return None
    widest = max(sizes, key=lambda name: sizes[name])
    uses = [one for one in aggregates if widest in one.factors]
    step = value_step(domain.find(widest))
    if step is None or any(one.function not in ("mean", "count") or len(one.factors) > 1 for one in uses):
        return None
    each = -(-math.prod([*counts.values(), *sizes.values()]) // COARSE_CELLS)
    width = step * min(each, sizes[widest])
    return tuple(replace(axis, width=width) if axis.attribute == widest else axis for axis in fine)


def value_step(attribute: Attribute) -> Fraction | None:
    """How far apart neighbouring values of a numeric attribute are; None where they are not numbers, or uneven."""
    if isinstance(attribute, Integers):
        return Fraction(1)
    return attribute.width if isinstance(attribute, Bins) else None


def _people_cells(
    domain: Domain,
    policy: Policy,
    axes: tuple[Axis, ...],
    where: Predicate | None,
    aggregates: tuple[Aggregate, ...],
) -> Cells:
    """The groups in which persons are counted, with the moves that one person's rows can make between them.

    A move of one row changes the number of persons in a group by no more than that of rows, and all rows of one person
    change it by at most 1 (docs/proofs/people.md): no more moves count than reach that in every group.
    """
    unit, first = policy.unit, aggregates[0]
    if any((part.function, part.where) != ("people", first.where) for part in aggregates):
        raise QueryError("persons and records are counted over cells of their own")
    wrong = next((part.factors[0] for part in aggregates if not is_person(unit, part.factors[0])), None)
    if wrong is not None:
        known = f"by {unit.id}" if isinstance(unit, Person) else "where the policy protects whole persons, by their ids"
        raise QueryError(
            f"Distinct values of {wrong} are not counted: GROUP BY the attribute counts each declared value. Persons "
            f"are counted {known}"
        )
    both = where if first.where is None else first.where if where is None else Both(where, first.where)
    cells = compile_cells(domain, policy, axes, both)
    graph = cells.graph
    joins_cells = graph.has_value_edges and any(
        not isinstance(factor, GridGraph | JointEdges) and factor.edge_count > 0 for factor in graph.factors
    )
    most = -(-graph.cells // 2) if joins_cells else graph.cells
    return replace(cells, graph=replace(graph, rows_per_person=min(graph.rows_per_person, most), is_exact=False))


def is_person(unit: Row | Person, column: str) -> bool:
    """Whether a column holds the ids of the persons whom a policy protects."""
    return isinstance(unit, Person) and unit.id.lower() == column.lower()


def _blocks_of(
    aggregate: Aggregate,
    named: Mapping[str, Axis],
    aggregates: tuple[Aggregate, ...],
    *,
    is_centred: bool,
    is_counted: bool,
) -> list[tuple[str, Block]]:
    """The blocks that a column is read off, by their role; `is_counted` tells that a sum needs its count as well."""
    by, where, factors = tuple(named), aggregate.where, aggregate.factors
    everything = Block(by, where=where)
    present = Block(by, factors, where=where)
    total = Block(by, factors, 1, where=where, affine=aggregate.affine)
    summed = (factors, aggregate.affine)
    alike = {
        part.function
        for part in aggregates
        if part.where == where and ((part.factors, part.affine) == summed or not part.factors)
    }
    is_single = len(factors) == 1
    match aggregate.function:
        case "count":
            return [("count", present)]
        case "sum" if is_centred and is_single and (is_counted or alike & {"count", "mean", *SPREADS}):
            return [("sum", replace(total, is_centred=True)), ("count", present)]
        case "sum":
            return [("sum", total), *([("count", present)] if is_counted else [])]
        case "mean":
            serves_both = "sum" in alike and not is_centred
            return [("sum", replace(total, is_centred=is_single and not serves_both)), ("count", present)]
        case "quantile":
            return [("running", Block(by, factors, where=where, is_running=True))]
        case "running":
            before = tuple(name for name in by if name != factors[0])
            return [("running", Block(before, factors, where=where, is_running=True))]
        case "share":
            unknown = [name for name in aggregate.of if name not in named]
            if unknown:
                raise QueryError(f"{unknown[0]} is not grouped, so no share is of its groups")
            return [("part", everything), ("whole", Block(tuple(n for n in by if n in aggregate.of)))]
    steps = replace(total, is_centred=True, is_rounded=True)
    return [("sum", steps), ("square", replace(steps, power=2)), ("count", present)]


@dataclass(frozen=True, eq=False)
class _Builder:
    """Rows of blocks over fine cells; `group_of` is the group of each fine cell along each grouped axis."""

    cells: Cells
    groups: Cells

    def needs_count(self, aggregate: Aggregate) -> bool:
        """Whether a sum is off by something a record: its values lie anywhere in their cells."""
        return aggregate.function == "sum" and any(
            bool(middles(name, self.cells.layout[name])[1].any()) for name in aggregate.factors
        )

    def plain(self, block: Block) -> Block:
        """The same block without factors whose absence nothing tells: no record is NULL there."""
        if block.power == 0 and not block.is_running:
            telling = tuple(name for name in block.factors if self._has_special(name))
            return replace(block, factors=telling)
        if block.is_rounded and block.power == 1 and self._step(block.factors[0]) == 1:
            return replace(block, is_rounded=False)
        return block

    def _step(self, name: str) -> int:
        """The step to which values are rounded before they are squared; 1 where they need no rounding."""
        numbers, *_ = self._values(name)
        return -(-max(1, int(numbers[-1]) - int(numbers[0])) // (2 * SQUARE_LEVELS))

    def rows(self, block: Block) -> BlockRows:
        """The block over the cells."""
        names = self.cells.axes
        affine = block.affine or (UNCHANGED,) * len(block.factors)
        values, inside = dict[str, tuple[Ints, int]](), list[Ints]()
        for name, pair in zip(block.factors, affine, strict=True) if block.power else ():
            numerators, apart, unit = self._values(name, *pair)
            values[name] = numerators, unit
            inside.append(apart)
        offset, scale, step, ends, reach, most = 0, 1, 1, (0, 0), (0, 0), 0
        if values:
            scale = math.prod(unit for _, unit in values.values())
            numbers = [numerators for numerators, _ in values.values()]
            ends = product_ends(numbers)
            both = list(zip(numbers, inside, strict=True))
            reach = product_ends([np.concatenate([one - apart, one + apart]) for one, apart in both])
            # A product is off the most where all factors are, at their largest.
            sizes = [(int(np.abs(one).max()), int(apart.max())) for one, apart in both]
            most = math.prod(size + apart for size, apart in sizes) - math.prod(size for size, _ in sizes)
            if block.is_centred:
                offset = (ends[0] + ends[1]) // 2
                (name,) = values
                shifted = numbers[0] - offset
                if block.is_rounded:
                    step = self._step(name)
                    shifted = np.floor_divide(2 * shifted + step, 2 * step)
                values = {name: (shifted**block.power, scale)}
        masks, rest = self._masks(block.where)
        if block.is_running and rest is not None:
            raise QueryError("a quantile is filtered by conditions on single attributes, joined with AND; use WHERE")
        factors = [self._factor(block, name, values, masks) for name in names]
        rows: Rows = Identity(1)
        if factors:
            rows = factors[0] if len(factors) == 1 else Kronecker(tuple(factors))
        if rest is not None:
            rows = self._masked(rows, rest)
        largest = largest_entry(rows)
        if largest > LARGEST_ENTRY:
            raise TooLarge("values in their finest unit", largest, LARGEST_ENTRY, "Use wider bins, or fewer factors.")
        is_exact = False
        if block.power == 0 and not block.is_running:
            is_exact = bool(unchanged(csc_array(as_matrix(rows)), self._components).all())
        coarse = (
            max((self._half_cell(name) for name in values), default=Fraction(0)) * abs(affine[0][0]) if values else 0
        )
        return BlockRows(
            block,
            rows,
            max(1, largest),
            offset,
            scale,
            step,
            ends=ends,
            is_exact=is_exact,
            coarse=float(coarse * scale),
            inside=float(most),
            reach=(float(reach[0]), float(reach[1])),
        )

    def _half_cell(self, name: str) -> Fraction:
        """How far a declared value may be from the middle of its cell along an axis."""
        axis = self.cells.layout[name]
        return int((axis.lasts - axis.firsts).max()) * (value_step(axis.segments.attribute) or 0) / Fraction(2)

    @cached_property
    def _components(self) -> Ints:
        return self.cells.graph.components()

    def _factor(
        self, block: Block, name: str, values: Mapping[str, tuple[Ints, int]], masks: Mapping[str, Bools]
    ) -> Rows:
        """The block's rows along one axis."""
        axis = self.cells.layout[name]
        mask = masks.get(name, np.ones(axis.cells, dtype=np.bool_)).copy()
        if name in block.factors:
            mask[axis.plain :] = False
        if name in self.groups.layout:
            # What is in no group is in no total of groups either.
            mask &= self.group_of(name) >= 0
        if block.is_running and name in block.factors:
            return self._running(block, name, mask)
        entries = mask.astype(np.int64)
        if name in values:
            entries[: axis.plain] *= values[name][0]
        if name not in block.by:
            return total(axis.cells) if bool(np.all(entries == 1)) else Sparse(entries[None])
        group = self.group_of(name)
        count = self.groups.layout[name].cells
        if np.array_equal(group, np.arange(axis.cells)) and bool(np.all(entries == 1)):
            return Identity(axis.cells)
        held = np.flatnonzero(group >= 0)
        return Sparse(csr_array((entries[held], (group[held], held)), shape=(count, axis.cells)))

    def _running(self, block: Block, name: str, mask: Bools) -> Rows:
        axis, groups = self.cells.layout[name], self.groups.layout.get(name)
        if name in block.by:
            raise QueryError(f"a quantile of {name} cannot be by groups of {name} itself: ask each with WHERE")
        if groups is not None and not np.array_equal(self.group_of(name), np.arange(groups.cells)):
            raise QueryError(f"running counts of {name} are over its declared values, in order: group by {name} alone")
        if not axis.segments.attribute.ordered or not axis.in_order or axis.plain == 0:
            raise QueryError(f"{name} has no order here, so quantiles and running counts mean nothing")
        if not bool(np.all(mask[: axis.plain])):
            raise QueryError(f"a quantile of {name} cannot be filtered by {name} itself; use WHERE")
        ends = np.arange(1, axis.plain + 1)
        return Prefix(axis.cells) if axis.plain == axis.cells else Intervals(axis.cells, np.zeros_like(ends), ends)

    def _masked(self, rows: Rows, keep: Bools) -> Rows:
        matrix = as_matrix(rows)
        if matrix.nnz > MOST_ENTRIES:
            raise TooLarge("entries of a filtered aggregate", matrix.nnz, MOST_ENTRIES, "Use coarser groups.")
        return Sparse(matrix.multiply(keep.reshape(1, -1).astype(np.int64)))

    def _values(
        self, name: str, scale: Fraction = UNCHANGED[0], more: Fraction = UNCHANGED[1]
    ) -> tuple[Ints, Ints, int]:
        """The value of each ordinary cell times `scale` plus `more`, how far a value in it may be off, and their unit.

        Both are in the finest unit; the last number is how many units make one.
        """
        axis = self.cells.layout[name]
        if axis.plain == 0 or not axis.in_order:
            raise QueryError(f"{name}: sums and means need values or bins in order, with one that the filter keeps")
        halves, inside, unit = middles(name, axis)
        whole = unit.denominator
        if (scale, more) != UNCHANGED:
            common = math.lcm(whole * scale.denominator, more.denominator)
            times = common // (whole * scale.denominator) * scale.numerator
            plus = common // more.denominator * more.numerator
            largest = max(abs(int(end)) for end in (halves.min(), halves.max())) * abs(times) + abs(plus)
            if largest > LARGEST_ENTRY:
                raise TooLarge("values in their finest unit", largest, LARGEST_ENTRY, "Use shorter constants.")
            halves, inside, whole = halves * times + plus, inside * abs(times), common
        shared = math.gcd(whole, int(np.gcd.reduce(halves)), int(np.gcd.reduce(inside)))
        return halves // shared, inside // shared, whole // shared

    def _has_special(self, name: str) -> bool:
        axis = self.cells.layout[name]
        return axis.plain < axis.cells

    def group_of(self, name: str) -> Ints:
        """The group of each cell along an axis; LEFT_OUT where it is in none."""
        groups = self.groups.layout[name]
        codes = first_codes(self.cells.layout[name])
        return np.asarray(groups.cell_of[groups.segments.of(codes)], dtype=np.int64)

    def _masks(self, where: Predicate | None) -> tuple[dict[str, Bools], Bools | None]:
        """A mask along each axis where the condition is a conjunction of such; else one over all cells."""
        if where is None:
            return {}, None
        names = self.cells.axes
        masks: dict[str, Bools] = {}
        waiting = [where]
        while waiting:
            part = waiting.pop()
            about = {atom.attribute for atom in atoms(part)}
            if isinstance(part, Both):
                waiting += [part.first, part.second]
            elif len(about) == 1:
                (name,) = about
                held = self._true(part, (name,)).reshape(-1)
                masks[name] = masks[name] & held if name in masks else held
            else:
                return {}, np.broadcast_to(self._true(where, names), self.cells.graph.shape).reshape(-1)
        return masks, None

    def _true(self, condition: Predicate, names: tuple[str, ...]) -> Bools:
        """Which cells along the named axes meet the condition."""

        def by_cell(atom: Atom) -> Truth:
            axis = self.cells.layout[atom.attribute]
            first = first_segments(axis)
            yes, no = axis.segments.truth(atom)
            return along(names, atom.attribute, yes[first]), along(names, atom.attribute, no[first])

        return truth(condition, by_cell)[0]


def _balanced_alphas(blocks: list[BlockRows]) -> list[float]:
    """An error of each block in proportion to what it costs, for an epsilon that is shared evenly."""
    return [
        max(1.0, math.log2(_running_length(block)) ** 1.5 / math.sqrt(2)) if block.block.is_running else block.largest
        for block in blocks
    ]


def _running_length(block: BlockRows) -> int:
    """The number of running counts of one group, at least 2."""
    rows = block.rows.factors if isinstance(block.rows, Kronecker) else (block.rows,)
    return max(2, *(factor.shape[0] for factor in rows if isinstance(factor, Prefix | Intervals)))


def _multiplied(blocks: list[BlockRows], wanted: list[float]) -> tuple[BlockRows, ...]:
    """The blocks with whole multipliers in inverse proportion to the wanted errors, rounded up; exact ones keep 1."""
    noisy = {place: alpha for place, alpha in enumerate(wanted) if not blocks[place].is_exact and alpha < math.inf}
    if noisy and min(noisy.values()) <= 0:
        raise QueryError("a table needs a tolerance above 0 for each of its aggregates")
    widest = max(noisy.values(), default=1.0)
    heaviest = max((blocks[place].largest * widest / alpha for place, alpha in noisy.items()), default=1.0)
    fineness = min(FINEST, max(1.0, COARSEST_ENTRY / heaviest)) if len(noisy) > 1 else 1.0
    scaled = list(blocks)
    for place, alpha in noisy.items():
        times = max(1, math.ceil(fineness * widest / alpha - ROUNDING))
        if blocks[place].largest * times > LARGEST_ENTRY:
            largest = blocks[place].largest * times
            raise TooLarge("entries of the joint plan", largest, LARGEST_ENTRY, "Bring the tolerances closer.")
        scaled[place] = replace(blocks[place], multiplier=times)
    return tuple(scaled)


def block_alphas(
    aggregates: Iterable[Aggregate],
    places: Iterable[Mapping[str, int]],
    blocks: Iterable[BlockRows],
    size: int | None,
) -> list[float]:
    """How far off each block's rows may be, in their own units, for every column to keep its tolerance.

    Means, spreads and shares keep it for groups of at least `size` records (docs/proofs/joint.md).
    """
    listed = list(blocks)
    wanted = [math.inf] * len(listed)
    for aggregate, roles in zip(aggregates, places, strict=True):
        for role, alpha in _role_alphas(
            aggregate, {role: listed[place] for role, place in roles.items()}, size
        ).items():
            wanted[roles[role]] = min(wanted[roles[role]], alpha)
    return wanted


def _role_alphas(aggregate: Aggregate, roles: Mapping[str, BlockRows], size: int | None) -> dict[str, float]:
    """The error of each block that keeps one column within its tolerance; exact blocks need none of it."""
    tolerance = float(aggregate.tolerance or 0)
    if aggregate.function in PLAIN:
        return dict.fromkeys(roles, tolerance)
    if aggregate.function == "sum":
        total = roles["sum"]
        wanted = tolerance * total.scale
        if "count" not in roles or roles["count"].is_exact:
            return {"sum": wanted}
        return {"sum": wanted / 2, "count": wanted / (2 * max(1, abs(total.offset) + total.inside))}
    if size is None:
        raise QueryError(
            f"how far off {aggregate.title} is depends on how many records it is taken over: say rows=..., the size of "
            "the smallest group that must keep the accuracy, or give epsilon"
        )
    if aggregate.function == "share":
        if roles["whole"].is_exact:
            return {"part": tolerance * size / aggregate.times}
        part = tolerance * size / (2 * aggregate.times + tolerance)
        return {"part": part, "whole": part}
    total, is_counted = roles["sum"], roles["count"].is_exact
    spread, tolerance = float(total.spread), tolerance * total.scale
    if aggregate.function == "mean":
        tolerance = _less_rounding(tolerance, total, aggregate)
        share = tolerance * size if is_counted else tolerance * size / (2 + tolerance / spread)
        return {"sum": share} if is_counted else {"sum": share, "count": share / spread}
    step = float(roles["square"].step)
    if aggregate.function.startswith("stddev"):
        tolerance = max(tolerance - _rounding(step), tolerance / 2) ** 2
    else:
        tolerance = max(tolerance - 2 * spread * _rounding(step), tolerance / 2)
    share = tolerance * size / 3 if is_counted else tolerance * size / (6 + tolerance / spread**2)
    alphas = {"sum": share / (spread * step), "square": share / step**2}
    return alphas if is_counted else {**alphas, "count": share / spread**2}


def _less_rounding(tolerance: float, total: BlockRows, aggregate: Aggregate) -> float:
    """What rounded values leave of the tolerance of a mean; QueryError where that is nothing."""
    if tolerance <= total.coarse:
        off = f"{total.coarse / total.scale:g}"
        raise QueryError(
            f"{aggregate.title} uses rounded values, which can move it by up to {off}: ask for a tolerance above that"
        )
    return tolerance - total.coarse


def column_alpha(aggregate: Aggregate, roles: Mapping[str, BlockRows], alpha: float, size: int | None) -> float | None:
    """How far off a column is at most where all of its rows are within `alpha`.

    None for means, spreads and shares where no size is given, or where so small a group may be empty.
    """
    off = {role: 0.0 if block.is_exact else alpha / block.multiplier for role, block in roles.items()}
    if aggregate.function in PLAIN:
        return max(off.values())
    if aggregate.function == "sum":
        each = abs(roles["sum"].offset) + roles["sum"].inside
        return (off["sum"] + each * off.get("count", 0.0)) / roles["sum"].scale
    if aggregate.function == "share":
        rest = (size or 0) - off["whole"]
        return aggregate.times * (off["part"] + off["whole"]) / rest if rest > 0 else None
    rest = (size or 0) - off["count"]
    if rest <= 0:
        return None
    total = roles["sum"]
    spread = float(total.spread)
    mean = (off["sum"] * total.step + spread * off["count"]) / rest
    if aggregate.function == "mean":
        return (mean + total.coarse) / total.scale
    squares = (off["square"] * roles["square"].step ** 2 + spread**2 * off["count"]) / rest
    variance = squares + 2 * spread * mean
    rounding = _rounding(float(roles["square"].step))
    if aggregate.function.startswith("stddev"):
        return (math.sqrt(variance) + rounding) / total.scale
    return (variance + 2 * spread * rounding) / total.scale**2


def _rounding(step: float) -> float:
    """How far rounding values to steps moves their standard deviation at most."""
    return 0.0 if step == 1 else step / 2
