"""How many records public facts make change together, from the policy and the domain alone."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from blowfishdb.errors import CannotCertify, PolicyError
from blowfishdb.model.constraints.binding import changed_facts
from blowfishdb.model.constraints.graver import most_changes
from blowfishdb.model.domain import Domain
from blowfishdb.model.facts.atoms import atoms_of, explicit_signatures
from blowfishdb.model.facts.signatures import signatures
from blowfishdb.model.facts.values import Fact, MarginalFact, RowsFact
from blowfishdb.model.policy import Person, Policy
from blowfishdb.model.segments import Segments

MOST_NAMED = 4
MOST_SIGNATURES = 24
MOST_SPELLED_OUT = 2**16


def moves_at_once(domain: Domain, policy: Policy) -> int | None:
    """At most so many records change between neighbours; None when no hidden move changes a fact.

    CannotCertify when no bound is found, PolicyError where only some rows of each person count.
    """
    if not policy.facts:
        return None
    changed = changed_facts(domain, policy)
    if not changed:
        return None
    _check_unit(policy, changed)
    absence = policy.presence != "public"
    moves = _moves(policy.applied(domain), policy.facts, absence)
    rows = None if absence else _known_rows(policy.facts)
    if moves is None and rows is None:
        raise too_many(policy.facts)
    return max(1, min(number for number in (moves, rows) if number is not None))


def _check_unit(policy: Policy, changed: tuple[str, ...]) -> None:
    """Refuses facts that a hidden change can touch where people are protected, however few of their rows count.

    Facts speak of all rows, answers of the first rows of each person: rows that do not count could make up for rows
    that do, so that a person changes alone, keeps every fact, and shows (proof: docs/proofs/constraints.md).
    """
    if not isinstance(policy.unit, Person):
        return
    named = "; ".join(changed[:MOST_NAMED]) + ("; ..." if len(changed) > MOST_NAMED else "")
    public = ", make the attributes they look at public()" if policy.presence == "public" else ""
    raise PolicyError(
        f"public facts speak of all rows, answers of each {policy.unit.id}'s first ones alone ({policy.unit.at_most} "
        f"at most), and a hidden change can touch {named}. Nothing can be proven of the two together: leave these "
        f"facts out{public}, or protect each row on its own, without a person"
    )


def is_settled(domain: Domain, policy: Policy) -> bool:
    """Whether the facts settle how many records each of their atoms has."""
    told = signatures(policy.applied(domain), policy.facts)
    return atoms_of(told, absence=policy.presence != "public").settled


@lru_cache(maxsize=64)
def _moves(domain: Domain, facts: tuple[Fact, ...], absence: bool) -> int | None:
    """The bound from the facts alone; None where none is found."""
    found = atoms_of(signatures(domain, facts), absence=absence)
    if found.settled:
        # Absence alone in its atom is one vertex: nothing moves inside it.
        alone = found.absent is not None and not bool(np.any(found.atom_of == found.absent))
        return int(sum(found.times.tolist())) - alone
    differences = signature_differences(domain, facts, absence)
    return None if differences is None else most_changes(differences)


def _known_rows(facts: tuple[Fact, ...]) -> int | None:
    """The number of rows, where a fact gives it."""
    for fact in facts:
        number = fact.value if isinstance(fact, RowsFact) else fact.total if isinstance(fact, MarginalFact) else None
        if number is not None:
            return number
    return None


def signature_differences(domain: Domain, facts: tuple[Fact, ...], absence: bool) -> tuple[tuple[int, ...], ...] | None:
    """The differences of what facts say of two records, one of each pair of opposite signs; None if very many."""
    cuts: dict[str, Segments] = {}
    spelled = 1
    for name in sorted({name for fact in facts if isinstance(fact, MarginalFact) for name in fact.attributes}):
        spelled *= domain[name].total_size
        if spelled > MOST_SPELLED_OUT:
            return None
        cuts[name] = Segments(domain[name], np.arange(domain[name].size))
    told = signatures(domain, facts, cuts)
    if told.pattern.size > MOST_SPELLED_OUT:
        return None
    vectors = explicit_signatures(told, absence=absence, limit=MOST_SIGNATURES)
    if vectors is None:
        return None
    nothing = (0,) * len(vectors[0])
    found = {tuple(a - b for a, b in zip(one, two, strict=True)) for one in vectors for two in vectors}
    return tuple(sorted(difference for difference in found if difference > nothing))


def too_many(facts: tuple[Fact, ...]) -> CannotCertify:
    """The refusal of facts that overlap in too many ways, with the nearest declaration that works."""
    margins = [fact.attributes for fact in facts if isinstance(fact, MarginalFact)]
    joint = ", ".join(dict.fromkeys(name for margin in margins for name in margin))
    if len(margins) > 1:
        nearest = f"If the joint table marginal({joint}) is public as well, declare that instead of its parts"
    elif margins:
        nearest = f"If the counts within each cell of marginal({joint}) are public, declare those"
    else:
        nearest = "If the counts of the pieces into which they cut each other are public, declare those"
    return CannotCertify(
        "these public facts overlap in too many ways: no bound was found on how many records must change together. "
        f"{nearest}; facts that split the records into separate parts always work, and with public presence so do any "
        "facts with the number of rows given (rows = ...). Otherwise leave out what is not public in truth."
    )
