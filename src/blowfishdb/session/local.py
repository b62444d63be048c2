"""A backend over datasets that this process reaches itself: queries are compiled, charged and counted here."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from threading import RLock
from typing import TypeVar

from blowfishdb.catalog.catalog import Catalog, LiveCatalog
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Run, charged_payload, charged_release, edge_losses
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.points import (
    PointPreview,
    PointQuery,
    PointRelease,
    PointWeights,
    make_point_request,
    prepare_point_release,
    preview_points,
)
from blowfishdb.engine.preview import Preview, instead, make_preview
from blowfishdb.engine.program import PreparedProgram
from blowfishdb.engine.request import Prepared, Request, make_request, prepare
from blowfishdb.engine.synopsis import PreparedSynopsis, from_bytes, prepare_synopsis, synopsis_request
from blowfishdb.engine.synopsis_answers import Synopsis, SynopsisPreview, preview_synopsis
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import BudgetExceeded, NotInForce, QueryError
from blowfishdb.incidents import redact_errors
from blowfishdb.ledger.values import check_text
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query
from blowfishdb.session.backend import (
    Backend,
    Budget,
    Past,
    Published,
    Reopened,
    past_charges,
    published_synopses,
    published_synopsis,
    reopened,
)

Quoted = Prepared | PreparedProgram
MOST_EACH = 16
MOST_CELLS = 2**19
"""A remembered cell takes about a quarter of a kilobyte."""
LEAST = 700
"""What the smallest question takes counts as so many cells."""


@dataclass(frozen=True, eq=False)
class _Kept:
    """A quote, and what was declared of the data when it was made."""

    domain: Domain
    policy: Policy
    quoted: Quoted


@dataclass(eq=False)
class Remembered:
    """The newest quotes of all analysts that share a server; each finds only their own."""

    most_each: int = MOST_EACH
    most_cells: int = MOST_CELLS
    cells: int = field(default=0, init=False)
    """How many cells all remembered quotes have together."""
    _quotes: OrderedDict[tuple[str, str], _Kept] = field(default_factory=OrderedDict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def quote(self, analyst: str, text: str, domain: Domain, policy: Policy, make: Callable[[], Quoted]) -> Quoted:
        """The remembered quote of this analyst's request under these declarations, or the one that is made now.

        The text of the request and the declarations are compared themselves, not their hashes.
        """
        key = analyst, text
        with self._turn:
            found = self._quotes.get(key)
            if found is not None and (found.domain, found.policy) == (domain, policy):
                self._quotes.move_to_end(key)
                return found.quoted
        made = make()
        with self._turn:
            self._drop(key)
            self._quotes[key] = _Kept(domain, policy, made)
            self.cells += _weight(made)
            self._trim(analyst)
        return made

    def forget(self, analyst: str) -> None:
        """Lets go of everything of one analyst."""
        with self._turn:
            for key in self._of(analyst):
                self._drop(key)

    def _of(self, analyst: str) -> list[tuple[str, str]]:
        return [key for key in self._quotes if key[0] == analyst]

    def _drop(self, key: tuple[str, str]) -> None:
        dropped = self._quotes.pop(key, None)
        if dropped is not None:
            self.cells -= _weight(dropped.quoted)

    def _trim(self, analyst: str) -> None:
        """Forgets the oldest; the newest stays however large it is."""
        for key in self._of(analyst)[: -self.most_each]:
            self._drop(key)
        while self.cells > self.most_cells and len(self._quotes) > 1:
            self._drop(next(iter(self._quotes)))


def _weight(quoted: Quoted) -> int:
    return LEAST + quoted.compiled.problem.graph.cells


Result = TypeVar("Result")


def open_local(config: str | Path, analyst: str) -> Backend:
    """The desk for one analyst over the datasets of a configuration, with a ledger of its own to close."""
    name = checked_name(analyst)
    live = LiveCatalog(config)

    # A function, and no method: an attribute of a method would lead to the catalog.
    def close() -> None:
        live.close()

    return replace(local_desk(live, name), close=close)


def checked_name(analyst: str) -> str:
    """An analyst's name as it is charged; spaces around it are no part of it."""
    name = analyst.strip() if isinstance(analyst, str) else analyst
    check_text(name, "an analyst's name")
    return name


def always_open(name: str) -> None:
    """The gate of a dataset that nobody paused."""
    del name


