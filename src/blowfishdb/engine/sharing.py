"""Sharing: a release's place in a chain of answers that measure the same rows, and what is drawn from what.

The proof is docs/proofs/sharing.md. Prices follow from an analyst's own past and from public events alone, so that none
shows what others asked, or what the data holds.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from blowfishdb.accuracy.candidates import CertifiedCandidate, round_up
from blowfishdb.accuracy.closeness import no_wider, vary_no_more
from blowfishdb.accuracy.quote import Quote, accuracy_at
from blowfishdb.engine.answer import stored_document
from blowfishdb.engine.combination import (
    MOST,
    MOST_ENTRIES,
    MOST_SEARCHED,
    Combined,
    CombinedMeasurement,
    MeasurementCache,
    combine,
    least_level,
    likely_level,
    spread_of,
)
from blowfishdb.engine.compile import (
    OFF,
    OWN,
    READ_ONLY,
    Compiled,
    DatasetHandle,
    counts_people,
    looked_at,
    starts_of,
)
from blowfishdb.engine.measure import PublishedLevel, measure_given
from blowfishdb.engine.measured import measured_query, measured_starts, queries_of, widened, without
from blowfishdb.engine.preview import Shared, Way, WayName, quotes_for, shown_day
from blowfishdb.engine.release import UNPROVEN, Beside, PlanRelease, Release, Sharing, by_level, public_total
from blowfishdb.engine.request import AccuracyTarget, read_query, write_query
from blowfishdb.errors import BlowfishError, ContentChanged, DigestMismatch, LedgerCorrupt
from blowfishdb.ledger import Ledger
from blowfishdb.ledger.amounts import SUM
from blowfishdb.ledger.values import BROKEN, Link, PastLink, Publication, Receipt, owed
from blowfishdb.mechanisms.table import mechanism_with
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Ints
from blowfishdb.model.query import KINDS, Query
from blowfishdb.model.serialize import LONG
from blowfishdb.noise.coupling import is_served
from blowfishdb.noise.distribution import MIN_SCALE
from blowfishdb.plan.plan import Plan
from blowfishdb.present.answer_values import MeasuredRows

MOST_ROWS = 2**20
"""Answers of more measured rows do not carry them, so nothing is built on them."""
MOST_TRIED = 8
"""The number of earlier releases that are looked at closely, and at most combined with each other."""
TOO_COARSE = 12
"""An earlier release at a level below this part of the price tells too little to be looked at."""
NEGLIGIBLE = 0.02
"""Measurements that enter no answer with a larger coefficient are left out of a combination."""
NEAR = 1.3
"""Answers that vary more than fresh ones by more than this factor are surely not accurate enough."""
FAINT = 1e-9
"""Below this standard deviation floats do not tell answers apart."""
NOWHERE = frozenset[int]()
READ_OFF_PAIRS = ("mean", "sum", "table")
"""Kinds whose intervals may be read off the noise of two rows."""
MOST_OTHERS = 3
"""The number of queries beside the one asked whose cells are tried."""
MOST_QUOTED = 4
"""The number of supplements, the likely cheapest ones, whose accuracy is assessed."""
MEASURED = MeasurementCache()


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
    offers = _Offers(ledger, handle, analyst, plain.compiled)
    fresh = _own_part(plain.compiled, plain.best)
    if plain.compiled.joined is not None:
        # The accuracies of several questions are those of one level.
        sharing = offers.of(fresh)
        same = sharing if sharing.link.level == fresh.level else offers.new_chain(fresh)
        return Ways((replace(plain, sharing=same),))
    # Counts of persons do not add up.
    is_open = plain.target.mechanism is None and not counts_people(plain.compiled.query)
    # Noise on edges is drawn at one level only.
    releases, quotes = ([], [plain.best]) if isinstance(plain.plan, Plan) else ([plain], [])
    quotes += offers.continued_quotes(plain.best.mechanism, plain.target) if is_open else ()
    for quote in quotes:
        sharing = offers.of(_own_part(plain.compiled, quote))
        level = sharing.link.level
        best = quote if level == quote.epsilon else _quote_at(plain.compiled, plain.target, quote.mechanism, level)
        release = replace(plain, best=best, sharing=sharing)
        if quote is plain.best or plain.target.epsilon is None or _is_no_wider(release, plain):
            releases.append(release)
    if is_open and all(one.price > 0 for one in releases):
        combining = _Combining(ledger, handle, analyst, plain)
        free = combining.free()
        releases += combining.measured_anew() if free is None else [free]
    # Of two that cost the same, the one that tells more.
    releases.sort(key=lambda one: (one.price, one.measures is None))
    return Ways(tuple(releases), offers.unproven(fresh))


def _is_no_wider(release: PlanRelease, fresh: PlanRelease) -> bool:
    """Whether every answer of a release surely varies no more than that of the fresh one, and none promises less.

    Either alone is not enough: noise that is 0 in nineteen draws of twenty promises as much as noise that always is.
    """
    return _varies_no_more(release.best.candidate, release.best.epsilon, fresh) and _promises_no_less(release, fresh)


def _varies_no_more(candidate: CertifiedCandidate, level: Fraction, fresh: PlanRelease) -> bool:
    return vary_no_more(candidate, level, fresh.best.candidate, fresh.best.epsilon)


def _promises_no_less(release: PlanRelease, fresh: PlanRelease) -> bool:
    by_pairs = fresh.compiled.query.kind in READ_OFF_PAIRS
    return release.best.alpha <= fresh.best.alpha and no_wider(release.widths, fresh.widths, by_pairs=by_pairs)


def ways_words(release: Release, ways: Ways, analyst: str) -> tuple[Way, ...]:
    """What an analyst is told of the ways to a release; nothing where only a fresh answer is to be had."""
    known: dict[WayName, Way] = {}
    for one in ways.releases:
        if isinstance(one, PlanRelease) and one.sharing is not None:
            entries = tuple(past.entry for past in one.beside)
            if one.price < one.sharing.link.level:
                mine = (past for past in one.sharing.published if past.analyst == analyst)
                entries = (max(mine, key=by_level).charge, *entries)
            way = Way(one.way, one.price, one.compiled.promised(one.best.alpha), entries)
            known.setdefault(one.way, way)
    if not isinstance(release, PlanRelease) or set(known) <= {"fresh"}:
        return ()
    known.setdefault("fresh", Way("fresh", release.epsilon, release.compiled.promised(release.best.alpha)))
    return tuple(known.values())


def resume(ledger: Ledger, handle: DatasetHandle, release: Release, receipt: Receipt) -> Release:
    """The release as an earlier attempt was charged for it, with what its chain has published by now."""
    link, analyst = receipt.charge.link, receipt.charge.analyst
    plain = _sharable(handle, release)
    if link is None or plain is None or plain.target is None:
        return release
    name, document = link.chain.split(".")[1], json.loads(receipt.charge.certificate)
    sharing = _sharing(link, receipt.charge.epsilon, ledger.links(handle.account, link.rows))
    is_own = link.rows == rows_digest(handle, analyst, plain.compiled)
    if "combined" in document or "family" in document or not is_own:
        combining = _Combining(ledger, handle, analyst, plain)
        earlier = [one for entry in document.get("combined", ()) if (one := combining.at_entry(entry)) is not None]
        last = combining.part(read_query(document["measured"]), name, link.level)
        system = None if last is None else combine(plain.compiled, [*(one.part for one in earlier), last])
        quote = None if system is None else system.quote(plain.target, link.level)
        if quote is None or last is None or len(earlier) != len(document.get("combined", ())):
            return release
        measures = None if is_own and "family" not in document else last.compiled
        return replace(plain, best=quote, sharing=sharing, measures=measures, beside=_beside(ledger, earlier))
    quote = plain.best if plain.best.mechanism == name else _quote_at(plain.compiled, plain.target, name, link.level)
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
    total = None if counts is None else public_total(release.counted, counts)
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
    current = _sharing(sharing.link, sharing.epsilon, ledger.links(handle.account, sharing.link.rows))
    # What the release has worked out by now, its intervals and its certificate, stays with it.
    return release if current == sharing else replace(release, sharing=current)


def shared_words(ledger: Ledger, handle: DatasetHandle, analyst: str, release: Release) -> Shared | None:
    """What an analyst is told about the part that an earlier entry of theirs has paid; None where that is nothing."""
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
    if not KINDS[release.compiled.query.kind].may_share:
        return None
    return release if 0 < release.plan.weights.size <= MOST_ROWS else None


def rows_digest(handle: DatasetHandle, analyst: str, compiled: Compiled) -> str:
    """A digest of the counted cells under the versions in force; of one analyst where sharing goes no further."""
    plain = partial(json.dumps, sort_keys=True)
    whose = plain(analyst if handle.sharing == OWN else None), plain(handle.versions())
    if whose not in compiled.row_digests:
        compiled.row_digests[whose] = _rows_digest(compiled, *whose)
    return compiled.row_digests[whose]


def _rows_digest(compiled: Compiled, analyst: str, versions: str) -> str:
    cells, plain = compiled.cells, partial(json.dumps, sort_keys=True)
    # A plan for several questions has no filter of its own, and may count the records of theirs alone.
    axes, where = write_query(compiled.query)["axes"], write_query(Query("count", where=cells.where))["where"]
    # The JSON of one dictionary, put together: axes of a million cells are the numbers 0, 1, 2, ... twice.
    layout = ", ".join(
        f"[{plain(name)}, {_whole_numbers(axis.segments.starts)}, {_whole_numbers(axis.cell_of)}]"
        for name, axis in cells.layout.items()
    )
    counted = f"[{plain(list(cells.axes))}, [{layout}], {plain(cells.graph.digest())}]"
    about = f'"analyst": {analyst}, "axes": {plain(axes)}'
    # Where persons are counted, the same cells have other numbers.
    people = '"people": true, ' if compiled.table is not None and compiled.table.counts_people else ""
    rest = f'{people}"versions": {versions}, "where": {plain(where)}'
    return hashlib.sha256(f'{{{about}, "cells": {counted}, {rest}}}'.encode()).hexdigest()


def _whole_numbers(numbers: Ints) -> str:
    is_counting = numbers.size >= LONG and np.array_equal(numbers, np.arange(numbers.size))
    return _counting(numbers.size) if is_counting else json.dumps(numbers.tolist())


@lru_cache(maxsize=4)
def _counting(size: int) -> str:
    return json.dumps(list(range(size)))


@dataclass(frozen=True, eq=False)
class _Offers:
    """What the chains over the rows of one question offer one analyst."""

    ledger: Ledger
    handle: DatasetHandle
    analyst: str
    compiled: Compiled

    @cached_property
    def rows(self) -> str:
        """The digest of the counted cells."""
        return rows_digest(self.handle, self.analyst, self.compiled)

    @cached_property
    def charges(self) -> dict[str, list[PastLink]]:
        """The charges of all chains over the rows, by chain."""
        charges: dict[str, list[PastLink]] = defaultdict(list)
        for past in self.ledger.links(self.handle.account, self.rows):
            charges[past.link.chain].append(past)
        return charges

    @cached_property
    def mine(self) -> set[str]:
        """The chains in which the analyst was charged."""
        return {name for name, chain in self.charges.items() if any(past.analyst == self.analyst for past in chain)}

    @cached_property
    def last_write(self) -> str:
        """The mark of the last write to the data."""
        return _write_mark(self.ledger, self.handle)

    def chains(self, part: CombinedMeasurement) -> dict[str, list[PastLink]]:
        """The chains of what is measured."""
        start = self._start(part)
        return {name: chain for name, chain in self.charges.items() if name.startswith(start)}

    def _finest(self, chain: Iterable[PastLink]) -> PastLink | None:
        """The finest of the analyst's own levels that were published."""
        published = (past for past in chain if past.analyst == self.analyst and past.is_published)
        return max(published, key=by_level, default=None)

    def of(self, part: CombinedMeasurement, without: Container[str] = ()) -> Sharing:
        """The cheapest way for the analyst to have the rows at their level; ties cost the data the least.

        An own finer level is had for nothing, so the link may be at a finer level than asked.
        """
        offers = []
        for name, chain in self.chains(part).items():
            finest = self._finest(chain)
            level = part.level if finest is None else max(part.level, finest.link.level)
            sharing = _sharing(Link(name, level, owed(chain, level, self.analyst)), owed(chain, level), chain)
            if name not in without and self._is_possible(sharing, part.candidate, chain):
                offers.append(sharing)
        if not offers:
            return self.new_chain(part)
        return min(offers, key=lambda sharing: (sharing.link.received, sharing.epsilon))

    def _is_possible(self, sharing: Sharing, candidate: CertifiedCandidate, chain: Sequence[PastLink]) -> bool:
        """Whether a chain may go on at a level: a price depends on it, so on the analyst's own links and on no others.

        What the analyst has not received may be drawn while the data has not been written to. A chain that others may
        join has levels between which any other can be drawn; one that began at another level is its analyst's alone.
        """
        finest, level = self._finest(chain), sharing.link.level
        if finest is not None and finest.link.level >= level:
            return True
        is_mine = any(past.analyst == self.analyst for past in chain)
        if (is_mine and finest is None) or sharing.mark == UNPROVEN or _written(sharing.mark) != self.last_write:
            return False
        if self.handle.sharing == OWN or not is_regular(candidate, chain[0].link.level):
            coarser = None if finest is None else candidate.plan.unit / finest.link.level
            return is_mine and is_served(None, candidate.plan.unit / level, coarser, candidate.weights)
        is_drawn = sharing.finer is not None or (sharing.may_count and sharing.coarser is not None)
        return is_drawn and is_regular(candidate, level)

    def new_chain(self, part: CombinedMeasurement) -> Sharing:
        """The first link of a chain of its own."""
        return Sharing(Link(f"{self._start(part)}{len(self.chains(part)) + 1}", part.level, part.level), part.level)

    def continued_quotes(self, best: str, target: AccuracyTarget) -> Iterator[Quote]:
        """What the other mechanisms ask by which the analyst had these rows before."""
        names = {name.split(".")[1] for name in self.mine}
        for name in sorted(names - {best}):
            try:
                yield quotes_for(self.compiled, target.by(name)).best
            except BlowfishError:
                continue

    def unproven(self, part: CombinedMeasurement) -> str:
        """Why a part that the analyst paid is not built on: the rows are not known to be the same."""
        for chain in self.chains(part).values():
            finest = self._finest(chain)
            if finest is None or finest.link.level >= part.level:
                continue
            written = _written(finest.mark or UNPROVEN)
            if written != self.last_write or written == UNPROVEN:
                words = UNTOLD if UNPROVEN in (written, self.last_write) else CHANGED
                return words.format(finest.charge)
        return ""

    def _start(self, part: CombinedMeasurement) -> str:
        return f"{self.rows}.{part.candidate.strategy.mechanism}.{_shape(part.candidate.plan_digest)}."


