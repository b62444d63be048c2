"""One question asked once, with everything that is said of it before, with the answer, and when it is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import blowfishdb as bf
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.request import accuracy_target
from blowfishdb.present.words import note_parts
from blowfishdb.session import Session
from tests.statements.draws import contradictions
from tests.statements.sentences import Case, faults
from tests.statements.world import Asked, Record


def asked_of(
    session: Session,
    handle: DatasetHandle,
    name: str,
    asked: Asked,
    rows: Sequence[Record],
    target: dict[str, str],
    *,
    is_summed: bool = True,
) -> tuple[Case, list[str]]:
    """A preview, a release and a repeated preview, with all their sentences that are not so in table or ledger."""
    question = session[name].question(asked.query)
    before = session.budget(name)
    preview = question.preview(**target)
    unspent = session.budget(name)
    answer = question.release(**target)
    after, later = session.budget(name), question.preview(**target)
    again = question.release(**target)
    newest, unchanged = session.history(name)[0], session.budget(name)
    case = Case(
        handle,
        asked.query,
        accuracy_target(**target),
        preview,
        answer,
        np.array(asked.truth(rows)),
        len(rows),
        before.remaining,
        after.spent - before.spent,
        newest.number,
    )
    repeated = replace(case, preview=later, left=after.remaining, charged=unchanged.spent - after.spent)
    wrong = [
        *wrong_facts(case, is_summed=is_summed),
        *([] if unspent == before else ["the preview was charged"]),
        *([] if unchanged == after and again.to_json() == answer.to_json() else ["the replay was not free"]),
        *([] if later.epsilon == 0 else ["the replay has a price"]),
        *([] if newest.epsilon == answer.epsilon else ["the history has another price"]),
    ]
    texts = [str(preview), preview_price(preview), repr(answer).split("\n")[0], *note_parts(answer)]
    wrong += [fault for text in texts for fault in faults(case, text)]
    return case, wrong + [fault for text in (str(later), preview_price(later)) for fault in faults(repeated, text)]


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
    name = answer.value_name
    ends = [name, f"{name}_low", f"{name}_high"] if answer.columns else [name, "low", "high"]
    shown = np.array([[row[end] for end in ends] for row in rows], dtype=np.float64)
    if not np.array_equal(shown, np.stack([answer.values, answer.bounds.low, answer.bounds.high], axis=1)):
        wrong.append("the export shows other numbers")
    return wrong
