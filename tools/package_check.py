"""Builds the wheel and the sources, installs the wheel alone into a fresh environment, and tries what it brings.

`make package-check` runs it; it takes minutes and needs a package index, so it is not part of the tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WITHOUT_EXTRAS = {
    ("serve",): "blowfishdb[server]",
    ("user", "list"): "blowfishdb[server]",
    ("dataset", "add", "x", "--source", "postgresql://localhost/x#x", "--domain", "a=0..9"): "blowfishdb[postgres]",
    ("dataset", "add", "x", "--source", "mysql://localhost/x#x", "--domain", "a=0..9"): "blowfishdb[mysql]",
    ("dataset", "add", "x", "--source", "spark://local#x", "--domain", "a=0..9"): "blowfishdb[spark]",
    ("dataset", "add", "x", "--source", "sc://local#x", "--domain", "a=0..9"): "blowfishdb[spark-connect]",
    ("reproduce", "--list"): "clone",
}
"""Commands that need an extra or the source tree, and what they must name when it is missing."""


class Broken(RuntimeError):
    """Something that did not work; carries what was printed."""


def build(target: Path) -> tuple[Path, Path]:
    """The wheel and the source archive, built with the pinned backend."""
    _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(ROOT)])
    (wheel,), (sources,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel, sources


def try_fresh(archive: Path, folder: Path) -> None:
    """Installs an archive without extras into a new environment and uses it as a stranger would."""
    python = folder / "venv" / "bin" / "python"
    _run([sys.executable, "-m", "venv", str(folder / "venv")])
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    _run([str(python), "-m", "pip", "install", "--quiet", *constraints, "hatchling"])
    _run([str(python), "-m", "pip", "install", "--quiet", "--no-build-isolation", *constraints, str(archive)])
    blowfish = str(python.parent / "blowfish")
    print(_run([blowfish, "--version"]).strip())
    _run([str(python), "-m", "blowfishdb", "--help"])
    _run([blowfish, "demo", "--tour", "--folder", str(folder / "tour")])
    for words, extra in WITHOUT_EXTRAS.items():
        said = _run([blowfish, *words], folder=folder, code=3)
        if extra not in said:
            raise Broken(f"blowfish {' '.join(words)} does not name {extra}: {said}")


def main() -> int:
    """Both archives; 0 when everything works."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for archive in build(place / "dist"):
            print(f"{archive.name}: {archive.stat().st_size / 1e6:.1f} MB", flush=True)
            fresh = place / archive.suffix.strip(".")
            fresh.mkdir()
            try_fresh(archive, fresh)
            shutil.rmtree(fresh)
            print(f"{archive.name}: installs and works without extras", flush=True)
    return 0


def _run(command: Sequence[str], *, folder: Path | None = None, code: int = 0) -> str:
    state = {**os.environ, "XDG_STATE_HOME": tempfile.mkdtemp(), "PYTHONPATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder or "/", env=state, check=False)
    if done.returncode != code:
        raise Broken(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
