"""The sentences that state a number, exactness or a price, each with its check against the table and the ledger.

A sentence that states something and matches no pattern is an error: a new one is registered here, with its check.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.request import AccuracyTarget, make_request
from blowfishdb.model.constraint_graph import moves_at_once
from blowfishdb.model.distance import hidden_distance
from blowfishdb.model.domain import Categorical, Integers
from blowfishdb.model.explain import constraint_list
from blowfishdb.model.numbers import Floats
from blowfishdb.model.policy import Person, Policy, Public, public
from blowfishdb.model.query import Query, query

STATES = re.compile(r"\d|\bexact|\bfree\b|\bcosts?\b|\bwithin\b|\bat most\b|\bremain|\bcharged\b|\bleft\b")
"""What makes a sentence one that must be registered."""
SENTENCE_END = re.compile(r"(?<=[.])\s+(?=[A-Z]|\w+(?: and \w+)?: )|\n")
CONFIDENT = re.compile(r"\bexact(?:ly)?\b(?! discrete)[^.;\n]*(?:\(\d[\d.]* %\)|confidence)")
"""What is exact has no confidence: it would be true whatever the noise."""
LEADS = ("What the policy says: ", "Not protected: ")
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Case:
    """One release with all that was said of it: before, in the answer and in the ledger."""

    handle: DatasetHandle
    query: Query
    target: AccuracyTarget
    preview: Preview
    answer: Answer
    truth: Floats
    rows: int
    left: Fraction
    charged: Fraction
    entry: int = 0
    """The entry that paid for the answer."""

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.handle.policy

    @property
    def is_exact(self) -> bool:
        """Whether the values shown are the true ones."""
        return bool(np.array_equal(self.answer.values, self.truth))

    def price(self, other: Query, policy: Policy | None = None) -> Fraction:
        """The least epsilon of another query, or under another policy, for the same target."""
        handle = self.handle if policy is None else replace(self.handle, policy=policy)
        return prepare(handle, make_request(handle, other, self.target)).epsilon


Check: TypeAlias = Callable[[Any, re.Match[str]], bool]
Registry: TypeAlias = tuple[tuple[str, Check], ...]
NUMBER = r"[\d,.]+(?:e[+-]?\d+)?"


WAY = re.compile(rf"(?P<name>\w+) (?P<price>{NUMBER}) \((?P<how>.+?)(?:, within (?P<within>{NUMBER}))?\)(?:; |\.$)")
"""One of the ways to an answer, in a list of them."""


def number(text: str) -> float:
    """A number as it is printed."""
    return float(text.removeprefix("about ").strip(",.").replace(",", ""))


def near(text: str, value: float | Fraction) -> bool:
    """Whether a printed number is the value, to four digits."""
    return abs(number(text) - float(value)) <= 6e-4 * abs(float(value)) + 1e-12


def _head_epsilon(case: Case, said: re.Match[str]) -> bool:
    answers = number(said["answers"]) == case.truth.size
    return answers and near(said["epsilon"], case.target.epsilon or 0)


def _head_alpha(case: Case, said: re.Match[str]) -> bool:
    is_target = near(said["alpha"], case.target.alpha or 0) and near(said["sure"], 100 * (1 - case.target.beta))
    return is_target and number(said["answers"]) == case.truth.size


def _why(case: Case, said: re.Match[str]) -> bool:
    first, second = case.preview.offers[:2]
    prices = [offer.epsilon if case.target.epsilon is None else offer.rmse or 0.0 for offer in (first, second)]
    names = said["first"] == first.mechanism and said["second"] == second.mechanism
    ratio = float(prices[1]) / float(prices[0])
    times = said["times"] is None or abs(number(said["times"]) - ratio) <= 0.06 * ratio
    return names and near(said["one"], prices[0]) and near(said["two"], prices[1]) and prices[0] < prices[1] and times


def _closest(case: Case, said: re.Match[str]) -> bool:
    del said
    errors = [offer.rmse or 0.0 for offer in case.preview.offers]
    return min(errors) < errors[0] <= 1.05 * min(errors)


def _free(case: Case, said: re.Match[str]) -> bool:
    del said
    return case.charged == 0 and case.preview.epsilon == 0 and case.is_exact


def _budget(case: Case, said: re.Match[str]) -> bool:
    return near(said["left"], case.left) and near(said["after"], case.left - case.preview.epsilon)


def _would_cost(case: Case, said: re.Match[str]) -> bool:
    return near(said["epsilon"], case.preview.epsilon)


def _cheaper(case: Case, said: re.Match[str]) -> bool:
    now = case.preview.epsilon if case.target.epsilon is None else case.preview.alpha or 0.0
    said_prices = [number(price) for price in re.findall(rf"(?:cost|within) ({NUMBER})", said["ways"])]
    if case.target.epsilon is None and "if it were public" in said["ways"]:
        policy = replace_family(case.policy, said["column"])
        if said_prices[0] < float(case.price(case.query, policy)) * 0.999:
            return False
    return bool(said_prices) and all(price < float(now) for price in said_prices)


def replace_family(policy: Policy, name: str) -> Policy:
    """The policy with one attribute public."""
    return replace(policy, attributes={**policy.attributes, name: public()})


def _released(case: Case, said: re.Match[str]) -> bool:
    return case.answer.epsilon == case.preview.epsilon and near(said["epsilon"].removeprefix("≈ "), case.answer.epsilon)


def _exact(case: Case, said: re.Match[str]) -> bool:
    del said
    return case.is_exact


def _within(case: Case, said: re.Match[str]) -> bool:
    """The width is that of the raw answers, to the next printed step; that it covers is tested over many draws."""
    width, shown = case.answer.widths.simultaneous, number(said["width"])
    return width - 1e-6 <= shown <= width + 1 and near(said["sure"], 100 * (1 - case.target.beta))


def _between(case: Case, said: re.Match[str]) -> bool:
    low, high = number(said["low"]), number(said["high"])
    return low <= case.answer.bounds.low[0] + 1e-6 and high >= case.answer.bounds.high[0] - 1e-6


def _only(case: Case, said: re.Match[str]) -> bool:
    """One value is left in an interval that holds with some confidence: noise is in it, so nothing is called exact."""
    both = case.answer.bounds
    return both.low[0] == both.high[0] == number(said["low"]) and not case.answer.is_exact


def _priced(check: Check) -> Check:
    """The check of an accuracy together with those of the price and the dataset before it."""
    return _capped(lambda case, said: check(case, said) and _released(case, said) and _dataset(case, said))


def _capped(check: Check) -> Check:
    """The check of a number together with that of the rows it counts: a cap is said exactly where there is one."""

    def both(case: Case, said: re.Match[str]) -> bool:
        cap = None if said["cap"] is None else (int(said["cap"]), said["id"])
        unit = case.policy.unit
        return cap == ((unit.at_most, unit.id) if isinstance(unit, Person) else None) and check(case, said)

    return both


def _with_cap_below(check: Check) -> Check:
    """The check of a preview's first line, and that a cap is named below it exactly where there is one."""

    def both(case: Case, said: re.Match[str]) -> bool:
        names_cap = any(re.fullmatch(rf"{CAP}\.", line) for line in case.preview.notes())
        return names_cap == isinstance(case.policy.unit, Person) and check(case, said)

    return both


