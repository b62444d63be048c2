"""The planted faults still fit the code, and the command that plants them tells found from missed."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from blowfishdb.audit.report import CheckLine, judged
from blowfishdb.audit.run import AuditPlan, audit_tasks
from blowfishdb.cli.audit import VIOLATION, find_self_check
from tools.planted import __main__ as planted
from tools.planted import first_violation
from tools.planted.__main__ import BROKEN, FOUND, MISSED, WorkingCopy
from tools.planted.table import Fault, StaleFault, faults

ROOT = Path(__file__).resolve().parents[2]
ALL = list(faults())
KINDS = {
    *("certificate", "noise", "charging", "sharing", "selection", "policy change", "risk", "raw counts", "caches"),
    *("history", "policy family", "persons", "plan by data", "message", "verification", "intervals"),
}


@pytest.mark.parametrize("fault", ALL, ids=[fault.name for fault in ALL])
def test_each_fault_fits_its_file_once_and_leaves_python(fault: Fault) -> None:
    sound = (ROOT / fault.path).read_text(encoding="utf-8")
    assert ast.dump(ast.parse(fault.planted(sound))) != ast.dump(ast.parse(sound))
    assert fault.tests
    assert all((ROOT / place).exists() for place in fault.tests)


def test_there_are_faults_of_all_kinds_and_each_has_a_name_of_its_own() -> None:
    assert len(ALL) >= 70
    assert Counter(fault.kind for fault in ALL).keys() == KINDS
    assert max(Counter(fault.name for fault in ALL).values()) == 1


def test_a_fault_that_no_longer_fits_is_an_error() -> None:
    fault = Fault("noise", "half", "a.py", "noise", "noise // 2", ("tests",))
    assert fault.planted("rows + noise") == "rows + noise // 2"
    for text in ("rows", "noise + noise"):
        with pytest.raises(StaleFault, match="half"):
            fault.planted(text)
    with pytest.raises(StaleFault):
        replace(fault, new="noise").planted("rows + noise")


def test_the_command_tells_found_from_missed_and_takes_the_fault_out_again(tmp_path: Path) -> None:
    file = tmp_path / "src" / "blowfishdb" / "half.py"
    file.parent.mkdir(parents=True)
    file.write_text("NOISE = 4\n")
    (file.parent / "__init__.py").touch()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_sees.py").write_text(
        "from blowfishdb.half import NOISE\n\ndef test_it():\n    assert NOISE == 4\n"
    )
    (tmp_path / "test_blind.py").write_text("def test_it():\n    assert True\n")
    (tmp_path / "test_empty.py").write_text("")
    copy = WorkingCopy(tmp_path, 1, 120.0)
    with copy.holding(Fault("noise", "half", "half.py", "4", "2", ("tests",))):
        assert [copy.tests([f"test_{name}.py"]) for name in ("sees", "blind", "empty")] == [FOUND, MISSED, BROKEN]
    assert file.read_text() == "NOISE = 4\n"
    assert replace(copy, limit=0.01).tests(["test_sees.py"]) == "time"


def test_an_audit_of_a_fault_ends_at_its_first_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []

    def run_tasks(plan: object, order: Iterable[int], *_: object) -> Iterator[tuple[int, list[CheckLine]]]:
        for number in order:
            done.append(number)
            yield number, [judged("a plan", "charge", ["too little"] * (number == 20))]

    monkeypatch.setattr(first_violation, "run_tasks", run_tasks)
    assert first_violation.main(0) == VIOLATION
    assert done[-1] == 20
    assert 1 < len(done) < len(audit_tasks(AuditPlan(quick=True), find_self_check())) / 3
    monkeypatch.setattr(first_violation, "run_tasks", lambda *_: [(0, [judged("a plan", "charge", [])])])
    assert first_violation.main(0) == 0


def test_faults_are_chosen_by_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert planted.main(["--list", "history"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == sum(fault.kind == "history" for fault in ALL)
    with pytest.raises(SystemExit):
        planted.main(["--list", "no fault has this word"])
