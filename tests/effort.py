"""How long property tests search: a moment in every run, and many times longer with HYPOTHESIS_PROFILE=nightly."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
LONGER = 40
SHORTER = 4


def effort(examples: int, *suppressed: HealthCheck) -> settings:
    """So many examples, some of them in every run, the same in each, and many times more, always others, by night."""
    return settings(
        max_examples=examples * LONGER if NIGHTLY else max(1, examples // SHORTER),
        suppress_health_check=[HealthCheck.too_slow, *suppressed],
    )
