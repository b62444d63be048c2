"""Runs a data-aware script: every access it asks for is certified against its allowance before noise is drawn."""

from __future__ import annotations

import numpy as np

from blowfishdb.engine.measure import checked_counts, measure
from blowfishdb.mechanisms.data_aware.script import Finding, Script
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.noise.sampler import sample, sample_geometric, sample_words
from blowfishdb.plan.certificate import CertifiedPlan
from blowfishdb.plan.merged import merge_counts, merge_graph
from blowfishdb.plan.stages import WORD_BITS, Ask, MeasurementStage, Program, ProgramRun, Reply, Selection


def run_program(program: Program, receipt_digest: str, script: Script, graph: CellGraph, counts: Ints) -> Finding:
    """What the script found; AllowanceExceeded stops it before the stage that would spend too much.

    The receipt must have been written for this program. Counts and noise stay here: the script gets what each stage
    publishes, and nothing else.
    """
    run = ProgramRun(program, receipt_digest)
    cells = checked_counts(counts, graph.cells)
    try:
        asked = next(script)
        while True:
            buckets = asked.buckets
            own_graph = graph if buckets is None else merge_graph(graph, buckets)
            run = run.admit(asked.name, asked.stage, own_graph, asked.instead_of)
            asked = script.send(_reply(asked, own_graph, cells if buckets is None else merge_counts(cells, buckets)))
    except StopIteration as end:
        return _finding(end.value)


def _reply(asked: Ask, graph: CellGraph, counts: Ints) -> Reply:
    stage = asked.stage
    if isinstance(stage, MeasurementStage):
        return measure(CertifiedPlan(stage.plan, graph), counts)
    return stage.choose(counts, _draws(stage))


def _draws(stage: Selection) -> Ints:
    noise = stage.noise
    draw = sample_geometric if noise.one_sided else sample
    by_class = [
        draw(noise.unit, int(weight), int(size)) for weight, size in zip(noise.weights, noise.sizes, strict=True)
    ]
    words = sample_words(noise.tie_words * int(noise.sizes.sum()), WORD_BITS)
    return np.concatenate([*by_class, words])


def _finding(value: object) -> Finding:
    if not isinstance(value, Finding):
        raise TypeError("a script ends with a Finding")
    return value
