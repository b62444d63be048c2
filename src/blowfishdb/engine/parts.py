"""A table whose aggregates need too many cells together: released as several plans in one, with one charge."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.engine.answer import Answer, now
from blowfishdb.engine.compile import Compiled, DatasetHandle, compile_query
from blowfishdb.engine.preview import Offer, Preview, not_protected, quotes_for
from blowfishdb.engine.release import PlanRelease, Release, ledger_document
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.inference.consistency import Consistent
from blowfishdb.mechanisms import joint
from blowfishdb.model.aggregates import Aggregate, column_alphas
from blowfishdb.model.cached import cached_property
from blowfishdb.model.domain import Domain
from blowfishdb.model.encoding import digest
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import atoms
from blowfishdb.model.query import Query
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.program import Allowance
from blowfishdb.present.answer_values import Bounds
from blowfishdb.present.words import counted_words, policy_words, question_words
from blowfishdb.sources.base import Counting

TOGETHER = 2**17
"""Cells up to which all aggregates of a table are in one plan, which is certified as one."""


def divided(domain: Domain, policy: Policy, query: Query) -> tuple[Query, ...]:
    """The query as tables over fewer cells each, together with the same columns; itself where one plan serves it.

    Aggregates that look at the same attributes beside the groups stay together; those that look at none join the first.
    Persons are counted over cells of their own.
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
    handle: DatasetHandle, query: Query, tables: tuple[Query, ...], target: AccuracyTarget
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
        quotes = quotes_for(compiled, replace(target, beta=beta, epsilon=share))
        releases.append(PlanRelease(compiled, quotes.best, target, quotes))
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
    parts: tuple[PlanRelease, ...]

    compiled: Compiled | None = None

    @cached_property
    def certificate(self) -> Certificate:
        """The sum of the parts' losses; sound because every hidden move is one in each of them, or none."""
        proofs = [part.certified.certificate for part in self.parts]
        plans = digest(("parts", *(proof.plan_digest for proof in proofs)))
        graphs = digest(("parts", *(proof.graph_digest for proof in proofs)))
        total = sum((proof.epsilon for proof in proofs), Fraction(0))
        return Certificate(total, None, False, plans, graphs, proofs[0].constraint_note)

    @property
    def size(self) -> int:
        """The number of cells of all parts."""
        return sum(part.size for part in self.parts)

    def digest_1(self) -> str:
        """There were no such releases in the first encoding."""
        return self.digest

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps, with what each part may spend."""
        for part in self.parts:
            part.document()
        stages = {allowance.stage: str(allowance.epsilon) for allowance in self.allowances}
        details: dict[str, object] = {"beta": float(self.target.beta), "stages": stages}
        return ledger_document(self.query, joint.NAME, self.certificate, details)

    @property
    def allowances(self) -> tuple[Allowance, ...]:
        """What each part spends."""
        return tuple(Allowance(question_words(part.compiled.query)[:200], part.epsilon) for part in self.parts)

    def preview(self, handle: DatasetHandle) -> Preview:
        """The price of all parts, and how far off each column is at most."""
        first = self.parts[0].preview(handle)
        columns = {name: alpha for part in self.parts for name, alpha in self._columns(part).items()}
        titles = [part.title for part in self.query.aggregates]
        shown = columns[titles[0]]
        offer = Offer(joint.NAME, self.epsilon, shown, None, first.best.method)
        return replace(
            first,
            title=question_words(self.query),
            cells=self.size,
            answers=sum(part.compiled.answers for part in self.parts),
            accuracy_target=self.target,
            offers=(offer,),
            why=f"the columns need many cells together, so they are {len(self.parts)} plans in one release.",
            worst_pair="",
            unprotected=not_protected(handle.domain, handle.policy),
            expensive_columns=(),
            columns={title: columns[title] for title in titles},
        )

    @staticmethod
    def _columns(part: PlanRelease) -> Mapping[str, float | None]:
        table = part.compiled.table
        if table is None:
            return {}
        return dict(zip((one.title for one in table.aggregates), column_alphas(table, part.best.alpha), strict=True))

    def counting(self, handle: DatasetHandle) -> Counting:
        """The statements that count the cells of each part."""
        return SeveralCounts(tuple(part.counting(handle) for part in self.parts))

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """The finished answer as JSON."""
        attributes = tuple(dict.fromkeys(name for part in self.parts for name in part.compiled.cells.attributes))
        answer = replace(
            self.answer(counts),
            dataset=handle.name,
            policy_version=handle.policy_version,
            protected=policy_words(handle.domain, handle.policy, attributes),
            unprotected=not_protected(handle.domain, handle.policy),
            released=now(),
            counted=counted_words(handle.policy.unit),
        )
        return answer.to_json().encode()

    def answer(self, counts: Ints) -> Answer:
        """Draws the noise of every part and puts their columns into the order of the query."""
        ends = np.cumsum([part.size for part in self.parts])[:-1]
        columns: dict[str, Answer] = {}
        for part, numbers in zip(self.parts, np.split(counts, ends), strict=True):
            table = part.answer(numbers)
            columns |= {one.name: table.column(place) for place, one in enumerate(table.columns)}
        ordered = [columns[part.title] for part in self.query.aggregates]
        bounds = Bounds(*(np.concatenate([getattr(one.bounds, end) for one in ordered]) for end in ("low", "high")))
        values, widths = (
            np.concatenate(each) for each in zip(*((one.values, one.widths.per_answer) for one in ordered), strict=True)
        )
        notes = dict.fromkeys(one.consistent.note for one in ordered if one.consistent.note)
        return replace(
            ordered[0],
            title=question_words(self.query),
            tables=tuple(one.tables[0] for one in ordered),
            raw=values,
            consistent=Consistent(values, True, "; ".join(notes)),
            widths=HalfWidths(widths, float(widths.max(initial=0.0))),
            beta=float(self.target.beta),
            mechanism=joint.NAME,
            certificate=self.certificate,
            simultaneous=bounds,
            pointwise=bounds,
            stages=self.allowances,
            columns=tuple(one.columns[0] for one in ordered),
        )
