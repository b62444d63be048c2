"""Locks between processes that wait in turn, give up at a deadline, and vanish with the process that held them."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from blowfishdb.errors import LedgerUnavailable


@dataclass(frozen=True)
class Held:
    """The exclusive lock of a file; closing the descriptor lets go. `was_busy` when it had to be waited for."""

    descriptor: int
    was_busy: bool


def acquire(path: Path, seconds: float) -> Held:
    """The exclusive lock of the file, made where it does not exist; LedgerUnavailable after the deadline."""
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return Held(descriptor, was_busy=False)
    except BlockingIOError:
        return Held(_Waiting(descriptor).outcome(seconds), was_busy=True)


@contextmanager
def in_turn(path: Path, seconds: float) -> Iterator[None]:
    """Holds the lock at `path`. Who waits for it holds a second lock, so the last holder cannot cut in again."""
    until = time.monotonic() + seconds
    turn = acquire(path.with_name(path.name + "-turn"), seconds)
    try:
        held = acquire(path.with_name(path.name + "-lock"), max(0.0, until - time.monotonic()))
    finally:
        os.close(turn.descriptor)
    try:
        yield
    finally:
        os.close(held.descriptor)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as problem:
        raise LedgerUnavailable(f"cannot open the lock {path.name}: {problem.strerror}") from None


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
                os.close(self._descriptor)
            else:
                self._done.set()
