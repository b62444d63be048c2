"""What baselines and experiments share: exact noise, a private choice, a release, and the papers' neighbours."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from blowfishdb.engine.measure import run_program
from blowfishdb.mechanisms.data_aware import DataAware, Finding
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.noise.sampler import sample, sample_geometric
from blowfishdb.plan.plan import Problem

# What the baselines share: exact noise on whole numbers, and the choice of a least cost under noise.


def noisy(values: Ints, scale: Fraction) -> Floats:
    """The whole numbers with discrete Laplace noise of that scale."""
    return (values + sample(scale, 1, values.size)).astype(np.float64)


def least(costs: Floats, sensitivity: int, epsilon: Fraction) -> int:
    """The place of a low cost, at a loss of epsilon when one record moves each cost by at most `sensitivity`.

    Costs are rounded to whole numbers, and each is lowered by a geometric variable of scale 2 sensitivity / epsilon.
    """
    whole = np.floor(costs + 0.5).astype(np.int64)
    return int(np.argmin(whole - sample_geometric(2 * sensitivity / epsilon, 1, costs.size)))


def rounded_up(value: float) -> Fraction:
    """A short fraction that is not less."""
    return Fraction(math.ceil(value * 2**20), 2**20)


# One release of a mechanism by the engine's own path, and the neighbours that the papers assume.

NO_UNIVERSAL = np.empty(0, dtype=np.int64)


def release(mechanism: DataAware, problem: Problem, epsilon: Fraction, counts: Ints) -> Finding:
    """What the mechanism finds; every stage is certified against the problem's graph before noise is drawn."""
    program = mechanism.program(problem, epsilon)
    return run_program(program, program.digest(), mechanism.script(problem, program), problem.graph, counts)


def one_record(*shape: int) -> CellGraph:
    """Classical differential privacy: one record more or less, presence `only`."""
    factors = tuple(WindowGraph(np.arange(size), NO_UNIVERSAL) for size in shape)
    return CellGraph(factors, "record", np.zeros(shape[0] if len(shape) == 1 else 1, dtype=np.bool_), "only")


def line(cells: int) -> CellGraph:
    """The line policy: every value is hidden from the next, and the number of rows is public."""
    reach = np.minimum(np.arange(cells) + 1, cells - 1)
    return CellGraph((WindowGraph(reach, NO_UNIVERSAL),), "record", np.zeros(cells, dtype=np.bool_), "public")
