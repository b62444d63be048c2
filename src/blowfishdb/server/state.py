"""AppState: everything a server has open, handed out by role. Pages and routes use it and nothing else."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from blowfishdb.catalog.catalog import Catalog, LiveCatalog
from blowfishdb.catalog.config import read_config
from blowfishdb.catalog.curator import Curator
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Run
from blowfishdb.engine.compile import compile_query
from blowfishdb.errors import BlowfishError, NotAllowed, SourceError, SourceFailed, SourcesUnavailable
from blowfishdb.incidents import curator_log, public_error
from blowfishdb.model.query import query
from blowfishdb.server.admission import Admission
from blowfishdb.server.auth.approvals import ApprovalGuard, Approvals
from blowfishdb.server.auth.audit_log import AuditEntry, AuditLog, Pauses
from blowfishdb.server.auth.database import Clock, Database, open_database
from blowfishdb.server.auth.grants import CURATORS, EVERYONE, SCOPES, Granted, Grants, Principal, Role, Scope
from blowfishdb.server.auth.session import LoginSessions
from blowfishdb.server.auth.users import Drafts, Tokens, Users
from blowfishdb.server.dashboards import Dashboards
from blowfishdb.server.settings import Settings, read_settings
from blowfishdb.server.worker_pools import HeavyWork, WorkerPools, waiting
from blowfishdb.session.backend import Backend, ReleaseRequest
from blowfishdb.session.local import QuoteCache, checked_name, local_backend
from blowfishdb.session.session import Session

PROBE_SECONDS = 10.0
"""How long an outcome of the probe counts."""
PROBE_PATIENCE, FIRST_PATIENCE = 2.0, 20.0
"""Seconds for which somebody waits for a probe, and for the first one, which loads drivers."""


@dataclass(eq=False)
class Probe:
    """A check that is made at most every few seconds, by one thread at a time; nobody waits for it long."""

    _made: float | None = None
    _fault: BlowfishError | None = None
    _thread: threading.Thread | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def check(self, work: Callable[[], BlowfishError | None]) -> None:
        """Raises what the last check found wrong; SourcesUnavailable while one takes too long."""
        with self._turn:
            is_fresh = self._made is not None and time.monotonic() - self._made < PROBE_SECONDS
            if not is_fresh and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
                self._thread.start()
            thread = self._thread
        if not is_fresh and thread is not None:
            thread.join(FIRST_PATIENCE if self._made is None else PROBE_PATIENCE)
            if thread.is_alive():
                raise SourcesUnavailable
        if self._fault is not None:
            raise self._fault.with_traceback(None)

    def _run(self, work: Callable[[], BlowfishError | None]) -> None:
        try:
            self._fault = work()
        except Exception as error:  # noqa: BLE001  # whatever it is, it may quote a row
            self._fault = public_error(error)
        self._made = time.monotonic()


METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True, eq=False)
class Metrics:
    """Counters of one server. For operators only: how long a release takes may depend on the data."""

    _requests: dict[tuple[str, str, int], int] = field(default_factory=lambda: defaultdict(int))
    _seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _within: dict[tuple[str, float], int] = field(default_factory=lambda: defaultdict(int))
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Notes one finished request."""
        with self._turn:
            self._requests[method if method in METHODS else "other", route, status] += 1
            self._seconds[route] += seconds
            for bucket in BUCKETS:
                if seconds <= bucket:
                    self._within[route, bucket] += 1

    def text(self) -> str:
        """Everything, one number per line."""
        with self._turn:
            requests, seconds, within = dict(self._requests), dict(self._seconds), dict(self._within)
        lines = ["# TYPE blowfish_requests_total counter"]
        lines += [
            f'blowfish_requests_total{{method="{method}",route="{route}",status="{status}"}} {number}'
            for (method, route, status), number in sorted(requests.items())
        ]
        lines.append("# TYPE blowfish_request_seconds histogram")
        for route in sorted(seconds):
            total = sum(number for (_, named, _), number in requests.items() if named == route)
            for bucket in BUCKETS:
                count = within.get((route, bucket), 0)
                lines.append(f'blowfish_request_seconds_bucket{{route="{route}",le="{bucket:g}"}} {count}')
            lines.append(f'blowfish_request_seconds_bucket{{route="{route}",le="+Inf"}} {total}')
            lines.append(f'blowfish_request_seconds_sum{{route="{route}"}} {seconds[route]:.6f}')
            lines.append(f'blowfish_request_seconds_count{{route="{route}"}} {total}')
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, eq=False)
class CatalogView:
    """What somebody sees of a catalog, and the grants by which they do."""

    catalog: Catalog
    granted: Granted
    seen: Catalog

    def is_of(self, catalog: Catalog, granted: Granted) -> bool:
        """Whether it was made of this very catalog, by these very grants."""
        roles, groups = self.granted.roles, self.granted.groups
        return self.catalog is catalog and roles is granted.roles and groups is granted.groups


