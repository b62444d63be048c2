"""All that leaves with an answer is measured, declared public or derived from these.

Every kind of question is asked of two neighbouring tables, and all measurements are forced to be the same: the counts
that noise is added to are those of a third table. Whatever differs then came to the analyst beside the noise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine import measure, points, release, sharing
from blowfishdb.errors import BlowfishError
from blowfishdb.model.numbers import Ints
from blowfishdb.session import Session

WARDS = ["A1", "A2", "B1"]
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(\+00:00|Z)?")
FIRST = (0, "p", "A1", 30, 100)
CHANGED = {"ward": (0, "p", "A2", 30, 100), "all": (0, "p", None, 71, 463)}
"""The first record as it is in the other tables. Its person has another row in the first ward."""
AGE = bf.col("age")
IN_SQL = (
    "SELECT ward, COUNT(*) AS n, SUM(cost) AS total, AVG(cost) AS mean FROM {} GROUP BY ward",
    "SELECT ward, COUNT(*) AS n FROM {} GROUP BY ward HAVING n > 5 ORDER BY n DESC",
    "SELECT ward FROM {} GROUP BY ward HAVING COUNT(*) > 5",
    "SELECT ward, MEDIAN(age) AS m FROM {} GROUP BY ward",
    "SELECT AVG(cost) AS mean, STDDEV(cost) AS s FROM {} WHERE age < 40",
    "SELECT COUNT(*) AS n FROM {} WHERE ward = 'A1' OR age < 3",
)
OF_PERSONS = (
    "SELECT ward, COUNT(DISTINCT patient) AS n FROM {} GROUP BY ward",
    "SELECT ward, COUNT(DISTINCT patient) AS n, COUNT(*) AS visits FROM {} GROUP BY ward",
    "SELECT COUNT(DISTINCT patient) AS n FROM {} WHERE age < 40",
    "SELECT COUNT(DISTINCT patient) AS n FROM {}",
)
Asked = Callable[[Session, str], object]


def asked() -> dict[str, Asked]:
    """A question of every kind, of a dataset that it is given by name; the second ones build on the first ones."""
    kinds: dict[str, Callable[[bf.Table], bf.Question]] = {
        "count": lambda table: table.where(AGE >= 30).count(),
        "all": lambda table: table.count(),
        "histogram": lambda table: table.histogram("ward"),
        "filtered": lambda table: table.where(AGE < 40).histogram("ward"),
        "heat map": lambda table: table.histogram2d("ward", AGE.bins(20)),
        "cdf": lambda table: table.cdf("age"),
        "ranges": lambda table: table.ranges(AGE.bins(20)),
        "marginals": lambda table: table.marginals("ward", AGE.bins(50), ways=1),
        "sum": lambda table: table.sum("cost"),
        "mean": lambda table: table.where(AGE < 40).mean("cost"),
        "quantiles": lambda table: table.quantiles("age", [0.25, 0.5]),
        "top": lambda table: table.top(2, "ward"),
        "names": lambda table: table.top(2, "ward", names_only=True),
    }
    questions: dict[str, Asked] = {
        name: lambda db, of, kind=kind: kind(db[of]).release(epsilon="1/4")  # type: ignore[misc]
        for name, kind in kinds.items()
    }
    for mechanism in ("identity", "dawa"):
        questions[f"cdf by {mechanism}"] = lambda db, of, by=mechanism: (  # type: ignore[misc]
            db[of].cdf("age").release(epsilon="1/4", mechanism=by)
        )
    for text in (*IN_SQL, *OF_PERSONS):
        questions[text] = lambda db, of, text=text: db.sql(text.format(of), epsilon="1/4")  # type: ignore[misc]
    return {
        **questions,
        "more": lambda db, of: db[of].histogram("ward").release(epsilon="1/2"),
        "less": lambda db, of: db[of].histogram("ward").release(epsilon="1/8"),
        "read off": lambda db, of: db[of].where(bf.col("ward") == "A1").count().release(alpha=1000),
        "synopsis": lambda db, of: db[of].histogram("ward", AGE.bins(20)).publish(epsilon="1/4"),
    }


@contextmanager
def forced(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Measurements of a table that is always the same, with noise that is always the same."""

    def of_third(counts: Ints, cells: int) -> Ints:
        assert counts.shape == (cells,)
        return np.arange(cells, dtype=np.int64) % 7

    def noise(unit: object, weights: Any, size: int | None = None) -> Ints:
        del unit
        return np.arange(np.size(weights) if size is None else size, dtype=np.int64) % 3

    weighed = measure.measure_points
    with patch.context() as held:
        held.setattr(measure, "certified_draws", lambda *noise: nullcontext())
        held.setattr(measure, "checked_counts", of_third)
        held.setattr(measure, "sample", noise)
        held.setattr(measure, "sample_geometric", noise)
        held.setattr(measure, "sample_words", lambda size, bits: np.arange(size, dtype=np.int64))
        held.setattr(measure, "sample_quantiles", lambda records, gaps, unit: np.arange(len(gaps) - 1, dtype=np.int64))
        held.setattr(measure, "draw_between", lambda *of: noise(*of[-2:]))
        held.setattr(measure, "draw_coarser", lambda *of: noise(*of[-2:]))
        held.setattr(points, "measure_points", lambda plan, counts: weighed(plan, of_third(counts, counts.size)))
        yield


