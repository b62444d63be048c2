"""What a release would cost, before anything is read or charged: every offer, and what else could be had."""

from __future__ import annotations

import datetime
import math
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from blowfishdb.accuracy.columns import column_alphas
from blowfishdb.accuracy.quote import (
    ALIKE,
    QuantileQuote,
    Quote,
    Quotes,
    SelectionQuote,
    accuracy_at,
    quantiles_at,
    quantiles_within,
    quote,
)
from blowfishdb.engine.compile import Compiled, DatasetHandle, compile_query, quantile_order
from blowfishdb.engine.request import SMALLEST, USUAL_BETA, AccuracyTarget
from blowfishdb.engine.value_words import value_words
from blowfishdb.errors import AccuracyError, BlowfishError, Declined, QueryError, plural, sentence
from blowfishdb.mechanisms import identity, joint
from blowfishdb.mechanisms.parameters import settings_words
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.mechanisms.table import CHOICES, MECHANISMS, mechanism_with
from blowfishdb.model.arguments import checked
from blowfishdb.model.cached import cached_property
from blowfishdb.model.calendar import Dates
from blowfishdb.model.domain import Attribute, Bins, Categorical, Domain, Integers
from blowfishdb.model.explain import explain, not_protected
from blowfishdb.model.graphs import ZERO, CellGraph
from blowfishdb.model.groups import atom_runs
from blowfishdb.model.numbers import exact, show
from blowfishdb.model.policy import (
    Family,
    Partition,
    Person,
    Policy,
    Public,
    partition,
    public,
)
from blowfishdb.model.predicate import Atom, Axis, atoms
from blowfishdb.model.query import Kind, Query
from blowfishdb.model.serialize import PASSING, Field, stored_fields, write
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.program import EXPONENTIAL_QUANTILES, Program
from blowfishdb.present.words import budget_words, counted_words, percent, question_words, readable, upper_end

Known: TypeAlias = Literal["exact", "simulated", "bound", "not promised"]
HOW_KNOWN: dict[Known, str] = {
    "exact": "exact",
    "simulated": "simulated",
    "bound": "at most",
    "not promised": "depends on the data",
}
NOTABLE = 1.1
"""How many times more expensive the second mechanism must be for the ratio to be worth a word."""


@dataclass(frozen=True)
class Offer:
    """What one mechanism asks or promises: all answers within alpha for epsilon; `method` tells how that is known.

    A data-aware mechanism promises no alpha, nor does a table whose first column depends on the size of its groups.
    """

    mechanism: str
    epsilon: Fraction
    alpha: float | None
    rmse: float | None
    method: Known


@dataclass(frozen=True)
class Shared:
    """A price that is less than the level of the answer: an entry of the same analyst has paid the rest."""

    price: Fraction
    level: Fraction
    entry: int
    at: str
    is_answered: bool = True
    """Whether what that entry paid for was answered; if not, this question is answered on its charge."""

    def words(self) -> str:
        """The price and what it builds on, in a sentence."""
        paid = readable(float(self.level - self.price))
        if not self.is_answered:
            return f"It costs nothing more: entry {self.entry} paid for it on {self.at} and has no answer yet."
        if self.price == 0:
            return f"It costs nothing: what entry {self.entry} paid on {self.at} covers it."
        return f"It costs {readable(float(self.price))} more: {paid} of it was paid on {self.at} (entry {self.entry})."


def shown_day(at: str) -> str:
    """The day of an entry's time, as people write it."""
    time = datetime.datetime.fromisoformat(at)
    return f"{time.day} {time:%b %Y}"


WayName: TypeAlias = Literal["fresh", "free", "degrade", "upgrade", "supplement", "synopsis"]
WAYS: dict[WayName, str] = {
    "fresh": "measured anew",
    "free": "read off the cells of {}",
    "degrade": "covered by {}",
    "upgrade": "the noise of {} taken back in part",
    "supplement": "measured in part and combined with {}",
    "synopsis": "read off synopsis {}",
}


