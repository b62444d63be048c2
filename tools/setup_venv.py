"""Make .venv with the pinned dependencies and an editable install; uses the standard library alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def succeeds(command: Sequence[str]) -> bool:
    """Whether the command ends well; what it prints is dropped."""
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def run_quietly(command: Sequence[str], log: Path) -> bool:
    """Run a command with its output kept in a log, and show the log only if it fails."""
    with log.open("wb") as output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT).returncode
    if code != 0:
        print(log.read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
        print(f"failed: {' '.join(command)}", file=sys.stderr)
    return code == 0


def make_environment(folder: Path) -> bool:
    """Create the virtual environment unless it works already; whether it works now."""
    python = folder / "bin" / "python"
    if python.exists() and succeeds([str(python), "-c", "import pip"]):
        return True
    create = [sys.executable, "-m", "venv", "--clear", str(folder)]
    if succeeds(create):
        return True
    # Debian and Ubuntu keep the pip that venv needs in a package of its own.
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"installing {package}")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], env=environment)
        subprocess.run(["apt-get", "install", "-y", "-qq", package], env=environment)
        if succeeds(create):
            return True
    print(f"{sys.executable} cannot make {folder}; on Debian and Ubuntu install {package}", file=sys.stderr)
    return False


def install(folder: Path) -> bool:
    """Install the pinned dependencies and the project itself; whether that worked."""
    print(f"installing the pinned dependencies into {folder} (a minute or so the first time)", flush=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-c", "constraints.txt"]
    log = folder / "setup.log"
    # The build backend is pinned like everything else, so the build must not fetch one of its own.
    # setuptools is for PySpark, which is published as sources only.
    backend = [*pip, "hatchling", "editables", "setuptools"]
    project = [*pip, "--no-build-isolation", "-e", ".[test,docs]"]
    return run_quietly(backend, log) and run_quietly(project, log)


def main(folder: Path) -> int:
    """Set everything up in `folder`; 0 when it worked."""
    return 0 if make_environment(folder) and install(folder) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
