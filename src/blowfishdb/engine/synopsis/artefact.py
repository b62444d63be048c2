"""The values of a synopsis: noisy counts of cells, what the cells are, and the proof of what they cost."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.engine.answer_table import AnswerAxis
from blowfishdb.engine.released import software_version
from blowfishdb.errors import InvalidInput
from blowfishdb.model.arrays import Floats
from blowfishdb.model.domain import Domain
from blowfishdb.model.segments import AxisCells
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.stages import Allowance


@dataclass(frozen=True, eq=False)
class SynopsisAxis:
    """One attribute of a synopsis: its cells as runs of declared values, and their labels."""

    cells: AxisCells
    shown: AnswerAxis

    def __post_init__(self) -> None:
        if len(self.shown.labels) != self.cells.cells or self.shown.plain != self.cells.plain:
            raise InvalidInput(f"{self.shown.name}: {len(self.shown.labels)} labels for {self.cells.cells} cells")

    @property
    def name(self) -> str:
        """The attribute."""
        return self.shown.name


@dataclass(frozen=True, eq=False)
class Artefact:
    """What a synopsis file holds; everything in it is public.

    `counts` estimates each cell (row-major over the axes) and may be negative; noise of standard deviation
    `deviations` is in them. `caveat` says what these leave out.
    """

    title: str
    axes: tuple[SynopsisAxis, ...]
    counts: Floats
    deviations: Floats
    mechanism: str
    certificate: Certificate
    stages: tuple[Allowance, ...]
    caveat: str
    dataset: str
    policy_version: int | None
    protected: tuple[str, ...]
    unprotected: tuple[str, ...]
    released: str
    version: str = ""

    def __post_init__(self) -> None:
        if not self.axes:
            raise InvalidInput("a synopsis has at least one attribute")
        size = math.prod(self.shape)
        if self.counts.shape != (size,) or self.deviations.shape != (size,):
            raise InvalidInput(f"a synopsis of {size} cells has as many counts and deviations")
        if not (np.all(np.isfinite(self.counts)) and np.all(np.isfinite(self.deviations))):
            raise InvalidInput("the counts of a synopsis are finite numbers")
        if np.any(self.deviations < 0):
            raise InvalidInput("deviations are not negative")
        if not self.version:
            object.__setattr__(self, "version", software_version())

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells along each axis."""
        return tuple(axis.cells.cells for axis in self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes."""
        return tuple(axis.name for axis in self.axes)

    @property
    def domain(self) -> Domain:
        """What is declared of the attributes."""
        return Domain(tuple((axis.name, axis.cells.segments.attribute) for axis in self.axes))

    @property
    def epsilon(self) -> Fraction:
        """What it cost, once."""
        return self.certificate.epsilon

    def digest(self) -> str:
        """A hash of the counts and of the proof; synthetic rows are drawn from it."""
        whole = hashlib.sha256(self.certificate.plan_digest.encode())
        whole.update(self.counts.astype("<f8").tobytes())
        return whole.hexdigest()
