"""The application state: one ledger for all backends, the current file, and an end that ends what runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.errors import BudgetExceeded, DatasetPaused, InvalidInput, ReleaseCancelled, UnknownDataset
from blowfishdb.server.state import AppState, open_app_state
from blowfishdb.sources.base import Fetched
from blowfishdb.sources.duckdb import DuckDB
from tests.session.places import curator, make_fixture, visits


@pytest.fixture
def app_state(tmp_path: Path) -> Iterator[AppState]:
    make_fixture(tmp_path, visits(epsilon="1", per_analyst="0.8"))
    found = open_app_state(tmp_path / "blowfish.toml")
    yield found
    found.close()


def test_desks_are_kept_and_share_the_ledger(app_state: AppState) -> None:
    assert app_state.backend("ana") is app_state.backend(" ana ")
    assert app_state.backend("ana") is not app_state.backend("bob")
    app_state.session("ana")["visits"].histogram("ward").release(epsilon="0.7")
    assert app_state.session("bob").budget("visits").remaining == Fraction(3, 10)
    with pytest.raises(BudgetExceeded):
        app_state.session("bob")["visits"].histogram("ward").release(epsilon="0.7")
    with pytest.raises(InvalidInput):
        app_state.backend("")


def test_closing_a_session_or_a_curator_closes_nothing_of_others(app_state: AppState) -> None:
    with app_state.session("ana") as session:
        session["visits"].histogram("ward").release(epsilon="0.1")
    with app_state.curator("cora") as keeper:
        assert keeper.verify().is_sound
    assert app_state.session("ana").budget("visits").spent == Fraction(1, 10)


def test_a_session_leads_to_no_curator_and_no_ledger(app_state: AppState) -> None:
    session = app_state.session("ana")
    held = [
        vars(session),
        vars(session._backend),
        *(getattr(part, "__self__", None) for part in vars(session._backend).values()),
    ]
    assert not any(word in str(held) for word in ("Ledger", "Catalog", "Curator", "IbisSource"))


def test_changes_by_the_office_or_at_the_console_are_seen(app_state: AppState, tmp_path: Path) -> None:
    session = app_state.session("ana")
    assert session["visits"].policy == bf.Policy({"age": bf.threshold(5)})
    app_state.curator("cora").set_policy("visits", bf.Policy({"age": bf.threshold(7)}), reason="wider")
    assert session["visits"].policy == bf.Policy({"age": bf.threshold(7)})
    assert session["visits"].histogram("ward").release(epsilon="0.1").policy_version == 2
    with curator(tmp_path) as console:
        console.remove("visits")
    with pytest.raises(UnknownDataset):
        session["visits"]
    with curator(tmp_path) as console:
        console.add(visits(bf.Policy({"age": bf.threshold(7)}), epsilon="1", per_analyst="0.8"))
    assert session["visits"].histogram("ward").preview(epsilon="0.1").epsilon == 0, "it was answered before"
    assert session["visits"].histogram("ward").preview(epsilon="0.2").left == Fraction(7, 10)


def test_a_pause_stops_questions_and_leaves_the_past(app_state: AppState) -> None:
    session = app_state.session("ana")
    session["visits"].histogram("ward").release(epsilon="0.1")
    app_state.pauses.pause("visits", by="cora", reason="moving")
    for ask in (session["visits"].histogram("ward").preview, session["visits"].histogram("ward").release):
        with pytest.raises(DatasetPaused, match="moving"):
            ask(epsilon="0.2")
    assert session.reopen("visits", session.history("visits")[0].number)
    app_state.pauses.resume("visits")
    assert app_state.pauses.of("visits") is None
    session["visits"].histogram("ward").preview(epsilon="0.2")


def test_warming_up_reads_no_rows(app_state: AppState, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: DuckDB, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        raise AssertionError("a row was read")

    monkeypatch.setattr(DuckDB, "fetch_columns", fail)
    app_state.warm_up()
    assert app_state.curator("cora").account("visits").charges == 0


def test_closing_ends_a_count_that_runs_and_its_question_is_answered_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_fixture(tmp_path)
    app_state = open_app_state(tmp_path / "blowfish.toml")
    reading, go_on, ended = threading.Event(), threading.Event(), []
    fetch = DuckDB.fetch_columns

    def slow(self: DuckDB, sql: str, deadline: float | None) -> Fetched:
        reading.set()
        go_on.wait(60)
        return fetch(self, sql, deadline)

    def ask(state: AppState) -> Answer:
        return state.session("ana")["visits"].histogram("ward").release(epsilon="0.1")

    def run() -> None:
        try:
            ask(app_state)
        except ReleaseCancelled as error:
            ended.append(error)

    monkeypatch.setattr(DuckDB, "fetch_columns", slow)
    runs = threading.Thread(target=run)
    runs.start()
    assert reading.wait(20)
    app_state.close()
    runs.join(20)
    assert [error.can_retry for error in ended] == [True]
    go_on.set()
    again = open_app_state(tmp_path / "blowfish.toml")
    assert ask(again).epsilon == again.curator("cora").account("visits").spent == Fraction(1, 10)
    again.close()


@pytest.mark.postgres
def test_several_servers_share_one_ledger_and_one_set_of_people(tmp_path: Path, postgres_url: str) -> None:
    path = tmp_path / "blowfish.toml"
    path.write_text(f'ledger = "{postgres_url}"\nmark = "blowfish.mark"\n\n[server]\nusers = "{postgres_url}"\n')
    make_fixture(tmp_path, visits(epsilon="1"))
    one, two = open_app_state(path), open_app_state(path)
    one.users.add("ana", "analyst", None)
    secret, _ = one.tokens.issue("ana", "t", ["ask"], 1)
    assert two.tokens.resume(secret) is not None
    refused: list[BudgetExceeded] = []

    def spend(app_state: AppState, name: str) -> None:
        for place in range(4):
            try:
                app_state.session(name)["visits"].histogram("ward").release(epsilon="0.3", key=f"{name}{place}")
            except BudgetExceeded as refusal:
                refused.append(refusal)

    # The same question of the same analyst would be replayed, so each asks on their own.
    threads = [
        threading.Thread(target=spend, args=(app_state, name))
        for app_state, name in ((one, "ana"), (two, "bob"), (one, "cid"), (two, "dan"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert one.curator("cora").account("visits").spent == Fraction(9, 10)
    assert refused
    one.pauses.pause("visits", by="cora", reason="enough")
    with pytest.raises(DatasetPaused):
        two.session("ana")["visits"].histogram("age").preview(epsilon="0.1")
    one.close()
    two.close()
