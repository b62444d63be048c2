"""How many records public constraints make change together: atoms, Graver bounds, and what is refused."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from types import ModuleType

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.errors import CannotCertify, PolicyError
from blowfishdb.model import constraint_graph, kernels
from blowfishdb.model.constraint_graph import (
    TABLES,
    changed_constraints,
    is_settled,
    longest_lifted,
    marginal_and_count,
    most_changes,
    moves_at_once,
)
from blowfishdb.model.domain import Integers
from blowfishdb.model.policy import Policy
from tests.errata.test_constraints import graver_norm


def plain(size: int) -> Integers:
    return bf.integers(0, size - 1, null=0)


PEOPLE = bf.domain(
    {
        "sex": bf.categorical(["F", "M"], null="F", outside="M"),
        "age": plain(100),
        "state": bf.categorical([f"s{i}" for i in range(300)], null="s0", outside="s1"),
        "zip": plain(400),
    }
)


@pytest.mark.parametrize(
    ("constraints", "presence", "moves"),
    [
        (["rows"], "public", None),
        (["rows"], "secret", 1),
        (["marginal(sex)"], "public", 2),
        (["marginal(sex)"], "secret", 2),
        (["count(sex = 'F')"], "secret", 2),
        (["marginal(sex)", "rows", "count(sex = 'F')"], "public", 2),
        (["marginal(state, zip)"], "public", 120_000),
        (["marginal(state, zip)", "marginal(zip)", "rows"], "public", 120_000),
        (["marginal(state, zip)", "rows = 32561"], "public", 32_561),
        (["marginal(state, zip)", "rows = 32561"], "secret", 120_000),
        (["count(age < 18)"], "public", 2),
        (["count(age < 18)", "count(age < 65)", "range(age, 30, 40)"], "public", 4),
        (["count(age < 18)", "range(age, 20, 29)"], "public", 3),
        (["marginal(sex)", "count(sex = 'F' and age < 18)"], "public", 3),
        (["count(age < 18)", "count(age >= 18)"], "public", 2),
        (["range(age, 0, 20)", "range(age, 10, 30)"], "public", 4),
        (["range(age, 0, 20)", "range(age, 10, 30)"], "secret", 4),
        (["marginal(sex)", "count(age < 18)"], "public", 4),
        (["marginal(sex)", "count(age < 18)", "rows = 3"], "public", 3),
        (["count(sex = 'F' and sex = 'M')"], "public", None),
        (["count(sex = 'F' or sex = 'M')"], "public", None),
        ([f"range(age, {i}, {i})" for i in range(100)], "public", 100),
    ],
)
def test_how_many_records_change_together(constraints: list[str], presence: str, moves: int | None) -> None:
    policy = Policy(constraints=constraints, presence=presence)  # type: ignore[arg-type]
    assert moves_at_once(PEOPLE, policy) == moves


@pytest.mark.parametrize(
    ("family", "constraint", "changes"),
    [
        (bf.public(), "marginal(age)", False),
        (bf.public(), "count(age < 18)", False),
        (bf.line(), "marginal(age)", True),
        (bf.threshold(3), "count(age < 18)", True),
        (bf.partition(cuts=[18]), "count(age < 18)", False),
        (bf.partition(cuts=[19]), "count(age < 18)", True),
        (bf.partition(cuts=[18]), "marginal(age)", True),
        (bf.partition(cuts=range(1, 100)), "marginal(age)", False),
        (bf.partition([[i, i + 50] for i in range(50)]), "marginal(age)", True),
        (bf.partition([[i, i + 50] for i in range(50)]), "count(age in (3, 53))", False),
        (bf.custom([[1, 2]]), "range(age, 1, 2)", False),
        (bf.custom([[1, 2]]), "range(age, 2, 3)", True),
        (bf.custom([[1, 2]]), "marginal(age)", True),
    ],
)
def test_constraints_cost_nothing_when_no_edge_changes_them(family: object, constraint: str, changes: bool) -> None:
    policy = Policy({"age": family}, constraints=[constraint])  # type: ignore[dict-item]
    assert bool(changed_constraints(PEOPLE, policy)) == changes
    assert (moves_at_once(PEOPLE, policy) is not None) == changes


def test_edges_of_bins_of_unequal_width_and_of_joint_thresholds_change_constraints() -> None:
    bins = bf.domain({"x": bf.bins(edges=[0, 1, 10, 100], null=0), "y": plain(5), "z": plain(5)})
    apart, near = bf.threshold("1/2"), bf.threshold(20)
    assert changed_constraints(bins, Policy({"x": near}, constraints=["marginal(x)"]))
    assert changed_constraints(
        bins, Policy({"x": apart}, constraints=["marginal(x)"])
    )  # bins that touch are at distance 0
    assert changed_constraints(bins, Policy(joint=[bf.grid(["y", "z"], 1)], constraints=["marginal(y)"]))
    hidden_null = bf.domain({"x": bf.integers(0, 3)})
    assert changed_constraints(hidden_null, Policy({"x": bf.line()}, constraints=["marginal(x)"]))
    assert not changed_constraints(hidden_null, Policy({"x": bf.public()}, constraints=["marginal(x)"]))


@pytest.mark.parametrize("at_most", [1, 3])
def test_people_only_where_no_edge_changes_a_constraint(at_most: int) -> None:
    unit = bf.person("id", at_most=at_most, order_by="key")
    free = ["marginal(sex)", "rows = 9", "count(age < 18 and age > 20)"]
    assert moves_at_once(PEOPLE, Policy({"sex": bf.public()}, unit=unit, constraints=free)) is None
    with pytest.raises(PolicyError, match=r"marginal\(sex\).*leave these constraints out, make .* public\(\)"):
        moves_at_once(PEOPLE, Policy(unit=unit, constraints=["rows", "marginal(sex)"]))
    with pytest.raises(PolicyError, match=r"touch rows.*leave these constraints out, or protect each row on its own"):
        moves_at_once(PEOPLE, Policy(unit=unit, presence="only", constraints=["rows"]))
    with pytest.raises(PolicyError, match=r"age, 3, 3\); \.\.\."):
        moves_at_once(PEOPLE, Policy(unit=unit, constraints=[f"range(age, {i}, {i})" for i in range(9)]))


@pytest.mark.parametrize(
    ("constraints", "nearest"),
    [
        (["marginal(state)", "marginal(zip)"], r"marginal\(state, zip\)"),
        (["marginal(state)", "count(age < 18)", "count(age < 9)"], r"within each cell of marginal\(state\)"),
        ([f"range(age, {i}, {i + 30})" for i in range(0, 60, 2)], "pieces"),
        (["marginal(state, zip)", "marginal(age, zip)"], "joint table"),
        ([f"count(age in ({i}, {i + 1}, {2 * i + 20}, 99))" for i in range(5)], "pieces"),
    ],
)
def test_constraints_without_a_bound_are_refused_with_the_nearest_that_works(
    constraints: list[str], nearest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constraint_graph, "MOST_LIFTED", 64)
    longest_lifted.cache_clear()
    with pytest.raises(CannotCertify, match=nearest):
        moves_at_once(PEOPLE, Policy(constraints=constraints))


def test_a_marginal_beside_a_count_has_the_bound_of_two_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against Graver bases of made-up counts over the cells of a marginal and another attribute."""
    for cells, presence, case in itertools.product((2, 3), ("public", "secret"), range(3)):
        domain = bf.domain({"a": plain(cells), "b": plain(3)})
        inside = [(x, y) for x in range(cells) for y in range(3) if (x * 7 + y * 5 + case * 3) % 4 < 2]
        count = "count(" + " or ".join(f"(a = {x} and b = {y})" for x, y in inside) + ")"
        policy = Policy(constraints=["marginal(a)", count], presence=presence)  # type: ignore[arg-type]
        exact = moves_at_once(domain, policy)
        bound = marginal_and_count(domain, policy.constraints, presence != "public")
        assert exact is not None and bound is not None and exact <= bound
        assert bound == {2: 4, 3: 8, 4: 12}[cells + (presence != "public")]
    with monkeypatch.context() as patch:
        patch.setattr(constraint_graph, "TABLES", {(2, cells): 2 for cells in (2, 3, 4)})
        assert marginal_and_count(domain, policy.constraints, False) == 2 < exact, "a bound too small is noticed"
    ages = Policy(constraints=["marginal(state)", "count(age < 18)"])
    assert moves_at_once(PEOPLE, ages) == 300 * 599
    assert (
        marginal_and_count(PEOPLE, (*ages.constraints, *Policy(constraints=["count(age < 9)"]).constraints), False)
        is None
    )


