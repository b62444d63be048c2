"""Request: one query with its accuracy target, of one dataset at the versions in force; and the release it leads to."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TypeAlias

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import Compiled, DatasetHandle, compile_query
from blowfishdb.engine.points import SCHEMA as POINT_SCHEMA
from blowfishdb.engine.points import PointPreview, PointsRelease, PointWeights, points_release
from blowfishdb.engine.preview import Preview, quotes_for
from blowfishdb.engine.program import ProgramRelease, choose, program_release
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.serialize import write_query
from blowfishdb.engine.synopsis import MOST_CELLS, Synopsis, from_bytes
from blowfishdb.engine.synopsis_release import SynopsisPreview, SynopsisRelease, for_ranges
from blowfishdb.engine.target import AUTO, AccuracyTarget
from blowfishdb.errors import AccuracyError, TooLarge
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query

AnyRelease: TypeAlias = PlanRelease | ProgramRelease | SynopsisRelease | PointsRelease
AnyPreview: TypeAlias = Preview | SynopsisPreview | PointPreview
Released: TypeAlias = Answer | Synopsis | PointWeights
"""What a release publishes."""

STORED_KINDS = {"points": "node weights"}
"""Kinds that requests on record call by another name."""
PARQUET = b"PAR1"
POINTS = f'{{"schema":"{POINT_SCHEMA}"'.encode()
"""How stored payloads of synopses and of points begin; all others are answers."""


@dataclass(frozen=True)
class Request:
    """A query, its accuracy target, and the text that the same request always has."""

    query: Query
    target: AccuracyTarget
    text: str

    @property
    def digest(self) -> str:
        """The hash of the text, by which ledgers find what was answered before."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def make_request(handle: DatasetHandle, query: Query, target: AccuracyTarget) -> Request:
    """The request; refuses queries that hold anything but plain values.

    Its text is canonical JSON; ledgers hold its hash, so it never changes. Points are asked with an epsilon alone.
    """
    priced = {"epsilon": str(target.epsilon)} if query.kind == "points" else target.to_dict()
    question = {**write_query(query), "kind": STORED_KINDS.get(query.kind, query.kind)}
    content = {"question": question, "demand": priced, "versions": handle.versions()}
    return Request(query, target, json.dumps(content, sort_keys=True, ensure_ascii=True))


def prepare(handle: DatasetHandle, request: Request) -> AnyRelease:
    """The release of a request: compiled and quoted, or laid out as a program; reads no data.

    Declined where no mechanism serves it, TooLarge for more cells than are served.
    """
    query, target = request.query, request.target
    if query.kind == "points":
        return points_release(handle, query, target)
    if query.kind != "synopsis":
        return _cells_release(compile_query(handle.domain, handle.policy, query), handle.policy, target)
    if target.epsilon is None:
        raise AccuracyError("a synopsis is paid with an epsilon, such as epsilon='0.3'")
    histogram = compile_query(handle.domain, handle.policy, replace(query, kind="histogram"))
    return SynopsisRelease(_cells_release(histogram, handle.policy, target, synopsis=True))


def _cells_release(
    compiled: Compiled, policy: Policy, target: AccuracyTarget, *, synopsis: bool = False
) -> PlanRelease | ProgramRelease:
    """The release of compiled cells by a plan, or by the program of a data-aware mechanism."""
    cells = compiled.problem.graph.cells
    if cells > MOST_CELLS:
        raise TooLarge("cells of one question", cells, MOST_CELLS, "Ask for wider bins or fewer attributes.")
    why = ""
    if target.mechanism == AUTO and target.epsilon is not None:
        choice = choose(compiled, policy, target.epsilon)
        target, why = replace(target, mechanism=choice.mechanism), choice.why
    if target.is_data_aware:
        return program_release(for_ranges(compiled) if synopsis else compiled, target, why)
    quotes = quotes_for(compiled, target)
    return PlanRelease(compiled, quotes.best, target, quotes)


def decode(payload: bytes) -> Released:
    """The answer, synopsis or weights that a release published, from the bytes that are stored."""
    if payload.startswith(PARQUET):
        return Synopsis(from_bytes(payload))
    return PointWeights.from_json(payload) if payload.startswith(POINTS) else Answer.from_json(payload)
