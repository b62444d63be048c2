"""Previews name every offer, why the first one wins, the worst pair, and the column that makes a filter expensive."""

from __future__ import annotations

import datetime
import json
import pickle
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.accuracy.quote import ALIKE
from blowfishdb.catalog.guidance import Pair, what_if
from blowfishdb.engine.charge import plan_in_full, prepare
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.preview import ExpensiveColumn, Preview, PriceList, QuotedPrices, instead
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import AccuracyTarget, accuracy_target, make_request
from blowfishdb.errors import Declined
from blowfishdb.model.explain import not_protected
from blowfishdb.model.predicate import Predicate
from blowfishdb.model.query import Query
from blowfishdb.present.chart_svg import escaped
from tests.engine.held import Rows
from tests.present.test_page import check_inert, read

DOMAIN = bf.domain(
    {
        "cost": bf.bins(0, 50, width=1, null=0),
        "ward": bf.categorical(["A1", "A2", "A3"], null="A1", outside="A1"),
        "age": bf.integers(0, 19, null=0),
        "day": bf.dates("2024-01-01", "2024-02-29", null="2024-01-01"),
    }
)
POLICY = bf.Policy({"cost": bf.line()})
CDF = bf.query("cdf", "cost")


def prepared(asked: Query = CDF, wanted: AccuracyTarget | None = None, policy: bf.Policy = POLICY) -> PlanRelease:
    handle = DatasetHandle("visits", DOMAIN, policy, "account", 1, 1, 1, Rows())
    return prepare(handle, make_request(handle, asked, wanted or accuracy_target(alpha=50)))


def preview(asked: Query = CDF, wanted: AccuracyTarget | None = None, policy: bf.Policy = POLICY) -> Preview:
    handle = DatasetHandle("visits", DOMAIN, policy, "account", 1, 1, 1, Rows())
    return prepared(asked, wanted, policy).preview(handle)


def filtered(condition: Predicate) -> Query:
    return bf.query("cdf", "cost", condition)


def test_offers_are_sorted_and_the_first_would_run() -> None:
    found = preview()
    prices = [offer.epsilon for offer in found.offers]
    assert prices == sorted(prices)
    assert (found.mechanism, found.epsilon) == (found.offers[0].mechanism, prices[0])
    assert "<- would run" in str(found).splitlines()[2]
    assert found.mechanism in found.why
    assert set(found.declined).isdisjoint(offer.mechanism for offer in found.offers)


def test_the_price_list_is_worked_out_when_it_is_read_and_says_the_same() -> None:
    plain = preview(filtered(bf.col("age") < 5))
    asked = plain.with_budget(Fraction(1)).run_by("SELECT 1")
    assert isinstance(asked.prices, QuotedPrices)
    assert "in_full" not in vars(asked.prices)
    assert (asked.mechanism, asked.epsilon, asked.alpha) == (asked.best.mechanism, asked.best.epsilon, asked.best.alpha)
    sent = pickle.loads(pickle.dumps(asked))
    assert isinstance(sent.prices, PriceList)
    assert sent.offers == plain.offers
    assert sent.best == plain.offers[0] == asked.best
    assert len(plain.offers) > 1
    assert (sent.declined, sent.why) == (plain.declined, plain.why)
    assert asked.to_dict() == sent.to_dict()
    assert asked.to_dict()["offers"] == plain.to_dict()["offers"]
    handle = DatasetHandle("visits", DOMAIN, POLICY, "account", 1, 1, 1, Rows())
    whole = plan_in_full(handle, make_request(handle, CDF, accuracy_target(alpha=50)), True).preview
    assert isinstance(whole, Preview)
    assert "in_full" in vars(whole.prices)


def test_a_notebook_shows_the_price_every_offer_and_the_notes() -> None:
    found = preview().with_budget(Fraction(1))
    html = found._repr_html_()
    check_inert(read(html))
    assert html.count("<tr ") == len(found.offers) + 1
    assert html.count('scope="col"') == 4
    assert "What each mechanism offers</caption>" in html
    for said in (
        found.head(),
        "usual error",
        found.offers[-1].mechanism,
        "&lt;- would run",
        *map(escaped, found.notes()),
    ):
        assert said in html
    assert "rmse" not in html + str(found)


