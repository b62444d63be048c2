"""Guidance for whoever declares a table: what such tables need, what a declaration protects, what questions cost."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING
from fractions import Fraction
from itertools import combinations

from blowfishdb.analysis.risk import LARGEST_POWER, Declared, percent_words, risk, usual_pairs
from blowfishdb.catalog.dataset import hidden_words
from blowfishdb.engine.charge import UNREAD, prepare
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.program import QuantilesRelease
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import AccuracyTarget, make_request
from blowfishdb.errors import BlowfishError, CatalogError, plural
from blowfishdb.model.arguments import checked
from blowfishdb.model.distance import hidden_distance
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs import Presence
from blowfishdb.model.numbers import suggest
from blowfishdb.model.policy import Full, Person, Policy
from blowfishdb.model.predicate import col
from blowfishdb.model.query import Query, query
from blowfishdb.present.words import question_words
from blowfishdb.sources.base import ColumnKind, ColumnType

NUMBERS = (ColumnKind.INTEGER, ColumnKind.REAL, ColumnKind.DECIMAL)
YEARS_BACK = 5
SAFE_PRESENCE: Presence = "secret"
KEYS = ("id", "ids", "uuid", "guid", "key")
IDENTIFIERS = (*KEYS, "no", "nr", "number", "code")
PERSONAL = ("name", "email", "mail", "phone", "address", "street", "ssn", "iban", "ip", "url", "username", "surname")
PEOPLE = (
    *(
        "person",
        "individual",
        "member",
        "user",
        "respondent",
        "subject",
        "pid",
        "patient",
        "mrn",
        "employee",
        "student",
    ),
    *("customer", "client", "buyer", "visitor", "account", "card", "cookie", "device", "driver", "vehicle", "who"),
)
FREE_TEXT = ("note", "notes", "comment", "comments", "text", "description", "remark", "remarks", "message", "title")


@dataclass(frozen=True)
class Concept:
    """A kind of column that names give away: its usual bounds, and what people often hide instead of everything.

    `domain` is in the words of a declaration, with the year of today as {year} and an earlier one as {past}; `looser`
    is a cheaper policy, and `gives_up` what it no longer hides.
    """

    names: tuple[str, ...]
    kinds: tuple[ColumnKind, ...]
    domain: str
    looser: str = ""
    gives_up: str = ""


CONCEPTS = (
    Concept(("age", "ages"), NUMBERS, "0..110", "within 10", "whether somebody is young or old"),
    Concept(
        ("birth", "born", "dob", "birthday"),
        (ColumnKind.DATE, ColumnKind.TIMESTAMP),
        "1910-01-01..{year}-12-31 by year",
    ),
    Concept(
        ("latitude", "lat"), NUMBERS, "-90..90 step 0.1", "within 0.5", "where it is by more than about 50 kilometres"
    ),
    Concept(
        ("longitude", "lon", "lng", "long"),
        NUMBERS,
        "-180..180 step 0.1",
        "within 0.5",
        "where it is by more than about 50 kilometres",
    ),
    Concept(
        ("cost", "costs", "price", "amount", "total", "charge", "fee", "paid", "fare", "spent", "value"),
        NUMBERS,
        "0..50000 step 100",
        "within 1000",
        "whether it is cheap or expensive",
    ),
    Concept(
        ("income", "salary", "wage", "wages", "pay", "earnings"),
        NUMBERS,
        "0..200000 step 1000",
        "within 10000",
        "whether somebody earns little or much",
    ),
    Concept(
        ("stay", "los", "duration", "days", "minutes", "hours", "length"),
        NUMBERS,
        "0..365",
        "within 7",
        "whether it is short or long",
    ),
    Concept(("quantity", "qty", "items", "count", "children", "persons", "visits", "size"), NUMBERS, "0..100"),
    Concept((), (ColumnKind.BOOLEAN,), "false, true"),
    Concept(
        ("date", "day", "admitted", "discharged", "visited", "ordered", "bought", "created", "seen"),
        (ColumnKind.DATE, ColumnKind.TIMESTAMP),
        "{past}-01-01..{year}-12-31 by day",
        "within 30 days",
        "the season and the year",
    ),
    Concept((), (ColumnKind.DATE, ColumnKind.TIMESTAMP), "{past}-01-01..{year}-12-31 by day"),
    Concept((), (ColumnKind.INSTANT,), "{past}-01-01T00:00..{year}-12-31T00:00 by day"),
)
"""What is known of columns, the first that fits counts; without names, of every column of such a type."""


@dataclass(frozen=True)
class Profile:
    """What a table is about, and the cap of rows per person and the budgets to begin with."""

    title: str
    at_most: int
    epsilon: str
    per_analyst: str | None


PROFILES: Mapping[str, Profile] = {
    "patients": Profile("Patients and visits", 5, "1", "0.25"),
    "census": Profile("People of a census", 1, "2", "0.5"),
    "purchases": Profile("Purchases, web logs", 10, "2", "0.5"),
    "positions": Profile("Positions", 10, "1", "0.25"),
    "other": Profile("Anything else", 5, "1", None),
}


@dataclass(frozen=True)
class ColumnProposal:
    """The words of a domain to begin with, none where a list is to be filled in or nothing can be guessed."""

    domain: str
    is_used: bool
    why: str
    looser: str = ""
    gives_up: str = ""


@dataclass(frozen=True)
class TableProposal:
    """What a profile proposes for the columns of a table; names and types tell it, rows are not read."""

    profile: Profile
    columns: Mapping[str, ColumnProposal]
    person: str | None
    row_key: str | None

    @property
    def unit(self) -> Person | None:
        """The people whose rows are protected together, where a column that tells them apart and a row key show."""
        if self.person is None or self.row_key is None:
            return None
        return Person(self.person, self.profile.at_most, self.row_key)


def read_profile(name: str) -> Profile:
    """The profile of a name; CatalogError lists the known names."""
    if name not in PROFILES:
        raise CatalogError(f"there is no profile {name[:40]!r}; {suggest(name, PROFILES)}")
    return PROFILES[name]


def propose(profile: Profile, columns: Mapping[str, ColumnType], today: datetime.date | None = None) -> TableProposal:
    """Domains to fill in and the unit, from the names and the types of the columns."""
    year = (datetime.date.today() if today is None else today).year
    person = next((name for name in columns if _tells_people_apart(name)), None)
    keys = [name for name in columns if name != person and {*KEYS, "row"} & set(_words_of(name))]
    proposals = {name: _of_column(name, column, person, year) for name, column in columns.items()}
    return TableProposal(profile, proposals, person, keys[0] if keys else None)


def _of_column(name: str, column: ColumnType, person: str | None, year: int) -> ColumnProposal:
    words = set(_words_of(name))
    if name == person:
        return ColumnProposal("", False, "it tells people apart")
    if words & {*PERSONAL, *FREE_TEXT}:
        return ColumnProposal("", False, "a name or free text")
    if words & set(KEYS):
        return ColumnProposal("", False, "a key, which tells single rows apart")
    for concept in CONCEPTS:
        # Files of text tell no types: a column of theirs is known by its name alone.
        if (words & set(concept.names)) if concept.names else column.kind in concept.kinds:
            if column.kind not in (ColumnKind.TEXT, *concept.kinds):
                continue
            domain = concept.domain.format(year=year, past=year - YEARS_BACK)
            if column.kind in (ColumnKind.REAL, ColumnKind.DECIMAL) and " step " not in domain:
                domain = f"{domain} step 1"
            return ColumnProposal(domain, True, "usual bounds, to be made yours", concept.looser, concept.gives_up)
    if column.kind is ColumnKind.TEXT:
        return ColumnProposal("", True, "list its values, as the code book has them")
    return ColumnProposal("", False, "say its bounds, or list its values")


def _tells_people_apart(name: str) -> bool:
    """Whether a name such as patient, patient_id or customerNo is that of an identifier of people."""
    words = set(_words_of(name))
    return bool(words & set(PEOPLE)) and words <= {*PEOPLE, *IDENTIFIERS}


def _words_of(name: str) -> list[str]:
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


@dataclass(frozen=True)
class Pair:
    """Two values of one attribute that somebody would like to tell apart."""

    attribute: str
    one: object
    two: object


@checked()
@dataclass(frozen=True)
class PolicyPrice:
    """A question under one policy. `steps` has the distance of each pair, None where it is not hidden at all.

    Where no mechanism can answer, `epsilon` and `alpha` are None and `refusal` says why.
    """

    name: str
    epsilon: Fraction | None
    alpha: float | None
    mechanism: str
    steps: tuple[int | None, ...]
    refusal: str = ""

    def odds(self, place: int) -> float | None:
        """By what factor an observer's odds between a pair's values may change; None: they may become certain."""
        if not 0 <= place < len(self.steps):
            raise CatalogError(f"there are {plural(len(self.steps), 'pair')}, the first of which is 0")
        steps = self.steps[place]
        if steps is None or self.epsilon is None:
            return None
        power = float(self.epsilon) * steps
        return math.exp(power) if power <= LARGEST_POWER else None


def what_if(
    domain: Domain, policies: Mapping[str, Policy], query: Query, target: AccuracyTarget, pairs: Sequence[Pair] = ()
) -> tuple[PolicyPrice, ...]:
    """The price of one question under each policy, in the given order: that of the release which would run."""
    prices = []
    for name, policy in policies.items():
        policy.check(domain)
        steps = tuple(hidden_distance(domain, policy, pair.attribute, pair.one, pair.two) for pair in pairs)
        handle = DatasetHandle(name, domain, policy, "", 0, 0, 0, UNREAD)
        try:
            prices.append(PolicyPrice(name, *_promise(handle, query, target), steps))
        except BlowfishError as refusal:
            prices.append(PolicyPrice(name, None, None, "", steps, refusal.message))
    return tuple(prices)


def _promise(handle: DatasetHandle, query: Query, target: AccuracyTarget) -> tuple[Fraction, float | None, str]:
    """The price of a release, how far off it is at most, and its mechanism."""
    release = prepare(handle, make_request(handle, query, target))
    if isinstance(release, PlanRelease):
        return release.epsilon, release.compiled.shown(release.best.alpha), release.best.mechanism
    if isinstance(release, QuantilesRelease):
        return release.epsilon, release.best.alpha, release.best.mechanism
    preview = release.preview(handle)
    best = preview.best if isinstance(preview, Preview) else None
    return release.epsilon, None if best is None else best.alpha, "" if best is None else best.mechanism


SUSPICION = Fraction(1, 100)
SEVERAL = 5
"""Rows of one person with which the text shows what protecting rows one by one means."""
USUAL_TARGET = AccuracyTarget(Fraction(100), None)
"""Every count within 100, with probability 0.95."""
MOST_CELLS, MOST_RUNNING = 2**16, 600
PERMANENT = (
    "What was spent is never given back.",
    "A column may come or go later, but it is not declared in another way.",
    "Presence that was public is not hidden any more, and rows that were protected one by one are not protected as "
    "those of people.",
    "A policy that hides more than the one before multiplies what was spent, or is refused.",
)
"""What the first answer makes final."""


@dataclass(frozen=True)
class PricedQuestion:
    """A typical question and what it costs; None where it is refused."""

    words: str
    epsilon: Fraction | None
    refusal: str = ""

    def times(self, budget: Fraction) -> int | None:
        """How often a budget pays for it, were nothing shared; None where it costs nothing or is refused."""
        return int(budget / self.epsilon) if self.epsilon else None


@dataclass(frozen=True)
class Belief:
    """What somebody who suspects `one` rather than `two` with 1 % could believe, after one answer and after all.

    Both are None where the policy does not hide the two from each other.
    """

    one: str
    two: str
    after_one: float | None
    after_all: float | None

    @property
    def words(self) -> str:
        """In a sentence."""
        pair = f"{self.one} rather than {self.two}"
        if self.after_one is None or self.after_all is None:
            return f"{pair}: not hidden, answers may tell it"
        one, many = most_words(self.after_one), most_words(self.after_all)
        return f"{pair}: at most {one} after one answer, {many} after all of them"


@dataclass(frozen=True)
class ColumnGuidance:
    """One column: what is hidden of it, and what could be believed of two of its values."""

    name: str
    hidden: str
    beliefs: tuple[Belief, ...]


@checked()
@dataclass(frozen=True)
class Guidance:
    """What a declaration protects and what three typical questions cost, each count within 100 (95 %)."""

    questions: tuple[PricedQuestion, ...]
    columns: tuple[ColumnGuidance, ...]
    unit: str
    presence: str
    budget: Fraction
    share: Fraction | None = None
    """What one analyst may spend of the budget."""

    def times(self, question: PricedQuestion) -> list[str]:
        """How often the budget pays for a question, and how often the share of one analyst, where there is one."""
        if question.epsilon is None:
            return [""] * (1 + (self.share is not None))
        amounts = [self.budget, *([] if self.share is None else [min(self.share, self.budget)])]
        return ["free" if question.epsilon == 0 else str(question.times(amount)) for amount in amounts]

    @property
    def advice(self) -> str:
        """What to do where one analyst's share pays for none of the questions; else nothing."""
        prices = [one.epsilon for one in self.questions if one.epsilon is not None]
        if self.share is None or not prices or min(prices) <= min(self.share, self.budget):
            return ""
        return (
            "One analyst's share pays for none of these. Analysts can ask for less accuracy; a larger share, or fewer "
            "rows of each person, buys more."
        )

    @property
    def heads(self) -> list[str]:
        """What `times` says."""
        return ["times within the budget", *([] if self.share is None else ["by one analyst"])]


