"""Python: whatever is given to whatever is public, it works or is refused by one of our errors, and costs nothing."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.catalog import Curator
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.points import PointWeights
from blowfishdb.engine.request import accuracy_target
from blowfishdb.engine.synopsis import Synopsis
from blowfishdb.errors import BlowfishError
from blowfishdb.model.arguments import MARK
from blowfishdb.model.document import Document
from tests.fuzz.effort import effort, outcome
from tests.fuzz.grammar import NASTY_NUMBERS, NASTY_TEXTS
from tests.fuzz.public import Face, faces
from tests.session.places import configuration, curator, make_fixture, session, visits

FACES = faces()
RELEASED = (Answer, Synopsis, PointWeights, bf.analysis.KMeans)
LARGE = "1000000000"


class Mute:
    """A value that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Unlike:
    """A value that can be neither compared nor hashed."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")


ITSELF: list[object] = []
ITSELF.append(ITSELF)
ROUND: dict[str, object] = {}
ROUND["round"] = ROUND
ODD: list[Any] = [
    *(None, True, Mute(), Unlike(), ITSELF, ROUND, object(), Ellipsis, NotImplemented, 1j),
    *(b"", b"age", bytearray(b"age"), [], (), {}, set(), [None], ["age", 3], [[]], [[1, 2]], {"age": None}, {3: 4}),
    *(np.int64(3), np.int8(-1), np.float32(0.5), np.float64("nan"), np.bool_(True), np.str_("age")),
    np.datetime64("NaT"),
    *(np.zeros(0), np.zeros((2, 2)), np.array(["age"]), np.array([None], object), np.ma.masked),
    *(Decimal("0.5"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e999999"), Fraction(1, 3)),
    *(Fraction(10**400), datetime.date(2024, 1, 1), datetime.datetime(1, 1, 1), datetime.time(1)),
    datetime.timedelta(1),
    *(datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), Path("a\0b"), Path("/nowhere/at/all")),
    *(range(3), slice(1)),
    *(bf.col("age"), bf.col("age") > 3, bf.integers(0, 3), bf.full(), bf.Aggregate("count")),
    *NASTY_NUMBERS,
    *NASTY_TEXTS,
    "x" * 11_000,
    10**5_000,
]  # fmt: skip
TEXTS = [
    *("visits", "stays", "age", "ward", "cost", "day", "id", "patient", "ana", "A1", "A2", "count"),
    *("histogram", "mean", "0.5", "1/10", "5 %", "2024-01-01", "month", "toml", "json", "identity", "dawa", "x.json"),
    *("count(age = 1)", "SELECT COUNT(*) FROM visits OPTIONS (epsilon 1)", "EXPLAIN SELECT age, COUNT(*) FROM visits"),
    *("SELECT COUNT(*) FROM visits; SELECT COUNT(*) FROM stays", "duckdb:///clinic.duckdb#visits", "clinic.duckdb"),
]  # fmt: skip
NUMBERS = [0, 1, 2, 3, 5, 20, 99, 500]
PLAIN = st.sampled_from([*TEXTS[2:10], *NUMBERS])


class World:
    """Two datasets, and at least one object of each public class that has methods; made anew when it was changed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0
        self.open()

    def open(self) -> None:
        self.number += 1
        place = self.folder / f"world{self.number}"
        place.mkdir()
        make_fixture(place, visits(epsilon=LARGE))
        self.curator = curator(place)
        with duckdb.connect(str(place / "clinic.duckdb")) as connection:
            connection.execute("CREATE TABLE stays AS FROM visits WHERE id < 500")
        blocks = bf.Policy({"ward": bf.partition([["A1"], ["A2", "A3"]])})
        stays = replace(visits(blocks, LARGE, name="stays"), source="duckdb:///clinic.duckdb#stays")
        self.curator.add(stays)
        self.place, self.db = place, session(place)
        self.objects = list(self._objects())
        self.before = self.state()

    def _objects(self) -> Iterator[Any]:
        db, age, cost = self.db, bf.col("age"), bf.col("cost")
        for name in ("visits", "stays"):
            table = db[name]
            question = table.where(age > 3).histogram(age.bins(10))
            answer = question.release(epsilon="0.1")
            synopsis = table.histogram("ward", age.bins(10)).publish(epsilon="1")
            columns = table.columns(["age", "cost"])
            plan = db.plan([table.count(), (table.histogram("ward"), 40)], alpha=50)
            yield from (table, table.where(cost < 100), question, table.mean("age"), table.top(2, "ward"), answer)
            yield from (table.count().release(epsilon="0.1"), question.preview(alpha=50), synopsis, columns, plan)
            yield from (columns.preview(epsilon=1, clusters=2), columns.point_weights(epsilon="0.1", clusters=2))
            yield from (table.histogram("ward").publish_preview(epsilon=1), bf.analysis.cube(synopsis, "ward"))
            yield from (bf.analysis.kmeans(columns, 2, epsilon="0.1"), answer.interactive(), db.budget(name))
            yield from (bf.compare(answer, answer), table.domain, table.policy, question.query)
            yield from (bf.analysis.risk(table, "0.5", 3, 4, attribute="age"), *db.history(name), *db.synopses(name))
            dataset, account = self.curator.dataset(name), self.curator.account(name)
            yield from (dataset, account, *self.curator.entries(name), self.curator.guidance(dataset))
            compiled = bf.compile_query(dataset.domain, dataset.policy, question.query)
            quotes = bf.quote(compiled.problem, Fraction(50), Fraction(1, 20))
            yield from (
                compiled,
                compiled.problem,
                quotes,
                quotes.best.certificate,
                Document(dataset.domain, dataset.policy),
            )
            yield Document(dataset.domain, dataset.policy)
            yield from self.curator.what_if(name, {"now": table.policy}, question.query, accuracy_target(epsilon=1))
            yield self.curator.what_would_change(name, policy=bf.Policy())[0]
            yield question.request(accuracy_target(alpha=50))
        yield from (db, self.curator, age, cost, age.bins(10))
        yield from ((age > 3), age.isin([1, 2]), age.is_null(), age.is_outside(), (age > 3) & (cost < 5), ~(age > 3))
        yield from ((age > 3) | (cost < 5), bf.full(), bf.public(), bf.line(), bf.threshold(5), bf.custom([(1, 2)]))
        yield from (
            bf.partition([["A1"], ["A2"]]),
            bf.grid(["age", "cost"], 3),
            bf.person("id", at_most=3, order_by="id"),
        )
        yield from (
            bf.integers(0, 9),
            bf.categorical(["A1"]),
            bf.bins(0, 9, width=1),
            bf.dates("2024-01-01", "2024-02-01"),
        )
        yield from (bf.timestamps("2024-01-01", "2024-01-02"), bf.Aggregate("count"), bf.Aggregate("mean", ("cost",)))
        yield from (bf.rows_constraint(3), bf.count_constraint(age > 3), bf.marginal_constraint("ward"))
        yield from (
            bf.range_constraint("age", 0, 9),
            bf.Join("wards", foreign_key="ward", key="id", attributes=["size"]),
        )
        yield from (accuracy_target(epsilon=1), accuracy_target(alpha=50))

    def state(self) -> tuple[object, ...]:
        """What only a curator changes: the declarations and the limits."""
        accounts = [self.curator.ledger.account(one.id) for one in self.curator.ledger.accounts()]
        terms = [(one.policy_version, one.domain_version, one.snapshot, one.limit) for one in accounts]
        return configuration(self.place).read_text(), *terms

    def spent(self) -> Fraction:
        return sum((self.db.budget(name).spent for name in ("visits", "stays")), Fraction(0))

    def of(self, kind: type) -> list[Any]:
        is_protocol = getattr(kind, "_is_protocol", False)
        return [] if is_protocol else [one for one in self.objects if isinstance(one, kind)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("arguments") / "a" / "b" / "c" / "d"
    folder.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield World(folder)


def right(kind: Any, world: World) -> st.SearchStrategy[Any]:
    """Values of the kind that an annotation asks for."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return st.one_of(*(right(one, world) for one in inner))
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (Mapping, dict):
        return st.dictionaries(st.sampled_from(TEXTS[2:8]), right(inner[1], world), max_size=2)
    if origin is tuple and inner[1:] != (Ellipsis,):
        return st.tuples(*(right(one, world) for one in inner))
    if origin in (Sequence, Iterable, tuple, list, AbstractSet):
        return st.lists(right(inner[0], world), max_size=3)
    if kind in (None, NoneType):
        return st.none()
    simple = {str: st.sampled_from(TEXTS), int: st.sampled_from(NUMBERS), bool: st.booleans(), Path: st.just(Path("x"))}
    simple |= {
        float: st.sampled_from([0.5, 2.0, 30]),
        Decimal: st.just(Decimal("0.5")),
        Fraction: st.just(Fraction(1, 2)),
    }
    if kind in simple:
        return simple[kind]
    if (origin or kind) is Callable or (origin or kind) is type(len):
        return st.just(lambda *given: None)
    known = world.of(origin or kind) if isinstance(origin or kind, type) and kind not in (object, Any) else []
    return st.sampled_from(known) if known else PLAIN


def arguments(
    face: Face, world: World, draw: Callable[[st.SearchStrategy[Any]], Any]
) -> tuple[list[Any], dict[str, Any]]:
    """What is given to a function: mostly right, at times odd."""
    given, named = list[Any](), dict[str, Any]()
    one_in = draw(st.sampled_from([2, 4, 100]))
    is_positional = True
    for parameter in face.parameters:

        def one(parameter: inspect.Parameter = parameter) -> Any:
            if draw(st.integers(1, one_in)) == 1:
                return draw(st.sampled_from(ODD))
            return draw(right(face.kind_of(parameter), world))

        if parameter.kind is parameter.VAR_POSITIONAL:
            given += [one() for _ in range(draw(st.integers(0, 2)))] if is_positional else []
        elif parameter.default is parameter.empty or draw(st.integers(1, 5)) == 1:
            if parameter.kind is parameter.KEYWORD_ONLY or not is_positional:
                named[parameter.name] = one()
            else:
                given.append(one())
        else:
            is_positional = False
    return given, named


def test_nothing_public_is_left_out(world: World) -> None:
    assert len(FACES) > 150
    assert [face.name for face in FACES if not hasattr(face.function, MARK)] == []
    owners = {face.owner for face in FACES if face.owner is not None and face.function.__name__ != "__init__"}
    assert [owner.__name__ for owner in owners if not world.of(owner)] == []


@given(data=st.data())
@effort(900)
def test_whatever_is_given(world: World, data: st.DataObject) -> None:
    face = data.draw(st.sampled_from(FACES))
    given, named = arguments(face, world, data.draw)
    call: Callable[..., Any] = face.function
    if face.owner is not None:
        is_made = face.function.__name__ == "__init__"
        call = (
            face.owner if is_made else getattr(data.draw(st.sampled_from(world.of(face.owner))), face.function.__name__)
        )
    before = world.spent()

    def work() -> Any:
        result = call(*given, **named)
        return list(islice(result, 50)) if isinstance(result, Iterator) else result

    found = outcome(work)
    if face.owner is Curator or face.name == "curate":
        if world.state() != world.before:
            world.open()
        return
    charged = world.spent() - before
    if isinstance(found, BlowfishError):
        assert charged == 0
        return
    outcome(lambda: repr(found))
    if isinstance(found, list | tuple) and found and isinstance(found[0], RELEASED):
        assert charged >= 0
    elif isinstance(found, RELEASED):
        own = getattr(found, "charged", None)
        assert charged == 0 or own is None or charged == own
    else:
        assert charged == 0
