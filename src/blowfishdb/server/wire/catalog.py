"""The catalog that tools look into: pg_catalog and information_schema over declarations, answered from memory.

Tables of an in-memory DuckDB hold names, types and comments of the analyst's datasets, and nothing else. A look-up is
parsed, may name these tables and a list of functions alone, and runs without files, network or much memory.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from blowfishdb.catalog.dataset import attribute_words
from blowfishdb.errors import BlowfishError, QueryError, TooExpensive, TooLarge, amount
from blowfishdb.incidents import curator_log
from blowfishdb.model.conditions import check_depth
from blowfishdb.model.domain import Attribute, Bins, Integers
from blowfishdb.present.answer_values import software_version
from blowfishdb.server.auth.grants import Principal
from blowfishdb.server.state import AppState
from blowfishdb.server.wire.messages import BOOL, FLOAT8, INT4, INT8, TEXT, PortColumn, WireValue
from blowfishdb.server.worker_pools import turn
from blowfishdb.session.backend import Budget
from blowfishdb.sql.statement import LONGEST_SCRIPT, LONGEST_STATEMENT

VERSION = "15.0"
"""The version of PostgreSQL whose catalog tools expect to find."""
SETTINGS = {
    "server_version": VERSION,
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
    "search_path": "public",
    "transaction_isolation": "read committed",
    "max_index_keys": "32",
}
"""What clients are told at the start, find by SHOW, and in pg_settings."""
DATABASE = "blowfish"
FIRST_OID = 16_384
PUBLIC, PG_CATALOG, INFORMATION_SCHEMA, OWNER = 2200, 11, 13_000, 10
PATIENCE = 5.0
"""Seconds after which a look-up is given up."""
MOST_ROWS = 100_000
LARGEST_LOOK_UP = 16 * 2**20
"""Characters of the rows of a look-up."""
PIECE = 1000
MOST_CATALOGS = 16
"""Analysts whose catalogs are kept ready."""

SHAPES = """
pg_namespace oid:o nspname nspowner:o nspacl:l
pg_class oid:o relname relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o reltablespace:o relpages:i
  reltuples:f reltoastrelid:o relhasindex:b relisshared:b relpersistence relkind relnatts:i relchecks:i relhasrules:b
  relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b relispopulated:b relreplident
  relispartition:b relacl:l reloptions:l relpartbound
pg_attribute attrelid:o attname atttypid:o attstattarget:i attlen:i attnum:i attndims:i atttypmod:i attnotnull:b
  atthasdef:b attidentity attgenerated attisdropped:b attislocal:b attcollation:o attcompression attstorage attacl:l
  attoptions:l attfdwoptions:l attmissingval
pg_type oid:o typname typnamespace:o typowner:o typlen:i typbyval:b typtype typcategory typisdefined:b typdelim
  typrelid:o typelem:o typarray:o typbasetype:o typtypmod:i typcollation:o typnotnull:b typndims:i typinput typoutput
  typreceive typdefault typsubscript
pg_description objoid:o classoid:o objsubid:i description
pg_database oid:o datname datdba:o encoding:i datlocprovider datistemplate:b datallowconn:b datcollate datctype
  daticulocale datacl:l dattablespace:o
pg_roles oid:o rolname rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolconnlimit:i
  rolvaliduntil rolreplication:b rolbypassrls:b
pg_auth_members roleid:o member:o grantor:o admin_option:b
pg_settings name setting unit category short_desc context vartype source
pg_attrdef oid:o adrelid:o adnum:i adbin
pg_index indexrelid:o indrelid:o indnatts:i indnkeyatts:i indisunique:b indisprimary:b indisexclusion:b
  indimmediate:b indisclustered:b indisvalid:b indisready:b indislive:b indisreplident:b indnullsnotdistinct:b
  indkey:v indcollation:v indclass:v indoption:v indexprs indpred
