"""Remove the safety clauses one at a time, and expect the crash tests to notice.

    python -m tests.crash.mutants [WORD...]               only those whose names have one of the words
    python -m tests.crash.mutants --slice=3/8 --seed=5    a part of them

Each mutant is a copy of the source tree with one exact change, and the tests in that copy. Exit code 1 when a
mutant survives, makes a test hang, or the unchanged tree is red; 2 when a change does not fit the source any
more.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import attrs
import pytest

from tests.tiers import slices

ROOT = Path(__file__).parents[2]
COPIED = (
    ".dev",
    "__init__.py",
    "actors",
    "config",
    "gateway",
    "runtime",
    "testdata",
    "tests",
    "pyproject.toml",
)
BUILD = ROOT / "build"
AT_ONCE = int(os.environ.get("AT_ONCE", "2"))
FORKS = multiprocessing.get_context("forkserver")
"""Imports once what all tests need beside `stopgo`."""
HANGS = 120
"""Seconds of one test of a mutant; those of the unchanged tree have the usual limit."""
TIMEOUT = 900.0
"""Seconds after which the tests of a mutant hang. That is a fault of the tests: they wait for what a mutant
prevents, and nothing tells apart a mutant from a busy machine."""

MATRIX = "tests/crash/test_matrix.py"
TREES = "tests/crash/test_matrix_trees.py"
NEEDS = "tests/crash/test_matrix_needs.py"
APPROVERS_TOKENS = "tests/actors/conversation/test_approvers_tokens.py"
SEEDS = "tests/simulation/test_smoke.py"
REFUSED_TOOLS = "tests/actors/models/test_refused_tools.py"
STRICTER = "tests/actors/gate/test_stricter.py"
ORACLE = "tests/actors/gate/test_oracle.py"
OFF_LOOP = "tests/actors/gate/test_off_loop.py"
ROUTER = "actors/nodes/router.py"
ROUTER_TESTS = "tests/actors/nodes/test_router.py"
ARGUMENTS = "tests/actors/tools/test_arguments.py"
EXPIRY = "tests/actors/gate/test_expiry.py"
REJECTION = "tests/actors/gate/test_rejection.py"
ORDER = "tests/actors/calls/test_ask_order.py"
SAVES = "tests/runtime/journal/test_saves.py"
INBOX = "tests/runtime/journal/test_commands.py"
REVIEW = "tests/actors/gate/test_review.py"
SHARED_NOTES = "tests/actors/test_shared_notes.py"
GATE_TESTS = "tests/actors/gate/test_gate.py"
WIRE = "tests/actors/mcp/test_wire.py"
STREAMED = "tests/actors/models/providers/test_stream_calls.py"
FRAMES = "tests/actors/models/providers/test_framing.py"
CONVERSE = "tests/actors/models/providers/test_converse_codec.py"
ARGUMENTS_READ = "tests/actors/models/providers/test_json_fields.py"
SESSIONS = "tests/actors/mcp/test_failures.py"
MISTAKES = "tests/config/test_mistakes.py"
HINTS = "tests/actors/tools/test_known.py"
TOOL_NAMES = "tests/actors/tools/test_catalogue.py"
LOG_TESTS = "tests/actors/log/test_log.py"
SLOW_SAVES = "tests/actors/conversation/test_slow_saves.py"
NODE_TESTS = "tests/actors/nodes/test_llm.py"
A2A_TASKS = "tests/gateway/a2a/test_tasks.py"
A2A_MESSAGES = "tests/gateway/a2a/test_task_messages.py"
A2A_STREAMS = "tests/gateway/a2a/test_task_streams.py"
A2A_ANSWERS = "tests/gateway/a2a/test_task_answer.py"
A2A_LATE = "tests/gateway/a2a/test_late_answers.py"
PUSH_ADDRESSES = "tests/gateway/a2a/test_push_address.py"
PUSH_POSTS = "tests/gateway/a2a/test_push_post.py"
A2A_ORIGINS = "tests/gateway/a2a/test_origin.py"
REMOTE = "tests/crash/test_matrix_remote.py"
STEPS = "tests/actors/calls/test_lifecycle.py"
RESPONSES = "tests/actors/models/providers/test_responses_codec.py"
HALTS = "tests/actors/gate/test_halt.py"
HALTED_QUESTIONS = "tests/actors/calls/test_halted_questions.py"
REMOTE_STATES = "tests/actors/a2a/test_remote_state.py"
ARRIVED_ANSWERS = "tests/actors/a2a/test_answers_that_arrived.py"
FOREIGN_QUESTIONS = "tests/actors/a2a/test_foreign_questions.py"
LOST_ANSWERS = "tests/actors/a2a/test_lost_answers.py"
CHANGED_QUESTIONS = "tests/actors/a2a/test_changed_questions.py"
FIELD_TESTS = "tests/actors/a2a/wire/test_fields.py"
CARDS = "tests/actors/a2a/wire/test_card_reader.py"
CARD_ELSEWHERE = "tests/e2e/test_circle.py::test_card_may_point_only_to_listed_origins"


def undisturbed(matrix: str, scenario: str) -> str:
    return f"{matrix}::test_what_happens_undisturbed[{scenario}]"


def killed(matrix: str, scenario: str) -> str:
    return f"{matrix}::test_killed_once[{scenario}]"


def seed(number: int) -> str:
    return f"{SEEDS}::test_random_story_has_no_violations[{number}]"


CATALOGUE = "actors/tools/catalogue.py"
RESPONSES_STREAM = "actors/models/providers/responses_stream.py"
RESPONSES_CODEC = "actors/models/providers/responses_codec.py"
LOG = "actors/log/log.py"
STEP = "actors/log/step.py"
VOID = "actors/log/void.py"
LIFECYCLE = "actors/calls/lifecycle.py"
TOKENS = "actors/tools/tokens.py"
RECORDED = "actors/calls/recorded.py"
LOG_RECORD = "actors/log/record.py"
LOOKUP = "actors/calls/lookup.py"
SETTLER = "actors/calls/settler.py"
REPEAT = "actors/calls/repeated.py"
REPEATED = "tests/actors/calls/test_repeated.py"
DISPATCH = "actors/calls/dispatch.py"
CALL_END = "actors/calls/call_end.py"
PROXIES = "actors/calls/proxies.py"
EXCHANGE_OF = "actors/calls/remote_exchange.py"
EXCHANGE = "actors/a2a/exchange.py"
REMOTE_STATE = "actors/a2a/remote_state.py"
OUTGOING = "actors/a2a/outgoing.py"
FIELDS = "actors/a2a/wire/fields.py"
ARRIVED = "actors/a2a/arrived.py"
FOREIGN = "actors/a2a/foreign_questions.py"
TASK_LINK = "actors/a2a/task_link.py"
AGENT_LINK = "actors/a2a/agent_link.py"
CARD = "actors/a2a/wire/card_reader.py"
ORIGIN = "gateway/a2a/origin.py"
PROXY = "actors/approvals/proxy_approval.py"
REMOTE_TASKS = "actors/conversation/remote_tasks.py"
REMOTE_QUESTIONS = "actors/conversation/remote_questions.py"
IN_FLIGHT_ELICITATIONS = "actors/calls/elicitations.py"
CHILD = "actors/nodes/child.py"
LLM = "actors/nodes/llm.py"
LOOP = "actors/nodes/loop.py"
PARALLEL = "actors/nodes/parallel.py"
CHECKPOINT = "actors/nodes/checkpoint.py"
SEQUENTIAL = "actors/nodes/sequential.py"
ASK_ORDER = "actors/calls/ask_order.py"
BRANCHES = "actors/log/branches.py"
ELICITATION = "actors/approvals/elicitation_approval.py"
GATE = "actors/gate/gate.py"
HALT = "actors/gate/halt.py"
CONDITIONS = "actors/gate/conditions.py"
CONTEXT = "runtime/context.py"
RUN = "actors/conversation/run.py"
COMMANDS = "actors/conversation/commands.py"
APPROVAL_COMMANDS = "actors/conversation/approval_commands.py"
VOTING = "actors/approvals/voting.py"
NODE = "actors/nodes/node.py"
PRINCIPAL = "actors/access/principal.py"
STORE_SECRET = "actors/common/store_secret.py"
STATE = "actors/log/state.py"
HEAD = "actors/log/head.py"
AGENT = "actors/agent.py"
OPEN_AGENT = "actors/open_agent.py"
TOOL = "actors/tools/tool.py"
HTTP_SERVER = "tests/gateway/test_http_server.py"
DESCRIPTION = "actors/approvals/description.py"
DESCRIPTIONS = "tests/actors/approvals/test_description.py"
RULES = "actors/gate/review.py"
SUPERVISOR = "actors/supervisor.py"
RULE = "config/approval.py"
NAMES = "config/unknown_names.py"
MEMORY = "runtime/journal/memory.py"
LEASE = "runtime/journal/lease.py"
TENURE = "actors/log/tenure.py"
LOCAL_NODE = "runtime/journal/local_node.py"
OWNERSHIP = "runtime/journal/ownership.py"
OTHER_NODES = "tests/actors/test_other_nodes.py"
LOST_NODES = "tests/actors/test_lost_nodes.py"
HINT_TESTS = "tests/runtime/journal/test_hints.py"
PG_TESTS = "tests/runtime/journal/test_postgres.py"
PG_POOL = "runtime/journal/postgres/pool.py"
SILENT_NODES = "tests/actors/test_silent_nodes.py"
PG_HINTS = "runtime/journal/postgres/hints.py"
PG_OWNERS = "runtime/journal/postgres/owners.py"
RELEASES = "tests/runtime/journal/test_ownership.py::test_open_command_holds_its_own_stream_until_it_ends"
PG_TALLY = "runtime/journal/postgres/tally.py"
TALLY_TESTS = "tests/runtime/journal/test_tally.py"
FREE_PAGES = "tests/runtime/journal/test_free_pages.py"
DATABASE = "runtime/journal/database.py"
FOLLOWING = "tests/runtime/journal/test_following.py"
MEMORY_STREAM = "runtime/journal/memory_stream.py"
VOTE = "runtime/journal/vote.py"
SQLITE = "runtime/journal/sqlite.py"
SQL_STREAM = "runtime/journal/sql_stream.py"
SQL_QUESTION = "runtime/journal/sql_question.py"
SQL_INBOX = "runtime/journal/sql_inbox.py"
KNOWN = "actors/tools/known.py"
REGISTRY = "actors/tools/registry.py"
DELIVERY = "gateway/a2a/message_delivery.py"
TASK_ANSWER = "gateway/a2a/task_answer.py"
TASK_LOG = "gateway/a2a/task_log.py"
TASK_SERVER = "gateway/a2a/task_server.py"
PUSH_ADDRESS = "gateway/a2a/push_address.py"
PUSH_POST = "gateway/a2a/push_post.py"
TOOL = "actors/tools/tool.py"


@attrs.frozen
class Edit:
    path: str
    old: str
    new: str

    def fits(self, tree: Path) -> bool:
        return (tree / self.path).read_text().count(self.old) == 1

    def apply(self, tree: Path) -> None:
        """Raises ValueError unless the text is there exactly once."""
        if not self.fits(tree):
            raise ValueError(f"{self.path} does not have exactly once:\n{self.old}")
        file = tree / self.path
        text = file.read_text().replace(self.old, self.new)
        file.unlink()
        file.write_text(text)


@attrs.frozen
class Mutant:
    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...] = (MATRIX,)


Verdict = Literal["red", "green", "hung"]
"""Of the tests of a mutant."""


@attrs.frozen
class Outcome:
    mutant: Mutant
    verdict: Verdict
    seconds: float
    """CPU time, which does not depend on other processes."""
    by: str
    """The test that noticed."""


INTENT = """\
            saved = await log.save(
                *(e.ToolUnknown(key, earlier, INTERRUPTED) for earlier in step.lost),
                intent,
                intents=[NewIntent(key, step.attempt, step.effect, encode(intent).body)],
                settle=[SettleIntent(key, earlier, "unknown") for earlier in step.lost],
                when=departure.may_leave if step.effect == "once" and not step.held else lambda: True,
            )
"""
SAVE_OVER = """\
            if await log.save(*events, *others, settle=settle, questions=close, when=unchanged):
"""
OPEN = 'lost = sent.effect == "once" and not sent.remote'
ONCE_TODAY = 'return effect != "once" and '
PUBLISH = """\
        self._publish(stored)
"""
COMMIT = """\
            saved = await self.tenure.write(save)
"""
REPLY = """\
            for key, reply in (replies or {}).items():
                self.bus.publish(ReplyTopic(self.state.id, key), reply)
"""
CALL_ONCE = """\
                if step.effect == "once":
                    await self._call_once(elicitations, step, tool, server, departure)
                else:
                    await self._call(elicitations, step, tool, server, departure.check_lease)
"""

NOT_ANSWERED = """\
        if self.blocked and self._on_blocked is not None:
            self._on_blocked()  # the commit resumed no branch, for instance a decision for one without a slot