def test_the_number_of_rows_bounds_any_constraints() -> None:
    constraints = ["marginal(state)", "marginal(zip)"]
    assert moves_at_once(PEOPLE, Policy(constraints=[*constraints, "rows = 4"])) == 4
    with pytest.raises(CannotCertify):
        moves_at_once(PEOPLE, Policy(constraints=[*constraints, "rows = 4"], presence="secret"))


def test_constraints_that_cut_very_finely_are_refused_too() -> None:
    crossed = [f"count(age < {cut} and zip < {cut})" for cut in range(1, 99, 7)]
    crossed += [f"count(age < {99 - cut} and zip < {cut} and state = 's3')" for cut in range(1, 99, 5)]
    with pytest.raises(CannotCertify, match="pieces"):
        moves_at_once(PEOPLE, Policy(constraints=crossed))


def differences(signatures: list[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    found = {tuple(a - b for a, b in zip(one, two, strict=True)) for one in signatures for two in signatures}
    return tuple(sorted(d for d in found if d > (0,) * len(d)))


@pytest.mark.parametrize(
    "signatures",
    [
        [(0,), (1,)],
        [(0, 0), (0, 1), (1, 0), (1, 1)],
        [(0, 0, 0), (1, 1, 0), (0, 1, 1), (1, 0, 1)],
        [(0, 0, 0), (1, 1, 0), (0, 1, 1), (1, 1, 1)],
        [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)],
    ],
)
def test_the_graver_bound_is_that_of_the_definition(signatures: list[tuple[int, ...]]) -> None:
    columns = differences(signatures)
    assert most_changes(columns) == graver_norm(columns, 2)


def test_graver_bounds_of_larger_lattices(monkeypatch: pytest.MonkeyPatch) -> None:
    cube = differences(list(itertools.product((0, 1), repeat=3)))
    two_by_three = differences([(int(a == 0), int(a == 1), b) for a in range(3) for b in range(2)])
    assert (most_changes(()), most_changes(((1, 0),)), most_changes(two_by_three)) == (1, 2, 8)
    monkeypatch.setattr(constraint_graph, "MOST_LIFTED", 64)
    assert most_changes(cube, 1000) is None
    longest_lifted.cache_clear()
    # The longest minimal way to cancel 1, 2 and 3 is 2 + 2 + 2 = 3 + 3.
    assert most_changes(((1,), (2,), (3,))) == graver_norm([(1,), (2,), (3,)], 3) == 5
    assert most_changes(tuple((2**i,) for i in range(70))) is None


def table(few: int, many: int) -> tuple[tuple[int, ...], ...]:
    """The changes of two marginals with so many cells."""
    cells = itertools.product(range(few), range(many))
    return differences(
        [tuple(int(a == i) for i in range(few)) + tuple(int(b == j) for j in range(many)) for a, b in cells]
    )


@pytest.mark.parametrize(
    "sizes", [(2, 2), (2, 3), *(pytest.param(sizes, marks=pytest.mark.nightly) for sizes in ((2, 4), (3, 3)))]
)
def test_listed_bounds_of_two_marginals_are_computed_again(
    sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constraint_graph, "MOST_LIFTED", 2**14 if sizes != (3, 3) else 2**17)
    monkeypatch.setattr(constraint_graph, "MOST_LIFTING", 10**11)
    longest_lifted.cache_clear()
    assert longest_lifted(table(*sizes)).longest == TABLES[sizes]
    # The bound of 2 x c that needs no search is never less.
    assert sizes[0] > 2 or sizes[1] * (2 * sizes[1] - 1) >= TABLES[sizes]


@pytest.mark.parametrize(
    "signatures",
    [
        list(itertools.product((0, 1), repeat=2)),
        [(0, 0, 0), (1, 1, 0), (0, 1, 1), (1, 0, 1)],
        [(0, 0, 0), (1, 1, 0), (0, 1, 1), (1, 1, 1)],
        [(1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 1, 1), (0, 0, 1), (0, 0, 0)],
    ],
)
def test_lifting_finds_what_the_completion_finds(signatures: list[tuple[int, ...]]) -> None:
    columns = differences(signatures)
    assert longest_lifted(columns).longest == most_changes(columns)
    assert longest_lifted(columns).elements == constraint_graph.graver_basis(columns).shape[0]


def test_a_lattice_that_no_choice_of_columns_spans_is_not_lifted() -> None:
    assert longest_lifted(((2,), (3,))).longest is None


def test_sex_with_race_has_a_bound_and_none_below_18_is_true() -> None:
    values = {f"r{i}": i for i in range(5)}
    adult = bf.domain({"sex": PEOPLE["sex"], "race": bf.categorical(list(values), null="r0", outside="r0")})
    assert moves_at_once(adult, Policy(constraints=["marginal(sex)", "marginal(race)"])) == 45
    assert moves_at_once(adult, Policy(constraints=["marginal(sex)", "marginal(race)", "rows = 20"])) == 20
    # Changes of (sex, race) with how many records make each: together they cancel, and no smaller part of them does.
    arrows = {(1, 1, 0): 5, (-1, 0, 2): 3, (-1, 2, 3): 3, (-1, 3, 1): 3, (1, 0, 4): 2, (1, 4, 1): 2}
    changes = np.array([[sex] + [(to == r) - (out == r) for r in range(5)] for sex, out, to in arrows])
    parts = np.array(list(itertools.product(*(range(times + 1) for times in arrows.values()))))
    cancelling = parts[~np.any(parts @ changes, axis=1)]
    assert sorted(cancelling.sum(axis=1).tolist()) == [0, 18]


@pytest.mark.nightly
def test_four_ranges_in_a_chain_have_a_bound() -> None:
    chain = [f"range(age, {i}, {i + 2})" for i in (0, 2, 4, 6)]
    assert moves_at_once(PEOPLE, Policy(constraints=chain)) == 15
    sliding = [f"range(age, {i}, {i + 3})" for i in range(4)]
    assert moves_at_once(PEOPLE, Policy(constraints=sliding)) == 8


def test_a_search_that_is_given_up_says_how_far_it_got(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_graph, "MOST_ELEMENTS", 8)
    chain = Policy(constraints=[f"range(age, {i}, {i + 2})" for i in (10, 12, 14, 16)])
    for limit, number in (("MOST_LIFTED", 500), ("MOST_LIFTING", 10_000)):
        with monkeypatch.context() as limited:
            limited.setattr(constraint_graph, limit, number)
            constraint_graph.graver_basis.cache_clear()
            constraint_graph._moves.cache_clear()
            longest_lifted.cache_clear()
            with pytest.raises(CannotCertify, match=r"given up after \d+ sets of changes, the longest of \d+ records"):
                moves_at_once(PEOPLE, chain)
    longest_lifted.cache_clear()
    wide = [f"count(age in ({i}, {i + 1}, {2 * i + 20}, 99))" for i in range(7)]
    with pytest.raises(CannotCertify, match=r"records apart in \d+ ways|more than 24 kinds"):
        moves_at_once(PEOPLE, Policy(constraints=wide))


def test_vectors_with_smaller_ones_inside_are_left_out() -> None:
    found = constraint_graph.minimal(np.array([[1, 0, 1], [-2, 0, -1], [0, 1, -1], [0, 2, -2]]))
    assert found.tolist() == [[1, 0, 1], [0, 1, -1]]


def test_a_basis_that_grows_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_graph, "MOST_ELEMENTS", 8)
    monkeypatch.setattr(constraint_graph, "MOST_LIFTED", 16)
    three = differences([(int(a == 0), int(a == 1), b) for a in range(3) for b in range(2)])
    longest_lifted.cache_clear()
    assert most_changes(three, 10**8) is None
    longest_lifted.cache_clear()


