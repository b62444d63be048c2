"""Names written in SQL: attributes as declared; without quotes their case does not matter where that is clear."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from blowfishdb.errors import QueryError
from blowfishdb.model.numbers import suggest
from blowfishdb.sql.literals import only
from blowfishdb.sql.refusals import shown


@dataclass(frozen=True)
class Names:
    """The attributes of one dataset, and what may stand before them with a dot."""

    attributes: tuple[str, ...]
    qualifiers: tuple[str, ...]

    def find(self, node: exp.Expression) -> str | None:
        """The attribute that a node names; None where it names none."""
        if isinstance(node, exp.Paren):
            return self.find(node.this)
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return None
        if not only(node, "this", "table"):
            return None
        before = node.args.get("table")
        if before is not None and str(before.this).lower() not in [name.lower() for name in self.qualifiers]:
            return None
        return self._declared(str(node.this.this), quoted=bool(node.this.args.get("quoted")))

    def attribute(self, node: exp.Expression, advice: str) -> str:
        """The attribute that a node names; an error with the nearest names where it names none."""
        name = self.find(node)
        if name is not None:
            return name
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and only(node, "this"):
            raise QueryError(f"there is no attribute {shown(node.this.this)}; {self.nearest(str(node.this.this))}")
        raise QueryError(f"{written(node)} is no attribute; {advice}")

    def nearest(self, name: str) -> str:
        """A half-sentence with the nearest names, and how to write one that is no plain word."""
        found = suggest(name[:200], self.attributes)
        odd = [known for known in self.attributes if repr(known) in found and not known.isidentifier()]
        end = "" if found.endswith("?") else "."
        return f"{found}{end} Names with spaces or signs stand in double quotes" if odd else found

    def _declared(self, name: str, *, quoted: bool) -> str | None:
        if name in self.attributes:
            return name
        same = [known for known in self.attributes if known.lower() == name.lower()]
        return same[0] if len(same) == 1 and not quoted else None


def written(node: exp.Expression) -> str:
    """What somebody wrote, for a message."""
    try:
        return shown(node.sql())
    except (SqlglotError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        # A tree that the parser accepts and the writer does not: its kind says enough.
        return shown(node.key)
