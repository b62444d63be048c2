"""Scratch tables of made-up neighbours, a scratch ledger and noise on tape; all that happens is watched."""

from __future__ import annotations

import datetime
import io
import logging
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

import duckdb
import numpy as np

from blowfishdb.audit.definitions import Adjacency, Change, Record, begin_of
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.incidents import CURATOR, curator_log
from blowfishdb.ledger import Ledger, Terms, open_ledger
from blowfishdb.ledger.amounts import SUM
from blowfishdb.ledger.records import COMMITTED
from blowfishdb.model.calendar import Dates, Timestamps
from blowfishdb.model.cells import Cells
from blowfishdb.model.domain import Attribute, Bins, Categorical, Domain, Integers
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import ROW, Person, Policy, Row
from blowfishdb.noise import sampler
from blowfishdb.noise.certified import LawName, Noise, tell
from blowfishdb.sources.base import Counting
from blowfishdb.sources.duckdb import DuckDB
from blowfishdb.sources.ibis_source import IbisSource
from blowfishdb.sources.location import TableName

AnyFunction = Callable[..., object]


@dataclass(frozen=True, eq=False)
class TapedDraw:
    """One call of the sampler: what was asked for, and what came."""

    law: LawName
    unit: Fraction
    weights: Ints
    values: Ints

    @property
    def variables(self) -> tuple[LawName, Fraction, bytes]:
        """The law, the unit and the weights of the variables."""
        return self.law, self.unit, self.weights.tobytes()

    def loss(self, shift: Ints) -> Fraction:
        """The loss of values further out by `shift`: the sum of |shift| over the scale."""
        whole = sum(abs(int(s)) * int(w) for s, w in zip(shift, self.weights, strict=True) if s)
        return Fraction(whole) / self.unit


class TapeError(Exception):
    """The engine asked for other noise than what is on the tape."""


@dataclass
class Tape:
    """Draws for real, or plays what it is given; keeps what was asked for and delivered."""

    recorded: list[TapedDraw] = field(default_factory=list)
    queue: list[Ints] | None = None

    def play(self, values: list[Ints]) -> None:
        """From now on these values are delivered, in order."""
        self.queue = list(values)

    def draw_for_real(self) -> None:
        """From now on the sampler itself is asked."""
        self.queue = None

    def take(self) -> list[TapedDraw]:
        """The draws recorded since the last time."""
        draws, self.recorded = self.recorded, []
        return draws

    def draw(self, function: str, *given: Any) -> Ints:
        """Stands for a function of the sampler."""
        if function == "sample_words":
            size, bits = given
            unit, weights = Fraction(1), np.full(size, bits, dtype=np.int64)
        else:
            unit, weights = given[0], _spread(*given[1:])
        if self.queue is None:
            values = REAL[function](*given)
        else:
            values = self.queue.pop(0) if self.queue else np.zeros(weights.size, dtype=np.int64)
            # The sampler would have said so.
            scales = int(given[1]) if function == "sample_words" else weights
            tell(Noise(LAWS[function], unit, scales, weights.size))
        if values.shape != weights.shape:
            raise TapeError(f"{weights.size} variables were asked for where the tape has {values.size}")
        self.recorded.append(TapedDraw(LAWS[function], unit, weights, values))
        return values.copy()


LAWS: dict[str, LawName] = {"sample": "laplace", "sample_geometric": "geometric", "sample_words": "words"}
REAL: dict[str, Callable[..., Ints]] = {
    "sample": sampler.sample,
    "sample_geometric": sampler.sample_geometric,
    "sample_words": sampler.sample_words,
}


def _spread(weights: Ints | int, size: int | None = None) -> Ints:
    column = np.asarray(weights, dtype=np.int64).reshape(-1)
    return column.copy() if size is None else np.broadcast_to(column, (size,)).copy()


@contextmanager
def swapped(holder: object, name: str, substitute: object) -> Iterator[None]:
    """Puts a substitute in place of an attribute of a module, a class or a value, while the block runs."""
    usual = getattr(holder, name)
    setattr(holder, name, substitute)
    try:
        yield
    finally:
        setattr(holder, name, usual)


@contextmanager
def replaced(substitutes: dict[AnyFunction, AnyFunction], *, everywhere: bool = False) -> Iterator[None]:
    """Puts substitutes in place of functions in every module of the package that holds them by name.

    They serve this thread alone: what other threads of the process release has noise of its own. Only where all of them
    belong to the audit may they serve everywhere.
    """
    wanted = {
        id(original): substitute if everywhere else in_this_thread(original, substitute)
        for original, substitute in substitutes.items()
    }
    with ExitStack() as swaps:
        for name, module in list(sys.modules.items()):
            if not name.startswith("blowfishdb.") or name.startswith("blowfishdb.audit"):
                continue
            for key, value in list(vars(module).items()):
                if id(value) in wanted:
                    swaps.enter_context(swapped(module, key, wanted[id(value)]))
        yield


