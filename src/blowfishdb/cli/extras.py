"""Which extra installs a package that a command turned out to need."""

from __future__ import annotations

from blowfishdb.errors import ExtraMissing

EXTRA_OF = {
    **dict.fromkeys(("argon2", "fastapi", "nicegui", "starlette", "uvicorn"), "server"),
    "httpx": "client",
    "joserfc": "oidc",
    "matplotlib": "plot",
    **dict.fromkeys(("pandas", "polars"), "frames"),
    "psycopg": "postgres",
    "pymysql": "mysql",
    "pyspark": "spark",
}
"""Packages that only extras bring, by the names they are imported under."""


def missing_extra(fault: ModuleNotFoundError) -> ExtraMissing | None:
    """What to install for a module that was not found; None where no extra brings it, which is a fault of ours."""
    package = (fault.name or "").partition(".")[0]
    return ExtraMissing(package, EXTRA_OF[package]) if package in EXTRA_OF else None
