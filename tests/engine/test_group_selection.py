"""Names of groups without counts: what a list promises, what it costs, and when the quote takes it."""

from __future__ import annotations

import io
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from rich.console import Console

import blowfishdb as bf
from blowfishdb.accuracy.quote import promised_reach, select_at, select_within
from blowfishdb.engine.answer import Answer, worked_out
from blowfishdb.engine.charge import decode, prepare
from blowfishdb.engine.compile import DatasetHandle, compile_query, group_selection
from blowfishdb.engine.measure import choose_groups
from blowfishdb.engine.program import GroupsRelease
from blowfishdb.engine.request import accuracy_target, make_request, read_query, write_query
from blowfishdb.errors import AccuracyError, Declined, DigestMismatch, QueryError
from blowfishdb.model.predicate import as_axes
from blowfishdb.model.query import Query
from blowfishdb.plan.program import GROUP_SELECTION, GroupSelection
from blowfishdb.present.chart_terminal import drawing
from tests.engine.held import Rows
from tests.plan.test_group_selection import first_chances

WARDS = [f"W{number}" for number in range(8)]
DOMAIN = bf.domain({"ward": bf.categorical(WARDS, null="W0", outside="W0"), "sex": ["f", "m"]})
COUNTS = np.array([50, 400, 90, 0, 380, 10, 120, 30], dtype=np.int64)


def handle(policy: bf.Policy | None = None) -> DatasetHandle:
    return DatasetHandle("t", DOMAIN, policy or bf.Policy(), "a", 1, 1, 1, Rows({}), "sum")


def selection(most: int | None = None, above: int | None = None) -> Query:
    return Query("selection", as_axes("ward"), most=most, above=above)


def release(selected: Query, policy: bf.Policy | None = None, **target: object) -> GroupsRelease:
    place = handle(policy)
    prepared = prepare(place, make_request(place, selected, accuracy_target(**target)))  # type: ignore[arg-type]
    assert isinstance(prepared, GroupsRelease)
    return prepared


@pytest.mark.parametrize(
    ("selected", "wanted"), [(selection(2), ["W1", "W4"]), (selection(above=100), ["W1", "W4", "W6"])]
)
def test_little_noise_lists_the_right_groups(selected: Query, wanted: list[str]) -> None:
    prepared = release(selected, epsilon=20)
    answer = decode(prepared.payload(COUNTS, handle()))
    assert isinstance(answer, Answer)
    assert list(answer.tables[0].axes[0].labels) == wanted
    assert answer.values.tolist() == [place + 1.0 for place in range(len(wanted))]
    assert (answer.mechanism, answer.epsilon, answer.is_list, answer.is_true) == (GROUP_SELECTION, 20, True, False)
    assert "without counts" in repr(answer) or "names of groups" in repr(answer)
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(drawing(answer))
    assert "W1 1" in (text := console.export_text()) and " from " not in text
    assert "400" not in repr(answer)
    assert answer.evidence is not None
    assert worked_out(answer.evidence, answer.mechanism, answer.epsilon) == answer.certificate
    assert prepared.document()["epsilon"] == "20"
    assert prepared.preview(handle()).offers[0].mechanism == GROUP_SELECTION
    assert read_query(write_query(selected)) == selected


def test_nobody_reaches_a_high_count() -> None:
    answer = release(selection(above=100_000), epsilon=20).answer(COUNTS)
    assert answer.raw.size == 0
    assert not answer.is_true
    assert "Every group with at least" in repr(answer)


@pytest.mark.parametrize("policy", [bf.Policy(), bf.Policy(presence="only")])
def test_an_accuracy_is_bought_at_the_least_epsilon(policy: bf.Policy) -> None:
    graph = compile_query(DOMAIN, policy, selection(1)).problem.graph
    for plan in (
        GroupSelection(Fraction(1), 8, 1),
        GroupSelection(Fraction(1), 8, 3),
        GroupSelection(Fraction(1), 8, above=9),
    ):
        quote = select_within(plan, graph, 25, 0.05)
        assert quote.alpha <= 25
        assert select_at(plan, graph, quote.epsilon * Fraction(94, 100), 0.05).alpha > 25
    assert promised_reach(GroupSelection(Fraction(1), 1, 1), 0.05) == 0


@pytest.mark.parametrize("beta", [0.3, 0.05])
def test_the_promise_holds_with_its_probability(beta: float) -> None:
    """The chance that the published group is further off than promised, worked out from the law for a bad table."""
    groups = tuple(range(8))
    reach = promised_reach(GroupSelection(Fraction(4), 8, 1), beta)
    # The worst table: all others are just further below than promised.
    short = reach + 1, *([0] * 7)
    assert beta / 3 < 1.0 - first_chances(short, groups, 4.0)[0] <= beta
    # With noise of twice the scale the same promise would fail.
    assert 1.0 - first_chances(short, groups, 8.0)[0] > beta


def test_what_it_does_not_serve_is_refused() -> None:
    with pytest.raises(Declined):
        release(selection(1), bf.Policy({"ward": bf.public()}), epsilon=1)
    with pytest.raises(AccuracyError, match="at most 1000"):
        release(selection(1), epsilon=10**6)
    with pytest.raises(Declined):
        graph = compile_query(DOMAIN, bf.Policy(), selection(1)).problem.graph
        select_within(GroupSelection(Fraction(1), 8, 1), graph, 0, 0.05)
    for wrong in ({}, {"most": 1, "above": 1}, {"most": 0}, {"above": True}):
        with pytest.raises(QueryError):
            Query("selection", as_axes("ward"), **wrong)  # type: ignore[arg-type]
    with pytest.raises(QueryError):
        Query("histogram", as_axes("ward"), most=1)
    assert group_selection(compile_query(DOMAIN, bf.Policy(), selection(100))).most == 8
    prepared = release(selection(1), epsilon=1)
    finer = replace(prepared.best.plan, unit=prepared.best.plan.unit / 2)
    with pytest.raises(DigestMismatch):
        choose_groups(finer, prepared.compiled.problem.graph, prepared.certificate, COUNTS)
    assert prepared.loss_on(prepared.compiled.problem.graph) == 1
