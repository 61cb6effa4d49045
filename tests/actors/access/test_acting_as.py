"""An agent that acts for a principal: its rights in its own conversations and in those of others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from trio.testing import MockClock

from stopgo.actors.access.principal import Principal, Scope, all_grants, granted
from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.watch import Announced
from stopgo.actors.common.errors import AgentError
from stopgo.config.sections.auth import ScopeConfig
from stopgo.runtime.journal.protocol import Journal
from tests.actors.world import DESTRUCTIVE, World, call, events, say, use

ROLES = all_grants({"wiper": ScopeConfig(tools=("wipe*",)), "billing": ScopeConfig(servers=("billing",))})

ALLOWED, FORBIDDEN, MISSING = "allowed", "role_required", "missing"


def principal(id: str, *roles: str) -> Principal:
    return Principal(id=id, grants=granted(roles, ROLES))


OWNER = principal("owner", "operator", "approver")
ADMIN = principal("root", "admin")


@attrs.frozen
class Place:
    """An agent with a conversation of `OWNER` that waits for an approval."""

    agent: Agent
    conversation: str
    approval: str
    journal: Journal

    def of(self, id: str, *roles: str) -> Agent:
        return self.agent.acting_as(principal(id, *roles))


Act = Callable[[Agent, Place], Awaitable[object]]
ACTS: Mapping[str, Act] = {
    "read": lambda agent, place: agent.get(place.conversation),
    "read approval": lambda agent, place: agent.approval(place.approval),
    "send": lambda agent, place: agent.send(place.conversation, "more"),
    "cancel": lambda agent, place: agent.cancel(place.conversation),
    "complete": lambda agent, place: agent.complete(place.conversation),
    "resume": lambda agent, place: agent.resume(place.conversation, token="t"),
    "delete": lambda agent, place: agent.delete(place.conversation),
    "decide": lambda agent, place: agent.decide(place.approval, {"approved": False}),
    "create": lambda agent, place: agent.start_conversation("hello"),
    "accept": lambda agent, place: agent.accept_tool("wipe", "0"),
}
COMMANDS = ("send", "cancel", "complete", "resume")


@asynccontextmanager
async def opened(world: World) -> AsyncIterator[Place]:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), *[say("done")] * 8)
    async with world.agent() as agent:
        turn = await agent.acting_as(OWNER).start_conversation("go")
        [approval] = turn.conversation.head.pending
        yield Place(agent, turn.conversation.id, approval, world.journal)


async def outcome(act: Awaitable[object]) -> str:
    """The verdict on the principal: an error for another reason comes after the check of its rights."""
    try:
        await act
    except AgentError as error:
        if error.code in ("conversation_not_found", "approval_not_found"):
            return MISSING
        return FORBIDDEN if error.code == FORBIDDEN else ALLOWED
    return ALLOWED


def row(**verdicts: str) -> dict[str, str]:
    """The verdicts on all acts; `commands` stands for all of `COMMANDS`, `rest` for those not named."""
    rest = verdicts.pop("rest")
    commands = verdicts.pop("commands", rest)
    named = {name.replace("_", " "): verdict for name, verdict in verdicts.items()}
    return dict.fromkeys(ACTS, rest) | dict.fromkeys(COMMANDS, commands) | named


EVERY_ROLE: Mapping[tuple[str, tuple[str, ...]], dict[str, str]] = {
    ("owner", ("operator",)): row(rest=ALLOWED, decide=FORBIDDEN, accept=FORBIDDEN),
    ("owner", ("relay",)): row(rest=ALLOWED, delete=FORBIDDEN, accept=FORBIDDEN),
    ("owner", ("viewer",)): row(rest=FORBIDDEN, read=ALLOWED, read_approval=ALLOWED),
    ("owner", ()): row(rest=MISSING, create=FORBIDDEN, accept=FORBIDDEN),
    ("other", ("operator",)): row(rest=MISSING, create=ALLOWED, accept=FORBIDDEN),
    ("other", ("relay",)): row(rest=MISSING, create=ALLOWED, accept=FORBIDDEN),
    ("other", ("viewer",)): row(rest=FORBIDDEN, read=ALLOWED, read_approval=ALLOWED),
    ("other", ("approver",)): row(rest=FORBIDDEN, read=ALLOWED, read_approval=ALLOWED, decide=ALLOWED),
    ("other", ("wiper",)): row(rest=FORBIDDEN, read=ALLOWED, read_approval=ALLOWED, decide=ALLOWED),
    ("other", ("billing",)): row(rest=MISSING, create=FORBIDDEN, accept=FORBIDDEN),
    ("other", ("viewer", "billing")): row(rest=FORBIDDEN, read=ALLOWED, read_approval=ALLOWED),
    ("other", ("admin",)): row(rest=ALLOWED),
    ("other", ()): row(rest=MISSING, create=FORBIDDEN, accept=FORBIDDEN),
}


@pytest.mark.parametrize(("who", "verdicts"), EVERY_ROLE.items(), ids=lambda each: "-".join(map(str, each)))
@pytest.mark.parametrize("name", ACTS)
async def test_rights_of_every_role(
    who: tuple[str, tuple[str, ...]],
    verdicts: dict[str, str],
    name: str,
    world: World,
    autojump_clock: MockClock,
) -> None:
    id, roles = who
    async with opened(world) as place:
        assert await outcome(ACTS[name](place.of(id, *roles), place)) == verdicts[name]


async def watched(agent: Agent) -> None:
    with agent.all_events():
        pass


async def plain(read: Callable[[], object]) -> object:
    return read()


LOOKS: Mapping[str, Callable[[Agent], Awaitable[object]]] = {
    "conversations": lambda agent: agent.conversations(),
    "approvals": lambda agent: agent.approvals(),
    "events": watched,
    "fleet": lambda agent: agent.fleet(),
    "halt": lambda agent: plain(agent.halt_state),
    "readiness": lambda agent: agent.readiness(),
    "tools": lambda agent: plain(agent.tools),
}


@pytest.mark.parametrize("name", LOOKS)
async def test_principal_without_a_role_sees_nothing(
    name: str, world: World, autojump_clock: MockClock
) -> None:
    """Not even the agent, or what it had when it had a role."""
    async with opened(world) as place:
        assert await outcome(LOOKS[name](place.of("owner"))) == FORBIDDEN
        assert await outcome(LOOKS[name](place.of("owner", "billing"))) == ALLOWED


async def test_conversation_without_owner_belongs_to_the_admins(
    world: World, autojump_clock: MockClock
) -> None:
    world.plan("agent", say("hi"))
    async with world.agent() as agent:
        id = (await agent.start_conversation("go")).conversation.id
        for roles, verdict in (("operator",), MISSING), (("viewer",), ALLOWED), (("admin",), ALLOWED):
            assert await outcome(agent.acting_as(principal("", *roles)).get(id)) == verdict


async def test_lists_totals_and_events_have_only_visible_conversations(
    world: World, autojump_clock: MockClock
) -> None:
    async with opened(world) as place:
        mine = (await place.of("other", "operator").start_conversation()).conversation.id
        expected = {
            ("owner", "operator"): {place.conversation},
            ("other", "operator"): {mine},
            ("nobody", "operator"): set(),
            ("other", "approver"): {place.conversation},  # it has been an operator
            ("third", "wiper"): {place.conversation},
            ("third", "billing"): set(),
            ("owner", "billing"): set(),
            ("third", "viewer"): {place.conversation, mine},
            ("third", "admin"): {place.conversation, mine},
        }
        for (id, role), visible in expected.items():
            agent = place.of(id, role)
            page = await agent.conversations()
            assert {each.id for each in page.conversations} == visible, (id, role)
            assert sum(page.summary.values()) == len(visible), (id, role)
            seen = {each.stream for each in (await agent.approvals()).approvals}
            assert seen == visible & {place.conversation}, (id, role)


@pytest.mark.parametrize(
    ("id", "role", "sees"),
    [
        ("owner", "operator", ("theirs",)),
        ("other", "operator", ("mine",)),
        ("third", "wiper", ("theirs",)),
        ("third", "billing", ()),
        ("third", "viewer", ("theirs", "mine")),
    ],
)
async def test_live_events_of_visible_conversations_only(
    id: str, role: str, sees: tuple[str, ...], world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"), say("done"))
    async with world.agent() as agent:
        with agent.acting_as(principal(id, role)).all_events() as watched:
            asked = await agent.acting_as(OWNER).start_conversation("go")
            [approval] = asked.conversation.head.pending
            await agent.acting_as(OWNER).decide(approval, {"approved": True})
            mine = await agent.acting_as(principal("other", "operator")).start_conversation()
    names = {asked.conversation.id: "theirs", mine.conversation.id: "mine"}
    streams = [names[each.event.stream] async for each in watched if isinstance(each, Announced)]
    assert set(streams) == set(sees)


async def test_principal_is_in_the_events_that_its_commands_cause(
    world: World, autojump_clock: MockClock
) -> None:
    async with opened(world) as place:
        await place.agent.acting_as(principal("carol", "approver")).decide(
            place.approval, {"approved": True, "decided_by": "Alice"}
        )
        await place.agent.acting_as(ADMIN).complete(place.conversation)
        log = {each.type: each.body for each in await events(place.journal, place.conversation)}
    assert log["conversation.created"]["owner"] == "owner"
    assert log["message.added"]["by"] == log["run.started"]["by"] == "owner"
    decision = log["approval.resolved"]["decision"]
    assert (decision["decided_by"], decision["claimed_by"]) == ("carol", "Alice")
    assert log["conversation.completed"]["by"] == "root"


async def test_without_principal_nothing_about_principals_is_stored(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [approval] = turn.conversation.head.pending
        await agent.decide(approval, {"approved": True, "decided_by": "Alice"})
        bodies = [each.body for each in await events(world.journal, turn.conversation.id)]
        row = await world.journal.row(turn.conversation.id)
    assert row is not None
    assert row.summary is not None
    assert not row.summary.owner
    assert not any({"by", "owner"} & body.keys() for body in bodies)
    [decision] = [body["decision"] for body in bodies if "decision" in body]
    assert decision == {"approved": True, "decided_by": "Alice"}


async def test_id_of_anothers_conversation_cannot_be_taken(world: World, autojump_clock: MockClock) -> None:
    async with opened(world) as place:
        for message in ("go", None):
            start: Any = place.of("other", "operator").start_conversation(message, id=place.conversation)
            assert await outcome(start) == MISSING


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        (Scope(), True),
        (Scope(servers=("files", "disk*")), True),
        (Scope(servers=("files",)), False),
        (Scope(tools=("wipe_?",)), True),
        (Scope(tools=("*",), nodes=("a",)), False),
        (Scope(nodes=("cleaner",), kinds=("tool",)), True),
        (Scope(kinds=("checkpoint",)), False),
        (Scope(tools=()), False),
    ],
)
def test_scope_covers_approvals_that_match_all_its_keys(scope: Scope, covered: bool) -> None:
    assert scope.covers(kind="tool", server="disks", tool="wipe_1", node="cleaner") is covered
