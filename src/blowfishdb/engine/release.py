"""Release: what can be charged and then run once on the counts; by one certified plan, or by several in one charge."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from blowfishdb.accuracy.candidates import Candidate
from blowfishdb.accuracy.columns import column_alphas
from blowfishdb.accuracy.intervals import HalfWidths, intervals
from blowfishdb.accuracy.quote import Quote, Quotes
from blowfishdb.engine.answer import Answer, evidence_of, joined_answer, now
from blowfishdb.engine.combination import CombinedCandidate, CombinedMeasurement, family_width
from blowfishdb.engine.compile import Compiled, DatasetHandle, compile_query, counts_people
from blowfishdb.engine.infer import infer
from blowfishdb.engine.measure import measure
from blowfishdb.engine.preview import (
    AnyPreview,
    Offer,
    Preview,
    PriceList,
    WayName,
    plan_preview,
    quotes_for,
)
from blowfishdb.engine.request import AccuracyTarget, subject_of, write_query, write_settings
from blowfishdb.engine.value_words import value_words
from blowfishdb.errors import InvalidInput
from blowfishdb.ledger import Receipt
from blowfishdb.ledger.amounts import AmountParts
from blowfishdb.ledger.values import Link, PastLink
from blowfishdb.mechanisms import joint
from blowfishdb.mechanisms.parameters import ParameterValues
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.cached import cached_property
from blowfishdb.model.domain import Domain
from blowfishdb.model.explain import not_protected
from blowfishdb.model.graphs import ZERO, CellGraph
from blowfishdb.model.numbers import Floats, Ints, show
from blowfishdb.model.policy import Person, Policy
from blowfishdb.model.predicate import atoms
from blowfishdb.model.query import Query
from blowfishdb.model.serialize import digest
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.certificate import Certificate, CertifiedPlan, certify
from blowfishdb.plan.plan import EdgePlan, Plan, plan_digest_1
from blowfishdb.plan.program import Allowance
from blowfishdb.present.answer_values import MeasuredRows
from blowfishdb.present.words import counted_words, policy_words, question_words, readable, upper_end
from blowfishdb.sources.base import Counting


class Release(ABC):
    """A query with its price, ready to be charged and then run once on the counts; no data was read.

    The kinds: PlanRelease and PartsRelease below, JointRelease (joint_release.py), ProgramRelease and QuantilesRelease
    (program.py), SynopsisRelease (synopsis_release.py) and PointsRelease (points.py). `charge.decode` reads back what
    any of them published.
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

    def digest_1(self) -> str:
        """The same in the first encoding, for kinds of which receipts of earlier versions hold it."""
        return self.digest

    @abstractmethod
    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps. All that can fail without data has been done when this returns."""

    @cached_property
    def recorded(self) -> str:
        """The document as the ledger keeps it."""
        return json.dumps(self.document(), ensure_ascii=False)

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


class ColumnsRelease(CellsRelease):
    """A release that may give some of the columns of a table, beside others in one charge."""

    @abstractmethod
    def checked(self) -> Certificate:
        """The certificate, worked out here on the graph of this very query."""

    @abstractmethod
    def column_alphas(self) -> Mapping[str, float | None]:
        """How far off each of its columns is at most, by name."""

    @abstractmethod
    def answer(self, counts: Ints) -> Answer:
        """Draws the noise and makes the answer; charges nothing and stores nothing."""


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


def recorded_settings(settings: ParameterValues) -> dict[str, object]:
    """The part of a certificate that names the parameters; nothing where none was set."""
    return {"parameters": write_settings(settings)} if settings else {}


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

    @cached_property
    def finer(self) -> PastLink | None:
        """The next published level that is at least as fine; without one the data is read."""
        return min((past for past in self.published if past.link.parts >= self.link.parts), key=by_level, default=None)

    @cached_property
    def coarser(self) -> PastLink | None:
        """The next published level that is coarser."""
        return max((past for past in self.published if past.link.parts < self.link.parts), key=by_level, default=None)

    @property
    def mark(self) -> str:
        """The mark of the content that the published answers were made on."""
        return next((past.mark or UNPROVEN for past in self.published), UNPROVEN)


def by_level(past: PastLink) -> AmountParts:
    """The level of a past link, by which a chain is ordered."""
    return past.link.parts


@dataclass(frozen=True, eq=False)
class Beside:
    """The rows that an earlier entry of the same analyst published, and the level of that entry."""

    entry: int
    level: Fraction
    rows: MeasuredRows


@dataclass(frozen=True, eq=False)
class PlanRelease(ColumnsRelease):
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
    def parameters(self) -> ParameterValues:
        """The parameters of the mechanism that were set."""
        return () if self.target is None else self.target.parameters

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
        """The quoted plan, certified here on the graph of this very query: a quote may come from another process.

        DigestMismatch when the quote's certificate is not that of its plan on this graph.
        """
        return self.counted.certified.as_charged(self.best.plan, self.best.certificate)

    def checked(self) -> Certificate:
        """The certificate of `certified`."""
        return self.certified.certificate

    def column_alphas(self) -> Mapping[str, float | None]:
        """How far off each column of a table is at most."""
        table = self.compiled.table
        if table is None:
            return {}
        return dict(zip((one.title for one in table.aggregates), column_alphas(table, self.best.alpha), strict=True))

    @property
    def counted(self) -> Compiled:
        """The query whose cells are counted."""
        return self.measures or self.compiled

    @cached_property
    def widths(self) -> HalfWidths:
        """The half-widths of the measured answers, which no data changes."""
        best = self.best
        if not isinstance(best.candidate, CombinedCandidate):
            return best.widths
        return intervals(Candidate(self.compiled.problem, best.strategy, self._noise), best.beta, best.shown)

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
            **recorded_settings(self.parameters),
        }
        if self.sharing is not None:
            details["rests_on"] = sorted(past.charge for past in (self.sharing.finer, self.sharing.coarser) if past)
            details["measured"] = write_query(self.counted.query)
        if self.beside or (self.way == "upgrade" and isinstance(self.best.candidate, CombinedCandidate)):
            details["combined"] = [past.entry for past in self.beside]
        if self.is_read_off and not self.beside:
            details["family"] = self.family
        return ledger_document(self.compiled.query, self.best.mechanism, certificate, details)

    @cached_property
    def family(self) -> float:
        """The half-width of answers that were read off an earlier release, for questions chosen after it was seen."""
        candidate = self.best.candidate
        newest = candidate.newest if isinstance(candidate, CombinedCandidate) else candidate
        return family_width(self.best, CombinedMeasurement(self.counted, newest, self.best.epsilon), self.compiled)

    def preview(self, handle: DatasetHandle) -> Preview:
        """The price list of all mechanisms."""
        if self.target is None or self.quotes is None:
            raise InvalidInput("a release of one quote has no price list")
        return plan_preview(handle, self.compiled, self.target, self.quotes)

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """The finished answer as it is stored."""
        return self.described(self.answer(counts), handle).to_bytes()

    def described(self, answer: Answer, handle: DatasetHandle) -> Answer:
        """The answer as it will be stored."""
        return described(answer, handle, self.compiled)

    def shared_payload(self, rows: MeasuredRows, handle: DatasetHandle, receipt: Receipt) -> bytes:
        """The stored answer of rows that share their noise: with the rows, and the analyst's entries."""
        sharing, charge = self.sharing, receipt.charge
        past = () if sharing is None else sharing.published
        is_new = sharing is None or charge.received == sharing.link.level
        mine = tuple(one.charge for one in past if one.analyst == charge.analyst)
        answer = self.described(self.answer_of(rows), handle)
        if self.measures is not None:
            evidence = evidence_of(handle.domain, handle.policy, self.measures.query)
            answer = replace(answer, evidence=evidence, question=write_query(self.compiled.query))
        if self.beside:
            answer = replace(answer, caveat=combined_words(self.best.epsilon, self.beside))
        elif self.is_read_off:
            answer = replace(answer, caveat=f"{DERIVED} {self._family_words()}")
        answer = replace(
            answer,
            measured=rows,
            charged=None if is_new and not self.beside else charge.received,
            rests_on=(*(() if is_new else mine), *(one.entry for one in self.beside)),
        )
        return answer.to_bytes()

    def _family_words(self) -> str:
        """The half-width of answers to questions chosen afterwards, which quotients and values of ranks have not.

        Nor have sums of values inside bins, whose intervals are read off two rows.
        """
        kind, rows = self.compiled.query.kind, self.compiled.problem.workload.shape[0]
        if kind in ("mean", "quantiles", "table") or (kind == "sum" and rows > 1):
            return "For a question chosen afterwards there are none."
        return family_words(self.compiled.shown(self.family), self.best.beta)

    def answer(self, counts: Ints) -> Answer:
        """Draws the noise and makes the answer that the quote promised; charges nothing and stores nothing."""
        measured = measure(self.certified, counts)
        return self.answer_of(MeasuredRows(measured.noisy, measured.exact, public_total(self.compiled, counts)))

    def answer_of(self, rows: MeasuredRows) -> Answer:
        """The answer that measured rows give, with the intervals that the quote promised."""
        best, raw = self.best, self._decoded(rows)
        # The total is that of the cells that were measured.
        total = rows.total if self.measures is None else None
        certificate = self.certified.certificate
        answer = infer(self.compiled, raw, self.widths, total, best.beta, best.mechanism, certificate)
        return replace(answer, parameters=self.parameters) if self.parameters else answer

    def measured(self, counts: Ints) -> Floats:
        """Draws the noise and gives the unbiased answers."""
        measured = measure(self.certified, counts)
        return self._decoded(MeasuredRows(measured.noisy, measured.exact, public_total(self.counted, counts)))

    def _decoded(self, rows: MeasuredRows) -> Floats:
        """The unbiased answers."""
        if isinstance(self.certified.plan, EdgePlan):
            return rows.noisy.astype(np.float64)
        plan, candidate = self._noise, self.best.candidate
        if isinstance(candidate, CombinedCandidate):
            rows = CombinedMeasurement(self.counted, candidate.newest, self.best.epsilon).known(rows)
        measured = np.concatenate([*(past.rows.noisy for past in self.beside), rows.noisy]).astype(np.float64)
        exact = np.concatenate([*(past.rows.exact for past in self.beside), rows.exact])
        scales = float(plan.unit) / plan.weights.astype(np.float64)
        raw = self.best.strategy.decode(measured, exact.astype(np.float64), np.asarray(variance(scales)))
        # Rows are of whole numbers, so what carries no noise is whole but for the rounding of floats.
        settled = self.widths.exact
        raw[settled] = np.round(raw[settled])
        return raw


