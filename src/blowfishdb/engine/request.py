"""One query with its accuracy target, of one dataset at the versions in force, and what is public about it."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Protocol

from blowfishdb.accuracy.quote import Quote, Quotes, accuracy_at, quote
from blowfishdb.engine.answer import described
from blowfishdb.engine.compile import Compiled, DatasetHandle, compile_query
from blowfishdb.engine.program import PreparedProgram, choose, prepare_program
from blowfishdb.engine.release import Outline, finish, outline
from blowfishdb.engine.serialize import request_text, text_digest, write_query
from blowfishdb.engine.target import AUTO, AccuracyTarget
from blowfishdb.errors import TooLarge
from blowfishdb.mechanisms import direct
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query
from blowfishdb.plan import encoding_1
from blowfishdb.sources.base import Counting


class Payable(Protocol):
    """A release that is ready to be charged and then run once on the counts."""

    @property
    def epsilon(self) -> Fraction:
        """What it costs."""
        ...

    @property
    def digest(self) -> str:
        """What the receipt covers: the plan, or the program with its allowances."""
        ...

    def digest_1(self) -> str:
        """The same in the first encoding, which receipts of earlier versions hold."""
        ...

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps. All that can fail without data has been done when this returns."""
        ...

    def counting(self, handle: DatasetHandle) -> Counting:
        """The statement that will count, checked against the table as it is; reads no row."""
        ...

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """Draws the noise and gives what is published, as it will be stored."""
        ...


def quotes_for(compiled: Compiled, target: AccuracyTarget, among: Container[str] = MECHANISMS) -> Quotes:
    """Every mechanism's offer for the demand, best first; offers are in the problem's units, see Compiled.scale."""
    problem = compiled.problem
    known = {name: propose for name, propose in _candidates(compiled, target).items() if name in among}
    beta = float(target.beta)
    if target.epsilon is not None:
        return accuracy_at(problem, target.epsilon, beta, known, target.guarantee)
    return quote(problem, float((target.alpha or 0) * compiled.scale), beta, known, target.guarantee)


def _candidates(compiled: Compiled, target: AccuracyTarget) -> Mapping[str, Mechanism]:
    """The mechanisms to ask: the named one; for sums and means the one that measures them directly; else all."""
    if target.mechanism is not None:
        return {target.mechanism: MECHANISMS[target.mechanism]}
    # One row of large entries is answered best by measuring it (docs/proofs/direct.md); the others only take long.
    return MECHANISMS if compiled.measure is None else {direct.NAME: MECHANISMS[direct.NAME]}


def alpha_for(compiled: Compiled, epsilon: Fraction, target: AccuracyTarget) -> float:
    """The best accuracy that this epsilon buys at the demand's beta, in the question's units."""
    own = AccuracyTarget(None, epsilon, target.beta, target.guarantee, target.mechanism)
    return quotes_for(compiled, own).best.alpha / compiled.scale


MOST_ANSWERS = 1_000_000
MOST_CELLS = 2**21
"""Larger questions would keep everybody waiting for a quote."""


@dataclass(frozen=True)
class Request:
    """What is asked, how well, and the text that the same request always has."""

    asked: Query
    target: AccuracyTarget
    text: str

    @property
    def digest(self) -> str:
        """The hash of the text, by which ledgers find what was answered before."""
        return text_digest(self.text)


def make_request(handle: DatasetHandle, asked: Query, target: AccuracyTarget) -> Request:
    """The request; refuses questions that hold anything but plain values."""
    return Request(asked, target, request_text(write_query(asked), target.written(), handle.versions()))


@dataclass(frozen=True, eq=False)
class Prepared:
    """A request compiled and quoted; no data was read."""

    request: Request
    compiled: Compiled
    quotes: Quotes

    @property
    def best(self) -> Quote:
        """The offer that would run."""
        return self.quotes.best

    @cached_property
    def outline(self) -> Outline:
        """The parts of the answer that no data changes; made before the charge, so that they cannot fail after it."""
        answers = self.compiled.problem.workload.shape[0]
        if answers > MOST_ANSWERS:
            raise TooLarge("answers of one release", answers, MOST_ANSWERS, "Ask for wider bins or fewer ranges.")
        return outline(self.compiled, self.best)

    @property
    def epsilon(self) -> Fraction:
        """What the plan costs."""
        return self.best.certificate.epsilon

    @property
    def digest(self) -> str:
        """The plan that a receipt covers."""
        return self.best.certificate.plan_digest

    def digest_1(self) -> str:
        """The same in the first encoding."""
        return encoding_1.plan_digest(self.best.plan)

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps; the outline is made for it, before anything is charged."""
        best, certificate = self.best, self.best.certificate
        return {
            "question": self.outline.title[:2000],
            "mechanism": best.mechanism,
            "epsilon": str(certificate.epsilon),
            "alpha": best.alpha,
            "beta": best.beta,
            "witness": certificate.witness,
            "is_tight": certificate.is_tight,
            "together": certificate.constraint_note,
            "plan": certificate.plan_digest,
            "graph": certificate.graph_digest,
        }

    def counting(self, handle: DatasetHandle) -> Counting:
        """The statement that counts the cells."""
        return handle.source.prepare(self.compiled.cells, handle.policy.unit)

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """The finished answer as JSON."""
        answer = described(finish(self.outline, counts), handle, self.compiled)
        return answer.to_json().encode()


def prepare(handle: DatasetHandle, request: Request) -> Prepared | PreparedProgram:
    """Compiles a request and quotes it, or lays out the program of a data-aware mechanism."""
    compiled = compile_query(handle.domain, handle.policy, request.asked)
    check_size(compiled)
    target, why = chosen(compiled, handle.policy, request.target)
    if target.is_data_aware:
        return prepare_program(compiled, target, why)
    return Prepared(replace(request, target=target), compiled, quotes_for(compiled, target))


def chosen(compiled: Compiled, policy: Policy, target: AccuracyTarget) -> tuple[AccuracyTarget, str]:
    """The demand with `auto` replaced by what its rules say, and why; any other demand as it is."""
    if target.mechanism != AUTO or target.epsilon is None:
        return target, ""
    found = choose(compiled, policy, target.epsilon)
    return replace(target, mechanism=found.mechanism), found.why


def check_size(compiled: Compiled) -> None:
    """TooLarge for a question with more cells than are served."""
    cells = compiled.problem.graph.cells
    if cells > MOST_CELLS:
        raise TooLarge("cells of one question", cells, MOST_CELLS, "Ask for wider bins or fewer attributes.")
