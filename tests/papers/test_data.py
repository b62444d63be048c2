"""Data sets come from the given folder, from what is shipped, or are stand-ins that say so."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from blowfishdb.errors import InvalidInput
from papers.blowfish.clusters import colours, places
from papers.data import PIXELS, PLACES, STAND_INS, Survey, data_digest, given_file, histogram, survey
from papers.dawa import partitions
from papers.dawa.inputs import NAMES, optimal_starts, partition_cost
from papers.dawa.partitions import COUNTING, PRINTED
from papers.experiment import Settings
from papers.experiments import chosen


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


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in NAMES if name in STAND_INS])
def test_stand_ins_are_as_rough_as_the_paper_says(name: str) -> None:
    buckets = optimal_starts(histogram(Settings(), name).counts, COUNTING).size
    assert 1 / 2 < buckets / PRINTED[name] < 2


def test_capital_loss_is_shipped() -> None:
    found = histogram(Settings(), "ADULT")
    assert (found.label, found.origin) == ("ADULT", "shipped")
    assert (found.counts.size, found.counts.sum()) == (4096, 48_842)


def test_a_given_file_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "histograms_1d"
    folder.mkdir()
    np.save(folder / "INCOME.npy", np.arange(20, dtype=np.int32))
    found = histogram(Settings(data=tmp_path), "INCOME")
    assert (found.origin, found.label) == ("given", "INCOME")
    assert found.counts.dtype == np.int64
    assert np.array_equal(found.counts, np.arange(20))
    assert histogram(Settings(data=tmp_path), "PATENT").origin == "stand-in"
    assert given_file(Settings(data=tmp_path), "PATENT.npy") is None


@pytest.mark.parametrize(
    ("name", "wrong", "why"),
    [
        ("INCOME", np.full(20, 0.5), "whole counts"),
        ("INCOME", np.full(20, -1), "whole counts"),
        ("INCOME", np.array([], dtype=int), "whole counts"),
        ("INCOME", np.ones((20, 20), dtype=int), "must have 1 axis; it has 2"),
        ("TWITTER", np.ones(20, dtype=int), "must have 2 axes; it has 1"),
        ("INCOME", np.ones(15, dtype=int), "16 to 8,192 cells"),
        ("INCOME", np.ones(8193, dtype=int), "16 to 8,192 cells"),
        ("TWITTER", np.ones((20, 15), dtype=int), "16 to 4,096 cells"),
        ("CENSUS", np.ones((257, 256), dtype=int), "65,536 cells at most"),
        ("INCOME", np.zeros(20, dtype=int), "1 to 1,000,000,000 records"),
        ("INCOME", np.full(20, 10**8), "1 to 1,000,000,000 records"),
    ],
)
def test_files_that_cannot_serve_are_refused_before_anything_runs(
    tmp_path: Path, name: str, wrong: np.ndarray, why: str
) -> None:
    np.save(tmp_path / f"{name}.npy", wrong)
    for refused in (lambda: histogram(Settings(data=tmp_path), name), lambda: survey(Settings(data=tmp_path))):
        with pytest.raises(InvalidInput, match=f"{name}.*{why}"):
            refused()


def test_a_file_that_is_no_array_is_refused(tmp_path: Path) -> None:
    for text in ("no array", ""):
        (tmp_path / "INCOME.npy").write_text(text)
        with pytest.raises(InvalidInput, match=r"INCOME\.npy"):
            histogram(Settings(data=tmp_path), "INCOME")
    with pytest.raises(InvalidInput, match="nothing"):
        histogram(Settings(), "nothing")


def test_a_folder_without_any_use_is_refused_with_what_is_needed(tmp_path: Path) -> None:
    np.save(tmp_path / "shares.npy", np.full(20, 0.5))
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match=r"holds nothing that an experiment reads.*INCOME"):
        survey(Settings(data=tmp_path))
    np.save(tmp_path / "INCOME.npy", np.arange(20))
    assert survey(Settings(data=tmp_path)) == Survey(("INCOME.npy",), (), (), ("notes.txt", "shares.npy"))
    assert survey(Settings()).words() == ""


@pytest.mark.nightly
def test_other_histograms_and_maps_are_added_to_the_papers(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", np.arange(100))
    np.save(tmp_path / "town.npy", np.arange(400).reshape(20, 20))
    settings = Settings("tiny", tmp_path)
    assert survey(settings).words() == (
        "Added to the histograms of the DAWA paper and the thesis: mine. Added to the maps of the DAWA paper: town."
    )
    for one in chosen(("dawa", "thesis-figure-4", "thesis-splits")):
        own = "town" if one.name == "dawa-figure-7" else "mine"
        procedure = one.procedure()
        added = [case for case in procedure.cases(settings) if own in case]
        assert {row["data"] for row in procedure.measure(settings, added[-1])} == {own}


def test_a_histogram_that_no_paper_has_is_in_the_table_and_not_in_the_verdict(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", np.arange(100))
    rows = [
        row for name in ("HEPTH", "mine") for row in partitions.optimal_measure(Settings("tiny", tmp_path), (name,))
    ]
    result = partitions.optimal_conclude(Settings(), rows)
    assert [row["printed"] for row in result.tables[0].rows] == [2168, None]
    assert " of 1 counts " in result.verdict.why
    (picture,) = result.pictures
    picture.draw(Figure(figsize=picture.size))


def test_points_that_cannot_serve_are_refused(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    for wrong in (np.zeros((2000, 3)), np.zeros((5, 2)), np.full((2000, 2), 100.0), np.full((2000, 2), np.nan)):
        np.save(tmp_path / PLACES, wrong)
        with pytest.raises(InvalidInput, match=PLACES):
            places(settings)
    (tmp_path / PIXELS).write_text("no numbers\nat all\n")
    with pytest.raises(InvalidInput, match=PIXELS):
        colours(settings, "skin")


def test_the_digest_follows_the_files(tmp_path: Path) -> None:
    empty = data_digest(Settings(data=tmp_path))
    assert empty == data_digest(Settings())
    np.save(tmp_path / "shares.npy", np.full(20, 0.5))
    assert data_digest(Settings(data=tmp_path)) == empty
    np.save(tmp_path / "HEPTH.npy", np.arange(30))
    known = data_digest(Settings(data=tmp_path))
    assert known != empty
    np.save(tmp_path / "mine.npy", np.arange(30))
    assert data_digest(Settings(data=tmp_path)) != known


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


def histogram_of(cells: int) -> np.ndarray:
    """Few records, most of them in the first cells, many cells empty."""
    draw = np.random.default_rng(cells)
    counts = draw.poisson(20 * np.exp(-5 * np.arange(cells) / cells)) * (draw.random(cells) < 0.4)
    counts[0] += 1
    return counts.astype(np.int64)


@pytest.mark.nightly
@pytest.mark.parametrize("cells", [16, 17, 100])
@pytest.mark.parametrize("name", ["dawa-figure-3", "dawa-figure-4", "dawa-figure-5", "dawa-figure-6"])
def test_a_short_histogram_serves_every_algorithm(tmp_path: Path, name: str, cells: int) -> None:
    np.save(tmp_path / "MINE.npy", histogram_of(cells))
    settings, procedure = Settings("tiny", tmp_path), chosen((name,))[0].procedure()
    cases = [case for case in procedure.cases(settings) if "MINE" in case]
    assert cases
    for case in cases:
        assert procedure.measure(settings, case)


@pytest.mark.nightly
@pytest.mark.parametrize("cells", [4357, 8192])
def test_the_longest_histograms_serve_a_partition_into_any_intervals(cells: int) -> None:
    counts = histogram_of(cells)
    starts = partitions.private_starts("all")(counts)
    assert starts[0] == 0
    assert partition_cost(counts, starts, COUNTING) >= partition_cost(
        counts, optimal_starts(counts, COUNTING), COUNTING
    )


@pytest.mark.nightly
@pytest.mark.parametrize("cells", [16, 17, 4357, 5000, 8192])
@pytest.mark.parametrize("name", [one.name for one in chosen(("dawa", "thesis"))])
def test_a_quick_run_with_a_given_histogram_comes_to_its_end(tmp_path: Path, name: str, cells: int) -> None:
    np.save(tmp_path / "MINE.npy", histogram_of(cells))
    settings, procedure = Settings("quick", tmp_path), chosen((name,))[0].procedure()
    for case in procedure.cases(settings):
        if "MINE" in case:
            assert procedure.measure(settings, case)
