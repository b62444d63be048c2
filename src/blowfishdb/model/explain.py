"""A policy in plain words: what it hides, what it does not, and what that costs."""

from __future__ import annotations

from blowfishdb.model.constraints.words import explain_facts
from blowfishdb.model.domain import Attribute, Categorical, Domain, Timestamps
from blowfishdb.model.graphs.explicit import EdgeGraph
from blowfishdb.model.graphs.families import Custom, Family, Full, Grid, Line, Partition, Public, Threshold, show_theta
from blowfishdb.model.numbers import show
from blowfishdb.model.policy import Person, Policy

METRICS = {"l1": "added up over the attributes", "l2": "in straight line", "linf": "in each attribute"}


def explain(domain: Domain, policy: Policy) -> tuple[str, ...]:
    """One sentence or two per attribute, then what holds for whole records, for presence, people and facts."""
    policy.check(domain)
    domain = policy.applied(domain)
    said = [_grid(grid) for grid in policy.joint]
    for name in domain:
        if policy.grid_of(name) is None:
            said.append(f"{name}: {_family(domain, policy, name)}")
        said.extend(f"{name}: {note}" for note in _special(domain[name], policy, name))
    said.append(_composition(domain, policy))
    said.append(_presence(policy))
    said.append(_unit(policy))
    return (*said, *explain_facts(domain, policy))


def _grid(grid: Grid) -> str:
    names = " and ".join(grid.attributes)
    return (
        f"{names}: places at most {show(grid.theta)} apart, {METRICS[grid.metric]}, are hidden from each other; "
        "places k steps of that length apart can be told apart with odds up to e^(k epsilon)."
    )


def _family(domain: Domain, policy: Policy, name: str) -> str:
    family: Family = policy.family(name)
    attribute = domain[name]
    if isinstance(family, Full):
        return "any two values are hidden from each other."
    if isinstance(family, Public):
        return "nothing is hidden; counts by its values may be released exactly."
    if isinstance(family, Line):
        return f"each value is hidden from the next one. {_far(domain, policy, name)}"
    if isinstance(family, Threshold):
        near = show_theta(family.theta)
        said = f"values at most {near} apart are hidden from each other. {_far(domain, policy, name)}"
        return f"{said} {_apart(attribute)}" if isinstance(attribute, Timestamps) else said
    if isinstance(family, Partition):
        count = len(family.blocks) or len(family.cuts) + 1
        said = f"values within each of {count} blocks are hidden from each other"
        if _has_hubs(attribute):
            return f"{said}; blocks can be told apart with odds up to e^(2 epsilon)."
        return f"{said}; which block a record is in is not hidden, and the blocks' counts may be released exactly."
    return _custom(family, policy, domain, name)


def _has_hubs(attribute: Attribute) -> bool:
    """Whether some special cell is hidden among all values, and so brings them within two steps."""
    return any(not slot.public for slot in attribute.slots)


def _far(domain: Domain, policy: Policy, name: str) -> str:
    attribute = domain[name]
    graph = policy.graph(domain, name)
    steps = graph.distance(0, attribute.size - 1)
    if steps is None or steps <= 1 or _has_hubs(attribute):
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
    said = f"exactly the listed pairs of values ({len(family.edges)}) are hidden from each other."
    if isinstance(graph, EdgeGraph):
        parts = int(graph.components().max()) + 1
        if parts > 1 and not _has_hubs(domain[name]):
            said += f" The pairs leave {parts:,} groups that no path joins; which group a record is in is not hidden."
    return said


def _special(attribute: Attribute, policy: Policy, name: str) -> list[str]:
    said = []
    for slot in attribute.slots:
        if slot.public:
            said.append(f"{slot.name} is public: how many records have it may be released exactly.")
        elif not isinstance(policy.family(name), Full) or policy.grid_of(name) is not None:
            said.append(
                f"{slot.name} is hidden among all values, which puts any two values at most 2 steps apart and makes "
                "ordered plans dear; count it as a value, or declare it public, if that is not wanted."
            )
    if attribute.outside == "clamp" and not isinstance(attribute, Categorical):
        said.append("values beyond the declared ends count as the ends, and are protected as the ends are.")
    return said


def _composition(domain: Domain, policy: Policy) -> str:
    hidden = [name for name in domain if not isinstance(policy.family(name), Public)]
    count = len(policy.factors(hidden))
    if policy.presence == "only":
        return "Changes of values are not protected as such: only whether a record is there."
    if policy.composition == "record":
        if all(isinstance(policy.family(name), Full) and policy.grid_of(name) is None for name in domain):
            return "A record may change in every attribute at once: this is differential privacy on the whole record."
        return "A record may change in every attribute at once, each by one step."
    return (
        f"Only one attribute of a record changes at a time: with attribute composition over {count} hidden attributes "
        f"a whole record costs up to {count} times epsilon; even full() everywhere is then not differential privacy."
    )


def _presence(policy: Policy) -> str:
    if policy.presence == "public":
        return "The number of rows is public, and so is whether somebody's row is in the table."
    if policy.presence == "secret":
        return "Whether a record is there is hidden as well, which puts any two records at most 2 steps apart."
    return "Whether a record is there is hidden: two tables that differ in one record look alike."


def _unit(policy: Policy) -> str:
    if isinstance(policy.unit, Person):
        return (
            f"All rows of one {policy.unit.id} are protected together: at most {policy.unit.at_most} rows count, the "
            f"first in the order of {policy.unit.order_by}, and every loss is multiplied by {policy.unit.at_most}. "
            "Nobody can opt out of secrecy."
        )
    return "Each row is protected on its own: somebody with several rows is protected less. Nobody can opt out."