pg_constraint oid:o conname connamespace:o contype condeferrable:b condeferred:b convalidated:b conrelid:o contypid:o
  conindid:o conparentid:o confrelid:o confupdtype confdeltype confmatchtype conislocal:b coninhcount:i
  connoinherit:b conkey:v confkey:v conbin confdelsetcols:v
pg_inherits inhrelid:o inhparent:o inhseqno:i inhdetachpending:b
pg_am oid:o amname amhandler amtype
pg_collation oid:o collname collnamespace:o collprovider collisdeterministic:b collencoding:i collcollate collctype
pg_proc oid:o proname pronamespace:o proowner:o prolang:o prokind proretset:b prorettype:o proargtypes:v proargnames:l
  proargmodes:l provolatile prosrc pronargs:i proisagg:b
pg_trigger oid:o tgrelid:o tgparentid:o tgname tgfoid:o tgtype:i tgenabled tgisinternal:b tgconstrrelid:o
  tgconstraint:o tgdeferrable:b tginitdeferred:b tgnargs:i
pg_rewrite oid:o rulename ev_class:o ev_type ev_enabled is_instead:b
pg_policy oid:o polname polrelid:o polcmd polpermissive:b polroles:v polqual polwithcheck
pg_statistic_ext oid:o stxrelid:o stxname stxnamespace:o stxowner:o stxstattarget:i stxkeys:v stxkind:l stxexprs
pg_publication oid:o pubname puballtables:b pubviaroot:b
pg_publication_rel oid:o prpubid:o prrelid:o prqual prattrs:v
pg_publication_namespace oid:o pnpubid:o pnnspid:o
pg_foreign_table ftrelid:o ftserver:o ftoptions
pg_foreign_server oid:o srvname
pg_tablespace oid:o spcname spcowner:o
pg_enum oid:o enumtypid:o enumsortorder:f enumlabel
pg_range rngtypid:o rngsubtype:o
pg_extension oid:o extname extowner:o extnamespace:o extversion
pg_sequence seqrelid:o seqtypid:o seqstart:o seqincrement:o seqmax:o seqmin:o seqcache:o seqcycle:b
pg_cursors name statement is_holdable:b is_binary:b is_scrollable:b creation_time
pg_depend classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype
pg_shdescription objoid:o classoid:o description
pg_language oid:o lanname
pg_opclass oid:o opcname opcmethod:o opcdefault:b
pg_views schemaname viewname viewowner definition
pg_matviews schemaname matviewname matviewowner definition
pg_indexes schemaname tablename indexname tablespace indexdef
views table_catalog table_schema table_name view_definition
sequences sequence_catalog sequence_schema sequence_name
routines specific_schema specific_name routine_schema routine_name routine_type data_type
table_constraints constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name
  constraint_type is_deferrable initially_deferred
key_column_usage constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name
  column_name ordinal_position:i position_in_unique_constraint:i
constraint_column_usage table_catalog table_schema table_name column_name constraint_catalog constraint_schema
  constraint_name
referential_constraints constraint_catalog constraint_schema constraint_name unique_constraint_catalog
  unique_constraint_schema unique_constraint_name match_option update_rule delete_rule
