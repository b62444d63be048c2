"""What travels between a server and its clients, as plain data: written on one side, read on the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

from blowfishdb.engine.dear_filter import DearColumn
from blowfishdb.engine.node_release import NodePreview, NodeQuestion
from blowfishdb.engine.preview import Offer, Preview
from blowfishdb.engine.read_query import read_demand, read_query
from blowfishdb.engine.written_query import write_query
from blowfishdb.errors import QueryError
from blowfishdb.model.query import Query
from blowfishdb.session.desk import Budget, Past, Published

Plain = dict[str, Any]


def write_budget(budget: Budget) -> Plain:
    """A budget, exact numbers as text."""
    return _exact_as_text(asdict(budget))


def read_budget(written: Mapping[str, Any]) -> Budget:
    """The budget that was written."""
    return Budget(
        dataset=str(written["dataset"]),
        analyst=str(written["analyst"]),
        spent=Fraction(written["spent"]),
        limit=_amount(written["limit"]),
        remaining=Fraction(written["remaining"]),
        dataset_limit=Fraction(written["dataset_limit"]),
        dataset_remaining=Fraction(written["dataset_remaining"]),
    )


def write_past(past: Past) -> Plain:
    """A charge of the past."""
    return _exact_as_text(asdict(past))


def read_past(written: Mapping[str, Any]) -> Past:
    """The charge that was written."""
    return Past(
        number=int(written["number"]),
        dataset=str(written["dataset"]),
        at=str(written["at"]),
        question=str(written["question"]),
        mechanism=str(written["mechanism"]),
        epsilon=Fraction(written["epsilon"]),
        key=str(written["key"]),
        policy_version=int(written["policy_version"]),
        is_synopsis=bool(written["is_synopsis"]),
        is_current=bool(written["is_current"]),
    )


def write_published(one: Published) -> Plain:
    """A published synopsis in the list."""
    return _exact_as_text(asdict(one))


def read_published(written: Mapping[str, Any]) -> Published:
    """The line that was written."""
    return Published(
        number=int(written["number"]),
        dataset=str(written["dataset"]),
        at=str(written["at"]),
        title=str(written["title"]),
        mechanism=str(written["mechanism"]),
        epsilon=Fraction(written["epsilon"]),
        policy_version=int(written["policy_version"]),
    )


def read_preview(written: Mapping[str, Any]) -> Preview:
    """The preview that `Preview.to_dict` wrote."""
    return Preview(
        dataset=str(written["dataset"]),
        kind=written["kind"],
        title=str(written["question"]),
        cells=int(written["cells"]),
        answers=int(written["answers"]),
        demanded=read_demand(written["demand"]),
        offers=tuple(
            Offer(offer["mechanism"], Fraction(offer["epsilon"]), offer["alpha"], offer["rmse"], offer["method"])
            for offer in written["offers"]
        ),
        declined={str(name): str(reason) for name, reason in written["declined"].items()},
        why=str(written["why"]),
        worst_pair=str(written["worst_pair"]),
        protected=tuple(written["protected"]),
        unprotected=tuple(written["not_protected"]),
        dear=tuple(
            DearColumn(dear["column"], dear["now"], dear["if_public"], dear["if_partitioned"])
            for dear in written["dear_columns"]
        ),
        together=str(written["together"]),
        left=_amount(written["left"]),
    )


def write_points(asked: NodeQuestion) -> Plain:
    """A question about columns as points."""
    inner = write_query(Query(kind="histogram", axes=asked.columns, where=asked.where))
    return {"axes": inner["axes"], "where": inner["where"], "clusters": asked.clusters, "rows": asked.rows}


def read_points(written: object) -> NodeQuestion:
    """The question that was written; QueryError for anything else."""
    if not isinstance(written, Mapping) or set(written) != {"axes", "where", "clusters", "rows"}:
        raise QueryError("a question about points is an object with axes, where, clusters and rows")
    inner = read_query({"kind": "histogram", "axes": written["axes"], "where": written["where"]})
    return NodeQuestion(inner.axes, inner.where, written["clusters"], written["rows"])


def write_node_preview(found: NodePreview) -> Plain:
    """A grid and those that were passed over."""
    own = _exact_as_text(asdict(replace(found, others=())))
    return {**own, "nodes": list(found.nodes), "others": [write_node_preview(other) for other in found.others]}


def read_node_preview(written: Mapping[str, Any]) -> NodePreview:
    """The grids that were written."""
    return NodePreview(
        kind=str(written["kind"]),
        nodes=tuple(int(number) for number in written["nodes"]),
        scale=float(written["scale"]),
        epsilon=Fraction(written["epsilon"]),
        predicted_excess=float(written["predicted_excess"]),
        others=tuple(read_node_preview(other) for other in written["others"]),
    )


def _exact_as_text(fields: Mapping[str, Any]) -> Plain:
    return {name: str(value) if isinstance(value, Fraction) else value for name, value in fields.items()}


def _amount(written: str | None) -> Fraction | None:
    return None if written is None else Fraction(written)
