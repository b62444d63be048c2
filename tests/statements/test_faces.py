"""What is said where answers share noise, budgets end, answers are compared or sorted, and odds are bounded, is so."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.analysis.risk import sufficient_budget
from blowfishdb.cli.output import _budget_words
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.postprocess import compare, select_rows
from blowfishdb.engine.program import GroupsRelease, QuantilesRelease
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import accuracy_target, make_request
from blowfishdb.errors import BudgetExceeded, PolicyError, QueryError
from blowfishdb.model.distance import hidden_distance
from blowfishdb.model.query import Part, Query
from blowfishdb.server.pages import controls
from blowfishdb.server.pages.dictionary import typical, why_nothing
from blowfishdb.server.pages.explore import promise_words
from blowfishdb.session import Session
from blowfishdb.session.session import stated_question
from blowfishdb.sql import parse
from tests.statements.draws import BETA, CLOSE, is_missed, is_too_often
from tests.statements.place import APART, LIMITED, LITTLE, SHARED, Place, data_name
from tests.statements.sentences import NUMBER, near, number
from tests.statements.world import QUESTIONS, WARDS, WORLDS, Record

DRAWS = 60
AGES = bf.query("histogram", "age")


# Noise that is shared.


def later_price(session: Session, **target: Any) -> tuple[Fraction, str]:
    """What a further level of the ages costs, after the preview said so; and how it was said."""
    question = session[SHARED].question(AGES)
    words = [line for line in question.preview(**target).notes() if line.startswith("It costs")]
    before = session.budget(SHARED).spent
    question.release(**target)
    return session.budget(SHARED).spent - before, " ".join(words)


def told_price(words: str) -> tuple[float, float, int]:
    """The price, the part that was paid before, and the entry that paid it."""
    said = re.fullmatch(rf"It costs ({NUMBER}) more: ({NUMBER}) of it was paid on .+ \(entry (\d+)\)\.", words)
    if said:
        return number(said[1]), number(said[2]), int(said[3])
    said = re.fullmatch(r"It costs nothing: what entry (\d+) paid on .+ covers it\.", words)
    assert said, words
    return 0.0, 0.0, int(said[1])


def test_prices_of_shared_noise_are_so(place: Place) -> None:
    ana = place.session
    question = ana[SHARED].question(AGES)
    assert not any(line.startswith("It costs") for line in question.preview(epsilon="0.2").notes())
    question.release(epsilon="0.2", mechanism="identity")
    for target, paid in (({"epsilon": "0.5"}, "0.2"), ({"epsilon": "0.75"}, "0.5")):
        entry = ana.history(SHARED)[0].number
        charged, words = later_price(ana, mechanism="identity", **target)
        price, part, told = told_price(words)
        level = Fraction(target["epsilon"])
        assert charged == level - Fraction(paid)
        assert (price, part, told) == (pytest.approx(float(charged)), pytest.approx(float(paid)), entry)
    newest = ana.history(SHARED)[0].number
    for free in ({"epsilon": "0.4", "mechanism": "identity"}, {"alpha": "80"}):
        charged, words = later_price(ana, **free)
        assert (charged, told_price(words)) == (0, (0.0, 0.0, newest)), words
    with bf.connect(place.configuration, analyst="ben") as ben:
        data = ben.budget(SHARED).dataset_remaining
        charged, words = later_price(ben, epsilon="0.6", mechanism="identity")
        assert (charged, words) == (Fraction(3, 5), ""), "what others paid is not told, and is in nobody's price"
        assert ben.budget(SHARED).dataset_remaining == data, "the data loses nothing more"


# Several questions as one, and questions that build on earlier answers.


@pytest.mark.parametrize("world", ["full", "line"])
@pytest.mark.sampled(2)
def test_every_question_of_a_plan_keeps_its_accuracy(place: Place, world: str) -> None:
    assert plan_misses(place, world, DRAWS // 3) == []


@pytest.mark.nightly
@pytest.mark.parametrize("world", ["partition", "threshold", "only", "person"])
def test_every_question_of_all_plans_keeps_its_accuracy(place: Place, world: str) -> None:
    assert plan_misses(place, world, DRAWS) == []


def plan_misses(place: Place, world: str, draws: int) -> list[str]:
    """The questions of a plan that are off by more than was asked, or outside their intervals, too often."""
    handle, rows = place.handle(world), WORLDS[world].counted
    asked = {"histogram": 60, "cdf": 20, "histogram of A": 30, "linear": 90}
    parts = tuple(Part(QUESTIONS[name].query, Fraction(alpha), Fraction(BETA)) for name, alpha in asked.items())
    release = prepare(handle, make_request(handle, Query("joint", parts=parts), accuracy_target(alpha=20)))
    assert isinstance(release, PlanRelease)
    counts, missed = release.counting(handle).run(), Counter[str]()
    for _ in range(draws):
        answers = release.answer(counts).parts
        for (name, alpha), answer in zip(asked.items(), answers, strict=True):
            truth = np.array(QUESTIONS[name].truth(rows))
            missed[f"{name} within {alpha}"] += bool(np.max(np.abs(answer.raw - truth)) > alpha + CLOSE)
            missed[f"the interval of {name}"] += is_missed(answer, truth)
    return [what for what, times in missed.items() if is_too_often(times, draws)]


@pytest.mark.nightly
def test_answers_that_build_on_others_keep_their_accuracy(place: Place) -> None:
    truth = {name: np.array(QUESTIONS[name].truth(WORLDS["full"].counted)) for name in ("histogram", "cdf", "ranges")}
    # Each analyst's noise is drawn apart here: over all analysts together one bad draw would count for everybody.
    missed, built = Counter[str](), 0
    for turn in range(DRAWS):
        with bf.connect(place.configuration, analyst=f"analyst {turn}") as session:
            for name, alpha in (("histogram", "30"), ("cdf", "45"), ("ranges", "60"), ("histogram", "18")):
                question = session[APART].question(QUESTIONS[name].query)
                built += bool(question.preview(alpha=alpha, beta=BETA).ways)
                off = np.max(np.abs(question.release(alpha=alpha, beta=BETA).raw - truth[name]))
                missed[f"{name} within {alpha}"] += bool(off > float(alpha) + CLOSE)
    assert built >= DRAWS, "answers were built on others"
    assert [what for what, times in missed.items() if is_too_often(times, DRAWS)] == []


# Budgets.


@pytest.fixture(scope="module")
def spender(place: Place) -> Iterator[Session]:
    """An analyst with a limit of her own, who has spent a part of it."""
    with bf.curate(place.configuration, by="cora") as curator:
        curator.limit_analyst(LIMITED, "eve", "1", reason="a share")
    with bf.connect(place.configuration, analyst="eve") as session:
        session[LIMITED].histogram("age").release(epsilon="0.4")
        yield session


def bar_words(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The legend of the budget's bar."""
    legends: list[str] = []
    monkeypatch.setattr(controls, "stacked_bar", lambda parts, legend, label: legends.extend(legend))
    controls.budget_bar(session.budget(LIMITED))
    return legends


