"""A ledger in PostgreSQL whose server dies and whose standby takes over, again and again."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tools.database_servers import PostgresServer, follow, memory_folder, postgres_server, standby_of
from tools.faults.lab import POSTGRES, Lab, Outcome

NAME = "follower"
LOOSE = {"max_connections": "200", "cluster_name": NAME}
"""The standby may lag behind."""
SYNCHRONOUS = {**LOOSE, "synchronous_standby_names": NAME}
"""A commit returns when the standby has it, too."""
BETWEEN = (0.5, 2.0)


@dataclass
class Pair:
    """A primary and the standby that has all it committed."""

    primary: PostgresServer
    standby: PostgresServer

    def url(self, database: str) -> str:
        """An address that finds whichever of the two takes writes."""
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in (self.primary, self.standby))
        return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write"

    def fail_over(self) -> None:
        """Kills the primary, promotes the standby, and makes the dead one follow it with nothing of its own left."""
        self.primary.stop(signal.SIGKILL)
        self.promote()
        follow(self.primary, self.standby)

    def promote(self) -> None:
        """Makes the standby the one that takes writes."""
        import psycopg

        with psycopg.connect(self.standby.url, autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")
        self.primary, self.standby = self.standby, self.primary


@contextmanager
def running_pair(settings: Mapping[str, str] = SYNCHRONOUS) -> Iterator[Pair]:
    """Two servers, the second a standby of the first."""
    place = memory_folder()
    with postgres_server(settings, place) as primary, standby_of(primary, settings, place) as standby:
        follow(primary, standby)
        yield Pair(primary, standby)


def failed_over(lab: Lab) -> Iterator[Outcome]:
    """The server of the ledger is killed, its synchronous standby takes over, and the dead one follows it."""
    import psycopg

    with running_pair() as pair:
        with psycopg.connect(pair.url("postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE clinic")
        place = lab.place(POSTGRES, url=pair.url("clinic"))

        def strike() -> int:
            pair.fail_over()
            return 1

        yield lab.struck("fail-over to a standby", place, strike, BETWEEN)