UNTOLD = (
    "Entry {} is not made more accurate for the difference: this source cannot prove that its rows are still the same. "
    "A curator may declare the dataset read-only."
)
CHANGED = (
    "Entry {} is not made more accurate for the difference: the data was written to since, or another server measured "
    "it."
)


MOST_DIGITS = 8
"""Digits of a level beside which others are drawn, less those of the scale of its noise (docs/proofs/sharing.md)."""


def is_regular(candidate: CertifiedCandidate, level: Fraction) -> bool:
    """Whether a level can be drawn beside every other such level: it has so few digits that none is too near.

    The noise between two levels has a scale that grows as they come together, and is bounded.
    """
    unit, lightest, heaviest = candidate.plan.unit, int(candidate.weights.min()), int(candidate.weights.max())
    digits = MOST_DIGITS - max(0, _magnitude(unit / (level * lightest)))
    if digits < 1 or 2 * level * heaviest * MIN_SCALE > unit:
        return False
    return (level * Fraction(10) ** (digits - _magnitude(level))).denominator == 1


def _magnitude(number: Fraction) -> int:
    """The least power of ten that is not below a number."""
    power = math.ceil(math.log10(number))
    # Floats may be off by one where the number is close to a power.
    return next(one for one in (power - 1, power, power + 1) if number <= Fraction(10) ** one)


