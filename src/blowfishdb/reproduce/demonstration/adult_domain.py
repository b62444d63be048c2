"""The public domain of the Adult table that the demonstration's experiments ask about; no data is read."""

from __future__ import annotations

import blowfishdb as bf
from blowfishdb.accuracy.quote import Quote, quote
from blowfishdb.engine.compiled import compile_query
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query

ROWS = 48_842
BETA = 0.05


def domain() -> Domain:
    """Four numbers of a person; NULL counts as the least value, so that no further cell is needed."""
    return bf.domain(
        {
            "age": bf.integers(17, 90, null=17),
            "hours": bf.integers(1, 99, null=1),
            "education": bf.integers(1, 16, null=1),
            "capital_loss": bf.integers(0, 4356, null=0),
        }
    )


def cheapest(policy: Policy, asked: Query, alpha: float, mechanisms: dict[str, Mechanism] | None = None) -> Quote:
    """The least epsilon at which all answers are within alpha with probability 0.95, and the plan that keeps it."""
    problem = compile_query(domain(), policy, asked).problem
    return quote(problem, alpha, BETA, MECHANISMS if mechanisms is None else mechanisms).best