@dataclass(frozen=True)
class Way:
    """One way to the answer: what it costs the analyst, how near it comes, and the own entries that it rests on.

    A synopsis is offered by its number and title; it is asked by name and never runs by itself.
    """

    name: WayName
    epsilon: Fraction
    alpha: float | None
    entries: tuple[int, ...] = ()
    title: str = ""

    def words(self) -> str:
        """The way and its price."""
        kind = "" if self.name == "synopsis" else "entries " if len(self.entries) > 1 else "entry "
        rests_on = kind + ", ".join(map(str, self.entries)) + (f" ({self.title})" if self.title else "")
        within = "" if self.alpha is None else f", within {readable(upper_end(self.alpha))}"
        return f"{self.name} {readable(float(self.epsilon))} ({WAYS[self.name].format(rests_on)}{within})"


@dataclass(frozen=True)
class PartPrice:
    """One of several questions that are answered together: its accuracy, its price alone, and its share of the price.

    The shares are in proportion to the prices alone.
    """

    title: str
    alpha: Fraction
    beta: Fraction
    alone: Fraction
    share: Fraction


@checked()
@dataclass(frozen=True, eq=False, repr=False)
class AnyPreview:
    """What a release would cost; no data was read, and nothing was charged. `left` is what an analyst may spend."""

    left: Fraction | None = field(default=None, kw_only=True)

    def with_budget(self, left: Fraction | None) -> Self:
        """The same preview for an analyst who has this epsilon left; None where the curator does not show it."""
        return replace(self, left=left)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, ready for JSON."""
        content: dict[str, Any] = write(self)
        return content


@dataclass(frozen=True)
class PriceList:
    """The offers, best first; the mechanisms that made none, each with its reason; and why the best is the best."""

    offers: tuple[Offer, ...] = ()
    declined: Mapping[str, str] = field(default_factory=dict)
    why: str = ""

    @property
    def best(self) -> Offer:
        """The offer that would run."""
        return self.offers[0]

    @property
    def in_full(self) -> PriceList:
        """The list itself."""
        return self


@dataclass(frozen=True, eq=False)
class QuotedPrices:
    """The best offer, known at once; the others are only compared with it, when somebody first reads the list."""

    compiled: Compiled
    target: AccuracyTarget
    quotes: Quotes

    @property
    def best(self) -> Offer:
        """The offer that would run."""
        return _offer(self.quotes.best, self.compiled)

    @cached_property
    def in_full(self) -> PriceList:
        """All offers; for quantiles also that of those that are chosen by rank."""
        offers = tuple(_offer(quote, self.compiled) for quote in self.quotes.offers)
        if self.target.mechanism is None and quantile_order(self.compiled) is not None:
            with suppress(Declined):
                offers = (*offers, _quantile_offer(quantile_quote(self.compiled, self.target)))
        return PriceList(offers, self.quotes.declined, _why(self.quotes.offers, self.target, self.compiled))

    def __reduce__(self) -> tuple[Any, ...]:
        """What travels to another process: the whole list."""
        return PriceList, (self.in_full.offers, self.in_full.declined, self.in_full.why)


BEHIND: Mapping[Kind, str] = {
    "mean": "the sum behind it",
    "quantiles": "the counts behind them",
    "selection": "as good a list as from counts",
}


@checked()
@dataclass(frozen=True, eq=False, repr=False)
class Preview(AnyPreview):
    """The price list of one question; no data was read, and nothing was charged."""

    dataset: str
    kind: Kind
    title: str
    cells: int
    answers: int
    accuracy_target: AccuracyTarget
    worst_pair: str
    protected: tuple[str, ...]
    unprotected: tuple[str, ...]
    expensive_columns: tuple[ExpensiveColumn, ...]
    constraint_note: str = ""
    statement: str = ""
    """The statement that runs it, where it was asked in SQL."""
    columns: Mapping[str, float | None] = field(default_factory=dict)
    """How far off each column of a table is at most; None where that depends on how many records there are."""
    rows: int | None = None
    """The number of records from which on means, spreads and shares keep their accuracy."""
    relative: str = ""
    """What an accuracy in percent was taken of, in words."""
    counted: str = ""
    """Which rows count, where not all of a person's do."""
    values: str = ""
    """What values count as in sums, means, spreads and quantiles."""
    parts: tuple[PartPrice, ...] = ()
    """The questions, where several are answered together."""
    shared: Shared | None = None
    """The part that was paid before, where the answer shares its noise with an earlier one."""
    ways: tuple[Way, ...] = ()
    """What each way to the answer costs, the one that would run first; none where there is only the fresh one."""
    unproven: str = ""
    """Why an answer that was paid before is not built on."""
    prices: PriceList | QuotedPrices = field(default_factory=PriceList, metadata=PASSING)

    @staticmethod
    def read(content: Field) -> Preview:
        """The preview that `to_dict` wrote."""
        fields = content.fields()
        listed = {one.name: fields.pop(one.name).value for one in stored_fields(PriceList) if one.name in fields}
        others = replace(content, value={name: one.value for name, one in fields.items()})
        preview: Preview = others.read(Preview)
        return replace(preview, prices=replace(content, value=listed).read(PriceList))

    @property
    def offers(self) -> tuple[Offer, ...]:
        """All offers, best first."""
        return self.prices.in_full.offers

    @property
    def declined(self) -> Mapping[str, str]:
        """The mechanisms that made no offer, each with its reason."""
        return self.prices.in_full.declined

    @property
    def why(self) -> str:
        """Why the best offer is the best."""
        return self.prices.in_full.why

    @property
    def best(self) -> Offer:
        """The offer that would run."""
        return self.prices.best

    @property
    def mechanism(self) -> str:
        """The mechanism that would run."""
        return self.best.mechanism

    @property
    def epsilon(self) -> Fraction:
        """What the release would cost."""
        return self.best.epsilon if self.shared is None else self.shared.price

    @property
    def is_exact(self) -> bool:
        """Whether the answers carry no noise, because the policy hides nothing that they depend on."""
        return self.best.epsilon == 0

    @property
    def alpha(self) -> float | None:
        """How far off an answer may be, except with probability beta; None where nobody can tell beforehand."""
        return self.best.alpha

    @property
    def behind(self) -> str:
        """What the accuracy speaks of where that is not the answers themselves."""
        return "" if self.rows is not None else BEHIND.get(self.kind, "")

    def run_by(self, statement: str) -> Preview:
        """The same preview, which tells by which statement it runs."""
        return replace(self, statement=statement)

    @property
    def is_affordable(self) -> bool:
        """Whether what is left pays for it, as far as that is known."""
        return self.left is None or self.epsilon <= self.left

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, ready for JSON, without the statement."""
        return {**AnyPreview.to_dict(replace(self, statement="")), **write(self.prices.in_full)}

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = [("mechanism", "epsilon", "within", "usual error", ""), *self.offer_rows()]
        wide = max(len(name) for name, *_ in lines)
        offers = [
            f"  {name:<{wide}}   {epsilon:>9}   {within:>9}   {error:>11}   {mark}".rstrip()
            for name, epsilon, within, error, mark in lines
        ]
        return "\n".join([self.head(), *offers, *self.notes()])

    def _repr_html_(self) -> str:
        from blowfishdb.present.page import preview_fragment

        price = f"would cost epsilon {readable(float(self.epsilon))} by {self.mechanism}; nothing is charged yet"
        return preview_fragment(self.head(), price, self.offer_rows(), self.notes())

    def head(self) -> str:
        """The query, and the accuracy or the price that was asked for."""
        number = plural(self.answers, "answer")
        scope = self.behind or ("every answer" if self.accuracy_target.guarantee == "simultaneous" else "each answer")
        if self.accuracy_target.epsilon is not None:
            return f"{self.title}: {number} for epsilon {show(self.accuracy_target.epsilon)}"
        return (
            f"{self.title}: {number}, {scope} within {readable(float(self.accuracy_target.alpha or 0))} "
            f"({self.accuracy_target.confidence})"
        )

    def offer_rows(self) -> list[tuple[str, str, str, str, str]]:
        """Mechanism, epsilon, within, usual error and a remark of each offer, as text."""
        rows = []
        for place, offer in enumerate(self.offers):
            how = HOW_KNOWN[offer.method] if offer.method in ("bound", "not promised") else ""
            mark = ", ".join(part for part in (how, "<- would run" if place == 0 else "") if part)
            alpha = "-" if offer.alpha is None else readable(upper_end(offer.alpha))
            rmse = "-" if offer.rmse is None else readable(offer.rmse)
            rows.append((offer.mechanism, readable(float(offer.epsilon)), alpha, rmse, mark))
        return rows

    def notes(self) -> list[str]:
        """What there is to say below the offers, a sentence or two each."""
        sentences = [sentence(words) for words in (self.counted, self.values) if words]
        sentences += [] if self.shared is None else [self.shared.words()]
        if any(way.epsilon for way in self.ways):
            sentences.append(f"Ways to it: {'; '.join(way.words() for way in self.ways)}.")
        sentences += [self.unproven] if self.unproven else []
        sentences += [f"Why: {self.why}", *([f"Worst pair: {self.worst_pair}."] if self.worst_pair else [])]
        if self.behind and self.accuracy_target.epsilon is not None and self.kind != "selection":
            nearer = ": the more records, the nearer the mean" if self.kind == "mean" else ""
            sentences.append(f"Within and usual error are those of {self.behind}{nearer}.")
        if self.columns:
            sentences.append(f"Columns: {self.column_words()}.")
        if self.relative:
            sentences.append(self.relative)
        if self.rows is not None:
            sentences.append(
                f"Means, spreads and shares keep this over at least {plural(self.rows, 'record')}; the intervals of an "
                "answer tell what each group got."
            )
        if self.constraint_note:
            summed = ". The price is summed over these records" if self.epsilon else ""
            sentences.append(f"Public constraints: {self.constraint_note}{summed}.")
        unit = "cost" if self.accuracy_target.epsilon is None else "be within"
        # What was paid before makes it cheap, whatever the filter is.
        for column in self.expensive_columns if self.shared is None else ():
            others = (("public", column.if_public), ("partitioned where the filter cuts", column.if_partitioned))
            ways = [
                f"if it were {word} it would {unit} {readable(price)}"
                for word, price in others
                if price is not None and price < column.now
            ]
            sentences.append(f"The filter on {column.column} makes this expensive: {', '.join(ways)}.")
        if self.unprotected:
            sentences.append(f"Not protected: {' '.join(self.unprotected)}")
        if self.left is not None:
            sentences.append(budget_words(self.left, self.epsilon))
        if self.statement and self.is_affordable:
            sentences.append(f"Run it with: {self.statement}")
        return sentences

    def column_words(self) -> str:
        """How far off each column of a table is at most."""
        return ", ".join(
            f"{name} {'depends on the size of its group' if alpha is None else f'within {readable(upper_end(alpha))}'}"
            for name, alpha in self.columns.items()
        )


def plan_preview(handle: DatasetHandle, compiled: Compiled, target: AccuracyTarget, quotes: Quotes) -> Preview:
    """The preview of a query that was compiled and quoted; Declined when no mechanism serves it."""
    best = quotes.best
    return replace(
        bare_preview(handle, compiled, target),
        prices=QuotedPrices(compiled, target, quotes),
        columns=_column_accuracy(compiled, best),
        worst_pair=worst_pair(compiled, best.certificate),
        expensive_columns=expensive_columns(handle.domain, handle.policy, compiled, target, best),
        constraint_note=best.certificate.constraint_note,
    )


def continued(preview: Preview, compiled: Compiled, best: Quote, way: WayName, measured: Compiled | None) -> Preview:
    """The preview where `best` would run, in a way that builds on other answers or measures another query's cells."""
    others = [offer for offer in preview.offers if offer.mechanism != best.mechanism]
    why = f"{best.mechanism} continues an earlier answer, which leaves the least to pay."
    if measured is not None:
        why = f"the cells of an earlier answer ({question_words(measured.query)}) give this one, near enough."
    if way == "fresh" and measured is not None:
        why = f"{best.mechanism} measures more for no more ({question_words(measured.query)}): the rest is free to ask."
    if way == "supplement":
        why = f"{best.mechanism} measures what earlier answers leave to be known; least squares combines them."
    return replace(
        preview,
        prices=PriceList((_offer(best, compiled), *others), preview.declined, why),
        worst_pair=worst_pair(measured or compiled, best.certificate),
        expensive_columns=(),
        constraint_note=best.certificate.constraint_note,
    )


