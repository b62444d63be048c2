"""A price given as epsilon buys what a fresh answer promises for it: own answers that surely tell as much are free."""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.accuracy.quote import Quote
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.release import PlanRelease, Release
from blowfishdb.engine.sharing import Ways, ways_to
from blowfishdb.ledger import Ledger
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.plan import Plan
from blowfishdb.session import local
from blowfishdb.session.table import Question, Table
from tests.session.places import curator, make_fixture, session, visits

AGE = bf.col("age")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_fixture(tmp_path)
    with session(tmp_path) as db:
        db["visits"].histogram(AGE.bins(5)).release(epsilon=1)
    return tmp_path


def spent(folder: Path) -> Fraction:
    with curator(folder) as keeper:
        report = keeper.verify()
        assert report.is_sound, report.fault
        return keeper.account("visits").spent


@pytest.mark.parametrize("epsilon", ["1", "0.5", "0.05"])
def test_what_an_own_answer_tells_as_closely_is_free(folder: Path, epsilon: str) -> None:
    with session(folder) as db:
        for question in (db["visits"].histogram(AGE.bins(10)), db["visits"].where(AGE < 30).count()):
            alone = question.preview(epsilon=epsilon, fresh=True)
            preview = question.preview(epsilon=epsilon)
            assert [alone.epsilon, preview.epsilon, preview.best.epsilon] == [Fraction(epsilon), 0, 1]
            assert preview.alpha is not None
            assert alone.alpha is not None
            assert preview.alpha <= alone.alpha
            assert [way.name for way in preview.ways] == ["free", "fresh"]
            answer = question.release(epsilon=epsilon)
            assert answer.charged == 0
            assert answer.widths.simultaneous <= alone.alpha
            assert answer.caveat.startswith("Read off an earlier release")
        text = "SELECT COUNT(*) FROM visits WHERE age < 45"
        assert "free" in str(db.sql(f"EXPLAIN {text}", epsilon=epsilon))
        counted = db.sql(text, epsilon=epsilon)
        assert isinstance(counted, bf.Answer)
        assert counted.charged == 0
    assert spent(folder) == 1


def test_more_than_the_own_answer_tells_is_charged_in_full(folder: Path) -> None:
    with session(folder) as db:
        for question in (db["visits"].histogram(AGE.bins(10)), db["visits"].where(AGE < 30).count()):
            assert question.preview(epsilon="1.01").epsilon == Fraction("1.01")
        answer = db["visits"].histogram(AGE.bins(10)).release(epsilon="1.01")
        assert (answer.epsilon, answer.caveat) == (Fraction("1.01"), "")
    assert spent(folder) == Fraction("2.01")


def test_fresh_draws_anew_at_the_whole_price(folder: Path) -> None:
    with session(folder) as db:
        answer = db["visits"].histogram(AGE.bins(10)).release(epsilon=1, fresh=True)
        assert (answer.epsilon, answer.caveat) == (Fraction(1), "")
    assert spent(folder) == 2


def test_what_others_own_or_a_mechanism_that_was_named_leaves_the_price_as_it_is(folder: Path) -> None:
    with session(folder) as db, session(folder, "ben") as ben:
        assert ben["visits"].histogram(AGE.bins(10)).preview(epsilon="0.5").epsilon == Fraction(1, 2)
        named = db["visits"].histogram(AGE.bins(10)).preview(epsilon="0.5", mechanism="ordered")
        assert named.epsilon == Fraction(1, 2)


def test_an_answer_read_off_for_a_price_is_the_same_again_and_in_a_retry(folder: Path) -> None:
    with session(folder) as db:
        question = db["visits"].where(AGE < 30).count()
        first = question.release(epsilon="0.5")
        assert question.release(epsilon="0.5").values.tolist() == first.values.tolist()
        assert question.release(epsilon=1).values.tolist() == first.values.tolist()
    assert spent(folder) == 1


LARGE = [4, 100, 800]


@pytest.mark.parametrize("level", LARGE)
def test_where_floats_hold_no_variance_an_own_answer_serves_no_larger_price(tmp_path: Path, level: int) -> None:
    """Noise of the level 800 is 0 but in one draw of 10^347, of the level 4 in 26 of 27: both promise no error."""
    make_fixture(tmp_path, visits(epsilon="100000"))
    with session(tmp_path) as db:
        db["visits"].histogram(AGE.bins(5)).release(epsilon=level, mechanism="ordered")
        question = db["visits"].where(AGE < 30).count()
        prices = [*map(Fraction, LARGE), level - Fraction(1, 10**6), level + Fraction(1, 10**6)]
        for price in prices:
            preview = question.preview(epsilon=price)
            assert (preview.epsilon, preview.best.epsilon) == ((0, level) if price <= level else (price, price))


