"""The whole way on PostgreSQL: the rows, a joined table and the ledger on one server; secrets from outside."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.errors import BlowfishError, BudgetExceeded

pytestmark = pytest.mark.postgres


@pytest.fixture
def config(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE wards (id text, area text)")
        connection.execute("INSERT INTO wards VALUES ('w0', 'north'), ('w1', 'south'), ('w2', 'south')")
        connection.execute(
            "CREATE TABLE visits AS SELECT i AS key, i % 50 AS patient, i % 20 AS age, 'w' || i % 3 AS ward"
            " FROM generate_series(0, 599) AS t(i)"
        )
    monkeypatch.setenv("CLINIC", postgres_url)
    path = tmp_path / "blowfish.toml"
    path.write_text('ledger = "${CLINIC}"\nmark = "mark"\n')
    with bf.curate(path) as curator:
        curator.add(
            bf.Dataset(
                "visits",
                source="${CLINIC}#visits",
                domain={
                    "age": bf.integers(0, 19, null=0),
                    "area": bf.categorical(["north", "south"], null="north", outside="north"),
                },
                policy=bf.Policy(unit=bf.person("patient", at_most=3, order_by="key")),
                epsilon="20",
                joins=[bf.Join("wards", "ward", "id", {"area": "area"})],
            )
        )
    return path


def test_a_release_with_a_join_and_a_bound_on_persons(config: Path) -> None:
    with bf.connect(config, analyst="ana") as db:
        answer = db["visits"].histogram("area").release(epsilon="15", mechanism="identity")
        # The first three visits of each of 50 patients are the keys 0..149: every third one is in the north.
        assert abs(answer.raw[0] - 50) < 15
        assert abs(answer.raw[1] - 100) < 15
        assert "CLINIC" not in repr(db) + str(answer)


def test_a_race_for_the_last_of_the_budget(config: Path) -> None:
    results: list[object] = []

    def ask(analyst: str) -> None:
        try:
            with bf.connect(config, analyst=analyst) as db:
                ages = db["visits"].histogram("age")
                results.append(ages.release(epsilon="7", mechanism="identity", fresh=True).epsilon)
        except BlowfishError as error:
            results.append(error)

    threads = [threading.Thread(target=ask, args=(f"analyst {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(isinstance(result, BudgetExceeded) for result in results) == [False, False, True, True]
    with bf.curate(config) as curator:
        assert curator.account("visits").spent == 14
        assert curator.verify().is_sound
