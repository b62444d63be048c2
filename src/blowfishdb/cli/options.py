"""Options that several commands share, each declared once; the session or curator that a command opens.

Annotations are values here, not texts: typer reads them, and reading texts would make `--help` slower.
"""

import inspect
import os
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from blowfishdb.cli.output import keep_log
from blowfishdb.errors import ExtraMissing, InvalidInput

if TYPE_CHECKING:
    from blowfishdb.catalog import Curator
    from blowfishdb.session import Session

USUAL_CONFIG = Path("blowfish.toml")
FIGURES = (".png", ".svg", ".pdf")
TABLES = (".csv", ".xlsx", ".parquet", ".json")


def dataset_names(incomplete: str) -> list[str]:
    """The datasets whose names begin with the text, for the shell to complete; reads the configuration alone."""
    import tomllib

    try:
        text = Path(os.environ.get("BLOWFISH_CONFIG") or USUAL_CONFIG).read_text(encoding="utf-8")
        known = tomllib.loads(text).get("datasets", {})
    except (OSError, ValueError, RecursionError):
        return []
    return [name for name in known if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(metavar="NAME", help="The dataset.", autocompletion=dataset_names)]
OptionalName = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="A dataset; without it, all of them.", autocompletion=dataset_names),
]
ConfigOption = Annotated[
    Path,
    typer.Option("--config", "-c", metavar="FILE", envvar="BLOWFISH_CONFIG", help="The configuration."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of tables.")]
CuratorOption = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", envvar="BLOWFISH_CURATOR", help="Who acts, for the record. [your login]"),
]
ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")]
ColumnsOption = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN=WORDS", help="What the public may know of a column; repeat it.")
]
Confidence = Annotated[
    str | None, typer.Option(metavar="NUMBER", help="... with this probability, such as 0.95 (then --beta is 0.05).")
]
Beta = Annotated[str | None, typer.Option(metavar="NUMBER", help="... except with this probability. [0.05]")]
MechanismOption = Annotated[str | None, typer.Option(metavar="NAME", help="Use this mechanism, not the best one.")]
ParameterOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Set a parameter of the mechanism, such as split=0.3; repeat it. 'blowfish mechanisms' lists them.",
    ),
]
Where = Annotated[
    str | None, typer.Option(metavar="CONDITION", help="Only these records: \"ward = 'A3' AND age >= 18\".")
]


@dataclass(frozen=True)
class QueryOptions:
    """A query as options write it; exactly one of the kinds is given."""

    histogram: Annotated[
        str | None, typer.Option(metavar="GROUPS", help='A count per group: age, or "sex, bin(age, 5)" for pairs.')
    ] = None
    cdf: Annotated[str | None, typer.Option(metavar="GROUP", help='Running counts: cost, or "bin(cost, 100)".')] = None
    ranges: Annotated[
        str | None,
        typer.Option(metavar="ATTRIBUTE:LOW..HIGH,...", help="Counts of ranges, the high ends not included."),
    ] = None
    marginals: Annotated[
        str | None, typer.Option(metavar="GROUPS", help="The tables of all pairs of these attributes.")
    ] = None
    count: Annotated[bool, typer.Option("--count", help="How many records pass the filter.")] = False
    sum: Annotated[str | None, typer.Option("--sum", metavar="ATTRIBUTE", help="The sum of a bounded attribute.")] = (
        None
    )
    mean: Annotated[str | None, typer.Option(metavar="ATTRIBUTE", help="The mean of a bounded attribute.")] = None
    quantiles: Annotated[
        str | None,
        typer.Option(metavar="ATTRIBUTE:LEVEL,...", help="Quantiles: cost:0.25,0.5,0.75; cost alone: quartiles."),
    ] = None
    where: Where = None


@dataclass(frozen=True)
class AccuracyOptions:
    """An accuracy target as options write it."""

    within: Annotated[
        str | None,
        typer.Option(
            "--within", "--alpha", "--accuracy", metavar="NUMBER", help="Every answer within this of the truth ..."
        ),
    ] = None
    confidence: Confidence = None
    beta: Beta = None
    epsilon: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Instead of --within: spend this, exactly: 0.1 or 1/3.")
    ] = None
    mechanism: MechanismOption = None
    parameter: ParameterOption = None
    per_query: Annotated[
        bool, typer.Option("--per-query", help="The accuracy holds for each answer on its own, not for all at once.")
    ] = False
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Draw noise independent of earlier answers, and pay the whole price."),
    ] = False


@dataclass(frozen=True)
class RunOptions:
    """Key, deadline and spending cap of a release."""

    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Names this request; the same key never pays twice.")
    ] = None
    deadline: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Give up, uncharged, if planning takes longer.")
    ] = None
    spend: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Refuse a price above this; 0 takes only what is free.")
    ] = None


@dataclass(frozen=True)
class FileOptions:
    """The files to make of an answer; checked before anything is charged."""

    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Save a figure: .png, .svg or .pdf (needs blowfishdb[plot])."),
    ] = None
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Save the answer: .csv, .xlsx, .parquet or .json.")
    ] = None
    note: Annotated[bool, typer.Option("--note", help="Print the paragraph to put under a figure as well.")] = False

    def __post_init__(self) -> None:
        check_file(self.plot, FIGURES, "--plot")
        check_file(self.save, TABLES, "--save")
        if self.plot is not None and find_spec("matplotlib") is None:
            raise ExtraMissing("matplotlib", "plot")
        if self.save is not None and self.save.suffix.lower() == ".xlsx" and find_spec("xlsxwriter") is None:
            raise ExtraMissing("xlsxwriter", "frames")