def plan_release(compiled: Compiled, target: AccuracyTarget) -> PlanRelease:
    """The release by the best plan for the target; Declined where no mechanism serves it."""
    quotes = quotes_for(compiled, target)
    return PlanRelease(compiled, quotes.best, target, quotes)


def described(answer: Answer, handle: DatasetHandle, compiled: Compiled) -> Answer:
    """The answer as it will be stored: with its dataset, what is hidden, and the evidence for its certificate."""
    rows = handle.account, handle.snapshot
    description = compiled.descriptions.get(rows) or compiled.descriptions.setdefault(rows, _describe(handle, compiled))
    return replace(answer, **_dataset_fields(handle), **description)


def _describe(handle: DatasetHandle, compiled: Compiled) -> dict[str, Any]:
    """The fields of an answer that tell of the question, its rows and what is hidden of them."""
    attributes, evidence = compiled.cells.attributes, evidence_of(handle.domain, handle.policy, compiled.query)
    return {
        **_policy_fields(handle, attributes),
        "evidence": evidence,
        "subject": subject_of(handle, compiled.query, attributes),
        "question": write_query(compiled.query) if evidence is None else None,
    }


def labelled(answer: Answer, handle: DatasetHandle, attributes: tuple[str, ...]) -> Answer:
    """The answer with its dataset, its time, and what is hidden of the attributes that it looks at."""
    return replace(answer, **_dataset_fields(handle), **_policy_fields(handle, attributes))


