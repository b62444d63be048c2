"""Whether rows count where the definitions say: by the compiled cells, and by the statement that the source runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from blowfishdb.audit.all_changes import as_counts, cell_of
from blowfishdb.audit.definitions import Record
from blowfishdb.audit.neighbours import Place, Setting
from blowfishdb.audit.scratch import Scratch
from blowfishdb.audit.sealed import opened
from blowfishdb.audit.tables import Pair
from blowfishdb.engine.node_release import PreparedNodes
from blowfishdb.engine.payable import Payable
from blowfishdb.engine.program_request import PreparedProgram
from blowfishdb.engine.request import Prepared
from blowfishdb.engine.synopsis.request import PreparedSynopsis
from blowfishdb.model.cells import Cells
from blowfishdb.sources.base import Counting


def cells_of(payable: Payable) -> Cells | None:
    """The cells of a release that has any."""
    inner = payable.inner if isinstance(payable, PreparedSynopsis) else payable
    return inner.compiled.cells if isinstance(inner, Prepared | PreparedProgram) else None


def placing_troubles(setting: Setting, payable: Payable, everyone: Sequence[Record]) -> list[str]:
    """Records in the same groups must share a cell, records in different groups must not, and left out is left out."""
    cells = cells_of(payable)
    if cells is None:
        return []
    cell_at: dict[Place, int] = {None: -1}
    place_at: dict[int, Place] = {-1: None}
    for record in everyone:
        place, cell = setting.place(record), cell_of(cells, record)
        if cell_at.setdefault(place, cell) != cell or place_at.setdefault(cell, place) != place:
            return [f"the record {tuple(record.values())} is placed in another cell than the definitions say"]
    return []


def source_troubles(world: Scratch, setting: Setting, payable: Payable, counting: Counting, pair: Pair) -> list[str]:
    """The source must count what the made-up rows hold, cell by cell."""
    found: list[str] = []
    for rows, records in ((pair.before, pair.records_before), (pair.after, pair.records_after)):
        world.fill(rows)
        if isinstance(payable, PreparedNodes):
            found += _point_troubles(world, setting, payable, records)
            continue
        cells = cells_of(payable)
        if cells is not None and not np.array_equal(opened(counting.run(None)), as_counts(cells, records)):
            found.append("the source counts other records than the table holds")
    return found


def _point_troubles(world: Scratch, setting: Setting, payable: PreparedNodes, records: list[Record]) -> list[str]:
    """Points may come back in any order, and one point in several rows."""
    points, numbers = world.holding.source.prepare_points(payable.points, world.holding.policy.unit).run(None)
    got: Counter[Place] = Counter()
    for point, number in zip(points.tolist(), numbers.tolist(), strict=True):
        got[tuple(point)] += number
    names = [axis.attribute for axis in setting.axes]
    order = [names.index(name) for name in payable.points.axes]
    wanted: Counter[Place] = Counter()
    for place in (setting.place(record) for record in records):
        if isinstance(place, tuple):
            wanted[tuple(place[number] for number in order)] += 1
    return [] if got == wanted else ["the source counts other points than the table holds"]
