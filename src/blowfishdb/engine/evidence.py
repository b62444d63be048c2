"""What an answer carries so that anybody can work its certificate out again, offline and without data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from blowfishdb.accuracy.setting import certified_strategy
from blowfishdb.engine.compiled import Compiled, compile_query
from blowfishdb.engine.read_query import read_query
from blowfishdb.engine.written_query import write_query
from blowfishdb.errors import BlowfishError, DigestMismatch
from blowfishdb.mechanisms.data_aware.table import DATA_AWARE
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.document import Document, read_document, write_document
from blowfishdb.model.domain import Domain
from blowfishdb.model.encoding import VERSION
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query
from blowfishdb.plan import encoding_1
from blowfishdb.plan.certificate import Certificate, certify
from blowfishdb.plan.constraint_loss import reason
from blowfishdb.plan.stages import Program

LARGEST = 200_000
"""Declarations with more characters are left out of answers; the curator's document holds them."""


@dataclass(frozen=True)
class Evidence:
    """The declarations and the question that an answer belongs to, as plain data."""

    declared: Mapping[str, Any]
    question: Mapping[str, Any]


def evidence_of(domain: Domain, policy: Policy, asked: Query) -> Evidence | None:
    """What a release leaves with its answer; None where the declarations are too large to travel with it."""
    declared = write_document(Document(domain, policy), "json")
    return None if len(declared) > LARGEST else Evidence(json.loads(declared), write_query(asked))


def worked_out(evidence: Evidence, mechanism: str, epsilon: Fraction, version: int = VERSION) -> Certificate:
    """The certificate of the same question under the same policy by the same mechanism, computed from the start.

    Its digests are in the given version of their encoding.
    """
    try:
        document = read_document(json.dumps(evidence.declared), "json")
        compiled = compile_query(document.domain, document.policy, read_query(dict(evidence.question)))
        if mechanism in DATA_AWARE:
            return program_certificate(DATA_AWARE[mechanism].program(compiled.problem, epsilon), compiled, version)
        if mechanism not in MECHANISMS:
            raise DigestMismatch(f"this version of BlowfishDB has no mechanism {mechanism!r}")
        plan, _ = certified_strategy(compiled.problem, MECHANISMS[mechanism](compiled.problem)).at(epsilon)
    except DigestMismatch:
        raise
    except BlowfishError as error:
        raise DigestMismatch(f"what this answer carries does not make a certificate: {error}") from None
    return certify(plan, compiled.problem.graph, version)


def program_certificate(program: Program, compiled: Compiled, version: int = VERSION) -> Certificate:
    """The certificate of a program of stages: what it may spend in all, and the digests of program and graph."""
    graph = compiled.problem.graph
    own = program.digest(), graph.digest()
    if version != VERSION:
        own = program.digest_1(), encoding_1.graph_digest(graph)
    return Certificate(program.epsilon, None, False, *own, reason(graph.together))
