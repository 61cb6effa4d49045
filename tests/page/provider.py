"""An OpenID Connect provider as a process, which `oidc_provider.mjs` runs."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from tests.http_client import post

AUDIENCE = "stopgo-api"


@attrs.define(eq=False)
class OidcProvider:
    url: str
    _process: subprocess.Popen[str]

    def rotate(self) -> None:
        """Sign with a new key; the old ones stay published."""
        self._say("rotate")

    def retire(self) -> None:
        """Publish only the newest key."""
        self._say("retire")

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(word, file=self._process.stdin, flush=True)
        assert word in (line.strip() for line in self._process.stdout)  # it also gives advice

    def token(self) -> str:
        """A token for the API, of the program "robot"."""
        answer = post(
            f"{self.url}/token",
            data={"grant_type": "client_credentials", "resource": "urn:api"},
            auth=("robot", "secret%20of%20the%20robot"),
            trust_env=False,
        )
        token: str = answer.json()["access_token"]
        return token


@contextmanager
def oidc_provider(*redirect_uris: str) -> Iterator[OidcProvider]:
    folder = os.environ.get("STOPGO_NPM_DIR", "")
    assert (Path(folder) / "node_modules" / "oidc-provider").exists(), "run `make npm-servers`"
    argv = ["node", str(Path(__file__).with_name("oidc_provider.mjs")), AUDIENCE, *redirect_uris]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            found = re.match(r"listening on (\S+)", process.stdout.readline())
            assert found is not None
            yield OidcProvider(found[1], process)
        finally:
            process.stdin.close()
            try:
                process.wait()
            except subprocess.TimeoutExpired:
                process.kill()