RANKS_ONLY = "it chooses quantiles of one attribute, perhaps by groups, and counts or measures nothing else"
COARSE_TOO = "even a CDF of wide groups of values misses by more ranks or costs more, or its cells are too many to plan"


def quantile_quote(compiled: Compiled, target: AccuracyTarget) -> QuantileQuote:
    """The quote of exponential quantiles for the target; Declined where they do not serve it."""
    graph, order = compiled.problem.graph, quantile_order(compiled)
    if order is None:
        raise Declined(EXPONENTIAL_QUANTILES, RANKS_ONLY)
    beta = float(target.beta)
    if target.epsilon is not None:
        return quantiles_at(graph, order.cells, order.levels, target.epsilon, beta, order.axis)
    wanted = [part.tolerance for part in compiled.query.aggregates if part.tolerance is not None]
    alpha = float(min(wanted, default=target.alpha or Fraction(0)))
    return quantiles_within(graph, order.cells, order.levels, alpha, beta, order.axis)


def quantiles_preview(
    handle: DatasetHandle, compiled: Compiled, target: AccuracyTarget, best: QuantileQuote, quotes: Quotes | None
) -> Preview:
    """The preview of exponential quantiles, beside what the best CDFs ask or promise for the same."""
    preview = bare_preview(handle, compiled, target, quotes)
    declined = dict.fromkeys(MECHANISMS, COARSE_TOO) if quotes is None else preview.declined
    if target.mechanism is not None:
        why = f"{best.mechanism} was asked for."
    elif quotes is not None and not quotes.offers:
        why = f"{best.mechanism} is the only mechanism that serves this question as asked."
    elif not preview.offers:
        why = f"{best.mechanism} chooses by ranks; a CDF would miss by more of them, or has too many cells to plan."
    elif target.epsilon is None:
        why = f"{best.mechanism} promises these ranks for the least epsilon, less than {preview.offers[0].mechanism}."
    else:
        usual, rival = readable(best.rmse), preview.offers[0]
        why = (
            f"{best.mechanism} is expected to miss by fewer ranks: {usual} against {readable(rival.rmse or 0)} of "
            f"{rival.mechanism}. It looks at ranks alone; where many records share a value its error is larger."
        )
    return replace(
        preview,
        prices=PriceList((_quantile_offer(best), *preview.offers), declined, why),
        columns={part.title: best.alpha for part in compiled.query.aggregates},
        worst_pair=worst_pair(compiled, best.certificate),
        constraint_note=best.certificate.constraint_note,
    )


