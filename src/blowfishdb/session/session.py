"""An analyst's session: the datasets by name, the budget left, and questions in Python or SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from blowfishdb.catalog.catalog import PEOPLE
from blowfishdb.catalog.config import USUAL_CONFIG
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Progress, Released, Run
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.request import (
    AccuracyTarget,
    Number,
    Parameters,
    Relative,
    TargetOptions,
    accuracy_target,
    spending_cap,
    target_options,
)
from blowfishdb.engine.synopsis import Synopsis
from blowfishdb.errors import InvalidInput, SpendingCapReached, WorkCancelled
from blowfishdb.model.arguments import checked
from blowfishdb.model.query import Query
from blowfishdb.session.backend import MOST_LISTED, Backend, Budget, ListPart, Past, Published, ReleaseRequest, expect
from blowfishdb.session.local import open_local
from blowfishdb.session.plan import Item, QuestionPlan, plan_questions, read_item, refuse_above, with_own
from blowfishdb.session.remote import is_server, open_remote
from blowfishdb.session.table import Question, Table
from blowfishdb.sources.calls import POLL, is_cancelled

if TYPE_CHECKING:
    from blowfishdb.sql import Statement

Result = TypeVar("Result")


@checked()
@dataclass(frozen=True, eq=False, repr=False)
class Session(AbstractContextManager["Session"]):
    """One analyst's view of the datasets of a configuration."""

    _backend: Backend = field(repr=False)

    @property
    def analyst(self) -> str:
        """Whoever asks, and pays."""
        return self._backend.analyst

    def __repr__(self) -> str:
        return f"<Session of {self.analyst}: {', '.join(self.datasets()) or 'no datasets'}>"

    def __getitem__(self, name: str) -> Table:
        domain, _ = self._backend.declared(name)
        return Table(name, domain, self._backend)

    def __exit__(self, *raised: object) -> None:
        self.close()

    def datasets(self) -> list[str]:
        """The names of the datasets."""
        return self._backend.names()

    def statement(self, text: str) -> Statement:
        """The statement that a text writes, its dataset called as declared: SQL folds the letters of plain names."""
        from blowfishdb.sql import parse

        read = parse(text)
        names = [] if read.is_quoted else self.datasets()
        base = read.table.lower().removesuffix(PEOPLE)
        alike = [name for name in names if name.lower() in (read.table.lower(), base)]
        if read.table in names or len(alike) != 1:
            return read
        ending = "" if alike[0].lower() == read.table.lower() else PEOPLE
        return replace(read, table=f"{alike[0]}{ending}")

    def budget(self, name: str) -> Budget:
        """What this analyst spent on a dataset, and what is left."""
        return self._backend.budget(name)

    def history(
        self, name: str, *, most: int = MOST_LISTED, before: int | None = None, key: str | None = None
    ) -> list[Past]:
        """Earlier answers of this analyst about a dataset, newest first; `before` the last number gives the next ones.

        With a key, the charges of the plan that was released under it.
        """
        return self._backend.history(name, ListPart(most, before, key))

    def reopen(self, name: str, number: int) -> Released:
        """An answer, synopsis or set of weights of the past, by its number in the history; costs nothing."""
        return self._backend.reopen(name, number)

    def synopses(self, name: str, *, most: int = MOST_LISTED, before: int | None = None) -> list[Published]:
        """The published synopses of a dataset, newest first; `before` the last number gives the next ones."""
        return self._backend.synopses(name, ListPart(most, before))

    def synopsis(self, name: str, number: int) -> Synopsis:
        """A published synopsis; asking it is free."""
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
        parameters: Parameters | None = None,
        per_query: bool = False,
        fresh: bool = False,
        key: str | None = None,
        progress: Progress | None = None,
        deadline: float | None = None,
        spend: Number | None = None,
    ) -> Answer | Preview | QuestionPlan | list[Answer | Preview]:
        """The answer to a SELECT; for EXPLAIN SELECT the preview. The text is parsed, never executed.

        Several statements, which semicolons separate, are planned together as `plan` does, those of each dataset by
        themselves; the result is a list, or the plan where every statement begins with EXPLAIN.
        """
        from blowfishdb.sql import merged, split, write_options

        numbers = (alpha, beta, epsilon, accuracy, confidence)
        given = target_options(*numbers, mechanism, per_query or None, fresh or None, parameters)
        texts = split(text)
        if len(texts) > 1:
            return self._statements(
                [self.statement(one) for one in texts], given, Run(key, progress, deadline, spending_cap(spend))
            )
        statement = self.statement(text)
        question, options = stated_question(self[statement.table], statement), merged(statement.options, given)
        target = target_for(question.query, options)
        if statement.explain:
            ending = write_options(options, statement.columns)
            return expect(question.preview_at(target), Preview).run_by(f"{statement.text} {ending}")
        return expect(question.release_at(target, Run(key, progress, deadline, spending_cap(spend))), Answer)

    def _statements(
        self, statements: list[Statement], given: TargetOptions, run: Run
    ) -> QuestionPlan | list[Answer | Preview]:
        """The answers to several statements, planned together."""
        items = stated_items(self, statements, given)
        if all(statement.explain for statement in statements):
            return self.plan_at(items)
        results: dict[int, Answer | Preview] = {}
        selects: dict[str, list[int]] = {}
        for place, (statement, (question, target)) in enumerate(zip(statements, items, strict=True)):
            if statement.explain:
                results[place] = expect(question.preview_at(target), Preview)
            else:
                selects.setdefault(statement.table, []).append(place)
        plans = {name: self.plan_at([items[place] for place in places]) for name, places in selects.items()}
        refuse_above(sum((plan.to_pay(run.key) for plan in plans.values()), Fraction(0)), run.spend)
        for plan in plans.values():
            plan.check_budget(run.key)
        for name, plan in plans.items():
            answers = plan.release(key=run.key, progress=run.progress, deadline=run.deadline)
            results |= dict(zip(selects[name], answers, strict=True))
        return [results[place] for place in range(len(statements))]

    def plan(
        self,
        questions: Iterable[Item],
        *,
        alpha: Number | None = None,
        beta: Number | None = None,
        accuracy: Number | None = None,
        confidence: Number | None = None,
        per_query: bool = False,
        fresh: bool = False,
    ) -> QuestionPlan:
        """What several questions of one dataset cost together, and what each has of it; reads no data, costs nothing.

        A question may have an accuracy of its own: `db.plan([q1, (q2, 20), (q3, {"alpha": 5, "beta": 0.1})], alpha=9)`.
        The plan's `release()` charges once and gives an answer to each.
        """
        given = target_options(alpha, beta, None, accuracy, confidence, None, per_query or None, fresh or None)
        return self.plan_at([read_item(item, given) for item in questions])

    def plan_at(self, questions: Sequence[tuple[Question, AccuracyTarget]]) -> QuestionPlan:
        """The plan of questions that have an accuracy target each."""
        return plan_questions(questions, self._backend)

    def release_all(self, requests: Sequence[tuple[ReleaseRequest, Run]]) -> list[Answer]:
        """The answers to the releases of a plan that was made before, charged together."""
        return self._backend.release_all(requests)

    def close(self) -> None:
        """Lets go of the ledger."""
        self._backend.close()