@dataclass(frozen=True, eq=False)
class _Earlier:
    """An own earlier entry, and what it measured."""

    past: PastLink
    part: CombinedMeasurement


@dataclass(frozen=True, eq=False)
class _Supplement:
    """A measurement that may be made beside earlier ones, and about what it costs.

    Where it makes an earlier one more accurate, the level of that one is paid.
    """

    price: Fraction
    part: CombinedMeasurement
    system: Combined
    beside: list[_Earlier]
    upgraded: _Earlier | None = None

    @property
    def paid(self) -> Fraction:
        """The part of its level that was paid before."""
        return Fraction(0) if self.upgraded is None else self.upgraded.part.level


@dataclass(frozen=True, eq=False)
class _Combining:
    """The answers to a question from what its analyst had measured before; all of it depends on plans alone."""

    ledger: Ledger
    handle: DatasetHandle
    analyst: str
    plain: PlanRelease

    @cached_property
    def earlier(self) -> list[_Earlier]:
        """The analyst's own measurements that may tell something, the finest first.

        A price is met by measurements at its level or above, out of whose cells all that is asked about is made.
        """
        earlier = list[_Earlier]()
        least = self.plain.best.epsilon / (1 if self._is_price else TOO_COARSE)
        for level, charge, chain in self.ledger.finest_links(self.handle.account, self.analyst):
            if level < least or len(earlier) == MOST_TRIED:
                break
            query = measured_query(self.ledger, charge, chain)
            if query is not None and self._may_tell(query, (self.ledger.id, charge, chain)):
                one = self._checked(query, PastLink(charge, self.analyst, Link(chain, level, level), ""))
                earlier += [] if one is None else [one]
        return earlier

    @cached_property
    def _is_price(self) -> bool:
        return self.plain.target is not None and self.plain.target.alpha is None

    @cached_property
    def _asked(self) -> Mapping[str, frozenset[int]]:
        return starts_of(self.handle.domain, self.plain.compiled.query)

    def _may_tell(self, query: Query, entry: tuple[str, int, str]) -> bool:
        """Whether what a query measured may tell something of what is asked, or for a price, all of it."""
        if not self._is_price:
            return not self._asked or any(self._asked.keys() & looked_at(one) for one in queries_of(query))
        return any(
            all(starts <= known.get(name, NOWHERE) for name, starts in self._asked.items())
            for known in measured_starts(self.handle.domain, query, entry)
        )

    def at_entry(self, charge: int) -> _Earlier | None:
        """What an earlier entry of the analyst measured."""
        receipt = self.ledger.receipt(charge)
        link = None if receipt is None else receipt.charge.link
        query = None if link is None else measured_query(self.ledger, charge, link.chain)
        if receipt is None or link is None or query is None or receipt.charge.analyst != self.analyst:
            return None
        return self._checked(query, PastLink(charge, self.analyst, link, ""))

    def _checked(self, query: Query, past: PastLink) -> _Earlier | None:
        """The measurement of an entry, if its chain is that of this query's cells under the versions in force."""
        if any(counts_people(one) for one in queries_of(query)):
            return None
        link = past.link
        part = self.part(query, link.chain.split(".")[1], link.level)
        if part is None or _shape(part.candidate.plan_digest) not in link.chain:
            return None
        return _Earlier(past, part) if link.rows == rows_digest(self.handle, self.analyst, part.compiled) else None

    def part(self, query: Query, mechanism: str, level: Fraction) -> CombinedMeasurement | None:
        """What a mechanism measures of a query, at a level; None where it declines."""
        try:
            part = MEASURED.of(self.handle, json.dumps(write_query(query)), query, mechanism)
        except BlowfishError:
            return None
        return replace(part, level=level) if isinstance(part.candidate.plan, Plan) else None

    @cached_property
    def _spread(self) -> float:
        """The standard deviation that the accuracy leaves an answer: that of the fresh one."""
        return spread_of(self.plain.best.candidate, self.plain.best.epsilon)

    def free(self) -> PlanRelease | None:
        """The release read off one earlier measurement that is accurate enough, or else off all; None where none is."""
        for one in self.earlier:
            release = self._read_off(combine(self.plain.compiled, [one.part]), one, [])
            if release is not None:
                return release
        if len(self.earlier) < 2:
            return None
        last = self.earlier[0]
        system, beside = self._useful(last.part, self.earlier[1:], MOST_ENTRIES)
        return self._read_off(system, last, beside) if beside else None

    def _read_off(self, system: Combined | None, last: _Earlier, beside: list[_Earlier]) -> PlanRelease | None:
        """The release that measures nothing anew, in the chain of the last measurement."""
        plain, level = self.plain, last.past.link.level
        target = plain.target
        most = NEAR * self._spread
        if system is None or target is None or (most > FAINT and system.spread(level, most) > most):
            return None
        # Asked is an accuracy, or for a price what a fresh answer has; to look at variances alone is quicker.
        candidate = system.at(level) if target.alpha is None else None
        if target.alpha is None and (candidate is None or not _varies_no_more(candidate, level, plain)):
            return None
        quote = system.quote(target, level)
        if quote is None or (target.alpha is not None and quote.alpha > plain.compiled.alpha(target.alpha)):
            return None
        link = Link(last.past.link.chain, level, Fraction(0))
        sharing = _sharing(link, Fraction(0), self.ledger.links(self.handle.account, link.rows))
        beside_rows = _beside(self.ledger, beside)
        release = replace(plain, best=quote, sharing=sharing, measures=last.part.compiled, beside=beside_rows)
        return release if target.alpha is not None or _promises_no_less(release, plain) else None

    def _useful(
        self, last: CombinedMeasurement, beside: list[_Earlier], most: int
    ) -> tuple[Combined | None, list[_Earlier]]:
        """The combination with the earlier measurements that change its answers, as many as are not too large."""
        compiled, chosen = self.plain.compiled, beside
        while (system := combine(compiled, [*(one.part for one in chosen), last], most)) is None and chosen:
            chosen = chosen[:-1]
        candidate = None if system is None else system.at(last.level)
        if system is None or candidate is None:
            return None, []
        sizes = system.largest_coefficients(candidate)
        useful = [one for one, size in zip(chosen, sizes, strict=False) if size > NEGLIGIBLE]
        if len(useful) < len(chosen):
            system = combine(compiled, [*(one.part for one in useful), last], most)
        return system, useful

    def measured_anew(self) -> list[PlanRelease]:
        """The releases that measure other cells than those of the question, or combine what they measure.

        The noise of a supplement must be independent of the old one, so it comes from a chain of which the analyst has
        nothing.
        """
        plain, target = self.plain, self.plain.target
        if target is None or target.alpha is None:
            return []
        alpha, most = plain.compiled.alpha(target.alpha), MOST * plain.best.epsilon
        releases, likely = list[PlanRelease](), list[_Supplement]()
        for part in self._measurable():
            alone = None if part.compiled is plain.compiled else combine(plain.compiled, [part])
            quote = None if alone is None else alone.least(target, alpha, plain.best.epsilon)
            if alone is not None and quote is not None and quote.epsilon <= plain.best.epsilon:
                releases.append(self._measuring(_Supplement(quote.epsilon, part, alone, []), quote, target))
            system, beside = self._useful(part, self.earlier, MOST_SEARCHED)
            level = likely_level(system, most, target, alpha) if system is not None and beside else None
            if system is not None and level is not None:
                likely.append(_Supplement(level, part, system, beside))
        likely += self._upgraded(most, target, alpha)
        # Assessed are one with noise of its own, one that makes an earlier one more accurate, and what may be cheaper.
        kinds = set[bool]()
        for one in sorted(likely, key=lambda one: one.price)[:MOST_QUOTED]:
            otherwise = min((release.price for release in releases), default=None)
            is_upgrade = one.upgraded is not None
            if is_upgrade in kinds and otherwise is not None and otherwise <= one.price:
                continue
            quote = least_level(one.system, plain.best, one.paid + one.price, target, alpha, one.paid, otherwise)
            if quote is not None:
                releases.append(self._measuring(one, quote, target))
                kinds.add(is_upgrade)
        return releases

    def _upgraded(self, most: Fraction, target: AccuracyTarget, alpha: float) -> Iterator[_Supplement]:
        """Earlier measurements that may be made more accurate for the difference, each with the others beside it."""
        for one in self.earlier:
            paid, others = one.part.level, [other for other in self.earlier if other is not one]
            system, beside = self._useful(replace(one.part, level=paid + most), others, MOST_SEARCHED)
            likely = None if system is None else likely_level(system, most, target, alpha, paid)
            if system is None or likely is None:
                continue
            level = round_up(likely)
            supplement = _Supplement(level - paid, one.part, system, beside, one)
            if self._sharing_of(supplement, level).link.received <= supplement.price:
                yield supplement
                most = min(most, supplement.price)

    def _measuring(self, supplement: _Supplement, quote: Quote, target: AccuracyTarget) -> PlanRelease:
        """The release that measures a part and combines it."""
        part, system, sharing = supplement.part, supplement.system, self._sharing_of(supplement, quote.epsilon)
        best = quote if sharing.link.level == quote.epsilon else system.quote(target, sharing.link.level) or quote
        measures = None if part.compiled is self.plain.compiled else part.compiled
        beside = _beside(self.ledger, supplement.beside)
        return replace(self.plain, best=best, sharing=sharing, measures=measures, beside=beside)

    def _sharing_of(self, supplement: _Supplement, level: Fraction) -> Sharing:
        """The chain of a measurement that leaves least to pay, among those that are independent of what is beside it.

        Of the analyst's own chains over the same rows that is the one which is made more accurate.
        """
        offers = _Offers(self.ledger, self.handle, self.analyst, supplement.part.compiled)
        continued = set() if supplement.upgraded is None else {supplement.upgraded.past.link.chain}
        without = offers.mine - continued if supplement.beside else ()
        return offers.of(replace(supplement.part, level=level), without)

    def _measurable(self) -> Iterator[CombinedMeasurement]:
        """What may be measured for the question, at half of the fresh price."""
        plain = self.plain
        level, query = plain.best.epsilon / 2, plain.compiled.query
        names = dict.fromkeys((plain.best.mechanism, "identity"))
        for name in names if self.earlier else ():
            part = self.part(query, name, level)
            if part is not None:
                yield replace(part, compiled=plain.compiled)
        # Where losses are counted by class, more cells are a loss of more classes.
        wider = widened(query) if self.handle.accounting == SUM else None
        others = [wider, *(without(query, one.part.compiled.query) for one in self.earlier)]
        for other in list(dict.fromkeys(one for one in others if one is not None))[:MOST_OTHERS]:
            for name in names:
                part = self.part(other, name, level)
                if part is not None:
                    yield part