def in_this_thread(original: AnyFunction, substitute: AnyFunction) -> AnyFunction:
    """The substitute for the thread that asks for it now, the original for all others."""
    owner = threading.get_ident()

    def either(*given: object) -> object:
        return substitute(*given) if threading.get_ident() == owner else original(*given)

    return either


@contextmanager
def taped() -> Iterator[Tape]:
    """A tape between the sampler and everything that draws noise."""
    tape = Tape()
    with replaced({real: partial(tape.draw, name) for name, real in REAL.items()}):
        yield tape


@dataclass(frozen=True, eq=False, repr=False)
class SealedCounts:
    """Counts with their size and type; whatever else is asked of them fails, and so does the release."""

    inside: Ints

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inside.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.inside.dtype


def sealed(counts: Ints) -> Ints:
    """The counts, sealed."""
    return counts if isinstance(counts, SealedCounts) else cast("Ints", SealedCounts(counts))


def opened(counts: Ints) -> Ints:
    """The counts themselves."""
    return counts.inside if isinstance(counts, SealedCounts) else counts


class _Listener(logging.Handler):
    """Collects messages to anybody but the curator."""

    def __init__(self, heard: list[str]) -> None:
        super().__init__()
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith(CURATOR) and record.name.startswith(("blowfishdb", "root")):
            self._heard.append(record.getMessage())


@contextmanager
def listening() -> Iterator[list[str]]:
    """Logs, prints and warnings from now on, complete at the end; the curator's log is silent meanwhile."""
    heard: list[str] = []
    root, package, printed = logging.getLogger(), logging.getLogger("blowfishdb"), io.StringIO()
    levels, usual, handlers = (root.level, package.level), curator_log.disabled, root.handlers
    root.handlers, curator_log.disabled = [_Listener(heard)], True
    # Compilers log every step at the lowest level.
    root.setLevel(logging.INFO)
    package.setLevel(logging.DEBUG)
    try:
        with warnings.catch_warnings(record=True) as warned, redirect_stdout(printed), redirect_stderr(printed):
            warnings.simplefilter("always")
            yield heard
        heard += [f"{each.category.__name__}: {each.message}" for each in warned if "blowfishdb" in each.filename]
        heard += [text for text in [printed.getvalue()] if text]
    finally:
        root.handlers, curator_log.disabled = handlers, usual
        root.setLevel(levels[0])
        package.setLevel(levels[1])


TableRow = dict[str, object]
NAME = "rows"
ACCOUNT_LIMIT = Fraction(10**9)
SCHEMA_QUERY = "duckdb_columns()"
READ = "rows were read"
CHARGED = "the charge was committed"
SECRET = "ward B has 731931 records, its cells 92713 and 40961"
"""The message of a failing engine in the drills; nobody but the curator's log may hear of it."""


@dataclass
class Watch:
    """Events on the data and on the ledger, in order, and the texts of the statements."""

    events: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    failure: Exception | None = None

    def clear(self) -> None:
        """Forgets what happened so far."""
        self.events.clear()
        self.statements.clear()

    def reached(self, step: str) -> None:
        """Hears the steps of the ledger."""
        if step == COMMITTED:
            self.events.append(CHARGED)

    def stated(self, sql: str) -> None:
        """Hears a statement; fails where the drill says so."""
        self.statements.append(sql)
        if SCHEMA_QUERY in sql or sql.startswith("SET "):
            return
        self.events.append(READ)
        if self.failure is not None:
            raise self.failure


