"""Limits of the data and of the analyst hold for every source of an answer, when it is charged and when it is verified.

What each source costs is found on an account without limits. Limits that leave just as much let it through; a
thousandth less refuses it, with no trace and no row read, whoever paid for the rows before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from blowfishdb.audit.scratch import READ, Scratch, scratch
from blowfishdb.engine.charge import Run, charge_together, charged_payload, prepare
from blowfishdb.engine.compile import ANALYSTS
from blowfishdb.engine.request import accuracy_target, make_request
from blowfishdb.errors import ApprovalRefused, BudgetExceeded, LedgerCorrupt, SpendingCapReached
from blowfishdb.ledger import charges
from blowfishdb.ledger.amounts import PER_EDGE, SUM
from blowfishdb.ledger.records import LedgerCursor
from blowfishdb.ledger.values import Charge
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.policy import Policy, line, threshold
from blowfishdb.model.predicate import as_axes
from blowfishdb.model.query import Part, Query, levels_of, query, synopsis_of

DOMAIN = domain({"x": integers(0, 11, null=0), "y": integers(0, 2, null=0)})
POLICY = Policy({"x": threshold(2), "y": line()}, composition="attribute")
HISTOGRAM = query("histogram", "x")
TITLES = [Aggregate("count"), Aggregate("quantile", ("x",), level=Fraction(1, 2))]
TOGETHER = Query(
    "joint", parts=tuple(Part(one, Fraction(40), Fraction(1, 20)) for one in (HISTOGRAM, query("cdf", "x")))
)
ANA, BOB = "ana", "bob"
BARELY = Fraction(1, 1000)


@dataclass(frozen=True)
class Asked:
    """One question of an analyst; several of one source are charged in one go where they are `together`."""

    analyst: str
    query: Query
    terms: tuple[tuple[str, Any], ...]

    def request(self, handle: Any) -> Any:
        """The request of it."""
        return make_request(handle, self.query, accuracy_target(**dict(self.terms)))


def at(analyst: str, epsilon: str, asked: Query = HISTOGRAM, mechanism: str | None = "identity", **more: Any) -> Asked:
    return Asked(analyst, asked, tuple({"epsilon": epsilon, "mechanism": mechanism, **more}.items()))


@dataclass(frozen=True)
class AnswerSource:
    """Questions that come first, and the one whose limits are looked at; `data_pays` says what part the data pays."""

    before: tuple[Asked, ...]
    asked: tuple[Asked, ...]
    data_pays: str = "all"
    largest: Fraction | None = None
    """The price of the most expensive question, where there are several."""


SOURCES = {
    "a new release": AnswerSource((), (at(ANA, "0.5"),)),
    "an upgrade": AnswerSource((at(ANA, "0.25"),), (at(ANA, "0.5"),)),
    "less than another has": AnswerSource((at(BOB, "1"),), (at(ANA, "0.5"),), "nothing"),
    "as much as another has": AnswerSource((at(BOB, "0.5"),), (at(ANA, "0.5"),), "nothing"),
    "more than another has": AnswerSource((at(BOB, "0.25"),), (at(ANA, "0.5"),), "a part"),
    "between two of others": AnswerSource((at(BOB, "1"), at("eve", "0.25")), (at(ANA, "0.5"),), "nothing"),
    "an upgrade up to another's": AnswerSource((at(BOB, "1"), at(ANA, "0.125")), (at(ANA, "0.5"),), "nothing"),
    "drawn anew": AnswerSource((at(ANA, "0.5"),), (at(ANA, "0.5", fresh=True),)),
    "several at once": AnswerSource(
        (at(BOB, "1"),), (at(ANA, "0.5"), at(ANA, "0.25", query("histogram", "y"))), "a part", Fraction(1, 2)
    ),
    "one plan of several": AnswerSource((), (Asked(ANA, TOGETHER, (("alpha", 1),)),)),
    "a table in parts": AnswerSource((), (at(ANA, "0.5", query("table", aggregates=TITLES), None),)),
    "a data-aware program": AnswerSource((), (at(ANA, "0.5", query("ranges", "x"), "dawa"),)),
    "noise on edges": AnswerSource((), (at(ANA, "0.5", query("ranges", "x"), "edge-transform"),)),
    "a synopsis": AnswerSource((), (at(ANA, "0.5", synopsis_of(HISTOGRAM), None),)),
    "the largest groups": AnswerSource((), (at(ANA, "0.5", Query("selection", as_axes("x"), most=2), None),)),
    "groups above a count": AnswerSource((), (at(ANA, "0.5", Query("selection", as_axes("x"), above=3), None),)),
    "quantiles by rank": AnswerSource(
        (), (at(ANA, "0.5", Query("quantiles", as_axes("x"), levels=levels_of(["0.5"])), "exponential-quantiles"),)
    ),
    "weights on points": AnswerSource((), (at(ANA, "0.5", query("points", ("x", "y"), clusters=2, rows=40), None),)),
}
KINDS = [
    pytest.param(source, accounting, id=f"{name}, {accounting}")
    for accounting in (SUM, PER_EDGE)
    for name, source in SOURCES.items()
]


@contextmanager
def world_of(accounting: str, limit: Fraction = Fraction(100)) -> Iterator[Scratch]:
    with scratch(DOMAIN, POLICY, accounting, limit) as world:
        world.fill([{"x": row % 12, "y": row % 3} for row in range(40)])
        world.handle = replace(world.handle, sharing=ANALYSTS, read_only=True)
        yield world


def answered(world: Scratch, asked: Sequence[Asked], run: Run | None = None, again: str = "") -> list[bytes]:
    """The answers of some questions of one analyst, charged together where there are several."""
    handle, terms = world.handle, run or Run()
    requests = [one.request(handle) for one in asked]
    if len(asked) > 1:
        charged = [(request.digest, prepare(handle, request), terms) for request in requests]
        charge_together(world.ledger, handle, asked[0].analyst, charged)
    return [
        charged_payload(
            world.ledger,
            handle,
            one.analyst,
            request.digest,
            partial(prepare, handle, request),
            replace(terms, key=None),
        )
        for one, request in zip(asked, requests, strict=True)
    ]


def paid(world: Scratch) -> tuple[Fraction, Fraction]:
    """What the data and the analyst have paid so far."""
    return world.spent, world.ledger.budget_of(world.handle.account, ANA).spent


def allow(world: Scratch, price: Fraction) -> None:
    """Sets the limit of the analyst so that just this price is left."""
    world.ledger.limit_analyst(world.handle.account, ANA, paid(world)[1] + price, by="cora", reason="test")


@pytest.mark.parametrize(("source", "accounting"), KINDS)
def test_limits_hold_for_every_source_of_an_answer(source: AnswerSource, accounting: str) -> None:
    with world_of(accounting) as world:
        for one in source.before:
            answered(world, [one])
        before = paid(world)
        heard: list[Fraction] = []
        first = answered(world, source.asked, Run(before_charge=lambda price, _: heard.append(price)))
        of_data, price = (after - earlier for after, earlier in zip(paid(world), before, strict=True))
    assert 0 <= of_data <= price and price > 0
    if accounting == SUM:
        # What tokens and approvals hear is what the analyst pays, over all questions that are charged together.
        assert sum(heard) == price
        assert {"all": of_data == price, "nothing": of_data == 0, "a part": 0 < of_data < price}[source.data_pays]
    assert all(first)
    # The data must have room for all that the analyst pays, so that no refusal tells what others have paid already.
    needed = before[0] + (source.largest or price)
    with world_of(accounting, needed) as world:
        for one in source.before:
            answered(world, [one])
        allow(world, price - BARELY)
        refused(world, source, BudgetExceeded)
        allow(world, price)
        refused(world, source, SpendingCapReached, Run(spend=heard[0] - BARELY if len(source.asked) == 1 else BARELY))
        refused(world, source, ApprovalRefused, Run(before_charge=no))
        kept = answered(world, source.asked)
        assert paid(world) == (before[0] + of_data, before[1] + price)
        # Nothing is left of either limit, and what was paid for is answered all the same: replayed, and retried.
        world.watch.clear()
        assert answered(world, source.asked) == kept
        assert answered(world, source.asked, Run(spend=Fraction(0), before_charge=no)) == kept
        assert READ not in world.watch.events
        assert paid(world) == (before[0] + of_data, before[1] + price)
        with pytest.raises(BudgetExceeded):
            answered(world, [at(ANA, "0.125", fresh=True)])
        assert world.ledger.verify().is_sound
    with world_of(accounting, needed - BARELY) as world:
        for one in source.before:
            answered(world, [one])
        refused(world, source, BudgetExceeded)


def no(price: Fraction, charges: Sequence[Charge]) -> None:
    """Refuses whatever costs something."""
    if price > 0:
        raise ApprovalRefused("scratch", 1)


def refused(world: Scratch, source: AnswerSource, error: type[Exception], run: Run | None = None) -> None:
    """Asking is refused, leaves no trace in the ledger, and reads no row."""
    world.watch.clear()
    before, head = paid(world), world.ledger.head()
    with pytest.raises(error):
        answered(world, source.asked, run)
    assert paid(world) == before
    assert world.ledger.head() == head
    assert READ not in world.watch.events


@pytest.mark.parametrize(("source", "accounting"), KINDS)
def test_a_charge_beyond_a_limit_is_found_when_the_ledger_is_verified(
    source: AnswerSource, accounting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world_of(accounting) as world:
        for one in source.before:
            answered(world, [one])
        world.ledger.limit_analyst(world.handle.account, ANA, paid(world)[1] + BARELY, by="cora", reason="test")
        assert world.ledger.verify().is_sound
        with monkeypatch.context() as patch:
            without_analyst_limit(patch)
            assert is_noticed(world, source.asked)


def without_analyst_limit(patch: pytest.MonkeyPatch) -> None:
    """The ledger charges analysts whatever their limit says."""
    usual = charges.ensure_analyst
    patch.setattr(charges, "ensure_analyst", lambda *given: replace(usual(*given), limit=None))


@pytest.mark.parametrize("accounting", [SUM, PER_EDGE])
def test_a_charge_beyond_the_limit_of_the_data_is_found_when_the_ledger_is_verified(
    accounting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world_of(accounting, Fraction(1, 4)) as world:
        usual = charges.post_charge

        def unlimited(cursor: LedgerCursor, *given: Any) -> Any:
            known = LedgerCursor.account
            with monkeypatch.context() as patch:
                patch.setattr(LedgerCursor, "account", lambda *a: replace(known(*a), limit=Fraction(9)))
                return usual(cursor, *given)

        with monkeypatch.context() as patch:
            patch.setattr(charges, "post_charge", unlimited)
            assert is_noticed(world, [at(ANA, "0.5")])


def is_noticed(world: Scratch, asked: Sequence[Asked]) -> bool:
    """Whether the ledger stops being used once it was charged too much, and says so to whoever verifies it."""
    with pytest.raises(LedgerCorrupt):
        answered(world, asked)
    fault = world.ledger.verify().fault
    return fault is not None and fault.reason == "it spends more than the limits allow"
