"""Virtual environments of peers whose versions do not go together with ours, made under build/peers when asked for."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import FOLDER, progress

PLACE = FOLDER.parent / "build" / "peers"


@dataclass(frozen=True)
class Peer:
    """A contestant: its module, and what its environment has installed; nothing means that ours serves."""

    title: str
    module: str
    requires: tuple[str, ...] = ()
    note: str = ""

    @property
    def folder(self) -> Path:
        """Its environment."""
        return PLACE / self.module

    @property
    def python(self) -> Path:
        """The Python that runs it."""
        return self.folder / "bin" / "python" if self.requires else Path(sys.executable)

    def missing(self) -> str:
        """Why it cannot run; empty when it can."""
        reason = self.folder / "reason.txt"
        if reason.exists():
            return reason.read_text(encoding="utf-8")
        if not self.python.exists():
            return "not installed: run python -m benchmarks peers --install"
        return ""


def install(peers: list[Peer]) -> None:
    """Makes every environment that is not there yet; one that fails keeps the reason and stops no other."""
    wanted = [peer for peer in peers if peer.requires and (not peer.python.exists() or peer.missing())]
    with progress("installing", len(wanted)) as bar:
        for number, peer in enumerate(wanted, 1):
            _make(peer)
            bar(number)


def _make(peer: Peer) -> None:
    reason = peer.folder / "reason.txt"
    reason.unlink(missing_ok=True)
    steps = (
        [sys.executable, "-m", "venv", str(peer.folder)],
        [str(peer.python), "-m", "pip", "install", "--quiet", *peer.requires],
    )
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            peer.folder.mkdir(parents=True, exist_ok=True)
            lines = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()[-1:]
            reason.write_text(f"could not be installed: {' '.join(lines)[:300]}", encoding="utf-8")
            return