class WatchedConnection(AbstractContextManager["WatchedConnection"]):
    """A connection of DuckDB whose statements are recorded before they run."""

    def __init__(self, inner: Any, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    def __exit__(self, *raised: object) -> None:
        self._inner.close()

    def execute(self, sql: str, values: Sequence[object] | None = None) -> Any:
        """Runs a statement."""
        self._watch.stated(sql)
        return self._inner.execute(sql) if values is None else self._inner.execute(sql, values)

    def interrupt(self) -> None:
        """Stops what runs."""
        self._inner.interrupt()


def column_kind(attribute: Attribute) -> str:
    """The type of a column that holds any value of the attribute."""
    match attribute:
        case Integers():
            return "BIGINT"
        case Bins():
            return "DOUBLE"
        case Dates():
            return "DATE"
        case Timestamps():
            return "TIMESTAMP"
        case Categorical(values=values):
            first = values[0]
            return "BOOLEAN" if isinstance(first, bool) else "BIGINT" if isinstance(first, int) else "VARCHAR"
    return "VARCHAR"


def columns_of(domain: Domain, policy: Policy) -> dict[str, str]:
    """The columns of one table that holds all that is declared, joined attributes too, with their types."""
    columns = {name: column_kind(attribute) for name, attribute in domain.attributes}
    if isinstance(policy.unit, Person):
        columns.setdefault(policy.unit.id, "VARCHAR")
        columns.setdefault(policy.unit.order_by, "BIGINT")
    return columns


def raw_values(attribute: Attribute, code: int) -> list[object]:
    """Values that a row may hold so that it counts as this code: usual ones, and awkward ones that are clamped."""
    if code == attribute.size and attribute.null == "cell":
        return [None]
    values: list[object] = []
    if code == attribute.size + 1:
        return _beyond(attribute, 1) + (_beyond(attribute, -1) if not isinstance(attribute, Categorical) else [])
    match attribute:
        case Integers():
            values = [attribute.low + code]
        case Bins():
            left, right = attribute.edge(code), attribute.edge(code + 1)
            values = [float((left + right) / 2), float(left)]
        case Dates():
            last = begin_of(attribute, code + 1) - datetime.timedelta(days=1)
            values = [begin_of(attribute, code).date(), last.date()]
        case Timestamps():
            values = [begin_of(attribute, code)]
        case Categorical():
            values = [attribute.values[code]]
    ends = {0: -1, attribute.size - 1: 1}
    if attribute.outside == "clamp" and code in ends:
        values += _beyond(attribute, ends[code])
    if attribute.outside not in ("clamp", "cell") and attribute.locate(attribute.outside) == code:
        values += _beyond(attribute, 1)
    if attribute.null != "cell" and attribute.locate(attribute.null) == code:
        values.append(None)
    return values


def _beyond(attribute: Attribute, side: int) -> list[object]:
    """Values below (side -1) or above the declared ones."""
    match attribute:
        case Integers():
            return [attribute.low - 3 if side < 0 else attribute.high + 7]
        case Bins():
            return [float(attribute.edge(0)) - 2.5 if side < 0 else float(attribute.edge(attribute.size))]
        case Dates():
            return [(attribute.start if side < 0 else attribute.end) + side * datetime.timedelta(days=400)]
        case Timestamps():
            return [(attribute.start if side < 0 else attribute.end) + side * datetime.timedelta(days=9)]
        case Categorical(values=values):
            if isinstance(values[0], bool):
                return []
            return ["nobody declared this"] if isinstance(values[0], str) else [10**6]
    return []


@dataclass(frozen=True)
class SealedCounting:
    """A statement whose counts come sealed."""

    inner: Counting

    def run(self, deadline: float | None = None) -> Ints:
        """Counts, and seals."""
        return sealed(self.inner.run(deadline))


class KeptSource(IbisSource):
    """The source itself, which also keeps the last statement that it prepared; where it `seals`, counts come sealed."""

    last: Counting | None = None
    seals: bool = False

    def prepare(self, cells: Cells, unit: Row | Person = ROW) -> Counting:
        """The statement, kept."""
        counting = super().prepare(cells, unit)
        self.last = SealedCounting(counting) if self.seals else counting
        return self.last


@dataclass
class Scratch:
    """One made-up dataset: its table can be filled again and again, its ledger charges for nothing real."""

    database: Any
    watch: Watch
    ledger: Ledger
    handle: DatasetHandle
    source: KeptSource
    columns: tuple[str, ...]

    def fill(self, rows: Sequence[TableRow]) -> None:
        """Replaces the rows of the table."""
        self.database.execute(f"DELETE FROM {NAME}")
        if rows:
            marks = ", ".join("?" for _ in self.columns)
            whole = ", ".join([f"({marks})"] * len(rows))
            values = [row.get(column) for row in rows for column in self.columns]
            self.database.execute(f"INSERT INTO {NAME} VALUES {whole}", values)

    @property
    def spent(self) -> Fraction:
        """The amount that the account has spent by now."""
        return self.ledger.account(self.handle.account).spent


def watched_engine(database: duckdb.DuckDBPyConnection, watch: Watch, name: str) -> DuckDB:
    """An engine on a database in memory, each of whose statements is heard."""
    return DuckDB(lambda: WatchedConnection(database.cursor(), watch), name)  # type: ignore[arg-type, return-value]


@contextmanager
def scratch(
    domain: Domain, policy: Policy, accounting: str = SUM, limit: Fraction = ACCOUNT_LIMIT
) -> Iterator[Scratch]:
    """A dataset of this declaration with an empty table and an empty ledger; gone afterwards."""
    watch = Watch()
    columns = columns_of(domain, policy)
    database = duckdb.connect(":memory:", config={"threads": 1})
    listed = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    database.execute(f"CREATE TABLE {NAME} ({listed})")
    engine = watched_engine(database, watch, "scratch")
    source = KeptSource(engine, TableName(NAME))
    with tempfile.TemporaryDirectory(prefix="blowfish-audit-") as folder:
        ledger = open_ledger(Path(folder) / "scratch.ledger", mark=Path(folder) / "scratch.mark", reached=watch.reached)
        try:
            terms = Terms(source.identity(), limit=limit, policy="{}", domain="{}")
            account = ledger.register(terms, name="scratch", by="audit")
            if accounting != SUM:
                ledger.set_accounting(account, accounting, by="audit", reason="audit")
                account = ledger.account(account.id)
            versions = account.policy_version, account.domain_version, account.snapshot
            handle = DatasetHandle("scratch", domain, policy, account.id, *versions, source, account.accounting)
            yield Scratch(database, watch, ledger, handle, source, tuple(columns))
        finally:
            ledger.close()
            database.close()


COUNTS: tuple[tuple[int, int], ...] = ((4, 1), (9, 6), (10, 2), (19, 14), (99, 49), (29, 24))
"""Numbers of other records at the place that the changing one leaves, and at the one it goes to.

So that what only shows when a count passes a limit that people like does show; each case tries another one.
"""
SPARE = 2
"""Rows of a person in made-up tables beyond those that count."""


@dataclass(frozen=True, eq=False)
class ScratchTable:
    """Made-up rows, and the records among them that count for somebody."""

    rows: list[TableRow]
    records: list[Record]


Neighbours = tuple[ScratchTable, ScratchTable]


def crowd(adjacency: Adjacency, base: Sequence[Record], change: Change, number: int, turn: int) -> list[Record]:
    """The records beside the first changes of a case: so that a count becomes 0, that nobody else is there, and so on.

    Later changes happen among the given records.
    """
    if number == 1:
        return []
    if number > 2:
        return list(base)
    wanted = COUNTS[turn % len(COUNTS)] if number else (0, 3)
    places = {adjacency.place(record) for record in (*change.before, *change.after)}
    elsewhere = [record for record in base if adjacency.place(record) not in places]
    ends = zip((change.before[0], change.after[0]), wanted, strict=True)
    return [*elsewhere, *(record for record, times in ends if record is not None for _ in range(times))]


def neighbours(adjacency: Adjacency, base: Sequence[Record], change: Change, random: np.random.Generator) -> Neighbours:
    """The two tables of a change over the same other records; those are spelled alike in both."""
    keep = [_row(adjacency, record, random) for record in base]
    if isinstance(adjacency.policy.unit, Person):
        return _people(adjacency, adjacency.policy.unit, base, keep, change, random)
    sides = ([record for record in side if record is not None] for side in (change.before, change.after))
    before, after = (
        ScratchTable([*keep, *(_row(adjacency, record, random) for record in side)], [*base, *side]) for side in sides
    )
    return before, after


def _row(adjacency: Adjacency, record: Record, random: np.random.Generator) -> TableRow:
    options = {name: raw_values(adjacency.applied[name], code) for name, code in record.items()}
    return {name: values[int(random.integers(len(values)))] for name, values in options.items()}


def _people(
    adjacency: Adjacency,
    unit: Person,
    base: Sequence[Record],
    keep: list[TableRow],
    change: Change,
    random: np.random.Generator,
) -> Neighbours:
    """One person has more rows than count, and all of them change; so do all others have a few rows too many."""
    each = unit.at_most + SPARE
    others: list[TableRow] = []
    by_person: dict[int, list[Record]] = {}
    for number, (record, row) in enumerate(zip(base, keep, strict=True)):
        person, place = divmod(number, each)
        # Later rows have the smaller keys, so that the order of the table is not the order that counts.
        others.append({**row, unit.id: f"person {person}", unit.order_by: each - place})
        by_person.setdefault(person, []).insert(0, record)
    counted = [record for rows in by_person.values() for record in rows[: unit.at_most]]
    # Rows whose keys tie where the limit falls do not count, whatever they hold; nor do rows of nobody.
    keys = [*range(unit.at_most - 1), *[unit.at_most] * SPARE]
    if len(base) >= len(keys):
        others += [{**row, unit.id: "tied", unit.order_by: key} for row, key in zip(keep, keys, strict=False)]
        counted += base[: unit.at_most - 1]
    others += [{**row, unit.id: None, unit.order_by: key} for key, row in enumerate(keep[:SPARE])]

    def table(moved: Record | None) -> ScratchTable:
        mine = [] if moved is None else [moved] * each
        rows = [_row(adjacency, record, random) for record in mine]
        numbered = [{**row, unit.id: "the one", unit.order_by: place} for place, row in enumerate(rows)]
        return ScratchTable([*others, *numbered], [*counted, *mine[: unit.at_most]])

    return table(change.before[0]), table(change.after[0])
