"""The questions that every engine must answer alike."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from blowfishdb.model.calendar import dates, timestamps
from blowfishdb.model.cells import Cells, compile_cells
from blowfishdb.model.domain import Attribute, bins, categorical, domain, integers
from blowfishdb.model.policy import ROW, Person, Policy, Row
from blowfishdb.model.predicate import Axis, Predicate, col
from blowfishdb.sources import Join
from tests.sources.tables import (
    BINNED,
    CHANGED,
    CLOCKS,
    EDGE_LISTS,
    EMPTY,
    MEMBERS,
    MOMENTS,
    NUMBERS,
    SHOPS,
    TOWNS,
    VISITS,
    WORDS,
    WORDS_LIST,
    Sample,
)


@dataclass(frozen=True)
class Case:
    """One question about one table."""

    name: str
    table: Sample
    attributes: dict[str, Attribute | list[str]]
    group_by: tuple[str | Axis, ...] = ()
    where: Predicate | None = None
    unit: Row | Person = ROW
    joined: tuple[tuple[Join, Sample], ...] = field(default=())

    def cells(self) -> Cells:
        return compile_cells(domain(self.attributes), Policy(), self.group_by, self.where)


def numbers(
    name: str, attributes: dict[str, Attribute | list[str]], *by: str | Axis, where: Predicate | None = None
) -> Case:
    return Case(name, NUMBERS, attributes, by or tuple(attributes), where)


FINE = bins(0, 1, width="0.01", outside="cell")
NUMERIC = [
    numbers("whole numbers, ends clamped", {"i": integers(0, 99)}),
    numbers("whole numbers, ends apart", {"i": integers(0, 99, outside="cell", null=7)}),
    numbers("groups of seven", {"i": integers(0, 99)}, col("i").bins(7)),
    numbers(
        "a wide range in few groups", {"i": integers(-(10**12), 10**12)}, col("i").bins(edges=[-10, 7, 50, 10**12])
    ),
    numbers("a wide range in equal groups", {"i": integers(-7, 10**9)}, col("i").bins(10**7)),
    numbers(
        "as wide as doubles go",
        {"i": integers(-(2**53), 2**53, outside="cell"), "b": categorical([True, False])},
        "b",
        where=col("i") < 8,
    ),
    numbers("reals rounded down", {"x": integers(-3, 99, outside="cell")}),
    numbers("tenths", {"x": bins(0, 3, width="0.1", outside="cell")}),
    numbers("tenths in ones", {"x": bins(0, 3, width="0.1")}, col("x").bins(1)),
    numbers("hundredths", {"x": FINE}),
    numbers(
        "tens in named groups",
        {"x": bins(0, 100, width=10, outside="cell")},
        col("x").groups({"low": [0, 20, "NULL"], "high": [30, 90], "far": ["outside"]}),
    ),
    numbers("thirds from one seventh", {"x": bins("1/7", "22/7", width="1/3", outside="cell")}),
    numbers("ones around zero", {"x": bins(-3, 3, width=1, outside="cell")}),
    numbers("tens from zero", {"x": bins(0, 100, width=10, outside="cell")}),
    numbers("tens around zero", {"x": bins(-100, 100, width=10, outside="cell")}),
    numbers("tens of whole values", {"x": integers(-100, 99, outside="cell")}, col("x").bins(10)),
    numbers("irregular", {"x": bins(edges=[-1, 0, "0.3", "0.57", "2.5", 10**6, 10**300], outside="cell")}),
    numbers("whole numbers in bins", {"i": bins(-100, 100, width="2.5")}),
    numbers("decimals in bins", {"m": bins(0, 100, width="0.1", outside="cell")}, col("m").bins(10)),
    numbers("decimals rounded down", {"m": integers(0, 99, outside="cell")}),
    numbers("single precision", {"f": bins(0, 1, width="0.1", outside="cell")}),
    numbers("single precision, irregular", {"f": bins(edges=["-0.1", "0.3", "0.7", 3], outside="cell")}),
    numbers("small whole numbers", {"tiny": integers(0, 99, outside="cell")}, col("tiny").bins(10)),
    numbers("small whole numbers in bins", {"tiny": bins(-10, 1000, width="0.5")}, col("tiny").bins(5)),
    numbers("many irregular edges", {"x": bins(edges=[n * n for n in range(300)], outside="cell")}),
    numbers("long decimals", {"big": bins(0, 5, width="0.1", outside="cell")}),
    numbers("long decimals rounded down", {"big": integers(0, 10, outside="cell")}),
    numbers("truth values", {"b": categorical([False, True])}),
    numbers("truth values as numbers", {"b": integers(0, 1)}),
    numbers("numbers as categories", {"i": categorical([99, 42, -1, 2**63 - 1])}),
    numbers("written numbers", {"written": integers(0, 99, outside="cell")}),
    numbers("two at once", {"x": bins(0, 100, width=10), "i": integers(0, 99)}, col("i").bins(50), "x"),
    Case("all rows", NUMBERS, {"i": integers(0, 99)}),
]

IRREGULAR = [
    *(
        Case(f"500 edges, {name}", BINNED, {"x": bins(edges=edges, outside="cell")}, ("x",))
        for name, edges in EDGE_LISTS.items()
    ),
    Case("500 edges, ends clamped", BINNED, {"x": bins(edges=EDGE_LISTS["powers"])}, ("x",)),
    Case("500 edges beside a category", BINNED, {"x": bins(edges=EDGE_LISTS["powers"]), "s": ["a", "b"]}, ("x", "s")),
    Case(
        "50 edges, filtered",
        BINNED,
        {"x": bins(edges=EDGE_LISTS["unequal"][::10])},
        ("x",),
        col("x") < EDGE_LISTS["unequal"][250],
    ),
]

LOGIC_DOMAIN: dict[str, Attribute | list[str]] = {
    "i": integers(0, 99, outside="cell"),
    "x": bins(edges=[-1, 0, 1, 10], outside="cell"),
    "b": categorical([True, False]),
    "m": integers(0, 99),
}
LOGIC = [
    ("and", (col("i") >= 7) & (col("x") < 1)),
    ("or with unknowns", (col("i") < 50) | (col("b") == True)),  # noqa: E712
    ("not keeps unknown", ~((col("i") < 50) & (col("b") == True))),  # noqa: E712
    ("in", col("i").isin([1, 42, 99])),
    ("not in", ~col("i").isin([1, 42, 99])),
    ("between", col("i").between(7, 98)),
    ("is null", col("x").is_null() | col("b").is_null()),
    ("is not null", ~col("x").is_null()),
    ("outside", col("i").is_outside() & ~col("x").is_outside()),
    ("unequal", col("i") != 42),
]
LOGICAL = [numbers(name, LOGIC_DOMAIN, "b", "m", where=where) for name, where in LOGIC]
LOGICAL[0] = numbers("and, many groups", LOGIC_DOMAIN, "b", col("m").bins(25), "x", where=LOGIC[0][1])

LISTED = [word for word in dict.fromkeys(WORDS_LIST) if word is not None and word not in ("z" * 300, "_", "ss")]
ODD_NAMES: dict[str, Attribute | list[str]] = {
    "a b": [str(word) for word in LISTED],
    "select": integers(1, 3),
    'quo"te': ["x"],
    "ünï": categorical([True]),
    "back`tick": bins(0, 2, width=1),
}
MANY = [f"w{number}" for number in range(1100)]
TEXTUAL = [
    Case("odd words", WORDS, ODD_NAMES, ("a b",)),
    Case("odd names", WORDS, ODD_NAMES, ("select", 'quo"te', "ünï", "back`tick")),
    Case(
        "odd filters", WORDS, ODD_NAMES, ("select",), col("a b").isin(["o'clock", "back\\slash", "\\'; --", "%s", "a"])
    ),
    Case("named groups", WORDS, ODD_NAMES, (col("a b").groups({"a's": ["a", "A"], "others": ["é", "日本"]}),)),
    Case(
        "named groups with NULL",
        WORDS,
        ODD_NAMES,
        (col("a b").groups({"a's": ["a", "A", "NULL"], "others": ["é", "outside"]}), "select"),
    ),
    Case("others count as a", WORDS, {"a b": categorical(["a", "ß"], null="ß", outside="a")}, ("a b",)),
    Case("a long list", WORDS, {"a b": [*LISTED, *MANY]}, (col("a b").groups({"a": ["a", "é"], "w": MANY[:3]}),)),
]

YEAR = dates("2024-01-01", "2024-12-31", outside="cell")
HOURS = timestamps("2024-03-31", "2024-04-01", by="hour", outside="cell")
ZURICH = timestamps("2024-01-01", "2025-01-01", by="hour", zone="Europe/Zurich", outside="cell")
MONTHS: dict[str, Attribute | list[str]] = {"d": dates("1969-04-01", "2024-06-30", by="month"), "t": HOURS}
TIMELY = [
    Case("days", MOMENTS, {"d": YEAR}, ("d",)),
    Case(
        "hours in named groups",
        MOMENTS,
        {"t": HOURS},
        (col("t").groups({"night": ["2024-03-31T00:00", "2024-03-31T03:00"], "other": ["2024-03-31T12:00", "NULL"]}),),
    ),
    Case("months", MOMENTS, {"d": YEAR}, (col("d").by("month"),)),
    Case("months beside hours", MOMENTS, {"d": YEAR, "t": HOURS}, (col("d").by("month"), "t")),
    Case("weeks beside hours", MOMENTS, {"d": YEAR, "t": HOURS}, (col("d").by("week"), "t")),
    Case("quarters of months", MOMENTS, MONTHS, (col("d").by("quarter"), "t")),
    Case("years beside hours", MOMENTS, MONTHS, (col("d").by("year"), "t")),
    Case("years", MOMENTS, {"d": dates("1900-01-01", "2100-12-31", by="month")}, (col("d").by("year"),)),
    Case("a day in a long time", MOMENTS, {"d": dates("1900-01-01", "2100-12-31")}, (), col("d") == "2024-02-29"),
    Case("days of timestamps", MOMENTS, {"t": dates("2024-03-01", "2024-03-31", outside="cell")}, ("t",)),
    Case("weeks of timestamps", MOMENTS, {"t": dates("1960-01-01", "2030-01-01", by="week")}, ("t",)),
    Case("hours", MOMENTS, {"t": HOURS}, ("t",)),
    Case(
        "seconds",
        MOMENTS,
        {"t": timestamps("1969-12-31T23:00", "1970-01-01T01:00", by="second", outside="cell")},
        ("t",),
    ),
    Case(
        "timestamps of days", MOMENTS, {"d": timestamps("2024-01-01", "2025-01-01", by="day")}, (col("d").by("month"),)
    ),
    Case("summer time", MOMENTS, {"z": ZURICH}, ("z",)),
    Case("summer time by day", MOMENTS, {"z": ZURICH, "d": YEAR}, (col("z").by("day"),), col("d") >= "2024-02-01"),
    Case(
        "New York by second",
        MOMENTS,
        {"z": timestamps("2024-01-01", "2025-01-01", by="second", zone="America/New_York")},
        (col("z").by("month"),),
    ),
    Case(
        "one second of many",
        MOMENTS,
        {"z": timestamps("2020-01-01", "2025-01-01", by="second", zone="Europe/Zurich", outside="cell")},
        (),
        (col("z") >= "2024-03-31T03:00:00") & (col("z") < "2024-10-27T02:30:08"),
    ),
    Case("written days", MOMENTS, {"written": YEAR}, (col("written").by("month"),)),
    Case("written moments", MOMENTS, {"written": ZURICH}, (col("written").by("day"),)),
]


def clock_cases() -> list[Case]:
    """Rows around every change of some zones' clocks, by each period, grouped, filtered, and as they are written."""
    found = []
    for zone, changes in CHANGED.items():
        for number, change in enumerate(changes):
            begin, end = ((change + datetime.timedelta(days=days)).replace(tzinfo=None) for days in (-3, 3))
            for by in ("second", "minute", "hour", "day"):
                column = timestamps(begin, end, by=by, zone=zone, outside="cell" if by != "hour" else "clamp")
                axis = col("z").bins(10) if by == "minute" else col("z").by("minute") if by == "second" else col("z")
                found.append(Case(f"change {number} of {zone} by {by}", CLOCKS, {"z": column}, (axis,)))
    half = timestamps("2024-01-01", "2025-01-01", by="minute", zone="Europe/Berlin")
    twice = (col("z") >= "2024-10-27T02:10") & (col("z") < "2024-10-27T02:40")
    skipped = (col("z") >= "2024-03-31T02:00") & (col("z") < "2024-03-31T03:00")
    return [
        *found,
        Case("minutes that come twice", CLOCKS, {"z": half}, (), twice),
        Case("minutes that are skipped", CLOCKS, {"z": half}, (), skipped),
        Case("readings that come twice or never", CLOCKS, {"t": half}, (col("t").by("hour"),)),
        Case("written readings and instants", CLOCKS, {"written": half}, (col("written").by("hour"),)),
    ]