def _sure(case: Case, said: re.Match[str]) -> bool:
    return near(said["sure"], 100 * (1 - case.target.beta))


def _values(case: Case, said: re.Match[str]) -> bool:
    return number(said["answers"]) == case.truth.size and _within(case, said)


def _attribute_is_free(case: Case, said: re.Match[str]) -> bool:
    return case.price(query("histogram", said["name"])) == 0


def _null_is_free(case: Case, said: re.Match[str]) -> bool:
    return case.price(query("count", (), bf.col(said["name"]).is_null())) == 0


def _steps(case: Case, said: re.Match[str]) -> bool:
    """So many steps: some ordered attribute has that distance between its ends."""
    domain, policy = case.handle.domain, case.policy
    ends = {name: domain[name].size - 1 for name in policy.attributes if isinstance(domain[name], Integers)}
    return number(said["steps"]) in {hidden_distance(domain, policy, name, 0, last) for name, last in ends.items()}


def _theta(case: Case, said: re.Match[str]) -> bool:
    return case.policy.attributes[said["name"]] == bf.threshold(said["theta"])


def _blocks_are_free(case: Case, said: re.Match[str]) -> bool:
    """The number of blocks is that of the family, and the first block of a cut axis is counted for nothing."""
    family = case.policy.attributes[said["name"]]
    blocks, cuts = getattr(family, "blocks", ()), getattr(family, "cuts", ())
    column = bf.col(said["name"])
    inside = column.isin(list(blocks[0])) if blocks else column < cuts[0]
    return (len(blocks) or len(cuts) + 1) == number(said["blocks"]) and case.price(query("count", (), inside)) == 0


