"""The checker can fail: ledgers that are wrong on purpose, and tables that were touched, are caught by it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from blowfishdb.ledger import open_ledger
from tests.ledger.support import charge_of, opened
from tools.faults.checker import (
    ASKED,
    SAW,
    ClientLog,
    Paid,
    Record,
    Tables,
    Verdict,
    check,
    check_levels,
    read_log,
    read_tables,
    settled_keys,
)
from tools.faults.lab import SQLITE, Lab

FAULTS = {
    "charge_after_answer": "unpaid_answers",
    "forgetful": "unpaid_answers",
    "second_draw": "unpaid_answers",
    "not_atomic": "untraced_charges",
    "no_limits": "over_spend",
}


@pytest.mark.postgres
@pytest.mark.parametrize("name", FAULTS)
def test_a_ledger_that_is_wrong_on_purpose_is_caught(lab: Lab, name: str, tmp_path: Path) -> None:
    """Through the same clients and the same verdict as the real one."""
    place = lab.place(SQLITE, 8)
    plan = replace(lab.plan(place, 2), install=[f"tests.faults.wrong:{name}"], tries=3)
    done = lab.worker_pool.run(replace(plan, environment={"FAULTS_FLAG": str(tmp_path / "flag")}))
    row = lab.verdict(name, place, 1, done["unsettled"])
    assert getattr(row, FAULTS[name]) > 0, row
    assert not row.is_good


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, list[Record]]:
    """The tables of a small, sound ledger and what its clients saw."""
    folder = tmp_path_factory.mktemp("sound")
    records = []
    with open_ledger(folder / "ledger", mark=folder / "mark") as ledger:
        account = opened(ledger, 1)
        for key in ("a", "b", "c"):
            payload = ledger.store_answer(ledger.charge(charge_of(account, "1/4", key)), key.encode())
            records += [Record(ASKED, "ana", key), Record(SAW, "ana", key, hashlib.sha256(payload).hexdigest())]
    return read_tables(f"sqlite:///{folder}/ledger"), records


def test_a_sound_ledger_passes(sound: tuple[Tables, list[Record]]) -> None:
    verdict = check(*sound)
    assert verdict.is_sound, verdict.notes
    assert (verdict.charges, verdict.answers_seen) == (3, 3)


def lost_charge(tables: Tables) -> Tables:
    """The last charge and its answer are gone without a seam: head, balances and counts agree."""
    kept = tables.entries[:-2]
    account = (*tables.accounts[0][:3], *_two_thirds(tables.accounts[0][3:5]), 2)
    analyst = (*tables.analysts[0][:4], *_two_thirds(tables.analysts[0][4:6]))
    head = (tables.head[0], len(kept), kept[-1][-1])
    return Tables(head, kept, [account], [analyst], tables.answers[:-1])


def _two_thirds(amount: tuple[object, ...]) -> tuple[object, ...]:
    units, grid = amount
    return str(int(str(units)) * 2 // 3), grid


def over_the_limit(tables: Tables) -> Tables:
    """Five times the price, in entries that nobody hashed again."""
    entries = [(*row[:5], str(row[5]).replace("1/4", "5/4"), *row[6:]) for row in tables.entries]
    return replace(tables, entries=entries)


def charged_twice(tables: Tables) -> Tables:
    """One key paid two times."""
    first, second = tables.entries[2], list(tables.entries[4])
    second[4], second[5] = first[4], str(second[5]).replace('"key":"b"', '"key":"a"')
    return replace(tables, entries=[*tables.entries[:4], tuple(second), *tables.entries[5:]])


MUTATIONS = [
    (lost_charge, "unpaid_answers"),
    (over_the_limit, "over_spend"),
    (over_the_limit, "untraced_charges"),
    (charged_twice, "untraced_charges"),
    (lambda tables: replace(tables, head=(*tables.head[:2], "0")), "untraced_charges"),
    (lambda tables: replace(tables, entries=tables.entries[1:]), "untraced_charges"),
    (lambda tables: replace(tables, analysts=[]), "untraced_charges"),
    (lambda tables: replace(tables, answers=[(c, e, b"x") for c, e, _ in tables.answers]), "unpaid_answers"),
    (lambda tables: replace(tables, answers=tables.answers[1:]), "untraced_charges"),
]


@pytest.mark.parametrize(("mutate", "column"), MUTATIONS)
def test_a_touched_table_is_caught(sound: tuple[Tables, list[Record]], mutate: object, column: str) -> None:
    tables, records = sound
    assert callable(mutate)
    try:
        verdict = check(mutate(tables), records)
    except KeyError:  # an account without the entry that opened it
        verdict = Verdict(untraced_charges=1)
    assert getattr(verdict, column) > 0


def test_a_charge_that_nobody_asked_for_and_an_answer_that_changed_are_caught(
    sound: tuple[Tables, list[Record]],
) -> None:
    tables, records = sound
    assert check(tables, records[2:]).untraced_charges == 1
    changed = [replace(records[1], detail="other"), *records]
    assert check(tables, changed).unpaid_answers == 1


def test_a_log_survives_a_death_within_a_line(tmp_path: Path) -> None:
    path = tmp_path / "client.log"
    log = ClientLog(path)
    log.note(ASKED, "ana", "k")
    with path.open("a") as torn:
        torn.write(json.dumps({"kind": SAW, "analyst": "ana", "key": "k", "detail": "x"})[:20])
    assert read_log(path) == [Record(ASKED, "ana", "k")]
    assert settled_keys(read_log(path), ()) == set()
    with pytest.raises(ValueError, match="a record is one of"):
        Record("guessed", "ana", "k")


def test_a_chain_of_shared_noise_that_is_paid_too_little_is_caught() -> None:
    quarter, half = Fraction(1, 4), Fraction(1, 2)
    first = Paid(1, "data", ("ana", "a"), quarter, "", quarter, "chain", quarter)
    second = Paid(2, "data", ("ben", "b"), quarter, "", half, "chain", half)
    wrong = [
        replace(second, epsilon=Fraction(0)),
        replace(second, received=quarter),
        replace(second, level=Fraction(1)),
    ]
    faults = []
    for last in (second, *wrong):
        verdict = Verdict()
        check_levels([first, last], verdict)
        faults.append(verdict.untraced_charges)
    assert faults == [0, 1, 1, 2]
