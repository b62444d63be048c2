"""Queries that entries of the ledger measured, and queries beside one that may be measured for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from blowfishdb.engine.compile import starts_of
from blowfishdb.engine.request import read_query
from blowfishdb.errors import BlowfishError
from blowfishdb.ledger import Ledger
from blowfishdb.model.domain import Domain
from blowfishdb.model.predicate import Both, Predicate, atoms
from blowfishdb.model.query import Query

WIDENED = ("histogram", "histogram2d", "marginals")
"""Kinds that count cells side by side, of which more cost the same."""
MOST_REMEMBERED = 4096


def queries_of(query: Query) -> list[Query]:
    """The questions of a joint query, or the one question."""
    return [part.query for part in query.parts] or [query]


def widened(query: Query) -> Query | None:
    """The query without conditions on what it groups by, as more cells often cost no more; None where it has none."""
    if query.kind not in WIDENED or query.where is None:
        return None
    grouped = {axis.attribute for axis in query.axes}
    conditions, others = [query.where], list[Predicate]()
    while conditions:
        condition = conditions.pop()
        if isinstance(condition, Both):
            conditions += [condition.first, condition.second]
        elif not {atom.attribute for atom in atoms(condition)} <= grouped:
            others.insert(0, condition)
    where = None
    for condition in others:
        where = condition if where is None else where & condition
    return None if where == query.where else replace(query, where=where)


def without(query: Query, past: Query) -> Query | None:
    """The query about the records that a past one did not count; None where that counted all, or was of several."""
    if past.where is None or past.parts or past.where == query.where:
        return None
    rest = ~past.where
    return replace(query, where=rest if query.where is None else query.where & rest)


_queries: dict[tuple[str, int, str], Query | None] = {}
_cuts: dict[tuple[str, int, str], tuple[Domain, list[Mapping[str, frozenset[int]]]]] = {}


def measured_query(ledger: Ledger, charge: int, chain: str) -> Query | None:
    """The query whose cells an entry measured. Entries never change, so it is remembered."""
    key = ledger.id, charge, chain
    query = _queries.get(key)
    if query is None:
        receipt = ledger.receipt(charge)
        question = None if receipt is None else json.loads(receipt.charge.certificate).get("measured")
        query = _queries[key] = None if question is None else read_query(question)
        if len(_queries) > MOST_REMEMBERED:
            _queries.clear()
    return query


def measured_starts(domain: Domain, query: Query, entry: tuple[str, int, str]) -> list[Mapping[str, frozenset[int]]]:
    """Where each question that an entry measured cuts its attributes, remembered; none where the domain has changed."""
    known = _cuts.get(entry)
    if known is None or known[0] is not domain:
        try:
            known = domain, [starts_of(domain, one) for one in queries_of(query)]
        except BlowfishError:
            known = domain, []
        if len(_cuts) > MOST_REMEMBERED:
            _cuts.clear()
        _cuts[entry] = known
    return known[1]
