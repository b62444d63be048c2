"""A table known row by row, policies of every kind, and questions of every kind with their truths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np

import blowfishdb as bf
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.predicate import Predicate
from blowfishdb.model.query import Query

AGES, SIDE, WARDS = 8, 4, ("A", "B", "C")
CAP = 2
ROWS = 360
PERSON = bf.person("pid", at_most=CAP, order_by="day")


@dataclass(frozen=True)
class Record:
    """One row of the table."""

    pid: int
    day: int
    age: int | None
    ward: str
    x: int
    y: int


def records() -> list[Record]:
    """Rows of people with one to five of them; ages are skewed, and some are NULL."""
    draw = np.random.default_rng(7)
    return [
        Record(
            pid=int(draw.integers(0, 140)),
            day=day,
            age=None if draw.random() < 0.05 else int(min(AGES - 1, draw.geometric(0.3) - 1)),
            ward=str(draw.choice(WARDS, p=[0.6, 0.3, 0.1])),
            x=int(draw.integers(0, SIDE)),
            y=int(draw.binomial(SIDE - 1, 0.3)),
        )
        for day in range(ROWS)
    ]


TABLE = records()


def capped() -> list[Record]:
    """The first CAP rows of each person."""
    seen: dict[int, int] = {}
    rows = []
    for record in sorted(TABLE, key=lambda row: row.day):
        seen[record.pid] = seen.get(record.pid, 0) + 1
        if seen[record.pid] <= CAP:
            rows.append(record)
    return rows


CAPPED = capped()


def write_tables(folder: Path, count: int) -> list[str]:
    """The table as often as asked for, since each has one account; their addresses."""
    path = folder / "world.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE t0 (pid INTEGER, day INTEGER, age INTEGER, ward VARCHAR, x INTEGER, y INTEGER)"
        )
        connection.executemany("INSERT INTO t0 VALUES (?, ?, ?, ?, ?, ?)", [[*vars(row).values()] for row in TABLE])
        for place in range(1, count):
            connection.execute(f"CREATE TABLE t{place} AS SELECT * FROM t0")
    return [f"duckdb:///{path}#t{place}" for place in range(count)]


SEXES, REGIONS = ("f", "m"), ("n", "s", "u")


def sex_of(pid: int) -> str | None:
    """What the table of people says; of a third of them nothing."""
    return (*SEXES, None)[pid % 3]


def region_of(pid: int) -> str:
    """The region of somebody's home; one of five homes is in no table, and so in the region that is unknown."""
    return "nsnsu"[pid % 5]


