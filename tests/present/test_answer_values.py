"""Answers as values: intervals never lose the truth, JSON keeps every bit, damaged JSON is refused."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.engine.answer import ARROW, Answer, compact_json
from blowfishdb.errors import DigestMismatch, DocumentError
from blowfishdb.model.cells import Labels, compile_cells
from blowfishdb.model.serialize import LONG, EvenNumbers, LongList, WholeNames
from blowfishdb.present.answer_values import (
    AnswerAxis,
    AnswerTable,
    Bounds,
    MeasuredRows,
    around,
    of_counts,
    of_running_counts,
)
from tests.effort import effort
from tests.present.cases import DOMAIN, POLICY, QUESTIONS, answers, constructed, on_a_line, released

ERRORS = st.lists(st.floats(-1, 1), min_size=1, max_size=12)


@given(ERRORS, st.floats(0.1, 50), st.data())
def test_truth_inside_all_intervals_stays_inside(errors: list[float], width: float, data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.integers(0, 30), min_size=len(errors), max_size=len(errors)))
    truth = np.cumsum(steps).astype(float)
    full = around(truth + width * np.array(errors), width)
    cut = of_running_counts(of_counts(full), truth.size)
    assert np.all(cut.low <= truth + 1e-9)
    assert np.all(truth <= cut.high + 1e-9)
    assert np.all(cut.high - cut.low <= full.high - full.low + 1e-9)
    assert np.all(np.diff(cut.low) >= 0)
    assert np.all(np.diff(cut.high) >= 0)


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(0, 9)), min_size=1, max_size=8))
def test_truth_outside_stays_outside(pairs: list[tuple[float, float]]) -> None:
    """Cutting never claims more than the joint statement: a truth outside the box stays outside the cut one."""
    low, wide = (np.array(column) for column in zip(*pairs, strict=True))
    full = Bounds(low, low + wide)
    truth = np.maximum.accumulate(np.abs(low) + 10.0)
    assert not np.all((full.low <= truth) & (truth <= full.high))
    cut = of_running_counts(of_counts(full), truth.size)
    assert not np.all((cut.low <= truth) & (truth <= cut.high))


def test_intervals_that_contradict_each_other_are_left_alone() -> None:
    crossed = Bounds(np.array([10.0, 0.0]), np.array([12.0, 5.0]))
    assert of_running_counts(crossed, 2) is crossed


def test_special_cells_beside_the_order_are_not_cut() -> None:
    cut = of_running_counts(Bounds(np.array([3.0, 1.0, 0.0]), np.array([9.0, 8.0, 2.0])), 2)
    assert cut.low.tolist() == [3.0, 3.0, 0.0]
    assert cut.high.tolist() == [8.0, 8.0, 2.0]


def test_an_interval_without_a_count_is_shown_as_it_is() -> None:
    shown = of_counts(Bounds(np.array([-9.0, -2.0]), np.array([-3.0, 4.0])))
    assert shown.low.tolist() == [-9.0, 0.0]
    assert shown.high.tolist() == [-3.0, 4.0]


def same(one: object, two: object) -> bool:
    """Equal in type and in every field; floats to the last bit, minus zero included."""
    if type(one) is not type(two):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == two.dtype and one.tobytes() == two.tobytes()
    if is_dataclass(one):
        return all(same(getattr(one, field.name), getattr(two, field.name)) for field in fields(one))
    if isinstance(one, tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return repr(one) == repr(two)


@effort(60)
@given(answers())
def test_reading_gives_back_what_was_written(answer: Answer) -> None:
    again = Answer.from_json(answer.to_json())
    assert same(answer, again)
    assert again.to_json() == answer.to_json()
    assert same(answer, Answer.from_json(answer.to_json(indent=2).encode()))


def test_the_comparison_of_these_tests_sees_a_changed_bit() -> None:
    answer = constructed(["a"], [1.0])
    other = constructed(["a"], [np.nextafter(1.0, 2.0)])
    assert same(answer, constructed(["a"], [1.0]))
    assert not same(answer, other)
    assert not same(answer, constructed(["b"], [1.0]))


@pytest.mark.parametrize("name", QUESTIONS)
def test_real_answers_are_stored_with_exact_numbers_as_text(name: str) -> None:
    answer = released(name)
    written = json.loads(answer.to_json())
    assert written["schema"] == "blowfishdb-answer/1"
    assert written["epsilon"] == written["certificate"]["epsilon"] == str(answer.epsilon)
    assert same(answer, Answer.from_json(answer.to_json()))


def test_a_stored_certificate_still_verifies() -> None:
    compiled = bf.compile_query(DOMAIN, POLICY, QUESTIONS["histogram"])
    best = bf.quote(compiled.problem, 60, 0.05, {"identity": bf.MECHANISMS["identity"]}).best
    proof = Answer.from_json(released("histogram").to_json()).certificate
    proof.verify(best.plan, compiled.problem.graph)
    with pytest.raises(DigestMismatch):
        proof.verify(best.plan.with_unit(best.plan.unit * 2), compiled.problem.graph)


def damaged() -> dict[str, str]:
    whole = json.loads(constructed(["a", "b"], [1.0, 2.0]).to_json())
    changes: dict[str, dict[str, object]] = {
        "another schema": {"schema": "blowfishdb-answer/2"},
        "another kind": {"kind": "rows"},
        "too few values": {"values": [1.0]},
        "text for numbers": {"raw": "1, 2"},
        "another epsilon": {"epsilon": "1/100"},
        "lists in lists": {"raw": [[1.0], [2.0]]},
        "text in lists": {"raw": ["1", "2"]},
        "no certificate": {"certificate": None},
        "a number for a name": {"title": 3},
        "no table": {"tables": []},
        "a beta that is text": {"beta": "x"},
        "a dictionary for numbers": {"half_widths": {"a": 1}},
    }
    found = {name: json.dumps({**whole, **change}) for name, change in changes.items()}
    for key in whole.keys() - {"evidence"}:
        found[f"without {key}"] = json.dumps({name: value for name, value in whole.items() if name != key})
    return {**found, "cut": json.dumps(whole)[:-9], "a list": "[]", "nan": json.dumps({**whole, "beta": float("nan")})}


@pytest.mark.parametrize("name", sorted(damaged()))
def test_damaged_answers_are_refused(name: str) -> None:
    with pytest.raises(DocumentError):
        Answer.from_json(damaged()[name])


@effort(40)
@given(st.text() | st.binary() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_anything_else_is_refused(text: str | bytes) -> None:
    with pytest.raises(DocumentError):
        Answer.from_json(text)


LONG_LISTS = {
    "all kinds": np.random.default_rng(5).integers(0, 2**64, 40_000, dtype=np.uint64).view(np.float64),
    "whole": np.arange(-20_000.0, 20_000.0),
    "minus zero": np.concatenate([np.arange(1.0, 30_000.0), [-0.0]]),
    "ends": np.tile([5e-324, -1.7976931348623157e308, 2.0**53 + 2, 1e22, 1e23, 0.1], 5_000),
}


@pytest.mark.parametrize("name", LONG_LISTS)
def test_long_lists_of_numbers_read_back_to_the_last_bit(name: str) -> None:
    values = LONG_LISTS[name]
    values = np.ascontiguousarray(values[np.isfinite(values)])
    read = np.array(json.loads(compact_json({"a": [{"values": values}]}))["a"][0]["values"], dtype=np.float64)
    assert read.tobytes() == values.tobytes()


@pytest.mark.parametrize("name", LONG_LISTS)
def test_long_answers_are_columns_that_keep_every_bit(name: str) -> None:
    values = LONG_LISTS[name]
    values = np.ascontiguousarray(values[np.isfinite(values)])
    noisy = np.arange(values.size) * (2**40 if name == "ends" else 1)
    answer = replace(
        on_a_line(values.tolist()), raw=values[::-1].copy(), measured=MeasuredRows(noisy, np.arange(3), 7.0)
    )
    stored = answer.to_bytes()
    assert stored.startswith(ARROW)
    again, from_text = Answer.from_json(stored), Answer.from_json(answer.to_json())
    for one in (again, from_text):
        assert one.values.tobytes() == values.tobytes()
        assert one.raw.tobytes() == answer.raw.tobytes()
        assert one.measured is not None
        assert one.measured.noisy.tolist() == noisy.tolist()
        assert (one.measured.exact.tolist(), one.measured.total) == ([0, 1, 2], 7.0)
        assert one.tables == answer.tables
    assert again.to_json() == from_text.to_json() == answer.to_json()
    assert json.loads(again.to_json(indent=1)) == json.loads(answer.to_json())
    assert Answer.from_json(again.to_bytes()).to_json() == answer.to_json()
    (axis,) = again.tables[0].axes
    assert isinstance(axis.labels, LongList)
    assert (axis.labels[3], axis.labels[-1], axis.labels[1:3]) == ("3", str(values.size - 1), ("1", "2"))
    assert hash(axis.labels) == hash(answer.tables[0].axes[0].labels)
    assert axis.labels != axis.labels[1:]
    assert np.diff(axis.edges).tolist() == [1.0] * values.size


def test_short_answers_are_stored_as_json() -> None:
    answer = constructed(["a", "b"], [1.0, 2.0])
    assert answer.to_bytes() == answer.to_json().encode()


def test_what_is_even_or_alike_is_stored_once() -> None:
    values = np.random.default_rng(18).permutation(LONG + 1).astype(np.float64)
    axis = AnswerAxis("x", WholeNames(-3, LONG, ("NULL",)), LONG, EvenNumbers(-3.5, 1.0, LONG + 1))
    rows = MeasuredRows(values.astype(np.int64), np.empty(0, dtype=np.int64), None)
    answer = replace(on_a_line(values.tolist()), tables=(AnswerTable((axis,)),), measured=rows)
    stored = answer.to_bytes()
    # The numbers once, in four bytes each.
    assert len(stored) < 4 * values.size + 20_000
    again = Answer.from_json(stored)
    assert again.to_json() == answer.to_json()
    (read,) = again.tables[0].axes
    assert isinstance(read.labels, WholeNames) and isinstance(read.edges, EvenNumbers)
    assert (read.labels[0], read.labels[LONG - 1], read.labels[-1], len(read.labels)) == (
        "-3",
        "19996",
        "NULL",
        LONG + 1,
    )
    assert (read.edges[0], read.edges[-1], len(read.edges)) == (-3.5, LONG - 3.5, LONG + 1)
    for wrong in (b"[-3,true ,", b"[-3,-9999,", b"[-3,19999,"):
        with pytest.raises(DocumentError):
            Answer.from_json(stored.replace(b"[-3,20000,", wrong))


def test_numbers_that_are_nearly_even_are_stored_as_they_are() -> None:
    even = np.arange(LONG) / 3
    assert EvenNumbers.of(np.full(LONG, 0.1)) is not None
    for place, wrong in ((5, np.nextafter(even[5], 9)), (-1, -1.0), (0, -0.0)):
        numbers = even.copy()
        numbers[place] = wrong
        assert EvenNumbers.of(numbers) is None
    assert EvenNumbers.of(np.full(LONG, np.inf)) is EvenNumbers.of(np.full(LONG, np.nan)) is None


def test_long_answers_that_are_damaged_are_refused() -> None:
    answer = on_a_line([1.5] * 20_000)
    stored = answer.to_bytes()
    no_such_column, no_such_key = (b'{"$column":0}', b'{"$column":9}'), (b'"half_widths"', b'"half_width_"')
    for damaged in (stored[:-40], ARROW, stored.replace(*no_such_column), stored.replace(*no_such_key)):
        with pytest.raises(DocumentError):
            Answer.from_json(damaged)
    with pytest.raises(ValueError, match="finite"):
        replace(answer, raw=np.append(answer.raw[1:], np.inf)).to_bytes()


def test_long_whole_labels_are_those_that_short_axes_have() -> None:
    for attribute in (bf.integers(-5, LONG), bf.integers(-5, LONG, null=0), bf.bins(0, LONG + 1, width=1)):
        labels = compile_cells(bf.domain({"x": attribute}), bf.Policy(), ["x"], None).labels[0]
        assert isinstance(labels, Labels)
        column = labels.column()
        assert isinstance(column, LongList)
        assert column == tuple(labels)


@pytest.mark.parametrize("size", [1, 30_000])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_numbers_that_json_has_not_are_refused(size: int, wrong: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        compact_json({"values": np.append(np.ones(size), wrong)})
