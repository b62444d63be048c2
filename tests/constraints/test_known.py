"""Answers meet what public constraints tell exactly, at no cost, inside the raw box; or the raw ones are returned."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.engine.compile import Compiled, compile_query
from blowfishdb.engine.infer import constrained_answers
from blowfishdb.engine.release import PlanRelease
from blowfishdb.inference.consistency import (
    ConstrainedAnswers,
    consistent_cdf,
    consistent_counts,
    consistent_histogram,
    consistent_parts,
)
from blowfishdb.model.cells import NO_PART
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Predicate, col
from blowfishdb.model.query import query

PEOPLE = bf.domain(
    {
        "sex": bf.categorical(["F", "M"], null="F", outside="M"),
        "age": bf.integers(0, 9, null=0),
        "town": bf.categorical(["a", "b", "c"], null="a", outside="a"),
    }
)
SEX = bf.marginal_constraint("sex", values=[(["F"], 30), (["M"], 70)])


def compiled(kind: str, axes: list[object], *constraints: object, where: Predicate | None = None) -> Compiled:
    return compile_query(PEOPLE, Policy(constraints=constraints), query(kind, axes, where))  # type: ignore[arg-type]


def labels(*args: object, where: Predicate | None = None) -> tuple[list[int], list[int]] | None:
    kind, axes, *constraints = args
    known = compiled(kind, axes, *constraints, where=where).known  # type: ignore[arg-type]
    return None if known is None else (known.labels.tolist(), known.totals.tolist())


def test_which_parts_of_the_cells_have_known_totals() -> None:
    assert labels("histogram", ["age"]) is None
    assert labels("histogram", ["age"], "rows", "count(age < 3)") is None
    assert labels("histogram", ["age"], "rows = 9") == ([0] * 10, [9])
    assert labels("histogram", ["age"], "count(age < 3) = 4") == ([0] * 3 + [NO_PART] * 7, [4])
    assert labels("histogram", ["age"], "count(age < 3) = 4", "rows = 9") == ([0] * 3 + [1] * 7, [4, 5])
    assert labels("histogram", ["age"], "count(age < 3) = 4", "range(age, 2, 6) = 9") == (
        [0] * 3 + [NO_PART] * 7,
        [4],
    )
    assert labels("histogram", ["age"], "count(age < 3) = 4", "count(age < 6) = 9") == (
        [0] * 3 + [1] * 3 + [-1] * 4,
        [4, 5],
    )
    assert labels("histogram", ["sex"], SEX) == ([0, 1], [30, 70])
    assert labels("histogram", ["age"], SEX) == ([0] * 10, [100])
    crossed = labels("histogram", ["sex", "town"], SEX, "count(sex = 'F' and town = 'a') = 7")
    assert crossed == ([0, 0, 0, 1, 1, 1], [30, 70])
    two = bf.marginal_constraint("sex", "town", values=[(["F", "a"], 1), (["M", "c"], 2)])
    assert labels("histogram", ["town"], two) == ([0, 1, 2], [1, 0, 2])


def test_constraints_that_a_filter_or_a_bin_divides_are_not_used() -> None:
    assert labels("histogram", ["age"], "rows = 9", where=col("sex") == "F") is None
    assert labels("histogram", ["age"], SEX, where=col("sex") == "F") is None
    assert labels("histogram", [bf.col("age").bins(5)], "count(age < 3) = 4") is None
    assert labels("histogram", [bf.col("age").bins(edges=[0, 5])], "rows = 4") is None
    assert labels("histogram", [bf.col("age").bins(5)], "count(age < 5) = 4") == ([0, NO_PART], [4])
    passing = labels("histogram", ["age"], "count(sex = 'F' and age < 3) = 4", where=col("sex") == "F")
    assert passing == ([0] * 3 + [NO_PART] * 7, [4])
    assert labels("count", [], "count(sex = 'F') = 4", where=col("sex") == "F") == ([0], [4])


@pytest.mark.parametrize(
    ("kind", "axes", "known"),
    [
        ("cdf", ["age"], {2: 4.0, 9: 9.0}),
        ("ranges", ["age"], {2: 4.0, 9: 9.0}),
        ("histogram", ["age"], None),
    ],
)
def test_which_answers_are_known(kind: str, axes: list[object], known: dict[int, float] | None) -> None:
    asked = compiled(kind, axes, "count(age < 3) = 4", "rows = 9")
    found = constrained_answers(asked)
    if kind == "cdf":
        assert dict(zip(found.places.tolist(), found.values.tolist(), strict=True)) == known
    elif kind == "ranges":
        rows = asked.problem.workload.dense()[found.places]
        assert sorted(map(tuple, rows.tolist())) == sorted(
            [(1,) * 3 + (0,) * 7, (0,) * 3 + (1,) * 7, (1,) * 10],
        )
        assert sorted(found.values.tolist()) == [4.0, 5.0, 9.0]
    else:
        assert found.places.size == 0
    assert constrained_answers(compiled(kind, axes)).places.size == 0


def counted(seed: int, *, women: int = 30, men: int = 70) -> Ints:
    random = np.random.default_rng(seed)
    return np.concatenate([random.multinomial(n, np.ones(10) / 10) for n in (women, men)])


@pytest.mark.parametrize("seed", range(4))
def test_a_released_histogram_meets_a_known_marginal_exactly_at_no_further_cost(seed: int) -> None:
    asked = compiled("histogram", ["sex", "age"], SEX)
    offer = bf.accuracy_at(asked.problem, Fraction(1, 2), 1e-9).best
    answer = PlanRelease(asked, offer).answer(counted(seed))
    assert answer.consistent.feasible
    found = answer.consistent.values.reshape(2, 10)
    assert found.sum(axis=1) == pytest.approx([30, 70], abs=1e-9)
    assert np.all(found >= 0) and np.all(
        np.abs(answer.consistent.values - answer.raw) <= answer.widths.simultaneous + 1e-9
    )
    assert answer.certificate.epsilon == Fraction(1, 2)


def test_running_counts_and_ranges_meet_known_ones() -> None:
    counts = np.array([3, 0, 1, 0, 0, 5, 0, 0, 0, 0])
    for kind in ("cdf", "ranges"):
        asked = compiled(kind, ["age"], "count(age < 3) = 4", "rows = 9")
        offer = bf.accuracy_at(asked.problem, Fraction(1), 1e-9).best
        answer = PlanRelease(asked, offer).answer(counts)
        told = constrained_answers(asked)
        assert answer.consistent.feasible
        assert answer.consistent.values[told.places] == pytest.approx(told.values, abs=1e-9)


def test_known_counts_beside_special_cells() -> None:
    with_null = bf.domain({"age": bf.integers(0, 9), "sex": bf.categorical(["F", "M"], null="F", outside="M")})
    policy = Policy(constraints=["count(age is null) = 2", "count(age < 3) = 4"])
    asked = compile_query(with_null, policy, query("cdf", ["age"]))
    counts = np.array([3, 0, 1, 0, 0, 5, 0, 0, 0, 0, 2])
    answer = PlanRelease(asked, bf.accuracy_at(asked.problem, Fraction(1), 1e-9).best).answer(counts)
    assert answer.consistent.feasible and answer.consistent.values[[2, 10]] == pytest.approx([4, 2])


def test_what_contradicts_the_raw_answers_is_said() -> None:
    box = np.full(3, 1.0)
    told = ConstrainedAnswers(np.array([1]), np.array([50.0]))
    raw = np.array([1.0, 2.0, 3.0])
    for found in (
        consistent_counts(raw, box, told),
        consistent_cdf(raw, box, known=told),
        consistent_parts(raw, box, np.array([0, 0, NO_PART]), np.array([50.0])),
        consistent_parts(raw - 9, box, np.array([0, 0, 1]), np.array([1.0, 1.0])),
    ):
        assert not found.feasible and "raw answers returned" in found.note
    assert np.array_equal(consistent_parts(raw, box, np.array([0, 0, NO_PART]), np.array([50.0])).values, raw)


@given(
    st.lists(st.floats(-5, 20), min_size=1, max_size=9),
    st.floats(0.5, 8),
    st.data(),
)
def test_parts_stay_in_the_box_and_add_up(raw: list[float], width: float, data: st.DataObject) -> None:
    size = len(raw)
    part = np.array(data.draw(st.lists(st.integers(-1, 2), min_size=size, max_size=size)))
    totals = np.array(data.draw(st.lists(st.integers(0, 40), min_size=3, max_size=3)), dtype=np.float64)
    found = consistent_parts(np.array(raw), width, part, totals)
    one = np.zeros(size, dtype=np.int64)
    whole = consistent_parts(np.array(raw), width, one, totals[:1])
    other = consistent_histogram(np.array(raw), width, float(totals[0]))
    assert whole.feasible == other.feasible
    assert whole.values == pytest.approx(other.values, abs=1e-6)
    if found.feasible:
        assert np.all(found.values >= 0) and np.all(np.abs(found.values - np.array(raw)) <= width + 1e-9)
        for number in set(part[part >= 0].tolist()):
            assert found.values[part == number].sum() == pytest.approx(totals[number], abs=1e-6)
    else:
        assert np.array_equal(found.values, np.array(raw))