def local_desk(
    live: LiveCatalog, analyst: str, gate: Callable[[str], None] = always_open, quotes: Remembered | None = None
) -> Backend:
    """The desk for one analyst over a catalog that others may share; `gate` refuses datasets that are paused.

    Closing it waits until whatever runs has ended, and leaves the catalog open.
    """
    quoted = quotes or Remembered()
    turn = RLock()
    ledger = live.now().ledger

    def in_turn(work: Callable[[], Result]) -> Result:
        # Look-ups do without: waiting for a release, they would hold threads that others need.
        def alone() -> Result:
            with turn:
                return work()

        return redact_errors(alone)

    def names() -> list[str]:
        return list(live.now().config.datasets)

    def declared(name: str) -> tuple[Domain, Policy]:
        dataset = live.now().config.dataset(name)
        return dataset.domain, dataset.policy

    def held(name: str, asked: Query | PointQuery, domain: Domain) -> DatasetHandle:
        """The dataset at the versions in force; a version may come into force a moment before its file is written."""
        gate(name)
        try:
            handle = live.now().handle(name)
        except NotInForce:
            handle = live.now().handle(name)
        for axis in asked.axes if isinstance(asked, Query) else asked.columns:
            if axis.attribute in domain and domain[axis.attribute] != handle.domain.find(axis.attribute):
                raise QueryError(f"{axis.attribute} is declared in another way by now: ask the dataset anew")
        return handle

    def budget(name: str) -> Budget:
        return redact_errors(lambda: _budget(live.now(), name, analyst))

    def prepared(handle: DatasetHandle, request: Request) -> Prepared | PreparedProgram:
        own = handle.domain, handle.policy
        return quoted.quote(analyst, request.text, *own, lambda: prepare(handle, request))

    def preview(name: str, asked: Query, domain: Domain, target: AccuracyTarget) -> Preview:
        def work() -> Preview:
            handle = held(name, asked, domain)
            request = make_request(handle, asked, target)
            ready = prepared(handle, request)
            found = make_preview(handle.name, handle.domain, handle.policy, ready)
            return found.with_budget(ledger.room(handle.account, analyst, edge_losses(handle, ready)))

        return in_turn(work)

    def release(name: str, asked: Query, domain: Domain, target: AccuracyTarget, run: Run) -> Answer:
        def work() -> Answer:
            handle = held(name, asked, domain)
            request = make_request(handle, asked, target)

            def ready() -> Prepared | PreparedProgram:
                return prepared(handle, request)

            try:
                return charged_release(ledger, handle, analyst, request, ready, run)
            except BudgetExceeded as refusal:
                requested, data, own = refusal.requested, refusal.remaining_dataset, refusal.remaining_analyst
                left = data if own is None else min(data, own)
                offers = instead(handle.domain, handle.policy, ready().compiled, target, left)
                raise BudgetExceeded(requested, data, own, offers) from None

        return in_turn(work)

    def publish_preview(name: str, asked: Query, domain: Domain, target: AccuracyTarget) -> SynopsisPreview:
        def work() -> SynopsisPreview:
            handle = held(name, asked, domain)
            ready = prepare_synopsis(handle, synopsis_request(handle, asked, target))
            left = ledger.room(handle.account, analyst, edge_losses(handle, ready))
            return preview_synopsis(handle, ready, left)

        return in_turn(work)

    def publish(name: str, asked: Query, domain: Domain, target: AccuracyTarget, run: Run) -> Synopsis:
        def work() -> Synopsis:
            handle = held(name, asked, domain)
            request = synopsis_request(handle, asked, target)

            def ready() -> PreparedSynopsis:
                return prepare_synopsis(handle, request)

            return Synopsis(from_bytes(charged_payload(ledger, handle, analyst, request.digest, ready, run)))

        return in_turn(work)

    def point_preview(name: str, asked: PointQuery, domain: Domain, epsilon: Fraction) -> PointPreview:
        def work() -> PointPreview:
            handle = held(name, asked, domain)
            return preview_points(prepare_point_release(handle, make_point_request(handle, asked, epsilon)))

        return in_turn(work)

    def point_weights(name: str, asked: PointQuery, domain: Domain, epsilon: Fraction, run: Run) -> PointWeights:
        def work() -> PointWeights:
            handle = held(name, asked, domain)
            request = make_point_request(handle, asked, epsilon)

            def ready() -> PointRelease:
                return prepare_point_release(handle, request)

            return PointWeights.from_json(charged_payload(ledger, handle, analyst, request.digest, ready, run))

        return in_turn(work)

    def history(name: str) -> list[Past]:
        return redact_errors(lambda: past_charges(live.now(), name, analyst))

    def reopen(name: str, number: int) -> Reopened:
        return redact_errors(lambda: reopened(live.now(), name, analyst, number))

    def synopses(name: str) -> list[Published]:
        return redact_errors(lambda: published_synopses(live.now(), name))

    def synopsis(name: str, number: int) -> Synopsis:
        return redact_errors(lambda: published_synopsis(live.now(), name, number))

    def close() -> None:
        with turn:
            quoted.forget(analyst)

    return Backend(
        analyst=analyst,
        names=names,
        declared=declared,
        budget=budget,
        preview=preview,
        release=release,
        publish_preview=publish_preview,
        publish=publish,
        point_preview=point_preview,
        point_weights=point_weights,
        history=history,
        reopen=reopen,
        synopses=synopses,
        synopsis=synopsis,
        close=close,
    )


def _budget(catalog: Catalog, name: str, analyst: str) -> Budget:
    account = catalog.account(name)
    own = catalog.ledger.budget_of(account.id, analyst)
    remaining = max(Fraction(0), account.remaining)
    return Budget(
        dataset=name,
        analyst=analyst,
        spent=own.spent,
        limit=own.limit,
        remaining=remaining if own.remaining is None else min(own.remaining, remaining),
        dataset_limit=account.limit,
        dataset_remaining=remaining,
    )
