"""How far the rows of a fixed plan move on every hidden change, each asked of the engine's own measurement."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.audit.definitions import Record
from blowfishdb.audit.neighbours import Change, Setting
from blowfishdb.audit.stages import Recorder
from blowfishdb.engine.measure import measure
from blowfishdb.engine.payable import Payable
from blowfishdb.engine.request import Prepared
from blowfishdb.engine.synopsis.request import PreparedSynopsis
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cells import Cells
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Plan

MOST_CELLS = 600


@dataclass(frozen=True, eq=False)
class Moved:
    """The loss of each change, over the scales that the engine asks the sampler for."""

    changes: list[Change]
    losses: list[Fraction]
    claims_tight: bool
    certified: Fraction
    """What the certificate says when it is computed once more."""


def moved_by_all(recorder: Recorder, payable: Payable, listed: list[Change], setting: Setting) -> Moved | None:
    """The loss of every change; None where what is measured depends on earlier outputs or on edges."""
    inner = payable.inner if isinstance(payable, PreparedSynopsis) else payable
    if not isinstance(inner, Prepared):
        return None
    plan, proof, cells = inner.best.plan, inner.best.certificate, inner.compiled.cells
    if not isinstance(plan, Plan) or cells.graph.cells > MOST_CELLS:
        return None
    recorder.quiet()
    columns = np.zeros((cells.graph.cells + 1, plan.weights.size), dtype=np.int64)
    scales = np.zeros(0, dtype=np.int64)
    unit = Fraction(1)
    for cell in range(cells.graph.cells):
        only = np.zeros(cells.graph.cells, dtype=np.int64)
        only[cell] = 1
        columns[cell] = measure(plan, proof, only).noisy
        for draw in recorder.tape.take():
            scales, unit = draw.weights, draw.unit
    if not scales.size:
        return Moved(listed, [Fraction(0) for _ in listed], False, proof.epsilon)
    each = setting.policy.rows_per_person
    losses = []
    for change in listed:
        step = sum(
            (
                columns[cell_of(cells, new)] - columns[cell_of(cells, old)]
                for old, new in zip(change.before, change.after, strict=True)
            ),
            np.zeros(columns.shape[1], dtype=np.int64),
        )
        losses.append(Fraction(each * int(np.abs(step) @ scales)) / unit)
    again = certify(plan, cells.graph).epsilon
    return Moved(listed, losses, proof.is_tight and not setting.policy.facts, again)


def cell_of(cells: Cells, record: Record | None) -> int:
    """The flat cell of a record; -1, the last row of a table of columns, where it does not count."""
    if record is None:
        return -1
    if not cells.attributes:
        return 0
    return int(cells.cell_of({name: np.array([record[name]]) for name in cells.attributes})[0])


def as_counts(cells: Cells, records: list[Record]) -> Ints:
    """How many of the records each cell counts."""
    counts = np.zeros(cells.graph.cells + 1, dtype=np.int64)
    for record in records:
        counts[cell_of(cells, record)] += 1
    return counts[:-1]
