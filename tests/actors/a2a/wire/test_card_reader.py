"""Cards of every age say where an agent is; it is called only where it may be."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.client.card_resolver import parse_agent_card
from hypothesis import given
from hypothesis import strategies as st

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
        at("a2a"),
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


AT = ".well-known/agent-card.json"
HOME = "https://agents.example"
PUBLIC = of(f"{HOME}/a2a")


def places(*found: Interface, url: str = HOME, at: str = "", origins: tuple[str, ...] = ()) -> list[str]:
    card = Card("N", "", found, False, frozenset())
    return [each.url for each in usable(card, url, origins, at or f"{url}/{AT}")]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ((of(f"{HOME}/rest", "HTTP+JSON"), PUBLIC), [f"{HOME}/rest", f"{HOME}/a2a"]),
        ((of("https://evil.example/a2a"), of("http://0.0.0.0/b"), PUBLIC), [f"{HOME}/a2a"]),
        ((of("https://Agents.Example:443/a2a"),), ["https://Agents.Example:443/a2a"]),
        ((ANYWHERE,), [""]),
    ],
)
def test_interfaces_at_allowed_origins_are_used(found: tuple[Interface, ...], expected: list[str]) -> None:
    assert places(*found) == expected


def test_interface_at_a_listed_origin_is_used_there() -> None:
    there = "http://10.0.0.1:8080"
    assert places(of(f"{there}/a2a"), origins=(there,)) == [f"{there}/a2a"]


LISTENS = [
    "http://0.0.0.0:8080",  # google/adk-python, a2a-samples: `host` of the server becomes the URL of the card
    "http://[::]:8080",
    "http://localhost:9999",
    "http://127.0.0.1:1",
    "http://[::1]",
    "http://10.0.0.7:8000",
    "http://172.17.0.2",
    "http://192.168.1.5",
    "http://169.254.1.1",
    "http://[fd00::1]:80",
    "http://books:8000",  # the name of a container
    "http://books.default.svc.cluster.local:8000",  # Kubernetes
    "http://books.internal",
    "http://host.docker.internal:8000",
    "http://books.LOCAL.:8000",
    "http://2130706433",  # 127.0.0.1 in another form
    "http://127.1",
    "http://agents.example",  # behind a proxy that ends TLS
    "https://AGENTS.example:8443",
]


@pytest.mark.parametrize("root", LISTENS)
def test_path_of_an_interface_at_a_listen_address_is_called_at_the_configured_origin(root: str) -> None:
    assert places(of(f"{root}/invoke?x=1")) == [f"{HOME}/invoke?x=1"]
    assert places(of(root)) == [f"{HOME}/"]
    assert places(of(f"{root}/")) == [f"{HOME}/"]


@pytest.mark.parametrize(
    ("named", "called"),
    [
        ("/a2a", f"{HOME}/a2a"),  # A2A#160: a path alone
        ("0.0.0.0:8000/a2a", f"{HOME}/a2a"),
        ("localhost:8000", f"{HOME}/"),
        # a2a-dotnet#47: the card of Semantic Kernel's sample names itself.
        ("http://localhost:5000/.well-known/agent.json", f"{HOME}/"),
        ("http://0.0.0.0:5000/team/.well-known/agent-card.json", f"{HOME}/team"),
    ],
)
def test_url_of_another_form_means_the_agent(named: str, called: str) -> None:
    body = {"name": "x", "url": named, "protocolVersion": "0.3.0", "capabilities": {}}
    assert places(*read_card(body).interfaces) == [called]


@pytest.mark.parametrize("named", ["//h.evil/a2a", "h.evil:443/a2a", "a2a", "mailto:1@h.evil"])
def test_url_of_another_form_leads_nowhere_else(named: str) -> None:
    body = {"name": "x", "url": named, "protocolVersion": "0.3.0", "capabilities": {}}
    with pytest.raises(Elsewhere):
        places(*read_card(body).interfaces)


def test_configured_address_of_this_network_is_the_agent_whatever_its_card_names() -> None:
    """A tunnel, or a port that is forwarded."""
    assert places(of("https://agents.example/x"), url="http://127.0.0.1:5000") == ["http://127.0.0.1:5000/x"]


@pytest.mark.parametrize(
    ("url", "at", "named", "expected"),
    [
        # The proxy has removed /team/one; if it has not, the path of the card is right.
        ("/team/one", f"/team/one/{AT}", "/", ["/team/one/", "/"]),
        ("/team/one", f"/team/one/{AT}", "/a2a", ["/team/one/a2a", "/a2a"]),
        ("/team/one", f"/team/one/{AT}", "/team/one/a2a", ["/team/one/a2a"]),
        ("/team/one", f"/team/one/{AT}", "/team/one", ["/team/one"]),
        ("/team/one", f"/team/one/{AT}", "/team/oneself", ["/team/one/team/oneself", "/team/oneself"]),
        ("/team/one", f"/{AT}", "/a2a", ["/a2a"]),
        ("/cards/one.json", "/cards/one.json", "/a2a", ["/a2a"]),
    ],
)
def test_path_before_the_card_is_tried_first(url: str, at: str, named: str, expected: list[str]) -> None:
    found = places(of(f"http://0.0.0.0:8000{named}"), url=HOME + url, at=HOME + at)
    assert found == [HOME + each for each in expected]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ((), "it has no interface for JSON-RPC or HTTP[+]JSON in version 1.0 or 0.3"),
        (
            (
                of("https://h.evil/a2a"),
                of("https://8.8.8.8:8443"),
                of("http://h.evil"),
                of("https://h.evil/b"),
            ),
            "its interfaces are at http://h.evil:80, https://8.8.8.8:8443, https://h.evil:443$",
        ),
    ],
)
def test_interfaces_of_other_services_are_refused(found: tuple[Interface, ...], message: str) -> None:
    with pytest.raises(Elsewhere, match=message):
        places(*found)


HOSTS = st.sampled_from([*LISTENS, HOME, "https://h.evil", "http://127.0.0.1:5000"])


@given(
    named=st.lists(HOSTS, max_size=4),
    url=HOSTS,
    path=st.sampled_from(["", "/", "/a", "/@h.evil", "//h.evil"]),
)
def test_nothing_is_called_at_an_origin_that_is_not_configured(named: list[str], url: str, path: str) -> None:
    try:
        found = places(*(of(f"{each}{path}") for each in named), url=url)
    except Elsewhere:
        return
    assert {origin_of(each) for each in found} == {origin_of(url)}


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
