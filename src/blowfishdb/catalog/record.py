"""The record of processing of a dataset: a page for those who must judge it, in the order of the law's questions."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from importlib import metadata

from blowfishdb.analysis.risk import Risk
from blowfishdb.catalog.curator import Curator
from blowfishdb.catalog.dataset import Dataset, column_words
from blowfishdb.catalog.guidance import SUSPICION, Belief, beliefs_of, most_words, unit_words
from blowfishdb.errors import plural
from blowfishdb.ledger import Account, AnalystBudget, Entry, Verification
from blowfishdb.model.explain import explain, not_protected
from blowfishdb.model.numbers import show
from blowfishdb.model.policy import Person
from blowfishdb.present.chart import BAR, GRID, INK, PAPER, QUIET
from blowfishdb.present.chart_svg import element, escaped
from blowfishdb.present.page import html_table
from blowfishdb.present.words import epsilon_words, minute_words

STYLE = (
    f"body{{font:14px/1.5 system-ui,sans-serif;color:{INK};background:{PAPER};max-width:820px;margin:2rem auto;"
    f"padding:0 1rem}}h1{{font-size:22px;margin:0}}h2{{font-size:17px;margin:1.6em 0 .3em;border-top:1px solid {GRID};"
    f"padding-top:.8em}}h3{{font-size:14px;margin:1.2em 0 0}}.law{{color:{QUIET};font-size:12px;margin:0}}ul{{padding-"
    f"left:1.3em}}li{{margin:.25em 0}}table{{font-size:12px}}td{{overflow-wrap:anywhere}}code{{overflow-wrap:anywhere}}"
    f".short{{border:1px solid {GRID};border-left:4px solid {BAR};padding:.2em 1em;margin:1em 0}}dt{{font-weight:600;"
    f"margin-top:.7em}}dd{{margin:0;border-bottom:1px solid {QUIET};min-height:1.7em}}dd:focus{{outline:2px solid {BAR}"
    ";outline-offset:2px}@page{margin:16mm 15mm}@media print{body{margin:0;padding:0;max-width:none;font-size:11pt}"
    "h2,h3{break-after:avoid}tr,li,dt,dd,.short{break-inside:avoid}dt{break-after:avoid}.screen{display:none}}"
)
FILL_IN = (
    "Controller and contact",
    "Data protection officer, and their advice (article 35(2))",
    "Purpose, and why these columns are needed for it",
    "Legal basis (articles 6 and 9)",
    "Whose data this is, and how they were told (articles 13 and 14)",
    "How long the data is kept",
    "Recipients in other countries (article 30(1)(e))",
    "The views of those concerned or their representatives (article 35(9))",
    "Who decided, and when",
)
FROM_WHOM = (
    "From analysts, and from everybody whom they tell. An analyst may know every other record, may choose each "
    "question after seeing the answers before, and may work together with all other analysts: the budget of the data "
    "bounds what all of them learn together.",
    "Not from the curator, who declares the dataset, nor from whoever runs the machine or the database.",
)
ENFORCED = (
    "No row is given out. Rows are counted, and counts are given out with random noise; exact counts only of what the "
    "policy leaves public.",
    "The noise is drawn by exact arithmetic from a cryptographic generator. Its amount follows from a certificate that "
    "is computed for the question and the policy and checked again before the release.",
    "Each answer is paid for before data is read, in a ledger whose entries are chained by hashes and checked. A "
    "question that the budget does not cover is refused; budgets are raised on record only, with a name and a reason.",
    "Prices, refusals and error messages are made from declarations and the ledger, before a row is read.",
    "A ledger that was rolled back, changed or exchanged is detected by a mark kept elsewhere, and not used.",
)
RIGHTS = (
    "The rows stay at their source: access, correction, erasure and objection are answered there. No table of them is "
    "kept elsewhere. Error messages of the database, which may quote a row, go to a log that only the account that "
    "runs this installation can read.",
    "Once something is corrected or deleted at the source, later answers count it that way. Earlier answers "
    "stand, and what is said here about odds holds for them.",
    "A question that singles out one person is answered with the noise of any other question: it tells no more about "
    "that person than the odds above allow.",
)
NOT_PROTECTED = (
    "What is true of many people. That a treatment helps can be learned from any useful answer, and then concerns "
    "people who were never in the table. The promise is about what one record adds.",
    "What is published elsewhere. The same people in another table, or earlier publications that were not declared, "
    "add to what can be learned.",
    "What led to this declaration. Policies or bounds that were chosen because of what the rows show are not counted.",
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
    charges = [entry for entry in entries if entry.kind == "charge"]
    budgets, check, beliefs = curator.analysts(name), curator.verify(), _beliefs(dataset, account)
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, BlowfishDB {metadata.version('blowfishdb')}"
    parts = [
        element("h1", {}, escaped(f"Record of processing: {name}")),
        element("p", {"class": "law"}, escaped(f"Made {made}. For articles 5, 25, 30 and 35 of the GDPR.")),
        element("div", {"class": "short"}, *_points(_summary(dataset, account, len(charges), beliefs))),
        *_fill_in(),
        *_processing(dataset),
        *_hidden(dataset),
        *_odds(dataset, account, beliefs),
        *_recipients(recipients),
        *_section(
            "How is it enforced?", "Articles 5(1)(f), 25 and 32: integrity, protection by design, security", ENFORCED
        ),
        *_section("What are the rights of those concerned?", "Articles 12 to 22 and 35(7)(d)", RIGHTS),
        *_released(account, budgets, charges, entries, _restores(curator, account)),
        *_section("What is not protected?", "Article 35(7)(c): the risks that remain", _open(dataset)),
        *_checks(check),
    ]
    head = f'<meta charset="utf-8"><title>{escaped(f"Record of processing: {name}")}</title><style>{STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def _points(sentences: Sequence[str]) -> list[str]:
    points = [element("li", {}, escaped(sentence)) for sentence in sentences]
    return [element("ul", {}, *points)] if points else []


def _section(title: str, law: str, sentences: Sequence[str]) -> list[str]:
    heading = [element("h2", {}, escaped(title)), element("p", {"class": "law"}, escaped(law))]
    return [*heading, *_points(sentences)]


def _summary(dataset: Dataset, account: Account, answers: int, beliefs: Sequence[tuple[str, Belief]]) -> Sequence[str]:
    """What somebody reads who reads no more."""
    shares = [belief for _, belief in beliefs if belief.after_all is not None]
    sentences = [
        f"Analysts ask about {plural(len(list(dataset.domain)), 'column')} of a table, and get counts and statistics "
        "with random noise, no rows."
    ]
    if shares:
        so_far = most_words(max(belief.after_one or 0.0 for belief in shares))
        in_all = most_words(max(belief.after_all or 0.0 for belief in shares))
        sentences.append(
            f"Who suspects something hidden of one {_unit(dataset)} with 1 % can believe it with at most {so_far} "
            f"after all that was released so far, and with at most {in_all} after the whole budget."
        )
    if not_hidden := list(dict.fromkeys(name for name, belief in beliefs if belief.after_all is None)):
        sentences.append(f"Not hidden, or not wholly: {', '.join(not_hidden)}.")
    return (
        *sentences,
        f"{plural(answers, 'answer')} so far, for epsilon {epsilon_words(account.spent)} of "
        f"{epsilon_words(account.limit)}. Epsilon measures what can be learned: the odds between two possibilities "
        "that are hidden from each other change by a factor of at most e to the power of epsilon: 1.11 for 0.1, 2.72 "
        "for 1. The epsilons of answers add up at most, and when the budget is spent no question is answered "
        "any more.",
    )


def _unit(dataset: Dataset) -> str:
    return "person" if isinstance(dataset.policy.unit, Person) else "row"


def _fill_in() -> list[str]:
    """Lines for what only the controller knows; whoever opens the page can write into them and print it."""
    lines = []
    for question in FILL_IN:
        writable = {"contenteditable": "true", "role": "textbox", "aria-multiline": "true", "aria-label": question}
        lines += [element("dt", {}, escaped(question)), element("dd", writable)]
    hint = "Click on a line to write, then print this page or save it as PDF."
    return [
        *_section("What does the controller say?", "Articles 5(1)(a) to (e), 30 and 35: for the controller", ()),
        element("p", {"class": "screen law"}, escaped(hint)),
        element("dl", {}, *lines),
    ]


def _processing(dataset: Dataset) -> list[str]:
    columns = [column_words(dataset, column) for column in dataset.domain]
    return [
        *_section(
            "What is processed, and is it no more than needed?",
            "Articles 5(1)(b) and (c), 30 and 35(7)(a) and (b)",
            (
                "Counts and statistics made of counts are computed for analysts. Of the table, only the columns below "
                "can be asked about; other columns cannot be named in a question.",
            ),
        ),
        html_table("The columns", ("column", "declared values", "hidden"), columns, (0, 1, 2)),
    ]


def _hidden(dataset: Dataset) -> list[str]:
    law = "Article 25: data protection by design and by default"
    sentences = _grouped(explain(dataset.domain, dataset.policy), list(dataset.domain))
    return _section("What is hidden, and from whom?", law, (*sentences, *FROM_WHOM))


def _grouped(sentences: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The sentences; what is said of several columns in the same words is said once."""
    names_of: dict[str, list[str]] = {}
    for sentence in sentences:
        name = max((column for column in columns if sentence.startswith(f"{column}: ")), key=len, default=None)
        names = names_of.setdefault(sentence if name is None else sentence.removeprefix(f"{name}: "), [])
        names += [] if name is None else [name]
    return [f"{', '.join(names)}: {text}" if names else text for text, names in names_of.items()]


