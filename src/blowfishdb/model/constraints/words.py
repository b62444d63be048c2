"""What public facts do to a policy, in words: what they cost, why, and whom they single out."""

from __future__ import annotations

from collections.abc import Sequence

from blowfishdb.model.constraints.binding import changed_facts
from blowfishdb.model.constraints.moves import is_settled, moves_at_once
from blowfishdb.model.domain import CELL, CLAMP, Domain
from blowfishdb.model.facts.signatures import signatures
from blowfishdb.model.facts.text import write_fact
from blowfishdb.model.facts.values import Fact, MarginalFact
from blowfishdb.model.policy import Policy

MOST_NAMED = 8


def explain_facts(domain: Domain, policy: Policy) -> tuple[str, ...]:
    """One sentence or two about the facts that are declared public; CannotCertify for facts that have no bound."""
    if not policy.facts:
        return ()
    said = [f"Public facts: {fact_list(policy.facts)}. Whoever asks may be told them exactly."]
    moves = moves_at_once(domain, policy)
    if moves is None:
        said.append("No hidden change of a record changes a public fact, so the facts cost nothing.")
    else:
        said.append(_price(domain, policy, moves))
    return (*said, *_as_read(domain, policy.facts), *(note for fact in policy.facts for note in _singled_out(fact)))


def _as_read(domain: Domain, facts: Sequence[Fact]) -> list[str]:
    """What facts count where the domain reads a value as another one: the same cells that answers count."""
    read = []
    for name in signatures(domain, facts).names:
        attribute = domain[name]
        if attribute.outside != CELL:
            beyond = "the nearest end" if attribute.outside == CLAMP else str(attribute.outside)
            read.append(f"{name} beyond the declared values as {beyond}")
        if attribute.null != CELL:
            read.append(f"{name} NULL as {attribute.null}")
    return [f"Facts count what the domain reads, as answers do: {_listed(read)}."] if read else []


def fact_list(facts: Sequence[Fact]) -> str:
    """The facts as they are written, the first few of them."""
    return _listed([write_fact(fact) for fact in facts])


def _price(domain: Domain, policy: Policy, moves: int) -> str:
    changed = _listed(list(changed_facts(domain, policy)))
    if is_settled(domain, policy):
        how = "one in each of the parts into which the facts split the records (atoms)"
    else:
        how = "because the facts overlap (Graver bound)"
    return (
        f"A hidden change of one record changes {changed}, so other records must make up for it: up to {moves:,} "
        f"records change together, {how}. Every loss is summed over them, and any two values count as one step apart: "
        "thresholds and partitions save nothing here."
    )


def _singled_out(fact: Fact) -> list[str]:
    if isinstance(fact, MarginalFact):
        alone = sum(count == 1 for _, count in fact.values or ())
        who = "one combination has" if alone == 1 else f"{alone:,} combinations have each"
        return (
            [f"{write_fact(fact)}: {who} a single record; who is known to be it has no secret there."] if alone else []
        )
    if fact.value != 1:
        return []
    return [f"{write_fact(fact)} singles out one record: who is known to be it has no secret about that."]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return f"{'; '.join(names[:MOST_NAMED])}{more}"