"""
"""Tables and their columns: o oid, i integer, f double, b boolean, v list of integers, l of texts, and else text."""
KINDS = {
    "o": "BIGINT",
    "i": "INTEGER",
    "f": "DOUBLE",
    "b": "BOOLEAN",
    "v": "INTEGER[]",
    "l": "VARCHAR[]",
    "": "VARCHAR",
}

VIEWS = {
    "pg_tables": """SELECT n.nspname AS schemaname, c.relname AS tablename, 'blowfish' AS tableowner,
        NULL::VARCHAR AS tablespace, false AS hasindexes, false AS hasrules, false AS hastriggers, false AS rowsecurity
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace""",
    "pg_user": "SELECT rolname AS usename, oid AS usesysid, false AS usecreatedb, rolsuper AS usesuper FROM pg_roles",
    "schemata": """SELECT 'blowfish' AS catalog_name, nspname AS schema_name, 'blowfish' AS schema_owner
        FROM pg_namespace""",
    "tables": """SELECT 'blowfish' AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
        'BASE TABLE' AS table_type, 'NO' AS is_insertable_into FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace""",
    "columns": """SELECT 'blowfish' AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
        a.attname AS column_name, a.attnum AS ordinal_position, NULL::VARCHAR AS column_default,
        'YES' AS is_nullable, format_type(a.atttypid, -1) AS data_type, NULL::INTEGER AS character_maximum_length,
        NULL::INTEGER AS numeric_precision, NULL::INTEGER AS numeric_scale, NULL::INTEGER AS datetime_precision,
        t.typname AS udt_name, 'pg_catalog' AS udt_schema, 'NO' AS is_identity, 'NEVER' AS is_generated,
        NULL::VARCHAR AS domain_name, NULL::VARCHAR AS collation_name, 'NO' AS is_updatable
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_type t ON t.oid = a.atttypid""",
}

MACROS = {
    "format_type(kind, modifier)": """coalesce((SELECT CASE typname WHEN 'int8' THEN 'bigint' WHEN 'int4' THEN 'integer'
        WHEN 'float8' THEN 'double precision' WHEN 'bool' THEN 'boolean' ELSE typname END
        FROM pg_type WHERE oid = kind), '???')""",
    "pg_get_userbyid(role)": "'blowfish'",
    "pg_table_is_visible(relation)": "true",
    "pg_type_is_visible(kind)": "true",
    "pg_function_is_visible(function)": "true",
    "pg_collation_is_visible(collation)": "true",
    "to_regtype(name)": "NULL::BIGINT",
    "pg_is_other_temp_schema(space)": "false",
    "pg_my_temp_schema()": "0",
    "pg_relation_is_publishable(relation)": "false",
    "has_schema_privilege(a, b := '', c := '')": "true",
    "has_table_privilege(a, b := '', c := '')": "true",
    "has_database_privilege(a, b := '', c := '')": "true",
    "pg_get_expr(node, relation, pretty := true)": "NULL::VARCHAR",
    "pg_get_constraintdef(entry, pretty := true)": "NULL::VARCHAR",
    "pg_get_indexdef(entry, place := 0, pretty := true)": "NULL::VARCHAR",
    "pg_get_viewdef(entry, pretty := true)": "NULL::VARCHAR",
    "pg_get_ruledef(entry, pretty := true)": "NULL::VARCHAR",
    "pg_get_triggerdef(entry, pretty := true)": "NULL::VARCHAR",
    "pg_get_partkeydef(entry)": "NULL::VARCHAR",
    "pg_get_statisticsobjdef_columns(entry)": "NULL::VARCHAR",
    "pg_get_function_result(entry)": "NULL::VARCHAR",
    "pg_get_function_arguments(entry)": "NULL::VARCHAR",
    "pg_get_serial_sequence(a, b)": "NULL::VARCHAR",
    "pg_encoding_to_char(number)": "'UTF8'",
    "pg_backend_pid()": "0",
    "pg_is_in_recovery()": "false",
    "pg_size_pretty(size)": "'0 bytes'",
    "pg_table_size(relation)": "0",
    "pg_relation_size(relation)": "0",
    "pg_total_relation_size(relation)": "0",
    "pg_database_size(name)": "0",
    "pg_tablespace_location(space)": "''",
    "array_upper(list, dimension)": "len(list)",
    "quote_ident(name)": """CASE WHEN regexp_full_match(name, '[a-z_][a-z0-9_]*') THEN name
        ELSE '"' || replace(name, '"', '""') || '"' END""",
    "obj_description(object, catalog := 'pg_class')": """(SELECT any_value(description) FROM pg_description
        WHERE objoid = object AND objsubid = 0)""",
    "shobj_description(object, catalog := '')": "NULL::VARCHAR",
    "col_description(object, place)": """(SELECT any_value(description) FROM pg_description
        WHERE objoid = object AND objsubid = place)""",
    "to_regclass(name)": """CASE parse_path(replace(replace(name, '"', ''), '.', '/'))[-1] WHEN 'pg_class' THEN 1259
        WHEN 'pg_namespace' THEN 2615 WHEN 'pg_type' THEN 1247 WHEN 'pg_constraint' THEN 2606 WHEN 'pg_proc' THEN 1255
        ELSE (SELECT any_value(oid) FROM pg_class
              WHERE relname = parse_path(replace(replace(name, '"', ''), '.', '/'))[-1]) END""",
    "regclass_name(relation)": "(SELECT any_value(relname) FROM pg_class WHERE oid = relation)",
    "current_schema()": "'public'",
    "current_schemas(implicit)": "CASE WHEN implicit THEN ['pg_catalog', 'public'] ELSE ['public'] END",
    "current_database()": f"'{DATABASE}'",
    "current_catalog()": f"'{DATABASE}'",
    "version()": f"'PostgreSQL {VERSION} (BlowfishDB {software_version()})'",
    "set_config(name, setting, is_local)": "setting",
    "current_setting(wanted, missing_ok := false)": """coalesce(
        (SELECT any_value(setting) FROM pg_settings WHERE name = lower(wanted)), '')""",
    "pg_postmaster_start_time()": "NULL::TIMESTAMP",
    "txid_current()": "0",
    "inet_server_addr()": "NULL::VARCHAR",
    "inet_server_port()": "NULL::INTEGER",
    "pg_stat_get_numscans(relation)": "0",
}
"""Functions of PostgreSQL and what stands for them here."""
EMPTY_ARRAY = re.compile(r"\{\d*\}")
PREFIX = "wire_"
"""Stands before the names of macros, so that none is mistaken for a function of the engine."""
SYNONYMS = {"current_version": "version"}
"""Functions that sqlglot calls by another name."""
CALLED = {signature.partition("(")[0] for signature in MACROS}
ENGINE_FUNCTIONS = """
abs all any array array_agg array_concat array_length array_position array_size array_to_string case cast coalesce
concat count current_date current_timestamp distinct exists explode explode_outer exploding_generate_series
generate_series generate_subscripts greatest group_concat if j_s_o_n_object json_build_object json_object least length
logical_and logical_or lower lpad max min now nullif regexp_like regexp_replace replace round row_number rpad
split_part starts_with str_position str_to_map string_agg substring sum to_char trim try_cast unnest upper
"""
"""Functions of the engine that a look-up may call, by sqlglot's names."""
FUNCTIONS = frozenset(ENGINE_FUNCTIONS.split())
TYPES = [
    (BOOL, "bool", 1, "B"),
    (INT8, "int8", 8, "N"),
    (INT4, "int4", 4, "N"),
    (TEXT, "text", -1, "S"),
    (FLOAT8, "float8", 8, "N"),
    (26, "oid", 4, "N"),
    (19, "name", 64, "S"),
    (1043, "varchar", -1, "S"),
    (1700, "numeric", -1, "N"),
    (1082, "date", 4, "D"),
    (1114, "timestamp", 8, "D"),
]
FAMILIES = {
    "BOOLEAN": BOOL,
    "BIGINT": INT8,
    "HUGEINT": INT8,
    "INTEGER": INT4,
    "SMALLINT": INT4,
    "DOUBLE": FLOAT8,
    "DECIMAL": FLOAT8,
}


