"""One SELECT of one dataset: its options, its parts, and what JOIN comes down to.

The text is parsed, never executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NoReturn, TypeAlias, cast

import sqlglot
from sqlglot import Dialect, exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from blowfishdb.engine.request import Relative, TargetOptions, read_alpha, read_settings, short_number
from blowfishdb.errors import AccuracyError, QueryError
from blowfishdb.mechanisms.parameters import ParameterValues, settings_words
from blowfishdb.model.conditions import check_depth, number, only, shown
from blowfishdb.model.domain import is_storable
from blowfishdb.model.numbers import show, suggest
from blowfishdb.sources.base import Join
from blowfishdb.sql.nested import flattened, table_alias
from blowfishdb.sql.refusals import CLAUSES, JOINS, nesting_refused, refuse

EXAMPLE = "OPTIONS (alpha = 50, beta = 0.05)"
ALIASES = {"within": "alpha", "accuracy": "alpha"}


@dataclass(frozen=True)
class ColumnOptions:
    """Accuracies of single columns by lower-case names, and the size of the smallest group that must keep them."""

    within: Mapping[str, Fraction | Relative] = field(default_factory=dict)
    rows: int | None = None

    def written(self) -> list[str]:
        """The options that say the same."""
        listed = [f"{WITHIN}{name} = {_written(value)}" for name, value in self.within.items()]
        return listed if self.rows is None else [*listed, f"rows = {self.rows}"]


WITHIN = "within_"


OptionValue: TypeAlias = Fraction | Relative | str | bool | ParameterValues


def read_options(tokens: Sequence[Token]) -> tuple[TargetOptions, ColumnOptions]:
    """The accuracy that stands between the brackets of OPTIONS, of the whole answer and of single columns."""
    options: dict[str, Any] = {}
    within: dict[str, Fraction | Relative] = {}
    rows: int | None = None
    for name, value in _pairs(tokens):
        column = name.lower().removeprefix(WITHIN) if name.lower().startswith(WITHIN) else None
        if column is not None:
            key, twice = name.lower(), column in within
            within[column] = _alpha(value)
        elif name.lower() == "rows":
            key, twice, number = "rows", rows is not None, _fraction(value)
            if number.denominator != 1 or number < 1:
                raise QueryError("rows is a whole number of records, at least 1")
            rows = int(number)
        else:
            key, read = _known(name)
            twice = key in options
            options[key] = read(value)
        if twice:
            raise QueryError(f"OPTIONS says {key} twice")
    return cast(TargetOptions, options), ColumnOptions(within, rows)


def merged(statement: TargetOptions, given: TargetOptions) -> TargetOptions:
    """What the statement and the keywords say together; they must not contradict each other."""
    for name in READERS:
        one, two = statement.get(name), given.get(name)
        if one is not None and two is not None and one != two:
            one, two = (settings_words(each) if isinstance(each, tuple) else each for each in (one, two))
            raise AccuracyError(f"{name} is {one} in OPTIONS and {two} outside: say it once")
    return {**given, **statement}


def write_options(options: TargetOptions, columns: ColumnOptions | None = None) -> str:
    """The OPTIONS (...) that say the same; nothing where nothing was said."""
    values = {name: cast("OptionValue | None", options.get(name)) for name in READERS}
    listed = [f"{name} = {_written(value)}" for name, value in values.items() if value is not None]
    listed += [] if columns is None else columns.written()
    return f"OPTIONS ({', '.join(listed)})" if listed else ""


def _written(value: OptionValue) -> str:
    if isinstance(value, Relative):
        return f"'{value}'"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, tuple):
        return f"'{settings_words(value)}'"
    text = show(value) if isinstance(value, Fraction) else value.replace("'", "''")
    return text if isinstance(value, Fraction) and "/" not in text else f"'{text}'"


def _pairs(tokens: Sequence[Token]) -> list[tuple[str, Token]]:
    pairs: list[tuple[str, Token]] = []
    rest = list(tokens)
    while rest:
        if len(rest) < 3 or rest[1].token_type != TokenType.EQ:
            raise QueryError(f"options are written name = value, separated by commas: {EXAMPLE}")
        pairs.append((rest[0].text, rest[2]))
        if len(rest) > 3 and rest[3].token_type != TokenType.COMMA:
            raise QueryError(f"options are written name = value, separated by commas: {EXAMPLE}")
        if len(rest) == 4:
            raise QueryError(f"an option is missing after the last comma: {EXAMPLE}")
        rest = rest[4:]
    return pairs


def _known(name: str) -> tuple[str, Callable[[Token], OptionValue]]:
    key = ALIASES.get(name.lower(), name.lower())
    if key == "confidence":
        return "beta", lambda token: 1 - _fraction(token)
    if key not in READERS:
        raise QueryError(
            f"there is no option {shown(name)}; {suggest(key, [*READERS, *ALIASES, 'confidence', 'rows'])}"
        )
    return key, READERS[key]


def _fraction(token: Token) -> Fraction:
    if token.token_type not in (TokenType.NUMBER, TokenType.STRING):
        raise QueryError(f"an option is a number, not {shown(token.text)}: {EXAMPLE}")
    if token.token_type == TokenType.STRING and "/" in token.text:
        return short_number(token.text, "an option")
    return Fraction(number(token.text))


def _alpha(token: Token) -> Fraction | Relative:
    """A number, or a text such as '5 %'."""
    return read_alpha(token.text) if token.token_type == TokenType.STRING and "%" in token.text else _fraction(token)


def _word(token: Token) -> str:
    if token.token_type != TokenType.STRING:
        raise QueryError("the mechanism is a text: OPTIONS (mechanism = 'identity')")
    return token.text


def _settings(token: Token) -> ParameterValues:
    if token.token_type != TokenType.STRING:
        raise QueryError("parameters are a text: OPTIONS (mechanism = 'dawa', parameters = 'split=0.3')")
    return read_settings(token.text)


def _truth(token: Token) -> bool:
    if token.text.upper() not in ("TRUE", "FALSE"):
        raise QueryError(
            "per_query is TRUE (each count on its own) or FALSE (all counts at once); fresh is TRUE (noise that is "
            "independent of earlier answers) or FALSE"
        )
    return token.text.upper() == "TRUE"


READERS: Mapping[str, Callable[[Token], OptionValue]] = {
    "alpha": _alpha,
    "beta": _fraction,
    "epsilon": _fraction,
    "mechanism": _word,
    "parameters": _settings,
    "per_query": _truth,
    "fresh": _truth,
}


LONGEST_STATEMENT = 20_000
LONGEST_SCRIPT = 100_000
LONGEST_CACHED = 2_000
"""The tree of a statement takes up to a kilobyte for each of its characters."""
MOST_STATEMENTS = 32
KNOWN_CLAUSES = ("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset")


@dataclass(frozen=True, eq=False)
class Statement:
    """One SELECT of one dataset. `explain` asks for the preview, which costs nothing.

    Whoever asks with the same text may share it, so nobody changes its tree.
    """

    explain: bool
    table: str
    options: TargetOptions
    columns: ColumnOptions
    select: exp.Select = field(repr=False)
    names: tuple[str, ...]
    """The dataset's name and its alias: what may stand before an attribute and a dot."""
    taken: frozenset[str]
    """Names of other things than attributes, in small letters, where a query after FROM has all attributes as well."""
    text: str
    """The SELECT as it was written, without EXPLAIN, OPTIONS and the schema."""
    is_quoted: bool = False
    """Whether the dataset's name stands between quotes, so that small and large letters of it are told apart."""


