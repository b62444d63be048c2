"""Distances between values and between records under a policy, and how far a change of policy stretches old promises.

At distance d an observer's odds between the two change by at most e^(epsilon d); None means not hidden at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
from scipy.sparse.csgraph import shortest_path

from blowfishdb.errors import DomainError, PolicyError, TooLarge
from blowfishdb.model.constraint_graph import changed_constraints
from blowfishdb.model.domain import Attribute, Categorical, Domain, Integers
from blowfishdb.model.graphs import EDGE_LIMIT, CellGraph, EdgeGraph, Factor, GridGraph, adjacency, steps_between
from blowfishdb.model.groups import AxisCells, Segments
from blowfishdb.model.numbers import Ints, distinct
from blowfishdb.model.policy import (
    ClockWindow,
    Family,
    Grid,
    Joint,
    ListedWindow,
    Policy,
    Public,
    StepWindow,
    ValueGraph,
    ValueWindow,
    value_graph,
)
from blowfishdb.model.projection import Unlisted, UnlistedJoint, factor_graph, meetings, project_axis, project_joint

CLOCK_LIMIT = 2**20
"""Windows that a change of the clock widens are compared value by value up to this many values."""
STRETCH_LIMIT = 2048
"""Graphs other than windows are compared by all shortest paths, up to this many values."""
PATHS_LIMIT = 2**25
"""Joint thresholds are compared by all shortest paths up to this many cells times edges."""


def value_distance(domain: Domain, policy: Policy, name: str, one: object, two: object) -> int | None:
    """Steps between two raw values of one attribute (None stands for NULL), the others staying as they are."""
    return _factor_distance(policy.applied(domain), policy, (name,), {name: one}, {name: two})


def record_distance(domain: Domain, policy: Policy, one: Mapping[str, object], two: Mapping[str, object]) -> int | None:
    """Steps between two records; attributes missing from a record count as NULL."""
    domain = policy.applied(domain)
    steps = [_factor_distance(domain, policy, names, one, two) for names in policy.factors(domain.names)]
    finite = [step for step in steps if step is not None]
    apart: int | None = None
    if len(finite) == len(steps):
        apart = max(finite) if policy.composition == "record" else sum(finite)
    return _past_absence(policy, apart)


def _factor_distance(
    domain: Domain, policy: Policy, names: Sequence[str], one: Mapping[str, object], two: Mapping[str, object]
) -> int | None:
    """Steps between two records along one attribute, or along several with a joint threshold."""
    declared = [domain.find(name, PolicyError) for name in names]
    first, second = (
        [_code(attribute, record.get(name)) for name, attribute in zip(names, declared, strict=True)]
        for record in (one, two)
    )
    joint = policy.joint_of(names[0])
    if isinstance(joint, Joint):
        codes = {name: (a, b) for name, a, b in zip(names, first, second, strict=True)}
        return _combination_distance(domain, policy, joint, codes)
    if joint is not None:
        return _joint_distance(declared, joint, first, second)
    return _code_distance(policy.graph(domain, names[0]), declared[0], first[0], second[0])


def hidden_distance(domain: Domain, policy: Policy, name: str, one: object, two: object) -> int | None:
    """Steps between two records that differ in one attribute alone, absence counted as a way between them.

    None as well where public constraints tie records together: no number of steps then bounds what is learned of one.
    """
    if changed_constraints(domain, policy):
        return None
    return _past_absence(policy, value_distance(domain, policy, name, one, two))


def _past_absence(policy: Policy, apart: int | None) -> int | None:
    """Both records are joined to absence where that is hidden; with presence "only" there is no other way."""
    if policy.presence == "public" or apart == 0:
        return apart
    return 2 if policy.presence == "only" or apart is None else min(apart, 2)


def _code(attribute: Attribute, value: object) -> int:
    """The code of a raw value, of a declared value by its name, or of a special cell; DomainError for anything else.

    What cannot be read among data counts as NULL; among the values that are compared it must not, as two of them would
    be the same.
    """
    column = np.empty(1, dtype=object)
    column[0] = value
    index, is_null, is_outside = attribute.read(column)
    is_unknown = is_null[0] or (is_outside[0] and isinstance(attribute, Categorical))
    if value is None or not is_unknown:
        return int(attribute.place((index, is_null, is_outside))[0])
    with suppress(DomainError):
        return attribute.locate(value)
    return attribute.code_of(value)


def _code_distance(graph: ValueGraph, attribute: Attribute, first: int, second: int) -> int | None:
    if first == second:
        return 0
    if max(first, second) >= attribute.size:
        return 1 if attribute.has_hidden_cell else None
    direct = graph.distance(first, second)
    if not attribute.has_hidden_cell:
        return direct
    return 2 if direct is None else min(direct, 2)


def finest_axis(attribute: Attribute) -> AxisCells:
    """Every declared value and special cell as a cell of its own."""
    return AxisCells.finest_of(Segments(attribute, np.arange(attribute.size)))


def _joint_distance(declared: Sequence[Attribute], grid: Grid, one: list[int], two: list[int]) -> int | None:
    size = math.prod(attribute.total_size for attribute in declared)
    if size > EDGE_LIMIT:
        raise TooLarge("cells of a joint threshold", size, EDGE_LIMIT, "Ask for coarser bins.")
    axes = [finest_axis(attribute) for attribute in declared]
    graph = project_joint(grid, axes)
    first, second = (
        [int(axis.segments.of(np.array(code))) for axis, code in zip(axes, codes, strict=True)] for codes in (one, two)
    )
    if not isinstance(graph, GridGraph):
        return graph.distance(first[0], second[0])
    if grid.metric == "linf":
        steps = [graph.axis_within(a, graph.theta).distance(first[a], second[a]) for a in range(len(axes))]
        return None if None in steps else max(step for step in steps if step is not None)
    if graph.edge_count_bound > EDGE_LIMIT:
        raise TooLarge("edges of a joint threshold", graph.edge_count_bound, EDGE_LIMIT, "Ask for coarser bins.")
    flat = [int(np.ravel_multi_index(cell, graph.shape)) for cell in (first, second)]
    return steps_between(graph.edges(), graph.size, flat[0], flat[1])


def _combination_distance(
    domain: Domain, policy: Policy, joint: Joint, codes: Mapping[str, tuple[int, int]]
) -> int | None:
    """The most steps between two combinations, whatever the attributes that are not named may be while they stay."""
    axes = {name: finest_axis(domain[name]) for name in joint.attributes}
    shape = [axis.cells for axis in axes.values()]
    cells, groups = meetings(policy.cover(domain, joint), range(len(shape)), list(axes.values()))
    ends = []
    for side in (0, 1):
        places = [
            axis.segments.of(np.array([codes[name][side]])) if name in codes else np.arange(axis.cells)
            for name, axis in axes.items()
        ]
        ends.append(np.ravel_multi_index(np.ix_(*places), shape).reshape(-1))
    if np.array_equal(ends[0], ends[1]):
        return 0
    if ends[0].size * cells.size > PATHS_LIMIT:
        raise TooLarge("paths of a joint graph", ends[0].size * cells.size, PATHS_LIMIT, "Compare whole records.")
    # A step from a combination to another one is two along the groups that they meet.
    edges, size = np.stack([cells, math.prod(shape) + groups], axis=1), math.prod(shape) + int(groups.max()) + 1
    steps = [steps_between(edges, size, one, two) for one, two in zip(*(end.tolist() for end in ends), strict=True)]
    finite = [step // 2 for step in steps if step is not None]
    return max(finite) if len(finite) == len(steps) else None


def joint_parts(domain: Domain, policy: Policy, joint: Joint) -> int:
    """How many parts of the combinations no chain of hidden moves joins, special cells included."""
    domain = policy.applied(domain)
    axes = [finest_axis(domain[name]) for name in joint.attributes]
    cells, groups = meetings(policy.cover(domain, joint), range(len(axes)), axes)
    size = math.prod(axis.cells for axis in axes)
    return int(EdgeGraph(size + int(groups.max()) + 1, np.stack([cells, size + groups], axis=1)).components().max()) + 1


def stretch(attribute: Attribute, old: Family, new: Family) -> int | None:
    """The most old steps between two values that the new graph joins: the factor on what was promised per step.

    0 when the new graph joins nothing, None when it joins values that were not hidden from each other at all.
    """
    if isinstance(new, Public):
        return 0
    if isinstance(old, Public) and attribute.has_hidden_cell:
        return None
    before, after = value_graph(old, attribute), value_graph(new, attribute)
    if isinstance(before, ValueWindow) and isinstance(after, ValueWindow):
        direct = _window_stretch(before, after)
        if not attribute.has_hidden_cell:
            return direct
        return 2 if direct is None else max(1, min(direct, 2))
    if attribute.total_size > STRETCH_LIMIT:
        raise PolicyError(f"graphs this irregular are compared up to {STRETCH_LIMIT:,} values; use cut points")
    return _listed_stretch(project_axis(before, finest_axis(attribute)), project_axis(after, finest_axis(attribute)))


def joint_stretch(declared: Sequence[Attribute], old: Grid, new: Grid) -> int | None:
    """At least as many old steps as lie between two places that the new joint threshold joins; None where not known.

    Exact where the places can be listed. On larger grids of whole numbers a walk from place to place, one number at a
    time and never away from its end, is cut into old steps (proof: docs/proofs/release.md).
    """
    axes = [finest_axis(attribute) for attribute in declared]
    if math.prod(axis.cells for axis in axes) <= STRETCH_LIMIT:
        before, after = project_joint(old, axes), project_joint(new, axes)
        if isinstance(before, GridGraph) and before.size * before.edge_count_bound <= PATHS_LIMIT:
            return _listed_stretch(before, after)
    if old.theta < 1 or not all(isinstance(attribute, Integers) for attribute in declared):
        return None
    step, reach = int(old.theta), int(new.theta)
    if new.metric != "l1" and old.metric != "linf":
        reach = math.isqrt(int(len(axes) * new.theta**2)) if new.metric == "l2" else len(axes) * reach
    return max(1, -(-reach // step))


def _listed_stretch(before: Factor, after: Factor) -> int | None:
    edges = after.edges()
    if edges.shape[0] == 0:
        return 0
    steps = shortest_path(adjacency(before.edges(), before.size), directed=False, unweighted=True)
    worst = float(np.max(steps[edges[:, 0], edges[:, 1]]))
    return None if np.isinf(worst) else int(worst)


def listed_stretch(domain: Domain, names: Sequence[str], old: Policy, new: Policy) -> int | None:
    """The most old steps between two combinations of values of some attributes that a new step joins.

    0 and None as for one attribute. PolicyError where there are too many combinations to compare.
    """
    before, after = (_listed_edges(domain, names, policy) for policy in (old, new))
    size = math.prod(domain[name].total_size for name in names)
    keys = [edges[:, 0] * size + edges[:, 1] for edges in (before, after)]
    beyond = after[~np.isin(keys[1], keys[0])]
    if beyond.size == 0:
        return int(after.size > 0)
    graph = EdgeGraph(size, before)
    labels = graph.components()
    if np.any(labels[beyond[:, 0]] != labels[beyond[:, 1]]):
        return None
    if size * graph.edge_count > PATHS_LIMIT:
        raise PolicyError(f"{', '.join(names)}: there are too many combinations to compare the old graph with the new")
    return _listed_stretch(graph, EdgeGraph(size, beyond))


def _listed_edges(domain: Domain, names: Sequence[str], policy: Policy) -> Ints:
    """The edges of a policy between the combinations of values of some attributes, flattened in the order given."""
    applied = policy.applied(domain)
    layout = {name: finest_axis(applied[name]) for name in names}
    factors = policy.factors(names)
    graphs = tuple(factor_graph(applied, policy, factor, layout) for factor in factors)
    if any(isinstance(graph, Unlisted | UnlistedJoint) for graph in graphs):
        raise PolicyError(f"{', '.join(names)}: there are too many combinations to compare the old graph with the new")
    graph = CellGraph(graphs, policy.composition, np.zeros(1, dtype=np.bool_), "public")
    in_order = [name for factor in factors for name in factor]
    places = dict(zip(in_order, np.unravel_index(graph.value_edges(), graph.shape), strict=True))
    flat = np.ravel_multi_index(tuple(places[name] for name in names), [layout[name].cells for name in names])
    return np.sort(flat, axis=1)


def _window_stretch(old: ValueWindow, new: ValueWindow) -> int | None:
    """Each window's longest edge decides; it is looked for only where one of the two graphs changes its step."""
    if isinstance(old, ClockWindow) or isinstance(new, ClockWindow):
        return _clock_stretch(old, new)
    # Within a run of both the reach of each is constant, or grows by one: the first and the last value decide.
    starts = [np.zeros(1, dtype=np.int64), *(graph.starts for graph in (old, new) if isinstance(graph, ListedWindow))]
    points = distinct(np.concatenate(starts))
    index = distinct(np.concatenate([points, points[points > 0] - 1]))
    target = new.reach(index)
    if isinstance(old, ListedWindow):
        return _most_steps(old, index, target)
    return old.distance(0, int(np.max(target - index)))


