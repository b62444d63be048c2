"""One release of a mechanism by the engine's own path, and the neighbours that the papers assume."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from blowfishdb.engine.run_program import run_program
from blowfishdb.mechanisms.data_aware.script import DataAware, Finding
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.plan.problem import Problem

NO_HUBS = np.empty(0, dtype=np.int64)


def release(mechanism: DataAware, problem: Problem, epsilon: Fraction, counts: Ints) -> Finding:
    """What the mechanism finds; every stage is certified against the problem's graph before noise is drawn."""
    program = mechanism.program(problem, epsilon)
    return run_program(program, program.digest(), mechanism.script(problem, program), problem.graph, counts)


def one_record(*shape: int) -> CellGraph:
    """Classical differential privacy: one record more or less, presence `only`."""
    factors = tuple(WindowGraph(np.arange(size), NO_HUBS) for size in shape)
    return CellGraph(factors, "record", np.zeros(shape[0] if len(shape) == 1 else 1, dtype=np.bool_), "only")


def line(cells: int) -> CellGraph:
    """The line policy: every value is hidden from the next, and the number of rows is public."""
    reach = np.minimum(np.arange(cells) + 1, cells - 1)
    return CellGraph((WindowGraph(reach, NO_HUBS),), "record", np.zeros(cells, dtype=np.bool_), "public")