@nesting_refused()
def parse(text: str) -> Statement:
    """The statement that the text writes; QueryError with the nearest thing that works."""
    if not isinstance(text, str) or not text.strip():
        refuse("An SQL statement is expected")
    if not is_storable(text):
        raise QueryError("a statement is text without NUL and without half of a surrogate pair")
    if len(text) > LONGEST_STATEMENT:
        raise QueryError(f"a statement has at most {LONGEST_STATEMENT:,} characters, not {len(text):,}")
    return _cached(text) if len(text) <= LONGEST_CACHED else _parsed(text)


def _parsed(text: str) -> Statement:
    tokens, explain = _tokens(text), False
    if tokens and tokens[0].token_type == TokenType.COMMAND and tokens[0].text.upper() == "EXPLAIN":
        explain, text = True, text[tokens[0].end + 1 :]
        tokens = _tokens(text)
    text, tokens = _without_schema(text, tokens)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens:
        refuse("An SQL statement is expected")
    if any(token.token_type == TokenType.SEMICOLON for token in tokens):
        refuse("One statement at a time here; db.sql(...) takes several")
    if tokens[0].token_type not in (TokenType.SELECT, TokenType.WITH):
        _refuse_first(tokens[0])
    check_depth(tokens)
    body, options = _without_options(tokens)
    select_text = text[body[0].start : body[-1].end + 1]
    select, taken = flattened(_select(select_text))
    table, names = _table(select)
    _check_clauses(select, table)
    name = select.args["from_"].this.this
    return Statement(
        explain, table, *read_options(options), select, names, taken, select_text, bool(name.args.get("quoted"))
    )


