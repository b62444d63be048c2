"""A plan for several questions of one dataset: what they cost together, before anything is released."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import BeforeCharge, Progress, Run
from blowfishdb.engine.compile import counts_people, looked_at
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.request import (
    AccuracyTarget,
    Number,
    TargetOptions,
    accuracy_target,
    spending_cap,
    target_options,
)
from blowfishdb.errors import (
    AccuracyError,
    BudgetExceeded,
    Declined,
    KeyReused,
    QueryError,
    SpendingCapReached,
    TooLarge,
    plural,
    sentence,
)
from blowfishdb.model.arguments import checked
from blowfishdb.model.numbers import show
from blowfishdb.model.query import MOST_PARTS, Part, Query
from blowfishdb.model.serialize import write
from blowfishdb.present.export import aligned
from blowfishdb.present.words import budget_words, readable
from blowfishdb.session.backend import Backend, ListPart, ReleaseRequest, expect
from blowfishdb.session.table import Question, sized_request, with_note

Item: TypeAlias = Question | tuple[Question, Number | Mapping[str, Any]]
"""A question, with the accuracy of all, or with one of its own: a number, or options such as {"alpha": 50}."""


@dataclass(frozen=True, eq=False, repr=False)
class PlannedQuestion:
    """A question of a plan: its accuracy, what it would cost by itself now, and its share of the price."""

    question: Question
    request: ReleaseRequest = field(repr=False)
    alone: Fraction
    price: Fraction
    together: int | None = None
    """The joint release that answers it; None where it is released by itself."""
    note: str = ""
    """What an accuracy in percent was taken of."""

    @property
    def title(self) -> str:
        """The question in words."""
        return self.question.title

    @property
    def accuracy(self) -> str:
        """The accuracy, or the price, that was asked for."""
        target = self.request.target
        if target.alpha is None:
            return f"for epsilon {show(target.epsilon or Fraction(0))}"
        return f"within {readable(float(target.alpha))} ({target.confidence})"


@dataclass(frozen=True, eq=False, repr=False)
class JointPart:
    """The questions, by their places, that one release answers, and its preview."""

    members: tuple[int, ...]
    preview: Preview


@checked()
@dataclass(frozen=True, eq=False, repr=False)
class QuestionPlan:
    """What several questions of one dataset cost together; nothing was read, and nothing is charged before `release`.

    `total` is the most that a release charges; `one_by_one` is what the questions would cost by themselves.
    """

    dataset: str
    questions: tuple[PlannedQuestion, ...]
    total: Fraction
    left: Fraction | None
    joint: tuple[JointPart, ...]
    counted: str
    """Which rows count, where not all of a person's do."""
    _backend: Backend = field(repr=False)

    @property
    def one_by_one(self) -> Fraction:
        """The sum of what the questions would cost by themselves now."""
        return sum((one.alone for one in self.questions), Fraction(0))

    @property
    def is_affordable(self) -> bool:
        """Whether what is left pays for it, as far as that is known."""
        return self.left is None or self.total <= self.left

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        rows = [("question", "accuracy", "alone", "share"), *self.rows(), ("together", "", *self._sums())]
        lines = aligned(rows, "   ", (0, 1))
        return "\n".join([f"{plural(len(self.questions), 'question')} of {self.dataset}", *lines, *self.notes()])

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Each question in words, its accuracy, its price alone, and its share of the price."""
        return [
            (one.title, one.accuracy, readable(float(one.alone)), readable(float(one.price))) for one in self.questions
        ]

    def _sums(self) -> tuple[str, str]:
        return readable(float(self.one_by_one)), readable(float(self.total))

    def notes(self) -> list[str]:
        """Remarks below the questions, a sentence each."""
        sentences = [sentence(self.counted)] if self.counted else []
        sentences += [f"Why: {part.preview.why}" for part in self.joint]
        if not self.joint and len(self.questions) > 1:
            sentences.append("Why: nothing is saved by answering them together, so each is released by itself.")
        if self.total and len(self.questions) > 1:
            sentences.append("Nothing is charged unless all of it fits.")
        return [*sentences, *([] if self.left is None else [budget_words(self.left, self.total)])]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, ready for JSON."""
        questions = [
            {
                "title": one.title,
                "accuracy_target": one.request.target.to_dict(),
                "alone": str(one.alone),
                "price": str(one.price),
                "together": one.together,
            }
            for one in self.questions
        ]
        sums = {"total": self.total, "one_by_one": self.one_by_one, "left": self.left}
        return {"dataset": self.dataset, "questions": questions, **write(sums), "notes": self.notes()}

    def release(
        self,
        *,
        key: str | None = None,
        progress: Progress | None = None,
        deadline: float | None = None,
        spend: Number | None = None,
        before_charge: BeforeCharge | None = None,
    ) -> list[Answer]:
        """An answer to each question, in their order. Nothing is charged where the whole does not fit what is left.

        Questions that are answered together are charged once, in one release. Several releases are charged in one
        transaction before the first is answered. `key` names the plan, so that a second try pays nothing again and
        finishes what was charged. A total above `spend` is refused. `before_charge` hears each price first.
        """
        refuse_above(self.to_pay(key), spending_cap(spend))
        self.check_budget(key)
        members = self._recorded(key) or [part.members for part in self.joint]
        members += [(place,) for place in range(len(self.questions)) if all(place not in each for each in members)]
        requests: list[tuple[ReleaseRequest, Run]] = []
        for places in members:
            chosen = [self.questions[place] for place in places]
            request = _together(chosen) if len(chosen) > 1 else chosen[0].request
            cap = sum((one.price for one in chosen), Fraction(0))
            requests.append((request, Run(_key(key, places), progress, deadline, cap, before_charge)))
        answers: dict[int, Answer] = {}
        for places, answer in zip(members, self._backend.release_all(requests), strict=True):
            answers |= dict(zip(places, answer.parts or (answer,), strict=True))
        return [one.question.shown(with_note(answers[place], one.note)) for place, one in enumerate(self.questions)]

    def _recorded(self, key: str | None) -> list[tuple[int, ...]]:
        """The questions of each release that was charged under the key before: a second try repeats these releases.

        Planned anew they would look cheaper by what is answered, and could be put together in another way.
        """
        members = []
        for past in () if key is None else reversed(self._backend.history(self.dataset, ListPart(key=key))):
            start, _, ending = past.key.rpartition(" ")
            if start == key and MASK.fullmatch(ending):
                mask = int(ending, 16)
                if mask >> len(self.questions):
                    raise KeyReused(key)
                members.append(tuple(place for place in range(len(self.questions)) if mask >> place & 1))
        return members

    def to_pay(self, key: str | None) -> Fraction:
        """The most that a release under the key charges, less than `total` where some of it is on record already."""
        recorded = {place for places in self._recorded(key) for place in places}
        return sum((one.price for place, one in enumerate(self.questions) if place not in recorded), Fraction(0))

    def check_budget(self, key: str | None) -> None:
        """BudgetExceeded where what is to be paid does not fit; a single release is checked by the ledger itself."""
        priced = len(self.joint) + sum(1 for one in self.questions if one.together is None and one.price)
        budget, total = self._backend.budget(self.dataset), self.to_pay(key)
        if priced > 1 and budget.remaining is not None and total > budget.remaining:
            mine = None if budget.limit is None else budget.limit - budget.spent
            raise BudgetExceeded(total, budget.dataset_remaining, mine)


