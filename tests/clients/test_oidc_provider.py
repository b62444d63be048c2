"""Signing in with a real OpenID provider: Django OAuth Toolkit, its login page, its consent, its keys and groups."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from html import unescape
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from blowfishdb.cli.serve import free_port
from tests.clients.test_superset import BUILD, running, wait_for
from tests.server.places import NO_CERTIFICATES, PATIENCE, Place, opened

pytestmark = pytest.mark.clients
PACKAGES = ("django-oauth-toolkit==3.4.1",)
CLIENT, WORD, NAME = "blowfish", "the client's own word", "ana@example.org"
PROVIDER = """
import sys
from pathlib import Path

from django.conf import settings
from django.core.management import call_command, execute_from_command_line

folder = Path(__file__).parent
settings.configure(
    DEBUG=True, SECRET_KEY="for this test", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, USE_TZ=True,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "oauth2_provider"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.csrf.CsrfViewMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": folder / "provider.db"}},
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": [folder], "APP_DIRS": True,
                "OPTIONS": {"context_processors": ["django.template.context_processors.request"]}}],
    LOGIN_URL="/login/",
    OAUTH2_PROVIDER={
        "OIDC_ENABLED": True, "PKCE_REQUIRED": True, "OIDC_RSA_PRIVATE_KEY": (folder / "key.pem").read_text(),
        "SCOPES": {"openid": "who you are", "email": "your address", "profile": "your name", "groups": "your groups"},
        "OAUTH2_VALIDATOR_CLASS": "__main__.Validator",
        "OIDC_ISS_ENDPOINT": sys.argv[2],
    },
)
import django
django.setup()

from django.contrib.auth.views import LoginView
from django.urls import include, path
from oauth2_provider.oauth2_validators import OAuth2Validator


class Validator(OAuth2Validator):
    # Groups are told only to who asks for their scope.
    oidc_claim_scope = {**OAuth2Validator.oidc_claim_scope, "email_verified": "email", "groups": "groups"}

    def get_additional_claims(self, request):
        groups = [group.name for group in request.user.groups.order_by("name")]
        return {"email": request.user.email, "email_verified": request.user.is_active, "groups": groups}


urlpatterns = [path("login/", LoginView.as_view(template_name="login.html")), path("", include("oauth2_provider.urls"))]
sys.modules["__main__"].urlpatterns = urlpatterns

if sys.argv[1] == "prepare":
    from django.contrib.auth.models import User
    from oauth2_provider.models import Application
    call_command("migrate", verbosity=0)
    for name in ("ana", "stranger"):
        User.objects.create_user(name, f"{name}@example.org", "a long password")
    Application.objects.create(
        client_id=sys.argv[3], client_secret=sys.argv[4], redirect_uris=sys.argv[5], client_type="confidential",
        authorization_grant_type="authorization-code", algorithm="RS256", name="BlowfishDB")
elif sys.argv[1] == "groups":
    from django.contrib.auth.models import Group, User
    groups = [Group.objects.get_or_create(name=name)[0] for name in sys.argv[4:]]
    User.objects.get(username=sys.argv[3]).groups.set(groups)
else:
    execute_from_command_line(["provider", "runserver", "--noreload", "--nothreading", sys.argv[3]])
