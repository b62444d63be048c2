"""SynopsisRelease: a histogram charged once and published for ever; and what its answers will be like."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy.intervals import noise_widths
from blowfishdb.engine.answer import now
from blowfishdb.engine.compile import Compiled, DatasetHandle, cell_axes
from blowfishdb.engine.preview import AnyPreview
from blowfishdb.engine.program import ProgramRelease
from blowfishdb.engine.release import CellsRelease, PlanRelease
from blowfishdb.engine.synopsis import BETA, Artefact, CellNoise, SynopsisAxis, answer_variances, to_bytes
from blowfishdb.errors import plural, sentence
from blowfishdb.mechanisms.data_aware import Finding
from blowfishdb.model.cells import NO_PART, ConstrainedParts
from blowfishdb.model.explain import not_protected
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.numbers import Ints
from blowfishdb.model.query import Query, query
from blowfishdb.model.workload import Intervals
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.plan import EdgePlan, Plan, Problem
from blowfishdb.present.answer_values import NOISE_ONLY
from blowfishdb.present.export import aligned
from blowfishdb.present.page import fragment, html_table
from blowfishdb.present.words import (
    budget_words,
    counted_words,
    percent,
    policy_words,
    question_words,
    readable,
    upper_end,
)

RANGES = 0.15


@dataclass(frozen=True, eq=False)
class SynopsisRelease(CellsRelease):
    """A histogram whose cells will be published for ever, measured by a plan or a program; no data was read."""

    inner: PlanRelease | ProgramRelease
    compiled: Compiled = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", self.inner.compiled)

    @property
    def plan(self) -> Plan | EdgePlan | None:
        """The plan; None for a program."""
        return self.inner.plan

    @property
    def certificate(self) -> Certificate:
        """The certificate of the plan or the program."""
        return self.inner.certificate

    def digest_1(self) -> str:
        """The plan or program in the first encoding."""
        return self.inner.digest_1()

    @property
    def mechanism(self) -> str:
        """What measures the cells."""
        inner = self.inner
        return inner.program.mechanism if isinstance(inner, ProgramRelease) else inner.best.mechanism

    def axes(self) -> tuple[SynopsisAxis, ...]:
        """The attributes of the file."""
        cells = self.compiled.cells
        return tuple(SynopsisAxis(cells.layout[shown.name], shown) for shown in cell_axes(cells))

    def outline(self) -> Artefact | None:
        """The file to come with its noise and no counts; None where its noise depends on the data."""
        if isinstance(self.inner, ProgramRelease):
            return None
        noise = _noise_of_plan(self.inner)
        nothing = np.zeros(noise.deviations.size, dtype=np.int64)
        known, empty = public_parts(self.compiled, nothing), nothing.astype(np.float64)
        return Artefact("", self.axes(), empty, noise, self.mechanism, self.certificate, known=known)

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps."""
        return {**self.inner.document(), "synopsis": True}

    def preview(self, handle: DatasetHandle) -> SynopsisPreview:
        """The price, and bounds on the errors of usual queries where they are known without data."""
        histogram, outline = self.compiled.query, self.outline()
        return SynopsisPreview(
            dataset=handle.name,
            title=question_words(histogram),
            cells=math.prod(axis.cells.cells for axis in self.axes()),
            epsilon=self.epsilon,
            mechanism=self.mechanism,
            errors=() if outline is None else tuple(_error(outline, one) for one in _usual_queries(histogram, outline)),
            unprotected=not_protected(handle.domain, handle.policy),
            counted=counted_words(handle.policy.unit),
        )

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """The finished file."""
        inner = self.inner
        if isinstance(inner, ProgramRelease):
            finding = inner.run(counts).of_cells()
            cells, noise = finding.cells, noise_of_finding(finding)
            stages, caveat = inner.program.allowances, NOISE_ONLY
        else:
            cells, noise, stages, caveat = inner.measured(counts), _noise_of_plan(inner), (), ""
        artefact = Artefact(
            title=question_words(self.compiled.query),
            axes=self.axes(),
            counts=cells,
            noise=noise,
            mechanism=self.mechanism,
            certificate=self.certificate,
            stages=stages,
            parameters=inner.target.parameters if inner.target is not None else (),
            caveat=caveat,
            dataset=handle.name,
            policy_version=handle.policy_version,
            protected=policy_words(handle.domain, handle.policy, self.compiled.cells.attributes),
            unprotected=not_protected(handle.domain, handle.policy),
            released=now(),
            known=public_parts(self.compiled, counts),
            counted=counted_words(handle.policy.unit),
        )
        return to_bytes(artefact)


def public_parts(compiled: Compiled, counts: Ints) -> ConstrainedParts | None:
    """The exact totals of sets of cells that no hidden move leads out of or into, so that they are no secret."""
    graph = compiled.problem.graph
    labels = graph.components()
    if graph.constraint_moves is not None:
        # Changes that public constraints force may join components; the total is told where nothing leads to ZERO.
        labels = np.where(np.any(labels == ZERO), ZERO, np.zeros_like(labels))
    inside = labels != ZERO
    if not inside.any():
        return None
    totals = np.zeros(int(labels.max()) + 1, dtype=np.int64)
    np.add.at(totals, labels[inside], counts[inside])
    return ConstrainedParts(np.where(inside, labels, NO_PART), totals)


def noise_of_finding(finding: Finding) -> CellNoise:
    """How far a count was moved from its linear estimate is added to its deviation, which covers it at least once."""
    deviations = np.sqrt(finding.variances) + (0.0 if finding.adjusted is None else finding.adjusted)
    shares = np.bincount(finding.buckets)[finding.buckets]
    unknown = np.full(shares.size, np.inf)
    alone = unknown if finding.own is None else np.sqrt(finding.own)[finding.buckets] / shares
    running = unknown if finding.running is None else np.sqrt(finding.running())
    return CellNoise(deviations, finding.buckets, alone, running)


