"""Policies side by side, and the risk meter, in the terminal. Reads no data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from blowfishdb.analysis.risk import Risk, risk, sufficient_budget, usual_pairs
from blowfishdb.catalog import Dataset
from blowfishdb.catalog.dataset import family_words, read_family, read_value
from blowfishdb.catalog.guidance import Pair, PolicyPrice, what_if
from blowfishdb.cli.options import RiskOptions
from blowfishdb.cli.output import exact, print_json, print_result, say, short, table
from blowfishdb.engine.request import AccuracyTarget
from blowfishdb.errors import AccuracyError, InvalidInput, PolicyError, QueryError, plural
from blowfishdb.model.calendar import Dates
from blowfishdb.model.domain import Attribute, Bins, Domain, Integers
from blowfishdb.model.explain import explain, not_protected
from blowfishdb.model.policy import Family, full, line, public, threshold
from blowfishdb.model.query import Kind, query
from blowfishdb.present.export import needed
from blowfishdb.present.words import ALWAYS_UNPROTECTED, upper_end

HARDLY, NOT_AT_ALL = 100.0, 1e6
"""Odds from which a pair is hardly protected, and from which it is not protected at all."""
MOST_THRESHOLDS = 3


def show_comparison(
    dataset: Dataset,
    name: str,
    target: AccuracyTarget,
    policies: Sequence[str],
    pair_texts: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Prints the price of each policy, or of the usual ones, most expensive first; the one in force is among them."""
    attribute = dataset.domain.find(name, PolicyError)
    if dataset.policy.joint_of(name) is not None:
        raise PolicyError(f"{name} is hidden together with other attributes; a policy of its own cannot be compared")
    current = dataset.policy.family(name)
    families = [*([read_family(words, attribute) for words in policies] or usual_families(attribute)), current]
    named = {
        family_words(family): replace(dataset.policy, attributes={**dataset.policy.attributes, name: family})
        for family in families
    }
    pairs = read_pairs(name, pair_texts, attribute)
    kind: Kind = "cdf" if attribute.ordered else "histogram"
    prices = what_if(dataset.domain, named, query(kind, name), target, pairs)
    ranked = sorted(prices, key=lambda price: math.inf if price.epsilon is None else price.epsilon, reverse=True)
    if as_json:
        print_json([_content(price, pairs, family_words(current)) for price in ranked])
        return
    title = (
        f"{'Cumulative histogram' if attribute.ordered else 'Histogram'} of {name} "
        f"({plural(attribute.size, 'value')}), every count within {short(target.alpha)} with probability "
        f"{target.confidence}"
    )
    questions = [f"odds on “{_shown(pair.one)} or {_shown(pair.two)}?”" for pair in pairs]
    rows = [
        (
            price.name + (" (in force)" if price.name == family_words(current) else ""),
            "none" if price.epsilon is None else short(price.epsilon),
            price.mechanism or price.refusal,
            *(odds_words(price, place) for place in range(len(pairs))),
        )
        for price in ranked
    ]
    columns = ("policy", "epsilon", "mechanism", *questions)
    say(table(title, columns, rows, right=("epsilon",), folds=("policy", *questions)))
    say("No data was read. Odds: how much likelier one value may come to look than the other.", style="dim")
    say(closing_words(dataset, name))


def usual_families(attribute: Attribute) -> list[Family]:
    """Policies worth a look: everything secret, a few thresholds, neighbours only; without order, secret or public."""
    if not attribute.ordered:
        return [full(), public()]
    return [full(), *(threshold(theta) for theta in _thetas(attribute)), line()]


def _thetas(attribute: Attribute) -> list[Fraction | str]:
    if isinstance(attribute, Dates):
        return ["90 days", "30 days", "7 days"] if attribute.by == "day" else []
    if not isinstance(attribute, Integers | Bins):
        return []
    step = attribute.width if isinstance(attribute, Bins) and attribute.width is not None else Fraction(1)
    span = attribute.size * step
    power = Fraction(10) ** math.floor(math.log10(span / 2)) if span > 2 else Fraction(1)
    thetas = [power / 10**place for place in range(MOST_THRESHOLDS) if power / 10**place > step]
    return [*thetas, power / 2] if len(thetas) == 1 and power / 2 > step else list(thetas)


def read_pairs(name: str, texts: Sequence[str], attribute: Attribute) -> tuple[Pair, ...]:
    """The pairs of values; without any, a near one and a far one."""
    if not texts:
        return tuple(Pair(name, *values) for values in usual_pairs(attribute))
    return tuple(Pair(name, *read_pair(text, attribute)) for text in texts)


