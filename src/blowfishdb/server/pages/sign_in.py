"""Signing in, and the change of a first password: plain pages that load at once."""

from __future__ import annotations

from html import escape

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from nicegui import __version__ as nicegui_version
from nicegui import app

from blowfishdb.errors import ProviderUnavailable, SignInRefused
from blowfishdb.server.authentication import app_state_of, identity_of
from blowfishdb.server.pages.layout import PASSWORD, SIGN_IN, home_of, plain_page, refusal_page

OTHER_WAY = '<p class="bf-small"><a href="/api/v1/sessions/oidc">Sign in with your organisation</a></p>'
REFUSED = {
    ProviderUnavailable.code: ProviderUnavailable().message,
    SignInRefused.code: "signing in with your organisation took longer than ten minutes or began in another browser, "
    "your organisation does not vouch for you, or you have no account here. Try once more; then ask your curator, "
    "or sign in with a name and a password.",
}
"""What the page says to those whom their organisation sent back without signing them in."""
BACK = '<p class="bf-small"><a href="/account">Leave it as it is</a></p>'
FOOT = '<p class="bf-foot">Counts with privacy that is proven, and accuracy that you choose.</p>'

SOON = {
    "quasar.umd.prod.js": "script",
    "vue.esm-browser.prod.js": "script",
    "nicegui.js": "script",
    "socket.io.min.js": "script",
    "quasar.unimportant.prod.css": "style",
    "quasar.important.prod.css": "style",
    "fonts.css": "style",
}
"""The largest parts of the framework that every page loads, and what each is."""


def local_path(wanted: str) -> str:
    """The path to continue to; anything that could lead to another site leads to the first page."""
    is_local = wanted.startswith("/") and not wanted.startswith("//") and "\\" not in wanted and wanted.isprintable()
    return wanted if is_local else "/"


@app.get(SIGN_IN)
def sign_in(request: Request) -> Response:
    """The form that begins a login session."""
    identity = identity_of(request)
    if identity is not None:
        return RedirectResponse(home_of(identity))
    refusal = escape(REFUSED.get(request.query_params.get("refused", ""), ""))
    then = escape(local_path(request.query_params.get("then", "/")), quote=True)
    body = (
        f'<form class="bf-card" action="/api/v1/sessions" data-method="POST" data-then="{then}">'
        '<h1>Sign in</h1><p class="bf-quiet bf-small">With the name and password that your curator gave you.</p>'
        '<label for="name">Name</label><input id="name" name="name" autocomplete="username" required autofocus>'
        '<label for="password">Password</label>'
        '<input id="password" name="password" type="password" autocomplete="current-password" required>'
        f'<button type="submit">Sign in</button><p class="bf-said" role="alert">{refusal}</p>'
        f"{OTHER_WAY if app_state_of(request).settings.oidc_issuer is not None else ''}</form>"
    )
    return plain_page("Sign in", body + FOOT + _soon())


def _soon() -> str:
    """Has browsers fetch, while somebody types, what the first page needs."""
    home = f"/_nicegui/{nicegui_version}/static"
    return "".join(f'<link rel="prefetch" href="{home}/{name}" as="{kind}">' for name, kind in SOON.items())


@app.get(PASSWORD)
def change_password(request: Request) -> Response:
    """The form that replaces a password; a first password must be replaced before anything else."""
    identity = identity_of(request)
    if identity is None:
        return RedirectResponse(f"{SIGN_IN}?then={PASSWORD}")
    why = (
        "Your first password was made for you. Choose one that only you know."
        if identity.must_change
        else "All your other sessions end when you change it."
    )
    csrf_token = escape(identity.csrf_token or "", quote=True)
    body = (
        f'<form class="bf-card" action="/api/v1/sessions/current/password" data-method="PUT" data-then="/" '
        f'data-csrf-token="{csrf_token}"><h1>Choose a password</h1><p class="bf-quiet bf-small">{why}</p>'
        '<label for="password">The one in use now</label>'
        '<input id="password" name="password" type="password" autocomplete="current-password" required autofocus>'
        '<label for="new">The new one, of at least 12 characters</label>'
        '<input id="new" name="new_password" type="password" autocomplete="new-password" required minlength="12">'
        '<label for="again">The new one again</label>'
        '<input id="again" name="again" type="password" autocomplete="new-password" required minlength="12">'
        '<button type="submit">Change it</button><p class="bf-said" role="alert"></p>'
        f"{'' if identity.must_change else BACK}</form>"
    )
    return plain_page("Choose a password", body)


@app.exception_handler(404)
def nowhere(request: Request, error: Exception) -> Response:
    """What a path that leads nowhere shows; the log says who took it."""
    del error
    identity_of(request)
    return refusal_page("Nothing is here", "This address leads to no page; perhaps it was mistyped.", 404)


@app.get("/")
def start(request: Request) -> Response:
    """Sends a user to their own first page."""
    identity = identity_of(request)
    return RedirectResponse(SIGN_IN if identity is None else home_of(identity))
