"""Whether some table has all the given counts at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from blowfishdb.model.arrays import Ints
from blowfishdb.model.domain import Domain
from blowfishdb.model.facts.listed import marginal_counts
from blowfishdb.model.facts.signatures import Signatures, signatures
from blowfishdb.model.facts.values import Fact, MarginalFact
from blowfishdb.model.segments import Segments

MOST_KINDS = 4096
"""Up to so many kinds of records, told apart by the given facts, it is looked for a table."""
MOST_NODES = 1000
"""Branches of the search among whole numbers; a table that is not found to be impossible within these is accepted."""


def is_possible(domain: Domain, facts: Sequence[Fact], total: int | None) -> bool:
    """False where no table has all the given counts, and `total` rows if known; True also where that is not found."""
    given = [fact for fact in facts if not isinstance(fact, MarginalFact) and fact.value is not None]
    margins = [fact for fact in facts if isinstance(fact, MarginalFact) and fact.values is not None and given]
    if math.prod(domain[name].total_size for fact in margins for name in fact.attributes) > MOST_KINDS:
        margins = []
    names = {name for fact in margins for name in fact.attributes}
    cuts = {name: Segments(domain[name], np.arange(domain[name].size)) for name in names}
    told = signatures(domain, [*given, *margins], cuts)
    columns = [told.patterns[told.pattern.reshape(-1)].astype(np.int64), *(_cells(told, fact) for fact in margins)]
    kinds = np.unique(np.concatenate(columns, axis=1), axis=0)
    if kinds.shape[0] > MOST_KINDS or not given:
        return True
    aims = [float(fact.value or 0) for fact in given]
    rows = [kinds[:, : len(given)].T]
    for place, fact in enumerate(margins):
        expected = _expected(domain, told, fact)
        aims += expected.tolist()
        rows.append((kinds[:, len(given) + place][None, :] == np.arange(expected.size)[:, None]).astype(np.int64))
    if total is not None:
        aims.append(float(total))
        rows.append(np.ones((1, kinds.shape[0]), dtype=np.int64))
    return _has_solution(np.concatenate(rows), np.array(aims))


def _cells(told: Signatures, fact: MarginalFact) -> Ints:
    """The cell of the marginal for each combination, as one column."""
    cell = np.zeros((1,) * told.pattern.ndim, dtype=np.int64)
    for name in fact.attributes:
        count = told.cuts[name].count
        cell = cell * count + told.along(name, np.arange(count))
    return np.broadcast_to(cell, told.pattern.shape).reshape(-1, 1)


def _expected(domain: Domain, told: Signatures, fact: MarginalFact) -> Ints:
    """The given count of each cell of the marginal; cells that are not listed count 0."""
    sizes = [told.cuts[name].count for name in fact.attributes]
    expected = np.zeros(math.prod(sizes), dtype=np.int64)
    listed = marginal_counts(domain, fact)
    if listed is not None:
        codes, counts = listed
        flat = np.zeros(counts.size, dtype=np.int64)
        for place, (name, size) in enumerate(zip(fact.attributes, sizes, strict=True)):
            flat = flat * size + told.cuts[name].of(codes[:, place])
        expected[flat] = counts
    return expected


def _has_solution(rows: Ints, aims: np.ndarray) -> bool:
    # Loaded here: few policies give several counts, and the solver takes its time to load.
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import csr_array

    kinds = rows.shape[1]
    found = milp(
        np.zeros(kinds),
        constraints=LinearConstraint(csr_array(rows.astype(np.float64)), aims, aims),
        integrality=np.ones(kinds),
        options={"node_limit": MOST_NODES},
    )
    return bool(found.status != 2)