def _own_part(compiled: Compiled, quote: Quote) -> CombinedMeasurement:
    """What a quote measures of the cells of its query."""
    return CombinedMeasurement(compiled, quote.candidate, quote.epsilon)


def _beside(ledger: Ledger, earlier: Iterable[_Earlier]) -> tuple[Beside, ...]:
    rows = ((one.past, one.part.known(_rows_of(ledger, one.past))) for one in earlier)
    return tuple(Beside(past.charge, past.link.level, known) for past, known in rows)


def _shape(plan_digest: str) -> str:
    """A short name for the rows and weights of a plan."""
    return hashlib.sha256(plan_digest.encode()).hexdigest()[:32]


def _quote_at(compiled: Compiled, target: AccuracyTarget, mechanism: str, level: Fraction) -> Quote:
    """What a mechanism promises at a level."""
    mechanisms = {mechanism: mechanism_with(mechanism, target.by(mechanism).parameters)}
    guarantee = compiled.guarantee(target.guarantee)
    return accuracy_at(compiled.problem, level, float(target.beta), mechanisms, guarantee).best


def _sharing(link: Link, epsilon: Fraction, links: Iterable[PastLink]) -> Sharing:
    """A link with what its chain has published."""
    chain = [past for past in links if past.link.chain == link.chain]
    may_count = all(past.mark != BROKEN for past in chain)
    return Sharing(link, epsilon, tuple(past for past in chain if past.is_published), may_count)


