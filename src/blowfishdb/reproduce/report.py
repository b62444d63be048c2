"""One page with every figure and verdict, as Markdown and as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from pathlib import Path

from blowfishdb.reproduce.experiment import Experiment
from blowfishdb.reproduce.given_data import survey
from blowfishdb.reproduce.outputs import Done
from blowfishdb.reproduce.settings import Settings

PAGES = ("index.md", "index.html")
HOLDS = {"yes": "holds", "no": "does not hold", "partly": "holds in part"}
STYLE = """body { font: 16px/1.5 system-ui, sans-serif; color: #1f2933; max-width: 60rem; margin: 2rem auto }
body { padding: 0 1rem } img { max-width: 100%; height: auto } h2 { margin-top: 2.5rem } .holds { font-weight: 600 }"""

Finished = Sequence[tuple[Experiment, Done]]


def write_report(out: Path, settings: Settings, finished: Finished) -> None:
    """Writes index.md and index.html beside the experiments' folders."""
    for name, text in zip(PAGES, (markdown(settings, finished), page(settings, finished)), strict=True):
        (out / name).write_text(text, encoding="utf-8")


def markdown(settings: Settings, finished: Finished) -> str:
    """The page for a repository or a notebook."""
    lines = ["# The papers' experiments, run again", "", _how(settings), ""]
    for experiment, done in finished:
        verdict = done.verdict
        lines += [f"## {experiment.figure}: {experiment.what}", "", f"{experiment.paper}. `{experiment.name}`", ""]
        lines += [f"Claim: {verdict.claim} **It {HOLDS[verdict.holds]}.** {verdict.why}", ""]
        lines += [_took(done), ""]
        lines += [f"![{title}]({experiment.name}/{name}.png)" for name, title in done.pictures.items()]
        lines += ["", "Tables: " + ", ".join(f"[{title}]({link})" for title, link in _links(experiment, done)), ""]
    return "\n".join(lines)


def page(settings: Settings, finished: Finished) -> str:
    """The page for a browser."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>The papers' experiments</title>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<style>{STYLE}</style><main>",
        f"<h1>The papers' experiments, run again</h1><p>{html.escape(_how(settings))}</p>",
    ]
    for experiment, done in finished:
        verdict = done.verdict
        title = html.escape(f"{experiment.figure}: {experiment.what}")
        parts.append(
            f"<h2 id='{experiment.name}'>{title}</h2><p>{html.escape(experiment.paper)}. {experiment.name}</p>"
        )
        parts.append(
            f"<p>Claim: {html.escape(verdict.claim)} <span class='holds'>It {HOLDS[verdict.holds]}.</span> "
            f"{html.escape(verdict.why)}</p>"
        )
        parts += [
            f"<p><img src='{experiment.name}/{name}.svg' alt='{html.escape(text, quote=True)}'></p>"
            for name, text in done.pictures.items()
        ]
        parts.append(f"<p>{_took(done)}</p>")
        links = (f"<a href='{link}'>{html.escape(words)}</a>" for words, link in _links(experiment, done))
        parts.append(f"<p>Tables: {', '.join(links)}</p>")
    return "\n".join([*parts, "</main></html>", ""])


def _took(done: Done) -> str:
    return f"Processor time: {done.seconds / 60:,.1f} minutes."


def _links(experiment: Experiment, done: Done) -> Iterator[tuple[str, str]]:
    """The title and the file of each table."""
    for name, title in done.tables.items():
        yield title, f"{experiment.name}/{name}.csv"


def _how(settings: Settings) -> str:
    trials = {"tiny": "A run too small to show anything", "quick": "A quick run with few trials", "full": "A full run"}
    given = "" if settings.data is None else f" From the given folder: {survey(settings).words()}"
    return (
        f"{trials[settings.size]}, seed {settings.seed}. Data sets that may not be shipped and were not given are "
        f"replaced by generated ones, named stand-in wherever they appear.{given}"
    )
