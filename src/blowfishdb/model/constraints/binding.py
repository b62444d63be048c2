"""Whether some move that the policy hides would change a public fact; if none does, the facts cost nothing."""

from __future__ import annotations

import numpy as np

from blowfishdb.model.domain import Domain
from blowfishdb.model.facts.signatures import Signatures, signatures
from blowfishdb.model.facts.text import write_fact
from blowfishdb.model.facts.values import CountFact, Fact, MarginalFact, RangeFact
from blowfishdb.model.filtering import evaluate, leaving_cells
from blowfishdb.model.graphs.clock import ClockWindow
from blowfishdb.model.graphs.values import BlockWindow, ListedWindow, StepWindow, ValueGraph
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import atoms


def changed_facts(domain: Domain, policy: Policy) -> tuple[str, ...]:
    """The facts that one hidden move may change, as written; said too often is sound, too seldom is not."""
    applied = policy.applied(domain)
    return tuple(write_fact(fact) for fact in policy.facts if _may_change(applied, policy, fact))


def _may_change(domain: Domain, policy: Policy, fact: Fact) -> bool:
    hides_presence = policy.presence != "public"
    if isinstance(fact, CountFact | RangeFact):
        told = signatures(domain, [fact])
        return bool(told.patterns.any()) and (hides_presence or _count_may_change(domain, policy, fact, told))
    if isinstance(fact, MarginalFact):
        return hides_presence or any(_moves(domain, policy, name) for name in fact.attributes)
    return hides_presence


def _moves(domain: Domain, policy: Policy, name: str) -> bool:
    """Whether some edge of the policy changes the attribute."""
    attribute = domain[name]
    if policy.grid_of(name) is not None or any(not slot.public for slot in attribute.slots):
        return attribute.total_size > 1
    return _has_edges(policy.graph(domain, name))


def _has_edges(graph: ValueGraph) -> bool:
    if isinstance(graph, StepWindow | ClockWindow):
        return graph.step > 0
    if isinstance(graph, BlockWindow):
        return int(graph.starts.size) < graph.size
    if isinstance(graph, ListedWindow):
        return bool(np.any(graph.ends > np.arange(graph.size)))
    return graph.edge_count > 0


def _count_may_change(domain: Domain, policy: Policy, fact: CountFact | RangeFact, told: Signatures) -> bool:
    verdict = evaluate(fact.condition, atoms(fact.condition), told.cuts, {})
    return bool(leaving_cells(domain, policy, verdict, told.cuts, {}).any())
