"""A dataset as the engine holds it: the data's source, what is declared of it, and the account it pays from."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from blowfishdb.ledger.edge_books import SUM
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.sources.base import Source


@dataclass(frozen=True, eq=False)
class Holding:
    """Data with its domain, policy and account, at the versions in force. Never given to an analyst."""

    name: str
    domain: Domain
    policy: Policy
    account: str
    policy_version: int
    domain_version: int
    snapshot: int
    source: Source = field(repr=False)
    accounting: str = SUM
    pad_to: Fraction | None = None

    def versions(self) -> dict[str, str | int]:
        """What an answer belongs to: the account, the versions and the snapshot."""
        return {
            "account": self.account,
            "policy": self.policy_version,
            "domain": self.domain_version,
            "snapshot": self.snapshot,
        }
