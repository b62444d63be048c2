"""Synopses with counts that the test chooses, as if they had been released."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

import blowfishdb as bf
from blowfishdb.engine.compile import cell_axes
from blowfishdb.engine.synopsis import Artefact, CellNoise, SynopsisAxis
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.predicate import Axis
from blowfishdb.plan.certificate import Certificate


def synopsis_of(attributes: Mapping[str, object], counts: object, *axes: Axis) -> bf.Synopsis:
    """A synopsis over all values of the attributes, or over the given groups of them."""
    domain = bf.domain(attributes)
    cells = compile_cells(domain, bf.Policy({}), axes or tuple(domain))
    values = np.asarray(counts, dtype=np.float64).reshape(-1)
    none = np.zeros(values.size)
    return bf.Synopsis(
        Artefact(
            title="a table",
            axes=tuple(SynopsisAxis(cells.layout[shown.name], shown) for shown in cell_axes(cells)),
            counts=values,
            noise=CellNoise(none, np.arange(values.size), none, none),
            mechanism="identity",
            certificate=Certificate(Fraction(1), None, False, "00", "00"),
            stages=(),
            caveat="",
            dataset="table",
            policy_version=1,
            protected=(),
            unprotected=(),
            released="",
        )
    )
