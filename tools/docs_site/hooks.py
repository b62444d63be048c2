"""Events of mkdocs: adds the generated pages and pictures, and leads links to the project's root to their pages."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.docs_site.reference import GENERATED, ROOT_PAGES, page_text

ROOT = Path(__file__).resolve().parents[2]
TO_ROOT = re.compile(r"\]\((?:\.\./)+([A-Z]+\.md|LICENSE)(#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Gives pages that the navigation does not name a place at its end, so that none is lost."""
    named = set(re.findall(r"[\w./-]+\.(?:md|py)", str(config.nav)))
    found = sorted(path.relative_to(config.docs_dir).as_posix() for path in Path(config.docs_dir).rglob("*.md"))
    unnamed = [name for name in found if name not in named]
    if unnamed and config.nav is not None:
        config.nav.append({"More": unnamed})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made from code, and those that stand in the root of the project."""
    for name in (*GENERATED, *ROOT_PAGES.values()):
        files.append(File.generated(config, name, content=page_text(name, ROOT)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the root lead to their pages; the landing page takes the whole width."""
    del config, files
    here = posixpath.dirname(page.file.src_uri)
    if page.file.src_uri == "index.md":
        page.meta.setdefault("hide", ["navigation", "toc"])

    def led(found: re.Match[str]) -> str:
        target = posixpath.relpath(ROOT_PAGES.get(found[1], "index.md"), here or ".")
        return f"]({target}{found[2] or ''})"

    return TO_ROOT.sub(led, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Takes out whatever would make a browser ask another host."""
    del page, config
    return without_requests(output)


SCRIPT = re.compile(r"<script[^>]*\bsrc=\"https?://[^\"]*\"[^>]*>\s*</script>", re.IGNORECASE)
STYLE = re.compile(
    r"<link[^>]*\brel=\"(?:stylesheet|preconnect|preload|icon)\"[^>]*\bhref=\"https?://[^>]*>", re.IGNORECASE
)
STYLE_TURNED = re.compile(
    r"<link[^>]*\bhref=\"https?://[^\"]*\"[^>]*\brel=\"(?:stylesheet|preconnect|preload|icon)\"[^>]*>", re.IGNORECASE
)
REQUESTS = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=\"(https?://[^\"]*)\""
    r"|<link\b(?![^>]*\brel=\"(?:canonical|prev|next)\")[^>]*\bhref=\"(https?://[^\"]*)\""
    r"|url\(\s*['\"]?(https?://[^)'\"]*)",
    re.IGNORECASE,
)


def without_requests(html: str) -> str:
    """The page without scripts and styles of other hosts; links that a reader may click stay."""
    for pattern in (SCRIPT, STYLE, STYLE_TURNED):
        html = pattern.sub("", html)
    return html


def requests_of(html: str) -> list[str]:
    """The addresses of other hosts that a browser would load with this page or style sheet."""
    return [next(filter(None, found.groups())) for found in REQUESTS.finditer(html)]
