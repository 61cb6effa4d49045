"""Every answer of a served agent, held to what /openapi.json says of it: status, code, fields, types."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx2
from jsonschema import Draft202012Validator

from stopgo.gateway.rest.openapi import document
from stopgo.gateway.rest.secured_operation import SCHEMES

SPEC = json.loads(document("an agent", ""))
SPEC_WITH_AUTH = json.loads(document("an agent", "", tuple(SCHEMES)))
ROUTES, ROUTES_WITH_AUTH = (
    [
        (re.compile(re.sub(r"{\w+}", "[^/:]+" if "/a2a/" in path else "[^/]+", path)), methods)
        for path, methods in spec["paths"].items()
    ]
    for spec in (SPEC, SPEC_WITH_AUTH)
)
OF_THE_PAGE = re.compile(r"/|/favicon\.ico|/page/.*|/login(/callback)?")
"""Paths that only the page uses, so no contract describes them."""
OF_NO_ROUTE = {"not_found": 404, "method_not_allowed": 405}


def _strict(schema: Any) -> Any:
    """The schema for tests: what clients are to overlook, fields that are not described, is refused."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items()}
    return {**strict, "additionalProperties": False} if "properties" in schema else strict


COMPONENTS = {"schemas": _strict(SPEC["components"]["schemas"])}


@cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator({**_strict(json.loads(schema)), "components": COMPONENTS})


def _hold(
    method: str, url: str, status: int, headers: httpx2.Headers, body: bytes | None, *, auth: bool = False
) -> None:
    path = unquote(urlsplit(url).path)
    [operation] = [
        methods[method.lower()]
        for route, methods in (ROUTES_WITH_AUTH if auth else ROUTES)
        if route.fullmatch(path) and method.lower() in methods
    ] or [None]
    told = f"{method} {path} {status} {body!r}"
    if operation is None:
        if not OF_THE_PAGE.fullmatch(path) and method not in ("HEAD", "OPTIONS"):
            assert body is not None
            assert OF_NO_ROUTE.get(json.loads(body).get("code"), status) == status, told
        return
    described = operation["responses"].get(str(status))
    answer = described or operation["responses"]["default"]
    if body is not None:
        value = json.loads(body)
        schema = answer["content"]["application/json"]["schema"]
        _validator(json.dumps(schema)).validate(value)
        if isinstance(value.get("code"), str):  # those of A2A are numbers
            words = answer["description"] + operation["responses"]["default"]["description"]
            assert f"`{value['code']}`" in words, told
            assert described or re.search(rf"`{value['code']}`[^(;.]*\([^)]*{status}", words), told
    else:
        assert described, told
    for name in answer.get("headers", {}):
        assert name in headers or (name == "Retry-After" and status == 503), told


def hold(response: httpx2.Response, *, auth: bool = False) -> None:
    """For the `event_hooks` of a client. `auth`: the agent has `auth:`."""
    _hold(
        response.request.method,
        str(response.request.url),
        response.status_code,
        response.headers,
        response.read() if _is_json(response) else None,
        auth=auth,
    )


async def hold_async(response: httpx2.Response, *, auth: bool = False) -> None:
    """The same, of a client that is asynchronous."""
    _hold(
        response.request.method,
        str(response.request.url),
        response.status_code,
        response.headers,
        await response.aread() if _is_json(response) else None,
        auth=auth,
    )


def _is_json(response: httpx2.Response) -> bool:
    return response.headers.get("Content-Type") == "application/json" and response.request.method != "HEAD"


HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
"""The headers of a websocket's handshake."""
