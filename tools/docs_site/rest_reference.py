"""The page of REST routes, from the OpenAPI document of the server."""

from __future__ import annotations

from typing import Any

from blowfishdb.server.app import ROUTERS
from blowfishdb.server.rest import ledger
from tools.docs_site.words import NOTE, code, table

METHODS = ("get", "post", "put", "patch", "delete")


def description() -> dict[str, Any]:
    """The OpenAPI document of all routes."""
    from fastapi import APIRouter, FastAPI

    app = FastAPI(title="BlowfishDB", docs_url=None, redoc_url=None)
    api = APIRouter(prefix="/api/v1")
    for router in ROUTERS:
        api.include_router(router)
    app.include_router(api)
    app.include_router(ledger.router)
    return app.openapi()


def page() -> str:
    """Each route: what it does, what it takes, what it gives."""
    document = description()
    parts = [
        "# REST routes",
        NOTE,
        "`GET /api/v1/openapi.json` on a running server returns the same as OpenAPI. [REST](../rest.md) explains "
        "signing in, keys, and who may do what; [errors](errors.md) lists every code.",
    ]
    group = ""
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method not in methods:
                continue
            route = methods[method]
            tag = (route.get("tags") or ["operation"])[0]
            if tag != group:
                parts.append(f"## {tag.capitalize()}")
                group = tag
            parts += _route(method.upper(), path, route)
    parts += ["## Bodies", *_bodies(document.get("components", {}).get("schemas", {}))]
    return "\n\n".join(parts)


def _route(method: str, path: str, route: dict[str, Any]) -> list[str]:
    said = [f"### {method} {path.removeprefix('/api/v1')}", route.get("description") or route.get("summary", "")]
    rows = [
        (code(one["name"]), one["in"], _type(one.get("schema", {})), "yes" if one.get("required") else "")
        for one in route.get("parameters", [])
        if one["in"] != "cookie"
    ]
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body:
        rows.append(("body", "JSON", _type(body), "yes"))
    if rows:
        said.append(table(("parameter", "where", "form", "needed"), rows))
    return said


def _bodies(schemas: dict[str, Any]) -> list[str]:
    said = []
    for name, schema in sorted(schemas.items()):
        if "properties" not in schema or name in ("HTTPValidationError", "ValidationError"):
            continue
        needed = schema.get("required", [])
        rows = [(code(key), _type(one), "yes" if key in needed else "") for key, one in schema["properties"].items()]
        said += [f"### {name}", schema.get("description", ""), table(("key", "form", "needed"), rows)]
    return said


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if "enum" in schema:
        return ", ".join(code(one) for one in schema["enum"])
    return str(schema.get("type", "anything"))
