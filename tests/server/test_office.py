"""The office: one ledger for all desks, the file as it is now, and an end that waits for what runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.errors import BudgetExceeded, DatasetPaused, InvalidInput, UnknownDataset
from blowfishdb.server.state import Office, open_office
from blowfishdb.sources.duckdb import DuckDB
from tests.session.places import clinic, curator, visits


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    clinic(tmp_path, visits(epsilon="1", per_analyst="0.8"))
    found = open_office(tmp_path / "blowfish.toml")
    yield found
    found.close()


def test_desks_are_kept_and_share_the_ledger(office: Office) -> None:
    assert office.desk("ana") is office.desk(" ana ")
    assert office.desk("ana") is not office.desk("bob")
    office.session("ana")["visits"].histogram("ward").release(epsilon="0.7")
    assert office.session("bob").budget("visits").remaining == Fraction(3, 10)
    with pytest.raises(BudgetExceeded):
        office.session("bob")["visits"].histogram("ward").release(epsilon="0.7")
    with pytest.raises(InvalidInput):
        office.desk("")


def test_closing_a_session_or_a_curator_closes_nothing_of_others(office: Office) -> None:
    with office.session("ana") as session:
        session["visits"].histogram("ward").release(epsilon="0.1")
    with office.curator("cora") as keeper:
        assert keeper.verify().is_sound
    assert office.session("ana").budget("visits").spent == Fraction(1, 10)


def test_a_session_leads_to_no_curator_and_no_ledger(office: Office) -> None:
    session = office.session("ana")
    held = [
        vars(session),
        vars(session._desk),
        *(getattr(part, "__self__", None) for part in vars(session._desk).values()),
    ]
    assert not any(word in str(held) for word in ("Ledger", "Catalog", "Curator", "IbisSource"))


def test_changes_by_the_office_or_at_the_console_are_seen(office: Office, tmp_path: Path) -> None:
    session = office.session("ana")
    assert session["visits"].policy == bf.Policy({"age": bf.threshold(5)})
    office.curator("cora").set_policy("visits", bf.Policy({"age": bf.threshold(7)}), reason="wider")
    assert session["visits"].policy == bf.Policy({"age": bf.threshold(7)})
    assert session["visits"].histogram("ward").release(epsilon="0.1").policy_version == 2
    with curator(tmp_path) as console:
        console.remove("visits")
    with pytest.raises(UnknownDataset):
        session["visits"]
    with curator(tmp_path) as console:
        console.add(visits(bf.Policy({"age": bf.threshold(7)}), epsilon="1", per_analyst="0.8"))
    assert session["visits"].histogram("ward").preview(epsilon="0.1").epsilon == Fraction(1, 10)


def test_a_pause_stops_questions_and_leaves_the_past(office: Office) -> None:
    session = office.session("ana")
    session["visits"].histogram("ward").release(epsilon="0.1")
    office.pauses.pause("visits", by="cora", reason="moving")
    for ask in (session["visits"].histogram("ward").preview, session["visits"].histogram("ward").release):
        with pytest.raises(DatasetPaused, match="moving"):
            ask(epsilon="0.2")
    assert session.reopen("visits", session.history("visits")[0].number)
    office.pauses.resume("visits")
    assert office.pauses.of("visits") is None
    session["visits"].histogram("ward").preview(epsilon="0.2")


def test_warming_up_reads_no_rows(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: DuckDB, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        raise AssertionError("a row was read")

    monkeypatch.setattr(DuckDB, "fetch", fail)
    office.warm_up()
    assert office.curator("cora").account("visits").charges == 0


def test_closing_waits_for_a_release_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic(tmp_path)
    office = open_office(tmp_path / "blowfish.toml")
    reading, go_on, answers = threading.Event(), threading.Event(), []
    fetch = DuckDB.fetch

    def slow(self: DuckDB, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        reading.set()
        go_on.wait(20)
        return fetch(self, sql, deadline)

    monkeypatch.setattr(DuckDB, "fetch", slow)
    session = office.session("ana")
    runs = threading.Thread(target=lambda: answers.append(session["visits"].histogram("ward").release(epsilon="0.1")))
    runs.start()
    assert reading.wait(20)
    ends = threading.Thread(target=office.close)
    ends.start()
    time.sleep(0.1)
    assert ends.is_alive()
    go_on.set()
    runs.join()
    ends.join()
    assert len(answers) == 1


@pytest.mark.postgres
def test_several_servers_share_one_ledger_and_one_set_of_people(tmp_path: Path, postgres_url: str) -> None:
    path = tmp_path / "blowfish.toml"
    path.write_text(f'ledger = "{postgres_url}"\nmark = "blowfish.mark"\n\n[server]\nusers = "{postgres_url}"\n')
    clinic(tmp_path, visits(epsilon="1"))
    one, two = open_office(path), open_office(path)
    one.people.add("ana", "analyst", None)
    secret, _ = one.tokens.issue("ana", "t", ["ask"], 1)
    assert two.tokens.resume(secret) is not None
    refused: list[BudgetExceeded] = []

    def spend(office: Office, name: str) -> None:
        for place in range(4):
            try:
                office.session(name)["visits"].histogram("ward").release(epsilon="0.3", key=f"{name}{place}")
            except BudgetExceeded as refusal:
                refused.append(refusal)

    # The same question of the same analyst would be replayed, so each asks on their own.
    threads = [
        threading.Thread(target=spend, args=(office, name))
        for office, name in ((one, "ana"), (two, "bob"), (one, "cid"), (two, "dan"))
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
