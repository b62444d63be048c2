"""A real private release of a real table: `python -m blowfishdb.demo`, or `make demo`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import as_file, files

import duckdb
import numpy as np
from rich.console import Console
from rich.table import Table

import blowfishdb as bf
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compiled import Compiled
from blowfishdb.engine.release import release
from blowfishdb.model.arrays import Ints
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs.families import Family

WITHIN, BETA = 150, 0.05
BAR = 44

ADULT = bf.domain(
    {
        "age": bf.integers(17, 90, null=17),
        "sex": bf.categorical(["Female", "Male"]),
        "hours_per_week": bf.integers(1, 99),
        "capital_loss": bf.integers(0, 4356, null=0),
    }
)
CHOICES: dict[str, Family] = {
    "everything secret": bf.full(),
    "within 1,000 dollars": bf.threshold(1000),
    "within 100 dollars": bf.threshold(100),
    "within 10 dollars": bf.threshold(10),
    "neighbouring values only": bf.line(),
}
POLICY = bf.Policy({"capital_loss": bf.threshold(100), "age": bf.threshold(5)})


def true_counts(compiled: Compiled, domain: Domain) -> Ints:
    """The exact counts over the cells, from one GROUP BY in DuckDB; only the engine may see them."""
    names = compiled.cells.attributes
    with as_file(files("blowfishdb") / "data" / "adult.parquet") as path:
        listed = ", ".join(f'"{name}"' for name in names)
        grouped = f"SELECT {listed}, count(*) FROM read_parquet(?) GROUP BY {listed}"
        rows = duckdb.connect().execute(grouped, [str(path)]).fetchall()
    codes = {name: domain.find(name).encode([row[place] for row in rows]) for place, name in enumerate(names)}
    cells, repeats = compiled.cells.cell_of(codes), np.array([row[-1] for row in rows], dtype=np.int64)
    counts = np.zeros(compiled.problem.graph.cells, dtype=np.int64)
    np.add.at(counts, cells[cells >= 0], repeats[cells >= 0])
    return counts


def show_price_of_policies(console: Console) -> None:
    """What each policy on capital loss would cost, before any data is read."""
    table = Table(
        title=f"Cumulative histogram of capital_loss, every count within {WITHIN} (95 %): what a policy costs"
    )
    for column in ("what is secret", "epsilon", "mechanism", "next best"):
        table.add_column(column, justify="right" if column == "epsilon" else "left")
    for words, family in CHOICES.items():
        policy = bf.Policy({"capital_loss": family})
        compiled = bf.compile_query(ADULT, policy, bf.query("cdf", "capital_loss"))
        first, *others = bf.quote(compiled.problem, WITHIN, BETA, bf.MECHANISMS).offers
        second = f"{others[0].mechanism}: {float(others[0].epsilon):.3g}" if others else ""
        table.add_row(words, f"{float(first.epsilon):.3g}", first.mechanism, second)
    console.print(table)
    console.print("No data was read, and nothing was charged.\n")


def ask(console: Console, words: str, asked: Compiled, alpha: float) -> Answer:
    """Quotes and releases one question."""
    best = bf.quote(asked.problem, alpha, BETA, bf.MECHANISMS).best
    answer = release(asked, best, true_counts(asked, ADULT))
    console.print(
        f"[bold]{words}[/bold]\n  epsilon {float(answer.epsilon):.3g} with {answer.mechanism}; "
        f"every value within {answer.widths.simultaneous:.0f} of the truth (95 %)"
    )
    return answer


def draw(console: Console, labels: Sequence[str], values: Sequence[float], width: float) -> None:
    """Bars with their interval: solid up to the low end, lighter up to the high end."""
    longest = max(float(max(values)) + width, 1.0)
    for label, value in zip(labels, values, strict=True):
        solid = round(BAR * max(value - width, 0.0) / longest)
        light = round(BAR * (value + width) / longest) - solid
        console.print(f"  {label:>16} {value:>9,.0f}  [cyan]{'█' * solid}[/cyan][blue]{'▒' * light}[/blue]")
    console.print()


def main() -> None:
    """Prints the tour."""
    console = Console()
    console.print("[bold]BlowfishDB[/bold]: UCI Adult, 48,842 census records (Becker and Kohavi, CC BY 4.0)\n")
    show_price_of_policies(console)
    console.print("The curator chooses: capital_loss within 100 dollars, age within 5 years, the rest entirely secret.")
    for sentence in bf.explain(ADULT, POLICY):
        console.print(f"  - {sentence}")
    console.print()
    ages = bf.compile_query(ADULT, POLICY, bf.query("histogram", bf.col("age").bins(5)))
    answer = ask(console, "How many people of each age?", ages, alpha=100)
    draw(console, answer.labels, list(answer.values), answer.widths.simultaneous)
    losses = bf.compile_query(ADULT, POLICY, bf.query("cdf", "capital_loss"))
    answer = ask(console, "How many people lost at most so much?", losses, alpha=WITHIN)
    shown = range(0, len(answer.labels), 272)
    draw(console, [answer.labels[i] for i in shown], [answer.values[i] for i in shown], answer.widths.simultaneous)


if __name__ == "__main__":
    main()
