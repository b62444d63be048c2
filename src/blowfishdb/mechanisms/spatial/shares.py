"""Splits an epsilon among the stages of a program, exactly, in given proportions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from blowfishdb.errors import PlanError
from blowfishdb.plan.stages import Allowance, Program


def shared_program(mechanism: str, epsilon: Fraction, parts: Sequence[tuple[str, Fraction]]) -> Program:
    """A program whose stages get epsilon in proportion to their parts; together exactly epsilon."""
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise PlanError("epsilon is a positive Fraction")
    total = sum((part for _, part in parts), Fraction(0))
    return Program(mechanism, tuple(Allowance(stage, epsilon * part / total) for stage, part in parts))
