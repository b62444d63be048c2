"""Small tables full of awkward values, with the types every engine should give them."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

UTC = datetime.UTC
Moment = datetime.datetime
Day = datetime.date
Cell = object


@dataclass(frozen=True)
class Sample:
    """A table: column names with logical types, and rows."""

    name: str
    columns: dict[str, str]
    rows: tuple[tuple[Cell, ...], ...]

    def column(self, name: str) -> list[Cell]:
        place = list(self.columns).index(name)
        return [row[place] for row in self.rows]


def from_columns(name: str, columns: dict[str, tuple[str, list[Cell]]]) -> Sample:
    """A table from columns of possibly different lengths; shorter ones start again from their beginning."""
    longest = max(len(values) for _, values in columns.values())
    rows = tuple(tuple(values[i % len(values)] for _, values in columns.values()) for i in range(longest))
    return Sample(name, {column: kind for column, (kind, _) in columns.items()}, rows)


AROUND = [0.1, 0.3, 0.7, 0.29, 0.57, 0.58, 1.0, 2.5, 10.0]
EDGES = [edge for number in AROUND for edge in (math.nextafter(number, -9), number, math.nextafter(number, 9))]
REALS: list[Cell] = [
    *(None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 0.1 + 0.2, -1.0, -1e-20),
    *(99.99999999999999, 100.0, 2.0**53, 2.0**53 + 2, -(2.0**60), 1e-300, -3.0, 3.0, 1e6, 1e300, 0.001),
    *EDGES,
]
WHOLES: list[Cell] = [
    *(None, 0, 1, 6, 7, 8, 49, 50, 98, 99, 100, 101, -1, -2, -(2**63), 2**63 - 1, 2**53, 2**53 + 1, -(2**53) - 1),
    *(10**12, 10**12 + 1, -(10**12), 13, 14, 15, 42, 42, 42, 77),
]
SMALL_DECIMALS: list[Cell] = [
    None,
    *(Decimal(n) for n in ("0", "0.10", "0.29", "0.30", "-0.01", "99.99", "100.00", "9999999999.99")),
]
LONG_DECIMALS: list[Cell] = [
    None,
    *(Decimal(n) for n in ("0", "0.3000000000", "0.2999999999", "3.9999999999", "9007199254740993.0000000001", "-1.5")),
]

NUMBERS = from_columns(
    "numbers",
    {
        "k": ("integer", list(range(60))),
        "i": ("integer", WHOLES),
        "x": ("real", REALS),
        "m": ("decimal(12,2)", SMALL_DECIMALS),
        "big": ("decimal(38,10)", LONG_DECIMALS),
        "b": ("boolean", [True, False, None, True]),
        "f": ("single", [None, *(float(np.float32(n)) for n in (0.1, 0.3, 0.7, -0.1, 2.5, 1e30, 0.2999999))]),
        "tiny": ("tiny", [None, 0, 1, 7, -1, 99, 127, -128]),
        "written": (
            "text",
            ["1", " 2 ", "3.7", "abc", "", None, "1e3", "-5", "NaN", "inf", "99", "1e999", "0x10", "4"],
        ),
    },
)

_SPREAD = np.random.default_rng(18)
EDGE_LISTS = {
    "powers": [float(edge) for edge in np.geomspace(0.001, 1e6, 500)],
    "unequal": sorted(float(edge) for edge in _SPREAD.normal(0, 10, 500)),
    "hostile": sorted({-1e300, -5e-324, 0.0, 5e-324, 1e-300, 0.1, 0.3, 1e300, *_SPREAD.uniform(-9, 9, 492).tolist()}),
    "decimal": [round(0.01 * int(edge), 2) for edge in sorted(_SPREAD.choice(9000, 500, replace=False))],
}
"""Five hundred irregular edges: more of them where numbers are small, clustered, next to zero, of two decimals."""
NEAR_EDGES = [
    near
    for edges in EDGE_LISTS.values()
    for edge in (*edges[:3], *edges[3:-3:40], *edges[-3:])
    for near in (math.nextafter(edge, -math.inf), edge, math.nextafter(edge, math.inf))
]
BINNED = from_columns(
    "binned",
    {
        "x": (
            "real",
            [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 1e-300, *NEAR_EDGES],
        ),
        "s": ("text", ["a", "b", None, "c", "b"]),
    },
)

WORDS_LIST: list[Cell] = [
    *(
        "a",
        "A",
        "a ",
        " a",
        "",
        "é",
        "e\u0301",
        "o'clock",
        "back\\slash",
        '"quoted"',
        "ß",
        "ss",
        "%",
        "_",
        "日本",
        None,
    ),
    *("a\nb", "Robert'); DROP TABLE numbers;--", "\\'; --", "a", "z" * 300, "{x}", ":y", "%s", "\U0001f600", "NULL"),
]
WORDS = from_columns(
    'odd "na`me.',
    {
        "a b": ("text", WORDS_LIST),
        "select": ("integer", [1, 2, None, 3]),
        'quo"te': ("text", ["x", "X", None]),
        "ünï": ("boolean", [True, None, False]),
        "back`tick": ("real", [0.5, None, 1.5, math.nan]),
        "k0": ("integer", [0, 1, 2, 3, 4]),
    },
)

MOMENTS = from_columns(
    "moments",
    {
        "d": (
            "date",
            [
                *(None, Day(2023, 12, 31), Day(2024, 1, 1), Day(2024, 2, 29), Day(2024, 12, 31), Day(2025, 1, 1)),
                *(Day(1001, 1, 1), Day(9998, 12, 31), Day(2024, 3, 1), Day(2024, 3, 31)),
            ],
        ),
        "t": (
            "timestamp",
            [
                None,
                Moment(2024, 3, 30, 23, 59, 59, 999999),
                Moment(2024, 3, 31),
                Moment(2024, 3, 31, 2, 30),
                Moment(2024, 3, 31, 3, 0),
                Moment(1969, 12, 31, 23, 59, 59, 700000),
                Moment(1001, 1, 1),
                Moment(9998, 1, 1),
                Moment(2024, 4, 1),
            ],
        ),
        "z": (
            "instant",
            [
                None,
                *(Moment(2024, 3, 31, hour, minute, tzinfo=UTC) for hour in (0, 1, 2) for minute in (0, 30, 59)),
                *(Moment(2024, 10, 27, hour, minute, 7, 123456, tzinfo=UTC) for hour in (0, 1) for minute in (0, 30)),
                Moment(2024, 3, 30, 22, 59, 59, 999999, tzinfo=UTC),
                Moment(1999, 1, 1, tzinfo=UTC),
                Moment(2037, 1, 1, tzinfo=UTC),
                Moment(2024, 12, 31, 23, 30, tzinfo=UTC),
            ],
        ),
        "written": ("text", ["2024-01-01", "2024-13-01", "2024-02-29 10:00", None, "soon", " 2024-03-01 "]),
    },
)

CHANGED = {
    "Europe/Berlin": (Moment(2024, 3, 31, 1, tzinfo=UTC), Moment(2024, 10, 27, 1, tzinfo=UTC)),
    "America/New_York": (Moment(2024, 3, 10, 7, tzinfo=UTC), Moment(2024, 11, 3, 6, tzinfo=UTC)),
    "Australia/Lord_Howe": (Moment(2024, 10, 5, 15, 30, tzinfo=UTC), Moment(2024, 4, 6, 15, tzinfo=UTC)),
    "Pacific/Apia": (Moment(2011, 12, 30, 10, tzinfo=UTC),),
}
"""When the clocks of some zones change: by an hour, by half an hour, by a day."""
MINUTES = (
    -1500,
    -1440,
    -1439,
    -90,
    -61,
    -60,
    -59,
    -31,
    -30,
    -29,
    -10,
    -1,
    0,
    1,
    9,
    10,
    29,
    30,
    31,
    59,
    60,
    61,
    90,
    1440,
)
JUST = (datetime.timedelta(microseconds=-1), datetime.timedelta(0), datetime.timedelta(seconds=1, microseconds=700_000))
NEAR_CHANGES = [
    change + datetime.timedelta(minutes=minute) + little
    for changes in CHANGED.values()
    for change in changes
    for minute in MINUTES
    for little in (JUST if abs(minute) in (0, 30, 60) else JUST[1:2])
]
CLOCKS = from_columns(
    "clocks",
    {
        "z": ("instant", [*NEAR_CHANGES, None]),
        "t": (
            "timestamp",
            [
                *(Moment(2024, 3, 31, hour, minute, 59) for hour in (1, 2, 3) for minute in (0, 30, 59)),
                *(Moment(2024, 10, 27, hour, minute) for hour in (1, 2, 3) for minute in (0, 30, 59)),
                None,
            ],
        ),
        "written": (
            "text",
            [
                "2024-10-27T02:30:00+02:00",
                "2024-10-27T02:30:00+01:00",
                "2024-10-27T02:59:59.999999+02:00",
                "2024-10-27T00:59:59Z",
                "2024-10-27T01:00:00Z",
                "2024-10-27T02:30",
                "2024-03-31T02:30",
                "2024-03-31T01:59:59+01:00",
                "2024-03-31T03:00:00+02:00",
                None,
            ],
        ),
    },
)

VISITS = from_columns(
    "visits",
    {
        "row_key": ("integer", [1, 2, 3, 4, 4, 5, 6, 7, 7, 7, 8, 9, None, 10, 11, 12, 12]),
        "person": ("text", ["ann", "bob", "ann", "ann", "ann", "Ann", "ann ", "bob", "bob", None, "ann", "bob", "bob"]),
        "shop": ("integer", [1, 2, 3, 4, None, 1, 2]),
        "town": ("text", ["north", "North", "south", None, "lost"]),
        "amount": ("integer", [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55]),
    },
)
SHOPS = Sample(
    "shops",
    {"number": "integer", "region": "text", "area": "real"},
    ((1, "east", 10.5), (2, "west", 20.0), (3, "east", None), (3, "west", 1.0), (None, "east", 2.0), (9, "west", 3.0)),
)
TOWNS = Sample(
    "towns",
    {"town": "text", "size": "integer"},
    (("north", 1), ("North", 2), ("south", 3), ("south ", 4), ("south", 3)),
)
MEMBERS = Sample(
    "members",
    {"name": "text", "class": "integer", "town": "text"},
    (
        ("ann", 1, "north"),
        ("bob", 2, "south "),
        ("Ann", 3, None),
        ("ann ", 4, "lost"),
        ("ann ", 4, "lost"),
        (None, 5, "x"),
    ),
)
LISTS = Sample("lists", {"number": "integer", "word": "text"}, ((1, "a"), (2, "a"), (None, "b"), (None, "c")))
EMPTY = Sample("empty", {"i": "integer", "x": "real", "s": "text", "d": "date"}, ())

SAMPLES = (NUMBERS, BINNED, WORDS, MOMENTS, CLOCKS, VISITS, SHOPS, TOWNS, MEMBERS, LISTS, EMPTY)
