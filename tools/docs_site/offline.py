"""Keeps a built page from asking other hosts for anything."""

from __future__ import annotations

import re

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
