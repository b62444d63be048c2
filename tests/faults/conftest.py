"""One small lab for all fault tests: its server and the process that clients are forked from start once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.faults.lab import Lab, open_lab


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab whose rows ask six releases each; needs PostgreSQL."""
    with open_lab(6, seed=7) as found:
        yield found