def test_markup_in_a_condition_stays_text() -> None:
    asked = filtered(bf.col("ward") == "A1")
    html = replace(preview(asked), title="<script>alert(1)</script>", statement="SELECT '<img src=x>'")._repr_html_()
    check_inert(read(html))
    assert "<script" not in html and "<img" not in html


def test_a_given_epsilon_ranks_by_expected_error() -> None:
    found = preview(wanted=accuracy_target(epsilon="0.1"))
    errors = [offer.rmse for offer in found.offers if offer.rmse is not None]
    assert errors[1:] == sorted(errors[1:])
    assert errors[0] <= ALIKE * min(errors)
    assert "least expected error" in found.why or "closest" in found.why


def test_the_worst_pair_without_a_filter_is_two_cells() -> None:
    assert "a record with cost" in preview().worst_pair
    assert "outside the filter" not in preview().worst_pair


def test_the_worst_pair_of_a_filter_is_a_record_that_leaves_it() -> None:
    found = preview(bf.query("count", (), bf.col("ward") == "A3"))
    assert found.worst_pair == "a record that counts <-> a record outside the filter"


def test_absence_is_named() -> None:
    found = preview(bf.query("count"), policy=bf.Policy(presence="secret"))
    assert found.worst_pair == "a record that counts <-> an absent one"


def test_the_expensive_column_is_named_with_both_ways_out() -> None:
    found = preview(filtered(bf.col("ward") == "A3"))
    (column,) = found.expensive_columns
    assert column.column == "ward"
    assert column.now == pytest.approx(float(found.epsilon))
    public = preview(filtered(bf.col("ward") == "A3"), policy=bf.Policy({"cost": bf.line(), "ward": bf.public()}))
    assert column.if_public == pytest.approx(float(public.epsilon))
    cut = bf.Policy({"cost": bf.line(), "ward": bf.partition([["A3"], ["A1", "A2"]])})
    assert column.if_partitioned == pytest.approx(float(preview(filtered(bf.col("ward") == "A3"), policy=cut).epsilon))
    assert "The filter on ward makes this expensive" in str(found)


@pytest.mark.parametrize(
    ("condition", "family"),
    [
        (bf.col("age") >= 10, bf.partition(cuts=[10])),
        (bf.col("day") < datetime.date(2024, 2, 1), bf.partition(cuts=["2024-02-01"])),
        (bf.col("age").between(5, 9), bf.partition(cuts=[5, 10])),
    ],
)
def test_ordered_columns_are_cut_where_the_filter_cuts(condition: Predicate, family: object) -> None:
    found = preview(filtered(condition))
    (column,) = found.expensive_columns
    policy = bf.Policy({"cost": bf.line(), column.column: family})  # type: ignore[dict-item]
    assert column.if_partitioned == pytest.approx(float(preview(filtered(condition), policy=policy).epsilon))


def test_only_ways_out_that_save_something_are_named() -> None:
    same = replace(preview(), expensive_columns=(ExpensiveColumn("ward", 0.4, 0.3, 0.4),))
    assert "if it were public it would cost 0.3." in str(same)
    assert "partitioned" not in str(same)


def test_a_public_column_is_never_expensive() -> None:
    policy = bf.Policy({"cost": bf.line(), "ward": bf.public()})
    assert preview(filtered(bf.col("ward") == "A3"), policy=policy).expensive_columns == ()
    assert preview().expensive_columns == ()


def test_what_is_left_is_shown() -> None:
    found = preview()
    assert "this leaves" in str(found.with_budget(Fraction(10)))
    assert "too expensive" in str(found.with_budget(Fraction(1, 10**6)))
    assert "left" not in str(found)


def test_a_preview_is_plain_data_too() -> None:
    content = json.loads(json.dumps(preview(filtered(bf.col("ward") == "A3")).to_dict()))
    assert content["offers"][0]["mechanism"] == preview(filtered(bf.col("ward") == "A3")).mechanism
    assert Fraction(content["offers"][0]["epsilon"]) > 0


def test_the_accuracy_of_a_mean_is_that_of_the_sum_behind_it() -> None:
    assert "the sum behind it within 50" in str(preview(bf.query("mean", "age")))
    assert "every answer within 50" in str(preview())