def _beliefs(dataset: Dataset, account: Account) -> list[tuple[str, Belief]]:
    """What could be believed so far and after the budget, by column, and whether somebody is in the table at all."""
    amounts = [_rounded_up(account.spent), _rounded_up(account.limit)]
    rows = [(name, belief) for name in dataset.domain for belief in beliefs_of(dataset, name, *amounts)]
    if not rows:
        return []
    is_hidden = dataset.policy.presence != "public"
    shares = [Risk("in the table", "not in it", 1 if is_hidden else None, amount) for amount in amounts]
    now, later = (each.posterior(SUSPICION)[1] if is_hidden else None for each in shares)
    return [*rows, ("presence", Belief(shares[0].one, shares[0].two, now, later))]


def _odds(dataset: Dataset, account: Account, beliefs: Sequence[tuple[str, Belief]]) -> list[str]:
    rows = [
        (column, f"{belief.one} rather than {belief.two}", *map(_share, (belief.after_one, belief.after_all)))
        for column, belief in beliefs
    ]
    sentences = [
        f"Somebody suspects something of one {_unit(dataset)} with 1 %. The table says what they could believe at "
        "most, after everything released so far and after the whole budget, whatever they know about other records.",
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


def _open(dataset: Dataset) -> Sequence[str]:
    """What the policy does not hide, then what no policy does, and what response times tell."""
    if dataset.pad_to is None:
        padding = (
            "How long an answer takes: counting takes longer where more rows pass, and answers are not padded here."
        )
    else:
        padding = (
            f"In which step of {show(dataset.pad_to)} seconds an answer leaves; answers are padded to whole steps."
        )
    return (*not_protected(dataset.domain, dataset.policy), *NOT_PROTECTED, padding)


def _restores(curator: Curator, account: Account) -> list[str]:
    """What the account counts since backups were restored, whose answers are not listed; and what it may not count."""
    sentences = []
    for entry in curator.ledger.restores():
        spending = json.loads(entry.fields["spending"])
        if account.id in spending:
            sentences.append(
                f"Entry {entry.sequence} restored a backup. Answers that it lacked are not listed, and count: epsilon "
                f"{epsilon_words(Fraction(spending[account.id][0]))} was spent by then."
            )
        if entry.fields["known_until"] is not None:
            sentences.append(
                f"When entry {entry.sequence} restored a copy, nobody knew what had been spent after entry "
                f"{entry.fields['known_until']}. What was released between does not count here."
            )
    return sentences


def _released(
    account: Account,
    budgets: Sequence[AnalystBudget],
    charges: Sequence[Entry],
    entries: Sequence[Entry],
    restores: Sequence[str],
) -> list[str]:
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
    tables: list[tuple[str, Sequence[str], Sequence[Sequence[str]], Sequence[int]]] = [
        ("Analysts", ("analyst", "spent", "limit"), people, (0,)),
        ("Answers", ("no.", "when (UTC)", "who", "what", "epsilon"), answers, (1, 2, 3)),
        ("Declarations", ("no.", "when (UTC)", "who", "what was declared or changed"), terms, (1, 2, 3)),
    ]
    return [
        *_section("What was released so far?", "Article 5(2): accountability", (spent, *restores)),
        *(
            element("h3", {}, title) + html_table(title, names, rows, lefts)
            for title, names, rows, lefts in tables
            if rows
        ),
    ]


def _checks(check: Verification) -> list[str]:
    state = "sound" if check.is_sound else "NOT SOUND"
    proof = f"The ledger has {plural(check.entries, 'entry', 'entries')} and is {state}, as recomputed now. Its head is"
    sentences = (
        "blowfish ledger verify recomputes every hash and every balance; blowfish ledger export writes all entries, "
        "and a signed checkpoint proves to an outsider, without the data, that none was changed.",
        "blowfish audit tests the noise and the accounting of this installation.",
    )
    return [
        *_section("How can this be checked?", "Article 5(2): accountability", sentences),
        element("p", {}, escaped(proof), " ", element("code", {}, escaped(check.head)), "."),
    ]


def _when(entry: Entry) -> tuple[str, str, str]:
    return str(entry.sequence), minute_words(str(entry.fields.get("at", ""))), entry.who
