"""The page of mechanisms, from the two tables that hold them."""

from __future__ import annotations

import sys
from pathlib import Path

from blowfishdb.mechanisms.data_aware.table import DATA_AWARE
from blowfishdb.mechanisms.table import CHOICES, MECHANISMS
from blowfishdb.plan.program import QuantilePlan
from tools.docs_site.words import NOTE, code, first_line, table

PROOFS = Path(__file__).resolve().parents[2] / "docs" / "proofs"
PROOF_OF = {
    "adaptive-tree": "region-trees",
    "dawa-bounded": "dawa",
    "exponential-quantiles": "quantiles",
    "matching-transform": "matching",
}
"""Mechanisms whose proof note has another name."""


def proof_of(name: str) -> str | None:
    """The proof note of a mechanism; None where there is none."""
    found = PROOF_OF.get(name, name)
    return found if (PROOFS / f"{found}.md").exists() else None


def page() -> str:
    """Each mechanism: what it does, which queries and policies it serves, its proof."""
    plain = [
        (code(name), _module_line(propose), first_line(propose), _link(name)) for name, propose in MECHANISMS.items()
    ]
    chosen = [(code(name), _module_line(QuantilePlan), _link(name)) for name in CHOICES]
    aware = [(code(name), first_line(type(one)), _link(name)) for name, one in DATA_AWARE.items()]
    return "\n\n".join(
        [
            "# Mechanisms",
            NOTE,
            "A mechanism proposes what to measure. It sees the query and the policy, never data, and it does not "
            "compute its own price: the certificate does. Name one with `mechanism=` or `--mechanism`; by default "
            "the best data-independent one runs.",
            "## Data-independent",
            "These mechanisms promise an accuracy before any data is read.",
            table(("name", "what it measures", "queries and policies", "proof"), plain),
            "## Choices",
            "These mechanisms choose an answer among all declared ones, and promise how far off it is in ranks.",
            table(("name", "what it chooses", "proof"), chosen),
            "## Data-aware",
            "These mechanisms spend part of their epsilon on finding where the data is uniform, and promise no "
            "accuracy: give an epsilon. [When to use them](../data-aware.md).",
            table(("name", "what it does", "proof"), aware),
            "`auto` is not a mechanism: it chooses one by "
            "[published rules](../data-aware.md#letting-the-rules-choose).",
        ]
    )


def _module_line(propose: object) -> str:
    text = first_line(sys.modules[str(getattr(propose, "__module__", ""))])
    return text.partition(": ")[2] or text


def _link(name: str) -> str:
    found = proof_of(name)
    return f"[{found}](../proofs/{found}.md)" if found else ""
