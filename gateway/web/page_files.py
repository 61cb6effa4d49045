"""The files of the page, read once at startup, so that no part of a request becomes a path on disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

import attrs

from ..http.errors import NotFound
from ..http.etag import etag_of, matches
from ..http.quart_app import Application
from ..http.request import Headers, HttpRequest
from ..http.responses import Reply

_TYPES: Mapping[str, str] = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""Other files of the folder are not served."""
_FIRST, _PROGRAM = "index.html", "main.js"
_IMPORT = re.compile(rb'"\./(\w+\.js)"')
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
# Rule 4 in `http/host_and_origin.py` relies on `frame-ancestors` and on the opener policy.
_HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


@attrs.frozen
class PageFile:
    body: bytes
    content_type: str
    etag: str

    def reply(self, asked: Headers) -> Reply:
        """The file, or 304 if the client has this version."""
        headers = {**_HEADERS, "ETag": self.etag}
        if matches(asked, self.etag):
            return Reply(b"", 304, "", headers)
        return Reply(self.body, content_type=self.content_type, headers=headers)


@attrs.frozen
class PageFiles:
    first: PageFile
    """The HTML document, which loads the other files."""
    others: Mapping[str, PageFile]
    """The other files by name."""

    def add_to(self, app: Application) -> None:
        app.add("/", "page", self._serve_first, ["GET"], public=True)
        app.add("/page/{name}", "page file", self._serve, ["GET"], public=True)
        app.add("/favicon.ico", "page icon", self._serve_icon, ["GET"], public=True)

    async def _serve_first(self, request: HttpRequest) -> Reply:
        return self.first.reply(request.headers)

    async def _serve(self, request: HttpRequest, name: str) -> Reply:
        if name not in self.others:
            raise NotFound
        return self.others[name].reply(request.headers)

    async def _serve_icon(self, request: HttpRequest) -> Reply:
        """Serve the icon, which browsers request by themselves, also for `/docs`."""
        return await self._serve(request, "icon.svg")


@cache
def read_page() -> PageFiles:
    folder = files("stopgo.gateway.web").joinpath("page")
    bodies = {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if entry.name.rpartition(".")[2] in _TYPES
    }
    links = b"".join(b'<link rel="modulepreload" href="page/%b">\n' % name for name in _modules(bodies))
    bodies[_FIRST] = bodies[_FIRST].replace(b"</head>", links + b"</head>")
    found = {
        name: PageFile(body, _TYPES[name.rpartition(".")[2]], etag_of(body)) for name, body in bodies.items()
    }
    return PageFiles(found.pop(_FIRST), found)


def _modules(bodies: Mapping[str, bytes]) -> Iterator[bytes]:
    """All modules, in the order of their imports, for preload links. Without these links a browser must load
    each module to find the next, which takes a third of the time to the first view."""
    known = [_PROGRAM.encode()]
    for name in known:
        yield name
        known += (each for each in dict.fromkeys(_IMPORT.findall(bodies[name.decode()])) if each not in known)
