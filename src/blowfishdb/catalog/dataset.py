"""One dataset as a curator declares it, and domains, policies and joins in a few words: `0..110`, `within 5`."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from blowfishdb.engine.charge import check_parallel
from blowfishdb.engine.compile import ANALYSTS, SHARING
from blowfishdb.engine.request import Number, short_number
from blowfishdb.errors import CatalogError, DomainError, PolicyError, plural
from blowfishdb.ledger.amounts import SUM, check_accounting, parallel_attribute
from blowfishdb.ledger.values import check_text
from blowfishdb.model.arguments import checked
from blowfishdb.model.cached import cached_property
from blowfishdb.model.constraint_graph import moves_at_once
from blowfishdb.model.document import read_attribute as read_content
from blowfishdb.model.document import write_domain, write_policy
from blowfishdb.model.domain import CELL, CLAMP, Attribute, Categorical, Domain
from blowfishdb.model.domain import domain as make_domain
from blowfishdb.model.graphs import Metric, Presence
from blowfishdb.model.numbers import show
from blowfishdb.model.policy import (
    Custom,
    Family,
    Full,
    Grid,
    Joint,
    Line,
    Partition,
    Person,
    Policy,
    Public,
    Threshold,
    custom,
    full,
    grid,
    joint,
    line,
    metric,
    partition,
    public,
    show_theta,
    threshold,
)
from blowfishdb.model.serialize import write
from blowfishdb.sources.base import ColumnKind, Join

USUAL_EPSILON = Fraction(1)
PASSWORD = re.compile(r"^[a-z0-9+]+://[^/@:#]*:(?P<password>[^/@#]+)@", re.IGNORECASE)
SECRET = re.compile(r"\$\{\w+\}")


def refuse_password(source: str) -> None:
    """CatalogError for an address with a password in it: the configuration keeps the name of a variable."""
    password = PASSWORD.match(source)
    if password and not SECRET.fullmatch(password["password"]):
        raise CatalogError(
            "a password does not belong in the configuration: write ${NAME} in its place and set NAME in the "
            "environment"
        )


@checked(CatalogError)
@dataclass(frozen=True, init=False)
class Dataset:
    """A table with its declared domain, its policy and its budget. No policy means that everything is secret."""

    name: str
    source: str
    domain: Domain
    policy: Policy
    epsilon: Fraction
    per_analyst: Fraction | None
    joins: tuple[Join, ...]
    accounting: str
    pad_to: Fraction | None
    sharing: str
    read_only: bool
    show_budget: bool

    def __init__(
        self,
        name: str,
        *,
        source: str,
        domain: Domain | Mapping[str, Attribute | Sequence[str]],
        policy: Policy | None = None,
        epsilon: Number = USUAL_EPSILON,
        per_analyst: Number | None = None,
        joins: Sequence[Join] = (),
        accounting: str = SUM,
        pad_to: Number | None = None,
        sharing: str = ANALYSTS,
        read_only: bool = False,
        show_budget: bool = False,
    ) -> None:
        check_text(name, "a dataset's name")
        if name != name.strip() or "/" in name or name in (".", ".."):
            raise CatalogError(
                "a dataset's name holds no /, begins and ends with no space and is not made of dots alone, so that "
                "addresses can name it"
            )
        if not isinstance(source, str) or not source:
            raise CatalogError("a source is an address such as duckdb:///shop.duckdb#sales")
        values: dict[str, object] = {
            "name": name,
            "source": source,
            "domain": domain if isinstance(domain, Domain) else make_domain(domain),
            "policy": Policy() if policy is None else policy,
            "epsilon": short_number(epsilon, "epsilon"),
            "per_analyst": None if per_analyst is None else short_number(per_analyst, "per_analyst"),
            "joins": tuple(joins),
            "accounting": accounting,
            "pad_to": None if pad_to is None else short_number(pad_to, "pad_to"),
            "sharing": sharing,
            "read_only": read_only,
            "show_budget": show_budget,
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)
        if self.epsilon < 0 or (self.per_analyst is not None and self.per_analyst < 0):
            raise CatalogError("budgets are not negative")
        refuse_password(source)
        self.policy.check(self.domain)
        moves_at_once(self.domain, self.policy)
        check_accounting(accounting)
        if self.pad_to is not None and not Fraction(1, 1000) <= self.pad_to <= 600:
            raise CatalogError("pad_to is a time in seconds, from 0.001 to 600, such as '0.25'")
        if sharing not in SHARING:
            raise CatalogError(f"sharing is one of {', '.join(SHARING)}: whose answers may share their noise")
        if not isinstance(read_only, bool):
            raise CatalogError("read_only is true or false: whether the rows never change while this snapshot lasts")
        if not isinstance(show_budget, bool):
            raise CatalogError("show_budget is true or false: whether analysts see what is left of the data's budget")
        attribute = parallel_attribute(accounting)
        if attribute is not None:
            check_parallel(self.domain, self.policy, attribute)

    def as_recorded(self, domain: Domain, policy: Policy, joins: Sequence[Join]) -> Dataset:
        """The same data as the ledger has it in force, though the policy may be one that is now refused.

        It can be looked at and replaced. Whatever else is made of it is checked again, and so is every release.
        """
        recorded = object.__new__(Dataset)
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in {**values, "domain": domain, "policy": policy, "joins": tuple(joins)}.items():
            object.__setattr__(recorded, name, value)
        return recorded

    @cached_property
    def policy_document(self) -> str:
        """The policy as the ledger stores it."""
        return json.dumps(write_policy(self.policy), sort_keys=True, ensure_ascii=False)

    @cached_property
    def domain_document(self) -> str:
        """The domain and the joins that feed it, as the ledger stores them."""
        content = {"attributes": write_domain(self.domain), "joins": [write(join) for join in self.joins]}
        return json.dumps(content, sort_keys=True, ensure_ascii=False)

    def serialize(self) -> dict[str, Any]:
        """The table of the dataset in the configuration."""
        entry: dict[str, Any] = {"source": self.source, "epsilon": show(self.epsilon)}
        if self.per_analyst is not None:
            entry["per_analyst"] = show(self.per_analyst)
        if self.accounting != SUM:
            entry["accounting"] = self.accounting
        if self.pad_to is not None:
            entry["pad_to"] = show(self.pad_to)
        if self.sharing != ANALYSTS:
            entry["sharing"] = self.sharing
        if self.read_only:
            entry["read_only"] = True
        if self.show_budget:
            entry["show_budget"] = True
        entry["domain"] = write_domain(self.domain)
        entry["policy"] = write_policy(self.policy)
        if self.joins:
            entry["joins"] = [write(join) for join in self.joins]
        return entry


LARGEST_GRAPH = 2**26
HEADS = (("from", "to"), ("source", "target"))


@checked(CatalogError)
def read_edges(path: str | Path, attribute: Attribute | None = None) -> Custom:
    """Hides exactly the pairs of values in the file: two columns, perhaps headed from,to or source,target."""
    rows = _rows(Path(path))
    if rows and tuple(name.strip().lower() for name in rows[0]) in HEADS:
        rows = rows[1:]
    wrong = next((place for place, row in enumerate(rows, start=1) if len(row) != 2), None)
    if wrong is not None:
        raise PolicyError(f"{Path(path).name}: row {wrong} does not hold a pair of values")
    return custom([(read_value(one, attribute), read_value(two, attribute)) for one, two in rows])


@checked(CatalogError)
def read_distances(path: str | Path, theta: object, attribute: Attribute | None = None) -> Custom:
    """Hides values at most theta apart: the file's first row and first column name them, the rest are distances."""
    rows = _rows(Path(path))
    names = [name.strip() for name in rows[0][1:]] if rows else []
    if not names or [row[0].strip() for row in rows[1:]] != names:
        raise PolicyError(f"{Path(path).name}: the first row and the first column name the same values, in one order")
    return metric([read_value(name, attribute) for name in names], [row[1:] for row in rows[1:]], theta)


