"""Coupled worlds: what was published on one table is published on the other; clocks and random names stand still."""

from __future__ import annotations

import datetime
import hashlib
import itertools
import os
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from blowfishdb.audit.scratch import REAL, AnyFunction, Tape, TapedDraw, TapeError, replaced, swapped
from blowfishdb.engine import measure as engine
from blowfishdb.engine.measure import PublishedLevel
from blowfishdb.model.numbers import Ints
from blowfishdb.noise.certified import watched
from blowfishdb.plan.certificate import CertifiedPlan
from blowfishdb.plan.plan import EdgePlan
from blowfishdb.plan.points import PointPlan
from blowfishdb.plan.program import GroupSelection, Measured, MeasurementStage, QuantilePlan, StageRequest

MOMENT = datetime.datetime(2000, 1, 1, 12, tzinfo=datetime.UTC)
"""The time at which everything happens in both worlds."""


class StoppedClock(datetime.datetime):
    """A clock that always shows the same moment."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        """The moment, on a clock of the zone."""
        return MOMENT.astimezone(tz).replace(tzinfo=tz)


@dataclass
class RepeatedBytes:
    """A module whose random bytes, texts and names are numbered: the first is the same in every run, and so on."""

    module: ModuleType
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)

    def urandom(self, size: int) -> bytes:
        """The next bytes."""
        return hashlib.shake_256(f"{self.module.__name__} {next(self.numbers)}".encode()).digest(size)

    def token_hex(self, size: int) -> str:
        """The next bytes as hexadecimal digits."""
        return self.urandom(size).hex()

    def token_urlsafe(self, size: int) -> str:
        """The next text, as long as the real one."""
        return self.token_hex(size)[: -(-4 * size // 3)]

    def uuid4(self) -> uuid.UUID:
        """The next name."""
        return uuid.UUID(bytes=self.urandom(16), version=4)


@dataclass(frozen=True)
class MadeEqual:
    """A name in a module that is random or a clock, what stands in its place in both worlds, and why it may differ."""

    module: str
    name: str
    substitute: Callable[[], object]
    reason: str


MADE_EQUAL = (
    MadeEqual("blowfishdb.engine.answer", "datetime", lambda: StoppedClock, "an answer says when it was released"),
    MadeEqual("blowfishdb.ledger.charges", "datetime", lambda: StoppedClock, "an entry says when it was made"),
    MadeEqual("blowfishdb.catalog.record", "datetime", lambda: StoppedClock, "a printed record says when it was made"),
    MadeEqual("xlsxwriter.core", "datetime", lambda: StoppedClock, "a workbook says when it was made"),
    MadeEqual("blowfishdb.incidents", "os", lambda: RepeatedBytes(os), "an incident has a random number"),
    MadeEqual("blowfishdb.engine.charge", "os", lambda: RepeatedBytes(os), "a fresh draw has a random key"),
    MadeEqual("blowfishdb.ledger.store", "os", lambda: RepeatedBytes(os), "a ledger has a random name"),
    MadeEqual("blowfishdb.ledger.mark", "os", lambda: RepeatedBytes(os), "a mark has a random name and key"),
)
"""All that is made equal in both worlds beside the noise; nothing that leaves is changed or left out afterwards."""


@contextmanager
def made_equal(names: Sequence[MadeEqual] = MADE_EQUAL) -> Iterator[None]:
    """Clocks that stand and random names that are the same again, begun anew for each world."""
    with ExitStack() as swaps:
        for one in names:
            swaps.enter_context(swapped(import_module(one.module), one.name, one.substitute()))
        yield


Access = Callable[[], tuple[Ints, Ints]]
"""Asks the data once: the noisy or chosen values, and what is published without noise."""
ROWS = "rows of a plan"
NAMES = "names of groups"
PARTS = "the stage partition"
CHOICES = (NAMES, PARTS)
"""Accesses of which the number of values is a part of what is chosen."""
FAR = 2**50 + 1
"""Added to noise: whatever rounds it or leaves it out changes what is published by another number."""


@dataclass(frozen=True, eq=False)
class PublishedValues:
    """One access to the data: what it is (public), the noise that it asked for, and the values that became public."""

    what: str
    identity: str
    draws: tuple[TapedDraw, ...]
    values: Ints


@dataclass
class Coupling:
    """Noise that two worlds share: the accesses of the first world in their order, repeated by the second.

    On the second table noise is shifted by the difference of the rows, so that the same values are published; choices
    and noise on edges are forced. Where the second world asks for something else, that is a difference. `by_rows`
    finds the values of an access by its plan: for two histories of somebody else, where answers may rest on others.
    """

    by_rows: bool = False
    tape: Tape = field(default_factory=Tape)
    accesses: list[PublishedValues] = field(default_factory=list)
    past: deque[PublishedValues] | None = None
    differences: list[str] = field(default_factory=list)
    is_apart: bool = False
    _depth: int = 0

    def repeat(self) -> None:
        """From now on accesses publish what those before have published."""
        self.past = deque(self.accesses)
        self.tape.take()

    def finish(self) -> None:
        """Notes what the first world asked of the data and the second one did not."""
        if self.past and not self.by_rows:
            self.differences.append(f"{len(self.past)} accesses to the data that only the first table saw")

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What somebody else asks meanwhile has noise of its own."""
        self.is_apart = True
        try:
            yield
        finally:
            self.is_apart = False

    def access(self, what: str, identity: str, run: Access, *, on_rows: bool = False) -> tuple[Ints, Ints]:
        """What is published: values as they are drawn, or as the first world has them, and what carries no noise.

        `on_rows`: each value is a row of its own with one draw added to it. What carries no noise is never repeated.
        """
        if self._depth or self.is_apart:
            return run()
        self._depth += 1
        try:
            # An access may be repeated, which no receipt pays for.
            with watched(None):
                return self._accessed(what, identity, run, on_rows=on_rows)
        finally:
            self._depth -= 1

    def _accessed(self, what: str, identity: str, run: Access, *, on_rows: bool) -> tuple[Ints, Ints]:
        if self.past is None:
            return self._first(what, identity, run, on_rows=on_rows)
        before = self._expected(what, identity)
        return run() if before is None else self._again(before, run, on_rows=on_rows)

    def _first(self, what: str, identity: str, run: Access, *, on_rows: bool) -> tuple[Ints, Ints]:
        """The values as they are drawn, recorded. Where each row has one draw, more noise must show as just that."""
        self.tape.take()
        values, exact = run()
        published = PublishedValues(what, identity, tuple(self.tape.take()), values)
        self.accesses.append(published)
        if on_rows and published.draws and not self.by_rows:
            raised = [draw.values + FAR for draw in published.draws]
            if not np.array_equal(self._played(published, raised, run)[0], values + FAR):
                self.differences.append(f"{what}: some values do not carry the noise that was drawn for them")
        return values, exact

    def _again(self, before: PublishedValues, run: Access, *, on_rows: bool) -> tuple[Ints, Ints]:
        """The values of the first world, where noise of the same law explains them on this table as well."""
        if self.by_rows:
            return before.values, run()[1]
        what = before.what
        values, exact = self._played(before, [draw.values for draw in before.draws], run)
        # How many names, or parts of an axis, are chosen is part of the choice, which is forced.
        if values.shape != before.values.shape and what not in CHOICES:
            self.differences.append(f"{what}: {before.values.size} values on one table, {values.size} on the other")
        elif what == PARTS and not before.draws and not np.array_equal(values, before.values):
            self.differences.append(f"{what}: another choice on the other table, and no noise that explains it")
        elif on_rows and (moved := values - before.values).any():
            shifted = [draw.values - moved for draw in before.draws]
            if not np.array_equal(self._played(before, shifted, run)[0], before.values):
                self.differences.append(f"{what}: no noise explains what is published on both tables")
        return before.values, exact

    def _expected(self, what: str, identity: str) -> PublishedValues | None:
        """The access of the first world in this place; with `by_rows` the next one of the same plan."""
        past = self.past or deque()
        if self.by_rows:
            found = next((one for one in past if (one.what, one.identity) == (what, identity)), None)
            if found is not None:
                past.remove(found)
            return found
        if past and (past[0].what, past[0].identity) == (what, identity):
            return past.popleft()
        self.differences.append(f"{what}: a plan or a stage that the other table did not lead to")
        return None

    def _played(self, before: PublishedValues, noise: list[Ints], run: Access) -> tuple[Ints, Ints]:
        self.tape.play(noise)
        try:
            result = run()
        except TapeError:
            # Other noise than what the first world asked for, which the comparison of laws names.
            self.tape.draw_for_real()
            result = run()
        finally:
            self.tape.draw_for_real()
            drawn = self.tape.take()
        if [draw.variables for draw in drawn] != [draw.variables for draw in before.draws]:
            self.differences.append(f"{before.what}: the noise that is asked for depends on the data")
        return result


