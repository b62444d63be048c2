"""The three roles, and which of them may do what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from blowfishdb.errors import NotAllowed

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

    def require(self, scope: Scope) -> None:
        """NotAllowed unless this visitor may do such things."""
        if scope not in self.scopes or self.must_change:
            raise NotAllowed(scope)
