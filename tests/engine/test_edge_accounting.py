"""Losses per class of edges are never below the truth on any edge of the whole graph, and often meet it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.engine.charge import check_parallel, edge_losses, prepare
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import accuracy_target, make_request
from blowfishdb.errors import BlowfishError, PolicyError
from blowfishdb.ledger.amounts import ClassLosses
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.predicate import Predicate
from blowfishdb.model.query import Query
from blowfishdb.plan.plan import EdgePlan
from tests.effort import effort
from tests.engine.held import Rows

SIZES = {"a": 3, "b": 2, "c": 3}
DOMAIN = bf.domain({name: bf.integers(0, size - 1, null=0) for name, size in SIZES.items()})
FAMILIES = [bf.full(), bf.public(), bf.line(), bf.partition(cuts=[1])]


@dataclass(frozen=True)
class History:
    """A policy, a way of accounting, and questions asked under it."""

    policy: bf.Policy
    accounting: str
    asked: tuple[tuple[Query, Fraction], ...]


@st.composite
def histories(draw: st.DrawFn) -> History:
    families = {name: draw(st.sampled_from(FAMILIES)) for name in SIZES}
    policy = bf.Policy(
        families,
        composition=draw(st.sampled_from(["attribute", "attribute", "record"])),
        presence=draw(st.sampled_from(["public", "public", "secret", "only"])),
    )
    accounting = draw(st.sampled_from(["per-edge", "per-edge by a", "per-edge by c"]))
    asked = []
    for _ in range(draw(st.integers(1, 4))):
        axes = draw(st.lists(st.sampled_from(sorted(SIZES)), max_size=2, unique=True))
        where: Predicate | None = None
        for name in draw(st.lists(st.sampled_from(sorted(SIZES)), max_size=2, unique=True)):
            one: Predicate = bf.col(name) == draw(st.integers(0, SIZES[name] - 1))
            one = one if draw(st.booleans()) else ~one
            where = one if where is None else (where & one if draw(st.booleans()) else where | one)
        kind = "histogram" if axes else "count"
        asked.append((bf.query(kind, axes, where), Fraction(draw(st.integers(1, 5)), 10)))
    return History(policy, accounting, tuple(asked))


def handle(history: History) -> DatasetHandle:
    return DatasetHandle("t", DOMAIN, history.policy, "account", 1, 1, 1, Rows(), history.accounting)


def ready(held: DatasetHandle, asked: Query, epsilon: Fraction) -> PlanRelease:
    found = prepare(held, make_request(held, asked, accuracy_target(epsilon=epsilon, mechanism="identity")))
    assert isinstance(found, PlanRelease)
    return found


def true_losses(policy: bf.Policy, found: PlanRelease) -> np.ndarray:
    """The loss of one release on every edge of the graph over whole records, absence last."""
    everything = compile_cells(DOMAIN, policy, tuple(SIZES))
    points = np.array(list(itertools.product(*(range(SIZES[name]) for name in everything.axes))))
    columns = dict(zip(everything.axes, points.T, strict=True))
    cells = found.compiled.cells
    place = cells.cell_of(columns) if cells.attributes else np.zeros(len(points), dtype=np.int64)
    plan = found.best.plan
    assert not isinstance(plan, EdgePlan)
    rows = np.concatenate([np.zeros((0, plan.cells)), *(part.rows.dense() for part in plan.parts)])  # type: ignore[union-attr]
    weighted = np.column_stack([rows * plan.weights[:, None], np.zeros(rows.shape[0])]) / float(plan.unit)
    column = weighted[:, np.append(place, ZERO)]
    edges = everything.graph.edges()
    return np.abs(column[:, edges[:, 0]] - column[:, edges[:, 1]]).sum(axis=0)


def accounted(history: History) -> tuple[Fraction, float]:
    """The worst class of the ledger, and the worst edge in truth."""
    held, losses = handle(history), ClassLosses()
    total: np.ndarray | float = 0.0
    for asked, epsilon in history.asked:
        found = ready(held, asked, epsilon)
        losses = losses.plus(found.epsilon, edge_losses(held, found))
        total = total + true_losses(history.policy, found)
    return losses.worst, float(np.max(total, initial=0.0))


@effort(60)
@given(histories())
def test_class_losses_are_never_below_the_truth(history: History) -> None:
    try:
        check_parallel(DOMAIN, history.policy, history.accounting[-1])
    except PolicyError:
        history = replace(history, accounting="per-edge")
    try:
        worst, truth = accounted(history)
    except BlowfishError:
        return
    assert truth <= float(worst) + 1e-9
    assert worst <= sum(epsilon for _, epsilon in history.asked)


def test_forgetting_the_attributes_of_a_filter_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison has power: classes of the grouped attributes alone do not cover what the filter tells."""
    policy = bf.Policy({}, composition="attribute")
    asked = (bf.query("histogram", "b", bf.col("a") == 0), bf.query("count", (), bf.col("a") == 0))
    history = History(policy, "per-edge", tuple((one, Fraction(1)) for one in asked))
    worst, truth = accounted(history)
    assert truth <= float(worst) + 1e-9
    real = edge_losses

    def forgetful(held: DatasetHandle, found: PlanRelease) -> dict[str, Fraction]:
        return {name: loss for name, loss in (real(held, found) or {}).items() if name != "moves a"}

    monkeypatch.setitem(globals(), "edge_losses", forgetful)
    worst, truth = accounted(history)
    assert truth > float(worst) + 0.1


