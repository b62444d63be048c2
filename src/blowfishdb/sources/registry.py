"""Opens the source behind an address; engines are imported when they are used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

from blowfishdb.errors import SourceError
from blowfishdb.model.numbers import suggest
from blowfishdb.sources.base import Join, Source
from blowfishdb.sources.engine import Engine
from blowfishdb.sources.location import Location, TableName, parse_location

OpenEngine = Callable[[Location], tuple[Engine, TableName]]

SCHEMES = {
    "file": ("duckdb", "open_files"),
    "duckdb": ("duckdb", "open_database"),
    "sqlite": ("sqlite", "open_database"),
    "postgresql": ("postgres", "open_server"),
    "postgres": ("postgres", "open_server"),
    "mysql": ("mysql", "open_server"),
    "mariadb": ("mysql", "open_server"),
    "spark": ("spark", "open_session"),
    "trino": ("through_ibis", "open_connection"),
    "clickhouse": ("through_ibis", "open_connection"),
    "bigquery": ("through_ibis", "open_connection"),
    "snowflake": ("through_ibis", "open_connection"),
}
"""The module below `blowfishdb.sources` and the function that serve each scheme."""


def open_source(url: str, joins: Sequence[Join] = ()) -> Source:
    """The table at an address such as `duckdb:///shop.duckdb#sales`, `postgresql://host/db#t` or `data/*.parquet`."""
    from blowfishdb.sources.ibis_source import IbisSource

    location = parse_location(url)
    if location.scheme not in SCHEMES:
        known = suggest(location.scheme, [name for name in SCHEMES if name != "file"])
        raise SourceError(f"there is no scheme {location.scheme!r}; {known}")
    module, function = SCHEMES[location.scheme]
    open_engine: OpenEngine = getattr(importlib.import_module(f"blowfishdb.sources.{module}"), function)
    engine, table = open_engine(location)
    return IbisSource(engine, table, joins)
