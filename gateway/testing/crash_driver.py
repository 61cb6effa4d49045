"""Crashes an agent at every step of a conversation, and compares the outcome with that of a run without a
crash."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from difflib import unified_diff
from functools import partial
from pprint import pformat
from typing import Any, TypeAlias, cast

import attrs
import trio

from ...actors.agent.agent import Agent
from ...actors.approvals.kinds import Approval
from ...actors.approvals.outcome_approval import OutcomeQuestion
from ...actors.common.errors import AgentError
from ...actors.log.fold.state import Conversation
from ...actors.models.offline.script import Script
from ...actors.tools.names import prefixed_name
from ...config.sections.agent_config import AgentConfig
from ...runtime.journal.memory.memory_journal import MemoryJournal
from ...runtime.journal.protocol import Journal
from .crash_points import kill_at_every_write, live_through, survive
from .killing_journal import EDGES, Kill, KillingJournal
from .tested_agent import START_TIME, open_tested, read_script
from .tool_stub import Stubs, ToolStub, all_of, check_stubs

PATIENCE = 31 * 86_400.0
"""Maximum duration of a life, in virtual seconds."""
RESTART = 1.0
"""Virtual seconds between a crash and the next start."""
_OVER = ("finished", "failed", "cancelled")
_SETTLED_BEFORE = frozenset({"already_decided", "expired", "void"})

Effects: TypeAlias = Mapping[str, Sequence[Any]]


@attrs.frozen(eq=False)
class CrashReport:
    """The crashes that a conversation survived."""

    conversation: Conversation
    """The conversation as it ended without a crash."""
    crashes: tuple[str, ...]
    """The description of each crash point, for example ``before write 5, save of approval.requested``."""
    lost: tuple[str, ...]
    """The items of `crashes` after which the model got an unknown outcome, because no person is asked about
    it. The rest of such a conversation was not compared."""


def approve(approval: Approval) -> Mapping[str, Any]:
    """Approve every call."""
    return {"approved": True}


def crash_at_every_step(
    config: AgentConfig,
    script: str | os.PathLike[str],
    messages: Sequence[str],
    *,
    tools: Mapping[str, Sequence[ToolStub]],
    decide: Callable[[Approval], Mapping[str, Any]] = approve,
) -> CrashReport:
    """Check that an agent survives a crash at any moment of a conversation. Must not be called inside trio.

    The conversation is run once without a crash, and then twice for every write to its journal: with a crash
    before that write, and with a crash after it. After a crash, a new process continues, and the user repeats
    each message and decision that has no answer. The journal is in memory, and time is virtual.

    `script` replaces all models: the path of a script, or its text, which contains a colon. `messages` are
    those of the user; each is sent after the answer to the one before. `tools` are the stubs of each server
    in the agent file. `decide` returns the decision about an approval, for example ``{"approved": False}``;
    by default every approval is approved. If the agent asks for the outcome of an interrupted call, the
    driver looks it up in the stub's `calls` and decides ``done`` with the stub's result, or ``retry``.

    Raises:
        AssertionError: after a crash, the messages or answers differ, or a tool that is neither read-only nor
            idempotent ran more often. A note names the crash point.
        StartError: the script cannot be read or has mistakes, the stubs do not match the servers, or the
        agent
            does not start.
    """
    check_stubs(config, tools)
    tell = partial(_Story, config, read_script(script), tuple(messages), tools, decide)
    undisturbed = tell()
    live_through(undisturbed.live, ())
    outcome, calls = outcome_of(undisturbed.conversation), undisturbed.calls
    kept = [list(stub.calls) for stub in all_of(tools)]
    crashes: list[str] = []
    lost: list[str] = []

    def crashed(kills: Sequence[Kill]) -> int:
        story = tell()
        try:
            fired = live_through(story.live, kills)
            if fired:
                crashes.append(story.point)
                if not story.check(outcome, calls):
                    lost.append(story.point)
        except Exception as error:
            error.add_note(f"after a crash {story.point or f'at {kills}'}")
            raise
        return fired

    for edge in EDGES:
        kill_at_every_write(edge, (), crashed)
    for stub, made in zip(all_of(tools), kept, strict=True):
        stub.calls[:] = made
    return CrashReport(undisturbed.conversation, tuple(crashes), tuple(lost))


@attrs.define(eq=False)
class _Story:
    """One conversation over all its processes."""

    _config: AgentConfig
    _script: Script
    _messages: Sequence[str]
    _tools: Stubs
    _decide: Callable[[Approval], Mapping[str, Any]]
    conversation: Conversation = attrs.field(factory=lambda: Conversation(""))
    point: str = ""
    """The write at which it was killed."""
    _journal: MemoryJournal = attrs.field(init=False)
    _past: float = START_TIME

    def __attrs_post_init__(self) -> None:
        self._journal = MemoryJournal(self._wall)
        for stub in all_of(self._tools):
            stub.calls.clear()

    def _wall(self) -> float:
        return self._past + trio.current_time()

    # -------------------------------------------------------------- one life

    def live(self, kill: Kill | None) -> bool | None:
        journal = KillingJournal(self._journal, kill)

        async def process() -> bool:
            try:
                with trio.fail_after(PATIENCE):
                    async with open_tested(
                        self._config,
                        self._script,
                        self._tools,
                        cast(Journal, journal),
                        self._wall,
                        is_dead=lambda: journal.dead,
                    ) as agent:
                        await self._talk(agent)
                return True
            finally:
                self._past += trio.current_time() + RESTART

        through = survive(process)
        self.point = journal.point or self.point
        return through

    async def _talk(self, agent: Agent) -> None:
        """Send all messages, also those that an earlier process accepted, because a repeated key has no
        effect."""
        for number, text in enumerate(self._messages):
            if number == 0:
                turn = await agent.start_conversation(text, key="message 0")
                self.conversation = turn.conversation
            else:
                await agent.send(self.conversation.id, text, key=f"message {number}")
            await self._until_over(agent)

    async def _until_over(self, agent: Agent) -> None:
        """Decide approvals until the run has ended."""
        while True:
            now = self.conversation = await agent.get(self.conversation.id)
            if now.pending_approvals:
                await self._answer(agent, now.pending_approvals[0])
            elif now.run is not None and now.run.state in _OVER:
                return
            else:
                async with aclosing(agent.events(now.id, now.last_seq)) as events:
                    async for _ in events:
                        break

    async def _answer(self, agent: Agent, approval: Approval) -> None:
        is_doubt = isinstance(approval.asked, OutcomeQuestion)
        words = self._decide_doubt(approval) if is_doubt else self._decide(approval)
        try:
            await agent.decide(approval, words, key=f"decision {approval.uuid}")
        except AgentError as error:
            if error.code not in _SETTLED_BEFORE:
                raise

    def _decide_doubt(self, approval: Approval) -> Mapping[str, Any]:
        """Decide the outcome of a call. It happened if its stub received more equal calls than have
        finished."""
        stub = self._stub(approval)
        name, arguments = approval.tool_name, approval.tool_args
        calls = [message.call for message in self.conversation.messages if message.call is not None]
        like = [each for each in calls if (each.name, each.arguments) == (name, arguments)]
        if stub.calls.count(arguments) > sum(each.state == "finished" for each in like):
            return {"action": "done", "result": stub.result(arguments)}
        return {"action": "retry"}

    def _stub(self, approval: Approval) -> ToolStub:
        server = approval.server or ""
        return next(
            stub
            for stub in self._tools[server]
            if approval.tool_name in (stub.name, prefixed_name(server, stub.name))
        )

    # ----------------------------------------------------------- outcome

    @property
    def calls(self) -> list[list[str]]:
        """The arguments of the calls of each stub, as JSON."""
        return [[json.dumps(call, sort_keys=True) for call in stub.calls] for stub in all_of(self._tools)]

    def check(self, outcome: Effects, calls: Sequence[Sequence[str]]) -> bool:
        """Compare the outcome with that without a crash. Return False if only the numbers of calls were
        compared, because the outcome of a call is unknown.

        Raises AssertionError.
        """
        for stub, made, wanted in zip(all_of(self._tools), self.calls, calls, strict=True):
            more = Counter(made) - Counter(wanted)
            if more and not stub.may_be_repeated:
                raise AssertionError(f"{stub.name} ran more often than without a crash: {dict(more)}")
        if any(message.call and message.call.state == "unknown" for message in self.conversation.messages):
            return False
        if (found := outcome_of(self.conversation)) != outcome:
            before, now = (pformat(each, width=110).splitlines() for each in (outcome, found))
            shown = "\n".join(unified_diff(before, now, "without a crash", "with one", lineterm=""))
            raise AssertionError(f"the outcome differs:\n{shown}")
        return True


def outcome_of(conversation: Conversation) -> Effects:
    """Return the visible part of a conversation: without ids, times and the order of parallel branches."""
    found: dict[str, list[Any]] = {"answers": [exchange.answer for exchange in conversation.turns]}
    for message in conversation.messages:
        call = message.call
        said = (message.role, message.content)
        told = said if call is None else (*said, call.name, call.arguments, call.state)
        found.setdefault(f"node {message.node}", []).append(told)
    return found
