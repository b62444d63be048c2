"""Drills of the ledger: amounts, keys, limits, versions, classes, receipts, durability, old copies, changes by hand."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from blowfishdb.audit.report import CheckLine, broken, judged, refused
from blowfishdb.audit.scratch import swapped
from blowfishdb.errors import (
    BlowfishError,
    BudgetExceeded,
    ChainMoved,
    ChangeRefused,
    KeyReused,
    LedgerCorrupt,
    LedgerRolledBack,
    StaleVersion,
)
from blowfishdb.ledger import Charge, Ledger, Terms, accept_restored_ledger, open_ledger
from blowfishdb.ledger import mark as mark_file
from blowfishdb.ledger.amounts import BY, MOST_CLASSES, PER_EDGE, SUM
from blowfishdb.ledger.values import Head, Link, Publication

FULL, EXTRA = 2, 3
"""SQLite's levels of synchronisation at which a committed charge survives a power cut."""
SYNCHRONISES = (os.fsync, getattr(os, "fdatasync", os.fsync))
AMOUNTS = (Fraction(1, 3), Fraction(333_333_333_331, 10**12), Fraction(1, 7), Fraction(1, 10**12), Fraction(2, 29))
"""Prices that no float and no short fraction is equal to."""
LIMIT = Fraction(3)
TERMS = Terms("audit://ledger", limit=LIMIT, policy="{}", domain="{}")
ANALYST, OTHER = "ana", "bob"


def findings(check: Callable[[], Iterable[str]]) -> list[str]:
    """The violations that a check finds; code that refuses what it must bear is one as well."""
    try:
        return list(check())
    except BlowfishError as failure:
        return [f"the drill ends with {failure.code}: {failure.message[:120]}"]


def ledger_lines() -> list[CheckLine]:
    """Everything that is charged stays charged, to the account that the data has."""
    line = partial(judged, "the ledger")
    with tempfile.TemporaryDirectory(prefix="blowfish-audit-") as name:
        folder = Path(name)
        path, mark = folder / "drills.ledger", folder / "drills.mark"
        with open_ledger(path, mark=mark) as one, open_ledger(path, mark=mark) as two:
            account = one.register(TERMS, name="first", by="audit").id
            checks: dict[str, Callable[[], Iterable[str]]] = {
                "amounts": partial(_amounts, one, two, account),
                "names": partial(_names, one, account),
                "keys": partial(_keys, one, two, account),
                "limits": partial(_limits, one, two, account),
                "versions": partial(_versions, one, account),
                "classes": partial(_classes, one),
                "other classes": partial(_stale_classes, one),
                "carried over": partial(_carried, one),
                "receipts": partial(_receipts, one, two),
                "chains": partial(_chains, one, two),
                "curators": partial(_curators, one),
                "durability": partial(_durability, one, account, mark),
            }
            lines = [line(name, findings(check), "as it must be", 3) for name, check in checks.items()]
            unsound = broken({"the ledger does not verify after the drills": not two.verify().is_sound})
        changes = (
            ("an old copy", _rolled_back, "is noticed", 2),
            ("a torn mark", _torn, "is the one before", 2 * len(TEARS)),
            ("changed while open", _meddled, "is noticed", 4),
            ("changed by hand", _tampered, "is noticed", len(TAMPERED)),
        )
        lines += [line(what, findings(partial(check, folder)), claim, tries) for what, check, claim, tries in changes]
    return [*lines, line("verification", unsound, "every hash and balance")]


def _charge(account: str, key: str, epsilon: Fraction, analyst: str = ANALYST) -> Charge:
    request, program = (hashlib.sha256(f"{what} {key}".encode()).hexdigest() for what in ("request", "program"))
    return Charge(account, analyst, epsilon, key, request, program, 1, 1, 1, "{}")


def _amounts(one: Ledger, two: Ledger, account: str) -> list[str]:
    """Charges by turns over two connections add up to the last digit."""
    for place, epsilon in enumerate(AMOUNTS):
        (one, two)[place % 2].charge(_charge(account, f"amount {place}", epsilon))
    spent = {ledger.account(account).spent for ledger in (one, two)}
    spent |= {ledger.budget_of(account, ANALYST).spent for ledger in (one, two)}
    return broken({"charges over two connections do not add up to what was spent": spent != {sum(AMOUNTS)}})


