"""What an analyst holds leads to no source, no ledger and no count; what they send may be hostile."""

from __future__ import annotations

import datetime
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.catalog import Catalog, Config, Curator
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.preview import Preview
from blowfishdb.errors import (
    AccuracyError,
    BlowfishError,
    InternalError,
    QueryError,
    ReleaseFailed,
    SchemaDrift,
    TooLarge,
    UnknownDataset,
)
from blowfishdb.ledger import Ledger
from blowfishdb.model.predicate import Comparison, Predicate
from blowfishdb.session import Session
from blowfishdb.session.plan import QuestionPlan
from blowfishdb.session.table import Question
from blowfishdb.sources.base import Engine
from blowfishdb.sources.ibis_source import IbisCount, IbisSource
from tests.session.places import curator, make_fixture, session, visits

FORBIDDEN = (IbisSource, IbisCount, Engine, Ledger, DatasetHandle, Catalog, Config, Curator)


def reachable(*starts: object) -> Iterator[object]:
    """Everything that attributes, items and instance dictionaries lead to; functions are taken as closed."""
    waiting, seen = list(starts), set()
    while waiting:
        thing = waiting.pop()
        closed = isinstance(thing, str | bytes | int | float | type | types.ModuleType | types.BuiltinFunctionType)
        if id(thing) in seen or closed or isinstance(thing, types.FunctionType):
            continue
        seen.add(id(thing))
        yield thing
        if isinstance(thing, dict):
            waiting += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            waiting += list(thing)
        elif not isinstance(thing, np.ndarray):
            waiting += list(getattr(thing, "__dict__", {}).values())
            for kind in type(thing).__mro__:
                waiting += [getattr(thing, name) for name in getattr(kind, "__slots__", ()) if hasattr(thing, name)]
        if isinstance(thing, types.MethodType):
            waiting.append(thing.__self__)


def test_no_attribute_leads_to_the_data(db: Session) -> None:
    table = db["visits"].where(bf.col("age") < 50)
    question = table.histogram("ward")
    preview, answer = question.preview(alpha=50), question.release(alpha=50)
    true = np.array([500.0, 500.0, 500.0])
    found = list(reachable(db, table, question, preview, answer, question.release, db.sql, db.budget))
    assert len(found) > 50
    for thing in found:
        assert not isinstance(thing, FORBIDDEN), thing
        if isinstance(thing, np.ndarray) and thing.shape == true.shape and thing is not answer.raw:
            assert not np.array_equal(thing, true) or np.array_equal(answer.raw, true)
    for thing in (db, table, question, preview, answer):
        assert "clinic.duckdb" not in f"{thing!r}{thing}"


def test_the_walk_would_find_a_source(tmp_path: Path) -> None:
    path = make_fixture(tmp_path)
    with bf.curate(path) as keeper:
        keeper.account("visits")
        assert any(isinstance(thing, FORBIDDEN) for thing in reachable(keeper))


def test_an_error_carries_no_frames_of_the_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_fixture(tmp_path)
    db = session(tmp_path)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("cannot cast 'Mr Secret'")

    monkeypatch.setattr(IbisCount, "run", broken)
    with pytest.raises(ReleaseFailed) as failure:
        db["visits"].histogram("age").release(alpha=50)
    error = failure.value
    assert error.__cause__ is None
    assert error.__context__ is None
    text = "".join(traceback.format_exception(error))
    assert "Secret" not in text
    frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
    assert "_measured" not in frames
    assert "charged_payload" not in frames


