"""Drills of the ledger alone: two processes at once, limits, keys, versions and names; no amount may ever get lost."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from blowfishdb.audit.verdicts import Line, judged
from blowfishdb.errors import BlowfishError, BudgetExceeded, ChangeRefused, KeyReused, LedgerRolledBack, StaleVersion
from blowfishdb.ledger import Charge, Ledger, Terms, open_ledger
from blowfishdb.ledger.edge_books import MOST_CLASSES, PER_EDGE, SUM

AMOUNTS = (Fraction(1, 3), Fraction(333_333_333_331, 10**12), Fraction(1, 7), Fraction(1, 10**12), Fraction(2, 29))
"""Prices that no float and no short fraction is equal to."""
LIMIT = Fraction(3)
TERMS = Terms("audit://books", limit=LIMIT, policy="{}", domain="{}")
ANALYST, OTHER = "ana", "bob"


def book_lines() -> list[Line]:
    """Everything that is charged stays charged, to the account that the data has."""
    with tempfile.TemporaryDirectory(prefix="blowfish-audit-") as folder:
        path, mark = Path(folder) / "books.ledger", Path(folder) / "books.mark"
        with open_ledger(path, mark=mark) as one, open_ledger(path, mark=mark) as two:
            account = one.register(TERMS, name="first", by="audit").id
            checks: dict[str, Iterator[str]] = {
                "amounts": _amounts(one, two, account),
                "names": _names(one, account),
                "keys": _keys(one, two, account),
                "limits": _limits(one, two, account),
                "versions": _versions(one, account),
                "classes": _classes(one),
            }
            found = [
                judged("replay", "the ledger", name, list(told), "as it must be", 3) for name, told in checks.items()
            ]
            found.append(judged("replay", "the ledger", "carried over", list(_carried(one)), "all of it", 4))
            unsound = [] if two.verify().is_sound else ["the ledger does not verify after the drills"]
        found.append(judged("replay", "the ledger", "an old copy", list(_rolled_back(Path(folder))), "is noticed", 1))
    return [*found, judged("replay", "the ledger", "verification", unsound, "every hash and balance", 1)]


def _charge(account: str, key: str, epsilon: Fraction, analyst: str = ANALYST) -> Charge:
    asked, ran = (hashlib.sha256(f"{what} {key}".encode()).hexdigest() for what in ("request", "program"))
    return Charge(account, analyst, epsilon, key, asked, ran, 1, 1, 1, "{}")


def _refused(work: Callable[[], object], error: type[BlowfishError]) -> bool:
    try:
        work()
    except error:
        return True
    return False


def _amounts(one: Ledger, two: Ledger, account: str) -> Iterator[str]:
    """Charges by turns over two connections add up to the last digit."""
    for place, epsilon in enumerate(AMOUNTS):
        (one, two)[place % 2].charge(_charge(account, f"amount {place}", epsilon))
    for ledger in (one, two):
        if ledger.account(account).spent != sum(AMOUNTS) or ledger.budget_of(account, ANALYST).spent != sum(AMOUNTS):
            yield "charges over two connections do not add up to what was spent"


def _names(one: Ledger, account: str) -> Iterator[str]:
    """The same data under another name has the account that it had."""
    again = one.register(TERMS, name="second", by="audit")
    if again.id != account or again.spent != sum(AMOUNTS):
        yield "the same data under another name gets a new budget"


def _keys(one: Ledger, two: Ledger, account: str) -> Iterator[str]:
    """A key pays once, for one request, and for one answer."""
    charge = _charge(account, "key", Fraction(1, 10))
    before = one.account(account).spent
    receipt, again = one.charge(charge), two.charge(charge)
    if one.account(account).spent - before != charge.epsilon or again.sequence != receipt.sequence:
        yield "a key that is used again is charged again"
    if two.charge(replace(charge, analyst=OTHER)).sequence == receipt.sequence:
        yield "what one analyst paid for is taken off nobody's limit when another asks"
    if not _refused(lambda: one.charge(replace(charge, request_digest="e" * 64)), KeyReused):
        yield "a key that paid for one request pays for another"
    if one.store_answer(receipt, b"first") != b"first" or two.store_answer(receipt, b"second") != b"first":
        yield "a receipt gets a second answer"


def _limits(one: Ledger, two: Ledger, account: str) -> Iterator[str]:
    """Neither the data's limit nor an analyst's own is passed, by nobody's charge."""
    one.limit_analyst(account, OTHER, Fraction(1, 2), by="audit", reason="audit")
    one.charge(_charge(account, "own 1", Fraction(1, 3), OTHER))
    if not _refused(lambda: two.charge(_charge(account, "own 2", Fraction(1, 3), OTHER)), BudgetExceeded):
        yield "an analyst passes a limit of their own"
    left = LIMIT - one.account(account).spent
    if not _refused(lambda: two.charge(_charge(account, "all 1", left + Fraction(1, 10**12))), BudgetExceeded):
        yield "a charge passes what the data may lose"
    two.charge(_charge(account, "all 2", left))
    if not _refused(lambda: one.charge(_charge(account, "all 3", Fraction(1, 10**12))), BudgetExceeded):
        yield "data without any budget left is charged"


