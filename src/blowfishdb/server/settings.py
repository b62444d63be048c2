"""The `[server]` table of the configuration: where the server listens, who may connect and how often."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, fields
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from blowfishdb.catalog.config import USUAL_USERS, Config, ConfigEntry, filled_in
from blowfishdb.errors import CatalogError
from blowfishdb.server.auth.session import Provider

SQLITE = "sqlite:///"
OIDC_CALLBACK = "/api/v1/sessions/oidc/callback"

WHOLE = (
    "requests_per_minute",
    "sign_ins_per_minute",
    "shutdown_seconds",
    "largest_body",
    "largest_upload",
    "connections",
    "connections_of_an_account",
    "connections_of_an_address",
    "requests_at_once",
    "request_seconds",
    "idle_seconds",
    "buffers",
    "buffers_of_an_account",
)
"""Settings that are whole numbers, at least 1."""


@dataclass(frozen=True)
class Settings:
    """How the server runs. Times are in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 8000
    postgres: int | None = None
    users: str = USUAL_USERS
    new_datasets: str = "curators"
    certificate: str | None = None
    key: str | None = None
    behind_proxy: bool = False
    proxies: str = "127.0.0.1"
    public_url: str | None = None
    oidc_issuer: str | None = None
    oidc_client: str | None = None
    oidc_secret: str | None = None
    oidc_claim: str = "email"
    oidc_groups: str | None = None
    requests_per_minute: int = 600
    sign_ins_per_minute: int = 20
    shutdown_seconds: int = 60
    largest_body: int = 4 * 2**20
    largest_upload: int = 512 * 2**20
    connections: int = 1000
    connections_of_an_account: int = 100
    connections_of_an_address: int = 100
    requests_at_once: int = 32
    request_seconds: int = 20
    idle_seconds: int = 3600
    buffers: int = 512 * 2**20
    buffers_of_an_account: int = 64 * 2**20
    variables: tuple[str, ...] = ()
    folder: Path = Path(".")

    def __post_init__(self) -> None:
        if not 1 <= self.port <= 65_535:
            raise CatalogError("server.port is a number from 1 to 65535")
        if self.postgres is not None and not 1 <= self.postgres <= 65_535:
            raise CatalogError("server.postgres is a number from 1 to 65535")
        if self.postgres == self.port:
            raise CatalogError(f"server.port and server.postgres are both {self.port}; each needs a port of its own")
        for name in WHOLE:
            if getattr(self, name) < 1:
                raise CatalogError(f"server.{name} is a whole number, at least 1")
        if self.new_datasets not in ("curators", "everyone"):
            raise CatalogError('server.new_datasets is "curators" or "everyone": who sees a dataset before any grant')
        if (self.certificate is None) != (self.key is None):
            raise CatalogError("server.certificate and server.key belong together: name both files, or none")
        if len({value is None for value in (self.oidc_issuer, self.oidc_client, self.oidc_secret)}) > 1:
            raise CatalogError("server.oidc_issuer, server.oidc_client and server.oidc_secret belong together")
        if self.public_url is not None and urlsplit(self.public_url).scheme not in ("http", "https"):
            raise CatalogError("server.public_url is the address people type, such as https://blowfish.example.org")

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach the server by HTTPS, so that cookies are sent over nothing else."""
        return self.certificate is not None or (self.public_url or "").startswith("https://")

    @property
    def is_exposed(self) -> bool:
        """Whether other machines may reach the server without TLS, so that passwords travel as they are typed."""
        return not self._is_loopback and not self.is_secure

    @property
    def is_port_exposed(self) -> bool:
        """Whether other machines may reach the PostgreSQL port without TLS: a proxy for the pages does not cover it."""
        return self.postgres is not None and self.certificate is None and not self._is_loopback

    @property
    def _is_loopback(self) -> bool:
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_secure else 'http'}://{host}:{self.port}"

    def encryption(self) -> ssl.SSLContext | None:
        """What encrypts the connections of both ports; None where the settings name no certificate."""
        if self.certificate is None or self.key is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.file(self.certificate), self.file(self.key))
        return context

    @property
    def provider(self) -> Provider | None:
        """The OpenID provider that people may sign in with, its secret filled in."""
        if self.oidc_issuer is None or self.oidc_client is None or self.oidc_secret is None:
            return None
        callback = f"{self.url}{OIDC_CALLBACK}"
        secret = filled_in(self.oidc_secret)
        return Provider(self.oidc_issuer, self.oidc_client, secret, self.oidc_claim, callback, self.oidc_groups)

    def users_url(self) -> str:
        """Where users are kept, with secrets filled in and a relative path taken from the configuration's folder."""
        address = filled_in(self.users)
        path = address.removeprefix(SQLITE)
        return address if path == address else f"{SQLITE}{self.folder / Path(path).expanduser()}"

    def file(self, name: str) -> Path:
        """A file that the settings name, relative to the configuration."""
        return self.folder / Path(filled_in(name)).expanduser()


def read_settings(config: Config) -> Settings:
    """The settings of a configuration; CatalogError for a key or a value that makes no sense."""
    known = {field.name: str(field.type) for field in fields(Settings) if field.name != "folder"}
    entry = ConfigEntry(config.text, ("server",), config.server)
    entry.check_keys(tuple(known))
    for name in config.server:
        _check(entry, name, known[name])
    listed = {"variables": tuple(config.server["variables"])} if "variables" in config.server else {}
    return Settings(**{**config.server, **listed}, folder=config.path.parent)


def _check(entry: ConfigEntry, name: str, kind: str) -> None:
    value = entry.content[name]
    if kind.startswith("tuple"):
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise entry.wrong(" is a list of texts", name)
        return
    wanted = {"int": int, "int | None": int, "bool": bool}.get(kind, str)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        words = {int: "a whole number", bool: "true or false", str: "a text"}[wanted]
        raise entry.wrong(f" is {words}", name)