@dataclass(frozen=True)
class AnalystOptions:
    """The analyst and the configuration."""

    analyst: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", envvar="BLOWFISH_ANALYST", help="Who asks, and pays. Without it: the name of your login."
        ),
    ] = None
    config: ConfigOption = USUAL_CONFIG

    def session(self) -> "Session":
        """The analyst's session."""
        from blowfishdb.session import connect

        keep_log(self.config)
        return connect(self.config, analyst=self.analyst or login())


@dataclass(frozen=True)
class DatasetOptions:
    """A dataset as `dataset add` declares it."""

    source: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Where the rows are. ${NAME} stands for an environment variable."),
    ]
    profile: Annotated[
        str | None,
        typer.Option(metavar="WHAT", help="What it is about: patients, census, purchases, positions, other."),
    ] = None
    domain: ColumnsOption = None
    policy: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=WORDS", help="What is hidden about it. [everything]")
    ] = None
    presence: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="Who is in the table is public, secret, or all that is hidden (only)."),
    ] = None
    document: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file, TOML or JSON, with the domain and policy instead.")
    ] = None
    person: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Rows with the same value here belong to one person.")
    ] = None
    at_most: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="At most this many rows of each person count.")
    ] = None
    order_by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The row key that says which rows of a person count.")
    ] = None
    join: Annotated[
        list[str] | None,
        typer.Option(metavar="WORDS", help='A further table: "patients on patient = id gives age, sex"; repeat it.'),
    ] = None
    epsilon: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="What the data may lose in all. [1, or what it has already]")
    ] = None
    per_analyst: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="What each analyst may spend. [only --epsilon holds]")
    ] = None

    @property
    def is_silent(self) -> bool:
        """Whether nothing is said about the columns, so that data which is known stays as it was declared."""
        columns = (self.profile, self.domain, self.policy, self.presence, self.document, self.join)
        return not any((*columns, self.person, self.at_most, self.order_by))


@dataclass(frozen=True)
class RiskOptions:
    """Two values to tell apart, and either what is spent or which bound is wanted."""

    pair: Annotated[str, typer.Option(metavar="A,B", help="The two values that somebody tries to tell apart.")]
    epsilon: Annotated[
        list[str] | None, typer.Option(metavar="NUMBER", help="What a release costs; repeat it for several releases.")
    ] = None
    prior: Annotated[str, typer.Option(metavar="NUMBER", help="How likely A was believed before.")] = "0.5"
    odds: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Ask for the budget that keeps the odds below this factor.")
    ] = None
    posterior: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Ask for the budget that keeps the belief below this.")
    ] = None
    releases: Annotated[int, typer.Option(metavar="NUMBER", help="Over so many releases.")] = 1
    records: Annotated[int, typer.Option(metavar="NUMBER", help="How many rows of one person change together.")] = 1
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw beliefs before and after: png, svg, pdf.")] = (
        None
    )


def check_file(path: Path | None, endings: tuple[str, ...], option: str) -> None:
    """Refuses a file that could not be written once the answer is charged."""
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise InvalidInput(f"{option} writes {', '.join(endings)}; nothing was charged")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(f"{option}: there is no folder {path.parent}; nothing was charged")


@cache
def _option_types(options: Any) -> dict[str, Any]:
    """The types of the fields of an ...Options class, with what typer is told about them."""
    return get_type_hints(options, include_extras=True)


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer sees it: each field of an ...Options parameter is an option."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    shown: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        usual = {name: parameter.default}
        kinds = {name: hints[name]}
        if name in groups:
            usual = {field.name: field.default for field in fields(groups[name])}
            kinds = _option_types(groups[name])
        for option, default in usual.items():
            shown.append(
                inspect.Parameter(
                    option,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=inspect.Parameter.empty if default is MISSING else default,
                    annotation=kinds[option],
                )
            )

    @wraps(command)
    def called(**values: Any) -> None:
        options = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        command(**values, **options)

    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return called


def option_words(*groups: Any) -> list[str]:
    """The words on the command line that give these options; defaults are left out."""
    words: list[str] = []
    for group in groups:
        kind: Any = type(group)
        hints = _option_types(kind)
        for field in fields(group):
            value = getattr(group, field.name)
            if value == field.default:
                continue
            # Inside Annotated, typer keeps the first name of an option in the place of its default.
            declared = hints[field.name].__metadata__[0]
            names = [name for name in (declared.default, *declared.param_decls) if isinstance(name, str)]
            flag = names[0] if names else f"--{field.name.replace('_', '-')}"
            for each in value if isinstance(value, list) else [value]:
                words += [flag] if each is True else [flag, str(each)]
    return words


def login() -> str:
    """The name of whoever runs the command."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def existing(config: Path, by: str | None = None) -> "Curator":
    """The curator of a configuration that is there; a mere look makes no new ledger."""
    from blowfishdb.catalog import read_config

    read_config(config)
    return new_or_existing(config, by)


def new_or_existing(config: Path, by: str | None) -> "Curator":
    """The curator of a configuration that is there or will be made."""
    from blowfishdb.catalog import curate

    keep_log(config)
    return curate(config, by=by or login())
