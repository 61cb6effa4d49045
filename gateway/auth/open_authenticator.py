"""Opens the authentication of an agent: its verifiers, and the tasks that keep them current."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import trio

from ...actors.access.principal import all_grants
from ...config.agent_config import AgentConfig
from .api_keys import ApiKeys
from .authenticator import Authenticator
from .issuer import Issuer
from .jwks import Jwks
from .jwt_verifier import JwtVerifier
from .key_file import KeyFile
from .login import Login
from .proxy_identity import ProxyVerifier
from .sessions import SessionVerifier
from .tickets import Tickets, TicketVerifier
from .verifiers import RequestVerifier


@asynccontextmanager
async def open_authenticator(config: AgentConfig) -> AsyncIterator[Authenticator | None]:
    """None if the agent file has no `auth:`."""
    auth = config.auth
    if auth is None:
        yield None
        return
    grants = all_grants(auth.roles)
    tickets = Tickets()
    others: list[RequestVerifier] = [TicketVerifier(tickets)]
    if auth.proxy is not None:
        others.append(ProxyVerifier(auth.proxy, grants))
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        stack.callback(nursery.cancel_scope.cancel)
        keys = tokens = login = None
        if auth.api_keys:
            keys = ApiKeys(KeyFile.in_directory(config.data_dir), grants)
            keys.look()
            nursery.start_soon(keys.watch)
        if auth.oidc is not None:
            issuer = Issuer(auth.oidc.issuer)
            stack.push_async_callback(issuer.aclose)
            jwks = Jwks(issuer)
            nursery.start_soon(jwks.run)
            tokens = JwtVerifier(auth.oidc, grants, jwks)
            if auth.oidc.login is not None:
                login = Login(auth.oidc.login, tokens, config.server.public_url)
                others.append(SessionVerifier(login.sessions))
        yield Authenticator(auth, keys, tokens, others, tickets, login)
