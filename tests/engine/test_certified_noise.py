"""Every draw of the engine is compared with its certificate: another law, scale or number of draws ends the release."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from blowfishdb.audit.cases import Case, battery, prepared
from blowfishdb.audit.scratch import Scratch, raw_values, scratch
from blowfishdb.engine import charge, measure, points, program, release
from blowfishdb.engine.charge import Run, charged_payload
from blowfishdb.engine.compile import ANALYSTS
from blowfishdb.engine.request import accuracy_target, make_request
from blowfishdb.errors import NoiseMismatch, ReleaseFailed
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.policy import Policy, line, threshold
from blowfishdb.model.predicate import as_axes
from blowfishdb.model.query import Query, levels_of, query
from blowfishdb.noise.certified import Noise, certified, noise_between, tell, watched
from blowfishdb.noise.sampler import sample, sample_geometric, sample_words

PLAIN = domain({"x": integers(0, 11, null=0, outside="clamp")})
WITH_NULL = domain({"x": integers(0, 11)})
LINE = Policy({"x": line()})
MEDIANS = Query("quantiles", as_axes("x"), levels=levels_of(["0.25", "0.5"]))
RANKED, LISTED = (Query("selection", as_axes("x"), **terms) for terms in ({"most": 2}, {"above": 3}))  # type: ignore[arg-type]
OWN = [
    Case("the largest groups", PLAIN, LINE, RANKED),
    Case("groups above a count", PLAIN, LINE, LISTED),
    Case("quantiles by rank", PLAIN, LINE, MEDIANS, "exponential-quantiles"),
    Case("quantiles by rank, NULL hidden", WITH_NULL, LINE, MEDIANS, "exponential-quantiles"),
]
BATTERY = {
    "identity, threshold, histogram",
    "edge-transform, full, ranges",
    "kronecker, full x full by record",
    "marginals, full x full by record",
    "dawa, threshold",
    "matching-transform, threshold",
    "adaptive-tree, two axes",
    "gated, threshold",
    "a table of aggregates",
    "synopsis",
    "synopsis by dawa",
    "weights on points, threshold",
}
CASES = [*OWN, *(case for case in battery(quick=True) if case.name in BATTERY)]
SAMPLERS = ("sample", "sample_geometric", "sample_words", "sample_quantiles")
NINE_TENTHS = Fraction(9, 10)
Sampler = Callable[..., Any]


def other_scale(usual: Sampler, name: str) -> Sampler:
    """Nine tenths of the certified scale; for words, one bit less."""
    if name == "sample_words":
        return lambda size, bits: usual(size, bits - 1)
    if name == "sample_quantiles":
        return lambda records, gaps, unit: usual(records, gaps, unit * NINE_TENTHS)
    return lambda unit, weights, size=None: usual(unit * NINE_TENTHS, weights, size)


def other_law(usual: Sampler, name: str) -> Sampler:
    """One-sided noise in place of two-sided, and the other way round; quantiles of other levels."""
    if name == "sample_words":
        return lambda size, bits: sample_geometric(Fraction(2), 1, size)
    if name == "sample_quantiles":
        return lambda records, gaps, unit: np.repeat(usual(records, (gaps[0], sum(gaps[1:])), unit), len(gaps) - 1)
    other = sample_geometric if name == "sample" else sample
    return lambda unit, weights, size=None: other(unit, weights, size)


def fewer(usual: Sampler, name: str) -> Sampler:
    """One draw less, and one that serves twice."""
    if name == "sample_words":
        return lambda size, bits: np.resize(usual(size - 1, bits), size)
    if name == "sample_quantiles":
        return lambda records, gaps, unit: np.zeros(len(gaps) - 1, dtype=np.int64)

    def drawn(unit: Fraction, weights: Any, size: int | None = None) -> Any:
        count = np.asarray(weights).size if size is None else size
        rest = weights if isinstance(weights, int) else weights[: count - 1]
        return np.resize(usual(unit, rest, count - 1), count)

    return drawn


def twice(usual: Sampler, name: str) -> Sampler:
    """The mean of two draws, of which one was certified."""

    def drawn(*given: Any) -> Any:
        both = usual(*given), usual(*given)
        return (both[0] + both[1]) // 2

    return drawn


def at_one_scale(usual: Sampler, name: str) -> Sampler:
    """The scale of the heaviest row for all rows."""

    def drawn(unit: Fraction, weights: Any, size: int | None = None) -> Any:
        if isinstance(weights, int) or np.unique(weights).size == 1:
            return usual(unit * NINE_TENTHS, weights, size)
        return usual(unit, np.full_like(weights, weights.max()), size)

    return drawn if name in ("sample", "sample_geometric") else other_scale(usual, name)


FAULTS = (other_scale, other_law, fewer, twice, at_one_scale)


@contextmanager
def world_of(case: Case) -> Iterator[Scratch]:
    """A table of the case with a few rows."""
    with scratch(case.domain, case.policy) as world:
        kinds = dict(case.domain.attributes)
        world.fill([{name: raw_values(kinds[name], row % kinds[name].size)[0] for name in kinds} for row in range(40)])
        yield world


def ask(world: Scratch, case: Case, key: str) -> bytes:
    """The stored answer of one release, charged as an analyst's is."""
    name = hashlib.sha256(key.encode()).hexdigest()
    made = partial(prepared, case, world.handle, case.query)
    return charged_payload(world.ledger, world.handle, "ann", name, made, Run())


