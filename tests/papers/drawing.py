"""Runs an experiment at its tiniest, in this process, and draws its figures without writing them."""

from __future__ import annotations

from matplotlib.figure import Figure

from papers.experiment import Procedure, Result, Settings


def tiny_result(procedure: Procedure) -> Result:
    """What the experiment concludes; every figure was drawn, and its first axis has a name."""
    settings = Settings("tiny")
    cases = procedure.cases(settings)
    assert len(cases) == len(set(cases))
    result = procedure.conclude(settings, [row for case in cases for row in procedure.measure(settings, case)])
    for picture in result.pictures:
        figure = Figure(figsize=picture.size)
        picture.draw(figure)
        assert figure.axes[0].get_ylabel()
    assert result.tables and all(table.csv() for table in result.tables)
    assert result.verdict.why
    return result
