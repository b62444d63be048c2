"""Choices of groups and of quantiles are replayed on neighbours, and what is wrong in one of them shows."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.audit.cases import choices
from blowfishdb.audit.choices import same_list
from blowfishdb.audit.exact import quantile_lines
from blowfishdb.audit.replay import Effort, replay
from blowfishdb.audit.report import CheckLine
from blowfishdb.engine import measure
from blowfishdb.noise.certified import Noise
from blowfishdb.noise.sampler import sample_geometric
from blowfishdb.plan.program import GroupSelection, QuantilePlan

pytestmark = pytest.mark.audit
CASES = [case.name for case in choices()]
Patch = pytest.MonkeyPatch


def replayed(name: str, seed: int = 1) -> list[CheckLine]:
    return replay(next(case for case in choices() if case.name == name), Effort.of(quick=True), seed)


@pytest.mark.parametrize("name", CASES)
def test_choices_are_clean(name: str) -> None:
    lines = replayed(name)
    assert [line.found for line in lines if line.verdict != "clean"] == []
    assert {line.check for line in lines} == {"movement", "public outputs", "charge", "counting"}


def certified_one_sided(patch: Patch) -> None:
    """A list above a count is certified, and drawn, with noise that is never negative."""
    patch.setattr(GroupSelection, "noise", property(lambda plan: (Noise("geometric", plan.unit, 1, plan.groups),)))


def half_the_loss(patch: Patch) -> None:
    """A record that moves counts once."""
    usual = GroupSelection.loss
    patch.setattr(GroupSelection, "loss", lambda plan, graph: usual(plan, graph) / 2)


def noise_ignored(patch: Patch) -> None:
    """The true counts are compared."""
    usual = GroupSelection.choose
    patch.setattr(GroupSelection, "choose", lambda plan, counts, noise: usual(plan, counts, np.zeros_like(noise)))


def one_sided(patch: Patch) -> None:
    """Noise of a list is one-sided, and was certified as two-sided."""
    patch.setattr(measure, "sample", sample_geometric)


def other_draw(patch: Patch) -> None:
    """Ranks are chosen at nine tenths of the scale."""
    usual = measure.sample_quantiles
    patch.setattr(measure, "sample_quantiles", lambda records, gaps, unit: usual(records, gaps, unit * Fraction(9, 10)))


def free_ranks(patch: Patch) -> None:
    """A tenth of the loss of a choice of quantiles is charged."""
    usual = QuantilePlan.loss
    patch.setattr(QuantilePlan, "loss", lambda plan, graph: usual(plan, graph) / 10)


FOUND: list[tuple[Callable[[Patch], None], str]] = [
    (certified_one_sided, "groups above a count, line"),
    (half_the_loss, "groups above a count, line"),
    (noise_ignored, "groups above a count, line"),
    (noise_ignored, "the two largest groups, line"),
    (one_sided, "groups above a count, presence secret"),
    (other_draw, "quantiles by rank, line"),
    (other_draw, "quantiles by rank by groups, NULL hidden"),
    (free_ranks, "quantiles by rank, line"),
]


@pytest.mark.parametrize(("fault", "name"), FOUND, ids=[f"{fault.__name__}, {name}" for fault, name in FOUND])
def test_what_is_wrong_in_a_choice_shows(fault: Callable[[Patch], None], name: str, monkeypatch: Patch) -> None:
    fault(monkeypatch)
    assert any(line.is_violation for seed in range(20) for line in replayed(name, seed))


def test_the_same_list_comes_out_with_the_shifted_noise_at_no_more_than_is_charged() -> None:
    random = np.random.default_rng(8)
    for _ in range(300):
        groups, most = 5, int(random.integers(1, 6))
        counts, noise = random.integers(0, 9, groups), random.integers(0, 12, groups * most)
        moved = np.zeros(groups, dtype=np.int64)
        there, here = random.permutation(groups)[:2]
        moved[there], moved[here] = 1, -1
        ranked = GroupSelection(Fraction(2), groups, most)
        chosen = ranked.choose(counts, noise)
        shifted = same_list(ranked, noise, chosen, moved)
        assert ranked.choose(counts + moved, shifted).tolist() == chosen.tolist()
        assert shifted.min() >= 0
        assert np.abs(shifted - noise).sum() <= 2 * most
        listed = GroupSelection(Fraction(2), groups, above=4)
        chosen = listed.choose(counts, noise[:groups] - 5)
        shifted = same_list(listed, noise[:groups] - 5, chosen, moved)
        assert listed.choose(counts + moved, shifted).tolist() == chosen.tolist()


@pytest.mark.parametrize(("share", "found"), [(Fraction(9, 10), "presence only"), (Fraction(7, 10), "full")])
def test_a_choice_of_quantiles_that_is_a_little_too_cheap_shows(
    share: Fraction, found: str, monkeypatch: Patch
) -> None:
    """What records that come and go lose is attained by some output, and three quarters of what moves lose."""
    usual = QuantilePlan.loss
    monkeypatch.setattr(QuantilePlan, "loss", lambda plan, graph: usual(plan, graph) * share)
    caught = {line.subject.rpartition(", ")[2] for line in quantile_lines() if line.is_violation}
    assert found in caught
