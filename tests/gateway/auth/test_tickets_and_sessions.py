from __future__ import annotations

import attrs
import pytest
import trio

from stopgo.actors.access.principal import Principal
from stopgo.gateway.auth import sessions as module
from stopgo.gateway.auth.login_transaction import LOGIN_SECONDS, Transaction, own_path, read_transaction
from stopgo.gateway.auth.sessions import Sessions, is_csrf_token
from stopgo.gateway.auth.tickets import MOST_TICKETS, TICKET_SECONDS, Tickets
from stopgo.gateway.http.identity import Identity, Lifetime

ALICE, BOB = Principal(id="alice", grants=()), Principal(id="bob", grants=())


async def test_a_ticket_is_valid_once(autojump_clock: object) -> None:
    tickets = Tickets()
    identity = Identity(ALICE)
    first, second = tickets.make(identity), tickets.make(identity)
    assert first != second
    assert tickets.use(first) is identity
    assert tickets.use(first) is None
    assert tickets.use("") is None
    assert tickets.use("\udcff") is None
    await trio.sleep(TICKET_SECONDS - 1)
    assert tickets.use(second) is identity


async def test_a_ticket_expires_with_its_time_and_its_credential(autojump_clock: object) -> None:
    tickets = Tickets()
    late = tickets.make(Identity(ALICE))
    await trio.sleep(TICKET_SECONDS)
    assert tickets.use(late) is None
    lifetime = Lifetime()
    revoked = tickets.make(Identity(ALICE, lifetime=lifetime))
    lifetime.revoked.set()
    assert tickets.use(revoked) is None
    expired = tickets.make(Identity(ALICE, lifetime=Lifetime(trio.current_time() + 1)))
    await trio.sleep(1)
    assert tickets.use(expired) is None


async def test_unused_tickets_are_bounded_for_each_principal(autojump_clock: object) -> None:
    tickets = Tickets()
    of_bob = tickets.make(Identity(BOB))
    made = [tickets.make(Identity(ALICE)) for _ in range(MOST_TICKETS + 1)]
    assert tickets.use(made[0]) is None
    assert tickets.use(made[1]) is not None
    assert tickets.use(of_bob) is not None


async def test_a_session_is_found_by_its_id_until_it_ends(autojump_clock: object) -> None:
    sessions = Sessions(3600.0)
    id, other = sessions.begin(ALICE), sessions.begin(ALICE)
    found = sessions.find(id)
    assert found is not None
    assert len(id) >= 43  # 256 bits
    assert id not in repr(sessions)
    assert found.csrf not in repr(sessions)
    assert found.identity.principal.id == "alice"
    assert sessions.find("") is sessions.find("\udcff") is None
    sessions.end(found)
    assert sessions.find(id) is None
    assert found.identity.lifetime.revoked.is_set()
    await trio.sleep(3599)
    assert sessions.find(other) is not None
    await trio.sleep(1)
    assert sessions.find(other) is None


async def test_each_session_has_its_own_csrf_token() -> None:
    sessions, elsewhere = Sessions(60.0), Sessions(60.0)
    one, two = (sessions.find(sessions.begin(ALICE)) for _ in range(2))
    third = elsewhere.find(elsewhere.begin(ALICE))
    assert one is not None
    assert two is not None
    assert third is not None
    assert is_csrf_token(one, one.csrf)
    for wrong in ("", two.csrf, third.csrf, one.csrf[:-1], one.csrf.upper(), "\xff"):
        assert not is_csrf_token(one, wrong)


async def test_a_session_too_many_ends_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SESSIONS", 3)
    sessions = Sessions(60.0)
    ids = [sessions.begin(ALICE) for _ in range(4)]
    assert [sessions.find(id) is not None for id in ids] == [False, True, True, True]


# ---------------------------------------------------------------- logins in progress

KEY = b"k" * 32


def test_a_login_is_read_from_its_own_cookie_only() -> None:
    begun = Transaction.new("https://agent.example/login/callback", "/#/inbox", 100.0)
    value = begun.sign(KEY)
    assert read_transaction(value, KEY, 100.0 + LOGIN_SECONDS - 1) == begun
    assert begun.verifier not in repr(begun)
    body, _, signature = value.rpartition(".")
    longer = attrs.evolve(begun, expires=1e9).sign(b"x" * 32)
    for cookie in ("", ".", value[:-1], f"{body}.", f"{body[:-2]}.{signature}", longer, value + "\udcff"):
        assert read_transaction(cookie, KEY, 100.0) is None
    assert read_transaction(value, KEY, 100.0 + LOGIN_SECONDS) is None


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/", "/"),
        ("/#/approvals/1f0c9a7e-0000", "/#/approvals/1f0c9a7e-0000"),
        ("/#/conversations?status=active", "/#/conversations?status=active"),
        ("", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ('/"><script>', "/"),
        ("/a;url=//evil.example", "/"),
        ("/\n", "/"),
        ("/" + "a" * 600, "/"),
    ],
)
def test_a_login_continues_on_the_agents_own_paths_only(given: str, path: str) -> None:
    assert own_path(given) == path