def type_of(attribute: Attribute) -> int:
    """The number of the type as which a declared attribute is shown."""
    return INT8 if isinstance(attribute, Integers) else FLOAT8 if isinstance(attribute, Bins) else TEXT


@dataclass(frozen=True)
class Listed:
    """One dataset as the catalog shows it: its comment, and names, types and comments of its columns."""

    name: str
    comment: str
    columns: tuple[tuple[str, int, str], ...]


def listed_datasets(app_state: AppState, identity: Principal) -> tuple[Listed, ...]:
    """The datasets that this analyst may ask now; what is paused or not in force does not show."""
    session = app_state.session_of(identity, "ask")
    datasets = []
    for name in session.datasets():
        try:
            app_state.pauses.check(name)
            table, budget = session[name], session.budget(name)
        except BlowfishError:
            continue
        policy = table.policy
        whole = budget.limit or budget.dataset_limit
        left = budget_left(budget) + ("" if whole is None else f" of {amount(whole)}")
        comment = "\n".join([f"{left}.", *table.policy_words()])
        columns = tuple(
            (column, type_of(attribute), attribute_words(attribute, policy.family(column), policy.presence))
            for column, attribute in table.domain.attributes
        )
        datasets.append(Listed(name, comment, columns))
    return tuple(datasets)


