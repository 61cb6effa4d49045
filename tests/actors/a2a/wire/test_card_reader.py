"""Cards of every age say where an agent is; it is called only where it may be."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.client.card_resolver import parse_agent_card

from stopgo.actors.a2a.wire.a2a_errors import InvalidAnswer
from stopgo.actors.a2a.wire.card_reader import (
    MOST_INTERFACES,
    Card,
    Elsewhere,
    card_urls,
    origin_of,
    read_card,
    usable,
)
from stopgo.actors.a2a.wire.client_codec import Binding, Interface, Version

from .test_client_codec import REAL

Json = dict[str, Any]

HEAD: Json = {"name": "N", "description": "D", "version": "1.0.0", "skills": []}
ABILITIES: Json = {"streaming": True, "extensions": [{"uri": "urn:x", "required": True}, {"uri": "urn:y"}]}


def at(url: str, binding: str = "JSONRPC", version: str = "1.0", **more: Any) -> Json:
    return {"url": url, "protocolBinding": binding, "protocolVersion": version, **more}


CARD_1: Json = {
    **HEAD,
    "capabilities": ABILITIES,
    "supportedInterfaces": [
        at("grpc.example:443", "GRPC"),
        at("https://h/rest", "HTTP+JSON"),
        at("https://h/a2a"),
        at("https://h/a2a", version="0.3"),
    ],
}
CARD_03: Json = {
    **HEAD,
    "protocolVersion": "0.3.0",
    "url": "https://h/a2a",
    "preferredTransport": "JSONRPC",
    "additionalInterfaces": [
        {"url": "https://h/a2a", "transport": "JSONRPC"},
        {"url": "https://h/rest", "transport": "HTTP+JSON"},
        {"url": "h:50051", "transport": "GRPC"},
    ],
    "capabilities": {"streaming": False},
}
BOTH = {**CARD_03, **CARD_1, "protocolVersion": "0.3.0"}
OLDER = {"name": "N", "description": "D", "url": "http://0.0.0.0:8080", "skills": [{"id": "s", "name": "S"}]}
CARDS = [CARD_1, CARD_03, BOTH, OLDER]


def of(url: str, binding: Binding = "JSONRPC", version: Version = "1.0") -> Interface:
    return Interface(url, binding, version)


REST_1, RPC_1 = of("https://h/rest", "HTTP+JSON"), of("https://h/a2a")
RPC_03, REST_03 = of("https://h/a2a", version="0.3"), of("https://h/rest", "HTTP+JSON", "0.3")
ANYWHERE = of("", version="older")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (CARD_1, Card("N", "D", (REST_1, RPC_1, RPC_03), True, frozenset({"urn:x", "urn:y"}))),
        (CARD_03, Card("N", "D", (RPC_03, REST_03), False, frozenset())),
        (BOTH, Card("N", "D", (REST_1, RPC_1, RPC_03, REST_03), True, frozenset({"urn:x", "urn:y"}))),
        (OLDER, Card("N", "D", (ANYWHERE,), False, frozenset())),
    ],
)
def test_cards(body: Json, expected: Card) -> None:
    assert read_card(body) == expected


def interfaces(body: Json) -> tuple[Interface, ...]:
    return read_card(body).interfaces


@pytest.mark.parametrize("version", ["1", "1.0", "1.0.0", "1.0.7"])
def test_versions_of_1_0(version: str) -> None:
    assert interfaces({**HEAD, "supportedInterfaces": [at("https://h", version=version)]}) == (
        of("https://h"),
    )


@pytest.mark.parametrize("version", ["0.3", "0.3.0", "0.2.6", "0.2"])
def test_versions_of_0_3(version: str) -> None:
    found = (of("https://h", version="0.3"),)
    assert interfaces({**HEAD, "supportedInterfaces": [at("https://h", version=version)]}) == found
    assert interfaces({**HEAD, "url": "https://h", "protocolVersion": version}) == found


@pytest.mark.parametrize("version", ["1.1", "2.0", "0.1", "0.30", "10", "v1.0", "1.0\n", "x"])
def test_unknown_versions_are_left_out(version: str) -> None:
    assert interfaces({**HEAD, "supportedInterfaces": [at("https://h", version=version)]}) == ()
    assert interfaces({**HEAD, "url": "https://h", "protocolVersion": version}) == ()


def test_cards_of_0_2() -> None:
    """They need not say a version, but they have capabilities; they are called by JSON-RPC."""
    more = [
        {"url": "https://h/rest", "transport": "HTTP+JSON"},
        {"url": "https://h/b", "transport": "JSONRPC"},
    ]
    card = {**HEAD, "url": "https://h/a2a", "capabilities": {}, "additionalInterfaces": more}
    found = (RPC_03, of("https://h/b", version="0.3"))
    assert interfaces(card) == found
    assert interfaces({**card, "protocolVersion": "0.2.5"}) == found


def test_a_card_of_0_3_that_prefers_http() -> None:
    card = {**CARD_03, "url": "https://h/rest", "preferredTransport": "HTTP+JSON"}
    assert interfaces(card) == (REST_03, RPC_03)


def test_names_in_snake_case_and_nulls() -> None:
    entry = {"url": "https://h/a2a", "protocol_binding": "JSONRPC", "protocol_version": "1.0", "tenant": ""}
    card = {"name": "N", "supported_interfaces": [entry], "capabilities": None, "description": None}
    assert read_card(card) == Card("N", "", (RPC_1,), False, frozenset())


@pytest.mark.parametrize(
    "entry",
    [
        at("/a2a"),
        at("//h/a2a"),
        at("ftp://h/a2a"),
        at("file:///etc/passwd"),
        at("https://"),
        at("https://user@h/a2a"),
        at("https://h\\@evil/a2a"),
        at("https://h/a b"),
        at("https://h/a\r\nX: y"),
        at("https://h:99999/a2a"),
        at("https://h/t1", tenant="t1"),
        at("https://h/t1", "jsonrpc"),
        at("https://h/t1", "GRPC"),
        at(""),
        {"protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
    ],
)
def test_unsupported_interfaces_are_left_out(entry: Json) -> None:
    card = {**HEAD, "capabilities": {}, "supportedInterfaces": [entry, at("https://h/a2a")]}
    assert interfaces(card) == (RPC_1,)


def test_number_of_interfaces_is_bounded() -> None:
    others = [at(f"https://h/{number}", "GRPC") for number in range(MOST_INTERFACES - 1)]
    card = {**HEAD, "supportedInterfaces": [*others, at("https://h/a2a"), at("https://h/b")]}
    assert interfaces(card) == (RPC_1,)
    uris = [{"uri": f"urn:{number}"} for number in range(1000)]
    assert len(read_card({**CARD_1, "capabilities": {"extensions": uris}}).extensions) == MOST_INTERFACES


@pytest.mark.parametrize(
    ("body", "mistake"),
    [
        (None, "card: must be an object"),
        ([CARD_1], "card: must be an object"),
        ({}, "card.name: is required"),
        ({"name": "package", "version": "1"}, "card.supportedInterfaces: is required"),
        ({**CARD_1, "name": 7}, "card.name: must be a string"),
        ({**CARD_1, "supportedInterfaces": {}}, "card.supportedInterfaces: must be a list"),
        (
            {**CARD_1, "supportedInterfaces": ["https://h"]},
            r"card.supportedInterfaces\[0\]: must be an object",
        ),
        ({**CARD_1, "capabilities": []}, "card.capabilities: must be an object"),
        ({**CARD_03, "url": ["https://h"]}, "card.url: must be a string"),
    ],
)
def test_invalid_cards_are_refused(body: object, mistake: str) -> None:
    with pytest.raises(InvalidAnswer, match=mistake):
        read_card(body)


@pytest.mark.parametrize("body", [REAL["REST v03 card"]["body"], REAL["ext card v03"]["body"]["result"]])
def test_a_real_card(body: Json) -> None:
    card = read_card(body)
    assert card == Card(
        "SDK 1.3.0 SUT",
        "TCK SUT",
        (
            of("http://127.0.0.1:9201/a2a", version="0.3"),
            of("http://127.0.0.1:9201/rest", "HTTP+JSON", "0.3"),
        ),
        True,
        frozenset(),
    )


@pytest.mark.parametrize("body", [CARD_1, CARD_03, BOTH])
def test_sdk_finds_the_same_interfaces(body: Json) -> None:
    parsed = parse_agent_card(body)
    known = {(each.url, each.protocol_binding) for each in parsed.supported_interfaces}
    assert {(each.url, each.binding) for each in read_card(body).interfaces} <= known


# ------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://h", "https://h:443"),
        ("http://h/x?y#z", "http://h:80"),
        ("HTTPS://Example.COM:8443/A", "https://example.com:8443"),
        ("http://h:080", "http://h:80"),
        ("http://127.0.0.1:8000/a2a", "http://127.0.0.1:8000"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("https://[2001:DB8::1]/x", "https://[2001:db8::1]:443"),
        ("https://bücher.example/", "https://bücher.example:443"),
        ("https://h?x", "https://h:443"),
        ("https://evil#@h/", "https://evil:443"),
        ("https://evil/@h/", "https://evil:443"),
    ],
)
def test_origins(url: str, origin: str) -> None:
    assert origin_of(url) == origin
    assert origin_of(origin) == origin


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h",
        "h:443",
        "/x",
        "//h",
        "ftp://h",
        "javascript:alert(1)",
        "http:///x",
        "http://:80",
        "http://h:",
        "http://h:x",
        "http://h:70000",
        "http://h:-1",
        "http://h:8٠",
        "http://user:password@h",
        "http://h\\@evil",
        "http://h\\evil",
        "http://h/\\evil",
        "http://h%2eevil",
        "http://[::1",
        "http://a b",
        "http://h/\n",
        " http://h",
    ],
)
def test_urls_without_origin_are_refused(url: str) -> None:
    for read in (origin_of, card_urls):
        with pytest.raises(ValueError, match="not a URL"):
            read(url)


HOME = {"https://h:443"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ((REST_1, RPC_1), REST_1),
        ((of("https://evil/a2a"), of("http://h/a2a"), RPC_03, RPC_1), RPC_03),
        ((of("https://H:443/a2a"),), of("https://H:443/a2a")),
        ((ANYWHERE,), ANYWHERE),
    ],
)
def test_first_interface_at_an_allowed_origin_is_used(
    found: tuple[Interface, ...], expected: Interface
) -> None:
    assert usable(Card("N", "", found, False, frozenset()), HOME) == expected


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ((), "it has no interface for JSON-RPC or HTTP[+]JSON in version 1.0 or 0.3"),
        (
            (of("https://h.evil/a2a"), of("https://h:8443"), of("http://h"), of("https://h.evil/b")),
            "its interfaces are at http://h:80, https://h.evil:443, https://h:8443$",
        ),
    ],
)
def test_interfaces_at_other_origins_are_refused(found: tuple[Interface, ...], message: str) -> None:
    with pytest.raises(Elsewhere, match=message):
        usable(Card("N", "", found, False, frozenset()), HOME)


AT = ".well-known/agent-card.json"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://h", [f"https://h/{AT}", "https://h/.well-known/agent.json"]),
        ("https://h/", [f"https://h/{AT}", "https://h/.well-known/agent.json"]),
        ("https://h/a2a", [f"https://h/{AT}", f"https://h/a2a/{AT}", "https://h/.well-known/agent.json"]),
        (
            "http://H:8000/x/a2a/?key=1#top",
            [
                f"http://H:8000/x/{AT}",
                f"http://H:8000/x/a2a/{AT}",
                f"http://H:8000/{AT}",
                "http://H:8000/.well-known/agent.json",
            ],
        ),
        (
            "https://h/x/y",
            [
                f"https://h/x/y/{AT}",
                f"https://h/x/{AT}",
                f"https://h/{AT}",
                "https://h/.well-known/agent.json",
            ],
        ),
        ("https://h/x", [f"https://h/x/{AT}", f"https://h/{AT}", "https://h/.well-known/agent.json"]),
        ("https://h/cards/n.json?v=2", ["https://h/cards/n.json?v=2"]),
    ],
)
def test_where_cards_are_looked_for(url: str, expected: list[str]) -> None:
    assert list(card_urls(url)) == expected
