"""The backend over datasets that this process reaches itself: queries are compiled, charged and counted here.

Quotes of the last previews are cached, so that a release need not quote again.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TypeVar

from blowfishdb.catalog.catalog import Catalog, LiveCatalog
from blowfishdb.catalog.dataset import shown_joins
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import (
    UNREAD,
    Planned,
    Released,
    Run,
    charge_together,
    charged_payload,
    decode,
    edge_losses,
    plan_in_full,
    plan_request,
    published,
    repeated,
    with_rows,
)
from blowfishdb.engine.compile import CompiledQueries, Compute, DatasetHandle, compute_here, query_effort
from blowfishdb.engine.preview import AnyPreview, Preview, Way, continued, instead
from blowfishdb.engine.release import PlanRelease, Release
from blowfishdb.engine.request import Request, make_request
from blowfishdb.engine.sharing import shared_words, ways_to, ways_words
from blowfishdb.engine.synopsis import Synopsis, from_bytes, synopsis_ways
from blowfishdb.errors import BudgetExceeded, InvalidInput, NotInForce, QueryError, UnknownAnswer
from blowfishdb.incidents import redact_errors
from blowfishdb.ledger import Charge
from blowfishdb.ledger.values import check_text
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import PUBLISHED
from blowfishdb.session.backend import Backend, Budget, ListPart, Past, Published, ReleaseRequest, expect
from blowfishdb.session.turn import AnalystTurn
from blowfishdb.sources.base import Join

Result = TypeVar("Result")


def open_local(config: str | Path, analyst: str) -> Backend:
    """The backend of one analyst over the datasets of a configuration, with a ledger of its own to close."""
    name = checked_name(analyst)
    live = LiveCatalog(config)

    # A function, and no method: an attribute of a method would lead to the catalog.
    def close() -> None:
        live.close()

    return replace(local_backend(live.now, name), close=close)


def checked_name(analyst: str) -> str:
    """An analyst's name in the form in which it is charged, without spaces around it."""
    name = analyst.strip() if isinstance(analyst, str) else analyst
    check_text(name, "an analyst's name")
    return name


