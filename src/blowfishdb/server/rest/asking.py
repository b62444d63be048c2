"""What a request asks: a question as plain data or as SQL, with its accuracy or price."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from blowfishdb.engine.demand import Demand, demand
from blowfishdb.engine.read_query import read_demand, read_query
from blowfishdb.errors import InvalidInput, QueryError
from blowfishdb.model.domain import Domain
from blowfishdb.model.query import Query
from blowfishdb.server.office import Office
from blowfishdb.session.desk import Desk
from blowfishdb.session.session import Session

LONGEST_SQL = 100_000


class Strict(BaseModel):
    """A body in which unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid")


class Ask(Strict):
    """One question: `question` as write_query writes it, or `sql`. `demand` has alpha or epsilon, beta, mechanism."""

    question: dict[str, Any] | None = None
    sql: str | None = Field(default=None, max_length=LONGEST_SQL)
    demand: dict[str, Any] = Field(default_factory=dict)
    deadline: float | None = None


def read_ask(office: Office, who: str, name: str, sent: Ask) -> tuple[Desk, Query, Domain, Demand]:
    """The analyst's desk and what is asked there; QueryError or AccuracyError for what makes no sense."""
    desk = office.desk(who)
    domain, _ = desk.declared(name)
    asked, demanded = _read(office, who, name, sent)
    return desk, asked, domain, demanded


def _read(office: Office, who: str, name: str, sent: Ask) -> tuple[Query, Demand]:
    if (sent.question is None) == (sent.sql is None):
        raise InvalidInput("ask either a question or sql")
    if sent.sql is None:
        return read_query(sent.question), read_demand(sent.demand)
    return _read_sql(office.session(who), name, sent.sql, sent.demand)


def _read_sql(session: Session, name: str, text: str, written: dict[str, Any]) -> tuple[Query, Demand]:
    from blowfishdb.sql import accuracy_of, ask, merged, parse, read_question

    statement = parse(text)
    if statement.table != name:
        raise QueryError(f"this address asks {name}, and the statement another table")
    table = session[name]
    given = read_demand(written) if written else None
    wanted = merged(
        statement.options,
        accuracy_of(
            None if given is None else given.alpha,
            None if given is None else given.beta,
            None if given is None else given.epsilon,
            None,
            None,
            None if given is None else given.mechanism,
            None if given is None else given.guarantee == "per-query" or None,
        ),
    )
    found = demand(
        wanted.alpha,
        wanted.beta,
        wanted.epsilon,
        mechanism=wanted.mechanism,
        per_query=bool(wanted.per_query),
    )
    return ask(table, read_question(statement, table.domain)).query, found
