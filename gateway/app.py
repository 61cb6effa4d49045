"""The web application of one agent."""

from __future__ import annotations

from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from stopgo.actors.agent import Agent
from stopgo.actors.errors import AgentError
from stopgo.gateway import errors
from stopgo.gateway.approvals import Approvals
from stopgo.gateway.body import BoundedRequest
from stopgo.gateway.conversations import Conversations
from stopgo.gateway.docs import docs_page
from stopgo.gateway.openapi import document
from stopgo.gateway.operations import OPERATIONS
from stopgo.gateway.stream import Stream
from stopgo.gateway.system import System

BODY_TIMEOUT = 60
"""Seconds a request's body may take to arrive."""


def make_app(agent: Agent) -> QuartTrio:
    """Every route of the contract, and nothing that answers anything but JSON when it fails."""
    app = QuartTrio(__name__, static_folder=None)
    app.request_class = BoundedRequest
    # A redirect to a tidied path would be HTML.
    app.url_map.merge_slashes = False
    # How long a client may take to read is bounded where bytes are sent; how long a turn may take, is not.
    app.config.update(RESPONSE_TIMEOUT=None, BODY_TIMEOUT=BODY_TIMEOUT)

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

    app.register_error_handler(AgentError, errors.on_agent_error)
    app.register_error_handler(errors.RequestError, errors.on_request_error)
    app.register_error_handler(HTTPException, errors.on_http_exception)
    app.register_error_handler(Exception, errors.on_exception)
    return app
