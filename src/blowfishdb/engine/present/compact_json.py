"""Documents with arrays of doubles as compact JSON; long arrays are written in bulk, and read back to the last bit."""

from __future__ import annotations

import json

import numpy as np

from blowfishdb.model.arrays import Floats

SEPARATORS = (",", ":")
LONG = 20_000
"""Arrays from this length on are worth the import of pyarrow."""


def compact_json(value: object) -> str:
    """The JSON of dictionaries, lists and arrays; ValueError for numbers that JSON has not."""
    if isinstance(value, np.ndarray):
        return _numbers(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{compact_json(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + ",".join(map(compact_json, value)) + "]"
    return json.dumps(value, allow_nan=False, separators=SEPARATORS)


def _numbers(values: Floats) -> str:
    # Arrow writes the shortest digits that read back equal, as Python does, but minus zero as a whole number.
    if values.size < LONG or not np.all(np.isfinite(values)) or np.any(np.signbit(values[values == 0])):
        return json.dumps(values.tolist(), allow_nan=False, separators=SEPARATORS)
    import pyarrow
    from pyarrow import compute

    # Large texts: 10^8 numbers are longer than 2^31 characters.
    text = pyarrow.large_string()
    whole = pyarrow.ListArray.from_arrays([0, values.size], pyarrow.array(values).cast(text))
    return f"[{compute.binary_join(whole, pyarrow.scalar(',', text))[0]}]"
