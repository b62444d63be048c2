"""People in place of rows, what caps do, and keys that occur twice, checked at an address against the rows."""

from __future__ import annotations

from collections import Counter

from blowfishdb.model.cells import compile_cells
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.policy import Person, Policy
from blowfishdb.model.predicate import Predicate, col
from blowfishdb.sources import Join, open_source
from blowfishdb.sources.base import People
from tests.sources.cases import OWN
from tests.sources.reference import kept_rows
from tests.sources.tables import MEMBERS, VISITS

JOINS = [join for join, _ in OWN]
UNIT = Person("person", 3, "row_key")
DECLARED = domain({"rows": integers(1, 4, null=1), "age_class": integers(0, 9, null=0), "home_size": integers(0, 4)})


def check_people(url: str) -> None:
    """Counts of people by their number of rows and by what a joined table tells of them; caps; repeated keys."""
    source = open_source(f"{url}#visits", JOINS)
    people = source.of_people(People("person", "rows"))

    def counted(by: str, where: Predicate | None = None) -> list[int]:
        return people.prepare(compile_cells(DECLARED, Policy(), by, where)).run().tolist()

    times = Counter(name for name in VISITS.column("person") if name is not None)
    numbers = Counter(min(number, 4) for number in times.values())
    assert counted("rows") == [numbers[number] for number in range(1, 5)]
    names = MEMBERS.column("name")
    known = {name: age_class for name, age_class, _ in MEMBERS.rows if names.count(name) == 1}
    classes = Counter(known.get(name, 0) for name in times)
    assert counted("age_class") == [classes[number] for number in range(10)]
    often = Counter(known.get(name, 0) for name in times if times[name] >= 2)
    assert counted("age_class", col("rows") >= 2) == [often[number] for number in range(10)]
    # ann lives in the north, of size 1, bob in "south ", of size 4, and of nobody else a town is known.
    assert counted("home_size") == [0, 1, 0, 0, 1, len(times) - 2]
    seen = source.look_at_caps(UNIT, [1, 2, 3, 50])
    assert (seen.rows, seen.rows - seen.nobodys, seen.people) == (len(VISITS.rows), times.total(), len(times))
    for cap in seen.caps:
        assert cap.counted == len(kept_rows(VISITS, Person("person", cap.at_most, "row_key")))
        assert cap.people_over == sum(number > cap.at_most for number in times.values())
        assert seen.dropped(cap) == times.total() - cap.counted
    assert [source.repeats_keys(join) for join in JOINS] == [True, True]
    # NULL stands twice there, and is no key.
    assert not source.repeats_keys(Join("lists", "shop", "number", ["word"]))