def _dataset_fields(handle: DatasetHandle) -> dict[str, Any]:
    return {"dataset": handle.name, "policy_version": handle.policy_version, "released": now()}


def _policy_fields(handle: DatasetHandle, attributes: tuple[str, ...]) -> dict[str, Any]:
    return {
        "protected": policy_words(handle.domain, handle.policy, attributes),
        "unprotected": not_protected(handle.domain, handle.policy),
        "counted": counted_words(handle.policy.unit),
    }


def public_total(compiled: Compiled, counts: Ints) -> float | None:
    """The number of records in all cells where no hidden move can change it; None where it is a secret.

    Persons have none: one of them is counted in every group that they have a row in, and a move may join two groups.
    """
    is_secret = counts_people(compiled.query) or np.any(compiled.problem.graph.components() == ZERO)
    return None if is_secret else float(counts.sum())


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


TOGETHER = 2**17
"""Cells up to which all aggregates of a table are in one plan, which is certified as one."""


def divided(domain: Domain, policy: Policy, query: Query) -> tuple[Query, ...]:
    """The query as tables over fewer cells each, together with the same columns; itself where one plan serves it.

    Aggregates that look at the same attributes beside the groups stay together; those that look at none join the first.
    Persons are counted over cells of their own. Quantiles stand apart: running counts share little with other rows.
    """
    if query.kind != "table":
        return (query,)
    people = [part for part in query.aggregates if part.function == "people"]
    if people:
        rows = tuple(part for part in query.aggregates if part.function != "people")
        of_rows = divided(domain, policy, replace(query, aggregates=rows)) if rows else ()
        # Persons are counted anew for every filter: nothing tells how many meet two of them.
        filters = dict.fromkeys(part.where for part in people)
        counts = (tuple(part for part in people if part.where == where) for where in filters)
        return (*of_rows, *(replace(query, aggregates=columns) for columns in counts))
    quantiles = [part for part in query.aggregates if part.function == "quantile"]
    rest = tuple(part for part in query.aggregates if part.function != "quantile")
    measured = dict.fromkeys(part.factors for part in quantiles)
    if len(measured) + bool(rest) > 1:
        ranked = (tuple(part for part in quantiles if part.factors == names) for names in measured)
        return (
            *(divided(domain, policy, replace(query, aggregates=rest)) if rest else ()),
            *(replace(query, aggregates=columns) for columns in ranked),
        )
    if _cells(domain, policy, query.aggregates, query) <= TOGETHER:
        return (query,)
    looked_at = [_attributes(part) for part in query.aggregates]
    widest = [one for one in dict.fromkeys(looked_at) if not any(one < other for other in looked_at)]
    tables: list[list[Aggregate]] = [[] for _ in widest]
    for aggregate, names in zip(query.aggregates, looked_at, strict=True):
        tables[next(place for place, wide in enumerate(widest) if names <= wide)].append(aggregate)
    return tuple(replace(query, aggregates=tuple(part)) for part in tables)


