"""The curator's actions: registered, versioned, budgeted, accounted, recorded; refused where past releases forbid."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.catalog.catalog import Catalog
from blowfishdb.catalog.curator import Curator, with_whole_numbers
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import (
    AccountConflict,
    BudgetExceeded,
    CatalogError,
    ChangeRefused,
    InvalidInput,
    LedgerRolledBack,
    NotInForce,
    PolicyError,
    QueryError,
    SourceError,
)
from blowfishdb.model.domain import Bins, bins, domain, integers
from blowfishdb.sources.base import ColumnKind, ColumnType
from tests.session.places import configuration, curator, make_fixture, make_table, session, visits

NEAR, NEARER = bf.Policy({"age": bf.threshold(5)}), bf.Policy({"age": bf.threshold(2)})
FAR = bf.Policy({"age": bf.threshold(10)})


def ask(folder: Path, epsilon: str = "1", analyst: str = "ana") -> None:
    with session(folder, analyst) as db:
        db["visits"].histogram("age").release(epsilon=epsilon, mechanism="identity")


def test_one_table_has_one_account_under_every_name(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    ask(tmp_path)
    with curator(tmp_path) as keeper:
        again = bf.Dataset(
            "other",
            source=f"duckdb:///{tmp_path}/../{tmp_path.name}/clinic.duckdb#main.VISITS",
            domain=visits().domain,
            policy=visits().policy,
            epsilon="10",
        )
        keeper.add(again)
        assert keeper.account("other").spent == 1
        with pytest.raises(AccountConflict):
            keeper.add(visits(policy=bf.Policy({"age": bf.line()}), name="third"))


def test_a_table_of_somebody_else_is_not_reached_by_a_join(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\n1,2\n")
    (tmp_path / "b.csv").write_text("id\n1\n")
    join = bf.Join("a.csv", foreign_key="id", key="id", attributes=["x"])
    with curator(tmp_path) as keeper:
        keeper.add(bf.Dataset("a", source="a.csv", domain={"x": bf.integers(0, 3)}))
        assert list(keeper.columns("b.csv", [join])) == ["id", "x"]
        catalog = Catalog(keeper.config, keeper.ledger)
        other = Curator(catalog, "carl", shares_ledger=True, sees=lambda name: name != "a")
        with pytest.raises(CatalogError, match="belongs to a dataset already"):
            other.columns("b.csv", [join])
        assert list(other.columns("b.csv")) == ["id"]


def test_a_dataset_needs_its_columns(tmp_path: Path) -> None:
    make_table(tmp_path)
    with curator(tmp_path) as keeper:
        wrong = bf.Dataset("v", source="duckdb:///clinic.duckdb#visits", domain={"agee": bf.integers(0, 9)})
        with pytest.raises(SourceError, match="age"):
            keeper.add(wrong)
        listed = bf.Dataset("v", source="duckdb:///clinic.duckdb#visits", domain={"age": bf.categorical(["young"])})
        with pytest.raises(SourceError, match="age: listed values are read from text"):
            keeper.add(listed)
        person = bf.Policy(unit=bf.person("nobody", at_most=2, order_by="id"))
        with pytest.raises(SourceError, match="nobody"):
            keeper.add(visits(policy=person))
        assert keeper.datasets() == []
        assert "cost" in keeper.columns("duckdb:///clinic.duckdb#visits")


def test_adding_again_is_harmless_and_changing_is_not_adding(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    with curator(tmp_path) as keeper:
        keeper.add(visits())
        with pytest.raises(CatalogError, match="set_policy"):
            keeper.add(visits(policy=FAR))


def test_an_edited_policy_is_not_in_force(tmp_path: Path) -> None:
    path = make_fixture(tmp_path)
    path.write_text(path.read_text().replace("theta = 5", "theta = 1"))
    with session(tmp_path) as db, pytest.raises(NotInForce, match="set_policy"):
        db["visits"].cdf("age").release(epsilon=1)
    with curator(tmp_path) as keeper:
        keeper.set_policy("visits", keeper.dataset("visits").policy, reason="as edited")
    ask(tmp_path)


def test_an_edited_domain_is_not_in_force(tmp_path: Path) -> None:
    path = make_fixture(tmp_path)
    path.write_text(path.read_text().replace("high = 99", "high = 98"))
    with session(tmp_path) as db, pytest.raises(NotInForce, match="domain"):
        db["visits"].cdf("age").preview(epsilon=1)


def test_a_wider_policy_counts_past_loss_more_often(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    ask(tmp_path)
    with curator(tmp_path) as keeper:
        change, stretch = keeper.what_would_change("visits", policy=FAR)
        assert (stretch.factor, change.spent_after) == (2, 2)
        assert keeper.account("visits").spent == 1
        keeper.set_policy("visits", FAR, reason="more secret")
        assert (keeper.account("visits").spent, keeper.account("visits").policy_version) == (2, 2)
        keeper.set_policy("visits", NEARER, reason="less secret")
        assert keeper.account("visits").spent == 2
        assert keeper.verify().is_sound
    ask(tmp_path)


def test_a_change_without_bound_is_refused_once_something_was_released(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    secret = bf.Policy({"age": bf.threshold(5)}, presence="secret")
    with curator(tmp_path) as keeper:
        keeper.set_policy("visits", bf.Policy({"age": bf.public()}), reason="nothing was released yet")
    with session(tmp_path) as db:
        assert db["visits"].cdf("age").release(epsilon=1).epsilon == 0
    with curator(tmp_path) as keeper:
        for policy in (NEAR, secret):
            with pytest.raises(ChangeRefused):
                keeper.set_policy("visits", policy, reason="too late")
        assert keeper.account("visits").policy_version == 2


def test_a_domain_may_gain_and_lose_attributes(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    ask(tmp_path)
    more = {**dict(visits().domain.attributes), "patient": bf.integers(0, 599, null=0)}
    with curator(tmp_path) as keeper:
        keeper.set_domain("visits", more, reason="patients asked for")
        assert keeper.account("visits").spent == 1
        with pytest.raises(ChangeRefused, match="age"):
            keeper.set_domain("visits", {**more, "age": bf.integers(0, 50, null=0)}, reason="shorter")
    with session(tmp_path) as db:
        db["visits"].histogram("patient").preview(alpha=10, mechanism="identity")


def test_an_attribute_that_comes_back_must_be_declared_as_it_was(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    everything = dict(visits().domain.attributes)
    with curator(tmp_path) as keeper:
        # Nothing was released under this one, so it binds nobody.
        keeper.set_domain("visits", {**everything, "cost": bf.bins(0, 500, width=5, null=0)}, reason="wider")
        keeper.set_domain("visits", everything, reason="as before")
    ask(tmp_path)
    without = {name: attribute for name, attribute in everything.items() if name != "cost"}
    with curator(tmp_path) as keeper:
        keeper.set_domain("visits", without, reason="cost goes")
        with pytest.raises(ChangeRefused, match="cost is declared in another way"):
            keeper.set_domain("visits", {**without, "cost": bf.bins(0, 500, width=5, null=0)}, reason="comes back")
        keeper.set_domain("visits", everything, reason="comes back as it was")


def test_attributes_that_the_policy_does_not_name_may_be_dropped(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    ask(tmp_path)
    with curator(tmp_path) as keeper:
        before = keeper.account("visits")
        assert keeper.drop_attributes("visits", ["cost"], reason="nobody asks").next_version == 2
        after = keeper.account("visits")
        assert (after.spent, after.policy_version) == (before.spent, before.policy_version)
        assert list(keeper.dataset("visits").domain) == ["age", "ward"]
        for names, said in ((["cots"], "no attribute 'cots'"), (["age", "ward"], "an attribute at least")):
            with pytest.raises(CatalogError, match=said):
                keeper.drop_attributes("visits", names, reason="x")
    with session(tmp_path) as db, pytest.raises(QueryError):
        db["visits"].histogram("cost").preview(alpha=10)


def test_what_the_policy_hid_less_of_is_dropped_only_once_past_loss_paid_for_it(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    ask(tmp_path)
    with curator(tmp_path) as keeper:
        with pytest.raises(ChangeRefused, match="hidden entirely") as refusal:
            keeper.drop_attributes("visits", ["age"], reason="nobody asks")
        assert "20 old steps apart" in str(refusal.value)
        assert keeper.account("visits").policy_version == keeper.account("visits").domain_version == 1
        keeper.renew("visits", 100, reason="to pay for it")
        hidden = keeper.dataset("visits").policy
        keeper.set_policy("visits", replace(hidden, attributes={"age": bf.full()}), reason="hidden entirely")
        assert keeper.account("visits").spent == 20
        keeper.drop_attributes("visits", ["age"], reason="nobody asks")
        assert keeper.account("visits").spent == 20
        assert dict(keeper.dataset("visits").policy.attributes) == {}
        assert keeper.verify().is_sound
        # Should it come back, it is hidden entirely, as past loss was counted.
        keeper.set_domain("visits", visits().domain, reason="comes back")
        assert keeper.dataset("visits").policy.family("age") == bf.full()
        assert keeper.account("visits").spent == 20


def test_before_anything_was_released_every_attribute_may_be_dropped(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    with curator(tmp_path) as keeper:
        keeper.set_policy("visits", bf.Policy({"age": bf.public()}), reason="ages are known")
        keeper.drop_attributes("visits", ["age"], reason="a mistake")
        assert list(keeper.dataset("visits").domain) == ["ward", "cost"]


def test_an_attribute_of_a_public_constraint_stays(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(bf.Policy(constraints=[bf.count_constraint(bf.col("ward") == "A1")])))
    with curator(tmp_path) as keeper:
        with pytest.raises(InvalidInput, match="ward"):
            keeper.drop_attributes("visits", ["ward"], reason="x")
        assert keeper.account("visits").domain_version == 1


def test_a_refreshed_table_is_charged_anew(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    ask(tmp_path)
    with curator(tmp_path) as keeper:
        keeper.refreshed("visits", "nightly load")
        ask(tmp_path)
        assert keeper.account("visits").spent == 2


def test_budgets_limit_and_renew(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(epsilon="1", per_analyst="0.5", sharing="off"))
    ask(tmp_path, "0.5")
    with pytest.raises(BudgetExceeded, match="you can have") as refusal:
        ask(tmp_path, "0.6", "ben")
    assert refusal.value.instead
    ask(tmp_path, "0.5", "ben")
    with pytest.raises(BudgetExceeded):
        ask(tmp_path, "0.1", "cleo")
    with curator(tmp_path) as keeper:
        keeper.renew("visits", "2", reason="a new year")
        keeper.limit_analyst("visits", "ana", "0.6", reason="she needs more")
        assert keeper.dataset("visits").epsilon == 2
        assert [own.analyst for own in keeper.analysts("visits")] == ["ana", "ben"]
    ask(tmp_path, "0.1")
    with curator(tmp_path) as keeper:
        keeper.limit_everyone("visits", None, reason="free for all")
    ask(tmp_path, "0.7", "ben")
    with session(tmp_path, "ben") as db:
        assert db.budget("visits").dataset_remaining == Fraction(2) - Fraction(18, 10)


def test_ten_tenths_are_exactly_one(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(epsilon="1"))
    with session(tmp_path) as db:
        for number in range(10):
            beta = Fraction(1, 20 + number)
            db["visits"].histogram("age").release(epsilon=0.1, beta=beta, mechanism="identity", fresh=True)
        assert db.budget("visits").remaining == 0
        with pytest.raises(BudgetExceeded):
            db["visits"].histogram("ward").release(epsilon="0.000001", mechanism="identity")


def test_removing_keeps_the_account(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    ask(tmp_path)
    with curator(tmp_path) as keeper:
        keeper.remove("visits")
        assert keeper.datasets() == []
        keeper.add(visits())
        assert keeper.account("visits").spent == 1


def test_a_restored_backup_is_noticed(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    old = {path: path.read_bytes() for path in tmp_path.glob("blowfish.ledger*")}
    ask(tmp_path)
    for path in tmp_path.glob("blowfish.ledger*"):
        path.unlink()
    for path, content in old.items():
        path.write_bytes(content)
    with pytest.raises(LedgerRolledBack):
        session(tmp_path)


def test_the_ledger_tells_what_was_asked(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    ask(tmp_path)
    with curator(tmp_path) as keeper:
        kinds = [entry.kind for entry in keeper.entries("visits")]
        assert kinds[-2:] == ["charge", "answer"]
        charge = next(entry for entry in keeper.entries("visits") if entry.kind == "charge")
        assert "Histogram of age" in str(charge.fields["certificate"])
        assert repr(keeper) == "<Curator of blowfish.toml: visits>"
        prices = keeper.what_if("visits", {"near": NEAR, "far": FAR}, bf.query("cdf", "age"), accuracy_target(alpha=50))
        assert [price.name for price in prices] == ["near", "far"]
    assert configuration(tmp_path).exists()


def test_rows_of_a_person_are_bounded(tmp_path: Path) -> None:
    policy = bf.Policy(unit=bf.person("patient", at_most=2, order_by="id"))
    make_fixture(tmp_path, visits(policy=policy, epsilon="100"))
    with session(tmp_path) as db:
        assert db["visits"].count().release(epsilon=1).raw.tolist() == [1200.0]
        one = db["visits"].histogram("age").preview(alpha=50, mechanism="identity").epsilon
    (tmp_path / "row").mkdir()
    make_fixture(tmp_path / "row", visits(policy=bf.Policy()))
    with session(tmp_path / "row") as db:
        other = db["visits"].histogram("age").preview(alpha=50, mechanism="identity").epsilon
    assert one == pytest.approx(2 * other, rel=0.05)


def test_a_new_policy_keeps_the_order_of_the_attributes(tmp_path: Path) -> None:
    path = make_fixture(tmp_path)
    with bf.curate(path, by="cora") as keeper:
        keeper.set_policy("visits", bf.Policy({"age": bf.threshold(4)}), reason="narrower")
        assert list(keeper.dataset("visits").domain) == ["age", "ward", "cost"]


def test_an_attribute_that_left_the_domain_still_counts_when_the_policy_changes(tmp_path: Path) -> None:
    """A joint release moved both attributes one by one; dropping one of them for a while must not make that cheaper."""
    make_fixture(tmp_path, visits(bf.Policy({}, composition="attribute")))
    with session(tmp_path) as db:
        db["visits"].histogram2d("age", "ward").release(epsilon="1", mechanism="identity")
    with curator(tmp_path) as keeper:
        everything = keeper.dataset("visits").domain
        keeper.set_domain("visits", everything.project(["age"]), reason="fewer")
        assert keeper.what_would_change("visits", policy=bf.Policy({}))[1].factor == 3
        keeper.set_policy("visits", bf.Policy({}), reason="whole records")
        keeper.set_domain("visits", everything, reason="all of them again")
        assert keeper.account("visits").spent == 3


WARDS = bf.Policy({"ward": bf.public()})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_table(tmp_path)
    return tmp_path


def test_parts_are_accounted_side_by_side(folder: Path) -> None:
    with curator(folder) as keeper:
        keeper.add(replace(visits(WARDS, epsilon="1"), accounting="per-edge by ward"))
        assert keeper.dataset("visits").accounting == "per-edge by ward"
    with bf.connect(configuration(folder), analyst="ana") as db:
        for ward in ("A1", "A2", "A3"):
            db["visits"].where(bf.col("ward") == ward).histogram("age").release(epsilon=1)
        assert db.budget("visits").spent == 1
        assert db["visits"].where(bf.col("ward") == "A1").count().preview(epsilon="0.5").left == 0


def test_a_change_is_recorded_and_the_worst_loss_stays(folder: Path) -> None:
    with curator(folder) as keeper:
        keeper.add(visits(WARDS, epsilon="2"))
        with pytest.raises(ChangeRefused):
            keeper.set_accounting("visits", "sum", reason="again")
        with pytest.raises(PolicyError):
            keeper.set_accounting("visits", "per-edge by age", reason="not separate")
        with pytest.raises(InvalidInput):
            keeper.set_accounting("visits", "max", reason="no such thing")
        assert keeper.set_accounting("visits", "per-edge by ward", reason="wards are separate").spent == 0
        assert [entry.kind for entry in keeper.entries("visits")][-1] == "accounting"


def test_an_edit_of_the_file_alone_is_not_in_force(folder: Path) -> None:
    with curator(folder) as keeper:
        keeper.add(visits(WARDS))
    path = configuration(folder)
    path.write_text(path.read_text().replace("[datasets.visits]\n", '[datasets.visits]\naccounting = "per-edge"\n'))
    with bf.connect(path, analyst="ana") as db, pytest.raises(NotInForce):
        db["visits"].histogram("age").preview(epsilon=1)


def test_the_log_tells_what_a_version_changed(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    with curator(tmp_path) as keeper:
        assert keeper.version_changes("visits", keeper.entries("visits", newest_first=True)) == {}
        keeper.set_policy("visits", FAR, reason="wider")
        domain = {name: attribute for name, attribute in visits().domain.attributes if name != "cost"}
        keeper.set_domain("visits", domain, reason="less")
        changes = keeper.version_changes("visits", keeper.entries("visits", newest_first=True))
        narrowed, policy = changes.values()
        assert [one[:45] for one in policy] == [
            "no longer: age: values at most 5 apart are hi",
            "now: age: values at most 10 apart are hidden ",
        ]
        assert narrowed[0] == "no longer: cost is one of 500 values: [0, 1) … [499, 500); NULL counts as 0"
        assert all("cost" in one for one in narrowed)


def test_bins_over_columns_of_whole_numbers_are_declared_so() -> None:
    """Where each of them holds one; a column that is not there, or holds fractions, stays as it is declared."""
    declared = domain(
        {
            "wide": bins(0, 6, width=2),
            "fine": bins(0, 6, width="0.5"),
            "price": bins(0, 6, width=2),
            "gone": bins(0, 6, width=2),
            "age": integers(0, 9),
        }
    )
    kinds = dict.fromkeys(("wide", "fine", "age"), ColumnKind.INTEGER) | {"price": ColumnKind.REAL}
    seen = with_whole_numbers(declared, {name: ColumnType(kind, "") for name, kind in kinds.items()})
    assert [name for name, one in seen.attributes if isinstance(one, Bins) and one.whole] == ["wide"]
    of_types = {"wide": ColumnType(ColumnKind.DECIMAL, "DECIMAL(9,0)", 9, is_whole=True)}
    # Whatever a column of SQLite declares, there may be fractions in it.
    of_types |= {"price": ColumnType(ColumnKind.INTEGER, "INT", untyped=True)}
    seen = with_whole_numbers(declared, of_types)
    assert [name for name, one in seen.attributes if isinstance(one, Bins) and one.whole] == ["wide"]
    assert seen["age"] == declared["age"]
