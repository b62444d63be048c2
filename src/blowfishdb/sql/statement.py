"""Reads one SELECT: its dataset, its parts and its options. The text is parsed, never executed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from blowfishdb.errors import QueryError
from blowfishdb.sql.literals import only
from blowfishdb.sql.options import Accuracy, read_options
from blowfishdb.sql.refusals import CLAUSES, refuse, shown

LONGEST_STATEMENT = 20_000
DEEPEST = 40
MOST_PREFIXES = 40
"""So many signs or NOTs may stand in a row: each costs the parser a level."""
PREFIXES = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)
OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
KNOWN_CLAUSES = ("expressions", "from_", "where", "group")


@dataclass(frozen=True, eq=False)
class Statement:
    """One SELECT of one dataset. `explain` asks for the preview, which costs nothing."""

    explain: bool
    table: str
    options: Accuracy
    select: exp.Select = field(repr=False)
    names: tuple[str, ...]
    """The dataset's name and its alias: what may stand before an attribute and a dot."""
    text: str
    """The SELECT as it was written, without EXPLAIN and OPTIONS."""


def parse(text: str) -> Statement:
    """The statement that the text writes; QueryError with the nearest thing that works."""
    if not isinstance(text, str) or not text.strip():
        refuse("An SQL statement is expected")
    if len(text) > LONGEST_STATEMENT:
        raise QueryError(f"a statement has at most {LONGEST_STATEMENT:,} characters, not {len(text):,}")
    try:
        return _parsed(text)
    except RecursionError:
        raise QueryError("the statement is nested too deeply; write conditions side by side with AND and OR") from None


def _parsed(text: str) -> Statement:
    tokens, explain = _tokens(text), False
    if tokens and tokens[0].token_type == TokenType.COMMAND and tokens[0].text.upper() == "EXPLAIN":
        explain, text = True, text[tokens[0].end + 1 :]
        tokens = _tokens(text)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens:
        refuse("An SQL statement is expected")
    if any(token.token_type == TokenType.SEMICOLON for token in tokens):
        refuse("One statement at a time")
    if tokens[0].token_type != TokenType.SELECT:
        _refuse_first(tokens[0])
    _check_depth(tokens)
    body, options = _without_options(tokens)
    written = text[body[0].start : body[-1].end + 1]
    select = _select(written)
    table, names = _table(select)
    _check_clauses(select, table)
    return Statement(explain, table, read_options(options), select, names, written)


def _tokens(text: str) -> Sequence[Token]:
    try:
        return sqlglot.tokenize(text)
    except SqlglotError:
        refuse("The statement cannot be read: a quote or a comment is left open")


def _refuse_first(token: Token) -> None:
    word = token.text.split(maxsplit=1)[0].upper() if token.text.strip() else ""
    if word == "WITH":
        refuse(CLAUSES["with_"])
    if word in ("ANALYZE", "ANALYSE"):
        raise QueryError("EXPLAIN shows the preview and never runs anything: write EXPLAIN SELECT ...")
    refuse(f"Only SELECT and EXPLAIN SELECT are known, not {shown(word)}")


def _check_depth(tokens: Sequence[Token]) -> None:
    depth = prefixes = 0
    for token in tokens:
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        prefixes = prefixes + 1 if token.token_type in PREFIXES else 0
        if depth > DEEPEST or prefixes > MOST_PREFIXES:
            raise QueryError(f"the statement is nested more than {DEEPEST} deep; write conditions side by side")


def _without_options(tokens: Sequence[Token]) -> tuple[Sequence[Token], Sequence[Token]]:
    """The SELECT itself, and what stands between the brackets of OPTIONS (...) at its end."""
    for place, (word, bracket) in enumerate(pairwise(tokens)):
        named = word.token_type != TokenType.IDENTIFIER and word.text.upper() == "OPTIONS"
        if place and named and word.token_type != TokenType.STRING and bracket.token_type == TokenType.L_PAREN:
            if tokens[-1].token_type != TokenType.R_PAREN:
                raise QueryError("OPTIONS (...) ends the statement: OPTIONS (alpha = 50, beta = 0.05)")
            return tokens[:place], tokens[place + 2 : -1]
    return tokens, ()


def _select(text: str) -> exp.Select:
    try:
        tree = sqlglot.parse_one(text)
    except SqlglotError as error:
        refuse(f"The statement cannot be read{_place(error)}")
    except (ValueError, TypeError, AttributeError, IndexError, KeyError):
        # The parser trips over some malformed texts; what it says then is of no use.
        refuse("The statement cannot be read")
    if not isinstance(tree, exp.Select):
        refuse("UNION and the like are not known here: ask one question at a time")
    return tree


def _place(error: SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if not details:
        return ""
    found = details[0].get("highlight") or ""
    near = f", near {shown(found)}" if found else ""
    return f" (line {details[0].get('line')}, column {details[0].get('col')}{near})"


def _table(select: exp.Select) -> tuple[str, tuple[str, ...]]:
    source = select.args.get("from_")
    if source is None:
        refuse("The statement names no dataset: FROM is missing")
    table = source.this
    if isinstance(table, exp.Subquery | exp.Select):
        refuse("Subqueries are not known here: name one dataset after FROM")
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        refuse("FROM is followed by the name of one dataset")
    name = str(table.this.this)
    if table.args.get("joins"):
        refuse(CLAUSES["joins"], name)
    if table.args.get("db") or table.args.get("catalog"):
        refuse(f"A dataset has one name without dots; quote it if it has odd characters: {shown(name)}")
    if not only(table, "this", "alias"):
        refuse("FROM is followed by the name of one dataset, and by nothing but an alias", name)
    alias = table.args.get("alias")
    if alias is not None and not only(alias, "this"):
        refuse("An alias of a dataset is one name", name)
    return name, (name, str(alias.this.this)) if alias is not None else (name,)


def _check_clauses(select: exp.Select, table: str) -> None:
    for clause, part in select.args.items():
        if part in (None, False, []) or clause in KNOWN_CLAUSES:
            continue
        refuse(CLAUSES.get(clause, f"{clause.strip('_').upper()} is not known here: leave it out"), table)
