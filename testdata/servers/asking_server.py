"""A tool server made with the SDK that asks people, and that may want to know who they are:

    python asking_server.py stdio|http|sse [PORT]

Without a port, or with 0, it takes any free one; the address is printed when it listens. With TOKENS in the
environment, separated by spaces, it answers over HTTP only those who bring one of them; "+" among them stands
for any that begins with "good-". Every tool call is appended to the file LEDGER with the token it came with.
With STATE_KEY, of 32 characters or more, it takes back the state that another process with that key gave.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from base64 import b64encode
from functools import partial
from typing import Annotated, Any

import hypercorn.trio
import trio
from hypercorn.config import Config
from mcp import UrlElicitationRequiredError
from mcp.server import MCPServer
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from mcp.server.request_state import RequestStateSecurity
from mcp_types import ElicitRequestURLParams, SamplingMessage, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

KIND = sys.argv[1] if len(sys.argv) > 1 else "stdio"
PORT = int(sys.argv[2]) if len(sys.argv) > 2 else 0
TOKENS = os.environ.get("TOKENS", "").split()
LEDGER = os.environ.get("LEDGER")
READ = ToolAnnotations(read_only_hint=True)
VISITED: set[str] = set()

CENTURY = 100 * 365 * 86400.0
STATE_KEY = os.environ.get("STATE_KEY")
SECURITY = RequestStateSecurity(keys=[STATE_KEY], ttl=CENTURY) if STATE_KEY else None

server = MCPServer("asking-server", request_state_security=SECURITY)


class Person(BaseModel):
    name: str = Field(min_length=2)
    colour: str = "blue"


def note(ctx: Context, tool: str, text: str) -> None:
    request = getattr(ctx.request_context, "request", None)
    token = None if request is None else request.headers.get("authorization")
    if LEDGER is not None:
        with open(LEDGER, "a", encoding="utf-8") as ledger:
            ledger.write(json.dumps([tool, text, token]) + "\n")


def told(result: Any) -> str:
    if isinstance(result, AcceptedElicitation):
        return f"{result.data.name} likes {result.data.colour}"
    return str(result.action)


@server.tool(annotations=READ)
async def look(text: str, ctx: Context) -> str:
    """Give the text back."""
    note(ctx, "look", text)
    return text


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
async def wipe(text: str, ctx: Context) -> str:
    """Pretend to wipe something."""
    note(ctx, "wipe", text)
    return f"wiped {text}"


@server.tool(annotations=READ)
async def ask(text: str, ctx: Context) -> str:
    """Ask in the middle of the call."""
    note(ctx, "ask", text)
    return told(await ctx.elicit(f"Who is {text}?", Person))


def who(text: str) -> Elicit[Person]:
    return Elicit(f"Who is {text}?", Person)


@server.tool(annotations=READ)
async def resolve(text: str, person: Annotated[ElicitationResult[Person], Resolve(who)], ctx: Context) -> str:
    """Ask before anything is done."""
    note(ctx, "resolve", text)
    return told(person)


@server.tool(annotations=READ)
async def trace(ctx: Context) -> str:
    """Tell the trace that the call belongs to."""
    return str(dict(ctx.request_context.meta or {}).get("traceparent"))


@server.tool(annotations=READ)
async def visit(text: str, ctx: Context) -> str:
    """Ask for an address to be visited."""
    said = await ctx.elicit_url(f"Sign in as {text}", f"https://sign.in.test/{text}", "id-1")
    return str(said.action)


@server.tool(annotations=READ)
async def locked(text: str, ctx: Context) -> str:
    """Want an address to be visited first."""
    note(ctx, "locked", text)
    if text not in VISITED:
        VISITED.add(text)
        address = f"https://sign.in.test/{text}"
        raise UrlElicitationRequiredError(
            [ElicitRequestURLParams(message="Sign in", url=address, elicitation_id="id-2")]
        )
    return f"{text} is open"


@server.tool(annotations=READ)
async def sample(text: str, ctx: Context) -> str:
    """Ask the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    with warnings.catch_warnings(action="ignore"):
        try:
            await ctx.session.create_message(messages=[message], max_tokens=10)
        except Exception as error:
            return f"refused: {error}"
    return "sampled"


@server.tool(annotations=READ)
async def roots(ctx: Context) -> str:
    """Ask for the client's folders."""
    with warnings.catch_warnings(action="ignore"):
        try:
            await ctx.session.list_roots()
        except Exception as error:
            return f"refused: {error}"
    return "listed"


class Guard:
    """Answers 401 to whoever brings no token that is known, 403 to one that begins with "poor-"."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not TOKENS:
            await self._app(scope, receive, send)
            return
        if (answer := about_tokens(scope)) is not None:
            await reply(send, *answer)
            return
        given = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        if given in TOKENS or ("+" in TOKENS and given.startswith("good-")):
            await self._app(scope, receive, send)
            return
        poor = given.startswith("poor-")
        challenge = b'Bearer error="insufficient_scope"' if poor else b'Bearer realm="test"'
        await reply(send, 403 if poor else 401, b"", (b"www-authenticate", challenge))


async def reply(send: Any, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    kind = (b"content-type", b"application/json")
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length, kind]})
    await send({"type": "http.response.body", "body": body})


def about_tokens(scope: Any) -> tuple[int, bytes] | None:
    """What an authorization server at the same address answers; its one client is me:hush-hush."""
    headers = dict(scope["headers"])
    base = f"http://{headers[b'host'].decode()}"
    match scope["method"], scope["path"]:
        case "GET", path if path.startswith("/.well-known/oauth-protected-resource"):
            found: Any = {"resource": f"{base}/mcp", "authorization_servers": [base]}
        case "GET", "/.well-known/oauth-authorization-server":
            found = {
                "issuer": base,
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/token",
                "response_types_supported": ["code"],
            }
        case "POST", "/token":
            known = headers.get(b"authorization") == b"Basic " + b64encode(b"me:hush-hush")
            if not known:
                return 401, b'{"error": "invalid_client"}'
            found = {"access_token": "good-of-the-agent", "token_type": "Bearer", "expires_in": 3600}
        case _:
            return None
    return 200, json.dumps(found).encode()


async def serve() -> None:
    app: Any = server.sse_app() if KIND == "sse" else server.streamable_http_app()
    config = Config()
    config.bind = [f"127.0.0.1:{PORT}"]
    config.accesslog = None
    config.errorlog = logging.getLogger("errors")
    async with trio.open_nursery() as nursery:
        [address] = await nursery.start(partial(hypercorn.trio.serve, Guard(app), config))
        print(f"{address}/{'sse' if KIND == 'sse' else 'mcp'}", flush=True)


if __name__ == "__main__":
    if KIND == "stdio":
        server.run()
    else:
        trio.run(serve)
