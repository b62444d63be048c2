"""What to audit of a declared dataset: the given questions, or the usual ones, under its policy and accounting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Self

from blowfishdb.audit.cases import Case
from blowfishdb.catalog import Dataset, read_config
from blowfishdb.model.domain import Attribute
from blowfishdb.model.predicate import Axis, Both, Predicate, as_axes
from blowfishdb.model.query import Query, levels_of, query
from blowfishdb.sql import ask, parse, read_question

MOST_CELLS = 4096
MOST_TABLE = 2048
MOST_ATTRIBUTES = 6
MOST_SPENT = Fraction(1)
LOOKED = 256
"""Data-aware mechanisms are audited on attributes of up to so many values."""


@dataclass(frozen=True)
class Subject:
    """A dataset of a configuration, and the questions to audit on it as SQL; none means the usual ones."""

    config: Path
    name: str
    questions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asker:
    """Takes the questions of SQL and gives them back as values."""

    filter: Predicate | None = None

    def where(self, predicate: Predicate) -> Self:
        return replace(self, filter=predicate if self.filter is None else Both(self.filter, predicate))

    def count(self) -> Query:
        return query("count", (), self.filter)

    def histogram(self, *axes: Axis) -> Query:
        return query("histogram", axes, self.filter)

    def cdf(self, axis: Axis) -> Query:
        return query("cdf", axis, self.filter)

    def sum(self, column: str) -> Query:
        return query("sum", column, self.filter)

    def mean(self, column: str) -> Query:
        return query("mean", column, self.filter)

    def quantiles(self, column: str, levels: list[Fraction]) -> Query:
        return Query("quantiles", as_axes(column), self.filter, levels=levels_of(levels))


def dataset_cases(subject: Subject) -> list[Case]:
    """The cases of a dataset; only its declaration is read, never its rows nor its ledger."""
    dataset = read_config(subject.config).dataset(subject.name)
    price = min(MOST_SPENT, dataset.epsilon / 4) or MOST_SPENT
    if subject.questions:
        return [_given(dataset, text, price) for text in subject.questions]
    found = [case for name in dataset.domain.names[:MOST_ATTRIBUTES] for case in _of_attribute(dataset, name, price)]
    return [*found, *_tables(dataset, price)]


def _given(dataset: Dataset, text: str, price: Fraction) -> Case:
    statement = parse(text)
    asked = ask(Asker(), read_question(statement, dataset.domain))
    options = statement.options
    epsilon = options.epsilon or price
    return Case(
        text[:80], dataset.domain, dataset.policy, asked, epsilon, options.mechanism, accounting=dataset.accounting
    )


def _of_attribute(dataset: Dataset, name: str, price: Fraction) -> list[Case]:
    attribute = dataset.domain[name]
    if attribute.size > MOST_CELLS:
        return []
    kinds = {f"histogram of {name}": query("histogram", name)}
    if attribute.ordered:
        kinds[f"cdf of {name}"] = query("cdf", name)
    found = [_case(dataset, said, asked, price) for said, asked in kinds.items()]
    if attribute.ordered and _is_small(attribute):
        found.append(
            replace(
                _case(dataset, f"histogram of {name} by dawa", kinds[f"histogram of {name}"], price), mechanism="dawa"
            )
        )
    return found


def _is_small(attribute: Attribute) -> bool:
    return 2 <= attribute.total_size <= LOOKED


def _tables(dataset: Dataset, price: Fraction) -> list[Case]:
    """Two attributes together, and one filtered by the other: the first two that are small enough."""
    names = [name for name in dataset.domain.names if dataset.domain[name].total_size <= MOST_CELLS]
    for place, one in enumerate(names):
        for two in names[place + 1 :]:
            if dataset.domain[one].total_size * dataset.domain[two].total_size <= MOST_TABLE:
                return [_case(dataset, f"histogram of {one} and {two}", query("histogram2d", (one, two)), price)]
    return []


def _case(dataset: Dataset, said: str, asked: Query, price: Fraction) -> Case:
    return Case(f"{dataset.name}: {said}", dataset.domain, dataset.policy, asked, price, accounting=dataset.accounting)