def budget_left(budget: Budget) -> str:
    """What an analyst may still spend; what they spent where only the curator knows."""
    if budget.remaining is None:
        return f"epsilon {amount(budget.spent)} spent"
    return f"epsilon {amount(budget.remaining)} left"


def _shapes() -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for line in SHAPES.strip().replace("\n  ", " ").splitlines():
        name, *columns = line.split()
        tables[name] = {column: KINDS[kind] for column, _, kind in (part.partition(":") for part in columns)}
    return tables


TABLES = _shapes()
FILLED = "pg_am pg_attribute pg_class pg_database pg_description pg_namespace pg_roles pg_settings pg_type"
EMPTY = frozenset(TABLES).difference(FILLED.split())
"""Tables that are always empty here."""
NAMES = frozenset({*TABLES, *VIEWS})
SCHEMAS = ("pg_catalog", "information_schema", "")


def _filled(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[dict[str, Any]]) -> None:
    """Inserts rows; columns that they do not name are false, 0 or empty, by their types."""
    usual = {"BOOLEAN": False, "BIGINT": 0, "INTEGER": 0, "DOUBLE": -1.0}
    if rows:
        shape = TABLES[table]
        values = [row.get(name, usual.get(kind)) for row in rows for name, kind in shape.items()]
        marks = ", ".join([f"({', '.join('?' * len(shape))})"] * len(rows))
        connection.execute(f"INSERT INTO {table} VALUES {marks}", values)