"""
LOGIN = '<form method="post">{% csrf_token %}{{ form }}<input type="hidden" name="next" value="{{ next }}"></form>'


@dataclass(frozen=True)
class Provider:
    """Where the provider is installed, and the address that it will listen on."""

    python: Path
    folder: Path
    address: str

    def command(self, what: str, *arguments: str) -> list[str]:
        return [str(self.python), str(self.folder / "provider.py"), what, self.address, *arguments]


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    home, folder = BUILD / "oidc-provider", tmp_path / "provider"
    if not (home / "bin" / "django-admin").exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(home / "bin" / "pip"), "install", "--quiet", *PACKAGES], check=True)
    folder.mkdir()
    key = generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "key.pem").write_bytes(key)
    (folder / "provider.py").write_text(PROVIDER)
    (folder / "login.html").write_text(LOGIN)
    yield Provider(home / "bin" / "python", folder, f"http://127.0.0.1:{free_port(0)}")


def form_of(page: str) -> dict[str, str]:
    """The hidden fields of a form."""
    fields = (dict(re.findall(r'(\w+)="([^"]*)"', tag)) for tag in re.findall(r"<input[^>]*>", page))
    return {field["name"]: unescape(field.get("value", "")) for field in fields if field.get("type") == "hidden"}


def signed_in(browser: httpx.Client, name: str) -> httpx.Response:
    """The last answer of a walk over the provider's login and consent back to the server."""
    login = browser.get("/api/v1/sessions/oidc")
    assert login.url.path == "/login/", login.text
    fields = {**form_of(login.text), "username": name, "password": "a long password"}
    back = browser.post(login.url, data=fields, follow_redirects=False).headers["location"]
    consent = browser.get(login.url.join(back), follow_redirects=False)
    assert consent.status_code == 200, consent.headers
    fields = {**form_of(consent.text), "allow": "Authorize"}
    granted = browser.post(consent.url, data=fields, follow_redirects=False)
    assert granted.status_code == 302, granted.text
    back = granted.headers["location"]
    # The server of a test listens on another port than its settings say.
    return browser.get(back[back.index("/api/") :], follow_redirects=False)


@contextmanager
def beside(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **more: str
) -> Iterator[tuple[Place, Callable[[str], httpx.Client]]]:
    """A server whose users sign in with the provider, and a function that does so in a browser of its own."""
    monkeypatch.setenv("WORD", WORD)
    home = tmp_path / "server"
    home.mkdir()
    keys = {"oidc_issuer": provider.address, "oidc_client": CLIENT, "oidc_secret": "${WORD}", **more}
    with opened(home, server="\n".join(f'{name} = "{value}"' for name, value in keys.items())) as place:
        place.app_state.users.add(NAME, "analyst", None)
        known = place.app_state.settings.provider
        assert known is not None
        subprocess.run(provider.command("prepare", CLIENT, WORD, known.callback), check=True)
        listening = provider.address.removeprefix("http://")
        with running(provider.command("serve", listening), {}, tmp_path / "provider.log"):
            wait_for(f"{provider.address}/.well-known/openid-configuration")

            def browse(name: str) -> httpx.Client:
                usual = {"base_url": place.address, "verify": NO_CERTIFICATES, "timeout": PATIENCE}
                browser = httpx.Client(**usual, follow_redirects=True)  # type: ignore[arg-type]
                place.clients.append(browser)
                signed_in(browser, name)
                return browser

            yield place, browse


def test_who_signs_in_there_is_signed_in_here(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with beside(provider, tmp_path, monkeypatch) as (_, browse):
        for name, expected in (("ana", NAME), ("stranger", None)):
            session = browse(name).get("/api/v1/sessions/current")
            assert (session.json().get("name"), session.status_code) == (expected, 200 if expected else 401)


def test_groups_there_open_datasets_here(provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with beside(provider, tmp_path, monkeypatch, oidc_groups="groups") as (place, browse):
        grants = place.app_state.grants
        grants.hand_over("visits", "cora", everyone=False)
        path = "/api/v1/datasets/visits/access/@oidc:cardiology"
        assert place.browser("cora").put(path, json={"role": "analyst", "epsilon": "1/8"}).status_code == 200
        for groups, seen in (([], []), (["cardiology", "surgery"], ["visits"]), (["surgery"], [])):
            subprocess.run(provider.command("groups", "ana", *groups), check=True)
            assert [one["name"] for one in browse("ana").get("/api/v1/datasets").json()] == seen
            assert sorted(grants.groups()) == [f"@oidc:{group}" for group in groups]
        assert place.app_state.session(NAME).budget("visits").limit == Fraction(1, 8), "a limit stays when a group goes"