def read_value(text: str, attribute: Attribute | None) -> object:
    """The declared value of a text; lists may hold numbers or truth values."""
    plain = text.strip()
    if isinstance(attribute, Categorical):
        names = {str(known): known for known in attribute.values}
        return names[text] if text in names else names.get(plain, plain)
    return plain


ITEM = re.compile(r' *(?:"(?P<quoted>(?:[^"]|"")*)" *|(?P<plain>[^,\t\r\n]*))(?P<end>,|\t|\r?\n|\r|$)')
NEEDS_QUOTES = re.compile(r'[,\t\r\n]|^\s|\s$|^"|^$')


def read_rows(text: str) -> list[list[str]]:
    """The values of each line, separated by commas or tabs; double quotes hold together what looks like more."""
    rows: list[list[str]] = [[]]
    place = 0
    while place < len(text):
        item = ITEM.match(text, place)
        if item is None:  # the pattern matches anything, if need be nothing
            break
        place = item.end()
        if item["quoted"] is not None:
            rows[-1].append(item["quoted"].replace('""', '"'))
        elif item["plain"].strip():
            rows[-1].append(item["plain"].strip())
        if item["end"] in ("\r\n", "\n", "\r"):
            rows.append([])
    return [row for row in rows if row]


def read_list(text: str) -> list[str]:
    """The values of a list, separated by commas, or one on each line, as a column is pasted.

    DomainError where both separate something: a value that holds a comma would be torn.
    """
    rows = read_rows(text)
    lines = [line.rstrip() for line in text.strip().splitlines()]
    if len(rows) > 1 and any(len(row) > 1 for row in rows) and not all(line.endswith(",") for line in lines[:-1]):
        raise DomainError(
            'commas and lines both separate values here: write one value per line, with "quotes" around one that holds '
            "a comma, or all of them in one line"
        )
    return [value for row in rows for value in row]