def test_what_varies_less_and_still_promises_less_does_not_serve(folder: Path) -> None:
    """The sum of two numbers of level 1 varies less than one of level 0.7, and is more seldom within 1."""
    with session(folder) as db:
        question = db["visits"].where((AGE >= 20) & (AGE < 40)).count()
        prices = {said: question.preview(epsilon="0.7", confidence=said) for said in ("0.5", "0.65")}
    assert [preview.epsilon for preview in prices.values()] == [0, Fraction("0.7")]


QUESTIONS: dict[str, Callable[[Table], Question]] = {
    "ages": lambda table: table.histogram(AGE),
    "bins of 5": lambda table: table.histogram(AGE.bins(5)),
    "bins of 10": lambda table: table.histogram(AGE.bins(10)),
    "bins of 20 of the young": lambda table: table.where(AGE < 60).histogram(AGE.bins(20)),
    "wards": lambda table: table.histogram("ward"),
    "bins by ward": lambda table: table.histogram("ward", AGE.bins(10)),
    "the young": lambda table: table.where(AGE < 30).count(),
    "the young of a ward": lambda table: table.where((AGE < 50) & (bf.col("ward") == "A2")).count(),
    "running counts": lambda table: table.cdf(AGE.bins(10)),
    "a mean": lambda table: table.mean("age"),
}
LEVELS = ["0.02", "0.3", "1", "7/3", "12", "90", "450", "990"]
SLACK = Decimal("1e-9")
"""The rounding of the coefficients, which both have as floats."""
EXACTLY = decimal.Context(prec=80, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)


def variances(quote: Quote) -> list[Decimal]:
    """The variance of each answer: of its noise on each variable, decoded one by one."""
    plan, epsilon, strategy = quote.candidate.plan, quote.epsilon, quote.strategy
    rates = [epsilon * weight / plan.unit for weight in plan.weights.tolist()]
    each = {}
    for rate in set(rates):
        fall = EXACTLY.exp(EXACTLY.divide(-rate.numerator, rate.denominator))
        each[rate] = EXACTLY.divide(2 * fall, EXACTLY.power(EXACTLY.subtract(1, fall), 2))
    exact = 0 if not isinstance(plan, Plan) or plan.exact is None else plan.exact.shape[0]
    scales = np.array([1 / float(rate) for rate in rates])
    ones = strategy.decode(np.eye(len(rates)), np.zeros((exact, len(rates))), np.maximum(variance(scales), 1e-300))
    # What is off by the rounding of floats alone is as good as none.
    ones = np.where(np.abs(ones) < 1e-12, 0.0, ones)
    with decimal.localcontext(EXACTLY):
        squares = [[(Decimal(one) ** 2) * each[rate] for one, rate in zip(row, rates, strict=True)] for row in ones]
        return [sum(row, Decimal(0)) for row in squares]


@pytest.mark.parametrize("policy", [bf.Policy({"age": bf.threshold(5)}), bf.Policy({}), bf.Policy(presence="public")])
def test_whatever_serves_for_a_price_varies_no_more_and_promises_no_less(
    tmp_path: Path, policy: bf.Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_fixture(tmp_path, visits(policy, epsilon="100000"))
    found: list[tuple[Release, Ways]] = []

    def seen(ledger: Ledger, handle: DatasetHandle, analyst: str, release: Release) -> Ways:
        ways = ways_to(ledger, handle, analyst, release)
        found.append((release, ways))
        return ways

    monkeypatch.setattr(local, "ways_to", seen)
    chosen, served = random.Random(41), 0
    for round in range(4):
        with session(tmp_path, f"analyst {round}") as db:
            for _ in range(3):
                owned = QUESTIONS[chosen.choice(list(QUESTIONS))](db["visits"])
                owned.release(epsilon=Fraction(chosen.choice(LEVELS)))
            for name, question in QUESTIONS.items():
                said = chosen.choice(["0.5", "0.65", "0.95", "0.999"])
                question(db["visits"]).preview(epsilon=Fraction(chosen.choice(LEVELS)), confidence=said)
                fresh, ways = found[-1]
                assert isinstance(fresh, PlanRelease)
                for way in ways.releases:
                    assert isinstance(way, PlanRelease)
                    if way.price < fresh.price:
                        served += 1
                        pairs = zip(variances(way.best), variances(fresh.best), strict=True)
                        assert all(mine <= theirs * (1 + SLACK) for mine, theirs in pairs), name
                        assert way.best.alpha <= fresh.best.alpha
                        assert np.all(way.widths.per_answer <= fresh.widths.per_answer)
                        assert np.all(way.widths.together <= fresh.widths.together)
    assert served >= 5
