"""The statements of one connection: settings, look-ups, previews, releases within a cap, and named cursors."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise

from sqlglot.tokenizer_core import TokenType

from blowfishdb.engine.answer import Answer
from blowfishdb.engine.charge import Run
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.request import TargetOptions, short_number, target_options
from blowfishdb.engine.synopsis import BETA
from blowfishdb.errors import (
    AccuracyError,
    BlowfishError,
    InvalidInput,
    QueryError,
    SpendingCapReached,
    TokenCapReached,
    TooLarge,
    TransactionFailed,
    amount,
    plural,
)
from blowfishdb.ledger.values import check_text
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import show, suggest
from blowfishdb.present.export import axis_columns, number_columns
from blowfishdb.present.words import accuracy_words
from blowfishdb.server.authentication import Caller, Payment
from blowfishdb.server.wire.catalog import SETTINGS, Catalogs, budget_left, catalog_tree, names_a_dataset, tokens_of
from blowfishdb.server.wire.messages import FLOAT8, PortColumn, WireValue, shown
from blowfishdb.session.backend import expect
from blowfishdb.session.plan import with_own
from blowfishdb.session.session import SpendingCap, stated_question, target_for
from blowfishdb.sql import ResultColumn, result_columns, without_joins, write_options

MOST_CURSORS = 100
LONGEST_FETCH = 300
NAME = r'"(?:[^"]|"")+"|\w+'
DECLARE = re.compile(
    rf"DECLARE\s+({NAME})\s+((?:(?:BINARY|ASENSITIVE|INSENSITIVE|NO|SCROLL)\s+)*)CURSOR\s+"
    r"(?:(WITH|WITHOUT)\s+HOLD\s+)?FOR\s+(.*)",
    re.IGNORECASE | re.DOTALL,
)
FETCH = re.compile(rf"(FETCH|MOVE)\s+(?:(.*?)\s*(?:\b(?:FROM|IN)\s+))?(.*?)({NAME})", re.IGNORECASE | re.DOTALL)
CLOSE = re.compile(rf"CLOSE\s+({NAME})", re.IGNORECASE)
STEPS = {"": 1, "NEXT": 1, "FORWARD": 1, "PRIOR": -1, "BACKWARD": -1}
PLACES = {"FIRST": 1, "LAST": -1}
COUNT = re.compile(r"(?:(FORWARD|BACKWARD|ABSOLUTE|RELATIVE)\s+)?([+-]?\s?\d{1,9}|ALL)")


@dataclass(frozen=True)
class Declaration:
    """A cursor that a statement declares: its name, whether it outlives its transaction, and what it asks."""

    name: str
    is_held: bool
    question: str


def read_declaration(text: str, comments: str = "") -> Declaration | None:
    """The cursor that a statement declares, the comments before it those of its question; None for another one."""
    match = DECLARE.fullmatch(text.rstrip("; \n"))
    if match is None:
        return None
    name, options, hold, question = match.groups()
    if "BINARY" in options.upper().split():
        raise QueryError("leave BINARY out: a driver chooses the format of its results when it fetches them")
    return Declaration(_name(name), (hold or "").upper() == "WITH", f"{comments}{question}")


def _name(text: str) -> str:
    return text[1:-1].replace('""', '"') if text.startswith('"') else text.lower()


@dataclass(eq=False)
class Cursor:
    """Rows and the place of the last one that was read: 0 before the first, their number plus one after the last."""

    columns: tuple[PortColumn, ...]
    rows: Sequence[Sequence[WireValue]]
    is_held: bool
    place: int = 0
    size: int = 0
    """The bytes that the rows take here, about."""

    def read(self, direction: str) -> list[Sequence[WireValue]]:
        """The rows that a direction of FETCH names, in its order; the cursor goes along."""
        end, words = len(self.rows) + 1, " ".join(direction.upper().split())
        match = COUNT.fullmatch(words)
        kind, count = (match[1], match[2]) if match else (None, None)
        if words in STEPS or words in PLACES:
            kind, number = ("ABSOLUTE", PLACES[words]) if words in PLACES else (None, STEPS[words])
        elif match is None or (count == "ALL" and kind in ("ABSOLUTE", "RELATIVE")):
            raise QueryError("a cursor is read by FETCH FORWARD 10 FROM its name; directions are those of PostgreSQL")
        else:
            number = (end if count == "ALL" else int((count or "0").replace(" ", ""))) * (
                -1 if kind == "BACKWARD" else 1
            )
        if kind in ("ABSOLUTE", "RELATIVE") or number == 0:
            start = 0 if kind == "ABSOLUTE" and number >= 0 else end if kind == "ABSOLUTE" else self.place
            self.place = min(max(start + number, 0), end)
            return [*self.rows[self.place - 1 : self.place]] if self.place else []
        start, self.place = self.place, min(max(self.place + number, 0), end)
        if number > 0:
            return [*self.rows[start : self.place]]
        return [*self.rows[self.place - 1 if self.place else 0 : max(start - 1, 0)]][::-1]


@dataclass(eq=False)
class Cursors:
    """The cursors of one connection, by name."""

    _open: dict[str, Cursor] = field(default_factory=dict)

    def check(self, declaration: Declaration, *, in_transaction: bool) -> None:
        """InvalidInput where the cursor cannot be declared, before its question is asked and paid."""
        if declaration.name in self._open:
            raise InvalidInput("there is a cursor of that name already: CLOSE it first")
        if not in_transaction and not declaration.is_held:
            raise InvalidInput("a cursor lives in a transaction: BEGIN one, or declare the cursor WITH HOLD")
        if len(self._open) >= MOST_CURSORS:
            raise TooLarge("cursors", MOST_CURSORS + 1, MOST_CURSORS, "Close some.")

    def open(self, declaration: Declaration, result: StatementResult) -> None:
        """Keeps the rows of what a declaration asked."""
        self._open[declaration.name] = Cursor(result.columns or (), result.rows, declaration.is_held, size=result.size)

    def columns(self, name: str) -> tuple[PortColumn, ...] | None:
        """The columns of a cursor; None where there is none of that name."""
        cursor = self._open.get(name)
        return None if cursor is None else cursor.columns

    def fetched_columns(self, text: str) -> tuple[PortColumn, ...]:
        """The columns that a FETCH gives."""
        return self._named(text)[1].columns

    def fetch(self, text: str) -> tuple[Cursor, list[Sequence[WireValue]]]:
        """The cursor and the rows that a FETCH or a MOVE goes over."""
        direction, cursor = self._named(text)
        return cursor, cursor.read(direction)

    def close(self, text: str) -> str:
        """Closes the cursor that a CLOSE names, or all; gives the tag."""
        match = CLOSE.fullmatch(text.strip().rstrip("; \n"))
        if match is not None and match[1].upper() == "ALL":
            self._open.clear()
            return "CLOSE CURSOR ALL"
        if match is None or self._open.pop(_name(match[1]), None) is None:
            raise InvalidInput("there is no cursor of that name")
        return "CLOSE CURSOR"

    def end_transaction(self) -> None:
        """Closes what was not declared WITH HOLD."""
        self._open = {name: cursor for name, cursor in self._open.items() if cursor.is_held}

    @property
    def size(self) -> int:
        """The bytes that the rows of all cursors take here, about."""
        return sum(cursor.size for cursor in self._open.values())

    def _named(self, text: str) -> tuple[str, Cursor]:
        # Longer ones are none, and would be looked at in very many ways.
        match = FETCH.fullmatch(text.strip().rstrip("; \n")) if len(text) < LONGEST_FETCH else None
        cursor = None if match is None else self._open.get(_name(match[4]))
        if match is None or cursor is None:
            raise InvalidInput("there is no cursor of that name")
        return f"{match[2] or ''} {match[3]}".strip(), cursor


OURS = "blowfish."
SWITCHES = ("fresh", "intervals")
NAMES = ("within", "confidence", "epsilon", "spend", *SWITCHES, "mechanism", "parameters", "key", "synopsis")
TRUTHS = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}
HINT = "SET blowfish.within = 50, or SET blowfish.epsilon = '0.1', or end the statement with OPTIONS (within = 50)"
COMMENT = "blowfish:"
"""Begins a comment that holds options: /* blowfish: within = 50 */."""
SET = re.compile(r"SET\s+(?:SESSION\s+|LOCAL\s+)?([\w.]+)\s*(?:=|\sTO\s)\s*(.*)", re.IGNORECASE | re.DOTALL)
COPY = re.compile(r"COPY\s*\((.*)\)\s*TO\s+STDOUT\b\s*(.*)", re.IGNORECASE | re.DOTALL)
DELIMITER = re.compile(r"DELIMITER\s+(?:AS\s+)?E?'(\\t|[^'\\])'", re.IGNORECASE)
TRANSACTIONS = {"BEGIN": "T", "START": "T", "COMMIT": "I", "END": "I", "ROLLBACK": "I", "ABORT": "I"}
TAGS = {"START": "BEGIN", "END": "COMMIT", "ABORT": "ROLLBACK"}
IGNORED = ("SAVEPOINT", "RELEASE", "DEALLOCATE", "DISCARD", "UNLISTEN")
"""Statements of drivers that change nothing here."""


@dataclass(frozen=True)
class StatementResult:
    """What a statement gives: its tag, the columns and rows where it has some, and what is told beside them."""

    tag: str
    columns: tuple[PortColumn, ...] | None = None
    rows: Sequence[Sequence[WireValue]] = ()
    notices: tuple[str, ...] = ()
    lines: tuple[str, ...] | None = None
    """The lines of a COPY to the client, in place of rows."""

    @cached_property
    def size(self) -> int:
        """The bytes that the rows take here, about."""
        texts = sum(len(cell) for row in self.rows for cell in row if isinstance(cell, str))
        cells = len(self.rows) * (1 + len(self.columns or ()))
        return CELL * cells + texts + sum(map(len, self.lines or ()))


CELL = 64
"""Bytes that a cell takes here beside its text, about."""


def split(text: str) -> list[str]:
    """The statements of a text, which semicolons separate."""
    statements, start = [], 0
    for token in tokens_of(text):
        if token.token_type == TokenType.SEMICOLON:
            statements.append(text[start : token.start])
            start = token.end + 1
    return [one for one in (*statements, text[start:]) if one.strip() and tokens_of(one)]


def parameter_count(text: str) -> int:
    """The greatest n for which a statement has a parameter $n."""
    return max((place for _, _, place in _parameters(text)), default=0)


def with_parameters(text: str, literals: Sequence[str]) -> str:
    """The statement with a literal in place of each parameter."""
    for start, end, place in reversed(_parameters(text)):
        if not 1 <= place <= len(literals):
            values = plural(len(literals), "value")
            raise InvalidInput(f"the statement has a parameter ${place}, and {values} came with it")
        text = f"{text[:start]} {literals[place - 1]} {text[end:]}"
    return text


def _parameters(text: str) -> list[tuple[int, int, int]]:
    """Where parameters stand, and their numbers."""
    tokens = tokens_of(text)
    return [
        (one.start, two.end + 1, int(two.text))
        for one, two in pairwise(tokens)
        if one.text == "$" and two.text.isdecimal() and len(two.text) < 6 and two.start == one.end + 1
    ]


@dataclass(frozen=True)
class PortQuestion:
    """A statement other than a setting: what it asks, and how a COPY of its rows is written."""

    text: str
    form: str | None

    @property
    def kind(self) -> str:
        """Whether it asks for a price, for an answer, or for neither by all that its words tell: a look-up."""
        if is_preview(self.text):
            return "preview"
        return "answer" if names_a_dataset(tokens_of(self.text)) else "catalog"


def read_question(text: str) -> PortQuestion:
    """The question that a statement asks."""
    match = COPY.fullmatch(text.strip().rstrip(";").strip())
    return PortQuestion(text, None) if match is None else PortQuestion(match[1], match[2])


def first_word(text: str) -> str:
    """The word that a statement begins with, whatever comments stand before it."""
    tokens = tokens_of(text)
    return text[tokens[0].start :].split(maxsplit=1)[0].upper().rstrip(";") if tokens else ""


def declared_cursor(text: str) -> Declaration | None:
    """The cursor that a statement declares; None for any other statement."""
    tokens = tokens_of(text)
    return read_declaration(text[tokens[0].start :], text[: tokens[0].start]) if tokens else None


def is_preview(text: str) -> bool:
    """Whether a statement asks for a price alone."""
    return first_word(text) == "EXPLAIN"


@dataclass(eq=False)
class Statements:
    """The statements of one signed-in connection, one at a time. A new connection may spend nothing."""

    caller: Caller
    catalogs: Catalogs
    allowed: Fraction = Fraction(0)
    """What may be spent before anybody sets blowfish.spend: what is left of the token's cap, where it has one."""
    settings: dict[str, str] = field(default_factory=dict)
    cursors: Cursors = field(default_factory=Cursors)
    status: str = "I"
    """I outside of a transaction, T in one, E in one that failed."""

    def __post_init__(self) -> None:
        self.cap = SpendingCap(self.allowed)

    def control(self, text: str) -> StatementResult | None:
        """The result of a statement about the connection itself; None for a question."""
        first = first_word(text)
        # Of comments and the like nothing is left.
        text = text[tokens_of(text)[0].start :]
        words = text.upper().rstrip("; \n").split()
        if first in TRANSACTIONS:
            if first == "ROLLBACK" and "TO" in words:
                self.status = "T"
                return StatementResult("ROLLBACK")
            tag = "ROLLBACK" if self.status == "E" and first in ("COMMIT", "END") else TAGS.get(first, first)
            self.status = TRANSACTIONS[first]
            if self.status == "I":
                self.cursors.end_transaction()
            return StatementResult(tag)
        if self.status == "E":
            raise TransactionFailed
        if first in IGNORED:
            return StatementResult(f"{first} ALL" if words[1:] == ["ALL"] else first)
        if first in ("FETCH", "MOVE"):
            cursor, rows = self.cursors.fetch(text)
            is_move = first == "MOVE"
            return StatementResult(f"{first} {len(rows)}", None if is_move else cursor.columns, () if is_move else rows)
        if first == "CLOSE":
            return StatementResult(self.cursors.close(text))
        if first == "SET":
            return self._set(text)
        if first == "RESET":
            return self._reset(words[1].lower() if len(words) > 1 else "all")
        if first == "SHOW":
            return self._show(text)
        return None

    def set(self, name: str, value: str) -> None:
        """Changes a setting; of those that are not ours nothing follows."""
        name = name.lower()
        if name == "client_encoding" and value.lower().strip("'").replace("-", "") not in (
            "utf8",
            "unicode",
            "auto",
            "default",
        ):
            raise InvalidInput("text is sent in UTF-8 here: SET client_encoding = 'UTF8'")
        if not name.startswith(OURS):
            self.settings[name] = value
            return
        option = name.removeprefix(OURS)
        if option not in NAMES:
            raise InvalidInput(f"there is no setting {name}; {suggest(option, NAMES)}")
        if value.lower() == "default":
            self._forget(name)
            return
        if option in SWITCHES and value.lower() not in TRUTHS:
            raise InvalidInput(f"{name} is on or off")
        if option == "synopsis" and not value.isdecimal():
            raise InvalidInput(f"{name} is the number of a published synopsis, such as EXPLAIN names where one answers")
        if option == "key":
            check_text(value, "a key")
        changed = {**self.settings, name: value}
        if option in ("within", "epsilon"):
            # One follows from the other: the newer counts.
            changed.pop(f"{OURS}{'epsilon' if option == 'within' else 'within'}", None)
        _options(changed)
        if option == "spend":
            self.cap.limit = short_number(value, name)
        self.settings = changed

    def describe(self, text: str) -> tuple[PortColumn, ...]:
        """The columns of a question, which is not run: a price is paid for rows alone."""
        if is_preview(text):
            return (PLAN,)
        tree = catalog_tree(text)
        if tree is not None:
            return self.catalogs.rows(tree, self.caller.identity)[0]
        session = self.caller.session("ask")
        statement = session.statement(self._written(text))
        select = statement.select.copy()
        for clause in ("where", "having", "limit", "offset"):
            select.set(clause, None)
        statement = replace(statement, select=select)
        table = session[statement.table]
        statement = without_joins(statement, table.joins)
        question = stated_question(table, statement)
        return self._columns(result_columns(statement, table.domain, question.query))

    def look_up(self, question: PortQuestion) -> StatementResult | None:
        """What the catalog tells of a question, or what SELECT 1 gives; None where it asks something else."""
        tree = catalog_tree(question.text)
        if tree is None:
            return None
        columns, rows = self.catalogs.rows(tree, self.caller.identity)
        return _sized(_copy(StatementResult(f"SELECT {len(rows)}", columns, rows), question.form))

    def run(self, question: PortQuestion) -> StatementResult:
        """The price or the answer that a question asks for; everything that it costs is within the cap."""
        return _sized(_copy(self._ask(question.text), question.form))

    def hint(self, error: BlowfishError) -> str:
        """The one line that lets a refused statement run, where there is one."""
        if isinstance(error, SpendingCapReached) and not isinstance(error, TokenCapReached):
            # Rounded up to what a person would type.
            needed = Fraction(math.ceil((self.cap.spent + error.requested) * 10**4), 10**4)
            return f"SET {OURS}spend = '{show(needed)}'"
        return HINT if isinstance(error, AccuracyError) else ""

    def _ask(self, text: str) -> StatementResult:
        session = self.caller.session("ask")
        statement = session.statement(self._written(text))
        table = session[statement.table]
        statement = without_joins(statement, table.joins)
        question = stated_question(table, statement)
        options = with_own(statement.options, _options(self.settings))
        number = self.settings.get(f"{OURS}synopsis")

        def read_off(number: int) -> Answer:
            synopsis = session.synopsis(statement.table, number)
            return question.shown(synopsis.answer(question.query, float(options.get("beta", BETA))))

        if statement.explain and number is not None:
            answer = read_off(int(number))
            words = f"read off synopsis {number}, which costs nothing; {accuracy_words(answer)}"
            return StatementResult("EXPLAIN", (PLAN,), [(f"{answer.title}: {words}",)])
        if statement.explain:
            preview = expect(question.preview_at(target_for(question.query, options)), Preview)
            runs = preview.run_by(f"{statement.text} {write_options(options, statement.columns)}")
            return StatementResult("EXPLAIN", (PLAN,), [(line,) for line in str(runs).splitlines()])
        columns = result_columns(statement, table.domain, question.query)
        payment = Payment(self.caller, "asked for an answer", statement.table, {"by": "postgres"})
        try:
            with payment:
                if number is None:
                    key = self.settings.get(f"{OURS}key")
                    run = Run(key=key, spend=self.cap.left, before_charge=payment)
                    answer = expect(question.release_at(target_for(question.query, options), run), Answer)
                else:
                    answer = read_off(int(number))
        finally:
            # A charge stands even where counting failed after it.
            self.cap.spent += payment.price
        rows = _rows(answer, columns, with_intervals=self._with_intervals)
        left = budget_left(session.budget(statement.table))
        price = f"charged epsilon {amount(payment.price)}" if payment.price else "nothing charged"
        notices = [f"{price}; {left} of {statement.table}; {accuracy_words(answer)}"]
        notices += [answer.counted] if answer.counted else []
        notices += [note for note in (answer.consistent.note, answer.caveat) if note]
        return StatementResult(f"SELECT {len(rows)}", self._columns(columns), rows, tuple(notices))

    def _written(self, text: str) -> str:
        """The statement with the options of its comment."""
        tokens = tokens_of(text)
        comments = [comment.strip() for token in tokens for comment in token.comments]
        hints = [comment.removeprefix(COMMENT).strip() for comment in comments if comment.startswith(COMMENT)]
        return f"{text}\nOPTIONS ({', '.join(hints)})" if hints else text

    def _columns(self, columns: Sequence[ResultColumn]) -> tuple[PortColumn, ...]:
        listed: list[PortColumn] = []
        for column in columns:
            if column.attribute is not None:
                listed.append(PortColumn(column.name))
            else:
                ends = ("", "_low", "_high") if self._with_intervals else ("",)
                listed += [PortColumn(f"{column.name}{end}", FLOAT8) for end in ends]
        return tuple(listed)

    @property
    def _with_intervals(self) -> bool:
        return TRUTHS[self.settings.get(f"{OURS}intervals", "off").lower()]

    def _set(self, text: str) -> StatementResult:
        match = SET.fullmatch(text.strip().rstrip(";").strip())
        if match is not None:
            value = match[2].strip()
            is_quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
            self.set(match[1], value[1:-1].replace("''", "'") if is_quoted else value)
        elif OURS in text.lower():
            raise InvalidInput("a setting is changed by SET blowfish.within = 50")
        return StatementResult("SET")

    def _reset(self, name: str) -> StatementResult:
        for known in list(self.settings):
            if name in ("all", known):
                self._forget(known)
        return StatementResult("RESET")

    def _forget(self, name: str) -> None:
        self.settings.pop(name, None)
        if name == f"{OURS}spend":
            self.cap.limit = self.allowed

    def _show(self, text: str) -> StatementResult:
        name = "".join(text.split()[1:]).rstrip(";").strip('"').lower()
        if name.startswith(OURS) and name.removeprefix(OURS) not in NAMES:
            raise InvalidInput(f"there is no setting {name}; {suggest(name.removeprefix(OURS), NAMES)}")
        usual = {known.lower(): value for known, value in SETTINGS.items()}
        usual |= {"transactionisolationlevel": SETTINGS["transaction_isolation"], f"{OURS}spend": show(self.allowed)}
        value = self.settings.get(name, usual.get(name, ""))
        return StatementResult("SHOW", (PortColumn(name),), [(value,)])


