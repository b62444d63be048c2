"""Policies: families on declared values, distances and stretch against shortest paths, and plain words."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.audit import definitions as oracle
from blowfishdb.errors import PolicyError, TooLarge
from blowfishdb.model import distance
from blowfishdb.model.calendar import dates, timestamps
from blowfishdb.model.distance import record_distance, stretch, value_distance
from blowfishdb.model.domain import Attribute, Categorical, Domain, bins, categorical, domain, integers
from blowfishdb.model.explain import explain, not_protected
from blowfishdb.model.policy import (
    ROW,
    Family,
    ListedWindow,
    Policy,
    Public,
    ValueWindow,
    custom,
    full,
    grid,
    joint,
    line,
    partition,
    person,
    public,
    threshold,
    value_graph,
)
from blowfishdb.present.graph_picture import view_graph
from tests.effort import effort
from tests.model import cases


def reaches(attribute: Attribute, family: Family) -> list[int]:
    graph = value_graph(family, attribute)
    assert isinstance(graph, ValueWindow)
    return [int(graph.reach(i)) for i in range(attribute.size)]  # type: ignore[arg-type]


def test_windows_by_runs_know_their_parts() -> None:
    window = ListedWindow(5, np.array([0, 2, 3]), np.array([1, 3, 4]))
    assert window.reach(np.arange(5)).tolist() == [1, 1, 3, 4, 4]
    assert window.part_of(np.arange(5)).tolist() == [0, 0, 1, 1, 1] and window.part_count == 2
    assert (window.distance(2, 4), window.distance(4, 0)) == (2, None)


@pytest.mark.parametrize(
    ("starts", "ends"),
    [
        ([], []),
        ([0], [3, 3]),
        ([1, 2], [1, 3]),
        ([0, 2, 2], [1, 3, 3]),
        ([0, 4], [3, 3]),
        ([0, 2], [0, 3]),
        ([0, 2], [1, 4]),
        ([0, 1, 2], [3, 2, 3]),
    ],
)
def test_windows_that_leave_a_value_out_are_refused(starts: list[int], ends: list[int]) -> None:
    with pytest.raises(PolicyError, match="windows must"):
        ListedWindow(4, np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64))


def test_thresholds_in_units_of_the_attribute() -> None:
    assert reaches(integers(0, 4), threshold(2)) == [2, 3, 4, 4, 4]
    assert reaches(bins(0, 2, width="0.5"), threshold("0.5")) == [2, 3, 3, 3]
    assert reaches(bins(0, 2, width="0.5"), threshold("0.4")) == [1, 2, 3, 3]
    assert reaches(bins(edges=[0, 1, 2, 10, 11]), threshold(1)) == [2, 2, 3, 3]
    assert reaches(categorical(["a", "b", "c"], ordered=True), threshold(1)) == [1, 2, 2]
    assert reaches(integers(0, 10**12).__class__(low=0, high=3), threshold(10**15)) == [3, 3, 3, 3]


def test_thresholds_on_dates() -> None:
    days = dates("2020-01-01", "2020-01-31")
    assert reaches(days, threshold("1 week"))[0] == reaches(days, threshold(7))[0] == 7
    months = dates("2020-01-01", "2020-12-31", "month")
    assert reaches(months, threshold("2 months"))[:2] == [2, 3]
    # From the last of January it is one day to February and 30 (2020 is a leap year) to March.
    assert reaches(months, threshold("29 days"))[0] == 1
    assert reaches(months, threshold("30 days"))[0] == 2
    weeks = dates("2020-01-06", "2020-02-02", "week")
    assert [reaches(weeks, threshold(f"{n} days"))[0] for n in (1, 7, 8)] == [1, 1, 2]
    hours = timestamps("2020-01-01", "2020-01-02")
    assert [reaches(hours, threshold(theta))[0] for theta in (3, "3 hours", "90 minutes", "1 day")] == [3, 3, 2, 23]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: threshold(0), "positive"),
        (lambda: threshold(-3), "positive"),
        (lambda: threshold("a while"), "duration"),
        (lambda: threshold(float("nan")), "finite"),
        (lambda: threshold(None), "number"),
        (lambda: value_graph(threshold("7 days"), integers(0, 9)), "fits dates only"),
        (lambda: value_graph(threshold("2.5"), integers(0, 9)), "does not fit"),
        (lambda: value_graph(threshold("0.5"), dates("2020-01-01", "2020-02-01")), "whole days"),
        (lambda: value_graph(threshold("2 months"), dates("2020-01-01", "2020-02-01")), "does not fit"),
        (lambda: value_graph(threshold("3 hours"), dates("2020-01-01", "2020-02-01")), "does not fit"),
        (lambda: value_graph(threshold("1 month"), timestamps("2020-01-01", "2020-02-01")), "fixed length"),
        (lambda: value_graph(threshold(2), categorical(["a", "b"])), "ordered"),
        (lambda: value_graph(line(), categorical(["a", "b"])), "ordered"),
        (lambda: partition(), "blocks of values or cut points"),
        (lambda: partition([["a"]], cuts=[1]), "blocks of values or cut points"),
        (lambda: value_graph(partition([["a"]]), categorical(["a", "b"])), "name the rest"),
        (lambda: value_graph(partition([["a", "a"]]), categorical(["a", "b"])), "twice"),
        (lambda: value_graph(partition([["a"], ["z"]]), categorical(["a", "b"])), "no value 'z'"),
        (lambda: value_graph(partition(cuts=[5]), categorical(["a", "b"])), "ordered"),
        (lambda: value_graph(partition(cuts=[5, 5]), integers(0, 9)), "increase"),
        (lambda: value_graph(partition(cuts=[0]), integers(0, 9)), "each side"),
        (lambda: value_graph(partition(cuts=[10]), integers(0, 9)), "each side"),
        (lambda: value_graph(partition(cuts=[15]), bins(0, 30, width=10)), "10 and 20"),
        (lambda: custom([["a"]]), "pair"),
        (lambda: custom(["ab"]), "edges of custom is a list of lists"),
        (lambda: value_graph(custom([["a", "z"]]), categorical(["a", "b"])), "no value 'z'"),
        (lambda: grid(["x"], 1), "two or more"),
        (lambda: grid(["x", "x"], 1), "different"),
        (lambda: grid(["x", "y"], 0), "positive"),
        (lambda: grid(["x", "y"], 1, "l3"), "metric"),  # type: ignore[arg-type]
        (lambda: Policy({"x": "full"}), "attributes of Policy is a dictionary of a Full"),  # type: ignore[dict-item]
        (lambda: Policy(composition="both"), "composition"),  # type: ignore[arg-type]
        (lambda: Policy(presence="maybe"), "presence"),  # type: ignore[arg-type]
        (lambda: Policy(unit="row"), "unit"),  # type: ignore[arg-type]
        (lambda: Policy(joint=["xy"]), "joint"),  # type: ignore[list-item]
        (lambda: Policy({"x": full()}, joint=[grid(["x", "y"], 1)]), "another graph"),
        (lambda: Policy(joint=[grid(["x", "y"], 1), grid(["y", "z"], 1)]), "another graph"),
        (lambda: person("", at_most=1, order_by="k"), "id"),
        (lambda: person("p", at_most=0, order_by="k"), "at least 1"),
        (lambda: person("p", at_most=True, order_by="k"), "at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        make()


def test_custom_graphs_on_huge_attributes_are_refused() -> None:
    with pytest.raises(TooLarge):
        value_graph(custom([[1, 2]]), integers(0, 10**9))


def test_a_policy_is_checked_against_its_domain() -> None:
    table = domain({"age": integers(0, 9), "state": ["NC", "VA"], "visit": integers(0, 9)})
    for policy, says in [
        (Policy({"agee": full()}), "did you mean 'age'"),
        (Policy({"state": threshold(5)}), "state: .*ordered"),
        (Policy(joint=[grid(["age", "state"], 1)]), "state: .*numeric"),
        (Policy(joint=[grid(["age", "size"], 1)]), "size"),
        (Policy(unit=person("p", at_most=2, order_by="visit")), "which is protected"),
        (Policy(joint=[grid(["age", "visit"], 1)], unit=person("p", at_most=2, order_by="visit")), "protected"),
        (Policy(unit=person("visit", at_most=2, order_by="key")), "told apart by visit, which is protected"),
        (Policy(joint=[grid(["age", "visit"], 1)], unit=person("visit", at_most=2, order_by="key")), "told apart"),
    ]:
        with pytest.raises(PolicyError, match=says):
            policy.check(table)
    Policy({"visit": public()}, unit=person("p", at_most=2, order_by="visit")).check(table)
    Policy({"visit": public()}, unit=person("visit", at_most=2, order_by="key")).check(table)
    Policy(unit=person("p", at_most=2, order_by="row_key")).check(table)
    assert Policy().unit is ROW and Policy().rows_per_person == 1


def shortest(domain: Domain, policy: Policy) -> dict[tuple[int, ...], dict[tuple[int, ...], int]]:
    """All distances of the graph written out, absence included."""
    everyone = [tuple(record.values()) for record in oracle.records(domain)]
    absent = (-1,)
    near: dict[tuple[int, ...], list[tuple[int, ...]]] = {record: [] for record in [*everyone, absent]}
    for one in everyone:
        for two in everyone:
            first, second = (dict(zip(domain.names, r, strict=True)) for r in (one, two))
            if oracle.moves(domain, policy, first, second):
                near[one].append(two)
        if policy.presence != "public":
            near[one].append(absent)
            near[absent].append(one)
    found = {}
    for start in everyone:
        steps, waiting = {start: 0}, deque([start])
        while waiting:
            here = waiting.popleft()
            for there in near[here]:
                if there not in steps:
                    steps[there] = steps[here] + 1
                    waiting.append(there)
        found[start] = steps
    return found


def raw_value(attribute: Attribute, code: int) -> object:
    """Something that is encoded as the given code; of a list, whose values are checked, the name of the cell."""
    names = {slot.code: slot.name for slot in attribute.slots}
    if code in names:
        return None if names[code] == "NULL" else names[code] if isinstance(attribute, Categorical) else 10**9
    return cases.a_value(attribute, code)


@effort(20)
@given(st.data())
def test_distances_are_shortest_paths(data: st.DataObject) -> None:
    table, policy = data.draw(cases.settings_of(most_records=24))
    found = shortest(table, policy)
    picks = st.sampled_from(sorted(found))
    for _ in range(8):
        one, two = data.draw(picks), data.draw(picks)
        records = [{n: raw_value(table[n], c) for n, c in zip(table.names, r, strict=True)} for r in (one, two)]
        assert record_distance(table, policy, records[0], records[1]) == found[one].get(two)
    if len(table.names) == 1 and policy.presence == "public":
        for one, steps in found.items():
            for two in found:
                ends = [raw_value(table["x"], code[0]) for code in (one, two)]
                assert value_distance(table, policy, "x", ends[0], ends[1]) == steps.get(two)


@pytest.mark.parametrize("size", range(2, 20))
def test_a_line_of_bins_is_as_long_as_it_has_steps(size: int) -> None:
    listed = bins(edges=list(range(size + 1)), null=0)
    assert stretch(listed, threshold("1/8"), full()) == size - 1
    assert stretch(listed, threshold(1), full()) == -(-(size - 1) // 2)


@effort(60)
@given(st.data())
def test_stretch_is_the_longest_old_path_between_new_neighbours(data: st.DataObject) -> None:
    attribute = data.draw(cases.attributes())
    old, new = data.draw(cases.families(attribute)), data.draw(cases.families(attribute))
    table = Domain((("x", attribute),))
    before, after = Policy({"x": old}), Policy({"x": new})
    steps = shortest(table, before)
    longest: list[int | None] = [0]
    for one in steps:
        for two in steps:
            if oracle.moves(table, after, {"x": one[0]}, {"x": two[0]}):
                longest.append(steps[one].get(two))
    wanted = None if None in longest else max(step for step in longest if step is not None)
    assert stretch(attribute, old, new) == wanted


def test_stretch_of_huge_attributes() -> None:
    wide = integers(0, 10**12, null=0)
    assert stretch(wide, threshold(10), threshold(35)) == 4
    assert stretch(wide, line(), full()) == 10**12
    assert stretch(wide, line(), partition(cuts=[10, 10**6])) == 10**12 - 10**6
    assert stretch(wide, partition(cuts=[10, 10**6]), line()) is None
    assert stretch(wide, partition(cuts=[10, 10**6]), partition(cuts=[10])) is None
    assert stretch(wide, partition(cuts=[10]), partition(cuts=[10, 10**6])) == 1
    assert stretch(wide, public(), line()) is None and stretch(wide, line(), public()) == 0
    uneven = bins(edges=[Fraction(k * k, 7) for k in range(4000)], null=0)
    assert stretch(uneven, threshold(1), threshold(1)) == 1
    assert (stretch(uneven, line(), threshold(100)) or 0) > 20
    with pytest.raises(PolicyError, match="compared up to"):
        stretch(integers(0, 5000), custom([[1, 2]]), line())


def test_a_wrong_distance_would_be_seen() -> None:
    table = domain({"x": integers(0, 9, null=0), "y": integers(0, 9, null=0)})
    one, two = {"x": 0, "y": 0}, {"x": 9, "y": 4}
    lines: dict[str, Family] = {"x": line(), "y": line()}
    assert record_distance(table, Policy(lines), one, two) == 9
    assert record_distance(table, Policy(lines, composition="attribute"), one, two) == 13
    assert record_distance(table, Policy(lines, presence="secret"), one, two) == 2
    assert record_distance(table, Policy(lines, presence="only"), one, two) == 2
    assert record_distance(table, Policy(lines, presence="only"), one, one) == 0
    assert record_distance(table, Policy({"x": public()}), one, two) is None
    assert record_distance(table, Policy({"x": public()}, presence="secret"), one, two) == 2
    assert record_distance(table, Policy(joint=[grid(["x", "y"], 5, "l1")]), one, two) == 3
    assert record_distance(table, Policy(joint=[grid(["x", "y"], 5, "l2")]), one, two) == 3
    assert record_distance(table, Policy(joint=[grid(["x", "y"], 3, "linf")]), one, two) == 3
    assert value_distance(table, Policy(joint=[grid(["x", "y"], 3, "linf")]), "x", 0, 9) == 3
    wide = domain({"x": integers(0, 10**6), "y": integers(0, 10**6)})
    with pytest.raises(TooLarge):
        record_distance(wide, Policy(joint=[grid(["x", "y"], 3)]), {"x": 0, "y": 0}, {"x": 5, "y": 5})


def test_the_words_say_what_is_and_is_not_protected() -> None:
    table = domain(
        {
            "age": integers(0, 99, null=0),
            "state": categorical(["NC", "VA"], null_public=True, outside="VA"),
            "income": bins(0, 100, width=10, null=0),
            "note": integers(0, 9),
            "lat": integers(0, 9, null=0),
            "lon": integers(0, 9, null=0),
            "code": categorical(["a", "b", "c"], null="a", outside="a"),
            "sex": ["F", "M"],
        }
    )
    policy = Policy(
        {
            "age": threshold(5),
            "state": public(),
            "income": partition(cuts=[50]),
            "note": line(),
            "code": custom([["a", "b"]]),
        },
        composition="attribute",
        joint=[grid(["lat", "lon"], "1.5", "l1")],
        unit=person("patient", at_most=5, order_by="visit"),
    )
    said = "\n".join(explain(table, policy))
    for words in [
        "lat and lon: places at most 1.5 apart",
        "age: values at most 5 apart",
        "20 steps apart",
        "state: nothing is hidden",
        "state: NULL is public",
        "income: values within each of 2 blocks",
        "which block a record is in is not hidden",
        "note: NULL is hidden among all values, which puts any two values at most 2 steps apart",
        "code: exactly the listed pairs of values (1)",
        "2 groups that no path joins",
        "sex: any two values are hidden",
        "over 6 hidden attributes one step in each of them costs up to 6 times epsilon",
        "number of rows is public",
        "at most 5 rows of each count",
        "multiplied by 5",
    ]:
        assert words in said, words
    whole = "this is differential privacy on the whole record"
    assert whole not in "\n".join(explain(table, Policy())), "a public NULL is hidden from nobody"
    assert whole in "\n".join(explain(domain({"sex": ["F", "M"], "note": integers(0, 9)}), Policy()))
    assert "at most 2 steps apart" in explain(domain({"a": integers(0, 1, null=0)}), Policy(presence="secret"))[-2]
    only = "\n".join(explain(table, Policy({"code": partition([["a"], ["b", "c"]])}, presence="only")))
    assert "differ in one record look alike" in only and "only whether a record is there" in only
    universal_vertex = domain({"a": integers(0, 9)})
    assert "e^(2 epsilon)" in explain(universal_vertex, Policy({"a": partition(cuts=[5])}))[0]
    assert not isinstance(Policy().family("a"), Public)


def test_a_policy_looks_its_values_up_once_for_each_declaration() -> None:
    policy = Policy({"v": custom([("a", "b"), ("b", "c")])})
    one, other = domain({"v": ["a", "b", "c"]}), domain({"v": ["c", "x", "b", "a"]})
    found = policy.graph(one, "v")
    assert policy.graph(one.project(["v"]), "v") is found and policy.graph(policy.applied(one), "v") is found
    assert found.distance(0, 2) == 2
    assert policy.graph(other, "v").distance(0, 1) is None and policy.graph(other, "v").distance(0, 2) == 1
    assert policy.graph(one, "v").distance(0, 2) == 2
    with pytest.raises(PolicyError, match="v: "):
        policy.graph(domain({"v": ["a", "b"]}), "v")
    assert replace(policy, attributes={"v": custom([("a", "c")])}).graph(one, "v").distance(0, 1) is None


PLACE = domain({"ward": categorical(["A", "B"], null="A", outside="A"), "illness": categorical(["flu", "cold"])})
"""NULL and unlisted illnesses are hidden."""
BY_WARD = joint(["ward", "illness"], partition([[("A", "flu"), ("A", "cold")], [("B", "flu"), ("B", "cold")]]))


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: joint(["ward"], custom([])), "two or more"),
        (lambda: joint(["ward", "ward"], custom([])), "different"),
        (lambda: joint(["ward", "illness"], full()), "family of joint is a Partition"),
        (lambda: joint(["ward", "illness"], partition(cuts=[1])), "listed blocks"),
        (lambda: joint(["ward", "illness"], custom([("A", "flu")])), "not a combination"),
        (lambda: joint(["ward", "illness"], custom([[("A", "flu"), ("B",)]])), "ward and illness"),
        (lambda: Policy(joint=[joint(["ward", "illness"], partition([[("A", "flu")]]))]), "name the rest"),
        (lambda: Policy(joint=[joint(["ward", "illness"], partition([[("A", "flu"), ("A", "flu")]]))]), "A, flu"),
        (lambda: Policy(joint=[joint(["ward", "illness"], custom([[("A", "flu"), ("C", "flu")]]))]), "'C'"),
    ],
)
def test_joint_graphs_that_do_not_fit_are_refused(declare: Callable[[], Policy], words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        declare().check(PLACE)


def test_a_joint_graph_has_a_limit_of_combinations() -> None:
    wide = domain({"x": integers(0, 999, null=0), "y": integers(0, 999, null=0)})
    with pytest.raises(TooLarge, match="combinations of x and y"):
        Policy(joint=[joint(["x", "y"], custom([]))]).check(wide)


def test_distances_in_a_joint_graph_hold_whatever_the_other_attributes_are() -> None:
    by_ward = Policy(joint=[BY_WARD])
    assert value_distance(PLACE, by_ward, "illness", "flu", "cold") == 1
    assert value_distance(PLACE, by_ward, "ward", "A", "B") is None
    assert value_distance(PLACE, by_ward, "ward", "A", "A") == 0
    # In ward A alone flu is hidden from colds: a patient of ward B has no such promise.
    in_a = Policy(joint=[joint(["ward", "illness"], custom([[("A", "flu"), ("A", "cold")]]))])
    told = domain({"ward": PLACE["ward"], "illness": categorical(["flu", "cold"], null="flu", outside="flu")})
    assert value_distance(told, in_a, "illness", "flu", "cold") is None
    assert record_distance(told, in_a, {"ward": "A", "illness": "flu"}, {"ward": "A", "illness": "cold"}) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distance, "PATHS_LIMIT", 0)
        with pytest.raises(TooLarge, match="paths"):
            value_distance(told, in_a, "illness", "flu", "cold")


def test_one_block_of_everything_hides_whole_records_of_its_attributes() -> None:
    everything = joint(["ward", "illness"], partition([[*BY_WARD.groups[0], *BY_WARD.groups[1]]]))
    told, whole = explain(PLACE, Policy(joint=[BY_WARD])), explain(PLACE, Policy(joint=[everything]))
    assert told[0].startswith("ward and illness: combinations within each of 2 blocks") and "2 parts" in told[0]
    assert "k steps apart" in whole[0]
    listed = explain(PLACE, Policy(joint=[joint(["ward", "illness"], custom([]))], presence="secret"))
    assert "exactly 0 listed pairs" in listed[0] and "e^(2 epsilon)" in listed[0]
    assert any("stands for any value" in text for text in told)
    assert "In which of 2 parts ward and illness lie" in " ".join(not_protected(PLACE, Policy(joint=[BY_WARD])))
    assert "Roughly what ward" in " ".join(not_protected(PLACE, Policy(joint=[everything])))
    with pytest.raises(PolicyError, match="common graph"):
        view_graph(PLACE, Policy(joint=[BY_WARD]), "ward")
