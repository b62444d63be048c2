"""Releases of node weights are charged, stored, replayed and retried like every other; noise is what was certified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine.charge import Run, charged_payload, prepare
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.points import PointCount, PointsRelease, PointWeights
from blowfishdb.engine.request import accuracy_target, make_request
from blowfishdb.errors import AccuracyError, DigestMismatch, ReleaseFailed
from blowfishdb.ledger import Ledger, Terms, open_ledger
from blowfishdb.mechanisms.point_grids import offers
from blowfishdb.model.cells import Cells, Points, compile_points
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import ROW, Person, Row
from blowfishdb.model.predicate import Axis
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.points import certify_points
from blowfishdb.sources.base import ColumnType, Counting, PointCounting

DOMAIN = bf.domain({"x": bf.integers(0, 99, null=0), "y": bf.integers(0, 99, null=0)})
POLICY = bf.Policy(joint=[bf.grid(["x", "y"], 3, "l1")])
POINTS = np.random.default_rng(2).integers(0, 100, (500, 2))
ASKED = bf.query("points", ("x", "y"), clusters=3, rows=500)


@dataclass
class Source:
    """Known points; each trouble is raised once instead."""

    trouble: list[Exception] = field(default_factory=list)
    reads: int = 0

    def identity(self) -> str:
        return "test:points"

    def columns(self) -> Mapping[str, ColumnType]:
        return {}

    def prepare(self, cells: Cells, unit: Row | Person = ROW) -> Counting:
        raise NotImplementedError

    def prepare_points(self, points: Points, unit: Row | Person = ROW) -> PointCounting:
        return Known(self, points)


@dataclass(frozen=True)
class Known:
    source: Source
    points: Points

    def run(self, deadline: float | None = None) -> tuple[Ints, Ints]:
        self.source.reads += 1
        if self.source.trouble:
            raise self.source.trouble.pop()
        values, counts = self.points.place({"x": POINTS[:, 0], "y": POINTS[:, 1]})
        return values[counts], np.ones(int(counts.sum()), dtype=np.int64)


def opened(folder: Path) -> tuple[Ledger, DatasetHandle, Source]:
    ledger, source = open_ledger(folder / "test.ledger", mark=folder / "test.mark"), Source()
    terms = Terms(source.identity(), limit=Fraction(10), policy="{}", domain="{}")
    account = ledger.register(terms, name="points", by="cora")
    return ledger, DatasetHandle("points", DOMAIN, POLICY, account.id, 1, 1, 1, source), source


def released(ledger: Ledger, handle: DatasetHandle, epsilon: str = "0.5", key: str | None = None) -> PointWeights:
    request = make_request(handle, ASKED, accuracy_target(epsilon=epsilon))
    payload = charged_payload(ledger, handle, "ana", request.digest, lambda: prepare(handle, request), Run(key))
    return PointWeights.from_json(payload)


def test_charged_once_and_replayed(tmp_path: Path) -> None:
    ledger, handle, source = opened(tmp_path)
    first = released(ledger, handle)
    assert released(ledger, handle).to_json() == first.to_json()
    assert (source.reads, ledger.account(handle.account).spent) == (1, Fraction(1, 2))
    assert released(ledger, handle, "0.25").to_json() != first.to_json()
    assert ledger.account(handle.account).spent == Fraction(3, 4)


def test_a_source_that_fails_is_charged_and_may_be_tried_again(tmp_path: Path) -> None:
    ledger, handle, source = opened(tmp_path)
    source.trouble.append(ValueError("row 17 of Ana"))
    with pytest.raises(ReleaseFailed) as failed:
        released(ledger, handle, key="again")
    assert failed.value.can_retry
    assert "row 17" not in str(failed.value)
    assert ledger.account(handle.account).spent == Fraction(1, 2)
    released(ledger, handle, key="again")
    assert ledger.account(handle.account).spent == Fraction(1, 2)


def test_noise_has_the_scale_that_was_charged(tmp_path: Path) -> None:
    """The spread over many draws is that of the certified unit, and not of half of it."""
    _, handle, _ = opened(tmp_path)
    ready = prepare(handle, make_request(handle, ASKED, accuracy_target(epsilon="0.5")))
    assert isinstance(ready, PointsRelease)
    counting = ready.counting(handle)
    assert isinstance(counting, PointCount)
    counts = counting.run()
    plan = ready.best.plan
    truth = counts[: plan.grid_points].reshape(plan.shape) / plan.total
    assert truth.sum() == pytest.approx(500, rel=1e-3)
    noise = np.concatenate(
        [
            (PointWeights.from_json(ready.payload(counts, handle)).weights - truth).ravel()
            for _ in range(4000 // plan.grid_points + 1)
        ]
    )
    assert plan.unit is not None
    expected = float(variance(float(plan.unit))) / plan.total**2
    assert 0.8 < noise.var() / expected < 1.25
    assert ready.best.certificate == certify_points(plan, ready.points.graph)
    halved = replace(ready, offers=(replace(ready.best, plan=plan.with_unit(plan.unit / 2)),))
    with pytest.raises(DigestMismatch):
        halved.payload(counts, handle)


def test_a_grid_that_is_not_the_certified_one_is_refused_before_the_charge(tmp_path: Path) -> None:
    ledger, handle, source = opened(tmp_path)
    ready = prepare(handle, make_request(handle, ASKED, accuracy_target(epsilon="0.5")))
    assert isinstance(ready, PointsRelease)
    assert ready.best.plan.unit is not None
    other = ready.best.plan.with_unit(ready.best.plan.unit / 2)
    altered = replace(ready, offers=(replace(ready.best, plan=other),))
    with pytest.raises(DigestMismatch):
        charged_payload(ledger, handle, "ana", "0" * 64, lambda: altered, Run())
    assert (source.reads, ledger.account(handle.account).spent) == (0, 0)
    assert not ledger.charges_of(handle.account, "ana")


def test_the_choice_follows_what_is_public_and_every_offer_costs_what_was_asked() -> None:
    points = compile_points(DOMAIN, POLICY, ASKED.axes)
    few, many = (offers(points, Fraction(1, 2), rows, 3) for rows in (100, 100_000))
    assert few[0].plan.grid_points < many[0].plan.grid_points
    for offer in (*few, *many):
        assert offer.certificate.epsilon == (Fraction(1, 2) if offer.plan.unit is not None else 0)
        assert certify_points(offer.plan, points.graph) == offer.certificate
    assert [offer.predicted for offer in many] == sorted(offer.predicted for offer in many)
    tiny = offers(points, Fraction(1, 10**7), 10**6, 3)
    assert {offer.grid.kind for offer in tiny} == {"cells"}, "shared weights would need more noise than can be drawn"
    with pytest.raises(AccuracyError):
        offers(compile_points(DOMAIN, bf.Policy(presence="secret"), ASKED.axes), Fraction(1, 10**12), 10**6, 3)


def test_one_value_and_one_row_are_no_trouble() -> None:
    single = bf.domain({"x": bf.integers(5, 5, null=5)})
    points = compile_points(single, bf.Policy(), (Axis("x"),))
    best = offers(points, Fraction(1), 1, 1)[0]
    assert (best.plan.shape, best.plan.unit) == ((1,), None)


def test_many_blocks_and_many_columns_are_no_trouble() -> None:
    wide = bf.domain({"x": bf.integers(0, 19_999, null=0), "y": bf.integers(0, 19_999, null=0)})
    cuts = bf.partition(cuts=range(10, 20_000, 10))
    points = compile_points(wide, bf.Policy({"x": cuts, "y": bf.public()}), (Axis("x"), Axis("y")))
    best = offers(points, Fraction(1), 1000, 4)[0]
    assert (best.plan.unit, best.certificate.epsilon) == (None, 0)
    assert best.plan.grid_points <= 2**20
    names = [f"c{place}" for place in range(8)]
    many = bf.domain({name: bf.integers(0, 29, null=0) for name in names})
    thirds = bf.Policy({name: bf.partition(cuts=[10, 20]) for name in names})
    found = offers(compile_points(many, thirds, tuple(Axis(name) for name in names)), Fraction(1), 1000, 4)
    assert {offer.certificate.epsilon for offer in found} <= {Fraction(0), Fraction(1)}