@dataclass(eq=False)
class SpendingCap:
    """The epsilon that one conversation or connection may spend in all, whatever it asks."""

    limit: Fraction
    spent: Fraction = Fraction(0)
    _turn: Lock = field(default_factory=Lock, repr=False)

    @property
    def left(self) -> Fraction:
        """What may still be spent."""
        return max(Fraction(0), self.limit - self.spent)

    def charged(self, session: Session, dataset: str, work: Callable[[Fraction], Result]) -> tuple[Result, Fraction]:
        """The result of a release that gets what is left as its limit, and what it charged.

        One release at a time may charge. Others get what is free at once, and wait for it with what is not.
        """
        if not self._turn.acquire(blocking=False):
            with suppress(SpendingCapReached):
                return work(Fraction(0)), Fraction(0)
            cancelled = is_cancelled.get()
            while not self._turn.acquire(timeout=POLL):
                if cancelled():
                    raise WorkCancelled
        try:
            return self._charged(session, dataset, work)
        finally:
            self._turn.release()

    def _charged(self, session: Session, dataset: str, work: Callable[[Fraction], Result]) -> tuple[Result, Fraction]:
        before, left, spent = session.budget(dataset).spent, self.left, self.spent
        # Until the charge is known, nothing more may be spent; it stands even where counting failed after it.
        self.spent = max(self.limit, spent)
        try:
            result = work(left)
        finally:
            charge = max(Fraction(0), session.budget(dataset).spent - before)
            self.spent = spent + charge
        return result, charge


def stated_question(table: Table, statement: Statement) -> Question:
    """The question that a statement asks of a table, and what it does to the answer."""
    from blowfishdb.sql import is_names_only, names_of, query_of, selection_of, without_joins

    statement = without_joins(statement, table.joins)
    query, names = query_of(statement, table.domain), names_of(statement, table.domain)
    return table.question(query, selection_of(statement, names, query), names_only=is_names_only(statement, names))


def stated_items(
    session: Session, statements: Iterable[Statement], given: TargetOptions
) -> list[tuple[Question, AccuracyTarget]]:
    """The questions of statements, each with the accuracy of its OPTIONS, or with the given one."""
    questions = [(stated_question(session[one.table], one), with_own(one.options, given)) for one in statements]
    return [(question, target_for(question.query, options)) for question, options in questions]


def target_for(query: Query, options: TargetOptions) -> AccuracyTarget:
    """The accuracy target that options give a query: that of the strictest column where every column has its own."""
    tolerances = [part.tolerance for part in query.aggregates if part.tolerance is not None]
    shares = [part.relative for part in query.aggregates if part.relative is not None]
    is_complete = 0 < len(tolerances) + len(shares) == len(query.aggregates)
    if is_complete and "alpha" not in options and "epsilon" not in options:
        options = {**options, "alpha": min(tolerances) if tolerances else Relative(min(shares))}
    return accuracy_target(**options)


@checked()
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
    return Session(backend)
