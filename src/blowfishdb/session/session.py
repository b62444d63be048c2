"""An analyst's session: the datasets by name, the budget left, and questions in Python or SQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from blowfishdb.catalog.config import USUAL_CONFIG
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Progress, Released
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.synopsis import Synopsis
from blowfishdb.engine.target import Number, Relative, TargetOptions, target_options
from blowfishdb.errors import BudgetExceeded, InvalidInput
from blowfishdb.model.query import Query
from blowfishdb.session.backend import Backend, Budget, Past, Published
from blowfishdb.session.local import open_local
from blowfishdb.session.remote import is_server, open_remote
from blowfishdb.session.table import Question, Table

if TYPE_CHECKING:
    from blowfishdb.sql import Statement


@dataclass(frozen=True, eq=False, repr=False)
class Session:
    """One analyst's view of the datasets of a configuration."""

    analyst: str
    _backend: Backend = field(repr=False)

    def __repr__(self) -> str:
        return f"<Session of {self.analyst}: {', '.join(self.datasets()) or 'no datasets'}>"

    def __getitem__(self, name: str) -> Table:
        domain, _ = self._backend.declared(name)
        return Table(name, domain, self._backend)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def datasets(self) -> list[str]:
        """The names of the datasets."""
        return self._backend.names()

    def budget(self, name: str) -> Budget:
        """What this analyst spent on a dataset, and what is left."""
        return self._backend.budget(name)

    def history(self, name: str) -> list[Past]:
        """What this analyst asked of a dataset before, newest first."""
        return self._backend.history(name)

    def reopen(self, name: str, number: int) -> Released:
        """An answer, synopsis or set of weights of the past, by its number in the history; costs nothing."""
        return self._backend.reopen(name, number)

    def synopses(self, name: str) -> list[Published]:
        """The synopses of a dataset that somebody published, newest first."""
        return self._backend.synopses(name)

    def synopsis(self, name: str, number: int) -> Synopsis:
        """A published synopsis, to ask for ever and free."""
        return self._backend.synopsis(name, number)

    def sql(
        self,
        text: str,
        *,
        alpha: Number | None = None,
        beta: Number | None = None,
        epsilon: Number | None = None,
        accuracy: Number | None = None,
        confidence: Number | None = None,
        mechanism: str | None = None,
        per_query: bool = False,
        fresh: bool = False,
        key: str | None = None,
        progress: Progress | None = None,
        deadline: float | None = None,
        spend: Number | None = None,
    ) -> Answer | Preview:
        """The answer to a SELECT; for EXPLAIN SELECT the preview. The text is parsed, never executed."""
        from blowfishdb.sql import merged, parse, write_options

        statement = parse(text)
        question = stated_question(self[statement.table], statement)
        given = target_options(alpha, beta, epsilon, accuracy, confidence, mechanism, per_query or None, fresh or None)
        options = with_alpha(merged(statement.options, given), question.query)
        if statement.explain:
            ending = write_options(merged(statement.options, given), statement.columns)
            return question.preview(**options).run_by(f"{statement.text} {ending}")
        return question.release(**options, key=key, progress=progress, deadline=deadline, spend=spend)

    def script(
        self,
        text: str,
        *,
        alpha: Number | None = None,
        beta: Number | None = None,
        epsilon: Number | None = None,
        confidence: Number | None = None,
    ) -> list[Answer | Preview]:
        """The answers to several statements, which semicolons separate; all are priced before the first is charged.

        BudgetExceeded, with nothing charged, where the sum of their prices is more than is left. A statement that was
        answered before is free, and is counted as if it were not.
        """
        from blowfishdb.sql import merged, parse, split

        given = target_options(alpha, beta, epsilon, None, confidence)
        prices: dict[str, Fraction] = {}
        statements = split(text)
        for one in statements:
            statement = parse(one)
            question = stated_question(self[statement.table], statement)
            options = with_alpha(merged(statement.options, given), question.query)
            if not statement.explain:
                price = question.preview(**options).epsilon
                prices[question.dataset] = prices.get(question.dataset, Fraction(0)) + price
        for name, price in prices.items():
            budget = self.budget(name)
            if price > budget.remaining:
                mine = None if budget.limit is None else budget.limit - budget.spent
                raise BudgetExceeded(price, budget.dataset_remaining, mine)
        return [self.sql(one, alpha=alpha, beta=beta, epsilon=epsilon, confidence=confidence) for one in statements]

    def close(self) -> None:
        """Lets go of the ledger."""
        self._backend.close()


def stated_question(table: Table, statement: Statement) -> Question:
    """The question that a statement asks of a table, and what it does to the answer."""
    from blowfishdb.sql import names_of, query_of, selection_of, without_joins

    if statement.select.args.get("joins"):
        statement = without_joins(statement, table.joins)
    query = query_of(statement, table.domain)
    return table.question(query, selection_of(statement, names_of(statement, table.domain), query))


def with_alpha(options: TargetOptions, query: Query) -> TargetOptions:
    """The options, with the accuracy of the strictest column where every column has one of its own."""
    tolerances = [part.tolerance for part in query.aggregates if part.tolerance is not None]
    shares = [part.relative for part in query.aggregates if part.relative is not None]
    is_complete = 0 < len(tolerances) + len(shares) == len(query.aggregates)
    if "alpha" in options or "epsilon" in options or not is_complete:
        return options
    return {**options, "alpha": min(tolerances) if tolerances else Relative(min(shares))}


def connect(
    address: str | Path = USUAL_CONFIG,
    *,
    analyst: str | None = None,
    token: str | None = None,
    password: str | None = None,
) -> Session:
    """A session for one analyst: over a configuration file, or on a server.

    A file needs `analyst`. A server, `http://host:8000`, needs a `token`, or `analyst` and `password`.
    """
    if is_server(address):
        backend = open_remote(str(address), token=token, name=analyst, password=password)
    elif analyst is None or token is not None or password is not None:
        raise InvalidInput("a configuration file is opened with analyst='...'; tokens and passwords are for servers")
    else:
        backend = open_local(address, analyst)
    return Session(backend.analyst, backend)
