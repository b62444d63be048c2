"""The backend between an analyst and the data: takes queries, hands out previews, answers and budgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Released, Run, decode
from blowfishdb.engine.preview import AnyPreview
from blowfishdb.engine.request import AccuracyTarget
from blowfishdb.engine.synopsis import Synopsis
from blowfishdb.errors import DocumentError, TooLarge
from blowfishdb.incidents import redact_errors
from blowfishdb.ledger.values import check_number, check_text
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query
from blowfishdb.sources.base import Join

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ReleaseRequest:
    """A query of one dataset and its accuracy target; `domain` is what was declared when the query was made."""

    dataset: str
    query: Query
    domain: Domain
    target: AccuracyTarget


MOST_LISTED = 1000


@dataclass(frozen=True)
class ListPart:
    """The part of a list that is wanted: its newest entries, or those before a number."""

    most: int = MOST_LISTED
    before: int | None = None
    key: str | None = None
    """Of a history, what the keys of the wanted charges begin with, before a space."""

    def __post_init__(self) -> None:
        check_number(self.most, "the number of entries", 1)
        if self.most > MOST_LISTED:
            raise TooLarge("entries at once", self.most, MOST_LISTED, "Go on before the number of the last one.")
        if self.before is not None:
            check_number(self.before, "the number of an entry", 1)
        if self.key is not None:
            check_text(self.key, "a key")


@dataclass(frozen=True)
class Budget:
    """What one analyst spent on a dataset and may still spend.

    `limit` is None where only the data's own limit holds, which is None where the curator does not show it. What
    remains is None where neither is known.
    """

    dataset: str
    analyst: str
    spent: Fraction
    limit: Fraction | None
    remaining: Fraction | None
    dataset_limit: Fraction | None
    dataset_remaining: Fraction | None

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left, as far as that is known."""
        return self.remaining is not None and self.remaining <= 0


@dataclass(frozen=True)
class Past:
    """A charge of the past: what was asked, when, and what it cost. `number` opens its answer again, free.

    `is_current` while the policy, the domain and the data are those it was released under.
    """

    number: int
    dataset: str
    at: str
    question: str
    mechanism: str
    epsilon: Fraction
    key: str
    policy_version: int
    is_synopsis: bool
    is_current: bool
    rests_on: tuple[int, ...] = ()
    """The analyst's own entries from which this answer is drawn or read off."""
    family: int | None = None
    """The first of the analyst's entries that measured the same rows, where there are several."""


@dataclass(frozen=True)
class Published:
    """A synopsis that somebody paid for: everybody may ask it, free."""

    number: int
    dataset: str
    at: str
    title: str
    mechanism: str
    epsilon: Fraction
    policy_version: int


@dataclass(frozen=True, eq=False, repr=False)
class Backend:
    """What an analyst may ask for, as functions: an attribute of an object would lead to the catalog and the data.

    `preview` and `payload` serve every kind of query. They refuse one whose attributes were declared in another way in
    the domain for which it was made. `release_all` charges several requests of one dataset in one transaction, all of
    them or none, before the first is answered.
    """

    analyst: str
    names: Callable[[], list[str]]
    declared: Callable[[str], tuple[Domain, Policy]]
    joins: Callable[[str], tuple[Join, ...]]
    budget: Callable[[str], Budget]
    preview: Callable[[ReleaseRequest], AnyPreview]
    payload: Callable[[ReleaseRequest, Run], bytes]
    """What a release publishes, as it is stored."""
    release_all: Callable[[Sequence[tuple[ReleaseRequest, Run]]], list[Answer]]
    history: Callable[[str, ListPart], list[Past]]
    reopen: Callable[[str, int], Released]
    synopses: Callable[[str, ListPart], list[Published]]
    synopsis: Callable[[str, int], Synopsis]
    close: Callable[[], None]

    def release(self, request: ReleaseRequest, run: Run) -> Released:
        """The answer, synopsis or weights that a release publishes."""
        stored = self.payload(request, run)
        return redact_errors(lambda: decode(stored))


def expect(value: object, kind: type[T]) -> T:
    """The value, which is of the kind that its query leads to; DocumentError for another one, from a foreign server."""
    if not isinstance(value, kind):
        raise DocumentError(f"a {kind.__name__} was expected, not a {type(value).__name__}")
    return value