def typical_questions(domain: Domain) -> list[Query]:
    """A histogram, a running count and a table of two attributes, as far as the domain has them.

    The running count is over the most values that are priced while somebody looks on.
    """
    small = sorted(domain, key=lambda name: domain[name].size)
    questions = [query("histogram", [small[0]])]
    ordered = [name for name in domain if domain[name].ordered and domain[name].size <= MOST_CELLS]
    if ordered:
        quick = [name for name in ordered if domain[name].size <= MOST_RUNNING]
        shown = max(quick or ordered, key=lambda name: domain[name].size if quick else -domain[name].size)
        questions.append(query("cdf", [shown]))
    pairs = [pair for pair in combinations(small, 2) if domain[pair[0]].size * domain[pair[1]].size <= MOST_CELLS]
    if pairs:
        questions.append(query("histogram2d", pairs[0]))
    return questions


def trial_questions(domain: Domain) -> list[Query]:
    """The number of records, and for each attribute a question that reads it: what every later question is made of."""
    questions = [query("count")]
    for name, attribute in domain.attributes:
        is_small = attribute.size <= MOST_CELLS
        questions.append(
            query("histogram", [name]) if is_small else query("count", where=col(name) == attribute.value_at(0))
        )
    return questions


@dataclass(frozen=True)
class Tried:
    """A trial question: how long the data source took to count for it, and what it said where it failed."""

    question: str
    seconds: float
    failure: str = ""


