"""Drills of sessions: two analysts and a curator over one configuration, padded answers, and tables that are joined."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import duckdb
import numpy as np

from blowfishdb.audit.report import CheckLine, broken, judged, refused
from blowfishdb.audit.scratch import (
    Watch,
    watched_engine,
)
from blowfishdb.catalog import Curator, Dataset, curate
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Pace, Run, padded
from blowfishdb.engine.compile import ANALYSTS, OFF
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import UnknownAnswer
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import categorical, domain, integers
from blowfishdb.model.policy import ROW, Person, Policy, Row, full, line, person, threshold
from blowfishdb.model.predicate import Column
from blowfishdb.model.query import query
from blowfishdb.session.backend import Backend, ListPart, ReleaseRequest, expect
from blowfishdb.session.local import open_local
from blowfishdb.sources.base import Join, People
from blowfishdb.sources.ibis_source import IbisSource
from blowfishdb.sources.location import TableName
from selfcheck.ledger_drills import findings

JOINED = domain({name: categorical(["a", "b"], outside="b") for name in ("kind", "grade", "tier")})
KEYS = [(1, "a"), (2, "b"), (3, "a"), (3, "a"), (4, "a"), (4, "b"), (5, None), (6, "c"), (None, "a"), (None, "b")]
"""Of these only 1, 2, 5 and 6 are keys of one row."""
KINDS = {1: "a", 2: "b", 6: "b"}
TIERS = {"a": "b", "b": "a", "c": "a"}
"""A third table, found by what the first one gives."""
AT_MOST = 2
UNITS: dict[str, Row | Person] = {"rows": ROW, "people": person("who", at_most=AT_MOST, order_by="nr")}


def joined_lines() -> list[CheckLine]:
    """Keys that are missing, that occur twice, that are NULL; for rows, and for people with rows too many.

    The second table is one of people, found by their id.
    """
    rows: list[tuple[int | None, int | None, int]] = [(place % 8 or None, place % 4, place) for place in range(32)]
    rows += [(None, None, 100), (1, None, 101)]
    watch, database = Watch(), duckdb.connect(":memory:", config={"threads": 1})
    database.execute("CREATE TABLE main_rows (ref BIGINT, who BIGINT, nr BIGINT)")
    database.execute("CREATE TABLE kinds (id BIGINT, name VARCHAR)")
    database.executemany("INSERT INTO main_rows VALUES (?, ?, ?)", rows)
    database.executemany("INSERT INTO kinds VALUES (?, ?)", KEYS)
    database.execute("CREATE TABLE owners AS SELECT id - 1 AS id, name AS grade FROM kinds")
    engine = watched_engine(database, watch, "joined")
    database.execute("CREATE TABLE tiers (name VARCHAR, tier VARCHAR)")
    database.executemany("INSERT INTO tiers VALUES (?, ?)", list(TIERS.items()))
    joins = [
        Join("kinds", "ref", "id", {"kind": "name"}),
        Join("owners", "who", "id", ["grade"]),
        Join("tiers", "kind", "name", ["tier"]),
    ]
    of_tier = {key: TIERS[str(dict(KEYS)[key])] for key in KINDS}
    source = IbisSource(engine, TableName("main_rows"), joins)
    lines = []
    for label, unit in UNITS.items():
        counted = rows if isinstance(unit, Row) else [row for row in rows if row[2] < 4 * AT_MOST]
        violations = []
        by_ref, by_owner = [row[0] or 0 for row in counted], [-1 if row[1] is None else row[1] + 1 for row in counted]
        for name, keys, told in (("kind", by_ref, KINDS), ("grade", by_owner, KINDS), ("tier", by_ref, of_tier)):
            wanted = Counter(told.get(key) for key in keys)
            for where, kinds in ((None, ("a", "b", None)), (Column(name) == "a", ("a",))):
                cells = compile_cells(JOINED, Policy(unit=unit), name, where)
                if not np.array_equal(source.prepare(cells, unit).run(None), [wanted[kind] for kind in kinds]):
                    violations.append("a joined table makes rows count more than once, or not at all")
        lines.append(judged(f"a joined table, {label}", "counting", violations, "each row counts once", 6))
    cells = compile_cells(domain({"rows": integers(0, 40, null=0)}), Policy(), "rows", None)
    numbers = Counter(Counter(row[1] for row in rows if row[1] is not None).values())
    people = source.of_people(People("who", "rows")).prepare(cells).run(None)
    wrong = broken({"people are counted whom no row names": people.tolist() != [numbers[each] for each in range(41)]})
    database.close()
    return [*lines, judged("the people of a table", "counting", wrong, "each person counts once")]


VALUES = 16
DECLARED = domain({"x": integers(0, VALUES - 1, null=0)})
FIRST, SECOND, APART = "first", "second", "apart"
SHARING = {FIRST: ANALYSTS, SECOND: ANALYSTS, APART: OFF}
PRICE, LIMIT = Fraction(1, 10), Fraction(1000)
CHEAP = PRICE / 4
WITHIN = accuracy_target(alpha=500)
HISTOGRAM, CDF = query("histogram", "x"), query("cdf", "x")


@dataclass(frozen=True)
class Deployment:
    """A curator and two analysts over one configuration."""

    curator: Curator
    ana: Backend
    bob: Backend
    config: Path

    def release(
        self, analyst: Backend, dataset: str = FIRST, epsilon: Fraction = PRICE, key: str | None = None
    ) -> Answer:
        """A noisy histogram."""
        target = accuracy_target(epsilon=epsilon, mechanism="identity")
        return expect(analyst.release(ReleaseRequest(dataset, HISTOGRAM, DECLARED, target), Run(key)), Answer)

    def preview(self, analyst: Backend) -> Fraction:
        """The price of running counts at the usual accuracy."""
        return expect(analyst.preview(ReleaseRequest(FIRST, CDF, DECLARED, WITHIN)), Preview).epsilon

    def spent(self, dataset: str = FIRST) -> Fraction:
        """What the data has lost so far."""
        return self.curator.account(dataset).spent


def session_lines() -> list[CheckLine]:
    """What one analyst paid for is theirs, and what was quoted or answered under one version stays with it."""
    checks = (
        ("analysts", _analysts, "each has their own answers", 6),
        ("shared noise", _shared_noise, "nobody has more than they paid for", 4),
        ("versions", _versions, "nothing is carried over but loss", 6),
        ("changed rows", _changed_rows, "nothing is built on answers of other rows", 2),
    )
    with _deployment() as deployment:
        lines = [
            judged("sessions", name, findings(partial(check, deployment)), claim, tries)
            for name, check, claim, tries in checks
        ]
    return [*lines, judged("sessions", "time", _padding(), "everything leaves at whole steps", len(WAITS))]


WAITS = ((0.2, False), (0.2, True), (1.7, False), (1.7, True))
"""Seconds that an answer takes, and whether it fails."""


def _padding() -> list[str]:
    """Answers that are padded, and those that fail, by a clock that only moves when somebody works or waits."""
    left = []
    for seconds, fails in WAITS:
        clock = [0.0]

        def work(seconds: float = seconds, fails: bool = fails, clock: list[float] = clock) -> None:
            clock[0] += seconds
            if fails:
                raise TimeoutError

        def sleep(seconds: float, clock: list[float] = clock) -> None:
            clock[0] += seconds

        with suppress(TimeoutError):
            padded(Fraction(1), work, Pace(partial(clock.__getitem__, 0), sleep))
        left.append(round(clock[0], 6))
    return broken({f"time tells how long an answer took, or that it failed: {left}": left != [1.0, 1.0, 2.0, 2.0]})


@contextmanager
def _deployment() -> Iterator[Deployment]:
    with tempfile.TemporaryDirectory(prefix="blowfish-audit-") as folder:
        config = Path(folder) / "blowfish.toml"
        with closing(duckdb.connect(str(Path(folder) / "rows.duckdb"))) as database:
            for name in SHARING:
                database.execute(f"CREATE TABLE {name} AS SELECT range % {VALUES} AS x FROM range(200)")
        with curate(config, by="audit") as curator:
            for name, sharing in SHARING.items():
                source = f"duckdb:///{folder}/rows.duckdb#{name}"
                policy = Policy({"x": line()})
                terms = Dataset(name, source=source, domain=DECLARED, policy=policy, epsilon=LIMIT, sharing=sharing)
                curator.add(terms)
            with closing(open_local(config, "ana")) as ana, closing(open_local(config, "bob")) as bob:
                yield Deployment(curator, ana, bob, config)


def _analysts(deployment: Deployment) -> list[str]:
    """The answer of one analyst, asked for by another: by its number, by the question, by the key."""
    ana, bob = deployment.ana, deployment.bob
    first = deployment.release(ana, APART, key="key")
    number = ana.history(APART, ListPart())[0].number
    mine = expect(ana.reopen(APART, number), Answer)
    before = deployment.spent(APART)
    second = deployment.release(bob, APART, key="key")
    again = deployment.release(ana, APART)
    return broken(
        {
            "an analyst's own answer is not found again": mine.to_json() != first.to_json(),
            "the same question again is charged, or answered differently": again.to_json() != first.to_json(),
            "an answer is opened by somebody who did not pay for it": not refused(
                partial(bob.reopen, APART, number), UnknownAnswer
            ),
            "an answer is opened as one of another dataset": not refused(
                partial(ana.reopen, SECOND, number), UnknownAnswer
            ),
            "an answer is opened as a synopsis, which everybody may read": not refused(
                partial(bob.synopsis, APART, number), UnknownAnswer
            ),
            "an analyst sees the charges of another": len(bob.history(APART, ListPart())) != 1,
            "one analyst's answer is replayed to another": second.to_json() == first.to_json()
            or deployment.spent(APART) != before + PRICE
            or bob.budget(APART).spent != PRICE,
        }
    )


def _shared_noise(deployment: Deployment) -> list[str]:
    """Answers that share their noise: the data loses the finest once, everybody has and pays their own level."""
    ana, bob = deployment.ana, deployment.bob
    fine = deployment.release(bob)
    cheap = deployment.release(ana, epsilon=CHEAP)
    spent, paid = deployment.spent(), ana.budget(FIRST).spent
    with closing(open_local(deployment.config, "eve")) as eve:
        also_cheap = deployment.release(eve, epsilon=CHEAP)
        third_paid = eve.budget(FIRST).spent
    finer = deployment.release(ana)
    return broken(
        {
            "a cheap answer has the noise of an expensive one": _noisy(cheap) == _noisy(fine)
            or _noisy(also_cheap) == _noisy(fine),
            "a cheap answer is certified at another price": {cheap.certificate.epsilon, also_cheap.certificate.epsilon}
            != {CHEAP},
            "an answer that others paid for is free": {paid, third_paid} != {CHEAP},
            "an answer at the same price has noise of its own, which adds to the loss": _noisy(also_cheap)
            != _noisy(cheap)
            or _noisy(finer) != _noisy(fine),
            "less noise costs something else than the difference": ana.budget(FIRST).spent != PRICE,
            "noise that is shared is charged to the data twice, or not at all": {spent, deployment.spent()} != {PRICE},
        }
    )


def _noisy(answer: Answer) -> list[int]:
    """The noisy rows of an answer."""
    return [] if answer.measured is None else answer.measured.noisy.tolist()


def _versions(deployment: Deployment) -> list[str]:
    """A new policy and refreshed rows: quotes are made anew, answers are charged anew, past loss is multiplied."""
    ana, curator, steps = deployment.ana, deployment.curator, VALUES - 1
    old, paid = deployment.preview(ana), deployment.spent()
    curator.set_policy(FIRST, Policy({"x": full()}), reason="audit")
    after, new = deployment.spent(), deployment.preview(ana)
    with closing(open_local(deployment.config, "eve")) as fresh:
        expected = deployment.preview(fresh)
    certificate = deployment.release(ana).certificate
    charged = deployment.spent() - after
    curator.refreshed(FIRST, "audit")
    before = deployment.spent()
    deployment.release(ana)
    tied = Policy({"x": full()}, constraints=["range(x, 0, 7)"])
    factor = curator.what_would_change(FIRST, policy=tied)[1].factor
    curator.set_policy(SECOND, Policy({"x": threshold(2)}), reason="audit")
    return broken(
        {
            f"past loss of {paid} counts as {after} where values one step apart were {steps}": after != steps * paid,
            f"a quote under an old policy is given for the new one: {new}, not {expected}": new != expected
            or new <= old,
            "an answer under an old policy is given for the new one": charged != PRICE,
            "an answer carries a certificate that is not its own": refused(certificate.verify),
            "an answer of old rows is given for refreshed ones": deployment.spent() != before + PRICE,
            f"two records that change together count {factor} times": factor is not None and factor < 2,
            "the policy of one dataset changes the loss of another": deployment.spent(SECOND) != 0,
        }
    )


def _changed_rows(deployment: Deployment) -> list[str]:
    """More accuracy after rows changed without a word to anybody: the whole price, and independent noise."""
    deployment.release(deployment.ana, SECOND, CHEAP)
    before = deployment.spent(SECOND)
    with closing(duckdb.connect(str(deployment.config.parent / "rows.duckdb"))) as database:
        database.execute(f"UPDATE {SECOND} SET x = 0 WHERE x = 1")
        database.execute("CHECKPOINT")
    answer = deployment.release(deployment.ana, SECOND)
    return broken(
        {
            "an answer is made more accurate over changed rows": answer.charged is not None,
            "an answer over changed rows costs the difference": deployment.spent(SECOND) != before + PRICE,
        }
    )
