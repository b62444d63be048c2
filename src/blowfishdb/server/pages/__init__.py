"""The web pages, by topic. A page asks the app state for a session or a curator, and for nothing else."""

PAGES: tuple[str, ...] = (
    "sign_in",
    "explore",
    "dictionary",
    "my_questions",
    "history",
    "dashboards",
    "synopses",
    "datasets",
    "dataset_add",
    "policies",
    "trade_off",
    "access",
)
"""The modules below this one that the app loads; each registers its pages when it is imported."""
