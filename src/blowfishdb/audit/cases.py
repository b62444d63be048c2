"""Cases of an audit: a declaration, a query, a price and a mechanism; their made-up tables; those of a dataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import numpy as np

from blowfishdb.accuracy import ranking
from blowfishdb.audit.definitions import Adjacency, Change, Record
from blowfishdb.audit.scratch import TableRow, raw_values
from blowfishdb.catalog import Dataset, read_config
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.release import Release
from blowfishdb.engine.request import make_request
from blowfishdb.engine.target import accuracy_target
from blowfishdb.ledger.values import SUM
from blowfishdb.model import graphs, projection
from blowfishdb.model.aggregates import fine_axes
from blowfishdb.model.cached import cached_property
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Person, Policy
from blowfishdb.model.query import Query, query, synopsis_of
from blowfishdb.plan import certificate, loss, program
from blowfishdb.sql import parse, query_of


@dataclass(frozen=True, eq=False)
class Case:
    """A declaration, a query and a price. `by_structure` certifies without listing edges, as for large questions.

    `rows` is the size of the made-up table. `further` are questions that are released as well, for accounts that do
    not simply add up.
    """

    name: str
    domain: Domain
    policy: Policy
    query: Query
    mechanism: str | None = None
    epsilon: Fraction = Fraction(1)
    as_synopsis: bool = False
    by_structure: bool = False
    rows: int = 20
    accounting: str = SUM
    further: tuple[Query, ...] = ()
    within: Fraction | None = None
    """The accuracy that is asked for in place of a price."""

    @cached_property
    def adjacency(self) -> Adjacency:
        """The declaration and the question, for the definitions to work on."""
        is_points, axes = self.query.kind == "points", fine_axes(self.query.axes, self.query.aggregates)
        return Adjacency(self.domain, self.policy, axes, self.query.where, by_value=is_points)


def prepared(case: Case, handle: DatasetHandle, question: Query) -> Release:
    """The release of one query of a case; Declined or InvalidInput where it cannot be."""
    target = accuracy_target(epsilon=case.epsilon, mechanism=case.mechanism)
    if case.within is not None:
        target = accuracy_target(alpha=case.within, mechanism=case.mechanism)
    request = make_request(handle, synopsis_of(question) if case.as_synopsis else question, target)
    return prepare(handle, request)


Limit = tuple[ModuleType, str]
LIMITS: tuple[Limit, ...] = (
    (certificate, "LISTED_EDGES"),
    (loss, "TABLE_CELLS"),
    (loss, "LONG_EDGES"),
    (certificate, "LISTED_PAIRS"),
    (program, "LISTED_EDGES"),
    (projection, "LISTED_LIMIT"),
)
"""Below these numbers edges are compared one by one; above, structure decides."""
LISTS: tuple[Limit, ...] = (
    (graphs, "EDGE_LIMIT"),
    (projection, "FILTER_LIMIT"),
)
"""Below these numbers edges are listed at all, and what a filter rejects is worked out."""


@contextmanager
def limited(limits: Sequence[Limit]) -> Iterator[None]:
    """Small questions dealt with as large ones are, as if these limits were passed."""
    usual = [getattr(module, name) for module, name in limits]
    for module, name in limits:
        setattr(module, name, 0)
    # What was certified in the other way must not be remembered.
    ranking.forget()
    try:
        yield
    finally:
        for (module, name), limit in zip(limits, usual, strict=True):
            setattr(module, name, limit)
        ranking.forget()


COUNTS: tuple[tuple[int, int], ...] = ((4, 1), (9, 6), (10, 2), (19, 14), (99, 49), (29, 24))
"""Numbers of other records at the place that the changing one leaves, and at the one it goes to.

