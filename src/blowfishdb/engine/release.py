"""Release: what can be charged and then run once on the counts; by one certified plan, or by a program of stages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy.intervals import HalfWidths, intervals, noise_widths
from blowfishdb.accuracy.quote import Quote, Quotes
from blowfishdb.engine.answer import Answer, evidence_of, now
from blowfishdb.engine.combination import CombinedCandidate, Part, family_width
from blowfishdb.engine.compile import MOST_ANSWERS, Compiled, DatasetHandle
from blowfishdb.engine.infer import infer
from blowfishdb.engine.measure import measure, run_program
from blowfishdb.engine.preview import (
    AnyPreview,
    Preview,
    WayName,
    not_protected,
    plan_preview,
    program_preview,
    quotes_for,
)
from blowfishdb.engine.request import subject_of, write_query
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import Declined, InvalidInput, plural
from blowfishdb.ledger import Receipt
from blowfishdb.ledger.values import Link, PastLink
from blowfishdb.mechanisms.data_aware import dawa, gated
from blowfishdb.mechanisms.data_aware.script import BIAS_BETA, DataAware, Finding, counts_touched
from blowfishdb.mechanisms.table import DATA_AWARE
from blowfishdb.model.cached import cached_property
from blowfishdb.model.constraints import MarginalConstraint, RowsConstraint
from blowfishdb.model.graphs import ZERO, CellGraph, WindowGraph
from blowfishdb.model.numbers import Floats, Ints, show
from blowfishdb.model.policy import Person, Policy
from blowfishdb.model.query import Query
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.certificate import Certificate, CertifiedPlan, certified_as_charged, certify
from blowfishdb.plan.plan import EdgePlan, Plan, plan_digest_1
from blowfishdb.plan.program import Program, certify_program
from blowfishdb.present.answer_values import MeasuredRows
from blowfishdb.present.words import counted_words, policy_words, question_words, readable, upper_end
from blowfishdb.sources.base import Counting

STATISTICS = ("linear", "sum", "mean", "quantiles", "table")


class Release(ABC):
    """A query with its price, ready to be charged and then run once on the counts; no data was read.

    The five kinds: PlanRelease and ProgramRelease below, QuantilesRelease (quantiles.py), SynopsisRelease
    (synopsis_release.py) and PointsRelease (points.py). `charge.decode` reads back what any of them published.
    """

    compiled: Compiled | None
    """The query and its cells; None for points."""

    @property
    def counted(self) -> Compiled | None:
        """The query whose cells are counted."""
        return self.compiled

    @property
    def plan(self) -> Plan | EdgePlan | None:
        """The plan over the cells; None where stages are planned as they come, and for points."""
        return None

    @property
    @abstractmethod
    def certificate(self) -> Certificate:
        """The loss and the digests of the plan, or of the program with its allowances."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of cells, by which caches weigh it."""

    @property
    def epsilon(self) -> Fraction:
        """What it costs."""
        return self.certificate.epsilon

    @property
    def digest(self) -> str:
        """What the receipt covers."""
        return self.certificate.plan_digest

    def loss_on(self, graph: CellGraph) -> Fraction:
        """The loss on the edges of a graph of the same cells; all of epsilon where that cannot be told."""
        return self.epsilon if self.plan is None else certify(self.plan, graph).epsilon

    @abstractmethod
    def digest_1(self) -> str:
        """The same in the first encoding, which receipts of earlier versions hold."""

    @abstractmethod
    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps. All that can fail without data has been done when this returns."""

    @abstractmethod
    def preview(self, handle: DatasetHandle) -> AnyPreview:
        """What the release would cost and how accurate it would be."""

    @abstractmethod
    def counting(self, handle: DatasetHandle) -> Counting:
        """The statement that will count, checked against the table as it is; reads no row."""

    @abstractmethod
    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """Draws the noise and gives what is published, in the bytes that will be stored."""


class CellsRelease(Release):
    """A release that counts the cells of a compiled query."""

    compiled: Compiled

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.compiled.problem.graph.cells

    def counting(self, handle: DatasetHandle) -> Counting:
        """The statement that counts the cells."""
        return prepared_count(handle, self.counted or self.compiled)


def prepared_count(handle: DatasetHandle, compiled: Compiled) -> Counting:
    """The statement that counts the rows, or for persons the persons, in each cell of a query; reads no row."""
    unit, table = handle.policy.unit, compiled.table
    if table is not None and table.counts_people and isinstance(unit, Person):
        return handle.source.prepare_people(compiled.cells, unit)
    return handle.source.prepare(compiled.cells, unit)


def ledger_document(
    query: Query, mechanism: str, certificate: Certificate, details: dict[str, object]
) -> dict[str, object]:
    """A certificate as the ledger keeps it."""
    return {
        "question": question_words(query)[:2000],
        "mechanism": mechanism,
        "epsilon": str(certificate.epsilon),
        **details,
        "plan": certificate.plan_digest,
        "graph": certificate.graph_digest,
    }


UNPROVEN = ""
"""The mark of content that nobody can tell from other content."""


@dataclass(frozen=True)
class Sharing:
    """The link of a release, what the data pays for it, and the charges of its chain whose answers are published.

    After a draw that failed nothing of the chain `may_count`: less accurate levels are all that is drawn.
    """

    link: Link
    epsilon: Fraction
    published: tuple[PastLink, ...] = ()
    may_count: bool = True

    @property
    def finer(self) -> PastLink | None:
        """The next published level that is at least as fine; without one the data is read."""
        return min((past for past in self.published if past.link.level >= self.link.level), key=by_level, default=None)

    @property
    def coarser(self) -> PastLink | None:
        """The next published level that is coarser."""
        return max((past for past in self.published if past.link.level < self.link.level), key=by_level, default=None)

    @property
    def mark(self) -> str:
        """The mark of the content that the published answers were made on."""
        return next((past.mark or UNPROVEN for past in self.published), UNPROVEN)


def by_level(past: PastLink) -> Fraction:
    """The level of a past link, by which a chain is ordered."""
    return past.link.level


@dataclass(frozen=True, eq=False)
class Beside:
    """The rows that an earlier entry of the same analyst published, and the level of that entry."""

    entry: int
    level: Fraction
    rows: MeasuredRows


@dataclass(frozen=True, eq=False)
class PlanRelease(CellsRelease):
    """A query answered by one certified plan. `target` and `quotes`, the offers for it, are for the preview.

    Its epsilon is what the answers lose by themselves; with `sharing` a part of that was paid before. `measures` is the
    query whose cells are measured, now or by an earlier release, where that is another one; what is measured may be
    combined with the rows `beside` it. The candidate of the quote is then a combination.
    """

    compiled: Compiled
    best: Quote
    target: AccuracyTarget | None = None
    quotes: Quotes | None = None
    sharing: Sharing | None = None
    measures: Compiled | None = None
    beside: tuple[Beside, ...] = ()

    def __getstate__(self) -> dict[str, object]:
        """What travels to another process; the offers stay behind with the preview that was made of them."""
        return {**vars(self), "quotes": None}

    @property
    def plan(self) -> Plan | EdgePlan:
        """The quoted plan."""
        return self.best.plan

    @property
    def certificate(self) -> Certificate:
        """The quoted certificate."""
        return self.best.certificate

    def digest_1(self) -> str:
        """The plan in the first encoding."""
        return plan_digest_1(self.best.plan)

    @cached_property
    def certified(self) -> CertifiedPlan:
        """The quoted plan, certified anew on the graph of this very query: a quote may come from a cache.

        DigestMismatch when the quote's certificate is not that of its plan on this graph.
        """
        return certified_as_charged(self.best.plan, self.counted.problem.graph, self.best.certificate)

    @property
    def counted(self) -> Compiled:
        """The query whose cells are counted."""
        return self.measures or self.compiled

    @cached_property
    def widths(self) -> HalfWidths:
        """The half-widths of the measured answers, which no data changes."""
        best = self.best
        return intervals(self.compiled.problem, best.strategy, self._noise, best.beta, best.shown)

    @property
    def _noise(self) -> Plan | EdgePlan:
        """The plan whose noise the answers carry; for a combination that of all rows that it combines."""
        best, plan = self.best, self.best.candidate.plan
        return plan.with_unit(plan.unit / best.epsilon) if isinstance(best.candidate, CombinedCandidate) else best.plan

    @property
    def way(self) -> WayName:
        """How the analyst comes by the answer."""
        if self.is_read_off:
            return "free"
        if self.beside:
            return "supplement"
        if self.sharing is None or self.sharing.link.received == self.sharing.link.level:
            return "fresh"
        return "upgrade" if self.sharing.link.received else "degrade"

    @property
    def is_read_off(self) -> bool:
        """Whether earlier measurements of the analyst give the answers, and nothing is measured."""
        is_combined = isinstance(self.best.candidate, CombinedCandidate)
        return is_combined and self.sharing is not None and self.sharing.link.received == 0

    @property
    def price(self) -> Fraction:
        """What the analyst would pay."""
        return self.epsilon if self.sharing is None else self.sharing.link.received

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps; labels and half-widths are made for it, before anything is charged."""
        self.compiled.check_answers()
        _, _, certificate = self.widths, self.compiled.tables, self.certified.certificate
        details: dict[str, object] = {
            "alpha": self.best.alpha,
            "beta": self.best.beta,
            "witness": certificate.witness,
            "is_tight": certificate.is_tight,
            "together": certificate.constraint_note,
        }
        if self.sharing is not None:
            details["rests_on"] = sorted(past.charge for past in (self.sharing.finer, self.sharing.coarser) if past)
            details["measured"] = write_query(self.counted.query)
        if self.beside:
            details["combined"] = [past.entry for past in self.beside]
        if self.is_read_off and not self.beside:
            details["family"] = self.family
        return ledger_document(self.compiled.query, self.best.mechanism, certificate, details)

    @cached_property
    def family(self) -> float:
        """The half-width of answers that were read off an earlier release, for questions chosen after it was seen."""
        candidate = self.best.candidate
        newest = candidate.newest if isinstance(candidate, CombinedCandidate) else candidate
        return family_width(self.best, Part(self.counted, newest, self.best.epsilon), self.compiled)

    def preview(self, handle: DatasetHandle) -> Preview:
        """The price list of all mechanisms."""
        if self.target is None or self.quotes is None:
            raise InvalidInput("a release of one quote has no price list")
        return plan_preview(handle, self.compiled, self.target, self.quotes)

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """The finished answer as JSON."""
        return self.described(self.answer(counts), handle).to_json().encode()

    def described(self, answer: Answer, handle: DatasetHandle) -> Answer:
        """The answer as it will be stored."""
        return described(answer, handle, self.compiled)

    def shared_payload(self, rows: MeasuredRows, handle: DatasetHandle, receipt: Receipt) -> bytes:
        """The finished answer of rows that share their noise, as JSON: with the rows, and the analyst's entries."""
        sharing, charge = self.sharing, receipt.charge
        past = () if sharing is None else sharing.published
        is_new = sharing is None or charge.received == sharing.link.level
        mine = tuple(one.charge for one in past if one.analyst == charge.analyst)
        # The total is that of the cells that were measured.
        measured = rows if self.measures is None else replace(rows, total=None)
        answer = self.described(self.answer_of(measured), handle)
        if self.measures is not None:
            evidence = evidence_of(handle.domain, handle.policy, self.measures.query)
            answer = replace(answer, evidence=evidence, question=write_query(self.compiled.query))
        if self.beside:
            answer = replace(answer, caveat=combined_words(self.best.epsilon, self.beside))
        elif self.is_read_off:
            answer = replace(answer, caveat=f"{DERIVED} {family_words(self.family, self.best.beta)}")
        answer = replace(
            answer,
            measured=rows,
            charged=None if is_new and not self.beside else charge.received,
            rests_on=(*(() if is_new else mine), *(one.entry for one in self.beside)),
        )
        return answer.to_json().encode()

    def answer(self, counts: Ints) -> Answer:
        """Draws the noise and makes the answer that the quote promised; charges nothing and stores nothing."""
        measured = measure(self.certified, counts)
        return self.answer_of(MeasuredRows(measured.noisy, measured.exact, public_total(self.compiled, counts)))

    def answer_of(self, rows: MeasuredRows) -> Answer:
        """The answer that measured rows give, with the intervals that the quote promised."""
        best, raw = self.best, self._decoded(rows.noisy, rows.exact)
        return infer(self.compiled, raw, self.widths, rows.total, best.beta, best.mechanism, self.certified.certificate)

    def measured(self, counts: Ints) -> Floats:
        """Draws the noise and gives the unbiased answers."""
        measured = measure(self.certified, counts)
        return self._decoded(measured.noisy, measured.exact)

    def _decoded(self, noisy: Ints, exact: Ints) -> Floats:
        """The unbiased answers."""
        if isinstance(self.certified.plan, EdgePlan):
            return noisy.astype(np.float64)
        plan = self._noise
        measured = np.concatenate([*(past.rows.noisy for past in self.beside), noisy]).astype(np.float64)
        exact = np.concatenate([*(past.rows.exact for past in self.beside), exact])
        scales = float(plan.unit) / plan.weights.astype(np.float64)
        raw = self.best.strategy.decode(measured, exact.astype(np.float64), np.asarray(variance(scales)))
        # Rows are of whole numbers, so what carries no noise is whole but for the rounding of floats.
        settled = self.widths.exact
        raw[settled] = np.round(raw[settled])
        return raw


