"""Real servers for tests: started once a run, where a test asks for one, and thrown away at its end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tools.database_servers import running_mariadb, running_postgres

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL server on loopback; mark tests that use it with `pytest.mark.postgres`."""
    with running_postgres() as url:
        yield url


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[str]:
    """The address of a MariaDB database on loopback; mark tests that use it with `pytest.mark.mariadb`."""
    with running_mariadb() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """The address of an empty database of this test's own."""
    import psycopg

    name = f"test_{next(_NUMBERS)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return postgres_server.rsplit("/", 1)[0] + f"/{name}"
