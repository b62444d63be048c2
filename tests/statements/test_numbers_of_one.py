"""What is said of one thing is said in the singular, and the reason of a stretch tells which policy did what."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

import pytest

import blowfishdb as bf
from blowfishdb.catalog.policy_change import policy_stretch
from blowfishdb.errors import BlowfishError, RateLimited, SignInRefused, between
from blowfishdb.ledger.mark import check_not_rolled_back
from blowfishdb.ledger.values import Head
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.server.wire.statements import with_parameters
from tests.statements.place import LIMITED, Place, data_name

ONE_OF_MANY = re.compile(r"(?<![\d.,])1 (?:more )?\w*[a-z](?<!s)s\b")
"""A 1 before a noun in the plural."""


def rolled_back() -> None:
    check_not_rolled_back(Head("old", 1, "hash"), Head("new", 0, "hash"), lambda sequence: None)


def refuse(error: Exception) -> None:
    raise error


REFUSALS: dict[str, tuple[Callable[[], object], str]] = {
    "axes": (lambda: bf.query("cdf", ["age", "ward"]), "a cdf is over 1 attribute, not 2"),
    "columns": (lambda: Aggregate("stddev", ("age", "ward")), "a stddev is of 1 attribute, not 2"),
    "several columns": (lambda: Aggregate("sum"), "a sum is of 1 to 4 different attributes, not 0"),
    "entries": (rolled_back, "one with 1 entry was"),
    "parameters": (lambda: with_parameters("SELECT $2", ["1"]), "1 value came with it"),
    "requests": (lambda: refuse(RateLimited(1)), "wait 1 second"),
    "tries": (lambda: refuse(SignInRefused(1)), "wait 1 second"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_of_one(name: str) -> None:
    attempt, words = REFUSALS[name]
    with pytest.raises(BlowfishError) as refused:
        attempt()
    assert words in refused.value.message
    assert not ONE_OF_MANY.search(refused.value.message)


def test_a_plural_after_one_is_noticed() -> None:
    assert ONE_OF_MANY.search("and 1 releases may have told")
    assert ONE_OF_MANY.search("1 more rows")
    assert not ONE_OF_MANY.search("21 values, 1 value, 0.1 steps")
    assert (between(1, 1, "row"), between(1, 4, "row")) == ("1 row", "1 to 4 rows")


def test_a_plan_of_one_question_and_a_refusal_after_one_release(place: Place) -> None:
    ages = place.session[LIMITED].histogram("age")
    assert str(place.session.plan([ages], alpha=400)).startswith(f"1 question of {LIMITED}\n")
    with bf.curate(place.configuration, by="cora") as curator:
        name = data_name("public ward")
        place.session[name].histogram("ward").release(epsilon="0.1")
        refusal = curator.what_would_change(name, policy=bf.Policy())[0].refusal
    assert refusal is not None
    assert not ONE_OF_MANY.search(refusal)


def test_the_reason_of_a_stretch_says_who_moved_how() -> None:
    domain = bf.domain({"x": bf.integers(0, 4, null=0), "y": bf.integers(0, 4, null=0)})
    near, both = bf.Policy(joint=[bf.grid(["x", "y"], 1, "l1")]), bf.Policy({"x": bf.line(), "y": bf.line()})
    stretch = policy_stretch(domain, near, both)
    # Diagonal steps are new: before, a record took one step along each attribute.
    assert stretch.factor == Fraction(2)
    assert stretch.why == "attributes that may now move at once took their steps one after the other before"
