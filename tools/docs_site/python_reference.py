"""The page of the Python face: every public name, described by its own docstrings."""

from __future__ import annotations

import blowfishdb as bf
from blowfishdb import analysis
from blowfishdb.plan.certificate import Certificate
from blowfishdb.session.backend import Budget
from blowfishdb.session.table import Question, Table
from tools.docs_site.words import NOTE

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Asking", ("connect", "Session", "col", "Aggregate", "Preview", "Answer", "compare", "Synopsis", "open_synopsis")),
    ("Curating", ("curate", "Curator", "Dataset", "Join")),
    ("Domains", ("domain", "integers", "bins", "categorical", "dates", "timestamps")),
    (
        "Policies",
        (
            *("Policy", "person", "full", "threshold", "line", "partition", "grid", "custom", "public", "metric"),
            *(
                "read_edges",
                "read_distances",
                "count_constraint",
                "range_constraint",
                "marginal_constraint",
                "rows_constraint",
                "explain",
            ),
        ),
    ),
    ("Documents", ("read_document", "write_document")),
    ("Without a session", ("query", "compile_query", "quote", "accuracy_at", "certify", "MECHANISMS")),
)
ANALYSIS = "analysis"
MORE: tuple[type, ...] = (Table, Question, Budget, Certificate)
"""Objects that no name of the package makes, but that its functions give."""


def home_of(name: str) -> str:
    """Where a public name is defined, as the package itself says."""
    return f"blowfishdb.{bf._MODULE_OF[name]}.{name}"


def page() -> str:
    """Every public name, by what it is for."""
    parts = ["# Python", NOTE, "`import blowfishdb as bf`; [asking from Python](../python.md) is the guide."]
    for title, names in GROUPS:
        parts.append(f"## {title}")
        parts += [f"::: {home_of(name)}" for name in names]
    parts.append("## What they give")
    parts += [f"::: {one.__module__}.{one.__qualname__}" for one in MORE]
    parts.append("## bf.analysis")
    parts += [f"::: blowfishdb.analysis.{home}.{name}" for home, name in analysis_names()]
    return "\n\n".join(parts)


def analysis_names() -> list[tuple[str, str]]:
    """The public names of `bf.analysis`, each with its module."""
    return [(getattr(analysis, name).__module__.rpartition(".")[2], name) for name in analysis.__all__]
