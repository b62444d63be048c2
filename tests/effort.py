"""How much of the long tests is in every run: property tests search a moment, sampled ones try some of their cases."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import HealthCheck, settings

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
LONGER = 40
SHORTER = 4


def effort(examples: int, *suppressed: HealthCheck) -> settings:
    """So many examples, some of them in every run, the same in each, and many times more, always others, by night."""
    return settings(
        max_examples=examples * LONGER if NIGHTLY else max(2, examples // SHORTER),
        suppress_health_check=[HealthCheck.too_slow, *suppressed],
    )


def left_for_the_night(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """The cases of tests marked `sampled(every)` that `make nightly` runs: all but the first of every so many."""
    numbers: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is None or item.get_closest_marker("nightly") is not None:
            continue
        if next(numbers[item.nodeid.partition("[")[0]]) % sampled.args[0]:
            yield item