def test_a_refusal_tells_the_price_what_is_left_and_what_that_buys(spender: Session) -> None:
    question, budget = spender[LIMITED].histogram("age"), spender.budget(LIMITED)
    price = question.preview(alpha="5").epsilon
    with pytest.raises(BudgetExceeded) as refused:
        question.release(alpha="5")
    assert budget == spender.budget(LIMITED)
    said = re.match(
        rf"not run, nothing charged: this costs epsilon ({NUMBER}); ({NUMBER}) is left for the data and ({NUMBER}) "
        r"is left for this analyst\. With what is left you can have: (.+)\. The curator can renew the budget\.",
        refused.value.message,
    )
    assert said, refused.value.message
    assert near(said[1], price)
    assert near(said[2], budget.dataset_remaining)
    assert near(said[3], budget.remaining)
    for offer in said[4].split(", or "):
        kept = re.fullmatch(rf"(?:\d+ bins )?within ({NUMBER}) \(({NUMBER}) %\)", offer)
        assert kept, offer
        beta = 1 - Fraction(kept[2]) / 100
        assert question.preview(alpha=kept[1].replace(",", ""), beta=beta).epsilon <= budget.remaining
    terminal = _budget_words(refused.value)
    assert re.search(rf"needs epsilon {NUMBER}; you have 0\.6 left", terminal), terminal


