"""What public facts tell records apart by: patterns of counts and cells of marginals, never written out in full."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from blowfishdb.errors import PolicyError, QueryError, TooLarge
from blowfishdb.model.arrays import Bools, Ints
from blowfishdb.model.domain import Domain
from blowfishdb.model.facts.values import CountFact, Fact, MarginalFact, RangeFact, RowsFact
from blowfishdb.model.grouping import Runs
from blowfishdb.model.predicate import Atom, Predicate, Truth, atoms, truth
from blowfishdb.model.segments import Segments, atom_runs, segments

MOST_COMBINATIONS = 2**22
MOST_TRUTHS = 2**26
BITS = 32
"""So many counts are told apart at once: with the numbers of at most 2^22 combinations they fit in one int64."""
MANY = 2**61
"""Stands for any number of atoms that is at least this large; no price is computed with it."""
ADVICE = "Declare facts over fewer attributes, or with fewer different conditions."


@dataclass(frozen=True, eq=False)
class Signatures:
    """The attributes that facts look at, cut so finely that every counted condition is constant on each combination.

    `pattern[combination]` is a row of `patterns`: which of the counts hold there. `margins` are the marginals that no
    other one contains; their attributes are not cut value by value: `lengths` tells how many values a segment holds.
    """

    names: tuple[str, ...]
    cuts: Mapping[str, Segments]
    margins: tuple[tuple[str, ...], ...]
    counts: tuple[CountFact | RangeFact | RowsFact, ...]
    pattern: Ints
    patterns: Bools

    def lengths(self, name: str) -> Ints:
        """How many values of the attribute each segment holds."""
        cut = self.cuts[name]
        return np.concatenate([cut.stops - cut.starts, np.ones(len(cut.slots), dtype=np.int64)])

    def along(self, name: str, values: Ints) -> Ints:
        """The values of the attribute's segments, shaped to spread over all combinations."""
        return values.reshape([-1 if other == name else 1 for other in self.names])


def signatures(domain: Domain, facts: Sequence[Fact], cuts: Mapping[str, Segments] | None = None) -> Signatures:
    """What the facts tell apart, at least as finely as the given cuts; PolicyError where the domain does not fit."""
    counts = tuple(fact for fact in facts if not isinstance(fact, MarginalFact))
    margins = _maximal([fact.attributes for fact in facts if isinstance(fact, MarginalFact)])
    conditions = [condition_of(fact) for fact in counts]
    used = [atom for condition in conditions for atom in atoms(condition)]
    names = tuple(dict.fromkeys([*(name for margin in margins for name in margin), *(a.attribute for a in used)]))
    own: dict[str, Segments] = {}
    for name in names:
        pieces = [_runs(domain, atom) for atom in dict.fromkeys(used) if atom.attribute == name]
        if cuts is not None and name in cuts:
            starts = cuts[name].starts
            pieces.append(Runs(cuts[name].attribute.size, starts, np.zeros(starts.size, dtype=np.int64)))
        own[name] = segments(domain.find(name, PolicyError), pieces)
    shape = tuple(own[name].count for name in names)
    if math.prod(shape) > MOST_COMBINATIONS:
        raise TooLarge("combinations that public facts tell apart", math.prod(shape), MOST_COMBINATIONS, ADVICE)
    pattern, patterns = _patterns(names, own, conditions, shape)
    return Signatures(names, own, margins, counts, pattern, patterns)


def condition_of(fact: CountFact | RangeFact | RowsFact) -> Predicate | None:
    """The condition that is counted; None for all rows."""
    return None if isinstance(fact, RowsFact) else fact.condition


def _maximal(margins: list[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """The marginals that no other one contains, each once: a marginal tells all its parts."""
    sets = list(dict.fromkeys(frozenset(margin) for margin in margins))
    kept = [one for one in sets if not any(one < other for other in sets)]
    named = {frozenset(margin): margin for margin in reversed(margins)}
    return tuple(named[one] for one in kept)


def _runs(domain: Domain, atom: Atom) -> Runs:
    try:
        return atom_runs(atom, domain.find(atom.attribute, PolicyError))
    except QueryError as error:
        raise PolicyError(f"a public fact: {error}") from None


def _patterns(
    names: tuple[str, ...],
    cuts: Mapping[str, Segments],
    conditions: Sequence[Predicate | None],
    shape: tuple[int, ...],
) -> tuple[Ints, Bools]:
    if math.prod(shape) * len(conditions) > MOST_TRUTHS:
        what = "combinations that public facts tell apart, times facts"
        raise TooLarge(what, math.prod(shape) * len(conditions), MOST_TRUTHS, ADVICE)

    def by_segment(atom: Atom) -> Truth:
        wide = [-1 if other == atom.attribute else 1 for other in names]
        yes, no = cuts[atom.attribute].truth(atom)
        return yes.reshape(wide), no.reshape(wide)

    holds = np.ones((math.prod(shape), len(conditions)), dtype=np.bool_)
    for place, condition in enumerate(conditions):
        if condition is not None:
            holds[:, place] = np.broadcast_to(truth(condition, by_segment)[0], shape).reshape(-1)
    numbers, first = np.zeros(holds.shape[0], dtype=np.int64), np.zeros(1, dtype=np.int64)
    for start in range(0, len(conditions), BITS):
        some = holds[:, start : start + BITS]
        keys = (numbers << BITS) + some @ (1 << np.arange(some.shape[1], dtype=np.int64))
        _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    return numbers.reshape(shape), holds[first]
