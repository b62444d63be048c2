"""An audit as a page: one line per check with its verdict, in Markdown, HTML and JSON."""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

from blowfishdb.errors import BlowfishError, InvalidInput
from blowfishdb.model.numbers import show

CheckVerdict = Literal["clean", "violation", "not tested"]
Section = Literal["replay", "twins", "exact", "statistical", "noise"]
SECTIONS: tuple[Section, ...] = ("replay", "twins", "exact", "statistical", "noise")


@dataclass(frozen=True)
class CheckLine:
    """One check: what was looked at, what was found, and how much was tried."""

    subject: str
    check: str
    verdict: CheckVerdict
    found: str
    tried: int = 1

    @property
    def is_violation(self) -> bool:
        return self.verdict == "violation"


@dataclass(frozen=True)
class Audit:
    """Every line of one run by its section, with what it was a run of."""

    title: str
    quick: bool
    seed: int
    version: str
    seconds: float
    sections: Mapping[Section, Sequence[CheckLine]]
    powers: tuple[str, ...]

    @property
    def lines(self) -> list[tuple[Section, CheckLine]]:
        return [(section, line) for section, lines in self.sections.items() for line in lines]

    @property
    def violations(self) -> list[tuple[Section, CheckLine]]:
        return [(section, line) for section, line in self.lines if line.is_violation]

    @property
    def is_clean(self) -> bool:
        """Whether something was tested and nothing was found."""
        return not self.violations and any(line.verdict == "clean" for _, line in self.lines)


def not_tested(subject: str, check: str, why: str) -> CheckLine:
    """A check that does not apply, with the reason."""
    return CheckLine(subject, check, "not tested", why, 0)


def judged(subject: str, check: str, violations: Iterable[str], fine: str = "", tried: int = 1) -> CheckLine:
    """A line with its verdict: clean without violations; otherwise the first of them, and how many more there are."""
    listed = list(violations)
    if not listed:
        return CheckLine(subject, check, "clean", fine, tried)
    more = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
    return CheckLine(subject, check, "violation", listed[0] + more, tried)


def broken(rules: Mapping[str, object]) -> list[str]:
    """The violations that occurred: each is said in words, with whether it is so."""
    return [violation for violation, occurred in rules.items() if occurred]


def refused(attempt: Callable[[], object], error: type[BlowfishError] = BlowfishError) -> bool:
    """Whether an attempt ends with this error."""
    try:
        attempt()
    except error:
        return True
    return False


@dataclass
class Losses:
    """Losses by the definition against those claimed for them: how many, the worst, and what contradicts a claim."""

    slack: float = 0.0
    """Room for the rounding of floats."""
    worst: Fraction | float = Fraction(0)
    tried: int = 0
    violations: list[str] = field(default_factory=list)

    def compare(self, where: str, loss: Fraction | float, claimed: Fraction | float, *, tight: bool = False) -> None:
        """A loss above its claim is a violation; so is one below, where the claim is said to be attained."""
        self.tried, self.worst = self.tried + 1, max(self.worst, loss)
        if loss > claimed + (self.slack if isinstance(loss, float) else 0):
            self.violations.append(f"{where}: loss {amount(loss)}, claimed {amount(claimed)}")
        elif tight and loss < claimed:
            self.violations.append(f"{where}: claimed as tight at {amount(claimed)}, no loss above {amount(loss)}")


def amount(number: Fraction | float) -> str:
    """A loss for people: exact where that is short."""
    if isinstance(number, Fraction) and len(show(number)) <= 12:
        return show(number)
    return f"{float(number):.6g}"


