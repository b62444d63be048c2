"""No sum read off a synopsis varies more than its bounds say, whatever the noise of the cells has in common."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from blowfishdb.accuracy.intervals import noise_widths, tail
from blowfishdb.engine.synopsis import CellNoise, Placed, summed_noise
from blowfishdb.engine.synopsis_release import noise_of_finding
from blowfishdb.mechanisms.data_aware import Finding
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import AllRanges, Identity, Prefix, Rows, Sparse

CELLS = 12
UNCUT = np.ones(CELLS, dtype=np.int64)


def known_by_totals(covariance: Floats) -> CellNoise:
    """What is kept of the noise where cells have no measurement of their own."""
    totals = np.cumsum(np.cumsum(covariance, axis=0), axis=1)
    unknown = np.full(len(covariance), np.inf)
    roots = np.sqrt(np.diag(covariance)), np.sqrt(np.maximum(np.diag(totals), 0.0))
    return CellNoise(roots[0], np.arange(len(covariance)), unknown, roots[1])


def differences(cells: int) -> Floats:
    """The covariance of neighbouring differences of running sums with noise of variance 1 each, the last one exact."""
    step = (np.eye(cells) - np.eye(cells, k=-1))[:, :-1]
    return np.asarray(step @ step.T)


def cut(seed: int, *, is_ordered: bool) -> Placed:
    """Cells cut in up to three pieces, some dropped at either end, neighbours grouped; or grouped at random."""
    chance = np.random.default_rng(seed)
    cell = np.repeat(np.arange(CELLS), chance.integers(1, 4, CELLS))
    share = chance.uniform(0.1, 1.0, cell.size)
    share /= np.bincount(cell, share)[cell]
    first, last = np.sort(chance.choice(cell.size + 1, 2, replace=False))
    into = np.cumsum(chance.integers(0, 2, last - first)) if is_ordered else chance.integers(0, 4, last - first)
    into = np.unique(into, return_inverse=True)[1]
    order = chance.permutation(last - first)
    return Placed(cell[first:last][order], share[first:last][order], into[order], int(into.max()) + 1, UNCUT)


def weights(placed: Placed) -> Floats:
    """How much of each cell of the synopsis is in each of the question."""
    found = np.zeros((placed.groups, CELLS))
    np.add.at(found, (placed.into, placed.cell), placed.share)
    return found


def questions(groups: int, seed: int) -> list[Rows]:
    numbers = np.random.default_rng(seed).integers(-3, 4, (5, groups))
    return [Identity(groups), Prefix(groups), AllRanges(groups), Sparse(csr_array(numbers))]


@given(st.integers(0, 10**6), st.booleans())
def test_nothing_varies_more_than_the_bound(seed: int, is_ordered: bool) -> None:
    chance = np.random.default_rng(seed)
    mixed = chance.normal(0.0, 1.0, (CELLS, int(chance.integers(1, 9))))
    placed = cut(seed, is_ordered=is_ordered)
    for covariance in (mixed @ mixed.T, differences(CELLS)):
        noise = summed_noise(known_by_totals(covariance), placed)
        for rows in questions(placed.groups, seed):
            answers = rows.dense() @ weights(placed)
            truly = np.einsum("ij,jk,ik->i", answers, covariance, answers)
            assert np.all(truly <= noise.variances_of(rows) * (1 + 1e-9) + 1e-9)


def test_ranges_of_differences_vary_by_their_two_ends() -> None:
    whole = Placed(np.arange(CELLS), np.ones(CELLS), np.arange(CELLS), CELLS, UNCUT)
    rows = AllRanges(CELLS)
    truly = np.einsum("ij,jk,ik->i", rows.dense(), differences(CELLS), rows.dense())
    bound = summed_noise(known_by_totals(differences(CELLS)), whole).variances_of(rows)
    assert np.all(bound <= 2 * truly + 1e-9)
    assert bound.max() == pytest.approx(4.0)


def test_totals_that_are_said_to_vary_less_are_found_out() -> None:
    whole = Placed(np.arange(CELLS), np.ones(CELLS), np.arange(CELLS), CELLS, UNCUT)
    rows, kept = AllRanges(CELLS), known_by_totals(differences(CELLS))
    truly = np.einsum("ij,jk,ik->i", rows.dense(), differences(CELLS), rows.dense())
    too_little = CellNoise(kept.deviations, kept.blocks, kept.alone, 0.7 * kept.running)
    assert np.any(truly > 1.01 * summed_noise(too_little, whole).variances_of(rows))


def test_a_question_against_the_order_is_answered_by_deviations() -> None:
    backwards = Placed(np.arange(CELLS), np.ones(CELLS), np.arange(CELLS)[::-1].copy(), CELLS, UNCUT)
    found = summed_noise(known_by_totals(differences(CELLS)), backwards)
    assert np.all(np.isinf(found.running))
    assert np.all(np.isfinite(found.variances_of(Prefix(CELLS))))


def by_blocks(into: Ints, block: Ints, deviations: Floats, groups: int) -> Floats:
    """The variances that may be added, of cells that were measured in blocks."""
    unknown = np.full(block.size, np.inf)
    noise = CellNoise(np.ones(block.size), block, deviations, unknown)
    return summed_noise(
        noise, Placed(np.arange(block.size), np.ones(block.size), into, groups, np.ones_like(block))
    ).variances


@given(st.integers(0, 10**6))
def test_variances_by_blocks_cover_every_weighting_of_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    into, block, row = rng.integers(0, 6, 40), rng.integers(0, 9, 40), rng.normal(size=6)
    deviations = rng.uniform(0, 3, 40)
    exact = np.sum(np.bincount(block, row[into] * deviations) ** 2)
    assert exact <= row**2 @ by_blocks(into, block, deviations, 6) + 1e-9


def test_variances_of_blocks_within_a_cell_are_exact() -> None:
    found = by_blocks(np.array([0, 0, 1]), np.array([0, 0, 1]), np.array([1.0, 2.0, 4.0]), 3)
    assert found.tolist() == [9.0, 16.0, 0.0]


@given(st.integers(0, 10**6), st.sampled_from([0.001, 0.05, 0.5, 0.99]))
def test_intervals_cover_how_far_counts_were_moved(seed: int, beta: float) -> None:
    """Trees over two attributes move counts away from the estimate whose noise is known; answers move with them."""
    chance, placed = np.random.default_rng(seed), cut(seed, is_ordered=False)
    variances, moved = chance.uniform(0.01, 30.0, CELLS), chance.exponential(5.0, CELLS)
    still = Finding(np.zeros(CELLS), np.zeros(CELLS), variances, np.zeros(CELLS, dtype=np.int64))
    noise, plain = (noise_of_finding(one) for one in (replace(still, adjusted=moved), still))
    for rows in questions(placed.groups, seed):
        widths = noise_widths(summed_noise(noise, placed).variances_of(rows), beta)
        deviations = np.sqrt(summed_noise(plain, placed).variances_of(rows))
        matrix = np.abs(rows.dot(np.eye(placed.groups)))
        left = widths.simultaneous - matrix @ weights(placed) @ moved
        is_noisy = deviations > 0
        assert np.all(tail(left[is_noisy] / deviations[is_noisy]).sum() <= beta)
        alone = widths.per_answer - matrix @ weights(placed) @ moved
        assert np.all(tail(alone[is_noisy] / deviations[is_noisy]) <= beta)
