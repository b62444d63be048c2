"""A holding over counts that the test knows, with a source that can be told to fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Run, charged_payload, prepare
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.release import Release
from blowfishdb.engine.request import AccuracyTarget, accuracy_target, make_request
from blowfishdb.ledger import Ledger, Terms, open_ledger
from blowfishdb.model.cells import Cells
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import ROW, Person, Row
from blowfishdb.model.query import Query
from blowfishdb.sources.base import ColumnType, Counting

AGES = 20
RAW = np.repeat(np.arange(AGES), np.arange(AGES) + 1)
DOMAIN = bf.domain({"age": bf.integers(0, AGES - 1, null=0)})
POLICY = bf.Policy({"age": bf.threshold(2)})
HISTOGRAM = bf.query("histogram", "age")


@dataclass
class Rows:
    """Known rows; `reads` counts how often they were looked at, `trouble` is raised instead where given."""

    trouble: list[Exception] = field(default_factory=list)
    reads: int = 0
    deadlines: list[float | None] = field(default_factory=list)
    before: Callable[[], None] | None = None
    drift: Exception | None = None
    changing: bool = False

    def identity(self) -> str:
        return "test:rows"

    def columns(self) -> Mapping[str, ColumnType]:
        return {}

    def is_changing(self) -> bool:
        return self.changing

    def prepare(self, cells: Cells, unit: Row | Person = ROW) -> Counting:
        if self.drift is not None:
            raise self.drift
        return KnownCount(self, cells)

    def count(self, cells: Cells, deadline: float | None) -> Ints:
        self.reads += 1
        self.deadlines.append(deadline)
        if self.before is not None:
            self.before()
        if self.trouble:
            raise self.trouble.pop(0)
        codes = {"age": DOMAIN["age"].encode(RAW)}
        flat = cells.cell_of(codes) if cells.attributes else np.zeros(RAW.size, dtype=np.int64)
        return np.bincount(flat[flat >= 0], minlength=cells.graph.cells).astype(np.int64)


@dataclass(frozen=True)
class KnownCount:
    """A count of known rows, ready to run."""

    rows: Rows
    cells: Cells

    def run(self, deadline: float | None = None) -> Ints:
        return self.rows.count(self.cells, deadline)


@dataclass
class Bench:
    """Everything one release needs."""

    ledger: Ledger
    rows: Rows
    handle: DatasetHandle

    def release(
        self,
        asked: Query = HISTOGRAM,
        wanted: AccuracyTarget | None = None,
        run: Run | None = None,
        analyst: str = "ana",
    ) -> Answer:
        request = make_request(self.handle, asked, wanted or accuracy_target(epsilon="0.5"))

        def ready() -> Release:
            return prepare(self.handle, request)

        run = (run or Run()).for_target(request.target)
        payload = charged_payload(self.ledger, self.handle, analyst, request.digest, ready, run)
        return Answer.from_json(payload)

    @property
    def spent(self) -> Fraction:
        return self.ledger.account(self.handle.account).spent


def bench(folder: Path, limit: int = 10) -> Bench:
    ledger = open_ledger(folder / "test.ledger", mark=folder / "test.mark")
    rows = Rows()
    account = ledger.register(
        Terms(rows.identity(), limit=Fraction(limit), policy="{}", domain="{}"), name="rows", by="cora"
    )
    handle = DatasetHandle("rows", DOMAIN, POLICY, account.id, 1, 1, 1, rows)
    return Bench(ledger, rows, handle)
