"""The stops of the tour: what is said, and the command that anybody can type."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stop:
    """One stop of the tour: what is said, then the command that is run; `code` is how it is meant to end."""

    said: str
    command: tuple[str, ...]
    code: int = 0


ANALYST = ("--analyst", "ana")

STOPS = (
    Stop(
        "A curator declares what the public may know anyway, what is hidden, and a budget. No row is read.",
        (
            *("dataset", "add", "adult", "--source", "adult.parquet"),
            *("--domain", "age=17..90 null=17"),
            *("--domain", "sex=Female, Male"),
            *("--domain", "hours_per_week=1..99 null=40"),
            *("--domain", "capital_loss=0..4356 null=0"),
            *("--policy", "age=within 5"),
            *("--policy", "capital_loss=within 100"),
            *("--epsilon", "3", "--per-analyst", "2", "--by", "cora"),
        ),
    ),
    Stop(
        "Was 100 dollars a good choice? The same accuracy under other policies, and what an adversary may learn.",
        (
            *("policy", "what-if", "adult", "--attribute", "capital_loss", "--within", "150"),
            *("--policy", "full", "--theta", "1000", "--theta", "100", "--policy", "line"),
            *("--pair", "1000,1050", "--pair", "0,2000"),
        ),
    ),
    Stop("What the policy means, in words.", ("policy", "show", "adult")),
    Stop(
        "An analyst asks what a histogram of ages would cost. Nothing is read, nothing is charged.",
        ("preview", "adult", "--histogram", "bin(age, 5)", "--within", "100", *ANALYST),
    ),
    Stop(
        "Good. The answer: charged first, then counted, with exact noise and intervals.",
        ("release", "adult", "--histogram", "bin(age, 5)", "--within", "100", *ANALYST, "{plot}", "ages.png"),
    ),
    Stop(
        "How many lost at most so much? All 4,357 running counts at once.",
        ("release", "adult", "--cdf", "capital_loss", "--within", "150", *ANALYST, "{plot}", "capital_loss.png"),
    ),
    Stop(
        "Two attributes together.",
        (
            *("release", "adult", "--histogram", "bin(age, 5), bin(hours_per_week, 10)", "--epsilon", "0.5"),
            *(*ANALYST, "{plot}", "age_hours.png"),
        ),
    ),
    Stop(
        "The same in SQL. The first question again is replayed: it costs nothing.",
        ("sql", "SELECT bin(age, 5), COUNT(*) FROM adult GROUP BY 1 OPTIONS (alpha = 100, beta = 0.05)", *ANALYST),
    ),
    Stop("What is no counting question is refused.", ("sql", "SELECT * FROM adult", *ANALYST), code=3),
    Stop(
        "What is too dear is refused too, with what the rest of the budget buys.",
        ("release", "adult", "--histogram", "hours_per_week", "--within", "2", *ANALYST),
        code=4,
    ),
    Stop("The ledger has it all.", ("ledger", "show")),
    Stop("And anybody can check it.", ("ledger", "verify")),
)
