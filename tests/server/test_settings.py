"""Settings, limits, metrics and logs."""

from __future__ import annotations

import json
import logging
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from blowfishdb.catalog.config import read_config
from blowfishdb.errors import CatalogError, RateLimited
from blowfishdb.server.admission import MOST_PARTIES, RateLimit, address
from blowfishdb.server.middleware import JsonLines
from blowfishdb.server.settings import Settings, read_settings
from blowfishdb.server.state import Metrics

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "server.md").read_text()


def written(folder: Path, text: str) -> Settings:
    path = folder / "blowfish.toml"
    path.write_text(f"[server]\n{text}\n")
    return read_settings(read_config(path))


def test_settings_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = written(tmp_path, "")
    assert (usual.url, usual.is_secure) == ("http://127.0.0.1:8000", False)
    assert usual.users_url() == f"sqlite:///{tmp_path}/blowfish.users"
    monkeypatch.setenv("WORD", "secret")
    other = written(tmp_path, 'users = "postgresql://b:${WORD}@h/d"\npublic_url = "https://x.example/"\nhost = "::1"')
    assert other.users_url() == "postgresql://b:secret@h/d"
    assert (other.url, other.is_secure) == ("https://x.example", True)
    assert written(tmp_path, 'host = "::1"').url == "http://[::1]:8000"
    tls = written(tmp_path, 'certificate = "c.pem"\nkey = "k.pem"')
    assert tls.is_secure and tls.file("c.pem") == tmp_path / "c.pem"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "port"),
        ("port = 0", "1 to 65535"),
        ("port = 5433\npostgres = 5433", "both 5433; each needs a port of its own"),
        ('port = "8000"', "whole number"),
        ("port = true", "whole number"),
        ("behind_proxy = 1", "true or false"),
        ("host = 5", "a text"),
        ('certificate = "c.pem"', "belong together"),
        ('public_url = "x.example"', "address"),
        ('oidc_client = "x"', "belong together"),
        ("requests_per_minute = 0", "at least 1"),
        ('variables = "X"', "list of texts"),
        ("variables = [1]", "list of texts"),
        ('folder = "x"', "no key"),
    ],
)
def test_wrong_settings_are_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CatalogError, match=said):
        written(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port = 8000\nprot = 1", "line 3: server has no key 'prot'; did you mean 'port'?"),
        ("port = 8000\n# so\nhost = 5", "line 4: server.host is a text"),
        ('port = 8000\n\nvariables = "X"', "line 4: server.variables is a list of texts"),
    ],
)
def test_a_wrong_setting_has_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CatalogError) as mistake:
        written(tmp_path, text)
    assert str(mistake.value) == said


def test_every_setting_is_on_the_page() -> None:
    table = PAGE.split("## Settings")[1].split("## Running it")[0]
    keys = {key for line in re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE) for key in re.findall(r"`(\w+)`", line)}
    assert keys == {field.name for field in fields(Settings)} - {"folder"}


def test_a_limit_fills_again() -> None:
    time = [0.0]
    limit = RateLimit(60, lambda: time[0])
    for _ in range(60):
        limit.check(address("a"))
    with pytest.raises(RateLimited) as refusal:
        limit.check(address("a"))
    assert refusal.value.wait == 1
    limit.check(address("b"))
    time[0] += 1.01
    limit.check(address("a"))
    with pytest.raises(RateLimited):
        limit.check(address("a"))


def test_a_limit_forgets_the_silent() -> None:
    limit = RateLimit(1, lambda: 0.0)
    for number in range(MOST_PARTIES + 5):
        limit.check(address(str(number)))
    assert len(limit._left) == MOST_PARTIES


def test_metrics_are_prometheus_text() -> None:
    metrics = Metrics()
    metrics.count("GET", "/x", 200, 0.02)
    metrics.count("GET", "/x", 500, 20.0)
    metrics.count("MADE-UP", "/y", 405, 0.0)
    text = metrics.text()
    assert 'blowfish_requests_total{method="GET",route="/x",status="500"} 1' in text
    assert 'blowfish_requests_total{method="other",route="/y",status="405"} 1' in text
    assert 'blowfish_request_seconds_bucket{route="/x",le="0.01"} 0' in text
    assert 'blowfish_request_seconds_bucket{route="/x",le="0.03"} 1' in text
    assert 'blowfish_request_seconds_bucket{route="/x",le="+Inf"} 2' in text
    assert 'blowfish_request_seconds_count{route="/x"} 2' in text


def test_log_lines_are_json() -> None:
    record = logging.LogRecord("blowfishdb.requests", logging.INFO, "", 0, "request", None, None)
    record.fields = {"status": 200, "who": None}
    line = json.loads(JsonLines().format(record))
    assert (line["message"], line["level"], line["status"], line["who"]) == ("request", "info", 200, None)


def test_log_lines_tell_the_kind_of_an_exception_alone() -> None:
    try:
        raise RuntimeError("Ada Lovelace")
    except RuntimeError:
        record = logging.LogRecord("nicegui", logging.ERROR, "", 0, "Ada Lovelace", None, sys.exc_info())
    assert json.loads(JsonLines().format(record))["message"] == "RuntimeError; the curator's log has more"


@pytest.mark.parametrize(
    ("settings", "is_exposed"),
    [
        ({}, False),
        ({"host": "localhost"}, False),
        ({"host": "::1"}, False),
        ({"host": "0.0.0.0"}, True),
        ({"host": "clinic.example.org"}, True),
        ({"host": "0.0.0.0", "public_url": "http://clinic.example.org"}, True),
        ({"host": "0.0.0.0", "public_url": "https://clinic.example.org"}, False),
        ({"host": "::", "certificate": "cert.pem", "key": "key.pem"}, False),
    ],
)
def test_a_server_that_others_reach_without_tls_is_exposed(settings: dict[str, str], is_exposed: bool) -> None:
    assert Settings(**settings).is_exposed == is_exposed  # type: ignore[arg-type]
    # The port of the tools is behind no proxy: only a certificate covers it.
    others = not is_exposed and settings.get("public_url", "").startswith("https://")
    assert Settings(**settings, postgres=5433).is_port_exposed == (is_exposed or others)  # type: ignore[arg-type]
