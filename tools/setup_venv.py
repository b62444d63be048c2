"""Make .venv with the pinned dependencies and an editable install; uses the standard library alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAY_EVERY = 10
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}
"""What uv calls the settings of pip that say where packages come from."""


def succeeds(command: Sequence[str]) -> bool:
    """Whether the command ends well; what it prints is dropped."""
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT).returncode == 0


def uv_settings(pip_configuration: str) -> dict[str, str]:
    """Where packages come from, as `pip config list` says it, as variables that uv reads."""
    settings = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # all places are asked, as pip asks them
    # What the environment sets is listed first, and wins.
    for line in reversed(pip_configuration.splitlines()):
        name, _, value = line.partition("=")
        if variable := UV_NAMES.get(name.rpartition(".")[2]):
            separator = "," if variable == "UV_FIND_LINKS" else " "
            settings[variable] = separator.join(value.strip("'").split())
    return settings


def run_quietly(command: Sequence[str], log: Path, variables: Mapping[str, str] | None = None) -> bool:
    """Run a command with its output kept in a log; say now and then how far it is, and show the log if it fails."""
    started = time.monotonic()
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, env=variables) as running,
    ):
        while (code := running.poll()) is None:
            try:
                running.wait(SAY_EVERY)
            except subprocess.TimeoutExpired:
                lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
                last = next((line.strip() for line in reversed(lines) if line.strip()), "beginning")
                print(f"  {last[:80]}, {time.monotonic() - started:.0f} s", flush=True)
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
    python = str(folder / "bin" / "python")
    # Python compiles what is used when it is used; compiling all of it here would take a minute more.
    pip = [python, "-m", "pip", "install", "--no-compile", "-c", "constraints.txt"]
    log = folder / "setup.log"
    # The build backend is pinned like everything else, so the build must not fetch one of its own.
    # setuptools is for PySpark, which is published as sources only.
    if not run_quietly([*pip, "hatchling", "editables", "setuptools"], log):
        return False
    project = ["--no-build-isolation", "-e", ".[test,docs]"]
    # uv installs the same in a third of pip's time, with wheel for PySpark; where it cannot, pip does. Its wheel is
    # unpacked at once: to compress it first would double its time.
    if succeeds([*pip, "uv", "wheel"]):
        listed = subprocess.run([python, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
        stored = ["--config-settings-package", "pyspark:--build-option=--compression=stored"]
        uv = [str(folder / "bin" / "uv"), "pip", "install", "--python", python, "-c", "constraints.txt", *stored]
        if run_quietly([*uv, *project], log, {**uv_settings(listed), **os.environ}):
            return True
        print("installing with pip instead", flush=True)
    return run_quietly([*pip, *project], log)


def main(folder: Path) -> int:
    """Set everything up in `folder`; 0 when it worked."""
    return 0 if make_environment(folder) and install(folder) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