@dataclass(frozen=True, eq=False)
class AppState:
    """One configuration with its ledger and its users. An analyst's page or route gets a session, never a curator.

    Whoever is served sees what they may see: `backend_of`, `session_of` and `curator_of` hide the rest.
    """

    settings: Settings
    users: Users
    grants: Grants
    approvals: Approvals
    logins: LoginSessions
    tokens: Tokens
    audit_log: AuditLog
    pauses: Pauses
    drafts: Drafts
    dashboards: Dashboards
    admission: Admission
    _live: LiveCatalog = field(repr=False)
    _database: Database = field(repr=False)
    heavy_work: HeavyWork = field(default_factory=HeavyWork, repr=False)
    worker_pools: WorkerPools = field(default_factory=WorkerPools, repr=False)
    metrics: Metrics = field(default_factory=Metrics, repr=False)
    _quotes: QuoteCache = field(default_factory=QuoteCache, repr=False)
    _backends: dict[tuple[str, object], Backend] = field(default_factory=dict, repr=False)
    _views: dict[tuple[str, Role, tuple[Scope, ...]], CatalogView] = field(default_factory=dict, repr=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _probe: Probe = field(default_factory=Probe, repr=False)

    def backend_of(self, identity: Principal, *scopes: Scope) -> Backend:
        """The backend of somebody over the datasets with one of these rights, or with any if none is named.

        To them every other dataset is one that was never declared.
        """
        wanted = scopes or SCOPES

        def gate(dataset: str) -> None:
            if not self.grants.sees(identity, dataset, "ask"):
                raise NotAllowed("ask", dataset)
            self.pauses.check(dataset)

        return self._backend(identity.name, (identity.role, wanted), lambda: self._seen(identity, wanted), gate)

    def session_of(self, identity: Principal, *scopes: Scope) -> Session:
        """The session of somebody over the same datasets; closing it closes nothing that others use."""
        return Session(self.backend_of(identity, *scopes))

    def curator_of(self, identity: Principal, scope: Scope = "audit") -> Curator:
        """The curator's side in somebody's name, of the datasets on which they have the right; one for each work."""
        return self.curator(identity.name, lambda dataset: self.grants.may(identity, dataset, scope))

    def seen_dataset(self, identity: Principal, name: str) -> str:
        """The dataset that a name belongs to; UnknownDataset for one that they may not see, as if it were not there."""
        catalog = self._seen(identity, SCOPES)
        return catalog.config.dataset(catalog.owner(name)).name

    def _seen(self, identity: Principal, scopes: tuple[Scope, ...]) -> Catalog:
        """The catalog of the datasets on which somebody has one of these rights; made anew when anything changed."""
        key = identity.name, identity.role, scopes
        catalog, granted = self._live.now(), self.grants.now()
        view = self._views.get(key)
        if view is None or not view.is_of(catalog, granted):
            seen = catalog.only(lambda dataset: self.grants.sees(identity, dataset, *scopes))
            view = self._views[key] = CatalogView(catalog, granted, seen)
        return view.seen

    def reads(self, identity: Principal, line: AuditEntry) -> bool:
        """Whether somebody may read a line of the audit log: about a dataset they audit, or with their account."""
        catalog = self._live.now()
        dataset = catalog.owner(line.target)
        if dataset in catalog.config.datasets:
            return self.grants.may(identity, dataset, "audit")
        return identity.may_everywhere("audit")

    # For the server's own work, whoever may see what; routes and pages use the three above.

    def backend(self, analyst: str) -> Backend:
        """The backend of one analyst over all datasets; all backends share one ledger and the same sources."""
        return self._backend(analyst, (), self._live.now, self.pauses.check)

    def session(self, analyst: str) -> Session:
        """The session of one analyst over all datasets."""
        return Session(self.backend(analyst))

    def curator(self, by: str, sees: Callable[[str], bool] = lambda _: True) -> Curator:
        """The curator's side in somebody's name, of the datasets that they see."""
        now = self._live.now()
        # Sources of its own: a curator opens some that are not in force yet.
        config = replace(now.config, variables=self.settings.variables)
        catalog = Catalog(config, now.ledger, dict(now.sources))
        compute = partial(self.heavy_work.compute, by)
        return Curator(catalog, by, shares_ledger=True, compute=compute, sees=sees)

    def _backend(
        self, analyst: str, rights: object, now: Callable[[], Catalog], gate: Callable[[str], None]
    ) -> Backend:
        name = checked_name(analyst)
        with self._turn:
            if (name, rights) not in self._backends:
                compute = partial(self.heavy_work.compute, name)
                backend = local_backend(now, name, gate, self._quotes, compute)
                self._backends[name, rights] = self._with_approvals(backend)
            return self._backends[name, rights]

    def _with_approvals(self, backend: Backend) -> Backend:
        """The same backend, which releases nothing that waits for a curator's yes."""

        def guarded(name: str, run: Run) -> ApprovalGuard:
            owner = self._live.now().owner(name)
            return ApprovalGuard(self.approvals, self.audit_log, owner, backend.analyst, run.before_charge)

        def payload(request: ReleaseRequest, run: Run) -> bytes:
            guard = guarded(request.dataset, run)
            return backend.payload(request, replace(run, before_charge=guard, waiting=waiting))

        def release_all(requests: Sequence[tuple[ReleaseRequest, Run]]) -> list[Answer]:
            first, run = requests[0]
            guard = guarded(first.dataset, run)
            runs = [(one, replace(run, before_charge=guard, waiting=waiting)) for one, run in requests]
            return backend.release_all(runs)

        return replace(backend, payload=payload, release_all=release_all)

    def check_ready(self) -> None:
        """An error while the ledger, the database of users or a data source does not answer; reads no rows."""
        self._live.now().ledger.head()
        self.users.all()
        self._probe.check(self._source_fault)

    def _source_fault(self) -> BlowfishError | None:
        """What the first source says that does not show its columns."""
        catalog = self._live.now()
        for name in catalog.config.datasets:
            try:
                catalog.handle(name).source.columns()
            except (SourceError, SourceFailed) as fault:
                curator_log.error("the data of %s cannot be reached: %s", name, fault.message)
                return SourcesUnavailable()
            except BlowfishError:
                # Its declaration is not in force, which is no fault of its source.
                continue
        return None

    def warm_up(self) -> None:
        """Writes a statement for each dataset and runs none, so that the first question does not wait for imports."""
        for name in self._live.now().config.datasets:
            with suppress(BlowfishError):
                handle = self._live.now().handle(name)
                counted = compile_query(handle.domain, handle.policy, query("count"))
                handle.source.prepare(counted.cells, handle.policy.unit)

    def end_counts(self) -> None:
        """Ends counts that still run, which are answered when they are asked again, and begins no more."""
        self._live.end_counts()

    def close(self) -> None:
        """Ends counts that still run, then lets go of everything."""
        self.end_counts()
        with self._turn:
            for backend in self._backends.values():
                backend.close()
            self._backends.clear()
        self.heavy_work.close()
        self._live.close()
        self._database.close()


def open_app_state(config: str | Path, clock: Clock | None = None, settings: Settings | None = None) -> AppState:
    """The app state of a configuration file, with the settings that it has or with others."""
    settings = settings or read_settings(read_config(config))
    database = open_database(settings.users_url(), clock)
    grants = Grants(database, EVERYONE if settings.new_datasets == "everyone" else CURATORS)
    users, audit_log, live = Users(database, grants), AuditLog(database), LiveCatalog(config)
    if grants.keep_open(live.now().config.datasets):
        audit_log.note("upgrade", "left all datasets to all accounts by their roles")
    return AppState(
        settings=settings,
        users=users,
        grants=grants,
        approvals=Approvals(database),
        logins=LoginSessions(users, database),
        tokens=Tokens(users, database),
        audit_log=audit_log,
        pauses=Pauses(database),
        drafts=Drafts(database),
        dashboards=Dashboards(database),
        admission=Admission(settings),
        _live=live,
        _database=database,
    )
