"""Chains of shared noise under faults, in processes of their own: kills, two upgrades at once, files that change."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.errors import ContentChanged
from blowfishdb.session import QuestionPlan, Session
from tests.session.places import curator, make_fixture, session

ROOT = Path(__file__).parents[2]
CHILD = """
import os, signal, sys
from pathlib import Path
import duckdb
import blowfishdb as bf
from blowfishdb.errors import BlowfishError
from blowfishdb.sources.ibis_source import IbisCount
from tests.session.places import session

folder, analyst, epsilon, fault = Path(sys.argv[1]), *sys.argv[2:]
run = IbisCount.run

def faulty(self, deadline=None):
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    counts = run(self, deadline)
    if fault == "change":
        with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
            connection.execute("DELETE FROM visits WHERE id < 5")
            connection.execute("CHECKPOINT")
    return counts

IbisCount.run = faulty
with session(folder, analyst) as db:
    try:
        answer = db["visits"].histogram(bf.col("age").bins(20)).release(mechanism="identity", epsilon=epsilon)
        print(answer.epsilon, answer.charged)
    except BlowfishError as error:
        print(error.code)
"""


def start(folder: Path, analyst: str, epsilon: str, fault: str = "none", child: str = CHILD) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(Path(bf.__file__).parents[1]), str(ROOT)])
    command = [sys.executable, "-c", child, str(folder), analyst, epsilon, fault]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_fixture(tmp_path)
    with session(tmp_path) as db:
        db["visits"].histogram(bf.col("age").bins(20)).release(mechanism="identity", epsilon="0.1")
    return tmp_path


def spent(folder: Path) -> Fraction:
    with curator(folder) as keeper:
        assert keeper.verify().is_sound
        return keeper.account("visits").spent


def test_an_upgrade_that_was_killed_after_its_charge_is_finished_for_nothing(folder: Path) -> None:
    child = start(folder, "ana", "0.25", "kill")
    child.communicate()
    assert child.returncode == -9
    assert spent(folder) == Fraction(1, 4)
    with session(folder) as db:
        answer = db["visits"].histogram(bf.col("age").bins(20)).release(mechanism="identity", epsilon="0.25")
        assert (answer.epsilon, answer.charged) == (Fraction(1, 4), Fraction(3, 20))
    assert spent(folder) == Fraction(1, 4)


SETUP = CHILD.partition("with session")[0]
PLANNED = f"""{SETUP}
from tests.session.test_sharing_faults import two_questions
with session(folder, analyst) as db:
    two_questions(db).release()
"""


def two_questions(db: Session) -> QuestionPlan:
    """A plan of two releases, the first of which makes an earlier one more accurate."""
    ages, wards = db["visits"].histogram(bf.col("age").bins(20)), db["visits"].histogram("ward")
    return db.plan([(one, {"epsilon": "0.25", "mechanism": "identity"}) for one in (ages, wards)])


def test_a_plan_that_was_killed_after_its_charge_is_finished_for_nothing(folder: Path) -> None:
    child = start(folder, "ana", "0.25", "kill", PLANNED)
    child.communicate()
    assert child.returncode == -9
    # Both are charged, the first for the difference, and neither is answered.
    assert spent(folder) == Fraction(1, 2)
    with session(folder) as db:
        assert len(db.history("visits")) == 3
        answers = two_questions(db).release()
        assert [answer.epsilon for answer in answers] == [Fraction(1, 4), Fraction(1, 4)]
        # One draw for each level: what was drawn once is given again.
        assert [one.raw.tolist() for one in two_questions(db).release()] == [one.raw.tolist() for one in answers]
    assert spent(folder) == Fraction(1, 2)


def test_two_processes_that_upgrade_at_once_get_one_draw_each(folder: Path) -> None:
    children = [start(folder, "ben", "0.3"), start(folder, "cleo", "0.5")]
    told = [child.communicate()[0].split() for child in children]
    assert [words[0] for words in told] == ["3/10", "1/2"]
    # The data pays the finest level once, whoever was first.
    assert spent(folder) == Fraction(1, 2)


def test_rows_that_change_while_they_are_counted_stop_an_upgrade_before_noise(folder: Path) -> None:
    told, _ = start(folder, "ana", "0.25", "change").communicate()
    assert told.split() == [ContentChanged(Fraction(1)).code]
    # No more than the difference, which is less than a fresh answer would have cost.
    assert spent(folder) == Fraction(1, 4)