def described(answer: Answer, handle: DatasetHandle, compiled: Compiled) -> Answer:
    """The answer as it will be stored: with its dataset, what is hidden, and the evidence for its certificate."""
    evidence = evidence_of(handle.domain, handle.policy, compiled.query)
    return replace(
        answer,
        dataset=handle.name,
        policy_version=handle.policy_version,
        protected=policy_words(handle.domain, handle.policy, compiled.cells.attributes),
        unprotected=not_protected(handle.domain, handle.policy),
        released=now(),
        evidence=evidence,
        counted=counted_words(handle.policy.unit),
        subject=subject_of(handle, compiled.query, compiled.cells.attributes),
        question=write_query(compiled.query) if evidence is None else None,
    )


def public_total(compiled: Compiled, counts: Ints) -> float | None:
    """The total over the cells when no hidden move can change it, so that it is no secret."""
    return None if np.any(compiled.problem.graph.components() == ZERO) else float(counts.sum())


DERIVED = (
    "Read off an earlier release, at no further charge. The intervals hold for a question chosen before the answers of "
    "that release were seen."
)


def combined_words(level: Fraction, beside: tuple[Beside, ...]) -> str:
    """What a combination rests on, and what all of it loses together."""
    together = level + sum((past.level for past in beside), Fraction(0))
    entries = ", ".join(str(past.entry) for past in beside)
    return (
        f"Combined by least squares with {'entry' if len(beside) == 1 else 'entries'} {entries}; together they lose at "
        f"most {readable(float(together))}. The intervals hold for a question chosen before those answers were seen."
    )


