"""The look of all pages: the stylesheet, the mark, and whole pages that need no shell."""

from __future__ import annotations

from html import escape
from pathlib import Path

from fastapi import Request
from fastapi.responses import HTMLResponse
from nicegui import app, ui

from blowfishdb.engine.released import software_version

ASSETS = Path(__file__).parent / "assets"
HOME = "/assets"
THEME_COOKIE = "blowfish_theme"
YEAR = 365 * 24 * 60 * 60
MARK = (
    '<svg viewBox="0 0 32 32" aria-hidden="true"><g fill="none" stroke="currentColor" stroke-width="1.7" '
    'stroke-linecap="round"><path d="M14 3.6v2.6M20.4 6.2l-1.3 2M24.2 20.9l-1.9-1.2M20 25.6l-1.2-2M13.4 28.3v-2.6'
    'M7 25.2l1.3-2M3.5 20.3l2-1M3.4 12.2l2 1M7.2 6.6l1.4 1.9"/></g><path d="M14 7.2c5.2 0 9 3.3 10.3 6.4l4.9-3.3c.5-.3 '
    "1 .1.9.6-.7 2.3-1 3.5-1 5s.3 2.9 1 5.2c.1.5-.4.9-.9.6l-4.9-3.3C23 21.5 19.2 24.8 14 24.8 "
    '8.7 24.8 4.6 20.9 4.6 16S8.7 7.2 14 7.2Z" fill="currentColor"/>'
    '<circle cx="10.3" cy="13.6" r="2.1" fill="#fff"/><circle cx="10" cy="13.6" r="1" fill="#12303d"/></svg>'
)
"""A blowfish; the colour is that of the text around it."""

app.add_static_files(HOME, ASSETS, max_cache_age=3600)


def address(asset: str) -> str:
    """Where browsers find an asset; a new version of the software has a new address."""
    return f"{HOME}/{asset}?{software_version()}"


def wears_dark(request: Request) -> bool | None:
    """Whether this browser chose the dark theme; None while it follows the system."""
    return {"dark": True, "light": False}.get(request.cookies.get(THEME_COOKIE, ""))


def add_theme(request: Request) -> ui.dark_mode:
    """Dresses the page that is being built."""
    ui.add_head_html(f'<link rel="stylesheet" href="{address("theme.css")}">')
    return ui.dark_mode(wears_dark(request))


def remember_theme(*, dark: bool) -> None:
    """Keeps the choice of theme in the browser."""
    word = "dark" if dark else "light"
    ui.run_javascript(f'document.cookie = "{THEME_COOKIE}={word}; path=/; max-age={YEAR}; SameSite=Lax"')


def plain_page(title: str, body: str, status: int = 200) -> HTMLResponse:
    """A whole page of trusted markup around which there is no shell."""
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} · BlowfishDB</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="{address("mark.svg")}"><link rel="stylesheet" href="{address("theme.css")}"></head>'
        f'<body class="bf-plain"><main><div class="bf-mark">{MARK}BlowfishDB</div>{body}</main>'
        f'<script src="{address("plain.js")}"></script></body></html>',
        status,
    )


def refusal_page(title: str, said: str, status: int) -> HTMLResponse:
    """A whole page that says why there is nothing to see, and leads back."""
    body = f'<section class="bf-card"><h1>{escape(title)}</h1><p class="bf-quiet">{escape(said)}</p>'
    return plain_page(
        title, body + '<p style="margin-top:18px"><a href="/">Back to the first page</a></p></section>', status
    )