def _quantile_offer(quote: QuantileQuote) -> Offer:
    return Offer(quote.mechanism, quote.epsilon, quote.alpha, quote.rmse, "bound")


def list_words(above: int | None, reach: int, sure: str) -> str:
    """What a list of groups promises: the largest ones, or those `above` a least count."""
    if above is None:
        return (
            f"Every listed group is within {readable(reach)} records of the last that truly belongs in the list "
            f"({sure})."
        )
    return (
        f"Every group with at least {above + reach:,} records is listed, and none with fewer than "
        f"{max(above - reach, 0):,} ({sure})."
    )


def selection_preview(
    handle: DatasetHandle, compiled: Compiled, target: AccuracyTarget, best: SelectionQuote
) -> Preview:
    """The preview of a list of groups without their counts."""
    promise = list_words(best.plan.above, best.reach, percent(best.beta))
    why = f"{best.mechanism} chooses the groups, which is all that is asked, and shows no counts. {promise}"
    return replace(
        bare_preview(handle, compiled, target),
        answers=best.plan.most or best.plan.groups,
        prices=PriceList((Offer(best.mechanism, best.epsilon, best.alpha, None, "bound"),), why=why),
        worst_pair=worst_pair(compiled, best.certificate),
        constraint_note=best.certificate.constraint_note,
    )


