"""Accounts that count per class of edges: the worst class is what limits bound, on both stores."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blowfishdb.errors import AccountConflict, BudgetExceeded, ChangeRefused, InvalidInput, LedgerCorrupt
from blowfishdb.ledger import Account, Charge, Ledger, Terms
from blowfishdb.ledger.amounts import MOST_CLASSES, ClassLosses, parallel_attribute, read_losses
from tests.ledger.support import charge_of

CLASSES = ("age", "ward", "presence")
INSIDE = ("in 'ward' 0: age", "in 'ward' 1: age")
AMOUNTS = st.sampled_from([Fraction(n) for n in ("0", "1/3", "1/7", "1/2")])
LOSSES = st.dictionaries(st.sampled_from(CLASSES), AMOUNTS) | st.dictionaries(st.sampled_from(INSIDE), AMOUNTS)
STEPS = st.one_of(
    st.tuples(st.just("charge"), st.sampled_from(["ana", "bob"]), st.none() | LOSSES),
    st.tuples(st.just("version"), st.sampled_from([Fraction(1), Fraction(3, 2)])),
    st.tuples(st.just("count"), st.sampled_from(["sum", "per-edge", "per-edge by ward"])),
)
HALF = Fraction(1, 2)


def opened(ledger: Ledger, identity: str = "t", accounting: str = "per-edge", limit: int = 2) -> Account:
    terms = Terms(identity, Fraction(limit), "{}", "{}", Fraction(3, 2), accounting)
    return ledger.register(terms, name="t", by="cora")


def paid(ledger: Ledger, account: str, analyst: str, losses: dict[str, Fraction] | None, key: str) -> Charge:
    return replace(charge_of(ledger.account(account), HALF, key, analyst=analyst), losses=losses)


@dataclass
class Model:
    """Every class of every party on its own; absent classes have lost `rest`."""

    accounting: str = "per-edge"
    lost: dict[str, dict[str, Fraction]] = field(default_factory=dict)
    rest: dict[str, Fraction] = field(default_factory=dict)

    def worst(self, party: str) -> Fraction:
        return self.rest.get(party, Fraction(0)) + max(self.lost.get(party, {}).values(), default=Fraction(0))

    def charge(self, analyst: str, losses: dict[str, Fraction] | None) -> str:
        after = Model(self.accounting, {p: dict(c) for p, c in self.lost.items()}, dict(self.rest))
        for party in ("", analyst):
            inside = self.accounting == "per-edge by ward"
            if losses is None or self.accounting == "sum" or any((name in INSIDE) != inside for name in losses):
                after.rest[party] = after.rest.get(party, Fraction(0)) + HALF
            else:
                own = after.lost.setdefault(party, {})
                for name, loss in losses.items():
                    own[name] = own.get(name, Fraction(0)) + loss
        if after.worst("") > 2 or after.worst(analyst) > Fraction(3, 2):
            return "refused"
        self.lost, self.rest = after.lost, after.rest
        return "done"

    def collapse(self, stretch: Fraction) -> None:
        self.rest = {party: self.worst(party) * stretch for party in {*self.lost, *self.rest}}
        self.lost = {}


def perform(ledger: Ledger, account: str, model: Model, step: tuple[object, ...], number: int) -> tuple[str, str]:
    expected = "done"
    try:
        match step:
            case ("charge", str(analyst), losses):
                assert losses is None or isinstance(losses, dict)
                expected = model.charge(analyst, losses)
                ledger.charge(paid(ledger, account, analyst, losses, f"k{number}"))
            case ("version", Fraction() as stretch):
                if model.worst("") * stretch > 2 and (model.lost or model.rest):
                    expected = "refused"
                else:
                    model.collapse(stretch)
                ledger.new_version(ledger.account(account), "policy", f"[{number}]", stretch, by="cora", reason="test")
            case ("count", str(accounting)):
                if accounting == model.accounting:
                    expected = "refused"
                else:
                    model.accounting = accounting
                    model.collapse(Fraction(1))
                ledger.set_accounting(ledger.account(account), accounting, by="cora", reason="test")
    except (BudgetExceeded, ChangeRefused):
        return expected, "refused"
    return expected, "done"


def test_random_histories_agree_with_the_model(ledger: Ledger) -> None:
    numbers = iter(range(10**6))

    @settings(max_examples=15)
    @given(st.lists(STEPS, min_size=1, max_size=12))
    def check(steps: list[tuple[object, ...]]) -> None:
        account, model = opened(ledger, f"table {next(numbers)}").id, Model()
        for number, step in enumerate(steps):
            expected, found = perform(ledger, account, model, step, number)
            assert found == expected, (number, step)
            assert ledger.account(account).spent == model.worst("")
            assert ledger.budget_of(account, "ana").spent == model.worst("ana")
        assert ledger.verify().is_sound

    check()


def test_two_attributes_cost_the_maximum_and_room_is_told_per_class(ledger: Ledger) -> None:
    account = opened(ledger).id
    ledger.charge(paid(ledger, account, "ana", {"age": HALF}, "a"))
    ledger.charge(paid(ledger, account, "ana", {"ward": HALF}, "b"))
    assert ledger.account(account).spent == HALF
    assert ledger.room(account, "ana", ["age"]) == (Fraction(3, 2), 1)
    assert ledger.room(account, "bob", ["presence"]) == (2, Fraction(3, 2))
    assert ledger.room(account, "ana", None) == (Fraction(3, 2), 1)
    ledger.charge(paid(ledger, account, "ana", None, "c"))
    assert ledger.account(account).spent == 1


def test_classes_of_another_accounting_count_for_every_class(ledger: Ledger) -> None:
    """A charge made up before the accounting changed names other classes for the same edges."""
    account = opened(ledger, accounting="per-edge by ward").id
    ledger.charge(paid(ledger, account, "ana", {"in 'ward' 0: moves age": HALF}, "a"))
    ledger.charge(paid(ledger, account, "ana", {"in 'ward' 1: moves age": HALF}, "b"))
    assert ledger.account(account).spent == HALF
    for number, stale in enumerate(("moves age", "in 'war' 0: moves age")):
        ledger.charge(paid(ledger, account, f"bob {number}", {stale: HALF}, "c"))
    assert ledger.account(account).spent == 3 * HALF
    assert ledger.verify().is_sound


def test_sums_are_unchanged_by_losses(ledger: Ledger) -> None:
    account = opened(ledger, accounting="sum").id
    for key in ("a", "b"):
        ledger.charge(paid(ledger, account, "ana", {"age": Fraction(1, 3)}, key))
    assert ledger.account(account).spent == 1
    assert ledger.verify().is_sound


def test_nobody_passes_a_limit_by_racing(ledger: Ledger) -> None:
    account = opened(ledger, limit=1).id
    charges = [paid(ledger, account, f"analyst {number}", {"age": HALF}, "k") for number in range(8)]

    def attempt(charge: Charge) -> int:
        try:
            ledger.charge(charge)
        except BudgetExceeded:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, charges)) == 2
    assert ledger.account(account).spent == 1
    assert ledger.verify().is_sound


@pytest.mark.parametrize(
    "change",
    [
        """UPDATE account SET edge_books = '{"rest": "0", "classes": {}}'""",
        """UPDATE analyst SET edge_books = '{"rest": "0", "classes": {}}'""",
        "UPDATE account SET accounting = 'per-edge by age'",
        "UPDATE account SET edge_books = 'x'",
    ],
)
def test_changed_losses_are_noticed(ledger: Ledger, change: str) -> None:
    account = opened(ledger).id
    ledger.charge(paid(ledger, account, "ana", {"age": HALF}, "a"))
    assert ledger.verify().is_sound
    with ledger.store.write() as cursor:
        cursor.rows(change)
    assert not ledger.verify().is_sound


def test_receipts_keep_their_losses(ledger: Ledger) -> None:
    account = opened(ledger).id
    charge = paid(ledger, account, "ana", {"age": HALF, "ward": Fraction(1, 3)}, "a")
    assert ledger.charge(charge) == ledger.charge(charge)
    assert ledger.charge(charge).charge.losses == charge.losses


def test_too_many_classes_count_for_all() -> None:
    losses = {f"c{number}": HALF for number in range(MOST_CLASSES)}
    full = ClassLosses().plus(HALF, losses)
    assert full.worst == HALF
    assert full.plus(HALF, {"one more": Fraction(1, 4)}) == ClassLosses(Fraction(1))


def test_losses_survive_and_damaged_ones_do_not() -> None:
    losses = ClassLosses(Fraction(1, 3), {"age": Fraction(2, 7)})
    assert read_losses(losses.to_json()) == losses
    assert (parallel_attribute("per-edge by cost of stay"), parallel_attribute("per-edge")) == ("cost of stay", None)
    for damaged in ("", "[]", '{"rest": "1/0", "classes": {}}', '{"rest": "1"}'):
        with pytest.raises(LedgerCorrupt):
            read_losses(damaged)


def test_bad_terms_and_losses_are_refused(ledger: Ledger) -> None:
    account = opened(ledger)
    with pytest.raises(AccountConflict):
        opened(ledger, accounting="sum")
    with pytest.raises(InvalidInput):
        opened(ledger, "other", accounting="max")
    good = charge_of(account, HALF, "k")
    for losses in ({"age": Fraction(1)}, {"": HALF}, {"age": 0.5}, {f"c{n}": HALF for n in range(MOST_CLASSES + 1)}):
        with pytest.raises(InvalidInput):
            replace(good, losses=losses)