_cached = lru_cache(maxsize=64)(_parsed)


def split(text: str) -> list[str]:
    """The statements of a text, which semicolons separate."""
    if not isinstance(text, str) or len(text) > LONGEST_SCRIPT:
        raise QueryError(f"a script is a text of at most {LONGEST_SCRIPT:,} characters")
    ends = [token.start for token in _tokens(text) if token.token_type == TokenType.SEMICOLON]
    pieces = [text[start:end] for start, end in pairwise([0, *(end + 1 for end in ends), len(text) + 1])]
    statements = [piece.rstrip().removesuffix(";") for piece in pieces if piece.strip().strip(";").strip()]
    if not statements:
        refuse("there is no statement yet")
    if len(statements) > MOST_STATEMENTS:
        refuse(f"at most {MOST_STATEMENTS} statements are priced together, not {len(statements)}")
    return statements


def _tokens(text: str) -> Sequence[Token]:
    try:
        return sqlglot.tokenize(text)
    except SqlglotError:
        refuse("The statement cannot be read: a quote or a comment is left open")


SCHEMA = "public"
"""The schema in which all datasets are, for tools that write it."""


def _without_schema(text: str, tokens: Sequence[Token]) -> tuple[str, Sequence[Token]]:
    """The statement without the schema before names, and its tokens."""
    pairs = [
        (one, two)
        for one, two in pairwise(tokens)
        if one.text.lower() == SCHEMA and one.token_type != TokenType.STRING and two.token_type == TokenType.DOT
    ]
    for one, two in reversed(pairs):
        text = text[: one.start] + text[two.end + 1 :]
    return (text, _tokens(text)) if pairs else (text, tokens)


def _refuse_first(token: Token) -> None:
    word = token.text.split(maxsplit=1)[0].upper() if token.text.strip() else ""
    if word in ("ANALYZE", "ANALYSE"):
        raise QueryError("EXPLAIN shows the preview and never runs anything: write EXPLAIN SELECT ...")
    refuse(f"Only SELECT and EXPLAIN SELECT are known, not {shown(word)}")


