"""Prices of an analyst's own book: nothing that is free tells what another analyst asked, or what the data holds."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.catalog.catalog import LiveCatalog
from blowfishdb.cli.output import print_error
from blowfishdb.engine.sharing import is_regular
from blowfishdb.errors import BudgetExceeded, ReleaseFailed
from blowfishdb.noise.coupling import is_served
from blowfishdb.server.wire.catalog import budget_left
from blowfishdb.session import Session
from blowfishdb.session.local import QuoteCache, local_backend
from blowfishdb.sources.ibis_source import IbisCount, IbisSource
from tests.session.places import make_fixture, session, visits

SAME = "identity"
LEVELS = ("0.2", "0.25", "0.4999999999", "0.5", "0.5000000001", "0.6", "1/3")
"""Levels at, beside and between those that somebody may have."""


def ages(db: Session) -> bf.Question:
    return db["visits"].histogram(bf.col("age").bins(20))


ONE_AGE = "CREATE TABLE anew AS SELECT * REPLACE (CASE id WHEN 5 THEN ? ELSE age END AS age) FROM visits"


def write_anew(folder: Path, age: int) -> None:
    """The export of the next night, with this age of one person."""
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        connection.execute(ONE_AGE, [age])
        connection.execute("DROP TABLE visits")
        connection.execute("ALTER TABLE anew RENAME TO visits")
        connection.execute("CHECKPOINT")


def told(folder: Path) -> list[dict[str, Any]]:
    """All that previews tell ana of the next questions, without times."""
    with session(folder, "ana") as ana:
        questions = [(ages(ana), {"epsilon": level, "mechanism": SAME}) for level in LEVELS]
        questions.append((ages(ana), {"alpha": 30}))
        return [question.preview(**target).to_dict() for question, target in questions]


def first_answer(folder: Path) -> None:
    with session(folder, "ana") as ana:
        ages(ana).release(epsilon="0.25", mechanism=SAME)


def unanswered(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """A charge of ana's whose count failed."""
    with session(folder, "ana") as ana, patch.context() as failing:
        failing.setattr(IbisCount, "run", lambda self, deadline=None: 1 / 0)
        with pytest.raises(ReleaseFailed):
            ages(ana).release(epsilon="0.6", mechanism=SAME)


HISTORIES: dict[str, Callable[[Path, pytest.MonkeyPatch], object]] = {
    "ana asked": lambda folder, patch: first_answer(folder),
    "ana asked, and the data was written to": lambda folder, patch: (first_answer(folder), write_anew(folder, 20)),
    "ana was charged, and has no answer": unanswered,
    "ana asked nothing": lambda folder, patch: None,
}


@pytest.mark.parametrize("history", HISTORIES)
def test_previews_are_the_same_whatever_another_analyst_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, history: str
) -> None:
    make_fixture(tmp_path, visits(show_budget=False))
    HISTORIES[history](tmp_path, monkeypatch)
    alone = told(tmp_path)
    with session(tmp_path, "bob") as bob:
        for level in ("0.5", "0.1", "0.50000001", "2"):
            ages(bob).release(epsilon=level, mechanism=SAME)
    assert told(tmp_path) == alone


def test_prices_are_those_that_are_charged_between_the_levels_of_others(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(show_budget=False))
    with session(tmp_path, "ana") as ana, session(tmp_path, "bob") as bob:
        first_answer(tmp_path)
        for level in ("0.5", "0.4999999999"):
            ages(bob).release(epsilon=level, mechanism=SAME)
        paid = []
        for level in ("0.26", "0.4999999999", "0.5", "0.5000000001"):
            preview = ages(ana).preview(epsilon=level, mechanism=SAME)
            before = ana.budget("visits").spent
            ages(ana).release(epsilon=level, mechanism=SAME)
            paid.append(ana.budget("visits").spent - before)
            assert paid[-1] == preview.epsilon
        # A level of too many digits is measured anew, whether somebody has one beside it or not.
        assert paid == [Fraction("0.01"), Fraction("0.4999999999"), Fraction("0.24"), Fraction("0.5000000001")]


@pytest.mark.parametrize("sharing", ["analysts", "own"])
def test_a_preview_looks_at_no_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sharing: str) -> None:
    """Two histories of one record, and a file written anew in both: the digests of the rows differ in one of them."""
    seen = []
    for place, age in enumerate((5, 6)):
        folder = tmp_path / str(place)
        folder.mkdir()
        make_fixture(folder, visits(sharing=sharing, show_budget=False))
        write_anew(folder, 5)
        first_answer(folder)
        write_anew(folder, age)
        with monkeypatch.context() as patch:
            patch.setattr(IbisSource, "content", lambda self: pytest.fail("a preview looked at the content"))
            seen.append(told(folder))
    assert seen[0] == seen[1]
    assert "was written to since" in seen[0][3]["unproven"]


