"""Intervals against the truth of the source, as DuckDB computes it: each aggregate of each kind of values."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from scipy.stats import binom

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.model.domain import Attribute, Bins
from blowfishdb.model.graphs import Presence
from blowfishdb.session import Session
from tests.session.places import curator, session

ROWS = 400
DRAWS, MANY = 6, 40
RARELY = 1e-5
"""Intervals of 95 % miss more often than is allowed in this part of all runs, at most."""
# At the low end of their bins: as far from the middles as can be.
COLUMNS = """range AS id, range % 3 AS ward, CAST(range * 20 % 480 AS INTEGER) AS count, range % 4 AS times,
    CAST(range * 20 % 480 AS DECIMAL(9, 0)) AS price, CAST(range * 7 % 900 - 200 AS INTEGER) AS wild,
    range * 20 % 480 + 0.001 AS cost, CASE WHEN range % 7 > 0 THEN range * 20 % 480 + 0.001 END AS paid"""
EDGES = [0, 20, 60, 100, 500]
KINDS: dict[str, tuple[str, Attribute]] = {
    "whole numbers": ("count", bf.integers(0, 499)),
    "whole numbers in bins of 1": ("count", bf.bins(0, 500, width=1)),
    "whole numbers in bins": ("count", bf.bins(0, 500, width=20)),
    "whole numbers in irregular bins": ("count", bf.bins(edges=EDGES)),
    "decimals without places in bins": ("price", bf.bins(0, 500, width=20)),
    "decimals without places in bins of 1": ("price", bf.bins(0, 500, width=1)),
    "numbers beyond both ends": ("wild", bf.integers(0, 499)),
    "numbers beyond both ends of bins": ("wild", bf.bins(0, 500, width=20)),
    "points declared as whole numbers": ("cost", bf.integers(0, 499)),
    "points of bins": ("cost", bf.bins(0, 500, width=20)),
    "points of narrow bins": ("cost", bf.bins(0, 500, width="0.5")),
    "points of irregular bins": ("cost", bf.bins(edges=EDGES)),
    "points and NULL": ("paid", bf.bins(0, 500, width=20)),
}

TIMES = bf.integers(0, 3)
COUNTED = {"numbers beyond both ends": "greatest(0, least({x}, 499))"}
COUNTED |= {"numbers beyond both ends of bins": "greatest(0, least({x}, 500))"}
COUNTED |= {"points declared as whole numbers": "floor({x})"}
"""The values that the others are counted as."""


def opened(
    folder: Path, column: str, attribute: Attribute, presence: Presence = "secret", times: Attribute = TIMES
) -> Session:
    """A session over a table with one column of numbers, declared in this way."""
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute(f"CREATE TABLE sales AS SELECT {COLUMNS} FROM range({ROWS})")
    with curator(folder) as keeper:
        keeper.add(
            bf.Dataset(
                "sales",
                source="duckdb:///shop.duckdb#sales",
                domain={column: attribute, "ward": bf.integers(0, 2), "times": times},
                policy=bf.Policy(presence=presence),
                epsilon="100000",
            )
        )
    return session(folder)


def truth(folder: Path, text: str) -> list[float]:
    """The rows of one column, as DuckDB has them."""
    with duckdb.connect(str(folder / "shop.duckdb"), read_only=True) as connection:
        return [float(row[0]) for row in connection.execute(text).fetchall()]


def holds(answer: Answer, true: list[float]) -> bool:
    """Whether all true values lie in their intervals."""
    slack = 1e-6
    ends = zip(answer.bounds.low[: len(true)], answer.bounds.high[: len(true)], true, strict=True)
    return all(low - slack <= value <= high + slack for low, high, value in ends)


AGGREGATES = {
    "SUM({x})": "SUM({x})",
    "AVG({x})": "AVG({x})",
    "STDDEV({x})": "STDDEV({x})",
    "STDDEV_POP({x})": "STDDEV_POP({x})",
    "VAR_SAMP({x})": "VAR_SAMP({x})",
    "QUANTILES({x}, 0.4)": "QUANTILE_DISC({x}, 0.4)",
    "SUM(2 * {x} - 7)": "SUM(2 * {x} - 7)",
    "AVG(5 - {x})": "AVG(5 - {x})",
    "SUM({x} * times)": "SUM({x} * times)",
    "AVG({x} * times)": "AVG({x} * times)",
}
SHAPES = ("SELECT {a} FROM sales", "SELECT {a}, ward FROM sales GROUP BY ward", "SELECT {a} FROM sales WHERE ward = 1")


def check(db: Session, folder: Path, kind: str, aggregate: str, shape: str, draws: int) -> None:
    """The true values lie in their intervals as often as is promised."""
    text = shape.format(a=aggregate.format(x=KINDS[kind][0]))
    counted = COUNTED.get(kind, "{x}").format(x=KINDS[kind][0])
    order = " ORDER BY ward" if "GROUP BY" in text else ""
    known = truth(folder, shape.format(a=AGGREGATES[aggregate].format(x=counted)) + order)
    answers = [db.sql(text, epsilon=20 + draw, fresh=True) for draw in range(draws)]
    misses = sum(not holds(answer, known) for answer in answers)
    assert misses <= binom.isf(RARELY, draws, 0.05), (text, known, answers[0])


@pytest.mark.parametrize(("place", "kind"), list(enumerate(KINDS)))
def test_the_truth_of_the_source_lies_in_its_interval(tmp_path: Path, place: int, kind: str) -> None:
    with opened(tmp_path, *KINDS[kind], presence="public" if place % 2 else "secret") as db:
        # Half of them for each kind; by night all are asked, in all shapes.
        for number, aggregate in list(enumerate(AGGREGATES, start=place))[place % 2 :: 2]:
            check(db, tmp_path, kind, aggregate, SHAPES[number % len(SHAPES)], DRAWS)


@pytest.mark.nightly
@pytest.mark.parametrize("presence", ["secret", "public"])
@pytest.mark.parametrize("shape", SHAPES, ids=["all", "by groups", "of one group"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_so_does_that_of_each_aggregate_in_each_shape(
    tmp_path: Path, kind: str, shape: str, presence: Presence
) -> None:
    with opened(tmp_path, *KINDS[kind], presence=presence) as db:
        for aggregate in AGGREGATES:
            check(db, tmp_path, kind, aggregate, shape, MANY)


@pytest.mark.parametrize(("place", "kind"), list(enumerate(KINDS)))
def test_so_it_does_for_python(tmp_path: Path, place: int, kind: str) -> None:
    column, attribute = KINDS[kind]
    counted = COUNTED.get(kind, "{x}").format(x=column)
    with opened(tmp_path, column, attribute, presence="secret" if place % 2 else "public") as db:
        table = db["sales"]
        questions = {
            "SUM({x})": table.sum(column),
            "AVG({x})": table.mean(column),
            "QUANTILE_DISC({x}, 0.5)": table.quantiles(column, ["0.5"]),
        }
        for name, question in questions.items():
            known = truth(tmp_path, f"SELECT {name.format(x=counted)} FROM sales")
            draws = [question.release(epsilon=20 + draw, fresh=True) for draw in range(DRAWS)]
            assert sum(not holds(draw, known) for draw in draws) <= binom.isf(RARELY, DRAWS, 0.05), (name, known)


@pytest.mark.parametrize("kind", ["whole numbers in bins of 1", "decimals without places in bins of 1"])
def test_bins_of_whole_numbers_are_these_numbers(tmp_path: Path, kind: str) -> None:
    column, attribute = KINDS[kind]
    with opened(tmp_path, column, attribute) as db:
        declared = db["sales"].domain[column]
        assert isinstance(declared, Bins)
        assert declared.whole
        answer = db.sql(f"SELECT SUM({column}) FROM sales", epsilon="1000")
        (true,) = truth(tmp_path, f"SELECT SUM({column}) FROM sales")
        assert isinstance(answer, Answer)
        assert abs(float(answer.raw[0]) - true) < 10
        assert "middle" not in answer.consistent.note


@pytest.mark.parametrize("asked", ["AVG(cost)", "SUM(cost)", "STDDEV(cost)"])
def test_preview_answer_and_note_say_what_values_count_as(tmp_path: Path, asked: str) -> None:
    with opened(tmp_path, "cost", bf.bins(0, 300, width=20, null=0)) as db:
        text = f"SELECT {asked} FROM sales"
        answer = db.sql(text, epsilon=1)
        for words in (str(db.sql(f"EXPLAIN {text}", epsilon=1)), answer.note(), repr(answer)):
            assert "middle of its bin, up to 10 off" in words
            assert "below 0 or above 300 counts as that end" in words
            assert "NULL of cost counts as 0" in words


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "20"])
def test_a_mean_is_never_said_to_lie_beyond_the_declared_range(tmp_path: Path, epsilon: str) -> None:
    # The last of the cells that values are rounded to is narrower than the others.
    with opened(tmp_path, "cost", bf.bins(0, 437, width="0.5")) as db:
        for text in ("SELECT AVG(cost) FROM sales", "SELECT AVG(cost), ward FROM sales GROUP BY ward"):
            answer = db.sql(text, epsilon=epsilon)
            assert answer.bounds.low.min() >= 0
            assert answer.bounds.high.max() <= 437


def test_several_plans_in_one_release_say_it_of_each_column(tmp_path: Path) -> None:
    with opened(tmp_path, "cost", bf.bins(0, 300, width=20, null=0), times=bf.integers(0, 2)) as db:
        text = "SELECT AVG(times), MEDIAN(cost) FROM sales"
        answer = db.sql(text, epsilon=1)
        assert isinstance(answer, Answer)
        for words in (str(db.sql(f"EXPLAIN {text}", epsilon=1)), answer.note()):
            assert "imes below 0 or above 2 counts as that end" in words
            assert "ost below 0 or above 300 counts as that end" in words