def _names(one: Ledger, account: str) -> list[str]:
    """The same data under another name has the account that it had."""
    again = one.register(TERMS, name="second", by="audit")
    is_new = again.id != account or again.spent != sum(AMOUNTS)
    return broken({"the same data under another name gets a new budget": is_new})


def _keys(one: Ledger, two: Ledger, account: str) -> list[str]:
    """A key pays once, for one request, and for one answer."""
    charge, before = _charge(account, "key", Fraction(1, 10)), one.account(account).spent
    receipt, again = one.charge(charge), two.charge(charge)
    is_twice = one.account(account).spent - before != charge.epsilon or again.sequence != receipt.sequence
    other = two.charge(replace(charge, analyst=OTHER))
    is_kept = refused(partial(one.charge, replace(charge, request_digest="e" * 64)), KeyReused)
    answers = {one.store_answer(receipt, b"first"), two.store_answer(receipt, b"second")}
    small, spent = Fraction(1, 50), one.account(account).spent
    one.charge_all([_charge(account, f"together {place}", small) for place in range(2)])
    is_charged = one.account(account).spent == spent + 2 * small
    too_much = [_charge(account, "a little", small), _charge(account, "all", LIMIT)]
    is_refused = refused(partial(one.charge_all, too_much), BudgetExceeded)
    return broken(
        {
            "a key that is used again is charged again": is_twice,
            "what one analyst paid for is taken off nobody's limit when another asks": other.sequence
            == receipt.sequence,
            "a key that paid for one request pays for another": not is_kept,
            "a receipt gets a second answer": answers != {b"first"},
            "of several charges at once one is forgotten": not is_charged,
            "of several charges at once some are made although others are refused": not is_refused
            or one.account(account).spent != spent + 2 * small,
        }
    )


def _limits(one: Ledger, two: Ledger, account: str) -> list[str]:
    """No charge passes the limit of the data, or that of its analyst."""

    def passes(ledger: Ledger, key: str, epsilon: Fraction, analyst: str = ANALYST) -> bool:
        return not refused(lambda: ledger.charge(_charge(account, key, epsilon, analyst)), BudgetExceeded)

    one.limit_analyst(account, OTHER, Fraction(1, 2), by="audit", reason="audit")
    one.charge(_charge(account, "own 1", Fraction(1, 3), OTHER))
    rules = {"an analyst passes a limit of their own": passes(two, "own 2", Fraction(1, 3), OTHER)}
    least = Fraction(1, 10**12)
    one.charge(_charge(account, "own 3", one.budget_of(account, OTHER).remaining or least, OTHER))
    rules["an analyst without any budget left is charged a little"] = passes(two, "own 4", least, OTHER)
    left = LIMIT - one.account(account).spent
    rules["a charge passes what the data may lose"] = passes(two, "all 1", left + least)
    two.charge(_charge(account, "all 2", left))
    rules["data without any budget left is charged"] = passes(one, "all 3", least)
    return broken(rules)


def _versions(one: Ledger, account: str) -> list[str]:
    """What belongs to old data neither pays for new data nor answers for it."""
    again = partial(one.replay, account, _charge(account, "key", Fraction(1, 10)).request_digest, analyst=ANALYST)
    before, others = again(), one.replay(account, _charge(account, "key", Fraction(0)).request_digest, analyst="eve")
    one.new_snapshot(one.account(account), "refreshed", by="audit")
    stale, spent = _charge(account, "old", Fraction(0)), one.account(account).spent
    return broken(
        {
            "an answer that was paid for is not given again": before is None,
            "an answer that one analyst paid for is given to another": others is not None,
            "an answer from before the data was refreshed is given for the new data": again() is not None,
            "a quote for old data is charged for the new data": not refused(partial(one.charge, stale), StaleVersion),
            f"data that was refreshed has {LIMIT - spent} of its budget back": spent != LIMIT,
        }
    )


