"""The web application of one agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, cast

from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope
from quart import Response
from quart.ctx import RequestContext
from quart.globals import _cv_request, request_ctx
from quart.sessions import NullSession
from quart.wrappers import Request as AnyRequest
from quart.wrappers.base import BaseRequestWebsocket
from quart_trio import QuartTrio
from quart_trio.asgi import TrioASGIHTTPConnection
from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter

from ..actors.agent import Agent
from ..actors.common.errors import AgentError
from ..runtime.journal.errors import JournalBroken
from . import errors
from .a2a.a2a_routes import A2A
from .a2a.agent_card import ALL_OFFERED, Offered
from .a2a.push import PushNotifier
from .approval_routes import Approvals
from .body import Request
from .conversation_routes import Conversations
from .host_and_origin import Allowed, allowed_by, refuse_strangers
from .openapi import document
from .operations import OPERATIONS
from .responses import nothing
from .stream import Stream
from .system_routes import System, docs_page

P = ParamSpec("P")

_NO_SESSION = NullSession()


class ASGIRequest(TrioASGIHTTPConnection):
    """One request, in the task that the server has for it and ends when the client leaves.

    So nobody has to watch the client beside the application, as the framework's own does.
    """

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        request = cast(Request, self._create_request_from_scope(send))
        request.receive = receive
        await self._send_response(send, await self.app.handle_request(request))


class Context(RequestContext):
    """Makes `quart.request` the one that is answered, and no more of what a context may hold."""

    async def push(self) -> None:
        self._cv_tokens.append((_cv_request.set(self), None))
        self.match_request()

    async def pop(self, exc: BaseException | None = None) -> None:
        token, _ = self._cv_tokens.pop()
        _cv_request.reset(token)


class Application(QuartTrio):
    """Without what nothing here uses and every request pays for: hooks, signals, sessions, contexts of the
    application, routes by host."""

    asgi_http_class = ASGIRequest
    request_class = Request
    allowed: Allowed

    async def asgi_app(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Every request and every handshake of a websocket passes here, before there are routes."""
        if scope["type"] != "lifespan":
            try:
                refuse_strangers(scope, self.allowed)
            except errors.RequestError as error:
                await errors.send_refusal(scope, send, error)
                return
        await super().asgi_app(scope, receive, send)

    def request_context(self, request: AnyRequest) -> Context:
        return Context(self, request, _NO_SESSION)

    def create_url_adapter(self, request: BaseRequestWebsocket | None) -> MapAdapter | None:
        if request is None:
            return None
        return self.url_map.bind(
            "", url_scheme=request.scheme, default_method=request.method, path_info=request.path
        )

    def ensure_async(self, func: Callable[P, Any]) -> Callable[P, Any]:
        return func  # they all are

    async def make_default_options_response(self) -> Response:
        methods = cast(MapAdapter, request_ctx.url_adapter).allowed_methods()
        return nothing({"Allow": ", ".join(sorted(methods))})

    async def full_dispatch_request(self, request_context: RequestContext | None = None) -> Any:
        try:
            return await self.dispatch_request(request_context)
        except Exception as error:
            return await self.handle_user_exception(error)


def make_app(agent: Agent, offered: Offered = ALL_OFFERED, push: PushNotifier | None = None) -> QuartTrio:
    """Every route of the contract, and nothing that answers anything but JSON when it fails.

    Without `push`, A2A offers no push notifications.
    """
    app = Application(__name__, static_folder=None)
    app.allowed = allowed_by(agent.config.server)
    # A redirect to a tidied path would be HTML.
    app.url_map.merge_slashes = False

    described = document(agent.config.name, agent.config.description)
    system = System(agent, described, docs_page(described))
    views = {
        **system.views(),
        **Conversations(agent).views(),
        **Approvals(agent).views(),
        **Stream(agent).views(),
    }
    for operation in OPERATIONS:
        app.add_url_rule(
            operation.path.replace("{", "<").replace("}", ">"),
            operation.id,
            views[operation.id],
            methods=[operation.method],
        )

    A2A.of(agent, offered, push).add_to(app)

    app.register_error_handler(AgentError, errors.on_agent_error)
    app.register_error_handler(errors.RequestError, errors.on_request_error)
    app.register_error_handler(JournalBroken, errors.on_broken_journal)
    app.register_error_handler(HTTPException, errors.on_http_exception)
    app.register_error_handler(Exception, errors.on_exception)
    return app
