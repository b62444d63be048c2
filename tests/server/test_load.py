"""Twenty analysts at once on a real server process cannot spend one budget twice; the check would notice it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from benchmarks.load import Run, Sizes, attack, ledger_row
from benchmarks.serving import counted

SIZES = Sizes(analysts=20, rounds=1, thinking_rounds=0, think=0.0)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return attack(tmp_path_factory.mktemp("load"), SIZES)


def test_twenty_analysts_at_once_spend_no_more_than_there_is(seen: Run) -> None:
    everything = seen.warm + seen.thinking + seen.rushing
    assert seen.state.faults == []
    assert ledger_row(seen.state, everything).ratio == pytest.approx(float(seen.state.spent / seen.state.limit))
    kinds = counted(everything)
    assert kinds["preview"] == kinds["read"] == kinds["release"] + kinds["refusal"] == 20 * 2
    assert kinds["refusal"] > 0
    assert kinds["replay"] == kinds["release"]
    most_expensive = Fraction(1002, 10**6)
    assert seen.state.limit - seen.state.spent < most_expensive, "whoever came while there was room was served"


def test_a_ledger_that_does_not_add_up_is_an_error(seen: Run) -> None:
    state = seen.state
    for wrong in (
        replace(state, spent=state.limit + Fraction(1, 10**9), charged=state.limit + Fraction(1, 10**9)),
        replace(state, charges=state.charges - 1),
        replace(state, answers=state.answers + 1),
        replace(state, charged=state.charged - Fraction(1, 10**6)),
        replace(state, paid_for=state.paid_for + Fraction(1, 10**6)),
        replace(state, is_sound=False),
    ):
        with pytest.raises(RuntimeError):
            ledger_row(wrong, seen.rushing)
