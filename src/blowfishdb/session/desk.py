"""The desk between an analyst and the data: it takes questions and hands out previews, answers and budgets.

An analyst's objects hold these functions and nothing else, so no attribute of theirs leads to a source, to the ledger
or to a count. Inside one Python process that is a convention with good manners, not a wall: somebody who runs code
next to the data can read memory. Where analysts are not trusted, they talk to a server.
"""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from threading import RLock
from typing import TypeVar

from blowfishdb.catalog.opening import Catalog, open_catalog
from blowfishdb.engine.affordable import instead
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charged_release import Run, charged_payload, charged_release
from blowfishdb.engine.demand import Demand
from blowfishdb.engine.edge_accounting import edge_losses
from blowfishdb.engine.holding import Holding
from blowfishdb.engine.node_release import (
    NodePreview,
    NodeQuestion,
    PreparedNodes,
    make_node_request,
    prepare_nodes,
    preview_nodes,
)
from blowfishdb.engine.node_weights import NodeWeights
from blowfishdb.engine.preview import Preview, make_preview
from blowfishdb.engine.program_request import PreparedProgram
from blowfishdb.engine.request import Prepared, Request, make_request, prepare
from blowfishdb.engine.synopsis.file import from_bytes
from blowfishdb.engine.synopsis.request import PreparedSynopsis, prepare_synopsis, synopsis_request
from blowfishdb.engine.synopsis.synopsis import Synopsis
from blowfishdb.errors import BlowfishError, BudgetExceeded, InternalError, NotInForce, QueryError
from blowfishdb.ledger.values import check_text
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query

logger = logging.getLogger("blowfishdb.curator")
Result = TypeVar("Result")
REMEMBERED = 16
"""So many quotes are remembered, so that a release after its preview does not quote again."""


@dataclass(frozen=True)
class Budget:
    """What one analyst spent on a dataset and may still spend; None where only the data's own limit holds."""

    dataset: str
    analyst: str
    spent: Fraction
    limit: Fraction | None
    remaining: Fraction
    dataset_limit: Fraction
    dataset_remaining: Fraction


@dataclass(frozen=True, eq=False, repr=False)
class Desk:
    """What an analyst may ask for."""

    analyst: str
    names: Callable[[], list[str]]
    declared: Callable[[str], tuple[Domain, Policy]]
    budget: Callable[[str], Budget]
    preview: Callable[[str, Query, Domain, Demand], Preview]
    release: Callable[[str, Query, Domain, Demand, Run], Answer]
    publish: Callable[[str, Query, Domain, Demand, Run], Synopsis]
    node_preview: Callable[[str, NodeQuestion, Domain, Fraction], NodePreview]
    node_weights: Callable[[str, NodeQuestion, Domain, Fraction, Run], NodeWeights]
    close: Callable[[], None]


