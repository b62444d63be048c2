"""Domains and policies as plain dictionaries and lists, the content of a document, and back."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypedDict

from blowfishdb.errors import DomainError, PolicyError
from blowfishdb.model.calendar import Dates, Timestamps, dates, timestamps
from blowfishdb.model.constraints import Constraint, MarginalConstraint, read_constraint, write_constraint
from blowfishdb.model.domain import (
    CELL,
    CLAMP,
    Attribute,
    Bins,
    Categorical,
    Domain,
    Integers,
    bins,
    categorical,
    integers,
)
from blowfishdb.model.families import (
    Custom,
    Family,
    Full,
    Grid,
    Line,
    Partition,
    Public,
    Threshold,
    custom,
    full,
    grid,
    line,
    partition,
    public,
    show_theta,
    threshold,
)
from blowfishdb.model.numbers import show
from blowfishdb.model.policy import ROW, Person, Policy

Written = dict[str, Any]


class Beside(TypedDict):
    """How an attribute treats NULL and values outside."""

    null: object
    outside: Any
    null_public: bool
    outside_public: bool


def plain(value: object) -> object:
    """A value as JSON knows it; numbers that are not whole and dates become text."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else show(value)
    if isinstance(value, float | Decimal):
        return plain(Fraction(str(value)))
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str | int):
        return value
    raise DomainError(f"{value!r} cannot be written in a document")


def write_domain(domain: Domain) -> Written:
    """Each attribute by name."""
    return {name: write_attribute(attribute) for name, attribute in domain.attributes}


def write_attribute(attribute: Attribute) -> Written:
    """One attribute with everything that was declared."""
    written = _write_kind(attribute)
    written["null"] = plain(attribute.null)
    written["outside"] = plain(attribute.outside)
    if attribute.null_public:
        written["null_public"] = True
    if attribute.outside_public:
        written["outside_public"] = True
    return written


def _write_kind(attribute: Attribute) -> Written:
    if isinstance(attribute, Categorical):
        return {"kind": "categorical", "values": list(attribute.values), "ordered": attribute.is_ordered}
    if isinstance(attribute, Integers):
        return {"kind": "integers", "low": attribute.low, "high": attribute.high}
    if isinstance(attribute, Bins):
        if attribute.width is None:
            return {"kind": "bins", "edges": [plain(edge) for edge in attribute.edges]}
        ends = {"low": plain(attribute.start), "high": plain(attribute.edge(attribute.count))}
        return {"kind": "bins", **ends, "width": plain(attribute.width)}
    if isinstance(attribute, Dates):
        return {"kind": "dates", "start": plain(attribute.start), "end": plain(attribute.end), "by": attribute.by}
    if isinstance(attribute, Timestamps):
        ends = {"start": plain(attribute.start), "end": plain(attribute.end)}
        return {"kind": "timestamps", **ends, "by": attribute.by, "zone": attribute.zone}
    raise DomainError(f"a {type(attribute).__name__} cannot be written in a document")


def read_attribute(written: Mapping[str, Any]) -> Attribute:
    """The attribute that a checked entry declares."""
    kind = written["kind"]
    beside: Beside = {
        "null": written.get("null", CELL),
        "outside": written.get("outside", CELL if kind == "categorical" else CLAMP),
        "null_public": written.get("null_public", False),
        "outside_public": written.get("outside_public", False),
    }
    if kind == "categorical":
        return categorical(written["values"], written.get("ordered", False), **beside)
    if kind == "integers":
        return integers(written["low"], written["high"], **beside)
    if kind == "bins":
        ends = written.get("low"), written.get("high")
        return bins(*ends, width=written.get("width"), edges=written.get("edges"), **beside)
    if kind == "dates":
        return dates(written["start"], written["end"], written.get("by", "day"), **beside)
    zone = written.get("zone", "UTC")
    return timestamps(written["start"], written["end"], written.get("by", "hour"), zone=zone, **beside)


def write_policy(policy: Policy) -> Written:
    """The policy; attributes that are not named stay full."""
    written: Written = {"composition": policy.composition, "presence": policy.presence}
    if isinstance(policy.unit, Person):
        unit = policy.unit
        written["unit"] = {"person": unit.id, "at_most": unit.at_most, "order_by": unit.order_by}
    if policy.attributes:
        written["attributes"] = {name: _write_family(family) for name, family in policy.attributes.items()}
    if policy.joint:
        written["joint"] = [_write_grid(joint) for joint in policy.joint]
    if policy.parsed_constraints:
        written["constraints"] = [_write_constraint(constraint) for constraint in policy.parsed_constraints]
    return written


def _write_family(family: Family) -> Written:
    match family:
        case Full():
            return {"kind": "full"}
        case Public():
            return {"kind": "public"}
        case Line():
            return {"kind": "line"}
        case Threshold(theta):
            return {"kind": "threshold", "theta": plain(theta) if isinstance(theta, Fraction) else show_theta(theta)}
        case Partition(blocks, ()):
            return {"kind": "partition", "blocks": [[plain(value) for value in block] for block in blocks]}
        case Partition(_, cuts):
            return {"kind": "partition", "cuts": [plain(cut) for cut in cuts]}
        case Custom(edges):
            return {"kind": "custom", "edges": [[plain(one), plain(two)] for one, two in edges]}


def _write_grid(joint: Grid) -> Written:
    return {"attributes": list(joint.attributes), "theta": plain(joint.theta), "metric": joint.metric}


def _write_constraint(constraint: Constraint) -> str | Written:
    if not isinstance(constraint, MarginalConstraint) or constraint.values is None:
        return write_constraint(constraint)
    listed = [[*(plain(value) for value in combination), count] for combination, count in constraint.values]
    return {"fact": write_constraint(constraint), "values": listed}


def read_stored_constraint(written: str | Mapping[str, Any]) -> Constraint:
    """The public fact that a checked entry declares: its text, or a marginal with its counts."""
    if isinstance(written, str):
        return read_constraint(written)
    constraint = read_constraint(written["fact"])
    if not isinstance(constraint, MarginalConstraint):
        raise PolicyError(f"{written['constraint']}: only marginals list values; write the number behind it, = 120")
    return MarginalConstraint(constraint.attributes, tuple((tuple(line[:-1]), line[-1]) for line in written["values"]))


def read_policy(written: Mapping[str, Any]) -> Policy:
    """The policy that a checked entry declares."""
    unit = written.get("unit")
    return Policy(
        {name: read_family(family) for name, family in written.get("attributes", {}).items()},
        composition=written.get("composition", "record"),
        presence=written.get("presence", "public"),
        unit=ROW if unit is None else Person(unit["person"], unit["at_most"], unit["order_by"]),
        joint=[read_grid(joint) for joint in written.get("joint", ())],
        constraints=[read_stored_constraint(constraint) for constraint in written.get("constraints", ())],
    )


def read_grid(written: Mapping[str, Any]) -> Grid:
    """The joint threshold that a checked entry declares."""
    return grid(written["attributes"], written["theta"], written.get("metric", "l2"))


def read_family(written: Mapping[str, Any]) -> Family:
    """The family that a checked entry declares."""
    kind = written["kind"]
    if kind == "threshold":
        return threshold(written["theta"])
    if kind == "partition":
        return partition(written.get("blocks"), cuts=written.get("cuts"))
    if kind == "custom":
        return custom(written["edges"])
    simple: dict[str, Family] = {"public": public(), "line": line()}
    return simple.get(kind, full())