"""
OF_RUN = "(log.state.head.pending, tuple(run.unsettled)) == (pending, unsettled)"

ENDS = 'end.rejected and spec.on_reject == "end"'
LEAVE, TOKEN = "            self.position.leave()\n", "            token ="
PASSED = "any(end.rejected for end in ends)"

BEARER_FIRST = """\
        if judgement.lacks_token is not None:
            return AwaitCredential(judgement.lacks_token)
"""

BY_A2A = (
    (
        "a word decides beside the extension for approvals",
        DELIVERY,
        "if self._caller.hitl or not (pending or log.is_live(self.task) or is_late):",
        "if not (pending or log.is_live(self.task) or is_late):",
        A2A_TASKS,
    ),
    (
        "a word decides the first of two questions",
        TASK_ANSWER,
        " or (not ids and len(pending) != 1):",
        " or (not ids and not pending):",
        A2A_TASKS,
    ),
    (
        "a word decides beside data",
        TASK_ANSWER,
        "if len(texts) != len(message.parts) or ",
        "if ",
        A2A_ANSWERS,
    ),
    (
        "an answer to a form of kagent's tool is consent to a call",
        TASK_ANSWER,
        " if more.keys() <= _REASON:",
        ":",
        A2A_ANSWERS,
    ),
    (
        "a key that brought an answer is forgotten",
        DELIVERY,
        "repeated = log.decided.get(self.key, ())",
        "repeated = ()",
        A2A_MESSAGES,
    ),
    (
        "a list of answers is carried out up to a bad one",
        DELIVERY,
        "for id in ids if len(ids) > 1 else ():",
        "for id in ():",
        A2A_LATE,
    ),
    (
        "a task that has ended takes answers to another task",
        DELIVERY,
        "log.asked.keys() & named.keys() - of_another",
        "log.asked.keys() & named.keys()",
        A2A_LATE,
    ),
    (
        "a stream repeats the events of its snapshot",
        TASK_SERVER,
        "if entry.seq <= read.last_seq or update.task != known.id:",
        "if update.task != known.id:",
        A2A_STREAMS,
    ),
    (
        "a notification goes to a private address",
        PUSH_ADDRESS,
        'return reach == "public" or (to_private and reach == "private")',
        'return reach != "never"',
        PUSH_ADDRESSES,
    ),
    (
        "a notification goes to the credentials that a cloud serves outside the link-local range",
        PUSH_ADDRESS,
        "if any(meant in network for network in _METADATA):",
        "if False:",
        PUSH_ADDRESSES,
    ),
    (
        "a notification goes where one of several addresses is allowed",
        PUSH_POST,
        "if not all(is_allowed",
        "if not any(is_allowed",
        PUSH_POSTS,
    ),
)
DELEGATED = (
    ("a call that was cut off is lost", LIFECYCLE, OPEN, 'lost = sent.effect == "once"', REMOTE),
    (
        "a call that was cut off is followed without a token",
        LIFECYCLE,
        BEARER_FIRST + "        may_send",
        "        may_send",
        STEPS,
    ),
    (
        "a lost message is sent again against the policy",
        LIFECYCLE,
        "return LookUp(sent.attempt, may_send, ",
        "return LookUp(sent.attempt, True, ",
        STEPS,
    ),
    (
        "a lost message is sent again although it may not be",
        EXCHANGE,
        "if contact.idempotent and self._request.may_send and ",
        "if contact.idempotent and ",
        LOST_ANSWERS,
    ),
    (
        "a lost message is a new one",
        EXCHANGE_OF,
        "            lost=lost,\n",
        "            lost=False,\n",
        killed(REMOTE, "delegated by a model, and tasks are found: by list"),
    ),
    (
        "an answer that was brought is not on record",
        DISPATCH,
        "brings=brought_by_next(log, key),",
        "brings=(),",
        REMOTE,
    ),
    (
        "an answer that was brought is not in the state",
        STATE,
        "    record.brought.update(event.brings)\n",
        "",
        REMOTE,
    ),
    (
        "an answer is sent for a question that is not open",
        EXCHANGE,
        "[answer for answer in self._request.answers if answer.item.name in still_open]",
        "self._request.answers\n        still_open = {**latest, **still_open}",
        LOST_ANSWERS,
    ),
    (
        "an answer is sent to a question that has changed",
        EXCHANGE,
        "not in (None, still_open[each.item.name])",
        "in ()",
        CHANGED_QUESTIONS,
    ),
    (
        "a person is asked for a secret",
        EXCHANGE,
        "item.unshown or (None if item.schema is None else asks_for_secret(item.schema))",
        "item.unshown or None",
        CHANGED_QUESTIONS,
    ),
    (
        "a question that is not shown whole is approved",
        PROXY,
        "decision.agrees and self.unshown is not None",
        "False",
        "tests/actors/calls/test_changed_remote_questions.py",
    ),
    (
        "an answer that is lost is not sent again",
        TASK_LINK,
        "                if not waits(await self.read()):\n                    return None\n",
        "                return str(error)\n",
        LOST_ANSWERS,
    ),
    (
        "a question back is an approval",
        TASK_ANSWER,
        'character not in "?\\u00bf\\uff1f\\u061f" and ',
        "",
        A2A_ANSWERS,
    ),
    (
        "a task asks for what is decided: the decision is in the inbox",
        TASK_LOG,
        '            self._current.status = Status("working", at, self._still_asked(f"{self.last_seq}"))\n',
        "            pass\n",
        A2A_STREAMS,
    ),
    (
        "a stream begins with the task before the message",
        TASK_SERVER,
        "if notice or delivery.task in log.ids or log.has_taken(delivery.key):",
        "if notice or log.has_taken(delivery.key):",
        A2A_STREAMS,
    ),
    (
        "whatever is true is a confirmation for ADK, and a word is one for Strands",
        FOREIGN,
        'return answer.words.get("approved") is True',
        'return bool(answer.words.get("approved", True))',
        FOREIGN_QUESTIONS,
    ),
    (
        "an approval without an effect is a success",
        EXCHANGE,
        "missing = uncalled(task, [item for item in self._answered if item.name in agreed])",
        "missing = uncalled(task, [])",
        FOREIGN_QUESTIONS,
    ),
    (
        "an answer that had no effect is not told",
        EXCHANGE,
        "return {item.name: ASKED_AGAIN for item in items if item.digest in before}",
        "return {}",
        FOREIGN_QUESTIONS,
    ),
    (
        "an answer that has arrived is thrown away",
        TASK_LINK,
        "        if arrived is None:\n            return await self._read_patiently",
        "        if True:\n            return await self._read_patiently",
        ARRIVED_ANSWERS,
    ),
    (
        "whatever has arrived is an answer",
        ARRIVED,
        "if self._status is None or self._status.state not in TERMINAL | INTERRUPTED:",
        "if self._status is None:",
        ARRIVED_ANSWERS,
    ),
    (
        "a task that works on is begun anew",
        EXCHANGE,
        'case "failed" | "canceled" | "rejected" if request.anew:\n                return',
        "case _ if request.anew:\n                return",
        LOST_ANSWERS,
    ),
    (
        "an expired question is an approval",
        PROXY,
        'return {"approved": False, "reason": NOT_IN_TIME}',
        'return {"approved": True}',
        REMOTE,
    ),
    (
        "a question that is rejected ends nothing",
        STATE,
        "record.rejected = record.rejected or (isinstance(asked, ProxyQuestion) and decision.rejects)",
        "pass",
        REMOTE,
    ),
    (
        "whatever is true is a rejection in the called agent",
        REMOTE_STATE,
        'task.metadata.get("rejected") is True',
        'task.metadata.get("rejected")',
        REMOTE_STATES,
    ),
    (
        "a word about a rejection in the called agent is one",
        REMOTE_STATE,
        'task.metadata.get("rejected") is True',
        '"rejected" in task.metadata',
        REMOTE_STATES,
    ),
    (
        "whatever is true is an approval for the called agent",
        OUTGOING,
        'answer.words.get("approved") is True',
        'answer.words.get("approved")',
        "tests/actors/a2a/test_outgoing.py",
    ),
    (
        "the word false is true",
        FIELDS,
        'return bool(found == "true")',
        "return True",
        FIELD_TESTS,
    ),
    (
        "a flag is true if it is anything",
        FIELDS,
        "            case None | bool():\n                return found\n",
        "            case None | bool() | int():\n                return found and bool(found)\n",
        FIELD_TESTS,
    ),
    (
        "a rejection in the called agent ends nothing",
        STATE,
        "            record.rejected = record.rejected or rejected\n",
        "",
        REMOTE,
    ),
    (
        "the task of a call is not on record",
        EXCHANGE_OF,
        "if self._task is None or record is None or record.remote == self._task:",
        "if True:",
        REMOTE,
    ),
    ("a task outlives its run", REMOTE_TASKS, "    if not open_calls:\n", "    if True:\n", REMOTE),
    (
        "the task of a cancelled run is not cancelled",
        EXCHANGE_OF,
        "if waits and self._task is not None:",
        "if False:",
        REMOTE,
    ),
    (
        "a token is sent to an agent without forward_bearer",
        REGISTRY,
        "if token is not None and server.forwards_bearer else None",
        "if token is not None else None",
        REMOTE,
    ),
    (
        "a relay decides with a word",
        DELIVERY,
        "if (principal := self._agent.principal) is not None and relays(principal):",
        "if False:",
        "tests/gateway/a2a/test_owners.py",
    ),
    (
        "notifications are sent after their credential has ended",
        "gateway/a2a/push.py",
        "if hook.by.lifetime.has_ended:",
        "if False:",
        "tests/gateway/a2a/test_owners.py",
    ),
    (
        "a token goes out with a decision that is refused",
        AGENT,
        'await guard.check_approval("decide", await self.approval(id))',
        "pass",
        APPROVERS_TOKENS,
    ),
    (
        "a message lends its token to the run of another principal",
        COMMANDS,
        "(each for each in waiting if each.by == self._log.run.requester)",
        "waiting",
        "tests/actors/conversation/test_credentials.py",
    ),
    (
        "a credential is sent to every server as a token",
        TOKENS,
        "self.servers is None or name in self.servers",
        "True",
        "tests/actors/conversation/test_credentials.py",
    ),
    (
        "the card of an agent may lead anywhere",
        AGENT_LINK,
        "usable(card, url, self.config.origins, self.found.url)",
        "usable(card, url, [origin_of(each.url) for each in card.interfaces], self.found.url)",
        CARD_ELSEWHERE,
    ),
    (
        "an interface elsewhere is as good as another",
        CARD,
        "if not each.url or origin_of(each.url) in allowed]",
        "if True]",
        CARDS,
    ),
    (
        "an interface that is moved keeps its origin",
        CARD,
        "root, rest = _root(configured), ",
        "root, rest = _root(interface.url), ",
        CARDS,
    ),
    (
        "the card of another service is called at the configured origin",
        CARD,
        "    if _means_another_service(interface.url, configured):\n        return ()\n",
        "",
        CARDS,
    ),
    ("a message may come round", ORIGIN, "if own_id in visited:", "if False:", A2A_ORIGINS),
    (
        "a message may come through any number",
        ORIGIN,
        "if len(visited) >= MOST_HOPS or",
        "if",
        A2A_ORIGINS,
    ),
    (
        "an answer that is refused is the end of the question",
        PROXIES,
        "if last is not None and last not in record.brought:",
        "if last is not None:",
        REMOTE,
    ),
    (
        "a question is put at every look",
        PROXIES,
        "if last is not None and last not in record.brought:",
        "if False:",
        REMOTE,
    ),
    (
        "a question decided elsewhere stays open here",
        REMOTE_QUESTIONS,
        "return None if why is None else Withdraw(approval.id, why)",
        "return None",
        undisturbed(REMOTE, "a question that is decided elsewhere"),
    ),
    (
        "a question that is asked no more stays open here",
        CALL_END,
        "            return asked.item.name not in {item.name for item in items}",
        "            return False",
        REMOTE,
    ),
    (
        "questions of an agent below a parallel node are not put",
        PROXIES,
        "        if new:\n",
        "        if new and not self.scope.policy_scope.in_parallel:\n",
        REMOTE,
    ),
    (
        "a message is another one in every life",
        EXCHANGE_OF,
        '/{self._key}/{self._attempt}"',
        '/{self._key}/{self._attempt}/{id(self)}"',
        REMOTE,
    ),
)
HALTED = (
    (
        "a halt is forgotten by a restart",
        SUPERVISOR,
        "    await notes.follow(halt.NOTE, halts.apply)\n",
        "",
        HALTS,
    ),
    (
        "a note that cannot be read is no halt",
        HALT,
        "found = Halt(int(now), True,",
        "found = Halt(int(now), False,",
        HALTS,
    ),
    (
        "an intent is committed although the agent is halted",
        DISPATCH,
        "                when=departure.may_leave if step.effect",
        "                when=(lambda: True) if step.effect",
        HALTS,
    ),
    (
        "a halt is acknowledged before the last intent is on disk",
        HALT,
        "            await departure.committed.wait()\n",
        "            pass\n",
        HALTS,
    ),
    ("a committed call leaves after a halt", HALT, "if not self.may_leave():", "if False:", HALTS),
    (
        "a call that was decided before a halt leaves after it",
        DISPATCH,
        "(None if step.held else halt, log.tenure.holds) as departure,\n        ):\n            # Return",
        "(halts.latest, log.tenure.holds) as departure,\n        ):\n            # Return",
        HALTS,
    ),
    ("new calls leave while the agent is halted", HALT, "return self.stands or ", "return ", STEPS),
    (
        "an approval outlives a halt",
        LIFECYCLE,
        "return local.halt.lapses(max(agreed, default=local.halt.number))",
        "return local.halt.stands",
        STEPS,
    ),
    (
        "a retry outlives a halt",
        RECORDED,
        "    ids = [run.asked.get(outcome_key(key, last)), *brought",
        "    ids = [*brought",
        HALTS,
    ),
    (
        "an approval of another agent's question outlives a halt",
        RECORDED,
        ", *brought_by_next(log, key)]",
        "]",
        HALTED_QUESTIONS,
    ),
    (
        "an accepted form outlives a halt",
        RECORDED,
        "        ids.extend(",
        "        list(",
        HALTED_QUESTIONS,
    ),
    (
        "a call in flight gets an acceptance from before a halt",
        IN_FLIGHT_ELICITATIONS,
        "return CANCEL if acts and ",
        "return CANCEL if False and ",
        HALTED_QUESTIONS,
    ),
    (
        "an approval is accepted while the agent is halted",
        AGENT,
        "            await refuse_if_halted(question, decided, services)\n",
        "",
        HALTED_QUESTIONS,
    ),
    (
        "a decision does not say how many halts were before it",
        AGENT,
        'adds |= {"halts": halts} if halts else {}',
        "pass",
        HALTS,
    ),
    (
        "a rejection is not delivered while the agent is halted",
        LIFECYCLE,
        " or (held and not _only_refuses(sent)):",
        " or held:",
        STEPS,
    ),
    (
        "an approval is delivered with a rejection while the agent is halted",
        LIFECYCLE,
        " and sent.agreed is None",
        "",
        STEPS,
    ),
    (
        "a message to an agent leaves while this one is halted",
        EXCHANGE,
        "        if not self._request.may_leave():\n",
        "        if False:\n",
        LOST_ANSWERS,
    ),
    (
        "an approval or a token reaches an agent while this one is halted",
        TASK_LINK,
        "if agrees and not self.request.may_leave():",
        "if False:",
        LOST_ANSWERS,
    ),
    (
        "a refusal is an approval for a halt",
        PROXIES,
        "words_of(decision), decision.agrees, ",
        "words_of(decision), True, ",
        HALTED_QUESTIONS,
    ),
    (
        "a repeated request ends another halt",
        HALT,
        "            if command in keys:",
        "            if False:",
        HALTS,
    ),
)
VOTES = "tests/actors/approvals/test_voting.py"
VOTED = (
    ("votes about other arguments count", VOTE, "if each.subject == vote.subject\n        and ", "if "),
    ("a person has several votes", VOTE, "        and not is_same_name(each.voter, vote.voter)\n", ""),
    ("the vote of a revoked credential counts", VOTE, "        and each.credential not in vote.lapsed\n", ""),
    ("a vote is for what its voter was not shown", VOTE, "asked.votes[-1].subject != vote.shown", "False"),
    ("the requester approves", VOTING, "if is_same_name(requester, principal.id):", "if False:"),
    ("who uses a shared key approves", VOTING, " or requester.startswith(KEY_PREFIX)", ""),
    ("who uses a relay approves", NODE, "None if scope.log.run.program else ", ""),
    ("a program votes", PRINCIPAL, "self.is_person and ", ""),
    ("a relay votes", PRINCIPAL, ' and not self.has("relay")', ""),
    ("every approver may approve", VOTING, "principal.names.isdisjoint(requires.approvers)", "False"),
    ("a weaker approval is enough", LIFECYCLE, " and _is_met(judgement, approved)", ""),
)
ONE_EDIT = (
    ("a rejected call is asked about again in its turn", REPEAT, "if not (ids :=", "if (ids :=", REPEATED),
    ("a rejected call is repeated without end", REPEAT, "each.repeats in ids", "False", REPEATED),
    ("a rejection counts for other arguments", REPEAT, "same(dump(given), wanted)", "True", REPEATED),
    (
        "a repetition in one iteration ends the run in the next",
        REPEAT,
        'and other.startswith(f"{execution}:") ',
        "",
        REPEATED,
    ),
    (
        "a later failure undoes the rejection of a repeated call",
        CHILD,
        "if record.repeats is not None",
        "if False",
        REJECTION,
    ),
    (
        "a rejection counts in its own node only",
        REPEAT,
        "if each.asked.key in rejected)",
        "if each.asked.key in rejected and each.asked.key.rpartition(':')[0] == key.rpartition(':')[0])",
        REPEATED,
    ),
    (
        "a person is not asked about a call edited into a rejected one",
        REPEAT,
        " or any(each.asked.key == key for each in questions)",
        "",
        REPEATED,
    ),
    (
        "an edited call that was rejected is asked about again as edited",
        REPEAT,
        "shown = (asked.tool_args, each.shown.tool_args)",
        "shown = (asked.tool_args,) if asked.question.endswith('~0') else ()",
        REPEATED,
    ),
    (
        "a repetition of a rejected call is lost in a restart",
        "actors/log/state.py",
        "run.calls[event.key].repeats = repeats",
        "pass",
        REPEATED,
    ),
    (
        "a call rejected in an earlier turn looks new",
        "actors/calls/questions.py",
        "rejected_before=self._rejected_before(found.tool, step.arguments)",
        "rejected_before=None",
        REPEATED,
    ),
    (
        "a tool that the provider refuses fails each turn",
        "actors/models/model.py",
        "if named and rounds < MAX_ROUNDS:",
        "if False:",
        f"{REFUSED_TOOLS}::test_turn_goes_on_without_the_named_tool_and_says_so",
    ),
    (
        "a refused tool costs a request in each turn",
        "actors/models/model.py",
        "            refused.remember(left_out)  # only now, because the error may have had another cause\n",
        "",
        f"{REFUSED_TOOLS}::test_turn_goes_on_without_the_named_tool_and_says_so",
    ),
    (
        "a page of conversations has all messages at once",
        "actors/conversation/lists.py",
        "        if left <= 0:\n",
        "        if False:\n",
        "tests/actors/conversation/test_page_bounds.py",
    ),
    (
        "a key that a provider quotes is stored",
        "actors/models/providers/key_mask.py",
        "reply = mask.reply(await ask(deltas))",
        "reply = await ask(deltas)",
        "tests/actors/models/providers/test_key_mask.py",
    ),
    (
        "a misspelled argument of a rule does not prevent the start",
        "actors/gate/review.py",
        "if is_sure and",
        "if False and",
        "tests/actors/gate/test_review.py",
    ),
    (
        "a pattern ends before a line break",
        "config/expressions.py",
        'r"\\Z" if part["end"]',
        'part[0] if part["end"]',
        "tests/config/test_expressions.py",
    ),
    (
        "arguments whose check takes too long are accepted",
        "actors/tools/arguments.py",
        "if isinstance(error, Unfinished) or await _is_applicable(ready.checker):",
        "if await _is_applicable(ready.checker) and not isinstance(error, Unfinished):",
        f"{ARGUMENTS}::test_arguments_whose_check_takes_too_long_are_refused_and_the_next_ones_checked",
    ),
    (
        "arguments that the schema cannot be applied to are accepted",
        "actors/tools/arguments.py",
        "if isinstance(error, Unfinished) or await _is_applicable(ready.checker):",
        "if isinstance(error, Unfinished):",
        f"{ARGUMENTS}::test_arguments_that_cannot_be_checked_are_refused",
    ),
    (
        "a router takes another route after a search was given up",
        ROUTER,
        "searches.exceeded:",
        "False:",
        ROUTER_TESTS,
    ),
    (
        "arguments are checked against the schema as the server sent it",
        "actors/tools/json_schema.py",
        "self.schema = valid.schema",
        "self.schema = schema",
        "tests/actors/tools/test_json_schema.py::test_a_broken_part_is_not_checked_and_the_rest_is",
    ),
    ("a rejection ends one sequential alone", SEQUENTIAL, ENDS, "False", seed(107)),
    ("a rejection is not contained by a sequential", SEQUENTIAL, ENDS, "end.rejected", REJECTION),
    ("a rejection ends one loop alone", LOOP, ENDS, "False", seed(125)),
    ("a rejection is not contained by a loop", LOOP, ENDS, "end.rejected", REJECTION),
    (
        "strict defaults let calls run",
        "config/approval.py",
        'given or ("ask" if self.defaults == "strict" else "run")',
        'given or "run"',
        GATE_TESTS,
    ),
    (
        "a key without a value means its default",
        "config/reader.py",
        "allowed = key.may_be_blank or (self._may_be_empty and key.is_collection)",
        "allowed = key.is_collection",
        "tests/config/test_empty.py",
    ),
    (
        "an empty list or mapping is accepted",
        "config/shape.py",
        'return self.about.empty == "refused"\n            case Section',
        "return False\n            case Section",
        "tests/config/test_empty.py",
    ),
    (
        "a strict start is not refused",
        "gateway/serve_process.py",
        "if not each.by_rule] if serving.strict else []",
        "if False] if serving.strict else []",
        "tests/gateway/test_cli.py::test_strict_start_is_refused_if_a_setting_lets_harm_run",
    ),
    ("a rejection ends no loop", GATE, "in_loop=True, ends_on_reject=True", "in_loop=True", seed(106)),
    ("a rejection ends nothing above a parallel", PARALLEL, PASSED, "False", REJECTION),
    ("a rejection at a checkpoint ends nothing", CHECKPOINT, "if no and", "if False and", REJECTION),
    (
        "a rejection is not in the record of a node",
        CHILD,
        "return Ended(self._with_output(error))",
        "return Ended(attrs.evolve(self._with_output(error), rejected=False))",
        f"{TREES}::test_a_rejection_killed_once",
    ),
    (
        "a failure cancels a rejection",
        CHILD,
        "return rejection(self.scope, self.spec, self.message, key)",
        "return None",
        REJECTION,
    ),
    (
        "an attempt follows a rejection that came meanwhile",
        CHILD,
        "when=lambda: self._rejection(key) is None",
        "when=lambda: True",
        f"{REJECTION}::test_rejection_while_the_failure_of_an_attempt_is_being_saved",
    ),
    (
        "a model hears of a failure that is not on disk",
        "actors/log/step.py",
        "            await log.flush()\n            return saved",
        "            return saved",
        "tests/actors/log/test_write_behind.py::test_failure_is_on_disk_before_a_model_hears_of_it",
    ),
    (
        "a branch starts after a rejection",
        PARALLEL,
        "            if ends and rejection(",
        "            if False and rejection(",
        f"{REJECTION}::test_queued_branch_does_not_start_after_rejection",
    ),
    (
        "an expiry fails the node alone",
        SETTLER,
        "text, fatal=True)\n        return end",
        "text)\n        return end",
        EXPIRY,
    ),
    (
        "names: a tool may have the name of another server's tool",
        CATALOGUE,
        "misleading=looks_prefixed(tool.own_name) or plain_name(tool.own_name) in others",
        "misleading=False",
        TOOL_NAMES,
    ),
    ("names: a misleading name is shown", CATALOGUE, "if tool.misleading or (", "if (", TOOL_NAMES),
    (
        "names: rules go by misleading names",
        TOOL,
        "None if self.misleading else self.own_name",
        "self.own_name",
        TOOL_NAMES,
    ),
    (
        "names: there is no warning about misleading names",
        RULES,
        "        if tool.misleading:\n",
        "        if False:\n",
        REVIEW,
    ),
    ("names: a rule may run tools of any server", RULES, "and len(servers) > 1", "and False", REVIEW),
    (
        "names: a prefixed name means a tool while models see that",
        TOOL,
        "if not pattern.startswith(PREFIX):",
        "if True:",
        TOOL_NAMES,
    ),
    (
        "names: exclude compares own names only",
        CATALOGUE,
        "for each in (name, plain_name(name))",
        "for each in (name,)",
        TOOL_NAMES,
    ),
    (
        "hints: names that change with another server's tools are not stored",
        REGISTRY,
        "for name, listed in offers.items():",
        "for name, listed in ((server, tools),):",
        HINTS,
    ),
    (
        "hints: a tool of a server that is one tool is known by a plain name too",
        KNOWN,
        "seen = tool.own_name if tool.facade is not None else tool.name",
        'seen = tool.own_name.replace(".", "_") if tool.facade is not None else tool.name',
        HINTS,
    ),
    (
        "hints: of two tools that are known by one name the last one counts",
        KNOWN,
        "new[key] = stricter_hints(new[key], kept)",
        "new[key] = kept",
        HINTS,
    ),
    ("an expiry ends nothing", SETTLER, 'in ("rejected", "expired")', 'in ("rejected",)', REJECTION),
    ("an expiry is not told first", HEAD, "Expired(on_expiry=on_expiry).rejects", "False", REJECTION),
    ("a run that went on after a rejection ends", LLM, "stop.rejected and f", "False and f", REJECTION),
    ("the calls of a reply ask in any order", SETTLER, "isinstance(step, Ask | AskOutcome)", "False", ORDER),
    (
        "the calls of a reply ask in any order after a crash",
        SETTLER,
        "if isinstance(step, Ask | AskOutcome):",
        "if isinstance(step, Ask):",
        killed(MATRIX, "a reply with three calls that ask"),
    ),
    (
        "a call that runs holds questions back",
        SETTLER,
        "        self.position.leave()\n        made =",
        "        made =",
        ORDER,
    ),
    (
        "an edit that comes while the call is judged is forgotten",
        SETTLER,
        "if (record, approvals) == now:",
        "if True:",
        "tests/actors/gate/test_asking.py",
    ),
    ("a call that needs a token holds questions back", LOOKUP, LEAVE + TOKEN, TOKEN, ORDER),
    ("a check holds questions back for ever", ASK_ORDER, "PATIENCE = 0.25", "PATIENCE = 1e6", ORDER),
    ("a check holds no question back", ASK_ORDER, "PATIENCE = 0.25", "PATIENCE = 1e-6", ORDER),
    ("a decision for a branch without slot is not answered", LOG, NOT_ANSWERED, "", LOG_TESTS),
    (
        "while a save waits: a decision moves on a run that has begun to wait",
        APPROVAL_COMMANDS,
        " and now.run is not None and now.run.state == state",
        "",
        SLOW_SAVES,
    ),
    (
        "while a save waits: a void approval expires",
        APPROVAL_COMMANDS,
        "return id in now.pending and now",
        "return now",
        SLOW_SAVES,
    ),
    (
        "while a save waits: an expired approval is voided with its run",
        RUN,
        OF_RUN,
        "tuple(run.unsettled) == unsettled",
        SLOW_SAVES,
    ),
    (
        "while a save waits: an answered sender gets the end of the run",
        RUN,
        OF_RUN,
        "log.state.head.pending == pending",
        SLOW_SAVES,
    ),
    (
        "while a save waits: an expired approval is replaced",
        VOID,
        "        when=partial(_pending, log, [old]),\n",
        "",
        LOG_TESTS,
    ),
    (
        "while a save waits: an expired approval is voided",
        VOID,
        "return _pending(log, approvals) and ",
        "return ",
        LOG_TESTS,
    ),
    (
        "while a save waits: a resumed run stays recorded as waiting",
        VOID,
        "return _pending(log, approvals) and (now and now.state) == (run and run.state)",
        "return _pending(log, approvals)",
        LOG_TESTS,
    ),
)
"""Name, file, old text, new text, test."""

ENTRANCE = "tests/gateway/auth/test_entrance.py"
CHOSEN = "tests/gateway/auth/test_chosen_credential.py"
API_KEYS = "tests/gateway/auth/test_api_keys.py"
NAMES_OF_OTHERS = "tests/actors/access/test_names_of_others.py"
EACH_ROUTE = f"{ENTRANCE}::test_each_route_but_the_public_ones_needs_a_credential"
FROM_CREDENTIAL = f"{CHOSEN}::test_each_request_has_one_credential_and_at_most_one_token"

AUTHENTICATED: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "a route is public by default",
        "gateway/http/quart_app.py",
        "if self._entrance is None or id in self._public:",
        "if self._entrance is None or id not in self._public:",
        EACH_ROUTE,
    ),
    (
        "websockets need no credential",
        "gateway/http/quart_app.py",
        "if self._entrance is None:\n                await self._sockets",
        "if True:\n                await self._sockets",
        EACH_ROUTE,
    ),
    (
        "event streams outlive their credential",
        "gateway/http/quart_app.py",
        "reply.body.end_with(identity.lifetime.ended)",
        "pass",
        f"{ENTRANCE}::test_event_streams_end_with_the_credential",
    ),
    (
        "websockets outlive their credential",
        "gateway/http/web_socket.py",
        "        nursery.start_soon(cancel_when, lifetime.ended, nursery.cancel_scope)\n",
        "",
        f"{ENTRANCE}::test_websockets_end_with_the_credential",
    ),
    (
        "the secret of a key does not matter",
        "gateway/auth/api_keys.py",
        "or not is_equal or",
        "or",
        f"{API_KEYS}::test_invalid_keys_get_one_answer",
    ),
    (
        "keys do not expire",
        "gateway/auth/api_keys.py",
        "or not key.stored.is_live(self.wall_clock()):",
        ":",
        f"{API_KEYS}::test_invalid_keys_get_one_answer",
    ),
    (
        "revoked keys count until the restart",
        "gateway/auth/api_keys.py",
        "        self._live = live\n",
        "        self._live = {**before, **live}\n",
        f"{API_KEYS}::test_changes_count_without_a_restart",
    ),
    (
        "old keys count if the file is unreadable",
        "gateway/auth/api_keys.py",
        "            state, stored = str(error), ()\n",
        "            return\n",
        f"{API_KEYS}::test_a_file_that_cannot_be_used_refuses_all_keys",
    ),
    (
        "other users may write the file of the keys",
        "gateway/auth/key_file.py",
        "if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or",
        "if",
        f"{API_KEYS}::test_a_file_that_cannot_be_used_refuses_all_keys[open_to_the_group]",
    ),
    (
        "an API key is a token for tools",
        "gateway/auth/chosen_credential.py",
        "if is_key or not forward_credential:",
        "if not is_key and not forward_credential:",
        FROM_CREDENTIAL,
    ),
    (
        "the authorization of a proxy is a token for tools",
        "gateway/auth/chosen_credential.py",
        'elif "proxy" in presented or authorization is None:',
        "elif authorization is None:",
        FROM_CREDENTIAL,
    ),
    (
        "a cursor can be used by others",
        STORE_SECRET,
        'return [listing.encode(), by.encode(errors="surrogatepass")]',
        "return [listing.encode()]",
        "tests/actors/common/test_store_secret.py",
    ),
    (
        "a cursor that anybody can write tells positions",
        "actors/agent_reads.py",
        'if self.principal is not None and not may(self.principal, "read"):',
        "if False:",
        NAMES_OF_OTHERS,
    ),
    (
        "the id of a key is the same for all principals",
        "actors/agent_reads.py",
        'secret.id_of(self._by or "", *names)',
        "secret.id_of(*names)",
        NAMES_OF_OTHERS,
    ),
    (
        "a principal lists what it had in an earlier role",
        "actors/conversation/guard.py",
        'self.principal.id if reads_own(self.principal) else ""',
        "self.principal.id",
        "tests/actors/access/test_acting_as.py",
    ),
)
"""Name, file, old text, new text, test."""

NODES = (
    (
        "nodes: a stream is claimed from a living owner",
        OWNERSHIP,
        "if owner in (None, node) else Held(str(owner))",
        "",
        (OTHER_NODES,),
    ),
    (
        "nodes: a paused process sends after its lease has run out",
        HALT,
        "if not self._owns():",
        "if False:",
        (OTHER_NODES,),
    ),
    (
        "nodes: a process saves after its lease has run out",
        TENURE,
        "self._lease.check()",
        "self._term",
        (OTHER_NODES,),
    ),
    (
        "nodes: a late renewal hides that the lease had run out",
        LEASE,
        "if not self.holds:\n            self.term",
        "if False:\n            self.term",
        (OTHER_NODES,),
    ),
    (
        "nodes: the lease does not count the time of a pause",
        LEASE,
        "time.CLOCK_BOOTTIME if",
        "time.CLOCK_THREAD_CPUTIME_ID if",
        ("tests/runtime/journal/test_lease.py",),
    ),
    (
        "nodes: the lease is reckoned from the answer",
        LEASE,
        "self.term.until = began +",
        "self.term.until = self._clock() +",
        ("tests/runtime/journal/test_lease.py",),
    ),
    (
        "nodes: a request does not claim its stream",
        MEMORY,
        "        self._owners.follow(",
        "        False and self._owners.follow(",
        (OTHER_NODES,),
    ),
    (
        "nodes: a request takes a stream whose work is moving",
        OWNERSHIP,
        "(at_rest or self.owner(stream, now) is None)",
        "True",
        ("tests/runtime/journal/test_following.py",),
    ),
    (
        "nodes: a command waits for a newer node that does not live",
        LOCAL_NODE,
        "if demands > self._newest:",
        "if False:",
        ("tests/runtime/journal/test_ownership.py",),
    ),
    (
        "nodes: an agent with a directory has no version",
        "runtime/stores/open_journal.py",
        "on_commit=on_commit, version=version)",
        "on_commit=on_commit)",
        ("tests/runtime/journal/test_transfer.py",),
    ),
    (
        "copies: the target is not compared",
        "runtime/stores/transfer.py",
        "if found.sums[table] != copied.sums[table]:",
        "if False:",
        ("tests/runtime/journal/test_transfer.py",),
    ),
    (
        "copies: an unfinished copy is the journal of the directory",
        "runtime/journal/whole_file.py",
        "with _written(directory / UNFINISHED) as db:",
        "with _written(directory / FILE) as db:",
        ("tests/runtime/journal/test_transfer.py",),
    ),
    (
        "copies: an unfinished copy stays",
        "runtime/journal/sqlite.py",
        "        remove_unfinished(directory)\n",
        "",
        ("tests/gateway/test_copy_interrupted.py",),
    ),
    (
        "copies: keys that were revoked since an earlier copy come back",
        "gateway/cli/key_copy.py",
        "else (NOTE,),",
        "else (),",
        ("tests/gateway/test_journal_command.py",),
    ),
    (
        "nodes: a stream with open commands is released",
        MEMORY,
        "if any(each.key not in leave for each in kept.waiting()):",
        "if False:",
        ("tests/runtime/journal/test_ownership.py",),
    ),
    (
        "nodes: a sender without its token here is answered at once",
        RUN,
        "if log.sent_elsewhere.get(key) not in living",
        "",
        (OTHER_NODES,),
    ),
    (
        "nodes: the node that has the token does not resume the run",
        COMMANDS,
        "if wanted.status is None and is_new and not found <= self._tried:",
        "if False:",
        (OTHER_NODES,),
    ),
    (
        "nodes: a fenced activation counts as crashed",
        "runtime/errors.py",
        "    return isinstance(error, EndsActor)",
        "    return False",
        ("tests/runtime/test_virtual.py",),
    ),
    (
        "nodes: events of a stopped node are not published to watchers of all",
        "actors/conversation/conversation.py",
        "        await services.relay.load(log)\n",
        "",
        ("tests/actors/test_lost_nodes.py",),
    ),
    (
        "nodes: an unloaded conversation is no longer followed for watchers of all",
        "actors/conversation/conversation.py",
        "        services.relay.unload(log)\n",
        "        pass\n",
        ("tests/actors/test_lost_nodes.py",),
    ),
    (
        "nodes: a delta that arrives before its events is lost",
        "actors/conversation/follow.py",
        "if early is not None and early.after == cursor:",
        "if False:",
        ("tests/actors/test_deltas_of_others.py",),
    ),
    (
        "nodes: deltas are given to requests without the key",
        "gateway/fleet/fleet_key.py",
        "        ):\n            return None\n        now = ",
        "        ):\n            pass\n        now = ",
        ("tests/gateway/test_fleet_key.py",),
    ),
    (
        "nodes: a signature is taken twice",
        "gateway/fleet/fleet_key.py",
        "or nonce in self._seen ",
        "",
        ("tests/gateway/test_fleet_key.py",),
    ),
    (
        "nodes: deltas are taken from whoever answers",
        "gateway/fleet/delta_peers.py",
        'if not is_proof(answer.headers.get(PROOF, ""), proof):',
        "if False:",
        ("tests/gateway/test_delta_peers.py",),
    ),
    (
        "nodes: watchers of all do not hear that hints were lost",
        "actors/conversation/other_nodes.py",
        "if hints.take_missed() or hint == HINTS_LOST:",
        "if False:",
        ("tests/actors/test_lost_nodes.py",),
    ),
    (
        "nodes: without hints, nothing is noticed",
        "actors/conversation/other_nodes.py",
        "                for each in {id for topic",
        "                for each in () and {id for topic",
        (OTHER_NODES,),
    ),
    (
        "nodes: a call that may be repeated fails with the lease",
        DISPATCH,
        'if step.effect != "once":  # it can',
        "if False:  # it can",
        (OTHER_NODES,),
    ),
    (
        "nodes: a halt is acknowledged before other nodes have seen it",
        HALT,
        "        await self._confirmed(number)\n",
        "",
        (SHARED_NOTES,),
    ),
    (
        "nodes: a halt is confirmed while an intent is being committed",
        HALT,
        "            self._tell(self.state)\n        await self._departed()\n",
        "            self._tell(self.state)\n",
        (SHARED_NOTES,),
    ),
    (
        "nodes: hints that another node has recorded are overwritten",
        "actors/tools/known.py",
        ", notes, at=at)",
        ", notes)",
        (SHARED_NOTES,),
    ),
    (
        "nodes: dollars that another node has added are overwritten",
        "actors/models/spending.py",
        ", notes, at=at)",
        ", notes)",
        (SHARED_NOTES,),
    ),
    (
        "nodes: lost hints are no gap for watchers of all",
        "actors/conversation/other_nodes.py",
        "hints.take_missed() or hint == HINTS_LOST",
        "hints.take_missed()",
        (LOST_NODES,),
    ),
    (
        "nodes: too many hints at a time are no gap for watchers of all",
        "actors/conversation/other_nodes.py",
        "hints.take_missed() or hint == HINTS_LOST",
        "hint == HINTS_LOST",
        (LOST_NODES,),
    ),
    (
        "nodes: a hint that could not be followed is no gap for watchers of all",
        "actors/log/relay.py",
        "if after is not None and id not in self._last:\n                            self._miss()",
        "if False:\n                            self._miss()",
        (LOST_NODES,),
    ),
    (
        "nodes: a node that loads too late forgets the events of the other that it has published",
        "actors/log/relay.py",
        " and last.seq <= log.committed_seq:",
        ":",
        ("tests/actors/test_watched_nodes.py",),
    ),
    (
        "nodes: a late hint about a conversation that moved is no gap",
        "actors/log/relay.py",
        "if after is not None and after < self._unsure.get(id, 0):",
        "if False:",
        ("tests/actors/test_watched_nodes.py",),
    ),
    (
        "nodes: hints of a node that died are not missed",
        "actors/conversation/other_nodes.py",
        "if self._living - living:",
        "if False:",
        ("tests/actors/test_watched_nodes.py",),
    ),
    (
        "nodes: a gap is filtered away",
        "actors/agent_reads.py",
        "if isinstance(published, HaltState | Missed):",
        "if isinstance(published, Missed):\n                return False\n"
        "            if isinstance(published, HaltState):",
        (LOST_NODES,),
    ),
    (
        "nodes: a watcher takes a gap for nothing",
        "actors/conversation/watch.py",
        "if self._live.take_missed() or isinstance(published, Missed):",
        "if isinstance(published, Missed):\n                continue\n"
        "            if self._live.take_missed():",
        (LOST_NODES,),
    ),
    (
        "postgres: hints that came while nobody listened are not told to be lost",
        PG_HINTS,
        "                self.bus.publish(TOPIC, HINTS_LOST)  # those sent before it listened\n",
        "",
        (HINT_TESTS,),
    ),
    (
        "postgres: the same, with a server",
        PG_HINTS,
        "                self.bus.publish(TOPIC, HINTS_LOST)  # those sent before it listened\n",
        "",
        (f"{PG_TESTS}::test_hints_come_again_after_a_connection_was_lost",),
    ),
    (
        "postgres: too many hints are not told to be lost",
        PG_HINTS,
        "            self._lost = True\n        elif",
        "            pass\n        elif",
        (HINT_TESTS,),
    ),
    (
        "postgres: a notification that failed is not told",
        PG_HINTS,
        "self._lost, pause = True, RETRY",
        "pause = RETRY",
        (HINT_TESTS,),
    ),
    (
        "postgres: a notification that failed is told with the next change only",
        PG_HINTS,
        "                self._wake.set()  # the next",
        "                # the next",
        (HINT_TESTS,),
    ),
    (
        "postgres: the same, with a server that is away",
        PG_HINTS,
        "                self._wake.set()  # the next",
        "                # the next",
        (f"{PG_TESTS}::test_failed_notification_is_told_when_the_server_is_back",),
    ),
    (
        "nodes: another node is to blame for a slow store",
        "actors/conversation/silent_nodes.py",
        "renewed = int(ends.get(self._own) != before.get(self._own))",
        "renewed = 1",
        (SILENT_NODES,),
    ),
    (
        "nodes: a request to a node that works is refused when another is silent",
        "actors/conversation/other_nodes.py",
        "if owners.get(topic.conversation) in silent:",
        "if owners:",
        (SILENT_NODES,),
    ),
    (
        "nodes: a request waits for a silent node",
        "actors/conversation/other_nodes.py",
        "if owners.get(topic.conversation) in silent:",
        "if False:",
        (SILENT_NODES,),
    ),
    (
        "nodes: a request waits at a node that is cut off",
        "actors/conversation/other_nodes.py",
        "if trio.current_time() - reached >= UNREACHED:",
        "if False:",
        (SILENT_NODES,),
    ),
    (
        "postgres: a cancelled operation begins when there is a connection at last",
        PG_POOL,
        "            if not work.is_given_up:\n",
        "            if True:\n",
        (f"{PG_TESTS}::test_operation_that_was_cancelled_before_it_had_a_connection_does_not_begin",),
    ),
    (
        "postgres: the outcome of a cancelled operation is lost",
        PG_POOL,
        "with trio.move_on_after(LOOK_EVERY if work.is_late else GRACE):",
        "with trio.move_on_after(0):",
        (f"{PG_TESTS}::test_operation_that_has_begun_ends_soon_after_its_cancellation",),
    ),
    (
        "postgres: a suspended node keeps the lock of a stream",
        PG_POOL,
        "set_config('idle_in_transaction_session_timeout', '2s', false)",
        "set_config('idle_in_transaction_session_timeout', '0', false)",
        (f"{PG_TESTS}::test_node_that_is_suspended_in_a_transaction_keeps_no_stream_from_others",),
    ),
    (
        "postgres: lost hints are not in the notification",
        PG_HINTS,
        "[*hints, HINTS_LOST] if self._lost else hints",
        "hints",
        (HINT_TESTS,),
    ),
    (
        "postgres: hints that are lost during a notification are forgotten",
        PG_HINTS,
        "                await self._pool.run(notify)\n",
        "                await self._pool.run(notify)\n                self._lost = False\n",
        (HINT_TESTS,),
    ),
    (
        "nodes: a stream with open commands is released, in SQLite",
        SQLITE,
        "if any(key not in leave for key in sql_inbox.open_keys(db, head.id)):",
        "if False:",
        (RELEASES,),
    ),
    (
        "postgres: a stream with open commands is released",
        PG_OWNERS,
        """ AND NOT EXISTS (SELECT FROM inbox"
            " WHERE inbox.stream = stream.id AND open = 1 AND key <> ALL(%(leave)s::text[]))",
""",
        '",\n',
        (f"{RELEASES}[postgres-message-ack]",),
    ),
    (
        "postgres: all commands are left behind by a release",
        PG_OWNERS,
        "key <> ALL(%(leave)s::text[])",
        "key = ANY(%(leave)s::text[])",
        (f"{RELEASES}[postgres-decision-ack]",),
    ),
    (
        "postgres: a release is blind for the command that it waited for",
        PG_OWNERS,
        """        db.execute(_LOCK, values)
        held = db""",
        "        held = db",
        (f"{PG_TESTS}::test_release_sees_the_command_that_it_waited_for",),
    ),
    (
        "postgres: a request takes a stream with open commands",
        "runtime/journal/postgres/intake.py",
        "kept.work != rows.OPEN and not kept.kinds",
        "kept.work != rows.OPEN",
        (FOLLOWING,),
    ),
    (
        "postgres: a request takes a stream whose work is moving",
        "runtime/journal/postgres/intake.py",
        "kept.work != rows.OPEN and not kept.kinds",
        "not kept.kinds",
        (FOLLOWING,),
    ),
    (
        "nodes: a request takes a stream with open commands",
        MEMORY,
        "not kept.summary.open and len(kept.waiting()) == 1",
        "not kept.summary.open",
        (FOLLOWING,),
    ),
    (
        "nodes: a request takes a stream with open commands, in SQLite",
        SQLITE,
        "head.work != rows.OPEN and len(sql_inbox.waiting_kinds(db, head.id)) == 1",
        "head.work != rows.OPEN",
        (FOLLOWING,),
    ),
    (
        "postgres: a deleted stream stays in the tally",
        PG_TALLY,
        "VALUES (OLD.owner, OLD.status, -1)",
        "SELECT OLD.owner, OLD.status, -1 WHERE TG_OP = 'UPDATE'",
        (f"{TALLY_TESTS}::test_tally_is_exact_whoever_writes_ends_and_dies",),
    ),
    (
        "postgres: the first count keeps the changes that it has counted",
        PG_TALLY,
        '    "DELETE FROM tally_change",\n',
        "",
        (f"{TALLY_TESTS}::test_tally_is_exact_whoever_writes_ends_and_dies",),
    ),
    (
        "postgres: a transaction that counts waits for another",
        PG_TALLY,
        " FOR NO KEY UPDATE SKIP LOCKED",
        "",
        (f"{TALLY_TESTS}::test_transactions_that_count_wait_for_nobody",),
    ),
    (
        "postgres: an older node may not write to the tally",
        PG_TALLY,
        "LANGUAGE plpgsql SECURITY DEFINER",
        "LANGUAGE plpgsql",
        (f"{TALLY_TESTS}::test_writer_without_rights_on_the_tally_is_counted",),
    ),
    (
        "sqlite: commits wait until all space is returned",
        DATABASE,
        "while self.are_many and time.perf_counter() < until:",
        "while self.are_many:",
        (f"{FREE_PAGES}::test_step_is_short",),
    ),
    (
        "sqlite: the journal breaks if space cannot be returned",
        DATABASE,
        "        except sqlite3.Error:\n            self._is_possible",
        "        except sqlite3.DataError:\n            self._is_possible",
        (f"{FREE_PAGES}::test_step_that_fails_breaks_nothing",),
    ),
    (
        "sqlite: a journal is compacted while an agent uses it",
        SQLITE,
        "    with locked(directory):\n        before =",
        "    if directory:\n        before =",
        (f"{FREE_PAGES}::test_older_file_gets_smaller_once_it_was_compacted",),
    ),
    (
        "postgres: a save does not look at its fence",
        "runtime/journal/postgres/save.py",
        "AND epoch = %(epoch)s AND last_seq",
        "AND last_seq",
        ("tests/runtime/journal/test_ownership.py",),
    ),
    (
        "postgres: an attempt begins twice",
        "runtime/journal/postgres/tables.py",
        "PRIMARY KEY (stream, key, attempt)",
        "CHECK (attempt > 0)",
        (SAVES,),
    ),
    (
        "postgres: a key is delivered twice",
        "runtime/journal/postgres/intake.py",
        "_repeated(new.stream, new.key, kept, is_same) or _refused(kept, new)",
        "_refused(kept, new)",
        (INBOX,),
    ),
    (
        "postgres: a note is written at any revision",
        "runtime/journal/postgres/note_table.py",
        "WHERE coalesce(%(at)s, note_kind.revision) = note_kind.revision",
        "",
        ("tests/runtime/journal/test_notes.py",),
    ),
)

MUTANTS = (
    *(Mutant(name, (Edit(path, old, new),), tests) for name, path, old, new, tests in NODES),
    Mutant(
        "the intent is saved with the result, not before the call",
        (
            Edit(DISPATCH, INTENT, "            saved = await log.save_soon(intent)\n"),
            Edit(VOID, "if not others:", "if False:"),
            Edit(
                VOID,
                SAVE_OVER,
                "            from stopgo.runtime.journal.protocol import NewIntent\n"
                "            late = [NewIntent(each.key, each.attempt, 'once', {}) for each in settle]\n"
                + SAVE_OVER.replace("settle=settle", "settle=settle, intents=late"),
            ),
        ),
    ),
    Mutant(
        "an attempt can be begun twice",
        (
            Edit(MEMORY_STREAM, "            if place in self.intents:\n", "            if False:\n"),
            Edit(SQL_STREAM, "INSERT OR IGNORE INTO intent", "INSERT OR REPLACE INTO intent"),
        ),
        (SAVES,),
    ),
    Mutant(
        "the fence: an owner that was replaced may write",
        (Edit(LOCAL_NODE, "if not self._owners.holds(fence):", "if False:"),),
        (SAVES,),
    ),
    Mutant(
        "expected_seq: a writer may have missed events",
        (
            Edit(MEMORY, "if len(draft.events) != expected_seq:", "if False:"),
            Edit(SQLITE, "if head.last_seq != expected_seq:", "if False:"),
        ),
        (SAVES,),
    ),
    Mutant(
        "rolled back heads stay cached",
        (Edit(SQL_STREAM, "self._heads.clear()", "pass"),),
        ("tests/runtime/journal/test_sqlite.py::test_cache_forgets_rolled_back_values",),
    ),
    Mutant(
        "the replay key: a recorded step is done again",
        (Edit(STEP, "recorded = log.run.steps.get(key)", "recorded = None"),),
    ),
    Mutant(
        "a question that was put is put again",
        (Edit(LOG, "id = self.run.asked.get(question)", "id = None"),),
    ),
    Mutant(
        "the first decision wins",
        (Edit(VOTE, 'if asked.state != "pending" or (', "if ("),),
    ),
    Mutant(
        "the output gate: events are published before the commit",
        (
            Edit(
                LOG,
                COMMIT,
                "            for n, event in enumerate(new, self.state.last_seq + 1):\n"
                "                told = Event(self.state.id, n, event.type, 0.0, event.body)\n"
                "                self.bus.publish(ConversationTopic(self.state.id), told)\n" + COMMIT,
            ),
            Edit(LOG, PUBLISH, ""),
        ),
    ),
    Mutant(
        "the output gate: commands are answered before the answer is on disk",
        (Edit(LOG, COMMIT, REPLY + COMMIT),),
        ("tests/actors/conversation/test_poison.py::test_a_command_that_always_crashes_is_refused",),
    ),
    Mutant(
        "the stored effect class: today's hints count",
        (
            Edit(LIFECYCLE, OPEN, "lost = False"),
            Edit(LIFECYCLE, "return stricter(effect, sent.effect), asks or sent.asks", "return effect, asks"),
        ),
        (killed(MATRIX, "a call nobody was asked about, by a tool that calls itself harmless later"),),
    ),
    Mutant(
        "a call that was interrupted is sent again without asking",
        (Edit(LIFECYCLE, OPEN, "lost = False"), Edit(LIFECYCLE, ONCE_TODAY, "return ")),
    ),
    Mutant(
        "a call whose answer was lost is sent again without asking",
        (
            Edit(LIFECYCLE, 'if sent.effect != "once" and local.resends:', "if local.resends:"),
            Edit(LIFECYCLE, ONCE_TODAY, "return "),
        ),
    ),
    Mutant(
        "a call whose server crashed has never left",
        (
            Edit(
                DISPATCH,
                "ToolChanged, ActorUnavailable) as",
                "ToolChanged, ActorUnavailable, ActorCrashed) as",
            ),
            Edit(DISPATCH, "(ToolOutcomeUnknown, ActorCrashed) as", "ToolOutcomeUnknown as"),
        ),
        (NODE_TESTS,),
    ),
    Mutant(
        "an unknown outcome asks no human",
        (Edit(LIFECYCLE, "if not sent.asks:", "if True:"),),
    ),
    Mutant(
        "an interrupted attempt stays open behind the one that follows it",
        (Edit(LIFECYCLE, "lost=lost,", "lost=(),"),),
        (killed(MATRIX, "a rejection that ends a sequence"),),
    ),
    Mutant(
        "a rejected call is sent",
        (
            Edit(
                RECORDED,
                'return "approved" if isinstance(decision, Approved) else "rejected"',
                'return "approved"',
            ),
            Edit(LOG_RECORD, '"denied", "rejected", "expired"})', '"denied", "expired"})'),
        ),
    ),
    Mutant(
        "an edit is forgotten",
        (Edit(RECORDED, "asked.tool_args if edited is None else edited", "asked.tool_args"),),
    ),
    Mutant(
        "approvals outlive their run",
        (
            Edit(RUN, "for id in log.state.head.pending]\n    lost", "for id in ()]\n    lost"),
            Edit(RUN, "[closed(log.state.approvals[id], RUN_ENDED) for id in pending]", "[]"),
        ),
    ),
    Mutant(
        "idempotency keys are not remembered",
        (
            Edit(
                MEMORY,
                "if known := kept.known(key, lambda first: first.kind == kind and",
                "if False and (lambda first:",
            ),
            Edit(SQL_INBOX, "INSERT OR IGNORE INTO inbox", "INSERT OR REPLACE INTO inbox"),
        ),
        (MATRIX, INBOX),
    ),
    Mutant(
        "a message leaves the inbox after the commit that took it in",
        (
            Edit(
                COMMANDS,
                "save_soon(*self._beginning(received), ack=[received.key])\n\n    def",
                "save(*self._beginning(received))\n            await self._log.save(ack=[received.key])"
                "\n\n    def",
            ),
        ),
        (killed(MATRIX, "a reply with calls of every class, and a second turn"),),
    ),
    Mutant(
        "a command that was carried out is carried out again before that is on disk",
        (Edit(COMMANDS, "if received.key in acked:", "if False:"),),
        ("tests/actors/log/test_write_behind.py",),
    ),
    Mutant(
        "a model gets a `once` result before it is on disk",
        (Edit(CALL_END, "effect):\n        await log.flush()\n", "effect):\n        pass\n"),),
        ("tests/actors/log/test_write_behind.py",),
    ),
    Mutant(
        "a conversation that has ended is flushed",
        (Edit(LOG, "        if not self._closed:\n", "        if True:\n"),),
        ("tests/actors/log/test_write_behind.py",),
    ),
    Mutant(
        "the cause of a branch's error is lost",
        (Edit(BRANCHES, "raise error from error.__cause__", "raise error from None"),),
        ("tests/actors/log/test_log.py",),
    ),
    Mutant(
        "writes of a crashed conversation that unwinds are lost",
        (
            Edit(LOG, "        if self._closed:\n            await self.flush()\n", ""),
            Edit(CALL_END, "effect):\n        await log.flush()\n", "effect):\n        pass\n"),
        ),
        ("tests/actors/log/test_write_behind.py",),
    ),
    Mutant(
        "pending writes are published",
        (
            Edit(
                LOG,
                "            self._pending_writes.add(events, settle, ack)\n",
                "            for event in events:\n"
                "                self.bus.publish(ConversationTopic(self.state.id), event)\n"
                "            self._pending_writes.add(events, settle, ack)\n",
            ),
        ),
    ),
    Mutant(
        "a reply is saved after the commit it belongs to",
        (
            Edit(LOG, "                replies=replies,\n", ""),
            Edit(
                LOG,
                "            self._publish_pending(pending)\n",
                "            if replies:\n"
                "                last = saved.first_seq + len(pending.events) + len(new) - 1\n"
                "                await self.journal.save(self.fence, last, replies=replies)\n"
                "            self._publish_pending(pending)\n",
            ),
        ),
    ),
    Mutant(
        "a later reply takes the place of the first",
        (
            Edit(MEMORY_STREAM, "if self.inbox[key].reply is None:", "if True:"),
            Edit(SQL_INBOX, " AND reply IS NULL", ""),
        ),
    ),
    Mutant(
        "draining: a step starts during the shutdown",
        (
            Edit(
                LOG,
                "        if self.active_runs.draining.is_set():\n            await self.flush()",
                "        if False:\n            await self.flush()",
            ),
            Edit(LIFECYCLE, "Park() if local.draining and", "Park() if False and"),
            Edit(DISPATCH, "if self.scope.draining.is_set():", "if False:"),
        ),
    ),
    Mutant(
        "nothing is resumed at start-up",
        (Edit(OPEN_AGENT, "nursery.start_soon(startup.resume_all, cast.services)", "pass"),),
    ),
    Mutant(
        "a cancelled run does not wait for the result of its call",
        (
            Edit(
                DISPATCH,
                CALL_ONCE,
                "                await self._call(elicitations, step, tool, server, departure.check_lease)\n",
            ),
        ),
    ),
    Mutant(
        "a call that had not left when its run was cancelled leaves",
        (Edit(DISPATCH, "waits = departure.has_left and not", "waits = not"),),
        ("tests/actors/conversation/test_ending.py",),
    ),
    Mutant(
        "a stopped branch outlives the stop",
        (Edit(CONTEXT, "await child.wait_ended()", "pass"),),
    ),
    Mutant(
        "an expired call is sent",
        (
            Edit(
                RECORDED,
                "            return state\n",
                '            return "approved" if state == "expired" else state\n',
            ),
            Edit(LOG_RECORD, '"denied", "rejected", "expired"})', '"denied", "rejected"})'),
        ),
        (TREES,),
    ),
    Mutant(
        "a decided approval expires",
        (
            Edit(MEMORY_STREAM, 'if asked is not None and asked.state == "decided":', "if False:"),
            Edit(MEMORY_STREAM, 'if asked is None or asked.state != "pending":', "if asked is None:"),
            Edit(SQL_QUESTION, 'if found is not None and found[1] == "decided":', "if False:"),
            Edit(SQL_QUESTION, 'if found is None or found[1] != "pending":', "if found is None:"),
        ),
        (SAVES,),
    ),
    Mutant(
        "a call is sent although its tool has changed since the approval",
        (
            Edit(LIFECYCLE, "if last.fingerprint != judgement.tool.fingerprint:", "if False:"),
            Edit(LIFECYCLE, 'last.state == "void" or last.fingerprint != tool', 'last.state == "void"'),
            Edit(LIFECYCLE, " and each.fingerprint == tool", ""),
            Edit(LOOKUP, " and approval.fingerprint == tool.fingerprint", ""),
        ),
        (TREES,),
    ),
    Mutant(
        "a node is tried again though it has started a call that must not be repeated",
        (Edit(CHILD, " or self._may_have_acted(key):", ":"),),
        (SEEDS,),
    ),
    Mutant(
        "exit_loop exits nothing",
        (Edit(LLM, "exited = self._spec.can_exit_loop and exits", "exited = False"),),
        (TREES,),
    ),
    Mutant(
        "a rule of today does not hold for a call of an earlier life",
        (
            Edit(
                LIFECYCLE,
                'if judgement.verdict.action == "deny":',
                'if sent is None and judgement.verdict.action == "deny":',
            ),
            Edit(LIFECYCLE, 'return verdict.action == "run"', 'return verdict.action != "ask"'),
            Edit(LIFECYCLE, 'isinstance(judgement, Missing) or judgement.verdict.action == "deny"', "False"),
        ),
        (seed(202),),
    ),
    Mutant(
        "a call that left unasked is sent again though it would ask today",
        (Edit(LIFECYCLE, ONCE_TODAY + "_passes(sent, judgement, approvals)", 'return effect != "once"'),),
        (STRICTER,),
    ),
    Mutant(
        "a refused call is sent again unasked after its tool has changed",
        (Edit(LIFECYCLE, "if sent is not None and sent.retried:", "if sent is not None:"),),
        (STRICTER,),
    ),
    Mutant(
        "an attempt has a weaker class than the one before",
        (Edit(LIFECYCLE, "stricter(effect, sent.effect)", "effect"),),
        (STRICTER,),
    ),
    Mutant(
        "weaker hints of a tool count",
        (Edit(KNOWN, "return tuple(tools) if self.trust", "return tuple(tools) if True"),),
        (HINTS,),
    ),
    Mutant(
        "weaker hints of a tool count for the verdict",
        (Edit(KNOWN, "(False, None, True)[asks]", "(False, None, True)[listed.strictness[0]]"),),
        (HINTS,),
    ),
    Mutant(
        "weaker hints of a tool count for its effect class",
        (Edit(KNOWN, "True if sent == 1 else None", "True if listed.strictness[1] == 1 else None"),),
        (HINTS,),
    ),
    Mutant(
        "weaker hints are stored",
        (Edit(KNOWN, "kept = listed if self.trust else counts", "kept = listed"),),
        (HINTS,),
    ),
    Mutant(
        "hints count before they are on disk",
        (
            Edit(
                KNOWN,
                "if notes and not await self._journal.write_notes(kind_of(server), notes, at=at):",
                "from trio.lowlevel import spawn_system_task as soon\n"
                "            soon(self._journal.write_notes, kind_of(server), notes)\n"
                "            if False:",
            ),
        ),
        (HINTS,),
    ),
    Mutant(
        "hints that are known are not read at the start",
        (Edit(KNOWN, "for key, note in notes.items()", "for key, note in ()"),),
    ),
    Mutant(
        "hints that cannot be read are none",
        (
            Edit(
                KNOWN,
                "    except ValueError:\n        return STRICTEST",
                "    except ValueError:\n        return Hints()",
            ),
        ),
        (HINTS,),
    ),
    Mutant(
        "hints that cannot be remembered count",
        (Edit(KNOWN, "known.get(keys[0], STRICTEST)", "known.get(keys[0], tool.listed_hints)"),),
        (HINTS,),
    ),
    Mutant(
        "hints are known by the own name alone",
        (Edit(KNOWN, "(_key(tool.own_name), _key(seen))", "(_key(tool.own_name),)"),),
        (HINTS,),
    ),
    Mutant(
        "hints are remembered without a bound",
        (Edit(KNOWN, "key not in known and room > 0", "key not in known"),),
        (HINTS,),
    ),
    Mutant(
        "hints are accepted that the person was not shown",
        (Edit(REGISTRY, "if tool.hash == hash)", "if True)"),),
        (HINTS,),
    ),
    Mutant(
        "hints are accepted with whatever else the tool says by now",
        (Edit(TOOL, "            self.input_schema,\n            self.server,", "            self.server,"),),
        (HINTS,),
    ),
    Mutant(
        "stricter hints wait for the names of a change",
        (
            Edit(
                REGISTRY, "                await self._take(name, self._offers[name])", "                pass"
            ),
        ),
        (HINTS,),
    ),
    Mutant(
        "an expired approval with on_expiry fail does not fail the run",
        (Edit(SETTLER, "if end.expired and self._is_failure(key):", "if False:"),),
        ("tests/actors/gate/test_expiry.py",),
    ),
    Mutant(
        "a question outlives the call it was about",
        (Edit(SETTLER, "where=lambda asked: asked.key == key", "where=lambda asked: False"),),
        (STRICTER,),
    ),
    Mutant(
        "a branch keeps its turn when it has ended",
        (
            Edit(
                BRANCHES,
                "        finally:\n            self._pass_on(limiter)\n",
                "        finally:\n            pass\n",
            ),
        ),
        (seed(100),),
    ),
    Mutant(
        "questions outlive the node they were asked for",
        (Edit(STEP, "case StepFailed() | Ended(continued=Fault()):", "case None:"),),
        ("tests/actors/conversation/test_giving_up.py",),
    ),
    Mutant(
        "a prerequisite outlives the next attempt",
        (
            Edit(STATE, "    record.need = None\n", ""),
            Edit(LIFECYCLE, 'if sent.state == "open":', 'if sent.need is None and sent.state == "open":'),
            Edit(
                LIFECYCLE, 'if sent.state == "unknown":', 'if sent.need is None and sent.state == "unknown":'
            ),
        ),
        (killed(NEEDS, "an approved call without a token, then with one"),),
    ),
    Mutant(
        "after a restart a refused call does not wait for its prerequisite",
        (Edit(LIFECYCLE, "    match sent.need:\n", "    return None\n    match sent.need:\n"),),
        (undisturbed(NEEDS, "a call without a token, then with one"),),
    ),
    Mutant(
        "a refused call is sent again without a token",
        (Edit(RECORDED, "!= command and token is not None", "!= command"),),
        (NEEDS,),
    ),
    Mutant(
        "a refused call is sent again with the same token",
        (Edit(RECORDED, "run.command_of(key) != command and ", ""),),
        (undisturbed(NEEDS, "a token that does not do, and again, then a better one"),),
    ),
    Mutant(
        "the token of an approver serves the whole run",
        (Edit(STATE, "            if decision.principal is None:\n", "            if True:\n"),),
        (APPROVERS_TOKENS,),
    ),
    Mutant(
        "an approved call that lost its token is sent with that of the run",
        (Edit(LOG_RECORD, "self.calls[call].own_command or self.driving", "self.driving"),),
        (APPROVERS_TOKENS,),
    ),
    Mutant(
        "a run that has lost its token calls without one",
        (Edit(LOOKUP, "needs_one and not self.scope.token(self.key)", "needs_one and False"),),
        (killed(NEEDS, "a token that may be lost while a human thinks"),),
    ),
    Mutant(
        "the token of a queued message is tried for ever",
        (Edit(COMMANDS, "if has_token and tried not in self._tried:", "if has_token:"),),
        (NEEDS,),
    ),
    Mutant(
        "an answer is taken for one to the next attempt's question",
        (
            Edit(
                IN_FLIGHT_ELICITATIONS,
                "question_key(self.key, self.attempt, self._number)",
                "question_key(self.key, 1, self._number)",
            ),
        ),
        (killed(NEEDS, "a question in the middle of a call that may be repeated"),),
    ),
    Mutant(
        "answers are forgotten once an attempt has brought them",
        (Edit(STATE, "    record.need = None\n", "    record.need = record.asked = None\n"),),
        (
            killed(
                NEEDS, "a token that has run out when the question is answered which the call brought about"
            ),
        ),
    ),
    Mutant(
        "a call continues after a refused prerequisite",
        (Edit(LIFECYCLE, "if refused and not takes_refusals", "if False"),),
        (killed(NEEDS, "an address before a call that nobody wants to visit"),),
    ),
    Mutant(
        "an answer that is repeated is another one",
        (
            Edit(
                ELICITATION,
                "if not isinstance(decision, Accept):",
                "if not (pending and isinstance(decision, Accept)):",
            ),
        ),
        (NEEDS,),
    ),
    Mutant(
        "elicitations in flight outlive the process",
        (Edit(COMMANDS, "await self._void_lost()\n        await", "await"),),
        (killed(NEEDS, "a question in the middle of a call that may be repeated"),),
    ),
    Mutant(
        "a call that was lost while its server waited for an answer is not seen to at the next start",
        (Edit(HEAD, '(run.state == "running" or bool(self.in_flight))', '(run.state == "running")'),),
        (killed(NEEDS, "a question in the middle of a call that may be repeated"),),
    ),
    Mutant(
        "elicitations in flight outlive the call",
        (Edit(CALL_END, "any(asked_at(asked, key, attempt) for attempt in attempts)", "False"),),
        (NEEDS,),
    ),
    Mutant(
        "a resent call still shows the text of its last attempt",
        (
            Edit(
                STATE,
                'update_call(record, "", state="started", result=None, is_error=None, **tool)',
                'update_call(record, state="started", **tool)',
            ),
        ),
        (killed(NEEDS, "cancelled while it waits for a token"),),
    ),
    Mutant(
        "the gate looks at the first value of a path only",
        (
            Edit(
                CONDITIONS,
                "islice(_found(values, path), MOST_READINGS + 1)",
                "islice(_found(values, path), 1)",
            ),
        ),
        (ORACLE,),
    ),
    Mutant(
        "the gate runs a call when one value of a path fits",
        (Edit(GATE, 'of_readings = min if rule.then == "run" else max', "of_readings = max"),),
        (ORACLE,),
    ),
    Mutant(
        "the gate asks only when all values of a path fit",
        (Edit(GATE, 'of_readings = min if rule.then == "run" else max', "of_readings = min"),),
        (ORACLE,),
    ),
    Mutant(
        "the gate takes a value inside of a text for missing",
        (
            Edit(
                CONDITIONS,
                "        case _:\n            yield BLOCKED\n",
                "        case _:\n            return\n",
            ),
        ),
        (ORACLE,),
    ),
    Mutant(
        "the gate passes over an undecided deny",
        (Edit(GATE, 'and rule.then != "run")', 'and rule.then == "ask")'),),
        (ORACLE,),
    ),
    Mutant(
        "the gate lets hints run a call after an undecided rule",
        (
            Edit(
                GATE,
                "    verdict = verdict or by_hints(tool, scope)\n",
                "    if verdict is None:\n        return by_hints(tool, scope)\n",
            ),
        ),
        (ORACLE,),
    ),
    Mutant(
        "the gate lets a later rule run a call after an undecided rule",
        (
            Edit(
                GATE,
                "            verdict = Verdict(rule.then, rule_text(rule), requires=requirement_of(rule))\n"
                "            break\n",
                "            return Verdict(rule.then, rule_text(rule))\n",
            ),
        ),
        (ORACLE,),
    ),
    Mutant(
        "the gate finds nothing where a search takes too long",
        (
            Edit(
                CONDITIONS,
                "        except TimeoutError:\n            return self.given_up()\n",
                "        except TimeoutError:\n            return Answer.FAILS\n",
            ),
        ),
        (ORACLE,),
    ),
    Mutant(
        "the gate cuts a long text before it searches it",
        (
            Edit(
                CONDITIONS,
                "    if _is_long(text):\n        return searches.given_up()\n",
                "    text = text[:MAX_TEXT]\n",
            ),
        ),
        (ORACLE,),
    ),
    Mutant(
        "the gate takes a non-number for a number within the limit",
        (
            Edit(
                CONDITIONS,
                "    if number is None or bound is None:\n        return Answer.UNDECIDED\n",
                "    if number is None or bound is None:\n        return Answer.FAILS\n",
            ),
        ),
        (ORACLE,),
    ),
    Mutant(
        "the gate reads numbers as floats",
        (Edit(CONDITIONS, "return Decimal(text.strip()) if", "return Decimal(float(text.strip())) if"),),
        (ORACLE,),
    ),
    Mutant(
        "the gate searches lists as text",
        (
            Edit(
                CONDITIONS,
                "if isinstance(value, bool | int | float) else None",
                "if value is not None else None",
            ),
        ),
        (ORACLE,),
    ),
    Mutant(
        "the gate keeps the event loop waiting for a search",
        (
            Edit(
                "actors/gate/off_loop.py",
                "await trio.to_thread.run_sync(decide, *args, abandon_on_cancel=True, limiter=_limiter())",
                "decide(*args)",
            ),
        ),
        (OFF_LOOP,),
    ),
    Mutant(
        "a router takes a route that is undecided",
        (
            Edit(
                "actors/nodes/router.py",
                "            case Answer.HOLDS:\n",
                "            case Answer.HOLDS | Answer.UNDECIDED:\n",
            ),
        ),
        (ROUTER_TESTS,),
    ),
    Mutant(
        "hints: a tool that contradicts itself does not ask although the file says so",
        (
            Edit(
                "actors/tools/catalogue.py",
                "contradiction_asks=config.approval.contradiction_asks",
                "contradiction_asks=False",
            ),
        ),
        (HINTS,),
    ),
    Mutant(
        "mcp: a call that its server may have handled in a lost session is sent again",
        (
            Edit(
                "actors/mcp/failures.py",
                "return SESSION_FAILED if _names_a_request(body) else SESSION_LOST",
                "return SESSION_LOST",
            ),
        ),
        (SESSIONS,),
    ),
    Mutant(
        "mcp: a call that a gateway may have passed on to a lost server is sent again",
        (
            Edit(
                "actors/mcp/failures.py",
                "HTTPStatus.SERVICE_UNAVAILABLE):\n        return SESSION_FAILED\n",
                "HTTPStatus.SERVICE_UNAVAILABLE):\n        return SESSION_LOST\n",
            ),
        ),
        (SESSIONS,),
    ),
    Mutant(
        "mcp: a call is sent although its server has announced changed tools",
        (Edit("actors/mcp/caller.py", "if not link.is_outdated:", "if True:"),),
        ("tests/actors/mcp/test_caller.py",),
    ),
    Mutant(
        "hints: a contradiction changes the fingerprints of all tools",
        (Edit(TOOL, "self.listed_hints.said", "attrs.astuple(self.listed_hints)"),),
        (WIRE,),
    ),
    Mutant(
        "hints: a tool that begins to contradict itself has the fingerprint of a destructive one",
        (Edit(TOOL, "self.listed_hints.said", "self.listed_hints.in_effect.said"),),
        (HINTS,),
    ),
    Mutant(
        "pasted file: a secret stays in the agent file",
        (Edit("config/pasted_texts.py", "        if self.keep_secrets:", "        if True:"),),
        ("tests/config/test_pasted.py",),
    ),
    Mutant(
        "agent file: a list of tools that run without a person has no effect and is no mistake",
        (Edit("config/foreign.py", "return known and not plain(value)", "return known"),),
        ("tests/config/test_mcp.py",),
    ),
    Mutant(
        "streamed calls: a piece that may belong to two calls belongs to one",
        (
            Edit(
                "actors/models/providers/stream_calls.py",
                "        owner.arguments.unclear |= bool(others)\n",
                "        pass\n",
            ),
        ),
        (STREAMED,),
    ),
    Mutant(
        "streamed calls: a piece belongs to a call whose index has changed back",
        (
            Edit(
                "actors/models/providers/stream_calls.py",
                "            self.arguments.unclear |= index in self.indexes\n",
                "",
            ),
        ),
        (STREAMED,),
    ),
    Mutant(
        "streamed calls: a part of a call under another id is a call",
        (
            Edit(
                "actors/models/providers/stream_calls.py",
                "            _doubt_parts(calls)\n",
                "            pass\n",
            ),
        ),
        (STREAMED,),
    ),
    Mutant(
        "streamed calls: the name of an open call begins another one",
        (
            Edit(
                "actors/models/providers/stream_calls.py",
                "if name and last.names and not begins and not id:",
                "if False:",
            ),
        ),
        (STREAMED,),
    ),
    Mutant(
        "frames: a damaged frame is an event",
        (
            Edit(
                "actors/models/providers/framing.py",
                '    if crc32(frame[:-4]) != int.from_bytes(frame[-4:], "big"):\n',
                "    if False:\n",
            ),
        ),
        (FRAMES,),
    ),
    Mutant(
        "frames: a damaged length is waited for",
        (
            Edit(
                "actors/models/providers/framing.py",
                "if crc32(self._pending[begin : begin + 8]) != checksum or length",
                "if length",
            ),
        ),
        (FRAMES,),
    ),
    Mutant(
        "converse: the pieces of a block whose index is used again belong to the second call",
        (
            Edit(
                "actors/models/providers/converse_codec.py",
                "            before.input.unclear = begun.input.unclear = True\n",
                "            pass\n",
            ),
        ),
        (CONVERSE,),
    ),
    Mutant(
        "converse: a stream without the reason of its end is a reply",
        (
            Edit(
                "actors/models/providers/converse_codec.py",
                "        if not self._reason:\n            raise",
                "        if False:\n            raise",
            ),
        ),
        (CONVERSE,),
    ),
    Mutant(
        "calls: the same call twice is made twice",
        (
            Edit(
                "actors/models/providers/codec.py", "            if key in seen:\n", "            if False:\n"
            ),
        ),
        (STREAMED,),
    ),
    Mutant(
        "calls: one without arguments is made beside a damaged one",
        (Edit("actors/models/providers/codec.py", "LOST if damaged and", "LOST if False and"),),
        (STREAMED,),
    ),
    Mutant(
        "arguments: of several objects, the first counts",
        (
            Edit(
                "actors/models/providers/json_fields.py",
                "    if others and not all(same",
                "    if False and not all(same",
            ),
        ),
        (ARGUMENTS_READ,),
    ),
    Mutant(
        "arguments: a name twice has the last value",
        (
            Edit(
                "runtime/json_text.py",
                "            if _canonical(value) != _canonical(named[name]):\n",
                "            if False:\n",
            ),
        ),
        (ARGUMENTS_READ,),
    ),
    Mutant(
        "pictures: all of a run are sent",
        (Edit("actors/tools/pictures.py", "reversed(sizes[-MOST:])", "reversed(sizes)"),),
        ("tests/actors/nodes/test_pictures_shown.py",),
    ),
    Mutant(
        "pictures: a message may have any number",
        (Edit("gateway/attachments.py", "if len(pictures) > MOST or", "if"),),
        ("tests/gateway/test_attachments.py",),
    ),
    Mutant(
        "hints: there is no warning about contradictory hints",
        (Edit(RULES, "        if counts and not any", "        if False and not any"),),
        (REVIEW,),
    ),
    Mutant(
        "hints: a rule to be copied lets more tools run than one",
        (Edit(RULES, " and not has_wildcards(name)", ""),),
        (REVIEW,),
    ),
    Mutant(
        "rules: a misspelled rule does not fail startup",
        (Edit(SUPERVISOR, "    refuse(findings)\n", ""),),
        (REVIEW,),
    ),
    Mutant(
        "rules: a misspelled rule has the wrong exit code",
        (Edit("gateway/serve_process.py", "tuple(sentences(group)), 2", "tuple(sentences(group)), 1"),),
        ("tests/gateway/test_cli.py::test_rule_with_an_unknown_tool_prevents_the_start",),
    ),
    Mutant(
        "rules: `mcp test` accepts a misspelled rule",
        (
            Edit(
                "gateway/cli/mcp_session.py", "        return True\n    return False\n", "    return False\n"
            ),
        ),
        ("tests/gateway/test_mcp_command.py::test_mcp_test_makes_the_review_of_the_start",),
    ),
    Mutant(
        "rules: a misspelled `ask` rule does not fail startup",
        (Edit(RULE, 'self.then != "run" and', 'self.then == "deny" and'),),
        (REVIEW,),
    ),
    Mutant(
        "rules: a misspelled `run` rule fails startup",
        (Edit(RULE, 'self.then != "run" and', ""),),
        (REVIEW,),
    ),
    Mutant(
        "rules: those of nodes are not looked at",
        (
            Edit(
                "config/tree.py",
                "    for node, path in with_paths(config.agent):",
                "    for node, path in ():",
            ),
        ),
        (REVIEW,),
    ),
    Mutant(
        "rules: `optional` says nothing about tools",
        (Edit(RULES, "rule.tool is None or rule.optional or", "rule.tool is None or"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: `optional` says nothing about servers and nodes",
        (
            Edit(RULE, " and not self.optional", ""),
            Edit(NAMES, " or rule.optional:", ":"),
        ),
        ("tests/config/test_warnings.py",),
    ),
    Mutant(
        "rules: a server that has not listed its tools has none",
        (Edit(RULES, " or unlisted or left_out)", " or left_out)"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: a server that is switched off has no tools",
        (
            Edit(
                RULES,
                "servers if server.name not in listed]",
                "servers if server.enabled and server.name not in listed]",
            ),
        ),
        (REVIEW,),
    ),
    Mutant(
        "rules: a tool that is left out does not exist",
        (Edit(RULES, " or unlisted or left_out)", " or unlisted)"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: a pattern has to mean a tool",
        (Edit(RULES, "(has_wildcards(rule.tool) or unlisted", "(unlisted"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: a server that is one tool has no name",
        (Edit(RULES, "pattern), *facades]", "pattern)]"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: changed tool lists are not reviewed",
        (Edit("actors/tools/server_directory.py", "                changed()\n", "                pass\n"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: warnings are logged again whenever a list changes",
        (Edit(SUPERVISOR, "if sentence not in before:", "if True:"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: GET /tools has no warnings",
        (Edit("gateway/system_routes.py", "list(self.agent.warnings)", "[]"),),
        ("tests/gateway/test_with_agent.py::test_tools_are_listed_with_warnings",),
    ),
    Mutant(
        "rules: a misspelled server or node is a warning",
        (Edit(NAMES, "= rule.restricts and", "= False and"),),
        (MISTAKES,),
    ),
    Mutant(
        "nodes: a misspelled server is not reported",
        (Edit(NAMES, "            if server not in names:", "            if False:"),),
        (MISTAKES,),
    ),
    Mutant(
        "rules: numbers are compared with whatever comes",
        (Edit(RULES, "        if lax:\n", "        if False:\n"),),
        (REVIEW,),
    ),
    Mutant(
        "delegated: a call that was cut off is sent again",
        (
            Edit(LIFECYCLE, 'return sent.remote and sent.state == "open"', "return False"),
            Edit(LIFECYCLE, "sent.in_doubt and not _may", "sent.in_doubt and not sent.remote and not _may"),
        ),
        (REMOTE,),
    ),
    Mutant(
        "delegated: a void question is an approval",
        (
            Edit(
                PROXIES,
                "words_of(decision), decision.agrees, asked.remote_digest)\n",
                'words_of(decision) if decision else {"approved": True})\n',
            ),
            Edit(
                PROXIES,
                "(decision := log.run.decisions.get(id)) is not None",
                "[decision := log.run.decisions.get(id)]",
            ),
        ),
        (REMOTE,),
    ),
    *(
        Mutant(f"delegated: {name}", (Edit(path, old, new),), (test,))
        for name, path, old, new, test in DELEGATED
    ),
    *(Mutant(f"voted: {name}", (Edit(path, old, new),), (VOTES,)) for name, path, old, new in VOTED),
    *(Mutant(f"halted: {name}", (Edit(path, old, new),), (test,)) for name, path, old, new, test in HALTED),
    *(
        Mutant(f"authentication: {name}", (Edit(path, old, new),), (test,))
        for name, path, old, new, test in AUTHENTICATED
    ),
    *(Mutant(name, (Edit(path, old, new),), (test,)) for name, path, old, new, test in (*ONE_EDIT, *BY_A2A)),
    Mutant(
        "a call whose arguments did not end is made",
        (Edit(RESPONSES_STREAM, 'if open_call and self._response["status"] == "completed":', "if False:"),),
        (RESPONSES,),
    ),
    Mutant(
        "a stream that was cut off is a reply",
        (
            Edit(
                RESPONSES_STREAM,
                "        if not self.ended:\n            raise ended_early(self.usage)\n",
                '        self._response = self._response or {"status": "completed"}\n',
            ),
        ),
        (RESPONSES,),
    ),
    Mutant(
        "an open call of an incomplete reply is made",
        (Edit(RESPONSES_CODEC, 'cut = status == "incomplete" or any(', "cut = any("),),
        (RESPONSES,),
    ),
    Mutant(
        "a reply is stored by the provider",
        (Edit(RESPONSES_CODEC, 'body["store"] = False', "pass"),),
        (RESPONSES,),
    ),
    Mutant(
        "a call below a facade does not name its server",
        (Edit(DESCRIPTION, "if facade is None and own == tool", "if own == tool"),),
        (f"{DESCRIPTIONS}::test_a_call_names_its_server_if_another_server_may_have_the_tool",),
    ),
    Mutant(
        "slow clients lock out the others",
        (
            Edit(
                "gateway/http/http_server.py",
                "        slowest.end()\n        return True\n",
                "        return False\n",
            ),
        ),
        (f"{HTTP_SERVER}::test_slow_clients_make_room",),
    ),
)


def copy(folder: Path) -> Path:
    """A copy whose files are hard links to the originals. An edit replaces its file."""
    tree = folder / "tree"
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, symlinks=True, copy_function=os.link)
        else:
            os.link(source, tree / name)
    (folder / "empty").mkdir()
    return tree


def run_tests(tree: Path, tests: Sequence[str], limit: int) -> tuple[int | None, str, float]:
    """Exit code of pytest (None: it took too long), the first test that failed, and seconds of CPU time."""
    receiver, sender = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_run_in_copy, args=(tree, tests, limit, sender))
    process.start()
    sender.close()
    process.join(TIMEOUT)
    if process.is_alive():
        assert process.pid is not None
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return None, "", TIMEOUT
    try:
        code, failed, seconds = receiver.recv()
    except EOFError:  # pytest has ended it, because a test hangs
        return None, "", 0.0
    return code, failed, seconds


def _run_in_copy(tree: Path, tests: Sequence[str], limit: int, sender: Connection) -> None:
    """In a process of its own, with the `stopgo` of the copy."""
    os.setsid()
    with (tree.parent / "output").open("wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.chdir(tree.parent / "empty")
    os.environ["PYTHONPATH"] = sys.path[0] = str(tree / ".dev")
    found = find_spec("stopgo")
    if found is None or not Path(str(found.origin)).resolve().is_relative_to(tree.resolve()):
        raise RuntimeError(f"the copy is not what would be tested: {found}")
    # If pytest loaded the plugin of `stopgo` by itself, it would rewrite the assertions of the whole product.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    first = FirstFailure()
    options = ["-c", f"{tree}/pyproject.toml", "--rootdir", str(tree), "-p", "no:cacheprovider", "-x", "-q"]
    options += ["-p", "pytest_trio.plugin", "-p", "_hypothesis_pytestplugin", "-m", "not crash", "--seed=1"]
    options += ["-o", f"faulthandler_timeout={limit}"]
    code = pytest.main([*options, *(f"{tree}/{test}" for test in tests)], [first])
    sender.send((int(code), first.name, sum(os.times()[:4])))


class FirstFailure:
    """A plugin of pytest."""

    name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid


def judge(mutant: Mutant) -> Outcome:
    """Raises ValueError for a mutant that does not fit the source."""
    with tempfile.TemporaryDirectory(prefix="mutant-", dir=BUILD) as folder:
        tree = copy(Path(folder))
        for edit in mutant.edits:
            edit.apply(tree)
        code, failed, seconds = run_tests(tree, mutant.tests, HANGS if mutant.edits else 300)
        output = (Path(folder) / "output").read_text(errors="replace")[-4000:]
        if code not in (0, None) and not failed:
            raise RuntimeError(f"{mutant.name}: the tests did not run\n{output}")
        if code != 0 and not mutant.edits:
            print(output)
    verdict: Verdict = "hung" if code is None else "red" if code else "green"
    return Outcome(mutant, verdict, seconds, failed)


def misfits(mutants: Iterable[Mutant]) -> list[str]:
    """Why mutants do not fit the source any more."""
    found: list[str] = []
    for mutant in mutants:
        for edit in mutant.edits:
            if not edit.fits(ROOT):
                found.append(f"{mutant.name}: {edit.path} does not have exactly once:\n{edit.old}\n")
        for test in mutant.tests:
            path, _, name = test.partition("::")
            file = ROOT / path
            wanted = f"def {name.partition('[')[0]}(" if name else "def test_"
            if not file.is_file() or wanted not in file.read_text():
                found.append(f"{mutant.name}: there is no {test}\n")
    return found


def main(words: Sequence[str]) -> int:
    part, named = slices.chosen([each.name for each in MUTANTS], words)
    chosen = [
        each
        for each in MUTANTS
        if each.name in part and (not named or any(word in each.name for word in named))
    ]
    if strange := misfits(chosen):
        print(*strange, sep="\n", file=sys.stderr)
        return 2
    FORKS.set_forkserver_preload(
        ["cattrs", "httpx2", "mcp", "pytest", "quart_trio", "trio.testing", "trustme", "yaml"]
    )
    BUILD.mkdir(exist_ok=True)
    wrong: list[str] = []
    noticing: set[str] = set()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for outcome in pool.map(judge, chosen):
            match outcome.verdict:
                case "green":
                    wrong.append(f"{outcome.mutant.name}: missed")
                case "hung":  # the test waits for what the mutant prevents: it should fail by an event
                    wrong.append(f"{outcome.mutant.name}: a test hangs")
                case "red":
                    pass
            noticing.update([outcome.by] if outcome.by else outcome.mutant.tests)
            by = outcome.by.rpartition("::")[2] or "nothing"
            verdict = {"red": "noticed", "green": "MISSED", "hung": "HUNG"}[outcome.verdict]
            print(f"{verdict:8} {outcome.seconds:5.1f} s  {outcome.mutant.name}  by {by}", flush=True)
        # The tests that noticed must pass without a mutant.
        tests = sorted(noticing)
        parts = [tuple(tests[n::AT_ONCE]) for n in range(AT_ONCE)]
        for outcome in pool.map(judge, (Mutant("the unchanged tree", (), part) for part in parts if part)):
            if outcome.verdict != "green":
                wrong.append(
                    f"{outcome.mutant.name}: {outcome.verdict}, by {outcome.by or outcome.mutant.tests}"
                )
            verdict = outcome.verdict if outcome.verdict == "green" else outcome.verdict.upper()
            print(f"{verdict:8} {outcome.seconds:5.1f} s  {len(outcome.mutant.tests)} tests that noticed")
    print(f"{len(chosen)} mutants, {len(wrong)} unexpected results", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