NOTHING = np.empty(0, dtype=np.int64)


@contextmanager
def coupled(coupling: Coupling, *, everywhere: bool = False) -> Iterator[Coupling]:
    """A coupling around every place where the engine lets counts meet noise; `everywhere`: in all threads."""
    measure, measure_given, reply = engine.measure, engine.measure_given, engine._reply
    measure_points, choose_quantiles, choose_groups = (
        engine.measure_points,
        engine.choose_quantiles,
        engine.choose_groups,
    )

    def measuring(certified: CertifiedPlan, counts: Ints) -> Measured:
        def run() -> tuple[Ints, Ints]:
            measured = measure(certified, counts)
            return measured.noisy, measured.exact

        plan = certified.plan
        return Measured(*coupling.access(ROWS, plan.digest(), run, on_rows=not isinstance(plan, EdgePlan)))

    def measuring_given(
        certified: CertifiedPlan, counts: Ints | None, finer: PublishedLevel | None, coarser: PublishedLevel | None
    ) -> Measured:
        if counts is not None and finer is None and coarser is None:
            return measuring(certified, counts)

        def run() -> tuple[Ints, Ints]:
            measured = measure_given(certified, counts, finer, coarser)
            return measured.noisy, measured.exact

        beside = "/".join(str(level.unit) for level in (finer, coarser) if level is not None)
        what = ROWS if coupling.by_rows else f"{ROWS} given others with noise of unit {beside}"
        return Measured(*coupling.access(what, certified.plan.digest(), run))

    def weighing(plan: PointPlan, *given: Any) -> tuple[Ints, Ints]:
        run = partial(measure_points, plan, *given)
        return coupling.access("weights on points", plan.digest(), run, on_rows=plan.unit is not None)

    def by_rank(plan: QuantilePlan, *given: Any) -> Ints:
        return coupling.access("quantiles", plan.digest(), lambda: (choose_quantiles(plan, *given), NOTHING))[0]

    def by_size(plan: GroupSelection, *given: Any) -> Ints:
        return coupling.access(NAMES, plan.digest(), lambda: (choose_groups(plan, *given), NOTHING))[0]

    def replying(ask: StageRequest, *given: Any) -> Any:
        if isinstance(ask.stage, MeasurementStage):
            return reply(ask, *given)
        run = partial(reply, ask, *given)
        return coupling.access(f"the stage {ask.name}", ask.stage.digest(), lambda: (np.asarray(run()), NOTHING))[0]

    substitutes: dict[AnyFunction, AnyFunction] = {
        measure: measuring,
        measure_given: measuring_given,
        measure_points: weighing,
        choose_quantiles: by_rank,
        choose_groups: by_size,
        reply: replying,
        **{sampler: partial(coupling.tape.draw, name) for name, sampler in REAL.items()},
    }
    with replaced(substitutes, everywhere=everywhere):
        yield coupling