def _carried(one: Ledger) -> Iterator[str]:
    """A new policy multiplies what everybody lost; where nothing bounds that, or it is too much, it is refused."""
    for accounting in (SUM, PER_EDGE):
        terms = replace(TERMS, identity=f"audit://{accounting}", accounting=accounting)
        account = one.register(terms, name=accounting, by="audit").id
        renew = partial(one.new_version, kind="policy", by="audit", reason="audit")
        told = one.register(replace(terms, identity=f"audit://told {accounting}"), name="told", by="audit").id
        one.charge(_charge(told, "exact", Fraction(0)))
        untold = refused(partial(renew, one.account(told), document='{"new": 0}', stretch=None), ChangeRefused)
        first = replace(_charge(account, "first", Fraction(1, 3)), losses={"moves x": Fraction(1, 3)})
        one.store_answer(one.charge(first), b"first")
        change = renew(one.account(account), document='{"new": 1}', stretch=Fraction(3))
        after = one.account(account)
        spent = {change.spent_after, after.spent, one.budget_of(account, ANALYST).spent}
        unbounded, costly = (
            not refused(partial(renew, after, document='{"new": 2}', stretch=stretch), ChangeRefused)
            for stretch in (None, Fraction(4))
        )
        version = one.account(account).policy_version
        stale = one.replay(account, first.request_digest, analyst=ANALYST)
        late = replace(_charge(account, "late", LIMIT - 1 + Fraction(1, 10**12)), policy_version=version)
        is_late = not refused(partial(one.charge, late), BudgetExceeded)
        # Classes of the new policy hold other edges than those of the same name before.
        other = replace(_charge(account, "other", Fraction(1, 2)), losses={"moves y": Fraction(1, 2)})
        one.charge(replace(other, policy_version=version))
        is_apart = one.account(account).spent != Fraction(3, 2)
        yield from broken(
            {
                f"past loss is not carried over to a new policy where it is counted {accounting!r}": spent != {1},
                "a policy whose values were not hidden is let into force": unbounded,
                "a policy that costs more than there is is let into force": costly,
                f"after a new policy more is charged than is left, where it is counted {accounting!r}": is_late,
                "exact releases are forgotten when values are joined that were apart": not untold,
                "an answer under an old policy is given for the new one": stale is not None,
                f"loss under an old policy is set aside where it is counted {accounting!r}": is_apart,
            }
        )


def _classes(one: Ledger) -> list[str]:
    """More classes of edges than are kept apart: what is not kept apart counts for all of them."""
    terms = replace(TERMS, identity="audit://classes", accounting=PER_EDGE)
    account = one.register(terms, name="classes", by="audit").id
    for turn, group in enumerate(("first", "second", "second")):
        losses = {f"{group} {number}": Fraction(1, 2) for number in range(MOST_CLASSES - 1)}
        one.charge(replace(_charge(account, f"class {turn}", Fraction(1, 2)), losses=losses))
    is_free = one.account(account).spent < 1
    return broken({"classes of edges beyond those that are kept apart lose nothing": is_free})


def _stale_classes(one: Ledger) -> list[str]:
    """Classes of another way of accounting name other edges: what was lost in them counts for all."""
    terms = replace(TERMS, identity="audit://stale", accounting=PER_EDGE)
    account = one.register(terms, name="stale", by="audit")
    one.charge(replace(_charge(account.id, "before", Fraction(1, 2)), losses={"moves x": Fraction(1, 2)}))
    one.set_accounting(one.account(account.id), f"{BY}y", by="audit", reason="audit")
    for name in ("moves x", "in 'y' 0: record"):
        one.charge(replace(_charge(account.id, name, Fraction(1, 3)), losses={name: Fraction(1, 3)}))
    is_apart = one.account(account.id).spent < Fraction(1, 2) + Fraction(2, 3)
    return broken({"losses in classes of another way of accounting are set aside": is_apart})


def _receipts(one: Ledger, two: Ledger) -> list[str]:
    """Only the receipt that is on record finds its answer, or stores one."""
    account = one.register(replace(TERMS, identity="audit://receipts"), name="receipts", by="audit").id
    receipt = one.charge(_charge(account, "paid", Fraction(1, 2)))
    forged = [
        replace(receipt, charge=replace(receipt.charge, epsilon=Fraction(2))),
        replace(receipt, charge=replace(receipt.charge, analyst=OTHER)),
        replace(receipt, hash="0" * 64),
        replace(receipt, sequence=receipt.sequence - 1),
    ]
    is_taken = [
        not refused(partial(attempt, each), BlowfishError)
        for each in forged
        for attempt in (two.answer_for, lambda receipt: two.store_answer(receipt, b"forged"))
    ]
    return broken({"a receipt that is not on record is taken for one": any(is_taken)})