def open_desk(config: str | Path, analyst: str) -> Desk:
    """The desk for one analyst over the datasets of a configuration; spaces around a name are no part of it."""
    analyst = analyst.strip() if isinstance(analyst, str) else analyst
    check_text(analyst, "an analyst's name")
    catalog = open_catalog(config)
    quoted: OrderedDict[str, Prepared | PreparedProgram] = OrderedDict()
    turn = RLock()

    def names() -> list[str]:
        return list(catalog.config.datasets)

    def declared(name: str) -> tuple[Domain, Policy]:
        dataset = catalog.config.dataset(name)
        return dataset.domain, dataset.policy

    def held(name: str, asked: Query | NodeQuestion, domain: Domain) -> Holding:
        """The dataset at the versions in force; the file is read again when it was changed meanwhile."""
        nonlocal catalog
        try:
            holding = catalog.holding(name)
        except NotInForce:
            catalog = catalog.read_again()
            holding = catalog.holding(name)
        for axis in asked.axes if isinstance(asked, Query) else asked.columns:
            if axis.attribute in domain and domain[axis.attribute] != holding.domain.find(axis.attribute):
                raise QueryError(f"{axis.attribute} is declared in another way by now: ask the dataset anew")
        return holding

    def budget(name: str) -> Budget:
        return shielded(turn, lambda: _budget(catalog, name, analyst))

    def prepared(holding: Holding, request: Request) -> Prepared | PreparedProgram:
        if request.digest not in quoted:
            quoted[request.digest] = prepare(holding, request)
            while len(quoted) > REMEMBERED:
                quoted.popitem(last=False)
        return quoted[request.digest]

    def preview(name: str, asked: Query, domain: Domain, demanded: Demand) -> Preview:
        def work() -> Preview:
            holding = held(name, asked, domain)
            request = make_request(holding, asked, demanded)
            ready = prepared(holding, request)
            found = make_preview(holding.name, holding.domain, holding.policy, ready)
            return found.with_budget(catalog.ledger.room(holding.account, analyst, edge_losses(holding, ready)))

        return shielded(turn, work)

    def release(name: str, asked: Query, domain: Domain, demanded: Demand, run: Run) -> Answer:
        def work() -> Answer:
            holding = held(name, asked, domain)
            request = make_request(holding, asked, demanded)

            def ready() -> Prepared | PreparedProgram:
                return prepared(holding, request)

            try:
                return charged_release(catalog.ledger, holding, analyst, request, ready, run)
            except BudgetExceeded as refusal:
                requested, data, own = refusal.requested, refusal.remaining_dataset, refusal.remaining_analyst
                left = data if own is None else min(data, own)
                offers = instead(holding.domain, holding.policy, ready().compiled, demanded, left)
                raise BudgetExceeded(requested, data, own, offers) from None

        return shielded(turn, work)

    def publish(name: str, asked: Query, domain: Domain, demanded: Demand, run: Run) -> Synopsis:
        def work() -> Synopsis:
            holding = held(name, asked, domain)
            request = synopsis_request(holding, asked, demanded)

            def ready() -> PreparedSynopsis:
                return prepare_synopsis(holding, request)

            return Synopsis(from_bytes(charged_payload(catalog.ledger, holding, analyst, request.digest, ready, run)))

        return shielded(turn, work)

    def node_preview(name: str, asked: NodeQuestion, domain: Domain, epsilon: Fraction) -> NodePreview:
        def work() -> NodePreview:
            holding = held(name, asked, domain)
            return preview_nodes(prepare_nodes(holding, make_node_request(holding, asked, epsilon)))

        return shielded(turn, work)

    def node_weights(name: str, asked: NodeQuestion, domain: Domain, epsilon: Fraction, run: Run) -> NodeWeights:
        def work() -> NodeWeights:
            holding = held(name, asked, domain)
            request = make_node_request(holding, asked, epsilon)

            def ready() -> PreparedNodes:
                return prepare_nodes(holding, request)

            return NodeWeights.from_json(charged_payload(catalog.ledger, holding, analyst, request.digest, ready, run))

        return shielded(turn, work)

    def close() -> None:
        catalog.ledger.close()

    return Desk(analyst, names, declared, budget, preview, release, publish, node_preview, node_weights, close)


def shielded(turn: RLock, work: Callable[[], Result]) -> Result:
    """The result of the work; errors leave without the frames they passed through, which could hold counts."""
    failure: BlowfishError
    try:
        with turn:
            return work()
    except BlowfishError as error:
        failure = error
    except Exception:
        incident = uuid.uuid4().hex[:12]
        logger.exception("incident %s", incident)
        failure = InternalError(incident)
    failure.__cause__ = failure.__context__ = None
    raise failure.with_traceback(None)


def _budget(catalog: Catalog, name: str, analyst: str) -> Budget:
    account = catalog.account(name)
    own = catalog.ledger.budget_of(account.id, analyst)
    remaining = max(Fraction(0), account.remaining)
    return Budget(
        dataset=name,
        analyst=analyst,
        spent=own.spent,
        limit=own.limit,
        remaining=remaining if own.remaining is None else min(own.remaining, remaining),
        dataset_limit=account.limit,
        dataset_remaining=remaining,
    )
