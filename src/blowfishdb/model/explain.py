"""A policy in plain words, and as a graph small enough to look at."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import PolicyError, plural
from blowfishdb.model.calendar import Timestamps
from blowfishdb.model.cells import Cells
from blowfishdb.model.constraint_graph import changed_constraints, is_settled, moves_at_once
from blowfishdb.model.constraints import Constraint, MarginalConstraint, signatures, write_constraint
from blowfishdb.model.distance import joint_parts
from blowfishdb.model.domain import CELL, CLAMP, Attribute, Categorical, Domain
from blowfishdb.model.graphs import CliqueGraph, EdgeGraph, WindowGraph
from blowfishdb.model.numbers import Ints, show
from blowfishdb.model.policy import (
    Custom,
    Family,
    Full,
    Grid,
    Joint,
    Line,
    Partition,
    Person,
    Policy,
    Public,
    Threshold,
    ValueGraph,
    ValueWindow,
    show_theta,
    value_graph,
)

MOST_NAMED = 8


def explain_constraints(domain: Domain, policy: Policy) -> tuple[str, ...]:
    """One sentence or two about the public constraints; CannotCertify where they have no bound."""
    if not policy.constraints:
        return ()
    sentences = [f"Public constraints: {constraint_list(policy.constraints)}. Whoever asks may be told them exactly."]
    moves = moves_at_once(domain, policy)
    if moves is None:
        sentences.append("No hidden change of a record changes a public constraint, so the constraints cost nothing.")
    else:
        sentences.append(_price(domain, policy, moves))
    return (
        *sentences,
        *_as_read(domain, policy.constraints),
        *(note for constraint in policy.constraints for note in _singled_out(constraint)),
    )


def _as_read(domain: Domain, constraints: Sequence[Constraint]) -> list[str]:
    """What constraints count where the domain reads a value as another one: the same cells that answers count."""
    read = []
    for name in signatures(domain, constraints).names:
        attribute = domain[name]
        if attribute.outside != CELL:
            beyond = "the nearest end" if attribute.outside == CLAMP else str(attribute.outside)
            read.append(f"{name} beyond the declared values as {beyond}")
        if attribute.null != CELL:
            read.append(f"{name} NULL as {attribute.null}")
    return [f"Constraints count what the domain reads, as answers do: {_listed(read)}."] if read else []


def constraint_list(constraints: Sequence[Constraint]) -> str:
    """The constraints as they are written, the first few of them."""
    return _listed([write_constraint(constraint) for constraint in constraints])


def _price(domain: Domain, policy: Policy, moves: int) -> str:
    changed = _listed(list(changed_constraints(domain, policy)))
    if is_settled(domain, policy):
        how = "one in each of the parts into which the constraints split the records (atoms)"
    else:
        how = "because the constraints overlap (Graver bound)"
    return (
        f"A hidden change of one record changes {changed}, so other records must make up for it: up to {moves:,} "
        f"records change together, {how}. Every loss is summed over them, and any two values count as one step apart: "
        "thresholds and partitions save nothing here, and a histogram of the same accuracy costs up to "
        f"{moves:,} times the epsilon that it costs without these constraints."
    )


def _singled_out(constraint: Constraint) -> list[str]:
    if isinstance(constraint, MarginalConstraint):
        alone = sum(count == 1 for _, count in constraint.values or ())
        who = "one combination has" if alone == 1 else f"{alone:,} combinations have each"
        return (
            [f"{write_constraint(constraint)}: {who} a single record; who is known to be it has no secret there."]
            if alone
            else []
        )
    if constraint.value != 1:
        return []
    return [f"{write_constraint(constraint)} singles out one record: who is known to be it has no secret about that."]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return f"{'; '.join(names[:MOST_NAMED])}{more}"


TIED = "any two values count as one step apart, whatever is declared of them, because of the public constraints below."
METRICS = {"l1": "added up over the attributes", "l2": "in a straight line", "linf": "in each attribute"}
PRESENCE = {
    "public": "The number of rows is public, and so is whether somebody's row is in the table.",
    "secret": "Whether a record is there is hidden as well, which puts any two records at most 2 steps apart.",
    "only": "Whether a record is there is hidden: two tables that differ in one record look alike.",
}


ANY_TWO = "any two values are hidden from each other."
ONLY = (
    "its values are hidden as far as whether the record is there, whatever is declared of them: any two can be told "
    "apart with odds up to e^(2 epsilon)."
)
"""What presence "only" hides about every attribute."""


def explain(domain: Domain, policy: Policy) -> tuple[str, ...]:
    """One sentence or two per attribute, then what holds for whole records, for presence, people and constraints."""
    policy.check(domain)
    domain = policy.applied(domain)
    is_tied = bool(policy.constraints) and moves_at_once(domain, policy) is not None
    joint = () if is_tied or policy.presence == "only" else policy.joint
    sentences = [_joint(domain, graph, policy) for graph in joint]
    for name in domain:
        if is_tied and not isinstance(policy.family(name), Public):
            sentences.append(f"{name}: {TIED}")
            continue
        if policy.presence == "only":
            sentences.append(f"{name}: {ONLY}")
        elif policy.joint_of(name) is None:
            sentences.append(f"{name}: {_family(domain, policy, name)}")
        sentences.extend(f"{name}: {note}" for note in _special(domain[name], policy, name))
    sentences += [_composition(domain, policy), PRESENCE[policy.presence], _unit(policy)]
    return (*sentences, *explain_constraints(domain, policy))


def _joint(domain: Domain, grid: Grid | Joint, policy: Policy) -> str:
    names = " and ".join(grid.attributes)
    if isinstance(grid, Joint):
        return f"{names}: {_listed_joint(domain, grid, policy)}"
    far = (
        "places k steps of that length apart can be told apart with odds up to e^(k epsilon)."
        if policy.presence == "public"
        else "all others can be told apart with odds up to e^(2 epsilon)."
    )
    return (
        f"{names}: places at most {show(grid.theta)} apart, {METRICS[grid.metric]}, are hidden from each other; {far}"
    )


def _listed_joint(domain: Domain, joint: Joint, policy: Policy) -> str:
    if isinstance(joint.family, Partition):
        within = f"combinations within each of {plural(len(joint.groups), 'block')}"
    else:
        within = f"exactly {plural(len(joint.groups), 'listed pair')} of combinations"
    sentence = f"{within} are hidden from each other."
    if policy.presence != "public":
        return f"{sentence} Any two combinations can be told apart with odds up to e^(2 epsilon)."
    parts = joint_parts(domain, policy, joint)
    if parts == 1:
        return f"{sentence} Combinations k steps apart can be told apart with odds up to e^(k epsilon)."
    return (
        f"{sentence} There are {parts:,} parts that no path joins; which part a record is in is not hidden, and the "
        "counts of the parts may be released exactly."
    )


def _family(domain: Domain, policy: Policy, name: str) -> str:
    family: Family = policy.family(name)
    attribute = domain[name]
    if isinstance(family, Full):
        return ANY_TWO
    if isinstance(family, Public) and policy.presence == "public":
        return "nothing is hidden; counts by its values may be released exactly."
    if isinstance(family, Public):
        return (
            "its values are hidden as far as whether the record is there: they can be told apart with odds up to "
            "e^(2 epsilon), and counts by them are not released exactly."
        )
    if isinstance(family, Line):
        return f"each value is hidden from the next one. {_far(domain, policy, name)}"
    if isinstance(family, Threshold):
        near = show_theta(family.theta)
        sentence = f"values at most {near} apart are hidden from each other. {_far(domain, policy, name)}"
        return f"{sentence} {_apart(attribute)}" if isinstance(attribute, Timestamps) else sentence
    if isinstance(family, Partition):
        count = len(family.blocks) or len(family.cuts) + 1
        if count == 1:
            return ANY_TWO
        sentence = f"values within each of {count:,} blocks are hidden from each other"
        if attribute.has_hidden_cell or policy.presence != "public":
            return f"{sentence}; blocks can be told apart with odds up to e^(2 epsilon)."
        return f"{sentence}; which block a record is in is not hidden, and the blocks' counts may be released exactly."
    return _custom(family, policy, domain, name)


def _far(domain: Domain, policy: Policy, name: str) -> str:
    attribute = domain[name]
    graph = policy.graph(domain, name)
    steps = graph.distance(0, attribute.size - 1)
    if policy.presence != "public":
        return "Any two values can be told apart with odds up to e^(2 epsilon)."
    if steps is None or steps <= 1 or attribute.has_hidden_cell:
        return "Values k steps apart can be told apart with odds up to e^(k epsilon)."
    return (
        f"The lowest and the highest value are {steps:,} steps apart: an observer's odds between values k steps apart "
        "may change by up to e^(k epsilon)."
    )


def _apart(attribute: Timestamps) -> str:
    """What a distance between timestamps is."""
    if attribute.zone == "UTC":
        return (
            "Timestamps without a zone are taken as UTC: if they are local times of a place that has summer time, "
            "declare its zone, or times next to each other around a change of the clock are not hidden."
        )
    return (
        f"Apart is the time that passes, or the difference of what the clock shows in {attribute.zone} if that is "
        "less; a time that the clock shows twice, or skips, is as near as any of its readings."
    )


def _custom(family: Custom, policy: Policy, domain: Domain, name: str) -> str:
    graph = policy.graph(domain, name)
    sentence = f"exactly the listed pairs of values ({len(family.edges):,}) are hidden from each other."
    if isinstance(graph, EdgeGraph):
        parts = int(graph.components().max()) + 1
        if parts > 1 and policy.presence != "public":
            sentence += " Any two values can be told apart with odds up to e^(2 epsilon)."
        elif parts > 1 and not domain[name].has_hidden_cell:
            sentence += (
                f" The pairs leave {parts:,} groups that no path joins; which group a record is in is not hidden."
            )
    return sentence


def _special(attribute: Attribute, policy: Policy, name: str) -> list[str]:
    sentences = []
    for slot in attribute.slots:
        if policy.presence == "only":
            continue
        if slot.public and policy.presence != "public":
            sentences.append(f"{slot.name} is hidden as far as whether the record is there, and among no values.")
        elif slot.public:
            sentences.append(f"{slot.name} is public: how many records have it may be released exactly.")
        elif isinstance(policy.joint_of(name), Joint):
            sentences.append(
                f"{slot.name} stands for any value: it is hidden among all of them, the other attributes staying, and "
                "joins whatever they are joined to."
            )
        elif not isinstance(policy.family(name), Full) or policy.joint_of(name) is not None:
            sentences.append(
                f"{slot.name} is hidden among all values, which puts any two values at most 2 steps apart and makes "
                "ordered plans expensive; count it as a value, or declare it public, if that is not wanted."
            )
    if attribute.outside == "clamp" and not isinstance(attribute, Categorical):
        sentences.append("values beyond the declared ends count as the ends, and are protected as the ends are.")
    return sentences


def _composition(domain: Domain, policy: Policy) -> str:
    hidden = [name for name in domain if not isinstance(policy.family(name), Public)]
    count = len(policy.factors(hidden))
    if policy.presence == "only":
        return "Changes of values are not protected as such: only whether a record is there."
    if not hidden:
        return "No change of a value is hidden."
    if policy.composition == "record" or count == 1:
        if all(_is_hidden_wholly(domain[name], policy, name) for name in domain):
            return "A record may change in every attribute at once: this is differential privacy on the whole record."
        return "A record may change in every hidden attribute at once, each by one step."
    times = count if policy.presence == "public" else min(count, 2)
    return (
        f"Only one attribute of a record changes at a time: with attribute composition over {count} hidden attributes "
        f"one step in each of them costs up to {times} times epsilon; even full() everywhere is then not differential "
        "privacy."
    )


def _is_hidden_wholly(attribute: Attribute, policy: Policy, name: str) -> bool:
    """Whether any two values are one step apart, NULL and outside included."""
    is_full = isinstance(policy.family(name), Full) and policy.joint_of(name) is None
    return is_full and not any(slot.public for slot in attribute.slots)


def _unit(policy: Policy) -> str:
    if isinstance(policy.unit, Person):
        most = policy.unit.at_most
        times = f", and in answers about rows every loss is multiplied by {most:,}" if most > 1 else ""
        return (
            f"All rows of one {policy.unit.id} are protected together: at most {plural(most, 'row')} of each "
            f"{'counts' if most == 1 else 'count'}, the first in the order of {policy.unit.order_by}{times}. "
            "Nobody can opt out of secrecy."
        )
    return "Each record is protected on its own: somebody with several records is protected less. Nobody can opt out."


MOST_SHOWN = 24
LISTED_LIMIT = 2**22
"""Parts are counted value by value up to this many values."""


@dataclass(frozen=True, eq=False)
class GraphView:
    """Values first .. first + len(labels) - 1 of an attribute of `size` values, and the hidden moves among them.

    `parts` numbers the connected parts of the whole graph, None where they were not counted; `part_of` tells the
    part of each shown value. `universal` are special cells one step from every value, `apart` those joined to none.
    With `is_absence_hidden` a record that is not there is one step from every value and special cell.
    """

    name: str
    size: int
    first: int
    labels: tuple[str, ...]
    pairs: Ints
    part_of: tuple[int, ...]
    parts: int | None
    ordered: bool
    universal: tuple[str, ...]
    apart: tuple[str, ...]
    is_absence_hidden: bool = False

    @property
    def is_joined(self) -> bool:
        """Whether something is one step from every value."""
        return bool(self.universal) or self.is_absence_hidden

    @property
    def is_whole(self) -> bool:
        """Whether every value is shown."""
        return len(self.labels) == self.size

    def warnings(self) -> tuple[str, ...]:
        """What somebody who draws such a graph should notice."""
        sentences = []
        if self.parts is not None and self.parts > 1 and not self.is_joined:
            single = " (every value on its own: nothing is hidden)" if self.parts == self.size else ""
            sentences.append(
                f"{self.name} falls into {self.parts:,} parts that no chain of hidden moves joins{single}. Which part "
                "a record is in is not hidden, and the counts of the parts may be released exactly."
            )
        alone = sum(1 for value in range(len(self.labels)) if value not in self.pairs)
        if self.is_whole and 0 < alone < len(self.labels) and not self.is_joined:
            have = "has" if alone == 1 else "have"
            sentences.append(f"{alone:,} of {plural(self.size, 'value')} {have} no hidden move at all.")
        return tuple(sentences)


def view_graph(domain: Domain, policy: Policy, name: str, around: object = None, most: int = MOST_SHOWN) -> GraphView:
    """The graph of one attribute; of more than `most` values those around the given one, or around the middle."""
    policy.check(domain)
    attribute = policy.applied(domain).find(name, PolicyError)
    if not 2 <= most <= 200:
        raise PolicyError("a picture shows 2 to 200 values")
    graph = _graph(policy, attribute, domain, name)
    centre = attribute.size // 2 if around is None else attribute.locate(around)
    first = min(max(centre - most // 2, 0), max(attribute.size - most, 0))
    stop = min(first + most, attribute.size)
    labels = tuple(attribute.run_label(place, place) for place in range(first, stop))
    if policy.presence == "only":
        # Nothing but absence is hidden, so no value is joined to another one.
        graph = value_graph(Public(), attribute)
    part_of, parts = _parts(graph, first, stop)
    is_universal = [not slot.public and policy.presence != "only" for slot in attribute.slots]
    return GraphView(
        name=name,
        size=attribute.size,
        first=first,
        labels=labels,
        pairs=_pairs(graph, first, stop),
        part_of=part_of,
        parts=parts,
        ordered=attribute.ordered,
        universal=tuple(slot.name for slot, joined in zip(attribute.slots, is_universal, strict=True) if joined),
        apart=tuple(slot.name for slot, joined in zip(attribute.slots, is_universal, strict=True) if not joined),
        is_absence_hidden=policy.presence != "public",
    )


def _graph(policy: Policy, attribute: Attribute, domain: Domain, name: str) -> ValueGraph:
    """The attribute's own graph; of a joint threshold what it hides along this attribute, the others staying."""
    joint = policy.joint_of(name)
    if isinstance(joint, Joint):
        raise PolicyError(f"{joint.words} are hidden together: look at their common graph")
    if joint is None:
        return policy.graph(domain, name)
    return value_graph(policy.axis_family(attribute, name), attribute)


