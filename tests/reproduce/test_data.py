"""Data sets come from the given folder, from what is shipped, or are stand-ins that say so."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from blowfishdb.errors import InvalidInput
from blowfishdb.reproduce.data import data_digest, given_file, histogram
from blowfishdb.reproduce.dawa.histograms import NAMES
from blowfishdb.reproduce.dawa.optimal_buckets import COUNTING, PRINTED
from blowfishdb.reproduce.dawa.partitions import optimal_starts, partition_cost
from blowfishdb.reproduce.settings import Settings
from blowfishdb.reproduce.stand_ins import STAND_INS


@pytest.mark.parametrize("name", STAND_INS)
def test_stand_ins_have_the_size_of_the_original(name: str) -> None:
    known, found = STAND_INS[name], histogram(Settings(), name)
    assert found.origin == "stand-in"
    assert found.label.endswith("(stand-in)")
    assert found.counts.sum() == pytest.approx(known.records, rel=0.1)
    assert np.mean(found.counts == 0) == pytest.approx(known.empty, abs=0.01)


def test_a_seed_gives_the_same_stand_in_and_another_seed_another() -> None:
    first, second = histogram(Settings(seed=3), "HEPTH"), histogram(Settings(seed=3), "HEPTH")
    assert np.array_equal(first.counts, second.counts)
    assert not np.array_equal(first.counts, histogram(Settings(seed=4), "HEPTH").counts)


@pytest.mark.parametrize("name", [name for name in NAMES if name in STAND_INS])
def test_stand_ins_are_as_rough_as_the_paper_says(name: str) -> None:
    buckets = optimal_starts(histogram(Settings(), name).counts, COUNTING).size
    assert 1 / 2 < buckets / PRINTED[name] < 2


def test_capital_loss_is_shipped() -> None:
    whole, cut = histogram(Settings(), "ADULT_UCI_caploss_4357"), histogram(Settings(), "ADULT")
    assert (whole.label, whole.origin) == ("ADULT_UCI_caploss_4357", "shipped")
    assert whole.counts.sum() == cut.counts.sum() == 48_842
    assert (whole.counts.size, cut.counts.size) == (4357, 4096)
    assert np.array_equal(whole.counts[:4095], cut.counts[:4095])


def test_a_given_file_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "histograms_1d"
    folder.mkdir()
    np.save(folder / "INCOME.npy", np.arange(10, dtype=np.int32))
    found = histogram(Settings(data=tmp_path), "INCOME")
    assert (found.origin, found.label) == ("given", "INCOME")
    assert found.counts.dtype == np.int64
    assert np.array_equal(found.counts, np.arange(10))
    assert histogram(Settings(data=tmp_path), "PATENT").origin == "stand-in"
    assert given_file(Settings(data=tmp_path), "PATENT.npy") is None


def test_files_that_hold_no_counts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "INCOME.npy"
    for wrong in (np.array([0.5, 1.0]), np.array([-1, 2]), np.zeros((2, 2, 2), dtype=int), np.array([], dtype=int)):
        np.save(path, wrong)
        with pytest.raises(InvalidInput, match=r"INCOME\.npy"):
            histogram(Settings(data=tmp_path), "INCOME")
    path.write_text("no array")
    with pytest.raises(InvalidInput, match=r"INCOME\.npy"):
        histogram(Settings(data=tmp_path), "INCOME")
    with pytest.raises(InvalidInput, match="nothing"):
        histogram(Settings(), "nothing")


def test_the_digest_follows_the_files(tmp_path: Path) -> None:
    empty = data_digest(Settings(data=tmp_path))
    assert empty == data_digest(Settings())
    np.save(tmp_path / "other.npy", np.arange(3))
    assert data_digest(Settings(data=tmp_path)) == empty
    np.save(tmp_path / "HEPTH.npy", np.arange(3))
    assert data_digest(Settings(data=tmp_path)) != empty


def test_the_optimal_partition_is_the_cheapest() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        counts = rng.integers(0, 12, 7)
        best = min(
            partition_cost(counts, np.flatnonzero([True, *(mask >> place & 1 for place in range(6))]), Fraction(1, 3))
            for mask in range(64)
        )
        found = partition_cost(counts, optimal_starts(counts, Fraction(1, 3)), Fraction(1, 3))
        assert found == pytest.approx(best, abs=0.1)
        assert found >= best - 1e-9
