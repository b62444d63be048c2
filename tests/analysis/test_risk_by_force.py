"""The risk meter against shortest paths found by force, for every kind of value, however it is written."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

import pytest

import blowfishdb as bf
from blowfishdb.analysis.risk import beliefs, risk, usual_pairs
from blowfishdb.audit.definitions import Record, joined, moves, records
from blowfishdb.catalog.dataset import read_value
from blowfishdb.catalog.guidance import Pair, what_if
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import BlowfishError, DomainError
from blowfishdb.model.domain import Attribute, Domain
from blowfishdb.model.graphs import Composition, Presence
from blowfishdb.model.policy import Family

ABSENT = -1
BESIDE = ("none", "hidden", "public")
"""Whether NULL and what lies outside have no cells of their own, hidden ones, or public ones."""


@dataclass(frozen=True)
class Declared:
    domain: Domain
    policy: bf.Policy


def kinds(beside: str) -> dict[str, Attribute]:
    """One small attribute of each kind of value; without a cell of its own NULL counts as the first value."""
    public = {"null_public": beside == "public", "outside_public": beside == "public"}

    def own(first: object, outside: str = "clamp") -> dict[str, Any]:
        return {"null": first, "outside": outside} if beside == "none" else {"outside": "cell", **public}

    day, moment, autumn = "2023-11-20", "2024-03-31T00:00", "2024-10-27T00:00"
    return {
        "whole numbers": bf.integers(-2, 4, **own(-2)),
        "bins": bf.bins(0, "2.4", width="0.3", **own(0)),
        "irregular bins": bf.bins(edges=[0, "0.5", 3, 10, 11], **own(0)),
        "days": bf.dates("2024-02-27", "2024-03-03", "day", **own("2024-02-27")),
        "weeks": bf.dates(day, "2024-01-10", "week", **own(day)),
        "months": bf.dates(day, "2024-05-10", "month", **own(day)),
        "quarters": bf.dates(day, "2025-01-10", "quarter", **own(day)),
        "years": bf.dates("1997-05-05", "2002-01-10", "year", **own("1997-05-05")),
        "seconds": bf.timestamps(moment, "2024-03-31T00:00:05", "second", **own(moment)),
        "minutes": bf.timestamps(moment, "2024-03-31T00:06", "minute", **own(moment)),
        "hours": bf.timestamps(autumn, "2024-10-27T06:00", "hour", zone="Europe/Zurich", **own(autumn)),
        "days of moments": bf.timestamps(moment, "2024-04-05T00:00", "day", **own(moment)),
        "names": bf.categorical(["ash", "elm", "fir", "1"], **own("ash", "fir")),
        "ordered names": bf.categorical(["low", "mid", "high"], ordered=True, **own("low", "high")),
        "listed numbers": bf.categorical([10, 20, 30], ordered=True, **own(10, 30)),
        "truth values": bf.categorical([False, True], **own(False, True)),
    }


def families(attribute: Attribute) -> Iterator[Family]:
    """Policies of each family for an attribute."""
    values = [attribute.value_at(index) for index in range(attribute.size)]
    yield from (bf.full(), bf.public(), bf.partition([values[:2], values[2:]] if values[2:] else [values]))
    yield bf.custom([(values[0], values[-1]), *itertools.pairwise(values[1:])])
    if attribute.ordered:
        yield from (bf.line(), bf.threshold(2))


def spellings(attribute: Attribute, code: int) -> list[object]:
    """Some ways in which people and programs write a declared value."""
    value = attribute.value_at(code)
    ways = [value, read_value(str(value), attribute), attribute.run_label(code, code)]
    return ways if isinstance(value, bool | int | str) else [*ways, float(value), Fraction(value)]


def shortest(declared: Declared) -> dict[tuple[int, ...], dict[tuple[int, ...], int]]:
    """The number of moves between any two records, absence being one where it is hidden."""
    domain = declared.policy.applied(declared.domain)
    listed = list(records(domain))
    ends: dict[int, list[int]] = {
        place: [other for other, two in enumerate(listed) if moves(domain, declared.policy, one, two)]
        for place, one in enumerate(listed)
    }
    if declared.policy.presence != "public":
        ends[ABSENT] = list(range(len(listed)))
        for place in range(len(listed)):
            ends[place].append(ABSENT)
    found = {}
    for start, one in enumerate(listed):
        steps, reached = {start: 0}, [start]
        for place in reached:
            for other in ends[place]:
                if other not in steps:
                    steps[other] = steps[place] + 1
                    reached.append(other)
        found[_key(one)] = {_key(listed[place]): count for place, count in steps.items() if place != ABSENT}
    return found


def _key(record: Record) -> tuple[int, ...]:
    return tuple(record.values())


def all_values(attribute: Attribute) -> dict[int, list[object]]:
    """Every code with ways to write it; NULL and outside by name too, where they are cells."""
    written = {code: spellings(attribute, code) for code in range(attribute.size)}
    for slot in attribute.slots:
        written[slot.code] = [None, "NULL"] if slot.name == "NULL" else ["outside"]
    return written


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("kind", list(kinds("none")))
def test_steps_are_those_of_the_definitions(kind: str, beside: str) -> None:
    attribute = kinds(beside)[kind]
    domain = Domain((("x", attribute),))
    written = {code: ways[0] for code, ways in all_values(attribute).items()}
    for family, presence in itertools.zip_longest(families(attribute), get_args(Presence), fillvalue="public"):
        declared = Declared(domain, bf.Policy({"x": family}, presence=presence))
        truth = shortest(declared)
        for (one, a), (two, b) in itertools.product(written.items(), repeat=2):
            assert risk(declared, 1, a, b, attribute="x").steps == truth[one,].get((two,)), (family, presence, a, b)


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("kind", list(kinds("none")))
def test_a_value_is_the_same_however_it_is_written(kind: str, beside: str) -> None:
    """Or it is refused: what cannot be read is never taken for another value."""
    attribute = kinds(beside)[kind]
    declared = Declared(Domain((("x", attribute),)), bf.Policy())
    written = all_values(attribute)
    for (one, ways), (two, others) in itertools.product(written.items(), repeat=2):
        for way in ways:
            with suppress(DomainError):
                assert (risk(declared, 1, way, others[0], attribute="x").steps == 0) == (one == two), (way, others[0])


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("kind", list(kinds("none")))
def test_the_usual_pairs_are_two_values_on_every_face(kind: str, beside: str) -> None:
    attribute = kinds(beside)[kind]
    domain, policy = Domain((("x", attribute),)), bf.Policy({"x": bf.full()})
    for one, two in usual_pairs(attribute):
        assert risk(Declared(domain, policy), 1, one, two, attribute="x").steps == 1
        (price,) = what_if(domain, {"full": policy}, bf.query("count"), accuracy_target(alpha=9), [Pair("x", one, two)])
        assert price.steps == (1,)
        low, high = beliefs(Declared(domain, policy), 1, {one: "0.5", two: "0.5"}, attribute="x")[one][1:]
        assert (low, high) == pytest.approx((1 / (1 + math.e), math.e / (1 + math.e)))


UNREADABLE = {
    "whole numbers": ["1-2", "two", "NaN"],
    "bins": ["a", "[0, 1)"],
    "days": ["2024", "2024-02", "yesterday"],
    "weeks": ["2023", "week 3"],
    "months": ["2023", "2023-Q4", 2023, "1900-01"],
    "quarters": ["2023", "2023-12", "2023-Q5"],
    "years": ["1997-Q1", "97", 97],
    "hours": ["noon", "2024-03", 3],
    "names": ["ashes", 1, True, "ash, elm"],
    "listed numbers": ["10", 11, "low"],
    "truth values": ["true", "no"],
}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize(("kind", "values"), UNREADABLE.items())
def test_what_is_no_value_is_refused_and_not_the_same_as_anything(kind: str, values: list[object], beside: str) -> None:
    attribute = kinds(beside)[kind]
    declared = Declared(Domain((("x", attribute),)), bf.Policy({"x": bf.line() if attribute.ordered else bf.full()}))
    for value in values:
        for pair in ((value, attribute.value_at(0)), (attribute.value_at(0), value), (value, value)):
            with pytest.raises(BlowfishError):
                risk(declared, 1, *pair, attribute="x")
            with pytest.raises(BlowfishError):
                risk(declared, 1, {"x": pair[0]}, {"x": pair[1]})


@pytest.mark.parametrize("composition", get_args(Composition))
@pytest.mark.parametrize("presence", get_args(Presence))
@pytest.mark.parametrize(
    "policy",
    [
        {"year": bf.line(), "ward": bf.partition([["a", "b"], ["c"]])},
        {"year": bf.threshold(2), "ward": bf.public()},
        {"year": bf.full(), "ward": bf.full()},
    ],
)
def test_records_of_several_attributes(policy: dict[str, Family], presence: Presence, composition: Composition) -> None:
    year = bf.dates("1999-01-01", "2002-12-31", "year", null="1999")
    domain = bf.domain({"year": year, "ward": bf.categorical(["a", "b", "c"])})
    declared = Declared(domain, bf.Policy(policy, composition=composition, presence=presence))
    truth = shortest(declared)
    applied = declared.policy.applied(domain)

    def written(key: tuple[int, ...]) -> dict[str, object]:
        names = {slot.code: None if slot.name == "NULL" else slot.name for slot in applied["ward"].slots}
        ward = names[key[1]] if key[1] in names else "abc"[key[1]]
        return {"year": str(1999 + key[0]), "ward": ward}

    assert any(joined(family, domain[name], 0, 1) for name, family in policy.items())
    for one, steps in truth.items():
        for two in truth:
            assert risk(declared, 1, written(one), written(two)).steps == steps.get(two), (one, two)


def test_odds_beyond_every_number_are_not_given_as_a_smaller_one() -> None:
    domain, policy = bf.domain({"x": bf.integers(0, 9999, null=0)}), bf.Policy({"x": bf.line()})
    assert risk(Declared(domain, policy), 1, 0, 9999, attribute="x").odds == math.inf
    target = accuracy_target(epsilon="0.5")
    (price,) = what_if(domain, {"line": policy}, bf.query("histogram", "x"), target, [Pair("x", 0, 9999)])
    assert price.steps == (9999,)
    assert price.odds(0) is None
