"""What curators' pages work out: forms become values, curves follow prices, examples tell nothing, files stay put."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.catalog.guidance import what_if
from blowfishdb.engine.compile import compile_query
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.program import EXPONENTIAL_QUANTILES, MANY
from blowfishdb.engine.request import AccuracyTarget, accuracy_target
from blowfishdb.errors import DomainError, InvalidInput, PolicyError, SourceError, TooLarge
from blowfishdb.ledger import Entry
from blowfishdb.model.domain import Attribute
from blowfishdb.model.policy import Family, Joint, Policy
from blowfishdb.model.query import query
from blowfishdb.server.pages.column_form import (
    DAYS,
    LISTED,
    MOMENTS,
    OPEN,
    RANKED,
    STEPS,
    VALUE,
    WHOLE,
    ColumnForm,
    column_form_of,
    filled,
    read_column,
    suggested,
)
from blowfishdb.server.pages.dataset_add import (
    check_size,
    epsilon_hint,
    place_for,
    without_password,
    without_user,
)
from blowfishdb.server.pages.policies import accounting_words, read_person
from blowfishdb.server.pages.policy_form import (
    FamilyForm,
    JointForm,
    form_of,
    joint_form_of,
    joint_kinds_for,
    kinds_for,
    read_form,
    read_joint_form,
    usual_joint,
)
from blowfishdb.server.pages.trade_off import (
    BLOCKS,
    NEAR,
    PRICE_CURVES,
    QUARTILES,
    SECRET,
    PriceCurves,
    _with_dots,
    best_release,
    curves,
    example,
    made_up_counts,
    picture,
    points_of,
    read_thetas,
    thetas_of,
    within_words,
)
from blowfishdb.sources.base import ColumnKind, ColumnType
from blowfishdb.sources.ibis_source import ColumnSeen, look_at_column, tables_at
from tests.effort import effort

WHOLE_NUMBERS = ColumnType(ColumnKind.INTEGER, "BIGINT")
TEXT = ColumnType(ColumnKind.TEXT, "VARCHAR")
AGE = bf.integers(0, 99, null=0)


@pytest.mark.parametrize(
    ("said", "column", "declared"),
    [
        (ColumnForm(WHOLE, "0", "110"), WHOLE_NUMBERS, bf.integers(0, 110)),
        (ColumnForm(WHOLE, "-5", "5", null=VALUE, null_value="-5"), WHOLE_NUMBERS, bf.integers(-5, 5, null=-5)),
        (ColumnForm(STEPS, "0", "500", "2.5"), WHOLE_NUMBERS, bf.bins(0, 500, width="2.5")),
        (ColumnForm(LISTED, values="a, b,\nc"), TEXT, bf.categorical(["a", "b", "c"])),
        (ColumnForm(LISTED, values="1, 2"), WHOLE_NUMBERS, bf.categorical([1, 2])),
        (ColumnForm(LISTED, values="Ash\r\nBeech tree\n\n Elm\n"), TEXT, bf.categorical(["Ash", "Beech tree", "Elm"])),
        (ColumnForm(LISTED, values="Ash\tBeech"), TEXT, bf.categorical(["Ash", "Beech"])),
        (ColumnForm(LISTED, values='"Ash, old", Elm'), TEXT, bf.categorical(["Ash, old", "Elm"])),
        (
            ColumnForm(RANKED, values="low, high", null=OPEN, outside=VALUE, outside_value="low"),
            TEXT,
            bf.categorical(["low", "high"], True, null_public=True, outside="low"),
        ),
        (ColumnForm(DAYS, "2024-01-01", "2024-12-31", "day"), TEXT, bf.dates("2024-01-01", "2024-12-31")),
        (
            ColumnForm(MOMENTS, "2024-01-01T00:00", "2024-01-02T00:00", "hour"),
            TEXT,
            bf.timestamps("2024-01-01T00:00", "2024-01-02T00:00", "hour"),
        ),
    ],
)
def test_a_form_becomes_the_attribute_that_code_would_declare(
    said: ColumnForm, column: ColumnType, declared: Attribute
) -> None:
    usual = suggested(column, said.form).outside
    found = said if said.outside == VALUE else replace(said, outside=usual)
    assert read_column(found, column) == declared


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        (ColumnForm(WHOLE, "0", ""), "lowest and the highest"),
        (ColumnForm(WHOLE, "none", "5"), "not a whole number"),
        (ColumnForm(STEPS, "0", "5"), "how wide"),
        (ColumnForm(LISTED), "list the values"),
        (ColumnForm(LISTED, values="Ash, old\nElm"), "quotes"),
        (ColumnForm(WHOLE, "0", "5", null=VALUE), "which value NULL counts as"),
        (ColumnForm(), "how this column"),
    ],
)
def test_a_form_says_what_is_missing(said: ColumnForm, missing: str) -> None:
    with pytest.raises(DomainError, match=missing):
        read_column(said, WHOLE_NUMBERS)


@pytest.mark.parametrize(
    ("attribute", "kind"),
    [
        (bf.integers(-3, 7, null="cell", null_public=True), ColumnKind.INTEGER),
        (bf.bins(0, 4, width="0.5", null=1, outside="cell"), ColumnKind.REAL),
        (bf.categorical(["a, b", "c"], ordered=True, null="c", outside="cell", outside_public=True), ColumnKind.TEXT),
        (bf.categorical([1, 2], null=2, outside=1), ColumnKind.INTEGER),
        (bf.dates("2024-01-01", "2024-03-31", by="week"), ColumnKind.DATE),
        (bf.timestamps("2024-01-01T00:00", "2024-01-02T00:00", by="hour"), ColumnKind.TIMESTAMP),
    ],
)
def test_an_attribute_survives_its_form(attribute: Attribute, kind: ColumnKind) -> None:
    form = column_form_of(attribute)
    assert form is not None and read_column(form, ColumnType(kind, "native")) == attribute


def test_uneven_bins_and_clocks_of_a_place_have_no_form() -> None:
    assert column_form_of(bf.bins(edges=[0, 1, 5])) is None
    zoned = bf.timestamps("2024-01-01T00:00", "2024-01-02T00:00", by="hour", zone="Europe/Berlin")
    assert column_form_of(zoned) is None


def test_a_person_needs_all_three_fields() -> None:
    assert read_person(" id ", "3", "key") == bf.person("id", at_most=3, order_by="key")
    for fields in (("", "3", "key"), ("id", "3", " "), ("id", "three", "key"), ("id", "0", "key")):
        with pytest.raises(PolicyError):
            read_person(*fields)
    assert "side by side" in accounting_words("per-edge by ward") and "ward" in accounting_words("per-edge by ward")


def test_suggestions_come_from_types_and_never_hold_bounds() -> None:
    for kind in ColumnKind:
        column = ColumnType(kind, "native")
        for form in (WHOLE, STEPS, LISTED, RANKED, DAYS, MOMENTS):
            said = suggested(column, form)
            assert (said.low, said.high) == ("", "")
            assert said.values == ("false, true" if kind is ColumnKind.BOOLEAN and form == LISTED else "")


def test_what_was_read_fills_only_a_form_that_it_serves() -> None:
    bounds, values = ColumnSeen(low="1.0", high="9"), ColumnSeen(values=("a", "b"))
    assert filled(ColumnForm(WHOLE), bounds) == ColumnForm(WHOLE, "1", "9")
    assert filled(ColumnForm(LISTED), values) == ColumnForm(LISTED, values="a, b")
    assert (
        filled(ColumnForm(WHOLE), values)
        is filled(ColumnForm(LISTED), bounds)
        is filled(ColumnForm(WHOLE), ColumnSeen())
        is None
    )


@pytest.mark.parametrize(
    "family",
    [
        bf.full(),
        bf.public(),
        bf.line(),
        bf.threshold(5),
        bf.partition(cuts=["18", "65"]),
        bf.partition([["a", "b"], ["c"]]),
        bf.custom([("a", "b"), ("b", "c")]),
        bf.partition([["a, b", '"'], [" x ", "line\nend"], ["tab\there", ""]]),
        bf.custom([('a "b"', "\u2028"), ("c,", ",")]),
    ],
)
def test_families_survive_their_forms(family: Family) -> None:
    listed = [value for group in getattr(family, "blocks", ()) or getattr(family, "edges", ()) for value in group]
    attribute = bf.categorical(list(dict.fromkeys(listed))) if listed else AGE
    assert read_form(form_of(family), attribute) == family


def test_a_family_form_says_what_is_missing_and_offers_what_fits() -> None:
    for kind in ("threshold", "cuts", "blocks", "custom"):
        with pytest.raises(PolicyError):
            read_form(FamilyForm(kind), AGE)
    assert "threshold" not in kinds_for(bf.categorical(["a", "b"]))
    assert "blocks" not in kinds_for(bf.integers(0, 10_000))
    with pytest.raises(PolicyError, match="longer"):
        read_form(FamilyForm("custom", "a, b\n" * 50_000), AGE)


CLINIC = bf.domain(
    {
        "age": bf.integers(0, 9, null=0),
        "ward": bf.categorical(["A, north", "B"], null="B", outside="B"),
        "cost": bf.bins(0, 4, width="0.5"),
    }
)


@pytest.mark.parametrize(
    ("names", "text", "groups"),
    [
        ("age,ward", 'young, 0..4, *\nold, 5..9, "A, north"', [10, 5, 5]),
        ("age,ward", "block\tage\tward\nyoung\t3\tB\nyoung\t4\tB", [2, 18]),
        ("ward,cost", '"A, north", 0.5, B, 1.5\nB, 0, B, 0.5', [2, 2]),
        ("ward,cost", "cost,ward,cost,ward\n0,B,0.5,B", [2]),
        ("age,ward,cost", "low, *, *, 0..1.5\nhigh, *, *, 2..3.5", [80, 80]),
    ],
)
def test_joint_graphs_survive_their_forms(names: str, text: str, groups: list[int]) -> None:
    is_pairs = names == "ward,cost"
    form = JointForm(tuple(names.split(",")), "pairs" if is_pairs else "blocks", text)
    graph = read_joint_form(form, CLINIC)
    assert isinstance(graph, Joint) and [len(group) for group in graph.groups] == groups
    again = read_joint_form(joint_form_of(graph, CLINIC), CLINIC)
    assert isinstance(again, Joint) and again.attributes == form.names
    assert [*map(set, again.groups)] == [*map(set, graph.groups)]
    Policy(joint=[graph]).check(CLINIC)


def test_a_joint_form_begins_valid_offers_what_fits_and_says_what_is_missing() -> None:
    assert list(joint_kinds_for(("age", "cost"), CLINIC)) == ["within", "blocks", "pairs"]
    assert list(joint_kinds_for(("age", "ward"), CLINIC)) == ["blocks", "pairs"]
    for kind in ("within", "blocks", "pairs"):
        names = ("age", "cost")
        graph = read_joint_form(usual_joint(names, kind, CLINIC), CLINIC)
        Policy(joint=[graph]).check(CLINIC)
        assert read_joint_form(joint_form_of(graph, CLINIC), CLINIC) == graph
        with pytest.raises(PolicyError):
            read_joint_form(JointForm(names, kind, " "), CLINIC)
    for text, words in {
        "x, 1": "3 values, not 2",
        "x, 5..3, B\ny, 77, B": "77",
        "x, 1, C": "C",
        "x, A..B, B": "A",
    }.items():
        with pytest.raises((PolicyError, DomainError), match=words):
            read_joint_form(JointForm(("age", "ward"), "blocks", text), CLINIC)
    with pytest.raises(PolicyError, match="twice: 4 values"):
        read_joint_form(JointForm(("age", "ward"), "pairs", "1, B"), CLINIC)
    with pytest.raises(PolicyError, match="longer"):
        read_joint_form(JointForm(("age", "ward"), "pairs", "1, B, 2, B\n" * 50_000), CLINIC)
    wide = bf.domain({"x": bf.integers(0, 999), "y": bf.integers(0, 999)})
    assert usual_joint(("x", "y"), "blocks", wide).text == ""
    with pytest.raises(TooLarge, match="combinations of x and y"):
        read_joint_form(JointForm(("x", "y"), "blocks", "a, *, *"), wide)


def test_curves_agree_with_exact_quotes() -> None:
    domain, offers = bf.domain({"age": AGE}), PriceCurves()
    asked = query("cdf", bf.col("age").bins(10))
    points = points_of(AGE, bf.full())
    found = {point: offers.offer(domain, bf.Policy().with_family("age", point.family), asked) for point in points}
    lines = curves(points, found, 50.0, wants_epsilon=True)
    assert set(lines) == {SECRET, NEAR, BLOCKS}
    assert all(len(row) == len(thetas_of(AGE)) for row in lines.values())
    for point in points:
        compiled = compile_query(domain, bf.Policy().with_family("age", point.family), asked)
        exact = float(quotes_for(compiled, accuracy_target(alpha=50)).best.epsilon)
        drawn = lines[point.line][thetas_of(AGE).index(point.theta) if point.theta else 0]
        assert drawn == pytest.approx(exact, rel=0.06, abs=1e-9), point


def test_curves_tell_policies_apart_and_keep_what_they_quoted() -> None:
    domain, offers = bf.domain({"age": AGE}), PriceCurves()
    asked = query("cdf", "age")
    one, again = (offers.offer(domain, bf.Policy({"age": bf.threshold(1)}), asked) for _ in range(2))
    other = offers.offer(domain, bf.Policy(), asked)
    assert one is again
    assert one is not None
    assert other is not None
    assert other.epsilon_for(50) > 2 * one.epsilon_for(50)
    assert one.epsilon_for(one.alpha_for(0.3)) == pytest.approx(0.3)


def test_policies_of_an_unordered_attribute_stand_side_by_side() -> None:
    wards = bf.categorical([f"w{place}" for place in range(25)])
    current = bf.partition([["w0", "w1"], [f"w{place}" for place in range(2, 25)]])
    points, domain = points_of(wards, current), bf.domain({"ward": wards})
    words = [SECRET, "two groups", "groups of 10", "groups of 2", "public"]
    assert [point.words for point in points[:-1]] == words
    assert points[-1].words.startswith("in force: blocks w0, w1 |")
    for point in points:
        bf.Policy({"ward": point.family}).check(domain)
    offers = PriceCurves()
    found = {
        point: offers.offer(domain, bf.Policy({"ward": point.family}), query("histogram", "ward")) for point in points
    }
    drawn = picture(points, found, current, 50.0, wants_epsilon=True)
    assert drawn["xAxis"]["data"] == [point.words for point in points], "each policy has its place, by name"
    (bars,) = drawn["series"]
    assert bars["type"] == "bar"
    prices = [one["value"] if isinstance(one, dict) else one for one in bars["data"]]
    assert prices[0] > 0 == prices[4], "a histogram of a public attribute is exact"
    assert bars["data"][-1]["label"]["formatter"] == "in force"
    assert [point.words for point in points_of(bf.categorical(["a", "b"]), bf.full())] == [SECRET, "public"]


def test_days_go_by_the_calendar() -> None:
    days = bf.dates("2024-01-01", "2025-12-31")
    assert "7 days" in thetas_of(days)
    for point in points_of(days, bf.full()):
        bf.Policy({"day": point.family}).check(bf.domain({"day": days}))


def test_distances_of_your_own_are_compared_or_refused() -> None:
    points = points_of(AGE, bf.full(), read_thetas("7, 30, 7", AGE))
    assert [point.words for point in points] == [
        "everything secret",
        "within 7",
        "blocks of 7",
        "within 30",
        "blocks of 30",
    ]
    assert read_thetas(" ", AGE) == [] and points_of(AGE, bf.full(), []) == points_of(AGE, bf.full())
    for text in ("2.5", "-1", "7 days", "x", ", ".join(map(str, range(1, 40)))):
        with pytest.raises(PolicyError):
            read_thetas(text, AGE)
    assert read_thetas("10 days", bf.dates("2024-01-01", "2024-12-31")) == ["10 days"]


def test_quantiles_are_priced_as_they_would_be_released() -> None:
    """In ranks, and of many values by the choice that is released, not by the running counts that it beats."""
    for size in (100, 2000):
        domain = bf.domain({"x": bf.integers(0, size - 1, null=0)})
        question = query("quantiles", bf.col("x"), levels=QUARTILES)
        offer = PRICE_CURVES.offer(domain, bf.Policy(), question)
        (price,) = what_if(domain, {"full": bf.Policy()}, question, accuracy_target(epsilon=1))
        assert offer is not None
        assert (offer.alphas[1], price.mechanism == EXPONENTIAL_QUANTILES) == (price.alpha, size > MANY)
    unordered = bf.domain({"ward": bf.categorical(["A", "B"])})
    assert PRICE_CURVES.offer(unordered, bf.Policy(), query("quantiles", bf.col("ward"), levels=QUARTILES)) is None
    assert within_words("cdf", "5") == "every count within 5"
    assert within_words("quantiles", "5") == "every quantile within 5 ranks"


def test_a_question_about_two_attributes_has_an_example_without_dots() -> None:
    two = bf.domain({"age": AGE, "sex": bf.categorical(["F", "M"])})
    question = query("histogram2d", [bf.col("age").bins(20), bf.col("sex")])
    offers = [PRICE_CURVES.offer(two, bf.Policy({"age": family}), question) for family in (bf.full(), bf.public())]
    assert all(offer is not None for offer in offers)
    answer, exact = example(best_release(two, bf.Policy(), question, accuracy_target(epsilon=1)))
    assert exact.size == answer.values.size
    assert "without noise" not in str(_with_dots(answer, exact))


@effort(25)
@given(st.integers(2, 5000))
def test_every_point_of_every_domain_is_a_policy(size: int) -> None:
    for attribute in (bf.integers(-3, size), bf.bins(0, size, width=1)):
        domain = bf.domain({"x": attribute})
        for point in points_of(attribute, bf.full()):
            bf.Policy({"x": point.family}).check(domain)


@pytest.mark.parametrize("typed", ["1", "0.5", "2", "0.1", "7/2", "10", "0"])
def test_the_hint_about_epsilon_is_a_bound_for_what_was_typed(typed: str) -> None:
    hint = epsilon_hint(typed, "")
    said = re.search(r"at most ([\d.,]+)-fold", hint)
    assert said is not None
    shown, true = float(said[1].replace(",", "")), math.exp(float(Fraction(typed)))
    assert true <= shown <= 1.01 * true + 1e-9, "rounded up, and near"


def test_the_hint_about_epsilon_says_nothing_of_nonsense_and_no_number_of_what_protects_nothing() -> None:
    assert "fold" not in epsilon_hint("a little", "") + epsilon_hint("-1", "")
    assert "change without a bound that matters" in epsilon_hint("100", "")
    both = epsilon_hint("1", "1/2")
    assert "With epsilon 1 in all" in both and "With the 0.5 of one analyst" in both
    assert "2.72-fold" in both and "1.65-fold" in both


def test_the_address_of_a_draft_has_no_password() -> None:
    for address, kept in {
        "postgresql://reader:${CLINIC}@host/db#visits": "postgresql://reader:${CLINIC}@host/db#visits",
        "postgresql://reader:hunter2@host/db#visits": "postgresql://reader@host/db#visits",
        "postgresql://reader:a@b:c/d@host/db": "postgresql://reader@host/db",
        "mysql://host/db?user=x&password=hunter2#t": "mysql://host/db#t",
        "duckdb:///shop.duckdb#sales": "duckdb:///shop.duckdb#sales",
        "data/people.csv": "data/people.csv",
    }.items():
        assert without_password(address) == kept


def test_an_example_is_drawn_on_made_up_counts_that_depend_on_the_question_alone() -> None:
    domain = bf.domain({"age": AGE})
    asked = query("histogram", bf.col("age").bins(10))
    wanted = AccuracyTarget(None, Fraction(1, 4))
    answer, exact = example(best_release(domain, bf.Policy(), asked, wanted))
    assert np.array_equal(exact, made_up_counts(compile_query(domain, bf.Policy(), asked).cells))
    assert np.abs(answer.raw - exact).max() > 0
    assert np.abs(answer.raw - exact).max() < 200
    counts = np.arange(10, dtype=np.int64)
    _, exact = example(best_release(domain, bf.Policy(), asked, wanted), counts)
    assert exact.tolist() == counts.tolist()


def test_a_file_keeps_its_place_whatever_it_is_called(tmp_path: Path) -> None:
    for name in ("../../etc/passwd.csv", "a b/..\\c.parquet", ".csv", "x" * 300 + ".csv.gz"):
        path = place_for(tmp_path, name)
        assert path.parent == tmp_path / "uploads"
        assert path != place_for(tmp_path, name)
        assert path.relative_to(tmp_path).parts[0] == "uploads"
    assert without_user("postgresql://ana:pass@word@host/db#t") == "postgresql://host/db#t"
    assert without_user("data/a@b.csv") == "data/a@b.csv"
    with pytest.raises(InvalidInput):
        place_for(tmp_path, "run.sh")
    with pytest.raises(TooLarge):
        check_size(11, 10)


def test_tables_are_listed_and_a_column_is_looked_at(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE sales AS SELECT range AS price, 's' || range % 3 AS shop FROM range(10)")
        connection.execute('CREATE TABLE "odd.name" AS SELECT 1 AS x')
    address = f"duckdb:///{tmp_path}/shop.duckdb"
    assert tables_at(address) == ['"odd.name"', "sales"]
    assert look_at_column(f"{address}#sales", "price") == ColumnSeen(low="0", high="9")
    assert look_at_column(f"{address}#sales", "shop") == ColumnSeen(values=("s0", "s1", "s2"))
    assert look_at_column(f'{address}#"odd.name"', "x").high == "1"
    with pytest.raises(SourceError, match="no column"):
        look_at_column(f"{address}#sales", "prize")
    (tmp_path / "rows.csv").write_text("a,b\n1,x\n2,y\n")
    assert tables_at(str(tmp_path / "rows.csv")) == []
    assert look_at_column(str(tmp_path / "rows.csv"), "b").values == ("x", "y")


def test_true_counts_are_those_of_the_table(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE sales AS SELECT range % 3 AS price FROM range(10)")
    with bf.curate(tmp_path / "blowfish.toml", by="cora") as curator:
        source = "duckdb:///shop.duckdb#sales"
        dataset = bf.Dataset("shop", source=source, domain={"price": bf.integers(0, 3, null=0)})
        curator.add(dataset)
        assert curator.tables("duckdb:///shop.duckdb") == ["sales"]
        assert curator.look_at_column(source, "price") == ColumnSeen(low="0", high="2")
        before = curator.ledger.head()
        compiled = compile_query(dataset.domain, dataset.policy, query("histogram", "price"))
        assert curator.true_counts("shop", compiled).tolist() == [4, 3, 3, 0]
        assert curator.ledger.head() == before


def test_entries_are_told_in_words() -> None:
    charge = {"kind": "charge", "analyst": "ana", "certificate": json.dumps({"question": "Histogram of age"})}
    limit = {"kind": "analyst-limit", "by": "cora", "analyst": "ana", "limit": "0", "reason": "left"}
    assert _entry("charge", charge).words == "Histogram of age"
    assert _entry("charge", {"certificate": "not JSON"}).words == "asked a question"
    assert _entry("analyst-limit", limit).words == "limited analysts, limit 0, for ana, left"


def _entry(kind: str, fields: dict[str, str]) -> Entry:
    return Entry(1, kind, "account", json.dumps(fields), "", "")