def program_preview(
    handle: DatasetHandle, compiled: Compiled, target: AccuracyTarget, program: Program, why: str
) -> Preview:
    """What is known of a data-aware mechanism without data, beside what the others promise at the same price."""
    stages = ", ".join(f"{allowance.stage} {show(allowance.epsilon)}" for allowance in program.allowances)
    how = f"was chosen ({why})" if why else f"was asked for{_settings_words(target)}"
    preview = bare_preview(handle, compiled, target, quotes_for(compiled, target.by(None)))
    best = Offer(program.mechanism, program.epsilon, None, None, "not promised")
    why = f"{program.mechanism} {how}. It spends epsilon on {stages}; its accuracy depends on the data."
    return replace(preview, prices=PriceList((best, *preview.offers), preview.declined, why))


def bare_preview(
    handle: DatasetHandle, compiled: Compiled, target: AccuracyTarget, quotes: Quotes | None = None
) -> Preview:
    """What every preview says of its query and the policy, with the offers of the quotes if there are any."""
    prices = PriceList()
    if quotes is not None:
        prices = PriceList(tuple(_offer(quote, compiled) for quote in quotes.offers), quotes.declined)
    return Preview(
        dataset=handle.name,
        kind=compiled.query.kind,
        title=question_words(compiled.query),
        cells=compiled.problem.graph.cells,
        answers=compiled.answers,
        accuracy_target=target,
        worst_pair="",
        protected=explain(handle.domain, handle.policy),
        unprotected=not_protected(handle.domain, handle.policy),
        expensive_columns=(),
        counted=counted_words(handle.policy.unit),
        values=value_words(compiled),
        columns={} if quotes is None or not quotes.offers else _column_accuracy(compiled, quotes.best),
        rows=compiled.query.rows,
        prices=prices,
    )