SHOP = Join("shops", "shop", "number", {"region": "region", "shop_area": "area"})
TOWN = Join("towns", "town", "town", {"town_size": "size"})
JOINED = ((SHOP, SHOPS), (TOWN, TOWNS))
OWN = (
    (Join("members", "person", "name", {"age_class": "class", "home": "town"}), MEMBERS),
    (Join("towns", "home", "town", {"home_size": "size"}), TOWNS),
)
"""What is known of each person, and of the town that it names."""
VISIT_DOMAIN: dict[str, Attribute | list[str]] = {
    "amount": integers(0, 60),
    "region": ["east", "west"],
    "shop_area": bins(0, 30, width=10),
    "town_size": integers(1, 4),
    "home_size": integers(1, 4),
    "age_class": integers(0, 9),
    "town": ["north", "North", "south"],
}
AMOUNTS = col("amount").bins(20)
PEOPLE = [
    Case("at most one row", VISITS, VISIT_DOMAIN, (AMOUNTS,), None, Person("person", 1, "row_key")),
    Case("at most two rows", VISITS, VISIT_DOMAIN, (AMOUNTS,), None, Person("person", 2, "row_key")),
    Case("bound before filter", VISITS, VISIT_DOMAIN, ("town",), col("amount") >= 20, Person("person", 3, "row_key")),
    Case("bound, all rows", VISITS, VISIT_DOMAIN, (), None, Person("person", 4, "row_key")),
    Case("bound by number, ordered by text", VISITS, VISIT_DOMAIN, (AMOUNTS,), None, Person("shop", 2, "person")),
    Case("the table of people, bound", VISITS, VISIT_DOMAIN, ("age_class",), None, Person("person", 2, "row_key"), OWN),
    Case("a table found by a table", VISITS, VISIT_DOMAIN, ("home_size", "age_class"), col("amount") < 40, ROW, OWN),
    Case(
        "found by a table alone", VISITS, VISIT_DOMAIN, (), col("home_size") >= 2, Person("person", 3, "row_key"), OWN
    ),
    Case("joined by number", VISITS, VISIT_DOMAIN, ("region",), None, ROW, JOINED),
    Case("joined twice", VISITS, VISIT_DOMAIN, ("town_size", "shop_area"), col("amount") < 40, ROW, JOINED),
    Case("joined by text", VISITS, VISIT_DOMAIN, ("town_size", "town"), None, ROW, JOINED),
    Case(
        "joined and bound",
        VISITS,
        VISIT_DOMAIN,
        (AMOUNTS,),
        col("region") == "east",
        Person("person", 2, "row_key"),
        JOINED,
    ),
]

NOTHING = [
    Case("no rows", EMPTY, {"i": integers(0, 9), "x": bins(0, 1, width=1), "s": ["a"], "d": YEAR}, ("i", "x", "s")),
    Case("no rows, all", EMPTY, {"i": integers(0, 9)}),
    Case("no rows, days", EMPTY, {"d": YEAR}, ("d",), None, Person("s", 1, "i")),
]

CASES = (*NUMERIC, *IRREGULAR, *LOGICAL, *TEXTUAL, *TIMELY, *clock_cases(), *PEOPLE, *NOTHING)
