"""Grids, policies and a driver that checks every stage of a script against its allowance."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from blowfishdb.engine.measure import measure, run_program
from blowfishdb.mechanisms.data_aware import DataAware, Finding
from blowfishdb.model.graphs import CellGraph, GridGraph, WindowGraph
from blowfishdb.model.numbers import Ints
from blowfishdb.model.workload import Rectangles
from blowfishdb.plan.certificate import CertifiedPlan
from blowfishdb.plan.plan import Problem
from blowfishdb.plan.program import MeasurementStage, merge_counts, merge_graph

NO_UNIVERSAL = np.empty(0, dtype=np.int64)


def window(size: int, theta: int) -> WindowGraph:
    return WindowGraph(np.minimum(np.arange(size) + theta, size - 1), NO_UNIVERSAL)


def full(shape: tuple[int, ...], presence: str = "public") -> CellGraph:
    return CellGraph(tuple(window(size, size) for size in shape), "record", np.array(False), presence)


def policies(shape: tuple[int, ...]) -> dict[str, CellGraph]:
    """One graph of each kind over cells of this shape."""
    near = tuple(window(size, 1) for size in shape)
    places = tuple(np.arange(size) for size in shape)
    universal = (NO_UNIVERSAL,) * len(shape)
    found = {presence: full(shape, presence) for presence in ("public", "secret", "only")}
    found["threshold"] = CellGraph(near, "record", np.array(False), "public")
    found["attribute"] = CellGraph(near, "attribute", np.array(False), "public")
    found["two rows"] = CellGraph(near, "record", np.array(False), "only", 2)
    found["joint"] = CellGraph((GridGraph(places, places, 2, "l1", universal),), "record", np.array(False), "public")
    return found


def random_boxes(shape: tuple[int, ...], count: int, seed: int = 0) -> Rectangles:
    rng = np.random.default_rng(seed)
    bounds = np.stack([np.sort(rng.integers(0, size + 1, (count, 2)), axis=1) for size in shape], axis=1)
    return Rectangles(shape, bounds[:, :, 0], bounds[:, :, 1])


def clustered(shape: tuple[int, ...], records: int, seed: int = 0) -> Ints:
    """Most records in one corner, the rest anywhere."""
    rng = np.random.default_rng(seed)
    near = [np.minimum((rng.exponential(0.1, records) * size).astype(np.int64), size - 1) for size in shape]
    return np.bincount(np.ravel_multi_index(tuple(near), shape), minlength=int(np.prod(shape))).astype(np.int64)


def run(mechanism: DataAware, problem: Problem, epsilon: Fraction, counts: Ints) -> Finding:
    program = mechanism.program(problem, epsilon)
    return run_program(program, program.digest(), mechanism.script(problem, program), problem.graph, counts)


def stage_costs(mechanism: DataAware, problem: Problem, epsilon: Fraction, counts: Ints) -> list[tuple[str, Fraction]]:
    """The name and the certified loss of each measurement of a script, run by hand."""
    program = mechanism.program(problem, epsilon)
    script = mechanism.script(problem, program)
    found = []
    try:
        asked = next(script)
        while True:
            graph = problem.graph if asked.buckets is None else merge_graph(problem.graph, asked.buckets)
            found.append((asked.name, asked.stage.epsilon(graph)))
            cells = counts if asked.buckets is None else merge_counts(counts, asked.buckets)
            assert isinstance(asked.stage, MeasurementStage)
            asked = script.send(measure(CertifiedPlan(asked.stage.plan, graph), cells))
    except StopIteration:
        return found