def guide(
    declared: Declared, budget: Fraction, price: Callable[[Query], PolicyPrice], share: Fraction | None = None
) -> Guidance:
    """What a declaration protects and costs; `price` quotes a question under it. Reads no data."""
    questions = []
    for one in typical_questions(declared.domain):
        quote = price(one)
        questions.append(PricedQuestion(question_words(one), quote.epsilon, quote.refusal))
    payable = [one.epsilon for one in questions if one.epsilon and one.epsilon <= budget]
    most_expensive = max(payable, default=budget)
    columns = tuple(
        ColumnGuidance(name, hidden_words(name, declared.policy), beliefs_of(declared, name, most_expensive, budget))
        for name in declared.domain
    )
    presence = PRESENCE_WORDS[declared.policy.presence]
    return Guidance(tuple(questions), columns, unit_words(declared, budget), presence, budget, share)


def beliefs_of(declared: Declared, name: str, one_answer: Fraction, budget: Fraction) -> tuple[Belief, ...]:
    """What could be believed of two far values of an attribute; of near ones as well where they are hidden better.

    None where public constraints tie records together: no number of steps bounds what is learned then.
    """
    beliefs: list[Belief] = []
    for two, one in reversed(usual_pairs(declared.domain[name])):
        try:
            risks = [risk(declared, amount, one, two, attribute=name) for amount in (one_answer, budget)]
        except BlowfishError:
            return ()
        after_one, after_all = (None if each.steps is None else each.posterior(SUSPICION)[1] for each in risks)
        if not beliefs or after_all != beliefs[0].after_all:
            beliefs.append(Belief(risks[0].one, risks[0].two, after_one, after_all))
    return tuple(beliefs)


