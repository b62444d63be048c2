"""EFPA (Acs, Castelluccia, Chen 2012) with the noise that its proof needs: low frequencies only, chosen privately.

The published code adds noise to the magnitudes of the Fourier coefficients and leaves their phases exact, so it is not
private at any epsilon. Here cosine and sine parts both get noise.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.reproduce.baselines.drawing import least, noisy, rounded_up

GRID = 2**12
"""Coefficients are counted in steps of this fraction of a record."""


def efpa(counts: Ints, epsilon: Fraction, workload: Rows) -> Floats:
    """Half of epsilon picks how many frequencies to keep, half perturbs their cosine and sine parts."""
    cells = counts.size
    parts = _parts(np.fft.rfft(counts) / math.sqrt(cells), cells)
    kept = np.arange(1, parts.size + 1, 2)
    energy = np.concatenate([[0.0], np.cumsum(parts[::-1] ** 2)])[::-1]
    noise = math.sqrt(2.0) * kept**1.5 / math.sqrt(cells) * 2 / float(epsilon)
    count = int(kept[least(np.sqrt(energy[kept]) + noise, 1, epsilon / 2)])
    # A record adds at most 1 / root n to the first part and 2 / root n to each later pair; rounding adds a step each.
    steps = rounded_up(count / math.sqrt(cells) * GRID + count)
    whole = np.floor(parts[:count] * GRID + 0.5).astype(np.int64)
    estimate = np.zeros(parts.size)
    estimate[:count] = noisy(whole, steps * 2 / epsilon) / GRID
    return np.asarray(workload.dot(np.fft.irfft(_complex(estimate, cells) * math.sqrt(cells), cells)))


def _parts(transform: np.ndarray[tuple[int, ...], np.dtype[np.complex128]], cells: int) -> Floats:
    """Orthonormal coordinates: the constant part, then a cosine and a sine part for each frequency."""
    pairs = np.stack([transform.real[1:], transform.imag[1:]], axis=1) * math.sqrt(2)
    if cells % 2 == 0:
        pairs[-1] /= math.sqrt(2)
    return np.concatenate([transform.real[:1], pairs.reshape(-1)])


def _complex(parts: Floats, cells: int) -> np.ndarray[tuple[int, ...], np.dtype[np.complex128]]:
    pairs = parts[1:].reshape(-1, 2) / math.sqrt(2)
    if cells % 2 == 0:
        pairs[-1] *= math.sqrt(2)
    return np.concatenate([parts[:1].astype(np.complex128), pairs[:, 0] + 1j * pairs[:, 1]])
