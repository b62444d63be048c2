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
from blowfishdb.model.arrays import Floats, Ints
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
class CellNoise:
    """What noise does to each cell, and how far cells share it.

    `deviations` are the standard deviations of the counts. Cells with the same number in `blocks` were measured
    together; `alone` is the deviation that each cell would have if the measurement of its block were all that is known,
    infinite where there is none. These measurements are independent from block to block. `running` are the deviations
    of the totals of the first 1, 2, ... cells, infinite where they are not known.
    """

    deviations: Floats
    blocks: Ints
    alone: Floats
    running: Floats

    def __post_init__(self) -> None:
        if not self.deviations.shape == self.blocks.shape == self.alone.shape == self.running.shape:
            raise InvalidInput("every cell has a deviation, a block, and deviations of block and running total")
        of_sums = np.concatenate([self.alone, self.running])
        if not np.all(np.isfinite(self.deviations)) or np.any(self.deviations < 0) or not np.all(of_sums >= 0):
            raise InvalidInput("deviations are not negative")
        if self.blocks.size and not 0 <= int(self.blocks.min()) <= int(self.blocks.max()) < self.blocks.size:
            raise InvalidInput("blocks are numbered from 0")


@dataclass(frozen=True, eq=False)
class Artefact:
    """What a synopsis file holds; everything in it is public.

    `counts` estimates each cell (row-major over the axes) and may be negative; `noise` is in them. `caveat` says what
    its intervals leave out.
    """

    title: str
    axes: tuple[SynopsisAxis, ...]
    counts: Floats
    noise: CellNoise
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
        if self.counts.shape != (size,) or self.noise.deviations.shape != (size,):
            raise InvalidInput(f"a synopsis of {size} cells has as many counts and deviations")
        if not np.all(np.isfinite(self.counts)):
            raise InvalidInput("the counts of a synopsis are finite numbers")
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
