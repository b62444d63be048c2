"""BlowfishDB: policy-aware differentially private data exploration.

Names are loaded when first used, so that light commands start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blowfishdb.accuracy.quote import accuracy_at, quote
    from blowfishdb.catalog.curator import Curator, curate
    from blowfishdb.catalog.dataset import Dataset, read_distances, read_edges
    from blowfishdb.engine.answer import Answer
    from blowfishdb.engine.compile import compile_query
    from blowfishdb.engine.postprocess import compare
    from blowfishdb.engine.preview import Preview
    from blowfishdb.engine.synopsis import Synopsis, open_synopsis
    from blowfishdb.mechanisms.table import MECHANISMS
    from blowfishdb.model.aggregates import Aggregate
    from blowfishdb.model.calendar import dates, timestamps
    from blowfishdb.model.constraints import count_constraint, marginal_constraint, range_constraint, rows_constraint
    from blowfishdb.model.document import read_document, write_document
    from blowfishdb.model.domain import bins, categorical, domain, integers
    from blowfishdb.model.explain import explain
    from blowfishdb.model.policy import (
        Policy,
        custom,
        full,
        grid,
        joint,
        line,
        metric,
        partition,
        person,
        public,
        threshold,
    )
    from blowfishdb.model.predicate import col
    from blowfishdb.model.query import query
    from blowfishdb.plan.certificate import certify
    from blowfishdb.session.session import Session, connect
    from blowfishdb.sources.base import Join

_HOME = {
    "accuracy.quote": ("accuracy_at", "quote"),
    "catalog.curator": ("Curator", "curate"),
    "catalog.dataset": ("Dataset", "read_distances", "read_edges"),
    "engine.answer": ("Answer",),
    "engine.postprocess": ("compare",),
    "engine.compile": ("compile_query",),
    "engine.preview": ("Preview",),
    "engine.synopsis": ("Synopsis", "open_synopsis"),
    "mechanisms.table": ("MECHANISMS",),
    "model.aggregates": ("Aggregate",),
    "model.calendar": ("dates", "timestamps"),
    "model.document": ("read_document", "write_document"),
    "model.domain": ("bins", "categorical", "domain", "integers"),
    "model.explain": ("explain",),
    "model.constraints": ("count_constraint", "marginal_constraint", "range_constraint", "rows_constraint"),
    "model.policy": (
        "Policy",
        "custom",
        "full",
        "grid",
        "joint",
        "line",
        "metric",
        "partition",
        "person",
        "public",
        "threshold",
    ),
    "model.predicate": ("col",),
    "model.query": ("query",),
    "plan.certificate": ("certify",),
    "session.session": ("Session", "connect"),
    "sources.base": ("Join",),
}
_ROOMS = ("analysis",)
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "MECHANISMS",
    "Aggregate",
    "Answer",
    "Curator",
    "Dataset",
    "Join",
    "Policy",
    "Preview",
    "Session",
    "Synopsis",
    "accuracy_at",
    "analysis",
    "bins",
    "categorical",
    "certify",
    "col",
    "compare",
    "compile_query",
    "connect",
    "count_constraint",
    "curate",
    "custom",
    "dates",
    "domain",
    "explain",
    "full",
    "grid",
    "integers",
    "joint",
    "line",
    "marginal_constraint",
    "metric",
    "open_synopsis",
    "partition",
    "person",
    "public",
    "query",
    "quote",
    "range_constraint",
    "read_distances",
    "read_document",
    "read_edges",
    "rows_constraint",
    "threshold",
    "timestamps",
    "write_document",
]


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return import_module(f"blowfishdb.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"blowfishdb has no {name!r}")
    return getattr(import_module(f"blowfishdb.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