def _chains(one: Ledger, two: Ledger) -> list[str]:
    """Answers that share noise: each pays what its chain leaves to pay, and is drawn given all that was published."""
    terms = replace(TERMS, identity="audit://chains")
    account = one.register(terms, name="chains", by="audit").id
    first = Link("rows.identity.shape.1", Fraction(1, 5), Fraction(1, 5))
    second = replace(first, level=Fraction(3, 10), received=Fraction(3, 10))
    short = replace(_charge(account, "short", Fraction(1, 10)), link=first)
    is_short = not refused(partial(one.charge, short), ChainMoved)
    receipts = [
        one.charge(replace(_charge(account, "first", Fraction(1, 5)), link=first)),
        two.charge(replace(_charge(account, "second", Fraction(1, 10), OTHER), link=second)),
    ]
    blind = Publication(frozenset(), "rows")
    one.store_answer(receipts[0], b"first", blind)
    is_blind = not refused(partial(two.store_answer, receipts[1], b"second", blind), ChainMoved)
    known = len(one.links(account, "rows"))
    one.new_snapshot(one.account(account), "refreshed", by="audit")
    return broken(
        {
            "an answer pays less than its chain leaves to pay": is_short,
            "an answer is published that was drawn without knowing of another of its chain": is_blind,
            "the answers of a chain are not on record": known != len(receipts),
            "chains go on over refreshed data": one.links(account, "rows"),
        }
    )


def _curators(one: Ledger) -> list[str]:
    """Changes that were worked out for versions, or an accounting, that are no longer in force; limits that fall."""
    terms = replace(TERMS, identity="audit://curators")
    seen = one.register(terms, name="curators", by="audit")
    change = partial(one.new_version, kind="policy", stretch=Fraction(1), by="audit", reason="audit")
    change(seen, document='{"new": 1}')
    late: list[Callable[[], object]] = [
        partial(change, seen, document='{"new": 2}'),
        partial(one.new_snapshot, seen, "refreshed", by="audit"),
    ]
    current = one.account(seen.id)
    one.set_accounting(current, PER_EDGE, by="audit", reason="audit")
    counted = partial(change, current, document='{"new": 3}')
    lower = partial(one.renew, seen.id, LIMIT - 1, by="audit", reason="audit")
    is_late = not all(refused(attempt, StaleVersion) for attempt in late)
    return broken(
        {
            "a change is made that was worked out for an old version": is_late,
            "a change is made that was worked out for another accounting": not refused(counted, ChangeRefused),
            "a renewal lowers what the data may lose": not refused(lower, ChangeRefused),
        }
    )


def _durability(one: Ledger, account: str, path: Path) -> list[str]:
    """What is charged outlives a power cut: the database and the mark wait until the disk has it."""
    with one.store.write() as cursor:
        ((level,),) = cursor.rows("PRAGMA synchronous")
        ((journal,),) = cursor.rows("PRAGMA journal_mode")
    synchronised: list[int] = []
    usual = mark_file._sync_content

    def noted(descriptor: int) -> None:
        synchronised.append(descriptor)
        usual(descriptor)

    with swapped(mark_file, "_sync_content", noted):
        receipt = one.charge(replace(_charge(account, "durable", Fraction(0)), snapshot=one.account(account).snapshot))
    return broken(
        {
            "a charge returns before the disk has it": level not in (FULL, EXTRA) or journal != "wal",
            "the high-water mark returns before the disk has it": not synchronised or usual not in SYNCHRONISES,
            "the high-water mark does not know of a charge": mark_file.FileMark(path).read()
            != Head(one.id, receipt.sequence, receipt.hash),
        }
    )


