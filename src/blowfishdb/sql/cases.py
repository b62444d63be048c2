"""CASE, IF, COALESCE and conditions as groups: what they give for each declared value, and for NULL and outside."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from typing import TypeVar

import numpy as np
from sqlglot import exp

from blowfishdb.errors import QueryError
from blowfishdb.model.calendar import Dates, Timestamps
from blowfishdb.model.conditions import ConditionValue, GroupedValues, Names, node_text, read_condition, value_of
from blowfishdb.model.domain import Attribute, Bins, Categorical, Integers, Slot
from blowfishdb.model.groups import Segments
from blowfishdb.model.numbers import show
from blowfishdb.model.predicate import Axis, Negation, Predicate, atoms, truth

T = TypeVar("T")
Label = TypeVar("Label")
MOST_LISTED = 20_000
"""Declared values that are sorted into named groups one by one."""
ELSE = "NULL"
"""The group of what a CASE without ELSE leaves over."""
OUTSIDE = "outside"


def is_case(node: exp.Expression) -> bool:
    """Whether a node gives a value by conditions: CASE, IF, COALESCE, or a condition, which gives true or false."""
    if isinstance(node, exp.Case | exp.If):
        return True
    kinds = exp.Predicate | exp.Connector | exp.Not | exp.Coalesce
    return isinstance(node, kinds) and node.find(exp.AggFunc) is None


@dataclass(frozen=True)
class _Outcomes:
    """What a CASE gives for each declared value of the attribute it looks at, and then for each special cell.

    Outcomes are places in `labels`; the label None is NULL, which a CASE without ELSE gives where no WHEN is true.
    Special cells `beside` give different things for different records, and belong to none of them.
    """

    attribute: str
    labels: tuple[ConditionValue | None, ...]
    places: tuple[int, ...]
    cuts: Segments
    beside: tuple[str, ...]

    @property
    def given(self) -> list[ConditionValue | None]:
        """What is given for each declared value."""
        return [self.labels[place] for place in self.places[: self.cuts.attribute.size]]

    @property
    def of_slots(self) -> list[tuple[Slot, ConditionValue | None]]:
        """The special cells that belong to what they give, with that."""
        cells = zip(self.cuts.slots, self.places[self.cuts.attribute.size :], strict=True)
        return [(slot, self.labels[place]) for slot, place in cells if slot.name not in self.beside]

    @property
    def values(self) -> Sequence[object]:
        """The declared values: days as dates, bins and periods by where they begin, others as conditions write them."""
        attribute = self.cuts.attribute
        if isinstance(attribute, Dates):
            return days_of(self.attribute, attribute)
        return [attribute.value_at(index) for index in range(attribute.size)]

    @property
    def groups(self) -> tuple[tuple[str, tuple[object, ...]], ...]:
        """The declared values, and special cells by name, by the text of what they give; in the order of the labels."""
        members: dict[str, list[object]] = {_label_text(label): [] for label in self.labels}
        special = ((slot.name, label) for slot, label in self.of_slots)
        for value, label in [*zip(self.values, self.given, strict=True), *special]:
            members[_label_text(label)].append(value)
        return tuple((label, tuple(values)) for label, values in members.items() if values)


def _label_text(label: ConditionValue | None) -> str:
    if isinstance(label, bool):
        return str(label).lower()
    return ELSE if label is None else show(label) if isinstance(label, Fraction) else str(label)


def _outcomes(node: exp.Expression, names: Names) -> _Outcomes:
    """What a CASE, an IF or a condition gives: the first WHEN that is true decides, and otherwise ELSE."""
    if isinstance(node, exp.Coalesce):
        return _coalesced(node, names)
    labels: list[ConditionValue | None]
    if isinstance(node, exp.Case | exp.If):
        branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        default = node.args.get("default" if isinstance(node, exp.Case) else "false")
        labels = [value_of(branch.args["true"]) for branch in branches]
        other = None if default is None else value_of(default)
        if None in labels or (other is None and default is not None and not isinstance(default, exp.Null)):
            raise QueryError(
                "a CASE that groups gives texts or numbers: CASE WHEN age < 18 THEN 'minor' ELSE 'adult' END"
            )
        subject = node.this if isinstance(node, exp.Case) else None
        tests = [
            branch.this if subject is None else exp.EQ(this=subject.copy(), expression=branch.this.copy())
            for branch in branches
        ]
        conditions, labels = [read_condition(test, names) for test in tests], [*labels, other]
    else:
        tests, condition = [node], read_condition(node, names)
        conditions, labels = [condition, Negation(condition)], [True, False, None]
    about = {atom.attribute for condition in conditions for atom in atoms(condition)}
    if len(about) != 1 or names.declared is None:
        raise QueryError("a CASE that groups looks at one attribute; GROUP BY both, or COUNT(*) FILTER (WHERE ...)")
    (name,) = about
    attribute = names.declared.find(name)
    if attribute.size > MOST_LISTED:
        raise QueryError(f"{name} has {attribute.size:,} declared values; bin_edges({name}, ...) groups them by ranges")
    cuts = Segments(attribute, np.arange(attribute.size))
    places = np.full(cuts.count, len(conditions))
    for place in reversed(range(len(conditions))):
        places[truth(conditions[place], cuts.truth)[0]] = place
    beside = () if _tells_of_outside(tests, conditions, cuts) else (OUTSIDE,)
    return _Outcomes(name, tuple(labels), tuple(places.tolist()), cuts, beside)


def _tells_of_outside(tests: Sequence[exp.Expression], conditions: Sequence[Predicate], cuts: Segments) -> bool:
    """Whether the tests go the same way for all values outside: they equal no declared value, and are not NULL.

    How they are ordered, and what a function makes of them, differs from one to the other.
    """
    if all(slot.name != OUTSIDE for slot in cuts.slots):
        return True
    for test, condition in zip(tests, conditions, strict=False):
        is_true, is_false = (bool(cells[-1]) for cells in truth(condition, cuts.truth))
        if not (is_true or is_false) or not all(map(_is_direct, test.find_all(exp.Column))):
            return False
        if is_true:
            return True
    return True


DIRECT = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is),
    *(exp.And, exp.Or, exp.Not, exp.If),
)
"""What looks at a column itself; at truth values alone, the last four do."""


def _is_direct(column: exp.Expression) -> bool:
    """Whether a column is compared as it is, and not what a function or a pattern makes of it."""
    user = column.parent
    while isinstance(user, exp.Paren):
        user = user.parent
    return isinstance(user, DIRECT) or (isinstance(user, exp.Anonymous) and user.name.upper() == "OUTSIDE")


def _coalesced(node: exp.Coalesce, names: Names) -> _Outcomes:
    """Each declared value gives itself, and NULL the given value."""
    usage = "COALESCE(x, 'none') takes an attribute with listed values or whole numbers, and one value of its kind"
    name, given = names.attribute(node.this, usage), [value_of(part) for part in node.expressions]
    attribute = None if names.declared is None else names.declared.find(name)
    if not isinstance(attribute, Categorical | Integers) or len(given) != 1 or attribute.size > MOST_LISTED:
        raise QueryError(usage)
    labels: list[ConditionValue | None] = []
    labels += attribute.values if isinstance(attribute, Categorical) else range(attribute.low, attribute.high + 1)
    if type(given[0]) is not type(labels[0]):
        raise QueryError(usage)
    cuts = Segments(attribute, np.arange(attribute.size))
    labels += [given[0] for _ in cuts.slots]
    places: dict[ConditionValue | None, int] = {}
    first = tuple(places.setdefault(label, place) for place, label in enumerate(labels))
    # Values outside give themselves.
    beside = tuple(slot.name for slot in cuts.slots if slot.name == OUTSIDE)
    return _Outcomes(name, tuple(labels), first, cuts, beside)


def read_case(node: exp.Expression, names: Names) -> Axis:
    """Named groups of the values of one attribute, and of its special cells by their names."""
    outcomes = _outcomes(node, names)
    if {None, ELSE} <= {*outcomes.given, *(label for _, label in outcomes.of_slots)}:
        raise QueryError("a CASE that gives NULL and the text 'NULL' has two groups of one name; rename the text")
    _check_names(outcomes.attribute, outcomes.cuts.attribute, outcomes.values)
    for shared in {label for label, _ in outcomes.groups}.intersection(outcomes.beside):
        raise QueryError(
            f"{shared!r} is the row of all values of {outcomes.attribute} that are not declared, and {node_text(node)} "
            "gives the same text; rename it"
        )
    slots = {slot.name for slot in outcomes.cuts.slots}
    # A special cell that is alone under its own name stands beside the groups anyway.
    groups = [(label, values) for label, values in outcomes.groups if values != (label,) or label not in slots]
    return named_axis(outcomes.attribute, groups, node)


def named_axis(name: str, groups: Iterable[tuple[str, tuple[object, ...]]], node: exp.Expression) -> Axis:
    """Named groups that a node writes; QueryError where a name is empty."""
    axis = Axis(name, groups=tuple(groups))
    if any(not label for label, _ in axis.groups):
        raise QueryError(
            f"{node_text(node)} gives an empty text, and a group needs a name: let a CASE give a text such as 'none'"
        )
    return axis


def _check_names(name: str, attribute: Attribute, values: Iterable[object]) -> None:
    """QueryError where a value and a special cell cannot be told apart by their names."""
    for shared in {slot.name for slot in attribute.slots}.intersection(map(str, values)):
        raise QueryError(f"{name} has a value and a special cell of the name {shared!r}; filter by either")


def _results(node: exp.Expression) -> list[exp.Expression | None]:
    """What stands after THEN and ELSE."""
    branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    return [*(branch.args.get("true") for branch in branches), node.args.get("default"), node.args.get("false")]


def read_case_values(node: exp.Expression, names: Names) -> GroupedValues:
    """What a CASE gives, to be compared; QueryError where it is NULL for declared values, or texts and numbers."""
    outcomes = _outcomes(node, names)
    if isinstance(outcomes.cuts.attribute, Bins | Timestamps):
        raise QueryError(f"{outcomes.attribute} has ranges of values: compare it with their ends, not a CASE of it")
    if None in outcomes.given:
        raise QueryError(f"{node_text(node)} gives NULL where no WHEN is true; give it an ELSE to compare it")
    is_list = isinstance(node, exp.Coalesce) and isinstance(outcomes.cuts.attribute, Categorical)
    if outcomes.beside and not is_list:
        raise QueryError(
            f"{node_text(node)} may differ among the undeclared values of {outcomes.attribute}; compare "
            f"{outcomes.attribute} itself"
        )
    if any(isinstance(result, exp.Cast) for result in _results(node)):
        raise QueryError("a CASE that is compared gives plain texts or numbers, without CAST and DATE")
    kinds = {Fraction if type(label) is int else type(label) for label in outcomes.labels if label is not None}
    if len(kinds) > 1:
        raise QueryError("a CASE that is compared gives texts only, or numbers only")
    pairs = sorted_by(zip(outcomes.given, outcomes.values, strict=True), itemgetter(0))
    groups = tuple((label, tuple(value for _, value in listed)) for label, listed in pairs)
    special = tuple((slot.name, label) for slot, label in outcomes.of_slots)
    return GroupedValues(outcomes.attribute, node_text(node), groups, special)


def sorted_by(values: Iterable[T], label: Callable[[T], Label]) -> tuple[tuple[Label, tuple[T, ...]], ...]:
    """The values that have a label in common, in the order in which labels come first."""
    groups: dict[Label, list[T]] = {}
    for value in values:
        groups.setdefault(label(value), []).append(value)
    return tuple((one, tuple(members)) for one, members in groups.items())


def days_of(name: str, attribute: Dates) -> list[datetime.date]:
    if attribute.by != "day":
        raise QueryError(f"{name} is not a date by day; DATE_TRUNC('month', {name}) groups it by period")
    if attribute.size > MOST_LISTED:
        raise QueryError(
            f"{name} has {attribute.size:,} declared days; DATE_TRUNC('month', {name}) groups them by period"
        )
    starts = attribute.starts(np.arange(attribute.size)).tolist()
    return [datetime.date(1970, 1, 1) + datetime.timedelta(days=int(day)) for day in starts]
