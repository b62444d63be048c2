"""How constants are chosen: a search over a stated grid for the least error on synthetic data, and how sure it is.

A setting is judged by the geometric mean, over many synthetic cases, of its error over that of the best mechanism that
does not look at the data; cases above a limit make it worse. The promise elsewhere is that no table is worse than
1.25; a family of made-up tables cannot hold everything, so half of that margin is left here.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.harness import Row
from blowfishdb.errors import InvalidInput
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Kronecker
from blowfishdb.plan.plan import EdgePlan, Measurement
from blowfishdb.plan.program import Measured, MeasurementStage, Reply, SelectionStage, StageRequest, merge_counts

LIMIT = 1.125
RECORD = Path(__file__).resolve().parent / "tuned.json"
"""What the procedures gave when they were last run; the package's constants are compared with it in the tests."""
ROUNDS = 4
RESAMPLES = 1000

Setting = Mapping[str, float]
Judged = Callable[[Setting], Floats]
"""For a setting the ratio of every case, in a fixed order."""


@dataclass(frozen=True)
class Knob:
    """One constant: the values that are tried, and the one the search starts from."""

    name: str
    values: tuple[float, ...]
    start: float

    def __post_init__(self) -> None:
        if self.start not in self.values or len(set(self.values)) != len(self.values):
            raise InvalidInput(f"{self.name}: the start is one of the values, and each value is there once")


@dataclass(frozen=True)
class Choice:
    """One chosen constant, the next best value of it, and in what part of resamples the choice beats that."""

    name: str
    value: float
    next_best: float | None
    surely: float | None


@dataclass(frozen=True)
class Outcome:
    """What a search chose, its geometric mean and its worst case."""

    choices: tuple[Choice, ...]
    mean: float
    worst: float
    tried: int

    @property
    def setting(self) -> dict[str, float]:
        return {choice.name: choice.value for choice in self.choices}


def score(ratios: Floats, limit: float = LIMIT) -> float:
    """The geometric mean, times the square of what the worst case is above the limit."""
    return float(np.exp(np.mean(np.log(ratios)))) * max(1.0, float(ratios.max()) / limit) ** 2


def search(groups: Sequence[Sequence[Knob]], judged: Judged, limit: float = LIMIT) -> Outcome:
    """Goes round the groups of knobs, trying all values of a group together, until a round changes nothing."""
    setting = {knob.name: knob.start for group in groups for knob in group}
    known: dict[tuple[float, ...], float] = {}

    def cost(tried: Setting) -> float:
        key = tuple(tried.values())
        if key not in known:
            known[key] = score(judged(tried), limit)
        return known[key]

    for _ in range(ROUNDS):
        before = dict(setting)
        for group in groups:
            setting = min(_variants(setting, group), key=cost)
        if setting == before:
            break
    ratios = judged(setting)
    choices = [_choice(knob, setting, ratios, judged, cost, limit) for group in groups for knob in group]
    return Outcome(tuple(choices), float(np.exp(np.mean(np.log(ratios)))), float(ratios.max()), len(known))


def _variants(setting: Setting, group: Sequence[Knob]) -> Iterator[dict[str, float]]:
    """The setting as it is, then with every combination of the group's values: a tie changes nothing."""
    yield dict(setting)
    for values in itertools.product(*(knob.values for knob in group)):
        yield {**setting, **dict(zip((knob.name for knob in group), values, strict=True))}


def _choice(
    knob: Knob, setting: Setting, ratios: Floats, judged: Judged, cost: Callable[[Setting], float], limit: float
) -> Choice:
    others = [value for value in knob.values if value != setting[knob.name]]
    if not others:
        return Choice(knob.name, setting[knob.name], None, None)
    rival = min(others, key=lambda value: cost({**setting, knob.name: value}))
    rivals = judged({**setting, knob.name: rival})
    drawn = np.random.default_rng(0).integers(0, ratios.size, (RESAMPLES, ratios.size))
    better = [score(ratios[cases], limit) <= score(rivals[cases], limit) for cases in drawn]
    return Choice(knob.name, setting[knob.name], rival, float(np.mean(better)))


def rows(part: str, outcome: Outcome) -> Iterator[Row]:
    """A row for each constant, with what was recorded, and one for the errors."""
    recorded = recorded_setting(part)
    for choice in outcome.choices:
        surely = "" if choice.surely is None else f"beats {choice.next_best:g} in {choice.surely:.0%} of resamples"
        other = recorded.get(choice.name)
        yield Row(f"{part} {choice.name}", choice.value, other, note=surely)
    note = f"worst {outcome.worst:.3f}; {outcome.tried} settings tried"
    yield Row(f"{part}, error over the best that is blind", ratio=outcome.mean, note=note)


def recorded_setting(part: str) -> dict[str, float]:
    """The recorded outcome of one procedure."""
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    return {name: float(value) for name, value in known.get(part, {}).items()}


Found = TypeVar("Found")


def seeded_run(script: Generator[StageRequest, Reply, Found], counts: Ints, seed: int) -> Found:
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
    plan, nothing = stage.plan, np.empty(0, dtype=np.int64)
    scaled = generator.laplace(0.0, 1.0, plan.weights.size) * (float(plan.unit) / plan.weights)
    noise = np.rint(scaled).astype(np.int64)
    if isinstance(plan, EdgePlan):
        return Measured(plan.workload.dot(cells) + plan.decoder @ noise, nothing)
    rows = [
        part.rows if isinstance(part, Measurement) else Kronecker(tuple(factor.rows for factor in part.factors))
        for part in plan.parts
    ]
    exact = nothing if plan.exact is None else plan.exact.dot(cells)
    return Measured(np.concatenate([nothing, *(part.dot(cells) for part in rows)]) + noise, exact)


def _draws(stage: SelectionStage, generator: np.random.Generator) -> Ints:
    noise = stage.noise
    if noise.tie_words:
        raise InvalidInput("seeded runs know selections without ties only")
    scales = np.repeat(float(noise.unit) / noise.weights, noise.sizes)
    if noise.one_sided:
        return np.floor(generator.exponential(1.0, scales.size) * scales).astype(np.int64)
    return np.rint(generator.laplace(0.0, 1.0, scales.size) * scales).astype(np.int64)
