"""REST v1: one file per noun, with its routers; OpenAPI describes them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from blowfishdb.model.serialize import write


class Strict(BaseModel):
    """A body in which unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid")


def fields_of(value: object, *names: str) -> dict[str, Any]:
    """The named attributes of a value as plain data; exact numbers are texts."""
    return {name: write(getattr(value, name)) for name in names}
