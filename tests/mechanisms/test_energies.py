"""Judging long workloads by some of their rows leads to the plans that all rows would."""

import pytest

from blowfishdb.mechanisms import optimized
from blowfishdb.model.workload import Prefix


@pytest.mark.parametrize("cells", [20_000, 32_768])
@pytest.mark.parametrize("length", [50, 1000])
def test_chosen_rows_never_keep_step_with_the_blocks(cells, length, monkeypatch):
    some = optimized.level_plans(Prefix(cells), length, free=True)
    monkeypatch.setattr(optimized, "MOST_RANGES", cells)
    every = {plan.sizes: plan.error / cells for plan in optimized.level_plans(Prefix(cells), length, free=True)}
    assert every[some[0].sizes] <= 1.02 * min(every.values())
