"""What travels with an answer: what is hidden, the worst pair, and how to compute its certificate again."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy.candidates import certified_strategy
from blowfishdb.engine.compile import Compiled, compile_query
from blowfishdb.engine.serialize import read_query, write_query
from blowfishdb.errors import BlowfishError, DigestMismatch
from blowfishdb.mechanisms.data_aware.table import DATA_AWARE
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.document import Document, read_document, write_document
from blowfishdb.model.domain import Domain
from blowfishdb.model.encoding import VERSION
from blowfishdb.model.explain import constraint_list
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.policy import Custom, Full, Line, Partition, Person, Policy, Public, Threshold
from blowfishdb.model.query import Query
from blowfishdb.plan import encoding_1
from blowfishdb.plan.certificate import Certificate, certify
from blowfishdb.plan.loss import reason
from blowfishdb.plan.program import Program
from blowfishdb.present.released import Evidence

LARGEST = 200_000
"""Declarations with more characters are left out of answers; the curator's document holds them."""


def evidence_of(domain: Domain, policy: Policy, query: Query) -> Evidence | None:
    """What a release leaves with its answer; None where the declarations are too large to travel with it."""
    declared = write_document(Document(domain, policy), "json")
    return None if len(declared) > LARGEST else Evidence(json.loads(declared), write_query(query))


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
    return Certificate(program.epsilon, None, False, *own, reason(graph.constraint_moves))


def not_protected(domain: Domain, policy: Policy) -> tuple[str, ...]:
    """One sentence for each thing that releases may tell; empty when everything is hidden."""
    sentences = [_grid(grid.attributes) for grid in policy.joint]
    if policy.presence == "only":
        sentences.append("Which of two values a record has is protected only as far as whether it is there.")
    for name in domain:
        if policy.grid_of(name) is None:
            sentences += _attribute(domain, policy, name)
    if policy.composition == "attribute":
        sentences.append("Several attributes of one record together are protected less than each one alone.")
    unit = policy.unit
    if isinstance(unit, Person) and policy.presence == "public":
        sentences.append(
            f"How many rows there are, whose they are, how many of each {unit.id}'s count (up to {unit.at_most}), and "
            f"the {unit.order_by} by which the first are taken."
        )
    elif policy.presence == "public":
        sentences.append("How many rows there are, and whether somebody's row is among them.")
    if not isinstance(unit, Person):
        sentences.append("Somebody with several rows is protected less: each row counts on its own.")
    if policy.constraints:
        sentences.append(f"What is declared public: {constraint_list(policy.constraints)}.")
    return tuple(sentences)


def _grid(attributes: tuple[str, ...]) -> str:
    names = " and ".join(attributes)
    return f"Roughly where {names} lie: places many steps apart can be told apart."


def _attribute(domain: Domain, policy: Policy, name: str) -> list[str]:
    family, attribute = policy.family(name), domain[name]
    is_universal = any(not slot.public for slot in attribute.slots)
    match family:
        case Full():
            return []
        case Public():
            return [f"Everything about {name}."]
        case Line() | Threshold():
            if is_universal or policy.graph(domain, name).distance(0, attribute.size - 1) in (0, 1):
                return []
            return [f"Roughly how large {name} is: values many steps apart can be told apart."]
        case Partition():
            return [] if is_universal else [f"Which block of {name} a record is in."]
        case Custom():
            return [f"Values of {name} that no listed pair joins, or only a long chain of them."]


def worst_pair(compiled: Compiled, certificate: Certificate) -> str:
    """What an observer could best tell apart: two cells, or a cell and a record that does not count or is not there."""
    if certificate.epsilon == 0:
        return "no pair: these answers are the same whatever the policy hides"
    if certificate.witness is None:
        return "not known: the price is a proven upper bound, not attained by a pair that can be named"
    first, second = certificate.witness
    if second == ZERO:
        return f"a record {_cell(compiled, first)} <-> {_nowhere(compiled, first)}"
    return f"a record {_cell(compiled, first)} <-> a record {_cell(compiled, second)}"


def _cell(compiled: Compiled, flat: int) -> str:
    cells = compiled.cells
    if not cells.axes:
        return "that counts"
    place = np.unravel_index(flat, cells.graph.shape)
    names = [f"{name} {cells.labels[axis][int(place[axis])]}" for axis, name in enumerate(cells.axes)]
    return f"with {', '.join(names)}"


def _nowhere(compiled: Compiled, cell: int) -> str:
    graph = compiled.problem.graph
    if graph.constraint_moves is not None:
        return "one that does not count or is not there"
    rejected = "a record outside the filter" if graph.outside[cell] and graph.has_value_edges else ""
    absent = "an absent one" if graph.presence != "public" else ""
    return " or ".join(part for part in (rejected, absent) if part)