def _groups(case: Case, said: re.Match[str]) -> bool:
    """So many groups: some attribute with listed pairs falls into them, counted by joining pairs one by one."""
    return number(said["groups"]) in {_parts(case, name) for name in case.policy.attributes}


def _parts(case: Case, name: str) -> int:
    attribute, family = case.handle.domain[name], case.policy.attributes[name]
    group = {code: code for code in range(attribute.size)}
    for pair in getattr(family, "edges", ()):
        one, two = (group[int(attribute.encode(np.array([value]))[0])] for value in pair)
        group = {code: one if label == two else label for code, label in group.items()}
    return len(set(group.values()))


def _one_step(case: Case, said: re.Match[str]) -> bool:
    return _ends_apart(case, said["name"]) == 1


def _two_steps(case: Case, said: re.Match[str]) -> bool:
    """No two values are more than two steps apart: of the named attribute, or of one of them."""
    named = said.groupdict().get("name")
    return any(_ends_apart(case, name) <= 2 for name in ([named] if named else case.policy.attributes))


def _ends_apart(case: Case, name: str) -> float:
    """The steps between the first and the last value; infinite where nothing leads from one to the other."""
    attribute = case.handle.domain[name]
    values = attribute.values if isinstance(attribute, Categorical) else (0, attribute.size - 1)
    steps = hidden_distance(case.handle.domain, case.policy, name, values[0], values[-1])
    return math.inf if steps is None else steps


def _composition(case: Case, said: re.Match[str]) -> bool:
    hidden = sum(not isinstance(case.policy.family(name), Public) for name in case.handle.domain)
    return case.policy.composition == "attribute" and said["count"] == said["times"] == str(hidden)


def _listed_pairs(case: Case, said: re.Match[str]) -> bool:
    family = case.policy.attributes[said["name"]]
    return len(getattr(family, "edges", ())) == number(said["pairs"])


def _cap(case: Case, said: re.Match[str]) -> bool:
    """The stated cap is the policy's, and what is counted is so many rows of each person and no more."""
    return case.policy.rows_per_person == number(said["cap"])


def _dataset(case: Case, said: re.Match[str]) -> bool:
    return said["dataset"] == case.handle.name and near(said["version"], case.handle.policy_version)


def _constraints(case: Case, said: re.Match[str]) -> bool:
    """What is declared is listed; a stated number of records that change together is the proven one."""
    together = re.match(r"up to (\d+) records? changes? together", said["list"])
    if together:
        moves = moves_at_once(case.handle.domain, case.policy)
        return moves is not None and int(together[1]) <= moves
    return said["list"] == constraint_list(case.policy.constraints)


def _is_of_people(asked: Query) -> bool:
    return any(part.function == "people" for part in asked.aggregates)


def _columns(case: Case, said: re.Match[str]) -> bool:
    """No interval of a column is wider than was told beforehand."""
    told = [number(within) for within in re.findall(rf"within ({NUMBER})", said["columns"])]
    bounds = [case.answer.column(place).bounds for place in range(len(case.answer.columns))]
    return len(told) == len(bounds) and all(
        bool(np.all(both.high - both.low <= 2 * within + 1e-6)) for both, within in zip(bounds, told, strict=True)
    )


