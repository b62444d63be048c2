"""The graph of public constraints as it is shown: lines against a listing of all moves, factors, words, the picture."""

from __future__ import annotations

import itertools
import re

import pytest

import blowfishdb as bf
from blowfishdb.errors import CannotCertify, PolicyError
from blowfishdb.model.constraint_graph import moves_at_once
from blowfishdb.model.graphs import Presence
from blowfishdb.model.policy import Policy
from blowfishdb.present import graph_picture
from blowfishdb.present.graph_picture import MOST_SHOWN, REST, constraints_svg, view_constraints

SMALL = bf.domain({"a": bf.integers(0, 4, null=0), "b": bf.categorical(["x", "y", "z"], null="x", outside="x")})
COUNTS = ["count(a < 2)", "range(a, 3, 4)", "marginal(b)", "count(a = 0 and b = 'x')", "rows"]


def lines_by_listing(policy: Policy) -> tuple[set[tuple[int, int]], list[bool]]:
    """The same graph from every pair of records: a step of at most `theta` in a, any step in b, absence as declared."""
    records = list(itertools.product(range(5), "xyz"))
    theta = getattr(policy.family("a"), "theta", 9)
    is_one = policy.composition == "attribute"

    def counts(record: tuple[int, str] | None) -> tuple[object, ...]:
        if record is None:
            return (False, False, None, False, False)
        a, b = record
        return (a < 2, a >= 3, b, a == 0 and b == "x", True)

    def is_hidden(one: tuple[int, str] | None, two: tuple[int, str] | None) -> bool:
        if one is None or two is None:
            return policy.presence != "public"
        differ = (one[0] != two[0]) + (one[1] != two[1])
        return policy.presence != "only" and abs(one[0] - two[0]) <= theta and not (is_one and differ > 1)

    pairs, alone = set[tuple[int, int]](), [False] * len(COUNTS)
    for one, two in itertools.combinations([*records, None], 2):
        if is_hidden(one, two):
            changed = [p for p, (x, y) in enumerate(zip(counts(one), counts(two), strict=True)) if x != y]
            pairs.update(itertools.combinations(changed, 2))
            if len(changed) == 1:
                alone[changed[0]] = True
    return pairs, alone


@pytest.mark.parametrize("presence", ["public", "secret", "only"])
@pytest.mark.parametrize("composition", ["record", "attribute"])
@pytest.mark.parametrize("theta", [None, 1, 2])
def test_lines_are_the_hidden_changes_of_two_counts(
    theta: int | None, composition: str, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_picture, "moves_at_once", lambda *_: None)  # lines do not depend on prices
    families = {} if theta is None else {"a": bf.threshold(theta)}
    policy = Policy(families, composition=composition, presence=presence, constraints=COUNTS)  # type: ignore[arg-type]
    view = view_constraints(SMALL, policy)
    assert view.is_listed
    pairs, alone = lines_by_listing(policy)
    assert {(one, two) for one, two in view.pairs.tolist()} == pairs
    assert list(view.alone) == alone


def test_each_factor_is_the_number_of_records_that_change_together() -> None:
    policy = Policy(constraints=["marginal(b)", "count(a < 2)"])
    view = view_constraints(SMALL, policy)
    assert (view.records, view.together) == ((3, 2), moves_at_once(SMALL, policy)) == ((3, 2), 8)
    assert view.rows() == (
        ("marginal(b)", "3 times", "count(a < 2)"),
        ("count(a < 2)", "2 times", "marginal(b)"),
    )
    chain, lines = view.words()
    assert "has 8 records" in chain and "up to 8" in chain
    assert "2 public counts in 1 connected part; 0 that" in lines


def test_counts_apart_are_priced_together_and_the_words_say_so() -> None:
    view = view_constraints(SMALL, Policy({"a": bf.line()}, constraints=["count(a = 0)", "count(a = 4)"]))
    assert (len(view.pairs), view.part_of, view.records, view.together) == (0, (0, 1), (2, 2), 3)
    assert "changes of any kind" in view.words()[-1]
    free = view_constraints(SMALL, Policy({"b": bf.public()}, constraints=["marginal(b)"]))
    assert (free.rows(), free.together) == ((("marginal(b)", "nothing", "none"),), 1)
    assert free.words() == ("No hidden change of a record changes one of these counts unseen, so they cost nothing.",)
    with pytest.raises(PolicyError, match="no public constraints"):
        view_constraints(SMALL, Policy())


def test_what_has_no_price_or_is_too_large_is_shown_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = bf.domain({"a": bf.integers(0, 299), "b": bf.integers(0, 299), "c": bf.integers(0, 3)})
    view = view_constraints(wide, Policy({"c": bf.public()}, constraints=["marginal(a)", "marginal(b)", "marginal(c)"]))
    assert (view.is_listed, view.pairs.tolist(), view.changed) == (False, [[0, 1]], (True, True, False))
    assert (view.records, view.together) == ((301, 301, 1), None)
    assert view.words()[0].startswith("All together have no price: these public constraints overlap")
    monkeypatch.setattr(graph_picture, "MOST_KINDS", 2)
    many = [f"range(a, {n}, {n})" for n in range(30)]
    view = view_constraints(wide, Policy(constraints=many))
    assert (len(view.names), view.together, len(view.pairs)) == (MOST_SHOWN, 31, MOST_SHOWN * (MOST_SHOWN - 1) // 2)
    assert f"The first {MOST_SHOWN} of 30" in view.words()[-1]


def test_the_picture_names_each_constraint_with_its_factor_and_tells_what_it_shows() -> None:
    view = view_constraints(SMALL, Policy({"a": bf.line()}, constraints=["count(a < 2)", "marginal(b)", "rows"]))
    picture = constraints_svg(view)
    assert "count(a &lt; 2): 2 times" in picture and "rows: nothing" in picture and REST in picture
    assert len(re.findall("<path", picture)) == len(view.pairs) + sum(view.alone) == 3
    assert "longest forced chain" in picture and '<title id="' in picture
    assert REST not in constraints_svg(view_constraints(SMALL, Policy(constraints=["rows"])))


def test_a_refusal_says_what_null_and_outside_add() -> None:
    """Sex with race of a census: 4 x 7 cells with NULL and outside are refused, 2 x 5 without them have a price."""
    races = ["white", "black", "asian", "native", "other"]
    both = ["marginal(sex)", "marginal(race)"]
    cells = bf.domain({"sex": bf.categorical(["F", "M"]), "race": bf.categorical(races)})
    with pytest.raises(CannotCertify, match=r"\(4 x 7 cells, 2 x 5 without them\).*null=\.\.\., outside=\.\.\."):
        moves_at_once(cells, Policy(constraints=both))
    closed = bf.domain(
        {
            "sex": bf.categorical(["F", "M"], null="F", outside="F"),
            "race": bf.categorical(races, null="other", outside="other"),
        }
    )
    assert moves_at_once(closed, Policy(constraints=both)) == 45
