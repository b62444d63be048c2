"""Sharing: a release's place in a chain of answers that measure the same rows, and what is drawn from what.

The proof is docs/proofs/sharing.md. Prices follow from an analyst's own past alone, so none shows what others asked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from blowfishdb.accuracy.quote import Quote, accuracy_at
from blowfishdb.engine.compile import OFF, OWN, READ_ONLY, Compiled, DatasetHandle
from blowfishdb.engine.derived import Measured, derive, may_derive
from blowfishdb.engine.measure import Level, measure_given
from blowfishdb.engine.preview import Shared, Way, WayName, quotes_for, shown_day
from blowfishdb.engine.release import UNPROVEN, Beside, PlanRelease, Release, Sharing, by_level, public_total
from blowfishdb.engine.request import read_query, write_query
from blowfishdb.engine.supplement import Part, quote_combined, supplement
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import BlowfishError, ContentChanged, DigestMismatch, LedgerCorrupt
from blowfishdb.ledger import Ledger
from blowfishdb.ledger.values import BROKEN, Link, PastLink, Publication, Receipt, owed
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Ints
from blowfishdb.model.query import Query
from blowfishdb.noise.coupling import is_served
from blowfishdb.plan.plan import Plan
from blowfishdb.present.answer_values import MeasuredRows

SHARED_KINDS = ("count", "histogram", "histogram2d", "cdf", "ranges", "marginals", "sum", "mean", "quantiles", "joint")
"""Queries whose rows may be measured at several levels; a table of several aggregates stays by itself."""
MOST_ROWS = 2**20
"""Answers of more measured rows do not carry them, so nothing is built on them."""
MOST_TRIED = 8
"""The number of earlier releases that are looked at closely for one that answers a question."""
MOST_COMBINED = 4
"""The number of earlier releases that a supplement is combined with."""
TOO_COARSE = 5
"""An earlier release that is less accurate than asked by more than this factor is not worth combining."""
MOST_REMEMBERED = 4096
MEASURED = Measured()


def reads_data(sharing: Sharing | None, analyst: str) -> bool:
    """Whether rows are counted: always, but for an answer that follows from the analyst's own.

    One that follows from another analyst's would not need the counts; counting all the same keeps time from telling.
    """
    finer = None if sharing is None else sharing.finer
    return finer is None or finer.analyst != analyst


@dataclass(frozen=True, eq=False)
class Ways:
    """Every way to a release that is known, the cheapest first; and why an own answer is not built on."""

    releases: tuple[Release, ...]
    unproven: str = ""


def share(ledger: Ledger, handle: DatasetHandle, analyst: str, release: Release) -> Release:
    """The release as the cheapest continuation of what was released before; the release itself where it shares nothing.

    Nothing is charged. Chains are found by what is measured, never by values.
    """
    return ways_to(ledger, handle, analyst, release).releases[0]


def ways_to(ledger: Ledger, handle: DatasetHandle, analyst: str, release: Release) -> Ways:
    """The release by the same rows; where that is not free, also read off earlier cells, or else as a supplement."""
    plain = _sharable(handle, release)
    if plain is None or plain.target is None:
        return Ways((release,))
    releases: list[PlanRelease]
    offers = _Offers(ledger, handle, analyst, plain.compiled, plain.target)
    if plain.compiled.joined is not None:
        return Ways((replace(plain, sharing=offers.new_chain(plain.best)),))
    is_open = plain.target.alpha is not None and plain.target.mechanism is None
    # Noise on edges is drawn at one level only.
    alone, quotes = ([], [plain.best]) if isinstance(plain.plan, Plan) else ([plain], [])
    quotes += offers.continued_quotes(plain.best.mechanism) if is_open else ()
    releases = [*alone, *(replace(plain, best=best, sharing=sharing) for best, sharing in map(offers.of, quotes))]
    if is_open and all(one.price > 0 for one in releases):
        earlier = list(_earlier(ledger, handle, analyst, plain))
        other = _derived(ledger, handle, plain, earlier) or _supplement(ledger, plain, earlier, offers)
        releases += [] if other is None else [other]
    releases.sort(key=lambda one: one.price)
    return Ways(tuple(releases), offers.unproven(plain.best))


def ways_words(release: Release, ways: Ways, analyst: str) -> tuple[Way, ...]:
    """What an analyst is told of the ways to a release; nothing where only a fresh answer is to be had."""
    known: dict[WayName, Way] = {}
    for one in ways.releases:
        if isinstance(one, PlanRelease) and one.sharing is not None:
            entries = tuple(past.entry for past in one.beside)
            if one.price < one.sharing.link.level:
                mine = (past for past in one.sharing.published if past.analyst == analyst)
                entries = (max(mine, key=by_level).charge,)
            way = Way(one.way, one.price, one.compiled.shown(one.best.alpha), entries)
            known.setdefault(one.way, way)
    if not isinstance(release, PlanRelease) or set(known) <= {"fresh"}:
        return ()
    known.setdefault("fresh", Way("fresh", release.epsilon, release.compiled.shown(release.best.alpha)))
    return tuple(known.values())


def resume(ledger: Ledger, handle: DatasetHandle, release: Release, receipt: Receipt) -> Release:
    """The release as an earlier attempt was charged for it, with what its chain has published by now."""
    link, analyst = receipt.charge.link, receipt.charge.analyst
    plain = _sharable(handle, release)
    if link is None or plain is None or plain.target is None:
        return release
    if link.rows != rows_digest(handle, analyst, plain.compiled):
        earlier = [one for one in _earlier(ledger, handle, analyst, plain) if one.past.link.chain == link.chain]
        return _derived(ledger, handle, plain, earlier) or release
    name = link.chain.split(".")[1]
    quote = plain.best if plain.best.mechanism == name else _quote_at(plain.compiled, plain.target, name, link.level)
    sharing = _sharing(link, receipt.charge.epsilon, ledger.links(handle.account, link.rows))
    entries = json.loads(receipt.charge.certificate).get("combined", [])
    if entries:
        earlier = [one for one in _earlier(ledger, handle, analyst, plain) if one.past.charge in entries]
        known = [Part(one.quote.candidate, one.past.link.level) for one in earlier]
        combined = quote_combined(quote, plain.target, link.level, known) if len(known) == len(entries) else None
        if combined is not None:
            return replace(plain, best=combined, sharing=sharing, beside=_beside(ledger, earlier))
    if quote.epsilon != link.level:
        quote = _quote_at(plain.compiled, plain.target, name, link.level)
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
    reads = reads_data(sharing, receipt.charge.analyst)
    # Marks are made wherever rows are counted, needed or not, so that the time is the same.
    before = _content_mark(ledger, handle) if reads else sharing.mark
    # A chain that ended has nothing published any more: whoever paid a part of the level must not draw all of it anew.
    is_unpaid = finer is None and coarser is None and receipt.charge.epsilon != sharing.link.level
    is_barred = finer is None and not sharing.may_count
    if is_unpaid or is_barred or (finer is None and coarser is not None and UNPROVEN in (before, sharing.mark)):
        raise ContentChanged(receipt.charge.received)
    counts = count() if reads else None
    # Fresh marks: a file that changed while it was counted was perhaps counted in between.
    after = _content_mark(ledger, handle) if reads else sharing.mark
    given = frozenset(past.charge for past in sharing.published)
    if finer is not None:
        source, level = finer
        measured = measure_given(release.certified, None, level, None if coarser is None else coarser[1])
        return replace(source, noisy=measured.noisy), Publication(given, sharing.mark)
    if coarser is not None and {before, after} != {sharing.mark}:
        raise ContentChanged(receipt.charge.received)
    measured = measure_given(release.certified, counts, None, None if coarser is None else coarser[1])
    total = None if counts is None else public_total(release.compiled, counts)
    return MeasuredRows(measured.noisy, measured.exact, total), Publication(
        given, before if before == after else UNPROVEN
    )


def failed_publication(release: PlanRelease) -> Publication | None:
    """What a draw that failed after noise adds to its chain: that nothing of it is drawn from the data any more.

    A failure may depend on the noise, and a second draw given the same coarser values would lose more than was paid.
    """
    sharing = release.sharing
    if sharing is None or sharing.finer is not None:
        return None
    return Publication(frozenset(past.charge for past in sharing.published), BROKEN)


def refreshed(ledger: Ledger, handle: DatasetHandle, release: PlanRelease) -> PlanRelease:
    """The release with what its chain has published by now."""
    sharing = release.sharing
    if sharing is None:
        return release
    links = ledger.links(handle.account, sharing.link.rows)
    return replace(release, sharing=_sharing(sharing.link, sharing.epsilon, links))


def shared_words(ledger: Ledger, handle: DatasetHandle, analyst: str, release: Release) -> Shared | None:
    """What an analyst is told about the part that an own entry has paid; None where that is nothing."""
    sharing = None if (plain := _sharable(handle, release)) is None else plain.sharing
    if sharing is None or sharing.link.received == sharing.link.level:
        return None
    links = [past for past in ledger.links(handle.account, sharing.link.rows) if past.link.chain == sharing.link.chain]
    newest = max((past for past in links if past.analyst == analyst), key=by_level)
    return Shared(sharing.link.received, sharing.link.level, newest.charge, shown_day(ledger.time_of(newest.charge)))


def _sharable(handle: DatasetHandle, release: Release) -> PlanRelease | None:
    """The release where it may build on others; programs, and what is free anyway, stay by themselves."""
    if handle.sharing == OFF or not isinstance(release, PlanRelease):
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


@dataclass(frozen=True, eq=False)
class _Offers:
    """What the chains over the rows of one question offer one analyst."""

    ledger: Ledger
    handle: DatasetHandle
    analyst: str
    compiled: Compiled
    target: AccuracyTarget

    @cached_property
    def rows(self) -> str:
        """The digest of the counted cells."""
        return rows_digest(self.handle, self.analyst, self.compiled)

    @cached_property
    def links(self) -> list[PastLink]:
        """The charges of all chains over the rows."""
        return self.ledger.links(self.handle.account, self.rows)

    @cached_property
    def content(self) -> str:
        """The mark of the data as it is now."""
        return _content_mark(self.ledger, self.handle)

    def chains(self, quote: Quote) -> dict[str, list[PastLink]]:
        """The chains of what the quote measures."""
        chains: dict[str, list[PastLink]] = {}
        for past in self.links:
            if past.link.chain.startswith(self._start(quote)):
                chains.setdefault(past.link.chain, []).append(past)
        return chains

    def of(self, quote: Quote, without: Container[str] = ()) -> tuple[Quote, Sharing]:
        """The cheapest way for the analyst to have the rows of the quote at its level; ties cost the data the least."""
        # Asked for whether it is needed or not: that it is may be due to another analyst.
        content, chains, offers = self.content, self.chains(quote), []
        for name, chain in chains.items():
            levels = (past.link.level for past in chain if past.analyst == self.analyst and past.is_published)
            mine = max(levels, default=Fraction(0))
            level = max(quote.epsilon, mine)
            link = Link(name, level, owed(chain, level, self.analyst))
            sharing = _sharing(link, owed(chain, level), chain)
            if name not in without and _is_possible(sharing, quote, level, content):
                is_same = level == quote.epsilon
                at_level = quote if is_same else _quote_at(self.compiled, self.target, quote.mechanism, level)
                offers.append((at_level, sharing))
        if not offers:
            return quote, self.new_chain(quote)
        return min(offers, key=lambda offer: (offer[1].link.received, offer[1].epsilon))

    def new_chain(self, quote: Quote) -> Sharing:
        """The first link of a chain of its own."""
        level = quote.epsilon
        return Sharing(Link(f"{self._start(quote)}{len(self.chains(quote)) + 1}", level, level), level)

    def continued_quotes(self, best: str) -> Iterator[Quote]:
        """What the other mechanisms ask by which the analyst had these rows before."""
        names = {past.link.chain.split(".")[1] for past in self.links if past.analyst == self.analyst}
        for name in sorted(names - {best}):
            try:
                yield quotes_for(self.compiled, replace(self.target, mechanism=name)).best
            except BlowfishError:
                continue

    def unproven(self, quote: Quote) -> str:
        """Why a part that the analyst paid is not built on: the rows are not known to be the same."""
        for chain in self.chains(quote).values():
            mine = [past for past in chain if past.analyst == self.analyst and past.is_published]
            is_finer = any(past.link.level >= quote.epsilon for past in mine)
            if mine and not is_finer and UNPROVEN in (mine[0].mark, self.content):
                return UNTOLD.format(max(mine, key=by_level).charge)
            if mine and not is_finer and mine[0].mark != self.content:
                return CHANGED.format(max(mine, key=by_level).charge)
        return ""

    def _start(self, quote: Quote) -> str:
        return f"{self.rows}.{quote.mechanism}.{_shape(quote.candidate.plan.digest())}."


UNTOLD = (
    "Entry {} is not made more accurate for the difference: this source cannot prove that its rows are still the same. "
    "A curator may declare the dataset read-only."
)
CHANGED = (
    "Entry {} is not made more accurate for the difference: the rows have changed since, or another server measured "
    "them."
)


def _is_possible(sharing: Sharing, quote: Quote, level: Fraction, content: str) -> bool:
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
    return sharing.may_count and coarser is not None and sharing.mark != UNPROVEN and content == sharing.mark


@dataclass(frozen=True, eq=False)
class _Earlier:
    """An own earlier release whose cells give the answers: its query, the new query over its cells, and the promise."""

    past: PastLink
    compiled: Compiled
    over: Compiled
    quote: Quote


def _earlier(ledger: Ledger, handle: DatasetHandle, analyst: str, plain: PlanRelease) -> Iterator[_Earlier]:
    """The analyst's own releases that give the answers, the finest first; which they are depends on plans alone."""
    tried = 0
    for level, charge, chain in ledger.finest_links(handle.account, analyst):
        query = _measured_query(ledger, charge, chain)
        if query is None or plain.target is None or not may_derive(plain.compiled.query, query):
            continue
        if tried == MOST_TRIED:
            return
        tried += 1
        try:
            compiled, measured = MEASURED.of(handle, json.dumps(write_query(query)), query, chain.split(".")[1])
        except BlowfishError:
            continue
        if _shape(measured.plan.digest()) not in chain:
            continue
        derived = derive(plain.compiled, plain.target, compiled, measured, level)
        if derived is not None:
            yield _Earlier(PastLink(charge, analyst, Link(chain, level, level), ""), compiled, *derived)