def write_row(values: Iterable[object]) -> str:
    """Values in one line that `read_rows` reads again."""
    texts = map(str, values)
    return ", ".join(f'"{text.replace(chr(34), 2 * chr(34))}"' if NEEDS_QUOTES.search(text) else text for text in texts)


ANY = "*"
RANGE = ".."


def read_joint(text: str, names: Sequence[str], domain: Domain, *, is_pairs: bool) -> Joint:
    """The graph over several attributes that lines of a table declare; a first line may name the columns.

    A pair is a value of each attribute, then a value of each again. A block is its name, then a value of each: `*` for
    any value, `18..64` for a run of ordered ones; combinations that no line names are one more block.
    """
    attributes = [domain.find(name, PolicyError) for name in names]
    rows, count = read_rows(text), len(names)
    width = 2 * count if is_pairs else count + 1
    head = rows[0] if rows and len(rows[0]) == width and sorted(rows[0][-count:]) == sorted(names) else None
    if head is not None:
        order = [head[-count:].index(name) for name in names]
        starts = (0, count) if is_pairs else (1,)
        chosen = [*range(starts[0]), *(start + place for start in starts for place in order)]
        rows = [[row[place] for place in chosen] if len(row) == width else row for row in rows[1:]]
    wrong = next((row for row in rows if len(row) != width), None)
    if wrong is not None:
        shape = f"{' and '.join(names)} twice" if is_pairs else f"the name of a block, then {' and '.join(names)}"
        raise PolicyError(f"a line holds {shape}: {width} values, not {len(wrong)} as in {write_row(wrong)[:80]!r}")
    if is_pairs:
        values = [read_value(item, attributes[place % count]) for row in rows for place, item in enumerate(row)]
        ends = [tuple(values[start : start + count]) for start in range(0, len(values), count)]
        return joint(names, custom(list(zip(ends[::2], ends[1::2], strict=True))))
    # Says how many combinations there may be before they are gone through.
    Policy(joint=[joint(names, custom([]))]).check(domain)
    blocks: dict[str, list[tuple[int, ...]]] = {}
    for row in rows:
        places = [_named_values(item, attribute) for item, attribute in zip(row[1:], attributes, strict=True)]
        blocks.setdefault(row[0].strip(), []).extend(itertools.product(*places))
    named = set(itertools.chain(*blocks.values()))
    everyone = itertools.product(*(range(attribute.size) for attribute in attributes))
    rest = [place for place in everyone if place not in named]
    return joint(
        names,
        partition(
            [tuple(a.value_at(code) for a, code in zip(attributes, place, strict=True)) for place in block]
            for block in (*blocks.values(), rest)
            if block
        ),
    )


