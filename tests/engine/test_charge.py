"""A release is charged before data is read, published once, replayed free; failures never draw a second answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine import charge as module
from blowfishdb.engine.charge import Run, announcing, check_receipt, prepare
from blowfishdb.engine.compile import LONGEST_COUNT, DatasetHandle
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import accuracy_target, make_request
from blowfishdb.engine.synopsis import Synopsis, from_bytes
from blowfishdb.errors import (
    BudgetExceeded,
    DeadlinePassed,
    DigestMismatch,
    DriverMissing,
    InvalidInput,
    KeyReused,
    LedgerRolledBack,
    LedgerUnavailable,
    ReleaseFailed,
    SchemaDrift,
    SourceChanging,
    SourceError,
    SourceFailed,
    SpendingCapReached,
    StaleVersion,
    TooLarge,
)
from blowfishdb.ledger import Charge, Receipt
from blowfishdb.model.numbers import Ints
from tests.engine.held import HISTOGRAM, RAW, Bench, bench

HALF = Fraction(1, 2)


@pytest.fixture
def held(tmp_path: Path) -> Bench:
    return bench(tmp_path)


def test_the_charge_is_on_record_when_the_data_is_read(held: Bench) -> None:
    seen = []
    held.rows.before = lambda: seen.append(held.spent)
    held.release()
    assert seen == [HALF]


def test_nothing_is_read_when_the_budget_does_not_allow_it(tmp_path: Path) -> None:
    poor = bench(tmp_path, limit=0)
    with pytest.raises(BudgetExceeded):
        poor.release()
    assert poor.rows.reads == 0


def test_the_same_question_replays_for_free(held: Bench) -> None:
    first, second = held.release(), held.release(wanted=accuracy_target(epsilon=0.5))
    assert np.array_equal(first.raw, second.raw)
    assert (held.rows.reads, held.spent) == (1, HALF)


def test_another_analyst_or_another_accuracy_pays(held: Bench) -> None:
    held.release()
    held.release(analyst="ben")
    held.release(wanted=accuracy_target(epsilon="0.25"))
    assert (held.rows.reads, held.spent) == (3, Fraction(5, 4))


def test_a_refreshed_table_does_not_replay(held: Bench) -> None:
    held.release()
    held.ledger.new_snapshot(held.ledger.account(held.handle.account), "new rows", by="cora")
    held.handle = replace(held.handle, snapshot=2)
    held.release()
    assert (held.rows.reads, held.spent) == (2, Fraction(1))


def test_a_quote_under_an_old_version_is_refused_before_reading(held: Bench) -> None:
    held.ledger.new_snapshot(held.ledger.account(held.handle.account), "new rows", by="cora")
    with pytest.raises(StaleVersion):
        held.release()
    assert held.rows.reads == 0


def test_a_key_belongs_to_one_question(held: Bench) -> None:
    held.release(run=Run(key="k"))
    with pytest.raises(KeyReused):
        held.release(wanted=accuracy_target(epsilon="0.25"), run=Run(key="k"))
    assert held.rows.reads == 1


@pytest.mark.parametrize("key", [None, "mine"])
def test_a_source_that_failed_is_tried_again_under_the_same_charge(held: Bench, key: str | None) -> None:
    held.rows.trouble = [SourceFailed("7f3a")]
    with pytest.raises(ReleaseFailed, match="7f3a") as failure:
        held.release(run=Run(key=key))
    assert failure.value.can_retry
    assert held.spent == HALF
    answer = held.release(run=Run(key=key))
    assert answer.raw.size == 20
    assert (held.rows.reads, held.spent) == (2, HALF)


def test_a_table_that_no_longer_fits_is_noticed_before_the_charge(held: Bench) -> None:
    held.rows.drift = SourceError("the table rows has no column 'age', which is an attribute of the domain")
    with pytest.raises(SchemaDrift, match=r"nothing charged.*'age'.*curator"):
        held.release()
    held.rows.drift = SourceFailed("7f3a")
    with pytest.raises(SourceFailed):
        held.release()
    held.rows.drift = DriverMissing("postgresql", "postgres")
    with pytest.raises(DriverMissing, match="pip install"):
        held.release()
    assert (held.rows.reads, held.spent) == (0, 0)


@pytest.mark.parametrize("torn", [SourceError("the first line of a.csv cannot be read"), SourceFailed("7f3a")])
def test_files_that_are_being_written_are_not_said_to_have_another_schema(held: Bench, torn: Exception) -> None:
    held.rows.drift, held.rows.changing = torn, True
    with pytest.raises(SourceChanging, match=r"nothing charged: the files of rows are being written. Ask again"):
        held.release()
    assert (held.rows.reads, held.spent) == (0, 0)


def test_what_a_source_says_reaches_the_curator_only(held: Bench, caplog: pytest.LogCaptureFixture) -> None:
    held.rows.trouble = [RuntimeError("cannot cast 'Mr Secret'")]
    with caplog.at_level(logging.ERROR, "blowfishdb.curator"), pytest.raises(ReleaseFailed) as failure:
        held.release()
    assert "Secret" not in str(failure.value)
    assert failure.value.__context__ is None or "Secret" not in str(failure.value.__context__)
    assert "Secret" in caplog.text
    assert failure.value.incident in caplog.text


def break_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ArithmeticError("of 20, 41, 17")

    monkeypatch.setattr(PlanRelease, "answer", broken)


def test_a_failure_after_the_draw_uses_the_charge_up(held: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        break_inference(broken)
        with pytest.raises(ReleaseFailed) as first:
            held.release()
    assert not first.value.can_retry
    assert "20, 41" not in str(first.value)
    with pytest.raises(ReleaseFailed) as second:
        held.release()
    assert (second.value.incident, held.rows.reads) == (first.value.incident, 1)
    answer = held.release(run=Run(key="again"))
    assert answer.raw.size == 20
    assert (held.rows.reads, held.spent) == (2, Fraction(1))
    assert np.array_equal(held.release().raw, answer.raw)


def test_who_stores_second_publishes_the_first_answer(held: Bench) -> None:
    def rival() -> None:
        held.rows.before = None
        rivals.append(held.release().raw)

    rivals: list[object] = []
    held.rows.before = rival
    mine = held.release().raw
    assert held.rows.reads == 2
    assert np.array_equal(mine, rivals[0])
    assert held.spent == HALF


def test_a_crash_before_the_answer_is_stored_costs_nothing_more(held: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    class Crash(BaseException):
        pass

    def crash(*_: object) -> bytes:
        raise Crash

    with monkeypatch.context() as crashing:
        crashing.setattr(type(held.ledger), "store_answer", crash)
        with pytest.raises(Crash):
            held.release()
    assert held.spent == HALF
    held.release()
    assert held.spent == HALF


@pytest.mark.parametrize(
    "forge",
    [
        lambda receipt: replace(receipt, charge=replace(receipt.charge, program_digest="0" * 64)),
        lambda receipt: replace(receipt, charge=replace(receipt.charge, epsilon=Fraction(1, 10**6))),
    ],
)
def test_a_receipt_for_another_plan_is_refused(held: Bench, forge: Callable[[Receipt], Receipt]) -> None:
    kept = held.ledger.replay
    held.release()
    request = make_request(held.handle, HISTOGRAM, accuracy_target(epsilon="0.5"))
    found = kept(held.handle.account, request.digest)
    assert found is not None
    ready = prepare(held.handle, request)
    check_receipt(found.receipt, ready)
    with pytest.raises(DigestMismatch):
        check_receipt(forge(found.receipt), ready)
    with pytest.raises(DigestMismatch):
        held.ledger.answer_for(forge(found.receipt))


def test_no_noise_is_drawn_for_a_plan_that_was_not_charged(held: Bench) -> None:
    """The same request with another plan behind it, as after an upgrade that quotes differently."""
    held.rows.trouble = [SourceFailed("7f3a")]
    with pytest.raises(ReleaseFailed):
        held.release()
    request = make_request(held.handle, HISTOGRAM, accuracy_target(epsilon="0.5"))
    other = prepare(held.handle, make_request(held.handle, HISTOGRAM, accuracy_target(epsilon="0.75")))
    with pytest.raises(DigestMismatch):
        module.charged_payload(held.ledger, held.handle, "ana", request.digest, lambda: other, Run())
    assert held.rows.reads == 1


def test_steps_are_told_and_none_lies_between_draw_and_record(held: Bench) -> None:
    steps: list[str] = []
    stored: list[bool] = []

    def hear(step: str) -> None:
        steps.append(step)
        stored.append(any(entry.kind == "answer" for entry in held.ledger.entries()))

    held.release(run=Run(progress=hear))
    assert steps == ["quote", "charge", "answer", "done"]
    assert stored == [False, False, False, True]
    steps.clear()
    held.release(run=Run(progress=hear))
    assert steps == ["done"]


def test_a_listener_that_fails_at_the_end_does_not_hide_the_answer(held: Bench) -> None:
    def fail_at_the_end(step: str) -> None:
        if step == "done":
            raise RuntimeError("the screen went away")

    first = held.release(run=Run(progress=fail_at_the_end))
    assert held.release(run=Run(progress=fail_at_the_end)).to_json() == first.to_json()


def test_a_deadline_stops_before_the_charge_and_never_after_it(held: Bench) -> None:
    held.release(run=Run(deadline=500))
    assert held.rows.deadlines == [LONGEST_COUNT]
    with pytest.raises(DeadlinePassed):
        held.release(wanted=accuracy_target(epsilon="0.125"), run=Run(deadline=1e-9))
    assert (held.rows.reads, held.spent) == (1, HALF)


def test_a_price_above_the_cap_is_refused_and_a_replay_is_free(held: Bench) -> None:
    with pytest.raises(SpendingCapReached) as refusal:
        held.release(run=Run(spend=Fraction(49, 100)))
    assert (refusal.value.requested, refusal.value.allowed) == (HALF, Fraction(49, 100))
    assert (held.rows.reads, held.spent) == (0, 0)
    first = held.release(run=Run(spend=HALF))
    assert held.release(run=Run(spend=Fraction(0))).to_json() == first.to_json()
    assert (held.rows.reads, held.spent) == (1, HALF)


def test_a_price_is_told_before_it_is_charged_and_may_be_refused(held: Bench) -> None:
    told: list[tuple[Fraction, Fraction, Fraction]] = []

    def refuse(price: Fraction, charges: Sequence[Charge]) -> None:
        raise SpendingCapReached(price, Fraction(0))

    with pytest.raises(SpendingCapReached):
        held.release(run=Run(before_charge=refuse))
    assert (held.rows.reads, held.spent) == (0, 0)

    def hear(price: Fraction, charges: Sequence[Charge]) -> None:
        told.append((price, sum((one.received for one in charges), Fraction(0)), held.spent))

    hears = Run(before_charge=hear)
    held.release(run=hears)
    held.release(run=hears)
    assert told == [(HALF, HALF, Fraction(0))], "told once, while nothing was charged; a replay has no price"


@pytest.mark.parametrize(
    ("error", "on_record", "left"),
    [
        (StaleVersion("policy version", 1, 2), False, 0),
        (BudgetExceeded(HALF, Fraction(0), None), False, 0),
        (LedgerRolledBack("charged upon another past", found=1, expected=2), True, 1),
        (LedgerUnavailable("perhaps it is written"), False, 1),
        (RuntimeError("a bug"), False, 1),
    ],
)
def test_a_price_is_taken_back_where_nothing_was_charged_after_all(
    error: Exception, on_record: bool, left: int
) -> None:
    told: list[Fraction] = []

    def attempt(run: Run) -> None:
        with announcing(run, lambda: on_record) as announced:
            # A second attempt tells how much more or less it costs than the first.
            for price in (HALF, Fraction(3, 4), Fraction(1, 4)):
                announced.tell(price, [])
            raise error

    with pytest.raises(type(error)):
        attempt(Run(before_charge=lambda price, charges: told.append(price)))
    assert told[:3] == [HALF, Fraction(1, 4), -HALF]
    assert sum(told) == Fraction(left, 4)
    with pytest.raises(type(error)):
        attempt(Run())


@pytest.mark.parametrize(
    "wrong",
    [{"key": ""}, {"key": "a\nb"}, {"key": "k" * 10**6}, {"progress": 7}, {"deadline": -1}, {"spend": Fraction(-1)}],
)
def test_runs_that_make_no_sense(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        Run(**wrong)  # type: ignore[arg-type]


def test_intervals_hold(held: Bench) -> None:
    request = make_request(held.handle, HISTOGRAM, accuracy_target(epsilon="0.1", beta=0.2))
    ready = prepare(held.handle, request)
    truth, misses = np.bincount(RAW), 0
    for _ in range(300):
        bounds = ready.answer(truth).bounds
        misses += bool(np.any((truth < bounds.low - 1e-9) | (truth > bounds.high + 1e-9)))
    # Each misses with probability at most 0.2; 106 or more of 300 have chance 1e-9. Twice the noise misses 134 times.
    assert misses < 106


def test_exact_answers_are_recorded_and_free(held: Bench) -> None:
    answer = held.release(bf.query("count"))
    assert answer.raw.tolist() == [RAW.size]
    assert held.spent == 0
    assert [entry.kind for entry in held.ledger.entries()][-2:] == ["charge", "answer"]


def test_amounts_are_shown_as_decimals_and_kept_as_fractions() -> None:
    refusal = BudgetExceeded(Fraction(1339, 250), Fraction(1, 3), None)
    assert "epsilon 5.356" in str(refusal)
    assert "about 0.333333" in str(refusal)
    assert (refusal.requested, refusal.remaining_dataset) == (Fraction(1339, 250), Fraction(1, 3))


def fill_disk(held: Bench, *, until: str) -> Run:
    """A run during which no page can be added to the ledger any more, from a step on."""

    def progress(step: str) -> None:
        if step == until:
            with held.ledger.store.write() as cursor:
                (used,) = cursor.rows("PRAGMA page_count")[0]
                cursor.rows(f"PRAGMA max_page_count = {used}")

    return Run(progress=progress)


@pytest.mark.parametrize("step", ["charge", "answer"])
def test_a_full_disk_leaves_a_charge_or_nothing_and_says_so(tmp_path: Path, step: str) -> None:
    """The charge is durable or refused; an answer that finds no room is not given, and its retry is free."""
    held = bench(tmp_path, limit=1000)
    refusals = set()
    for number in range(200):
        wanted = accuracy_target(epsilon=f"1/{number + 2}")
        before, reads = held.spent, held.rows.reads
        try:
            held.release(wanted=wanted, run=fill_disk(held, until=step))
        except LedgerUnavailable as refusal:
            refusals.add(refusal.code)
            assert not any(character.isdigit() for character in refusal.message), "nothing of the data is told"
            paid = held.spent - before
            assert paid == (Fraction(1, number + 2) if held.rows.reads > reads else 0)
            assert held.ledger.verify().is_sound
            with held.ledger.store.write() as cursor:
                cursor.rows("PRAGMA max_page_count = 1073741823")
            held.release(wanted=wanted)
            assert held.spent - before == Fraction(1, number + 2)
            break
    assert refusals == {"ledger-unavailable"}
    assert held.ledger.verify().is_sound


def test_large_answers_are_made_one_at_a_time_and_small_ones_beside_them(
    held: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload, order, begun, ended = PlanRelease.payload, list[str](), threading.Event(), threading.Event()

    def watched(release: PlanRelease, counts: Ints, handle: DatasetHandle) -> bytes:
        order.append(f"{release.compiled.query.kind} begins")
        if release.epsilon == HALF:
            begun.set()
            ended.wait(30)
        answer = payload(release, counts, handle)
        order.append(f"{release.compiled.query.kind} ends")
        return answer

    monkeypatch.setattr(PlanRelease, "payload", watched)
    monkeypatch.setattr(module, "LARGE", 2)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(held.release)
        assert begun.wait(30)
        second = pool.submit(held.release, HISTOGRAM, accuracy_target(epsilon="0.4"), None, "ben")
        held.release(bf.query("count"), analyst="eve")
        ended.set()
        first.result()
        second.result()
    large = "histogram begins", "histogram ends"
    assert order == [large[0], "count begins", "count ends", large[1], *large]


@pytest.mark.parametrize("mechanism", ["identity", "dawa"])
def test_more_than_a_million_answers_are_refused_before_the_charge(held: Bench, mechanism: str) -> None:
    wide = replace(held.handle, domain=bf.domain({"age": bf.integers(0, 1999, null=0)}))
    ranges = make_request(wide, bf.query("ranges", "age"), accuracy_target(epsilon="0.5", mechanism=mechanism))
    release = prepare(wide, ranges)
    with pytest.raises(TooLarge, match="answers of one question: 2,001,000 is more than"):
        release.document()
    assert held.spent == 0


def test_a_synopsis_gives_a_million_answers_or_as_many_as_it_has_cells(held: Bench) -> None:
    domain, target = bf.domain({"age": bf.integers(0, 1999, null=0)}), accuracy_target(epsilon="0.5")
    wide = replace(held.handle, domain=domain)
    release = prepare(wide, make_request(wide, bf.query("synopsis", "age"), target))
    synopsis = Synopsis(from_bytes(release.payload(np.zeros(2000, dtype=np.int64), wide)))
    with pytest.raises(TooLarge, match="answers of one question: 2,001,000 is more than"):
        synopsis.ranges("age")
    assert synopsis.cdf("age").raw.size == 2000