def test_views_of_a_budget_are_so_before_and_after_it_is_revoked(
    place: Place, spender: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bar_words(spender, monkeypatch) == ["spent 0.4", "left 0.6", "of 1"]
    for title, price, times in typical(spender, LIMITED, "40"):
        question = spender[LIMITED].cdf("age") if title.startswith("CDF") else None
        if question is not None and title == "CDF of age":
            exact = question.preview("40").epsilon
            assert near(price.removeprefix("≈ "), exact)
            assert times == f"{Fraction(3, 5) // exact} times"
    with bf.curate(place.configuration, by="cora") as curator:
        curator.limit_analyst(LIMITED, "eve", "0.3", reason="less")
        assert bar_words(spender, monkeypatch) == ["0.4 spent, more than the limit of 0.3"]
        assert why_nothing(spender.budget(LIMITED)) == "Your budget is used up."
        curator.limit_analyst(LIMITED, "eve", 0, reason="no more")
        (line,) = [one for one in curator.analysts(LIMITED) if one.analyst == "eve"]
        assert (line.spent, line.limit) == (Fraction(2, 5), 0)
    assert bar_words(spender, monkeypatch) == ["0.4 spent, nothing more allowed"]
    assert why_nothing(spender.budget(LIMITED)) == "The curator lets you spend nothing on this data."
    with pytest.raises(
        BudgetExceeded, match=r"; 2\.6 is left for the data and 0 is left for this analyst\. The curator"
    ):
        spender[LIMITED].histogram("age").release(alpha="5")
    notes = spender[LIMITED].histogram("age").preview(alpha="5").notes()
    assert notes[-1] == "You have nothing left to spend here; the curator can renew your budget."
    with bf.connect(place.configuration, analyst="ana") as ana:
        assert bar_words(ana, monkeypatch) == ["spent 0", "left 2.6", "used by others 0.4", f"of {LITTLE}"]


# Answers that are compared.


def released(place: Place, world: str, question: str, draws: int) -> list[Answer]:
    """Answers to a question, over and over, as they are stored."""
    handle = place.handle(world)
    release = prepare(
        handle, make_request(handle, QUESTIONS[question].query, accuracy_target(epsilon="0.5", beta=BETA))
    )
    assert isinstance(release, PlanRelease)
    counts = release.counting(handle).run()
    return [Answer.from_json(release.payload(counts, handle)) for _ in range(draws)]


def test_compared_answers_keep_their_words(place: Place) -> None:
    rows = WORLDS["full"].counted
    truth, of_a = (np.array(QUESTIONS[name].truth(rows)) for name in ("histogram", "histogram of A"))
    whole, part = (released(place, "full", name, DRAWS) for name in ("histogram", "histogram of A"))
    missed = {"both": 0, "difference": 0, "ratio": 0}
    for first, second, other in zip(whole, whole[1:] + whole[:1], part, strict=True):
        same, apart = compare(first, second), compare(other, first)
        assert "with 60 % confidence" in same.words()[0]
        assert "With 60 % confidence" in apart.words()[0]
        assert same.is_one_truth
        assert not apart.is_one_truth
        for what, estimate, true in (
            ("both", same.pooled, truth),
            ("difference", apart.difference, truth - of_a),
            ("ratio", apart.ratio, truth / np.maximum(of_a, 1e-9)),
        ):
            assert estimate is not None
            known = ~np.isnan(estimate.bounds.low)
            inside = (estimate.bounds.low - CLOSE <= true) & (true <= estimate.bounds.high + CLOSE)
            missed[what] += not bool(np.all(inside[known]))
    assert not any(is_too_often(times, DRAWS, 0.4) for times in missed.values()), missed
    with pytest.raises(QueryError, match="ask for different things"):
        compare(whole[0], released(place, "full", "wards", 1)[0])
    # A comparison that took other groups for the same question would say that the truth lies in both.
    pooled = [compare(one, two).pooled for one, two in pairwise(whole)]
    outside = sum(bool(np.any((of_a < one.bounds.low) | (of_a > one.bounds.high))) for one in pooled if one is not None)
    assert is_too_often(outside, len(pooled), 0.4)


# Tables of aggregates, sorted and cut.

STATEMENT = (
    "SELECT ward, COUNT(*) AS n, AVG(age) AS a, SUM(x) AS s FROM {name} GROUP BY ward HAVING n > 70 "
    "ORDER BY n DESC LIMIT 2"
)


def of_ward(rows: list[Record], ward: str) -> tuple[float, float, float]:
    """The true number, mean age and sum of x of a ward."""
    inside = [row for row in rows if row.ward == ward]
    ages = [row.age for row in inside if row.age is not None]
    return float(len(inside)), float(np.mean(ages)), float(sum(row.x for row in inside))


@pytest.mark.parametrize("world", [pytest.param("full", marks=pytest.mark.nightly), "person"])
def test_sorted_and_cut_tables_say_what_is_so(place: Place, world: str) -> None:
    name, rows = data_name(world), WORLDS[world].counted
    statement = parse(STATEMENT.format(name=name))
    question = stated_question(place.session[name], statement)
    truth = {ward: of_ward(rows, ward) for ward in WARDS}
    handle = place.handle(world)
    release = prepare(handle, make_request(handle, question.query, accuracy_target(epsilon="4", beta=BETA)))
    assert isinstance(release, PlanRelease)
    preview = release.preview(handle)
    told = dict(re.findall(rf"(\w+) within ({NUMBER})", preview.column_words()))
    assert promise_words(preview).endswith(preview.column_words())
    counts = release.counting(handle).run()
    missed = {"columns": 0, "intervals": 0, "having": 0, "order": 0}
    last = sorted((true[0] for true in truth.values() if true[0] > 70), reverse=True)[:2][-1]
    for _ in range(DRAWS):
        answer = release.answer(counts)
        values = {column.name: answer.column(place).values for place, column in enumerate(answer.columns)}
        off = {
            column: max(abs(values[column][at] - truth[ward][place]) for at, ward in enumerate(WARDS))
            for place, column in enumerate(("n", "a", "s"))
        }
        missed["columns"] += any(off[column] > number(within) + CLOSE for column, within in told.items())
        flat = np.array([truth[ward][place] for place in range(3) for ward in WARDS])
        missed["intervals"] += is_missed(answer, flat)
        chosen = select_rows(answer, question.selection)
        listed = [row["ward"] for row in chosen.rows()]
        note = chosen.consistent.note
        having = re.search(
            rf"every group whose true n is above (-?{NUMBER}) is listed, and none whose is below (-?{NUMBER}) "
            rf"\(({NUMBER}) %\)",
            note,
        )
        assert having, note
        assert near(having[3], 100 * (1 - BETA))
        order = re.search(rf"every listed group is within ({NUMBER}) of the last that truly belongs", note)
        cut = select_rows(answer, type(question.selection)(having=question.selection.having))
        kept = [row["ward"] for row in cut.rows()]
        above, below = number(having[1]), number(having[2])
        missed["having"] += any(truth[ward][0] > above and ward not in kept for ward in WARDS) or any(
            truth[ward][0] < below for ward in kept
        )
        missed["order"] += order is not None and any(truth[ward][0] < last - number(order[1]) for ward in listed)
    assert {"n", "s"} <= set(told)
    assert not any(is_too_often(times, DRAWS) for times in missed.values()), missed


# Quantiles by rank.


@pytest.mark.parametrize("world", ["threshold", "person"])
def test_quantiles_chosen_by_rank_are_as_near_as_said(place: Place, world: str) -> None:
    assert ranks_and_intervals(place, world, DRAWS // 4) == []


@pytest.mark.nightly
@pytest.mark.parametrize("world", ["full", "only", "line", "partition", "secret presence", "rows known"])
def test_all_quantiles_chosen_by_rank_are_as_near_as_said(place: Place, world: str) -> None:
    assert ranks_and_intervals(place, world, DRAWS) == []


def ranks_and_intervals(place: Place, world: str, draws: int) -> list[str]:
    """Which of ranks and intervals of quantiles fail too often."""
    handle, rows = place.handle(world), WORLDS[world].counted
    asked, target = QUESTIONS["quantiles"], accuracy_target(epsilon="2", beta=BETA, mechanism="exponential-quantiles")
    release = prepare(handle, make_request(handle, asked.query, target))
    assert isinstance(release, QuantilesRelease)
    truth, counts = np.array(asked.truth(rows)), release.counting(handle).run()
    ages = sorted(row.age for row in rows if row.age is not None)
    missed = {"ranks": 0, "intervals": 0}
    for _ in range(draws):
        answer = release.answer(counts)
        said = re.search(rf"each lies within ({NUMBER}) records of its share \(({NUMBER}) %\)", answer.caveat)
        assert said
        assert near(said[2], 100 * (1 - BETA))
        alpha = number(said[1])
        assert alpha >= release.best.alpha, "a promise is rounded up"
        off = []
        for level, value in zip(asked.query.levels, answer.values, strict=True):
            below, upto = sum(age < value for age in ages), sum(age <= value for age in ages)
            rank = float(level) * len(ages)
            off.append(max(0.0, below - rank, rank - upto))
        missed["ranks"] += max(off) > alpha + 1
        missed["intervals"] += is_missed(answer, truth)
    return [what for what, times in missed.items() if is_too_often(times, draws)]


# Odds.

EVERY_PAIR = [(world, name, one, two) for world in WORLDS for name, one, two in (("age", 0, 5), ("ward", "A", "B"))]


@pytest.mark.parametrize(("world", "name", "one", "two"), EVERY_PAIR)
def test_odds_and_the_budget_that_keeps_them_are_those_of_the_policy(
    place: Place, world: str, name: str, one: object, two: object
) -> None:
    table = place.session[data_name(world)]
    steps = hidden_distance(table.domain, table.policy, name, one, two)
    try:
        risk = bf.analysis.risk(table, "0.4", one, two, attribute=name)
    except PolicyError:
        assert table.policy.constraints
        return
    words = " ".join(risk.words(0.5))
    if steps is None:
        assert "may tell them apart with certainty" in words
        with pytest.raises(PolicyError, match="no budget hides"):
            sufficient_budget(table, one, two, attribute=name, odds=3)
        return
    said = re.search(rf"are (\d+) steps? apart.*: epsilon 0\.4 lets the odds .+ at most ({NUMBER})-fold", words)
    assert said, words
    most = math.exp(0.4 * steps * risk.records)
    assert most <= number(said[2]) <= 1.01 * most
    belief = re.search(rf"with ({NUMBER}) % to ({NUMBER}) %", words)
    assert belief, words
    assert number(belief[1]) / 100 <= 1 / (1 + most) + CLOSE
    assert number(belief[2]) / 100 >= most / (1 + most) - CLOSE
    budget = sufficient_budget(table, one, two, attribute=name, odds=3)
    assert math.exp(float(budget.total) * steps) <= 3
    assert is_scale_of(place, world, name, budget.each, budget.histogram_scale)


def is_scale_of(place: Place, world: str, name: str, epsilon: Fraction, scale: Fraction) -> bool:
    """Whether a histogram by `identity` at that price has noise of that scale."""
    handle = place.handle(world)
    target = accuracy_target(epsilon=epsilon, mechanism="identity")
    release = prepare(handle, make_request(handle, bf.query("histogram", name), target))
    assert isinstance(release, PlanRelease)
    return release.best.plan.unit == scale


def test_a_promise_on_the_page_is_that_of_the_preview(place: Place) -> None:
    table = place.session[data_name("full")]
    preview = table.histogram("age").preview(epsilon="0.5")
    said = re.fullmatch(rf"9 answers, all of them within ±({NUMBER}) with 95 % confidence", promise_words(preview))
    assert said
    assert preview.alpha is not None
    assert preview.alpha <= number(said[1]) <= preview.alpha * 1.001
    free = place.session[data_name("public ward")].histogram("ward").preview(epsilon="0.5")
    assert promise_words(free) == "3 answers, exact: the policy hides nothing that they depend on"
    largest = table.top(2, "ward", names_only=True)
    counted = largest.preview(epsilon="0.5")
    assert promise_words(counted, largest.listing) == f"{promise_words(counted)}; the list is read off them"


@pytest.mark.parametrize("ending", ["ORDER BY COUNT(*) DESC LIMIT 1", "HAVING COUNT(*) >= 40"])
def test_the_promise_of_a_list_on_the_page_is_that_of_the_answer(place: Place, ending: str) -> None:
    name = data_name("full")
    question = stated_question(place.session[name], parse(f'SELECT ward FROM "{name}" GROUP BY ward {ending}'))
    assert question.listing is not None
    handle = place.handle("full")
    release = prepare(handle, make_request(handle, question.listing, accuracy_target(epsilon="0.5")))
    assert isinstance(release, GroupsRelease)
    promise = release.answer(release.counting(handle).run()).consistent.note
    assert promise_words(release.preview(handle), question.listing).endswith(f", without counts. {promise}")
