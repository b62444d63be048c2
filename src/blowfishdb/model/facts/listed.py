"""The counts that a marginal lists, by value codes."""

from __future__ import annotations

import numpy as np

from blowfishdb.errors import DomainError, PolicyError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.domain import Attribute, Domain
from blowfishdb.model.facts.values import MarginalFact


def marginal_counts(domain: Domain, fact: MarginalFact) -> tuple[Ints, Ints] | None:
    """The given counts of a marginal: value codes of each listed combination, and their counts; None without any."""
    if fact.values is None:
        return None
    attributes = [(name, domain.find(name, PolicyError)) for name in fact.attributes]
    codes = [
        [_code_of(attribute, value, name) for (name, attribute), value in zip(attributes, listed, strict=True)]
        for listed, _ in fact.values
    ]
    counts = np.array([count for _, count in fact.values], dtype=np.int64)
    return np.array(codes, dtype=np.int64).reshape(-1, len(fact.attributes)), counts


def _code_of(attribute: Attribute, value: object, name: str) -> int:
    """The code of a declared value, or of the special cell of that name."""
    try:
        return attribute.index_of(value)
    except DomainError as error:
        for slot in attribute.slots:
            if slot.name == value:
                return slot.code
        raise PolicyError(f"a public fact: {name}: {error}") from None