def test_the_kernel_is_plain_python_that_agrees_with_its_compiled_form(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("plain_graver_kernel", kernels.__file__)
    assert spec is not None and spec.loader is not None
    stub, module = ModuleType("numba"), importlib.util.module_from_spec(spec)
    stub.njit = lambda cache: lambda function: function  # type: ignore[attr-defined]
    with monkeypatch.context() as stubbed:
        stubbed.setitem(sys.modules, "numba", stub)
        spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "blowfishdb.model.kernels", module)
    square = differences(list(itertools.product((0, 1), repeat=2)))
    assert most_changes(square, 10**6) == 4
    longest_lifted.cache_clear()
    assert longest_lifted(square).longest == 4
    assert longest_lifted(table(2, 3)).longest == 8
    monkeypatch.setattr(constraint_graph, "MOST_LIFTING", 10)
    longest_lifted.cache_clear()
    assert most_changes(square, 5) is None
    longest_lifted.cache_clear()


def test_atoms_are_settled_exactly_when_signatures_are_affinely_independent() -> None:
    assert is_settled(PEOPLE, Policy(constraints=["count(age < 18)", "count(age < 9)"]))
    assert not is_settled(PEOPLE, Policy(constraints=["count(age < 18)", "range(age, 9, 30)"]))
    # Three counts of which each two overlap, with four patterns: independent, though no family of nested sets.
    triangle = ["count(age in (1, 2))", "count(age in (2, 3))", "count(age in (1, 3))"]
    assert is_settled(PEOPLE, Policy(constraints=triangle))
    assert moves_at_once(PEOPLE, Policy(constraints=triangle)) == 4


def test_words_say_why() -> None:
    def said(*constraints: object, **families: object) -> str:
        return " ".join(bf.explain(PEOPLE, Policy(families, constraints=constraints)))  # type: ignore[arg-type]

    assert "cost nothing" in said("marginal(sex)", sex=bf.public())
    assert "up to 2 records change together" in said("marginal(sex)") and "(atoms)" in said("marginal(sex)")
    assert "Graver bound" in said("marginal(sex)", "count(age < 18)")
    assert "singles out one record" in said("count(age < 18) = 1")
    assert "one combination has a single record" in said(bf.marginal_constraint("sex", values=[(["F"], 1), (["M"], 9)]))
    assert "2 more" in said(*[f"range(age, {i}, {i})" for i in range(10)])
    assert "Public constraints" not in said()
    with pytest.raises(CannotCertify):
        said("marginal(state)", "marginal(zip)")
