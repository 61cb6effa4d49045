"""How long the credential behind a ticket is valid, which another member may have verified."""

from __future__ import annotations

import attrs

from ...runtime.clock import WallClock
from ..http.identity import Lifetime
from .api_keys import ApiKeys
from .login import Login
from .principal_note import PrincipalNote
from .proxy_identity import PROXY
from .sessions import SESSION


@attrs.frozen
class Lifetimes:
    _keys: ApiKeys | None
    _login: Login | None
    _wall: WallClock

    def of(self, by: PrincipalNote) -> Lifetime | None:
        """None if the credential is not valid, or not known at this member yet."""
        credential = by.credential
        if credential.startswith(SESSION):
            return None if self._login is None else self._login.sessions.lifetime(credential)
        if is_api_key(credential):
            return None if self._keys is None else self._keys.lifetime(credential)
        return by.lifetime(self._wall())


def is_api_key(credential: str) -> bool:
    """Whether the id of a credential is that of an API key, which has no colon."""
    return ":" not in credential and credential != PROXY
