"""The request for a synopsis: charged and run like any release, stored as the file that everybody may have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy.quote import Quote
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compiled import compile_query
from blowfishdb.engine.demand import Demand
from blowfishdb.engine.described import described
from blowfishdb.engine.holding import Holding
from blowfishdb.engine.labels import cell_axes
from blowfishdb.engine.program_request import PreparedProgram, prepare_program
from blowfishdb.engine.release import finish
from blowfishdb.engine.request import Prepared, Request, check_size, chosen, prepare
from blowfishdb.engine.synopsis.artefact import Artefact, CellNoise, SynopsisAxis
from blowfishdb.engine.synopsis.file import to_bytes
from blowfishdb.engine.written_query import request_text, write_query
from blowfishdb.errors import AccuracyError, QueryError
from blowfishdb.mechanisms.data_aware.script import Finding
from blowfishdb.mechanisms.own_noise import own_variances
from blowfishdb.mechanisms.running_noise import running_variances
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.query import Query
from blowfishdb.model.workload import Intervals
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.problem import Problem
from blowfishdb.sources.base import Counting

RANGES = 0.15


@dataclass(frozen=True, eq=False)
class PreparedSynopsis:
    """A histogram whose cells will be published for ever; no data was read."""

    inner: Prepared | PreparedProgram

    @property
    def epsilon(self) -> Fraction:
        """What it costs, once."""
        return self.inner.epsilon

    @property
    def digest(self) -> str:
        """The plan or program that a receipt covers."""
        return self.inner.digest

    def digest_1(self) -> str:
        """The same in the first encoding."""
        return self.inner.digest_1()

    @property
    def mechanism(self) -> str:
        """What measures the cells."""
        inner = self.inner
        return inner.program.mechanism if isinstance(inner, PreparedProgram) else inner.best.mechanism

    def axes(self) -> tuple[SynopsisAxis, ...]:
        """The attributes of the file."""
        cells = self.inner.compiled.cells
        return tuple(SynopsisAxis(cells.layout[shown.name], shown) for shown in cell_axes(cells))

    def outline(self) -> Artefact | None:
        """The file to come with its noise and no counts; None where its noise depends on the data."""
        inner = self.inner
        if isinstance(inner, PreparedProgram):
            return None
        noise = _noise_of_plan(inner.best, is_one_axis=len(inner.compiled.cells.axes) == 1)
        return Artefact(
            title="",
            axes=self.axes(),
            counts=np.zeros(noise.deviations.size),
            noise=noise,
            mechanism=self.mechanism,
            certificate=inner.best.certificate,
            stages=(),
            caveat="",
            dataset="",
            policy_version=None,
            protected=(),
            unprotected=(),
            released="",
        )

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps."""
        return {**self.inner.document(), "synopsis": True}

    def counting(self, holding: Holding) -> Counting:
        """The statement that counts the cells."""
        return self.inner.counting(holding)

    def payload(self, counts: Ints, holding: Holding) -> bytes:
        """The finished file."""
        answer, cells, noise = self._measured(counts)
        answer = described(answer, holding, self.inner.compiled)
        return to_bytes(_artefact(answer, cells, noise, self.axes()))

    def _measured(self, counts: Ints) -> tuple[Answer, Floats, CellNoise]:
        inner = self.inner
        if isinstance(inner, PreparedProgram):
            found = inner.run(counts).of_cells()
            return inner.answer(found), found.cells, _noise_of_finding(found)
        answer = finish(inner.outline, counts)
        return answer, answer.raw, _noise_of_plan(inner.best, is_one_axis=len(inner.compiled.cells.axes) == 1)


def _noise_of_finding(found: Finding) -> CellNoise:
    shares = np.bincount(found.buckets)[found.buckets]
    unknown = np.full(shares.size, np.inf)
    alone = unknown if found.own is None else np.sqrt(found.own)[found.buckets] / shares
    running = unknown if found.running is None else np.sqrt(found.running())
    return CellNoise(np.sqrt(found.variances), found.buckets, alone, running)


def _noise_of_plan(best: Quote, *, is_one_axis: bool) -> CellNoise:
    """Bounds for sums of cells are proven for continuous noise, which varies more than whole-number noise."""
    scales = float(best.plan.unit) / best.plan.weights.astype(np.float64)
    discrete = np.asarray(variance(scales))
    factor = float(np.max(2.0 * scales**2 / discrete, initial=1.0))
    deviations = np.sqrt(factor * best.strategy.answer_variances(discrete))
    alone = np.sqrt(factor * own_variances(best.strategy, best.plan, discrete))
    totals = running_variances(best.strategy, best.plan, discrete) if is_one_axis else None
    running = np.full(alone.size, np.inf) if totals is None else np.sqrt(factor * totals)
    return CellNoise(deviations, np.arange(deviations.size), alone, running)


def synopsis_request(holding: Holding, asked: Query, demanded: Demand) -> Request:
    """The request of a synopsis, which is another one than the histogram's."""
    if asked.kind not in ("histogram", "histogram2d"):
        raise QueryError("a synopsis is published from a histogram over its attributes; ask anything of it afterwards")
    if demanded.epsilon is None:
        raise AccuracyError("a synopsis is paid with an epsilon, such as epsilon='0.3'")
    written = {**write_query(asked), "kind": "synopsis"}
    return Request(asked, demanded, request_text(written, demanded.written(), holding.versions()))


def prepare_synopsis(holding: Holding, request: Request) -> PreparedSynopsis:
    """Compiles the request and lays out its plan or program."""
    compiled = compile_query(holding.domain, holding.policy, request.asked)
    check_size(compiled)
    demanded, why = chosen(compiled, holding.policy, request.demanded)
    if not demanded.is_data_aware:
        return PreparedSynopsis(prepare(holding, replace(request, demanded=demanded)))
    problem = compiled.problem
    if len(compiled.cells.axes) == 1:
        problem = Problem(problem.graph, cells_and_ranges(problem.graph.cells))
    return PreparedSynopsis(prepare_program(replace(compiled, problem=problem), demanded, why))


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


def _artefact(answer: Answer, counts: Floats, noise: CellNoise, axes: tuple[SynopsisAxis, ...]) -> Artefact:
    return Artefact(
        title=answer.title,
        axes=axes,
        counts=counts,
        noise=noise,
        mechanism=answer.mechanism,
        certificate=answer.certificate,
        stages=answer.stages,
        caveat=answer.caveat,
        dataset=answer.dataset,
        policy_version=answer.policy_version,
        protected=answer.protected,
        unprotected=answer.unprotected,
        released=answer.released,
    )
