"""Which column of a filter makes a question dear, and what it would cost if that column hid less. Reads no data."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from blowfishdb.accuracy.quote import Quote
from blowfishdb.engine.compiled import Compiled, compile_query
from blowfishdb.engine.demand import Demand
from blowfishdb.engine.quoting import quotes_for
from blowfishdb.errors import BlowfishError
from blowfishdb.model.domain import Attribute, Bins, Categorical, Dates, Domain, Integers
from blowfishdb.model.graphs.families import Family, Partition, Public, partition, public
from blowfishdb.model.policy import Person, Policy
from blowfishdb.model.predicate import Atom, atoms
from blowfishdb.model.query import Query
from blowfishdb.model.segments import atom_runs

FEWEST_GAIN = 0.95
"""A column is named only when hiding less of it would save at least a twentieth."""
MOST_COLUMNS = 4
MOST_PIECES = 256
"""Nobody would declare a partition that a filter over more pieces asks for, and to price it takes long."""
USUALLY_BEST = ("optimized", "ordered", "kronecker")
"""Beside the winner only these are asked what they would cost then, so that a preview stays quick."""


@dataclass(frozen=True)
class DearColumn:
    """A filter's column with the price as things are and as they would be: epsilon, or alpha where epsilon is fixed."""

    column: str
    now: float
    if_public: float | None
    if_partitioned: float | None


def dear_columns(
    domain: Domain, policy: Policy, compiled: Compiled, demanded: Demand, best: Quote
) -> tuple[DearColumn, ...]:
    """The filter's protected columns that cost something, dearest first."""
    asked = compiled.query
    conditions = atoms(asked.where)
    names = [name for name in dict.fromkeys(atom.attribute for atom in conditions) if _is_replaceable(policy, name)]
    found = []
    for name in names[:MOST_COLUMNS]:
        blocks = _blocks(policy.applied(domain).find(name), [atom for atom in conditions if atom.attribute == name])
        now = price(compiled, best, demanded)
        families = (public(), blocks)
        free, cut = (_price_with(domain, policy, asked, demanded, best, name, family) for family in families)
        if any(other is not None and other <= FEWEST_GAIN * now for other in (free, cut)):
            found.append(DearColumn(name, now, free, cut))
    return tuple(sorted(found, key=lambda dear: dear.now if dear.if_public is None else dear.if_public))


def price(compiled: Compiled, quote: Quote, demanded: Demand) -> float:
    """What is compared: epsilon for a wanted accuracy, alpha for a given epsilon."""
    return float(quote.epsilon) if demanded.epsilon is None else quote.alpha / compiled.scale


def _is_replaceable(policy: Policy, name: str) -> bool:
    ordered_by = policy.unit.order_by if isinstance(policy.unit, Person) else None
    return policy.grid_of(name) is None and not isinstance(policy.family(name), Public) and name != ordered_by


def _price_with(
    domain: Domain, policy: Policy, asked: Query, demanded: Demand, best: Quote, name: str, family: Family | None
) -> float | None:
    """The price under another family for one column; None without a family or where no mechanism serves it."""
    if family is None:
        return None
    try:
        other = replace(policy, attributes={**policy.attributes, name: family})
        compiled = compile_query(domain, other, asked)
        offers = quotes_for(compiled, demanded, among=(best.mechanism, *USUALLY_BEST))
        return price(compiled, offers.best, demanded)
    except BlowfishError:
        return None


def _blocks(attribute: Attribute, conditions: Sequence[Atom]) -> Partition | None:
    """The coarsest partition on which the filter never divides a block; None where it cannot be written."""
    runs = [atom_runs(atom, attribute) for atom in conditions]
    starts = sorted({int(start) for run in runs for start in run.starts})
    if not 2 <= len(starts) <= MOST_PIECES:
        return None
    if not isinstance(attribute, Categorical):
        cuts = _values(attribute, starts[1:])
        return None if cuts is None else partition(cuts=cuts)
    index = np.arange(attribute.size)
    patterns = list(zip(*(run.at(index).tolist() for run in runs), strict=True))
    blocks: dict[tuple[int, ...], list[object]] = {}
    for value, pattern in zip(attribute.values, patterns, strict=True):
        blocks.setdefault(pattern, []).append(value)
    return partition(blocks.values()) if len(blocks) > 1 else None


def _values(attribute: Attribute, starts: Iterable[int]) -> list[object] | None:
    match attribute:
        case Integers():
            return [attribute.low + start for start in starts]
        case Bins():
            return [attribute.edge(start) for start in starts]
        case Dates():
            days = attribute.starts(np.array(list(starts), dtype=np.int64))
            return [datetime.date(1970, 1, 1) + datetime.timedelta(days=int(day)) for day in days]
    return None
