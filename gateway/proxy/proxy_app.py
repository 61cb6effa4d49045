"""The web application of `stopgo web`: the page, and the forwarded routes of the agent.

| request | handled by |
|---|---|
| the page and its files | `web/page_files`, without the agent |
| `/api/...` of the former web application | `older_routes`: one request of the HTTP API |
| operations of the HTTP API except `/agui`, `/page/...`, the login | `upstream` |
| websockets among them | `upstream_socket` |
| all other paths | 404 |

The path sent to the agent is built from the route and its quoted variables, never copied from the request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from urllib.parse import quote, urlencode

import attrs
import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope

from ...config.web_config import WebConfig
from ..auth.login import with_login
from ..contract.operations import OPERATIONS
from ..http.errors import NotFound
from ..http.host_and_origin import allowed_by
from ..http.quart_app import Application
from ..http.request import HttpRequest
from ..http.responses import Reply, View
from ..http.web_socket import Socket, SocketView
from ..web.page_files import read_page
from .older_routes import OlderRoutes
from .request_scope import RequestScope
from .upstream import Upstream
from .upstream_socket import pass_on

_NOT_PASSED = frozenset({"/agui"})
_SWITCHING = 101


@attrs.frozen
class ProxyRoute:
    method: str
    path: str
    is_socket: bool = False

    @property
    def id(self) -> str:
        return f"{self.method} {self.path}"


def passed_routes() -> Iterator[ProxyRoute]:
    """The forwarded routes of the agent."""
    for operation in OPERATIONS:
        if operation.path not in _NOT_PASSED:
            is_socket = any(answer.status == _SWITCHING for answer in operation.responses)
            yield ProxyRoute(operation.method, operation.path, is_socket)
    yield ProxyRoute("GET", "/page/agent")
    yield ProxyRoute("GET", "/page/sign-in")
    yield ProxyRoute("GET", "/page/approvals/{uuid}")
    yield ProxyRoute("GET", "/page/approvals/{uuid}/calls")
    yield ProxyRoute("POST", "/page/markdown")
    yield ProxyRoute("GET", "/login")
    yield ProxyRoute("GET", "/login/callback")


def make_proxy(config: WebConfig, upstream: Upstream) -> Application:
    allowed = with_login(allowed_by(config.server))
    app = ProxyApplication(__name__, attrs.evolve(allowed, how="web file: `{}`"))
    read_page().add_to(app)
    for method, path, view in OlderRoutes(upstream).views():
        app.add(path, f"{method} {path}", view, [method])
    for route in passed_routes():
        if route.is_socket:
            app.add_socket(route.path, route.id, _passed_socket(route, upstream))
        else:
            app.add(route.path, route.id, _passed(route, upstream), [route.method])
    return app


class ProxyApplication(Application):
    """An application that closes the resources of a request when the request ends."""

    async def asgi_app(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            await super().asgi_app(scope, receive, send)
            return
        with trio.CancelScope() as cancel_scope:
            async with AsyncExitStack() as resources:
                RequestScope(resources, cancel_scope).attach(scope["state"])
                await super().asgi_app(scope, receive, send)


def _passed(route: ProxyRoute, upstream: Upstream) -> View:
    async def view(request: HttpRequest, **variables: str) -> Reply:
        path, query = _target(route, request, variables)
        _name_conversation(request, path, variables)
        return await upstream.forward(request, request.method, path, await request.body(), query)

    return view


def _passed_socket(route: ProxyRoute, upstream: Upstream) -> SocketView:
    async def view(socket: Socket, **variables: str) -> None:
        path, query = _target(route, socket.request, variables)
        _name_conversation(socket.request, path, variables)
        await pass_on(upstream, socket, path, query)

    return view


def _target(route: ProxyRoute, request: HttpRequest, variables: dict[str, str]) -> tuple[str, str]:
    """Path and query of the request to the agent."""
    if not {".", ".."}.isdisjoint(variables.values()):  # dot segments would change the path
        raise NotFound
    path = route.path.format(**{name: quote(value, safe="") for name, value in variables.items()})
    return path, urlencode(list(request.args.items(multi=True)))


def _name_conversation(request: HttpRequest, path: str, variables: dict[str, str]) -> None:
    if path.startswith("/conversations/"):
        request.set_conversation(variables["id"])
