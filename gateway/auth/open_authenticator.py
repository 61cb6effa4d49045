"""Opens the authentication of an agent: its verifiers, and the tasks that keep them current."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from ...actors.access.principal import all_grants
from ...config.agent_config import AgentConfig
from .api_keys import ApiKeys
from .authenticator import Authenticator
from .key_file import KeyFile


@asynccontextmanager
async def open_authenticator(config: AgentConfig) -> AsyncIterator[Authenticator | None]:
    """None if the agent file has no `auth:`."""
    auth = config.auth
    if auth is None:
        yield None
        return
    grants = all_grants(auth.roles)
    async with trio.open_nursery() as nursery:
        keys = None
        if auth.api_keys:
            keys = ApiKeys(KeyFile.in_directory(config.data_dir), grants)
            keys.look()
            nursery.start_soon(keys.watch)
        yield Authenticator(auth, keys)
        nursery.cancel_scope.cancel()
