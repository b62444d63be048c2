"""Declarations over time: what past loss becomes when a policy changes, and whether what is written is what is read."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
from scipy.sparse.csgraph import shortest_path

from blowfishdb.audit.definitions import moves
from blowfishdb.audit.made_up import COMPOSITIONS, made_up, made_up_policy, one_of
from blowfishdb.audit.neighbours import Setting, sample_records
from blowfishdb.audit.verdicts import Line, judged
from blowfishdb.catalog.stretch import policy_stretch
from blowfishdb.errors import BlowfishError
from blowfishdb.model.arrays import Bools
from blowfishdb.model.document import Document, Format, read_document, write_document
from blowfishdb.model.domain import Categorical, Domain
from blowfishdb.model.graphs.families import Family, full, line, threshold
from blowfishdb.model.policy import ROW, Policy
from blowfishdb.model.predicate import Axis

MOST_RECORDS = 60
FORMATS: tuple[Format, ...] = ("toml", "json")


def declaration_lines(*, quick: bool, seed: int) -> list[Line]:
    """Made-up policies that take the place of others, and made-up documents."""
    random, changed, unlike = np.random.default_rng([seed, 31]), list[str](), list[str]()
    settings = 60 if quick else 200
    for _ in range(settings):
        asked = made_up(random)
        document = Document(asked.domain, asked.policy)
        unlike += [
            f"a declaration written as {form} is read as another one"
            for form in FORMATS
            if read_document(write_document(document, form), form) != document
        ]
        changed += _stretch_troubles(random, asked)
    return [
        judged("exact", "policies that change", "past loss", changed, "every new edge covered", settings),
        judged("exact", "declarations", "written and read", unlike, "nothing gets lost", len(FORMATS) * settings),
    ]


def _stretch_troubles(random: np.random.Generator, asked: Setting) -> list[str]:
    """Between two values that the new policy joins lie as many old steps as past loss is multiplied by, at most."""
    declared = asked.domain
    old, new = _connected(random, declared), made_up_policy(random, declared, with_facts=False)
    # Where joint thresholds change, or old values were not hidden at all, nothing is carried over: that is no test.
    new = replace(_connected(random, declared) if new.joint else new, unit=ROW)
    try:
        factor = policy_stretch(declared, old, new).factor
    except BlowfishError:
        return []
    everyone = sample_records(
        Setting(declared, old, tuple(Axis(name) for name in declared.names), None),
        np.random.default_rng(1),
        MOST_RECORDS,
    )
    if factor is None or len(everyone) < math.prod(declared[name].total_size for name in declared.names):
        return []
    before, after = (_joined(declared_policy, asked, everyone) for declared_policy in (old, new))
    steps = shortest_path(before, unweighted=True)
    furthest = float(steps[after].max(initial=0.0))
    if furthest > factor:
        return [f"values {furthest:g} old steps apart are joined, past loss is multiplied by {factor}"]
    return []


def _connected(random: np.random.Generator, declared: Domain) -> Policy:
    """A policy under which one step after the other leads to every value."""
    families: dict[str, Family] = {}
    for name in declared.names:
        steps: tuple[Family, ...] = (line(), threshold(2), threshold(3), full())
        families[name] = full() if isinstance(declared[name], Categorical) else one_of(random, steps)
    return Policy(families, one_of(random, COMPOSITIONS), one_of(random, ("public", "public", "secret")))


def _joined(policy: Policy, asked: Setting, everyone: list[dict[str, int]]) -> Bools:
    """Which two records an edge joins, absence the last of them."""
    declared, size = policy.applied(asked.domain), len(everyone)
    found = np.zeros((size + 1, size + 1), dtype=np.bool_)
    for i, j in itertools.combinations(range(size), 2):
        found[i, j] = found[j, i] = moves(declared, policy, everyone[i], everyone[j])
    if policy.presence != "public":
        found[:size, size] = found[size, :size] = True
    return found
