"""The high-water mark outside the ledger, which remembers how far it had got; signed checkpoints; and locks."""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from blowfishdb.errors import CatalogError, LedgerRolledBack, LedgerUnavailable, plural
from blowfishdb.ledger.records import EntryField, canonical, digest
from blowfishdb.ledger.values import Era, Head, Seen, Spending, seen_at, spending_text

PATIENCE = 30.0
"""Seconds that a write waits for its turn before it gives up."""
_locks: set[int] = set()
"""Descriptors that hold a lock or wait for one."""


def acquire(path: Path, seconds: float) -> int:
    """The descriptor of a file, made where it does not exist, that holds its exclusive lock until it is closed.

    LedgerUnavailable after the deadline.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as problem:
        raise LedgerUnavailable(f"cannot open the lock {path.name}: {problem.strerror}") from None
    _locks.add(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    except BlockingIOError:
        return _Waiting(descriptor).outcome(seconds)


def release(descriptor: int) -> None:
    """Gives a lock back, also where a forked child has its descriptor too, and closes it."""
    _locks.discard(descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _close_inherited() -> None:
    """Closes locks of the parent in a child, which would keep them when the parent dies."""
    while _locks:
        os.close(_locks.pop())


os.register_at_fork(after_in_child=_close_inherited)


@contextmanager
def in_turn(path: Path, seconds: float) -> Iterator[None]:
    """Holds the lock at `path`. Who waits for it holds a second lock, so the last holder cannot cut in again."""
    until = time.monotonic() + seconds
    turn = acquire(path.with_name(path.name + "-turn"), seconds)
    try:
        held = acquire(path.with_name(path.name + "-lock"), max(0.0, until - time.monotonic()))
    finally:
        release(turn)
    try:
        yield
    finally:
        release(held)


class _Waiting:
    """Blocks in a thread of its own, because the system call knows no deadline."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._decision = threading.Lock()
        self._done = threading.Event()
        self._abandoned = False
        threading.Thread(target=self._wait, daemon=True).start()

    def outcome(self, seconds: float) -> int:
        """The descriptor once it holds the lock; LedgerUnavailable when that takes too long."""
        self._done.wait(seconds)
        with self._decision:
            if self._done.is_set():
                return self._descriptor
            self._abandoned = True
        raise LedgerUnavailable("the ledger was busy for too long. Nothing was charged; try again with the same key.")

    def _wait(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._decision:
            if self._abandoned:
                release(self._descriptor)
            else:
                self._done.set()


_sync_content = getattr(os, "fdatasync", os.fsync)
"""The file keeps its size, so its times need not be durable where the system can tell them apart."""
KEY_BYTES = 32
SLOT = 512
"""The file has two slots of this size. The older one is overwritten, so a torn write spoils only what is new."""
AREA = 4 * 2**20
"""Behind the slots lies, for each of them, what the accounts had spent; so much room is there at most."""


SHARED = "Servers that share a ledger share its mark: give each the same `mark` in its configuration."


class HighWaterMark(ABC):
    """The one mark of a ledger; all who write to the ledger advance it, and it never goes back by itself."""

    checkpoint_path: Path
    """A file on this machine: how far the ledger was checked, and what its entries added up to there."""

    def keyed(self, content: str) -> str:
        """A mark of content that tells nobody without the key on this machine what the content is; "" without a key.

        The key lies outside the ledger: with a plain digest, whoever reads the ledger could test guesses of the data.
        """
        path = self.checkpoint_path.with_name(f"{self.checkpoint_path.name}-key")
        try:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                key = os.pread(descriptor, KEY_BYTES, 0)
                if len(key) < KEY_BYTES:
                    key = os.urandom(KEY_BYTES)
                    os.pwrite(descriptor, key, 0)
                    _sync_content(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            return ""
        return hmac.new(key, content.encode(), "sha256").hexdigest()

    @abstractmethod
    def read(self) -> Head | None:
        """The furthest head on record; None when there is no mark yet."""

    @abstractmethod
    def seen(self) -> Seen | None:
        """The furthest head and what was spent by then; without spending where an older version moved the mark."""

    @abstractmethod
    def identity(self) -> str | None:
        """The random name that the ledger knows its mark by; None when there is no mark yet."""

    @abstractmethod
    def advance(self, head: Head, newest: Callable[[], Seen] | None = None) -> None:
        """Makes sure, durably, that the mark is at least here; refuses a head that contradicts it.

        `newest` reads the ledger's head and what is spent. That head is marked, for all who wait behind: they need no
        write. What is spent only grows, so every charge up to the mark is counted in what the mark remembers.
        """

    @abstractmethod
    def replace(
        self, head: Head, identity: str | None = None, spending: Spending | None = None, eras: tuple[Era, ...] = ()
    ) -> None:
        """Sets the mark to this head whatever it was: the curator accepted a restored ledger."""

    def close(self) -> None:  # noqa: B027  # a file has nothing to let go of
        """Lets go of connections."""


DRILL = "drill-"
"""Begins the names of marks that guard a copy from which nothing is released."""


def new_identity(*, is_drill: bool = False) -> str:
    """A name for a new mark."""
    return f"{DRILL if is_drill else ''}{os.urandom(16).hex()}"


@dataclass(frozen=True)
class FileMark(HighWaterMark):
    """The mark at `path`, on this machine or on a disk that several of them share."""

    path: Path

    @property
    def checkpoint_path(self) -> Path:  # type: ignore[override]
        """Beside the mark."""
        return self.path.with_name(f"{self.path.name}-checkpoint")

    def read(self) -> Head | None:
        """The furthest head on record; None when there is no mark yet."""
        return _furthest(self._content())

    def seen(self) -> Seen | None:
        """The furthest head and what was spent by then; without spending where an older version moved the mark."""
        content = self._content(None)
        head = _furthest(content[: 2 * SLOT])
        if head is None:
            return None
        place = _place(0 if _slot(content[:SLOT]) == head else 1)
        return seen_at(head, content[place : place + AREA].partition(b"\n")[0].decode("ascii", "replace"))

    def identity(self) -> str | None:
        """The name in the file, given to a mark of an older version here."""
        content = self._content()
        if not content or _identity(content) is not None:
            return _identity(content)
        with self._held() as held:
            content = os.pread(held, 2 * SLOT, 0)
            known, identity = _furthest(content), _identity(content) or new_identity()
            if known is not None:
                _write(held, Seen(known, None), _older_slot(content, known), identity)
            return identity

    def advance(self, head: Head, newest: Callable[[], Seen] | None = None) -> None:
        """Makes sure, durably, that the mark is at least here; refuses a head that contradicts it."""
        with self._held() as held:
            content = os.pread(held, 2 * SLOT, 0)
            known = _furthest(content)
            if known is not None and is_known(known, head):
                return
            seen = newest_of(head, newest)
            identity = _identity(content) or new_identity()
            is_taken_over = known is not None and known.ledger != head.ledger
            for slot in (0, 1) if is_taken_over else (_older_slot(content, known),):
                _write(held, seen, slot, identity)

    def replace(
        self, head: Head, identity: str | None = None, spending: Spending | None = None, eras: tuple[Era, ...] = ()
    ) -> None:
        """Sets the mark to this head whatever it was: the curator accepted a restored ledger."""
        with self._held() as held:
            name = identity or _identity(os.pread(held, 2 * SLOT, 0)) or new_identity()
            for slot in (0, 1):
                _write(held, Seen(head, spending, eras), slot, name)

    def _content(self, size: int | None = 2 * SLOT) -> bytes:
        try:
            with self.path.open("rb", buffering=0) as file:
                return file.read(-1 if size is None else size)
        except FileNotFoundError:
            return b""
        except OSError as problem:
            raise LedgerUnavailable(f"cannot read the high-water mark: {problem.strerror}") from None

    @contextmanager
    def _held(self) -> Iterator[int]:
        is_new = not self.path.exists()
        try:
            if is_new:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            held = acquire(self.path, PATIENCE)
            try:
                yield held
            finally:
                release(held)
            if is_new:
                _sync_folder(self.path.parent)
        except OSError as problem:
            raise LedgerUnavailable(f"cannot write the high-water mark: {problem.strerror}") from None


BEGUN_ANEW = (
    "If its data may still be asked, put the old ledger back: it alone knows what was spent. If that data is gone for "
    "good, or all of this was a trial, accept the new one with accept_restored_ledger: it starts from zero, and its "
    "first entry says who decided so and why."
)
"""What to do where somebody starts again in the place of a ledger that is gone."""


def check_not_rolled_back(mark: Head | None, head: Head, hash_of: Callable[[int], str | None]) -> None:
    """Refuses a ledger that ends before its mark, went another way, or has entries but lost its mark.

    Every entry is known to the mark before anybody hears of it, so nothing can be lost behind a mark of no entry.
    """
    if head.sequence == 0 and (mark is None or mark.sequence == 0):
        return
    if mark is None:
        reason = f"this ledger has entries but no high-water mark here, so its age cannot be told. {SHARED}"
    elif head.ledger != mark.ledger and head.sequence == 0:
        entries = plural(mark.sequence, "entry", "entries")
        reason = f"a new, empty ledger stands where one with {entries} was, which was deleted or moved."
        raise LedgerRolledBack(reason, found=0, expected=mark.sequence, remedy=BEGUN_ANEW)
    elif head.ledger != mark.ledger:
        reason = "the high-water mark belongs to another ledger: this one was created anew or exchanged."
    elif head.sequence < mark.sequence:
        reason = f"this ledger ends at entry {head.sequence}, but entry {mark.sequence} had been written."
    elif mark.sequence > 0 and hash_of(mark.sequence) != mark.hash:
        reason = f"entry {mark.sequence} of this ledger is not the one that had been written."
    else:
        return
    raise LedgerRolledBack(reason, found=head.sequence, expected=0 if mark is None else mark.sequence)


def check_guard(guard: str | None, identity: str | None, head: Head) -> None:
    """Refuses a ledger that another mark guards: what is written there, this mark would never hear of."""
    if guard is not None and guard != identity:
        reason = f"another high-water mark guards this ledger, so this one cannot tell how old it is. {SHARED}"
        raise LedgerRolledBack(reason, found=head.sequence, expected=head.sequence)


def newest_of(head: Head, newest: Callable[[], Seen] | None) -> Seen:
    """What the mark is to remember once it is moved at least to this head."""
    seen = Seen(head, None) if newest is None else newest()
    check_same_history(head, seen.head)
    return seen if seen.head.sequence >= head.sequence else Seen(head, None)


def is_known(known: Head, head: Head) -> bool:
    """Whether the mark is at this head or beyond it; LedgerRolledBack where they contradict each other."""
    check_same_history(known, head)
    return head.ledger == known.ledger and head.sequence <= known.sequence


def check_same_history(known: Head, head: Head) -> None:
    """Refuses a head that contradicts the known one; one without entries contradicts none."""
    if known.sequence == 0:
        return
    if head.ledger != known.ledger or (head.sequence == known.sequence and head.hash != known.hash):
        reason = "the ledger and its high-water mark tell different histories."
        raise LedgerRolledBack(reason, found=head.sequence, expected=known.sequence)


def _furthest(content: bytes) -> Head | None:
    if not content:
        return None
    heads = list(filter(None, (_slot(content[:SLOT]), _slot(content[SLOT : 2 * SLOT]))))
    if not heads:
        raise LedgerRolledBack("the high-water mark cannot be read.", found=0, expected=0)
    return max(heads, key=lambda head: head.sequence)


def _identity(content: bytes) -> str | None:
    """The mark's name; None in a file of an older version, or in none."""
    names = (_fields(content[:SLOT]).get("mark"), _fields(content[SLOT : 2 * SLOT]).get("mark"))
    return next((str(name) for name in names if name is not None), None)


def _older_slot(content: bytes, known: Head | None) -> int:
    return 1 if known is not None and _slot(content[:SLOT]) == known else 0


def _slot(content: bytes) -> Head | None:
    fields = _fields(content)
    return Head(str(fields["ledger"]), int(fields["sequence"]), str(fields["hash"])) if fields else None


@lru_cache(maxsize=16)
def _fields(content: bytes) -> Mapping[str, Any]:
    """What a slot says; nothing where it was torn. The same bytes are looked at several times for every entry."""
    try:
        fields = json.loads(content)
        head = Head(str(fields["ledger"]), int(fields["sequence"]), str(fields["hash"]))
        return dict(fields) if fields["check"] == _check(head, fields.get("mark")) else {}
    except (ValueError, KeyError, TypeError):
        return {}


def _check(head: Head, identity: str | None) -> str:
    name = "" if identity is None else f":{identity}"
    return digest(f"{head.ledger}:{head.sequence}:{head.hash}{name}")


def _place(slot: int) -> int:
    """Where the spending of a slot begins."""
    return 2 * SLOT + slot * AREA


def _write(descriptor: int, seen: Seen, slot: int, identity: str) -> None:
    head, check = seen.head, _check(seen.head, identity)
    spending = spending_text(seen).encode() + b"\n"
    if len(spending) > AREA or os.pwrite(descriptor, spending, _place(slot)) != len(spending):
        raise LedgerUnavailable("the high-water mark cannot hold what all accounts spent: is the disk full?")
    fields = {"ledger": head.ledger, "sequence": head.sequence, "hash": head.hash, "mark": identity, "check": check}
    line = json.dumps(fields).encode().ljust(SLOT - 1) + b"\n"
    if os.pwrite(descriptor, line, slot * SLOT) != SLOT:
        raise LedgerUnavailable("cannot write the whole high-water mark: is the disk full?")
    _sync_content(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


PURPOSE = b"blowfishdb checkpoint 1\n"
"""Goes before what is signed, so that the signature serves for nothing else."""
WHAT = "an Ed25519 key, made by `blowfish ledger checkpoint`"


def sign_checkpoint(
    head: Head, at: str, key: Path, spending: Spending | None = None, eras: tuple[Era, ...] = ()
) -> tuple[str, str]:
    """A checkpoint of this head as JSON, and the public key that proves it; a missing secret key is made."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if not key.exists():
        _write_new_key(key)
    try:
        secret = load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError):
        raise CatalogError(f"the key {key.name} cannot be read as {WHAT}") from None
    if not isinstance(secret, Ed25519PrivateKey):
        raise CatalogError(f"the key {key.name} is not {WHAT}")
    fields: dict[str, EntryField] = {**vars(head), "at": at}
    if spending is not None:
        fields["spending"] = spending_text(Seen(head, spending, eras))
    signature = secret.sign(PURPOSE + canonical(fields).encode()).hex()
    text = json.dumps({**fields, "signature": signature}, indent=2) + "\n"
    return text, secret.public_key().public_bytes_raw().hex()


def read_checkpoint_file(path: Path, public_key: str) -> Seen:
    """The head and the spending that a checkpoint file tells of; CatalogError unless the key signed it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        fields = json.loads(path.read_text(encoding="ascii"))
        signature = bytes.fromhex(fields.pop("signature"))
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(signature, PURPOSE + canonical(fields).encode())
        head = Head(str(fields["ledger"]), int(fields["sequence"]), str(fields["hash"]))
        return seen_at(head, str(fields.get("spending", "")))
    except OSError:
        raise CatalogError(
            f"the checkpoint {path.name} cannot be read. Bring it back from where it is kept, or write a new one with "
            "blowfish ledger checkpoint once the ledger was checked."
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, InvalidSignature):
        raise CatalogError(
            f"the checkpoint {path.name} is not signed by checkpoint_key: it was changed, or made with another key"
        ) from None


def _write_new_key(path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    content = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as problem:
        raise CatalogError(f"the key {path.name} cannot be written: {problem.strerror}") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