def read_pair(text: str, attribute: Attribute) -> tuple[object, object]:
    """The two values of a pair, written A,B."""
    one, comma, two = text.partition(",")
    if not comma:
        raise QueryError("a pair is written A,B, such as --pair 900,1000")
    values = read_value(one.strip(), attribute), read_value(two.strip(), attribute)
    for value in values:
        attribute.locate(value)
    return values


def closing_words(dataset: Dataset, name: str) -> str:
    """What the policy in force protects and does not protect, as far as it concerns one attribute."""
    domain, policy = Domain(((name, dataset.domain[name]),)), dataset.policy
    alone = replace(policy, attributes={name: policy.family(name)}, joint=())
    # What is said first of an attribute is what its policy hides; the rest explains it.
    hidden = explain(domain, alone)[0].removeprefix(f"{name}: ").partition(". ")[0].rstrip(".")
    open_facts = " ".join(not_protected(domain, alone)) or ALWAYS_UNPROTECTED
    return f"The policy in force protects: {name}, {hidden}. Does not protect: {open_facts}"


def odds_words(price: PolicyPrice, place: int) -> str:
    """An adversary's odds on a pair, with a word of warning where they are large."""
    steps, odds = price.steps[place], price.odds(place)
    if price.epsilon is None:
        return "-"
    if steps is None or odds is None:
        return "not hidden"
    apart = plural(steps, "step")
    if odds >= NOT_AT_ALL:
        return f"no protection ({apart})"
    if odds >= HARDLY:
        return f"× {upper_end(odds, 3):,.0f} ({apart}: hardly protected)"
    return f"× {upper_end(odds, 2):.2g} ({apart})" if steps > 1 else f"× {upper_end(odds, 2):.2g}"


def _content(price: PolicyPrice, pairs: Sequence[Pair], in_force: str) -> dict[str, object]:
    return {
        "policy": price.name,
        "in_force": price.name == in_force,
        "epsilon": exact(price.epsilon),
        "mechanism": price.mechanism or None,
        "refusal": price.refusal or None,
        "pairs": [
            {"values": [_shown(pair.one), _shown(pair.two)], "steps": price.steps[place], "odds": price.odds(place)}
            for place, pair in enumerate(pairs)
        ],
    }


def _shown(value: object) -> str:
    if isinstance(value, Fraction | int) and not isinstance(value, bool):
        return short(value)
    return str(value)


def show_risk(dataset: Dataset, attribute: str, options: RiskOptions, *, as_json: bool) -> None:
    """Prints the risk, or the budget that keeps a wanted bound."""
    values = read_pair(options.pair, dataset.domain.find(attribute, PolicyError))
    wants_bound = options.odds is not None or options.posterior is not None
    if bool(options.epsilon) == wants_bound:
        raise AccuracyError("say what is spent with --epsilon, or which bound is wanted with --odds or --posterior")
    if options.epsilon:
        _print_risk(
            risk(dataset, options.epsilon, *values, attribute=attribute, records=options.records),
            options,
            as_json=as_json,
        )
        return
    budget = sufficient_budget(
        dataset,
        *values,
        attribute=attribute,
        odds=options.odds,
        posterior=options.posterior,
        prior=options.prior,
        releases=options.releases,
        records=options.records,
    )
    content = {
        "epsilon": exact(budget.total),
        "each": exact(budget.each),
        "releases": budget.releases,
        "histogram_scale": exact(budget.histogram_scale),
    }
    # Budgets are shown exactly and noise rounded up: a rounded budget might not keep the bound.
    each = f": {exact(budget.each)} for each of {budget.releases:,}" if budget.releases > 1 else ""
    scale = math.ceil(budget.histogram_scale * 100) / 100
    print_result(
        content,
        f"Epsilon {exact(budget.total)} in all keeps this bound{each}.",
        f"For a histogram that is noise of scale {scale:,.2f} or more on every count.",
        as_json=as_json,
    )


def _print_risk(measured: Risk, options: RiskOptions, *, as_json: bool) -> None:
    if options.plot is not None:
        figure = needed("matplotlib.figure", "plot").Figure(figsize=(5.6, 5.2), layout="constrained")
        measured.plot(figure.add_subplot())
        try:
            figure.savefig(options.plot, dpi=160)
        except (OSError, ValueError):
            raise InvalidInput(f"{options.plot} cannot be written; its name ends in png, svg or pdf") from None
    content = {
        "steps": measured.steps,
        "epsilon": exact(measured.epsilon),
        "odds": None if measured.steps is None else measured.odds,
        "prior": options.prior,
        "posterior": list(measured.posterior(options.prior)),
        "words": list(measured.words(options.prior)),
    }
    print_result(content, *measured.words(options.prior), as_json=as_json)