def local_backend(
    now: Callable[[], Catalog],
    analyst: str,
    gate: Callable[[str], object] = lambda _: None,
    quotes: QuoteCache | None = None,
    compute: Compute = compute_here,
) -> Backend:
    """The backend of one analyst over what they see of a catalog `now`; `gate` refuses datasets that are paused.

    `compute` does the arithmetic of plans and of questions to synopses.

    Closing it waits until whatever runs has ended, and leaves the catalog open.
    """
    quote_cache = quotes or QuoteCache()
    turn = AnalystTurn()
    ledger = now().ledger

    def in_turn(
        wanted: Sequence[ReleaseRequest], work: Callable[[Sequence[tuple[DatasetHandle, Request]]], Result]
    ) -> Result:
        # Look-ups do without: waiting for a release, they would hold threads that others need.
        def asked() -> Result:
            # Before the turn: a source that is opened may take long.
            found = [opened(one) for one in wanted]
            with turn.taken():
                return work(found)

        return redact_errors(asked)

    def patient(run: Run) -> Run:
        """The same terms, under which the turn is others' while the release waits."""

        @contextmanager
        def waiting() -> Iterator[None]:
            with turn.waiting(), run.waiting():
                yield

        return replace(run, waiting=waiting, alone=turn.alone)

    def names() -> list[str]:
        return list(now().config.datasets)

    def declared(name: str) -> tuple[Domain, Policy]:
        return now().declared(name)

    def joins(name: str) -> tuple[Join, ...]:
        catalog = now()
        config, dataset = catalog.config, catalog.config.dataset(catalog.owner(name))
        return shown_joins(config.scheme(dataset.source), dataset.joins) if dataset.joins else ()

    def opened(wanted: ReleaseRequest) -> tuple[DatasetHandle, Request]:
        """The dataset at the versions in force, and what is asked of it as the ledger knows it."""
        catalog, name, domain = now(), wanted.dataset, wanted.domain
        # Before anything else: of a dataset that is not there nobody hears whether it is paused.
        gate(catalog.config.dataset(catalog.owner(name)).name)
        try:
            handle = catalog.handle(name)
        except NotInForce:
            # A version may come into force a moment before its file is written.
            handle = now().handle(name)
        for axis in wanted.query.axes:
            if axis.attribute in domain and domain[axis.attribute] != handle.domain.find(axis.attribute):
                raise QueryError(f"{axis.attribute} is declared in another way by now: ask the dataset anew")
        return replace(handle, compiled=quote_cache.compiled), make_request(handle, wanted.query, wanted.target)

    def planned(handle: DatasetHandle, request: Request, *, wants_preview: bool = False) -> Planned:
        counted = with_rows(handle, request, free_answer)

        def make() -> Planned:
            effort = partial(query_effort, handle.domain, handle.policy, request.query, quote_cache.compiled.compile)
            work = plan_request if compute is compute_here else plan_in_full
            # Without a source: no plan can depend on data, wherever it is made.
            return compute(effort, work, replace(counted, source=UNREAD), request, wants_preview)

        return quote_cache.quote(request.text, counted, make, wants_preview=wants_preview)

    def free_answer(handle: DatasetHandle, request: Request) -> Answer | None:
        release = planned(handle, request).release
        if release.epsilon:
            return None
        payload = charged_payload(ledger, handle, analyst, request.digest, lambda: release, patient(Run()))
        return expect(decode(payload), Answer)

    def preview(wanted: ReleaseRequest) -> AnyPreview:
        def work(found: Sequence[tuple[DatasetHandle, Request]]) -> AnyPreview:
            ((handle, request),) = found
            quote = planned(handle, request, wants_preview=True)
            ways, preview = ways_to(ledger, handle, analyst, quote.release), quote.preview
            release = ways.releases[0]
            if preview is None:
                raise InvalidInput("a quote that was made for a preview has none")
            if isinstance(release, PlanRelease) and isinstance(preview, Preview) and release.sharing is not None:
                if isinstance(quote.release, PlanRelease) and release.best is not quote.release.best:
                    preview = continued(preview, release.compiled, release.best, release.way, release.measures)
                preview = replace(
                    preview,
                    shared=shared_words(ledger, handle, analyst, release),
                    ways=ways_words(quote.release, ways, analyst),
                    unproven=ways.unproven,
                )
            if isinstance(preview, Preview):
                if preview.epsilon and not request.target.fresh:
                    known = repeated(ledger, handle, analyst, request.digest, preview.best.epsilon)
                    preview = replace(preview, shared=known or preview.shared)
                fresh = Way("fresh", preview.best.epsilon, preview.alpha)
                published = synopsis_ways(ledger, handle, request.query, request.target)
                listed = (*(preview.ways or (fresh,)), *published) if published else preview.ways
                preview = replace(preview, ways=listed)
            classes = edge_losses(handle, release)
            return preview.with_budget(_shown_left(handle.show_budget, *ledger.room(handle.account, analyst, classes)))

        return in_turn([wanted], work)

    def payload(wanted: ReleaseRequest, run: Run) -> bytes:
        def work(found: Sequence[tuple[DatasetHandle, Request]]) -> bytes:
            ((handle, request),) = found

            def prepared() -> Release:
                return planned(handle, request).release

            try:
                named = patient(run.for_target(request.target))
                return charged_payload(ledger, handle, analyst, request.digest, prepared, named)
            except BudgetExceeded as error:
                refusal, compiled = _shown_refusal(handle, error), prepared().compiled
                data, mine = refusal.remaining_dataset, refusal.remaining_analyst
                left = min((one for one in (data, mine) if one is not None), default=None)
                # What the data has left shows in no offer where it is not shown.
                if left is None or left >= refusal.requested or compiled is None or request.query.kind in PUBLISHED:
                    raise refusal from None
                effort = partial(query_effort, handle.domain, handle.policy, request.query)
                offers = compute(effort, instead, handle.domain, handle.policy, compiled, request.target, left)
                raise BudgetExceeded(refusal.requested, data, mine, offers) from None

        return in_turn([wanted], work)

    def release_all(wanted: Sequence[tuple[ReleaseRequest, Run]]) -> list[Answer]:
        # Keys of fresh noise are made once: each is charged under its key, and answered under it.
        named = [(one, run.for_target(one.target)) for one, run in wanted]

        def charge(found: Sequence[tuple[DatasetHandle, Request]]) -> None:
            charged: list[tuple[str, Release, Run]] = []
            for (handle, request), (_, run) in zip(found, named, strict=True):
                charged.append((request.digest, planned(handle, request).release, patient(run)))
            handle, _ = found[0]
            try:
                charge_together(ledger, handle, analyst, charged)
            except BudgetExceeded as error:
                raise _shown_refusal(handle, error) from None

        if len(wanted) > 1:
            in_turn([one for one, _ in named], charge)
        return [expect(redact_errors(partial(decode, payload(one, run))), Answer) for one, run in named]

    def reopen(name: str, number: int) -> Released:
        """Somebody else's number is as unknown as one that was never given."""
        return decode(_stored(now(), name, number, lambda charge: charge.analyst == analyst))

    def synopsis(name: str, number: int) -> Synopsis:
        return Synopsis(from_bytes(_stored(now(), name, number, _is_synopsis)), compute=compute)

    return Backend(
        analyst=analyst,
        names=names,
        declared=declared,
        joins=joins,
        budget=lambda name: redact_errors(lambda: _budget(now(), name, analyst)),
        preview=preview,
        payload=payload,
        release_all=release_all,
        history=lambda name, part: redact_errors(lambda: _history(now(), name, analyst, part)),
        reopen=lambda name, number: redact_errors(lambda: reopen(name, number)),
        synopses=lambda name, part: redact_errors(lambda: _synopses(now(), name, part)),
        synopsis=lambda name, number: redact_errors(lambda: synopsis(name, number)),
        close=turn.close,
    )