def family_words(family: float, beta: float) -> str:
    """The half-width that holds whatever was asked after the earlier release was seen."""
    return (
        f"For a question chosen afterwards, take {readable(upper_end(family))} on either side: that holds for all such "
        f"questions together, with probability {show(1 - Fraction(str(beta)))}."
    )


NOISE_ONLY = (
    "Intervals cover the noise only. Counts were spread evenly over buckets that the mechanism chose; how uneven the "
    "data is inside them is not covered."
)

BIAS_TOO = (
    "Counts were spread evenly over buckets that the mechanism chose. Intervals cover the noise and a privately "
    "estimated bound on how uneven the data is inside buckets."
)

LEAST_EPSILON = Fraction(1, 100_000)
"""Refused below this, per record that may change: a stage that failed for its noise would fail after the charge."""


@dataclass(frozen=True, eq=False)
class ProgramRelease(CellsRelease):
    """A query answered by the program of stages of a data-aware mechanism.

    `why` is the rule by which the mechanism was chosen, where nobody asked for it by name.
    """

    compiled: Compiled
    target: AccuracyTarget
    mechanism: DataAware
    program: Program
    why: str = ""

    @cached_property
    def certificate(self) -> Certificate:
        """What the whole program may spend."""
        return certify_program(self.program, self.compiled.problem.graph)

    def digest_1(self) -> str:
        """The program in the first encoding."""
        return self.program.digest_1()

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps: the stages with their allowances."""
        stages = {allowance.stage: str(allowance.epsilon) for allowance in self.program.allowances}
        # A synopsis fits its buckets to a few more queries than it has cells.
        self.compiled.check_answers(max(MOST_ANSWERS, 2 * self.size))
        _, details = self.compiled.tables, {"beta": float(self.target.beta), "stages": stages}
        return ledger_document(self.compiled.query, self.mechanism.name, self.certificate, details)

    def preview(self, handle: DatasetHandle) -> Preview:
        """The price of the program, beside what other mechanisms promise for it."""
        return program_preview(handle, self.compiled, self.target, self.program, self.why)

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """The finished answer as JSON."""
        return described(self.answer_of(self.run(counts)), handle, self.compiled).to_json().encode()

    def run(self, counts: Ints) -> Finding:
        """Runs the program on counts, each stage certified before its noise is drawn."""
        problem = self.compiled.problem
        script = self.mechanism.script(problem, self.program)
        return run_program(self.program, self.digest, script, problem.graph, counts)

    def answer_of(self, finding: Finding) -> Answer:
        """The answer that a finding gives, with intervals for the noise and a word on what they leave out."""
        beta = float(self.target.beta)
        widths, caveat = noise_widths(finding.variances, beta), NOISE_ONLY
        if finding.bias is not None and beta > BIAS_BETA:
            widths, caveat = noise_widths(finding.variances, beta - BIAS_BETA).widened(finding.bias), BIAS_TOO
        if finding.adjusted is not None:
            widths = widths.widened(finding.adjusted)
        answer = infer(self.compiled, finding.answers, widths, None, beta, self.mechanism.name, self.certificate)
        return replace(answer, stages=self.program.allowances, caveat=caveat)


def program_release(compiled: Compiled, target: AccuracyTarget, why: str = "") -> ProgramRelease:
    """The release by the named data-aware mechanism; Declined where it cannot serve the query."""
    mechanism = DATA_AWARE[target.mechanism or ""]
    if target.epsilon is None:
        raise Declined(
            mechanism.name,
            "it looks at the data, so nobody can promise its accuracy beforehand. Give epsilon instead of an accuracy, "
            "or leave the mechanism out",
        )
    if target.epsilon < LEAST_EPSILON * compiled.problem.graph.rows_per_person:
        raise Declined(mechanism.name, "so small an epsilon asks for more noise in one stage than the sampler serves")
    if compiled.query.kind in STATISTICS:
        raise Declined(
            mechanism.name,
            "it answers counts. Publish a synopsis of the attribute, and read sums, means and quantiles off that",
        )
    program = mechanism.program(compiled.problem, target.epsilon)
    return ProgramRelease(compiled, target, mechanism, program, why)


FEWEST_CELLS = 256
FEWEST_CELLS_2D = 16_384
TREE_ERROR = 40.0
"""About the expected error of boxes that `adaptive-tree` has at epsilon 1 for each count that a record touches."""
MERGED = ("histogram", "histogram2d", "cdf", "ranges")


@dataclass(frozen=True)
class Choice:
    """A data-aware mechanism, or None for the best of the others; and why."""

    mechanism: str | None
    why: str


def choose(compiled: Compiled, target: AccuracyTarget, rows: int | None) -> Choice:
    """The first rule that applies to a target with an epsilon, given the number of records where that is public."""
    graph, kind, cells = compiled.problem.graph, compiled.query.kind, compiled.problem.graph.cells
    axes, epsilon = len(compiled.cells.axes), target.epsilon or Fraction(0)
    if kind not in MERGED or axes > 2:
        return Choice(None, "data-aware mechanisms merge the cells of one or two attributes")
    fewest = FEWEST_CELLS if axes == 1 else FEWEST_CELLS_2D
    if cells < fewest:
        return Choice(None, f"{plural(cells, 'cell')}: few; from {fewest:,} on, merging cells usually pays")
    if axes == 2:
        best = quotes_for(compiled, replace(target, mechanism=None)).best if kind == "ranges" else None
        if best is not None and (
            best.rmse * epsilon < TREE_ERROR * counts_touched(graph) or best.mechanism not in gated.PLAIN_TABLES
        ):
            return Choice(None, f"{best.mechanism} is expected to be closer than counting empty stretches together")
        return Choice(gated.NAME, f"{cells:,} cells; a look decides whether empty stretches are counted together")
    if rows is not None and rows * epsilon > gated.CLEAR * cells:
        return Choice(None, f"{rows:,} rows stand clear of the noise in {cells:,} cells")
    if kind != "histogram" and not _joins_all(graph):
        return Choice(None, "ranges cost little under this policy, whatever the data is")
    if rows is None:
        return Choice(gated.NAME, f"{cells:,} cells; a look decides whether even ones are counted together")
    able = dawa.TRANSFORM if kind == "histogram" else dawa.NAME
    return Choice(able, f"{cells:,} cells, of which even ones can be counted together")


def declared_rows(policy: Policy) -> int | None:
    """The number of rows, where the policy gives it as a public constraint."""
    for constraint in policy.constraints:
        if isinstance(constraint, RowsConstraint) and constraint.value is not None:
            return constraint.value
        if isinstance(constraint, MarginalConstraint) and constraint.total is not None:
            return constraint.total
    return None


def _joins_all(graph: CellGraph) -> bool:
    """Whether one hidden move leads from any cell to any other, or out of the count."""
    axis = graph.factors[0]
    complete = isinstance(axis, WindowGraph) and (axis.universal.size > 0 or int(axis.reach[0]) == axis.size - 1)
    return complete or bool(graph.to_zero.all())
