"""The first encoding of digests, kept to recognise what ledgers and files hold in it; nothing new is written in it.

It is not injective: `_factor` joins the universal vertices of all axes of a joint threshold without their lengths, so
two graphs may share a digest. A digest names what a certificate is about and proves nothing: whoever compares one of
these computes the loss from the plan and the graph at hand as well (docs/proofs/certificate.md, Digests).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from blowfishdb.model.graphs import CellGraph, CliqueGraph, ConstraintMoves, EdgeGraph, Factor, GridGraph, WindowGraph
from blowfishdb.model.workload import (
    AllRanges,
    Identity,
    Intervals,
    Kronecker,
    Prefix,
    Rectangles,
    Rows,
    Sparse,
    Stacked,
)
from blowfishdb.plan.plan import EdgePlan, KroneckerMeasurement, Measurement, Plan

NAMES: dict[type, bytes] = {Identity: b"identity", Prefix: b"prefix", AllRanges: b"all ranges"}


def plan_digest(plan: Plan | EdgePlan) -> str:
    """The digest of a plan."""
    unit = str(plan.unit).encode()
    if isinstance(plan, Plan):
        exact = b"" if plan.exact is None else _rows(plan.exact)
        return hashed([b"plan", unit, exact, *(_part(part) for part in plan.parts)])
    matrices = [
        array.tobytes()
        for matrix in (plan.strategy, plan.decoder)
        for array in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)
    ]
    return hashed([b"edge plan", unit, _rows(plan.workload), plan.edges.tobytes(), plan.weights.tobytes(), *matrices])


def program_digest(mechanism: str, stages: Iterable[tuple[str, Fraction]]) -> str:
    """The digest of a program: its mechanism, and each stage with its allowance."""
    return hashed([b"program", mechanism.encode(), *(f"{stage} {epsilon}".encode() for stage, epsilon in stages)])


def graph_digest(graph: CellGraph) -> str:
    """The digest of a policy graph on cells."""
    head = f"{graph.composition} {graph.presence} {graph.rows_per_person} {graph.shape}".encode()
    parts = [head, graph.outside.tobytes(), *(_factor(factor) for factor in graph.factors)]
    if graph.constraint_moves is not None:
        parts.append(b"together" + _moves(graph.constraint_moves))
    lengths = b"".join(len(part).to_bytes(8, "big") for part in parts)
    return hashlib.sha256(lengths + b"".join(parts)).hexdigest()


def hashed(parts: Iterable[bytes]) -> str:
    """The hash of parts, each behind its length."""
    return hashlib.sha256(_framed(parts)).hexdigest()


def _factor(factor: Factor) -> bytes:
    match factor:
        case WindowGraph():
            return b"window" + factor.reach.tobytes() + b"hubs" + factor.universal.tobytes()
        case GridGraph():
            head = f"grid {factor.metric} {factor.theta} {factor.shape}".encode()
            return head + b"".join(
                a.tobytes() for group in (factor.lows, factor.highs, factor.universal) for a in group
            )
        case EdgeGraph():
            return b"edges" + str(factor.size).encode() + factor.pairs.tobytes()
        case CliqueGraph():
            return b"cliques" + factor.labels.tobytes()
    raise TypeError(f"the first encoding has no graph {type(factor)}")


def _moves(moves: ConstraintMoves) -> bytes:
    head = f"{moves.case} {moves.most}".encode()
    arrays = [moves.starts, moves.members, np.asarray(moves.with_zero, dtype=np.bool_), moves.times]
    return hashlib.sha256(b"".join([head, *(array.tobytes() for array in arrays)])).digest()


def _part(part: Measurement | KroneckerMeasurement) -> bytes:
    if isinstance(part, KroneckerMeasurement):
        return b"product" + b"|".join(_part(factor) for factor in part.factors)
    return b"rows" + _rows(part.rows) + b"weights" + part.weights.tobytes()


def _rows(rows: Rows) -> bytes:
    match rows:
        case Identity() | Prefix() | AllRanges():
            return _framed([NAMES[type(rows)], str(rows.cells).encode()])
        case Intervals():
            return _framed([b"intervals", str(rows.cells).encode(), rows.low.tobytes(), rows.high.tobytes()])
        case Rectangles():
            return _framed([b"boxes", str(rows.grid).encode(), rows.low.tobytes(), rows.high.tobytes()])
        case Sparse():
            arrays = (rows.matrix.indptr, rows.matrix.indices, rows.matrix.data)
            entries = [array.astype(np.int64).tobytes() for array in arrays]
            return _framed([b"sparse", str(rows.shape).encode(), *entries])
        case Kronecker():
            return _framed([b"product", *(_rows(factor) for factor in rows.factors)])
        case Stacked():
            return _framed([b"union", *(_rows(part) for part in rows.parts)])
    raise TypeError(f"the first encoding has no rows {type(rows)}")


def _framed(parts: Iterable[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)
