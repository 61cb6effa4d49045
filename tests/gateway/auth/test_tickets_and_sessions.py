from __future__ import annotations

import attrs
import pytest
import trio

from stopgo.actors.access.principal import Principal, all_grants, granted
from stopgo.gateway.auth import sessions as module
from stopgo.gateway.auth.login_transaction import LOGIN_SECONDS, Transaction, own_path, read_transaction
from stopgo.gateway.auth.principal_note import PrincipalNote
from stopgo.gateway.auth.sessions import NOTE as SESSIONS
from stopgo.gateway.auth.sessions import Sessions, csrf_token, is_csrf_token
from stopgo.gateway.auth.tickets import MOST_TICKETS, TICKET_SECONDS, Tickets
from stopgo.gateway.auth.tickets import NOTE as TICKETS
from stopgo.gateway.http.identity import Identity, Lifetime
from stopgo.runtime.journal.followed_notes import FollowedNotes
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal

GRANTS = all_grants({})
ALICE = Principal(id="alice", grants=granted(["approver"], GRANTS), credential="jwt:1")
BOB = Principal(id="bob", grants=(), credential="a1")
"""A credential that can be revoked."""


@attrs.frozen
class Member:
    """The credentials at one member. Members share a journal."""

    journal: MemoryJournal
    revocable: dict[str, Lifetime] = attrs.field(factory=dict)
    """The lifetimes of the API keys that the member knows, by id."""
    notes: FollowedNotes = attrs.field(init=False)
    tickets: Tickets = attrs.field(init=False)
    sessions: Sessions = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        notes = FollowedNotes(self.journal, trio.current_time, are_shared=True)
        object.__setattr__(self, "notes", notes)
        object.__setattr__(self, "tickets", Tickets(notes, GRANTS, self._lifetime))
        object.__setattr__(self, "sessions", Sessions(3600.0, notes, GRANTS))

    def _lifetime(self, by: PrincipalNote) -> Lifetime | None:
        if by.credential.startswith("session:"):
            return self.sessions.lifetime(by.credential)
        return by.lifetime(trio.current_time()) if ":" in by.credential else self.revocable.get(by.credential)


async def members() -> tuple[Member, Member]:
    journal = MemoryJournal()
    both = Member(journal), Member(journal.another("b"))
    for each in both:
        await each.sessions.load()
    return both


async def test_a_ticket_is_valid_once_at_any_member(autojump_clock: object) -> None:
    a, b = await members()
    first, second = [await a.tickets.make(Identity(ALICE)) for _ in range(2)]
    assert first != second
    used = await b.tickets.use(first)
    assert used is not None
    assert used.principal == ALICE
    assert await a.tickets.use(first) is await b.tickets.use(first) is None
    assert await a.tickets.use("") is await a.tickets.use("\udcff") is None
    await trio.sleep(TICKET_SECONDS - 1)
    assert await a.tickets.use(second) is not None


async def test_a_ticket_expires_with_its_time_and_its_credential(autojump_clock: object) -> None:
    a, b = await members()
    late = await a.tickets.make(Identity(ALICE))
    await trio.sleep(TICKET_SECONDS)
    assert await a.tickets.use(late) is None
    at_b = b.revocable["a1"] = Lifetime()
    used = await b.tickets.use(await a.tickets.make(Identity(BOB)))
    assert used is not None
    assert used.lifetime is at_b  # so the stream ends when the key is revoked
    unused = await a.tickets.make(Identity(BOB))
    at_b.revoked.set()
    assert await b.tickets.use(unused) is None
    expired = await a.tickets.make(Identity(ALICE, lifetime=Lifetime(trio.current_time() + 1)))
    await trio.sleep(1)
    assert await b.tickets.use(expired) is None


async def test_unused_tickets_are_bounded_for_each_principal(autojump_clock: object) -> None:
    a, b = await members()
    a.revocable["a1"] = Lifetime()
    of_bob = await a.tickets.make(Identity(BOB))
    made = [await a.tickets.make(Identity(ALICE)) for _ in range(MOST_TICKETS + 1)]
    assert await a.tickets.use(made[0]) is None
    assert await a.tickets.use(made[1]) is not None
    assert await a.tickets.use(of_bob) is not None
    await trio.sleep(TICKET_SECONDS)
    await b.tickets.load()
    assert await a.journal.notes(TICKETS) == {}


async def test_a_session_is_found_by_its_id_at_any_member_until_it_ends(autojump_clock: object) -> None:
    a, b = await members()
    id, other = [await a.sessions.begin(ALICE) for _ in range(2)]
    here, there = await a.sessions.find(id), await b.sessions.find(id)
    assert here is not None
    assert there is not None
    assert len(id) >= 43  # 256 bits
    assert id not in repr((a.sessions, await a.journal.notes(SESSIONS)))
    assert there.identity.principal == here.identity.principal
    assert there.identity.principal.has("approver")
    assert await a.sessions.find("") is await a.sessions.find("\udcff") is None
    ticket = await a.tickets.make(here.identity)
    used = await b.tickets.use(ticket)
    assert used is not None
    await a.sessions.end(here)
    await b.notes.poll()
    assert here.identity.lifetime.revoked.is_set()
    assert used.lifetime.revoked.is_set()
    assert await a.sessions.find(id) is await b.sessions.find(id) is None
    await trio.sleep(3599)
    assert await b.sessions.find(other) is not None
    await trio.sleep(1)
    assert await b.sessions.find(other) is None
    await a.sessions.begin(ALICE)
    assert len(await a.journal.notes(SESSIONS)) == 2  # the new one, and the one that was ended


async def test_each_session_has_its_own_csrf_token() -> None:
    a, _ = await members()
    one, two = [await a.sessions.begin(ALICE) for _ in range(2)]
    assert is_csrf_token(one, csrf_token(one))
    for wrong in ("", csrf_token(two), csrf_token(one)[:-1], csrf_token(one).upper(), "\xff", one):
        assert not is_csrf_token(one, wrong)


async def test_a_session_too_many_ends_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SESSIONS", 3)
    a, _ = await members()
    ids = [await a.sessions.begin(ALICE) for _ in range(4)]
    assert [await a.sessions.find(id) is not None for id in ids] == [False, True, True, True]


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
