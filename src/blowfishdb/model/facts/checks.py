"""Refuses facts that do not fit the domain, or that cannot all be true of one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from blowfishdb.errors import PolicyError, TooLarge
from blowfishdb.model.arrays import Ints
from blowfishdb.model.domain import Domain
from blowfishdb.model.facts.feasible import is_possible
from blowfishdb.model.facts.listed import marginal_counts
from blowfishdb.model.facts.signatures import signatures
from blowfishdb.model.facts.text import read_fact, write_fact
from blowfishdb.model.facts.values import FACTS, CountFact, Fact, MarginalFact, RangeFact, RowsFact, without_values
from blowfishdb.model.predicate import Atom, Truth, truth

MOST_FACTS = 4096


def as_facts(declared: Iterable[str | Fact]) -> tuple[Fact, ...]:
    """Facts from texts and values, each once; PolicyError where one is given two different counts."""
    if isinstance(declared, str):
        raise PolicyError("constraints are a list of facts, such as ['rows', 'marginal(sex, state)']")
    known: dict[Fact, Fact] = {}
    for item in declared:
        fact = read_fact(item) if isinstance(item, str) else item
        if not isinstance(fact, FACTS):
            raise PolicyError(f"a fact is a text such as \"count(sex = 'F')\" or known_count(...), not {item!r}")
        bare = without_values(fact)
        said = known.setdefault(bare, fact)
        if said == bare:
            known[bare] = fact
        elif fact not in (bare, said):
            raise PolicyError(f"two different counts are given for {write_fact(bare)}")
    if len(known) > MOST_FACTS:
        raise TooLarge(
            "public facts of one policy", len(known), MOST_FACTS, "Declare a marginal instead of its counts."
        )
    return tuple(known.values())


@lru_cache(maxsize=64)
def check_facts(domain: Domain, facts: tuple[Fact, ...]) -> None:
    """PolicyError for unknown attributes or values, and for counts that no table can have together."""
    for fact in facts:
        if isinstance(fact, MarginalFact):
            for name in fact.attributes:
                domain.find(name, PolicyError)
            marginal_counts(domain, fact)
    signatures(domain, facts)
    total = _total(facts)
    for fact in facts:
        if not isinstance(fact, MarginalFact) and fact.value is not None and total is not None and fact.value > total:
            raise PolicyError(f"{write_fact(fact)} contradicts the {total:,} rows that other facts tell")
    _check_marginals(domain, facts)
    _check_counts_against_marginals(domain, facts)
    if not is_possible(domain, facts, total):
        given = [write_fact(f) for f in facts if isinstance(f, MarginalFact) or f.value is not None]
        raise PolicyError(f"no table has all these counts: {'; '.join(given[:8])}{'; ...' if len(given) > 8 else ''}")


def _total(facts: Sequence[Fact]) -> int | None:
    """The number of rows that the facts give; PolicyError where they give several."""
    given: dict[int, Fact] = {}
    for fact in facts:
        if isinstance(fact, MarginalFact) and fact.total is not None:
            given.setdefault(fact.total, fact)
        elif isinstance(fact, RowsFact) and fact.value is not None:
            given.setdefault(fact.value, fact)
    if len(given) > 1:
        (one, first), (two, second) = list(given.items())[:2]
        raise PolicyError(f"{write_fact(first)} tells of {one:,} rows, and {write_fact(second)} of {two:,}")
    return next(iter(given), None)


def _check_marginals(domain: Domain, facts: Sequence[Fact]) -> None:
    """Two given marginals must agree on the attributes they share."""
    given = [fact for fact in facts if isinstance(fact, MarginalFact) and fact.values is not None]
    for place, one in enumerate(given):
        for two in given[place + 1 :]:
            shared = [name for name in one.attributes if name in two.attributes]
            if shared and _summed(domain, one, shared) != _summed(domain, two, shared):
                raise PolicyError(f"{write_fact(one)} and {write_fact(two)} disagree about {', '.join(shared)}")


def _summed(domain: Domain, fact: MarginalFact, names: Sequence[str]) -> dict[tuple[int, ...], int]:
    found: dict[tuple[int, ...], int] = {}
    listed = marginal_counts(domain, fact)
    if listed is None:
        return found
    places = [fact.attributes.index(name) for name in names]
    for codes, count in zip(listed[0][:, places].tolist(), listed[1].tolist(), strict=True):
        key = tuple(codes)
        found[key] = found.get(key, 0) + count
    return {key: count for key, count in found.items() if count}


def _check_counts_against_marginals(domain: Domain, facts: Sequence[Fact]) -> None:
    """A given count lies between what a given marginal makes certain and what it makes possible."""
    counts = [fact for fact in facts if isinstance(fact, CountFact | RangeFact) and fact.value is not None]
    for marginal in facts:
        listed = marginal_counts(domain, marginal) if isinstance(marginal, MarginalFact) else None
        if listed is None or not isinstance(marginal, MarginalFact):
            continue
        for fact in counts:
            least, most = _bounds(domain, fact, marginal, *listed)
            if fact.value is not None and not least <= fact.value <= most:
                raise PolicyError(
                    f"{write_fact(fact)} contradicts {write_fact(marginal)}, which leaves {least:,} to {most:,} records"
                )


def _bounds(
    domain: Domain, fact: CountFact | RangeFact, marginal: MarginalFact, codes: Ints, counts: Ints
) -> tuple[int, int]:
    """How many records of the marginal certainly meet the condition, and how many may: attribute by attribute."""

    def by_record(atom: Atom) -> Truth:
        if atom.attribute not in marginal.attributes:
            unknown = np.zeros(counts.size, dtype=np.bool_)
            return unknown, unknown
        fine = signatures(domain, [CountFact(atom)]).cuts[atom.attribute]
        place = fine.of(codes[:, marginal.attributes.index(atom.attribute)])
        yes, no = fine.truth(atom)
        return yes[place], no[place]

    yes, no = truth(fact.condition, by_record)
    return int(counts[yes].sum()), int(counts[~no].sum())