def _write_mark(ledger: Ledger, handle: DatasetHandle) -> str:
    """The mark of the last write to the data, which is public."""
    return _keyed(ledger, handle.last_write)


def _content_mark(ledger: Ledger, handle: DatasetHandle) -> str:
    """The mark of the last write, and that of the data as it is now: for what is charged already."""
    written, content = _write_mark(ledger, handle), _keyed(ledger, handle.content)
    if UNPROVEN in (written, content):
        return UNPROVEN
    return written if written == READ_ONLY else f"{written}.{content}"


def _written(mark: str) -> str:
    """The mark of the last write in that of data."""
    return mark.partition(".")[0]


def _keyed(ledger: Ledger, look: Callable[[], str | None]) -> str:
    """A mark of what is seen. What a curator declares is no secret, and the same on all servers."""
    try:
        seen = look()
    except BlowfishError:
        return UNPROVEN
    if seen is None or seen == READ_ONLY:
        return seen or UNPROVEN
    return ledger.mark.keyed(seen)


def _rows_of(ledger: Ledger, past: PastLink) -> MeasuredRows:
    """The rows that an entry published."""
    receipt = ledger.receipt(past.charge)
    payload = None if receipt is None else ledger.answer_for(receipt)
    if payload is None:
        raise LedgerCorrupt("an answer that others build on is missing", sequence=past.charge)
    rows = MeasuredRows.read(stored_document(payload).get("measured"))
    if rows is None:
        raise LedgerCorrupt("an answer that others build on has lost its rows", sequence=past.charge)
    return rows


def _neighbour(
    ledger: Ledger, release: PlanRelease, past: PastLink | None
) -> tuple[MeasuredRows, PublishedLevel] | None:
    """The published rows of a neighbouring level, and the level with its unit."""
    if past is None:
        return None
    rows, plan = _rows_of(ledger, past), release.certified.plan
    if rows.noisy.size != plan.weights.size:
        raise LedgerCorrupt("an answer that others build on has lost its rows", sequence=past.charge)
    return rows, PublishedLevel(plan.unit * release.epsilon / past.link.level, rows.noisy)
