"""blowfish policy: draw and risk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blowfishdb.cli.options import USUAL_CONFIG, AsJson, Config, Name

Attribute = Annotated[str, typer.Option(metavar="NAME", help="The attribute to look at.")]


def draw(
    name: Name,
    attribute: Attribute,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to: FILE.svg or FILE.dot.")] = None,
    around: Annotated[str | None, typer.Option(metavar="VALUE", help="Show the values around this one.")] = None,
    values: Annotated[int, typer.Option(metavar="NUMBER", help="Show at most so many values.")] = 24,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Draws which values are hidden from each other. Warns of parts that nothing joins.

    Small attributes are drawn whole, of larger ones a window. Reads no data.

    \b
    Examples
      blowfish policy draw visits --attribute ward --output ward.svg
      blowfish policy draw visits --attribute cost --around 900 --output cost.dot
    """
    from blowfishdb.cli.opening import existing
    from blowfishdb.cli.pictures import draw_policy

    with existing(config) as curator:
        dataset = curator.dataset(name)
    draw_policy(dataset, attribute, output, around, values, as_json=as_json)


def risk(
    name: Name,
    attribute: Attribute,
    pair: Annotated[str, typer.Option(metavar="A,B", help="The two values somebody would tell apart.")],
    epsilon: Annotated[
        list[str] | None, typer.Option(metavar="NUMBER", help="What a release costs; repeat it for several releases.")
    ] = None,
    prior: Annotated[str, typer.Option(metavar="NUMBER", help="How likely A was believed before.")] = "0.5",
    odds: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Ask for the budget that keeps the odds below this factor.")
    ] = None,
    posterior: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Ask for the budget that keeps the belief below this.")
    ] = None,
    releases: Annotated[int, typer.Option(metavar="NUMBER", help="Over so many releases.")] = 1,
    records: Annotated[int, typer.Option(metavar="NUMBER", help="So many rows of one person change together.")] = 1,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw beliefs before and after: png, svg, pdf.")
    ] = None,
    config: Config = USUAL_CONFIG,
    as_json: AsJson = False,
) -> None:
    """Tells how much releases help to guess, or the budget for a bound.

    \b
    Examples
      blowfish policy risk visits --attribute cost --pair 900,1000 --epsilon 0.5
      blowfish policy risk visits --attribute cost --pair 900,1000 \\
          --epsilon 0.5 --epsilon 0.2 --prior 0.1 --plot risk.png
      blowfish policy risk visits --attribute cost --pair 900,1000 --odds 3 --releases 10
    """
    from blowfishdb.cli.opening import existing
    from blowfishdb.cli.risks import RiskQuestion, show_risk

    with existing(config) as curator:
        dataset = curator.dataset(name)
    asked = RiskQuestion(attribute, pair, tuple(epsilon or ()), prior, odds, posterior, releases, records, plot)
    show_risk(dataset, asked, as_json=as_json)
