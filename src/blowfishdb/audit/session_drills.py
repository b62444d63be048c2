"""Drills of sessions: two analysts, a curator, a configuration on disk; answers, quotes and versions stay apart."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import duckdb

from blowfishdb.audit.report import Line, broken, judged, refused
from blowfishdb.catalog import Curator, Dataset, curate
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Run
from blowfishdb.engine.compile import ANALYSTS, OFF
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.target import accuracy_target
from blowfishdb.errors import UnknownAnswer
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.policy import Policy, full, line, threshold
from blowfishdb.model.query import query
from blowfishdb.session.backend import Backend, expect
from blowfishdb.session.local import open_local

VALUES = 16
DECLARED = domain({"x": integers(0, VALUES - 1, null=0)})
FIRST, SECOND, APART = "first", "second", "apart"
SHARING = {FIRST: ANALYSTS, SECOND: ANALYSTS, APART: OFF}
PRICE, LIMIT = Fraction(1, 10), Fraction(1000)
CHEAP = PRICE / 4
WITHIN = accuracy_target(alpha=500)
HISTOGRAM, CDF = query("histogram", "x"), query("cdf", "x")


@dataclass(frozen=True)
class Office:
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
        return expect(analyst.release(dataset, HISTOGRAM, DECLARED, target, Run(key)), Answer)

    def preview(self, analyst: Backend) -> Fraction:
        """The price of running counts at the usual accuracy."""
        return expect(analyst.preview(FIRST, CDF, DECLARED, WITHIN), Preview).epsilon

    def spent(self, dataset: str = FIRST) -> Fraction:
        """What the data has lost so far."""
        return self.curator.account(dataset).spent


def session_lines() -> list[Line]:
    """What one analyst paid for is theirs, and what was quoted or answered under one version stays with it."""
    subject = partial(judged, "sessions")
    with _office() as office:
        return [
            subject("analysts", _analysts(office), "each has their own answers", 6),
            subject("shared noise", _shared_noise(office), "nobody has more than they paid for", 4),
            subject("versions", _versions(office), "nothing is carried over but loss", 6),
            subject("changed rows", _changed_rows(office), "nothing is built on answers of other rows", 2),
        ]


@contextmanager
def _office() -> Iterator[Office]:
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
            ana, bob = (open_local(config, name) for name in ("ana", "bob"))
            try:
                yield Office(curator, ana, bob, config)
            finally:
                ana.close()
                bob.close()


def _analysts(office: Office) -> list[str]:
    """The answer of one analyst, asked for by another: by its number, by the question, by the key."""
    ana, bob = office.ana, office.bob
    first = office.release(ana, APART, key="key")
    number = ana.history(APART)[0].number
    mine = expect(ana.reopen(APART, number), Answer)
    before = office.spent(APART)
    second = office.release(bob, APART, key="key")
    again = office.release(ana, APART)
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
            "an analyst sees the charges of another": len(bob.history(APART)) != 1,
            "one analyst's answer is replayed to another": second.to_json() == first.to_json()
            or office.spent(APART) != before + PRICE
            or bob.budget(APART).spent != PRICE,
        }
    )


def _shared_noise(office: Office) -> list[str]:
    """Answers that share their noise: the data loses the finest once, everybody has and pays their own level."""
    ana, bob = office.ana, office.bob
    fine = office.release(bob)
    cheap = office.release(ana, epsilon=CHEAP)
    spent, paid = office.spent(), ana.budget(FIRST).spent
    with closing_backend(office.config) as eve:
        also_cheap = office.release(eve, epsilon=CHEAP)
        third_paid = eve.budget(FIRST).spent
    finer = office.release(ana)
    return broken(
        {
            "a cheap answer has the noise of a dear one": _noisy(cheap) == _noisy(fine)
            or _noisy(also_cheap) == _noisy(fine),
            "a cheap answer is certified at another price": {cheap.certificate.epsilon, also_cheap.certificate.epsilon}
            != {CHEAP},
            "an answer that others paid for is free": {paid, third_paid} != {CHEAP},
            "an answer at the same price has noise of its own, which adds to the loss": _noisy(also_cheap)
            != _noisy(cheap)
            or _noisy(finer) != _noisy(fine),
            "less noise costs something else than the difference": ana.budget(FIRST).spent != PRICE,
            "noise that is shared is charged to the data twice, or not at all": {spent, office.spent()} != {PRICE},
        }
    )


def _noisy(answer: Answer) -> list[int]:
    """The noisy rows of an answer."""
    return [] if answer.measured is None else answer.measured.noisy.tolist()


def _versions(office: Office) -> list[str]:
    """A new policy and refreshed rows: quotes are made anew, answers are charged anew, past loss is multiplied."""
    ana, curator, steps = office.ana, office.curator, VALUES - 1
    old, paid = office.preview(ana), office.spent()
    curator.set_policy(FIRST, Policy({"x": full()}), reason="audit")
    after, new = office.spent(), office.preview(ana)
    with closing_backend(office.config) as fresh:
        expected = office.preview(fresh)
    certificate = office.release(ana).certificate
    charged = office.spent() - after
    curator.refreshed(FIRST, "audit")
    before = office.spent()
    office.release(ana)
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
            "an answer of old rows is given for refreshed ones": office.spent() != before + PRICE,
            f"two records that change together count {factor} times": factor is not None and factor < 2,
            "the policy of one dataset changes the loss of another": office.spent(SECOND) != 0,
        }
    )


def _changed_rows(office: Office) -> list[str]:
    """More accuracy after rows changed without a word to anybody: the whole price, and independent noise."""
    office.release(office.ana, SECOND, CHEAP)
    before = office.spent(SECOND)
    with closing(duckdb.connect(str(office.config.parent / "rows.duckdb"))) as database:
        database.execute(f"UPDATE {SECOND} SET x = 0 WHERE x = 1")
        database.execute("CHECKPOINT")
    answer = office.release(office.ana, SECOND)
    return broken(
        {
            "an answer is made more accurate over changed rows": answer.charged is not None,
            "an answer over changed rows costs the difference": office.spent(SECOND) != before + PRICE,
        }
    )


@contextmanager
def closing_backend(config: Path) -> Iterator[Backend]:
    """Another analyst's backend, which has quoted nothing yet."""
    backend = open_local(config, "eve")
    try:
        yield backend
    finally:
        backend.close()
