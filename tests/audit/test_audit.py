"""The audit as a whole: unfaulted code is clean, reports say so, and what it cannot run it does not pass."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import blowfishdb
from blowfishdb.audit.cases import battery
from blowfishdb.audit.noise import digit_violations
from blowfishdb.audit.replay import Effort, drills, replay, replay_account
from blowfishdb.audit.report import Audit, CheckLine, Section, as_html, as_markdown, judged, write_report
from blowfishdb.audit.run import AuditPlan, SelfCheck, _without_self_check, audit_tasks, run_audit
from blowfishdb.audit.statistical import EventComparison, lower, power, upper
from blowfishdb.cli import run
from blowfishdb.cli.audit import find_self_check
from blowfishdb.errors import InvalidInput

pytestmark = pytest.mark.audit
CASES = {case.name: case for case in battery(quick=True)}
SOME = [
    "optimized, threshold, ranges",
    "kronecker by structure, threshold x custom by attribute",
    "identity, joint l2",
    "filter with or and not, NULL hidden",
    "ordered, uneven bins",
    "hierarchy, 2 rows a person, presence secret",
    "identity, a range known",
    "a constraint that nothing hidden changes, 2 rows a person",
    "dawa-bounded, threshold",
    "synopsis by dawa",
    "weights on points, attribute",
]


@pytest.mark.parametrize("name", SOME)
@pytest.mark.sampled(2)
def test_unfaulted_code_is_clean(name: str) -> None:
    assert [line for line in replay(CASES[name], Effort.of(quick=True), 5) if line.verdict != "clean"] == []


def test_accounts_and_drills_are_clean() -> None:
    lines = [*replay_account(CASES["per-edge accounting"], 1), *drills(CASES["identity, threshold, histogram"], 1)]
    assert [line for line in lines if line.verdict != "clean"] == []


def test_digits_are_exact() -> None:
    assert list(digit_violations()) == []


@given(st.integers(0, 200), st.floats(1e-9, 0.2))
def test_bounds_hold_what_they_promise(seen: int, level: float) -> None:
    """At the bound itself, seeing so much (or so little) has probability `level`."""
    low, high = lower(seen, 200, level), upper(seen, 200, level)
    assert low <= seen / 200 <= high
    if seen:
        assert stats.binom.sf(seen - 1, 200, low) == pytest.approx(level, rel=1e-3)
    if seen < 200:
        assert stats.binom.cdf(seen, 200, high) == pytest.approx(level, rel=1e-3)


def test_power_grows_with_tries_and_a_fair_pair_is_not_flagged() -> None:
    assert power(0.6, 0.06, 50_000, 2.0, 1e-9) > power(0.6, 0.06, 500, 2.0, 1e-9) == 0.0
    assert EventComparison("fair", 500, 510, 1000).certain_loss(1e-9) == 0.0


def an_audit(sections: dict[Section, list[CheckLine]]) -> Audit:
    return Audit("a <test>", True, 1, "0", 1.0, sections, ("power | of one test",))


def test_reports_lead_with_the_verdict(tmp_path: Path) -> None:
    found = an_audit({"noise": [judged("x", "law", [], "fine")], "replay": [judged("a | b", "charge", ["<script>"])]})
    assert "1 violations, 1 checks clean" in as_markdown(found)
    assert "<script>" not in as_html(found)
    assert {path.suffix for path in write_report(found, tmp_path / "report")} == {".html", ".md", ".json"}
    assert json.loads((tmp_path / "report" / "audit.json").read_text())["clean"] is False
    assert not an_audit({}).is_clean


def test_code_that_cannot_be_audited_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*, quick: bool) -> list[CheckLine]:
        raise ZeroDivisionError

    monkeypatch.setattr("blowfishdb.audit.run.noise_lines", broken)
    assert not run_audit(AuditPlan(quick=True, sections=("noise",), seed=77)).is_clean


def test_a_bar_is_not_drawn_where_prints_are_listened_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def elsewhere(
        plan: AuditPlan, order: Iterable[int], processes: int, _: object
    ) -> Iterator[tuple[int, list[CheckLine]]]:
        asked.append(processes)
        return ((number, []) for number in order)

    monkeypatch.setattr("blowfishdb.audit.run.run_tasks", elsewhere)
    run_audit(AuditPlan(quick=True, sections=("exact",)), jobs=1, progress=lambda name, done, total: None)
    assert asked == [1]


def test_a_clone_adds_the_self_check_and_an_installed_package_says_that_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def names(self_check: SelfCheck | None) -> set[str]:
        return {name for section, name, _ in audit_tasks(AuditPlan(quick=True, sections=("exact",)), self_check)}

    self_check = find_self_check()
    assert self_check is not None
    assert names(self_check) > {"digests", "made-up points", "refusals"}
    monkeypatch.setattr(blowfishdb, "__file__", str(tmp_path / "lib" / "site-packages" / "blowfishdb" / "__init__.py"))
    assert find_self_check() is None
    assert "digests" not in names(None)
    (line,) = _without_self_check(AuditPlan())["exact"][0][1]()
    assert (line.verdict, line.found) == ("not tested", "run the audit from a clone")


def test_unknown_sections_are_refused() -> None:
    with pytest.raises(InvalidInput):
        AuditPlan(sections=("everything",))  # type: ignore[arg-type]


def test_the_command_ends_with_code_8_on_a_violation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    results = [an_audit({"noise": [judged("x", "law", wrong, "fine")]}) for wrong in ([], ["wrong"])]
    monkeypatch.setattr("blowfishdb.audit.run.run_audit", lambda *_, **__: results.pop(0))
    assert run(["audit", "--quick", "--report", str(tmp_path / "a.html")]) == 0
    printed = capsys.readouterr().out
    assert "No violation" in printed
    assert "need a clone" not in printed
    assert run(["audit", "--quick", "--json"]) == 8
    assert json.loads(capsys.readouterr().out)["clean"] is False


@pytest.mark.parametrize("wrong", [["--only", "luck"], ["--query", "SELECT 1"], ["--report", "a.pdf"]])
def test_the_command_refuses_what_it_does_not_know(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", *wrong]) == 3
    capsys.readouterr()


@pytest.mark.nightly
def test_a_declared_dataset_is_audited_without_its_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "blowfish.toml").write_text(
        '[datasets.visits]\nsource = "nowhere.parquet"\nepsilon = "2"\n'
        '[datasets.visits.domain.age]\nkind = "integers"\nlow = 0\nhigh = 9\nnull = 0\n'
        '[datasets.visits.policy.attributes.age]\nkind = "threshold"\ntheta = 2\n'
    )
    arguments = ["audit", "visits", "--only", "replay", "--quick", "--jobs", "1", "--json"]
    question = ["--query", "SELECT age, COUNT(*) FROM visits WHERE age >= 3 GROUP BY age"]
    assert run([*arguments, *question, "--config", str(tmp_path / "blowfish.toml")]) == 0
    lines = json.loads(capsys.readouterr().out)["lines"]
    assert {line["check"] for line in lines} >= {"movement", "charge", "counting", "the budget"}
    assert not (tmp_path / "blowfish.ledger").exists()