def test_two_releases_of_different_attributes_cost_the_maximum() -> None:
    policy = bf.Policy({}, composition="attribute")
    asked = ((bf.query("histogram", "a"), Fraction(1, 2)), (bf.query("histogram", "b"), Fraction(3, 10)))
    worst, truth = accounted(History(policy, "per-edge", asked))
    assert worst == Fraction(1, 2)
    assert truth == pytest.approx(0.5)


def test_under_record_composition_they_cost_the_sum() -> None:
    asked = ((bf.query("histogram", "a"), Fraction(1, 2)), (bf.query("histogram", "b"), Fraction(3, 10)))
    worst, truth = accounted(History(bf.Policy({}), "per-edge", asked))
    assert worst == Fraction(4, 5)
    assert truth == pytest.approx(0.8)


def test_separate_components_run_side_by_side() -> None:
    policy = bf.Policy({"a": bf.public()})
    asked = tuple((bf.query("histogram", "b", bf.col("a") == value), Fraction(1, 2)) for value in range(3))
    assert accounted(History(policy, "per-edge by a", asked))[0] == Fraction(1, 2)
    assert accounted(History(policy, "per-edge", asked))[0] == Fraction(3, 2)
    overlapping = (*asked, (bf.query("histogram", "b", bf.col("a") <= 1), Fraction(1, 4)))
    worst, truth = accounted(History(policy, "per-edge by a", overlapping))
    assert worst == Fraction(3, 4)
    assert truth == pytest.approx(0.75)


def test_with_presence_only_every_value_runs_side_by_side() -> None:
    """No edge joins two values, whatever is declared of them: each leads from one record to absence."""
    asked = tuple((bf.query("histogram", "b", bf.col("a") == value), Fraction(1, 2)) for value in range(3))
    for policy in (
        bf.Policy({}, presence="only"),
        bf.Policy({"a": bf.line()}, "attribute", "only"),
        bf.Policy({}, presence="only", joint=[bf.grid(["a", "c"], 1, "l1")]),
    ):
        check_parallel(DOMAIN, policy, "a")
        worst, truth = accounted(History(policy, "per-edge by a", asked))
        assert (worst, pytest.approx(truth)) == (Fraction(1, 2), 0.5)
        twice, truth = accounted(History(policy, "per-edge by a", (*asked, asked[0])))
        assert (twice, pytest.approx(truth)) == (1, 1.0)