def refuse_above(total: Fraction, spend: Fraction | None) -> None:
    """SpendingCapReached where a total is more than what may be spent."""
    if spend is not None and total > spend:
        raise SpendingCapReached(total, spend)


MASK = re.compile(r"[0-9a-f]{1,16}")
"""How the key of a release of a plan ends: with the bits of the places of its questions."""


def _key(key: str | None, members: Iterable[int]) -> str | None:
    return None if key is None else f"{key} {sum(1 << place for place in members):x}"


def plan_questions(pairs: Sequence[tuple[Question, AccuracyTarget]], backend: Backend) -> QuestionPlan:
    """The plan of questions of one dataset, each at its accuracy target."""
    if not pairs:
        raise QueryError("a plan needs at least one question, such as db.plan([db['visits'].count()], alpha=50)")
    if len(pairs) > MOST_PARTS:
        raise TooLarge("questions of one plan", len(pairs), MOST_PARTS, "Plan fewer at once.")
    datasets = list(dict.fromkeys(question.dataset for question, _ in pairs))
    if len(datasets) > 1:
        raise QueryError(f"these questions ask {' and '.join(datasets)}, which have budgets of their own: plan each")
    dataset, domain = datasets[0], pairs[0][0].domain
    if any(question.domain != domain for question, _ in pairs):
        raise QueryError(f"{dataset} was declared in another way between these questions: ask the dataset anew")
    questions, counted = [], ""
    for question, target in pairs:
        request, note = sized_request(backend, question.request(target))
        preview = expect(backend.preview(request), Preview)
        counted = preview.counted
        questions.append(PlannedQuestion(question, request, preview.epsilon, preview.epsilon, note=note))
    joint = _joint(questions, backend)
    for number, part in enumerate(joint):
        for place, share in zip(part.members, part.preview.parts, strict=True):
            one = questions[place]
            price = share.share * part.preview.epsilon / part.preview.best.epsilon
            questions[place] = replace(one, price=price, together=number)
    total = sum((one.price for one in questions), Fraction(0))
    left = backend.budget(dataset).remaining
    return QuestionPlan(dataset, tuple(questions), total, left, tuple(joint), counted, backend)


