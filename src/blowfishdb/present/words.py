"""Numbers, answers and queries as people read them; ends of an interval are rounded outward, so it stays true."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction

import numpy as np

from blowfishdb.errors import plural, sentence
from blowfishdb.mechanisms.parameters import settings_words
from blowfishdb.model.domain import Domain
from blowfishdb.model.explain import explain
from blowfishdb.model.numbers import Floats, show
from blowfishdb.model.policy import Person, Policy, Row
from blowfishdb.model.predicate import Axis, condition_words
from blowfishdb.model.query import Query
from blowfishdb.present.answer_values import AnswerValues

SHORT_EPSILON = 12
"""An epsilon with a longer exact form is shown rounded up, with a sign that says so."""

LONGEST_LABEL = 40
SEPARATOR = " · "
"""Between the parts of a line below a title."""


@dataclass(frozen=True)
class Digits:
    """A number of places after the point."""

    places: int

    def value(self, number: float) -> str:
        """The number, rounded to the nearest."""
        return self._text(round(number, self.places))

    def low(self, number: float) -> str:
        """The number, rounded down."""
        step = 10.0**self.places
        return self._text(math.floor(number * step) / step)

    def high(self, number: float) -> str:
        """The number, rounded up."""
        step = 10.0**self.places
        return self._text(math.ceil(number * step) / step)

    def _text(self, number: float) -> str:
        return f"{number + 0.0:,.{self.places}f}"


def digits_of(answer: AnswerValues) -> Digits:
    """Whole numbers where all are whole, and for counts; else two digits of the narrowest interval."""
    return Digits(0) if answer.is_counts else digits_for(answer.values, answer.bounds.low, answer.bounds.high)


def digits_for(values: Floats, low: Floats, high: Floats) -> Digits:
    """None where all numbers are whole, else two digits of the narrowest interval."""
    shown = np.concatenate([values, low, high])
    if np.array_equal(shown, np.round(shown)):
        return Digits(0)
    widths = high - low
    narrowest = float(widths[widths > 0.0].min(initial=math.inf))
    if not math.isfinite(narrowest):
        return Digits(2)
    return Digits(min(max(1 - math.floor(math.log10(narrowest)), 0), 6))


def upper_end(number: float, digits: int = 4) -> float:
    """A number rounded up to a few digits, so that what is at most the number is at most this."""
    if number <= 0.0 or not math.isfinite(number):
        return number
    # By its decimal digits: a quotient of floats may lie above a whole number that it is.
    exact = Decimal(repr(float(number)))
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), ROUND_CEILING))


def readable(number: float) -> str:
    """A number to four digits, written out: 77,850, not 7.785e+04; only what is very large or small is not."""
    if not math.isfinite(number) or not 1e-6 <= abs(number) < 1e15:
        return f"{number:.4g}"
    places = max(3 - math.floor(math.log10(abs(number))), 0)
    short = float(f"{number:.4g}")
    text = f"{short:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def budget_words(left: Fraction, price: Fraction) -> str:
    """The budget that is left, and what the price would leave of it."""
    after = left - price
    if left <= 0 and price:
        return "You have nothing left to spend here; the curator can renew your budget."
    rest = f"this leaves {_readable(after)}" if after >= 0 else "this is too expensive"
    return f"You have {_readable(left)} left; {rest}."


def _readable(number: Fraction) -> str:
    return readable(float(number)) if abs(number) < 10**300 else "more than 10^300"


def percent(beta: float) -> str:
    """The confidence that an error probability leaves: 0.05 becomes "95 %"."""
    left = (1 - Decimal(repr(float(beta)))) * 100
    return f"{left.normalize():f} %"


def epsilon_words(epsilon: Fraction) -> str:
    """Epsilon exactly where that is short, else to three digits, rounded up."""
    exact = show(epsilon)
    if len(exact) <= SHORT_EPSILON:
        return exact
    places = max(2 - math.floor(math.log10(epsilon)), 0)
    return f"≈ {math.ceil(epsilon * 10**places) / 10**places:.{places}f}"


def minute_words(at: str) -> str:
    """A moment to the minute: "2025-03-31T09:15:20+00:00" becomes "2025-03-31 09:15"."""
    return at[:16].replace("T", " ")


def printable(text: str) -> str:
    """The text without characters that could steer a terminal or turn the direction of writing."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)


