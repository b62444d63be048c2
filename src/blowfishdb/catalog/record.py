"""The record of processing of a dataset: a page for those who must judge it, in the order of the law's questions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from importlib import metadata

from blowfishdb.catalog.curator import Curator
from blowfishdb.catalog.dataset import Dataset, attribute_words, hidden_words
from blowfishdb.catalog.guidance import beliefs_of, most_words, unit_words
from blowfishdb.errors import plural
from blowfishdb.ledger import Account, AnalystBudget, Entry
from blowfishdb.model.explain import explain
from blowfishdb.present.chart import GRID, INK, PAPER, QUIET
from blowfishdb.present.chart_svg import element, escaped
from blowfishdb.present.page import html_table
from blowfishdb.present.words import epsilon_words

STYLE = (
    f"body{{font:14px/1.5 system-ui,sans-serif;color:{INK};background:{PAPER};max-width:820px;margin:2rem auto;"
    f"padding:0 1rem}}h1{{font-size:22px;margin:0}}h2{{font-size:17px;margin:1.6em 0 .3em;border-top:1px solid {GRID};"
    f"padding-top:.8em}}.law{{color:{QUIET};font-size:12px;margin:0}}table{{font-size:12px}}td{{overflow-wrap:anywhere}}"
    "code{overflow-wrap:anywhere}@media print{body{margin:0;max-width:none}h2{break-after:avoid}tr{break-inside:avoid}}"
)
FILL_IN = ("Controller and contact", "Purpose", "Legal basis", "How long the data is kept", "Who decided, and when")
FROM_WHOM = (
    "From analysts, and from everybody whom they tell. An analyst may know every other record, may choose each "
    "question after seeing the answers before, and may work together with all other analysts: the budget of the data "
    "bounds what all of them learn together.",
    "Not from the curator, who declares the dataset, nor from whoever runs the machine or the database.",
)
ENFORCED = (
    "No row is given out. Rows are counted, and given out are counts with random noise, and exact ones only of what "
    "the policy leaves public.",
    "The noise is drawn by exact arithmetic from a cryptographic generator. Its amount follows from a certificate that "
    "is computed for the question and the policy and checked again before the release.",
    "Each answer is paid for before data is read, in a ledger whose entries are chained by hashes and checked. A "
    "question that the budget does not cover is refused; budgets are raised on record only, with a name and a reason.",
    "Prices, refusals and error messages are made from declarations and the ledger, before a row is read.",
    "A ledger that is taken back in time, changed or exchanged is noticed by a mark kept elsewhere, and not used.",
)
NOT_PROTECTED = (
    "What is true of many people. That a treatment helps can be learned from any useful answer, and then concerns "
    "people who were never in the table. The promise is about what one record adds.",
    "What is published elsewhere. The same people in another table, or earlier publications that were not declared, "
    "add to what can be learned.",
    "What led to this declaration. Policies or bounds that were chosen because of what the rows show are not counted.",
    "How long an answer takes, unless the dataset pads answers in time.",
)
MOST_LISTED = 1000
"""The number of newest answers that are listed; the sums count all of them."""
PARTS = 10**6
"""Beliefs are computed for a budget in parts of this, rounded up."""


@dataclass(frozen=True)
class Recipients:
    """Who may use a dataset on a server (holder, role, limit), and the price above which questions wait for a yes."""

    grants: Sequence[tuple[str, str, str]]
    above: Fraction | None


def record_page(curator: Curator, name: str, recipients: Recipients | None = None) -> str:
    """A page that stands alone and prints: what is hidden, from whom, at what odds, and what was released so far."""
    account, dataset = curator.in_force(name)
    entries = list(curator.entries(name))
    budgets, check = curator.analysts(name), curator.verify()
    state = "sound" if check.is_sound else "NOT SOUND"
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, BlowfishDB {metadata.version('blowfishdb')}"
    proof = f"The ledger has {plural(check.entries, 'entry', 'entries')} and is {state}, as recomputed now. Its head is"
    parts = [
        element("h1", {}, escaped(f"Record of processing: {name}")),
        element("p", {"class": "law"}, escaped(f"Made {made}. For articles 5, 25, 30 and 35 of the GDPR.")),
        element("p", {}, escaped(proof), " ", element("code", {}, escaped(check.head)), "."),
        *_processing(dataset),
        *_hidden(dataset),
        *_odds(dataset, account),
        *_recipients(recipients),
        *_section(
            "How is it enforced?", "Articles 5(1)(f), 25 and 32: integrity, protection by design, security", ENFORCED
        ),
        *_released(account, budgets, entries),
        *_section(
            "What is not protected?",
            "Article 35(7)(c): the risks that remain",
            (*_open_differences(dataset), *NOT_PROTECTED),
        ),
        *_section(
            "How can this be checked?",
            "Article 5(2): accountability",
            (
                "blowfish ledger verify recomputes every hash and every balance; blowfish ledger export writes all "
                "entries, and a signed checkpoint proves to an outsider, without the data, that none was changed.",
                "blowfish audit tests the noise and the accounting of this installation.",
            ),
        ),
    ]
    head = f'<meta charset="utf-8"><title>{escaped(f"Record of processing: {name}")}</title><style>{STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _section(title: str, law: str, sentences: Sequence[str]) -> list[str]:
    points = [element("li", {}, escaped(sentence)) for sentence in sentences]
    return [
        element("h2", {}, escaped(title)),
        element("p", {"class": "law"}, escaped(law)),
        *([element("ul", {}, *points)] if points else []),
    ]


def _processing(dataset: Dataset) -> list[str]:
    policy = dataset.policy
    columns = [
        (
            column,
            attribute_words(dataset.domain[column], policy.family(column), policy.presence),
            hidden_words(column, policy),
        )
        for column in dataset.domain
    ]
    return [
        *_section(
            "What is processed, why, and is it no more than needed?",
            "Articles 5(1)(a) to (c), 30 and 35(7)(a) and (b)",
            (
                "Counts and statistics made of counts are computed for analysts. Of the table, only the columns below "
                "can be asked about; other columns cannot be named in a question.",
            ),
        ),
        html_table("The columns", ("column", "declared values", "hidden"), columns, (0, 1, 2)),
        element("p", {}, "To be filled in by the controller:"),
        html_table("For the controller", ("", ""), [(question, "_" * 60) for question in FILL_IN], (0, 1)),
    ]


def _hidden(dataset: Dataset) -> list[str]:
    law = "Article 25: data protection by design and by default"
    return _section("What is hidden, and from whom?", law, (*explain(dataset.domain, dataset.policy), *FROM_WHOM))


def _odds(dataset: Dataset, account: Account) -> list[str]:
    rows = [
        (column, f"{belief.one} rather than {belief.two}", *map(_share, (belief.after_one, belief.after_all)))
        for column in dataset.domain
        for belief in beliefs_of(dataset, column, *map(_rounded_up, (account.spent, account.limit)))
    ]
    sentences = [
        "Somebody suspects something of one person with 1 %. The table says what they could believe at most, after "
        "everything released so far and after the whole budget, whatever else they know about other records.",
        unit_words(dataset, _rounded_up(account.limit)),
    ]
    if not rows:
        sentences[0] = (
            "Public constraints tie records together, so that no number bounds what is learned of one record alone; "
            "the answers themselves are protected as their certificates say."
        )
    section = _section("At what odds?", "Article 35(7)(c): the risks to the rights and freedoms of people", sentences)
    names = ("column", "suspected with 1 %", "so far at most", "after the budget at most")
    return [*section, *([html_table("Beliefs", names, rows, (0, 1))] if rows else [])]


def _recipients(recipients: Recipients | None) -> list[str]:
    law = "Article 30(1)(d): the recipients"
    if recipients is None:
        return _section(
            "Who may ask?",
            law,
            ("No accounts are kept: whoever may read configuration, ledger and data here may ask.",),
        )
    sentences = ["Those in the table, with an account. For every other account the dataset does not exist."]
    if recipients.above is not None:
        price = epsilon_words(recipients.above)
        sentences.append(f"Questions above epsilon {price} wait until a curator of the dataset says yes.")
    rows = [tuple(row) for row in recipients.grants]
    return [*_section("Who may ask?", law, sentences), html_table("Recipients", ("who", "role", "limit"), rows, (0, 1))]


def _rounded_up(epsilon: Fraction) -> Fraction:
    return Fraction(math.ceil(epsilon * PARTS), PARTS)


def _share(share: float | None) -> str:
    return "not hidden" if share is None else most_words(share)


def _open_differences(dataset: Dataset) -> list[str]:
    """Pairs of values that the policy does not hide from each other."""
    return [
        f"{column}: {belief.one} and {belief.two} are not hidden from each other, and answers may tell them apart."
        for column in dataset.domain
        for belief in beliefs_of(dataset, column, Fraction(1), Fraction(1))
        if belief.after_all is None
    ]


def _released(account: Account, budgets: Sequence[AnalystBudget], entries: Sequence[Entry]) -> list[str]:
    charges = [entry for entry in entries if entry.kind == "charge"]
    changes = [entry for entry in entries if entry.kind not in ("charge", "answer")]
    spent = (
        f"{plural(len(charges), 'answer')} paid for; epsilon {epsilon_words(account.spent)} of "
        f"{epsilon_words(account.limit)} is spent, {epsilon_words(account.remaining)} is left."
    )
    listed = charges[-MOST_LISTED:]
    if len(listed) < len(charges):
        spent += f" The newest {len(listed):,} are listed."
    people = [
        (one.analyst, epsilon_words(one.spent), "" if one.limit is None else epsilon_words(one.limit))
        for one in budgets
    ]
    answers = [(*_when(entry), entry.words, epsilon_words(Fraction(str(entry.fields["epsilon"])))) for entry in listed]
    terms = [(*_when(entry), entry.words) for entry in changes]
    tables = [
        html_table("Analysts", ("analyst", "spent", "limit"), people, (0,)) if people else "",
        html_table("Answers", ("no.", "when (UTC)", "who", "what", "epsilon"), answers, (1, 2, 3)) if answers else "",
        element("p", {}, "What was declared and changed:"),
        html_table("Declarations", ("no.", "when (UTC)", "who", "what"), terms, (1, 2, 3)),
    ]
    return [*_section("What was released so far?", "Article 5(2): accountability", (spent,)), *tables]


def _when(entry: Entry) -> tuple[str, str, str]:
    return str(entry.sequence), str(entry.fields.get("at", ""))[:16].replace("T", " "), entry.who
