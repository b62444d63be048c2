"""How far the rows of a fixed plan move on every hidden change, each asked of the engine's own measurement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.audit.definitions import Record
from blowfishdb.audit.neighbours import Change, Setting
from blowfishdb.audit.stages import Looked, Recorder
from blowfishdb.engine.measure import measure
from blowfishdb.engine.payable import Payable
from blowfishdb.engine.request import Prepared
from blowfishdb.engine.synopsis.request import PreparedSynopsis
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.cells import Cells
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.plan.certificate import CertifiedPlan
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
    certified = CertifiedPlan(plan, cells.graph)
    rows = _rows(recorder, plan, certified)
    if not rows.scales.size:
        return Moved(listed, [Fraction(0) for _ in listed], False, proof.epsilon)
    each = setting.policy.rows_per_person
    losses = [each * rows.loss(steps_of(cells, change)) for change in listed]
    return Moved(listed, losses, proof.is_tight and not setting.policy.facts, certified.certificate.epsilon)


def moved_by_stages(
    recorder: Recorder, looked: Sequence[Looked], cells: Cells, listed: list[Change], each: int
) -> list[Fraction]:
    """The loss of every change over the fixed rows of all stages that measured some, in buckets or in cells."""
    losses = [Fraction(0)] * len(listed)
    for stage in looked:
        if not isinstance(stage.plan, Plan) or cells.graph.cells > MOST_CELLS:
            continue
        rows = _rows(recorder, stage.plan, CertifiedPlan(stage.plan, _hides_nothing(stage.plan.cells)))
        for place, change in enumerate(listed):
            steps = [(stage.bucket(old), stage.bucket(new)) for old, new in steps_of(cells, change)]
            losses[place] += each * rows.loss(steps)
    return losses


def _hides_nothing(cells: int) -> CellGraph:
    """A policy under which the engine measures any rows: what they lose under the real one is worked out here."""
    return CellGraph((WindowGraph(np.arange(cells), np.empty(0, dtype=np.int64)),), "record", np.array(False), "public")


@dataclass(frozen=True, eq=False)
class _Rows:
    """What each cell adds to every row, 0 in the last line for absence; and the noise that the rows get."""

    columns: Ints
    scales: Ints
    unit: Fraction

    def loss(self, steps: Iterable[tuple[int, int]]) -> Fraction:
        """What moves between these cells, all at once, lose."""
        if not self.scales.size:
            return Fraction(0)
        moved = sum((self.columns[new] - self.columns[old] for old, new in steps), np.zeros_like(self.columns[0]))
        return Fraction(int(np.abs(moved) @ self.scales)) / self.unit


def _rows(recorder: Recorder, plan: Plan, certified: CertifiedPlan) -> _Rows:
    """The rows as the engine measures them, a cell at a time."""
    recorder.quiet()
    columns = np.zeros((plan.cells + 1, plan.weights.size), dtype=np.int64)
    scales, unit = np.zeros(0, dtype=np.int64), Fraction(1)
    for cell in range(plan.cells):
        only = np.zeros(plan.cells, dtype=np.int64)
        only[cell] = 1
        columns[cell] = measure(certified, only).noisy
        for draw in recorder.tape.take():
            scales, unit = draw.weights, draw.unit
    return _Rows(columns, scales, unit)


def steps_of(cells: Cells, change: Change) -> list[tuple[int, int]]:
    """The cells between which the records of a change move."""
    return [(cell_of(cells, old), cell_of(cells, new)) for old, new in zip(change.before, change.after, strict=True)]


def cell_of(cells: Cells, record: Record | None) -> int:
    """The flat cell of a record; -1, the last row of a table of columns, where it does not count."""
    if record is None:
        return -1
    if not cells.attributes:
        return 0
    return int(cells.cell_of({name: np.array([record[name]]) for name in cells.attributes})[0])


def cells_of_records(cells: Cells, records: Sequence[Record]) -> list[int]:
    """The flat cell of each record, all at once."""
    if not cells.attributes:
        return [0] * len(records)
    found = cells.cell_of({name: np.array([record[name] for record in records]) for name in cells.attributes})
    return [int(cell) for cell in found]


def as_counts(cells: Cells, records: list[Record]) -> Ints:
    """How many of the records each cell counts."""
    counts = np.zeros(cells.graph.cells + 1, dtype=np.int64)
    for record in records:
        counts[cell_of(cells, record)] += 1
    return counts[:-1]