PLAN = PortColumn("QUERY PLAN")


def _options(settings: dict[str, str]) -> TargetOptions:
    values = {name: settings.get(f"{OURS}{name}") for name in NAMES}
    fresh = values["fresh"]
    return target_options(
        alpha=values["within"],
        confidence=values["confidence"],
        epsilon=values["epsilon"],
        mechanism=values["mechanism"],
        parameters=values["parameters"],
        fresh=None if fresh is None else TRUTHS[fresh.lower()],
    )


def _rows(answer: Answer, columns: Sequence[ResultColumn], *, with_intervals: bool) -> list[tuple[WireValue, ...]]:
    """The rows of an answer, with the columns that the statement asks for."""
    labels, numbers = axis_columns(answer), list(number_columns(answer).values())
    ends = 3 if with_intervals else 1
    content: list[Sequence[WireValue]] = []
    for column in columns:
        if column.attribute is not None:
            content.append(labels[column.attribute])
        elif answer.kind == "quantiles":
            content += [[float(numbers[end][column.place])] for end in range(ends)]
        else:
            content += [numbers[3 * column.place + end].tolist() for end in range(ends)]
    return list(zip(*content, strict=True))


def _sized(result: StatementResult) -> StatementResult:
    """The result, whose size is known from here on: to add it up takes long where there are many rows."""
    _ = result.size
    return result


def _copy(result: StatementResult, form: str | None) -> StatementResult:
    """The rows as lines where they are copied: tabs between values, or CSV with its options."""
    if form is None:
        return result
    words = re.findall(r"[A-Z]+", form.upper())
    if "BINARY" in words:
        raise QueryError("COPY writes text or CSV here: leave BINARY out")
    match = DELIMITER.search(form)
    between = match[1].replace("\\t", "\t") if match else "," if "CSV" in words else "\t"
    headings = [column.name for column in result.columns or ()]
    rows = [*([headings] if "HEADER" in words else []), *result.rows]
    if "CSV" in words:
        file = io.StringIO()
        csv.writer(file, delimiter=between, lineterminator="\n").writerows([map(shown, row) for row in rows])
        lines = file.getvalue().splitlines(keepends=True)
    else:
        lines = [between.join("\\N" if cell is None else _escaped(shown(cell)) for cell in row) + "\n" for row in rows]
    return StatementResult(f"COPY {len(result.rows)}", result.columns, notices=result.notices, lines=tuple(lines))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