def _budget(catalog: Catalog, name: str, analyst: str) -> Budget:
    account, is_shown = catalog.account(name), catalog.config.dataset(catalog.owner(name)).show_budget
    budget = catalog.ledger.budget_of(account.id, analyst)
    remaining = max(Fraction(0), account.remaining)
    return Budget(
        dataset=name,
        analyst=analyst,
        spent=budget.spent,
        limit=budget.limit,
        remaining=_shown_left(is_shown, remaining, budget.remaining),
        dataset_limit=account.limit if is_shown else None,
        dataset_remaining=remaining if is_shown else None,
    )


def _shown_left(is_shown: bool, data: Fraction, mine: Fraction | None) -> Fraction | None:
    """What an analyst is told that they may spend: nothing of what the data has left, unless the curator shows it."""
    if not is_shown:
        return mine
    return data if mine is None else min(data, mine)


def _shown_refusal(handle: DatasetHandle, refusal: BudgetExceeded) -> BudgetExceeded:
    """A refusal as its analyst reads it."""
    data = refusal.remaining_dataset if handle.show_budget else None
    return BudgetExceeded(refusal.requested, data, refusal.remaining_analyst)


def _history(catalog: Catalog, name: str, analyst: str, part: ListPart) -> list[Past]:
    """The analyst's own charges on a dataset, newest first."""
    account, ledger = catalog.account(name), catalog.ledger
    in_force = (account.policy_version, account.domain_version, account.snapshot)
    history = []
    charges = ledger.charges_of(account.id, analyst, part.most, part.before, part.key)
    certificates = [json.loads(receipt.charge.certificate) for receipt, _ in charges]
    combined = [one.get("combined", ()) for one in certificates]
    numbers = ledger.charged_to(account.id, analyst, itertools.chain.from_iterable(combined))
    chains: dict[str, set[int]] = {}
    for receipt, _ in charges:
        if receipt.charge.link is not None:
            chains.setdefault(receipt.charge.link.chain, set()).add(receipt.sequence)
    # Of a chain that goes on there may be entries outside of this part.
    for rows in {chain.partition(".")[0] for chain in chains}:
        for past_link in ledger.links(account.id, rows):
            if past_link.analyst == analyst and past_link.link.chain in chains:
                chains[past_link.link.chain].add(past_link.charge)
    for (receipt, at), certificate, beside in zip(charges, certificates, combined, strict=True):
        charge = receipt.charge
        link, alike = charge.link, [] if charge.link is None else sorted(chains[charge.link.chain])
        # As the answer says: all of the analyst's own. What its noise was drawn from may be another one's.
        is_new = link is None or charge.received == link.level
        earlier = [] if is_new else [number for number in alike if number < receipt.sequence]
        past = Past(
            number=receipt.sequence,
            dataset=name,
            at=at,
            question=str(certificate.get("question", "")),
            mechanism=str(certificate.get("mechanism", "")),
            epsilon=charge.received,
            key=charge.key,
            policy_version=charge.policy_version,
            is_synopsis=certificate.get("synopsis") is True,
            is_current=(charge.policy_version, charge.domain_version, charge.snapshot) == in_force,
            # Other analysts' entries are theirs to know.
            rests_on=(*earlier, *(number for number in beside if number in numbers)),
            family=alike[0] if len(alike) > 1 else None,
        )
        history.append(past)
    return history