def _covered(case: Case, said: re.Match[str]) -> bool:
    """The entry is the one that paid, it did so on that day, and the replay was not charged."""
    day = datetime.date.fromisoformat(case.answer.released[:10])
    is_free = case.preview.epsilon == case.charged == 0 < case.answer.epsilon
    return is_free and int(said["entry"]) == case.entry and said["day"] == f"{day.day} {day:%b %Y}"


def _offered(case: Case, said: re.Match[str]) -> bool:
    """A line of the price list is the offer, with what it promises rounded up."""
    (offer,) = [one for one in case.preview.offers if one.mechanism == said["mechanism"]]
    within = offer.alpha is None
    if offer.alpha is not None and said["within"] != "-":
        within = (1 - TOLERANCE) * offer.alpha <= number(said["within"]) <= 1.001 * offer.alpha
    error = offer.rmse is None if said["error"] == "-" else near(said["error"], offer.rmse or 0.0)
    return within and error and near(said["epsilon"], offer.epsilon)


def _always(case: Case, said: re.Match[str]) -> bool:
    del case, said
    return True


NAME = r"(?P<name>\w+)"
SURE = rf"\((?P<sure>{NUMBER}) %\)"
EPSILON = rf"(?P<epsilon>(?:≈ )?{NUMBER}(?:/\d+)?)"
PRICE = rf"(?P<title>.+)   epsilon {EPSILON} of (?P<dataset>\S+) \(policy v(?P<version>\d+)\)"
CAP = r"[aA]t most (?P<cap>\d+) rows? per (?P<id>\w+) (?:is|are) counted"
ACCURACIES: Registry = (
    ("exact", _exact),
    (rf"(?:every value )?within (?P<width>{NUMBER}) {SURE}", _within),
    (rf"between (?P<low>-?{NUMBER}) and (?P<high>-?{NUMBER}) {SURE}", _between),
    (rf"no value but (?P<low>-?{NUMBER}) fits {SURE}", _only),
    (rf"all intervals hold together {SURE}", _sure),
)
"""How near an answer is, as it stands beside it."""


def _ways(case: Case, said: re.Match[str]) -> bool:
    """A synopsis is free; of the others the cheapest is what is charged, and none is less accurate than was asked."""
    ways = list(WAY.finditer(said["ways"]))
    others = [way for way in ways if way["name"] != "synopsis"]
    alpha = case.target.alpha
    return (
        "".join(way[0] for way in ways) == said["ways"]
        and all(number(way["price"]) == 0 for way in ways if way["name"] == "synopsis")
        and near(min((way["price"] for way in others), key=number), case.charged)
        and all(alpha is None or not way["within"] or number(way["within"]) <= 1.001 * float(alpha) for way in others)
    )


def _ends(case: Case, said: re.Match[str]) -> bool:
    """The ends are those of the declared values, and values beyond them count as them."""
    domain = case.handle.domain
    attribute = next(domain[name] for name in domain if name.lower() == said["name"].lower())
    ends = (attribute.value_at(0), attribute.value_at(attribute.size - 1))
    declared = attribute.outside == "clamp" and (not said["null"] or str(attribute.null) == said["null"])
    all_values = (case.answer.bounds.low.min(), case.answer.bounds.high.max()) == ends
    return declared and (said["low"], said["high"]) == tuple(map(str, ends)) and (not said["few"] or all_values)