def _pairs(graph: ValueGraph, first: int, stop: int) -> Ints:
    """The edges among the shown values, numbered from the first one."""
    if isinstance(graph, ValueWindow):
        reach = np.minimum(graph.reach(np.arange(first, stop)), stop - 1) - first
        return WindowGraph(reach, np.empty(0, dtype=np.int64)).edges()
    if isinstance(graph, CliqueGraph):
        return CliqueGraph(graph.labels[first:stop]).edges()
    inside = np.all((graph.pairs >= first) & (graph.pairs < stop), axis=1)
    return np.asarray(graph.pairs[inside] - first, dtype=np.int64)


def _parts(graph: ValueGraph, first: int, stop: int) -> tuple[tuple[int, ...], int | None]:
    """The connected part of each shown value, and how many there are."""
    index = np.arange(first, stop)
    if isinstance(graph, ValueWindow):
        return tuple(graph.part_of(index).tolist()), graph.part_count
    if graph.size > LISTED_LIMIT:
        return (0,) * index.size, None
    labels = graph.components()
    return tuple(labels[index].tolist()), int(labels.max()) + 1


WINDOW = (6, 7)
"""Groups of the first and of the second attribute that a picture of both shows at most; special cells come on top."""


@dataclass(frozen=True, eq=False)
class CellsView:
    """Some cells of a question about one or two attributes, row-major, and the hidden moves among them.

    `sizes` are the numbers of all cells along each axis and `labels` those that are shown. `part_of` numbers the
    connected parts, of which there are `parts`; ZERO is the part of rows that no cell counts, and `leaving` are the
    cells from which a hidden move leads to such a row.
    """

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    labels: tuple[tuple[str, ...], ...]
    pairs: Ints
    part_of: tuple[int, ...]
    parts: int
    leaving: tuple[bool, ...]
    is_absence_hidden: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Each shown cell, as people call it."""
        return tuple(", ".join(place) for place in itertools.product(*self.labels))

    @property
    def is_whole(self) -> bool:
        """Whether every cell is shown."""
        return self.sizes == tuple(map(len, self.labels))

    @property
    def is_all_of_parts(self) -> bool:
        """Whether any two shown cells of one part are joined."""
        counts = Counter(self.part_of).values()
        return len(self.pairs) == sum(count * (count - 1) // 2 for count in counts)

    def neighbours(self) -> tuple[tuple[str, str], ...]:
        """Each shown cell with those that it is hidden from, in words."""
        names, near = self.names, [list[str]() for _ in self.part_of]
        for one, two in self.pairs.tolist():
            near[one].append(names[two])
            near[two].append(names[one])
        for place, leaves in enumerate(self.leaving):
            near[place] += ["rows that are not counted"] if leaves else []
        return tuple(
            (name, "nothing" if not words else _listed(words)) for name, words in zip(names, near, strict=True)
        )

    def words(self) -> tuple[str, ...]:
        """What the picture shows and what it means."""
        shown = " by ".join(
            f"{'all' if len(labels) == size else f'{len(labels)} of'} {plural(size, 'group')} of {name}"
            for name, size, labels in zip(self.axes, self.sizes, self.labels, strict=True)
        )
        sentences = [f"{shown}, {plural(len(self.pairs), 'hidden move')} among them."]
        if self.parts > 1 and not self.is_absence_hidden:
            sentences.append(
                f"{self.parts:,} parts that no chain of hidden moves joins: which part a record is in is not hidden."
            )
        if any(self.leaving):
            sentences.append("Dashed: a hidden move leads from there to a row that the question does not count.")
        if self.is_absence_hidden:
            sentences.append("A record that is not there is one step from all of them.")
        return tuple(sentences)


def view_cells(cells: Cells) -> CellsView:
    """The policy graph projected on a question about one or two attributes, as much of it as can be looked at."""
    if not 1 <= len(cells.axes) <= len(WINDOW):
        raise PolicyError("a picture is about one or two attributes")
    graph, shape = cells.graph, cells.graph.shape
    windows = (MOST_SHOWN,) if len(shape) == 1 else WINDOW
    places = []
    for plain, size, most in zip(cells.plain, shape, windows, strict=True):
        first = max(0, (plain - most) // 2)
        places.append(np.append(np.arange(first, min(first + most, plain)), np.arange(plain, size)))
    flat = np.ravel_multi_index(np.ix_(*places), shape).reshape(-1)
    one, two = np.triu_indices(flat.size, k=1)
    labels = graph.components()
    return CellsView(
        axes=cells.axes,
        sizes=shape,
        labels=tuple(tuple(names[int(p)] for p in shown) for names, shown in zip(cells.labels, places, strict=True)),
        pairs=np.stack([one, two], axis=1)[graph.joined(flat[one], flat[two])],
        part_of=tuple(labels[flat].tolist()),
        parts=int(np.unique(labels).size),
        leaving=tuple(graph.outside[flat].tolist()),
        is_absence_hidden=graph.presence != "public",
    )


def not_protected(domain: Domain, policy: Policy) -> tuple[str, ...]:
    """One sentence for each thing that releases may tell; empty when everything is hidden."""
    sentences = []
    if policy.presence == "only":
        sentences.append("Which of two values a record has is protected only as far as whether it is there.")
    elif policy.presence == "public":
        sentences += [sentence for graph in policy.joint for sentence in _joint_told(domain, policy, graph)]
    for name in domain:
        sentences += [] if policy.presence == "only" else _attribute(domain, policy, name)
    hidden = [name for name in domain if not isinstance(policy.family(name), Public)]
    if policy.composition == "attribute" and policy.presence != "only" and len(policy.factors(hidden)) > 1:
        sentences.append("Several attributes of one record together are protected less than each one alone.")
    unit = policy.unit
    if isinstance(unit, Person) and policy.presence == "public":
        sentences.append(
            f"How many rows there are, whose they are, how many of each {unit.id}'s count (up to {unit.at_most}), and "
            f"the {unit.order_by} by which the first are taken."
        )
    elif policy.presence == "public":
        sentences.append("How many rows there are, and whether somebody's row is among them.")
    if not isinstance(unit, Person):
        sentences.append("Somebody with several records is protected less: each counts on its own.")
    if policy.constraints:
        sentences.append(f"What is declared public: {constraint_list(policy.constraints)}.")
    return tuple(sentences)


def _joint_told(domain: Domain, policy: Policy, graph: Grid | Joint) -> list[str]:
    names = " and ".join(graph.attributes)
    if isinstance(graph, Grid):
        return [f"Roughly where {names} lie: places many steps apart can be told apart."]
    parts = joint_parts(domain, policy, graph)
    if parts > 1:
        return [f"In which of {parts:,} parts {names} lie together: the graph joins no part to another one."]
    return [f"Roughly what {names} are together: combinations many steps apart can be told apart."]


def _attribute(domain: Domain, policy: Policy, name: str) -> list[str]:
    family, attribute = policy.family(name), domain[name]
    if policy.presence != "public":
        # Any two records are at most two steps apart, past absence.
        by_presence = f"Which {name} a record has is protected only as far as whether it is there."
        return [by_presence] if isinstance(family, Public) else []
    slots = [] if isinstance(family, Public) else [slot.name for slot in attribute.slots if slot.public]
    special = [f"Whether {name} is {' or '.join(slots)}."] if slots else []
    return special + ([] if policy.joint_of(name) is not None else _values_told(domain, policy, name))


def _values_told(domain: Domain, policy: Policy, name: str) -> list[str]:
    """What releases may tell of the declared values of an attribute, where presence is public."""
    family, attribute = policy.family(name), domain[name]
    is_universal = attribute.has_hidden_cell
    match family:
        case Full():
            return []
        case Public():
            return [f"Everything about {name}."]
        case Line() | Threshold():
            if is_universal or policy.graph(domain, name).distance(0, attribute.size - 1) in (0, 1):
                return []
            return [f"Roughly how large {name} is: values many steps apart can be told apart."]
        case Partition():
            is_one = len(family.blocks) == 1
            return [] if is_universal or is_one else [f"Which block of {name} a record is in."]
        case Custom():
            apart = f"Values of {name} that no listed pair joins, or only a long chain of them."
            return [] if is_universal else [apart]