def _versions(one: Ledger, account: str) -> Iterator[str]:
    """What belongs to old data neither pays for new data nor answers for it."""
    charge = _charge(account, "key", Fraction(1, 10))
    if one.replay(account, charge.request_digest, analyst=ANALYST) is None:
        yield "an answer that was paid for is not given again"
    one.new_snapshot(account, "refreshed", by="audit")
    if one.replay(account, charge.request_digest, analyst=ANALYST) is not None:
        yield "an answer from before the data was refreshed is given for the new data"
    if not _refused(lambda: one.charge(_charge(account, "old", Fraction(0))), StaleVersion):
        yield "a quote for old data is charged for the new data"
    spent = one.account(account).spent
    if spent != LIMIT:
        yield f"data that was refreshed has {LIMIT - spent} of its budget back"


def _carried(one: Ledger) -> Iterator[str]:
    """A new policy multiplies what everybody lost; where nothing bounds that, or it is too much, it is refused."""
    for accounting in (SUM, PER_EDGE):
        terms = replace(TERMS, identity=f"audit://{accounting}", accounting=accounting)
        seen = one.register(terms, name=accounting, by="audit")
        one.charge(replace(_charge(seen.id, "first", Fraction(1, 3)), losses={"moves x": Fraction(1, 3)}))
        change = one.new_version(one.account(seen.id), "policy", '{"new": 1}', Fraction(3), by="audit", reason="audit")
        after, own = one.account(seen.id), one.budget_of(seen.id, ANALYST)
        if change.spent_after != 1 or after.spent != 1 or own.spent != 1:
            yield f"past loss is not carried over to a new policy where it is counted {accounting!r}"
        for said, stretch in (("whose values were not hidden", None), ("that costs more than there is", Fraction(4))):
            renewed = partial(one.new_version, after, "policy", '{"new": 2}', stretch, by="audit", reason="audit")
            if not _refused(renewed, ChangeRefused):
                yield f"a policy {said} is let into force"
        version = one.account(seen.id).policy_version
        late = replace(_charge(seen.id, "late", LIMIT - 1 + Fraction(1, 10**12)), policy_version=version)
        if not _refused(partial(one.charge, late), BudgetExceeded):
            yield f"after a new policy more is charged than is left, where it is counted {accounting!r}"


def _classes(one: Ledger) -> Iterator[str]:
    """More classes of edges than are kept apart: what is not kept apart counts for all of them."""
    terms = replace(TERMS, identity="audit://classes", accounting=PER_EDGE)
    account = one.register(terms, name="classes", by="audit").id
    for turn, group in enumerate(("first", "second", "second")):
        losses = {f"{group} {number}": Fraction(1, 2) for number in range(MOST_CLASSES - 1)}
        one.charge(replace(_charge(account, f"class {turn}", Fraction(1, 2)), losses=losses))
    if one.account(account).spent < 1:
        yield "classes of edges beyond those that are kept apart lose nothing"


def _rolled_back(folder: Path) -> Iterator[str]:
    """A copy of the ledger from before a charge gives back what was spent; whoever opens it must hear so."""
    path, mark, copy = folder / "old.ledger", folder / "old.mark", folder / "copy.ledger"
    with open_ledger(path, mark=mark) as ledger:
        account = ledger.register(TERMS, name="old", by="audit").id
    shutil.copyfile(path, copy)
    with open_ledger(path, mark=mark) as ledger:
        ledger.charge(_charge(account, "key", Fraction(1)))
    for beside in folder.glob("old.ledger*"):
        beside.unlink()
    shutil.copyfile(copy, path)

    def again() -> None:
        with open_ledger(path, mark=mark) as ledger:
            ledger.charge(_charge(account, "other", Fraction(1)))

    if not _refused(again, LedgerRolledBack):
        yield "an old copy of the ledger is taken for the ledger"