_queries: dict[tuple[str, int, str], Query | None] = {}


def _measured_query(ledger: Ledger, charge: int, chain: str) -> Query | None:
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


def _derived(
    ledger: Ledger, handle: DatasetHandle, plain: PlanRelease, earlier: Iterable[_Earlier]
) -> PlanRelease | None:
    """The release read off the cells of the first earlier one that is accurate enough, for nothing."""
    alpha = None if plain.target is None else plain.target.alpha
    for one in earlier:
        if alpha is not None and plain.compiled.shown(one.quote.alpha) <= float(alpha):
            link = Link(one.past.link.chain, one.past.link.level, Fraction(0))
            sharing = _sharing(link, Fraction(0), ledger.links(handle.account, link.rows))
            return replace(plain, compiled=one.over, best=one.quote, sharing=sharing, derived_from=one.compiled)
    return None


def _supplement(ledger: Ledger, plain: PlanRelease, earlier: Sequence[_Earlier], offers: _Offers) -> PlanRelease | None:
    """The release that measures what earlier ones leave to be known, and combines them; None where none saves.

    The new noise must be independent of the old one, so it comes from a chain of which the analyst has nothing.
    """
    if plain.target is None or plain.target.alpha is None:
        return None
    alpha = plain.compiled.alpha(plain.target.alpha)
    near = [one for one in earlier if one.quote.alpha <= TOO_COARSE * alpha][:MOST_COMBINED]
    if not near:
        return None
    known = [Part(one.quote.candidate, one.past.link.level) for one in near]
    quoted = [plain.best] if isinstance(plain.plan, Plan) else quotes_for(plain.compiled, plain.target).offers
    fresh = next((one for one in quoted if isinstance(one.candidate.plan, Plan)), None)
    quote = None if fresh is None else supplement(fresh, plain.target, alpha, known)
    if fresh is None or quote is None or quote.epsilon >= plain.price:
        return None
    mine = {past.link.chain for past in offers.links if past.analyst == offers.analyst}
    _, sharing = offers.of(replace_level(fresh, quote.epsilon), mine)
    return replace(plain, best=quote, sharing=sharing, beside=_beside(ledger, near))


