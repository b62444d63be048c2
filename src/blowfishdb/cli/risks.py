"""The risk meter in the terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from blowfishdb.analysis.risk import Risk, SufficientBudget, risk, sufficient_budget
from blowfishdb.catalog import Dataset
from blowfishdb.cli.output import console, exact, print_json
from blowfishdb.cli.what_if import read_pair
from blowfishdb.engine.present.extras import needed
from blowfishdb.errors import AccuracyError, InvalidInput, PolicyError


@dataclass(frozen=True)
class RiskQuestion:
    """What to tell: two values, and either what is spent or which bound is wanted."""

    attribute: str
    pair: str
    epsilon: tuple[str, ...]
    prior: str
    odds: str | None
    posterior: str | None
    releases: int
    records: int
    plot: Path | None


def show_risk(dataset: Dataset, asked: RiskQuestion, *, as_json: bool) -> None:
    """Prints the risk, or the budget that keeps a wanted bound."""
    values = read_pair(asked.pair, dataset.domain.find(asked.attribute, PolicyError))
    wants_bound = asked.odds is not None or asked.posterior is not None
    if bool(asked.epsilon) == wants_bound:
        raise AccuracyError("say what is spent with --epsilon, or which bound is wanted with --odds or --posterior")
    if not wants_bound:
        found = risk(dataset, asked.epsilon, *values, attribute=asked.attribute, records=asked.records)
        _show_found(found, asked, as_json=as_json)
        return
    budget = sufficient_budget(
        dataset,
        *values,
        attribute=asked.attribute,
        odds=asked.odds,
        posterior=asked.posterior,
        prior=asked.prior,
        releases=asked.releases,
        records=asked.records,
    )
    _show_budget(budget, as_json=as_json)


def _show_found(found: Risk, asked: RiskQuestion, *, as_json: bool) -> None:
    if asked.plot is not None:
        figure = needed("matplotlib.figure", "plot").Figure(figsize=(5.6, 5.2), layout="constrained")
        found.plot(figure.add_subplot())
        try:
            figure.savefig(asked.plot, dpi=160)
        except (OSError, ValueError):
            raise InvalidInput(f"{asked.plot} cannot be written; its name ends in png, svg or pdf") from None
    low, high = found.posterior(asked.prior)
    if as_json:
        print_json(
            {
                "steps": found.steps,
                "epsilon": exact(found.epsilon),
                "odds": None if found.steps is None else found.odds,
                "prior": asked.prior,
                "posterior": [low, high],
                "words": list(found.words(asked.prior)),
            }
        )
        return
    for sentence in found.words(asked.prior):
        console().print(sentence, markup=False)


def _show_budget(budget: SufficientBudget, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "epsilon": exact(budget.total),
                "each": exact(budget.each),
                "releases": budget.releases,
                "histogram_scale": exact(budget.histogram_scale),
            }
        )
        return
    # Budgets are shown exactly and noise rounded up: a rounded budget might not keep the bound.
    each = f": {exact(budget.each)} for each of {budget.releases:,}" if budget.releases > 1 else ""
    console().print(f"Epsilon {exact(budget.total)} in all keeps this bound{each}.", markup=False)
    scale = math.ceil(budget.histogram_scale * 100) / 100
    console().print(f"For a histogram that is noise of scale {scale:,.2f} or more on every count.", markup=False)
