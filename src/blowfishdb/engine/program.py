"""A release by a data-aware mechanism: charged as a program of stages, run stage by stage; and what `auto` picks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from blowfishdb.accuracy.intervals import noise_widths
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import Compiled, DatasetHandle, answer_tables
from blowfishdb.engine.evidence import program_certificate
from blowfishdb.engine.measure import run_program
from blowfishdb.engine.preview import Preview, program_preview
from blowfishdb.engine.release import STATISTICS, consistent_answers, described
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import Declined
from blowfishdb.mechanisms.data_aware import adaptive_tree, dawa, dawa_transform
from blowfishdb.mechanisms.data_aware.script import BIAS_BETA, DataAware, Finding
from blowfishdb.mechanisms.data_aware.table import DATA_AWARE
from blowfishdb.model.constraints import MarginalConstraint, RowsConstraint
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy
from blowfishdb.plan.program import Program
from blowfishdb.present.released import AnswerTable
from blowfishdb.present.words import question_words
from blowfishdb.sources.base import Counting

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
class ProgramRelease:
    """A query answered by a program of stages; no data was read.

    `why` is the rule by which the mechanism was chosen, where nobody asked for it by name.
    """

    compiled: Compiled
    target: AccuracyTarget
    mechanism: DataAware
    program: Program
    tables: tuple[AnswerTable, ...]
    why: str = ""
    plan: ClassVar[None] = None

    @property
    def epsilon(self) -> Fraction:
        """What the whole program costs."""
        return self.program.epsilon

    @property
    def digest(self) -> str:
        """The program that a receipt covers."""
        return self.program.digest()

    def digest_1(self) -> str:
        """The same in the first encoding."""
        return self.program.digest_1()

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps: the stages with their allowances."""
        return {
            "question": question_words(self.compiled.query)[:2000],
            "mechanism": self.mechanism.name,
            "epsilon": str(self.epsilon),
            "beta": float(self.target.beta),
            "stages": {allowance.stage: str(allowance.epsilon) for allowance in self.program.allowances},
            "plan": self.digest,
            "graph": self.compiled.problem.graph.digest(),
        }

    def preview(self, handle: DatasetHandle) -> Preview:
        """The price of the program, beside what other mechanisms promise for it."""
        return program_preview(handle, self.compiled, self.target, self.program, self.why)

    def counting(self, handle: DatasetHandle) -> Counting:
        """The statement that counts the cells."""
        return handle.source.prepare(self.compiled.cells, handle.policy.unit)

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """The finished answer as JSON."""
        return described(self.answer(self.run(counts)), handle, self.compiled).to_json().encode()

    def run(self, counts: Ints) -> Finding:
        """Runs the program on counts, each stage certified before its noise is drawn."""
        problem = self.compiled.problem
        script = self.mechanism.script(problem, self.program)
        return run_program(self.program, self.digest, script, problem.graph, counts)

    def answer(self, finding: Finding) -> Answer:
        """The answer that a finding gives, with intervals for the noise and a word on what they leave out."""
        beta = float(self.target.beta)
        widths, caveat = noise_widths(finding.variances, beta), NOISE_ONLY
        if finding.bias is not None and beta > BIAS_BETA:
            widths, caveat = noise_widths(finding.variances, beta - BIAS_BETA).widened(finding.bias), BIAS_TOO
        if finding.adjusted is not None:
            widths = widths.widened(finding.adjusted)
        return Answer(
            kind=self.compiled.query.kind,
            title=question_words(self.compiled.query),
            tables=self.tables,
            raw=finding.answers,
            consistent=consistent_answers(self.compiled, finding.answers, widths, None),
            widths=widths,
            beta=beta,
            mechanism=self.mechanism.name,
            certificate=program_certificate(self.program, self.compiled),
            stages=self.program.allowances,
            caveat=caveat,
        )


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
    return ProgramRelease(compiled, target, mechanism, program, answer_tables(compiled), why)


FEWEST_CELLS = 256
FEWEST_CELLS_2D = 1024
CLEAR = 100
"""Where an average cell holds this many times 1 / epsilon records, every cell stands clear of its noise."""
MERGED = ("histogram", "histogram2d", "cdf", "ranges")


@dataclass(frozen=True)
class Choice:
    """A data-aware mechanism, or None for the best of the others; and why."""

    mechanism: str | None
    why: str


def choose(compiled: Compiled, policy: Policy, epsilon: Fraction) -> Choice:
    """The first rule that applies."""
    graph, kind, cells = compiled.problem.graph, compiled.query.kind, compiled.problem.graph.cells
    axes = len(compiled.cells.axes)
    if kind not in MERGED or axes > 2:
        return Choice(None, "data-aware mechanisms merge the cells of one or two attributes")
    fewest = FEWEST_CELLS if axes == 1 else FEWEST_CELLS_2D
    if cells < fewest:
        return Choice(None, f"{cells:,} cells are few; from {fewest:,} on, merging cells usually pays")
    rows = rows_constraint(policy)
    if rows is not None and rows * epsilon > CLEAR * cells:
        return Choice(None, f"{rows:,} rows stand clear of the noise in {cells:,} cells")
    if axes == 2:
        return Choice(adaptive_tree.NAME, f"{cells:,} cells, of which empty stretches can be counted together")
    if not _joins_all(graph):
        if kind == "histogram":
            return Choice(
                dawa_transform.NAME, "the policy hides moves to some values only, which running sums make use of"
            )
        return Choice(None, "ranges cost little under this policy, whatever the data is")
    return Choice(dawa.NAME, f"{cells:,} cells, of which even ones can be counted together")


def rows_constraint(policy: Policy) -> int | None:
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
