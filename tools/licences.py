"""The licence of every dependency, from its own metadata, as the page docs/licences.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import metadata

from tools.dependencies import RUN_TIME, USED, declared, needed, pins

UNKNOWN = "unknown"
NAMES = {
    "apache": "Apache-2.0",
    "mit": "MIT",
    "bsd": "BSD",
    "isc": "ISC",
    "mozilla public license 2.0": "MPL-2.0",
    "mpl-2.0": "MPL-2.0",
    "python software foundation": "PSF-2.0",
    "psf": "PSF-2.0",
    "gpl-3.0": "GPL-3.0",
    "gnu general public": "GPL",
    "public domain": "Public-Domain",
}
"""What the names that people wrote before there were expressions begin with or hold."""
PERMISSIVE = ("0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MIT-CMU")
APPROVED = frozenset((*PERMISSIVE, "LLVM-exception", "MPL-2.0", "PSF-2.0", "Public-Domain", "Zlib"))
"""Licences that let users of the package do with it what its own licence lets them."""
EXCEPTIONS = {"psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only"}
"""Optional, unchanged, and replaceable by whoever installs them."""
IN_FILES = {"axe-playwright-python": "MIT AND MPL-2.0"}
"""Packages whose metadata state nothing: what the files in them say."""
HEAD = """# Licences

Every package that BlowfishDB or its tests may install, at the version in `constraints.txt`, with the licence that its
own metadata states. `make licences` writes this page. What is used at run time must be under a licence that is approved
in `tools/licences.py`; the psycopg driver (LGPL) is an optional extra, used unchanged.

"""


def licence_of(name: str) -> str:
    """The licence that a package states: its expression, its classifiers, or its own words."""
    found = metadata.metadata(name).json
    if "license_expression" in found:
        return str(found["license_expression"])
    classified = [line for line in found.get("classifier", []) if line.startswith("License :: ")]
    said = [line.rpartition(" :: ")[2] for line in classified] or str(found.get("license", "")).splitlines()[:1]
    return " OR ".join(dict.fromkeys(map(_named, said))) or IN_FILES.get(name, UNKNOWN)


def _named(words: str) -> str:
    lower = words.strip().lower()
    return next(
        (name for start, name in NAMES.items() if re.search(rf"\b{re.escape(start)}", lower)), words.strip() or UNKNOWN
    )


def is_approved(licence: str) -> bool:
    """Whether some choice that the licence leaves is approved in all its parts."""
    choices = re.split(r"\s+OR\s+", licence.replace("(", "").replace(")", ""))
    return any(all(part in APPROVED for part in re.split(r"\s+(?:AND|WITH)\s+", choice)) for choice in choices)


def refused(licences: Mapping[str, str]) -> dict[str, str]:
    """Packages whose licence nobody approved for run time."""
    return {
        name: licence
        for name, licence in licences.items()
        if not is_approved(licence) and EXCEPTIONS.get(name) != licence
    }


def run_time() -> set[str]:
    """What users may get: the package itself and all its extras."""
    return needed(declared(*RUN_TIME))


def everything() -> set[str]:
    """What users and tests may get."""
    return needed(declared("test", *USED))


def licences(names: Iterable[str]) -> dict[str, str]:
    """The licence of each package, by name."""
    return {name: licence_of(name) for name in sorted(names)}


def page() -> str:
    """The page."""
    versions, core, users = pins(), needed(declared()), run_time()
    lines = ["| package | version | licence | needed |", "|---|---|---|---|"]
    for name, licence in licences(everything()).items():
        use = "always" if name in core else "by extras" if name in users else "by tests"
        lines.append(f"| {name} | {versions[name]} | {licence} | {use} |")
    return HEAD + "\n".join(lines) + "\n"