def _rolled_back(folder: Path) -> list[str]:
    """A copy of the ledger from before a charge would give back what was spent, so it must be refused."""
    path, mark, copy = folder / "old.ledger", folder / "old.mark", folder / "copy.ledger"
    with open_ledger(path, mark=mark) as ledger:
        account = ledger.register(TERMS, name="old", by="audit").id
    forked, elsewhere = folder / "forked.ledger", folder / "forked.mark"
    for here, there in ((path, copy), (path, forked), (mark, elsewhere)):
        shutil.copyfile(here, there)

    def charge(key: str) -> None:
        with open_ledger(path, mark=mark) as ledger:
            ledger.charge(_charge(account, key, Fraction(1)))

    charge("key")
    # A copy that went on by itself is as long as the ledger, and tells of another charge; then it is longer.
    with open_ledger(forked, mark=elsewhere) as ledger:
        ledger.charge(_charge(account, "elsewhere", Fraction(1)))
    longer = folder / "longer.ledger"
    shutil.copyfile(forked, longer)
    shutil.copyfile(elsewhere, folder / "longer.mark")
    with open_ledger(longer, mark=folder / "longer.mark") as ledger:
        ledger.charge(_charge(account, "further", Fraction(1)))
    rules = {}
    copies = {"an old copy of the ledger": copy, "a copy that went another way": forked, "one that went on": longer}
    for name, wrong in copies.items():
        for beside in folder.glob("old.ledger*"):
            beside.unlink()
        shutil.copyfile(wrong, path)
        rules[f"{name} is taken for the ledger"] = not refused(partial(charge, f"after {name}"), LedgerRolledBack)
    return [*broken(rules), *_another_guard(folder)]


def _another_guard(folder: Path) -> list[str]:
    """A ledger that was accepted with another mark: the one it had hears of no charge, and opens nothing any more."""
    path, first, second = (folder / f"guarded.{ending}" for ending in ("ledger", "first", "second"))
    with open_ledger(path, mark=first) as ledger:
        account = ledger.register(TERMS, name="guarded", by="audit").id
        accept_restored_ledger(path, mark=second, by="audit", reason="audit")
        before = first.read_bytes()
        is_charged = not refused(lambda: ledger.charge(_charge(account, "key", Fraction(1))), LedgerRolledBack)
    is_opened = not refused(lambda: open_ledger(path, mark=first).close(), LedgerRolledBack)
    return broken(
        {
            "a ledger is charged whose mark is another by now": is_charged,
            "a ledger is opened by a mark that does not guard it": is_opened,
            "a mark is moved by a ledger that it does not guard": first.read_bytes() != before,
        }
    )


TEARS = (1, 40, 90, 200, 400, 511)
"""Bytes of a mark that a power cut lets through."""


def _torn(folder: Path) -> Iterator[str]:
    """A power cut while the mark is written, first what was spent and then the head, leaves the mark from before."""
    usual, writes = os.pwrite, list[int]()

    def cut(size: int, place: int, descriptor: int, content: bytes, offset: int) -> int:
        writes.append(offset)
        if len(writes) <= place:
            return usual(descriptor, content, offset)
        usual(descriptor, content[:size], offset)
        raise OSError

    for size, place in itertools.product(TEARS, range(2)):
        mark = mark_file.FileMark(folder / f"torn {size} {place}")
        heads = [Head("a" * 32, n, f"{n}" * 64) for n in range(1, 5)]
        for head in heads[:-1]:
            mark.advance(head)
        writes.clear()
        with swapped(os, "pwrite", partial(cut, size, place)):
            is_unnoticed = not refused(partial(mark.advance, heads[-1]))
        yield from broken(
            {
                "a mark that could not be written is taken for written": is_unnoticed,
                f"a mark of which {size} bytes were written is neither old nor new": mark.read() not in heads[-2:],
            }
        )


