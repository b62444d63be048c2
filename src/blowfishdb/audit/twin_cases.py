"""Twin worlds as a section of the audit: built-in ones, and ones made up from what is declared of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from blowfishdb.audit.cases import Case, Subject
from blowfishdb.audit.definitions import Adjacency, all_changes, sample_records
from blowfishdb.audit.report import CheckLine, judged, not_tested
from blowfishdb.audit.scratch import TableRow, columns_of, neighbours
from blowfishdb.audit.twin_questions import Asked, library, neighbouring, rotated
from blowfishdb.audit.twins import DATA, Twins, TwinTable, compare
from blowfishdb.catalog import Dataset, read_config
from blowfishdb.engine.charge import Run
from blowfishdb.engine.request import AccuracyTarget, accuracy_target
from blowfishdb.model.policy import Person
from blowfishdb.model.predicate import as_axes
from blowfishdb.session.session import Session

TURNS = 3
"""How often a full audit asks every kind of question, each time of other datasets."""
CHANGES = 4
"""On how many changes of a declared dataset a full audit asks its questions."""
ROWS = 30
TwinTask = tuple[str, Callable[[], Iterable[CheckLine]]]


def twin_tasks(subject: Subject | None, cases: Sequence[Case], seed: int, *, quick: bool) -> list[TwinTask]:
    """The comparisons of twin worlds, with their names."""
    if subject is None:
        turns = range(seed, seed + (1 if quick else TURNS))
        return [
            (f"twins: {name}", partial(_built_in, name, asked))
            for turn in turns
            for name, asked in rotated(turn).items()
        ]
    numbers = range(1 if quick else CHANGES)
    return [(f"twins: {subject.name}", partial(_declared, subject, cases, seed, number)) for number in numbers]


def _built_in(name: str, asked: Mapping[str, Asked]) -> list[CheckLine]:
    """The line of one of the built-in datasets."""
    return [_line(name, neighbouring((name,)), asked)]


def _line(name: str, twins: Twins, asked: Mapping[str, Asked]) -> CheckLine:
    found = compare(twins, library({name: asked}))
    fine = f"all is the same that {len(asked)} questions tell, with {found.accesses} looks at the rows"
    return judged(name, "twin worlds", found.differences, fine, found.told)


def _declared(subject: Subject, cases: Sequence[Case], seed: int, number: int) -> list[CheckLine]:
    """The line of one change of a declared dataset, whose questions are those of its cases."""
    dataset = read_config(subject.config).dataset(subject.name)
    random = np.random.default_rng([seed, 13, number])
    adjacency = Adjacency(dataset.domain, dataset.policy, as_axes(dataset.domain.names), None)
    everyone = sample_records(adjacency, random)
    listed = all_changes(adjacency, everyone)
    if isinstance(dataset.policy.unit, Person):
        listed = [change for change in listed if len(change.before) == 1]
    if not listed:
        return [not_tested(subject.name, "twin worlds", "the policy hides no change of a record")]
    change = listed[int(random.integers(len(listed)))]
    base = [everyone[int(place)] for place in random.integers(len(everyone), size=ROWS)]
    columns = columns_of(dataset.domain, dataset.policy)
    first, second = ({DATASET: _table(columns, table.rows)} for table in neighbours(adjacency, base, change, random))
    alike = Dataset(
        subject.name,
        source=f"duckdb:///{DATA}#{DATASET}",
        domain=dataset.domain,
        policy=dataset.policy,
        epsilon=sum((case.epsilon for case in cases), start=dataset.epsilon) or 1,
        accounting=dataset.accounting,
        sharing=dataset.sharing,
        read_only=dataset.read_only,
    )
    asked = {case.name: partial(_ask, case) for case in cases}
    return [_line(subject.name, Twins([alike], first, second), asked)]


DATASET = "rows"


def _table(columns: dict[str, str], rows: Sequence[TableRow]) -> TwinTable:
    return TwinTable(columns, [[row.get(name) for name in columns] for row in rows])


def _ask(case: Case, session: Session, name: str) -> object:
    """The preview and the answer of a case."""
    question = session[name].question(case.query)
    alpha, epsilon = (None, case.epsilon) if case.within is None else (case.within, None)
    target: AccuracyTarget = accuracy_target(alpha, epsilon=epsilon, mechanism=case.mechanism)
    return [question.preview_at(target), question.release_at(target, Run())]
