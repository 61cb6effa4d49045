"""The credentials that a card asks for. Pure.

Versions 1.0 and 0.3 write the same scheme in different fields of one object, so the card has both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...config.sections.a2a import API_KEY_HEADER
from ...config.sections.auth import AuthConfig
from ..auth.issuer import DISCOVERY

Json = dict[str, Any]


def security(auth: AuthConfig, versions: Sequence[str]) -> Json:
    """The schemes, and the requirement of one of them. Empty if only a proxy authenticates."""
    schemes: Json = {}
    if auth.api_keys:
        schemes["apiKey"] = {
            "1.0": {"apiKeySecurityScheme": {"location": "header", "name": API_KEY_HEADER}},
            "0.3": {"type": "apiKey", "in": "header", "name": API_KEY_HEADER},
        }
    if auth.oidc is not None:
        url = {"openIdConnectUrl": auth.oidc.issuer.rstrip("/") + DISCOVERY}
        schemes["openIdConnect"] = {
            "1.0": {"openIdConnectSecurityScheme": url},
            "0.3": {"type": "openIdConnect", **url},
        }
    if not schemes:
        return {}
    fields = {
        name: {key: value for version in versions for key, value in forms[version].items()}
        for name, forms in schemes.items()
    }
    body: Json = {"securitySchemes": fields}
    if "1.0" in versions:
        body["securityRequirements"] = [{"schemes": {name: {"list": []}}} for name in schemes]
    if "0.3" in versions:
        body["security"] = [{name: []} for name in schemes]
    return body
