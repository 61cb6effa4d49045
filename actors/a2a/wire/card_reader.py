"""Read the cards of other agents, and list the URLs of a card. Pure.

A card of 1.0 has `supportedInterfaces`, a card of 0.3 `url`, `preferredTransport` and `additionalInterfaces`;
a card may have both. An older card has neither of these lists nor a version. Source: "AgentCard" in versions
1.0.1 and 0.3.0 of the specification.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from ipaddress import ip_address

import attrs

from .a2a_errors import A2AError, InvalidAnswer
from .client_codec import Binding, Interface, Version
from .fields import Fields

MOST_INTERFACES = 64
"""Interfaces of a card that are read, and extensions."""
MOST_CARD_URLS = 4

_BINDINGS: dict[str, Binding] = {"JSONRPC": "JSONRPC", "HTTP+JSON": "HTTP+JSON"}
# Without user names and backslashes, because URL parsers disagree about them.
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[^\s\x00-\x1f\x7f/?#@\\:\[\]%]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[^\s\x00-\x1f\x7f?#\\]*)?(?:[?#][^\s\x00-\x1f\x7f\\]*)?",
    re.IGNORECASE,
)
_PORTS = {"http": "80", "https": "443"}
MOST_PORT = 65535
_NOT_IN_DNS = frozenset(
    {"arpa", "corp", "home", "internal", "intranet", "invalid", "lan", "local", "localdomain", "localhost"}
    | {"private", "svc", "test"}
)
_OF_CARD = re.compile(r"/\.well-known/agent(-card)?\.json/?\Z")
_NO_SCHEME = re.compile(r"[^/:\s]+:\d")
_CARD = "/.well-known/agent-card.json"
_OLD_CARD = "/.well-known/agent.json"


@attrs.frozen
class Card:
    name: str
    description: str
    interfaces: tuple[Interface, ...]
    """The interfaces that this agent supports, in the other agent's order of preference. An interface without
    a URL is at the configured address of the agent."""
    streaming: bool
    extensions: frozenset[str]
    """The URIs of the agent's extensions."""


class Elsewhere(Exception):
    """No interface of an agent is at an allowed origin. The message names the origins of its interfaces."""


def read_card(body: object) -> Card:
    """Read a card of 1.0, of 0.3, of both, or an older one.

    Raises:
        InvalidAnswer: the body is no card.
    """
    try:
        fields = Fields(body, "card")
        name = fields.required("name")
        if not any(map(fields.has, ("url", "supportedInterfaces"))):
            raise fields.error("supportedInterfaces", "is required")
        capabilities = fields.child_or_empty("capabilities")
        extensions = capabilities.children("extensions")[:MOST_INTERFACES]
        return Card(
            name,
            fields.text("description") or "",
            tuple(dict.fromkeys(_interfaces(fields))),
            capabilities.flag("streaming") or False,
            frozenset(uri for each in extensions if (uri := each.text("uri"))),
        )
    except A2AError as error:
        raise InvalidAnswer(str(error)) from error


def _interfaces(card: Fields) -> Iterator[Interface]:
    """Interfaces of 1.0 come first: a card with both lists has the other one for older clients."""
    if not any(map(card.has, ("supportedInterfaces", "protocolVersion", "capabilities"))):
        # Ignore the URL of an older card: it names the host that the agent believes to run on.
        yield Interface("", "JSONRPC", "older")
        return
    # (fields, name of the binding's field, version). Interfaces of 0.3 have the version of the card.
    shared = card.text("protocolVersion") or "0.2"
    found = [
        (each, "protocolBinding", each.text("protocolVersion") or "1.0")
        for each in card.children("supportedInterfaces")
        if not each.text("tenant")
    ]
    found.append((card, "preferredTransport", shared))
    found += [(each, "transport", shared) for each in card.children("additionalInterfaces")]
    for fields, binding, version in found[:MOST_INTERFACES]:
        interface = _interface(fields.text("url"), fields.text(binding) or "JSONRPC", version)
        if interface is not None:
            yield interface


def _interface(url: str | None, binding: str, version: str) -> Interface | None:
    spoken, url = _version(version), None if url is None else _absolute(url)
    if url is None or not _is_address(url) or binding not in _BINDINGS or spoken is None:
        return None
    if binding != "JSONRPC" and version.startswith("0.2"):
        return None
    return Interface(url, _BINDINGS[binding], spoken)


def _absolute(url: str) -> str:
    """The URL that is meant by a path alone, by `host:port` without a scheme, or by the URL of the card."""
    url = _OF_CARD.sub("", url)
    if url.startswith("/") and not url.startswith("//"):
        return f"http://localhost{url}"  # where the agent is: see `usable`
    return f"http://{url}" if _NO_SCHEME.match(url) else url