def test_what_is_not_separate_is_refused() -> None:
    with pytest.raises(PolicyError, match="one value"):
        check_parallel(bf.domain({"a": bf.integers(0, 0, null=0)}), bf.Policy({"a": bf.public()}), "a")
    for policy, reason in (
        (bf.Policy({}), "hides every value"),
        (bf.Policy({"a": bf.line()}), "hides every value"),
        (bf.Policy({}, constraints=["rows"]), "public constraints"),
    ):
        with pytest.raises(PolicyError, match=reason):
            check_parallel(DOMAIN, policy, "a")
    with_null = bf.domain({"a": bf.integers(0, 2)})
    with pytest.raises(PolicyError, match="hides every value"):
        check_parallel(with_null, bf.Policy({"a": bf.partition(cuts=[1])}), "a")
    check_parallel(with_null, bf.Policy({"a": bf.public()}), "a")
    grid = bf.Policy({}, joint=[bf.grid(["a", "c"], 1, "l1")])
    with pytest.raises(PolicyError, match="joint"):
        check_parallel(DOMAIN, grid, "a")
    with pytest.raises(PolicyError, match="at most"):
        check_parallel(bf.domain({"a": bf.integers(0, 5000, null=0)}), bf.Policy({"a": bf.public()}), "a")


def test_a_joint_threshold_is_one_class_whichever_of_its_attributes_are_asked_for() -> None:
    """One step may move both attributes, so releases of either and of both add up on it."""
    policy = bf.Policy({}, composition="attribute", joint=[bf.grid(["a", "c"], 1, "linf")])
    asked = tuple((bf.query("histogram", axes), Fraction(1)) for axes in ("a", "c", ["c", "a"], "b"))
    worst, truth = accounted(History(policy, "per-edge", asked))
    assert worst == 3
    assert truth == pytest.approx(3.0)


def test_an_attribute_called_presence_is_not_presence() -> None:
    domain = bf.domain({"presence": bf.integers(0, 2, null=0)})
    policy = bf.Policy({"presence": bf.public()}, composition="attribute", presence="secret")
    held = DatasetHandle("t", domain, policy, "account", 1, 1, 1, Rows(), "per-edge")
    losses = edge_losses(held, ready(held, bf.query("histogram", "presence"), Fraction(1)))
    assert losses == {"presence": 1, "moves presence": 0}


def test_constraints_and_sums_charge_every_class() -> None:
    asked = bf.query("histogram", "a")
    tied = handle(History(bf.Policy({}, composition="attribute", constraints=["rows"]), "per-edge", ()))
    assert edge_losses(tied, ready(tied, asked, Fraction(1))) is None
    plain = replace(handle(History(bf.Policy({}), "per-edge", ())), accounting="sum")
    assert edge_losses(plain, ready(plain, asked, Fraction(1))) is None


def test_a_dataset_opts_in_and_two_attributes_cost_the_maximum(tmp_path: Path) -> None:
    from tests.session.places import configuration, curator, make_table, visits

    make_table(tmp_path)
    dataset = replace(visits(bf.Policy({}, composition="attribute"), epsilon="1"), accounting="per-edge")
    with curator(tmp_path) as keeper:
        keeper.add(dataset)
    with bf.connect(configuration(tmp_path), analyst="ana") as db:
        db["visits"].histogram("age").release(epsilon=1)
        left = db["visits"].histogram("ward").preview(epsilon=1)
        assert left.left == 1
        db["visits"].histogram("ward").release(epsilon=1)
        with pytest.raises(BlowfishError):
            db["visits"].histogram("age").release(epsilon="0.5", fresh=True)
        assert db.budget("visits").spent == 1
    with curator(tmp_path) as keeper:
        assert keeper.verify().is_sound
        assert keeper.account("visits").spent == 1
        keeper.set_accounting("visits", "sum", reason="simpler")
        assert keeper.verify().is_sound
        assert keeper.account("visits").spent == 1
