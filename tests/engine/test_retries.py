"""Asked anew is drawn anew, and asked again is the same: over crashes, backups and restores, in any order."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.engine.charge import Run
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import ChargeClosed, KeyReused
from blowfishdb.ledger import Ledger, Receipt, accept_restored_ledger
from blowfishdb.ledger.backup import back_up_ledger, restore_ledger
from blowfishdb.ledger.values import Publication
from tests.engine.held import HISTOGRAM, Bench, bench

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
QUESTIONS = [(HISTOGRAM, HALF), (HISTOGRAM, QUARTER), (bf.query("histogram", "age", where=bf.col("age") < 19), HALF)]
"""A question, the same at another accuracy, and another one at the first accuracy."""
WHO = {"by": "cora", "reason": "the disk died"}
Noise = tuple[float, ...]


class Crash(Exception):
    """The death of the process, as far as a test in one process can have it."""


@dataclass(frozen=True)
class Ask:
    """One try at an answer; the process may die before it is on record, or after that and before anybody is told."""

    question: int
    key: str | None
    fresh: bool
    analyst: str
    crash: str = ""

    @property
    def asked(self) -> tuple[int, bool]:
        """What a key belongs to."""
        return self.question, self.fresh


@dataclass
class World:
    """A ledger, its backup, and all noise that anybody ever had."""

    folder: Path
    held: Bench = field(init=False)
    noise: dict[Noise, tuple[str, int]] = field(default_factory=dict)
    """Whose noise it is, and for which question."""
    lost: Fraction = Fraction(0)
    """The sum of the levels of all noise."""
    keys: dict[tuple[str, str], tuple[int, bool]] = field(default_factory=dict)
    """What was charged under the key of an analyst, as far as the ledger knows."""
    told: dict[tuple[str, str | None, int, bool], Noise] = field(default_factory=dict)
    """The last noise for an analyst, a key and a question since the last restore."""

    def __post_init__(self) -> None:
        self.held = bench(self.folder, limit=1000)

    def ask(self, ask: Ask) -> None:
        """Asks, and checks what came of it."""
        query, level = QUESTIONS[ask.question]
        before, owner = self.held.spent, (ask.analyst, ask.key or "")
        known = self.told.get((ask.analyst, ask.key, *ask.asked))
        usual = Ledger.store_answer

        def dying(ledger: Ledger, receipt: Receipt, payload: bytes, publication: Publication | None = None) -> bytes:
            if ask.crash == "after":
                usual(ledger, receipt, payload, publication)
            raise Crash

        with pytest.MonkeyPatch.context() as patch:
            if ask.crash:
                patch.setattr(Ledger, "store_answer", dying)
            try:
                target = accuracy_target(epsilon=level, fresh=ask.fresh)
                answer = self.held.release(query, target, Run(key=ask.key), ask.analyst)
            except (KeyReused, ChargeClosed) as refusal:
                assert ask.key is not None and self.held.spent == before
                is_other = self.keys.get(owner, ask.asked) != ask.asked
                assert is_other == isinstance(refusal, KeyReused), "refused for a key that was not used otherwise"
                return
            except Crash:
                self.held.ledger.close()
                self.held = bench(self.folder, limit=1000)
                if ask.key is not None and self.held.spent > before:
                    self.keys[owner] = ask.asked
                return
        paid, noise = self.held.spent - before, tuple(answer.raw.tolist())
        assert self.keys.get(owner, ask.asked) == ask.asked, "a key answered another question"
        assert paid in (0, level)
        if noise not in self.noise:
            self.lost += level
        elif ask.fresh and ask.key is None:
            raise AssertionError("noise that was asked anew was given before")
        assert self.noise.setdefault(noise, (ask.analyst, ask.question)) == (ask.analyst, ask.question)
        if known is not None and not (ask.fresh and ask.key is None):
            assert (noise, paid) == (known, 0), "what was asked again is another answer, or was charged"
        self.told[ask.analyst, ask.key, *ask.asked] = noise
        if ask.key is not None and paid:
            self.keys[owner] = ask.asked
        assert self.lost <= self.held.spent, "more noise was given than was paid for"

    def back_up(self) -> None:
        """A copy of the ledger as it is."""
        (self.folder / "copy").unlink(missing_ok=True)
        back_up_ledger(self.held.ledger, self.folder / "copy")

    def restore(self, *, by_hand: bool) -> None:
        """The backup in the place of the ledger, by the command for it, or copied there and accepted."""
        copy, place, mark = (self.folder / name for name in ("copy", "test.ledger", "test.mark"))
        if not copy.exists():
            return
        self.held.ledger.close()
        for file in self.folder.glob("test.ledger*"):
            file.unlink()
        if by_hand:
            place.write_bytes(copy.read_bytes())
            accept_restored_ledger(place, mark=mark, **WHO)
        else:
            restore_ledger(copy, place, mark=mark, **WHO)
        self.held = bench(self.folder, limit=1000)
        known = [entry.fields for entry in self.held.ledger.entries() if entry.kind == "charge"]
        self.keys = {
            name: asked for name, asked in self.keys.items() if name in {(one["analyst"], one["key"]) for one in known}
        }
        self.told.clear()


ASKS = st.builds(
    Ask,
    question=st.sampled_from(range(len(QUESTIONS))),
    key=st.sampled_from([None, None, "a", "b"]),
    fresh=st.booleans(),
    analyst=st.sampled_from(["ana", "ana", "ben"]),
    crash=st.sampled_from(["", "", "", "before", "after"]),
)
STEPS = st.one_of(ASKS, ASKS, ASKS, ASKS, st.sampled_from(["back up", "restore", "accept"]))


@given(st.lists(STEPS, min_size=4, max_size=14))
@settings(max_examples=15)
def test_no_order_of_events_gives_noise_away_or_the_same_noise_twice(steps: list[Ask | str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        for step in steps:
            if isinstance(step, Ask):
                world.ask(step)
            elif step == "back up":
                world.back_up()
            else:
                world.restore(by_hand=step == "accept")
        assert world.lost <= world.held.spent
        assert world.held.ledger.verify().is_sound
        world.held.ledger.close()


@pytest.fixture
def held(tmp_path: Path) -> Bench:
    return bench(tmp_path)


def noise(
    held: Bench, key: str | None = None, *, fresh: bool = False, question: int = 0, analyst: str = "ana"
) -> Noise:
    query, level = QUESTIONS[question]
    answer = held.release(query, accuracy_target(epsilon=level, fresh=fresh), Run(key=key), analyst)
    return tuple(answer.raw.tolist())


def test_fresh_noise_is_drawn_and_charged_each_time_and_once_for_a_key(held: Bench) -> None:
    plain = noise(held)
    assert noise(held) == plain == noise(held, "a key after the fact")
    drawn = {noise(held, fresh=True) for _ in range(3)} | {noise(held, "mine", fresh=True) for _ in range(3)}
    assert len(drawn | {plain}) == 5 and held.spent == 5 * HALF
    assert noise(held, "mine", fresh=True) in drawn and noise(held) == plain
    assert held.spent == 5 * HALF


@pytest.mark.parametrize("question, fresh", [(1, False), (2, False), (0, True)], ids=["accuracy", "filter", "fresh"])
@pytest.mark.parametrize("is_answered", [False, True], ids=["new", "answered before"])
def test_a_key_is_of_one_question_even_where_the_other_one_is_on_record(
    held: Bench, question: int, fresh: bool, is_answered: bool
) -> None:
    first = noise(held, "mine")
    if is_answered:
        noise(held, "another", question=question, fresh=fresh)
    spent = held.spent
    with pytest.raises(KeyReused):
        noise(held, "mine", question=question, fresh=fresh)
    assert held.spent == spent and noise(held, "mine") == first


def test_the_key_of_another_analyst_is_another_key(held: Bench) -> None:
    assert noise(held, "mine") != noise(held, "mine", analyst="ben")
    assert noise(held, "mine", analyst="ben", question=0) == noise(held, "mine", analyst="ben")
    assert held.spent == 2 * HALF


@pytest.mark.parametrize("key, fresh", [(None, False), ("mine", False), ("mine", True)])
def test_retries_at_the_same_time_have_one_answer(held: Bench, key: str | None, fresh: bool) -> None:
    with ThreadPoolExecutor(6) as threads:
        drawn = list(threads.map(lambda _: noise(held, key, fresh=fresh), range(6)))
    assert len(set(drawn)) == 1 and held.spent == HALF


def test_a_key_survives_a_restore_that_has_its_answer_and_no_other(held: Bench, tmp_path: Path) -> None:
    first = noise(held, "mine", fresh=True)
    back_up_ledger(held.ledger, tmp_path / "copy")
    later = noise(held, "later", fresh=True)
    held.ledger.close()
    restore = {"mark": tmp_path / "test.mark", **WHO, "aside": tmp_path / "aside"}
    restore_ledger(tmp_path / "copy", tmp_path / "test.ledger", **restore)
    again = bench(tmp_path)
    assert again.spent == 2 * HALF
    assert noise(again, "mine", fresh=True) == first and again.spent == 2 * HALF
    # What the copy lacks was lost and counts; it is drawn anew, and charged anew.
    assert noise(again, "later", fresh=True) != later and again.spent == 3 * HALF
