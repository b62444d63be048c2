"""The three roles, and which of them may do what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["curator", "analyst", "auditor"]
ROLES: tuple[Role, ...] = get_args(Role)
Scope = Literal["ask", "curate", "audit"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
SCOPES_OF: dict[Role, frozenset[Scope]] = {
    "curator": frozenset({"curate", "audit"}),
    "analyst": frozenset({"ask"}),
    "auditor": frozenset({"audit"}),
}
"""What each role may do; a token may do less, never more."""


@dataclass(frozen=True)
class Visitor:
    """Somebody who has shown who they are. `proof` must come with every change made from a browser."""

    name: str
    role: Role
    scopes: frozenset[Scope]
    proof: str | None = None
    must_change: bool = False

    def may(self, *scopes: Scope) -> bool:
        """Whether this visitor has one of these rights; nobody has any whose first password is still in use."""
        return not self.must_change and not self.scopes.isdisjoint(scopes)
