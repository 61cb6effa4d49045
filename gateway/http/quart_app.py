"""Routing by Quart, without its other parts, which would cost time in every request.

Quart creates a request from the ASGI scope and finds its route. From there on, only `HttpRequest`, `Reply`
and `Socket` are used. `tests/gateway/http/test_private_names.py` checks the private names of Quart used here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote

from hypercorn.typing import (
    ASGIReceiveCallable,
    ASGISendCallable,
    ASGISendEvent,
    HTTPScope,
    Scope,
    WebsocketScope,
    WWWScope,
)
from quart import Response
from quart.ctx import RequestContext
from quart.globals import _cv_request, request_ctx
from quart.sessions import NullSession
from quart.wrappers import Request as AnyRequest
from quart.wrappers.base import BaseRequestWebsocket
from quart.wrappers.response import ResponseBody
from quart_trio import QuartTrio
from quart_trio.asgi import TrioASGIHTTPConnection
from quart_trio.wrappers import TrioRequest
from werkzeug.datastructures import Headers
from werkzeug.routing import MapAdapter, Rule
from werkzeug.routing.exceptions import WebsocketMismatch

from . import errors
from .access_log import IDENTITY
from .entrance import Entrance
from .event_stream import StreamBody
from .host_and_origin import Allowed, check_admission
from .request import SESSION_HEADER, STREAM, HttpRequest, current
from .request_observer import OBSERVERS, ROUTE, RequestObserver
from .responses import SAFE_HEADERS, Reply, View, nothing
from .web_socket import Socket, SocketView, serve_until_ended

_NO_SESSION = NullSession()
_BRACES = str.maketrans("<>", "{}")


class QuartRequest(TrioRequest):
    """A request whose body is read only on demand, without the framework's locks, events and buffers."""

    receive: ASGIReceiveCallable

    def __init__(
        self,
        method: str,
        scheme: str,
        path: str,
        query_string: bytes,
        headers: Headers,
        root_path: str,
        http_version: str,
        scope: HTTPScope,
        **_: Any,
    ) -> None:
        BaseRequestWebsocket.__init__(
            self, method, scheme, path, query_string, headers, root_path, http_version, scope
        )


class ASGIRequest(TrioASGIHTTPConnection):
    """One request, handled in the task that the server started for it.

    The server cancels that task when the client disconnects, so the framework's own task that watches the
    client is not needed.
    """

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        request = cast(QuartRequest, self._create_request_from_scope(send))
        request.receive = receive
        await self._send_response(send, await self.app.handle_request(request))


class PlainContext(RequestContext):
    """A request context that only finds the route."""

    async def push(self) -> None:
        self._cv_tokens.append((_cv_request.set(self), None))
        self.match_request()

    async def pop(self, exc: BaseException | None = None) -> None:
        token, _ = self._cv_tokens.pop()
        _cv_request.reset(token)


def _build_no_url(*_: object) -> tuple[str, str]:
    raise NotImplementedError("routes are only matched, never built into URLs")


