"""JointRelease: several questions with accuracies as one release, cheaper than one by one; reads no data.

Questions that are read off the same rows form a group; the groups are measured side by side in one plan, which is
certified as one over the cells that all of them need (docs/proofs/joint.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy.candidates import Candidate, CertifiedCandidate, certified_strategy, round_up
from blowfishdb.accuracy.intervals import Assessment, HalfWidths, Method, intervals
from blowfishdb.accuracy.quote import Quote, Quotes
from blowfishdb.engine.answer import Answer, joined_answer
from blowfishdb.engine.compile import (
    Compiled,
    DatasetHandle,
    JoinedGroup,
    JoinedPart,
    compile_query,
    join_group,
    looked_at,
    may_be_columns,
    with_tolerances,
)
from blowfishdb.engine.infer import infer
from blowfishdb.engine.preview import Offer, PartPrice, Preview, PriceList, bare_preview, worst_pair
from blowfishdb.engine.release import PlanRelease, described
from blowfishdb.engine.request import AccuracyTarget
from blowfishdb.engine.value_words import value_words
from blowfishdb.errors import AccuracyError, BlowfishError, Declined, QueryError
from blowfishdb.mechanisms import identity, joint, optimized
from blowfishdb.mechanisms.joint import JointStrategy
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.cached import cached_property
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Part, PartGroup, Query
from blowfishdb.plan.plan import Plan
from blowfishdb.present.answer_values import MeasuredRows
from blowfishdb.present.words import question_words, readable

TOGETHER = {name: propose for name, propose in MECHANISMS.items() if name != joint.NAME}
"""The mechanisms for rows that do not belong to a table."""


def joint_release(handle: DatasetHandle, query: Query, target: AccuracyTarget) -> JointRelease:
    """The release of several questions by the cheapest plan that is found; Declined where one plan does not serve them.

    No question depends on another's answer, so all are chosen beforehand.
    """
    if query.groups:
        raise QueryError("the groups of questions are found by the plan: leave them out")
    if target.epsilon is not None or target.mechanism is not None:
        raise AccuracyError("questions that are answered together have an accuracy each; their plan finds the price")
    parts = [replace(part, query=with_tolerances(part.query, part.alpha)) for part in query.parts]
    compiled = [compile_query(handle.domain, handle.policy, part.query) for part in parts]
    planner = Planner(handle.domain, handle.policy, parts, compiled)
    alone = [planner.group((place,)) for place in range(len(parts))]
    if any(group.level == 0 for group in alone):
        raise Declined(joint.NAME, "some of the questions are free; ask those one by one")
    groups = planner.merged(alone)
    planned = replace(query, groups=groups)
    whole = compile_query(handle.domain, handle.policy, planned)
    strategy = joint.propose(whole.problem)
    candidate = certified_strategy(whole.problem, strategy)
    # A level of few digits, as that of every other question, so that others may build on it.
    epsilon = round_up(candidate.plan.unit / strategy.unit)
    prices = tuple(group.level for group in alone)
    strictest = min(float(part.alpha) for part in parts)
    quote = Quote(candidate, epsilon, strictest, float(target.beta), "simultaneous", "simulated")
    return JointRelease(whole, quote, target, alone=prices)


@dataclass(frozen=True, eq=False)
class Planner:
    """The search for groups of questions that cost less together than apart."""

    domain: Domain
    policy: Policy
    parts: Sequence[Part]
    compiled: Sequence[Compiled]

    def merged(self, alone: Sequence[PartGroup]) -> tuple[PartGroup, ...]:
        """Groups, the most expensive first, each with the questions that cost less within it than by themselves."""
        waiting = sorted(alone, key=lambda group: (-group.level, group.members))
        groups = []
        while waiting:
            first, *others = waiting
            waiting = []
            for other in others:
                both = self._together(first, other)
                if both is not None and both.level < first.level + other.level:
                    first = both
                else:
                    waiting.append(other)
            groups.append(first)
        return tuple(groups)

    def _together(self, first: PartGroup, other: PartGroup) -> PartGroup | None:
        """The questions of both groups off the same rows; None where that is not tried, or does not serve."""
        looked, more = (
            frozenset().union(*(looked_at(self.parts[place].query) for place in group.members))
            for group in (first, other)
        )
        if not more <= looked:
            return None
        try:
            names = dict.fromkeys((first.mechanism, other.mechanism, optimized.NAME))
            return self.group((*first.members, *other.members), {name: MECHANISMS[name] for name in names})
        except BlowfishError:
            return None

    def group(self, members: tuple[int, ...], mechanisms: Mapping[str, Mechanism] = TOGETHER) -> PartGroup:
        """The mechanism that answers these questions for the least epsilon, and that epsilon."""
        queries = [self.parts[place].query for place in members]
        is_table = may_be_columns(queries)
        if not is_table and any(one.kind == "table" for one in queries):
            raise Declined(joint.NAME, "tables of other groups are measured apart")
        is_measured = any(self.compiled[place].measure is not None for place in members)
        if is_measured and len(members) > 1:
            raise Declined(joint.NAME, "sums and means are measured apart")
        if is_table or is_measured:
            name = joint.NAME if is_table else identity.DIRECT
            mechanisms = {name: MECHANISMS[name]}
        named = PartGroup(members, joint.NAME if is_table else "", Fraction(1))
        group = join_group(self.domain, self.policy, self.parts, self.compiled, named)
        best = _quotes(group, mechanisms).best
        return replace(named, mechanism=best.mechanism, level=best.epsilon)


def _quotes(group: JoinedGroup, mechanisms: Mapping[str, Mechanism]) -> Quotes:
    """For each mechanism the least epsilon at which every question of the group has its accuracy."""
    widest = max(part.alpha for part in group.parts)
    beta = min(float(part.part.beta) for part in group.parts)

    def make(candidate: CertifiedCandidate, assessment: Assessment, simulate: bool, winner: Quote | None) -> Quote:
        del winner
        if not isinstance(candidate.plan, Plan):
            raise Declined(candidate.strategy.mechanism, "it adds noise on edges, which no other rows can share")
        level = Fraction(0)
        method: Method = "exact"
        for part in group.parts:
            restricted = part.among(candidate)
            is_whole = restricted is candidate and part.guarantee == assessment.guarantee
            each = assessment if is_whole else Assessment(restricted, part.guarantee)
            least, how = each.least_epsilon(part.alpha, float(part.part.beta), simulate=simulate)
            level, method = (least, how) if least >= level else (level, method)
        return Quote(candidate, level, widest, beta, "simultaneous", method)

    return Quotes(group.problem, mechanisms, "simultaneous", make)


@dataclass(frozen=True, eq=False)
class JointRelease(PlanRelease):
    """Several questions answered by one certified plan; `alone` is what each would cost by itself."""

    alone: tuple[Fraction, ...] = ()

    @cached_property
    def part_widths(self) -> tuple[HalfWidths, ...]:
        """The half-widths of the rows of each question."""
        joined, strategy = self.compiled.joined, self.best.strategy
        if joined is None or not isinstance(strategy, JointStrategy):
            raise QueryError("this release answers one question")
        widths: dict[int, HalfWidths] = {}
        for number, (group, planned) in enumerate(zip(joined.groups, self.compiled.query.groups, strict=True)):
            block = strategy.shared(number)
            # The very noise that the whole plan puts on the rows of the group.
            plan = block.inner.with_unit(self.best.plan.unit / block.weight)
            inner = Candidate(group.problem, block.strategy, plan)
            for place, part in zip(planned.members, group.parts, strict=True):
                restricted = part.among(inner)
                candidate = Candidate(restricted.problem, restricted.strategy, plan)
                widths[place] = intervals(candidate, float(part.part.beta))
        return tuple(widths[place] for place in sorted(widths))

    @cached_property
    def widths(self) -> HalfWidths:
        """The half-widths of all rows, those of several questions the widest; each holds for its question."""
        rows = self.compiled.problem.workload.shape[0]
        alone, exact = np.zeros(rows), np.ones(rows, dtype=np.bool_)
        for part, widths in zip(self._joined, self.part_widths, strict=True):
            alone[part.start : part.stop] = np.maximum(alone[part.start : part.stop], widths.per_answer)
            exact[part.start : part.stop] &= np.isin(np.arange(widths.per_answer.size), widths.exact)
        return HalfWidths(alone, max(one.simultaneous for one in self.part_widths), np.flatnonzero(exact))

    def answer_of(self, rows: MeasuredRows) -> Answer:
        """The answers that measured rows give, one part for each question."""
        raw, certificate = self._decoded(rows), self.certified.certificate
        answers = []
        for part, widths in zip(self._joined, self.part_widths, strict=True):
            total = rows.total if part.counts_all else None
            values = raw[part.start : part.stop] / part.times
            each, beta = widths.divided(part.times), float(part.part.beta)
            answers.append(infer(part.compiled, values, each, total, beta, self.best.mechanism, certificate))
        return joined_answer(question_words(self.compiled.query), tuple(answers))

    def described(self, answer: Answer, handle: DatasetHandle) -> Answer:
        """The answer as it will be stored, and each of its parts."""
        whole = described(answer, handle, self.compiled)
        parts = (
            replace(described(part, handle, own.compiled), evidence=whole.evidence, question=None)
            for part, own in zip(answer.parts, self._joined, strict=True)
        )
        return replace(whole, parts=tuple(parts))

    @property
    def _joined(self) -> tuple[JoinedPart, ...]:
        return () if self.compiled.joined is None else self.compiled.joined.parts

    def preview(self, handle: DatasetHandle) -> Preview:
        """The price of all questions together, and what each has of it."""
        query, best = self.compiled.query, self.best
        total = sum(self.alone, Fraction(0))
        parts = tuple(
            PartPrice(question_words(part.query), part.alpha, part.beta, alone, best.epsilon * alone / total)
            for part, alone in zip(query.parts, self.alone, strict=True)
        )
        offer = Offer(best.mechanism, best.epsilon, best.alpha, None, best.method)
        return replace(
            bare_preview(handle, self.compiled, self.target or AccuracyTarget(Fraction(1), None)),
            prices=PriceList((offer,), why=_why(query, best.epsilon, total)),
            worst_pair=worst_pair(self.compiled, best.certificate),
            constraint_note=best.certificate.constraint_note,
            rows=None,
            parts=parts,
            values=value_words(*(one.compiled for one in self._joined)),
        )


def _why(query: Query, price: Fraction, alone: Fraction) -> str:
    """What the questions share, in a sentence."""
    groups = len(query.groups)
    rows = "the same measured rows answer all of them"
    if groups > 1:
        rows = f"{groups} sets of measured rows answer them, certified together"
    return f"{rows}: {readable(float(price))} against {readable(float(alone))} one by one."
