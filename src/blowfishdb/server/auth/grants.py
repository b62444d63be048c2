"""Who may do what: the role of an account, and the roles that people and groups were granted on each dataset."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, get_args

from blowfishdb.errors import InvalidInput
from blowfishdb.ledger.values import check_text
from blowfishdb.server.auth.database import AuthCursor, AuthRow, Database

Role = Literal["curator", "analyst", "auditor"]
ROLES: tuple[Role, ...] = get_args(Role)
Scope = Literal["ask", "curate", "audit"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
SCOPES_OF: dict[Role, frozenset[Scope]] = {
    "curator": frozenset({"curate", "audit"}),
    "analyst": frozenset({"ask"}),
    "auditor": frozenset({"audit"}),
}
"""What each role may do, with an account or on one dataset; a token may do less, never more."""
GROUP = "@"
"""What the name of a group begins with."""
ACCOUNTS: dict[str, Role] = {f"{GROUP}{role}s": role for role in ROLES}
"""Groups that nobody fills: all accounts of a role."""
CURATORS: Mapping[str, frozenset[Role]] = {f"{GROUP}curators": frozenset({"curator"})}
EVERYONE: Mapping[str, frozenset[Role]] = {group: frozenset({role}) for group, role in ACCOUNTS.items()}
"""Who holds a dataset of which nothing was granted yet, by the setting `new_datasets`."""
PROVIDED = f"{GROUP}oidc:"
"""What the name of a group begins with that an OpenID provider fills."""
MOST_PROVIDED = 200
LONGEST_GROUP = 100
FRESH_SECONDS = 1.0
"""How long grants are kept in memory: until then another server's changes do not hold here; this one's hold at once."""
MOST_MEMBERS = 1000


def role_of(role: str) -> Role:
    """The role of that name; InvalidInput when there is none."""
    for known in ROLES:
        if role == known:
            return known
    raise InvalidInput(f"a role is one of {', '.join(ROLES)}")


@dataclass(frozen=True)
class Principal:
    """Somebody who has shown who they are. `csrf_token` must come with every change made from a browser."""

    name: str
    role: Role
    scopes: frozenset[Scope]
    """What they may do with their account or on some dataset."""
    csrf_token: str | None = None
    must_change: bool = False
    token: str | None = None
    """The id of the token by which they did, if it was one."""

    def may(self, *scopes: Scope) -> bool:
        """Whether this user has one of these rights anywhere; nobody has any whose first password is still in use."""
        return not self.must_change and not self.scopes.isdisjoint(scopes)

    def may_everywhere(self, *scopes: Scope) -> bool:
        """Whether their account itself has one of these rights, for what belongs to no dataset."""
        return self.may(*SCOPES_OF[self.role].intersection(scopes))


@dataclass(frozen=True)
class Grant:
    """A role on one dataset, and who has it: a user, or a group whose name begins with @."""

    dataset: str
    holder: str
    role: Role
    by: str = ""
    at: str = ""
    epsilon: Fraction | None = None
    """What each who holds it may spend, where it came with a limit."""


@dataclass(frozen=True)
class Granted:
    """All grants and groups at one moment."""

    roles: Mapping[str, Mapping[str, frozenset[Role]]]
    """The roles of each holder, by dataset."""
    groups: Mapping[str, frozenset[str]]
    """The groups of each user."""
    read: float

    def holders(self, name: str, role: Role) -> frozenset[str]:
        """The names under which somebody may have been granted something."""
        # A name of before there were groups may look like one.
        person = frozenset() if name.startswith(GROUP) else frozenset({name})
        return person | self.groups.get(name, frozenset()) | {f"{GROUP}{role}s"}


@dataclass(frozen=True, eq=False)
class Grants:
    """The grants of all datasets and the groups of users; `usual` holds datasets of which nothing was granted."""

    database: Database
    usual: Mapping[str, frozenset[Role]] = field(default_factory=lambda: CURATORS)
    seconds: Callable[[], float] = time.monotonic
    _now: list[Granted] = field(default_factory=list, repr=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def may(self, identity: Principal, dataset: str, *scopes: Scope) -> bool:
        """Whether somebody has one of these rights on a dataset, by their roles there and with the token they sent.

        Every face asks here, or gets a session or a curator's side that did, and decides nothing by itself.
        """
        allowed = identity.scopes.intersection(scopes)
        return not identity.must_change and self.sees(identity, dataset, *allowed)

    def sees(self, identity: Principal, dataset: str, *scopes: Scope) -> bool:
        """Whether somebody's roles on a dataset include one of these rights, whatever their token may do."""
        now = self.now()
        held = now.roles.get(dataset, self.usual)
        roles = (role for holder in now.holders(identity.name, identity.role) for role in held.get(holder, ()))
        return not _scopes_of(roles).isdisjoint(scopes)

    def scopes(self, name: str, role: Role) -> frozenset[Scope]:
        """What somebody may do with their account or on some dataset."""
        now = self.now()
        holders = now.holders(name, role)
        granted = _scopes_of(one for held in now.roles.values() for holder in holders for one in held.get(holder, ()))
        return SCOPES_OF[role] | granted

    def of(self, dataset: str) -> list[Grant]:
        """The grants of a dataset, by holder; those that hold because nothing was granted yet have no date."""
        return self._of(self.database, dataset)

    def _of(self, database: Database | AuthCursor, dataset: str) -> list[Grant]:
        grants = _grants(database.rows(f"{GRANTS} WHERE dataset = ? ORDER BY holder, role", dataset))
        return grants or [Grant(dataset, holder, role) for holder, roles in self.usual.items() for role in roles]

    def has_analysts(self, dataset: str) -> bool:
        """Whether anybody may ask questions about a dataset."""
        return any(grant.role == "analyst" for grant in self.of(dataset))

    def to(self, holder: str) -> list[Grant]:
        """What a user or a group was granted, as such."""
        return _grants(self.database.rows(f"{GRANTS} WHERE holder = ? ORDER BY dataset, role", holder))

    def give(self, dataset: str, holder: str, role: str, *, by: str, epsilon: Fraction | None = None) -> Grant:
        """Grants a role on a dataset to a user or a group; to analysts perhaps with what each may spend."""
        grant = Grant(dataset, holder, role_of(role), by, self.database.clock.text(), epsilon)
        if epsilon is not None and (grant.role != "analyst" or holder in ACCOUNTS or epsilon < 0):
            raise InvalidInput(
                "a limit is an epsilon of 0 or more, for an analyst or a group of some; for all accounts there is the "
                "limit of everyone"
            )
        table, kind = ("user_group", "group") if holder.startswith(GROUP) else ("users", "user")
        with self._changing() as cursor:
            is_known = holder in ACCOUNTS or holder.startswith(PROVIDED)
            if not is_known and cursor.row(f"SELECT 1 FROM {table} WHERE name = ?", holder) is None:
                raise InvalidInput(f"there is no {kind} {holder!r}")
            rest = [one for one in self._of(cursor, dataset) if (one.holder, one.role) != (holder, grant.role)]
            _write(cursor, dataset, [*rest, grant])
        return grant

    def take(self, dataset: str, holder: str, role: str | None = None) -> list[Grant]:
        """Takes a role on a dataset away from a user or a group, or all of theirs; gives what was taken."""
        with self._changing() as cursor:
            before = self._of(cursor, dataset)
            taken = [one for one in before if one.holder == holder and role in (None, one.role)]
            rest = [one for one in before if one not in taken]
            if not taken:
                raise InvalidInput(f"{holder} has no such role on {dataset}")
            if not any(one.role == "curator" for one in rest):
                raise InvalidInput(f"{dataset} keeps a curator: make somebody else its curator first")
            _write(cursor, dataset, rest)
        return taken

    def hand_over(self, dataset: str, curator: str, *, everyone: bool) -> None:
        """Makes somebody the curator of a new dataset, which all accounts may use by their roles, or nobody else."""
        at = self.database.clock.text()
        groups = EVERYONE if everyone else {}
        grants = [Grant(dataset, group, role, curator, at) for group, roles in groups.items() for role in roles]
        with self._changing() as cursor:
            _write(cursor, dataset, [Grant(dataset, curator, "curator", curator, at), *grants])

    def forget(self, dataset: str) -> None:
        """Drops the grants of a dataset that is gone, so that another one of its name does not inherit them."""
        with self._changing() as cursor:
            _write(cursor, dataset, [])

    def keep_open(self, datasets: Iterable[str]) -> bool:
        """Leaves the datasets of an installation from before there were grants to all accounts, once; whether it did.

        An installation is from before when its users are and no word says since when there have been grants.
        """
        at = self.database.clock.text()
        with self._changing() as cursor:
            if cursor.rows("SELECT 1 FROM grants_since"):
                return False
            for dataset in datasets:
                held = [(group, role) for group, roles in EVERYONE.items() for role in roles]
                _write(cursor, dataset, [Grant(dataset, group, role, "upgrade", at) for group, role in held])
            cursor.insert("grants_since", {"at": at})
        return True

    # --- groups

    def groups(self) -> dict[str, list[str]]:
        """The members of each group."""
        groups: dict[str, list[str]] = {}
        for row in self.database.rows("SELECT name, member FROM user_group ORDER BY name, member"):
            groups.setdefault(row["name"], []).append(row["member"])
        return groups

    def set_group(self, group: str, members: Iterable[str]) -> list[str]:
        """Gives a group its members; gives those who are new. One without members holds nothing for anybody."""
        check_text(group, "the name of a group", LONGEST_GROUP)
        wanted = sorted(set(members))
        if not group.startswith(GROUP) or group == GROUP or "/" in group or group != group.strip():
            raise InvalidInput(f"the name of a group begins with {GROUP} and holds no /, as in {GROUP}cardiology")
        if group in ACCOUNTS:
            raise InvalidInput(f"{group} are all accounts of that role; choose another name")
        if group.startswith(PROVIDED):
            raise InvalidInput(f"the OpenID provider fills {group}; choose another name")
        if len(wanted) > MOST_MEMBERS:
            raise InvalidInput(f"a group has at most {MOST_MEMBERS} members")
        with self._changing() as cursor:
            for member in wanted:
                if cursor.row("SELECT 1 FROM users WHERE name = ?", member) is None:
                    raise InvalidInput(f"there is no user {member!r}")
            before = {row["member"] for row in cursor.rows("SELECT member FROM user_group WHERE name = ?", group)}
            cursor.rows("DELETE FROM user_group WHERE name = ?", group)
            for member in wanted:
                cursor.insert("user_group", {"name": group, "member": member})
        return [member for member in wanted if member not in before]

    def follow_provider(self, member: str, claimed: Iterable[str]) -> list[str]:
        """Makes somebody a member of the groups that an OpenID provider names, and of no others of its groups.

        They are called @oidc: and the provider's name; a name that no group can have is left out.
        """
        names = {f"{PROVIDED}{name}" for name in claimed if name and name == name.strip() and "/" not in name}
        wanted = sorted(name for name in names if len(name) <= LONGEST_GROUP and name.isprintable())[:MOST_PROVIDED]
        with self._changing() as cursor:
            for row in cursor.rows("SELECT name FROM user_group WHERE member = ?", member):
                if row["name"].startswith(PROVIDED):
                    cursor.rows("DELETE FROM user_group WHERE name = ? AND member = ?", row["name"], member)
            for name in wanted:
                cursor.insert("user_group", {"name": name, "member": member})
        return wanted

    # --- inside

    def now(self) -> Granted:
        """All grants as they were a moment ago at most."""
        with self._turn:
            if not self._now or self.seconds() - self._now[0].read >= FRESH_SECONDS:
                self._now[:] = [self._read()]
            return self._now[0]

    def _read(self) -> Granted:
        read = self.seconds()
        with self.database.read() as cursor:
            grants = cursor.rows("SELECT dataset, holder, role FROM dataset_grant")
            members = cursor.rows("SELECT name, member FROM user_group")
        roles: dict[str, dict[str, frozenset[Role]]] = {}
        for row in grants:
            held = roles.setdefault(row["dataset"], {})
            held[row["holder"]] = held.get(row["holder"], frozenset()) | {role_of(row["role"])}
        groups: dict[str, frozenset[str]] = {}
        for row in members:
            groups[row["member"]] = groups.get(row["member"], frozenset()) | {row["name"]}
        before = self._now[0] if self._now else None
        if before is not None and (before.roles, before.groups) == (roles, groups):
            # What follows from them need not be worked out again.
            return replace(before, read=read)
        return Granted(roles, groups, read)

    @contextmanager
    def _changing(self) -> Iterator[AuthCursor]:
        """One transaction, after which grants are read anew."""
        with self.database.write() as cursor:
            yield cursor
        with self._turn:
            self._now.clear()


def _scopes_of(roles: Iterable[Role]) -> frozenset[Scope]:
    return frozenset(scope for role in roles for scope in SCOPES_OF[role])


GRANTS = 'SELECT dataset, holder, role, given_by AS "by", at, epsilon FROM dataset_grant'


def _grants(rows: Sequence[AuthRow]) -> list[Grant]:
    limits = [None if row["epsilon"] is None else Fraction(row["epsilon"]) for row in rows]
    return [
        Grant(**row | {"role": role_of(row["role"]), "epsilon": limit}) for row, limit in zip(rows, limits, strict=True)
    ]


def _write(cursor: AuthCursor, dataset: str, grants: Iterable[Grant]) -> None:
    """Replaces the grants of a dataset."""
    cursor.rows("DELETE FROM dataset_grant WHERE dataset = ?", dataset)
    for one in grants:
        limit = None if one.epsilon is None else str(one.epsilon)
        row = {"dataset": dataset, "holder": one.holder, "role": one.role, "given_by": one.by, "at": one.at}
        cursor.insert("dataset_grant", row | {"epsilon": limit})
