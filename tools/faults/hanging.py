"""Engines whose network swallows packets while they count: counts end by their deadline, and retries are free."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from urllib.parse import urlsplit
from urllib.request import urlopen

from tools.clickhouse_server import running_clickhouse
from tools.database_servers import PASSWORD as SECRET
from tools.database_servers import running_mariadb
from tools.faults.lab import SQLITE, Lab, Outcome
from tools.faults.swarm import ROWS
from tools.silent_proxy import silent_proxy

SETTINGS = "longest_count = 1\n"
SILENCE, BETWEEN = (0.2, 3.0), (0.02, 0.3)
"""Seconds without and with a network; some silences are longer than a count may take."""
VARIABLE = "BLOWFISH_FAULTS_PASSWORD"
"""Where the password of the data is: a configuration holds none."""
RELEASES, SHARE = 8, 25
"""The fewest releases of a row, and the part of the usual number: each silence makes some of them wait for seconds."""
ROW = "('A1'), ('A2'), ('A3')"


@contextmanager
def _postgres(lab: Lab) -> Iterator[str]:
    import psycopg

    url = lab.database("silent")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE visits (ward TEXT)")
        for _ in range(ROWS // 3):
            connection.execute(f"INSERT INTO visits VALUES {ROW}".encode())
    yield url


@contextmanager
def _mariadb(lab: Lab) -> Iterator[str]:
    del lab
    import pymysql

    with running_mariadb() as url:
        parts = urlsplit(url)
        connection = pymysql.connect(
            host=parts.hostname,
            port=parts.port or 0,
            user=parts.username,
            password=parts.password or "",
            database=parts.path[1:],
            autocommit=True,
        )
        with connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE visits (ward VARCHAR(2))")
            for _ in range(ROWS // 3):
                cursor.execute(f"INSERT INTO visits VALUES {ROW}")
        yield url


@contextmanager
def _clickhouse(lab: Lab) -> Iterator[str]:
    with running_clickhouse(lab.folder / "clickhouse") as url:
        for sql in (
            "CREATE DATABASE IF NOT EXISTS default",
            "CREATE TABLE default.visits (ward String) ENGINE = MergeTree ORDER BY ward",
            f"INSERT INTO default.visits VALUES {', '.join([ROW] * (ROWS // 3))}",
        ):
            urlopen(url.replace("clickhouse://", "http://"), sql.encode()).close()
        yield url


ENGINES: dict[str, Callable[[Lab], AbstractContextManager[str]]] = {
    "PostgreSQL": _postgres,
    "MariaDB": _mariadb,
    "ClickHouse": _clickhouse,
}


def silent_engines(lab: Lab) -> Iterator[Outcome]:
    """The network between clients and the data swallows packets for moments, in the middle of counts as well."""
    os.environ[VARIABLE] = SECRET
    for engine, running in ENGINES.items():
        with running(lab) as url:
            port = urlsplit(url).port or 0
            with silent_proxy(port) as proxy:
                source = f"{url.replace(f':{port}/', f':{proxy.port}/')}#visits".replace(
                    f":{SECRET}@", f":${{{VARIABLE}}}@"
                )
                releases = max(RELEASES, lab.releases // SHARE)
                place = lab.place(SQLITE, releases, source=source, settings=SETTINGS)

                def strike(
                    swallow: Callable[[], None] = proxy.swallow, forward: Callable[[], None] = proxy.forward
                ) -> int:
                    swallow()
                    time.sleep(lab.chance.uniform(*SILENCE))
                    forward()
                    return 1

                plan = replace(lab.plan(place), environment={VARIABLE: SECRET})
                yield lab.struck(f"{engine} with the data goes silent", place, strike, BETWEEN, plan)