def _named_values(item: str, attribute: Attribute) -> Sequence[int]:
    """The places of the values that one item of a block names."""
    try:
        return (attribute.locate(read_value(item, attribute)),)
    except DomainError:
        low, is_range, high = item.partition(RANGE)
        if item.strip() == ANY:
            return range(attribute.size)
        if not is_range or not attribute.ordered:
            raise
    first, last = (attribute.locate(read_value(end, attribute)) for end in (low, high))
    return range(first, last + 1)


def write_joint(graph: Joint, domain: Domain) -> str:
    """The lines that `read_joint` reads again, one for each pair, or as few as the values of each block allow."""
    attributes = [domain[name] for name in graph.attributes]
    if isinstance(graph.family, Custom):
        return "\n".join(write_row([*one, *two]) for one, two in graph.groups)
    lines = []
    for number, block in enumerate(graph.groups, 1):
        codes = [tuple(a.locate(value) for a, value in zip(attributes, one, strict=True)) for one in block]
        lines += [write_row([f"block {number}", *items]) for items in _boxes(codes, attributes)]
    return "\n".join(lines)


def _boxes(codes: Iterable[tuple[int, ...]], attributes: Sequence[Attribute]) -> list[tuple[str, ...]]:
    """Items, one of each attribute, that name all of the combinations: runs of values with the same rest are one."""
    rests: dict[int, set[tuple[int, ...]]] = {}
    for first, *rest in codes:
        rests.setdefault(first, set()).add(tuple(rest))
    alike: dict[frozenset[tuple[int, ...]], list[int]] = {}
    for first in sorted(rests):
        alike.setdefault(frozenset(rests[first]), []).append(first)
    return [
        (item, *tail)
        for rest, firsts in alike.items()
        for item in _items_of(firsts, attributes[0])
        for tail in (_boxes(rest, attributes[1:]) if attributes[1:] else [()])
    ]


def _items_of(places: Sequence[int], attribute: Attribute) -> list[str]:
    if len(places) == attribute.size > 1:
        return [ANY]
    runs: list[list[int]] = []
    for place in places:
        if runs and attribute.ordered and runs[-1][-1] == place - 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    texts = [[_value_text(attribute.value_at(end)) for end in (run[0], run[-1])] for run in runs]
    return [first if first == last else f"{first}{RANGE}{last}" for first, last in texts]


def _value_text(value: object) -> str:
    return show(value) if isinstance(value, Fraction) else str(value)


def _text(path: Path) -> str:
    """What a file of pairs, distances or blocks holds."""
    try:
        if path.stat().st_size > LARGEST_GRAPH:
            raise PolicyError(f"{path.name} has more than {LARGEST_GRAPH:,} bytes")
        with path.open(encoding="utf-8-sig", newline="") as file:
            return file.read()
    except (OSError, ValueError):
        raise PolicyError(f"{path.name} cannot be read as a CSV file in UTF-8") from None


def _rows(path: Path) -> list[list[str]]:
    """The rows that are not empty."""
    try:
        return [row for row in csv.reader(io.StringIO(_text(path), newline="")) if any(cell.strip() for cell in row)]
    except csv.Error:
        raise PolicyError(f"{path.name} cannot be read as a CSV file in UTF-8") from None


