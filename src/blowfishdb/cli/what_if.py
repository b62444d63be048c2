"""Policies of one attribute side by side: the price of an accuracy, and an adversary's odds. Reads no data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from blowfishdb.catalog import Dataset
from blowfishdb.cli.declaring import family_words, read_family
from blowfishdb.cli.output import console, exact, print_json, short, table
from blowfishdb.engine.compiled import compile_query
from blowfishdb.engine.demand import Demand
from blowfishdb.engine.quoting import quotes_for
from blowfishdb.errors import BlowfishError, PolicyError, QueryError
from blowfishdb.model.distance import value_distance
from blowfishdb.model.domain import Attribute, Bins, Categorical, Dates, Integers, Timestamps
from blowfishdb.model.graphs.families import Family, full, line, public, threshold
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Kind, query

HARDLY, NOT_AT_ALL = 100.0, 1e6
"""Odds from which a pair is hardly protected, and from which it is as good as open."""
MOST_THRESHOLDS = 3


@dataclass(frozen=True)
class Comparison:
    """What to compare: an attribute, an accuracy, policies in words and pairs of values."""

    attribute: str
    wanted: Demand
    policies: list[str]
    pairs: list[str]


@dataclass(frozen=True)
class Price:
    """One policy: what the accuracy costs, by which mechanism, and the steps between the values of each pair.

    `epsilon` is None where nothing could answer; `refusal` then says why. Steps of None: not hidden at all.
    """

    words: str
    in_force: bool
    epsilon: Fraction | None
    mechanism: str
    steps: tuple[int | None, ...]
    refusal: str = ""

    def odds(self, place: int) -> float | None:
        """How much the odds between the values of a pair may change; None when they are not hidden."""
        steps = self.steps[place]
        if steps is None or self.epsilon is None:
            return None
        return math.exp(min(float(self.epsilon) * steps, 700.0))


def compare(dataset: Dataset, asked: Comparison) -> list[Price]:
    """The price of each policy, dearest first; the policy in force is among them."""
    attribute = dataset.domain.find(asked.attribute, PolicyError)
    if dataset.policy.grid_of(asked.attribute) is not None:
        raise PolicyError(f"{asked.attribute} belongs to a joint threshold; its own policy cannot be compared")
    current = dataset.policy.family(asked.attribute)
    families = [read_family(words) for words in asked.policies] or usual_families(attribute)
    if current not in families:
        families = [*families, current]
    pairs = read_pairs(asked, attribute)
    prices = [_price(dataset, asked, family, pairs, in_force=family == current) for family in families]
    return sorted(prices, key=lambda price: math.inf if price.epsilon is None else price.epsilon, reverse=True)


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
    found = [power / 10**place for place in range(MOST_THRESHOLDS) if power / 10**place > step]
    return [*found, power / 2] if len(found) == 1 and power / 2 > step else list(found)


def read_pairs(asked: Comparison, attribute: Attribute) -> list[tuple[object, object]]:
    """The pairs of values; without any, a near one and a far one."""
    if asked.pairs:
        pairs: list[tuple[object, object]] = []
        for text in asked.pairs:
            one, comma, two = text.partition(",")
            if not comma:
                raise QueryError("a pair is written A,B, such as --pair 900,1000")
            pairs.append((_value(one.strip(), attribute), _value(two.strip(), attribute)))
        return pairs
    low, near, far = (attribute.size * tenths // 100 for tenths in (20, 22, 80))
    places = [(low, max(near, low + 1)), (low, far)] if attribute.size > 2 else [(0, attribute.size - 1)]
    return [(_at(attribute, a), _at(attribute, b)) for a, b in places if a != b]


def _value(text: str, attribute: Attribute) -> object:
    """The value as declared; lists may hold numbers or truth values."""
    value: object = text
    if isinstance(attribute, Categorical):
        value = next((known for known in attribute.values if str(known) == text), text)
    attribute.locate(value)
    return value


def _at(attribute: Attribute, index: int) -> object:
    if isinstance(attribute, Integers):
        return attribute.low + index
    if isinstance(attribute, Bins):
        return attribute.edge(index)
    if isinstance(attribute, Categorical):
        return attribute.values[index]
    return attribute.moment(index) if isinstance(attribute, Timestamps) else attribute.run_label(index, index)


def _price(
    dataset: Dataset, asked: Comparison, family: Family, pairs: list[tuple[object, object]], *, in_force: bool
) -> Price:
    old = dataset.policy
    families = dict(old.attributes) | {asked.attribute: family}
    policy = Policy(families, old.composition, old.presence, old.unit, old.joint)
    policy.check(dataset.domain)
    words = family_words(family)
    steps = tuple(value_distance(dataset.domain, policy, asked.attribute, one, two) for one, two in pairs)
    kind: Kind = "cdf" if dataset.domain[asked.attribute].ordered else "histogram"
    try:
        compiled = compile_query(dataset.domain, policy, query(kind, asked.attribute))
        best = quotes_for(compiled, asked.wanted).best
    except BlowfishError as error:
        return Price(words, in_force, None, "", steps, error.message)
    return Price(words, in_force, best.epsilon, best.mechanism, steps)


def show_comparison(dataset: Dataset, asked: Comparison, prices: list[Price], *, as_json: bool) -> None:
    """Prints the comparison."""
    attribute = dataset.domain[asked.attribute]
    pairs = [(_shown(one), _shown(two)) for one, two in read_pairs(asked, attribute)]
    if as_json:
        print_json([_content(price, pairs) for price in prices])
        return
    screen = console()
    kind = "Cumulative histogram" if attribute.ordered else "Histogram"
    near = short(asked.wanted.alpha)
    title = (
        f"{kind} of {asked.attribute} ({attribute.size:,} values), every count within {near} with probability "
        f"{asked.wanted.confidence}"
    )
    columns = ("policy", "epsilon", "mechanism", *(f"odds on “{one} or {two}?”" for one, two in pairs))
    rows = [
        (
            price.words + (" (in force)" if price.in_force else ""),
            "none" if price.epsilon is None else short(price.epsilon),
            price.mechanism or price.refusal,
            *(odds_words(price, place) for place in range(len(pairs))),
        )
        for price in prices
    ]
    screen.print(table(title, columns, rows, right=("epsilon",), folds=columns[3:]))
    screen.print("No data was read. Odds: how much likelier one value may come to look than the other.", style="dim")


def odds_words(price: Price, place: int) -> str:
    """An adversary's odds on a pair, with a word of warning where they are large."""
    steps, odds = price.steps[place], price.odds(place)
    if price.epsilon is None:
        return "-"
    if steps is None or odds is None:
        return "not hidden"
    apart = f"{steps:,} step{'s' if steps != 1 else ''}"
    if odds >= NOT_AT_ALL:
        return f"no protection ({apart})"
    if odds >= HARDLY:
        return f"× {odds:,.0f} ({apart}: hardly protected)"
    return f"× {odds:.2g} ({apart})" if steps > 1 else f"× {odds:.2g}"


def _content(price: Price, pairs: list[tuple[str, str]]) -> dict[str, object]:
    return {
        "policy": price.words,
        "in_force": price.in_force,
        "epsilon": exact(price.epsilon),
        "mechanism": price.mechanism or None,
        "refusal": price.refusal or None,
        "pairs": [
            {"values": list(pair), "steps": price.steps[place], "odds": price.odds(place)}
            for place, pair in enumerate(pairs)
        ],
    }


def _shown(value: object) -> str:
    if isinstance(value, Fraction | int) and not isinstance(value, bool):
        return short(value)
    return str(value)
