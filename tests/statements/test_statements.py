"""What previews, answers, notes and the ledger say in numbers is so: in the table, and over many draws of the noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.engine import release as engine
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import make_request
from blowfishdb.engine.target import accuracy_target
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.present.words import note_parts
from tests.statements.draws import BETA, Tally, contradictions
from tests.statements.place import Place, data_name
from tests.statements.sentences import Case, faults
from tests.statements.world import QUESTIONS, WORLDS

TARGETS = ({"epsilon": "0.5"}, {"alpha": "20"})
EVERY = [(world, question) for world in WORLDS for question in QUESTIONS]
FEW = EVERY[::11]
"""Each policy with a question or two, each question with a policy or two."""
DRAWS = 80
DRAWN = [
    ("full", "histogram2d"),
    ("threshold", "histogram"),
    ("line", "cdf"),
    ("only", "histogram2d"),
    ("joint grid", "rectangles"),
    ("partition", "mean"),
    ("person", "wards"),
    ("custom", "marginals"),
]
"""Cases whose intervals and errors are looked at over and over."""


def asked_once(place: Place, world: str, question: str, target: dict[str, str]) -> tuple[Case, list[str]]:
    """A preview and a release with what the ledger says before and after, and all their sentences that are not so."""
    name, session = data_name(world), place.session
    asked = session[name].question(QUESTIONS[question].query)
    before = session.budget(name)
    preview = asked.preview(**target)
    unspent = session.budget(name)
    answer = asked.release(**target)
    after, again = session.budget(name), asked.release(**target)
    truth = np.array(QUESTIONS[question].truth(WORLDS[world].counted))
    charged = after.spent - before.spent
    case = Case(
        place.handle(world),
        QUESTIONS[question].query,
        accuracy_target(**target),
        preview,
        answer,
        truth,
        len(WORLDS[world].counted),
        before.remaining,
        charged,
    )
    wrong = [
        *wrong_facts(case, is_summed=WORLDS[world].accounting == "sum"),
        *([] if unspent == before else ["the preview was charged"]),
        *([] if session.budget(name) == after and again.to_json() == answer.to_json() else ["the replay was not free"]),
        *([] if session.history(name)[0].epsilon == answer.epsilon else ["the history has another price"]),
    ]
    texts = [preview.head(), *preview.notes(), preview_price(preview), repr(answer).split("\n")[0], *note_parts(answer)]
    return case, wrong + [fault for text in texts for fault in faults(case, text)]


def preview_price(preview: bf.Preview) -> str:
    """The line of a preview in a notebook that names the price."""
    html = preview._repr_html_()
    start = html.index("would cost")
    return html[start : html.index("<", start)]


def wrong_facts(case: Case, *, is_summed: bool) -> list[str]:
    """What numbers of the answer and the ledger contradict each other or the table."""
    answer, preview = case.answer, case.preview
    wrong = []
    if answer.epsilon != preview.epsilon or not 0 <= case.charged <= answer.epsilon:
        wrong.append(f"previewed {preview.epsilon}, released for {answer.epsilon}, charged {case.charged}")
    if is_summed and case.charged != answer.epsilon:
        wrong.append(f"charged {case.charged} for an answer of {answer.epsilon}")
    if answer.epsilon == 0 and not case.is_exact:
        wrong.append("an answer for 0 is not exact")
    wrong += contradictions(answer, case.truth)
    rows = answer.rows()
    shown = np.array([[row[answer.value_name], row["low"], row["high"]] for row in rows], dtype=np.float64)
    if not np.array_equal(shown, np.stack([answer.values, answer.bounds.low, answer.bounds.high], axis=1)):
        wrong.append("the export shows other numbers")
    return wrong


@pytest.mark.parametrize(("world", "question"), FEW)
def test_sentences_are_so(place: Place, world: str, question: str) -> None:
    target = TARGETS[(list(WORLDS).index(world) + list(QUESTIONS).index(question)) % 2]
    assert asked_once(place, world, question, target)[1] == []


@pytest.mark.nightly
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(("world", "question"), EVERY)
def test_all_sentences_are_so(place: Place, world: str, question: str, target: dict[str, str]) -> None:
    assert asked_once(place, world, question, target)[1] == []


def test_an_unknown_sentence_and_a_false_one_are_noticed(place: Place) -> None:
    case, wrong = asked_once(place, "full", "histogram", TARGETS[0])
    assert wrong == []
    assert faults(case, "Half of them are within 3 of it.") == ["unknown: Half of them are within 3 of it."]
    assert faults(case, "You have 7 left; this leaves 6.") == ["not so: You have 7 left; this leaves 6."]
    false = "With 95 % confidence every one of the 9 true values is within 3 of the measured one."
    assert faults(case, false) == [f"not so: {false}"]
    free = "Why: the policy hides nothing that these answers depend on, so they are exact and free."
    assert faults(case, free) == [f"not so: {free}"]


def drawn(place: Place, pairs: list[tuple[str, str]], draws: int) -> Tally:
    """Answers to each question under each policy, over and over."""
    tally = Tally()
    for world, question in pairs:
        asked, handle = QUESTIONS[question], place.handle(world)
        request = make_request(handle, asked.query, accuracy_target(epsilon="0.5", beta=BETA))
        release = prepare(handle, request)
        if not isinstance(release, PlanRelease):
            continue
        truth, counts = np.array(asked.truth(WORLDS[world].counted)), release.counting(handle).run()
        for _ in range(1 if release.epsilon == 0 else draws):
            answer = release.answer(counts)
            assert contradictions(answer, truth) == []
            if release.epsilon == 0:
                assert np.array_equal(answer.values, truth)
            else:
                tally.add(answer, truth, release.compiled.shown(release.best.rmse))
    return tally


def test_intervals_and_expected_errors_hold_over_many_draws(place: Place) -> None:
    tally = drawn(place, DRAWN, DRAWS)
    assert tally.refusals() == []
    assert len(tally.errors) > 200


@pytest.mark.nightly
@pytest.mark.parametrize("world", WORLDS)
def test_all_intervals_hold_over_many_draws(place: Place, world: str) -> None:
    assert drawn(place, [(world, question) for question in QUESTIONS], 400).refusals() == []


def test_noise_1_3_times_too_large_is_noticed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, decoded = PlanRelease.answer, PlanRelease._decoded

    def louder(release: PlanRelease, counts: Ints) -> Answer:
        truth = release.compiled.problem.workload.dot(counts).astype(np.float64)

        def spread(release: PlanRelease, noisy: Ints, exact: Ints) -> Floats:
            return truth + 1.3 * (decoded(release, noisy, exact) - truth)

        with monkeypatch.context() as patched:
            patched.setattr(PlanRelease, "_decoded", spread)
            return answer(release, counts)

    monkeypatch.setattr(PlanRelease, "answer", louder)
    assert any("squared errors" in words for words in drawn(place, DRAWN, DRAWS).refusals())


def test_intervals_half_as_wide_are_noticed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = engine.intervals

    def narrower(*plan: Any) -> HalfWidths:
        widths = whole(*plan)
        return replace(widths, per_answer=widths.per_answer / 2, simultaneous=widths.simultaneous / 2)

    monkeypatch.setattr(engine, "intervals", narrower)
    refused = drawn(place, DRAWN, DRAWS).refusals()
    assert [words.partition(" ")[0] for words in refused] == ["simultaneous", "pointwise"]