LARGEST_LIST = 2**24
HINT = (
    "write 0..110, 0..50000 step 100, 2024-01-01..2025-12-31 by day, 'NC, VA, other', 'low < mid < high' or @file, "
    "perhaps followed by null=VALUE or outside=cell"
)
POLICY_HINT = (
    "write full, public, line, within 5, cuts 18, 65, blocks a, b | c, edges pairs.csv or distances table.csv within 5"
)
SIDE = re.compile(r"\s+(?P<which>null|outside)\s*=\s*(?P<value>'[^']*'|\S+)\s*$")
WHOLE = re.compile(r"(?P<low>-?\d{1,18})\s*\.\.\s*(?P<high>-?\d{1,18})")
STEPS = re.compile(r"(?P<low>-?[\d.]+?)\s*\.\.\s*(?P<high>-?[\d.]+)\s+step\s+(?P<width>[\d./]+)")
DAYS = re.compile(r"(?P<start>\d{4}-\d\d-\d\d)\s*\.\.\s*(?P<end>\d{4}-\d\d-\d\d)(\s+by\s+(?P<by>\w+))?")
MOMENTS = re.compile(
    r"(?P<start>\d{4}-\d\d-\d\dT[\d:]+)\s*\.\.\s*(?P<end>\d{4}-\d\d-\d\dT[\d:]+)(\s+by\s+(?P<by>\w+))?(\s+in\s+(?P<zone>\S+))?"
)
EDGES = re.compile(r"edges\s+(?P<edges>.+)")
NO_LIST = re.compile(r"(integers|bins|dates|timestamps|categorical)\s*\(.*\)|.*\d\.\.-?\d.*", re.DOTALL)
"""Words that somebody meant as numbers or dates: an expression of Python, or a range and more beside it."""
FILE = re.compile(r"(?:@|from\s+file\s+)(?P<path>.+)")


def read_attribute(words: str, kind: ColumnKind | None = None, folder: Path = Path()) -> Attribute:
    """The attribute that the words declare; the kind of the column tells numbers from texts in lists."""
    plain = words.strip()
    sides: dict[str, str] = {}
    while side := SIDE.search(plain):
        sides.setdefault(side["which"], side["value"].strip("'"))
        plain = plain[: side.start()]
    if not plain:
        raise DomainError(f"a domain is missing; {HINT}")
    content = _ordered(plain) or _listed(plain, kind, folder)
    for which, value in sides.items():
        if value == "public":
            content |= {which: CELL, f"{which}_public": True}
        else:
            listed = content["kind"] == "categorical"
            content[which] = typed_value(value, kind if listed else ColumnKind.INTEGER)
    return read_content(content)


def _ordered(plain: str) -> dict[str, Any]:
    """Numbers, dates and moments, as a document writes them; empty where the words are none of these."""
    if whole := WHOLE.fullmatch(plain):
        return {"kind": "integers", "low": int(whole["low"]), "high": int(whole["high"])}
    if edges := EDGES.fullmatch(plain):
        return {"kind": "bins", "edges": _items(edges["edges"], ",")}
    for pattern, form in ((STEPS, "bins"), (DAYS, "dates"), (MOMENTS, "timestamps")):
        if parts := pattern.fullmatch(plain):
            return {"kind": form} | {key: value for key, value in parts.groupdict().items() if value is not None}
    return {}


def _listed(plain: str, kind: ColumnKind | None, folder: Path) -> dict[str, Any]:
    ordered = False
    if file := FILE.fullmatch(plain):
        texts = _lines(folder / Path(file["path"].strip()).expanduser())
    elif NO_LIST.fullmatch(plain):
        raise DomainError(f"{plain[:60]!r} is no list of values; {HINT}. Values that look like this come from a @file")
    elif "<" in plain:
        texts, ordered = _items(plain, "<"), True
    elif "," in plain:
        texts = _items(plain, ",")
    else:
        raise DomainError(f"{plain[:60]!r} is not a domain; {HINT}")
    return {"kind": "categorical", "values": [typed_value(text, kind) for text in texts], "ordered": ordered}


def _items(text: str, separator: str) -> list[str]:
    return [item.strip().strip("'") for item in text.split(separator) if item.strip()]


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > LARGEST_LIST:
            raise DomainError(f"the list {path.name} has more than {LARGEST_LIST:,} bytes")
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError):
        raise DomainError(f"the list {path.name} cannot be read; it holds one value per line, in UTF-8") from None


