"""Public constraints where people are protected: refused when declared, opened and released; the ways out."""

from __future__ import annotations

from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.errors import BlowfishError, CatalogError, ChangeRefused, PolicyError
from blowfishdb.model import constraint_graph
from tests.session.places import configuration, curator, make_fixture, session, visits

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