So that what only shows when a count passes a limit that people like does show; each case tries another one.
"""
SPARE = 2
"""Rows of a person in made-up tables beyond those that count."""


@dataclass(frozen=True, eq=False)
class Table:
    """Made-up rows, and the records among them that count for somebody."""

    rows: list[TableRow]
    records: list[Record]


Neighbours = tuple[Table, Table]


def crowd(adjacency: Adjacency, base: Sequence[Record], change: Change, number: int, turn: int) -> list[Record]:
    """The records beside the first changes of a case: so that a count becomes 0, that nobody else is there, and so on.

    Later changes happen among the given records.
    """
    if number == 1:
        return []
    if number > 2:
        return list(base)
    wanted = COUNTS[turn % len(COUNTS)] if number else (0, 3)
    places = {adjacency.place(record) for record in (*change.before, *change.after)}
    elsewhere = [record for record in base if adjacency.place(record) not in places]
    ends = zip((change.before[0], change.after[0]), wanted, strict=True)
    return [*elsewhere, *(record for record, times in ends if record is not None for _ in range(times))]


def neighbours(adjacency: Adjacency, base: Sequence[Record], change: Change, random: np.random.Generator) -> Neighbours:
    """The two tables of a change over the same other records; those are spelled alike in both."""
    keep = [_row(adjacency, record, random) for record in base]
    if isinstance(adjacency.policy.unit, Person):
        return _people(adjacency, adjacency.policy.unit, base, keep, change, random)
    sides = ([record for record in side if record is not None] for side in (change.before, change.after))
    before, after = (
        Table([*keep, *(_row(adjacency, record, random) for record in side)], [*base, *side]) for side in sides
    )
    return before, after


def _row(adjacency: Adjacency, record: Record, random: np.random.Generator) -> TableRow:
    options = {name: raw_values(adjacency.applied[name], code) for name, code in record.items()}
    return {name: values[int(random.integers(len(values)))] for name, values in options.items()}


def _people(
    adjacency: Adjacency,
    unit: Person,
    base: Sequence[Record],
    keep: list[TableRow],
    change: Change,
    random: np.random.Generator,
) -> Neighbours:
    """One person has more rows than count, and all of them change; so do all others have a few rows too many."""
    each = unit.at_most + SPARE
    others: list[TableRow] = []
    by_person: dict[int, list[Record]] = {}
    for number, (record, row) in enumerate(zip(base, keep, strict=True)):
        person, place = divmod(number, each)
        # Later rows have the smaller keys, so that the order of the table is not the order that counts.
        others.append({**row, unit.id: f"person {person}", unit.order_by: each - place})
        by_person.setdefault(person, []).insert(0, record)
    counted = [record for rows in by_person.values() for record in rows[: unit.at_most]]
    # Rows whose keys tie where the limit falls do not count, whatever they hold; nor do rows of nobody.
    keys = [*range(unit.at_most - 1), *[unit.at_most] * SPARE]
    if len(base) >= len(keys):
        others += [{**row, unit.id: "tied", unit.order_by: key} for row, key in zip(keep, keys, strict=False)]
        counted += base[: unit.at_most - 1]
    others += [{**row, unit.id: None, unit.order_by: key} for key, row in enumerate(keep[:SPARE])]

    def table(moved: Record | None) -> Table:
        mine = [] if moved is None else [moved] * each
        rows = [_row(adjacency, record, random) for record in mine]
        numbered = [{**row, unit.id: "the one", unit.order_by: place} for place, row in enumerate(rows)]
        return Table([*others, *numbered], [*counted, *mine[: unit.at_most]])

    return table(change.before[0]), table(change.after[0])


MOST_CELLS = 4096
MOST_TABLE = 2048
MOST_ATTRIBUTES = 6
MOST_SPENT = Fraction(1)
LOOKED = 256
"""The most values of an attribute on which data-aware mechanisms are audited."""


@dataclass(frozen=True)
class Subject:
    """A dataset of a configuration, and the questions to audit on it as SQL; none means the usual ones."""

    config: Path
    name: str
    questions: tuple[str, ...] = ()


def dataset_cases(subject: Subject) -> list[Case]:
    """The cases of a dataset; only its declaration is read, never its rows nor its ledger."""
    dataset = read_config(subject.config).dataset(subject.name)
    price = min(MOST_SPENT, dataset.epsilon / 4) or MOST_SPENT
    if subject.questions:
        return [_given(dataset, text, price) for text in subject.questions]
    listed = [case for name in dataset.domain.names[:MOST_ATTRIBUTES] for case in _of_attribute(dataset, name, price)]
    return [*listed, *_tables(dataset, price)]


def _given(dataset: Dataset, text: str, price: Fraction) -> Case:
    """The case of an SQL statement."""
    statement = parse(text)
    question, options = query_of(statement, dataset.domain), statement.options
    case = _case(dataset, "", question, options.get("epsilon", price), options.get("mechanism"))
    return replace(case, name=text[:80])


def _of_attribute(dataset: Dataset, name: str, price: Fraction) -> list[Case]:
    """Histogram and running counts of one attribute, and the histogram by a data-aware mechanism where it is short."""
    attribute = dataset.domain[name]
    if attribute.size > MOST_CELLS:
        return []
    histogram = query("histogram", name)
    cases = [_case(dataset, f"histogram of {name}", histogram, price)]
    if attribute.ordered:
        cases.append(_case(dataset, f"cdf of {name}", query("cdf", name), price))
        if 2 <= attribute.total_size <= LOOKED:
            cases.append(_case(dataset, f"histogram of {name} by dawa", histogram, price, "dawa"))
    return cases


def _tables(dataset: Dataset, price: Fraction) -> list[Case]:
    """The histogram of the first two attributes that are small enough together."""
    sizes = {name: dataset.domain[name].total_size for name in dataset.domain.names}
    for one, two in itertools.combinations([name for name, size in sizes.items() if size <= MOST_CELLS], 2):
        if sizes[one] * sizes[two] <= MOST_TABLE:
            return [_case(dataset, f"histogram of {one} and {two}", query("histogram2d", (one, two)), price)]
    return []


def _case(dataset: Dataset, name: str, question: Query, price: Fraction, mechanism: str | None = None) -> Case:
    full_name = f"{dataset.name}: {name}"
    return Case(full_name, dataset.domain, dataset.policy, question, mechanism, price, accounting=dataset.accounting)
