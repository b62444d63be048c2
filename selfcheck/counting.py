"""Counting: made-up columns of every type in real engines, and answers without noise, against a plain reading of rows.

A release that counts other records than it says, reads an answer off the wrong cells or takes another question's rows
for its own is certified correctly and wrong all the same; only the numbers show it.
"""

from __future__ import annotations

import datetime
import itertools
import math
import re
import sqlite3
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from blowfishdb.audit.cases import Limit, limited
from blowfishdb.audit.definitions import begin_of
from blowfishdb.audit.report import CheckLine, broken, judged
from blowfishdb.audit.scratch import Scratch, Watch, replaced, scratch, swapped, taped, watched_engine
from blowfishdb.audit.stages import as_counts
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Run, charged_payload, decode, prepare
from blowfishdb.engine.compile import ANALYSTS
from blowfishdb.engine.request import AccuracyTarget, accuracy_target, make_request
from blowfishdb.errors import BlowfishError, Declined, SourceError
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.calendar import Dates, Timestamps, find_zone
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import (
    CELL,
    CLAMP,
    Attribute,
    Bins,
    Categorical,
    Domain,
    Integers,
    bins,
    categorical,
    domain,
    integers,
)
from blowfishdb.model.numbers import LARGEST, Ints
from blowfishdb.model.policy import Person, Policy, Row, full, line, partition
from blowfishdb.model.predicate import Axis, Both, Column, Negation
from blowfishdb.model.query import Part, Query, query
from blowfishdb.noise.coupling import draw_between, draw_coarser
from blowfishdb.sources import duckdb as duckdb_source
from blowfishdb.sources import keys, statement, steps
from blowfishdb.sources.base import Engine, Fetched
from blowfishdb.sources.duckdb import SEPARATORS
from blowfishdb.sources.ibis_source import IbisSource, open_source
from blowfishdb.sources.location import TableName
from blowfishdb.sources.sqlite import SQLite
from selfcheck.made_up import UNITS, made_up_axis, made_up_condition, made_up_times, one_of

NAME = "counted"
ROWS = 60
LONG = 150
"""More values than a byte has numbers for."""
LIMITS: tuple[Limit, ...] = (
    (keys, "LIST_LIMIT"),
    (statement, "LIST_LIMIT"),
    (keys, "CHOICE_LIMIT"),
    (keys, "STEP_LIMIT"),
    (keys, "DAYS_LIMIT"),
    (steps, "PROOF_LIMIT"),
    (steps, "MOST_NUMBERS"),
    (statement, "RUN_LIMIT"),
    (statement, "ATOM_LIMIT"),
)
"""Limits beyond which a statement takes another form; some of them count as passed in some turns."""
TIMES = ("dates", "timestamps", "timestamps")
KINDS = ("integers", "integers", "equal bins", "equal bins", "uneven bins", "texts", "numbers", *TIMES)
TableRow = dict[str, Any]