def shortened(label: str, most: int = LONGEST_LABEL) -> str:
    """The label, safe to print and not too long; both its ends are kept, since labels often differ in the last."""
    safe = printable(label)
    tail = most // 3
    return safe if len(safe) <= most else f"{safe[: most - 1 - tail]}…{safe[-tail:]}"


def counted_words(unit: Row | Person) -> str:
    """The rows that answers count where not all do: "at most 5 rows per patient are counted"; else nothing."""
    if not isinstance(unit, Person):
        return ""
    return f"at most {plural(unit.at_most, 'row')} per {unit.id} {'is' if unit.at_most == 1 else 'are'} counted"


def read_counted(stored: str) -> str:
    """The rows that a stored answer counts; the first ones had "of at most 5 rows per patient" for it."""
    if not stored.startswith("of at most "):
        return stored
    return f"{stored.removeprefix('of ')} {'is' if stored.startswith('of at most 1 row ') else 'are'} counted"


def price_words(answer: AnswerValues) -> str:
    """The price, the dataset and the version of its policy: "epsilon 0.41 of visits (policy v2)"."""
    version = f" (policy v{answer.policy_version})" if answer.policy_version is not None else ""
    return f"epsilon {epsilon_words(answer.epsilon)}{f' of {answer.dataset}' if answer.dataset else ''}{version}"


def mechanism_words(answer: AnswerValues) -> str:
    """The mechanism, with the parameters that were set: "dawa (split=0.3)"."""
    return f"{answer.mechanism} ({settings_words(answer.parameters)})" if answer.parameters else answer.mechanism


def caption_words(answer: AnswerValues) -> str:
    """The line below a title: price, mechanism, accuracy, and which rows are counted where not all are."""
    parts = (price_words(answer), mechanism_words(answer), accuracy_words(answer), answer.counted)
    return SEPARATOR.join(filter(None, parts))


def accuracy_words(answer: AnswerValues) -> str:
    """The simultaneous accuracy of all values: "every value within 50 (95 %)"."""
    if answer.is_true:
        return "exact"
    if answer.is_list:
        return f"names of groups, without counts ({percent(answer.beta)})"
    digits, one = digits_of(answer), answer.raw.size == 1
    if answer.simultaneous is None:
        what = "noise within" if answer.caveat else "within" if one else "every value within"
        words = f"{what} {digits.high(answer.widths.simultaneous)}"
    elif answer.caveat:
        words = "intervals for the noise alone"
    elif one:
        low, high = digits.low(float(answer.bounds.low[0])), digits.high(float(answer.bounds.high[0]))
        words = f"no value but {low} fits" if low == high else f"between {low} and {high}"
    else:
        words = "all intervals hold together"
    return f"{words} ({percent(answer.beta)})"


EXACT_NOISE = "with exact discrete Laplace noise"
ALWAYS_UNPROTECTED = "What is true of many records alike is not hidden, and what an observer already knows stays known."


def note(answer: AnswerValues) -> str:
    """Plain sentences, in one paragraph."""
    return " ".join(note_parts(answer))


def note_parts(answer: AnswerValues) -> list[str]:
    """The sentences as paragraphs: the answer, what the policy says, what is not protected, and the software."""
    if answer.parts:
        return [paragraph for part in answer.parts for paragraph in note_parts(part)]
    data = f", from the dataset {answer.dataset}" if answer.dataset else ""
    day = f", {answer.released[:10]}" if answer.released else ""
    paragraphs = [
        [f"{answer.title}{data}.", _counted_sentence(answer), _price_sentence(answer), _accuracy_sentence(answer)],
        ["What the policy says:", *answer.protected] if answer.protected else [],
        ["Not protected:", *answer.unprotected, ALWAYS_UNPROTECTED],
        [f"Made with BlowfishDB {answer.version}{day}; plan {answer.certificate.plan_digest[:12]}."],
    ]
    return [printable(" ".join(filter(None, sentences))) for sentences in paragraphs if sentences]


def _counted_sentence(answer: AnswerValues) -> str:
    if not answer.counted:
        return ""
    is_people = bool(answer.columns) and all(column.function == "people" for column in answer.columns)
    what = "persons, each once in a group" if is_people else "records"
    return f"What is counted: {what}; {answer.counted}, and further rows of a person count nowhere."