def test_where_accuracy_depends_on_the_size_of_groups_no_number_is_promised() -> None:
    of_a_mean = str(preview(bf.query("mean", "age"), accuracy_target(epsilon="0.1")))
    assert "are those of the sum behind it: the more records, the nearer the mean" in of_a_mean
    means = preview(
        bf.query("table", "ward", aggregates=[bf.Aggregate("mean", ("age",))]), accuracy_target(epsilon="0.1")
    )
    assert (means.alpha, means.best.rmse) == (None, None)
    assert "mean_age depends on the size of its group" in str(means)
    sized = preview(replace(bf.query("mean", "age"), rows=1000), accuracy_target(epsilon="0.1"))
    assert sized.alpha is not None and sized.alpha < 1 and "behind it" not in str(sized)


def test_a_named_mechanism_that_does_not_serve_says_why() -> None:
    with pytest.raises(Declined, match="marginals"):
        preview(bf.query("cdf", "cost"), accuracy_target(alpha=50, mechanism="marginals")).best  # noqa: B018


def test_exact_answers_say_that_they_are_free() -> None:
    found = preview(bf.query("count"))
    assert found.epsilon == 0
    assert "free" in found.why
    assert found.worst_pair.startswith("no pair")


def test_instead_offers_what_the_rest_buys() -> None:
    ready = prepared(wanted=accuracy_target(alpha=1, confidence="0.999"))
    words = instead(DOMAIN, POLICY, ready.compiled, ready.target, Fraction(1, 7))
    assert [word.startswith("within") for word in words] == [True, True, False]
    assert "(99.9 %)" in words[0]
    assert "(95 %)" in words[1]
    assert words[2].startswith("5 bins within")
    assert instead(DOMAIN, POLICY, ready.compiled, ready.target, Fraction(0)) == ()
    chosen = accuracy_target(epsilon=9, mechanism="auto")
    assert instead(DOMAIN, POLICY, ready.compiled, chosen, Fraction(1, 7))[0] == words[1]


def test_what_is_not_protected_follows_the_policy() -> None:
    assert not_protected(DOMAIN, bf.Policy(presence="secret", unit=bf.person("id", at_most=2, order_by="key"))) == ()
    said = " ".join(not_protected(DOMAIN, bf.Policy({"cost": bf.line(), "ward": bf.public()}, "attribute")))
    for part in ("how large cost", "Everything about ward", "Several attributes", "How many rows", "several records"):
        assert part in said


def test_policies_side_by_side() -> None:
    policies = {
        "secret": bf.Policy(),
        "near": bf.Policy({"cost": bf.threshold(10)}),
        "next": bf.Policy({"cost": bf.line()}),
        "public": bf.Policy({"cost": bf.public()}),
    }
    found = what_if(DOMAIN, policies, CDF, accuracy_target(alpha=50), [Pair("cost", 3, 40)])
    prices = [price.epsilon for price in found]
    assert [price.name for price in found] == list(policies)
    assert prices == sorted(prices, reverse=True)  # type: ignore[type-var]
    assert [price.steps[0] for price in found] == [1, 4, 37, None]
    assert found[-1].odds(0) is None
    odds = found[0].odds(0)
    assert odds is not None
    assert odds > 1


def test_previews_read_nothing(tmp_path: Path) -> None:
    rows = Rows()
    handle = DatasetHandle("visits", DOMAIN, POLICY, "account", 1, 1, 1, rows)
    prepare(handle, make_request(handle, CDF, accuracy_target(alpha=5))).preview(handle)
    assert rows.reads == 0


def test_other_policies_are_priced_by_the_release_that_would_run() -> None:
    wide = bf.domain({"cost": bf.integers(0, 49_999, null=0)})
    policies = {"records": bf.Policy(), "people": bf.Policy(unit=bf.person("who", at_most=2, order_by="nr"))}
    quantiles = bf.query("quantiles", "cost", levels=["0.5"])
    chosen = what_if(wide, policies, quantiles, accuracy_target(epsilon=1))
    assert {price.mechanism for price in chosen} == {"exponential-quantiles"}
    columns = [bf.Aggregate("people", ("who",)), bf.Aggregate("count")]
    table = what_if(wide, policies, bf.query("table", aggregates=columns), accuracy_target(epsilon=1))
    assert "protects whole persons" in table[0].refusal
    assert (table[1].epsilon, table[1].mechanism) == (0, "joint")
