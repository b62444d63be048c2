"""The stretch of a change of policy against brute force over all pairs of records."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

import blowfishdb as bf
from blowfishdb.catalog.dataset import Dataset
from blowfishdb.catalog.policy_change import domain_stretch, policy_stretch
from blowfishdb.model import distance
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.distance import value_distance
from blowfishdb.model.policy import Joint
from tests.effort import effort

DOMAIN = bf.domain(
    {
        "a": bf.integers(0, 3, null=0),
        "b": bf.categorical(["x", "y", "z"], null="x", outside="x"),
        "c": bf.integers(0, 2),
    }
)
VALUES = {"a": [0, 1, 2, 3], "b": ["x", "y", "z"], "c": [0, 1, 2, None]}
RECORDS = list(itertools.product(*VALUES.values()))
ORDERED = st.sampled_from(
    [bf.full(), bf.public(), bf.line(), bf.threshold(2), bf.partition(cuts=[1]), bf.custom([(0, 2), (1, 2)])]
)
LISTED = st.sampled_from([bf.full(), bf.public(), bf.partition([["x", "y"], ["z"]]), bf.custom([("x", "z")])])


# Graphs in which every value can be reached, so that the stretch is a number.
PATHS = st.sampled_from([bf.full(), bf.line(), bf.threshold(2)])
LISTED_PATHS = st.sampled_from([bf.full(), bf.custom([("x", "z"), ("z", "y")])])


PRESENCE = st.sampled_from(["public", "public", "public", "secret", "only"])


@st.composite
def policies(draw: st.DrawFn, *, connected: bool = False) -> bf.Policy:
    ordered, listed = (PATHS, LISTED_PATHS) if connected else (ORDERED, LISTED)
    families = {"a": draw(ordered), "b": draw(listed), "c": draw(ordered)}
    composition = draw(st.sampled_from(["record", "attribute"]))
    return bf.Policy(families, composition, draw(PRESENCE))  # type: ignore[arg-type]


INFINITE = float("inf")
Distance = Callable[[tuple[object, ...], tuple[object, ...]], float]


def _steps(found: int | None) -> float:
    return INFINITE if found is None else float(found)


def distances(policy: bf.Policy) -> Distance:
    """Steps between two records by values alone, from tables of the steps between values."""
    tables = [
        {pair: _steps(value_distance(DOMAIN, policy, name, *pair)) for pair in itertools.product(values, repeat=2)}
        for name, values in VALUES.items()
    ]
    combined = max if policy.composition == "record" else sum

    def steps(one: tuple[object, ...], two: tuple[object, ...]) -> float:
        return float(combined(table[u, v] for table, u, v in zip(tables, one, two, strict=True)))

    return steps


def worst_old_distance(old: bf.Policy, new: bf.Policy) -> float:
    """The most old steps between two records, or a record and absence, that the new policy joins by an edge."""
    worst = 0.0
    if new.presence != "public":
        worst = INFINITE if old.presence == "public" else 1.0
    if new.presence == "only":
        return worst
    before, after = distances(old), distances(new)
    longest = {"public": INFINITE, "secret": 2.0, "only": 2.0}[old.presence]
    for one, two in itertools.combinations(RECORDS, 2):
        if after(one, two) == 1:
            worst = max(worst, 2.0 if old.presence == "only" else min(before(one, two), longest))
    return worst


EITHER = st.booleans().flatmap(lambda connected: st.tuples(*[policies(connected=connected)] * 2))


@effort(40)
@given(EITHER)
def test_past_loss_is_never_carried_over_too_small(change: tuple[bf.Policy, bf.Policy]) -> None:
    old, new = change
    worst = worst_old_distance(old, new)
    factor = policy_stretch(DOMAIN, old, new).factor
    if factor is None:
        assert worst == float("inf") or old.attributes != new.attributes or old.presence != new.presence
    else:
        assert factor >= worst
        assert factor >= 1


@effort(20)
@given(policies(), policies())
def test_it_is_exact_where_compositions_agree(old: bf.Policy, new: bf.Policy) -> None:
    new = bf.Policy(new.attributes, old.composition, old.presence)
    factor = policy_stretch(DOMAIN, old, new).factor
    if old.presence == "public":
        assert factor == (None if (worst := worst_old_distance(old, new)) == float("inf") else max(1, worst))


def test_all_attributes_at_once_after_one_by_one_add_up() -> None:
    wide, narrow = {"a": bf.threshold(2)}, {"a": bf.line()}
    old, new = bf.Policy(narrow, "attribute"), bf.Policy(wide, "record")
    assert policy_stretch(DOMAIN, old, new).factor == 4
    assert policy_stretch(DOMAIN, bf.Policy(narrow), bf.Policy(wide)).factor == 2


PERSON = bf.person("id", at_most=3, order_by="key")
FIRST = bf.person("id", at_most=1, order_by="key")


@pytest.mark.parametrize(
    ("old", "new", "factor"),
    [
        (bf.Policy(), bf.Policy(unit=PERSON), None),
        (bf.Policy(unit=PERSON), bf.Policy(), 1),
        (bf.Policy(unit=FIRST), bf.Policy(), 1),
        # A person's first row vanishes and the second one counts: two steps, of which one was paid for.
        (bf.Policy(unit=FIRST, presence="only"), bf.Policy(presence="only"), 2),
        (bf.Policy(unit=FIRST, presence="secret"), bf.Policy(presence="secret"), 2),
        (bf.Policy(unit=FIRST, presence="secret"), bf.Policy(presence="secret", constraints=["rows"]), None),
        # The first of three vanishes, and three with the same key, which did not fit, count: four steps for three. But
        # one person more has two rows and one less has three: two steps for one.
        (bf.Policy(unit=PERSON, presence="only"), bf.Policy(presence="only"), 2),
        (bf.Policy(unit=FIRST, presence="only"), bf.Policy(unit=PERSON, presence="only"), 1),
        (bf.Policy(unit=PERSON), bf.Policy(unit=bf.person("id", at_most=9, order_by="key")), 1),
        (bf.Policy(unit=PERSON), bf.Policy(unit=bf.person("other", at_most=3, order_by="key")), None),
        (bf.Policy(joint=[bf.grid(["a", "c"], 2)]), bf.Policy(joint=[bf.grid(["a", "c"], 2)]), 1),
        # Only edges are removed; then there are more of them than before.
        (bf.Policy(joint=[bf.grid(["a", "c"], 2)]), bf.Policy(joint=[bf.grid(["a", "c"], 1)]), 1),
        (bf.Policy(joint=[bf.grid(["a", "c"], 2)]), bf.Policy(joint=[bf.grid(["c", "a"], 2, "l1")]), 1),
        (bf.Policy(joint=[bf.grid(["a", "c"], 2)]), bf.Policy(joint=[bf.grid(["a", "c"], 2, "linf")]), 2),
        (bf.Policy(joint=[bf.grid(["a", "c"], 2)]), bf.Policy(joint=[bf.grid(["a", "c"], 3)]), 2),
        (bf.Policy(joint=[bf.grid(["a", "c"], 2)]), bf.Policy(), 3),
        (bf.Policy({"a": bf.public()}), bf.Policy(joint=[bf.grid(["a", "c"], 1)]), None),
    ],
)
def test_units_and_joint_thresholds(old: bf.Policy, new: bf.Policy, factor: Fraction | int | None) -> None:
    assert policy_stretch(DOMAIN, old, new).factor == (None if factor is None else Fraction(factor))


def counted(keys: list[int], most: int) -> Counter[int]:
    """Which rows of one person count: those up to their key are at most `most`."""
    return Counter({row: 1 for row, key in enumerate(keys) if key >= 0 and sum(0 <= k <= key for k in keys) <= most})


def test_rows_that_give_way_take_one_step_more_than_was_paid_for() -> None:
    for most in (1, 2, 3):
        worst = 0
        for keys in itertools.product(range(3), repeat=most + 2):
            before = counted(list(keys), most)
            for row in range(len(keys)):
                after = counted([-1 if place == row else key for place, key in enumerate(keys)], most)
                worst = max(worst, (before - after).total() + (after - before).total())
        old = bf.Policy(unit=bf.person("id", at_most=most, order_by="key"), presence="only")
        people = 2
        factor = policy_stretch(DOMAIN, old, bf.Policy(presence="only")).factor
        assert factor == max(Fraction(worst, most), Fraction(people, 1))


def make(domain: dict[str, object], joins: list[bf.Join] | None = None) -> Dataset:
    return Dataset("d", source="d.csv", domain=domain, joins=joins or [])  # type: ignore[arg-type]


def test_attributes_may_come_and_go_but_not_change() -> None:
    small, large = make({"a": bf.integers(0, 3)}), make({"a": bf.integers(0, 3), "b": bf.integers(0, 9)})
    changed = make({"a": bf.integers(0, 4)})
    assert domain_stretch(small, large).factor == domain_stretch(large, small).factor == 1
    assert domain_stretch(small, changed).factor is None
    joined = make({"a": bf.integers(0, 3)}, [bf.Join("t", "k", "id", {"a": "x"})])
    assert domain_stretch(small, joined).factor is None


PLACES = bf.domain({"x": bf.integers(0, 4, null=0), "y": bf.bins(0, 3, width=1), "z": bf.integers(0, 2, null=0)})


NULLS = bf.domain({"x": bf.integers(0, 3), "y": bf.integers(0, 2, null_public=True), "z": bf.integers(0, 1, null=0)})
"""Places of which NULL is hidden along one attribute, and public along another."""


def joined(policy: bf.Policy, domain: bf.Domain = PLACES) -> np.ndarray:
    """Which records, numbered over x, y and z, the policy joins."""
    cells = compile_cells(domain, policy, ("x", "y", "z"))
    order = [cells.axes.index(name) for name in "xyz"]
    number = np.arange(cells.graph.cells).reshape(cells.graph.shape).transpose(order)
    edges = np.argsort(number, axis=None)[cells.graph.edges()]
    joins = np.zeros((number.size, number.size), dtype=np.bool_)
    joins[edges[:, 0], edges[:, 1]] = joins[edges[:, 1], edges[:, 0]] = True
    return joins


@st.composite
def listed(draw: st.DrawFn, domain: bf.Domain, names: list[str]) -> Joint:
    """Blocks of combinations of places, or a few pairs of them."""
    values = ([domain[name].value_at(place) for place in range(domain[name].size)] for name in names)
    places = list(itertools.product(*values))
    if draw(st.booleans()):
        labels = draw(st.lists(st.integers(0, 2), min_size=len(places), max_size=len(places)))
        blocks = [[one for one, label in zip(places, labels, strict=True) if label == k] for k in sorted(set(labels))]
        return bf.joint(names, bf.partition(blocks))
    pairs = st.tuples(st.sampled_from(places), st.sampled_from(places))
    return bf.joint(names, bf.custom(draw(st.lists(pairs, max_size=20))))


@st.composite
def joint_policies(draw: st.DrawFn, domain: bf.Domain) -> bf.Policy:
    composition = draw(st.sampled_from(["record", "attribute"]))
    joint, alone = [], {"x", "y", "z"}
    if draw(st.integers(0, 3)):
        names = draw(st.sampled_from([["x", "y"], ["y", "x"], ["x", "z"], ["x", "y", "z"]]))
        theta, metric = draw(st.sampled_from(["0.5", 1, "1.5", 2, 3])), draw(st.sampled_from(["l1", "l2", "linf"]))
        joint, alone = [bf.grid(names, theta, metric)], alone - set(names)
        if draw(st.booleans()):
            joint = [draw(listed(domain, names))]
    families = {name: draw(st.sampled_from([bf.full(), bf.line(), bf.public()])) for name in sorted(alone)}
    return bf.Policy(families, composition, joint=joint)  # type: ignore[arg-type]


@st.composite
def changes(draw: st.DrawFn) -> tuple[bf.Domain, bf.Policy, bf.Policy]:
    domain = draw(st.sampled_from([PLACES, NULLS]))
    return domain, draw(joint_policies(domain)), draw(joint_policies(domain))


@effort(120)
@example((NULLS, bf.Policy({name: bf.public() for name in "xyz"}), bf.Policy(joint=[bf.grid(["x", "y"], "0.5")])))
@given(changes())
def test_changes_of_joint_graphs_cover_every_new_edge(change: tuple[bf.Domain, bf.Policy, bf.Policy]) -> None:
    domain, old, new = change
    factor = policy_stretch(domain, old, new).factor
    if factor is not None:
        assert most_steps(old, new, domain) <= factor


def most_steps(old: bf.Policy, new: bf.Policy, domain: bf.Domain) -> float:
    """The most old steps between two records that the new policy joins, by all shortest paths."""
    steps = shortest_path(csr_array(joined(old, domain)), directed=False, unweighted=True)
    return float(np.max(steps[joined(new, domain)], initial=0.0))


WHOLE = bf.domain({"x": bf.integers(0, 5, null=0), "y": bf.integers(0, 4, null=0), "z": bf.integers(0, 0, null=0)})


@pytest.mark.parametrize("domain", [PLACES, NULLS, WHOLE], ids=["bins", "NULL", "whole numbers"])
@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.sampled(3)
def test_the_factor_of_a_joint_threshold_that_grows(
    domain: bf.Domain, is_listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exact where places are listed; of whole numbers never too small, and exact wherever balls of l1 or linf grow."""
    monkeypatch.setattr(distance, "STRETCH_LIMIT", distance.STRETCH_LIMIT if is_listed else 0)
    for (theta, metric), (wider, other) in itertools.product(
        itertools.product((1, "1.5", 2), ("l1", "l2", "linf")), itertools.product((2, 3), ("l1", "l2", "linf"))
    ):
        old = bf.Policy({"z": bf.public()}, joint=[bf.grid(["x", "y"], theta, metric)])
        new = bf.Policy({"z": bf.public()}, joint=[bf.grid(["y", "x"], wider, other)])
        exact = max(1.0, most_steps(old, new, domain))
        factor = policy_stretch(domain, old, new).factor
        assert factor is not None
        assert factor >= exact
        if is_listed or (domain is WHOLE and (metric, other) in (("l1", "l1"), ("linf", "linf"))):
            assert factor == exact, (theta, metric, wider, other)


def test_a_joint_threshold_twice_as_wide_counts_past_loss_twice() -> None:
    small, large = (bf.Policy(joint=[bf.grid(["x", "y"], theta, "l1")]) for theta in (1, 2))
    places = {"x": bf.integers(0, 999, null=0), "y": bf.integers(0, 999, null=0)}
    assert policy_stretch(bf.domain(places), small, large).factor == 2


def test_a_joint_threshold_that_grows_is_not_taken_for_one_that_shrinks() -> None:
    """The comparison has power: the factor of the opposite change is refuted by a pair."""
    small, large = (bf.Policy(joint=[bf.grid(["x", "y"], theta, "l1")]) for theta in (1, 3))
    steps = shortest_path(csr_array(joined(small)), directed=False, unweighted=True)
    factor = policy_stretch(PLACES, large, small).factor
    assert factor == 1
    assert np.max(steps[joined(large)]) == 3
