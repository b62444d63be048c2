"""Rolling up, drilling down, slicing and dicing give the sums that the cells add up to."""

from __future__ import annotations

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.analysis.olap import cube
from blowfishdb.errors import QueryError
from tests.analysis.tables import synopsis_of

COUNTS = np.arange(24).reshape(4, 3, 2)
TABLE = synopsis_of(
    {
        "age": bf.integers(0, 3, null=0),
        "ward": bf.categorical(["A", "B", "C"], null="A", outside="A"),
        "sex": bf.categorical(["F", "M"], null="F", outside="F"),
    },
    COUNTS,
)


def test_a_cube_shows_everything_it_has() -> None:
    assert np.array_equal(cube(TABLE).answer().values, COUNTS.reshape(-1))


def test_rolling_up_sums_an_attribute_away() -> None:
    assert np.array_equal(cube(TABLE).roll_up("ward").answer().values, COUNTS.sum(axis=1).reshape(-1))
    assert cube(TABLE, "sex").roll_up("sex").answer().values.tolist() == [COUNTS.sum()]


def test_rolling_up_to_bins_and_drilling_down_again() -> None:
    coarse = cube(TABLE, "age").roll_up(bf.col("age").bins(2))
    assert coarse.answer().values.tolist() == [COUNTS[:2].sum(), COUNTS[2:].sum()]
    assert coarse.drill_down("age").answer().values.tolist() == COUNTS.sum(axis=(1, 2)).tolist()
    assert np.array_equal(
        coarse.drill_down("sex").answer().values, COUNTS.reshape(2, 2, 3, 2).sum(axis=(1, 2)).reshape(-1)
    )


def test_slices_and_dices() -> None:
    assert cube(TABLE, "age").slice("sex", "M").answer().values.tolist() == COUNTS[..., 1].sum(axis=1).tolist()
    assert cube(TABLE, "age", "sex").slice("sex", "M").axes == cube(TABLE, "age").axes
    diced = cube(TABLE, "ward").dice((bf.col("age") >= 2) & (bf.col("sex") == "F"))
    assert diced.answer().values.tolist() == COUNTS[2:, :, 0].sum(axis=0).tolist()
    assert "ward" in repr(diced)


def test_what_the_cube_does_not_show_is_refused() -> None:
    with pytest.raises(QueryError, match="drill_down"):
        cube(TABLE, "age").roll_up("ward")
    with pytest.raises(QueryError, match="not in this synopsis"):
        cube(TABLE, "age").drill_down("cost")