def _without_options(tokens: Sequence[Token]) -> tuple[Sequence[Token], Sequence[Token]]:
    """The SELECT itself, and what stands between the brackets of OPTIONS (...) at its end."""
    for place, (word, bracket) in enumerate(pairwise(tokens)):
        named = word.token_type != TokenType.IDENTIFIER and word.text.upper() == "OPTIONS"
        if place and named and word.token_type != TokenType.STRING and bracket.token_type == TokenType.L_PAREN:
            if tokens[-1].token_type != TokenType.R_PAREN:
                raise QueryError("OPTIONS (...) ends the statement: OPTIONS (alpha = 50, beta = 0.05)")
            return tokens[:place], tokens[place + 2 : -1]
    return tokens, ()


class Reading(Dialect):
    """Statements as they are read here: where no NULLS FIRST or LAST is written, NULL is the largest value."""

    NULL_ORDERING = "nulls_are_large"


def _select(text: str) -> exp.Select:
    try:
        tree = sqlglot.parse_one(text, read=Reading)
    except SqlglotError as error:
        refuse(f"The statement cannot be read{_place(error)}")
    except (ValueError, TypeError, AttributeError, IndexError, KeyError):
        # The parser trips over some malformed texts; what it says then is of no use.
        refuse("The statement cannot be read")
    if not isinstance(tree, exp.Select):
        refuse("UNION and the like are not known here: ask one question at a time")
    if not all(only(star) for star in tree.find_all(exp.Star)):
        refuse("Nothing stands behind *: write out the columns in place of EXCLUDE, REPLACE and RENAME")
    return tree


def _place(error: SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if not details:
        return ""
    excerpt = details[0].get("highlight") or ""
    near = f", near {shown(excerpt)}" if excerpt else ""
    return f" (line {details[0].get('line')}, column {details[0].get('col')}{near})"


def _table(select: exp.Select) -> tuple[str, tuple[str, ...]]:
    source = select.args.get("from_")
    if source is None:
        refuse("The statement names no dataset: FROM is missing")
    table = source.this
    if isinstance(table, exp.Subquery | exp.Select):
        refuse("A query after FROM chooses and filters columns of one dataset, without aggregates of its own")
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        refuse("FROM is followed by the name of one dataset")
    name = str(table.this.this)
    if table.args.get("joins"):
        refuse(JOINS, name)
    if not only(table, "this", "db", "catalog", "alias"):
        refuse("FROM is followed by the name of one dataset, and by nothing but an alias", name)
    names = (name, *table_alias(table))
    owner = table.args.get("db")
    if owner is not None and not table.args.get("catalog") and name.lower() == "people":
        table.set("db", None)
        return f"{owner.this}.people", names
    if owner is not None or table.args.get("catalog"):
        refuse(f"A dataset has one name without dots; quote it if it has odd characters: {shown(name)}")
    return name, names


def _check_clauses(select: exp.Select, table: str) -> None:
    for clause, part in select.args.items():
        if part in (None, False, []) or clause in KNOWN_CLAUSES:
            continue
        refuse(CLAUSES.get(clause, f"{clause.strip('_').upper()} is not known here: leave it out"), table)
    limit, order = select.args.get("limit"), select.args.get("order")
    if isinstance(limit, exp.Limit) and not only(limit, "expression", "limit_options"):
        refuse("LIMIT takes one number: leave out what stands behind it", table)
    keys = [] if order is None else order.expressions
    if order is not None and not (only(order, "expressions") and all(only(key, *SORTED) for key in keys)):
        refuse("ORDER BY takes columns with ASC or DESC: leave out what stands behind them", table)


SORTED = ("this", "desc", "nulls_first")
KINDS = ("", "INNER", "OUTER")
SIDES = ("", "LEFT")


NamedJoin: TypeAlias = tuple[str, Join]
"""A declared join under the name by which a statement calls its table."""


def without_joins(statement: Statement, declared: Sequence[Join]) -> Statement:
    """The statement over the dataset alone; QueryError with what is declared for a join that is not.

    A row without a partner counts with NULL in what the table gives, whether JOIN or LEFT JOIN is written.
    """
    if not statement.select.args.get("joins"):
        return statement
    select = statement.select.copy()
    named: list[NamedJoin] = []
    for clause in select.args.get("joins") or []:
        named.append(_declared(clause, statement, named, declared))
    select.set("joins", None)
    columns = {
        table.lower(): {column.lower(): name for name, column in join.attributes.items()} for table, join in named
    }
    for node in list(select.find_all(exp.Column)):
        given = columns.get(node.table.lower())
        if given is None:
            continue
        name = given.get(node.name.lower(), node.name if node.name in given.values() else None)
        if name is None:
            raise QueryError(f"{node.table} gives no {shown(node.name)}; {suggest(node.name, given)}")
        node.replace(exp.column(exp.to_identifier(name, quoted=True)))
    return replace(statement, select=select)


def _declared(clause: exp.Join, statement: Statement, named: list[NamedJoin], declared: Sequence[Join]) -> NamedJoin:
    """The declared join that one JOIN clause writes."""
    table = clause.this
    is_plain = (
        isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier) and only(table, "this", "db", "alias")
    )
    side, kind = (str(clause.args.get(part) or "").upper() for part in ("side", "kind"))
    if (
        not is_plain
        or side not in SIDES
        or kind not in KINDS
        or not only(clause, "this", "side", "kind", "on", "using")
    ):
        _refuse("a join is written JOIN table USING (key) or LEFT JOIN table ON foreign_key = key", statement, declared)
    table_alias(table)
    full = f"{table.db}.{table.name}" if table.db else table.name
    candidates = [join for join in declared if join.table.lower() in (full.lower(), table.name.lower())]
    if not candidates:
        _refuse(f"{shown(full)} is not joined to {statement.table}", statement, declared)
    compared = _compared(clause, table.alias_or_name)
    for join in candidates:
        if compared is not None and _fits(join, compared, statement, named):
            return table.alias_or_name, join
    _refuse(f"{shown(full)} is joined by other keys", statement, declared)


