"""The page of interactive documentation: the OpenAPI document and what shows it, in one answer."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from importlib.resources import files

import attrs

_DOCUMENT = b"__OPENAPI__"
_INLINE = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)


@attrs.frozen
class DocsPage:
    html: bytes
    headers: Mapping[str, str]


def docs_page(openapi: bytes) -> DocsPage:
    """The page for this document. It loads nothing and may run only what it came with."""
    page = files("stopgo.gateway.web").joinpath("docs.html").read_bytes()
    sources: dict[str, list[str]] = {"script": [], "style": []}
    for tag, text in _INLINE.findall(page):
        digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
        sources[tag.decode()].append(f"'sha256-{digest}'")
    policy = (
        f"default-src 'none'; script-src {' '.join(sources['script'])}; "
        f"style-src {' '.join(sources['style'])}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    # Within a script element only "<" can end the text or change how it is read.
    html = page.replace(_DOCUMENT, openapi.replace(b"<", b"\\u003c"))
    return DocsPage(html, {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"})
