"""Disks that fill up during releases: a limit on file sizes, and a small file system that somebody else fills."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tools.database_servers import postgres_server
from tools.faults.lab import POSTGRES, SETTINGS, SQLITE, Lab, Outcome, transient_refusals

ROOM = 25_000
"""Bytes that the largest file of a client's process may grow by."""
UNLIMITED_SHARE = 0.3
"""So many client processes find a disk with room, so that the run comes to an end."""
SMALL, SMALL_SERVER = "12m", "160m"
BLOCK = 4096


def _size(path: Path) -> int:
    """The bytes of a file; those beside the ledger go when the last client leaves."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def small_files(number: int) -> None:
    """Lets no file of this process grow far beyond what a ledger beside it has now, as a full disk would not."""
    del number
    chance = random.Random(os.getpid())
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if chance.random() > UNLIMITED_SHARE:
        folder = Path(os.environ["FAULTS_FOLDER"])
        largest = max(map(_size, folder.rglob("blowfish.ledger*")))
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + chance.randrange(ROOM), resource.RLIM_INFINITY))


def file_size_limit(lab: Lab) -> Iterator[Outcome]:
    """Files of the ledger and its mark cannot grow in some processes and can in others."""
    place = lab.place(SQLITE)
    environment = {"FAULTS_FOLDER": str(place.folder)}
    plan = replace(lab.plan(place), install=["tools.faults.disks:small_files"], environment=environment)
    done = lab.worker_pool.run(plan)
    yield lab.verdict("file size limit", place, transient_refusals(place), done["unsettled"])


def full_disk(lab: Lab) -> Iterator[Outcome]:
    """A small file system is full for moments, for the ledger, its mark and the server's own files."""
    if not can_mount():
        print("not run: a full disk, because mounting a small one needs root", file=sys.stderr)
        return
    with _small_disk(lab.folder / "small", SMALL) as disk:
        place = lab.place(SQLITE, under=disk)
        yield lab.struck("full disk", place, lambda: _filled(disk, lab, lambda: None), (0.05, 0.5))
    # The server runs as a user of its own, who cannot look into the lab's folder.
    with (
        tempfile.TemporaryDirectory() as open_folder,
        _small_disk(Path(open_folder), SMALL_SERVER) as disk,
        postgres_server(SETTINGS, str(disk), ["--wal-segsize=1"]) as server,
    ):
        place = lab.place(POSTGRES, url=server.url)

        def revive() -> None:
            if server.process is None or server.process.poll() is not None:
                server.start()

        yield lab.struck("full disk", place, lambda: _filled(disk, lab, revive), (0.05, 1.0))


def can_mount() -> bool:
    """Whether this process may mount a file system."""
    return os.geteuid() == 0 and shutil.which("mount") is not None


def _filled(disk: Path, lab: Lab, after: Callable[[], None]) -> int:
    """Fills the disk to the last block for a moment."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(BLOCK))
        except OSError:
            pass
    time.sleep(lab.chance.uniform(0.1, 0.6))
    ballast.unlink()
    after()
    return 1


@contextmanager
def _small_disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
