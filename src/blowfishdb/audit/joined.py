"""Joined tables: whatever a dimension table holds, each row of the main table counts once, or as NULL."""

from __future__ import annotations

from collections import Counter

import duckdb
import numpy as np

from blowfishdb.audit.scratch import Watch, watched_engine
from blowfishdb.audit.verdicts import Line, judged
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import categorical, domain
from blowfishdb.model.graphs.families import full
from blowfishdb.model.policy import ROW, Person, Policy, Row, person
from blowfishdb.model.predicate import Column
from blowfishdb.sources.base import Join
from blowfishdb.sources.ibis_source import IbisSource
from blowfishdb.sources.location import TableName

DECLARED = domain({"kind": categorical(["a", "b"], outside="b")})
KEYS = [(1, "a"), (2, "b"), (3, "a"), (3, "a"), (4, "a"), (4, "b"), (5, None), (6, "c"), (None, "a"), (None, "b")]
"""Of these only 1, 2, 5 and 6 are keys of one row."""
KINDS = {1: "a", 2: "b", 6: "b"}
AT_MOST = 2
UNITS: dict[str, Row | Person] = {"rows": ROW, "people": person("who", at_most=AT_MOST, order_by="nr")}


def joined_lines() -> list[Line]:
    """Keys that are missing, that occur twice, that are NULL; for rows, and for people with rows too many."""
    rows = [(place % 8 or None, place % 4, place) for place in range(32)]
    watch, database = Watch(), duckdb.connect(":memory:", config={"threads": 1})
    database.execute("CREATE TABLE main_rows (ref BIGINT, who BIGINT, nr BIGINT)")
    database.execute("CREATE TABLE kinds (id BIGINT, name VARCHAR)")
    database.executemany("INSERT INTO main_rows VALUES (?, ?, ?)", rows)
    database.executemany("INSERT INTO kinds VALUES (?, ?)", KEYS)
    engine = watched_engine(database, watch, "joined")
    source = IbisSource(engine, TableName("main_rows"), [Join("kinds", "ref", "id", {"kind": "name"})])
    found = []
    for said, unit in UNITS.items():
        counted = rows if isinstance(unit, Row) else [row for row in rows if row[2] < 4 * AT_MOST]
        wanted = Counter(KINDS.get(ref or 0) for ref, _, _ in counted)
        troubles = []
        for where, kinds in ((None, ("a", "b", None)), (Column("kind") == "a", ("a",))):
            cells = compile_cells(DECLARED, Policy({"kind": full()}, unit=unit), "kind", where)
            if not np.array_equal(source.prepare(cells, unit).run(None), [wanted[kind] for kind in kinds]):
                troubles.append("a joined table makes rows count more than once, or not at all")
        found.append(judged("replay", f"a joined table, {said}", "counting", troubles, "each row counts once", 2))
    database.close()
    return found
