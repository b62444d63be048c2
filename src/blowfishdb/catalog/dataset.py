"""One dataset as a curator declares it: where the rows are, what is known and hidden of them, what it may cost."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from blowfishdb.engine.components import check_parallel
from blowfishdb.engine.demand import Number, short_number
from blowfishdb.engine.padding import check_step
from blowfishdb.errors import CatalogError
from blowfishdb.ledger.edge_books import SUM, check_accounting, parallel_attribute
from blowfishdb.ledger.values import check_text
from blowfishdb.model.constraints.moves import moves_at_once
from blowfishdb.model.domain import Attribute, Domain
from blowfishdb.model.domain import domain as make_domain
from blowfishdb.model.numbers import show
from blowfishdb.model.policy import Policy
from blowfishdb.model.written import write_domain, write_policy
from blowfishdb.sources.base import Join

USUAL_EPSILON = Fraction(1)
PASSWORD = re.compile(r"^[a-z0-9+]+://[^/@:#]*:(?P<password>[^/@#]+)@", re.IGNORECASE)
SECRET = re.compile(r"\$\{\w+\}")


@dataclass(frozen=True, init=False)
class Dataset:
    """A table with its declared domain, its policy and its budget. No policy means that everything is secret."""

    name: str
    source: str
    domain: Domain
    policy: Policy
    epsilon: Fraction
    per_analyst: Fraction | None
    joins: tuple[Join, ...]
    accounting: str
    pad_to: Fraction | None

    def __init__(
        self,
        name: str,
        *,
        source: str,
        domain: Domain | Mapping[str, Attribute | Sequence[str]],
        policy: Policy | None = None,
        epsilon: Number = USUAL_EPSILON,
        per_analyst: Number | None = None,
        joins: Sequence[Join] = (),
        accounting: str = SUM,
        pad_to: Number | None = None,
    ) -> None:
        check_text(name, "a dataset's name")
        if name != name.strip() or "/" in name or name in (".", ".."):
            raise CatalogError(
                "a dataset's name holds no /, begins and ends with no space and is not made of dots alone, so that "
                "addresses can name it"
            )
        if not isinstance(source, str) or not source:
            raise CatalogError("a source is an address such as duckdb:///shop.duckdb#sales")
        own = None if per_analyst is None else short_number(per_analyst, "per_analyst")
        found: dict[str, object] = {
            "name": name,
            "source": source,
            "domain": domain if isinstance(domain, Domain) else make_domain(domain),
            "policy": Policy() if policy is None else policy,
            "epsilon": short_number(epsilon, "epsilon"),
            "per_analyst": own,
            "joins": tuple(joins),
            "accounting": accounting,
            "pad_to": None if pad_to is None else short_number(pad_to, "pad_to"),
        }
        for field, value in found.items():
            object.__setattr__(self, field, value)
        if self.epsilon < 0 or (own is not None and own < 0):
            raise CatalogError("budgets are not negative")
        password = PASSWORD.match(source)
        if password and not SECRET.fullmatch(password["password"]):
            raise CatalogError(
                "a password does not belong into the configuration: write ${NAME} in its place and set NAME in the "
                "environment"
            )
        self.policy.check(self.domain)
        moves_at_once(self.domain, self.policy)
        check_accounting(accounting)
        if self.pad_to is not None:
            check_step(self.pad_to)
        side_by_side = parallel_attribute(accounting)
        if side_by_side is not None:
            check_parallel(self.domain, self.policy, side_by_side)

    def declared_as(
        self, *, domain: Domain | None = None, policy: Policy | None = None, joins: Sequence[Join] | None = None
    ) -> Dataset:
        """The same data and budgets with another domain, policy or joins."""
        return replace(
            self,
            domain=self.domain if domain is None else domain,
            policy=self.policy if policy is None else policy,
            joins=self.joins if joins is None else tuple(joins),
        )

    def as_recorded(self, domain: Domain, policy: Policy, joins: Sequence[Join]) -> Dataset:
        """The same data as the ledger has it in force, though the policy may be one that is refused by now.

        It can be looked at and replaced. Whatever else is made of it is checked again, and so is every release.
        """
        found = object.__new__(Dataset)
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in {**own, "domain": domain, "policy": policy, "joins": tuple(joins)}.items():
            object.__setattr__(found, name, value)
        return found

    def accounted(self, accounting: str) -> Dataset:
        """The same dataset with another way of accounting."""
        return replace(self, accounting=accounting)

    def limited_to(self, epsilon: Fraction, per_analyst: Fraction | None) -> Dataset:
        """The same dataset with other budgets."""
        return replace(self, epsilon=epsilon, per_analyst=per_analyst)

    def policy_document(self) -> str:
        """The policy as the ledger keeps it."""
        return self._policy_document

    def domain_document(self) -> str:
        """The domain and the joins that feed it, as the ledger keeps them."""
        return self._domain_document

    @cached_property
    def _policy_document(self) -> str:
        return json.dumps(write_policy(self.policy), sort_keys=True, ensure_ascii=False)

    @cached_property
    def _domain_document(self) -> str:
        return json.dumps(
            {"attributes": write_domain(self.domain), "joins": [write_join(join) for join in self.joins]},
            sort_keys=True,
            ensure_ascii=False,
        )

    def written(self) -> dict[str, Any]:
        """The dataset as its table in the configuration."""
        entry: dict[str, Any] = {"source": self.source, "epsilon": show(self.epsilon)}
        if self.per_analyst is not None:
            entry["per_analyst"] = show(self.per_analyst)
        if self.accounting != SUM:
            entry["accounting"] = self.accounting
        if self.pad_to is not None:
            entry["pad_to"] = show(self.pad_to)
        entry["domain"] = write_domain(self.domain)
        entry["policy"] = write_policy(self.policy)
        if self.joins:
            entry["joins"] = [write_join(join) for join in self.joins]
        return entry


def write_join(join: Join) -> dict[str, Any]:
    """A join as its table in the configuration."""
    return {
        "table": join.table,
        "foreign_key": join.foreign_key,
        "key": join.key,
        "attributes": dict(join.attributes),
    }
