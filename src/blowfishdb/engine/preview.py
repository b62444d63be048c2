"""What a release would cost, before anything is read or charged: every offer, why one wins, and the worst pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeAlias, TypeGuard

from blowfishdb.accuracy.assessment import Method
from blowfishdb.accuracy.quote import Quote, Quotes
from blowfishdb.engine.dear_filter import DearColumn, dear_columns
from blowfishdb.engine.demand import Demand
from blowfishdb.engine.present.numbers import budget_words, readable
from blowfishdb.engine.present.words import question_words
from blowfishdb.engine.program_request import PreparedProgram
from blowfishdb.engine.quoting import quotes_for
from blowfishdb.engine.request import Prepared
from blowfishdb.engine.unprotected import not_protected
from blowfishdb.engine.worst_pair import worst_pair
from blowfishdb.model.domain import Domain
from blowfishdb.model.explain import explain
from blowfishdb.model.numbers import show
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Kind

Known: TypeAlias = Method | Literal["not promised"]
HOW_KNOWN: dict[Known, str] = {
    "exact": "exact",
    "simulated": "simulated",
    "bound": "at most",
    "not promised": "depends on the data",
}
NOTABLE = 1.1
"""How many times dearer the second mechanism must be for the ratio to be worth a word."""


@dataclass(frozen=True)
class Offer:
    """What one mechanism asks or promises: all answers within alpha for epsilon; `method` tells how that is known.

    A data-aware mechanism promises no alpha.
    """

    mechanism: str
    epsilon: Fraction
    alpha: float | None
    rmse: float | None
    method: Known


BEHIND: Mapping[Kind, str] = {"mean": "the sum behind it", "quantiles": "the counts behind them"}


@dataclass(frozen=True, eq=False, repr=False)
class Preview:
    """The price list of one question; no data was read, and nothing was charged."""

    dataset: str
    kind: Kind
    title: str
    cells: int
    answers: int
    demanded: Demand
    offers: tuple[Offer, ...]
    declined: Mapping[str, str]
    why: str
    worst_pair: str
    protected: tuple[str, ...]
    unprotected: tuple[str, ...]
    dear: tuple[DearColumn, ...]
    together: str = ""
    left: Fraction | None = None
    statement: str = ""
    """The statement that runs it, where it was asked in SQL."""

    @property
    def best(self) -> Offer:
        """The offer that would run."""
        return self.offers[0]

    @property
    def mechanism(self) -> str:
        """The mechanism that would run."""
        return self.best.mechanism

    @property
    def epsilon(self) -> Fraction:
        """What the release would cost."""
        return self.best.epsilon

    @property
    def alpha(self) -> float | None:
        """How far off an answer may be, except with probability beta; None where nobody can tell beforehand."""
        return self.best.alpha

    @property
    def behind(self) -> str:
        """What the accuracy speaks of where that is not the answers themselves."""
        return BEHIND.get(self.kind, "")

    def with_budget(self, left: Fraction) -> Preview:
        """The same preview for somebody who has so much left."""
        return replace(self, left=left)

    def run_by(self, statement: str) -> Preview:
        """The same preview, which tells by which statement it runs."""
        return replace(self, statement=statement)

    @property
    def is_affordable(self) -> bool:
        """Whether what is left pays for it, as far as that is known."""
        return self.left is None or self.epsilon <= self.left

    def to_dict(self) -> dict[str, object]:
        """Everything as plain data, ready for JSON."""
        return {
            "dataset": self.dataset,
            "kind": self.kind,
            "question": self.title,
            "cells": self.cells,
            "answers": self.answers,
            "demand": self.demanded.written(),
            "offers": [
                {
                    "mechanism": offer.mechanism,
                    "epsilon": str(offer.epsilon),
                    "alpha": offer.alpha,
                    "rmse": offer.rmse,
                    "method": offer.method,
                }
                for offer in self.offers
            ],
            "declined": dict(self.declined),
            "why": self.why,
            "worst_pair": self.worst_pair,
            "together": self.together,
            "protected": list(self.protected),
            "not_protected": list(self.unprotected),
            "dear_columns": [
                {"column": d.column, "now": d.now, "if_public": d.if_public, "if_partitioned": d.if_partitioned}
                for d in self.dear
            ],
            "left": None if self.left is None else str(self.left),
        }

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "\n".join([self.head(), *self._offer_lines(), *self.notes()])

    def _repr_html_(self) -> str:
        from blowfishdb.engine.present.preview_page import fragment

        price = f"would cost epsilon {readable(float(self.epsilon))} by {self.mechanism}; nothing is charged yet"
        return fragment(self.head(), price, self.offer_rows(), self.notes())

    def head(self) -> str:
        """What is asked, and how accurate or how dear it shall be."""
        number = "1 answer" if self.answers == 1 else f"{self.answers:,} answers"
        scope = self.behind or ("every answer" if self.demanded.guarantee == "simultaneous" else "each answer")
        if self.demanded.epsilon is not None:
            return f"{self.title}: {number} for epsilon {show(self.demanded.epsilon)}"
        return (
            f"{self.title}: {number}, {scope} within {readable(float(self.demanded.alpha or 0))} "
            f"({self.demanded.confidence})"
        )

    def offer_rows(self) -> list[tuple[str, str, str, str, str]]:
        """Mechanism, epsilon, within, usual error and a remark of each offer, as text."""
        rows = []
        for place, offer in enumerate(self.offers):
            how = HOW_KNOWN[offer.method] if offer.method in ("bound", "not promised") else ""
            mark = ", ".join(part for part in (how, "<- would run" if place == 0 else "") if part)
            figures = (readable(float(offer.epsilon)), _figure(offer.alpha), _figure(offer.rmse))
            rows.append((offer.mechanism, *figures, mark))
        return rows

    def _offer_lines(self) -> list[str]:
        wide = max(len(offer.mechanism) for offer in self.offers)
        lines = [f"  {'mechanism':<{wide}}   {'epsilon':>9}   {'within':>9}   {'usual error':>11}"]
        for name, epsilon, within, error, mark in self.offer_rows():
            lines.append(f"  {name:<{wide}}   {epsilon:>9}   {within:>9}   {error:>11}   {mark}".rstrip())
        return lines

    def notes(self) -> list[str]:
        """What there is to say below the offers, a sentence or two each."""
        said = [f"Why: {self.why}", *([f"Worst pair: {self.worst_pair}."] if self.worst_pair else [])]
        if self.together:
            summed = ". The price is summed over these records" if self.epsilon else ""
            said.append(f"Public facts: {self.together}{summed}.")
        unit = "cost" if self.demanded.epsilon is None else "be within"
        for dear in self.dear:
            others = (("public", dear.if_public), ("partitioned where the filter cuts", dear.if_partitioned))
            ways = [
                f"if it were {word} it would {unit} {readable(price)}" for word, price in others if _saves(price, dear)
            ]
            said.append(f"The filter on {dear.column} makes this dear: {', '.join(ways)}.")
        if self.unprotected:
            said.append(f"Not protected: {' '.join(self.unprotected)}")
        if self.left is not None:
            said.append(budget_words(self.left, self.epsilon))
        if self.statement and self.is_affordable:
            said.append(f"Run it with: {self.statement}")
        return said


def make_preview(name: str, domain: Domain, policy: Policy, prepared: Prepared | PreparedProgram) -> Preview:
    """The preview of a request that was compiled and quoted; Declined when no mechanism serves it."""
    if isinstance(prepared, PreparedProgram):
        return _program_preview(name, domain, policy, prepared)
    quotes, demanded, compiled = prepared.quotes, prepared.request.demanded, prepared.compiled
    best = quotes.best
    return Preview(
        dataset=name,
        kind=compiled.query.kind,
        title=question_words(compiled.query),
        cells=compiled.problem.graph.cells,
        answers=compiled.answers,
        demanded=demanded,
        offers=_offers(quotes, compiled.scale),
        declined=quotes.declined,
        why=_why(quotes.offers, demanded, compiled.scale),
        worst_pair=worst_pair(compiled, best.certificate),
        protected=explain(domain, policy),
        unprotected=not_protected(domain, policy),
        dear=dear_columns(domain, policy, compiled, demanded, best),
        together=best.certificate.together,
    )


def _offers(quotes: Quotes, scale: int) -> tuple[Offer, ...]:
    return tuple(Offer(q.mechanism, q.epsilon, q.alpha / scale, q.rmse / scale, q.method) for q in quotes.offers)


def _program_preview(name: str, domain: Domain, policy: Policy, prepared: PreparedProgram) -> Preview:
    """What can be said of a data-aware mechanism without data, beside what the others promise at the same price."""
    compiled, demanded, program = prepared.compiled, prepared.demanded, prepared.program
    others = quotes_for(compiled, replace(demanded, mechanism=None))
    stages = ", ".join(f"{allowance.stage} {show(allowance.epsilon)}" for allowance in program.allowances)
    own = Offer(program.mechanism, program.epsilon, None, None, "not promised")
    return Preview(
        dataset=name,
        kind=compiled.query.kind,
        title=prepared.title,
        cells=compiled.problem.graph.cells,
        answers=compiled.answers,
        demanded=demanded,
        offers=(own, *_offers(others, compiled.scale)),
        declined=others.declined,
        why=f"{_chosen(prepared)}. It spends epsilon on {stages}; its accuracy depends on the data.",
        worst_pair="",
        protected=explain(domain, policy),
        unprotected=not_protected(domain, policy),
        dear=(),
    )


def _chosen(prepared: PreparedProgram) -> str:
    how = f"was chosen ({prepared.why})" if prepared.why else "was asked for"
    return f"{prepared.program.mechanism} {how}"


def _figure(number: float | None) -> str:
    return "-" if number is None else readable(number)


def _saves(price: float | None, dear: DearColumn) -> TypeGuard[float]:
    """Whether hiding less in this way would make the question cheaper."""
    return price is not None and price < dear.now


def _why(offers: tuple[Quote, ...], demanded: Demand, scale: int) -> str:
    first = offers[0]
    if first.epsilon == 0:
        return "the policy hides nothing that these answers depend on, so they are exact and free."
    if len(offers) == 1:
        return f"{first.mechanism} is the only mechanism that serves this question as asked."
    second = offers[1]
    if demanded.epsilon is None:
        one, two, what = float(first.epsilon), float(second.epsilon), "asks the least epsilon"
    else:
        one, two, what = first.alpha / scale, second.alpha / scale, "promises the closest answers"
    if two <= one:
        return f"{first.mechanism} {what}, as does {second.mechanism}, with the smaller expected error."
    times = f" ({two / one:.2g} times)" if one > 0 and two / one >= NOTABLE else ""
    return f"{first.mechanism} {what}: {readable(one)} against {readable(two)}{times} of {second.mechanism}."