def write_joined(folder: Path, count: int) -> None:
    """A table of people for each of the first datasets, and one of homes for all."""
    people = [[pid, sex_of(pid), pid % 5] for pid in sorted({row.pid for row in TABLE})]
    with duckdb.connect(str(folder / "world.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE homes AS SELECT * FROM (VALUES (0, 'n'), (1, 's'), (2, 'n'), (3, 's')) h(code, region)"
        )
        for place in range(count):
            connection.execute(f"CREATE TABLE people{place} (id INTEGER, sex VARCHAR, home INTEGER)")
            connection.executemany(f"INSERT INTO people{place} VALUES (?, ?, ?)", people)


def joined_domain() -> bf.Domain:
    """The declared columns with those of people and of their homes."""
    sex = bf.categorical(list(SEXES), outside="f")
    region = bf.categorical(list(REGIONS), null="u", outside="u")
    return bf.domain({**{name: domain()[name] for name in domain()}, "sex": sex, "region": region})


def domain(*, null_public: bool = False) -> bf.Domain:
    """The declared columns; NULL ages are a cell of their own, hidden unless public."""
    return bf.domain(
        {
            "age": bf.integers(0, AGES - 1, null_public=null_public),
            "ward": bf.categorical(list(WARDS), null="A", outside="A"),
            "x": bf.integers(0, SIDE - 1, null=0),
            "y": bf.integers(0, SIDE - 1, null=0),
        }
    )


@dataclass(frozen=True)
class World:
    """A policy over the table: its domain, its accounting, and the rows that count under its unit."""

    policy: bf.Policy
    null_public: bool = False
    accounting: str = "sum"

    @property
    def domain(self) -> bf.Domain:
        """The declared columns."""
        return domain(null_public=self.null_public)

    @property
    def counted(self) -> list[Record]:
        """The rows that count: of each person the first CAP where the unit is the person."""
        return TABLE if self.policy.rows_per_person == 1 else CAPPED


def worlds() -> Mapping[str, World]:
    """One policy of each kind."""
    wards = [sum(row.ward == ward for row in TABLE) for ward in WARDS]
    return {
        "full": World(bf.Policy()),
        "threshold": World(bf.Policy({"age": bf.threshold(2)}), null_public=True),
        "threshold, NULL secret": World(bf.Policy({"age": bf.threshold(2)})),
        "line": World(bf.Policy({"age": bf.line(), "x": bf.line(), "y": bf.line()}), null_public=True),
        "partition": World(
            bf.Policy({"age": bf.partition(cuts=[4]), "ward": bf.partition([["A", "B"], ["C"]])}), null_public=True
        ),
        "custom": World(bf.Policy({"ward": bf.custom([("A", "B")]), "age": bf.custom([(0, 1), (1, 2), (5, 7)])}), True),
        "joint grid": World(bf.Policy(joint=[bf.grid(["x", "y"], 1, "l1")])),
        "attribute": World(bf.Policy({"ward": bf.public()}, composition="attribute")),
        "public ward": World(bf.Policy({"ward": bf.public(), "age": bf.public()}), null_public=True),
        "only": World(bf.Policy(presence="only")),
        "secret presence": World(bf.Policy({"ward": bf.public(), "age": bf.threshold(1)}, presence="secret"), True),
        "person": World(bf.Policy(unit=PERSON)),
        "person, only": World(bf.Policy(presence="only", unit=PERSON)),
        "rows known": World(bf.Policy(presence="secret", constraints=[f"rows = {ROWS}"])),
        "marginal known": World(bf.Policy({"age": bf.threshold(1)}, constraints=["marginal(ward)"]), True),
        "count known": World(bf.Policy(constraints=[f"count(ward = 'A') = {wards[0]}"])),
        "per-edge": World(bf.Policy({"age": bf.line()}), True, accounting="per-edge"),
        "per-edge by ward": World(bf.Policy({"ward": bf.public()}), accounting="per-edge by ward"),
    }


JOINED = {
    "joined": bf.Policy({"region": bf.public()}, unit=PERSON),
    "joined, presence secret": bf.Policy({"age": bf.line(), "region": bf.public()}, presence="secret", unit=PERSON),
    "joined, presence only": bf.Policy(presence="only", unit=PERSON),
}
"""Policies over the rows with people and homes joined to them."""
Truth = Callable[[Sequence[Record]], list[float]]


@dataclass(frozen=True)
class Asked:
    """A question, and its true answers from rows, in the order in which answers are shown."""

    query: Query
    truth: Truth


def _ages(rows: Sequence[Record]) -> list[float]:
    return [float(sum(row.age == value for row in rows)) for value in (*range(AGES), None)]


def running(rows: Sequence[Record]) -> list[float]:
    *plain, null = _ages(rows)
    return [*np.cumsum(plain).tolist(), null]


def _grid(rows: Sequence[Record]) -> list[float]:
    return [float(sum(row.x == x and row.y == y for row in rows)) for x in range(SIDE) for y in range(SIDE)]


def wards(rows: Sequence[Record]) -> list[float]:
    return [float(sum(row.ward == ward for row in rows)) for ward in WARDS]


def crossed(rows: Sequence[Record]) -> list[float]:
    """Records by age and ward."""
    pairs = [(row.age, row.ward) for row in rows]
    return [float(pairs.count((age, ward))) for age in (*range(AGES), None) for ward in WARDS]


def _known_ages(rows: Sequence[Record]) -> list[int]:
    return sorted(row.age for row in rows if row.age is not None)


def _quantiles(levels: Sequence[Fraction]) -> Truth:
    def truth(rows: Sequence[Record]) -> list[float]:
        ages = _known_ages(rows)
        return [float(ages[max(0, -(-int(level * len(ages) * 10**6) // 10**6) - 1)]) for level in levels]

    return truth


def _where(truth: Truth, keeps: Callable[[Record], bool]) -> Truth:
    return lambda rows: truth([row for row in rows if keeps(row)])


WEIGHTS = [[1, 1, 1, 1, 0, 0, 0, 0, 0], [2, 0, -1, 0, 3, 0, 0, 0, 1]]
"""Weighted sums of the ages, NULL last."""


def questions() -> Mapping[str, Asked]:
    """One question of each kind, with filters where they matter."""
    in_a: Predicate = bf.col("ward") == "A"
    boxes = (((0, 2), (0, 3)), ((1, 4), (2, 4)), ((0, 4), (0, 4)))
    levels = [Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)]
    return {
        "count": Asked(bf.query("count"), lambda rows: [float(len(rows))]),
        "count of A": Asked(bf.query("count", (), in_a), lambda rows: wards(rows)[:1]),
        "histogram": Asked(bf.query("histogram", "age"), _ages),
        "histogram of A": Asked(bf.query("histogram", "age", in_a), _where(_ages, lambda row: row.ward == "A")),
        "wards": Asked(bf.query("histogram", "ward"), wards),
        "cdf": Asked(bf.query("cdf", "age"), running),
        "ranges": Asked(
            bf.query("ranges", "age", boxes=[((0, 3),), ((2, 8),)]),
            lambda rows: [sum(_ages(rows)[0:3]), sum(_ages(rows)[2:8])],
        ),
        "rectangles": Asked(
            bf.query("ranges", ["x", "y"], boxes=boxes),
            lambda rows: [float(sum(a <= row.x < b and c <= row.y < d for row in rows)) for (a, b), (c, d) in boxes],
        ),
        "histogram2d": Asked(bf.query("histogram2d", ["x", "y"]), _grid),
        "marginals": Asked(bf.query("marginals", ["age", "ward"], ways=1), lambda rows: [*_ages(rows), *wards(rows)]),
        "sum": Asked(bf.query("sum", "age"), lambda rows: [float(sum(_known_ages(rows)))]),
        "sum of A": Asked(
            bf.query("sum", "age", in_a), _where(lambda rows: [float(sum(_known_ages(rows)))], lambda r: r.ward == "A")
        ),
        "mean": Asked(bf.query("mean", "age"), lambda rows: [float(np.mean(_known_ages(rows)))]),
        "linear": Asked(
            bf.query("linear", "age", linear=WEIGHTS),
            lambda rows: [float(np.dot(weights, _ages(rows))) for weights in WEIGHTS],
        ),
        "quantiles": Asked(bf.query("quantiles", "age", levels=levels), _quantiles(levels)),
    }


WORLDS, QUESTIONS = worlds(), questions()


def by_sex(rows: Sequence[Record]) -> list[float]:
    """Rows by the sex of whose they are, NULL last."""
    return [float(sum(sex_of(row.pid) == sex for row in rows)) for sex in (*SEXES, None)]


def people_of(rows: Sequence[Record]) -> list[Record]:
    """One row for each person."""
    return list({row.pid: row for row in rows}.values())


def _people_by_ward(rows: Sequence[Record]) -> list[float]:
    return [float(len({row.pid for row in rows if row.ward == ward})) for ward in WARDS]


def _rows_each(rows: Sequence[Record]) -> list[float]:
    """People with one, two, three and four rows, counted past any cap."""
    times = list(Counter(row.pid for row in TABLE).values())
    return [float(times.count(number)) for number in range(1, 5)]


PEOPLE = Aggregate("people", ("pid",), name="people")
OF_JOINED = {
    "sex": Asked(bf.query("histogram", "sex"), by_sex),
    "ages of women in the north": Asked(
        bf.query("histogram", "age", (bf.col("sex") == "f") & (bf.col("region") == "n")),
        _where(_ages, lambda row: sex_of(row.pid) == "f" and region_of(row.pid) == "n"),
    ),
    "people": Asked(bf.query("table", aggregates=[PEOPLE]), lambda rows: [float(len(people_of(rows)))]),
    "people by ward": Asked(bf.query("table", "ward", aggregates=[PEOPLE]), _people_by_ward),
    "people under 3": Asked(
        bf.query("table", (), bf.col("age") < 3, aggregates=[PEOPLE]),
        lambda rows: [float(len({row.pid for row in rows if row.age is not None and row.age < 3}))],
    ),
}
"""Questions about rows with what is joined to them, and about the people behind them."""
OF_PEOPLE = {
    "number": Asked(bf.query("count"), lambda rows: [float(len(people_of(rows)))]),
    "sex": Asked(bf.query("histogram", "sex"), lambda rows: by_sex(people_of(rows))),
    "rows": Asked(bf.query("ranges", "rows", boxes=[((place, place + 1),) for place in range(4)]), _rows_each),
}
"""Questions about people, one record each."""
