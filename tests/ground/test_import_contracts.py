"""The import contracts hold for the project and break for each import they forbid."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def lint_copy(folder: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for part in ("src", "papers", "selfcheck"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name, body in files.items():
        (folder / "src" / "blowfishdb" / name).write_text(body)
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "200"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_project_keeps_its_contracts(tmp_path: Path) -> None:
    done = lint_copy(tmp_path, {"engine/extra.py": "import blowfishdb.noise.sampler\n"})
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "body", "contract"),
    [
        ("model/extra.py", "import blowfishdb.plan.plan\n", "imports run downward only"),
        ("plan/extra.py", "import blowfishdb.noise.distribution\n", "imports run downward only"),
        ("stray.py", "x = 1\n", "imports run downward only"),
        ("inference/extra.py", "import blowfishdb.noise.sampler\n", "only the engine draws noise"),
        ("analysis/extra.py", "def f():\n    import papers.data\n", "nothing needs the papers"),
        ("audit/extra.py", "import selfcheck.tasks\n", "nothing needs the papers"),
        ("noise/extra.py", "import blowfishdb.model\n", "noise stands on errors alone"),
        ("mechanisms/extra.py", "import random\n", "know no database"),
        ("accuracy/extra.py", "def f():\n    import duckdb\n", "know no database"),
    ],
)
@pytest.mark.sampled(3)
def test_a_forbidden_import_breaks_its_contract(tmp_path: Path, name: str, body: str, contract: str) -> None:
    done = lint_copy(tmp_path, {name: body})
    assert done.returncode == 1
    broken = [line for line in done.stdout.splitlines() if " BROKEN" in line]
    assert any(contract in line for line in broken), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "code", "is_banned"),
    [
        ("model/x.py", "import numpy as np\n\nnp.random.default_rng()\n", True),
        ("engine/x.py", "import random\n\nrandom.random()\n", True),
        ("accuracy/simulation.py", "import numpy as np\n\nnp.random.default_rng(1)\n", False),
    ],
)
def test_generators_are_banned_where_imports_cannot_tell(name: str, code: str, is_banned: bool) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--stdin-filename", f"src/blowfishdb/{name}", "-"]
    done = subprocess.run(command, cwd=ROOT, input=code, capture_output=True, text=True)
    assert ("TID251" in done.stdout) == is_banned, done.stdout + done.stderr