def _meddled(folder: Path) -> Iterator[str]:
    """A balance that somebody changes under a ledger that is open: the next charge must notice."""
    for table in ("account", "analyst"):
        path = folder / f"open {table}.ledger"
        with open_ledger(path, mark=path.with_suffix(".mark")) as ledger:
            account = ledger.register(TERMS, name="open", by="audit").id
            for number in range(2):
                ledger.charge(_charge(account, f"before {number}", Fraction(1)))
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(f"UPDATE {table} SET spent_units = '0'")
            is_taken = not refused(partial(ledger.charge, _charge(account, "after", Fraction(1, 2))), LedgerCorrupt)
        yield from broken({f"a balance of an {table} that was changed by hand pays for more": is_taken})
    for name, change in (("changed", "UPDATE answer SET payload = X'00'"), ("taken away", "DELETE FROM answer")):
        path = folder / f"open {name}.ledger"
        with open_ledger(path, mark=path.with_suffix(".mark")) as ledger:
            account = ledger.register(TERMS, name="open", by="audit").id
            receipt = ledger.charge(_charge(account, "before", Fraction(1)))
            ledger.store_answer(receipt, b"answer")
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(change)
            is_taken = not refused(partial(ledger.answer_for, receipt), LedgerCorrupt)
        yield from broken({f"an answer that was {name} is given, or measured again": is_taken})


TAMPERED = {
    "the level of a chain": "UPDATE link SET level = '9'",
    "who shares an answer": "UPDATE link SET analyst = 'eve'",
    "the price of a charge": "UPDATE entry SET body = replace(body, '\"1/10\"', '\"1/11\"') WHERE body LIKE '%1/10%'",
    "the hash of an entry": "UPDATE entry SET hash = substr(hash, 2) || '0' WHERE sequence = 3",
    "the last entry": "DELETE FROM entry WHERE sequence = (SELECT max(sequence) FROM entry)",
    "an entry in between": "DELETE FROM entry WHERE sequence = 4",
    "the name behind a charge": "UPDATE entry SET analyst = 'eve' WHERE kind = 'charge' AND sequence = 4",
    "a stored answer": "UPDATE answer SET payload = X'00' WHERE charge = (SELECT min(charge) FROM answer)",
    "a stored answer, taken away": "DELETE FROM answer WHERE charge = (SELECT min(charge) FROM answer)",
    "what an account spent": "UPDATE account SET spent_units = '0'",
    "what an analyst spent": "UPDATE analyst SET spent_units = '0' WHERE name = 'ana'",
    "what classes of edges lost": "UPDATE account SET edge_books = replace(edge_books, '3/5', '1/9')",
    "the limit of an account": "UPDATE account SET limit_top = '9'",
    "the limit of an analyst": "UPDATE analyst SET limit_top = '9' WHERE name = 'bob'",
    "the version of a policy": "UPDATE account SET policy_version = policy_version + 1",
    "a policy": "UPDATE version SET document = '{}' WHERE kind = 'policy' AND document <> '{}'",
    "the number of charges": "UPDATE account SET charges = 0",
    "the head": "UPDATE head SET sequence = sequence - 1",
}
"""Single changes of what the ledger holds, as somebody with the file could make them."""


def _tampered(folder: Path) -> Iterator[str]:
    """Each change by hand must be found: when the ledger is opened, or when it is verified."""
    path, mark = folder / "small.ledger", folder / "small.mark"
    copy, mark_copy = folder / "tampered.ledger", folder / "tampered.mark"
    with open_ledger(path, mark=mark) as ledger:
        for accounting in (SUM, PER_EDGE):
            terms = replace(TERMS, identity=f"audit://{accounting}", policy='{"old": 1}', accounting=accounting)
            account = ledger.register(terms, name=accounting, by="audit").id
            ledger.limit_analyst(account, OTHER, Fraction(1, 2), by="audit", reason="audit")
            for epsilon in (Fraction(1, 10), Fraction(1, 2)):
                charge = replace(_charge(account, f"key {epsilon}", epsilon), losses={"moves x": epsilon})
                ledger.store_answer(ledger.charge(charge), b"answer")
            linked = _charge(account, "linked", Fraction(1, 7))
            ledger.charge(replace(linked, link=Link("rows.identity.shape.1", linked.epsilon, linked.epsilon)))
    for what, change in TAMPERED.items():
        for beside in folder.glob("tampered.*"):
            beside.unlink()
        shutil.copyfile(path, copy)
        shutil.copyfile(mark, mark_copy)
        with closing(sqlite3.connect(copy)) as connection, connection:
            if connection.execute(change).rowcount < 1:
                yield f"{what}: there is nothing to change"
        try:
            with open_ledger(copy, mark=mark_copy) as ledger:
                if ledger.verify().is_sound:
                    yield f"{what} can be changed by hand, and the ledger verifies"
        except BlowfishError:
            continue