def _synopses(catalog: Catalog, name: str, part: ListPart) -> list[Published]:
    """Every synopsis of a dataset, newest first, whoever paid for it: a synopsis is made to be public."""
    synopses = []
    for receipt, at in catalog.ledger.synopses(catalog.account(name).id, part.most, part.before):
        charge = receipt.charge
        certificate = json.loads(charge.certificate)
        title, mechanism = str(certificate["question"]), str(certificate["mechanism"])
        numbers = charge.epsilon, charge.policy_version
        synopses.append(Published(receipt.sequence, name, at, title, mechanism, *numbers))
    return synopses


def _is_synopsis(charge: Charge) -> bool:
    return json.loads(charge.certificate).get("synopsis") is True


def _stored(catalog: Catalog, name: str, number: int, is_open: Callable[[Charge], bool]) -> bytes:
    """What was published under a number; UnknownAnswer for one that was never given or may not be opened."""
    account, receipt = catalog.account(name).id, catalog.ledger.receipt(number)
    if receipt is None or receipt.charge.account != account or not is_open(receipt.charge):
        raise UnknownAnswer(number)
    payload = catalog.ledger.answer_for(receipt)
    if payload is None:
        raise UnknownAnswer(number)
    return published(payload, receipt)


MOST_CELLS = 2**19
"""A cached cell takes about a quarter of a kilobyte."""
LEAST = 700
"""The weight of the smallest query, in cells."""


@dataclass(eq=False)
class QuoteCache:
    """The newest quoted releases, whoever asked for them: a quote follows from a request and declarations alone.

    It saves the release the work of its preview, and the next analyst both. The ranking cache (accuracy/ranking.py) is
    another one, below it: that keeps which mechanisms suit a problem, and is keyed by the problem's graph and workload.
    """

    most_cells: int = MOST_CELLS
    compiled: CompiledQueries = field(default_factory=CompiledQueries)
    """Cells and graphs of the last queries; they tell of no answer and no accuracy."""
    cells: int = field(default=0, init=False)
    """How many cells all cached quotes have together."""
    _quotes: OrderedDict[tuple[str, str, int | None], tuple[Domain, Policy, Planned]] = field(
        default_factory=OrderedDict
    )
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def quote(
        self, text: str, handle: DatasetHandle, make: Callable[[], Planned], *, wants_preview: bool = False
    ) -> Planned:
        """The cached quote of a request to a dataset under its declarations, or the one that is made now.

        The text of the request and the declarations are compared themselves, not their hashes.
        """
        # A quote says what its dataset is called, and the same data may have a name that not everybody knows.
        key, declared = (text, handle.name, handle.rows), (handle.domain, handle.policy)
        with self._turn:
            *declarations, planned = self._quotes.get(key, (None, None, None))
            is_whole = planned is not None and (planned.preview is not None or not wants_preview)
            if planned is not None and is_whole and tuple(declarations) == declared:
                self._quotes.move_to_end(key)
                return planned
        planned = make()
        with self._turn:
            self._drop(key)
            self._quotes[key] = *declared, planned
            self.cells += LEAST + planned.release.size
            # The newest stays however large it is.
            while self.cells > self.most_cells and len(self._quotes) > 1:
                self._drop(next(iter(self._quotes)))
        return planned

    def _drop(self, key: tuple[str, str, int | None]) -> None:
        if key in self._quotes:
            _, _, planned = self._quotes.pop(key)
            self.cells -= LEAST + planned.release.size
