"""Opens the authentication of an agent: its verifiers, and the tasks that keep them current."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import trio

from ...actors.access.principal import all_grants
from ...actors.agent.agent import Agent
from .api_keys import ApiKeys
from .authenticator import Authenticator
from .issuer import Issuer
from .jwks import Jwks
from .jwt_verifier import JwtVerifier
from .key_file import KeyFile
from .key_notes import follow_keys
from .lifetimes import Lifetimes
from .login import Login
from .proxy_identity import ProxyVerifier
from .sessions import Sessions, SessionVerifier
from .tickets import Tickets, TicketVerifier
from .verifiers import RequestVerifier


@asynccontextmanager
async def open_authenticator(agent: Agent) -> AsyncIterator[Authenticator | None]:
    """None if the agent file has no `auth:`. Raises `JournalError`."""
    config, notes = agent.config, agent.followed_notes
    auth = config.auth
    if auth is None:
        yield None
        return
    grants = all_grants(auth.roles)
    others: list[RequestVerifier] = []
    if auth.proxy is not None:
        others.append(ProxyVerifier(auth.proxy, grants))
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        stack.callback(nursery.cancel_scope.cancel)
        keys = tokens = login = None
        if auth.api_keys and notes.are_shared:
            keys = ApiKeys(None, grants)
            await follow_keys(notes, keys)
        elif auth.api_keys:
            keys = ApiKeys(KeyFile.in_directory(config.data_dir), grants)
            keys.poll()
            nursery.start_soon(keys.watch)
        if auth.oidc is not None:
            issuer = Issuer(auth.oidc.issuer)
            stack.push_async_callback(issuer.aclose)
            jwks = Jwks(issuer)
            nursery.start_soon(jwks.run)
            tokens = JwtVerifier(auth.oidc, grants, jwks)
            if auth.oidc.login is not None:
                sessions = Sessions(auth.oidc.login.session_hours * 3600, notes, grants)
                login = Login(auth.oidc.login, tokens, config.server.public_url, sessions, notes)
                await login.load()
                others.append(SessionVerifier(sessions))
        tickets = Tickets(notes, grants, Lifetimes(keys, login, notes.wall).of)
        await tickets.load()
        others.append(TicketVerifier(tickets))
        yield Authenticator(auth, keys, tokens, others, tickets, login)
