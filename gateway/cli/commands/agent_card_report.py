"""The output of `stopgo a2a card`: the card of a remote agent, and the interface for a delegation."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ....actors.a2a.agent_link import AgentLink, Contact, FoundCard, RequestNotSent
from ....actors.a2a.wire.a2a_errors import A2AError, InvalidAnswer
from ....actors.a2a.wire.card_reader import MOST_INTERFACES, moved, origin_of, read_card
from ....actors.a2a.wire.client_codec import Interface
from ....actors.a2a.wire.fields import Fields
from ....config.sections.a2a import RemoteAgentConfig
from ..client.agent_contacts import interface_text
from ..process.interrupt import run_until_interrupted
from ..process.options import API_KEY, FAILED
from ..terminal.terminal import Terminal, printable

_HINTS = {
    "its interfaces are at": "To allow that origin, add it to `origins` of the agent's entry in `a2a`.",
    "answered with HTTP 401": f"Send credentials with --header, or set {API_KEY}.",
    "answered with HTTP 403": "Send credentials with --header.",
    "no interface": "A delegation speaks A2A 1.0 and 0.3 over JSONRPC and HTTP+JSON.",
    "answered with HTTP 3": "Redirects are not followed; use the address that they lead to.",
    "no card": "The card is looked for beside the address and at the root of the host.",
}
_HINT = "Check that the agent is running and that the address is right."


def run_card(config: RemoteAgentConfig, *, as_json: bool) -> int:
    """Print the card of an agent and return the exit code."""
    contact, found, problem = run_until_interrupted(partial(_find_card, config))
    terminal = Terminal.of_this_process()
    if found is not None and as_json and found.body is not None:
        terminal.answer(json.dumps(found.body, ensure_ascii=False, indent=2))
    elif found is not None:
        for line in _lines(found, contact):
            print(printable(line))
    if problem is None:
        return 0
    terminal.tell(f"stopgo a2a card: {config.name}: {problem}", "bad")
    terminal.tell(next((hint for words, hint in _HINTS.items() if words in problem), _HINT))
    return FAILED


async def _find_card(config: RemoteAgentConfig) -> tuple[Contact | None, FoundCard | None, str | None]:
    """The interface for the agent, its card, and the problem if there is no interface."""
    link = AgentLink(config, lambda status: None, logging.getLogger("stopgo.a2a"))
    try:
        contact = await link.contact()
    except RequestNotSent as error:
        return None, link.found, str(error)
    finally:
        await link.aclose()
    if link.found is not None:
        return contact, link.found, None
    return contact, None, f"there is no card; a delegation would try {interface_text(contact.interface)}"


# ------------------------------------------------------------------------ lines


def _lines(found: FoundCard, contact: Contact | None) -> Iterator[str]:
    used = None if contact is None else contact.interface
    try:
        card = read_card(body := found.body)
        skills = list(_skills(Fields(body)))
        interfaces = list(dict.fromkeys(_interfaces(Fields(body), used, found.url)))
    except (InvalidAnswer, A2AError):  # the contact has reported the defect
        yield f"card: {found.url}"
        return
    yield f"{card.name}: {card.description}" if card.description else card.name
    yield f"card: {found.url}"
    yield "interfaces:"
    for line in interfaces:
        yield f"  {line}"
    yield f"streaming: {'yes' if card.streaming else 'no'}"
    yield f"extensions: {', '.join(sorted(card.extensions)) or 'none'}"
    yield f"skills:{'' if skills else ' none'}"
    for skill in skills:
        yield f"  {skill}"


def _skills(card: Fields) -> Iterator[str]:
    for skill in card.children("skills"):
        name, description = skill.text("name") or skill.text("id"), skill.text("description")
        yield f"{name}: {description}" if description else f"{name}"


def _interfaces(card: Fields, used: Interface | None, url: str) -> Iterator[str]:
    """A line for each interface of the card, including unsupported ones."""
    if used is not None and used.version == "older":
        yield f"{interface_text(used)} at {used.url}: used"
        return
    for each in card.children("supportedInterfaces")[:MOST_INTERFACES]:
        version, binding = each.text("protocolVersion") or "1.0", each.text("protocolBinding") or "JSONRPC"
        yield _line(version, binding, each, {"supportedInterfaces": [each.json]}, used, url)
    shared = card.text("protocolVersion")
    further = [(each, each.text("transport")) for each in card.children("additionalInterfaces")]
    for each, transport in [(card, card.text("preferredTransport")), *further[:MOST_INTERFACES]]:
        if (at := each.text("url")) is not None:
            alone = {"url": at, "preferredTransport": transport, "protocolVersion": shared}
            yield _line(shared or "0.2", transport or "JSONRPC", each, alone, used, url)


def _line(
    version: str, binding: str, each: Fields, alone: Mapping[str, Any], used: Interface | None, url: str
) -> str:
    """`alone`: a card with only this interface."""
    read = read_card({"name": "-", "capabilities": {}, **alone}).interfaces
    if not read:
        return f"A2A {version} over {binding} at {each.text('url')}: not supported"
    if read[0] == used:
        verdict = "used"
    elif used is not None and used in moved(read[0], url, url):
        verdict = f"called at {used.url}"
    elif origin_of(read[0].url) != origin_of(url):
        verdict = "at another origin, not used"
    else:
        verdict = "supported"
    return f"{interface_text(read[0])} at {read[0].url}: {verdict}"
