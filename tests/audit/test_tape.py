"""The tape plays noise for the audit alone: other threads of the process keep noise of their own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.audit.tape import taped
from blowfishdb.engine import measure

pytestmark = pytest.mark.audit


def test_other_threads_draw_for_real_while_a_tape_plays() -> None:
    with ThreadPoolExecutor(1) as elsewhere, taped() as tape:
        tape.play([])
        here = measure.sample(Fraction(1000), np.ones(50, dtype=np.int64))
        there = elsewhere.submit(measure.sample, Fraction(1000), np.ones(50, dtype=np.int64)).result()
        assert len(tape.take()) == 1
    assert not np.any(here)
    assert np.any(there)
