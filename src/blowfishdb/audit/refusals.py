"""What must be refused, whoever proposes it: plans that leave something out, and measurements that nobody certified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.audit.verdicts import Line, judged
from blowfishdb.engine.measure import measure
from blowfishdb.errors import BlowfishError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cellgraph import CellGraph, Presence
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.workload import Identity, Prefix
from blowfishdb.plan.certificate import Certificate, certified_as_charged, certify
from blowfishdb.plan.plan import EdgePlan, Measurement, Plan
from blowfishdb.plan.stages import Allowance, MeasurementStage, Program, ProgramRun

CELLS = 5
ONE = Fraction(1)
NONE = np.empty(0, dtype=np.int64)


def refusal_lines() -> list[Line]:
    """One line for each kind of thing that the core must not let through."""
    return [
        _judged("edge plans that leave something out", dict(_edge_plans())),
        _judged("measurements without a certificate of their own", _measurements()),
        _judged("stages beyond what was charged", _stages()),
    ]


def _judged(subject: str, tried: dict[str, Callable[[], object]]) -> Line:
    troubles = [f"{said} is let through" for said, attempt in tried.items() if not _is_refused(attempt)]
    return judged("exact", subject, "refused", troubles, "all of them", len(tried))


def _is_refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except BlowfishError:
        return True
    return False


def _graph(presence: Presence = "public") -> CellGraph:
    window = WindowGraph(np.minimum(np.arange(CELLS) + 2, CELLS - 1), NONE)
    return CellGraph((window,), "record", np.array(False), presence)


def _edge_plan(graph: CellGraph) -> EdgePlan:
    """Every cell, with noise on every edge of the graph."""
    edges = graph.edges()
    ends = np.zeros((CELLS + 1, edges.shape[0]), dtype=np.int64)
    column = np.arange(edges.shape[0])
    ends[edges[:, 0], column] += 1
    ends[edges[:, 1], column] -= 1
    strategy, ones = np.eye(edges.shape[0], dtype=np.int64), np.ones(edges.shape[0], dtype=np.int64)
    return EdgePlan(ONE, Identity(CELLS), edges, csr_array(strategy), csr_array(ends[:-1]), ones)


def _edge_plans() -> Iterator[tuple[str, Callable[[], object]]]:
    """The same plan without one edge after the other, and with one wrong number after the other in its decoder."""
    presences: tuple[Presence, ...] = ("public", "secret")
    for presence in presences:
        graph = _graph(presence)
        whole = _edge_plan(graph)
        for left_out in range(whole.edges.shape[0]):
            kept = np.delete(np.arange(whole.edges.shape[0]), left_out)
            strategy = csr_array(np.eye(kept.size, dtype=np.int64))
            decoder, ones = csr_array(whole.decoder[:, kept]), np.ones(kept.size, dtype=np.int64)
            short = EdgePlan(ONE, whole.workload, whole.edges[kept], strategy, decoder, ones)
            yield f"an edge plan without edge {left_out}, presence {presence}", partial(certify, short, graph)
            wrong = whole.decoder.toarray()
            wrong[int(whole.edges[left_out, 0]), left_out] = 0
            bare = replace(whole, decoder=csr_array(wrong))
            yield f"a decoder without edge {left_out}, presence {presence}", partial(certify, bare, graph)


def _measurements() -> dict[str, Callable[[], object]]:
    graph, counts = _graph(), np.arange(CELLS)
    own = Plan(ONE, (Measurement(Identity(CELLS), np.ones(1, dtype=np.int64)),))
    others = {
        "with less noise": own.with_unit(ONE / 2),
        "with other weights": Plan(ONE, (Measurement(Identity(CELLS), np.full(1, 2)),)),
        "of other rows": Plan(ONE, (Measurement(Prefix(CELLS), np.ones(1, dtype=np.int64)),)),
        "with exact rows": replace(own, exact=Identity(CELLS)),
    }
    proof = certify(own, graph)
    return {f"a plan {said}": partial(_charged, plan, graph, proof, counts) for said, plan in others.items()}


def _charged(plan: Plan, graph: CellGraph, proof: Certificate, counts: Ints) -> object:
    return measure(certified_as_charged(plan, graph, proof), counts)


def _stages() -> dict[str, Callable[[], object]]:
    graph = _graph()
    stage = MeasurementStage(Plan(ONE, (Measurement(Identity(CELLS), np.ones(1, dtype=np.int64)),)))
    cost = stage.epsilon(graph)
    program = Program("audit", (Allowance("first", cost), Allowance("second", cost - Fraction(1, 10**12))))
    run = ProgramRun(program, program.digest())
    dearer = Program("audit", (Allowance("first", 2 * cost), Allowance("second", cost)))
    return {
        "a stage before its turn": lambda: run.admit("second", stage, graph),
        "a stage a second time": lambda: run.admit("first", stage, graph).admit("first", stage, graph),
        "a stage a trillionth too dear": lambda: run.admit("first", stage, graph).admit("second", stage, graph),
        "a stage in place of itself": lambda: run.admit("first", stage, graph, ("first",)),
        "a stage that nobody allowed": lambda: run.admit("third", stage, graph),
        "a program under another's receipt": lambda: ProgramRun(dearer, program.digest()),
    }
