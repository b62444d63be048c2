"""`auto` and the default have at most 1.1 times the error of the best mechanism that their previews list."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.choice import choices, made_up, problems
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.target import accuracy_target

MOST = 1.1
EPSILONS = (Fraction(1, 10), Fraction(1))
LOCAL = ("line", "L1 grid 1", "full", "blocks of 4")


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(8)])
def test_the_default_has_the_least_expected_error_of_its_list(epsilon: Fraction) -> None:
    for case, compiled, policy in [*problems((8, 8)), *problems((20,))]:
        if case.startswith(LOCAL):
            both = choices(compiled, policy, epsilon)
            assert both.auto(np.zeros(1, dtype=np.int64)) == both.default, case
            assert both.ratios(np.zeros(0, dtype=np.int64))[0] <= MOST, (case, both)


def test_a_default_by_the_closest_promise_alone_would_be_noticed() -> None:
    """On two lines of 16 cells noise on edges promises closer counts with 1.35 times the error of noise on cells."""
    (compiled,) = [compiled for case, compiled, _ in problems((16, 16)) if case == "line, histogram"]
    edges, cells = (
        quotes_for(compiled, accuracy_target(epsilon=EPSILONS[0], mechanism=name)).best
        for name in ("edge-transform", "identity")
    )
    assert edges.alpha < cells.alpha
    assert edges.rmse > MOST * cells.rmse


@pytest.mark.nightly
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("shape", [(16, 16), (64, 64), (64,), (1024,)])
def test_neither_choice_is_far_from_the_best_of_its_list_on_made_up_tables(
    shape: tuple[int, ...], epsilon: Fraction
) -> None:
    tables = [(name, counts) for name, counts in made_up() if counts.shape == shape]
    ratios = {}
    for case, compiled, policy in problems(shape):
        both = choices(compiled, policy, epsilon)
        ratios |= {(case, name): both.ratios(counts, trials=10)[:2] for name, counts in tables}
    default, auto = np.array(list(ratios.values())).T
    assert default.max() <= MOST
    assert np.quantile(auto, 0.95) <= MOST