@pytest.mark.parametrize("is_shown", [False, True])
def test_what_the_data_has_left_is_shown_by_the_curators_choice_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_shown: bool
) -> None:
    """What ana reads on every face, before and after bob spent a part of the data's budget."""
    make_fixture(tmp_path, visits(epsilon="1", show_budget=is_shown))

    def all_words() -> list[str]:
        with session(tmp_path, "ana") as ana:
            budget, question = ana.budget("visits"), ages(ana)
            plan = ana.plan([question, ana["visits"].count()], alpha=60)
            words = [str(budget), budget_left(budget), str(question.preview(alpha=60)), str(plan), str(plan.to_dict())]
            for error in (
                refused(lambda: question.release(epsilon="1.5")),
                refused(lambda: ana.plan([question], alpha=1)),
            ):
                print_error(error, as_json=True)
                print_error(error, as_json=False)
                words += [error.message, *capsys.readouterr().err.splitlines()]
            return words

    before = all_words()
    with session(tmp_path, "bob") as bob:
        ages(bob).release(epsilon="0.125", mechanism=SAME)
    after = all_words()
    assert (after == before) is not is_shown
    assert any("0.875" in word for word in after) is is_shown


def refused(ask: Callable[[], Any]) -> BudgetExceeded:
    with pytest.raises(BudgetExceeded) as refusal:
        released = ask()
        released.release()
    return refusal.value


class Measured:
    """Rows of given weights, as far as levels depend on them."""

    def __init__(self, unit: Fraction, weights: list[int]) -> None:
        self.plan, self.weights = SimpleNamespace(unit=unit), np.array(weights)


def test_between_levels_of_few_digits_every_other_one_can_be_drawn() -> None:
    chance, pairs = random.Random(5), 0
    for _ in range(4000):
        rows = Measured(Fraction(chance.choice([1, 2, 500, 64_000, 10**6])), [chance.choice([1, 3, 100])] * 2 + [100])
        level = Fraction(chance.randint(1, 10**4), 10 ** chance.randint(1, 6))
        near = level + Fraction(chance.choice([1, 3, 10**3]), 10 ** chance.randint(1, 12))
        if is_regular(rows, level) and is_regular(rows, near):  # type: ignore[arg-type]
            pairs += 1
            assert is_served(None, rows.plan.unit / near, rows.plan.unit / level, rows.weights), (level, near)
    assert pairs > 100
    assert is_regular(Measured(Fraction(2), [1]), Fraction("0.123456"))  # type: ignore[arg-type]
    assert not is_regular(Measured(Fraction(2), [1]), Fraction(1, 3))  # type: ignore[arg-type]


@pytest.mark.parametrize("sharing", ["analysts", "own"])
def test_histories_and_noise_are_apart_in_one_process(tmp_path: Path, sharing: str) -> None:
    """Two analysts of one server, which remembers quotes and compiled questions for both."""
    make_fixture(tmp_path, visits(sharing=sharing, show_budget=False))
    live, cache = LiveCatalog(tmp_path / "blowfish.toml"), QuoteCache()
    ana, bob = (Session(local_backend(live.now, name, quotes=cache)) for name in ("ana", "bob"))
    for db, level in ((ana, "0.1"), (bob, "0.25"), (ana, "0.5"), (bob, "0.3")):
        ages(db).release(epsilon=level, mechanism=SAME)
    own: dict[str, set[int]] = {"ana": set(), "bob": set()}
    chains: dict[str, set[str]] = {"ana": set(), "bob": set()}
    for entry in live.now().ledger.entries():
        if entry.kind == "charge":
            own[entry.fields["analyst"]].add(entry.sequence)
            chains[entry.fields["analyst"]].add(entry.fields["chain"])
    assert len(chains["ana"] | chains["bob"]) == {"analysts": 1, "own": 2}[sharing]
    for name, db in (("ana", ana), ("bob", bob)):
        history = db.history("visits")
        assert {past.number for past in history} == own[name]
        for past in history:
            answer = db.reopen("visits", past.number)
            assert {*past.rests_on, *answer.rests_on, past.family} <= own[name]  # type: ignore[union-attr]
    live.close()
