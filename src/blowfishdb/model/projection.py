"""Policy graphs projected on the cells of a query, and the cells from which a record can leave a filter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import PolicyError, QueryError, TooLarge
from blowfishdb.model.constraints import RowsConstraint, numbers_given
from blowfishdb.model.domain import Bins, Domain, Integers
from blowfishdb.model.graphs import (
    AxisGraph,
    CliqueGraph,
    EdgeGraph,
    Factor,
    GridGraph,
    JointEdges,
    WindowGraph,
)
from blowfishdb.model.groups import AxisCells, Segments, along, combinations
from blowfishdb.model.numbers import Bools, Ints, consecutive, distinct
from blowfishdb.model.policy import Cover, Grid, Joint, Policy, ValueGraph, ValueWindow
from blowfishdb.model.predicate import Atom, Predicate, Truth, atoms, truth

LISTED_LIMIT = 2**21
"""Joint thresholds list their edges up to this many to find what leaves a filter; beyond, they join a little more."""

COVER_LIMIT = 2**22
"""Listed joint graphs are projected edge by edge up to this many; beyond, everything is joined."""

NO_UNIVERSAL = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Verdict:
    """Which combinations of segments of the named attributes the query counts; None when there are too many.

    `cuts` are the segments of all attributes that the query looks at.
    """

    names: tuple[str, ...]
    accepted: Bools | None
    cuts: Mapping[str, Segments]


EVERY_RECORD = Verdict((), None, {})
"""No query is known, so every record may count."""


def complete(cells: int) -> WindowGraph:
    """Every cell joined to every other."""
    return WindowGraph(reach=np.full(cells, cells - 1), universal=NO_UNIVERSAL)


class Unlisted(WindowGraph):
    """Every cell joined to every other, in place of a graph with too many edges to list: sound, and not exact."""


class UnlistedJoint(GridGraph):
    """The same over several axes."""


def project_axis(graph: ValueGraph, axis: AxisCells) -> AxisGraph:
    """The graph of one attribute on the cells of an axis, special cells included."""
    if isinstance(graph, ValueWindow) and axis.in_order:
        return _windows(graph, axis)
    try:
        if isinstance(graph, ValueWindow):
            fine = _windows(graph, axis.finest())
            pairs = axis.cell_of[axis.cell_of >= 0][fine.edges()]
        elif isinstance(graph, CliqueGraph):
            return _cliques(graph, axis)
        else:
            ends = axis.cell_of[axis.segments.of(graph.pairs)]
            pairs = ends[np.all(ends >= 0, axis=1)]
        return _listed(pairs, axis)
    except TooLarge:
        everyone = complete(axis.cells)
        return Unlisted(everyone.reach, everyone.universal)


def _windows(graph: ValueWindow, axis: AxisCells) -> WindowGraph:
    """Cells in order: the last value of one and the first value of a later one decide."""
    reach = np.searchsorted(axis.firsts, graph.reach(axis.lasts), side="right") - 1
    special = np.arange(axis.plain, axis.cells)
    if special.size == axis.universal.size and (axis.plain == 0 or reach[0] == axis.plain - 1):
        return complete(axis.cells)
    return WindowGraph(reach=np.concatenate([reach, special]), universal=axis.universal)


def _cliques(graph: CliqueGraph, axis: AxisCells) -> AxisGraph:
    cells = axis.cell_of[axis.segments.of(np.arange(graph.size))]
    pairs = np.unique(np.stack([cells, graph.labels], axis=1)[cells >= 0], axis=0)
    if axis.universal.size == 0 and pairs.shape[0] == axis.plain:
        special = int(graph.labels.max()) + 1 + np.arange(axis.cells - axis.plain)
        return CliqueGraph(np.concatenate([pairs[:, 1], special]))
    if pairs.shape[0] == 0:
        return _listed(np.empty((0, 2), dtype=np.int64), axis)
    return _listed(pairs[:, 0][CliqueGraph(pairs[:, 1]).edges()], axis)


def _listed(pairs: Ints, axis: AxisCells) -> AxisGraph:
    """The given pairs of cells, and every universal vertex joined to all."""
    everyone = np.arange(axis.cells)
    stars = [np.stack([np.full(axis.cells, universal_vertex), everyone], axis=1) for universal_vertex in axis.universal]
    graph = EdgeGraph(axis.cells, np.concatenate([pairs.reshape(-1, 2), *stars]))
    return complete(axis.cells) if graph.edge_count == axis.cells * (axis.cells - 1) // 2 else graph


def project_joint(grid: Grid, axes: Sequence[AxisCells]) -> Factor:
    """A joint threshold on the cells of some of its attributes; the others may stay where they are."""
    scale = math.lcm(grid.theta.denominator, *(_numeric(axis.segments).denominator for axis in axes))
    lows, highs = [], []
    for axis in axes:
        if not axis.in_order:
            raise QueryError("groups of an attribute in a joint threshold must be runs of values in order")
        attribute = _numeric(axis.segments)
        low, high = attribute.spans(axis.firsts, axis.lasts, scale)
        offset = int(low[0]) if low.size else 0
        lows.append(low - offset)
        highs.append(high - offset)
    # Nothing is further apart than this, so a larger theta would join the same cells.
    furthest = sum(int(high[-1]) for high in highs if high.size)
    theta = min(int(grid.theta * scale), furthest + 1)
    for number, axis in enumerate(axes):
        beyond = (int(highs[number][-1]) if highs[number].size else 0) + theta + 1
        # A public special cell lies out of reach of the others; the position of a universal vertex is never used.
        special = np.full(axis.cells - axis.plain, beyond) + (theta + 1) * np.arange(axis.cells - axis.plain)
        lows[number] = np.concatenate([lows[number], special])
        highs[number] = np.concatenate([highs[number], special])
    joint = GridGraph(tuple(lows), tuple(highs), theta, grid.metric, tuple(axis.universal for axis in axes))
    return joint if len(axes) > 1 else joint.axis_within(0, theta)


def meetings(cover: Cover, columns: Sequence[int], axes: Sequence[AxisCells]) -> tuple[Ints, Ints]:
    """Each cell of some attributes of a listed joint graph with each group that it meets, in the order of the groups.

    A hidden special cell stands for any value of its attribute, and so for whatever groups one of them is in. A public
    one is joined to itself alone along its axis; the other attributes move as they do for some value in its place.
    """
    flat, groups, codes = np.zeros(cover.groups.size, dtype=np.int64), cover.groups, cover.codes
    for column, axis in zip(columns, axes, strict=True):
        cells = axis.cell_of[axis.segments.of(codes[:, column])]
        open_to_all = [cell for slot, cell in axis.special if slot.public]
        kinds, lines = len(open_to_all) + 1, np.arange(flat.size)
        inside = np.flatnonzero(cells >= 0)
        parts = [(flat[inside] * axis.cells + cells[inside], groups[inside] * kinds, inside)]
        parts += [(flat * axis.cells + cell, groups * kinds, lines) for cell in axis.universal]
        parts += [(flat * axis.cells + cell, groups * kinds + 1 + i, lines) for i, cell in enumerate(open_to_all)]
        flat, groups, lines = (np.concatenate(part) for part in zip(*parts, strict=True))
        codes = codes[lines]
    width = math.prod(axis.cells for axis in axes)
    keys = distinct(np.unique(groups, return_inverse=True)[1].reshape(-1) * width + flat)
    return keys % width, keys // width


def meetings_that_count(
    cover: Cover, attributes: Sequence[str], layout: Mapping[str, AxisCells], verdict: Verdict
) -> tuple[Ints, Ints]:
    """The meetings of the cells along the layout's axes, of records that a query counts.

    `attributes` are those of the graph. They are looked at segment by segment, also where only the filter names them.
    """
    decisive = [name for name in verdict.names if name in attributes]
    if verdict.accepted is None or not decisive:
        return meetings(cover, [attributes.index(name) for name in layout], list(layout.values()))
    seen = list(dict.fromkeys([*layout, *decisive]))
    finest = [AxisCells.finest_of(verdict.cuts[name]) for name in seen]
    flat, groups = meetings(cover, [attributes.index(name) for name in seen], finest)
    place = dict(zip(seen, np.unravel_index(flat, [axis.cells for axis in finest]), strict=True))
    others = tuple(index for index, name in enumerate(verdict.names) if name not in attributes)
    counts = np.asarray(verdict.accepted.any(axis=others))[tuple(place[name] for name in decisive)]
    cells = np.zeros(flat.size, dtype=np.int64)
    for name, axis in layout.items():
        along_axis = axis.cell_of[place[name]]
        counts, cells = counts & (along_axis >= 0), cells * axis.cells + along_axis
    width = math.prod(axis.cells for axis in layout.values())
    keys = distinct(groups[counts] * width + cells[counts])
    return keys % width, keys // width


def project_cover(meetings_of_cells: tuple[Ints, Ints], shape: tuple[int, ...]) -> Factor:
    """A listed joint graph on the cells of some of its attributes: two cells are joined where a group meets both."""
    size, everyone = math.prod(shape), complete(math.prod(shape))
    cells, groups = meetings_of_cells
    sizes = np.bincount(groups, minlength=1)
    following = np.repeat(np.cumsum(sizes), sizes) - np.arange(cells.size) - 1
    if int(following.sum()) > COVER_LIMIT:
        nowhere = tuple(np.zeros(count, dtype=np.int64) for count in shape)
        universal = (NO_UNIVERSAL,) * len(shape)
        return (
            UnlistedJoint(nowhere, nowhere, 0, "linf", universal)
            if len(shape) > 1
            else Unlisted(everyone.reach, everyone.universal)
        )
    first, second = np.repeat(np.arange(cells.size), following), consecutive(np.arange(cells.size) + 1, following)
    pairs = np.stack([cells[first], cells[second]], axis=1)
    if len(shape) > 1:
        return JointEdges(size, pairs, shape)
    graph = EdgeGraph(size, pairs)
    return everyone if graph.edge_count == size * (size - 1) // 2 else graph


def _numeric(segments: Segments) -> Integers | Bins:
    if not isinstance(segments.attribute, Integers | Bins):
        raise PolicyError("a joint threshold needs integers or numeric bins")
    return segments.attribute


def factor_graph(
    domain: Domain,
    policy: Policy,
    names: Sequence[str],
    layout: Mapping[str, AxisCells],
    verdict: Verdict = EVERY_RECORD,
) -> Factor:
    """The graph of one attribute, or of several with a joint graph, on the cells of their axes.

    Moves of records that the query does not count join no cells; `AxisCells` knows this of single attributes, and the
    verdict of combinations in a listed joint graph.
    """
    joint = policy.joint_of(names[0])
    if isinstance(joint, Grid):
        return project_joint(joint, [layout[name] for name in names])
    if joint is not None:
        axes = {name: layout[name] for name in names}
        met = meetings_that_count(policy.cover(domain, joint), joint.attributes, axes, verdict)
        return project_cover(met, tuple(axis.cells for axis in axes.values()))
    return project_axis(policy.graph(domain, names[0]), layout[names[0]])


def dilate(graph: Factor, mask: Bools) -> Bools:
    """Where the vertex or one of its neighbours is in the mask, or more; axis 0 of the mask runs over the vertices."""
    if isinstance(graph, WindowGraph):
        return _dilate_windows(graph, mask)
    if isinstance(graph, CliqueGraph):
        by_label = np.zeros((int(graph.labels.max()) + 1, *mask.shape[1:]), dtype=np.bool_)
        np.logical_or.at(by_label, graph.labels, mask)
        return np.asarray(by_label[graph.labels])
    if isinstance(graph, GridGraph) and (graph.metric == "linf" or graph.edge_count_bound > LISTED_LIMIT):
        return _dilate_cube(graph, mask)
    edges = graph.edges()
    reached = mask.copy()
    np.logical_or.at(reached, edges[:, 0], mask[edges[:, 1]])
    np.logical_or.at(reached, edges[:, 1], mask[edges[:, 0]])
    return reached


def _dilate_cube(graph: GridGraph, mask: Bools) -> Bools:
    """Axis by axis: exact for the Linf metric, which contains the L1 and L2 balls of the same radius."""
    reached = mask.reshape(*graph.shape, *mask.shape[1:])
    for axis in range(len(graph.shape)):
        front = np.moveaxis(reached, axis, 0)
        reached = np.moveaxis(_dilate_windows(graph.axis_within(axis, graph.theta), front), 0, axis)
    return reached.reshape(mask.shape)


def _dilate_groups(cells: Ints, groups: Ints, mask: Bools) -> Bools:
    """Where a group that meets the cell meets one of the mask: edge by edge there would be far more to look at."""
    by_group = np.zeros((int(groups.max()) + 1, *mask.shape[1:]), dtype=np.bool_)
    np.logical_or.at(by_group, groups, mask[cells])
    reached = mask.copy()
    np.logical_or.at(reached, cells, by_group[groups])
    return reached


def _dilate_windows(graph: WindowGraph, mask: Bools) -> Bools:
    zero = np.zeros((1, *mask.shape[1:]), dtype=np.int64)
    before = np.concatenate([zero, np.cumsum(mask, axis=0, dtype=np.int64)])
    index = np.arange(graph.size)
    backward = np.searchsorted(graph.reach, index, side="left")
    reached = np.asarray(before[graph.reach + 1] > before[backward])
    if graph.universal.size:
        reached[graph.universal] = mask.any(axis=0)
        reached |= mask[graph.universal].any(axis=0)
    return reached


FILTER_LIMIT = 2**22
"""Combinations of segments a filter is evaluated on; above it every cell counts as joined to outside."""


def passing(where: Predicate | None, cuts: Mapping[str, Segments], place: Mapping[str, Ints]) -> Bools:
    """Which records a filter accepts, given the segment of each record by attribute."""

    def by_record(atom: Atom) -> Truth:
        yes, no = cuts[atom.attribute].truth(atom)
        return yes[place[atom.attribute]], no[place[atom.attribute]]

    return np.ones(1, dtype=np.bool_) if where is None else truth(where, by_record)[0]


def evaluate(
    policy: Policy,
    where: Predicate | None,
    cuts: Mapping[str, Segments],
    counted: Mapping[str, Bools],
    limit: int | None = None,
) -> Verdict:
    """Evaluates a filter on every combination of segments of the attributes that matter.

    `counted` tells which segments of the grouped attributes are in a group. Attributes that a listed joint graph ties
    to one that matters are looked at as well, where there are not too many combinations.
    """
    partial = [name for name, inside in counted.items() if not inside.all()]
    decisive = {*partial, *(atom.attribute for atom in atoms(where))}
    tied = {graph.attributes for name in decisive if isinstance(graph := policy.joint_of(name), Joint)}
    most = FILTER_LIMIT if limit is None else limit
    for chosen in (decisive.union(*tied), decisive):
        names = tuple(name for name in cuts if name in chosen)
        sizes = tuple(cuts[name].count for name in names)
        if math.prod(sizes) <= most:
            break
    else:
        return Verdict(names, None, cuts)
    accepted = np.ones(sizes, dtype=np.bool_)
    if where is not None:
        accepted &= combinations(where, names, cuts)
    for name in partial:
        accepted &= along(names, name, counted[name])
    return Verdict(names, accepted, cuts)


def is_exact(policy: Policy, verdict: Verdict, factors: Sequence[Factor], layout: Mapping[str, AxisCells]) -> bool:
    """Whether every edge of the projected graph is the move of some record, so that a loss on it is attained.

    It is where the filter decides attribute by attribute (those of a listed joint graph together, which then leaves a
    record in every cell of theirs): a record keeps what it has beside the axes that it moves along. Otherwise all
    accepted records of two joined cells may differ in more than one move changes. Numbers that constraints give may
    say that a cell is empty.
    """
    if verdict.accepted is None or any(isinstance(factor, Unlisted | UnlistedJoint) for factor in factors):
        return False
    if any(not isinstance(constraint, RowsConstraint) for constraint in numbers_given(policy.constraints)):
        return False
    accepted, by_part = verdict.accepted, np.ones((1,) * verdict.accepted.ndim, dtype=np.bool_)
    for names in policy.factors(verdict.names):
        places = [verdict.names.index(name) for name in names]
        joint = policy.joint_of(names[0])
        if isinstance(joint, Joint):
            if any(name in verdict.cuts and name not in names for name in joint.attributes):
                return False
        elif len(names) > 1 and math.prod(accepted.shape[place] for place in places) ** 2 > LISTED_LIMIT:
            return False
        for part in [places] if isinstance(joint, Joint) else [[place] for place in places]:
            others = tuple(other for other in range(accepted.ndim) if other not in part)
            alone: Bools = np.asarray(accepted.any(axis=others, keepdims=True))
            if isinstance(joint, Joint):
                tied = [name for name in verdict.names if name in names]
                if not by_cell(np.asarray(alone.any(axis=others)), tied, layout).all():
                    return False
            by_part = by_part & alone
    return bool(np.all(by_part == accepted))


def by_cell(mask: Bools, names: Iterable[str], layout: Mapping[str, AxisCells], first: int = 0) -> Bools:
    """A mask over segments as a mask over cells; dimensions of attributes that are not grouped shrink to one."""
    for place, name in enumerate(names, start=first):
        grouped = name in layout
        mask = layout[name].merged(mask, place) if grouped else np.asarray(mask.any(axis=place, keepdims=True))
    return mask


def leaving_cells(domain: Domain, policy: Policy, verdict: Verdict, layout: Mapping[str, AxisCells]) -> Bools:
    """The cells from which some edge leads to a record that does not count."""
    shape = tuple(axis.cells for axis in layout.values()) or (1,)
    if verdict.accepted is None:
        return np.ones(shape, dtype=np.bool_)
    leaving = verdict.accepted & reached(domain, policy, verdict.names, ~verdict.accepted, verdict.cuts)
    leaving = by_cell(leaving, verdict.names, layout)
    grouped = [place for place, name in enumerate(verdict.names) if name in layout]
    by_axis = np.transpose(
        leaving.reshape([leaving.shape[place] for place in grouped]),
        np.argsort([list(layout).index(verdict.names[place]) for place in grouped], kind="stable"),
    )
    sizes = [axis.cells if name in verdict.names else 1 for name, axis in layout.items()]
    return np.broadcast_to(by_axis.reshape(sizes or [1]), shape)


def reached(
    domain: Domain, policy: Policy, names: Sequence[str], rejected: Bools, cuts: Mapping[str, Segments]
) -> Bools:
    """Combinations of segments from which one move of a record leads to a rejected one (or which are rejected)."""
    whole = {name: AxisCells.finest_of(cuts[name]) for name in names}
    near = rejected
    for factor in policy.factors(names):
        places = [names.index(name) for name in factor]
        source = near if policy.composition == "record" else rejected
        front = np.moveaxis(source, places, range(len(places)))
        flat = front.reshape(-1, *front.shape[len(places) :])
        joint = policy.joint_of(factor[0])
        if isinstance(joint, Joint):
            columns = [joint.attributes.index(name) for name in factor]
            axes = [whole[name] for name in factor]
            moved = _dilate_groups(*meetings(policy.cover(domain, joint), columns, axes), flat)
        else:
            moved = dilate(factor_graph(domain, policy, factor, whole), flat)
        near = near | np.moveaxis(moved.reshape(front.shape), range(len(places)), places)
    return near