def _attributes(aggregate: Aggregate) -> frozenset[str]:
    return frozenset(aggregate.factors) | {atom.attribute for atom in atoms(aggregate.where)}


def _cells(domain: Domain, policy: Policy, aggregates: tuple[Aggregate, ...], query: Query) -> int:
    """About how many cells the aggregates need together, without making them."""
    groups = {axis.attribute for axis in query.axes}
    needed = {name for part in aggregates for name in part.factors} - groups
    beside = {name for part in aggregates for name in _attributes(part)} - groups - needed
    declared = policy.applied(domain)
    sizes = [declared.find(name).total_size for name in needed]
    sizes += [min(declared.find(name).total_size, 4) for name in beside]
    sizes += [min(declared.find(axis.attribute).total_size, 64) for axis in query.axes]
    return math.prod(sizes)


def parts_release(
    handle: DatasetHandle,
    query: Query,
    tables: tuple[Query, ...],
    target: AccuracyTarget,
    release_of: Callable[[DatasetHandle, Compiled, AccuracyTarget], ColumnsRelease],
) -> PartsRelease:
    """The release of a divided table: each part with its share of epsilon, or each as accurate as the whole is to be.

    Every part keeps its intervals except with probability beta over the number of parts, so all of them hold together.
    """
    beta = target.beta / len(tables)
    releases = []
    for table in tables:
        compiled = compile_query(handle.domain, handle.policy, table)
        share = (
            None if target.epsilon is None else target.epsilon * Fraction(len(table.aggregates), len(query.aggregates))
        )
        releases.append(release_of(handle, compiled, replace(target, beta=beta, epsilon=share)))
    return PartsRelease(query, target, tuple(releases))