def typed_value(text: str, kind: ColumnKind | None) -> str | int | bool:
    """The value that a text stands for in a column of this kind."""
    if kind is ColumnKind.BOOLEAN and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind is ColumnKind.INTEGER and re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    return text


def read_family(words: str, attribute: Attribute | None = None) -> Family:
    """The family that the words declare; files of pairs or distances name values of the attribute."""
    plain = words.strip()
    name, _, rest = plain.partition(" ")
    rest = rest.strip()
    if name in ("within", "threshold") and rest:
        return threshold(rest)
    if name == "cuts" and rest:
        return partition(cuts=_items(rest, ","))
    if name == "blocks" and rest:
        return partition([_items(block, ",") for block in rest.split("|")])
    if name == "edges" and rest:
        return read_edges(Path(rest).expanduser(), attribute)
    file, within, theta = rest.rpartition(" within ")
    if name == "distances" and within:
        return read_distances(Path(file.strip()).expanduser(), theta, attribute)
    simple: dict[str, Family] = {
        **dict.fromkeys(("full", "secret", "everything", "everything secret"), full()),
        **dict.fromkeys(("line", "neighbours only"), line()),
        "public": public(),
    }
    if plain not in simple:
        raise PolicyError(f"{plain[:60]!r} is not a policy of an attribute; {POLICY_HINT}")
    return simple[plain]


def with_policies(policy: Policy, families: Mapping[str, Family], graphs: Sequence[Grid | Joint]) -> Policy:
    """The policy with other families and graphs: what is declared of an attribute takes it out of what was before."""
    together = {name for graph in graphs for name in graph.attributes}
    twice = sorted(together & families.keys())
    if twice:
        raise PolicyError(f"{twice[0]} is declared by itself and together with others: say one of the two")
    others = [graph for graph in policy.joint if not (together | families.keys()) & set(graph.attributes)]
    single = {name: family for name, family in policy.attributes.items() if name not in together}
    return replace(policy, attributes={**single, **families}, joint=(*others, *graphs))


TOGETHER = "+"
"""Between the names of attributes that are hidden together."""
TOGETHER_HINT = "write within 5 (in a straight line; or within 5 l1, within 5 linf), blocks FILE or edges FILE"


def read_policies(words: Mapping[str, str], domain: Domain) -> tuple[Mapping[str, Family], tuple[Grid | Joint, ...]]:
    """The families of single attributes, and the graphs over several, `lat + lon`, that words declare."""
    families: dict[str, Family] = {}
    graphs: list[Grid | Joint] = []
    for name, text in words.items():
        several = [part.strip() for part in name.split(TOGETHER)]
        if len(several) > 1 and name not in domain:
            graphs.append(_read_together(text.strip(), several, domain))
        else:
            families[name] = read_family(text, domain.find(name, PolicyError))
    return families, tuple(graphs)


def _read_together(words: str, names: Sequence[str], domain: Domain) -> Grid | Joint:
    kind, _, rest = words.partition(" ")
    theta, _, metric = rest.strip().partition(" ")
    measures: Mapping[str, Metric] = {"": "l2", "l1": "l1", "l2": "l2", "linf": "linf"}
    if kind == "within" and theta and metric.strip() in measures:
        return grid(names, theta, measures[metric.strip()])
    if kind in ("blocks", "edges") and rest.strip():
        return read_joint(_text(Path(rest.strip()).expanduser()), names, domain, is_pairs=kind == "edges")
    raise PolicyError(f"{words[:60]!r} is not a policy of several attributes; {TOGETHER_HINT}")


def family_words(family: Family) -> str:
    """A family in the words that declare it."""
    match family:
        case Full():
            return "everything secret"
        case Public():
            return "public"
        case Line():
            return "neighbours only"
        case Threshold(theta):
            return f"within {show_theta(theta)}"
        case Partition(blocks, ()):
            return "blocks " + " | ".join(", ".join(map(str, block)) for block in blocks)
        case Partition(_, cuts):
            return f"cuts {', '.join(map(str, cuts))}"
        case _:
            return f"{len(family.edges)} listed pairs"