REGISTERED: Registry = (
    (
        r"(?P<few>So few records may be counted that the mean can be any declared value; )?"
        r"(?P<name>\w+) below (?P<low>-?[\d.]+) or above (?P<high>-?[\d.]+) counts as that end, and intervals are of "
        r"values so counted(?:; NULL of \w+ counts as (?P<null>-?[\d.]+))?\.?",
        _ends,
    ),
    (r"Ways to it: (?P<ways>.+)", _ways),
    # Previews.
    (rf"{CAP}\.", _capped(_always)),
    (rf"(?P<title>.+): (?P<answers>{NUMBER}) answers? for epsilon (?P<epsilon>\S+)", _with_cap_below(_head_epsilon)),
    (
        rf"(?P<title>.+): (?P<answers>{NUMBER}) answers?, .+ within (?P<alpha>{NUMBER}) {SURE}",
        _with_cap_below(_head_alpha),
    ),
    (
        rf"Why: (?P<first>\S+) (?:asks the least epsilon|has the least expected error): (?P<one>{NUMBER}) against "
        rf"(?P<two>{NUMBER})(?: \((?P<times>{NUMBER}) times\))? of (?P<second>\S+)\.",
        _why,
    ),
    (r"Why: \S+ promises the closest answers of those whose expected error is within 5% of the least\.", _closest),
    (r"Why: the policy hides nothing that these answers depend on, so they are exact and free\.", _free),
    (
        r"Why: sums and means are measured as they are, which costs the least\.",
        lambda case, said: case.preview.best.epsilon == min(offer.epsilon for offer in case.preview.offers),
    ),
    (r"Worst pair: a record .+ <-> .+\.", lambda case, said: case.preview.best.epsilon > 0),
    (rf"would cost epsilon (?P<epsilon>{NUMBER}) by \S+; nothing is charged yet", _would_cost),
    (rf"You have (?P<left>{NUMBER}) left; this leaves (?P<after>{NUMBER})\.?", _budget),
    (r"The filter on (?P<column>\w+) makes this expensive: (?P<ways>.+)\.", _cheaper),
    (r"Public constraints: (?P<list>.+)\.", _constraints),
    (r"Columns: (?P<columns>.+)\.", _columns),
    (r"It costs nothing: what entry (?P<entry>\d+) paid on (?P<day>.+) covers it\.", _covered),
    (r"mechanism +epsilon +within +usual error", _always),
    (
        rf"(?P<mechanism>[\w-]+) +(?P<epsilon>{NUMBER}) +(?P<within>{NUMBER}|-) +(?P<error>{NUMBER}|-)(?: +\D+)?",
        _offered,
    ),
    # Answers.
    *((rf"{PRICE}   {words}(?:   {CAP})?", _priced(check)) for words, check in ACCURACIES),
    (
        rf"What is counted: (?P<what>persons, each once in a group|records); {CAP}, and further rows of a person "
        r"count nowhere\.",
        _capped(lambda case, said: (said["what"] != "records") == _is_of_people(case.query)),
    ),
    # Notes.
    (
        r"The policy version \d+ hides nothing that these numbers tell, so they are exact and cost nothing\.",
        _free,
    ),
    (
        rf"Released with epsilon {EPSILON} under the policy version \d+ by the mechanism "
        r"\S+, with exact discrete Laplace noise\.",
        _released,
    ),
    (
        rf"With (?P<sure>{NUMBER}) % confidence every one of the (?P<answers>{NUMBER}) true values is within "
        rf"(?P<width>{NUMBER}) of the measured one\.",
        _values,
    ),
    (
        rf"With (?P<sure>{NUMBER}) % confidence the true value is within (?P<width>{NUMBER}) of the measured one\.",
        _within,
    ),
    (rf"With (?P<sure>{NUMBER}) % confidence all true values lie within the intervals shown\.", _sure),
    (r".+, from the dataset (?P<dataset>\S+)\.", lambda case, said: said["dataset"] == case.handle.name),
    (r"Made with BlowfishDB \S+, \d{4}-\d\d-\d\d; plan [0-9a-f:]{12}\.", _always),
    # What the policy says.
    (rf"{NAME}: nothing is hidden; counts by its values may be released exactly\.", _attribute_is_free),
    (
        rf"(?:{NAME}: )?(?:its values are hidden as far as whether the record is there.+|Any two values can be told "
        r"apart with odds up to e\^\(2 epsilon\)\.)",
        _two_steps,
    ),
    (
        rf"{NAME}: values within each of \d+ blocks are hidden from each other; blocks can be told apart with odds up "
        r"to e\^\(2 epsilon\)\.",
        _two_steps,
    ),
    (rf"{NAME}: NULL is public: how many records have it may be released exactly\.", _null_is_free),
    (rf"{NAME}: values at most (?P<theta>\S+) apart are hidden from each other\.", _theta),
    (
        rf"The lowest and the highest value are (?P<steps>{NUMBER}) steps apart: an observer's odds between values k "
        r"steps apart may change by up to e\^\(k epsilon\)\.",
        _steps,
    ),
    (
        rf"{NAME}: values within each of (?P<blocks>\d+) blocks are hidden from each other; which block a record is in "
        r"is not hidden, and the blocks' counts may be released exactly\.",
        _blocks_are_free,
    ),
    (
        rf"{NAME}: any two values count as one step apart, whatever is declared of them, because of the public "
        r"constraints below\.",
        _one_step,
    ),
    (
        rf"Means, spreads and shares keep this over at least (?P<rows>{NUMBER}) records; the intervals of an answer "
        r"tell what each group got\.",
        lambda case, said: number(said["rows"]) == case.rows,
    ),
    (rf"{NAME}: exactly the listed pairs of values \((?P<pairs>\d+)\) are hidden from each other\.", _listed_pairs),
    (r"The pairs leave (?P<groups>\d+) groups that no path joins; which group a record is in is not hidden\.", _groups),
    (
        rf"{NAME}: NULL is hidden among all values, which puts any two values at most 2 steps apart and makes ordered "
        r"plans expensive; count it as a value, or declare it public, if that is not wanted\.",
        _two_steps,
    ),
    (
        r"(?P<names>\w+ and \w+): places at most (?P<theta>\S+) apart, .+ can be told apart with odds up to .+\.",
        lambda case, said: case.policy.joint[0].theta == Fraction(said["theta"]),
    ),
    (
        r"Only one attribute of a record changes at a time: with attribute composition over (?P<count>\d+) hidden "
        r"attributes one step in each of them costs up to (?P<times>\d+) times epsilon; .+",
        _composition,
    ),
    (
        r"Whether a record is there is hidden as well, which puts any two records at most 2 steps apart\.",
        lambda case, said: case.policy.presence == "secret",
    ),
    (
        r"All rows of one pid are protected together: at most (?P<cap>\d+) rows of each count, the first in the order "
        r"of day, and in answers about rows every loss is multiplied by (?P<times>\d+)\.",
        lambda case, said: _cap(case, said) and said["cap"] == said["times"],
    ),
    (r"How many rows there are, whose they are, how many of each pid's count \(up to (?P<cap>\d+)\), and .+\.", _cap),
    (r"What is declared public: (?P<list>.+)\.", _constraints),
    (r"Whoever asks may be told them exactly\.", _always),
    (
        r"A hidden change of one record changes .+, so other records must make up for it: up to (?P<moves>\d+) "
        r"records? changes? together, .+\.",
        lambda case, said: moves_at_once(case.handle.domain, case.policy) == number(said["moves"]),
    ),
    (
        r"Every loss is summed over them, and any two values count as one step apart: .+",
        lambda case, said: bool(case.policy.constraints),
    ),
    (
        r"(?:No hidden change of a record changes a public constraint, so the constraints cost nothing\.)",
        lambda case, said: moves_at_once(case.handle.domain, case.policy) is None,
    ),
)
"""Patterns of whole sentences, each with its check; the first that matches counts."""


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text that state something."""
    for sentence in SENTENCE_END.split(text):
        for lead in LEADS:
            sentence = sentence.strip().removeprefix(lead)
        if STATES.search(sentence):
            yield sentence


def faults(case: Any, text: str, more: Registry = ()) -> list[str]:
    """The sentences of a text that are unknown, or not so; `more` are those of a face of its own."""
    wrong = [f"exact, yet with a confidence: {said[0]}" for said in CONFIDENT.finditer(text)]
    for sentence in sentences(text):
        known = [(check, said) for pattern, check in (*more, *REGISTERED) if (said := re.fullmatch(pattern, sentence))]
        if not known:
            wrong.append(f"unknown: {sentence}")
        elif not known[0][0](case, known[0][1]):
            wrong.append(f"not so: {sentence}")
    return wrong