def read_item(item: Item, given: TargetOptions) -> tuple[Question, AccuracyTarget]:
    """The question and its accuracy target; `given` is the accuracy of questions that have none of their own."""
    question, accuracy = item if isinstance(item, tuple) and len(item) == 2 else (item, {})
    if not isinstance(question, Question):
        raise QueryError("a plan is made of questions, each perhaps with its accuracy: [q1, (q2, 50)]")
    if isinstance(accuracy, Mapping):
        options = dict(accuracy)
        if not set(options) <= set(ITEM_OPTIONS):
            raise AccuracyError(f"the accuracy of a question has {', '.join(ITEM_OPTIONS)}, and nothing else")
        chosen = target_options(**options)
    else:
        chosen = target_options(alpha=accuracy)
    return question, accuracy_target(**with_own(chosen, given))


def with_own(own: TargetOptions, given: TargetOptions) -> TargetOptions:
    """The options of one question where it has some, and those of all questions for the rest."""
    rest = given.copy()
    if "alpha" in own or "epsilon" in own:
        rest.pop("alpha", None)
        rest.pop("epsilon", None)
    if "mechanism" in own:
        rest.pop("parameters", None)
    return {**rest, **own}


ITEM_OPTIONS = ("alpha", "beta", "epsilon", "accuracy", "confidence", "mechanism", "per_query", "fresh", "parameters")


def _joint(questions: Sequence[PlannedQuestion], backend: Backend) -> list[JointPart]:
    """The releases that answer several questions for less than they cost by themselves.

    All that cost something are tried at once; where one plan does not serve them, those about the same attributes.
    """
    requests = [one.request for one in questions]
    able = [
        place
        for place, one in enumerate(questions)
        if one.alone > 0
        and one.request.target.alpha
        and one.request.target.mechanism is None
        and not counts_people(one.request.query)
    ]
    classes: dict[tuple[bool, frozenset[str]], list[int]] = {}
    for place in able:
        classes.setdefault((requests[place].target.fresh, looked_at(requests[place].query)), []).append(place)
    by_freshness = [[place for place in able if requests[place].target.fresh is fresh] for fresh in (False, True)]
    joint: list[JointPart] = []
    for members in (*by_freshness, *classes.values()):
        if len(members) < 2 or any(place in part.members for part in joint for place in members):
            continue
        chosen = [questions[place] for place in members]
        with suppress(Declined, TooLarge):
            preview = expect(backend.preview(_together(chosen)), Preview)
            if preview.epsilon < sum(one.alone for one in chosen):
                joint.append(JointPart(tuple(members), preview))
    return joint


def _together(questions: Sequence[PlannedQuestion]) -> ReleaseRequest:
    """One request for several questions: their joint query, at the strictest of their accuracies."""
    first, targets = questions[0].request, [one.request.target for one in questions]
    query = Query("joint", parts=tuple(_part(one.request) for one in questions))
    strictest = min(target.alpha for target in targets if target.alpha is not None)
    beta = max(target.beta for target in targets)
    return replace(first, query=query, target=AccuracyTarget(strictest, None, beta, fresh=first.target.fresh))


def _part(request: ReleaseRequest) -> Part:
    target = request.target
    if target.alpha is None:
        raise AccuracyError("questions that are answered together have an accuracy each")
    return Part(request.query, target.alpha, target.beta, target.guarantee == "per-query")
