"""AppState: everything a server has open, handed out by role. Pages and routes use it and nothing else."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from blowfishdb.catalog.catalog import Catalog, LiveCatalog
from blowfishdb.catalog.config import read_config
from blowfishdb.catalog.curator import Curator
from blowfishdb.engine.compile import compile_query
from blowfishdb.errors import BlowfishError
from blowfishdb.model.query import query
from blowfishdb.server.auth.audit_log import AuditLog, Pauses
from blowfishdb.server.auth.database import Clock, Database, open_database
from blowfishdb.server.auth.session import LoginSessions
from blowfishdb.server.auth.users import Tokens, Users
from blowfishdb.server.heavy_work import HeavyWork
from blowfishdb.server.settings import Settings, read_settings
from blowfishdb.session.backend import Backend
from blowfishdb.session.local import checked_name, local_backend
from blowfishdb.session.quote_cache import QuoteCache
from blowfishdb.session.session import Session


@dataclass(frozen=True, eq=False)
class AppState:
    """One configuration with its ledger and its users. An analyst's page or route gets a session, never a curator."""

    settings: Settings
    users: Users
    logins: LoginSessions
    tokens: Tokens
    audit_log: AuditLog
    pauses: Pauses
    _live: LiveCatalog = field(repr=False)
    _database: Database = field(repr=False)
    heavy_work: HeavyWork = field(default_factory=HeavyWork, repr=False)
    _quotes: QuoteCache = field(default_factory=QuoteCache, repr=False)
    _backends: dict[str, Backend] = field(default_factory=dict, repr=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def backend(self, analyst: str) -> Backend:
        """The backend of one analyst; all backends share one ledger and the same sources."""
        name = checked_name(analyst)
        with self._turn:
            if name not in self._backends:
                compute = partial(self.heavy_work.compute, name)
                self._backends[name] = local_backend(self._live, name, self.pauses.check, self._quotes, compute)
            return self._backends[name]

    def session(self, analyst: str) -> Session:
        """The session of one analyst; closing it closes nothing that others use."""
        backend = self.backend(analyst)
        return Session(backend.analyst, backend)

    def curator(self, by: str) -> Curator:
        """The curator's side in somebody's name, for those who may curate or audit; make one for each piece of work."""
        now = self._live.now()
        # Sources of its own: a curator opens some that are not in force yet.
        config = replace(now.config, variables=self.settings.variables)
        catalog = Catalog(config, now.ledger, dict(now.sources))
        return Curator(catalog, by, shares_ledger=True, compute=partial(self.heavy_work.compute, by))

    def check_ready(self) -> None:
        """LedgerUnavailable or AccountsUnavailable while the ledger or the database of users does not answer."""
        self._live.now().ledger.head()
        self.users.all()

    def warm_up(self) -> None:
        """Writes a statement for each dataset and runs none, so that the first question does not wait for imports."""
        for name in self._live.now().config.datasets:
            with suppress(BlowfishError):
                handle = self._live.now().handle(name)
                counted = compile_query(handle.domain, handle.policy, query("count"))
                handle.source.prepare(counted.cells, handle.policy.unit)

    def close(self) -> None:
        """Waits for releases that still run, then lets go of everything."""
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
    users = Users(database)
    return AppState(
        settings=settings,
        users=users,
        logins=LoginSessions(users, database),
        tokens=Tokens(users, database),
        audit_log=AuditLog(database),
        pauses=Pauses(database),
        _live=LiveCatalog(config),
        _database=database,
    )
