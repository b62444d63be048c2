"""Synthetic rows are whole, repeatable, and have the counts of the synopsis."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.analysis.synthetic_rows import synthetic_rows
from blowfishdb.errors import InvalidInput, TooLarge
from tests.analysis.tables import synopsis_of

COUNTS = np.array([[3.0, 0.4, 0.4], [10.4, -7.0, 0.2], [2.0, 5.0, 4.6]])
TABLE = synopsis_of(
    {"age": bf.integers(20, 22, null=20), "ward": bf.categorical(["A", "B", "C"], null="A", outside="A")}, COUNTS
)


def test_counts_are_whole_and_add_up() -> None:
    rows = synthetic_rows(TABLE)
    assert rows.size == round(COUNTS.sum())
    assert np.all(np.abs(rows.counts - np.maximum(COUNTS, 0).reshape(-1) * rows.size / np.maximum(COUNTS, 0).sum()) < 1)
    frame = synthetic_rows(TABLE, rows=1000).to_pandas()
    table = frame.groupby(["age", "ward"]).size()
    assert len(frame) == 1000
    assert (21, "B") not in table.index
    assert table[(21, "A")] == pytest.approx(10.4 / 26 * 1000, abs=1)


def test_rows_repeat_from_the_file_and_the_seed() -> None:
    one, two = synthetic_rows(TABLE, rows=50).to_arrow(), synthetic_rows(TABLE, rows=50).to_arrow()
    assert one.equals(two)
    assert not one.equals(synthetic_rows(TABLE, rows=50, seed=1).to_arrow())


def test_values_spread_over_the_cell_and_null_stays_null() -> None:
    wide = synopsis_of({"age": bf.integers(0, 999)}, np.append(np.full(1000, 2.0), 30.0))
    ages = synthetic_rows(wide).to_pandas()["age"]
    assert ages.isna().sum() == 30
    assert ages.dropna().nunique() == 1000
    days = synopsis_of({"day": bf.dates("2024-01-01", "2024-01-03", null="2024-01-01")}, [0, 0, 4])
    assert synthetic_rows(days).to_arrow().column("day").to_pylist() == [datetime.date(2024, 1, 3)] * 4
    costs = synopsis_of({"cost": bf.bins(0, 1, width="0.5", null=0)}, [0, 2])
    assert synthetic_rows(costs).to_arrow().column("cost").to_pylist() == [0.75, 0.75]


def test_a_cell_of_several_values_is_spread_evenly() -> None:
    coarse = synopsis_of({"age": bf.integers(0, 9, null=0)}, [4000, 0], bf.col("age").bins(5))
    ages = synthetic_rows(coarse).to_pandas()["age"]
    assert sorted(set(ages)) == [0, 1, 2, 3, 4]
    assert ages.value_counts().min() > 700


def test_bad_wishes_are_refused() -> None:
    with pytest.raises(InvalidInput):
        synthetic_rows(TABLE, rows=-1)
    with pytest.raises(InvalidInput):
        synthetic_rows(TABLE, seed=-1)
    with pytest.raises(TooLarge):
        synthetic_rows(TABLE, rows=10**9)
    with pytest.raises(InvalidInput, match="whole synopsis"):
        synthetic_rows(TABLE.where(bf.col("age") < 21))
    with pytest.raises(InvalidInput, match="nothing"):
        synthetic_rows(synopsis_of({"age": bf.integers(0, 1, null=0)}, [-1, -2]), rows=3)
    assert synthetic_rows(synopsis_of({"age": bf.integers(0, 1, null=0)}, [-1, -2])).size == 0