def built(datasets: Iterable[Listed], analyst: str) -> duckdb.DuckDBPyConnection:
    """A new catalog in memory, which opens no file and whose settings nobody changes any more."""
    connection = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "128MB"})
    statements = [
        f"CREATE TABLE {name} ({', '.join(f'{column} {kind}' for column, kind in columns.items())})"
        for name, columns in TABLES.items()
    ]
    statements += [f"CREATE MACRO {PREFIX}{signature} AS {body}" for signature, body in MACROS.items()]
    statements += [
        f"CREATE VIEW {name} AS {body.replace('format_type', f'{PREFIX}format_type')}" for name, body in VIEWS.items()
    ]
    connection.execute(f"BEGIN; {'; '.join(statements)}")
    spaces = ((PUBLIC, "public"), (PG_CATALOG, "pg_catalog"), (INFORMATION_SCHEMA, "information_schema"))
    relations, attributes, comments = [], [], []
    for oid, dataset in enumerate(datasets, FIRST_OID):
        relation = {"oid": oid, "relname": dataset.name, "relnamespace": PUBLIC, "relowner": OWNER, "relkind": "r"}
        relations.append(relation | {"relpersistence": "p", "relreplident": "d", "relnatts": len(dataset.columns)})
        comments.append({"objoid": oid, "classoid": 1259, "description": dataset.comment})
        for place, (column, kind, comment) in enumerate(dataset.columns, 1):
            attribute = {"attrelid": oid, "attname": column, "atttypid": kind, "attnum": place, "atttypmod": -1}
            attributes.append(
                attribute | {"attidentity": "", "attgenerated": "", "attstorage": "p", "attislocal": True}
            )
            comments.append({"objoid": oid, "classoid": 1259, "objsubid": place, "description": comment})
    types = [
        {"oid": oid, "typname": name, "typnamespace": PG_CATALOG, "typowner": OWNER, "typlen": size, "typtype": "b"}
        | {"typcategory": category, "typisdefined": True, "typdelim": ",", "typtypmod": -1}
        for oid, name, size, category in TYPES
    ]
    rows: dict[str, Sequence[dict[str, Any]]] = {
        "pg_namespace": [{"oid": oid, "nspname": name, "nspowner": OWNER} for oid, name in spaces],
        "pg_class": relations,
        "pg_attribute": attributes,
        "pg_description": comments,
        "pg_type": types,
        "pg_database": [{"oid": 1, "datname": DATABASE, "datdba": OWNER, "encoding": 6, "datallowconn": True}],
        "pg_roles": [{"oid": 10, "rolname": "blowfish"}, {"oid": 100, "rolname": analyst, "rolcanlogin": True}],
        "pg_settings": [{"name": name.lower(), "setting": setting} for name, setting in SETTINGS.items()],
        "pg_am": [{"oid": 2, "amname": "heap", "amtype": "t"}],
    }
    for table, content in rows.items():
        _filled(connection, table, content)
    connection.execute("COMMIT; SET enable_external_access = false; SET lock_configuration = true")
    return connection


