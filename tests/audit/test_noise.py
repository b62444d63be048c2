"""The sampler's tests pass what happens by chance and flag what no right sampler does; a tape serves one thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from blowfishdb.audit import noise
from blowfishdb.audit.noise import NoiseLaw
from blowfishdb.audit.scratch import taped
from blowfishdb.engine import measure
from blowfishdb.model.numbers import Ints
from blowfishdb.noise import coupling

pytestmark = pytest.mark.audit
DRAWS = 75_000


def sparse(places: range) -> Ints:
    """Draws of a tiny scale: hardly any differs from 0."""
    found = np.zeros(DRAWS, dtype=np.int64)
    found[list(places)] = 1
    return found


def flagged(law: NoiseLaw, first: Ints, second: Ints) -> set[str]:
    tests = noise.independence_tests(law, first, second)
    return {name for name, chance in tests.items() if chance < noise.LEVEL}


@pytest.mark.parametrize("two_sided", [True, False])
def test_one_coincidence_of_rare_draws_is_no_violation(two_sided: bool) -> None:
    first, second = sparse(range(0, 50_000, 2_000)), sparse(range(48_000, 75_000, 1_100))
    assert int((first * second).sum()) == 1
    assert flagged(NoiseLaw(0.125, two_sided), first, second) == set()


def test_rare_draws_that_come_together_are_flagged() -> None:
    first = sparse(range(0, 50_000, 2_000))
    assert flagged(NoiseLaw(0.125), first, first) == {"two calls zeros"}


def test_a_block_of_draws_that_repeats_another_is_flagged() -> None:
    fresh = np.random.default_rng(5).laplace(0.0, 1e9, (2, DRAWS)).astype(np.int64)
    assert flagged(NoiseLaw(1e9), fresh[0], fresh[1]) == set()
    again = np.concatenate([fresh[0][:40_000], fresh[0][: DRAWS - 40_000]])
    assert flagged(NoiseLaw(1e9), again, fresh[1]) == {"draws that repeat others"}


def test_other_threads_draw_for_real_while_a_tape_plays() -> None:
    with ThreadPoolExecutor(1) as elsewhere, taped() as tape:
        tape.play([])
        here = measure.sample(Fraction(1000), np.ones(50, dtype=np.int64))
        there = elsewhere.submit(measure.sample, Fraction(1000), np.ones(50, dtype=np.int64)).result()
        assert len(tape.take()) == 1
    assert not np.any(here)
    assert np.any(there)


def test_levels_that_are_no_chain_are_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not noise.levels_line(DRAWS).is_violation
    stay, between = coupling.stay, coupling.draw_between
    monkeypatch.setattr(coupling, "stay", lambda step, of: 0.9 * stay(step, of))
    # So many draws are 14 standard deviations off, and 6 are needed: that they pass has a chance below 10^-14.
    assert noise.levels_line(400_000).is_violation
    monkeypatch.setattr(coupling, "stay", stay)

    def star(fine: Ints, finer: Fraction | None, *rest: Any) -> Ints:
        """Fresh noise on the finest value, whatever coarser one is published."""
        return between(fine, finer, *rest) if finer is None else coupling.draw_coarser(fine, finer, *rest[-2:])

    monkeypatch.setattr(coupling, "draw_between", star)
    assert noise.levels_line(DRAWS).is_violation
