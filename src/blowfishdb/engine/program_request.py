"""A request that a data-aware mechanism answers: charged as a program of stages, run stage by stage."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from blowfishdb.accuracy.noise_widths import noise_widths
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.answer_table import AnswerTable
from blowfishdb.engine.compiled import Compiled
from blowfishdb.engine.demand import Demand
from blowfishdb.engine.described import described
from blowfishdb.engine.evidence import program_certificate
from blowfishdb.engine.holding import Holding
from blowfishdb.engine.labels import answer_tables
from blowfishdb.engine.present.words import question_words
from blowfishdb.engine.release import consistent_answers
from blowfishdb.engine.run_program import run_program
from blowfishdb.engine.statistics import STATISTICS
from blowfishdb.errors import Declined
from blowfishdb.mechanisms.data_aware.script import BIAS_BETA, DataAware, Finding
from blowfishdb.mechanisms.data_aware.table import DATA_AWARE
from blowfishdb.model.arrays import Ints
from blowfishdb.plan.stages import Program
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
class PreparedProgram:
    """A compiled request with the program that will answer it; no data was read."""

    compiled: Compiled
    demanded: Demand
    mechanism: DataAware
    program: Program
    title: str
    tables: tuple[AnswerTable, ...]
    why: str = ""

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
            "question": self.title[:2000],
            "mechanism": self.mechanism.name,
            "epsilon": str(self.epsilon),
            "beta": float(self.demanded.beta),
            "stages": {allowance.stage: str(allowance.epsilon) for allowance in self.program.allowances},
            "plan": self.digest,
            "graph": self.compiled.problem.graph.digest(),
        }

    def counting(self, holding: Holding) -> Counting:
        """The statement that counts the cells."""
        return holding.source.prepare(self.compiled.cells, holding.policy.unit)

    def payload(self, counts: Ints, holding: Holding) -> bytes:
        """The finished answer as JSON."""
        return described(self.answer(self.run(counts)), holding, self.compiled).to_json().encode()

    def run(self, counts: Ints) -> Finding:
        """Runs the program on counts, each stage certified before its noise is drawn."""
        problem = self.compiled.problem
        script = self.mechanism.script(problem, self.program)
        return run_program(self.program, self.digest, script, problem.graph, counts)

    def answer(self, found: Finding) -> Answer:
        """What the finding says of the question, with intervals for the noise and a word on what they leave out."""
        beta = float(self.demanded.beta)
        widths, caveat = noise_widths(found.variances, beta), NOISE_ONLY
        if found.bias is not None and beta > BIAS_BETA:
            widths, caveat = noise_widths(found.variances, beta - BIAS_BETA).widened(found.bias), BIAS_TOO
        if found.adjusted is not None:
            widths = widths.widened(found.adjusted)
        return Answer(
            kind=self.compiled.query.kind,
            title=self.title,
            tables=self.tables,
            raw=found.answers,
            consistent=consistent_answers(self.compiled, found.answers, widths, None),
            widths=widths,
            beta=beta,
            mechanism=self.mechanism.name,
            certificate=program_certificate(self.program, self.compiled),
            stages=self.program.allowances,
            caveat=caveat,
        )


def prepare_program(compiled: Compiled, demanded: Demand, why: str = "") -> PreparedProgram:
    """The program of the demanded data-aware mechanism; Declined where it cannot serve what is asked.

    `why` is the rule by which it was chosen, where nobody asked for it by name.
    """
    mechanism = DATA_AWARE[demanded.mechanism or ""]
    if demanded.epsilon is None:
        raise Declined(
            mechanism.name,
            "it looks at the data, so nobody can promise its accuracy beforehand. Give epsilon instead of an accuracy, "
            "or leave the mechanism out",
        )
    if demanded.epsilon < LEAST_EPSILON * compiled.problem.graph.rows_per_person:
        raise Declined(mechanism.name, "so small an epsilon asks for more noise in one stage than the sampler serves")
    if compiled.query.kind in STATISTICS:
        raise Declined(
            mechanism.name,
            "it answers counts. Publish a synopsis of the attribute, and read sums, means and quantiles off that",
        )
    return PreparedProgram(
        compiled=compiled,
        demanded=demanded,
        mechanism=mechanism,
        program=mechanism.program(compiled.problem, demanded.epsilon),
        title=question_words(compiled.query),
        tables=answer_tables(compiled),
        why=why,
    )