def test_a_real_engine_failure_is_an_incident(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    db = session(tmp_path)
    question = db["visits"].histogram("age")
    question.preview(alpha=50)
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        connection.execute("ALTER TABLE visits RENAME TO kept")
        connection.execute("CREATE VIEW visits AS SELECT id, CAST(ward AS BIGINT) AS age, ward, cost FROM kept")
    with pytest.raises(ReleaseFailed) as failure:
        question.release(alpha=50)
    assert "A1" not in str(failure.value)
    assert failure.value.can_retry
    # The charge waits for its answer, and the price of asking again says so.
    paid, again, other = db.budget("visits").spent, question.preview(alpha=50), question.preview(alpha=49)
    assert paid > 0 == again.epsilon < other.epsilon
    assert any("paid for it on" in line and "has no answer yet" in line for line in again.notes())
    assert question.preview(alpha=50, fresh=True).epsilon > 0
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        connection.execute("DROP VIEW visits")
        connection.execute("ALTER TABLE kept RENAME TO visits")
    answer = question.release(alpha=50)
    assert db.budget("visits").spent == paid == answer.epsilon
    assert any("covers it" in line for line in question.preview(alpha=50).notes())


def test_a_table_that_changed_is_noticed_before_the_charge(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    db = session(tmp_path)
    question = db["visits"].histogram("age")
    question.preview(alpha=50)
    for change, told in (
        ("ALTER age TYPE DATE USING DATE '2024-01-01'", "DATE"),
        ("DROP age", "no column 'age'"),
        (None, "no table"),
    ):
        with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
            connection.execute("DROP TABLE visits" if change is None else f"ALTER TABLE visits {change}")
        with pytest.raises(SchemaDrift, match=told):
            question.release(alpha=50)
    assert db.budget("visits").spent == 0


class Shifty(str):
    """A text that pretends to be another one."""

    def __str__(self) -> str:
        return "A1"


@pytest.mark.parametrize(
    "condition",
    [
        lambda: bf.col("ward") == Shifty("A2"),
        lambda: bf.col("ward") == object(),
        lambda: bf.col("ward").isin([["A1"]]),
        lambda: bf.col("age") == 10**100,
        lambda: bf.col("ward") == "x" * 10**6,
        lambda: bf.col("age; DROP TABLE visits") == 1,
        lambda: bf.col("ward") == "'; DROP TABLE visits; --",
        lambda: bf.col("ward") == None,  # noqa: E711
        lambda: bf.col("age") == float("nan"),
        lambda: bf.col("age") == Decimal("sNaN"),
        lambda: bf.col("age") < datetime.date(2024, 1, 1),
        lambda: bf.col("age") == True,  # noqa: E712
    ],
)
def test_odd_values_are_refused(db: Session, condition: Callable[[], Predicate]) -> None:
    with pytest.raises(BlowfishError) as refusal:
        db["visits"].where(condition()).count().release(alpha=50)
    assert not isinstance(refusal.value, ReleaseFailed)
    assert db.budget("visits").spent == 0


def test_names_with_quotes_and_markup_are_only_names(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "odd.duckdb")) as connection:
        connection.execute('CREATE TABLE t AS SELECT range % 4 AS "a""b; DROP TABLE t" FROM range(40)')
    name = 'a"b; DROP TABLE t'
    dataset = bf.Dataset(
        "odd <b>", source="duckdb:///odd.duckdb#t", domain={name: bf.integers(0, 3, null=0)}, epsilon="100"
    )
    make_fixture(tmp_path, None)
    with bf.curate(tmp_path / "blowfish.toml") as keeper:
        keeper.add(dataset)
    answer = session(tmp_path)["odd <b>"].histogram(name).release(epsilon="50")
    assert answer.raw.tolist() == [10.0, 10.0, 10.0, 10.0]


def test_deep_and_long_conditions_are_refused_not_crashed(db: Session) -> None:
    condition: object = bf.col("age") == 1
    for _ in range(20_000):
        condition = ~condition  # type: ignore[operator]
    with pytest.raises(TooLarge):
        db["visits"].where(condition).count().preview(alpha=10)  # type: ignore[arg-type]
    many = bf.col("age") == 1
    for age in range(400):
        many = many | (bf.col("age") == age % 100)  # type: ignore[assignment]
    with pytest.raises(TooLarge):
        db["visits"].where(many).count().preview(alpha=10)


class Moody(Comparison):
    """A condition that changes its mind."""

    @property
    def value(self) -> object:  # type: ignore[override]
        return "A1"


def test_only_plain_conditions_are_asked(db: Session) -> None:
    moody = object.__new__(Moody)
    with pytest.raises(QueryError, match="Moody"):
        db["visits"].where(moody).count().preview(alpha=10)
    with pytest.raises(QueryError, match="whole number"):
        db["visits"].marginals("age", "ward", ways="2").preview(alpha=10)  # type: ignore[arg-type]


def test_a_change_of_policy_reaches_an_open_session(tmp_path: Path) -> None:
    path = make_fixture(tmp_path)
    db = session(tmp_path)
    before = db["visits"].histogram("age").preview(epsilon=1, mechanism="identity")
    old = db["visits"].ranges("cost", [(0, 10)])
    other = {**dict(db["visits"].domain.attributes), "cost": bf.bins(5, 500, width=1)}
    with bf.curate(path) as keeper:
        keeper.set_policy("visits", bf.Policy({"age": bf.public()}), reason="ages are known")
        keeper.set_domain("visits", other, reason="nothing costs less than 5")
    after = db["visits"].histogram("age").preview(epsilon=1, mechanism="identity")
    assert before.alpha > after.alpha == 0
    with pytest.raises(QueryError, match="anew"):
        old.release(epsilon=1)


def test_a_listener_that_fails_costs_no_second_charge(db: Session) -> None:
    def listen(step: str) -> None:
        if step == "answer":
            raise RuntimeError("not now")

    question = db["visits"].histogram("ward")
    with pytest.raises(InternalError):
        question.release(epsilon=1, progress=listen)
    spent = db.budget("visits").spent
    question.release(epsilon=1)
    assert db.budget("visits").spent == spent == 1


@pytest.mark.no_cover
def test_huge_questions_are_refused_in_time(db: Session) -> None:
    with pytest.raises(TooLarge):
        db["visits"].ranges("age", [(0, 1)] * 200_000).preview(alpha=10)
    with pytest.raises(QueryError):
        db["visits"].quantiles("age", [0.5] * 5000)


def test_analysts_have_names(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    for name in ("", "a\u200b\nb", "x" * 1000, 7, None):
        with pytest.raises(BlowfishError):
            session(tmp_path, name)  # type: ignore[arg-type]


def test_two_analysts_are_charged_apart(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    ana, ben = session(tmp_path, "ana"), session(tmp_path, "ben")
    ana["visits"].histogram("age").release(epsilon="0.5")
    assert ben.budget("visits").spent == 0
    assert ben.budget("visits").dataset_remaining == ana.budget("visits").dataset_remaining


def test_mistakes_are_told_when_they_are_made(db: Session) -> None:
    table = db["visits"]
    with pytest.raises(QueryError, match="did you mean 'age'"):
        table.histogram("agee")
    with pytest.raises(QueryError, match="did you mean 'age'"):
        table.where(bf.col("agee") > 3)
    with pytest.raises(QueryError, match="known are 'A1'"):
        table.where(bf.col("ward") == "Z9")


def test_spaces_around_a_name_make_no_other_analyst(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    assert session(tmp_path, " ana ").analyst == "ana"
    with pytest.raises(BlowfishError, match="analyst's name"):
        session(tmp_path, "  ")


@pytest.mark.parametrize("name", ["visits", "VISITS", "Visits", "public.visits", "PUBLIC.Visits", '"visits"'])
def test_a_statement_names_its_dataset_as_sql_does(db: Session, name: str) -> None:
    preview = db.sql(f"EXPLAIN SELECT COUNT(*) FROM {name}", alpha=50)
    assert isinstance(preview, Preview)
    several = db.sql(
        f"EXPLAIN SELECT COUNT(*) FROM {name}; EXPLAIN SELECT age, COUNT(*) FROM {name} v GROUP BY v.age", alpha=50
    )
    assert isinstance(several, QuestionPlan)
    assert several.dataset == "visits"


@pytest.mark.parametrize("name", ['"VISITS"', "other.visits", "visit"])
def test_a_quoted_name_is_that_name_alone(db: Session, name: str) -> None:
    with pytest.raises((UnknownDataset, QueryError)):
        db.sql(f"EXPLAIN SELECT COUNT(*) FROM {name}", alpha=50)


def test_names_that_differ_in_case_alone_are_told_apart(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    with curator(tmp_path) as keeper:
        keeper.add(replace(visits(), name="Visits"))
    db = session(tmp_path)
    for name in ("visits", "Visits"):
        preview = db.sql(f"EXPLAIN SELECT COUNT(*) FROM {name}", alpha=50)
        assert isinstance(preview, Preview)
        assert preview.dataset == name
    with pytest.raises(UnknownDataset):
        db.sql("EXPLAIN SELECT COUNT(*) FROM VISITS", alpha=50)


def questions(db: Session) -> list[Question]:
    table = db["visits"]
    return [
        table.count(),
        table.histogram("age"),
        table.cdf("age"),
        table.sum("cost"),
        table.mean("cost"),
        table.quantiles("age", levels=[0.5]),
        table.where(bf.col("age") > 3).histogram("ward"),
        table.ranges("age"),
    ]


@pytest.mark.parametrize("place", range(8))
@pytest.mark.parametrize("mechanism", [None, "auto", "dawa"])
def test_an_epsilon_beyond_all_noise_is_refused_with_the_range(db: Session, place: int, mechanism: str | None) -> None:
    with pytest.raises(AccuracyError, match="epsilon is more than 0, and at most 1000 here"):
        questions(db)[place].preview(epsilon=1001, mechanism=mechanism)
    assert db.budget("visits").spent == 0
