"""Certificates of an authority that nobody knows unless he is told."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme


class Authority:
    """Certifies names; who trusts `file` trusts them."""

    def __init__(self, folder: Path) -> None:
        self._ca = trustme.CA()
        self.file = folder / "authority.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def server(self, *names: str) -> ssl.SSLContext:
        """For a server of these names."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert(*names).configure_cert(context)
        return context
