"""Made-up tables: rows for given records, and the counts they must give, from the definitions alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blowfishdb.audit.definitions import Record
from blowfishdb.audit.neighbours import Change, Setting
from blowfishdb.audit.scratch import TableRow, raw_values
from blowfishdb.model.policy import Person

COUNTS: tuple[tuple[int, int], ...] = ((4, 1), (9, 6), (10, 2), (19, 14), (99, 49), (29, 24))
"""How many other records share the place that the changing one leaves, and the one it goes to.

So that what only shows when a count passes a limit that people like does show; each case tries another one.
"""
SPARE = 2
"""So many rows more than count does a person have in made-up tables."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring tables as rows, and the records of each that count for somebody."""

    before: list[TableRow]
    after: list[TableRow]
    records_before: list[Record]
    records_after: list[Record]


def crowd(setting: Setting, base: Sequence[Record], change: Change, number: int, turn: int) -> list[Record]:
    """The records beside the first changes of a case: so that a count becomes 0, that nobody else is there, and so on.

    Later changes happen among the given records.
    """
    if number == 1:
        return []
    if number > 2:
        return list(base)
    wanted = COUNTS[turn % len(COUNTS)] if number else (0, 3)
    places = {setting.place(record) for record in (*change.before, *change.after)}
    elsewhere = [record for record in base if setting.place(record) not in places]
    ends = zip((change.before[0], change.after[0]), wanted, strict=True)
    return [*elsewhere, *(record for record, times in ends if record is not None for _ in range(times))]


def table_pair(setting: Setting, base: Sequence[Record], change: Change, random: np.random.Generator) -> Pair:
    """The two tables of a change over the same other records; those are spelled alike in both."""
    keep = [_row(setting, record, random) for record in base]
    if isinstance(setting.policy.unit, Person):
        return _people(setting, setting.policy.unit, base, keep, change, random)
    sides: list[tuple[list[TableRow], list[Record]]] = []
    for moved in (change.before, change.after):
        there = [record for record in moved if record is not None]
        sides.append(([*keep, *(_row(setting, record, random) for record in there)], [*base, *there]))
    (rows, records), (other_rows, other_records) = sides
    return Pair(rows, other_rows, records, other_records)


def _row(setting: Setting, record: Record, random: np.random.Generator) -> TableRow:
    found: TableRow = {}
    for name, code in record.items():
        options = raw_values(setting.applied[name], code)
        found[name] = options[int(random.integers(len(options)))]
    return found


def _people(
    setting: Setting,
    unit: Person,
    base: Sequence[Record],
    keep: list[TableRow],
    change: Change,
    random: np.random.Generator,
) -> Pair:
    """One person has more rows than count, and all of them change; so do all others have a few rows too many."""
    each = unit.at_most + SPARE
    others: list[TableRow] = []
    by_person: dict[int, list[Record]] = {}
    for number, (record, row) in enumerate(zip(base, keep, strict=True)):
        person, place = divmod(number, each)
        # Later rows have the smaller keys, so that the order of the table is not the order that counts.
        others.append({**row, unit.id: f"person {person}", unit.order_by: each - place})
        by_person.setdefault(person, []).insert(0, record)
    kept = [record for own in by_person.values() for record in own[: unit.at_most]]
    # Rows whose keys tie where the limit falls do not count, whatever they hold; nor do rows of nobody.
    keys = [*range(unit.at_most - 1), *[unit.at_most] * SPARE]
    if len(base) >= len(keys):
        others += [{**row, unit.id: "tied", unit.order_by: key} for row, key in zip(keep, keys, strict=False)]
        kept += base[: unit.at_most - 1]
    others += [{**row, unit.id: None, unit.order_by: key} for key, row in enumerate(keep[:SPARE])]
    sides: list[tuple[list[TableRow], list[Record]]] = []
    for (moved,) in (change.before, change.after):
        own = [] if moved is None else [moved] * each
        rows = [
            {**_row(setting, record, random), unit.id: "the one", unit.order_by: place}
            for place, record in enumerate(own)
        ]
        sides.append(([*others, *rows], [*kept, *own[: unit.at_most]]))
    (rows_before, records), (rows_after, other_records) = sides
    return Pair(rows_before, rows_after, records, other_records)
