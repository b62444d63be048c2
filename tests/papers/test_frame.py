"""Experiments are run once, go on where they stopped, and are run again when something they stand on changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from blowfishdb.errors import InvalidInput
from papers import running
from papers.experiment import Experiment, Result, Settings, Table, Verdict, how_it_holds
from papers.experiments import EXPERIMENTS, chosen
from papers.running import (
    PAGES,
    Checkpoints,
    Done,
    Failed,
    Measured,
    Run,
    finished_before,
    markdown,
    page,
    run_all,
    run_one,
    write_report,
)
from tests.papers.counting import BREAKS, EXPERIMENT, FAILS, OTHER, PLAIN, TRACES

TINY = Settings("tiny")


def quiet(name: str, done: int, total: int) -> None:
    assert 0 <= done <= total


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many cases were measured since it was last asked."""
    folder = tmp_path / "traces"
    folder.mkdir()
    monkeypatch.setenv(TRACES, str(folder))

    def count() -> int:
        found = list(folder.iterdir())
        for path in found:
            path.unlink()
        return len(found)

    return count


def test_an_experiment_leaves_tables_figures_and_a_verdict(tmp_path: Path, measured: Callable[[], int]) -> None:
    done = run_one(Run(TINY, tmp_path / "out"), EXPERIMENT, quiet)
    assert measured() == 3
    assert done.verdict.holds == "yes"
    assert done.is_new
    folder = tmp_path / "out" / "counting"
    assert (folder / "squares.csv").read_text() == "number,square\n0,0\n1,1\n2,4\n"
    assert (folder / "squares.png").read_bytes().startswith(b"\x89PNG")
    assert "Test Figure 0" in (folder / "squares.svg").read_text()
    assert {path.name for path in done.files()} == {"squares.csv", "squares.png", "squares.svg"}


def test_the_same_numbers_give_the_same_svg(tmp_path: Path, measured: Callable[[], int]) -> None:
    drawn = [
        run_one(Run(TINY, tmp_path / name), EXPERIMENT, quiet).folder / "squares.svg" for name in ("first", "second")
    ]
    assert drawn[0].read_bytes() == drawn[1].read_bytes()


def test_a_finished_experiment_is_skipped(tmp_path: Path, measured: Callable[[], int]) -> None:
    run = Run(TINY, tmp_path / "out")
    run_one(run, PLAIN, quiet)
    measured()
    again = run_one(run, PLAIN, quiet)
    assert measured() == 0
    assert not again.is_new
    assert again.verdict == Verdict("Squares are squares.", "yes", "3 were counted.")


def test_a_lost_file_is_made_again_from_the_kept_rows(tmp_path: Path, measured: Callable[[], int]) -> None:
    run = Run(TINY, tmp_path / "out")
    run_one(run, PLAIN, quiet).files()[0].unlink()
    measured()
    assert run_one(run, PLAIN, quiet).is_new
    assert measured() == 0


def test_an_interrupted_run_goes_on_behind_its_last_case(
    tmp_path: Path, measured: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(TINY, tmp_path / "out")
    monkeypatch.setenv(FAILS, "2")
    with pytest.raises(KeyboardInterrupt):
        run_one(run, PLAIN, quiet)
    assert measured() == 2
    monkeypatch.delenv(FAILS)
    told: list[tuple[int, int]] = []
    done = run_one(run, PLAIN, lambda name, count, total: told.append((count, total)))
    assert measured() == 1
    assert told == [(2, 3), (3, 3)]
    assert done.verdict.why == "3 were counted."


@pytest.mark.parametrize("change", ["seed", "size", "data", "code", "restart"])
def test_what_is_stale_is_run_again(
    tmp_path: Path, measured: Callable[[], int], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    np.save(data / "INCOME.npy", np.arange(8))
    run = Run(Settings("tiny", data), tmp_path / "out")
    run_one(run, PLAIN, quiet)
    assert measured() == 3
    if change == "seed":
        run = replace(run, settings=replace(run.settings, seed=1))
    elif change == "size":
        run = replace(run, settings=replace(run.settings, size="quick"))
    elif change == "data":
        np.save(data / "INCOME.npy", np.arange(9))
    elif change == "code":
        monkeypatch.setattr(running, "code_digest", lambda: "other")
    else:
        run = replace(run, restart=True)
    assert run_one(run, PLAIN, quiet).is_new
    assert measured() == (4 if change == "size" else 3)


def test_a_line_cut_short_is_left_out(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "cases.jsonl", "one")
    assert kept.read() == {}
    kept.add(("a", 1), Measured([{"x": 1.5}], 0.25))
    with kept.path.open("a") as file:
        file.write('{"case": ["b"')
    assert kept.read() == {("a", 1): Measured([{"x": 1.5}], 0.25)}
    kept.add(("b", 2), Measured([], 0.5))
    assert set(kept.read()) == {("a", 1), ("b", 2)}
    assert Checkpoints(kept.path, "other").read() == {}
    assert len(kept.path.read_text().splitlines()) == 1


def test_files_that_were_damaged_are_made_again(tmp_path: Path, measured: Callable[[], int]) -> None:
    run = Run(TINY, tmp_path / "out")
    folder = run_one(run, PLAIN, quiet).folder
    measured()
    (folder / "result.json").write_text('{"digest": ')
    assert run_one(run, PLAIN, quiet).is_new
    assert measured() == 0
    (folder / "result.json").unlink()
    (folder / "cases.jsonl").write_bytes(b"\xff no JSON\n")
    assert run_one(run, PLAIN, quiet).is_new
    assert measured() == 3


def test_a_folder_that_cannot_be_written_to_is_named(
    tmp_path: Path, measured: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="cannot be written to"):
        list(run_all(Run(TINY, tmp_path / "file" / "out"), [PLAIN], quiet))

    def full(self: Checkpoints, case: object, found: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Checkpoints, "add", full)
    with pytest.raises(InvalidInput, match="No space left on device"):
        list(run_all(Run(TINY, tmp_path / "out"), [PLAIN], quiet))


def test_the_processors_seconds_are_kept(tmp_path: Path, measured: Callable[[], int]) -> None:
    run = Run(TINY, tmp_path / "out")
    run_one(run, PLAIN, quiet)
    path = run.out / PLAIN.name / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "seconds": 125.0}))
    finished = finished_before(run, [PLAIN])
    assert "Processor time: 2.1 minutes." in markdown(TINY, finished)
    assert "Processor time: 2.1 minutes." in page(TINY, finished)


