"""Runs a data-aware script with seeded noise: for choosing constants only, where runs must repeat exactly.

Noise is floating-point, rounded to whole numbers, from a public seed. Nothing that protects data uses this: the
engine draws exact noise from the system's randomness, and checks receipts and allowances.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import numpy as np

from blowfishdb.errors import InvalidInput
from blowfishdb.model.numbers import Ints
from blowfishdb.plan.plan import Measurement, Plan
from blowfishdb.plan.program import Ask, Measured, MeasurementStage, Reply, Selection, merge_counts

Found = TypeVar("Found")


def seeded_run(script: Generator[Ask, Reply, Found], counts: Ints, seed: int) -> Found:
    """What the script ends with."""
    generator = np.random.default_rng(seed)
    try:
        asked = next(script)
        while True:
            cells = counts if asked.buckets is None else merge_counts(counts, asked.buckets)
            stage = asked.stage
            if isinstance(stage, MeasurementStage):
                asked = script.send(_measured(stage, cells, generator))
            else:
                asked = script.send(stage.choose(cells, _draws(stage, generator)))
    except StopIteration as end:
        found: Found = end.value
        return found


def _measured(stage: MeasurementStage, cells: Ints, generator: np.random.Generator) -> Measured:
    plan = stage.plan
    if not isinstance(plan, Plan) or not all(isinstance(part, Measurement) for part in plan.parts):
        raise InvalidInput("seeded runs know plans of plain rows only")
    rows = [part.rows.dot(cells) for part in plan.parts if isinstance(part, Measurement)]
    noise = np.rint(generator.laplace(0.0, 1.0, plan.weights.size) * (float(plan.unit) / plan.weights))
    exact = np.empty(0, dtype=np.int64) if plan.exact is None else plan.exact.dot(cells)
    return Measured(np.concatenate([np.empty(0, dtype=np.int64), *rows]) + noise.astype(np.int64), exact)


def _draws(stage: Selection, generator: np.random.Generator) -> Ints:
    noise = stage.noise
    if noise.tie_words:
        raise InvalidInput("seeded runs know selections without ties only")
    scales = np.repeat(float(noise.unit) / noise.weights, noise.sizes)
    if noise.one_sided:
        return np.floor(generator.exponential(1.0, scales.size) * scales).astype(np.int64)
    return np.rint(generator.laplace(0.0, 1.0, scales.size) * scales).astype(np.int64)
