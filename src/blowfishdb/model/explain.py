"""A policy in plain words: what it hides of each attribute, and what releases may tell."""

from __future__ import annotations

from collections.abc import Sequence

from blowfishdb.errors import plural
from blowfishdb.model.arguments import checked
from blowfishdb.model.calendar import Timestamps
from blowfishdb.model.constraint_graph import changed_constraints, is_settled, moves_at_once
from blowfishdb.model.constraints import Constraint, MarginalConstraint, signatures, write_constraint
from blowfishdb.model.distance import joint_parts
from blowfishdb.model.domain import CELL, CLAMP, Attribute, Categorical, Domain
from blowfishdb.model.graphs import EdgeGraph
from blowfishdb.model.numbers import show
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
    show_theta,
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
    return [f"Constraints count what the domain reads, as answers do: {listed(read)}."] if read else []


def constraint_list(constraints: Sequence[Constraint]) -> str:
    """The constraints as they are written, the first few of them."""
    return listed([write_constraint(constraint) for constraint in constraints])


def _price(domain: Domain, policy: Policy, moves: int) -> str:
    changed = listed(list(changed_constraints(domain, policy)))
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


def listed(names: list[str]) -> str:
    """The first few names, and how many more there are."""
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


@checked()
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
