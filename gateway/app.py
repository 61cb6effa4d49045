"""The web application of one agent."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ..actors.agent.agent import Agent
from .a2a.a2a_routes import A2A
from .a2a.agent_card import ALL_OFFERED, Offered
from .a2a.push import PushNotifier
from .agui.agui_routes import AGUI
from .auth.authenticator import Authenticator
from .auth.login import with_login
from .auth.session_routes import SessionRoutes
from .contract.operations import OPERATIONS
from .fleet.delta_source import DeltaSource
from .fleet.fleet_routes import FleetRoutes
from .http.host_and_origin import allowed_by
from .http.quart_app import Application
from .http.request_observer import RequestObserver
from .rest.approval_routes import Approvals
from .rest.conversation_routes import Conversations
from .rest.live_routes import Live
from .rest.notification_routes import NotificationRoutes
from .rest.openapi import document
from .rest.policy_routes import PolicyRoutes
from .rest.refused_request import named_on_error
from .rest.secured_operation import schemes_of
from .rest.short_ids import with_whole_ids
from .rest.system_routes import Emergency, System, docs_page
from .web.page_routes import WebPage


def make_app(
    agent: Agent,
    offered: Offered = ALL_OFFERED,
    push: PushNotifier | None = None,
    authenticator: Authenticator | None = None,
    observers: Sequence[RequestObserver] = (),
    deltas: DeltaSource | None = None,
) -> Application:
    """Build the application: every route of the contract, A2A, and the page.

    Without `push`, A2A offers no push notifications. An agent with `auth:` needs an authenticator.
    `observers` are told of each request. `deltas` has routes for other processes on the same journal.
    """
    if agent.config.auth is not None and authenticator is None:
        raise ValueError("an agent with `auth:` is not served without authentication")
    if authenticator is not None:
        agent.credential_is_live = authenticator.credential_is_live
    login = None if authenticator is None else authenticator.login
    allowed = allowed_by(agent.config.server)
    if deltas is not None and deltas.host:
        allowed = attrs.evolve(allowed, hosts=allowed.hosts | {deltas.host})
    app = Application(__name__, allowed if login is None else with_login(allowed), authenticator, observers)
    auth = agent.config.auth
    schemes = None if auth is None else schemes_of(auth)
    described = document(agent.config.name, agent.config.description, schemes, allowed.prefix)
    system = System(agent, described, docs_page(described), authenticator)
    live = Live(agent)
    views = {
        **system.views(),
        **Conversations(agent).views(),
        **Approvals(agent).views(),
        **live.views(),
        **AGUI(agent).views(),
        **Emergency(agent).views(),
        **FleetRoutes(agent).views(),
        **PolicyRoutes(agent).views(),
        **NotificationRoutes(agent).views(),
        **SessionRoutes.of(authenticator).views(),
    }
    sockets = live.sockets()
    for operation in OPERATIONS:
        if operation.id in sockets:
            socket = with_whole_ids(agent, named_on_error(agent, sockets[operation.id]))
            app.add_socket(operation.path, operation.id, socket)
        else:
            view = named_on_error(agent, views[operation.id])
            if operation.method != "DELETE":  # what a wrong id deletes does not come back
                view = with_whole_ids(agent, view)
            app.add(operation.path, operation.id, view, [operation.method], public=operation.is_public)
    A2A.of(agent, offered, push).add_to(app)
    WebPage(agent).add_to(app)
    if deltas is not None:
        deltas.add_to(app)
    if login is not None:
        login.add_to(app)
    return app
