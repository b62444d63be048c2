"""Make .venv with the pinned dependencies and an editable install; uses the standard library alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAY_EVERY = 10
PROCESSES = 4


def succeeds(command: Sequence[str]) -> bool:
    """Whether the command ends well; what it prints is dropped."""
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT).returncode == 0


def progress(log: str) -> str:
    """How far pip has come, read from its log: it names packages as it finds them, then installs them all at once."""
    lines = [line.strip() for line in log.splitlines()]
    last = [line for line in lines if line.startswith("Installing collected packages: ")][-1:]
    if last:
        return f"packages to install: {last[0].count(',') + 1}"
    return f"packages found: {sum(line.startswith('Collecting ') for line in lines)}"


def run_quietly(command: Sequence[str], log: Path) -> bool:
    """Run a command with its output kept in a log; say now and then how far it is, and show the log if it fails."""
    started = time.monotonic()
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT) as running,
    ):
        while (code := running.poll()) is None:
            try:
                running.wait(SAY_EVERY)
            except subprocess.TimeoutExpired:
                so_far = progress(log.read_text(encoding="utf-8", errors="replace"))
                print(f"  {so_far}, {time.monotonic() - started:.0f} s", flush=True)
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
        # The system parts may be fetched at the same time, and apt-get gives up where another one runs.
        for command in (["update", "-qq"], ["install", "-y", "-qq", package]):
            subprocess.run(["flock", "/var/lib/apt/lists", "apt-get", *command], env=environment)
        if succeeds(create):
            return True
    print(f"{sys.executable} cannot make {folder}; on Debian and Ubuntu install {package}", file=sys.stderr)
    return False


def install(folder: Path) -> bool:
    """Install the pinned dependencies and the project itself; whether that worked."""
    print(
        f"installing the pinned dependencies into {folder} (a minute or two the first time, more on a slow machine)",
        flush=True,
    )
    # Python compiles what is used when it is used; compiling all of it here would take a minute more.
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--no-compile", "-c", "constraints.txt"]
    log = folder / "setup.log"
    # The build backend is pinned like everything else, so the build must not fetch one of its own.
    # setuptools is for PySpark, which is published as sources only.
    backend = [*pip, "hatchling", "editables", "setuptools"]
    project = [*pip, "--no-build-isolation", "-e", ".[test,docs]"]
    if not run_quietly(backend, log):
        return False
    # An index answers each question after a while, so several processes ask; what they miss comes with the project.
    pins = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if "==" in line]
    parts = [[*pip, "--no-deps", "--no-build-isolation", *pins[part::PROCESSES]] for part in range(PROCESSES)]
    with ThreadPoolExecutor() as pool:
        for part in parts[1:]:
            pool.submit(succeeds, part)
        run_quietly(parts[0], log)
    return run_quietly(project, log)


def main(folder: Path) -> int:
    """Set everything up in `folder`; 0 when it worked."""
    return 0 if make_environment(folder) and install(folder) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