def _compared(clause: exp.Join, name: str) -> tuple[str, str, str] | None:
    """The key of the joined table, then the qualifier and the name of what is compared with it."""
    using, condition = clause.args.get("using") or [], clause.args.get("on")
    if len(using) == 1 and condition is None:
        return using[0].name, "", using[0].name
    condition = condition.unnest() if condition is not None else None
    if using or not isinstance(condition, exp.EQ):
        return None
    sides = [condition.this.unnest(), condition.expression.unnest()]
    if not all(isinstance(side, exp.Column) for side in sides):
        return None
    inner = [side for side in sides if side.table.lower() == name.lower()]
    outer = [side for side in sides if side.table.lower() != name.lower()]
    if not inner:
        # Neither side says whose it is: the key stands second, as after USING.
        outer, inner = sides[:1], sides[1:] if not sides[1].table else []
    return (inner[0].name, outer[0].table, outer[0].name) if inner and outer else None


def _fits(join: Join, compared: tuple[str, str, str], statement: Statement, named: list[NamedJoin]) -> bool:
    key, qualifier, foreign = compared
    if key.lower() != join.key.lower():
        return False
    owner = next((one for one in named if one[1].gives(join)), None)
    names = [join.foreign_key, *([] if owner is None else [owner[1].attributes[join.foreign_key]])]
    callers = statement.names if owner is None else (*statement.names, owner[0])
    return foreign.lower() in map(str.lower, names) and qualifier.lower() in ("", *map(str.lower, callers))


def _refuse(reason: str, statement: Statement, declared: Sequence[Join]) -> NoReturn:
    """Refuses with the joins that work; attributes of a declared join need none."""
    works = [f"JOIN {join.table} ON {join.foreign_key} = {join.table}.{join.key}" for join in declared]
    listed = f"declared are {'; '.join(works)}" if works else "no join is declared: name the dataset alone"
    raise QueryError(f"{reason}. Joins are declared by the curator; of {statement.table}, {listed}.")
