"""The desk between an analyst and the data: it takes questions and hands out previews, answers and budgets.

An analyst's objects hold these functions and nothing else, so no attribute of theirs leads to a source, to the ledger
or to a count. Inside one Python process that is a convention with good manners, not a wall: somebody who runs code
next to the data can read memory. Where analysts are not trusted, they talk to a server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charged_release import Run
from blowfishdb.engine.demand import Demand
from blowfishdb.engine.node_release import NodePreview, NodeQuestion
from blowfishdb.engine.node_weights import NodeWeights
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.synopsis.expected import SynopsisPreview
from blowfishdb.engine.synopsis.synopsis import Synopsis
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query

Reopened: TypeAlias = Answer | Synopsis | NodeWeights


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


@dataclass(frozen=True)
class Published:
    """A synopsis that somebody paid for: everybody may ask it, for ever and free."""

    number: int
    dataset: str
    at: str
    title: str
    mechanism: str
    epsilon: Fraction
    policy_version: int


@dataclass(frozen=True, eq=False, repr=False)
class Desk:
    """What an analyst may ask for."""

    analyst: str
    names: Callable[[], list[str]]
    declared: Callable[[str], tuple[Domain, Policy]]
    budget: Callable[[str], Budget]
    preview: Callable[[str, Query, Domain, Demand], Preview]
    release: Callable[[str, Query, Domain, Demand, Run], Answer]
    publish_preview: Callable[[str, Query, Domain, Demand], SynopsisPreview]
    publish: Callable[[str, Query, Domain, Demand, Run], Synopsis]
    node_preview: Callable[[str, NodeQuestion, Domain, Fraction], NodePreview]
    node_weights: Callable[[str, NodeQuestion, Domain, Fraction, Run], NodeWeights]
    history: Callable[[str], list[Past]]
    reopen: Callable[[str, int], Reopened]
    synopses: Callable[[str], list[Published]]
    synopsis: Callable[[str, int], Synopsis]
    close: Callable[[], None]