LEAST_VARIANCE = 1e-200
"""Variances of very small scales count as this one: theirs may be too small to be told from 0."""


def _noise_of_plan(release: PlanRelease) -> CellNoise:
    """Bounds for sums of cells are proven for continuous noise, which varies more than whole-number noise."""
    best, is_one_axis = release.best, len(release.compiled.cells.axes) == 1
    scales = float(best.plan.unit) / best.plan.weights.astype(np.float64)
    discrete = np.maximum(variance(scales), LEAST_VARIANCE)
    factor = float(np.max(2.0 * scales**2 / discrete, initial=1.0))
    deviations = np.sqrt(factor * best.strategy.answer_variances(discrete))
    alone = np.sqrt(factor * best.strategy.own_variances(discrete))
    for kind in (deviations, alone):
        kind[release.widths.exact] = 0.0
    totals = best.strategy.running_variances(discrete) if is_one_axis else None
    running = np.full(alone.size, np.inf) if totals is None else np.sqrt(factor * totals)
    return CellNoise(deviations, np.arange(deviations.size), alone, running)


def for_ranges(compiled: Compiled) -> Compiled:
    """The cells of a synopsis with the queries to which a data-aware mechanism fits its buckets."""
    if len(compiled.cells.axes) > 1:
        return compiled
    graph = compiled.problem.graph
    return replace(compiled, problem=Problem(graph, cells_and_ranges(graph.cells)))


def cells_and_ranges(cells: int) -> Intervals:
    """Every cell, then as many ranges of 2 as of 4, 8, 16, ... cells: what people who explore may ask.

    Ranges are RANGES of the number of cells in all: more of them would be answered at the cells' expense.
    """
    lengths = 2 ** np.arange(1, cells.bit_length())
    each = max(1, round(RANGES * cells / max(1, lengths.size)))
    starts = [np.unique(np.linspace(0, cells - length, each).astype(np.int64)) for length in lengths]
    low = np.concatenate([np.arange(cells), *starts])
    high = np.concatenate([np.arange(1, cells + 1), *(s + length for s, length in zip(starts, lengths, strict=True))])
    return Intervals(cells, low, high)


COLUMNS = ("read off it", "answers", "within", "usual error")
UNKNOWN = (
    "How accurate its answers will be is not known before: {mechanism} looks at the data to decide where to measure. "
    "Without a mechanism of that kind it is known."
)


@dataclass(frozen=True)
class ExpectedError:
    """Simultaneous and typical error of the answers to one query."""

    question: str
    answers: int
    within: float
    usual: float


@dataclass(frozen=True, eq=False, repr=False)
class SynopsisPreview(AnyPreview):
    """What a synopsis would cost and answer; no data was read, and nothing was charged.

    `errors` are bounds, in which noise alone counts; none where they depend on the data.
    """

    dataset: str
    title: str
    cells: int
    epsilon: Fraction
    mechanism: str
    errors: tuple[ExpectedError, ...]
    unprotected: tuple[str, ...]
    beta: float = BETA
    counted: str = ""

    @property
    def is_affordable(self) -> bool:
        """Whether what is left pays for it, as far as that is known."""
        return self.left is None or self.epsilon <= self.left

    def head(self) -> str:
        """What would be published, and what for."""
        return (
            f"Synopsis of {self.title[:1].lower()}{self.title[1:]}: {plural(self.cells, 'cell')} for epsilon "
            f"{readable(float(self.epsilon))}, once, by {self.mechanism}"
        )

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Question, number of answers, within and usual error, as text."""
        return [
            (one.question, f"{one.answers:,}", _error_words(one.within), _error_words(one.usual)) for one in self.errors
        ]

    def notes(self) -> list[str]:
        """What there is to say below the errors."""
        sentences = [
            f"Within: all answers of a line at once ({percent(BETA)}). That is the noise; bins that a question cuts "
            "add to it."
            if self.errors
            else UNKNOWN.format(mechanism=self.mechanism)
        ]
        if self.counted:
            sentences.append(sentence(self.counted))
        if self.unprotected:
            sentences.append(f"Not protected: {' '.join(self.unprotected)}")
        if self.left is not None:
            sentences.append(budget_words(self.left, self.epsilon))
        return sentences

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        table = aligned([COLUMNS, *self.rows()], "   ", (0,)) if self.errors else []
        return "\n".join([self.head(), *table, *self.notes()])

    def _repr_html_(self) -> str:
        table = html_table("What it will answer", COLUMNS, self.rows(), (0,)) if self.errors else ""
        return fragment(self.head(), "nothing is charged yet", table, self.notes())


def _error_words(error: float) -> str:
    return "exact" if error == 0.0 else readable(upper_end(error))


def _usual_queries(histogram: Query, outline: Artefact) -> Iterator[Query]:
    """The cells themselves, each attribute on its own, its running counts, and how many records there are."""
    whole = replace(histogram, where=None)
    yield whole
    for axis in histogram.axes:
        if len(histogram.axes) > 1:
            yield query("histogram", (axis,))
        if outline.domain[axis.attribute].ordered:
            yield query("cdf", (axis,))
    yield query("count")


def _error(outline: Artefact, question: Query) -> ExpectedError:
    variances = answer_variances(outline, question)
    within = noise_widths(variances, BETA).simultaneous
    return ExpectedError(question_words(question), variances.size, within, math.sqrt(float(variances.mean())))