PRESENCE_WORDS: Mapping[Presence, str] = {
    "secret": "Nobody learns whether somebody is in the table.",
    "public": "Everybody may know who is in the table, and how many rows there are.",
    "only": "Whether somebody is in the table is all that is hidden.",
}


def saves_little(declared: Declared, name: str, beside: str = "") -> str:
    """Why hiding less of an attribute saves little, perhaps beside another one; nothing where it may save much."""
    policy = declared.policy
    if beside and policy.joint_of(beside) is None and isinstance(policy.family(beside), Full):
        return (
            f"everything about {beside} is hidden, so a record may move between any two of its groups whatever is "
            f"hidden of {name}: hiding less of {name} saves little"
        )
    reasons = []
    if declared.policy.presence == "secret":
        reasons.append("whether somebody is in the table is hidden")
    if declared.domain[name].has_hidden_cell:
        reasons.append("NULL or values outside are hidden among all values")
    if not reasons:
        return ""
    return f"{' and '.join(reasons)}, which brings any two values within 2 steps: hiding less saves little"


def cap_words(unit: Person) -> str:
    """How many rows of a person count."""
    return f"at most {plural(unit.at_most, 'row')} of each {'counts' if unit.at_most == 1 else 'count'}"


def unit_words(declared: Declared, budget: Fraction) -> str:
    """What the unit means for somebody with several rows, in numbers."""
    unit = declared.policy.unit
    if isinstance(unit, Person):
        return f"All rows of a person are protected together; {cap_words(unit)}."
    name = next(iter(declared.domain))
    words = "Each row is protected on its own, and somebody with several rows less"
    for two, one in usual_pairs(declared.domain[name])[-1:]:
        with suppress(BlowfishError):
            several = risk(declared, budget, one, two, attribute=name, records=SEVERAL)
            if several.steps is not None:
                most = most_words(several.posterior(SUSPICION)[1])
                return f"{words}: with {SEVERAL} rows, a suspicion of 1 % could become {most} after all answers."
    return f"{words}."


def budget_words(declared: Declared, before: Fraction, after: Fraction) -> str:
    """What another budget means, in the risk meter's words: what 1 % could become before and after."""
    least, best = [], []
    for budget in (before, after):
        beliefs = [belief for name in declared.domain for belief in beliefs_of(declared, name, budget, budget)]
        shares = [one.after_all for one in beliefs if one.after_all is not None] or [float(SUSPICION)]
        least.append(max(shares))
        best.append(min(shares))
    words = f"Over all answers together, a suspicion of 1 % could become {most_words(least[1])}"
    if least == best:
        return f"{words}; with the budget before it was {most_words(least[0])}."
    return (
        f"{words} where the policy hides least, and {most_words(best[1])} where it hides most; with the budget before "
        f"it was {most_words(least[0])} and {most_words(best[0])}."
    )


def most_words(share: float) -> str:
    """A share as an upper bound."""
    return percent_words(share, ROUND_CEILING)