def counting_lines(*, quick: bool, seed: int) -> list[CheckLine]:
    """One line per engine that needs no server: the counts of made-up tables against a plain reading of their rows."""
    settings = 250 if quick else 600
    lines: list[CheckLine] = []
    with tempfile.TemporaryDirectory(prefix="blowfish-audit-") as folder:
        database = duckdb.connect(":memory:", config={"threads": 1})
        path = Path(folder) / "rows.sqlite"
        with closing(database), closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("PRAGMA synchronous = OFF")
            engines: dict[str, tuple[Engine, Callable[..., object], int]] = {
                "DuckDB": (watched_engine(database, Watch(), NAME), database.execute, settings),
                "SQLite": (SQLite(path), other.execute, settings // 2),
            }
            for name, (engine, execute, number) in engines.items():
                random = np.random.default_rng([seed, 53, len(lines)])
                violations = [
                    wrong
                    for turn in range(number)
                    for wrong in _violations(random, engine, execute, filters=turn % 3 == 2)
                ]
                violations += _large_violations(engine, execute)
                subject = f"made-up tables in {name}"
                lines.append(judged(subject, "counting", violations, "each row where it belongs", number))
        random, number = np.random.default_rng([seed, 59]), settings // 20
        files = [wrong for turn in range(number) for wrong in _file_violations(random, Path(folder) / str(turn))]
    return [*lines, judged("made-up files", "counting", files, "each line where it belongs", number)]


def _large_violations(engine: Engine, execute: Callable[..., object]) -> Iterator[str]:
    """Counts as of tables with very many rows: each row stands for more of them than half a word can hold."""
    declared, usual = Domain((("x", integers(0, 4, null=CELL)),)), engine.fetch_columns
    cells = compile_cells(declared, Policy(), (Axis("x"),), Column("x") >= 1)
    counts, statements = np.arange(1, 7), list[str]()
    _fill(
        execute,
        {"x": "BIGINT"},
        [{"x": None if x > 4 else x} for x in range(6) for _ in range(counts[x])],
        dates_as_text=True,
    )

    def fetch_columns(sql: str, deadline: float | None) -> Fetched:
        statements.append(sql)
        *keys, numbers = usual(sql, deadline)
        return [*keys, [int(str(number)) * MANY for number in numbers]]

    with swapped(engine, "fetch_columns", fetch_columns):
        large = IbisSource(engine, TableName(NAME)).prepare(cells).run(None)
    records = [{"x": x} for x in range(6) for _ in range(counts[x])]
    if not np.array_equal(large, MANY * as_counts(cells, records)):
        yield "very many rows are not counted one by one"
    yield from (f"a count is made smaller by a type: {sql[:200]}" for sql in statements if NARROWED.search(sql))


MANY = 2**35
NARROWED = re.compile(
    r"CAST\(\s*(COUNT|SUM)\s*\([^()]*\)\s+AS\s+(TINYINT|SMALLINT|INT|INTEGER|INT4|REAL|FLOAT)\b", re.IGNORECASE
)


def _file_violations(random: np.random.Generator, folder: Path) -> Iterator[str]:
    """Files with lines that are too short, too long or no text, one of them under two names: each line counts once.

    A line longer than any that is read counts nowhere, and stops no count.
    """
    listed = [
        each for each in (_attribute(random) for _ in range(12)) if "TEXT" in _types(each, SQLite, is_native=False)
    ]
    declared = Domain((("x", listed[0]), ("y", listed[1])))
    pools = {
        name: sorted({str(value) for value in _pool(attribute, "TEXT") if value})
        for name, attribute in declared.attributes
    }
    separator, lines, rows = one_of(random, SEPARATORS), list[bytes](), list[TableRow]()
    for place in range(ROWS):
        row: TableRow = {name: one_of(random, [*pool, None]) for name, pool in pools.items()}
        fields = [*row.values()]
        match place % 6:
            case 0 if row["x"] is not None:
                row, fields = {**row, "y": None}, fields[:1]
            case 1:
                row, fields = {**row, "x": "\ufffd"}, [BROKEN, row["y"]]
            case 2:
                fields += ["more", "than there are columns"]
        rows.append(row)
        lines.append(separator.join(_quoted(field) for field in fields).encode().replace(BROKEN.encode(), b"\xff"))
    folder.mkdir()
    head = separator.join(("x", "y")).encode()
    (folder / "rows1.csv").write_bytes(b"\n".join([head, *lines[::2], b""]))
    (folder / "rows2.csv").write_bytes(b"\n".join([head, *lines[1::2], b"x" * 2 * SHORTENED, *lines[:1], b""]))
    rows.append(rows[0])
    (folder / "rows3.csv").symlink_to(folder / "rows1.csv")
    source = open_source(str(folder / "rows*.csv"))
    records = [{name: code_of(attribute, row[name]) for name, attribute in declared.attributes} for row in rows]
    for names in (("x",), ("y",), ("x", "y")):
        cells = compile_cells(declared, Policy(), tuple(Axis(name) for name in names), None)
        read = f"{' and '.join(names)} ({', '.join(type(attribute).__name__ for _, attribute in declared.attributes)})"
        try:
            with limited([(duckdb_source, "LONGEST_LINE")], to=SHORTENED):
                counts = source.prepare(cells).run(None)
        except BlowfishError as failure:
            yield f"a line of a file stops the count by {read}: {failure.code}"
            continue
        if not np.array_equal(counts, as_counts(cells, records)):
            yield f"other lines of files are counted by {read} than there are"


SHORTENED = 4000
"""Bytes of the longest line that is read of made-up files; the usual limit would take long to pass."""
BROKEN = "\ue000"
"""Stands for a byte that is no text."""


def _quoted(field: object) -> str:
    return "" if field is None else '"' + str(field).replace('"', '""') + '"'


def _violations(
    random: np.random.Generator, engine: Engine, execute: Callable[..., object], *, filters: bool
) -> Iterator[str]:
    """Fills a table with awkward values and counts it under a made-up filter, for rows or for people.

    With `filters`, most rows are NULL or no number somewhere, and what the engine decides itself is turned round.
    """
    declared = Domain(tuple((name, _attribute(random)) for name in ("x", "y")[: int(random.integers(1, 3))]))
    if filters:
        declared = Domain(tuple((name, replace(attribute, null=CELL)) for name, attribute in declared.attributes))
    types = {name: _type(random, attribute, engine, is_native=filters) for name, attribute in declared.attributes}
    pools = {name: _pool(attribute, types[name]) for name, attribute in declared.attributes}
    if filters:
        pools = {name: [*pool, *[one for one in pool if one is None or one != one] * 6] for name, pool in pools.items()}
    rows: list[TableRow] = [
        {
            **{name: one_of(random, pool) for name, pool in pools.items()},
            "who": one_of(random, ("a", "b", "c", "d", None)),
            "nr": one_of(random, (1, 2, 3, 4, 5, 6, 7, None)),
        }
        for _ in range(ROWS)
    ]
    unit = one_of(random, (*UNITS[:1] * 3, *UNITS))
    where = made_up_condition(random, declared) if filters or random.random() < 0.7 else None
    if filters and where is not None:
        where = Negation(where) if random.random() < 0.7 else Both(where, made_up_condition(random, declared))
    axes = tuple(_axis(random, name, attribute) for name, attribute in declared.attributes if random.random() < 0.7)
    passed = [limit for limit in LIMITS if random.random() < 0.3] if not filters and random.random() < 0.7 else []
    try:
        cells = compile_cells(declared, Policy(), axes, where)
    except BlowfishError:
        return
    _fill(execute, {**types, "who": "TEXT", "nr": "BIGINT"}, rows, dates_as_text=not engine.typed)
    read = ", ".join(f"{type(attribute).__name__} of {types[name]}" for name, attribute in declared.attributes)
    told = f"{read}, where {where}, {unit}, beyond {[name for _, name in passed]}"
    source = IbisSource(engine, TableName(NAME))
    try:
        with limited(passed):
            counts = source.prepare(cells, unit).run(None)
    except BlowfishError as failure:
        yield f"a made-up table is not counted ({failure.code}): {told}"
        return
    counted = first_rows(rows, unit)
    records = [{name: code_of(attribute, row[name]) for name, attribute in declared.attributes} for row in counted]
    if not np.array_equal(counts, as_counts(cells, records)):
        yield f"other rows are counted than the table holds: {told}"
    if isinstance(unit, Person):
        ids = [row["who"] for row in counted]
        each = [as_counts(cells, [r for r, who in zip(records, ids, strict=True) if who == one]) for one in set(ids)]
        people = np.sum([np.minimum(one, 1) for one in each], axis=0, initial=0)
        # Some groups and filters only the proxy can tell; persons are not counted by those.
        with suppress(SourceError):
            if not np.array_equal(source.prepare_people(cells, unit).run(None), np.zeros_like(counts) + people):
                yield f"other persons are counted than have a row that counts: {told}"


def code_of(attribute: Attribute, raw: object) -> int:
    """The code of a stored value: its own, that of NULL, or that of what lies outside."""
    place = _place(attribute, raw)
    if place is None:
        return attribute.size if attribute.null == CELL else attribute.locate(attribute.null)
    if 0 <= place < attribute.size:
        return place
    if attribute.outside == CELL:
        return attribute.size + 1
    clamped = 0 if place < 0 else attribute.size - 1
    return clamped if attribute.outside == CLAMP else attribute.locate(attribute.outside)


def _place(attribute: Attribute, raw: object) -> int | None:
    """The number of the declared value, -1 below all of them, their number above; None for what is no value."""
    match attribute:
        case Categorical(values=values):
            if raw is None or raw != raw:
                return None
            return next((place for place, value in enumerate(values) if raw == value), attribute.size)
        case Integers() | Bins():
            return _place_of_number(attribute, raw)
        case Dates() | Timestamps():
            return _place_of_time(attribute, raw)
    return None


def _place_of_number(attribute: Integers | Bins, raw: object) -> int | None:
    try:
        number = float(str(raw)) if raw is not None else math.nan
    except ValueError:
        return None
    if math.isnan(number):
        return None
    if isinstance(attribute, Bins):
        # Edges and numbers are compared as the nearest doubles.
        return bisect_right([float(attribute.edge(index)) for index in range(attribute.size + 1)], number) - 1
    if math.isinf(number):
        return -1 if number < 0 else attribute.size
    return min(max(math.floor(Fraction(str(raw))) - attribute.low, -1), attribute.size)


def _place_of_time(attribute: Dates | Timestamps, raw: object) -> int | None:
    try:
        moment = datetime.datetime.fromisoformat(raw) if isinstance(raw, str) else raw
    except ValueError:
        return None
    if not isinstance(moment, datetime.date):
        return None
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime.combine(moment, datetime.time())
    if moment.tzinfo is not None and isinstance(attribute, Timestamps):
        # By way of UTC: an hour that clocks skip is otherwise left as it is in its own zone.
        moment = moment.astimezone(datetime.UTC).astimezone(find_zone(attribute.zone)).replace(tzinfo=None)
    return bisect_right([begin_of(attribute, code) for code in range(attribute.size + 1)], moment) - 1


def first_rows(rows: Sequence[TableRow], unit: Row | Person) -> list[TableRow]:
    """The rows that count: of each person those whose key, and whatever ties with it, fits within the most that do."""
    if isinstance(unit, Row):
        return list(rows)
    counted = []
    for row in rows:
        mine = (row["nr"] is None, row["nr"] or 0)
        earlier = [each for each in rows if each["who"] == row["who"] and (each["nr"] is None, each["nr"] or 0) <= mine]
        if row["who"] is not None and len(earlier) <= unit.at_most:
            counted.append(row)
    return counted


def _attribute(random: np.random.Generator) -> Attribute:
    """Whole numbers and bins with edges that no double is equal to, lists that contain each other, days and moments."""
    size, null, outside = one_of(random, (*range(2, 12), LONG)), random.random() < 0.5, random.random() < 0.5
    nothing, beyond = CELL if null else None, CELL if outside else CLAMP
    kind = one_of(random, KINDS)
    parts, start = one_of(random, (1, 2, 3, 10, 1000)), Fraction(int(random.integers(-40, 40)))
    if kind in ("dates", "timestamps"):
        return replace(made_up_times(random, size, in_days=kind == "dates"), outside=beyond)
    if kind == "texts":
        values = ["v", "v1", "v11", "V1", "", " v", "v1 ", "é", "e", "%", "_", "1"][:size]
        return categorical(values, null=nothing or values[0], outside=CELL if outside else values[-1])
    if kind == "numbers":
        return categorical(
            [3 * value - 5 for value in range(size)], null=nothing or -5, outside=CELL if outside else -5
        )
    if kind == "integers":
        low = one_of(random, (0, 1, -7, -size, LARGEST - size + 1, -LARGEST))
        return integers(low, low + size - 1, null=low if nothing is None else nothing, outside=beyond)
    if kind == "equal bins":
        width = Fraction(int(random.integers(1, 8)), parts)
        first = start / parts
        return bins(
            first, first + size * width, width=width, null=first if nothing is None else nothing, outside=beyond
        )
    edges = [(start + int(step)) / parts for step in (0, *np.cumsum(random.integers(1, 9, size=size)))]
    return bins(edges=edges, null=edges[0] if nothing is None else nothing, outside=beyond)


def _axis(random: np.random.Generator, name: str, attribute: Attribute) -> Axis:
    if isinstance(attribute, Bins) and random.random() < 0.5:
        places = sorted({int(place) for place in random.integers(0, attribute.size + 1, size=3)} | {attribute.size})
        return Axis(name, edges=tuple(attribute.edge(place) for place in places)) if len(places) > 1 else Axis(name)
    return made_up_axis(random, name, attribute) if random.random() < 0.5 else Axis(name)


def _type(random: np.random.Generator, attribute: Attribute, engine: Engine, *, is_native: bool) -> str:
    """One of the types; of those that the engine compares itself, more often one that knows what is no number."""
    types = _types(attribute, engine, is_native=is_native)
    doubles = [native for native in types if native in ("DOUBLE", "FLOAT")]
    return one_of(random, doubles if is_native and doubles and random.random() < 0.5 else types)


def _types(attribute: Attribute, engine: Engine | type[Engine], *, is_native: bool) -> tuple[str, ...]:
    """The types of columns that an attribute may be read from; `is_native`: those that the engine compares itself."""
    if is_native and not (isinstance(attribute, Categorical) and isinstance(attribute.values[0], str)):
        return tuple(native for native in _types(attribute, engine, is_native=False) if native != "TEXT")
    decimals = ("DECIMAL(12, 4)", "DECIMAL(30, 4)") if engine.typed else ()
    match attribute:
        case Categorical(values=values):
            return ("TEXT",) if isinstance(values[0], str) else ("BIGINT", "DOUBLE")
        case Integers(low=low) if abs(low) > 10**6:
            return ("BIGINT", "BIGINT", "TEXT", *decimals[1:] * 2)
        case Dates():
            return ("DATE", "TIMESTAMP", "TEXT")
        case Timestamps():
            return ("TIMESTAMP", "TEXT", *(("TIMESTAMP WITH TIME ZONE",) * 2 if engine.typed else ()))
    return ("BIGINT", "DOUBLE", "DOUBLE", "FLOAT", "TEXT", *decimals)


def _pool(attribute: Attribute, native: str) -> Sequence[object]:
    """Values at the edges of declared ones and next to them, beyond all of them, and such as are none."""
    match attribute:
        case Categorical(values=values) if isinstance(values[0], str):
            return [*values, *values, "v111", "v2", "V", "  v", "E", None, None]
        case Categorical(values=values):
            return [*values, *values, 10**9, -(10**9), 4, None, *([0.5, math.nan] if native == "DOUBLE" else [])]
        case Dates() | Timestamps():
            return _moments(attribute, native)
        case Integers() | Bins():
            return _numbers(attribute, native)
    return [None]


def _numbers(attribute: Integers | Bins, native: str) -> list[object]:
    if isinstance(attribute, Integers):
        edges = [Fraction(attribute.low + index) for index in range(attribute.size + 1)]
    else:
        edges = [attribute.edge(index) for index in range(attribute.size + 1)]
    if native == "BIGINT":
        whole = [math.floor(edge) + step for edge in edges for step in (-1, 0, 0, 1)]
        return [*whole, 2**62, -(2**62), None]
    if native.startswith("DECIMAL"):
        near = [round(Decimal(edge.numerator) / Decimal(edge.denominator), 4) for edge in edges]
        return [*near, *(value + step for value in near for step in (Decimal("0.0001"), Decimal("-0.0001"))), None]
    doubles = [float(edge) for edge in edges]
    middles = [(one + two) / 2 for one, two in itertools.pairwise(doubles)]
    beside = [math.nextafter(edge, side) for edge in doubles for side in (math.inf, -math.inf)]
    awkward = [math.nan, math.inf, -math.inf, 1e30, -1e30, -0.0, doubles[0] - 3, doubles[-1] + 3]
    if native == "TEXT":
        if isinstance(attribute, Integers):
            middles, beside, doubles = [], [], []
        texts = [repr(value) for value in (*doubles, *middles, *beside, 1e300)]
        return [*texts, *(str(math.floor(edge)) for edge in edges), "", "many", None]
    if native == "FLOAT":
        singles = np.array([*doubles, *middles, *beside, *awkward], dtype=np.float32)
        return [*singles.astype(np.float64).tolist(), None]
    return [*doubles, *middles, *beside, *awkward, None]


def _moments(attribute: Dates | Timestamps, native: str) -> list[object]:
    begins = [begin_of(attribute, code) for code in range(attribute.size + 1)]
    tiny, far = datetime.timedelta(microseconds=1), datetime.timedelta(days=4000)
    moments = [*begins, *(begin - tiny for begin in begins), begins[0] - far, begins[-1] + far]
    if native == "DATE":
        return [*(moment.date() for moment in moments), None]
    if native == "TEXT":
        texts = [moment.isoformat(" ") for moment in moments]
        return [*texts, "soon", "", None]
    if native.endswith("ZONE") and isinstance(attribute, Timestamps):
        clock = find_zone(attribute.zone)
        return [*(moment.replace(tzinfo=clock, fold=fold) for moment in moments for fold in (0, 1)), None]
    return [*moments, None]


def _fill(
    execute: Callable[..., object], types: dict[str, str], rows: Sequence[TableRow], *, dates_as_text: bool
) -> None:
    """The table with these rows alone."""
    execute(f"DROP TABLE IF EXISTS {NAME}")
    execute(f"CREATE TABLE {NAME} ({', '.join(f'{name} {native}' for name, native in types.items())})")
    values = [row[name] for row in rows for name in types]
    if dates_as_text:
        values = [value.isoformat(" ") if isinstance(value, datetime.datetime) else value for value in values]
        values = [value.isoformat() if isinstance(value, datetime.date) else value for value in values]
    marks = f"({', '.join('?' for _ in types)})"
    execute(f"INSERT INTO {NAME} VALUES {', '.join([marks] * len(rows))}", values)


VALUES, LETTERS, RECORDS = 4, ("a", "b", "c"), 40
DECLARED = domain({"x": integers(0, VALUES - 1), "y": categorical(LETTERS, null="a", outside="a")})
POLICIES = {
    "full": Policy({"x": full()}),
    "line": Policy({"x": line()}),
    "partition, presence secret": Policy({"x": partition(cuts=[2]), "y": full()}, presence="secret"),
}
WITHIN = (Fraction(4), Fraction(12), Fraction(40))
CLOSE = 1e-6

Record = tuple[int | None, str]
Truth = Callable[[Sequence[Record]], list[float]]


def _by_x(records: Sequence[Record]) -> list[float]:
    return [float(sum(x == value for x, _ in records)) for value in (*range(VALUES), None)]


def _by_y(records: Sequence[Record]) -> list[float]:
    return [float(sum(y == letter for _, y in records)) for letter in LETTERS]


def _running(records: Sequence[Record]) -> list[float]:
    *plain, null = _by_x(records)
    return [*np.cumsum(plain).tolist(), null]


def _summed(records: Sequence[Record]) -> float:
    return float(sum(x for x, _ in records if x is not None))


def _of(truth: Truth, keeps: Callable[[Record], bool]) -> Truth:
    return lambda records: truth([record for record in records if keeps(record)])


def _columns(records: Sequence[Record]) -> list[float]:
    """The columns of COLUMNS for each letter."""
    groups = [[record for record in records if record[1] == letter] for letter in LETTERS]
    few = [float(sum(x is not None and x < 2 for x, _ in group)) for group in groups]
    return [*map(float, map(len, groups)), *map(_summed, groups), *few]


X, Y = Column("x"), Column("y")
COLUMNS = [Aggregate("count"), Aggregate("sum", ("x",)), Aggregate("count", where=X < 2, name="few")]
WEIGHTS = [[1, -2, 0, 3, 0], [0, 0, 5, 0, 1]]
QUESTIONS: tuple[tuple[Query, Truth], ...] = (
    (query("histogram", "x"), _by_x),
    (query("histogram", "x", Y == "a"), _of(_by_x, lambda record: record[1] == "a")),
    (query("histogram", "x", Y == "b"), _of(_by_x, lambda record: record[1] == "b")),
    (query("histogram", "x", ~(Y == "b")), _of(_by_x, lambda record: record[1] != "b")),
    (query("cdf", "x"), _running),
    (query("cdf", "x", Y == "c"), _of(_running, lambda record: record[1] == "c")),
    (query("count"), lambda records: [float(len(records))]),
    (query("count", (), X < 2), lambda records: [sum(_by_x(records)[:2])]),
    (query("count", (), ~(X < 2)), lambda records: [sum(_by_x(records)[2:-1])]),
    (query("count", (), X.is_null()), lambda records: _by_x(records)[-1:]),
    (
        query("histogram", X.bins(2)),
        lambda records: [sum(_by_x(records)[low : low + 2]) for low in (0, 2)] + _by_x(records)[-1:],
    ),
    (query("histogram", "y"), _by_y),
    (query("histogram", "y", X >= 2), _of(_by_y, lambda record: record[0] is not None and record[0] >= 2)),
    (
        query("histogram2d", ("x", "y")),
        lambda records: [float(records.count((x, y))) for x in (*range(VALUES), None) for y in LETTERS],
    ),
    (query("marginals", ("x", "y"), ways=1), lambda records: [*_by_x(records), *_by_y(records)]),
    (query("ranges", "x", boxes=[((0, 3),), ((2, 4),)]), lambda r: [sum(_by_x(r)[:3]), sum(_by_x(r)[2:4])]),
    (query("sum", "x"), lambda records: [_summed(records)]),
    (query("sum", "x", Y == "a"), _of(lambda records: [_summed(records)], lambda record: record[1] == "a")),
    (query("mean", "x"), lambda records: [_summed(records) / sum(x is not None for x, _ in records)]),
    (query("linear", "x", linear=WEIGHTS), lambda r: [float(np.dot(row, _by_x(r))) for row in WEIGHTS]),
    (query("table", "y", aggregates=COLUMNS), _columns),
    (query("table", "y", ~(X == 1), aggregates=COLUMNS), _of(_columns, lambda record: record[0] not in (None, 1))),
)
ALIKE = tuple((1, place) for place in (1, 2, 3, 7, 8, 9))
"""Questions that differ in their filter alone, which one analyst asks first, all within the same."""
TOGETHER = ((0, 1, 12), (4, 8, 11), (13, 2))
"""Questions, by their place, that are asked as one."""


def truth_lines(*, quick: bool, seed: int) -> Iterator[CheckLine]:
    """Every question by two analysts at several accuracies, alone and together, over rows that are known."""
    rounds = 1 if quick else 6
    for label, policy in list(POLICIES.items())[: 1 if quick else None]:
        random = np.random.default_rng([seed, len(label), 16])
        records = [_record(random) for _ in range(RECORDS)]
        with scratch(DECLARED, policy) as world, _without_noise():
            world.fill([_row(x, y) for x, y in records])
            violations = [
                violation
                for _ in range(rounds)
                for number, place in (*ALIKE, *enumerate(random.permutation(len(QUESTIONS) + len(TOGETHER)).tolist()))
                for violation in _asked(world, place, records, number)
            ]
        summary = "every number is that of the rows"
        yield judged(f"answers without noise, {label}", "truth", violations, summary, rounds * len(QUESTIONS))


def _record(random: np.random.Generator) -> Record:
    x = int(random.integers(VALUES + 1))
    return (None if x == VALUES else x), LETTERS[random.integers(len(LETTERS))]


def _row(x: int | None, y: str) -> TableRow:
    return {"x": x, "y": y}


@contextmanager
def _without_noise() -> Iterator[None]:
    """All noise is 0, and a level is drawn at the finer one next to it."""

    def coarser(values: Ints, *_: object) -> Ints:
        return values

    def between(fine: Ints, *_: object) -> Ints:
        return fine

    with taped() as tape, replaced({draw_coarser: coarser, draw_between: between}):
        tape.play([])
        yield


def _asked(world: Scratch, place: int, records: Sequence[Record], number: int) -> Iterator[str]:
    """What is wrong with the answer to a question, or to several as one; later ones may be read off earlier ones."""
    analyst = "ana" if number % 4 else "bob"
    within = WITHIN[number * len(WITHIN) // (len(QUESTIONS) + len(TOGETHER))]
    target = accuracy_target(alpha=within)
    chosen = QUESTIONS[place : place + 1]
    question = chosen[0][0] if chosen else None
    if question is None:
        chosen = tuple(QUESTIONS[one] for one in TOGETHER[place - len(QUESTIONS)])
        parts = [Part(one, within * (times + 1), target.beta) for times, (one, _) in enumerate(chosen)]
        question = Query("joint", parts=tuple(parts))
    elif question.kind == "mean":
        question = replace(question, rows=RECORDS)
    try:
        answer = _answer(world, question, target, analyst)
    except Declined:
        return
    except BlowfishError as failure:
        yield f"{question.kind}: the release failed: {failure.code}"
        return
    answers = answer.parts or (answer,)
    for (one, truth), each in zip(chosen, answers, strict=True):
        wanted = truth(records)
        is_true = each.values.size == len(wanted) and np.allclose(each.values, wanted, rtol=0.0, atol=CLOSE)
        yield from broken({f"a {one.kind} is not that of the rows although no noise was drawn": not is_true})


def _answer(world: Scratch, question: Query, target: AccuracyTarget, analyst: str) -> Answer:
    handle = replace(world.handle, sharing=ANALYSTS, read_only=True)
    request = make_request(handle, question, target)
    release = prepare(handle, request)
    answer = decode(charged_payload(world.ledger, handle, analyst, request.digest, lambda: release, Run()))
    if not isinstance(answer, Answer):
        raise TypeError("a question that is answered leads to an answer")
    return answer
