"""Random histories on both stores agree, step by step, with a model of a dozen lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blowfishdb.errors import BudgetExceeded, ChangeRefused, KeyReused
from blowfishdb.ledger import Ledger, Terms, open_ledger
from tests.ledger.support import charge_of

ANALYSTS = st.sampled_from(["ana", "bob", "eve"])
AMOUNTS = st.sampled_from([Fraction(n) for n in ("0", "1/10", "1/3", "1/7", "3/8", "1/1009", "1/2", "2")])
STEPS = st.one_of(
    st.tuples(st.just("charge"), ANALYSTS, AMOUNTS, st.integers(0, 5), st.integers(0, 1)),
    st.tuples(st.just("renew"), st.sampled_from([Fraction(n) for n in ("1", "3/2", "2", "3")])),
    st.tuples(st.just("everyone"), st.sampled_from([None, Fraction(1, 4), Fraction(1)])),
    st.tuples(st.just("analyst"), ANALYSTS, st.sampled_from([None, Fraction(1, 3), Fraction(2)])),
    st.tuples(st.just("version"), st.sampled_from([None, Fraction(1), Fraction(3, 2), Fraction(2)])),
)


@dataclass
class Model:
    """What the ledger should do, without databases."""

    limit: Fraction = Fraction(1)
    everyone: Fraction | None = Fraction(1, 2)
    own: dict[str, Fraction] = field(default_factory=dict)
    spent: dict[str, Fraction] = field(default_factory=dict)
    keys: dict[tuple[str, int], int] = field(default_factory=dict)

    def charge(self, analyst: str, epsilon: Fraction, key: int, request: int) -> str:
        if (analyst, key) in self.keys:
            return "again" if self.keys[analyst, key] == request else "key"
        mine = self.spent.get(analyst, Fraction(0)) + epsilon
        limit = self.own.get(analyst, self.everyone)
        if sum(self.spent.values()) + epsilon > self.limit or (epsilon > 0 and limit is not None and mine > limit):
            return "refused"
        self.spent[analyst] = mine
        self.keys[analyst, key] = request
        return "paid"

    def renew(self, limit: Fraction) -> str:
        if limit <= self.limit:
            return "refused"
        self.limit = limit
        return "done"

    def version(self, stretch: Fraction | None) -> str:
        total = sum(self.spent.values())
        if self.keys and (stretch is None or total * stretch > self.limit):
            return "refused"
        self.spent = {name: spent * (stretch or 1) for name, spent in self.spent.items()}
        return "done"


def act(model: Model, step: tuple[object, ...]) -> str:
    match step:
        case ("charge", str(analyst), Fraction() as epsilon, int(key), int(request)):
            return model.charge(analyst, epsilon, key, request)
        case ("renew", Fraction() as limit):
            return model.renew(limit)
        case ("everyone", limit):
            model.everyone = limit
        case ("analyst", str(analyst), None):
            model.own.pop(analyst, None)
        case ("analyst", str(analyst), limit):
            model.own[analyst] = limit
        case ("version", stretch):
            return model.version(stretch)
    return "done"


def perform(ledger: Ledger, account: str, step: tuple[object, ...], number: int) -> str:
    try:
        match step:
            case ("charge", str(analyst), Fraction() as epsilon, int(key), int(request)):
                known = ledger.account(account)
                charge = charge_of(known, epsilon, f"k{key}", analyst=analyst, request=f"r{request}")
                return "paid" if ledger.charge(charge).is_new else "again"
            case ("renew", limit):
                ledger.renew(account, limit, by="cora", reason="test")
            case ("everyone", limit):
                ledger.limit_everyone(account, limit, by="cora", reason="test")
            case ("analyst", analyst, limit):
                ledger.limit_analyst(account, analyst, limit, by="cora", reason="test")
            case ("version", stretch):
                ledger.new_version(ledger.account(account), "policy", f"[{number}]", stretch, by="cora", reason="test")
    except KeyReused:
        return "key"
    except (BudgetExceeded, ChangeRefused):
        return "refused"
    return "done"


def follow(ledger: Ledger, steps: list[tuple[object, ...]], identity: str) -> None:
    model = Model()
    terms = Terms(identity, model.limit, "{}", "{}", model.everyone)
    account = ledger.register(terms, name="census", by="cora").id
    for number, step in enumerate(steps):
        assert perform(ledger, account, step, number) == act(model, step), (number, step)
        known = ledger.account(account)
        assert (known.limit, known.spent) == (model.limit, sum(model.spent.values()))
        for name in ("ana", "bob", "eve"):
            budget = ledger.budget_of(account, name)
            assert (budget.spent, budget.limit) == (model.spent.get(name, 0), model.own.get(name, model.everyone))
    assert ledger.verify().is_sound


@pytest.fixture
def follower(ledger: Ledger) -> Callable[[list[tuple[object, ...]]], None]:
    """Follows each history on an account of its own in one ledger."""
    numbers = iter(range(10**6))
    return lambda steps: follow(ledger, steps, f"table {next(numbers)}")


def test_random_histories_agree_with_the_model(follower: Callable[[list[tuple[object, ...]]], None]) -> None:
    @settings(max_examples=15)
    @given(st.lists(STEPS, min_size=1, max_size=14))
    def check(steps: list[tuple[object, ...]]) -> None:
        follower(steps)

    check()


def test_a_model_that_forgets_the_stretch_is_told_apart(tmp_path: Path) -> None:
    """The comparison has power: the same history with past loss left as it was does not pass."""

    class Forgetful(Model):
        def version(self, stretch: Fraction | None) -> str:
            before = dict(self.spent)
            outcome = super().version(stretch)
            self.spent = before
            return outcome

    with open_ledger(tmp_path / "ledger.db", mark=tmp_path / "mark") as ledger:
        account = ledger.register(Terms("t", Fraction(1), "{}", "{}", Fraction(1)), name="t", by="cora")
        model = Forgetful(everyone=Fraction(1))
        steps: list[tuple[object, ...]] = [
            ("charge", "ana", Fraction(1, 3), 0, 0),
            ("version", Fraction(2)),
            ("charge", "ana", Fraction(1, 2), 1, 0),
        ]
        outcomes = [(perform(ledger, account.id, step, n), act(model, step)) for n, step in enumerate(steps)]
    assert outcomes == [("paid", "paid"), ("done", "done"), ("refused", "paid")]