WHAT: dict[Section, str] = {
    "replay": (
        "Real releases on neighbouring made-up tables, with the noise recorded and played again. On every hidden "
        "change of the records three things are compared: how far the noised quantities moved, over the scales that "
        "were really drawn, with the charge; everything public, once noisy outputs are forced to be the same; and the "
        "charge with the certificate, the ledger's entry and the account. Neighbours come from the definition of the "
        "policy, not from the code that certifies."
    ),
    "twins": (
        "The same questions in Python and SQL over two whole worlds, each with a database, a ledger and a curator. "
        "Their tables are neighbours, and the noise of the first is played again so that the same values are "
        "published. Whatever else leaves is compared byte by byte: prices, messages, exports, histories, logs, what a "
        "curator reads of the account."
    ),
    "exact": (
        "Tiny domains, where every output can be gone through: the largest ratio of its probabilities on any two "
        "neighbouring tables, against e^epsilon."
    ),
    "statistical": (
        "Many real releases with real noise on two neighbouring tables: events are counted (Clopper-Pearson bounds, "
        "corrected for the number of tests), likelihood ratios and noise are compared with what was charged."
    ),
    "noise": (
        "The sampler against the law it claims: fit, size, signs, parity, tails, low bits, independence; the exact "
        "probability of every digit; and whether the tests would notice a scale 10 % off."
    ),
}
HOW = (
    "A violation is a proof that something is wrong (replay, twins, exact), or would happen by chance less than once "
    "in a million runs (statistical, noise).",
    "A clean line means that nothing was found among what was tried, not that nothing can be found.",
    "Nothing real was touched: tables were made up in memory from the declared domain, charges went to a scratch "
    "ledger that is gone.",
)
METAS = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.5rem}h2{margin-top:2.2rem;font-size:1.15rem}table{border-collapse:collapse;width:100%;font-size:13.5px}
.wide{overflow-x:auto}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #d8dee4;vertical-align:top}td.n{text-align:right}
.verdict{font-weight:600;padding:.8rem 1rem;border-radius:6px}.clean{background:#dafbe1}.violation{background:#ffebe9}
td.clean{background:none;color:#1a7f37}td.violation{color:#cf222e;font-weight:600}td.not{color:#6e7781}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#30363d}
.verdict.clean{background:#12261e}.verdict.violation{background:#3c1618}td.clean{color:#3fb950}td.violation{color:#ff7b72}
td.not{color:#9198a1}}
"""


def verdict_words(audit: Audit) -> str:
    """The outcome in one sentence."""
    checked = sum(line.verdict == "clean" for _, line in audit.lines)
    if audit.violations:
        return f"{len(audit.violations)} violations, {checked} checks clean."
    if not audit.is_clean:
        return "Nothing was tested."
    return f"No violation in {checked} checks."


def summary(audit: Audit) -> list[tuple[Section, int, int, int, int]]:
    """For each section that ran: clean lines, violations, lines that do not apply, and how much was tried."""
    rows = []
    for section, lines in audit.sections.items():
        verdicts = Counter(line.verdict for line in lines)
        tried = sum(line.tried for line in lines)
        rows.append((section, verdicts["clean"], verdicts["violation"], verdicts["not tested"], tried))
    return rows


def _blocks(audit: Audit) -> Iterator[tuple[str, str | tuple[str, ...], Sequence[CheckLine]]]:
    """The parts of the page in order: a heading, a paragraph or a list of sentences, and lines."""
    if audit.violations:
        yield "Violations", "", [line for _, line in audit.violations]
    yield "How to read this", HOW, ()
    yield "Power", audit.powers, ()
    for section, lines in audit.sections.items():
        yield section.capitalize(), WHAT[section], lines


def as_markdown(audit: Audit) -> str:
    """The page as Markdown."""
    parts = [f"# Audit of {audit.title}", f"**{verdict_words(audit)}**", _run_words(audit)]
    for heading, text, lines in _blocks(audit):
        paragraph = text if isinstance(text, str) else "\n".join(f"- {sentence}" for sentence in text)
        parts += [part for part in (f"## {heading}", paragraph, _markdown_table(lines) if lines else "") if part]
    return "\n\n".join(parts) + "\n"


def _markdown_table(lines: Sequence[CheckLine]) -> str:
    rows = [
        f"| {_cell(line.subject)} | {line.check} | {line.verdict} | {_cell(line.found)} | {line.tried:,} |"
        for line in lines
    ]
    return "\n".join(["| subject | check | verdict | found | tried |", "|---|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _run_words(audit: Audit) -> str:
    how = "quick" if audit.quick else "at length"
    return f"BlowfishDB {audit.version}, {how}, seed {audit.seed}, {audit.seconds:.0f} s."


def as_html(audit: Audit) -> str:
    """The page as one HTML file."""
    state = "clean" if audit.is_clean else "violation"
    parts = [
        f"<h1>Audit of {html.escape(audit.title)}</h1>",
        f'<p class="verdict {state}">{html.escape(verdict_words(audit))}</p>',
        f"<p>{html.escape(_run_words(audit))}</p>",
    ]
    for heading, text, lines in _blocks(audit):
        paragraph = f"<p>{html.escape(text)}</p>" if isinstance(text, str) else _html_list(text)
        parts += [f"<h2>{heading}</h2>", paragraph if text else "", _html_table(lines) if lines else ""]
    head = f"{METAS}<title>Audit of {html.escape(audit.title)}</title><style>{STYLE}</style>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body><main>{"".join(parts)}</main></body></html>\n'


def _html_list(sentences: tuple[str, ...]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences) + "</ul>"


def _html_table(lines: Sequence[CheckLine]) -> str:
    head = "<tr><th>subject</th><th>check</th><th>verdict</th><th>found</th><th>tried</th></tr>"
    rows = [
        f"<tr><td>{html.escape(line.subject)}</td><td>{html.escape(line.check)}</td>"
        f'<td class="{line.verdict.split()[0]}">{line.verdict}</td><td>{html.escape(line.found)}</td>'
        f'<td class="n">{line.tried:,}</td></tr>'
        for line in lines
    ]
    return f'<div class="wide" tabindex="0"><table>{head}{"".join(rows)}</table></div>'


def as_document(audit: Audit) -> dict[str, object]:
    """The audit for programs."""
    return {
        "title": audit.title,
        "clean": audit.is_clean,
        "verdict": verdict_words(audit),
        "quick": audit.quick,
        "seed": audit.seed,
        "version": audit.version,
        "seconds": round(audit.seconds, 1),
        "powers": list(audit.powers),
        "lines": [{"section": section, **asdict(line)} for section, line in audit.lines],
    }


def check_report(path: Path) -> None:
    """Refuses a place where no report can be written, before anything runs."""
    if path.suffix.lower() not in ("", *PAGES):
        raise InvalidInput("a report is a folder, or a file that ends in .html, .md or .json")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InvalidInput(f"there is no folder {folder.name} to write the report into")


def write_report(audit: Audit, path: Path) -> list[Path]:
    """Writes one file, or all three into a folder; gives the paths."""
    if not path.suffix:
        path.mkdir(exist_ok=True)
    paths = [path] if path.suffix else [path / f"audit{ending}" for ending in PAGES]
    for page in paths:
        page.write_text(PAGES[page.suffix.lower()](audit), encoding="utf-8")
    return paths


def _as_json(audit: Audit) -> str:
    return json.dumps(as_document(audit), indent=2, ensure_ascii=False) + "\n"


PAGES: dict[str, Callable[[Audit], str]] = {".html": as_html, ".md": as_markdown, ".json": _as_json}
