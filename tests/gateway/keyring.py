"""API keys for tests, in a real file, which the server reads at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from stopgo.actors.access.principal import all_grants
from stopgo.config.sections.auth import AuthConfig
from stopgo.gateway.auth.api_keys import ApiKeys
from stopgo.gateway.auth.authenticator import Authenticator
from stopgo.gateway.auth.key_changes import new_key, revoked
from stopgo.gateway.auth.key_file import KeyFile
from stopgo.gateway.auth.verifiers import BearerVerifier
from stopgo.runtime.clock import system_clock


@attrs.frozen(eq=False)
class Keyring:
    file: KeyFile
    keys: ApiKeys
    texts: dict[str, str] = attrs.field(factory=dict, repr=False)
    """The newest key of each name."""

    @classmethod
    def of(cls, folder: Path, roles: Mapping[str, str]) -> Keyring:
        """A key for each name, with the role of the name."""
        file = KeyFile.in_directory(folder)
        keyring = cls(file, ApiKeys(file, all_grants({})))
        for name, role in roles.items():
            keyring.add(name, role)
        return keyring

    def add(self, name: str, *roles: str, subject: str | None = None, expires: float | None = None) -> str:
        """`expires`: in UTC seconds."""
        with self.file.changing() as stored:
            key, text = new_key(stored, name, roles, subject, now=system_clock(), expires=expires)
            stored.append(key)
        self.keys.poll()
        self.texts[name] = text
        return text

    def revoke(self, name: str) -> None:
        with self.file.changing() as stored:
            stored[:] = revoked(stored, name, now=system_clock())
        self.keys.poll()

    def authenticator(self, auth: AuthConfig, tokens: BearerVerifier | None = None) -> Authenticator:
        return Authenticator(auth, self.keys, tokens)
