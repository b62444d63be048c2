"""Public constraints over refreshed rows and where people are protected: what adds up, and what is refused."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.errors import BlowfishError, CatalogError, ChangeRefused, PolicyError, StaleVersion
from blowfishdb.model import constraint_graph
from tests.session.places import configuration, curator, make_fixture, session, visits

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
        with pytest.raises(ChangeRefused, match="a release was charged meanwhile"):
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


FIRST = bf.person("patient", at_most=1, order_by="id")
CONSTRAINTS = bf.Policy(unit=FIRST, constraints=["count(ward = 'A1')"])
ALONE = bf.Policy(unit=FIRST)


def let_through(patch: pytest.MonkeyPatch) -> None:
    """What was in force before constraints and people were refused together."""
    patch.setattr(constraint_graph, "_check_unit", lambda policy, changed: None)


def charges(folder: Path) -> tuple[int, int]:
    with curator(folder) as keeper:
        return keeper.account("visits").charges, sum(entry.kind == "charge" for entry in keeper.entries("visits"))


def without_facts(folder: Path) -> None:
    """The file as a curator edits it who was told to leave the constraints out."""
    path = configuration(folder)
    kept = [line for line in path.read_text().splitlines() if not line.startswith("constraints")]
    path.write_text("\n".join(kept) + "\n")


def test_declaring_is_refused(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(ALONE))
    with pytest.raises(PolicyError, match="all rows"):
        visits(CONSTRAINTS)
    with curator(tmp_path) as keeper:
        for attempt in (keeper.set_policy, keeper.what_would_change):
            options = {"reason": "x"} if attempt == keeper.set_policy else {}
            with pytest.raises(PolicyError, match="all rows"):
                attempt("visits", policy=CONSTRAINTS, **options)  # type: ignore[operator]
        assert keeper.account("visits").policy_version == 1
        keeper.set_policy(
            "visits", bf.Policy({"ward": bf.public()}, unit=FIRST, constraints=CONSTRAINTS.constraints), reason="x"
        )


def test_what_is_in_force_already_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        let_through(patch)
        make_fixture(tmp_path, visits(CONSTRAINTS))
        opened = session(tmp_path)
    with pytest.raises(PolicyError, match="all rows"):
        opened["visits"].histogram("ward").release(epsilon=1)
    with pytest.raises(PolicyError, match="all rows"):
        opened["visits"].histogram("age").preview(epsilon=1)
    opened.close()
    with pytest.raises(CatalogError, match="all rows"):
        session(tmp_path)
    without_facts(tmp_path)
    assert charges(tmp_path) == (0, 0)


def test_nothing_was_released_so_another_policy_may_take_its_place(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        let_through(patch)
        make_fixture(tmp_path, visits(CONSTRAINTS))
    without_facts(tmp_path)
    with curator(tmp_path) as keeper:
        with pytest.raises(PolicyError, match="all rows"):
            keeper.set_accounting("visits", "per-edge", reason="x")
        with pytest.raises(PolicyError, match="all rows"):
            keeper.set_domain("visits", visits().domain, reason="x")
        assert keeper.set_policy("visits", ALONE, reason="constraints and people do not go together").next_version == 2
    with session(tmp_path) as db:
        assert db["visits"].histogram("ward").release(epsilon=1).epsilon == 1


def test_past_releases_have_no_bound(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        let_through(patch)
        make_fixture(tmp_path, visits(CONSTRAINTS))
        with session(tmp_path) as db:
            # This is the fault: an exact answer about the first rows, at no cost.
            assert db["visits"].where(bf.col("ward") == "A1").count().release(epsilon=1).epsilon == 0
    without_facts(tmp_path)
    with curator(tmp_path) as keeper, pytest.raises(ChangeRefused, match="no bound under its own public constraints"):
        keeper.set_policy("visits", ALONE, reason="x")


def test_numbers_of_old_rows_are_confirmed_for_new_ones(tmp_path: Path) -> None:
    constraints = [
        bf.marginal_constraint("ward", values=[(["A1"], 1000), (["A2"], 1000), (["A3"], 1000)]),
        "count(age < 9)",
    ]
    make_fixture(tmp_path, visits(bf.Policy(constraints=constraints)))
    with curator(tmp_path) as keeper:
        with pytest.raises(ChangeRefused, match=r"marginal\(ward\)\. Prices and answers rest on them"):
            keeper.refreshed("visits", "rows of May")
        assert keeper.account("visits").snapshot == 1
        assert keeper.refreshed("visits", "rows of May", numbers_hold=True).snapshot == 2
        keeper.set_policy("visits", bf.Policy(constraints=["marginal(ward)"]), reason="numbers no longer given")
        assert keeper.refreshed("visits", "rows of June").snapshot == 3


def test_every_refusal_is_typed() -> None:
    for presence in ("public", "secret", "only"):
        with pytest.raises(BlowfishError):
            visits(bf.Policy(unit=FIRST, presence=presence, constraints=["marginal(ward)"]))  # type: ignore[arg-type]
