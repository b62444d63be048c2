"""Make .venv with the pinned dependencies and an editable install; says in one line what is wrong otherwise.

Runs before anything is installed, so it uses the standard library alone and parses on any Python 3.
"""

import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)
NEWEST = (3, 14)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def python_problem(version):  # type: (tuple[int, int]) -> str
    """The sentence to show when this Python cannot run BlowfishDB, or an empty string."""
    if OLDEST <= version <= NEWEST:
        return ""
    return (
        "BlowfishDB needs Python {}.{} to {}.{}, this is {}.{}. "
        "Name another one, for example: make setup PYTHON=python3.12"
    ).format(*(OLDEST + NEWEST + version))


def run_quietly(command, log_path):  # type: (list[str], str) -> int
    """Run a command with its output kept in a log, and show the log only if it fails."""
    with open(log_path, "wb") as log:
        code = subprocess.call(command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT)
    if code != 0:
        with open(log_path, errors="replace") as log:
            sys.stderr.write(log.read())
        sys.stderr.write("failed: {}\n".format(" ".join(command)))
    return code


def make_environment(folder):  # type: (str) -> str
    """Create the virtual environment unless it works already; returns a problem or an empty string."""
    python = os.path.join(folder, "bin", "python")
    works = (
        os.path.exists(python)
        and subprocess.call([python, "-c", "import pip"], stderr=subprocess.DEVNULL) == 0
    )
    if works:
        return ""
    create = [sys.executable, "-m", "venv", "--clear", folder]
    if subprocess.call(create, stdout=subprocess.DEVNULL) == 0:
        return ""
    # Debian and Ubuntu keep the venv module's bundled pip in a package of its own.
    package = "python{}.{}-venv".format(*sys.version_info[:2])
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing " + package)
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        subprocess.call(["apt-get", "update", "-qq"], env=environment)
        subprocess.call(["apt-get", "install", "-y", "-qq", package], env=environment)
        if subprocess.call(create, stdout=subprocess.DEVNULL) == 0:
            return ""
    return f"cannot create {folder}: the venv module of {sys.executable} does not work (Debian: install {package})"


def main(folder):  # type: (str) -> int
    """Set everything up in `folder`; returns the exit code."""
    problem = python_problem(sys.version_info[:2]) or make_environment(folder)
    if problem:
        sys.stderr.write(problem + "\n")
        return 1
    print(f"installing the pinned dependencies into {folder} (a minute or so the first time)")
    python = os.path.join(folder, "bin", "python")
    log = os.path.join(folder, "setup.log")
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "-c", "constraints.txt"]
    # The build backend is pinned like everything else, so the build must not fetch one of its own.
    return run_quietly([*pip, "hatchling", "editables"], log) or run_quietly(
        [*pip, "--no-build-isolation", "-e", ".[test]"], log
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