@dataclass(frozen=True, eq=False)
class SeveralCounts:
    """The counts of several sets of cells, one after the other."""

    counts: tuple[Counting, ...]

    def run(self, deadline: float | None = None) -> Ints:
        """All counts; each has the whole deadline."""
        return np.concatenate([count.run(deadline) for count in self.counts])


@dataclass(frozen=True, eq=False)
class PartsRelease(Release):
    """Several plans over cells of their own, charged the sum of what they lose (docs/proofs/composition.md)."""

    query: Query
    target: AccuracyTarget
    parts: tuple[ColumnsRelease, ...]

    compiled: Compiled | None = None

    @cached_property
    def certificate(self) -> Certificate:
        """The sum of the parts' losses; sound because every hidden move is one in each of them, or none."""
        proofs = [part.checked() for part in self.parts]
        plans = digest(("parts", *(proof.plan_digest for proof in proofs)))
        graphs = digest(("parts", *(proof.graph_digest for proof in proofs)))
        total = sum((proof.epsilon for proof in proofs), Fraction(0))
        return Certificate(total, None, False, plans, graphs, proofs[0].constraint_note)

    @property
    def size(self) -> int:
        """The number of cells of all parts."""
        return sum(part.size for part in self.parts)

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps, with what each part may spend."""
        for part in self.parts:
            part.document()
        stages = {allowance.stage: str(allowance.epsilon) for allowance in self.allowances}
        details: dict[str, object] = {"beta": float(self.target.beta), "stages": stages}
        details |= recorded_settings(self.target.parameters)
        return ledger_document(self.query, joint.NAME, self.certificate, details)

    @property
    def allowances(self) -> tuple[Allowance, ...]:
        """What each part spends."""
        return tuple(Allowance(question_words(part.compiled.query)[:200], part.epsilon) for part in self.parts)

    def preview(self, handle: DatasetHandle) -> Preview:
        """The price of all parts, and how far off each column is at most."""
        first = self.parts[0].preview(handle)
        if not isinstance(first, Preview):
            raise InvalidInput("columns of a table are previewed as questions are")
        columns = {name: alpha for part in self.parts for name, alpha in part.column_alphas().items()}
        titles = [part.title for part in self.query.aggregates]
        shown = columns[titles[0]]
        offer = Offer(joint.NAME, self.epsilon, shown, None, first.best.method)
        why = f"the columns are measured by {len(self.parts)} plans in one release, each over the cells that it needs."
        return replace(
            first,
            title=question_words(self.query),
            cells=self.size,
            answers=sum(part.compiled.answers for part in self.parts),
            accuracy_target=self.target,
            prices=PriceList((offer,), first.declined, why),
            worst_pair="",
            unprotected=not_protected(handle.domain, handle.policy),
            expensive_columns=(),
            values=value_words(*(part.compiled for part in self.parts)),
            columns={title: columns[title] for title in titles},
        )

    def counting(self, handle: DatasetHandle) -> Counting:
        """The statements that count the cells of each part."""
        return SeveralCounts(tuple(part.counting(handle) for part in self.parts))

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """The finished answer as it is stored."""
        attributes = tuple(dict.fromkeys(name for part in self.parts for name in part.compiled.cells.attributes))
        return labelled(self.answer(counts), handle, attributes).to_bytes()

    def answer(self, counts: Ints) -> Answer:
        """Draws the noise of every part and puts their columns into the order of the query."""
        ends = np.cumsum([part.size for part in self.parts])[:-1]
        columns: dict[str, Answer] = {}
        for part, numbers in zip(self.parts, np.split(counts, ends), strict=True):
            table = part.answer(numbers)
            columns |= {one.name: table.column(place) for place, one in enumerate(table.columns)}
        ordered = tuple(columns[part.title] for part in self.query.aggregates)
        return replace(
            joined_answer(question_words(self.query), ordered),
            kind="table",
            beta=float(self.target.beta),
            mechanism=joint.NAME,
            caveat=" ".join(dict.fromkeys(one.caveat for one in ordered if one.caveat)),
            certificate=self.certificate,
            stages=self.allowances,
            columns=tuple(one.columns[0] for one in ordered),
            parts=(),
        )
