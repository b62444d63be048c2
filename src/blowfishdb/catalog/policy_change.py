"""Stretch: the exact factor by which a change of policy or domain multiplies past loss, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from blowfishdb.catalog.dataset import Dataset
from blowfishdb.errors import CannotCertify, PolicyError, TooLarge, plural
from blowfishdb.model.constraint_graph import moves_at_once
from blowfishdb.model.constraints import without_values
from blowfishdb.model.distance import joint_stretch, listed_stretch
from blowfishdb.model.distance import stretch as attribute_stretch
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Grid, Joint, Person, Policy


@dataclass(frozen=True)
class Stretch:
    """The most old steps that one new step makes; `factor` is None when no number of steps does, and `why` says so.

    Past loss on a new edge is at most `factor` times what was charged (proof: docs/proofs/release.md).
    """

    factor: Fraction | None
    why: str


def policy_stretch(domain: Domain, old: Policy, new: Policy) -> Stretch:
    """What happens to past loss when the policy changes and the domain stays."""
    unit = _unit_refusal(old, new)
    if unit is not None:
        return Stretch(None, unit)
    constraints, giving_way = _constraints_stretch(domain, old, new), _giving_way(old, new)
    if constraints is not None:
        first = "change first whose rows count, then the public constraints"
        return Stretch(None, first) if giving_way > 1 else constraints
    stretch = _plain_stretch(domain, old, new)
    if stretch.factor is not None and stretch.factor < giving_way:
        return Stretch(giving_way, "a row that vanishes on its own made way for other rows of the same person")
    return stretch


def with_past_attributes(domain: Domain, past: Iterable[Domain]) -> Domain:
    """The domain and whatever attributes past releases looked at that it no longer has: they moved as well."""
    declared = dict(domain.attributes)
    for one in past:
        for name, attribute in one.attributes:
            declared.setdefault(name, attribute)
    return Domain(tuple(declared.items()))


def _giving_way(old: Policy, new: Policy) -> Fraction:
    """What a row that vanishes on its own did to the rows of its person that counted, relative to what was paid for.

    It leaves, and up to k rows with one key that did not fit before come in: k + 1 steps, of which k were paid for. A
    count of people by their rows has one person less in one place and one more in another: 2 steps, of which 1 was.
    """
    if not isinstance(old.unit, Person) or isinstance(new.unit, Person) or new.presence == "public":
        return Fraction(1)
    return max(Fraction(old.unit.at_most + 1, old.unit.at_most), Fraction(2))


def _plain_stretch(domain: Domain, old: Policy, new: Policy) -> Stretch:
    if new.presence != "public" and old.presence == "public":
        return Stretch(None, "presence was public, and past releases may have told who is there")
    if old.presence == "only":
        return Stretch(Fraction(1 if new.presence == "only" else 2), "any two records were two steps apart")
    if new.presence == "only":
        return Stretch(Fraction(1), "only presence is hidden from now on, and it was hidden before")
    values = _value_stretch(domain, old, new)
    if old.presence == "secret":
        # Absence joins any two records by two steps, whatever their values.
        return Stretch(Fraction(2) if values.factor is None else min(values.factor, Fraction(2)), values.why)
    return values


def _constraints_stretch(domain: Domain, old: Policy, new: Policy) -> Stretch | None:
    """What public constraints make of past loss; None where no hidden move changed one before, or does from now on.

    Proof: docs/proofs/constraints.md, last section.
    """
    try:
        before = moves_at_once(domain, old)
    except (PolicyError, CannotCertify) as refusal:
        return Stretch(None, f"what was released so far has no bound under its own public constraints: {refusal}")
    after = moves_at_once(domain, new)
    if before is None and after is None:
        return None
    if before is None:
        everything = Policy(presence="public" if new.presence == "public" else "secret", unit=old.unit)
        steps = policy_stretch(domain, replace(old, constraints=()), everything)
        if after is None or steps.factor is None:
            return Stretch(None, f"public constraints now make records change together by any step; {steps.why}")
        records = plural(after, "record")
        return Stretch(steps.factor * after, f"up to {records} change together under the new constraints")
    if {without_values(constraint) for constraint in old.constraints} != {
        without_values(constraint) for constraint in new.constraints
    }:
        return Stretch(None, "past releases were priced for other public constraints, and may have told those exactly")
    if new.presence != "public" and old.presence == "public":
        return Stretch(None, "presence was public, and past releases may have told who is there")
    if after is not None and after > before:
        # Losses are sums over so many moves, the most expensive first: they grow no faster than the number of moves.
        return Stretch(Fraction(after, before), f"up to {after:,} records change together, and {before:,} did before")
    return Stretch(Fraction(1), "the same public constraints tied the same records together before")


def domain_stretch(old: Dataset, new: Dataset) -> Stretch:
    """What happens to past loss when the domain changes: nothing where attributes only come or go."""
    for name in new.domain:
        if name in old.domain and old.domain[name] != new.domain[name]:
            return Stretch(None, f"{name} is declared in another way, so old and new cells cannot be compared")
    origins = [{name: _origin(dataset, name) for name in dataset.domain} for dataset in (old, new)]
    for name in new.domain:
        if name in old.domain and origins[0][name] != origins[1][name]:
            return Stretch(None, f"{name} is joined in another way, so old and new values cannot be compared")
    return Stretch(Fraction(1), "no past release looked at an attribute that is new")


def _origin(dataset: Dataset, name: str) -> object:
    for join in dataset.joins:
        if name in join.attributes:
            return join.table, join.foreign_key, join.key, join.attributes[name], _origin(dataset, join.foreign_key)
    return None


def _unit_refusal(old: Policy, new: Policy) -> str | None:
    """Why past loss per unit says nothing about the new unit; None when a new unit is part of an old one."""
    if not isinstance(new.unit, Person):
        return None
    if not isinstance(old.unit, Person):
        return "each row was protected on its own, and past releases counted all rows of a person"
    if (old.unit.id, old.unit.order_by) != (new.unit.id, new.unit.order_by):
        return "people were told apart by another column, or their rows counted in another order"
    return None


NEVER_FURTHER = "no pair of values moves further apart"
BALLS = ("l1", "l2", "linf")
"""Metrics; the ball of each lies inside that of the same radius of the next."""


def _value_stretch(domain: Domain, old: Policy, new: Policy) -> Stretch:
    """The most old steps along values that one new step makes; of a joint threshold, attribute by attribute."""
    steps, worst = dict[str, int](), NEVER_FURTHER
    units = _listed_together(domain, old, new)
    for names in units:
        try:
            count = listed_stretch(domain, names, old, new)
        except (PolicyError, TooLarge) as error:
            return Stretch(None, str(error))
        if count is None:
            return Stretch(None, f"{', '.join(names)}: combinations that were not hidden would be hidden now")
        if count > 1:
            worst = f"{', '.join(names)}: combinations one new step apart were {count} old steps apart"
        units[names] = count
    unit_of = {name: names for names in units for name in names}
    for name in domain:
        if name in unit_of or _hides_less(old.joint_of(name), new.joint_of(name)):
            continue
        attribute = domain[name]
        try:
            count = attribute_stretch(attribute, old.axis_family(attribute, name), new.axis_family(attribute, name))
        except PolicyError as error:
            return Stretch(None, f"{name}: {error}")
        if count is None:
            return Stretch(None, f"{name}: values that were not hidden from each other would be hidden now")
        if count > max(1, *steps.values(), 1):
            worst = f"{name}: values one new step apart were {count} old steps apart"
        steps[name] = count

    def old_steps(moved: Sequence[str]) -> int:
        costs = [units[names] for names in dict.fromkeys(unit_of[name] for name in moved if name in unit_of)]
        costs += [
            _joint_steps(domain, old, new, factor, sum(steps[name] for name in factor)) if factor[0] in steps else 1
            for factor in old.factors(name for name in moved if name not in unit_of)
        ]
        return int(max(costs, default=0) if old.composition == "record" else sum(costs))

    moves = [domain.names] if new.composition == "record" else new.factors(domain.names)
    factor = max(1, *(old_steps(moved) for moved in moves))
    if old.composition == "attribute" and new.composition == "record":
        worst = "all attributes may move at once, and moved one by one before"
    elif factor > max(1, *steps.values(), *units.values(), 1):
        worst = "attributes that may now move at once took their steps one after the other before"
    return Stretch(Fraction(factor), worst)


def _listed_together(domain: Domain, old: Policy, new: Policy) -> dict[tuple[str, ...], int]:
    """Sets of attributes that listed joint graphs tie, before or after, with all that is tied to them."""
    parts = [{name} for name in domain]
    for graph in (*old.joint, *new.joint):
        touched = [part for part in parts if part & set(graph.attributes)]
        parts = [part for part in parts if part not in touched] + [set[str]().union(*touched)]
    listed = {name for graph in (*old.joint, *new.joint) if isinstance(graph, Joint) for name in graph.attributes}
    return {tuple(name for name in domain if name in part): 0 for part in parts if part & listed}


def _joint_steps(domain: Domain, old: Policy, new: Policy, names: Sequence[str], one_by_one: int) -> int:
    """The most old steps of a new step along attributes that moved together, if they still do; else one by one."""
    before, after = old.joint_of(names[0]), new.joint_of(names[0])
    if (
        not isinstance(before, Grid)
        or not isinstance(after, Grid)
        or not set(names) == set(before.attributes) == set(after.attributes)
    ):
        return one_by_one
    together = joint_stretch([domain[name] for name in names], before, after)
    return one_by_one if together is None else min(one_by_one, together)


def _hides_less(old: Grid | Joint | None, new: Grid | Joint | None) -> bool:
    """Whether every pair that the new joint threshold joins was joined by the old one."""
    if not isinstance(old, Grid) or not isinstance(new, Grid) or set(old.attributes) != set(new.attributes):
        return False
    return new.theta <= old.theta and BALLS.index(new.metric) <= BALLS.index(old.metric)