@pytest.mark.nightly
def test_two_processes_find_the_same(tmp_path: Path, measured: Callable[[], int]) -> None:
    ((_, done),) = run_all(Run(TINY, tmp_path / "out", processes=2), [PLAIN], quiet)
    assert isinstance(done, Done)
    assert done.verdict.holds == "yes"
    assert (done.folder / "squares.csv").read_text().splitlines()[1:] == ["0,0", "1,1", "2,4"]


@pytest.mark.nightly
@pytest.mark.parametrize(("processes", "breaks"), [(1, "1"), (2, "1"), (2, "worker 1")])
def test_an_experiment_that_fails_does_not_end_the_others(
    tmp_path: Path, measured: Callable[[], int], monkeypatch: pytest.MonkeyPatch, processes: int, breaks: str
) -> None:
    run = Run(TINY, tmp_path / "out", processes)
    monkeypatch.setenv(BREAKS, breaks)
    (_, failed), (_, done) = run_all(run, [PLAIN, OTHER], quiet)
    assert isinstance(failed, Failed)
    assert ("want of memory" if "worker" in breaks else "ZeroDivisionError: a fault of the experiment") in failed.reason
    assert "Traceback" in failed.trace.read_text()
    assert isinstance(done, Done)
    monkeypatch.delenv(BREAKS)
    ((_, again),) = run_all(run, [PLAIN], quiet)
    assert isinstance(again, Done)
    assert not failed.trace.exists()


def test_the_report_shows_every_finished_experiment(tmp_path: Path, measured: Callable[[], int]) -> None:
    run = Run(TINY, tmp_path / "out")
    assert finished_before(run, [EXPERIMENT]) == []
    run_one(run, EXPERIMENT, quiet)
    finished = finished_before(run, [EXPERIMENT])
    write_report(run.out, TINY, finished)
    assert all((run.out / name).exists() for name in PAGES)
    for text in (markdown(TINY, finished), page(TINY, finished)):
        for part in ("Figure 0: Squares", "Squares are squares.", "It holds.", "counting/squares.csv"):
            assert part in text
    assert "counting/squares.png" in markdown(TINY, finished)
    assert "counting/squares.svg" in page(TINY, finished)


def test_names_choose_experiments() -> None:
    assert chosen(()) == EXPERIMENTS
    assert [one.name for one in chosen(("dawa-table-1",))] == ["dawa-table-1"]
    assert {one.paper for one in chosen(("dawa",))} == {EXPERIMENTS[0].paper}
    with pytest.raises(InvalidInput, match="--list"):
        chosen(("daw",))
    with pytest.raises(InvalidInput, match=r"did you mean dawa-figure-3\?"):
        chosen(("dawa-fig-3",))


def test_every_experiment_is_named_once_and_can_be_loaded() -> None:
    assert len({one.name for one in EXPERIMENTS}) == len(EXPERIMENTS)
    for one in EXPERIMENTS:
        assert one.procedure().cases(TINY)
    with pytest.raises(TypeError):
        Experiment("x", "x", "x", "x", "papers.experiments:HERE").procedure()


def test_cases_can_be_written_down_and_are_all_different() -> None:
    for one in EXPERIMENTS:
        for size in ("tiny", "quick", "full"):
            cases = [tuple(case) for case in one.procedure().cases(Settings(size))]
            assert [tuple(json.loads(json.dumps(case))) for case in cases] == cases
            assert len(set(cases)) == len(cases)


def test_results_that_cannot_be_printed_are_refused() -> None:
    rows = ({"a": 1}, {"b": 1})
    for wrong in (
        lambda: Table("t", "t", ()),
        lambda: Table("t", "t", rows),
        lambda: Verdict("", "yes", "x"),
        lambda: Result((Table("t", "t", rows[:1]),) * 2, (), Verdict("x", "yes", "x")),
        lambda: Settings("tiny", Path("no/such/folder")),
        lambda: Settings("tiny", seed=-1),
        lambda: Run(TINY, Path("x"), processes=0),
        lambda: Run(TINY, Path(__file__)),
    ):
        with pytest.raises(InvalidInput):
            wrong()


@pytest.mark.parametrize(("parts", "holds"), [([True, True], "yes"), ([True, False], "partly"), ([False, False], "no")])
def test_a_claim_holds_as_its_parts_do(parts: list[bool], holds: str) -> None:
    assert how_it_holds(parts) == holds
