"""Filters that the engine decides are not grouped by; what it cannot decide exactly is left to the proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from blowfishdb.model.calendar import timestamps
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import bins, categorical, domain, integers
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Predicate, col
from blowfishdb.sources import open_source
from blowfishdb.sources.ibis_source import IbisCount
from tests.sources import stores
from tests.sources.tables import Sample

ROWS = Sample("rows", {"i": "integer", "x": "real", "s": "text", "t": "timestamp"}, ())
DOMAIN = domain(
    {
        "i": integers(0, 99),
        "x": bins(0, 1, width="0.1"),
        "s": categorical(["a", "b"]),
        "t": timestamps("2024-01-01", "2024-02-01", by="day"),
    }
)


def grouped(url: str, where: Predicate) -> tuple[list[str], bool]:
    """What a histogram of x groups by under a filter, and whether the statement has a WHERE."""
    counting = open_source(f"{url}#rows").prepare(compile_cells(DOMAIN, Policy(), ["x"], where))
    assert isinstance(counting, IbisCount)
    return list(counting.statement.keys), "WHERE" in counting.sql


@pytest.mark.parametrize(
    ("where", "names", "sent"),
    [
        (col("i") < 5, ["x"], True),
        ((col("i") < 5) & (col("s") == "a"), ["x"], True),
        (~((col("i") < 5) & (col("s") == "a")), ["x"], True),
        ((col("x") < "0.5") | (col("s") == "a"), ["x"], True),
        (col("i").isin(list(range(0, 100, 2))), ["x", "i"], False),
        (col("t") < "2024-01-05", ["x", "t"], False),
        ((col("t") < "2024-01-05") & (col("i") < 5), ["x", "t"], True),
        ((col("t") < "2024-01-05") | (col("i") < 5), ["x", "t", "i"], False),
    ],
)
def test_what_the_engine_decides_is_not_grouped_by(
    tmp_path: Path, where: Predicate, names: list[str], sent: bool
) -> None:
    assert grouped(stores.load_duckdb(tmp_path / "a.duckdb", (ROWS,)), where) == (names, sent)


def test_an_engine_without_column_types_decides_nothing(tmp_path: Path) -> None:
    assert grouped(stores.load_sqlite(tmp_path / "a.sqlite", (ROWS,)), col("i") < 5) == (["x", "i"], False)