def replace_level(quote: Quote, level: Fraction) -> Quote:
    """The quote of the same candidate at another level; only what it measures is meant."""
    return Quote(quote.candidate, level, quote.alpha, quote.beta, quote.guarantee, quote.method)


def _beside(ledger: Ledger, earlier: Iterable[_Earlier]) -> tuple[Beside, ...]:
    return tuple(Beside(one.past.charge, one.past.link.level, _rows_of(ledger, one.past)) for one in earlier)


def _shape(plan_digest: str) -> str:
    """A short name for the rows and weights of a plan."""
    return hashlib.sha256(plan_digest.encode()).hexdigest()[:32]


def _quote_at(compiled: Compiled, target: AccuracyTarget, mechanism: str, level: Fraction) -> Quote:
    """What a mechanism promises at a level."""
    mechanisms = {mechanism: MECHANISMS[mechanism]}
    return accuracy_at(compiled.problem, level, float(target.beta), mechanisms, target.guarantee).best


def _sharing(link: Link, epsilon: Fraction, links: Iterable[PastLink]) -> Sharing:
    """A link with what its chain has published."""
    chain = [past for past in links if past.link.chain == link.chain]
    may_count = all(past.mark != BROKEN for past in chain)
    return Sharing(link, epsilon, tuple(past for past in chain if past.is_published), may_count)