def write_tables(folder: Path, first: tuple[object, ...]) -> None:
    with duckdb.connect(str(folder / "clinic.duckdb")) as engine:
        engine.execute("CREATE TABLE visits (row INTEGER, patient TEXT, ward TEXT, age INTEGER, cost INTEGER)")
        others = [(1, "p", "A1", 30, 20), *((i, f"q{i // 2}", WARDS[i % 3], i % 90, 7 * i % 500) for i in range(2, 60))]
        engine.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", [first, *others])
        engine.execute("CREATE TABLE persons AS SELECT * FROM visits")
    (folder / "blowfish.toml").write_text('ledger = "sqlite:///b.ledger"\nmark = "b.mark"\n', encoding="utf-8")
    domain = {
        "ward": bf.categorical(WARDS, null="A1", outside="A1"),
        "age": bf.integers(0, 99, null=0),
        "cost": bf.integers(0, 500, null=0),
    }
    with bf.curate(folder / "blowfish.toml", by="cora") as curator:
        for name, unit in (("visits", None), ("persons", bf.person("patient", at_most=2, order_by="row"))):
            policy = bf.Policy() if unit is None else bf.Policy(unit=unit)
            source = f"duckdb:///clinic.duckdb#{name}"
            curator.add(bf.Dataset(name, source=source, domain=domain, policy=policy, epsilon="99"))


def words_of(answer: object) -> list[str]:
    """All that an answer or a synopsis tells, on every face that makes something of it."""
    if not isinstance(answer, bf.Answer):
        return [repr(answer), str(answer)]
    return [answer.to_json(), str(answer), repr(answer), answer.note(), answer._repr_html_(), str(answer.rows())]


def told(folder: Path, patch: pytest.MonkeyPatch, kinds: Mapping[str, Asked]) -> dict[str, list[str]]:
    """What ana is told of each kind of question, of her history and of her budget; and the charges in the ledger."""
    leaves: dict[str, list[str]] = {}
    with forced(patch), bf.connect(folder / "blowfish.toml", analyst="ana") as db:
        for name, question in kinds.items():
            for dataset in ("visits", "persons"):
                if (name in OF_PERSONS and dataset == "visits") or (dataset == "persons" and "dawa" in name):
                    continue
                try:
                    words = words_of(question(db, dataset))
                except BlowfishError as error:
                    words = [error.code, error.message]
                leaves[f"{dataset}: {name}"] = [TIME.sub("", word) for word in words]
        for dataset in ("visits", "persons"):
            leaves[f"{dataset}: books"] = [
                TIME.sub("", str(db.history(dataset))),
                str(db.budget(dataset)),
                str([TIME.sub("", str(one)) for one in db.synopses(dataset)]),
                str(db[dataset].histogram("age").preview(alpha=20)),
            ]
    with bf.curate(folder / "blowfish.toml", by="cora") as curator:
        bodies = [dict(entry.fields) for entry in curator.entries() if entry.kind == "charge"]
        leaves["charges"] = [json.dumps({**body, "at": ""}, sort_keys=True) for body in bodies]
    return leaves


@pytest.fixture(scope="module")
def of_first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, list[str]]]]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        yield home, in_place(home, FIRST, patch, asked())


def in_place(
    home: Path, first: tuple[object, ...], patch: pytest.MonkeyPatch, kinds: Mapping[str, Asked]
) -> dict[str, list[str]]:
    """What is told of a table, which always lies in the same folder: an account goes by its place."""
    folder = home / "here"
    folder.mkdir()
    write_tables(folder, first)
    leaves = told(folder, patch, kinds)
    folder.rename(home / f"done {len(list(home.iterdir()))}")
    return leaves


@pytest.mark.parametrize("change", CHANGED)
def test_what_was_not_measured_is_the_same_for_neighbouring_tables(
    of_first: tuple[Path, dict[str, list[str]]], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    home, before = of_first
    after = in_place(home, CHANGED[change], monkeypatch, asked())
    assert [name for name in before if before[name] != after[name]] == []


def test_a_number_beside_the_noise_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The companion: a total of all cells, whoever may leave them."""
    kinds = {name: question for name, question in asked().items() if name in ("filtered", "histogram")}
    for module in (release, sharing):
        monkeypatch.setattr(module, "public_total", lambda compiled, counts: float(counts.sum()))
    before, after = (in_place(tmp_path, first, monkeypatch, kinds) for first in (FIRST, CHANGED["all"]))
    assert [name for name in before if before[name] != after[name]] == ["visits: filtered", "persons: filtered"]