def _column_accuracy(compiled: Compiled, best: Quote) -> dict[str, float | None]:
    if compiled.table is None:
        return {}
    titles = (part.title for part in compiled.query.aggregates)
    return dict(zip(titles, column_alphas(compiled.table, best.alpha), strict=True))


def _offer(quote: Quote, compiled: Compiled) -> Offer:
    alpha = compiled.promised(quote.alpha)
    rmse = None if alpha is None else compiled.usual(quote.rmse)
    return Offer(quote.mechanism, quote.epsilon, alpha, rmse, quote.method)


def _settings_words(target: AccuracyTarget) -> str:
    return f" with {settings_words(target.parameters)}" if target.parameters else ""


def _why(offers: tuple[Quote, ...], target: AccuracyTarget, compiled: Compiled) -> str:
    first = offers[0]
    if first.epsilon == 0:
        return "the policy hides nothing that these answers depend on, so they are exact and free."
    if target.mechanism is not None:
        return f"{first.mechanism} was asked for{_settings_words(target)}."
    if compiled.measure is not None:
        return "sums and means are measured as they are, which costs the least."
    if len(offers) == 1:
        return f"{first.mechanism} is the only mechanism that serves this question as asked."
    second = offers[1]
    if target.epsilon is None:
        one, two, what = float(first.epsilon), float(second.epsilon), "asks the least epsilon"
    else:
        one, two, what = compiled.usual(first.rmse), compiled.usual(second.rmse), "has the least expected error"
    if two == one:
        return f"{first.mechanism} {what}, as does {second.mechanism}."
    if two < one:
        return (
            f"{first.mechanism} promises the closest answers of those whose expected error is within "
            f"{ALIKE - 1:.0%} of the least."
        )
    times = f" ({two / one:.2g} times)" if one > 0 and two / one >= NOTABLE else ""
    return f"{first.mechanism} {what}: {readable(one)} against {readable(two)}{times} of {second.mechanism}."


def quotes_for(compiled: Compiled, target: AccuracyTarget, among: Container[str] = MECHANISMS) -> Quotes:
    """Every mechanism's offer for the target, best first; offers are in the problem's units, see Compiled.shown."""
    if target.relative is not None:
        raise AccuracyError(
            "here alpha is a number; an accuracy in percent is of the records of a dataset that is asked"
        )
    problem = compiled.problem
    known = {name: propose for name, propose in _candidates(compiled, target).items() if name in among}
    beta, guarantee = float(target.beta), compiled.guarantee(target.guarantee)
    if target.epsilon is not None:
        return accuracy_at(problem, target.epsilon, beta, known, guarantee)
    return quote(problem, compiled.alpha(target.alpha or Fraction(0)), beta, known, guarantee)


