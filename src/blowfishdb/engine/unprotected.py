"""What a policy does not hide, in words: for previews, and for the note under a figure."""

from __future__ import annotations

from blowfishdb.model.constraints.words import fact_list
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs.families import Custom, Full, Line, Partition, Public, Threshold
from blowfishdb.model.policy import Person, Policy


def not_protected(domain: Domain, policy: Policy) -> tuple[str, ...]:
    """One sentence for each thing that releases may tell; empty when everything is hidden."""
    said = [_grid(grid.attributes) for grid in policy.joint]
    if policy.presence == "only":
        said.append("Which of two values a record has is protected only as far as whether it is there.")
    for name in domain:
        if policy.grid_of(name) is None:
            said += _attribute(domain, policy, name)
    if policy.composition == "attribute":
        said.append("Several attributes of one record together are protected less than each one alone.")
    unit = policy.unit
    if isinstance(unit, Person) and policy.presence == "public":
        said.append(
            f"How many rows there are, whose they are, how many of each {unit.id}'s count (up to {unit.at_most}), and "
            f"the {unit.order_by} by which the first are taken."
        )
    elif policy.presence == "public":
        said.append("How many rows there are, and whether somebody's row is among them.")
    if not isinstance(unit, Person):
        said.append("Somebody with several rows is protected less: each row counts on its own.")
    if policy.facts:
        said.append(f"What is declared public: {fact_list(policy.facts)}.")
    return tuple(said)


def _grid(attributes: tuple[str, ...]) -> str:
    names = " and ".join(attributes)
    return f"Roughly where {names} lie: places many steps apart can be told apart."


def _attribute(domain: Domain, policy: Policy, name: str) -> list[str]:
    family, attribute = policy.family(name), domain[name]
    is_hub = any(not slot.public for slot in attribute.slots)
    match family:
        case Full():
            return []
        case Public():
            return [f"Everything about {name}."]
        case Line() | Threshold():
            if is_hub or policy.graph(domain, name).distance(0, attribute.size - 1) in (0, 1):
                return []
            return [f"Roughly how large {name} is: values many steps apart can be told apart."]
        case Partition():
            return [] if is_hub else [f"Which block of {name} a record is in."]
        case Custom():
            return [f"Values of {name} that no listed pair joins, or only a long chain of them."]