class MatchedRule(Rule):
    """A route that can be matched, but not built into a URL.

    For each rule, Werkzeug also compiles two functions that build URLs. They are not used here, and compiling
    them would take more time than the rest of `make_app`.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        return _build_no_url


class Application(QuartTrio):
    """A Quart application without hooks, signals, sessions, application contexts or routes by host.

    With an entrance, each route needs a credential, unless it is added as public, and the streams of a
    request end with its credential. OPTIONS, and the errors of routing, need none.
    """

    asgi_http_class = ASGIRequest
    request_class = QuartRequest

    def __init__(
        self,
        name: str,
        allowed: Allowed,
        entrance: Entrance | None = None,
        observers: Sequence[RequestObserver] = (),
    ) -> None:
        super().__init__(name, static_folder=None)
        self._observers = observers
        self.allowed = allowed
        self._entrance = entrance
        self._public: set[str] = set()
        self._views: dict[str, View] = {}
        self._sockets: dict[str, SocketView] = {}
        self.url_map.merge_slashes = False  # otherwise Werkzeug redirects, with an HTML body

    def add(self, path: str, id: str, view: View, methods: list[str], *, public: bool = False) -> None:
        """Add a route. Variables in `path` are in braces. A public one needs no credential, and gets no
        identity."""
        self._views[id] = view
        if public:
            self._public.add(id)
        self.url_map.add(MatchedRule(_rule(path), endpoint=id, methods=[*methods, "OPTIONS"]))

    def add_socket(self, path: str, id: str, view: SocketView) -> None:
        """Add a websocket route."""
        self._sockets[id] = view
        self.url_map.add(MatchedRule(_rule(path), endpoint=id, websocket=True))

    async def asgi_app(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Check every request and every websocket handshake, then route it."""
        if scope["type"] == "lifespan":
            await super().asgi_app(scope, receive, send)
            return
        if scope["type"] == "http" and scope["path"] == (unquote(self.allowed.prefix) or None):
            # The addresses in the page are relative to its own.
            moved = Reply(b"", 308, "", {"Location": "/"})
            await self._send(moved, scope, self._request(scope, receive), send)
            return
        _leave_out(self.allowed.prefix, scope)
        if self._observers:
            scope["state"][OBSERVERS] = self._observers
            for observer in self._observers:
                observer.request_began(scope)
        try:
            check_admission(scope, self.allowed)
            if scope["path"].startswith("//"):
                # The framework ignores extra leading slashes, but a path rule of a proxy may not. Such a path
                # could evade the rule.
                raise errors.NotFound
        except (errors.RequestError, errors.NotFound) as error:
            await self._refuse(scope, self._request(scope, receive), send, error)
        else:
            try:
                if scope["type"] == "websocket":
                    await self._serve_socket(scope, receive, send)
                else:
                    await super().asgi_app(scope, receive, send)
            finally:
                if self._entrance is not None and (streams := scope["state"].get(STREAM)) is not None:
                    streams.end()

    # --------------------------------------------------------------------- requests

    def request_context(self, request: AnyRequest) -> PlainContext:
        return PlainContext(self, request, _NO_SESSION)

    def create_url_adapter(self, request: BaseRequestWebsocket | None) -> MapAdapter | None:
        return None if request is None else self._routes(request.scheme, request.method, request.path)

    def _routes(self, scheme: str, method: str, path: str) -> MapAdapter:
        return self.url_map.bind("", url_scheme=scheme, default_method=method, path_info=path)

    async def full_dispatch_request(self, request_context: RequestContext | None = None) -> Response:
        assert request_context is not None
        raw = cast(QuartRequest, request_context.request)
        request = HttpRequest(raw, raw.receive)
        token = current.set(request)
        try:
            return self._response(await self._respond(raw, request), request)
        finally:
            current.reset(token)

    async def _respond(self, raw: QuartRequest, request: HttpRequest) -> Reply:
        try:
            if raw.routing_exception is not None:
                raise raw.routing_exception
            assert raw.url_rule is not None
            assert raw.view_args is not None
            request.facts[ROUTE] = _path(raw.url_rule)
            if raw.method == "OPTIONS":
                methods = cast(MapAdapter, request_ctx.url_adapter).allowed_methods()
                return nothing({"Allow": ", ".join(sorted(methods))})
            return await self._view(raw.url_rule.endpoint, request, raw.view_args)
        except Exception as error:
            return errors.reply_to(error, request.path)

    async def _view(self, id: str, request: HttpRequest, variables: Mapping[str, Any]) -> Reply:
        if self._entrance is None or id in self._public:
            return await self._views[id](request, **variables)
        identity = request.facts[IDENTITY] = await self._entrance.identify(request)
        reply = await self._views[id](request, **variables)
        if isinstance(reply.body, StreamBody):
            reply.body.end_with(identity.lifetime.ended)
        return reply

    # ------------------------------------------------------------------- websockets

    async def _serve_socket(
        self, scope: WebsocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        request = self._request(scope, receive)
        socket = Socket(request, send)
        try:
            rule, variables = self._socket_route(scope["scheme"], request.path)
            id, request.facts[ROUTE] = rule.endpoint, _path(rule)
            if self._entrance is None:
                await self._sockets[id](socket, **variables)
            else:
                identity = request.facts[IDENTITY] = await self._entrance.identify(request)
                request.count_stream()
                await serve_until_ended(self._sockets[id], socket, variables, identity.lifetime)
        except Exception as error:
            if socket.accepted:
                await socket.close(1011, f"internal error {errors.log_fault(error)}")
            else:
                await self._refuse(scope, request, send, error)

    def _socket_route(self, scheme: str, path: str) -> tuple[Rule, Mapping[str, Any]]:
        try:
            return self._routes(scheme, "GET", path).match(return_rule=True)
        except WebsocketMismatch:
            raise errors.RequestError(400, "not_a_websocket", f"{path} is not a websocket") from None

    def _headers(self, reply: Reply, request: HttpRequest) -> dict[str, str]:
        headers = {SESSION_HEADER: request.session_id(), **SAFE_HEADERS, **reply.headers}
        if headers.get("Location", "").startswith("/"):
            headers["Location"] = self.allowed.prefix + headers["Location"]
        return headers

    def _response(self, reply: Reply, request: HttpRequest) -> Response:
        body = reply.body
        if isinstance(body, ResponseBody):
            response = Response(b"", reply.status, content_type=reply.content_type)
            response.response = body
            del response.headers["Content-Length"]
        else:
            response = Response(body, reply.status, content_type=reply.content_type)
            if not reply.content_type:
                del response.headers["Content-Type"], response.headers["Content-Length"]
        response.headers.update(self._headers(reply, request))
        return response

    async def _refuse(
        self, scope: WWWScope, request: HttpRequest, send: ASGISendCallable, error: Exception
    ) -> None:
        """Answer a request or a websocket handshake with an error."""
        await self._send(errors.reply_to(error, scope["path"]), scope, request, send)

    async def _send(
        self, reply: Reply, scope: WWWScope, request: HttpRequest, send: ASGISendCallable
    ) -> None:
        assert isinstance(reply.body, bytes)
        sized = {"Content-Type": reply.content_type, "Content-Length": str(len(reply.body))}
        headers = {**self._headers(reply, request), **sized}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
        start = {"type": f"{kind}.start", "status": reply.status, "headers": raw}
        await send(cast("ASGISendEvent", start))
        await send(cast("ASGISendEvent", {"type": f"{kind}.body", "body": reply.body, "more_body": False}))

    def _request(self, scope: HTTPScope | WebsocketScope, receive: ASGIReceiveCallable) -> HttpRequest:
        headers = Headers({"Remote-Addr": (scope.get("client") or ("",))[0]})  # as the framework does
        for name, value in scope["headers"]:
            headers.add(name.decode("latin1").title(), value.decode("latin1"))
        raw = BaseRequestWebsocket(
            "GET", scope["scheme"], scope["path"], scope["query_string"], headers, "", "1.1", scope
        )
        return HttpRequest(raw, receive)


def _leave_out(prefix: str, scope: WWWScope) -> None:
    """Remove the path of `public_url`, which a proxy may leave in place."""
    path = unquote(prefix)
    if path and scope["path"].startswith(f"{path}/"):
        scope["path"] = scope["path"][len(path) :]
        scope["raw_path"] = scope["raw_path"].replace(prefix.encode(), b"", 1)


def _rule(path: str) -> str:
    return path.replace("{", "<").replace("}", ">")


def _path(rule: Rule) -> str:
    """The inverse of `_rule`."""
    return rule.rule.translate(_BRACES)
