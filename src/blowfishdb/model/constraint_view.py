"""The graph of public constraints: which of them a hidden change ties together, and how many records each ties."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from blowfishdb.errors import CannotCertify, PolicyError, TooLarge, plural
from blowfishdb.model.constraint_graph import changed_constraints, moves_at_once, spelled_out
from blowfishdb.model.constraints import MarginalConstraint, write_constraint
from blowfishdb.model.domain import Domain
from blowfishdb.model.numbers import Bools, Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.projection import reached

MOST_SHOWN = 24
MOST_KINDS = 128
"""Kinds of records, told apart by the constraints, up to which the hidden changes between them are listed."""
FREE, REFUSED = "nothing", "refused"


@dataclass(frozen=True, eq=False)
class ConstraintsView:
    """Public constraints, those that one hidden change of a record changes at once, and what they cost.

    `pairs` are joined by such a change; `alone` tells where some change touches that one and none of the others.
    `records` are the most records that change together under each by itself (1: it costs nothing; None: no bound),
    `together` under all `count` of them, of which the first are shown; `refusal` says why that has no bound. Without
    `is_listed` there were too many kinds of records to look at, and every two that may change count as joined.
    """

    names: tuple[str, ...]
    count: int
    changed: tuple[bool, ...]
    alone: tuple[bool, ...]
    pairs: Ints
    part_of: tuple[int, ...]
    records: tuple[int | None, ...]
    together: int | None
    refusal: str
    is_listed: bool

    def rows(self) -> tuple[tuple[str, str, str], ...]:
        """Each shown constraint, how many times it multiplies a price by itself, and those it is tied to."""
        near = [list[str]() for _ in self.names]
        for one, two in self.pairs.tolist():
            near[one].append(self.names[two])
            near[two].append(self.names[one])
        return tuple(
            (name, factor(records), "; ".join(words) or "none")
            for name, records, words in zip(self.names, self.records, near, strict=True)
        )

    def as_document(self) -> dict[str, object]:
        """The graph as a document: records that change together, and lines by name."""
        return {
            "records": dict(zip(self.names, self.records, strict=True)),
            "records_together": self.together,
            "tied": [[self.names[one], self.names[two]] for one, two in self.pairs.tolist()],
            "words": list(self.words()),
        }

    def words(self) -> tuple[str, ...]:
        """What the graph shows, how long the longest forced chain is, and the factor that it puts on prices."""
        if self.refusal:
            return (f"All together have no price: {self.refusal}",)
        if self.together == 1:
            return ("No hidden change of a record changes one of these counts unseen, so they cost nothing.",)
        tied = [part for part, is_changed in zip(self.part_of, self.changed, strict=True) if is_changed]
        sentences = [
            f"The longest forced chain has {plural(self.together or 0, 'record')}: where one record changes, the "
            "others must change with it, or a public count would tell. All together multiply the price of a histogram "
            f"by up to {self.together:,}."
        ]
        if len(self.names) > 1:
            sentences.append(
                "One hidden change of a record changes both ends of a line at once. "
                f"{plural(len(tied), 'public count')} in {plural(len(set(tied)), 'connected part')}; "
                f"{len(self.names) - len(tied):,} that no hidden change touches."
            )
        if len(set(tied)) > 1:
            sentences.append(
                "Records make up for each other by changes of any kind: parts that no line joins are priced together."
            )
        if not self.is_listed:
            sentences.append("There are too many kinds of records to list: any two that may change are joined.")
        if self.count > len(self.names):
            sentences.append(f"The first {len(self.names)} of {self.count:,} are shown.")
        return tuple(sentences)


def factor(records: int | None) -> str:
    """How many times a price grows, in words."""
    return REFUSED if records is None else FREE if records == 1 else f"{records:,} times"


def view_constraints(domain: Domain, policy: Policy) -> ConstraintsView:
    """The graph of the policy's public constraints; PolicyError where there are none."""
    if not policy.constraints:
        raise PolicyError("the policy has no public constraints")
    policy.check(domain)
    shown = replace(policy, constraints=policy.constraints[:MOST_SHOWN])
    names = tuple(map(write_constraint, shown.constraints))
    may_change = set(changed_constraints(domain, shown))
    listed = _hidden_changes(domain, shown)
    if listed is None:
        every = np.array([[name in may_change for name in names]])
        changes = np.concatenate([every, np.diag(every[0])])
    else:
        changes = listed
    pairs = np.argwhere(np.triu(changes.T.astype(np.int64) @ changes.astype(np.int64), k=1))
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(names), len(names)))
    single = changes[changes.sum(axis=1) == 1]
    together, refusal = _records(domain, policy)
    return ConstraintsView(
        names=names,
        count=len(policy.constraints),
        changed=tuple(bool(column.any()) for column in changes.T),
        alone=tuple(bool(column.any()) for column in single.T),
        pairs=pairs,
        part_of=tuple(connected_components(links, directed=False)[1].tolist()),
        records=tuple(_records(domain, replace(policy, constraints=(one,)))[0] for one in shown.constraints),
        together=together,
        refusal=refusal,
        is_listed=listed is not None,
    )


def _records(domain: Domain, policy: Policy) -> tuple[int | None, str]:
    """The most records that change together, and why there is no bound on them."""
    try:
        return moves_at_once(domain, policy) or 1, ""
    except (CannotCertify, PolicyError, TooLarge) as error:
        return None, error.message


def _hidden_changes(domain: Domain, policy: Policy) -> Bools | None:
    """Which constraints each hidden change of a record changes, a line per change; None where they are very many."""
    applied = policy.applied(domain)
    signature = spelled_out(applied, policy.constraints, {})
    if signature is None:
        return None
    counted = iter(signature.patterns.T)
    columns = [
        signature.margin(one.attributes) if isinstance(one, MarginalConstraint) else next(counted)[signature.pattern]
        for one in policy.constraints
    ]
    combinations = np.stack([np.asarray(column, dtype=np.int64).reshape(-1) for column in columns], axis=1)
    kinds, kind_of = np.unique(combinations, axis=0, return_inverse=True)
    if len(kinds) > MOST_KINDS:
        return None
    kind_of = kind_of.reshape(signature.pattern.shape)
    near: Bools = np.zeros((len(kinds), len(kinds)), dtype=np.bool_)
    for kind in range(len(kinds)) if policy.presence != "only" else ():
        near[kind, kind_of[reached(applied, policy, signature.names, kind_of == kind, signature.cuts)]] = True
    one, two = np.nonzero(near)
    changes = kinds[one] != kinds[two]
    if policy.presence != "public":
        absent = [-1 if isinstance(each, MarginalConstraint) else 0 for each in policy.constraints]
        changes = np.concatenate([changes, kinds != np.array(absent)])
    return np.asarray(changes, dtype=np.bool_)
