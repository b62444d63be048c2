"""The hidden parity is found from clean and from noisy data, and a label that is none has no strong parity."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.analysis.olap import learn_parity, walsh_hadamard
from blowfishdb.errors import InvalidInput, QueryError
from blowfishdb.noise.sampler import sample
from papers.partitioning.learning import eliminate_parity
from tests.analysis.tables import synopsis_of

BITS = 7
SECRET = np.array([1, 0, 0, 1, 1, 0, 1])


def records(count: int, flipped: float, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, 2, (count, BITS))
    labels = (rows @ SECRET + (generator.random(count) < flipped)) % 2
    return rows, labels


def published(rows: np.ndarray, labels: np.ndarray, epsilon: Fraction) -> bf.Synopsis:
    """The noisy histogram over all bits and the label."""
    place = np.column_stack([rows, labels]) @ (2 ** np.arange(BITS + 1)[::-1])
    counts = np.bincount(place, minlength=2 ** (BITS + 1)) + sample(2 / epsilon, 1, 2 ** (BITS + 1))
    names = {f"x{bit}": bf.integers(0, 1, null=0) for bit in range(BITS)}
    return synopsis_of({**names, "label": bf.integers(0, 1, null=0)}, counts)


@pytest.mark.parametrize(("flipped", "epsilon"), [(0.0, Fraction(100)), (0.0, Fraction(1, 5)), (0.2, Fraction(1, 2))])
def test_a_parity_is_learnt_from_a_synopsis(flipped: float, epsilon: Fraction) -> None:
    # The largest noise moves the agreement by 0.01 (one standard deviation).
    found = learn_parity(published(*records(16_000, flipped), epsilon), "label")
    assert found.attributes == tuple(f"x{bit}" for bit in np.flatnonzero(SECRET))
    assert found.agreement == pytest.approx(1 - flipped, abs=0.1)


def test_a_label_without_parity_agrees_with_none() -> None:
    rows, _ = records(4000, 0.0)
    labels = np.random.default_rng(5).integers(0, 2, 4000)
    assert learn_parity(published(rows, labels, Fraction(5)), "label").agreement < 0.6


@pytest.mark.parametrize("flipped", [0.0, 0.05])
def test_elimination_finds_the_same(flipped: float) -> None:
    assert np.array_equal(eliminate_parity(*records(6000, flipped)), SECRET)


def test_the_transform_equals_its_definition() -> None:
    values = np.random.default_rng(1).normal(size=16)
    signs = np.array([[(-1) ** bin(x & v).count("1") for x in range(16)] for v in range(16)])
    assert np.allclose(walsh_hadamard(values), signs @ values)


def test_what_has_no_parity_is_refused() -> None:
    with pytest.raises(QueryError, match="two values"):
        learn_parity(synopsis_of({"age": bf.integers(0, 2, null=0)}, [1, 1, 1]), "age")
    with pytest.raises(QueryError, match="not in this synopsis"):
        learn_parity(published(*records(100, 0.0), Fraction(1)), "lable")
    with pytest.raises(InvalidInput, match="0 and 1"):
        eliminate_parity(np.full((40, 2), 2), np.zeros(40, dtype=np.int64))
    with pytest.raises(InvalidInput, match="at least"):
        eliminate_parity(np.zeros((3, 2), dtype=np.int64), np.zeros(3, dtype=np.int64))
    with pytest.raises(InvalidInput, match="never varies"):
        eliminate_parity(np.zeros((40, 2), dtype=np.int64), np.zeros(40, dtype=np.int64))