def _candidates(compiled: Compiled, target: AccuracyTarget) -> Mapping[str, Mechanism]:
    """The mechanisms to ask: the named one; for sums and means the one that measures them directly; else all."""
    if compiled.joined is not None:
        raise Declined(joint.NAME, "questions that are answered together have a plan of their own")
    if target.mechanism in CHOICES:
        raise Declined(target.mechanism, RANKS_ONLY)
    if target.mechanism is not None:
        if compiled.table is not None and compiled.table.counts_people and target.mechanism != joint.NAME:
            raise Declined(target.mechanism, "persons are counted in each group, which only joint measures")
        return {target.mechanism: mechanism_with(target.mechanism, target.parameters)}
    if compiled.table is not None:
        return {joint.NAME: MECHANISMS[joint.NAME]}
    # One row of large entries is answered best by measuring it (docs/proofs/direct.md); the others only take long.
    return MECHANISMS if compiled.measure is None else {identity.DIRECT: MECHANISMS[identity.DIRECT]}


COARSER = 10
"""Fewer bins are tried at this many times the width."""
FEWEST_BINS = 2
COUNTED = ("histogram", "cdf")


def instead(
    domain: Domain, policy: Policy, compiled: Compiled, wanted: AccuracyTarget, left: Fraction
) -> tuple[str, ...]:
    """A wider alpha at the same beta, at the usual one, or fewer bins: what `left` buys, in words."""
    epsilon = _short(left)
    if epsilon < SMALLEST:
        return ()
    mechanism = wanted.mechanism if wanted.mechanism in MECHANISMS else None
    target = replace(wanted.by(mechanism), alpha=None, epsilon=epsilon)
    betas = dict.fromkeys([target.beta, max(target.beta, USUAL_BETA)])
    offers = [_within(compiled, replace(target, beta=beta)) for beta in betas]
    coarse = _coarser(domain, compiled.query)
    if coarse is not None:
        with suppress(BlowfishError):
            coarsened = compile_query(domain, policy, coarse)
            bins, within = coarsened.problem.graph.cells, _within(coarsened, target)
            offers += [f"{bins:,} bins {within}"] if within and bins >= FEWEST_BINS else []
    return tuple(offer for offer in offers if offer is not None)


def _within(compiled: Compiled, target: AccuracyTarget) -> str | None:
    """The best accuracy at the target's epsilon and beta, in words; None where no mechanism serves it."""
    try:
        alpha = compiled.shown(quotes_for(compiled, target).best.alpha)
    except BlowfishError:
        return None
    return f"within {readable(upper_end(alpha))} ({target.confidence})"


def _coarser(domain: Domain, query: Query) -> Query | None:
    """The same question over bins about ten times as wide; None where that makes no sense."""
    if query.kind not in COUNTED or len(query.axes) != 1:
        return None
    axis = query.axes[0]
    attribute = domain.find(axis.attribute)
    if not isinstance(attribute, Integers | Bins) or axis.edges or axis.groups or attribute.size < 2 * COARSER:
        return None
    if isinstance(attribute, Bins) and attribute.width is None:
        return None
    step = Fraction(1) if isinstance(attribute, Integers) else attribute.width or Fraction(1)
    width = step if axis.width is None else exact(axis.width, "the width", QueryError)
    return replace(query, axes=(Axis(axis.attribute, width=COARSER * width),))


def _short(amount: Fraction) -> Fraction:
    """A short fraction at most the amount: three digits, rounded down."""
    if amount <= 0:
        return Fraction(0)
    power = Fraction(10) ** (math.floor(math.log10(amount)) - 2)
    return math.floor(amount / power) * power


FEWEST_GAIN = 0.95
"""A column is named only when hiding less of it would save at least a twentieth."""
MOST_COLUMNS = 4
MOST_PIECES = 256
"""Nobody would declare a partition that a filter over more pieces asks for, and to price it takes long."""
USUALLY_BEST = ("optimized", "ordered", "kronecker")
"""Beside the winner only these are asked what they would cost then, so that a preview stays quick."""


@dataclass(frozen=True)
class ExpensiveColumn:
    """A filter's column with the price as things are and as they would be: epsilon, or alpha where epsilon is fixed."""

    column: str
    now: float
    if_public: float | None
    if_partitioned: float | None


