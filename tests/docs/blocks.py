"""The code blocks of a page, fenced and indented, each with its language, its line and the reason why it is not run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
NOT_RUN = "*Not run by the tests:"
"""How a visible line begins, above a block that no test can run."""
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*$")


@dataclass(frozen=True)
class Block:
    """One piece of code on a page; `reason` is what the page says about not running it."""

    page: str
    line: int
    language: str
    text: str
    reason: str = ""

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Every page with prose: the README, and all of `docs`."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in their order."""
    return list(_blocks(page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8").split("\n")))


def _blocks(page: str, lines: list[str]) -> Iterator[Block]:
    place, said, in_list = 0, "", False
    while place < len(lines):
        line = lines[place]
        fence = FENCE.match(line)
        before_is_empty = place == 0 or not lines[place - 1].strip()
        if fence:
            end = next(at for at in range(place + 1, len(lines)) if lines[at].strip() == "```")
            inner = [one[len(fence["indent"]) :] for one in lines[place + 1 : end]]
            yield Block(page, place + 1, fence["language"], "\n".join(inner) + "\n", _reason(said))
            place, said = end + 1, ""
        elif line.startswith("    ") and before_is_empty and not in_list:
            end = place
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            text = "\n".join(one[4:] for one in lines[place:end]).strip("\n") + "\n"
            yield Block(page, place + 1, "", text, _reason(said))
            place, said = end, ""
        else:
            if line.strip():
                in_list = bool(re.match(r"\s*(?:[-*+]|\d+\.) ", line)) or (in_list and line.startswith("  "))
                said = line.strip()
            place += 1


def _reason(said: str) -> str:
    return said.removeprefix(NOT_RUN).strip("* ") if said.startswith(NOT_RUN) else ""


def commands(text: str) -> list[str]:
    """The command lines of a shell block: continued lines joined, prompts and what was printed left out."""
    joined = re.sub(r"\\\n\s*", " ", text).split("\n")
    if any(line.startswith("$ ") for line in joined):
        return [line[2:] for line in joined if line.startswith("$ ")]
    return [line.strip() for line in joined if line.strip() and not line.lstrip().startswith("#")]