def _content_mark(ledger: Ledger, handle: DatasetHandle) -> str:
    """The mark of the data as it is now. What a curator declares is no secret, and the same on all servers."""
    try:
        content = handle.content()
    except BlowfishError:
        return UNPROVEN
    if content is None or content == READ_ONLY:
        return content or UNPROVEN
    return ledger.mark.keyed(content)


def _rows_of(ledger: Ledger, past: PastLink) -> MeasuredRows:
    """The rows that an entry published."""
    receipt = ledger.receipt(past.charge)
    payload = None if receipt is None else ledger.answer_for(receipt)
    if payload is None:
        raise LedgerCorrupt("an answer that others build on is missing", sequence=past.charge)
    rows = MeasuredRows.read(json.loads(payload).get("measured"))
    if rows is None:
        raise LedgerCorrupt("an answer that others build on has lost its rows", sequence=past.charge)
    return rows


def _neighbour(ledger: Ledger, release: PlanRelease, past: PastLink | None) -> tuple[MeasuredRows, Level] | None:
    """The published rows of a neighbouring level, and the level with its unit."""
    if past is None:
        return None
    rows, plan = _rows_of(ledger, past), release.certified.plan
    if rows.noisy.size != plan.weights.size:
        raise LedgerCorrupt("an answer that others build on has lost its rows", sequence=past.charge)
    return rows, Level(plan.unit * release.epsilon / past.link.level, rows.noisy)
