"""Every kind of question in Python and in SQL, and neighbouring tables under every kind of policy to ask them of."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from blowfishdb.analysis.kmeans import kmeans
from blowfishdb.analysis.olap import cube
from blowfishdb.analysis.synthetic_rows import synthetic_rows
from blowfishdb.audit.twins import ANALYST, CURATOR, DATA, Heard, Sitting, Twins, TwinTable, tell
from blowfishdb.catalog import Dataset, curate
from blowfishdb.engine.request import Number
from blowfishdb.mechanisms.table import DATA_AWARE, MECHANISMS
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.calendar import dates
from blowfishdb.model.domain import Domain, bins, categorical, domain, integers
from blowfishdb.model.policy import Family, Policy, full, grid, line, person, public, threshold
from blowfishdb.model.predicate import Column
from blowfishdb.session.session import Session, connect
from blowfishdb.session.table import Question, Table
from blowfishdb.sources.base import Join

AGE, WARD, COST, DAY = Column("age"), Column("ward"), Column("cost"), Column("day")
Asked: TypeAlias = Callable[[Session, str], object]
"""A question of a dataset, to its end: the session and the name of the dataset lead to all that is told."""


def question(
    make: Callable[[Table], Question],
    *,
    alpha: Number | None = None,
    epsilon: Number | None = None,
    mechanism: str | None = None,
) -> Asked:
    """The preview of a question, its answer, and the answer once more."""

    def ask(session: Session, name: str) -> object:
        asked = make(session[name])
        preview = asked.preview(alpha=alpha, epsilon=epsilon, mechanism=mechanism)
        answers = [asked.release(alpha=alpha, epsilon=epsilon, mechanism=mechanism) for _ in range(2)]
        return [preview, *answers]

    return ask


def statement(text: str, epsilon: Number | None = None) -> Asked:
    """The preview of a statement and its answer; {} stands for the dataset."""

    def ask(session: Session, name: str) -> object:
        asked = text.replace("{}", name)
        return [session.sql(f"EXPLAIN {asked}", epsilon=epsilon), session.sql(asked, epsilon=epsilon)]

    return ask


def synopsis(session: Session, name: str) -> object:
    """A synopsis, and everything that is worked out of it."""
    asked = session[name].histogram(AGE.bins(4), WARD)
    found = asked.publish(epsilon="1/2")
    answers = [
        found.histogram(AGE.bins(8)),
        found.where(WARD == "D").count(),
        found.mean(AGE),
        cube(found, WARD).answer,
    ]
    rows = synthetic_rows(found).to_arrow().to_pydict()
    return [asked.publish_preview(epsilon="1/2"), found, *answers, str(rows), session.synopses(name)]


def clusters(session: Session, name: str) -> object:
    """The weights on points behind k-means, and the centres."""
    found = kmeans(session[name].columns(["age", "cost"]), 2, epsilon="1/2")
    return [found.released, f"{found!r} {found.cluster_centers_.tolist()}"]


def several(session: Session, name: str) -> object:
    """Several questions of one plan."""
    table = session[name]
    plan = session.plan([table.histogram(WARD), (table.cdf(AGE), 30), table.sum(COST)], alpha=40)
    return [plan, plan.release()]


def levels(session: Session, name: str) -> object:
    """The same rows at several levels, which share their noise, and a question that rests on them."""
    asked = session[name].histogram(AGE.bins(2))
    answers = [asked.release(epsilon=epsilon) for epsilon in ("1/4", "1", "1/2", "1/8", "2")]
    coarser = session[name].histogram(AGE.bins(4))
    return [*answers, coarser.preview(alpha=40), coarser.release(alpha=40), asked.release(epsilon="1/2", fresh=True)]


def too_much(session: Session, name: str) -> object:
    """A question beyond every budget."""
    return session[name].histogram(AGE).release(epsilon=999)


def nonsense(session: Session, name: str) -> object:
    """A question about what is not declared."""
    return session.sql(f"SELECT nobody, COUNT(*) FROM {name} GROUP BY nobody", epsilon=1)


def count_people(table: Table) -> Question:
    """How many persons there are in each ward."""
    return table.people(WARD)


def by_ward(*aggregates: Aggregate) -> Callable[[Table], Question]:
    """Aggregates of each ward."""
    return lambda table: table.aggregate(*aggregates, by=[WARD], rows=10)


PYTHON: Mapping[str, Asked] = {
    "count": question(Table.count, epsilon="1/4"),
    "count of a filter": question(lambda t: t.where((AGE >= 4) & (WARD == "D")).count(), alpha=20),
    "histogram": question(lambda t: t.histogram(WARD), epsilon="1/4"),
    "histogram of a filter": question(lambda t: t.where(~(WARD == "A") | (AGE < 3)).histogram(AGE), alpha=50),
    "histogram of two": question(lambda t: t.histogram2d(AGE.bins(4), WARD), epsilon="1/3"),
    "several columns": question(lambda t: t.histogram(AGE.bins(4), WARD, COST.bins(50)), epsilon="1/3"),
    "cdf": question(lambda t: t.cdf(AGE), epsilon="1/2"),
    "ranges": question(lambda t: t.ranges(AGE, [(0, 4), (2, 9)]), alpha=30),
    "rectangles": question(lambda t: t.rectangles([AGE, COST], [[(0, 4), (0, 50)], [(2, 9), (20, 80)]]), epsilon="1/2"),
    "marginals": question(lambda t: t.marginals(AGE.bins(4), WARD, COST.bins(50)), epsilon="1/2"),
    "weighted sums": question(lambda t: t.linear([[1, 2, 0, -1, *[0] * 12], [0, 1, *[0] * 14]], AGE), epsilon="1/2"),
    "sum": question(lambda t: t.sum(COST), epsilon="1/2"),
    "mean": question(lambda t: t.mean(COST, rows=10), epsilon="1/2"),
    "mean, rows unknown": question(lambda t: t.mean(COST), alpha=40),
    "quantiles": question(lambda t: t.quantiles(AGE, ["1/4", "1/2"]), epsilon="1/2"),
    "quantiles by rank": question(lambda t: t.quantiles(COST, ["1/2"]), epsilon=1, mechanism="exponential-quantiles"),
    "top": question(lambda t: t.top(2, WARD), epsilon="1/2"),
    "top, names only": question(lambda t: t.top(1, WARD, names_only=True), epsilon="1/2"),
    "table": question(
        by_ward(Aggregate("count"), Aggregate("sum", ("cost",)), Aggregate("mean", ("age",))), epsilon="1/2"
    ),
    "table with spreads": question(by_ward(Aggregate("stddev", ("cost",)), Aggregate("mean", ("cost",))), epsilon=1),
    "people": question(Table.people, epsilon="1/2"),
    "people by group": question(count_people, epsilon="1/2"),
    "percent": question(lambda t: t.histogram(WARD), alpha="50 %"),
    "synopsis": synopsis,
    "k-means": clusters,
    "plan": several,
    "levels": levels,
    "auto": question(lambda t: t.histogram(AGE), epsilon="1/2", mechanism="auto"),
    **{
        f"mechanism {name}": question(lambda t: t.cdf(AGE), epsilon="1/3", mechanism=name)
        for name in (*MECHANISMS, *DATA_AWARE)
        if name not in ("kronecker", "marginals", "joint", "kdtree", "cells")
    },
    **{
        f"mechanism {name}": question(lambda t: t.histogram2d(AGE, COST), epsilon="1/3", mechanism=name)
        for name in ("kronecker", "marginals", "kdtree", "cells")
    },
    "mechanism joint": question(
        by_ward(Aggregate("count"), Aggregate("sum", ("cost",))), epsilon="1/2", mechanism="joint"
    ),
    "too much": too_much,
}
"""Every kind of question and every mechanism."""
SQL: Mapping[str, Asked] = {
    "SQL, groups": statement("SELECT ward, COUNT(*), SUM(cost), AVG(age) FROM {} GROUP BY ward", "1/2"),
    "SQL, filter": statement("SELECT COUNT(*) FROM {} WHERE age >= 4 AND ward IN ('A', 'D') OPTIONS (alpha = 30)"),
    "SQL, CASE": statement(
        "SELECT CASE WHEN age < 4 THEN 'young' WHEN age < 9 THEN 'adult' ELSE 'old' END AS life, COUNT(*), AVG(cost) "
        "FROM {} GROUP BY life",
        "1/2",
    ),
    "SQL, HAVING": statement("SELECT ward, COUNT(*) AS n FROM {} GROUP BY ward HAVING COUNT(*) > 5 ORDER BY n", "1/2"),
    "SQL, HAVING, names": statement("SELECT ward FROM {} GROUP BY ward HAVING COUNT(*) > 5", "1/2"),
    "SQL, LIMIT": statement("SELECT ward, COUNT(*) AS n FROM {} GROUP BY ward ORDER BY n DESC LIMIT 2", "1/2"),
    "SQL, shares": statement(
        "SELECT ward, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM {} GROUP BY ward", "1/2"
    ),
    "SQL, arithmetic": statement(
        "SELECT ward, SUM(cost) / SUM(age) AS rate, COUNT(*) FILTER (WHERE age > 5) AS old FROM {} GROUP BY ward", 1
    ),
    "SQL, months": statement("SELECT DATE_TRUNC('month', day), COUNT(*) FROM {} GROUP BY 1", "1/2"),
    "SQL, quantiles by group": statement("SELECT ward, QUANTILES(age, 0.25, 0.5) FROM {} GROUP BY ward", "1/2"),
    "SQL, persons": statement("SELECT ward, COUNT(DISTINCT who), COUNT(*) FROM {} GROUP BY ward", "1/2"),
    "SQL, several": statement(
        "SELECT COUNT(*) FROM {} WHERE age < 5 OPTIONS (alpha = 20); SELECT ward, COUNT(*) FROM {} GROUP BY ward "
        "OPTIONS (alpha = 30)"
    ),
    "SQL, joined": statement("SELECT sex, floor, COUNT(*), AVG(age) FROM {} GROUP BY sex, floor", "1/2"),
    "SQL, unknown column": nonsense,
}


def account(session: Session, name: str) -> object:
    """What an analyst reads of a dataset at the end: the budget, the history, and every answer opened again."""
    history = session.history(name)
    again = [session.reopen(name, past.number) for past in history]
    return [session.budget(name), *history, *again, repr(session), repr(session[name])]


OF_CONTENT: Mapping[str, str] = {
    "mark": "the curator's digest of the rows, by which an upgrade knows that they are the same",
    "charge_hash": "covers earlier entries, and so their digests of rows",
}
"""Fields of entries that may depend on the rows, which only those who may audit see; and why."""


def curator_account(config: Path, name: str) -> object:
    """What a curator reads that may not depend on the rows: charges, balances, entries, and whether they verify."""
    with curate(config, by=CURATOR) as curator:
        entries = [
            {field: value for field, value in entry.fields.items() if field not in OF_CONTENT}
            for entry in curator.entries(name)
        ]
        is_sound = curator.verify().is_sound
        return [curator.account(name), *curator.analysts(name), *map(str, entries), f"verified: {is_sound}"]


def library(asked: Mapping[str, Mapping[str, Asked]]) -> Sitting:
    """Python and SQL in this process: for each dataset its questions, and what the accounts say afterwards."""

    def script(config: Path) -> Iterator[Heard]:
        for name, questions in asked.items():
            with connect(config, analyst=ANALYST) as session:
                for label, ask in {**questions, "account": account}.items():
                    yield from tell(f"{name}: {label}", partial(ask, session, name))
            yield from tell(f"{name}: curator's account", partial(curator_account, config, name))

    return script


DECLARED: Domain = domain(
    {
        "age": integers(0, 15, null=0),
        "ward": categorical(["A", "B", "C", "D"], null="A", outside="A"),
        "cost": bins(0, 100, width=10, null=0),
        "day": dates("2024-01-01", "2024-06-30", null="2024-01-01"),
    }
)
JOINED: Domain = domain(
    {
        **dict(DECLARED.attributes),
        "sex": categorical(["f", "m"], null="f", outside="f"),
        "floor": integers(0, 3, null=0),
    }
)
COLUMNS = {"nr": "BIGINT", "who": "VARCHAR", "age": "BIGINT", "ward": "VARCHAR", "cost": "DOUBLE", "day": "DATE"}
CrowdRow: TypeAlias = tuple[int, str, int, str, float, datetime.date]


def _row(number: int, who: str, age: int, ward: str, cost: float, month: int = 1) -> CrowdRow:
    return number, who, age, ward, cost, datetime.date(2024, month, 10)


CROWD: tuple[CrowdRow, ...] = tuple(
    _row(10 + i, f"p{i % 14}", i * 7 % 16, "ABC"[i % 3], i * 37 % 100 + 0.5, 1 + i % 6) for i in range(28)
)
"""The rows of both worlds; nobody is in ward D."""
PATIENTS, WARDS = {"who": "VARCHAR", "sex": "VARCHAR"}, {"ward": "VARCHAR", "floor": "BIGINT"}
TWO = person("who", at_most=2, order_by="nr")


@dataclass(frozen=True)
class Neighbourhood:
    """A policy, and the rows in which two tables differ that it hides from each other."""

    policy: Policy
    first: tuple[CrowdRow, ...]
    second: tuple[CrowdRow, ...]
    joins: tuple[Join, ...] = ()
    first_sex: str = "f"
    second_sex: str = "f"


ONE_ROW = (_row(1, "q", 3, "A", 15.0, 1),)
MOVED = (_row(1, "q", 5, "D", 25.0, 6),)
OF_PERSON = (_row(1, "q", 3, "A", 15.0), _row(2, "q", 14, "A", 95.0, 5), _row(3, "q", 3, "B", 1.0))
OTHERWISE = (_row(1, "q", 9, "D", 5.0, 3), _row(2, "q", 0, "B", 35.0, 2), _row(3, "q", 2, "B", 99.0))
STEPS: dict[str, Family] = {"age": threshold(2), "cost": line()}
JOINS = (
    Join("patients", "who", "who", ["sex"]),
    Join("wards", "ward", "ward", ["floor"]),
)
NEIGHBOURHOODS: Mapping[str, Neighbourhood] = {
    "everything": Neighbourhood(Policy(), ONE_ROW, OTHERWISE[:1]),
    "steps": Neighbourhood(Policy(STEPS), ONE_ROW, MOVED),
    "attributes": Neighbourhood(Policy(STEPS, "attribute"), ONE_ROW, (_row(1, "q", 3, "D", 15.0, 1),)),
    "grid": Neighbourhood(
        Policy({"ward": public(), "day": public()}, joint=[grid(["age", "cost"], 12, "l1")]),
        ONE_ROW,
        (_row(1, "q", 4, "A", 25.0, 1),),
    ),
    "presence": Neighbourhood(Policy({"age": full()}, presence="secret"), ONE_ROW, ()),
    "absence": Neighbourhood(Policy(presence="only"), (_row(1, "q", 15, "D", 95.0, 6),), ()),
    "persons": Neighbourhood(Policy(unit=TWO), OF_PERSON, OTHERWISE),
    "persons_gone": Neighbourhood(Policy(unit=TWO, presence="secret"), OF_PERSON, ()),
    "known": Neighbourhood(
        Policy(constraints=["count(ward = 'A')"]),
        (*ONE_ROW, _row(2, "r", 9, "B", 55.0)),
        (_row(1, "q", 3, "C", 15.0, 1), _row(2, "r", 12, "A", 75.0)),
    ),
    "marginal": Neighbourhood(Policy(constraints=["marginal(ward)"]), ONE_ROW, (_row(1, "q", 11, "A", 88.0, 4),)),
    "joined": Neighbourhood(Policy(unit=TWO), OF_PERSON, OTHERWISE, JOINS, "f", "m"),
}


def neighbouring(names: Sequence[str] = tuple(NEIGHBOURHOODS)) -> Twins:
    """Datasets under these policies, and their tables in two worlds."""
    datasets, worlds = [], ({}, {})  # type: tuple[list[Dataset], tuple[dict[str, TwinTable], dict[str, TwinTable]]]
    for name in names:
        one = NEIGHBOURHOODS[name]
        declared = JOINED if one.joins else DECLARED
        source = f"duckdb:///{DATA}#{name}"
        datasets.append(Dataset(name, source=source, domain=declared, policy=one.policy, epsilon=100, joins=one.joins))
        for world, rows, sex in ((worlds[0], one.first, one.first_sex), (worlds[1], one.second, one.second_sex)):
            # The rows that differ stand among the others.
            world[name] = TwinTable(COLUMNS, [*CROWD[:9], *rows, *CROWD[9:]])
            if one.joins:
                people = [(f"p{i}", "fm"[i % 2]) for i in range(14)]
                world["patients"] = TwinTable(PATIENTS, [*people, ("q", sex)])
                world["wards"] = TwinTable(WARDS, [("A", 0), ("B", 1), ("C", 1), ("D", 2)])
    return Twins(datasets, *worlds)


ALL: Mapping[str, Asked] = {**PYTHON, **SQL}
ONLY_OF: Mapping[str, tuple[str, ...]] = {
    "people": ("persons", "persons_gone", "joined"),
    "people by group": ("persons", "persons_gone", "joined"),
    "SQL, persons": ("persons", "persons_gone", "joined"),
    "SQL, joined": ("joined",),
    "mechanism ordered-hierarchical": ("steps", "attributes"),
}
"""Kinds of questions that few of the datasets answer."""


def rotated(turn: int = 0) -> Mapping[str, Mapping[str, Asked]]:
    """Every kind of question once, each time of another dataset that answers it; another turn begins elsewhere."""
    chosen: dict[str, dict[str, Asked]] = {name: {} for name in NEIGHBOURHOODS}
    for place, (label, ask) in enumerate(ALL.items()):
        names = ONLY_OF.get(label, tuple(NEIGHBOURHOODS))
        chosen[names[(place + turn) % len(names)]][label] = ask
    return chosen
