"""A small experiment whose measurements can be counted: each leaves a file behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from papers.charts import legend_below, lines, plain
from papers.experiment import Case, Experiment, Picture, Procedure, Result, Row, Settings, Table, Verdict, how_it_holds

TRACES = "BLOWFISH_TEST_TRACES"
FAILS = "BLOWFISH_TEST_FAILS"
BREAKS = "BLOWFISH_TEST_BREAKS"
EXPERIMENT = Experiment("counting", "A test", "Figure 0", "Squares", "tests.papers.counting:PROCEDURE")

PLAIN = replace(EXPERIMENT, place="tests.papers.counting:UNDRAWN")
OTHER = replace(EXPERIMENT, name="sound", place="tests.papers.counting:SOUND")


def cases(settings: Settings) -> list[Case]:
    return [("square", number) for number in range(settings.pick(3, 4, 5))]


def measure(settings: Settings, case: Case) -> list[Row]:
    number = int(str(case[1]))
    if os.environ.get(FAILS) == str(number):
        raise KeyboardInterrupt
    if os.environ.get(BREAKS) == str(number):
        raise ZeroDivisionError("a fault of the experiment")
    if os.environ.get(BREAKS) == f"worker {number}":
        os.kill(os.getpid(), signal.SIGKILL)
    folder = Path(os.environ[TRACES])
    (folder / f"{number}-{len(list(folder.iterdir()))}").touch()
    return [{"number": number, "square": number**2 + settings.seed}]


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    def draw(figure) -> None:  # type: ignore[no-untyped-def]
        axes = figure.add_subplot()
        plain(axes, "number", "square", log_y=True)
        lines(axes, {"squares": [(float(row["number"]), float(row["square"]) + 1) for row in rows]})  # type: ignore[arg-type]
        legend_below(figure, axes)

    holds = how_it_holds([row["square"] == int(str(row["number"])) ** 2 for row in rows])
    return Result(
        (Table("squares", "Squares", tuple(rows)),),
        (Picture("squares", "Test Figure 0: squares", "without noise", draw),),
        Verdict("Squares are squares.", holds, f"{len(rows)} were counted."),
    )


def conclude_undrawn(settings: Settings, rows: Sequence[Row]) -> Result:
    return replace(conclude(settings, rows), pictures=())


def measure_soundly(settings: Settings, case: Case) -> list[Row]:
    number = int(str(case[1]))
    return [{"number": number, "square": number**2}]


PROCEDURE = Procedure(cases, measure, conclude)
SOUND = Procedure(cases, measure_soundly, conclude_undrawn)
UNDRAWN = Procedure(cases, measure, conclude_undrawn)
