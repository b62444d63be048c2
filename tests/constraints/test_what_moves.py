"""Public constraints that a hidden move may change, and how many records change together, against the definitions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

import blowfishdb as bf
from blowfishdb.audit import definitions
from blowfishdb.model.constraint_graph import changed_constraints, moves_at_once
from blowfishdb.model.constraints import Constraint, write_constraint
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Family, Policy

SPECIAL = {
    "mapped": {"null": 0, "outside": "clamp"},
    "NULL public": {"null_public": True, "outside": "clamp"},
    "NULL hidden": {"outside": "clamp"},
    "outside hidden": {"null": 0, "outside": "cell"},
    "both hidden": {"outside": "cell"},
}
"""What stands beside the values of an attribute, by how it is declared."""
FAMILIES: dict[str, Family] = {
    "public": bf.public(),
    "single values": bf.partition([[0], [1], [2]]),
    "two blocks": bf.partition([[0, 1], [2]]),
    "line": bf.line(),
    "full": bf.full(),
    "two values": bf.custom([(0, 1)]),
}
KNOWN = ("marginal(x)", "marginal(x, y)", "range(x, 0, 1)", "count(x = 2)", "count(x = 0 and y = 1)", "rows")


def cases() -> Iterator[tuple[str, Domain, Policy]]:
    for (named, special), (family, shown), presence in itertools.product(
        SPECIAL.items(), FAMILIES.items(), ("public", "secret")
    ):
        domain = bf.domain({"x": bf.integers(0, 2, **special), "y": bf.integers(0, 1, null=0, outside="clamp")})
        yield (
            f"{named}, {family}, presence {presence}",
            domain,
            Policy({"x": shown, "y": bf.public()}, presence=presence),
        )


def is_changed(domain: Domain, policy: Policy, constraint: Constraint) -> bool:
    """Whether some record that makes a hidden move, alone, changes what is known, by the definitions."""
    everyone: list[definitions.Record | None] = [*definitions.records(domain)]
    told = dict(enumerate(definitions.signatures(domain, [constraint], [*everyone, None])))
    for one, two in itertools.permutations(range(len(everyone)), 2):
        first, second = everyone[one], everyone[two]
        if first and second and told[one] != told[two] and definitions.moves(domain, policy, first, second):
            return True
    absent = len(everyone)
    return policy.presence != "public" and any(told[one] != told[absent] for one in range(absent))


@pytest.mark.parametrize("known", KNOWN)
def test_every_constraint_that_a_hidden_move_changes_is_listed(known: str) -> None:
    changed = 0
    for name, domain, plain in cases():
        policy = Policy(plain.attributes, presence=plain.presence, constraints=[known])
        applied, (constraint,) = policy.applied(domain), policy.constraints
        is_listed = write_constraint(constraint) in changed_constraints(domain, policy)
        if is_changed(applied, policy, constraint):
            changed += 1
            assert is_listed, f"{known}: {name}"
            assert moves_at_once(domain, policy) is not None, f"{known}: {name}"
    assert changed >= 10
