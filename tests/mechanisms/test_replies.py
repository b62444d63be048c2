"""Replies to a script are what it asked for, or refused."""

import numpy as np
import pytest

from blowfishdb.errors import PlanError
from blowfishdb.mechanisms.data_aware import measured_rows
from blowfishdb.plan.program import Measured


def test_rows_are_handed_on_and_selections_refused() -> None:
    rows = Measured(np.array([3, 4]), np.array([7]))
    assert measured_rows(rows) is rows
    with pytest.raises(PlanError, match="measured rows"):
        measured_rows(np.array([0, 2]))