def _version(text: str) -> Version | None:
    if re.fullmatch(r"1(\.0(\.\d+)?)?", text):
        return "1.0"
    return "0.3" if re.fullmatch(r"0\.[23](\.\d+)?", text) else None


# ------------------------------------------------------------------------- addresses


def origin_of(url: str) -> str:
    """The origin of a URL in small letters, as `https://host:443`.

    Raises:
        ValueError: it is no URL of HTTP, or it has a user name.
    """
    found = _parsed(url)
    scheme = found["scheme"].lower()
    return f"{scheme}://{found['host'].lower()}:{int(found['port'] or _PORTS[scheme])}"


def _parsed(url: str) -> re.Match[str]:
    found = _URL.fullmatch(url)
    if found is None or int(found["port"] or 0) > MOST_PORT:
        raise ValueError("not a URL that begins with http:// or https:// and a host")
    return found


def _is_address(url: str) -> bool:
    try:
        origin_of(url)
    except ValueError:
        return False
    return True


def usable(card: Card, configured: str, origins: Collection[str], card_url: str) -> tuple[Interface, ...]:
    """The interfaces to call, the best first. `configured`: the URL of the agent in the configuration;
    `origins`: further allowed origins; `card_url`: where the card was found.

    1. Interfaces at an allowed origin, or without a URL.
    2. If there are none: the others, moved to the origin of `configured`. Many agents name the address at
       which they listen (`0.0.0.0`), or that they have inside a container or behind a proxy. A proxy may also
       have removed the beginning of the path: the part before `/.well-known` in `card_url` is tried first.
       But if both hosts are public names, the card means another service.

    Raises:
        Elsewhere: there is no such interface.
    """
    allowed = {origin_of(each) for each in (configured, *origins)}
    near = [each for each in card.interfaces if not each.url or origin_of(each.url) in allowed]
    if near:
        return tuple(near)
    found = [place for each in card.interfaces for place in moved(each, configured, card_url)]
    if found:
        return tuple(dict.fromkeys(found))
    if not card.interfaces:
        raise Elsewhere("it has no interface for JSON-RPC or HTTP+JSON in version 1.0 or 0.3")
    raise Elsewhere(named_origins(card))


def named_origins(card: Card) -> str:
    """A clause that says where the card's interfaces are."""
    origins = sorted({origin_of(interface.url) for interface in card.interfaces if interface.url})
    return f"its interfaces are at {', '.join(origins)}"


def _means_another_service(url: str, configured: str) -> bool:
    named, ours = (_parsed(each)["host"].lower() for each in (url, configured))
    return named != ours and is_public(named) and is_public(ours)


def is_public(host: str) -> bool:
    """Whether a host of a URL has this name for everyone. Names that DNS does not have are not public (RFC
    6761, 6762, 8375; ICANN reserved `internal`), and neither are the addresses of private networks."""
    name = host.strip("[]").rstrip(".")
    try:
        return ip_address(name).is_global
    except ValueError:
        last = name.rpartition(".")[2]
        return "." in name and last not in _NOT_IN_DNS and not last.isdecimal()


def moved(interface: Interface, configured: str, card_url: str) -> tuple[Interface, ...]:
    """An interface at the origin of `configured`, the likeliest URL first; none if it is another service."""
    if _means_another_service(interface.url, configured):
        return ()
    root, rest = _root(configured), interface.url.removeprefix(_root(interface.url)) or "/"
    before, well_known, _ = (_parsed(card_url)["path"] or "").partition("/.well-known/")
    is_below = not well_known or f"{rest}/".startswith(f"{before}/")
    urls = [f"{root}{rest}"] if is_below else [f"{root}{before}{rest}", f"{root}{rest}"]
    return tuple(attrs.evolve(interface, url=url) for url in urls)


def _root(url: str) -> str:
    """A URL up to its host and port, as written."""
    found = _parsed(url)
    return url[: found.end("port") if found["port"] else found.end("host")]


def card_urls(url: str) -> tuple[str, ...]:
    """The URLs where the card of the agent at `url` may be, the likeliest first, all at its origin.

    Raises:
        ValueError: as `origin_of`.
    """
    found = _parsed(url)
    path = (found["path"] or "").rstrip("/")
    if path.endswith(".json"):
        return (url,)
    root = _root(url)
    parent, _, last = path.rpartition("/")
    # A path that ends with "a2a" is an endpoint, and the card is beside it.
    likely = (parent, path) if last == "a2a" else (path, parent)
    places = (*(f"{root}{each}{_CARD}" for each in (*likely, "")), f"{root}{_OLD_CARD}")
    return tuple(dict.fromkeys(places))[:MOST_CARD_URLS]
