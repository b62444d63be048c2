"""Sharing: a release's place in a chain of answers that measure the same rows, and what is drawn from what.

The proof is docs/proofs/sharing.md. Prices follow from an analyst's own past alone, so none shows what others asked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from fractions import Fraction

from blowfishdb.accuracy.quote import Quote, accuracy_at
from blowfishdb.engine.compile import OFF, OWN, Compiled, DatasetHandle
from blowfishdb.engine.derived import Measured, derive, may_derive
from blowfishdb.engine.measure import Level, measure_given
from blowfishdb.engine.preview import Shared, quotes_for
from blowfishdb.engine.release import UNPROVEN, PlanRelease, Release, Sharing, by_level, public_total
from blowfishdb.engine.request import read_query, write_query
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import BlowfishError, ContentChanged, DigestMismatch, LedgerCorrupt
from blowfishdb.ledger import Ledger
from blowfishdb.ledger.values import Link, PastLink, Publication, Receipt, owed
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.numbers import Ints
from blowfishdb.noise.coupling import is_served
from blowfishdb.plan.plan import Plan
from blowfishdb.present.answer_values import MeasuredRows

SHARED_KINDS = ("count", "histogram", "histogram2d", "cdf", "ranges", "marginals", "sum", "mean", "quantiles")
"""Queries whose rows may be measured at several levels; a table of several aggregates stays by itself."""
MOST_ROWS = 2**20
"""Answers of more measured rows do not carry them, so nothing is built on them."""
MOST_TRIED = 8
"""The number of earlier releases that are looked at closely for one that answers a question."""
MEASURED = Measured()


def reads_data(sharing: Sharing | None, analyst: str) -> bool:
    """Whether rows are counted: always, but for an answer that follows from the analyst's own.

    One that follows from another analyst's would not need the counts; counting all the same keeps time from telling.
    """
    finer = None if sharing is None else sharing.finer
    return finer is None or finer.analyst != analyst


def share(ledger: Ledger, handle: DatasetHandle, analyst: str, release: Release) -> Release:
    """The release as the cheapest continuation of what was released before; the release itself where it shares nothing.

    Nothing is charged. Chains are found by what is measured, never by values.
    """
    plain = _sharable(handle, release)
    if plain is None or plain.target is None:
        return release
    rows = rows_digest(handle, analyst, plain.compiled)
    links = ledger.links(handle.account, rows)
    content = _content_mark(ledger, handle)
    offers = [_offer(plain.best, plain.compiled, plain.target, rows, links, analyst, content)]
    if plain.target.alpha is not None and plain.target.mechanism is None:
        names = {past.link.chain.split(".")[1] for past in links if past.analyst == analyst}
        for name in sorted(names - {plain.best.mechanism}):
            try:
                quote = quotes_for(plain.compiled, replace(plain.target, mechanism=name)).best
                offers.append(_offer(quote, plain.compiled, plain.target, rows, links, analyst, content))
            except BlowfishError:
                continue
    best, sharing = min(offers, key=lambda offer: offer[1].link.received)
    is_free = sharing.link.received == 0 or plain.target.alpha is None or plain.target.mechanism is not None
    derived = None if is_free else _derived(ledger, handle, analyst, plain)
    return replace(plain, best=best, sharing=sharing) if derived is None else derived


def resume(ledger: Ledger, handle: DatasetHandle, release: Release, receipt: Receipt) -> Release:
    """The release as an earlier attempt was charged for it, with what its chain has published by now."""
    link = receipt.charge.link
    plain = _sharable(handle, release)
    if link is None or plain is None or plain.target is None:
        return release
    if link.rows != rows_digest(handle, receipt.charge.analyst, plain.compiled):
        return _derived(ledger, handle, receipt.charge.analyst, plain, link.chain) or release
    name = link.chain.split(".")[1]
    quote = plain.best if plain.best.mechanism == name else _quote_at(plain.compiled, plain.target, name, link.level)
    if quote.epsilon != link.level:
        quote = _quote_at(plain.compiled, plain.target, name, link.level)
    sharing = Sharing(link, receipt.charge.epsilon, _published(ledger.links(handle.account, link.rows), link.chain))
    return replace(plain, best=quote, sharing=sharing)


def draw(
    ledger: Ledger, handle: DatasetHandle, release: PlanRelease, receipt: Receipt, count: Callable[[], Ints]
) -> tuple[MeasuredRows, Publication]:
    """The measured rows of a charged release, drawn given what its chain has published; and what they add to it.

    ContentChanged, before any noise, where the data must be read again and is not proven to be the same.
    """
    sharing = release.sharing
    if sharing is None:
        raise DigestMismatch("this release shares nothing")
    finer, coarser = (_neighbour(ledger, release, past) for past in (sharing.finer, sharing.coarser))
    before = _content_mark(ledger, handle)() if finer is None else sharing.mark
    # A chain that ended has nothing published any more: whoever paid a part of the level must not draw all of it anew.
    is_unpaid = finer is None and coarser is None and receipt.charge.epsilon != sharing.link.level
    if is_unpaid or (finer is None and coarser is not None and UNPROVEN in (before, sharing.mark)):
        raise ContentChanged(receipt.charge.received)
    counts = count() if reads_data(sharing, receipt.charge.analyst) else None
    if finer is None:
        # Fresh marks: a file that changed while it was counted was perhaps counted in between.
        after = _content_mark(ledger, handle)()
        if coarser is not None and {before, after} != {sharing.mark}:
            raise ContentChanged(receipt.charge.received)
        before = before if before == after else UNPROVEN
    given = frozenset(past.charge for past in sharing.published)
    if finer is not None:
        source, level = finer
        measured = measure_given(release.certified, None, level, None if coarser is None else coarser[1])
        return replace(source, noisy=measured.noisy), Publication(given, sharing.mark)
    measured = measure_given(release.certified, counts, None, None if coarser is None else coarser[1])
    total = None if counts is None else public_total(release.compiled, counts)
    return MeasuredRows(measured.noisy, measured.exact, total), Publication(given, before)


def refreshed(ledger: Ledger, handle: DatasetHandle, release: PlanRelease) -> PlanRelease:
    """The release with what its chain has published by now."""
    sharing = release.sharing
    if sharing is None:
        return release
    links = ledger.links(handle.account, sharing.link.rows)
    return replace(release, sharing=replace(sharing, published=_published(links, sharing.link.chain)))


def shared_words(ledger: Ledger, handle: DatasetHandle, analyst: str, release: Release) -> Shared | None:
    """What an analyst is told about the part that an own entry has paid; None where that is nothing."""
    sharing = None if (plain := _sharable(handle, release)) is None else plain.sharing
    if sharing is None or sharing.link.received == sharing.link.level:
        return None
    links = [past for past in ledger.links(handle.account, sharing.link.rows) if past.link.chain == sharing.link.chain]
    own = max((past for past in links if past.analyst == analyst), key=by_level)
    at = datetime.fromisoformat(ledger.time_of(own.charge))
    return Shared(sharing.link.received, sharing.link.level, own.charge, f"{at.day} {at:%b %Y}")


def _sharable(handle: DatasetHandle, release: Release) -> PlanRelease | None:
    """The release where its rows may be measured at several levels; edge noise and programs stay by themselves."""
    if handle.sharing == OFF or not isinstance(release, PlanRelease) or not isinstance(release.plan, Plan):
        return None
    if release.target is None or release.target.fresh or release.epsilon == 0:
        return None
    if release.compiled.query.kind not in SHARED_KINDS:
        return None
    return release if 0 < release.plan.weights.size <= MOST_ROWS else None


def rows_digest(handle: DatasetHandle, analyst: str, compiled: Compiled) -> str:
    """A digest of the counted cells under the versions in force; of one analyst where sharing goes no further."""
    question, cells = write_query(compiled.query), compiled.cells
    layout = [[name, axis.segments.starts.tolist(), axis.cell_of.tolist()] for name, axis in cells.layout.items()]
    content = {
        "axes": question["axes"],
        "where": question["where"],
        "cells": [list(cells.axes), layout, cells.graph.digest()],
        "versions": handle.versions(),
        "analyst": analyst if handle.sharing == OWN else None,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _offer(
    quote: Quote,
    compiled: Compiled,
    target: AccuracyTarget,
    rows: str,
    links: Iterable[PastLink],
    analyst: str,
    content: Callable[[], str],
) -> tuple[Quote, Sharing]:
    """The cheapest way for the analyst to have the rows of the quote at its level; ties cost the data the least."""
    start = f"{rows}.{quote.mechanism}.{_shape(quote.candidate.plan.digest())}."
    chains: dict[str, list[PastLink]] = {}
    for past in links:
        if past.link.chain.startswith(start):
            chains.setdefault(past.link.chain, []).append(past)
    offers = []
    for name, chain in chains.items():
        published = _published(chain, name)
        own = max((past.link.level for past in published if past.analyst == analyst), default=Fraction(0))
        level = max(quote.epsilon, own)
        sharing = Sharing(Link(name, level, owed(chain, level, analyst)), owed(chain, level), published)
        if _is_possible(sharing, quote, level, content):
            at_level = quote if level == quote.epsilon else _quote_at(compiled, target, quote.mechanism, level)
            offers.append((at_level, sharing))
    if not offers:
        level = quote.epsilon
        return quote, Sharing(Link(f"{start}{len(chains) + 1}", level, level), level)
    return min(offers, key=lambda offer: (offer[1].link.received, offer[1].epsilon))


def _is_possible(sharing: Sharing, quote: Quote, level: Fraction, content: Callable[[], str]) -> bool:
    """Whether the level can be drawn: from a published one, or from data that is proven to be the same."""
    finer, coarser = sharing.finer, sharing.coarser
    if finer is not None and finer.link.level == level:
        return True
    unit, weights = quote.candidate.plan.unit / level, quote.candidate.weights
    units = (None if past is None else quote.candidate.plan.unit / past.link.level for past in (finer, coarser))
    fine, coarse = units
    if not is_served(fine, unit, coarse, weights):
        return False
    if finer is not None:
        return True
    return coarser is not None and sharing.mark != UNPROVEN and content() == sharing.mark


def _derived(
    ledger: Ledger, handle: DatasetHandle, analyst: str, plain: PlanRelease, chain: str | None = None
) -> PlanRelease | None:
    """The release read off the cells of an own earlier one, for nothing; None where none is accurate enough.

    Which one is chosen depends on plans alone, never on noisy values.
    """
    if plain.target is None or plain.target.alpha is None:
        return None
    alpha, tried, seen = float(plain.target.alpha), 0, set[str]()
    for past, certificate in ledger.finest_links(handle.account, analyst):
        question = json.loads(certificate).get("measured")
        if question is None or past.link.chain in seen or tried == MOST_TRIED or chain not in (None, past.link.chain):
            continue
        seen.add(past.link.chain)
        query = read_query(question)
        if not may_derive(plain.compiled.query, query):
            continue
        tried += 1
        try:
            compiled, measured = MEASURED.of(handle, json.dumps(question), query, past.link.chain.split(".")[1])
        except BlowfishError:
            continue
        if _shape(measured.plan.digest()) not in past.link.chain:
            continue
        derived = derive(plain.compiled, plain.target, compiled, measured, past.link.level)
        if derived is not None and plain.compiled.shown(derived[1].alpha) <= alpha:
            link = Link(past.link.chain, past.link.level, Fraction(0))
            sharing = Sharing(link, Fraction(0), _published(ledger.links(handle.account, link.rows), link.chain))
            return replace(plain, compiled=derived[0], best=derived[1], sharing=sharing, derived_from=compiled)
    return None


def _shape(plan_digest: str) -> str:
    """A short name for the rows and weights of a plan."""
    return hashlib.sha256(plan_digest.encode()).hexdigest()[:32]


def _quote_at(compiled: Compiled, target: AccuracyTarget, mechanism: str, level: Fraction) -> Quote:
    """What a mechanism promises at a level."""
    mechanisms = {mechanism: MECHANISMS[mechanism]}
    return accuracy_at(compiled.problem, level, float(target.beta), mechanisms, target.guarantee).best


def _published(links: Iterable[PastLink], chain: str) -> tuple[PastLink, ...]:
    return tuple(past for past in links if past.link.chain == chain and past.mark is not None)


def _content_mark(ledger: Ledger, handle: DatasetHandle) -> Callable[[], str]:
    """The mark of the data as it is now, computed when asked for."""

    def mark() -> str:
        try:
            content = handle.content()
        except BlowfishError:
            return UNPROVEN
        return UNPROVEN if content is None else ledger.mark.keyed(content)

    return mark


def _neighbour(ledger: Ledger, release: PlanRelease, past: PastLink | None) -> tuple[MeasuredRows, Level] | None:
    """The published rows of a neighbouring level, and the level with its unit."""
    if past is None:
        return None
    receipt = ledger.receipt(past.charge)
    payload = None if receipt is None else ledger.answer_for(receipt)
    if payload is None:
        raise LedgerCorrupt("an answer that others build on is missing", sequence=past.charge)
    rows = MeasuredRows.read(json.loads(payload).get("measured"))
    if rows is None or rows.noisy.size != release.best.candidate.weights.size:
        raise LedgerCorrupt("an answer that others build on has lost its rows", sequence=past.charge)
    return rows, Level(release.best.candidate.plan.unit / past.link.level, rows.noisy)
