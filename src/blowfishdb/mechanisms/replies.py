"""Reads what the engine sends back to a script."""

from __future__ import annotations

from blowfishdb.errors import PlanError
from blowfishdb.plan.stages import Measured, Reply


def measured_rows(reply: Reply) -> Measured:
    """The rows of a measurement; PlanError when the reply is that of a selection."""
    if not isinstance(reply, Measured):
        raise PlanError("a measurement is answered by measured rows")
    return reply