def is_ended(world: Scratch, case: Case, key: str) -> bool:
    """Whether a release was charged and ended for good, with nothing published."""
    before = world.spent
    try:
        ask(world, case, key)
    except ReleaseFailed as failure:
        assert not failure.can_retry
        assert world.spent == before + case.epsilon
        return True
    return False


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_draw_that_is_not_the_certified_one_ends_the_release(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = 0
    with world_of(case) as world:
        assert ask(world, case, "sound")
        for name, fault in itertools.product(SAMPLERS, FAULTS):
            calls: list[str] = []
            faulty = fault(getattr(measure, name), name)
            with monkeypatch.context() as patch:
                patch.setattr(measure, name, noted(calls, name, faulty))
                is_wrong = is_ended(world, case, f"{name} {fault.__name__}")
            assert is_wrong == bool(calls), f"{name}: {fault.__name__} was published"
            ended += is_wrong
    assert ended >= len(FAULTS)


def noted(calls: list[str], name: str, faulty: Sampler) -> Sampler:
    """The faulty sampler; who is asked for nothing draws nothing, and that is as certified."""

    def drawn(*given: Any) -> Any:
        if given[-1] != 0:
            calls.append(name)
        return faulty(*given)

    return drawn


@pytest.mark.parametrize(
    ("holder", "name", "case"),
    [
        (release, "measure", "identity, threshold, histogram"),
        (release, "measure", "a table of aggregates"),
        (release, "measure", "synopsis"),
        (measure, "measure", "dawa, threshold"),
        (program, "choose_groups", "the largest groups"),
        (program, "choose_groups", "groups above a count"),
        (program, "choose_quantiles", "quantiles by rank"),
        (points, "measure_points", "weights on points, threshold"),
    ],
)
def test_a_measurement_that_is_made_twice_ends_the_release(
    holder: Any, name: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (chosen,) = (one for one in CASES if one.name == case)
    usual = getattr(holder, name)
    monkeypatch.setattr(holder, name, lambda *given: (usual(*given), usual(*given))[1])
    with world_of(chosen) as world:
        assert is_ended(world, chosen, "twice")


def test_noise_beside_the_certified_one_ends_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = measure._rows
    (case,) = (one for one in CASES if one.name == "identity, threshold, histogram")

    def more(plan: Any, cells: Any) -> Any:
        rows, exact = usual(plan, cells)
        return rows + sample(Fraction(1, 10), 1, rows.size), exact

    monkeypatch.setattr(measure, "_rows", more)
    with world_of(case) as world:
        assert is_ended(world, case, "beside")


LEVELS = ((("1", "0.25"), "draw_coarser"), (("0.25", "1"), "draw_between"), (("1", "0.25", "0.5"), "draw_between"))


@pytest.mark.parametrize(("prices", "name"), LEVELS)
def test_a_level_that_is_not_the_charged_one_ends_the_release(
    prices: tuple[str, ...], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = query("histogram", "x")
    policy = Policy({"x": threshold(2)})
    with scratch(PLAIN, policy) as world:
        world.fill([{"x": row % 12} for row in range(40)])
        handle = replace(world.handle, sharing=ANALYSTS, read_only=True)

        def ask(analyst: str, price: str) -> bytes:
            request = make_request(handle, asked, accuracy_target(epsilon=price, mechanism="identity"))
            return charged_payload(
                world.ledger, handle, analyst, request.digest, partial(charge.prepare, handle, request), Run()
            )

        for number, price in enumerate(prices[:-1]):
            ask(f"analyst {number}", price)
        usual = getattr(measure, name)
        with monkeypatch.context() as patch:
            # A level a hundredth nearer to the data than the one that is charged.
            at = -2
            patch.setattr(
                measure, name, lambda *given: usual(*given[:at], given[at] * Fraction(99, 100), *given[at + 1 :])
            )
            with pytest.raises(ReleaseFailed) as failure:
                ask("last", prices[-1])
            assert not failure.value.can_retry


def test_the_watch_compares_law_scale_number_and_order() -> None:
    right = Noise("laplace", Fraction(3), np.array([1, 2]), 2)
    others = [
        replace(right, law="geometric"),
        replace(right, unit=Fraction(3, 2)),
        replace(right, weights=np.array([2, 1])),
        replace(right, weights=1),
        replace(right, size=3, weights=np.array([1, 2, 2])),
        replace(right, beside=(None, Fraction(4))),
    ]
    assert all(not right.is_like(one) and not one.is_like(right) for one in others)
    assert right.is_like(replace(right, weights=np.array([1, 2])))
    assert replace(right, weights=1).is_like(replace(right, weights=np.array([1, 1])))
    assert replace(right, weights=1).is_like(replace(right, weights=1))
    first, second = right, replace(right, law="geometric")
    for drawn in ([], [first], [second, first], [first, second, second]):
        with pytest.raises(NoiseMismatch), certified((first, second), Fraction(1)):
            for one in drawn:
                tell(one)
    with certified((first, second), Fraction(1)):
        tell(first)
        tell(second)


def test_a_release_draws_what_its_receipt_paid_for_and_nothing_beside_it() -> None:
    with watched(Fraction(1)):
        for _ in range(2):
            with certified((), Fraction(1, 2)):
                pass
    with pytest.raises(NoiseMismatch, match="asked of a receipt over 1"), watched(Fraction(1)):
        for _ in range(3):
            with certified((), Fraction(1, 2)):
                pass
    with pytest.raises(NoiseMismatch, match="no certificate covers"), watched(None):
        sample(Fraction(2), 1, 3)
    with watched(Fraction(0)), watched(None), certified((), Fraction(1)):
        pass


def test_what_the_samplers_tell_is_what_they_draw() -> None:
    weights = np.array([3, 1, 3, 2])
    (law,) = (Noise("laplace", Fraction(7, 2), weights, 4),)
    with certified((law,), Fraction(0)):
        sample(Fraction(7, 2), weights)
    with certified((replace(law, law="geometric", weights=1, size=9),), Fraction(0)):
        sample_geometric(Fraction(7, 2), 1, 9)
    with certified((Noise("words", Fraction(1), 62, 5),), Fraction(0)):
        sample_words(5, 62)


def test_levels_between_others_have_the_rates_of_the_proof() -> None:
    weights = np.array([1, 4])
    choice, beyond, along = noise_between(Fraction(2), Fraction(3), Fraction(6), weights)
    assert (choice.law, choice.unit, choice.beside) == ("level", 3, (2, 6))
    assert (beyond.law, beyond.unit) == ("geometric", 2)
    assert (along.law, along.unit) == ("geometric", 6)
    _, added = noise_between(Fraction(2), Fraction(3), None, weights)
    assert (added.law, added.unit, added.size) == ("laplace", 3, 2)
