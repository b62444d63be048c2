"""Mechanisms that look at the data through certified stages before they measure, and what each of them proposes.

That is a program of stages with their allowances, and the script that runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np

from blowfishdb.errors import Declined, PlanError
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import Allowance, Measured, Program, Reply, StageRequest

BIAS_BETA = 0.001
"""A bound on the bias, where a script gives one, fails for some answer with at most this probability."""


@dataclass(frozen=True, eq=False)
class Finding:
    """Where a script ends: an estimate of every cell, the answers, and what the noise alone does to each answer.

    `variances` are the variances of the answers' noise given the published partition; the bias of spreading a
    bucket's count over its cells is not in them. `buckets` is the published partition, one number per cell. `bias`,
    where the script paid for it, bounds the bias of every answer with probability 1 - BIAS_BETA. `adjusted`, where
    counts were kept from being negative or taken for 0, is how far that moved each answer from that with the variances.
    `own`, where answers are linear in least squares of buckets, is the variance of each bucket's own measurement.
    `running`, where it can be known, works out the variance of the total of the first 1, 2, ... cells.
    """

    cells: Floats
    answers: Floats
    variances: Floats
    buckets: Ints
    bias: Floats | None = None
    adjusted: Floats | None = None
    own: Floats | None = None
    running: Callable[[], Floats] | None = None

    def __post_init__(self) -> None:
        if self.cells.shape != self.buckets.shape or self.answers.shape != self.variances.shape:
            raise PlanError("a finding has one bucket per cell and one variance per answer")
        if not np.all(self.variances >= 0):
            raise PlanError("variances are not negative")
        for part in (self.bias, self.adjusted):
            if part is not None and part.shape != self.answers.shape:
                raise PlanError("a finding has one bias and one adjustment for each answer, or none")

    def of_cells(self) -> Finding:
        """The same where only the first answers, those of the cells, are wanted, without a bound on bias."""
        size = self.cells.size
        adjusted = None if self.adjusted is None else self.adjusted[:size]
        answers, variances = self.answers[:size], self.variances[:size]
        return replace(self, answers=answers, variances=variances, bias=None, adjusted=adjusted)


Script: TypeAlias = Generator[StageRequest, Reply, Finding]


def hides_anything(graph: CellGraph) -> bool:
    """Whether some hidden move changes the cells; otherwise all counts are exact and free."""
    return bool(np.any(graph.to_zero)) or graph.value_edge_bound > 0


def counts_touched(graph: CellGraph) -> int:
    """How many counts one person's hidden change moves at most, in steps of one record."""
    return (2 if graph.has_value_edges else 1) * graph.rows_per_person


def check_hides(mechanism: str, graph: CellGraph) -> None:
    """Declined where nothing is hidden and looking at the data would be paid for nothing."""
    if not hides_anything(graph):
        raise Declined(mechanism, "no move is hidden, so 'identity' releases every cell exactly")


class DataAware(Protocol):
    """A mechanism that spends part of its epsilon on looking where the data allows coarse buckets."""

    @property
    def name(self) -> str:
        """The name users see."""
        ...

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """The stages and what each may spend, together exactly epsilon; Declined where it makes no sense."""
        ...

    def script(self, problem: Problem, program: Program) -> Script:
        """The stages as they unfold."""
        ...


def measured_rows(reply: Reply) -> Measured:
    """The rows of a measurement; PlanError when the reply is that of a selection."""
    if not isinstance(reply, Measured):
        raise PlanError("a measurement is answered by measured rows")
    return reply


def shared_program(mechanism: str, epsilon: Fraction, parts: Sequence[tuple[str, Fraction]]) -> Program:
    """A program whose stages get epsilon in proportion to their parts; together exactly epsilon."""
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise PlanError("epsilon is a positive Fraction")
    total = sum((part for _, part in parts), Fraction(0))
    return Program(mechanism, tuple(Allowance(stage, epsilon * part / total) for stage, part in parts))
