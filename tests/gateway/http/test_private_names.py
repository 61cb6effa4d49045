"""The undocumented names of Hypercorn, Quart and Werkzeug that `gateway/http` overrides or uses.

If a new version renames one of them, a test fails here, rather than a request at run time.
"""

import inspect
from importlib import import_module
from typing import Any

import pytest

from stopgo.gateway.http.access_log import ServerLog
from stopgo.gateway.http.http_protocol import HTTP1, WebsocketStream
from stopgo.gateway.http.quart_app import Application, ASGIRequest, MatchedRule, PlainContext

OWN: dict[type, set[str]] = {
    HTTP1: {"_is_last", "_open_stream", "_refuse", "beat"},
    WebsocketStream: {"_break", "beat"},
    Application: {
        *("__init__", "add", "add_socket"),
        *("_respond", "_headers", "_refuse", "_request", "_response", "_routes", "_send"),
        *("_serve_socket", "_socket_route", "_view"),
    },
    ASGIRequest: set(),
    PlainContext: set(),
    MatchedRule: set(),
    ServerLog: set(),
}
"""Methods of each class that override nothing."""

USED = {
    "hypercorn.protocol.h11:H11Protocol": (
        "_send_error_response can_read connection connection_state context stream"
    ),
    "hypercorn.protocol.h11:H11WSConnection": "next_event trailing_data",
    "hypercorn.protocol.h11": "STREAM_ID",
    "hypercorn.protocol.http_stream:HTTPStream": "handle",
    "hypercorn.protocol.ws_stream:WSStream": "_send_wsproto_event app_put closed handshake state stream_id",
    "hypercorn.protocol.ws_stream:Handshake": "accepted extensions",
    "hypercorn.protocol.ws_stream:ASGIWebsocketState": "HANDSHAKE CONNECTED CLOSED",
    "hypercorn.trio.worker_context:WorkerContext": "terminated mark_request",
    "hypercorn.config:Config": "h11_max_incomplete_size include_server_header logger_class",
    "quart.globals": "_cv_request",
    "quart.ctx:RequestContext": "_cv_tokens match_request url_adapter",
    "quart.wrappers.base:BaseRequestWebsocket": "routing_exception url_rule view_args remote_addr host",
    "quart.asgi:ASGIHTTPConnection": "_create_request_from_scope _send_response",
    "quart_trio:QuartTrio": "asgi_http_class request_class handle_request",
}


@pytest.mark.parametrize("cls", OWN, ids=lambda cls: cls.__name__)
def test_what_a_class_overrides_is_there(cls: type) -> None:
    methods = {name for name, value in vars(cls).items() if inspect.isfunction(value)}
    known = {name for base in cls.__mro__[1:-1] for name in vars(base)}
    assert methods - known == OWN[cls] - {"__init__"}


@pytest.mark.parametrize("place", USED)
def test_what_is_used_is_there(place: str) -> None:
    module, _, name = place.partition(":")
    found: Any = import_module(module)
    if not name:
        assert [word for word in USED[place].split() if not hasattr(found, word)] == []
        return
    # Attributes of instances are known by the code that sets them.
    sources = [inspect.getsource(base) for base in getattr(found, name).__mro__[:-1]]
    names = {word for word in USED[place].split() if not hasattr(getattr(found, name), word)}
    assert {
        word
        for word in names
        if not any(f"self.{word}" in source or f"    {word}:" in source for source in sources)
    } == set()
