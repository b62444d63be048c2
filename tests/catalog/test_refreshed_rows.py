"""Refreshed rows and public constraints that hidden changes touch: what adds up over snapshots, and what is refused."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.errors import ChangeRefused, StaleVersion
from tests.session.places import curator, make_fixture, session, visits

WARDS = ["marginal(ward)"]
BINDING = bf.Policy(constraints=WARDS)
QUIET = bf.Policy({"ward": bf.public()}, constraints=WARDS)
"""The same constraints; no hidden change touches them."""
PLAIN = bf.Policy()


def ask(folder: Path) -> None:
    with session(folder) as db:
        db["visits"].histogram("age").release(epsilon="0.01", mechanism="identity")


def test_charges_under_binding_constraints_do_not_add_up_over_snapshots(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(BINDING))
    ask(tmp_path)
    with curator(tmp_path) as keeper:
        for numbers_hold in (False, True):
            with pytest.raises(ChangeRefused, match=r"hidden changes touch: marginal\(ward\).*First put a policy"):
                keeper.refreshed("visits", "rows of May", numbers_hold=numbers_hold)
        assert keeper.account("visits").snapshot == 1
        # What the refusal says to do works, and leads no way back.
        keeper.set_policy("visits", QUIET, reason="wards are public")
        assert keeper.refreshed("visits", "rows of May").snapshot == 2
        change, stretch = keeper.what_would_change("visits", policy=BINDING)
        assert change.refusal is not None
        assert stretch.factor is None
        with pytest.raises(ChangeRefused, match="earlier snapshots were asked"):
            keeper.set_policy("visits", BINDING, reason="wards are secret again")


def test_what_was_never_asked_is_refreshed_freely(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(BINDING))
    with curator(tmp_path) as keeper:
        assert keeper.refreshed("visits", "rows of May").snapshot == 2
    ask(tmp_path)
    with curator(tmp_path) as keeper, pytest.raises(ChangeRefused, match="hidden changes touch"):
        keeper.refreshed("visits", "rows of June")


def test_binding_constraints_come_into_force_within_one_snapshot_only(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(PLAIN))
    with curator(tmp_path) as keeper:
        keeper.refreshed("visits", "rows of May")
    ask(tmp_path)
    with curator(tmp_path) as keeper:
        change, stretch = keeper.what_would_change("visits", policy=BINDING)
        assert (change.refusal, stretch.factor) == (None, 3)
        keeper.refreshed("visits", "rows of June")
        assert keeper.what_would_change("visits", policy=BINDING)[1].factor is None
        assert keeper.what_would_change("visits", policy=QUIET)[1].factor == 1


def test_the_check_holds_when_others_write_in_between(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(BINDING))
    with curator(tmp_path) as keeper:
        ledger, seen = keeper.ledger, keeper.account("visits")
        ask(tmp_path)
        with pytest.raises(ChangeRefused, match="meanwhile a release was charged"):
            ledger.new_snapshot(seen, "rows of May", by="cora", if_uncharged=True)
        keeper.set_policy("visits", QUIET, reason="wards are public")
        with pytest.raises(StaleVersion, match="policy version"):
            ledger.new_snapshot(seen, "rows of May", by="cora")
        seen = keeper.account("visits")
        keeper.refreshed("visits", "rows of May")
        with pytest.raises(StaleVersion, match="snapshot"):
            ledger.new_version(seen, "policy", "[1]", Fraction(1), by="cora", reason="x")


def test_why_a_minimal_change_of_two_snapshots_shows_more_than_its_parts() -> None:
    """The example of docs/proofs/constraints.md: atoms {0, 1} and {2, 3}, records (value in 1, value in 2)."""
    before = {"A": (0, 0), "B": (3, 3), "C": (0, 3)}
    after = {"A": (2, 2), "B": (1, 3), "C": (1, 1)}

    def constraints(history: dict[str, tuple[int, int]]) -> list[int]:
        return [sum(values[snapshot] < 2 for values in history.values()) for snapshot in (0, 1)]

    def changed(names: tuple[str, ...]) -> dict[str, tuple[int, int]]:
        return {name: after[name] if name in names else before[name] for name in before}

    parts = [names for size in (1, 2) for names in itertools.combinations("ABC", size)]
    assert constraints(after) == constraints(before)
    assert all(constraints(changed(names)) != constraints(before) for names in parts)
    first = Counter(values[0] for values in after.values())
    first.subtract(Counter(values[0] for values in before.values()))
    # One snapshot alone is priced for 2 atoms of two values: 4.
    assert sum(abs(count) for count in first.values()) == 6