def _price_sentence(answer: AnswerValues) -> str:
    version = f" version {answer.policy_version}" if answer.policy_version is not None else ""
    if answer.epsilon == 0:
        exact = "have no noise" if answer.leaves_out else "are exact"
        return f"The policy{version} hides nothing that these numbers tell, so they {exact} and cost nothing."
    noise = f"in {plural(len(answer.stages), 'stage')} with exact noise" if answer.stages else EXACT_NOISE
    price = f"epsilon {epsilon_words(answer.epsilon)}"
    return f"Released with {price} under the policy{version} by the mechanism {mechanism_words(answer)}, {noise}."


def _accuracy_sentence(answer: AnswerValues) -> str:
    if answer.is_true:
        return "No noise is in these numbers." if answer.epsilon else ""
    if answer.is_list:
        return answer.consistent.note
    sure = percent(answer.beta)
    width = digits_of(answer).high(answer.widths.simultaneous)
    counted_as = f" {sentence(answer.consistent.note)}" if answer.consistent.note else ""
    if answer.caveat and answer.simultaneous is not None:
        return f"With {sure} confidence noise alone explains the intervals shown. {answer.caveat}{counted_as}"
    if answer.caveat:
        return f"With {sure} confidence noise moved no value by more than {width}. {answer.caveat}"
    if answer.simultaneous is not None:
        return f"With {sure} confidence all true values lie within the intervals shown.{counted_as}"
    if answer.raw.size == 1:
        promise = f"the true value is within {width} of the measured one"
    else:
        promise = f"every one of the {answer.raw.size:,} true values is within {width} of the measured one"
    shown = ""
    if not answer.consistent.feasible:
        shown = f" The measured values are shown as they are ({answer.consistent.note})."
    elif answer.is_counts:
        shown = " The values shown are the nearest consistent ones inside these intervals."
    return f"With {sure} confidence {promise}.{shown}"


def question_words(query: Query) -> str:
    """The query in one line: "CDF of cost where ward = 'A3'"."""
    title = _title(query)
    return title if query.where is None else f"{title} where {condition_words(query.where)}"


def _title(query: Query) -> str:
    axes = {axis.attribute: _axis_words(axis) for axis in query.axes}
    by = " × ".join(axes.values())
    match query.kind:
        case "count":
            return "Number of records"
        case "cdf":
            return f"CDF of {by}"
        case "ranges":
            count = len(query.boxes)
            return f"{'All ranges' if not count else 'One range' if count == 1 else f'{count:,} ranges'} of {by}"
        case "marginals" if query.ways is not None:
            return f"All {query.ways}-way marginals of {', '.join(axes.values())}"
        case "marginals":
            subsets = (" × ".join(axes.get(name, name) for name in subset) for subset in query.subsets)
            return f"Marginals of {', '.join(subsets)}"
        case "histogram" | "histogram2d":
            return f"Histogram of {by}"
        case "table":
            columns = ", ".join(part.words for part in query.aggregates)
            named = f"{columns} by {by}" if by else columns
            return f"{named[:1].upper()}{named[1:]}"
        case "selection":
            if query.most is None:
                return f"Groups of {by} with at least {plural(query.above or 0, 'record')}"
            return f"The {'group' if query.most == 1 else plural(query.most, 'group')} of {by} with the most records"
        case "linear":
            return f"{plural(len(query.linear), 'weighted sum')} of {by}"
        case "joint":
            return (
                f"{plural(len(query.parts), 'question')}: {'; '.join(question_words(one.query) for one in query.parts)}"
            )
        case "points":
            return f"Point weights of {' × '.join(axes)}"
        case other:
            return f"{other.capitalize()} of {by}"


def _axis_words(axis: Axis) -> str:
    if axis.width is not None:
        return f"{axis.attribute} in bins of {axis.width}"
    if axis.unit is not None:
        return f"{axis.attribute} by {axis.unit}"
    if axis.edges:
        return f"{axis.attribute} in {plural(len(axis.edges) - 1, 'bin')}"
    if axis.groups:
        return f"{axis.attribute} in {plural(len(axis.groups), 'group')}"
    return axis.attribute


def policy_words(domain: Domain, policy: Policy, attributes: Collection[str]) -> tuple[str, ...]:
    """Sentences of the policy about the given attributes."""
    others = tuple(f"{name}: " for name in domain if name not in attributes)
    sentences = tuple(sentence for sentence in explain(domain, policy) if not sentence.startswith(others))
    return (*sentences, "No other attribute enters these numbers.") if others else sentences