def expensive_columns(
    domain: Domain, policy: Policy, compiled: Compiled, target: AccuracyTarget, best: Quote
) -> tuple[ExpensiveColumn, ...]:
    """The filter's protected columns that cost something, the most expensive first."""
    conditions, now = atoms(compiled.query.where), _price(compiled, best, target)
    ordered_by = policy.unit.order_by if isinstance(policy.unit, Person) else None

    def is_replaceable(name: str) -> bool:
        return policy.joint_of(name) is None and not isinstance(policy.family(name), Public) and name != ordered_by

    def price_with(name: str, family: Family | None) -> float | None:
        """The price under another family for one column; None without a family or where no mechanism serves it."""
        if family is None:
            return None
        try:
            changed = compile_query(domain, policy.with_family(name, family), compiled.query)
            return _price(changed, quotes_for(changed, target, (best.mechanism, *USUALLY_BEST)).best, target)
        except BlowfishError:
            return None

    columns = []
    names = [name for name in dict.fromkeys(atom.attribute for atom in conditions) if is_replaceable(name)]
    for name in names[:MOST_COLUMNS]:
        blocks = _blocks(policy.applied(domain).find(name), [atom for atom in conditions if atom.attribute == name])
        free, cut = price_with(name, public()), price_with(name, blocks)
        if any(other is not None and other <= FEWEST_GAIN * now for other in (free, cut)):
            columns.append(ExpensiveColumn(name, now, free, cut))
    return tuple(sorted(columns, key=lambda column: column.now if column.if_public is None else column.if_public))


def _price(compiled: Compiled, quote: Quote, target: AccuracyTarget) -> float:
    """What is compared: epsilon for a wanted accuracy, alpha for a given epsilon."""
    return float(quote.epsilon) if target.epsilon is None else compiled.shown(quote.alpha)


def _blocks(attribute: Attribute, conditions: Sequence[Atom]) -> Partition | None:
    """The coarsest partition on which the filter never divides a block; None where it cannot be written."""
    runs = [atom_runs(atom, attribute) for atom in conditions]
    starts = sorted({int(start) for run in runs for start in run.starts})
    if not 2 <= len(starts) <= MOST_PIECES:
        return None
    if isinstance(attribute, Integers | Bins | Dates):
        return partition(cuts=[attribute.value_at(start) for start in starts[1:]])
    if not isinstance(attribute, Categorical):
        return None
    index = np.arange(attribute.size)
    patterns = list(zip(*(run.at(index).tolist() for run in runs), strict=True))
    blocks: dict[tuple[int, ...], list[object]] = {}
    for value, pattern in zip(attribute.values, patterns, strict=True):
        blocks.setdefault(pattern, []).append(value)
    return partition(blocks.values()) if len(blocks) > 1 else None


def worst_pair(compiled: Compiled, certificate: Certificate) -> str:
    """What an observer could best tell apart: two cells, or a cell and a record that does not count or is not there."""
    if certificate.epsilon == 0:
        return "no pair: these answers are the same whatever the policy hides"
    if certificate.witness is None:
        return "not known: the price is a proven upper bound, not attained by a pair that can be named"
    first, second = certificate.witness
    if second == ZERO:
        return f"a record {_cell(compiled, first)} <-> {_nowhere(compiled.problem.graph, first)}"
    return f"a record {_cell(compiled, first)} <-> a record {_cell(compiled, second)}"


def _cell(compiled: Compiled, flat: int) -> str:
    cells = compiled.cells
    if not cells.axes:
        return "that counts"
    place = np.unravel_index(flat, cells.graph.shape)
    names = [f"{name} {cells.labels[axis][int(place[axis])]}" for axis, name in enumerate(cells.axes)]
    return f"with {', '.join(names)}"


def _nowhere(graph: CellGraph, cell: int) -> str:
    if graph.constraint_moves is not None:
        return "one that does not count or is not there"
    rejected = "a record outside the filter" if graph.outside[cell] and graph.has_value_edges else ""
    absent = "an absent one" if graph.presence != "public" else ""
    return " or ".join(part for part in (rejected, absent) if part)
