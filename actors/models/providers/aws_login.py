"""Signatures of AWS (SigV4) by botocore, the official library, which is an extra.

* botocore finds credentials in the environment, a profile, a login of the command line, or the machine, and
  renews those that end. It may ask a server, so it runs in a thread, and it is imported there.
* Only the type of the content is signed, and not what a proxy may change. Each attempt is signed anew,
  because a signature is valid for five minutes.
* Calls that wait while credentials are looked for get the same failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import attrs
import httpx2
import trio

from ..messages.messages import ModelFailed
from .cloud_tokens import told


@attrs.define(eq=False)
class AwsLogin:
    """The signatures of one model."""

    _service: str
    _region: str
    _lock: trio.Lock = attrs.field(factory=trio.Lock)
    _credentials: Any = attrs.field(default=None, repr=False)
    """Of botocore; None: not looked for yet, or not found."""
    _failed: tuple[float, str] | None = None
    """The last failure: when, on the clock of trio, and why."""
    _secrets: Sequence[str] = attrs.field(default=(), repr=False)

    @property
    def secrets(self) -> Sequence[str]:
        return self._secrets

    async def headers(self, url: httpx2.URL, body: bytes) -> Mapping[str, str]:
        """The headers of a request. Raises `ModelFailed`: there are no credentials."""
        asked = trio.current_time()
        async with self._lock:
            if self._failed is not None and self._failed[0] >= asked:
                raise ModelFailed(self._failed[1])
            try:
                return await trio.to_thread.run_sync(self._signed, str(url), body, abandon_on_cancel=True)
            except Exception as error:  # of any class: those of the library have no common base
                self._failed = trio.current_time(), f"no credentials of AWS: {told(error)}"
                raise ModelFailed(self._failed[1]) from None

    def refused(self, headers: Mapping[str, str]) -> bool:
        """Whether another attempt has other credentials: no, because botocore renews them in time."""
        return False

    def _signed(self, url: str, body: bytes) -> Mapping[str, str]:
        if self._credentials is None:
            self._credentials = import_module("botocore.session").Session().get_credentials()
        if self._credentials is None:
            raise LookupError("there are none in the environment, in a profile and on this machine")
        frozen = self._credentials.get_frozen_credentials()
        self._secrets = tuple(filter(None, (frozen.secret_key, frozen.token)))
        request = import_module("botocore.awsrequest").AWSRequest(
            "POST", url, data=body, headers={"content-type": "application/json"}
        )
        import_module("botocore.auth").SigV4Auth(frozen, self._service, self._region).add_auth(request)
        return {name.lower(): value for name, value in request.headers.items()}


def region_of_profile() -> str:
    """The region of the profile that `AWS_PROFILE` names, or of the default one; "": it has none, or botocore
    is missing. Raises an error of botocore, for instance if the profile is missing."""
    try:
        session = import_module("botocore.session")
    except ImportError:
        return ""
    return session.Session().get_config_variable("region") or ""