@dataclass(frozen=True, eq=False)
class Catalogs:
    """The catalogs of the analysts who looked into one last, each made anew when what it shows has changed."""

    app_state: AppState
    _ready: OrderedDict[str, tuple[tuple[Listed, ...], duckdb.DuckDBPyConnection]] = field(default_factory=OrderedDict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def rows(
        self, tree: exp.Expression, identity: Principal
    ) -> tuple[tuple[PortColumn, ...], list[tuple[WireValue, ...]]]:
        """Columns and rows of a look-up."""
        if _is_empty(tree):
            return tuple(PortColumn(item.alias or _heading(item)) for item in cast(Any, tree).selects), []
        statement = allowed(tree, identity.name).sql("duckdb")
        cursor = self._catalog(identity).cursor()
        timer = threading.Timer(PATIENCE, cursor.interrupt)
        timer.start()
        try:
            with turn.waiting():
                cursor.execute(statement)
            columns = tuple(
                PortColumn(part[0], FAMILIES.get(str(part[1]).partition("(")[0], TEXT))
                for part in cursor.description or ()
            )
            rows = _fetched(cursor)
        except (duckdb.InterruptException, duckdb.OutOfMemoryException):
            raise TooExpensive("this catalog query takes too long. Ask for less.") from None
        except duckdb.Error as error:
            curator_log.info("a catalog query failed: %s", error)
            raise QueryError("this catalog query is not supported: the catalog has tables, columns and types") from None
        finally:
            timer.cancel()
            cursor.close()
        return columns, rows

    def _catalog(self, identity: Principal) -> duckdb.DuckDBPyConnection:
        datasets, analyst = listed_datasets(self.app_state, identity), identity.name
        with self._turn:
            known = self._ready.pop(analyst, None)
            if known is None or known[0] != datasets:
                known = (datasets, built(datasets, analyst))
            self._ready[analyst] = known
            while len(self._ready) > MOST_CATALOGS:
                self._ready.popitem(last=False)
            return known[1]


def _fetched(cursor: duckdb.DuckDBPyConnection) -> list[tuple[WireValue, ...]]:
    """The rows of a look-up; TooLarge as soon as there are too many."""
    rows: list[tuple[WireValue, ...]] = []
    size = 0
    while piece := _piece(cursor):
        rows += [tuple(map(_cell, row)) for row in piece]
        size += sum(len(cell) for row in rows[-len(piece) :] for cell in row if isinstance(cell, str))
        if len(rows) > MOST_ROWS:
            raise TooLarge("rows of a look-up", len(rows), MOST_ROWS, "Ask for less.")
        if size > LARGEST_LOOK_UP:
            raise TooLarge("characters of a look-up", size, LARGEST_LOOK_UP, "Ask for less.")
    return rows


def _piece(cursor: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    """The next rows. Whoever else computes goes on between two pieces."""
    with turn.waiting():
        return cursor.fetchmany(PIECE)


def _cell(value: object) -> WireValue:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Decimal):
        return float(value)
    return "{" + ",".join(map(str, value)) + "}" if isinstance(value, list) else str(value)


@lru_cache(maxsize=16)
def tokens_of(text: str) -> tuple[Token, ...]:
    """The words of a text; QueryError where it cannot be read. Each step of a statement looks at them again."""
    if len(text) > LONGEST_SCRIPT:
        raise QueryError(f"statements have at most {LONGEST_SCRIPT:,} characters")
    try:
        return tuple(sqlglot.tokenize(text, read="postgres"))
    except (SqlglotError, ValueError, RecursionError):
        raise QueryError("the statement cannot be read: a quote or a comment is left open") from None


def catalog_tree(text: str) -> exp.Expression | None:
    """The parsed statement where it names tables of the catalog alone, or none at all; None for anything else."""
    if len(text) > LONGEST_STATEMENT:
        return None
    try:
        tokens = tokens_of(text)
        if names_a_dataset(tokens):
            return None
        check_depth(tokens)
        tree = sqlglot.parse_one(text, read="postgres")
    except (SqlglotError, ValueError, TypeError, AttributeError, IndexError, KeyError, RecursionError):
        return None
    if not isinstance(tree, exp.Select | exp.SetOperation) or tree.find(exp.DML, exp.DDL, exp.Command, exp.Into):
        return None
    local = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        is_local = not table.db and table.name in local
        is_call = isinstance(table.this, exp.Func)
        if not is_local and not is_call and not (table.name in NAMES and table.db in SCHEMAS and not table.catalog):
            return None
    return tree


def names_a_dataset(tokens: Sequence[Token]) -> bool:
    """Whether FROM is followed by a name that no catalog has, which is seen without parsing the statement."""
    is_plain = all(token.token_type != TokenType.WITH for token in tokens)
    sources = [after for word, after in pairwise(tokens) if word.token_type == TokenType.FROM]
    names = [token.text.lower() for token in sources if token.token_type in (TokenType.VAR, TokenType.IDENTIFIER)]
    return is_plain and any(name not in NAMES and name not in SCHEMAS and name not in FUNCTIONS for name in names)


def allowed(tree: exp.Expression, analyst: str) -> exp.Query:
    """The look-up for the engine; QueryError for a function that is not on the list."""
    root = exp.Subquery(this=tree.copy())
    for item in list(root.this.selects):
        if not isinstance(item, exp.Alias | exp.Column | exp.Star):
            item.replace(exp.alias_(item.copy(), _heading(item), quoted=True))
    # Children before their parents, so that every node is looked at before it moves into another.
    for node in reversed(list(root.this.walk(bfs=False))):
        rewritten = _rewritten(node, analyst)
        if rewritten is not node:
            node.replace(rewritten)
    for inner in list(root.find_all(exp.Subquery)):
        is_value = not isinstance(inner.parent, exp.From | exp.Join | exp.In | exp.Exists | None)
        if is_value and _is_empty(inner.this):
            inner.replace(exp.null())
    return cast(exp.Query, root.this)


def _is_empty(look_up: Any) -> bool:
    """Whether a look-up asks for what never exists here: indexes, constraints, publications."""
    if isinstance(look_up, exp.Table):
        return look_up.name in EMPTY
    if isinstance(look_up, exp.Subquery):
        return _is_empty(look_up.this)
    if isinstance(look_up, exp.SetOperation):
        return _is_empty(look_up.left) and _is_empty(look_up.right)
    if not isinstance(look_up, exp.Select) or any(
        part.parent_select is look_up for item in look_up.selects for part in item.find_all(exp.AggFunc)
    ):
        return False
    joins = [join.this for join in look_up.args.get("joins") or () if not join.side]
    sources = [look_up.args["from_"].this, *joins] if look_up.args.get("from_") is not None else []
    return any(map(_is_empty, sources))


def _heading(item: exp.Expression) -> str:
    """The heading that PostgreSQL gives a column without a name."""
    called = item.expression if isinstance(item, exp.Dot) else item
    if isinstance(called, exp.Cast):
        return _heading(called.this)
    if isinstance(called, exp.Func) and not isinstance(called, exp.Case | exp.Connector):
        return _called(called)
    return called.name if isinstance(called, exp.Column) else "?column?"


def _rewritten(node: Any, analyst: str) -> Any:
    match node:
        case exp.Table() | exp.Column() if node.args.get("db"):
            node.set("db", None)
        case exp.Dot() if isinstance(node.expression, exp.Func):
            return node.expression
        case exp.Literal() if node.is_string and EMPTY_ARRAY.fullmatch(node.this):
            return exp.Literal.string(f"[{node.this[1:-1]}]")
        case exp.Collate():
            return node.this
        case exp.Operator():
            return exp.RegexpLike(this=node.this, expression=node.expression)
        case exp.Cast():
            return _cast(node)
        case exp.CurrentUser() | exp.SessionUser():
            return exp.Literal.string(analyst)
        case exp.Column() if node.name.lower() in ("user", "current_role") and not node.table:
            return exp.Literal.string(analyst)
        case exp.Func() if not isinstance(node, exp.Connector):
            name = _called(node)
            if name in CALLED:
                parts = node.expressions if isinstance(node, exp.Anonymous) else _arguments(node)
                return exp.Anonymous(this=f"{PREFIX}{name}", expressions=parts)
            if name not in FUNCTIONS and not name.startswith(PREFIX):
                raise QueryError(f"the function {name[:60]} is not known in the catalog")
    return node


def _called(node: exp.Func) -> str:
    name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
    return SYNONYMS.get(name, name)


def _arguments(node: exp.Func) -> list[exp.Expression]:
    listed = [node.args.get(name) for name in node.arg_types]
    return [part for part in listed if isinstance(part, exp.Expression)]


def _cast(node: exp.Cast) -> exp.Expression:
    """A cast to a type that only PostgreSQL has, by what it is used for."""
    full = node.to.sql("postgres").lower()
    kind = full.replace("pg_catalog.", "").strip('"')
    if kind in ("regclass", "regproc", "regtype", "regnamespace", "regrole", "regprocedure"):
        if isinstance(node.this, exp.Literal):
            return exp.Anonymous(this=f"{PREFIX}to_regclass", expressions=[exp.cast(node.this, "text")])
        called = "format_type" if kind == "regtype" else "regclass_name"
        more = [exp.null()] if kind == "regtype" else []
        return exp.Anonymous(this=f"{PREFIX}{called}", expressions=[node.this, *more])
    plain = {"oid": "BIGINT", "name": "VARCHAR", "char": "VARCHAR", "xid": "BIGINT", "int2vector": "INTEGER[]"}
    if kind in plain:
        return exp.Cast(this=node.this, to=exp.DataType.build(plain[kind], dialect="duckdb"))
    return exp.Cast(this=node.this, to=exp.DataType.build(kind, dialect="postgres")) if kind != full else node
