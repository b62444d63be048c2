"""Days beside other attributes in PostgreSQL: every day of some years, dates far beyond, infinite ones, and NULL."""

from __future__ import annotations

import datetime
from collections import Counter

import pytest

from blowfishdb.model.calendar import Dates, dates
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import col
from blowfishdb.sources import open_source
from blowfishdb.sources.postgres import Postgres

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.postgres

FIRST, LAST = datetime.date(2019, 12, 17), datetime.date(2023, 4, 18)
DAYS = [FIRST + datetime.timedelta(days=number) for number in range(-3, (LAST - FIRST).days + 4)]
BEYOND = ["infinity", "-infinity", "0044-03-15 BC", "0001-01-01", "9999-12-31", "5874897-12-31"]
PERIODS = ("month", "week", "quarter", "year")


@pytest.fixture(scope="module")
def url(postgres_server: str) -> str:
    """A table with each day, those with an even number twice; `side` is 0 or 1."""
    with psycopg.connect(postgres_server) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE listed_days (d date, side integer)")
        rows = [(day, number % 2) for number, day in enumerate(DAYS)]
        cursor.executemany("INSERT INTO listed_days VALUES (%s, %s)", [*rows, *rows[::2], (None, 0), (None, 1)])
        cursor.executemany("INSERT INTO listed_days VALUES (%s::date, 1)", [(text,) for text in BEYOND])
    return f"{postgres_server}#listed_days"


def counted(url: str, days: Dates, period: str) -> Ints:
    declared = domain({"d": days, "side": integers(0, 1, null=0)})
    cells = compile_cells(declared, Policy(), (col("d").by(period), "side"))
    return open_source(url).prepare(cells).run()


def period_of(day: datetime.date, period: str) -> tuple[int, int]:
    if period == "week":
        year, week, _ = day.isocalendar()
        return year, week
    return day.year, {"month": day.month, "quarter": (day.month - 1) // 3, "year": 0}[period]


def expected(period: str) -> list[int]:
    """Counts by period and side; NULL and then what lies beyond the ends come last."""
    rows = [(day, number % 2) for number, day in enumerate(DAYS)]
    counts: Counter[tuple[object, int]] = Counter()
    for day, side in [*rows, *rows[::2]]:
        counts[period_of(day, period) if FIRST <= day <= LAST else "beyond", side] += 1
    counts.update({("beyond", 1): len(BEYOND), (None, 0): 1, (None, 1): 1})
    periods = dict.fromkeys(period_of(day, period) for day in DAYS if FIRST <= day <= LAST)
    return [counts[one, side] for one in [*periods, None, "beyond"] for side in (0, 1)]


@pytest.mark.parametrize("period", PERIODS)
def test_every_day_is_in_its_period(url: str, period: str) -> None:
    counts = counted(url, dates(FIRST, LAST, outside="cell", null="cell"), period)
    assert counts.tolist() == expected(period)


def test_days_that_are_one_off_are_noticed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Postgres.day_entry
    shifted: list[int] = []

    def wrong(engine: Postgres, numbers: bytes, *others: object) -> object:
        shifted.append(len(numbers))
        return entry(engine, numbers[:1] + numbers[:-1], *others)

    monkeypatch.setattr(Postgres, "day_entry", wrong)
    counts = counted(url, dates(FIRST, LAST, outside="cell", null="cell"), "month")
    assert shifted == [len(DAYS) - 6]
    assert counts.tolist() != expected("month")
    assert counts.sum() == sum(expected("month"))