def _clock_stretch(old: ValueWindow, new: ValueWindow) -> int | None:
    """Value by value; on long axes by the longest edge, which says at most a little more than is so."""
    if isinstance(old, ClockWindow) and isinstance(new, ClockWindow) and old.same(new):
        return 1
    if new.size <= CLOCK_LIMIT:
        values = np.arange(new.size)
        listed = [ListedWindow(graph.size, values, graph.reach(values)) for graph in (old, new)]
        return _window_stretch(listed[0], listed[1])
    if isinstance(old, ListedWindow):
        return None
    if isinstance(new, ClockWindow):
        new = StepWindow(new.size, new.longest)
    if isinstance(old, ClockWindow):
        old = StepWindow(old.size, old.step)
    return _window_stretch(old, new)


def _most_steps(graph: ListedWindow, first: Ints, last: Ints) -> int | None:
    """The most jumps that lead from first to last or beyond, by doubling; None when some pair cannot be reached."""
    jumps = [graph.ends]
    while len(jumps) < int(graph.ends.size).bit_length():
        jumps.append(jumps[-1][graph.run(jumps[-1])])
    count, place = np.zeros(first.size, dtype=np.int64), first
    for power in reversed(range(len(jumps))):
        ahead = jumps[power][graph.run(place)]
        short = ahead < last
        count = np.where(short, count + 2**power, count)
        place = np.where(short, ahead, place)
    if np.any(graph.reach(place) < last):
        return None
    return int(np.max(count + (place < last)))
