"""A count that hangs harms nothing else: what is paid and what is free is answered beside it, and leaving ends it."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.engine import charge
from blowfishdb.errors import RateLimited, ReleaseCancelled, ReleaseFailed, WorkCancelled
from blowfishdb.session import Session
from blowfishdb.session.session import SpendingCap
from blowfishdb.session.turn import MOST_WAITING, AnalystTurn
from blowfishdb.sources.calls import is_cancelled
from blowfishdb.sources.sqlite import SQLite

PATIENCE = 120.0


class Engine:
    """Whether the tables of a name hang, and until when."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hung, self.free, self.began = "", threading.Event(), threading.Event()
        fetch = SQLite.fetch

        def fetched(engine: SQLite, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
            if self.hung and self.hung in str(engine._path):
                self.began.set()
                self.free.wait(PATIENCE)
            return fetch(engine, sql, deadline)

        monkeypatch.setattr(SQLite, "fetch", fetched)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    made = Engine(monkeypatch)
    yield made
    made.free.set()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Session]:
    config = tmp_path / "blowfish.toml"
    config.write_text('ledger = "sqlite:///blowfish.ledger"\nmark = "blowfish.mark"\nlongest_count = 3\n')
    with bf.curate(config, by="cora") as curator:
        for name in ("one", "two"):
            with sqlite3.connect(tmp_path / f"{name}.db") as rows:
                rows.execute("CREATE TABLE t (age INTEGER)")
            rows.close()
            curator.add(
                bf.Dataset(name, source=f"sqlite:///{name}.db#t", domain={"age": bf.integers(0, 9)}, epsilon="9")
            )
    with bf.connect(config, analyst="ana") as session:
        yield session


def test_what_is_paid_or_free_waits_for_no_count(db: Session, engine: Engine) -> None:
    question = db["one"].histogram("age")
    paid = question.release(epsilon="0.5")
    engine.hung = "one"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: question.release(epsilon="0.7"))
        assert engine.began.wait(PATIENCE)
        assert question.release(epsilon="0.5").to_json() == paid.to_json()
        assert question.preview(epsilon="0.9").epsilon > 0
        db["two"].histogram("age").release(epsilon="0.5")
        # Its deadline ends it, though the driver hangs on; the charge stands, and the retry is free.
        with pytest.raises(ReleaseFailed) as failed:
            running.result(PATIENCE)
    assert failed.value.can_retry
    spent = db.budget("one").spent
    engine.free.set()
    question.release(epsilon="0.7")
    assert db.budget("one").spent == spent


def test_leaving_ends_a_count_and_its_question_is_answered_later(
    db: Session, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charge, "CANCEL_STEP", 0.2)
    question, engine.hung = db["one"].histogram("age"), "one"
    token = is_cancelled.set(engine.began.is_set)
    try:
        with pytest.raises(ReleaseCancelled) as left:
            question.release(epsilon="0.5", key="mine")
        with pytest.raises(WorkCancelled):
            question.release(epsilon="0.6")
    finally:
        is_cancelled.reset(token)
    assert (left.value.key, left.value.epsilon, left.value.can_retry) == ("mine", Fraction(1, 2), True)
    engine.free.set()
    assert question.release(epsilon="0.5", key="mine").epsilon == Fraction(1, 2)
    assert db.budget("one").spent == Fraction(1, 2)


def test_a_cap_gives_what_is_free_at_once_and_lets_the_rest_wait_or_leave(db: Session, engine: Engine) -> None:
    cap = SpendingCap(Fraction(1))

    def ask(name: str, epsilon: str) -> Fraction:
        return cap.charged(db, name, lambda left: db[name].histogram("age").release(epsilon=epsilon, spend=left))[1]

    assert ask("one", "0.25") == Fraction(1, 4)
    engine.hung = "one"
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(ask, "one", "0.5")
        assert engine.began.wait(PATIENCE)
        assert (ask("one", "0.25"), cap.left) == (0, 0)
        token = is_cancelled.set(lambda: True)
        with pytest.raises(WorkCancelled):
            ask("two", "0.125")
        is_cancelled.reset(token)
        waiting = pool.submit(ask, "two", "0.125")
        engine.free.set()
        assert (running.result(PATIENCE), waiting.result(PATIENCE)) == (Fraction(1, 4), Fraction(1, 8))
    assert cap.left == Fraction(3, 8)


def test_one_question_asked_by_many_threads_is_charged_and_counted_once(db: Session, engine: Engine) -> None:
    question, engine.hung = db["one"].histogram("age"), "one"
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(lambda: question.release(epsilon="0.5")) for _ in range(3)]
        assert engine.began.wait(PATIENCE)
        engine.free.set()
        assert len({one.result(PATIENCE).to_json() for one in asked}) == 1
    assert db.budget("one").spent == Fraction(1, 2)


def test_the_line_of_new_releases_is_bounded_and_can_be_left() -> None:
    turn, free, waited = AnalystTurn(), threading.Event(), list[bool]()

    def work() -> None:
        with turn.taken(), turn.alone("account", turn.waiting) as has_waited:
            waited.append(has_waited)
            with turn.waiting():
                free.wait(PATIENCE)

    with ThreadPoolExecutor(MOST_WAITING) as pool:
        running = [pool.submit(work) for _ in range(MOST_WAITING - 1)]
        while len(turn._lines.get("account", [])) < MOST_WAITING - 1:
            time.sleep(0.01)
        token = is_cancelled.set(lambda: True)
        with pytest.raises(WorkCancelled), turn.alone("account", turn.waiting):
            pass
        is_cancelled.reset(token)
        running.append(pool.submit(work))
        while len(turn._lines["account"]) < MOST_WAITING:
            time.sleep(0.01)
        with pytest.raises(RateLimited), turn.alone("account", turn.waiting):
            pass
        # Another dataset has a line of its own.
        with turn.taken(), turn.alone("other", turn.waiting) as has_waited, turn.alone("other", turn.waiting) as inner:
            assert (has_waited, inner) == (False, False)
        free.set()
        for one in running:
            one.result(PATIENCE)
    assert sorted(waited) == [False, *[True] * (MOST_WAITING - 1)]
    turn.close()
