"""TLS to models and tool servers: the trusted authorities, and the reasons of failed connections."""

from __future__ import annotations

import os
import socket
import ssl
from functools import lru_cache

import httpx2

_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables of OpenSSL that name the trusted authorities. The default is those of the system."""
_KEY_LOG = "SSLKEYLOGFILE"
"""A variable for debugging, which Python follows in each context."""

_DEPTH = 20
"""Maximum length of a chain of errors to follow, because a chain can have a cycle."""


class TlsUnusable(Exception):
    """The trusted authorities cannot be read. The text says which."""


def trusted() -> ssl.SSLContext:
    """The context of connections to other hosts. Connections share it until the authorities change.

    Raises:
        TlsUnusable
    """
    default = ssl.get_default_verify_paths().openssl_cafile
    path = next((path for name in _VARIABLES if (path := os.environ.get(name))), default)
    try:
        changed = os.stat(path).st_mtime_ns
    except OSError:
        changed = None
    return _load(path, changed)


@lru_cache(maxsize=1)
def _load(path: str, changed: int | None) -> ssl.SSLContext:
    """Reading the authorities takes about 15 ms of CPU time, more than a connection does."""
    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        if error.filename is not None and error.filename == os.environ.get(_KEY_LOG):
            raise TlsUnusable(f"the file of {_KEY_LOG} cannot be written: {_told(error)}") from error
        named = " or ".join(name for name in _VARIABLES if os.environ.get(name)) or "the system"
        raise TlsUnusable(f"the certificates of {named} cannot be read: {_told(error)}") from error


def why_unreached(error: BaseException) -> str | None:
    """Return the reason that TLS or the system gives for a failed connection, or None.

    The text of an HTTP library is not used, because it may quote an address or a header, and a key in it.
    """
    cause = _origin(error)
    match cause:
        case None:
            return None
        case ssl.SSLCertVerificationError():
            said = f"its certificate is not trusted: {cause.verify_message}"
            return f"{said} (SSL_CERT_FILE names the authorities to trust)"
        case ssl.SSLError():
            return f"TLS failed: {_told(cause)}"
        case socket.gaierror():
            return "its name is not known"
        case _:
            return _told(cause)


def distrusted(error: BaseException) -> bool:
    """Return whether a certificate was refused, so that a retry is useless."""
    return isinstance(_origin(error), ssl.SSLCertVerificationError)


def is_of_tls(error: BaseException) -> bool:
    """Return whether a connection failed in its TLS handshake."""
    return isinstance(_origin(error), ssl.SSLError)


def _origin(error: BaseException) -> OSError | None:
    """Return the error of the system or of TLS at the end of a chain of errors."""
    below: BaseException | None = error
    for _ in range(_DEPTH):
        if below is None or (isinstance(below, OSError) and below.errno is not None):
            return below
        if isinstance(below, BaseExceptionGroup):  # one error for each address that was tried
            below = below.exceptions[0]
        else:
            below = below.__cause__ or below.__context__
    return None


def _told(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no reason given").replace("_", " ").lower()
    assert error.errno is not None
    return os.strerror(error.errno).lower()
