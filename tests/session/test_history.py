"""Histories of analysts who share their noise: each entry, number and price in them is of the one who reads."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

import blowfishdb as bf
from tests.session.places import make_fixture, session, visits

ANALYSTS = ("ana", "bob", "eve")
LEVELS = ("0.05", "0.1", "0.2", "0.4")


@pytest.mark.parametrize("seed", range(3))
def test_a_history_names_entries_of_its_analyst_alone(tmp_path: Path, seed: int) -> None:
    """Whoever asks finer, coarser or in between of whom: rests, families and entries are the reader's own."""
    make_fixture(tmp_path, visits(epsilon="100"))
    asked, numbers = random.Random(seed), dict[str, set[int]]()
    spent = dict.fromkeys(ANALYSTS, 0)
    for analyst in [*ANALYSTS, *asked.choices(ANALYSTS, k=9)]:
        with session(tmp_path, analyst) as db:
            table = db["visits"]
            question = asked.choice([table.histogram(bf.col("age").bins(20)), table.histogram("ward")])
            answer = question.release(mechanism="identity", epsilon=asked.choice(LEVELS))
            past = db.history("visits")
            listed = {one.number for one in past}
            told = {*answer.rests_on, *itertools.chain.from_iterable(one.rests_on for one in past)}
            told |= {one.family for one in past if one.family is not None}
            assert told <= listed
            assert len(listed) >= len(numbers.get(analyst, set()))
            numbers[analyst] = listed
            assert sum(one.epsilon for one in past) == db.budget("visits").spent
            spent[analyst] = db.budget("visits").spent
    for one, other in itertools.combinations(ANALYSTS, 2):
        assert not numbers[one] & numbers[other]
    assert all(numbers.values())
    # What was asked by others in between changes nothing of what an analyst reads.
    for analyst in ANALYSTS:
        with session(tmp_path, analyst) as db:
            assert {one.number for one in db.history("visits")} == numbers[analyst]
            assert db.budget("visits").spent == spent[analyst]
            assert {one.number for one in db.history("visits", most=2)} <= numbers[analyst]


def test_a_history_of_one_alone_is_the_same_beside_others(tmp_path: Path) -> None:
    """The same questions, with and without others who asked before: the same rests, families and prices, by place."""
    read = []
    for folder, others in ((tmp_path / "alone", ()), (tmp_path / "beside", ("0.3", "0.02"))):
        folder.mkdir()
        make_fixture(folder, visits(epsilon="100"))
        for level in others:
            with session(folder, "bob") as db:
                db["visits"].histogram("ward").release(mechanism="identity", epsilon=level)
        with session(folder) as db:
            for level in ("0.05", "0.2", "0.1"):
                db["visits"].histogram("ward").release(mechanism="identity", epsilon=level)
            past = db.history("visits")
        place = {one.number: number for number, one in enumerate(past)}
        read.append(
            [
                (one.epsilon, one.question, [place[other] for other in one.rests_on], place[one.family or one.number])
                for one in past
            ]
        )
    assert read[0] == read[1]