def hidden_words(name: str, policy: Policy) -> str:
    """What a policy hides of an attribute, in a few words."""
    if policy.presence == "only":
        return "as far as whether the record is there"
    grid = policy.joint_of(name)
    if grid is not None:
        return f"jointly with {', '.join(one for one in grid.attributes if one != name)}"
    return family_words(policy.family(name))


def column_words(dataset: Dataset, name: str) -> tuple[str, str, str]:
    """A column by its name: what the public may know of it, and what is hidden."""
    policy = dataset.policy
    known = attribute_words(dataset.domain[name], policy.family(name), policy.presence)
    return name, known, hidden_words(name, policy)


def attribute_words(attribute: Attribute, family: Family, presence: Presence = "public") -> str:
    """A declared attribute in few words; nothing about a public one is hidden but whether a record is there."""
    open_to_all, public = isinstance(family, Public), "public" if presence == "public" else "hidden by presence alone"
    first, last = attribute.run_label(0, 0), attribute.run_label(attribute.size - 1, attribute.size - 1)
    between = ", " if attribute.size == len((first, last)) else " … "
    values = first if attribute.size == 1 else f"{first}{between}{last}"
    sides = [f"NULL counts as {attribute.null}"]
    if attribute.null == CELL:
        sides = [f"NULL {public if attribute.null_public or open_to_all else 'hidden'}"]
    if attribute.outside == CELL:
        sides.append(f"outside {public if attribute.outside_public or open_to_all else 'hidden'}")
    elif attribute.outside != CLAMP:
        sides.append(f"outside counts as {attribute.outside}")
    return f"{plural(attribute.size, 'value')}: {values}; {', '.join(sides)}"


def named(pairs: Iterable[str], option: str) -> Mapping[str, str]:
    """NAME=WORDS options as a mapping."""
    words_of: dict[str, str] = {}
    for pair in pairs:
        name, separator, words = pair.partition("=")
        name = name.strip()
        if not separator or not name:
            raise DomainError(f"{option} is written NAME=WORDS, such as {option} 'age=0..110'")
        if name in words_of:
            raise DomainError(f"{option} names {name!r} twice")
        words_of[name] = words
    return words_of


JOIN_HINT = "write TABLE on FOREIGN_KEY = KEY gives COLUMN, NAME = COLUMN"
JOIN_WORDS = re.compile(
    r"\s*(?P<table>\S+)\s+on\s+(?P<foreign_key>[^=]+?)\s*=\s*(?P<key>[^=]+?)\s+gives\s+(?P<given>.+?)\s*", re.IGNORECASE
)


def read_join(words: str) -> Join:
    """The join that the words declare: `patients on patient = id gives age, sex = gender`."""
    parts = JOIN_WORDS.fullmatch(words)
    if parts is None:
        raise CatalogError(f"{words[:80]!r} is not a join; {JOIN_HINT}")
    attributes: dict[str, str] = {}
    for item in parts["given"].split(","):
        name, _, column = (side.strip() for side in item.partition("="))
        if not name or name in attributes:
            raise CatalogError(f"a join names each attribute that it gives once; {JOIN_HINT}")
        attributes[name] = column or name
    return Join(parts["table"], parts["foreign_key"], parts["key"], attributes)


def join_words(join: Join) -> str:
    """The words that declare a join."""
    given = ", ".join(name if name == column else f"{name} = {column}" for name, column in join.attributes.items())
    return f"{join.table} on {join.foreign_key} = {join.key} gives {given}"


def shown_joins(scheme: str, joins: Sequence[Join]) -> tuple[Join, ...]:
    """Joins as analysts know them: files by their names, without folder and ending."""
    if scheme != "file":
        return tuple(joins)
    return tuple(Join(join.name.partition(".")[0], join.foreign_key, join.key, join.attributes) for join in joins)


def is_protected(join: Join, policy: Policy) -> bool:
    """Whether a joined table belongs to the people of a dataset, so that it is protected with their rows."""
    return isinstance(policy.unit, Person) and join.foreign_key == policy.unit.id
