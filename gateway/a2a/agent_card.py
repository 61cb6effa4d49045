"""The agent card, which describes the agent, its skills and its endpoints to clients. Pure.

One card has the fields of both version 1.0 and 0.3: their names do not collide, and readers ignore unknown
fields (version 1.0.1, section 5.7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import attrs

from ...actors.a2a.wire.a2a_headers import HITL, IDEMPOTENCY, LOOK
from ...actors.agent.lists import ListedTool
from ...actors.tools.pictures import MediaType
from ...config.sections.auth import AuthConfig
from .card_security import security
from .output_modes import OFFERED

Json = dict[str, Any]
Version = Literal["1.0", "0.3"]

EXTENSIONS: Mapping[str, str] = {
    HITL: "Approvals of tool calls as structured requests and responses.",
    IDEMPOTENCY: "A message that is sent again with the same messageId is carried out once.",
    LOOK: "Before a task is read, the agents that it called are asked for their pending questions.",
}
INPUT_MODES = ("text/plain", "application/json", *get_args(MediaType), "text", "data", "file")
"""The last three are the names of older clients."""
_MODES = {"inputModes": INPUT_MODES, "outputModes": OFFERED}
"""Of each skill: the defaults, which the client of fasta2a 2.1.1 (schema.py, `Skill`) does not infer."""


@attrs.frozen
class Offered:
    """The parts of A2A that the agent offers. Only tests turn some off."""

    streaming: bool = True
    push: bool = True
    extended_card: bool = True
    required_extension: str | None = None
    versions: Sequence[Version] = ("1.0", "0.3")


ALL_OFFERED = Offered()


@attrs.frozen
class AgentAbout:
    """The data of a card."""

    name: str
    description: str
    version: str
    url: str
    """Base URL of the agent; the endpoint is below it."""
    tools: Sequence[ListedTool] = ()
    auth: AuthConfig | None = None


def card(about: AgentAbout, offered: Offered, *, extended: bool = False) -> Json:
    """The card. `extended`: the card that a method returns; it says which tools need approval.

    With authentication, only the extended card has the tools.
    """
    endpoint, auth = f"{about.url}/a2a", about.auth
    tools = about.tools if auth is None or extended else ()
    skills = [_skill(listed, extended=extended) for listed in tools] or [_talk(about)]
    body: Json = {
        "name": about.name,
        "description": about.description or about.name,
        "version": about.version,
        "capabilities": _capabilities(offered),
        "defaultInputModes": list(INPUT_MODES),
        "defaultOutputModes": list(OFFERED),
        "skills": [{**each, **_MODES} for each in skills],
    }
    if "1.0" in offered.versions:
        body["supportedInterfaces"] = [
            {"url": url, "protocolBinding": binding, "protocolVersion": version}
            for version in offered.versions
            for url, binding in _interfaces(endpoint, version)
        ]
    if "0.3" in offered.versions:
        body |= {
            "protocolVersion": "0.3.0",
            "url": endpoint,
            "preferredTransport": "JSONRPC",
            "additionalInterfaces": [
                {"url": url, "transport": binding} for url, binding in _interfaces(endpoint, "0.3")
            ],
            # In 0.3 the extended card is for authenticated clients only.
            "supportsAuthenticatedExtendedCard": auth is not None and offered.extended_card,
        }
    return body if auth is None else {**body, **security(auth, offered.versions)}


def _interfaces(endpoint: str, version: Version) -> tuple[tuple[str, str], ...]:
    # Clients of 0.3 append "/v1" themselves.
    return (endpoint, "JSONRPC"), (endpoint, "HTTP+JSON")


def _capabilities(offered: Offered) -> Json:
    extensions = [{"uri": uri, "description": text, "required": False} for uri, text in EXTENSIONS.items()]
    if offered.required_extension is not None:
        extensions.append({"uri": offered.required_extension, "description": "", "required": True})
    capabilities: Json = {
        "streaming": offered.streaming,
        "pushNotifications": offered.push,
        "extensions": extensions,
    }
    if "1.0" in offered.versions:
        capabilities["extendedAgentCard"] = offered.extended_card
    if "0.3" in offered.versions:
        capabilities["stateTransitionHistory"] = False
    return capabilities


def _skill(listed: ListedTool, *, extended: bool) -> Json:
    tool = listed.tool
    tags = [tool.server]
    if extended:
        tags.append({"ask": "needs approval", "run": "runs at once", "deny": "denied"}[listed.policy])
    return {
        "id": tool.name,
        "name": tool.title or tool.name,
        "description": tool.description or tool.name,
        "tags": tags,
    }


def _talk(about: AgentAbout) -> Json:
    """The skill of an agent without tools, or of one that does not show them."""
    return {
        "id": "talk",
        "name": about.name,
        "description": about.description or about.name,
        "tags": ["text"],
    }
