"""One thing to audit: a declaration, a question, a price and a mechanism; and the release that answers it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import ModuleType

from blowfishdb.accuracy import ranking
from blowfishdb.audit.neighbours import Setting
from blowfishdb.engine.demand import demand
from blowfishdb.engine.holding import Holding
from blowfishdb.engine.node_release import NodeQuestion, make_node_request, prepare_nodes
from blowfishdb.engine.payable import Payable
from blowfishdb.engine.request import make_request, prepare
from blowfishdb.engine.synopsis.request import prepare_synopsis, synopsis_request
from blowfishdb.ledger.edge_books import SUM
from blowfishdb.model import cellgraph, filtering, projection
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs import explicit, window
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query
from blowfishdb.plan import certificate, columns, constraint_loss, interval_loss, merged


@dataclass(frozen=True, eq=False)
class Case:
    """What is declared, asked and paid. `by_structure` certifies without listing edges, as for large questions.

    `rows` is the size of the made-up table. `further` are questions that are released as well, for accounts that do
    not simply add up.
    """

    name: str
    domain: Domain
    policy: Policy
    asked: Query | NodeQuestion
    epsilon: Fraction = Fraction(1)
    mechanism: str | None = None
    as_synopsis: bool = False
    by_structure: bool = False
    rows: int = 20
    accounting: str = SUM
    further: tuple[Query, ...] = ()
    within: Fraction | None = None
    """The accuracy that is asked for in place of a price."""

    @cached_property
    def setting(self) -> Setting:
        """The declaration and the question, for the definitions to work on."""
        is_points = isinstance(self.asked, NodeQuestion)
        axes = self.asked.columns if isinstance(self.asked, NodeQuestion) else self.asked.axes
        return Setting(self.domain, self.policy, axes, self.asked.where, by_value=is_points)


@dataclass(frozen=True, eq=False)
class Ready:
    """A release that can be charged: its request's digest and everything known before data is read."""

    digest: str
    payable: Payable


def made_ready(case: Case, holding: Holding, asked: Query | NodeQuestion) -> Ready:
    """The release of one question of a case; Declined or InvalidInput where it cannot be."""
    if isinstance(asked, NodeQuestion):
        weights = make_node_request(holding, asked, case.epsilon)
        return Ready(weights.digest, prepare_nodes(holding, weights))
    wanted = demand(epsilon=case.epsilon, mechanism=case.mechanism)
    if case.within is not None:
        wanted = demand(alpha=case.within, mechanism=case.mechanism)
    if case.as_synopsis:
        published = synopsis_request(holding, asked, wanted)
        return Ready(published.digest, prepare_synopsis(holding, published))
    request = make_request(holding, asked, wanted)
    return Ready(request.digest, prepare(holding, request))


Limit = tuple[ModuleType, str]
LIMITS: tuple[Limit, ...] = (
    (certificate, "LISTED_EDGES"),
    (columns, "TABLE_CELLS"),
    (constraint_loss, "LISTED_PAIRS"),
    (interval_loss, "TABLE_CELLS"),
    (merged, "LISTED_EDGES"),
    (projection, "LISTED_LIMIT"),
)
"""Below these numbers edges are compared one by one; above, structure decides."""
LISTS: tuple[Limit, ...] = (
    (cellgraph, "EDGE_LIMIT"),
    (explicit, "EDGE_LIMIT"),
    (window, "EDGE_LIMIT"),
    (filtering, "FILTER_LIMIT"),
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


def certified_as(case: Case) -> AbstractContextManager[None]:
    """Small questions certified as large ones are, where the case wants it, so that all pairs can still be tried."""
    return limited(LIMITS if case.by_structure else ())
