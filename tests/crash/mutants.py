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

from tests.crash.edits import Edit, Misfit, Words
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
SHADOW = "tests/actors/gate/test_shadow.py"
CLOSED = "tests/actors/gate/test_closed_rules.py"
ORACLE = "tests/actors/gate/test_oracle.py"
OFF_LOOP = "tests/actors/gate/test_off_loop.py"
ROUTER_TESTS = "tests/actors/nodes/test_router.py"
ARGUMENTS = "tests/actors/tools/test_arguments.py"
VERDICT_FACTS = "tests/actors/calls/test_verdict_facts.py"
CALL_PAGES = "tests/actors/replay/test_call_page.py"
REPLAYED_HISTORIES = "tests/actors/replay/test_histories.py"
JUDGED_CALLS = "tests/actors/replay/test_judged_calls.py"
POLICY_REPLAY = "tests/gateway/test_policy_replay.py"
POLICY_ROUTES = "tests/gateway/test_policy_routes.py"
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
DIRECT = "tests/actors/models/providers/test_direct_http.py"
REACHING = "tests/actors/models/providers/test_reaching.py"
CONVERSE = "tests/actors/models/providers/test_converse_codec.py"
ARGUMENTS_READ = "tests/actors/models/providers/test_json_fields.py"
SESSIONS = "tests/actors/mcp/test_failures.py"
MISTAKES = "tests/config/test_mistakes.py"
HINTS = "tests/actors/tools/test_known.py"
TOOL_NAMES = "tests/actors/tools/test_catalogue.py"
LOG_TESTS = "tests/actors/log/test_log.py"
EXTRACT_TESTS = "tests/actors/log/test_extract.py"
STORED_EXTRACTS = "tests/runtime/journal/test_extracts.py"
RESTED = "tests/actors/log/test_rested_state.py"
SLOW_SAVES = "tests/actors/conversation/test_slow_saves.py"
NODE_TESTS = "tests/actors/nodes/test_llm.py"
A2A_TASKS = "tests/gateway/a2a/test_tasks.py"
A2A_MESSAGES = "tests/gateway/a2a/test_task_messages.py"
A2A_STREAMS = "tests/gateway/a2a/test_task_streams.py"
A2A_ANSWERS = "tests/gateway/a2a/test_task_answer.py"
A2A_LATE = "tests/gateway/a2a/test_late_answers.py"
PUSH_ADDRESSES = "tests/actors/common/test_post_address.py"
PUSH_POSTS = "tests/actors/common/test_bounded_post.py"
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


REPEATED = "tests/actors/calls/test_repeated.py"
HTTP_SERVER = "tests/gateway/test_http_server.py"
DESCRIPTIONS = "tests/actors/approvals/test_description.py"
OTHER_MEMBERS = "tests/actors/test_other_members.py"
LOST_MEMBERS = "tests/actors/test_lost_members.py"
HINT_TESTS = "tests/runtime/journal/test_hints.py"
PG_TESTS = "tests/runtime/journal/test_postgres.py"
SILENT_MEMBERS = "tests/actors/test_silent_members.py"
RELEASES = "tests/runtime/journal/test_ownership.py::test_open_command_holds_its_own_stream_until_it_ends"
TALLY_TESTS = "tests/runtime/journal/test_tally.py"
GROUPS = "tests/runtime/journal/test_groups.py"
READ_QUEUE = "tests/runtime/journal/test_read_queue.py"
FREE_PAGES = "tests/runtime/journal/test_free_pages.py"
FOLLOWING = "tests/runtime/journal/test_following.py"


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


BY_A2A = (
    (
        "a word decides beside the extension for approvals",
        Edit("gateway.a2a.message_delivery:Delivery.decisions", "self._caller.hitl", "False"),
        A2A_TASKS,
    ),
    (
        "a word decides the first of two questions",
        Edit("gateway.a2a.task_answer:decision_in_words", "len(pending) != 1", "not pending"),
        A2A_TASKS,
    ),
    (
        "a word decides beside data",
        Edit("gateway.a2a.task_answer:words_of", "len(texts) != len(message.parts)", "False"),
        A2A_ANSWERS,
    ),
    (
        "an answer to a form of kagent's tool is consent to a call",
        Words("gateway.a2a.task_answer:decision_in_words", " if more.keys() <= _REASON:", ":"),
        A2A_ANSWERS,
    ),
    (
        "a key that brought an answer is forgotten",
        Edit("gateway.a2a.message_delivery:Delivery.decisions", "log.decided.get(self.key, ())", "()"),
        A2A_MESSAGES,
    ),
    (
        "a list of answers is carried out up to a bad one",
        Edit("gateway.a2a.message_delivery:Delivery._decide", "ids if len(ids) > 1 else ()", "()"),
        A2A_LATE,
    ),
    (
        "a task that has ended takes answers to another task",
        Edit("gateway.a2a.message_delivery:Delivery.decisions", "named.keys() - of_another", "named.keys()"),
        A2A_LATE,
    ),
    (
        "a stream repeats the events of its snapshot",
        Edit("gateway.a2a.task_server:TaskServer._follow", "entry.seq <= read.last_seq", "False"),
        A2A_STREAMS,
    ),
    (
        "a notification goes to a private address",
        Edit(
            "actors.common.post_address:is_allowed",
            "reach == 'public' or (to_private and reach == 'private')",
            "reach != 'never'",
        ),
        PUSH_ADDRESSES,
    ),
    (
        "a notification goes to the credentials that a cloud serves outside the link-local range",
        Edit(
            "actors.common.post_address:reach_of", "any((meant in network for network in _METADATA))", "False"
        ),
        PUSH_ADDRESSES,
    ),
    (
        "a notification goes where one of several addresses is allowed",
        Edit("actors.common.bounded_post:Post.addresses", "all", "any"),
        PUSH_POSTS,
    ),
)
DELEGATED = (
    (
        "a call that was cut off is lost",
        Edit("actors.calls.lifecycle:_before_the_gate", "not sent.remote", "True"),
        REMOTE,
    ),
    (
        "a call that was cut off is followed without a token",
        Edit(
            "actors.calls.lifecycle:_next",
            """
            if judgement.lacks_token is not None:
                return AwaitCredential(judgement.lacks_token)
            """,
            "",
        ),
        STEPS,
    ),
    (
        "a lost message is sent again against the policy",
        Edit("actors.calls.lifecycle:_next", "may_send", "True"),
        STEPS,
    ),
    (
        "a lost message is sent again although it may not be",
        Edit("actors.a2a.exchange:Exchange._recover", "self._request.may_send", "True"),
        LOST_ANSWERS,
    ),
    (
        "a lost message is a new one",
        Edit("actors.calls.remote_exchange:RemoteExchange._request", "lost", "False"),
        killed(REMOTE, "delegated by a model, and tasks are found: by list"),
    ),
    (
        "an answer that was brought is not on record",
        Edit("actors.calls.dispatch:Dispatch.send", "brought_by_next(log, key)", "()"),
        REMOTE,
    ),
    (
        "an answer that was brought is not in the state",
        Edit("actors.log.fold.state:_start_attempt", "record.brought.update(event.brings)", ""),
        REMOTE,
    ),
    (
        "an answer is sent for a question that is not open",
        Edit(
            "actors.a2a.exchange:Exchange._still_wanted",
            "answers = [answer for answer in self._request.answers if answer.item.name in still_open]",
            """
            answers = self._request.answers
            still_open = {**latest, **still_open}
            """,
        ),
        LOST_ANSWERS,
    ),
    (
        "an answer is sent to a question that has changed",
        Edit(
            "actors.a2a.exchange:Exchange._still_wanted",
            "(each.shown or latest.get(each.item.name)) not in (None, still_open[each.item.name])",
            "(each.shown or latest.get(each.item.name)) in ()",
        ),
        CHANGED_QUESTIONS,
    ),
    (
        "a person is asked for a secret",
        Edit(
            "actors.a2a.exchange:_unaskable",
            "None if item.schema is None else asks_for_secret(item.schema)",
            "None",
        ),
        CHANGED_QUESTIONS,
    ),
    (
        "a question that is not shown whole is approved",
        Edit(
            "actors.approvals.proxy_approval:ProxyQuestion.decision_in",
            "pending and decision.agrees and (self.unshown is not None)",
            "pending and False",
        ),
        "tests/actors/calls/test_changed_remote_questions.py",
    ),
    (
        "an answer that is lost is not sent again",
        Edit(
            "actors.a2a.task_link:TaskLink._send_on",
            """
            if not waits(await self.read()):
                return None
            """,
            "return str(error)",
        ),
        LOST_ANSWERS,
    ),
    (
        "a question back is an approval",
        Edit("gateway.a2a.task_answer:_counts", "character not in '?¿？؟'", "True"),
        A2A_ANSWERS,
    ),
    (
        "a task asks for what is decided: the decision is in the inbox",
        Edit(
            "gateway.a2a.task_log:TaskLog._go_on",
            "self._current.status = Status('working', at, self._still_asked(f'{self.last_seq}'))",
            "pass",
        ),
        A2A_STREAMS,
    ),
    (
        "a stream begins with the task before the message",
        Edit("gateway.a2a.task_server:TaskServer.stream", "delivery.task in log.ids", "False"),
        A2A_STREAMS,
    ),
    (
        "whatever is true is a confirmation for ADK, and a word is one for Strands",
        Edit(
            "actors.a2a.foreign_questions:_agrees",
            "answer.words.get('approved') is True",
            "bool(answer.words.get('approved', True))",
        ),
        FOREIGN_QUESTIONS,
    ),
    (
        "an approval without an effect is a success",
        Edit(
            "actors.a2a.exchange:Exchange._outcome",
            "[item for item in self._answered if item.name in agreed]",
            "[]",
        ),
        FOREIGN_QUESTIONS,
    ),
    (
        "an answer that had no effect is not told",
        Edit(
            "actors.a2a.exchange:Exchange._asked_again",
            "{item.name: ASKED_AGAIN for item in items if item.digest in before}",
            "{}",
        ),
        FOREIGN_QUESTIONS,
    ),
    (
        "an answer that has arrived is thrown away",
        Edit("actors.a2a.task_link:TaskLink.read", "arrived is None", "True"),
        ARRIVED_ANSWERS,
    ),
    (
        "whatever has arrived is an answer",
        Edit(
            "actors.a2a.arrived:Arrived.at_rest",
            "self._status.state not in TERMINAL | INTERRUPTED",
            "False",
        ),
        ARRIVED_ANSWERS,
    ),
    (
        "a task that works on is begun anew",
        Words(
            "actors.a2a.exchange:Exchange._continue",
            'case "failed" | "canceled" | "rejected" if request.anew:\n                return',
            "case _ if request.anew:\n                return",
        ),
        LOST_ANSWERS,
    ),
    (
        "an expired question is an approval",
        Edit(
            "actors.approvals.proxy_approval:words_of",
            "{'approved': False, 'reason': NOT_IN_TIME}",
            "{'approved': True}",
        ),
        REMOTE,
    ),
    (
        "a question that is rejected ends nothing",
        Edit(
            "actors.log.fold.state:_settle_approval",
            "record.rejected = record.rejected or (isinstance(asked, ProxyQuestion) and decision.rejects)",
            "pass",
        ),
        REMOTE,
    ),
    (
        "whatever is true is a rejection in the called agent",
        Edit(
            "actors.a2a.remote_state:delegated",
            "task.metadata.get('rejected') is True",
            "task.metadata.get('rejected')",
        ),
        REMOTE_STATES,
    ),
    (
        "a word about a rejection in the called agent is one",
        Edit(
            "actors.a2a.remote_state:delegated",
            "task.metadata.get('rejected') is True",
            "'rejected' in task.metadata",
        ),
        REMOTE_STATES,
    ),
    (
        "whatever is true is an approval for the called agent",
        Edit(
            "actors.a2a.outgoing:_parts",
            "answer.words.get('approved') is True",
            "answer.words.get('approved')",
        ),
        "tests/actors/a2a/test_outgoing.py",
    ),
    (
        "the word false is true",
        Edit("actors.a2a.wire.fields:Fields.flag", "bool(found == 'true')", "True"),
        FIELD_TESTS,
    ),
    (
        "a flag is true if it is anything",
        Edit(
            "actors.a2a.wire.fields:Fields.flag",
            """
            match found:
                case None | bool():
                    return found
                case "true" | "false":
                    return bool(found == "true")
            """,
            """
            match found:
                case None | bool() | int():
                    return found and bool(found)
                case "true" | "false":
                    return bool(found == "true")
            """,
        ),
        FIELD_TESTS,
    ),
    (
        "a rejection in the called agent ends nothing",
        Edit("actors.log.fold.state:_apply_tool", "record.rejected = record.rejected or rejected", ""),
        REMOTE,
    ),
    (
        "the task of a call is not on record",
        Edit(
            "actors.calls.remote_exchange:RemoteExchange._new_task",
            "self._task is None or record is None or record.remote == self._task",
            "True",
        ),
        REMOTE,
    ),
    (
        "a task outlives its run",
        Edit("actors.conversation.commands:cancel_open", "not open_calls", "True"),
        REMOTE,
    ),
    (
        "the task of a cancelled run is not cancelled",
        Edit(
            "actors.calls.remote_exchange:RemoteExchange._end_when_cancelled",
            "waits and self._task is not None",
            "False",
        ),
        REMOTE,
    ),
    (
        "a token is sent to an agent without forward_bearer",
        Edit("actors.tools.registry:bearer_for", "server.forwards_bearer", "True"),
        REMOTE,
    ),
    (
        "a relay decides with a word",
        Edit(
            "gateway.a2a.message_delivery:Delivery.decisions",
            "(principal := self._agent.principal) is not None and relays(principal)",
            "False",
        ),
        "tests/gateway/a2a/test_owners.py",
    ),
    (
        "notifications are sent after their credential has ended",
        Edit("gateway.a2a.push:PushNotifier._deliver", "hook.by.lifetime.has_ended", "False"),
        "tests/gateway/a2a/test_owners.py",
    ),
    (
        "a token goes out with a decision that is refused",
        Edit(
            "actors.agent.agent:Agent.decide",
            "await guard.check_approval('decide', await self.approval(id))",
            "pass",
        ),
        APPROVERS_TOKENS,
    ),
    (
        "a message lends its token to the run of another principal",
        Edit(
            "actors.conversation.commands:Commands._reply_to_waiting",
            "(each for each in waiting if each.by == self._log.run.started.by)",
            "waiting",
        ),
        "tests/actors/conversation/test_credentials.py",
    ),
    (
        "a credential is sent to every server as a token",
        Edit("actors.tools.tokens:Token.for_server", "self.servers is None or name in self.servers", "True"),
        "tests/actors/conversation/test_credentials.py",
    ),
    (
        "the card of an agent may lead anywhere",
        Edit(
            "actors.a2a.agent_link:AgentLink._discover",
            "self.config.origins",
            "[origin_of(each.url) for each in card.interfaces]",
        ),
        CARD_ELSEWHERE,
    ),
    (
        "an interface elsewhere is as good as another",
        Edit("actors.a2a.wire.card_reader:usable", "not each.url or origin_of(each.url) in allowed", "True"),
        CARDS,
    ),
    (
        "an interface that is moved keeps its origin",
        Edit("actors.a2a.wire.card_reader:moved", "_root(configured)", "_root(interface.url)"),
        CARDS,
    ),
    (
        "the card of another service is called at the configured origin",
        Edit(
            "actors.a2a.wire.card_reader:moved",
            """
            if _means_another_service(interface.url, configured):
                return ()
            """,
            "",
        ),
        CARDS,
    ),
    (
        "a message may come round",
        Edit("gateway.a2a.origin:origin_of", "own_id in visited", "False"),
        A2A_ORIGINS,
    ),
    (
        "a message may come through any number",
        Edit("gateway.a2a.origin:origin_of", "len(visited) >= MOST_HOPS", "False"),
        A2A_ORIGINS,
    ),
    (
        "an answer that is refused is the end of the question",
        Edit("actors.calls.proxies:_next_number", "last not in record.brought", "True"),
        REMOTE,
    ),
    (
        "a question is put at every look",
        Edit("actors.calls.proxies:_next_number", "last is not None and last not in record.brought", "False"),
        REMOTE,
    ),
    (
        "a question decided elsewhere stays open here",
        Edit(
            "actors.workers.remote_questions:RemoteQuestions.look",
            "None if why is None else Withdraw(approval.id, why)",
            "None",
        ),
        undisturbed(REMOTE, "a question that is decided elsewhere"),
    ),
    (
        "a question that is asked no more stays open here",
        Edit(
            "actors.calls.call_end:_is_answered",
            "asked.item.name not in {item.name for item in items}",
            "False",
        ),
        REMOTE,
    ),
    (
        "questions of an agent below a parallel node are not put",
        Edit(
            "actors.calls.proxies:ProxyQuestions.put_and_wait",
            """
            if new:
                await log.put(*new)
            """,
            """
            if new and (not self.scope.policy_scope.in_parallel):
                await log.put(*new)
            """,
        ),
        REMOTE,
    ),
    (
        "a message is another one in every life",
        Edit(
            "actors.calls.remote_exchange:RemoteExchange._request",
            "f'{log.state.id}/{log.run.id}/{self._key}/{self._attempt}'",
            "f'{log.state.id}/{log.run.id}/{self._key}/{self._attempt}/{id(self)}'",
        ),
        REMOTE,
    ),
)
HALTED = (
    (
        "a halt is forgotten by a restart",
        Edit("actors.agent.supervisor:_start", "await notes.follow(halt.NOTE, halts.apply)", ""),
        HALTS,
    ),
    (
        "a note that cannot be read is no halt",
        Edit("actors.gate.halt:Halts._read", "True", "False"),
        HALTS,
    ),
    (
        "an intent is committed although the agent is halted",
        Edit("actors.calls.dispatch:Dispatch.send", "departure.may_leave", "lambda: True"),
        HALTS,
    ),
    (
        "a halt is acknowledged before the last intent is on disk",
        Edit("actors.gate.halt:Halts._departed", "await departure.committed.wait()", "pass"),
        HALTS,
    ),
    (
        "a committed call leaves after a halt",
        Edit("actors.gate.halt:Departure.leave", "not self.may_leave()", "False"),
        HALTS,
    ),
    (
        "a call that was decided before a halt leaves after it",
        Edit("actors.calls.dispatch:Dispatch.send", "None if step.held else halt", "halts.latest"),
        HALTS,
    ),
    (
        "new calls leave while the agent is halted",
        Edit("actors.gate.halt:Halt.lapses", "self.stands", "False"),
        STEPS,
    ),
    (
        "an approval outlives a halt",
        Edit(
            "actors.calls.lifecycle:_is_held",
            "local.halt.lapses(max(agreed, default=local.halt.number))",
            "local.halt.stands",
        ),
        STEPS,
    ),
    (
        "a retry outlives a halt",
        Edit(
            "actors.calls.recorded:_agreed",
            "[run.asked.get(keys.outcome(key, last)), *brought_by_next(log, key)]",
            "[*brought_by_next(log, key)]",
        ),
        HALTS,
    ),
    (
        "an approval of another agent's question outlives a halt",
        Edit(
            "actors.calls.recorded:_agreed",
            "[run.asked.get(keys.outcome(key, last)), *brought_by_next(log, key)]",
            "[run.asked.get(keys.outcome(key, last))]",
        ),
        HALTED_QUESTIONS,
    ),
    (
        "an accepted form outlives a halt",
        Edit("actors.calls.recorded:_agreed", "ids.extend", "list"),
        HALTED_QUESTIONS,
    ),
    (
        "a call in flight gets an acceptance from before a halt",
        Edit("actors.calls.elicitations:ElicitationAsker.ask", "acts", "False"),
        HALTED_QUESTIONS,
    ),
    (
        "an approval is accepted while the agent is halted",
        Edit("actors.agent.agent:Agent.decide", "await refuse_if_halted(question, decided, services)", ""),
        HALTED_QUESTIONS,
    ),
    (
        "a decision does not say how many halts were before it",
        Edit("actors.agent.agent:Agent.decide", "adds |= {'halts': halts} if halts else {}", "pass"),
        HALTS,
    ),
    (
        "a rejection is not delivered while the agent is halted",
        Edit("actors.calls.lifecycle:_at_the_gate", "not _only_refuses(sent)", "True"),
        STEPS,
    ),
    (
        "an approval is delivered with a rejection while the agent is halted",
        Edit("actors.calls.lifecycle:_only_refuses", "sent.agreed is None", "True"),
        STEPS,
    ),
    (
        "a message to an agent leaves while this one is halted",
        Edit("actors.a2a.exchange:Exchange._send_first", "not self._request.may_leave()", "False"),
        LOST_ANSWERS,
    ),
    (
        "an approval or a token reaches an agent while this one is halted",
        Edit("actors.a2a.task_link:TaskLink._send_on", "agrees and (not self.request.may_leave())", "False"),
        LOST_ANSWERS,
    ),
    (
        "a refusal is an approval for a halt",
        Edit("actors.calls.proxies:answers_in", "decision.agrees", "True"),
        HALTED_QUESTIONS,
    ),
    (
        "a repeated request ends another halt",
        Edit("actors.gate.halt:Halts._stored", "command in keys", "False"),
        HALTS,
    ),
)
VOTES = "tests/actors/approvals/test_voting.py"
VOTED = (
    (
        "votes about other arguments count",
        Edit("runtime.journal.vote:outcome", "each.subject == vote.subject", "True"),
    ),
    (
        "a person has several votes",
        Edit("runtime.journal.vote:outcome", "not is_same_name(each.voter, vote.voter)", "True"),
    ),
    (
        "the vote of a revoked credential counts",
        Edit("runtime.journal.vote:outcome", "each.credential not in vote.lapsed", "True"),
    ),
    (
        "a vote is for what its voter was not shown",
        Edit("runtime.journal.vote:outcome", "asked.votes[-1].subject != vote.shown", "False"),
    ),
    (
        "the requester approves",
        Edit("actors.approvals.voting:_entitled", "is_same_name(requester, principal.id)", "False"),
    ),
    (
        "who uses a shared key approves",
        Edit("actors.approvals.voting:_entitled", "requester.startswith(KEY_PREFIX)", "False"),
    ),
    (
        "who uses a relay approves",
        Edit(
            "actors.run.scopes:RunScope.occasion",
            "None if run.started.program else run.started.by",
            "run.started.by",
        ),
    ),
    ("a program votes", Edit("actors.access.principal:Principal.is_known_person", "self.is_person", "True")),
    (
        "a relay votes",
        Edit("actors.access.principal:Principal.is_known_person", "not self.has('relay')", "True"),
    ),
    (
        "every approver may approve",
        Edit("actors.approvals.voting:vote_of", "principal.names.isdisjoint(requires.approvers)", "False"),
    ),
    (
        "a weaker approval is enough",
        Edit("actors.calls.lifecycle:_passes", "_is_met(judgement, approved)", "True"),
    ),
)
RESPOND = "tests/actors/approvals/test_respond.py"
ANSWERED = (
    (
        "an answered call is sent",
        Edit(
            "actors.calls.lifecycle:_next",
            "approvals[-1].state in _UNSENT",
            "approvals[-1].state in ('rejected', 'expired')",
        ),
        STEPS,
    ),
    (
        "an answer in place of a call is a rejection",
        Edit("actors.approvals.yes_or_no:Respond", "('action', 'respond')", "('approved', False)"),
        RESPOND,
    ),
    (
        "an answer needs no right to approve",
        Edit(
            "actors.approvals.voting:vote_of",
            "is_yes(decision) or isinstance(decision, Respond)",
            "is_yes(decision)",
        ),
        RESPOND,
    ),
    (
        "a text stands for the result of a call that was sent",
        Edit("actors.approvals.tool_approval:ToolQuestion.decision_in", "self.was_sent", "False"),
        RESPOND,
    ),
    (
        "a question does not know that its call was sent",
        Edit(
            "actors.calls.questions:Questions._about_call",
            "self.scope.log.run.calls[self.key].started is not None",
            "False",
        ),
        RESPOND,
    ),
    (
        "a yes with an answer runs the call",
        Edit(
            "actors.approvals.tool_approval:ToolQuestion._parse",
            "check_fields(words, (*YesOrNo.field_names, *COMMON), 'this decision')",
            "pass",
        ),
        RESPOND,
    ),
)
ONE_EDIT = (
    (
        "a rejected call is asked about again in its turn",
        Words("actors.calls.repeated:repetition", "if not (ids :=", "if (ids :="),
        REPEATED,
    ),
    (
        "a rejected call is repeated without end",
        Edit("actors.calls.repeated:repetition", "each.repeats in ids", "False"),
        REPEATED,
    ),
    (
        "a rejection counts for other arguments",
        Edit("actors.calls.repeated:_about", "same(dump(given), wanted)", "True"),
        REPEATED,
    ),
    (
        "a repetition in one iteration ends the run in the next",
        Edit("actors.calls.repeated:repetition", "keys.node_of(other) == keys.node_of(key)", "True"),
        REPEATED,
    ),
    (
        "a later failure undoes the rejection of a repeated call",
        Edit("actors.nodes.child:_rejections", "record.repeats is not None", "False"),
        REJECTION,
    ),
    (
        "a later failure undoes a rejection at the called agent",
        Edit("actors.nodes.child:_rejections", "record.rejected", "False"),
        REJECTION,
    ),
    (
        "a rejection at the called agent is not that of the run",
        Edit("actors.log.fold.head:advance", "head.run and head.run._replace(rejected=True)", "head.run"),
        REJECTION,
    ),
    (
        "a rejection counts in its own node only",
        Edit(
            "actors.calls.repeated:repetition",
            "each.asked.key in rejected",
            "each.asked.key in rejected and each.asked.key.rpartition(':')[0] == key.rpartition(':')[0]",
        ),
        REPEATED,
    ),
    (
        "a person is not asked about a call edited into a rejected one",
        Edit(
            "actors.calls.repeated:repetition",
            "any((each.asked.key == key for each in questions))",
            "False",
        ),
        REPEATED,
    ),
    (
        "an edited call that was rejected is asked about again as edited",
        Edit(
            "actors.calls.repeated:_about",
            "(asked.tool_args, each.shown.tool_args)",
            "(asked.tool_args,) if asked.question.endswith('~0') else ()",
        ),
        REPEATED,
    ),
    (
        "a repetition of a rejected call is lost in a restart",
        Edit("actors.log.fold.state:_apply_step", "run.calls[event.key].repeats = repeats", "pass"),
        REPEATED,
    ),
    (
        "a call rejected in an earlier turn looks new",
        Edit(
            "actors.calls.questions:Questions._about_call",
            "self._rejected_before(found.tool, step.arguments)",
            "None",
        ),
        REPEATED,
    ),
    (
        "a tool that the provider refuses fails each turn",
        Edit("actors.models.providers.model:_try_repeatedly", "named and rounds < MAX_ROUNDS", "False"),
        f"{REFUSED_TOOLS}::test_turn_goes_on_without_the_named_tool_and_says_so",
    ),
    (
        "a refused tool costs a request in each turn",
        Edit("actors.models.providers.model:_try_repeatedly", "refused.remember(left_out)", ""),
        f"{REFUSED_TOOLS}::test_turn_goes_on_without_the_named_tool_and_says_so",
    ),
    (
        "a page of conversations has all messages at once",
        Edit("actors.agent.lists:conversation_page", "left <= 0", "False"),
        "tests/actors/conversation/test_page_bounds.py",
    ),
    (
        "a key that a provider quotes is stored",
        Edit("actors.models.providers.key_mask:masked", "mask.reply(await ask(deltas))", "await ask(deltas)"),
        "tests/actors/models/providers/test_key_mask.py",
    ),
    (
        "a misspelled argument of a rule does not prevent the start",
        Edit("actors.gate.review:_unknown_arguments", "is_sure", "False"),
        "tests/actors/gate/test_review.py",
    ),
    (
        "a pattern ends before a line break",
        Edit("config.text.expressions:end_of_text", "'\\\\Z'", "part[0]"),
        "tests/config/test_expressions.py",
    ),
    (
        "arguments whose check takes too long are accepted",
        Edit(
            "actors.arguments.arguments:CheckedArguments.fit",
            "isinstance(error, Unfinished) or await _is_applicable(ready.checker)",
            "await _is_applicable(ready.checker) and (not isinstance(error, Unfinished))",
        ),
        f"{ARGUMENTS}::test_arguments_whose_check_takes_too_long_are_refused_and_the_next_ones_checked",
    ),
    (
        "arguments that the schema cannot be applied to are accepted",
        Edit(
            "actors.arguments.arguments:CheckedArguments.fit", "await _is_applicable(ready.checker)", "False"
        ),
        f"{ARGUMENTS}::test_arguments_that_cannot_be_checked_are_refused",
    ),
    (
        "a router takes another route after a search was given up",
        Edit("actors.nodes.router:first_route", "searches.exceeded", "False"),
        ROUTER_TESTS,
    ),
    (
        "arguments are checked against the schema as the server sent it",
        Edit("actors.arguments.json_schema:Checker.__init__", "valid.schema", "schema"),
        "tests/actors/tools/test_json_schema.py::test_a_broken_part_is_not_checked_and_the_rest_is",
    ),
    (
        "a rejection ends one sequential alone",
        Edit(
            "actors.nodes.sequential:sequential.behaviour.run",
            "end.rejected and spec.on_reject == 'end'",
            "False",
        ),
        seed(107),
    ),
    (
        "a rejection is not contained by a sequential",
        Edit("actors.nodes.sequential:sequential.behaviour.run", "spec.on_reject == 'end'", "True"),
        REJECTION,
    ),
    (
        "a rejection ends one loop alone",
        Edit("actors.nodes.loop:loop.behaviour.run", "end.rejected and spec.on_reject == 'end'", "False"),
        REJECTION,
    ),
    (
        "a rejection is not contained by a loop",
        Edit("actors.nodes.loop:loop.behaviour.run", "spec.on_reject == 'end'", "True"),
        REJECTION,
    ),
    (
        "strict defaults let calls run",
        Edit(
            "config.sections.approval:ApprovalConfig.action",
            "'ask' if self.defaults == 'strict' else 'run'",
            '"run"',
        ),
        GATE_TESTS,
    ),
    (
        "a key without a value means its default",
        Edit(
            "config.reading.reader:Reader._means_default",
            "key.may_be_blank or (self._may_be_empty and key.is_collection)",
            "key.is_collection",
        ),
        "tests/config/test_empty.py",
    ),
    (
        "an empty list or mapping is accepted",
        Edit(
            "config.described.shape:Key.needs_content", "return self.about.empty == 'refused'", "return False"
        ),
        "tests/config/test_empty.py",
    ),
    (
        "a strict start is not refused",
        Edit("gateway.serve_process:_bound", "not each.by_rule", "False"),
        "tests/gateway/test_cli.py::test_strict_start_is_refused_if_a_setting_lets_harm_run",
    ),
    (
        "a rejection ends no loop",
        Edit(
            "actors.gate.gate:child_scope",
            "'in order' in runs",
            "runs == ('in order',)",
        ),
        seed(106),
    ),
    (
        "a rejection ends nothing above a parallel",
        Edit("actors.nodes.parallel:parallel.behaviour.run", "any((end.rejected for end in ends))", "False"),
        REJECTION,
    ),
    (
        "a rejection at a checkpoint ends nothing",
        Edit("actors.nodes.checkpoint:checkpoint.behaviour.run", "no", "False"),
        REJECTION,
    ),
    (
        "a rejection is not in the record of a node",
        Edit(
            "actors.nodes.child:_Attempts.work",
            "self._with_output(error)",
            "attrs.evolve(self._with_output(error), rejected=False)",
        ),
        f"{TREES}::test_a_rejection_killed_once",
    ),
    (
        "a failure cancels a rejection",
        Edit(
            "actors.nodes.child:_Attempts._rejection",
            "rejection(self.scope, self.spec, self.message, key)",
            "None",
        ),
        REJECTION,
    ),
    (
        "an attempt follows a rejection that came meanwhile",
        Edit("actors.nodes.child:_Attempts._record_failure", "self._rejection(key) is None", "True"),
        f"{REJECTION}::test_rejection_while_the_failure_of_an_attempt_is_being_saved",
    ),
    (
        "a model hears of a failure that is not on disk",
        Edit("actors.log.writer.step:_save", "await log.flush()", ""),
        "tests/actors/log/test_write_behind.py::test_failure_is_on_disk_before_a_model_hears_of_it",
    ),
    (
        "a branch starts after a rejection",
        Edit("actors.nodes.parallel:_branch", "ends", "False"),
        f"{REJECTION}::test_queued_branch_does_not_start_after_rejection",
    ),
    (
        "an expiry fails the node alone",
        Edit(
            "actors.calls.runner:CallRunner.run",
            "NodeFailed('approval_expired', text, fatal=True)",
            "NodeFailed('approval_expired', text)",
        ),
        EXPIRY,
    ),
    (
        "names: a tool may have the name of another server's tool",
        Edit(
            "actors.tools.catalogue:_named",
            "seems_prefixed(tool.own_name) or plain_name(tool.own_name) in others",
            "False",
        ),
        TOOL_NAMES,
    ),
    (
        "names: a misleading name is shown",
        Edit("actors.tools.catalogue:_name", "tool.misleading", "False"),
        TOOL_NAMES,
    ),
    (
        "names: rules go by misleading names",
        Edit("actors.tools.tool:Tool.names", "None if self.misleading else self.own_name", "self.own_name"),
        TOOL_NAMES,
    ),
    (
        "names: there is no warning about misleading names",
        Edit("actors.gate.review:_misleading", "tool.misleading", "False"),
        REVIEW,
    ),
    (
        "names: a rule may run tools of any server",
        Edit("actors.gate.review:_several_servers", "len(servers) > 1", "False"),
        REVIEW,
    ),
    (
        "names: a prefixed name means a tool while models see that",
        Edit("actors.tools.tool:Tool.names_for", "not pattern.startswith(PREFIX)", "True"),
        TOOL_NAMES,
    ),
    (
        "names: exclude compares own names only",
        Edit("actors.tools.catalogue:admits", "(name, plain_name(name))", "(name,)"),
        TOOL_NAMES,
    ),
    (
        "hints: names that change with another server's tools are not stored",
        Edit("actors.tools.registry:_Book._take", "offers.items()", "((server, tools),)"),
        HINTS,
    ),
    (
        "hints: a tool of a server that is one tool is known by a plain name too",
        Edit(
            "actors.tools.known:_keys",
            "tool.own_name if tool.facade is not None else tool.name",
            "tool.own_name.replace('.', '_') if tool.facade is not None else tool.name",
        ),
        HINTS,
    ),
    (
        "hints: of two tools that are known by one name the last one counts",
        Edit("actors.tools.known:KnownTools._new", "stricter_hints(new[key], kept)", "kept"),
        HINTS,
    ),
    (
        "an expiry ends nothing",
        Edit("actors.calls.runner:end_of", "('rejected', 'expired')", "('rejected',)"),
        REJECTION,
    ),
    (
        "an expiry is not told first",
        Edit("actors.log.fold.head:_rejects", "Expired(on_expiry=on_expiry).rejects", "False"),
        REJECTION,
    ),
    (
        "a run that went on after a rejection ends",
        Edit("actors.nodes.llm:_Llm.execute", "stop.rejected", "False"),
        REJECTION,
    ),
    (
        "the calls of a reply ask in any order",
        Edit("actors.calls.runner:CallRunner._perform", "isinstance(step, Ask | AskOutcome)", "False"),
        ORDER,
    ),
    (
        "the calls of a reply ask in any order after a crash",
        Edit(
            "actors.calls.runner:CallRunner._perform",
            "isinstance(step, Ask | AskOutcome)",
            "isinstance(step, Ask)",
        ),
        killed(MATRIX, "a reply with three calls that ask"),
    ),
    (
        "a call that runs holds questions back",
        Edit("actors.calls.runner:CallRunner._send", "self.position.leave()", ""),
        ORDER,
    ),
    (
        "an edit that comes while the call is judged is forgotten",
        Edit("actors.calls.runner:CallRunner._carry_out", "(record, approvals) == now", "True"),
        "tests/actors/gate/test_asking.py",
    ),
    (
        "a call that needs a token holds questions back",
        Edit("actors.calls.call_judge:CallJudge._resolve", "self.position.leave()", ""),
        ORDER,
    ),
    (
        "a check holds questions back for ever",
        Edit("actors.calls.ask_order:PATIENCE", "0.25", "1000000.0"),
        ORDER,
    ),
    ("a check holds no question back", Edit("actors.calls.ask_order:PATIENCE", "0.25", "1e-06"), ORDER),
    (
        "a decision for a branch without slot is not answered",
        Edit(
            "actors.log.writer.log:ConversationLog._notify",
            "self.branches.check_blocked()",
            "",
        ),
        LOG_TESTS,
    ),
    (
        "while a save waits: a decision moves on a run that has begun to wait",
        Edit(
            "actors.conversation.commands:ApprovalCommands._settle.unchanged",
            "id in now.pending and now.run is not None and (now.run.state == state)",
            "id in now.pending",
        ),
        SLOW_SAVES,
    ),
    (
        "while a save waits: a void approval expires",
        Edit(
            "actors.conversation.commands:ApprovalCommands._settle.unchanged",
            "id in now.pending",
            "True",
        ),
        SLOW_SAVES,
    ),
    (
        "while a save waits: an expired approval is voided with its run",
        Edit(
            "actors.conversation.run:close",
            "(log.state.head.pending, tuple(run.unreplied)) == (pending, unreplied)",
            "tuple(run.unreplied) == unreplied",
        ),
        SLOW_SAVES,
    ),
    (
        "while a save waits: an answered sender gets the end of the run",
        Edit(
            "actors.conversation.run:close",
            "(log.state.head.pending, tuple(run.unreplied)) == (pending, unreplied)",
            "log.state.head.pending == pending",
        ),
        SLOW_SAVES,
    ),
    (
        "while a save waits: an expired approval is replaced",
        Words("actors.log.writer.void:replace", "        when=partial(_pending, log, [old]),\n", ""),
        LOG_TESTS,
    ),
    (
        "while a save waits: an expired approval is voided",
        Edit("actors.log.writer.void:_is_unchanged", "_pending(log, approvals)", "True"),
        LOG_TESTS,
    ),
    (
        "while a save waits: a resumed run stays recorded as waiting",
        Edit("actors.log.writer.void:_is_unchanged", "(now and now.state) == (run and run.state)", "True"),
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

AUTHENTICATED: tuple[tuple[str, Edit, str], ...] = (
    (
        "a route is public by default",
        Edit("gateway.http.quart_app:Application._view", "id in self._public", "id not in self._public"),
        EACH_ROUTE,
    ),
    (
        "websockets need no credential",
        Edit("gateway.http.quart_app:Application._serve_socket", "self._entrance is None", "True"),
        EACH_ROUTE,
    ),
    (
        "event streams outlive their credential",
        Edit(
            "gateway.http.quart_app:Application._view",
            "reply.body.end_with(identity.lifetime.ended)",
            "pass",
        ),
        f"{ENTRANCE}::test_event_streams_end_with_the_credential",
    ),
    (
        "websockets outlive their credential",
        Edit(
            "gateway.http.web_socket:serve_until_ended",
            "nursery.start_soon(cancel_when, lifetime.ended, nursery.cancel_scope)",
            "",
        ),
        f"{ENTRANCE}::test_websockets_end_with_the_credential",
    ),
    (
        "the secret of a key does not matter",
        Edit("gateway.auth.api_keys:ApiKeys.verify", "not is_equal", "False"),
        f"{API_KEYS}::test_invalid_keys_get_one_answer",
    ),
    (
        "keys do not expire",
        Edit("gateway.auth.api_keys:ApiKeys.verify", "not key.stored.is_live(self.wall_clock())", "False"),
        f"{API_KEYS}::test_invalid_keys_get_one_answer",
    ),
    (
        "revoked keys count until the restart",
        Edit("gateway.auth.api_keys:ApiKeys.replace", "self._live = live", "self._live = {**before, **live}"),
        f"{API_KEYS}::test_changes_count_without_a_restart",
    ),
    (
        "old keys count if the file is unreadable",
        Edit("gateway.auth.api_keys:ApiKeys.poll", "state, stored = (str(error), ())", "return"),
        f"{API_KEYS}::test_a_file_that_cannot_be_used_refuses_all_keys",
    ),
    (
        "other users may write the file of the keys",
        Edit("gateway.auth.key_file:check_mode", "found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)", "False"),
        f"{API_KEYS}::test_a_file_that_cannot_be_used_refuses_all_keys[open_to_the_group]",
    ),
    (
        "an API key is a token for tools",
        Edit(
            "gateway.auth.chosen_credential:choose",
            "is_key or not forward_credential",
            "not is_key and (not forward_credential)",
        ),
        FROM_CREDENTIAL,
    ),
    (
        "the authorization of a proxy is a token for tools",
        Edit("gateway.auth.chosen_credential:choose", "'proxy' in presented", "False"),
        FROM_CREDENTIAL,
    ),
    (
        "a cursor can be used by others",
        Edit(
            "actors.common.store_secret:_about",
            "[listing.encode(), by.encode(errors='surrogatepass')]",
            "[listing.encode()]",
        ),
        "tests/actors/common/test_store_secret.py",
    ),
    (
        "a cursor that anybody can write tells positions",
        Edit(
            "actors.agent.agent_reads:AgentReads._unsealed",
            "self.principal is not None and (not may(self.principal, 'read'))",
            "False",
        ),
        NAMES_OF_OTHERS,
    ),
    (
        "the id of a key is the same for all principals",
        Edit(
            "actors.agent.agent_reads:AgentReads.id_of",
            "self._cast.services.secret.id_of(self._by or '', *names)",
            "self._cast.services.secret.id_of(*names)",
        ),
        NAMES_OF_OTHERS,
    ),
    (
        "a principal lists what it had in an earlier role",
        Edit(
            "actors.agent.guard:Guard.among",
            "self.principal.id if reads_own(self.principal) else ''",
            "self.principal.id",
        ),
        "tests/actors/access/test_acting_as.py",
    ),
)
"""Name, file, old text, new text, test."""

MEMBERS = (
    (
        "members: a stream is claimed from a living owner",
        Edit(
            "runtime.journal.ownership:Owners.claim",
            "self._take(stream, member, claim) if owner in (None, member) else Owned(str(owner))",
            "self._take(stream, member, claim)",
        ),
        (OTHER_MEMBERS,),
    ),
    (
        "members: a paused process sends after its lease has run out",
        Edit("actors.gate.halt:Departure.check_lease", "not self._owns()", "False"),
        (OTHER_MEMBERS,),
    ),
    (
        "members: a process saves after its lease has run out",
        Edit("actors.log.writer.tenure:Tenure.write.attempt", "self._lease.check()", "self._term"),
        (OTHER_MEMBERS,),
    ),
    (
        "members: a late renewal hides that the lease had run out",
        Edit("runtime.journal.lease:Lease.renew", "not self.owns", "False"),
        (OTHER_MEMBERS,),
    ),
    (
        "members: the lease does not count the time of a pause",
        Edit("runtime.journal.lease:boot_clock", "time.CLOCK_BOOTTIME", "time.CLOCK_THREAD_CPUTIME_ID"),
        ("tests/runtime/journal/test_lease.py",),
    ),
    (
        "members: the lease is reckoned from the answer",
        Edit("runtime.journal.lease:Lease.renew", "began", "self._clock()"),
        ("tests/runtime/journal/test_lease.py",),
    ),
    (
        "members: a request does not claim its stream",
        Edit(
            "runtime.journal.memory.memory_journal:MemoryJournal._follow",
            "self._owners.follow(kept.name, self.member, self._wall(), self._claim(kept), at_rest=at_rest)",
            """
            False and self._owners.follow(
                kept.name, self.member, self._wall(), self._claim(kept), at_rest=at_rest
            )
            """,
        ),
        (OTHER_MEMBERS,),
    ),
    (
        "members: a request takes a stream whose work is moving",
        Edit("runtime.journal.ownership:Owners.follow", "at_rest or self.owner(stream, now) is None", "True"),
        ("tests/runtime/journal/test_following.py",),
    ),
    (
        "members: a command waits for a newer member that does not live",
        Edit("runtime.journal.local_member:LocalMember._check_version", "demands > self._newest", "False"),
        ("tests/runtime/journal/test_ownership.py",),
    ),
    (
        "members: an agent with a directory has no version",
        Edit(
            "runtime.stores.open_journal:open_journal",
            "open_sqlite(address, wall=wall, on_commit=on_commit, version=version, cache=cache)",
            "open_sqlite(address, wall=wall, on_commit=on_commit, cache=cache)",
        ),
        ("tests/runtime/journal/test_transfer.py",),
    ),
    (
        "copies: the target is not compared",
        Edit("runtime.stores.transfer:copy_journal", "found.sums[table] != copied.sums[table]", "False"),
        ("tests/runtime/journal/test_transfer.py",),
    ),
    (
        "copies: an unfinished copy is the journal of the directory",
        Edit("runtime.journal.sqlite.whole_file:new_rows", "UNFINISHED", "FILE"),
        ("tests/runtime/journal/test_transfer.py",),
    ),
    (
        "copies: an unfinished copy stays",
        Edit("runtime.journal.sqlite.sqlite_journal:_open", "remove_unfinished(directory)", ""),
        ("tests/gateway/test_copy_interrupted.py",),
    ),
    (
        "copies: keys that were revoked since an earlier copy come back",
        Edit("gateway.cli.commands.key_copy:copy_with_keys", "(NOTE,)", "()"),
        ("tests/gateway/test_journal_command.py",),
    ),
    (
        "members: a stream with open commands is released",
        Edit(
            "runtime.journal.memory.memory_journal:MemoryJournal.release",
            "any((each.key not in leave for each in kept.waiting()))",
            "False",
        ),
        ("tests/runtime/journal/test_ownership.py",),
    ),
    (
        "members: a sender without its token here is answered at once",
        Edit(
            "actors.conversation.run:_to_reply_to",
            "(key for key in unreplied if log.sent_elsewhere.get(key) not in living)",
            "(key for key in unreplied)",
        ),
        (OTHER_MEMBERS,),
    ),
    (
        "members: the member that has the token does not resume the run",
        Edit(
            "actors.conversation.commands:Commands._resume_with_token",
            "wanted.status is None and is_new and (not found <= self._tried)",
            "False",
        ),
        (OTHER_MEMBERS,),
    ),
    (
        "members: a fenced activation counts as crashed",
        Edit("runtime.errors:ends_actor", "isinstance(error, EndsActor)", "False"),
        ("tests/runtime/test_virtual.py",),
    ),
    (
        "members: events of a stopped member are not published to watchers of all",
        Edit("actors.conversation.conversation:_serve", "await logs.relay.load(log)", ""),
        ("tests/actors/test_lost_members.py",),
    ),
    (
        "members: an unloaded conversation is no longer followed for watchers of all",
        Edit("actors.conversation.conversation:_unload", "services.logs.relay.unload(log)", "pass"),
        ("tests/actors/test_lost_members.py",),
    ),
    (
        "members: a delta that arrives before its events is lost",
        Edit("actors.agent.follow:follow", "early is not None and early.after == cursor", "False"),
        ("tests/actors/test_deltas_of_others.py",),
    ),
    (
        "members: deltas are given to requests without the key",
        Edit(
            "gateway.fleet.fleet_key:FleetKey.proof_for",
            """
            if not hmac.compare_digest(
                signature.encode(errors="replace"), signed.by(self._key, "request").encode()
            ):
                return None
            """,
            """
            if not hmac.compare_digest(
                signature.encode(errors="replace"), signed.by(self._key, "request").encode()
            ):
                pass
            """,
        ),
        ("tests/gateway/test_fleet_key.py",),
    ),
    (
        "members: a signature is taken twice",
        Edit("gateway.fleet.fleet_key:FleetKey.proof_for", "nonce in self._seen", "False"),
        ("tests/gateway/test_fleet_key.py",),
    ),
    (
        "members: deltas are taken from whoever answers",
        Edit(
            "gateway.fleet.delta_peers:DeltaPeers._read",
            "not is_proof(answer.headers.get(PROOF, ''), proof)",
            "False",
        ),
        ("tests/gateway/test_delta_peers.py",),
    ),
    (
        "members: watchers of all do not hear that hints were lost",
        Edit(
            "actors.workers.other_members:OtherMembers._listen",
            "hints.take_missed() or hint == HINTS_LOST",
            "False",
        ),
        ("tests/actors/test_lost_members.py",),
    ),
    (
        "members: a call that may be repeated fails with the lease",
        Edit("actors.calls.dispatch:Dispatch._call", "step.effect != 'once'", "False"),
        (OTHER_MEMBERS,),
    ),
    (
        "members: a halt is acknowledged before other members have seen it",
        Edit("actors.gate.halt:Halts.halt", "await self._confirmed(number)", ""),
        (SHARED_NOTES,),
    ),
    (
        "members: a halt is confirmed while an intent is being committed",
        Edit("actors.gate.halt:Halts.apply", "await self._departed()", ""),
        (SHARED_NOTES,),
    ),
    (
        "members: hints that another member has recorded are overwritten",
        Edit(
            "actors.tools.known:KnownTools._keep.keep",
            "self._journal.write_notes(kind_of(server), notes, at=at)",
            "self._journal.write_notes(kind_of(server), notes)",
        ),
        (SHARED_NOTES,),
    ),
    (
        "members: dollars that another member has added are overwritten",
        Edit(
            "actors.models.spending:Spending._save.save",
            "self._notes.write_notes(NOTE, notes, at=at)",
            "self._notes.write_notes(NOTE, notes)",
        ),
        (SHARED_NOTES,),
    ),
    (
        "members: lost hints are no gap for watchers of all",
        Edit("actors.workers.other_members:OtherMembers._listen", "hint == HINTS_LOST", "False"),
        (LOST_MEMBERS,),
    ),
    (
        "members: too many hints at a time are no gap for watchers of all",
        Edit("actors.workers.other_members:OtherMembers._listen", "hints.take_missed()", "False"),
        (LOST_MEMBERS,),
    ),
    (
        "members: a hint that could not be followed is no gap for watchers of all",
        Edit("actors.log.writer.relay:Relay.poll", "after is not None and id not in self._last", "False"),
        (LOST_MEMBERS,),
    ),
    (
        "members: a member that loads too late forgets the events of the other that it has published",
        Edit("actors.log.writer.relay:Relay.load", "last.seq <= log.committed_seq", "True"),
        ("tests/actors/test_watched_members.py",),
    ),
    (
        "members: a late hint about a conversation that moved is no gap",
        Edit(
            "actors.log.writer.relay:Relay.poll",
            "after is not None and after < self._unsure.get(id, 0)",
            "False",
        ),
        ("tests/actors/test_watched_members.py",),
    ),
    (
        "members: hints of a member that died are not missed",
        Edit("actors.workers.other_members:OtherMembers._notice_deaths", "self._living - living", "False"),
        ("tests/actors/test_watched_members.py",),
    ),
    (
        "members: a gap is filtered away",
        Edit(
            "actors.agent.agent_reads:AgentReads._watching.wants",
            """
            if isinstance(published, HaltState | Missed):
                return True
            """,
            """
            if isinstance(published, Missed):
                return False
            if isinstance(published, HaltState):
                return True
            """,
        ),
        (LOST_MEMBERS,),
    ),
    (
        "members: a watcher takes a gap for nothing",
        Edit(
            "actors.agent.watch:Watch.__anext__",
            """
            if self._live.take_missed() or isinstance(published, Missed):
                self._live.skip()
                return Gap()
            """,
            """
            if isinstance(published, Missed):
                continue
            if self._live.take_missed():
                self._live.skip()
                return Gap()
            """,
        ),
        (LOST_MEMBERS,),
    ),
    (
        "members: a poll tells of conversations that have not changed",
        Edit("actors.workers.other_members:OtherMembers._tell_news", "self._marks[id] != mark", "True"),
        (f"{OTHER_MEMBERS}::test_poll_reads_only_what_has_changed",),
    ),
    (
        "members: without hints, nothing is noticed",
        Edit("actors.workers.other_members:OtherMembers._tell_news", "self._marks[id] != mark", "False"),
        (f"{OTHER_MEMBERS}::test_commands_replies_and_deletions_are_noticed",),
    ),
    (
        "members: a reply is told of once",
        Edit("actors.workers.other_members:OtherMembers._tell_news", "topic in marks.answered", "False"),
        (f"{OTHER_MEMBERS}::test_reply_that_could_not_be_read_is_read_at_a_later_poll",),
    ),
    (
        "members: a poll forgets what the one before has told",
        Edit("actors.workers.other_members:OtherMembers._tell_news", "self._marks[id] = mark", ""),
        (f"{OTHER_MEMBERS}::test_poll_reads_only_what_has_changed",),
    ),
    (
        "postgres: hints that came while nobody listened are not told to be lost",
        Edit("runtime.journal.postgres.hints:HintChannel.listen", "self.bus.publish(TOPIC, HINTS_LOST)", ""),
        (HINT_TESTS,),
    ),
    (
        "postgres: the same, with a server",
        Edit("runtime.journal.postgres.hints:HintChannel.listen", "self.bus.publish(TOPIC, HINTS_LOST)", ""),
        (f"{PG_TESTS}::test_hints_come_again_after_a_connection_was_lost",),
    ),
    (
        "postgres: too many hints are not told to be lost",
        Edit("runtime.journal.postgres.hints:HintChannel.changed", "self._lost = True", "pass"),
        (HINT_TESTS,),
    ),
    (
        "postgres: a notification that failed is not told",
        Edit(
            "runtime.journal.postgres.hints:HintChannel.send",
            "self._lost, pause = (True, RETRY)",
            "pause = RETRY",
        ),
        (HINT_TESTS,),
    ),
    (
        "postgres: a notification that failed is told with the next change only",
        Edit("runtime.journal.postgres.hints:HintChannel.send", "self._wake.set()", ""),
        (HINT_TESTS,),
    ),
    (
        "postgres: the same, with a server that is away",
        Edit("runtime.journal.postgres.hints:HintChannel.send", "self._wake.set()", ""),
        (f"{PG_TESTS}::test_failed_notification_is_told_when_the_server_is_back",),
    ),
    (
        "members: another member is to blame for a slow store",
        Edit(
            "actors.workers.silent_members:SilentMembers.poll",
            "int(ends.get(self._own) != before.get(self._own))",
            "1",
        ),
        (SILENT_MEMBERS,),
    ),
    (
        "members: a request to a member that works is refused when another is silent",
        Edit(
            "actors.workers.other_members:OtherMembers._tell_senders",
            "owners.get(topic.conversation) in silent",
            "owners",
        ),
        (SILENT_MEMBERS,),
    ),
    (
        "members: a request waits for a silent member",
        Edit(
            "actors.workers.other_members:OtherMembers._tell_senders",
            "owners.get(topic.conversation) in silent",
            "False",
        ),
        (SILENT_MEMBERS,),
    ),
    (
        "members: a request waits at a member that is cut off",
        Edit(
            "actors.workers.other_members:OtherMembers._poll_members",
            "trio.current_time() - reached >= UNREACHED",
            "False",
        ),
        (SILENT_MEMBERS,),
    ),
    (
        "postgres: a cancelled operation begins when there is a connection at last",
        Edit("runtime.journal.postgres.pool:Pool._with_session", "not work.is_given_up", "True"),
        (f"{PG_TESTS}::test_operation_that_was_cancelled_before_it_had_a_connection_does_not_begin",),
    ),
    (
        "postgres: the outcome of a cancelled operation is lost",
        Edit("runtime.journal.postgres.pool:Awaited.patience", "POLL_EVERY if self.is_late else GRACE", "0"),
        (f"{PG_TESTS}::test_operation_that_has_begun_ends_soon_after_its_cancellation",),
    ),
    (
        "postgres: a suspended member keeps the lock of a stream",
        Words(
            "runtime.journal.postgres.pool:SETTINGS",
            "set_config('idle_in_transaction_session_timeout', '2s', false)",
            "set_config('idle_in_transaction_session_timeout', '0', false)",
        ),
        (f"{PG_TESTS}::test_member_that_is_suspended_in_a_transaction_keeps_no_stream_from_others",),
    ),
    (
        "postgres: lost hints are not in the notification",
        Edit(
            "runtime.journal.postgres.hints:HintChannel.send",
            "[*hints, HINTS_LOST] if self._lost else hints",
            "hints",
        ),
        (HINT_TESTS,),
    ),
    (
        "postgres: a connection that comes while it is given up stays open",
        Edit(
            "runtime.journal.postgres.pool:connected",
            """
            for db in made:
                db.close()
            """,
            "",
        ),
        ("tests/runtime/journal/test_hints.py",),
    ),
    (
        "postgres: hints that are lost during a notification are forgotten",
        Edit(
            "runtime.journal.postgres.hints:HintChannel.send",
            "await self._pool.run(notify)",
            """
            await self._pool.run(notify)
            self._lost = False
            """,
        ),
        (HINT_TESTS,),
    ),
    (
        "members: a stream with open commands is released, in SQLite",
        Edit(
            "runtime.journal.sqlite.sqlite_journal:SqliteJournal.release.release",
            "any((key not in leave for key in sql_inbox.open_keys(db, head.id)))",
            "False",
        ),
        (RELEASES,),
    ),
    (
        "postgres: a stream with open commands is released",
        Edit(
            "runtime.journal.postgres.owners:release",
            """
            (
                f"UPDATE stream SET node = NULL WHERE {_OWNED} AND NOT EXISTS (SELECT FROM inbox "
                "WHERE inbox.stream = stream.id AND open = 1 AND key <> ALL(%(leave)s::text[]))"
            )
            """,
            "f'UPDATE stream SET node = NULL WHERE {_OWNED}'",
        ),
        (f"{RELEASES}[postgres-message-ack]",),
    ),
    (
        "postgres: all commands are left behind by a release",
        Words(
            "runtime.journal.postgres.owners:release",
            "key <> ALL(%(leave)s::text[])",
            "key = ANY(%(leave)s::text[])",
        ),
        (f"{RELEASES}[postgres-decision-ack]",),
    ),
    (
        "postgres: a release is blind for the command that it waited for",
        Edit("runtime.journal.postgres.owners:release", "db.execute(_LOCK, values)", ""),
        (f"{PG_TESTS}::test_release_sees_the_command_that_it_waited_for",),
    ),
    (
        "postgres: a request takes a stream with open commands",
        Edit("runtime.journal.postgres.intake:_put", "not kept.kinds", "True"),
        (FOLLOWING,),
    ),
    (
        "postgres: a request takes a stream whose work is moving",
        Edit("runtime.journal.postgres.intake:_put", "kept.work != rows.OPEN", "True"),
        (FOLLOWING,),
    ),
    (
        "members: a request takes a stream with open commands",
        Edit(
            "runtime.journal.memory.memory_journal:MemoryJournal._follow", "len(kept.waiting()) == 1", "True"
        ),
        (FOLLOWING,),
    ),
    (
        "members: a request takes a stream with open commands, in SQLite",
        Edit(
            "runtime.journal.sqlite.sqlite_journal:SqliteJournal._put",
            "len(sql_inbox.waiting_kinds(db, head.id)) == 1",
            "True",
        ),
        (FOLLOWING,),
    ),
    (
        "postgres: a deleted stream stays in the tally",
        Words(
            "runtime.journal.postgres.tally:TABLES",
            "VALUES (OLD.owner, OLD.status, -1)",
            "SELECT OLD.owner, OLD.status, -1 WHERE TG_OP = 'UPDATE'",
        ),
        (f"{TALLY_TESTS}::test_tally_is_exact_whoever_writes_ends_and_dies",),
    ),
    (
        "postgres: the first count keeps the changes that it has counted",
        Words("runtime.journal.postgres.tally:FIRST_COUNT", '    "DELETE FROM tally_change",\n', ""),
        (f"{TALLY_TESTS}::test_tally_is_exact_whoever_writes_ends_and_dies",),
    ),
    (
        "postgres: a transaction that counts waits for another",
        Words("runtime.journal.postgres.tally:TABLES", " FOR NO KEY UPDATE SKIP LOCKED", ""),
        (f"{TALLY_TESTS}::test_transactions_that_count_wait_for_nobody",),
    ),
    (
        "postgres: an older member may not write to the tally",
        Edit(
            "runtime.journal.postgres.tally:_AS_OWNER",
            "'LANGUAGE plpgsql SECURITY DEFINER SET search_path = $schema, pg_temp'",
            "'LANGUAGE plpgsql SET search_path = $schema, pg_temp'",
        ),
        (f"{TALLY_TESTS}::test_writer_without_rights_on_the_tally_is_counted",),
    ),
    (
        "sqlite: commits wait until all space is returned",
        Edit("runtime.journal.sqlite.database:FreePages.step", "time.perf_counter() < until", "True"),
        (f"{FREE_PAGES}::test_step_is_short",),
    ),
    (
        "sqlite: the journal breaks if space cannot be returned",
        Edit("runtime.journal.sqlite.database:FreePages.step", "sqlite3.Error", "sqlite3.DataError"),
        (f"{FREE_PAGES}::test_step_that_fails_breaks_nothing",),
    ),
    (
        "sqlite: a journal is compacted while an agent uses it",
        Words(
            "runtime.journal.sqlite.sqlite_journal:compact",
            "    with locked(directory):\n        before =",
            "    if directory:\n        before =",
        ),
        (f"{FREE_PAGES}::test_older_file_gets_smaller_once_it_was_compacted",),
    ),
    (
        "postgres: a save does not look at its fence",
        Words(
            "runtime.journal.postgres.save_statement:ARGUMENTS",
            "AND stream.epoch = save.epoch AND last_seq",
            "AND last_seq",
        ),
        ("tests/runtime/journal/test_ownership.py",),
    ),
    (
        "postgres: a group answers before it is committed",
        Edit(
            "runtime.journal.postgres.pipeline:Pipeline.answers",
            "result.status == pq.ExecStatus.PIPELINE_SYNC",
            "result.status in (pq.ExecStatus.PIPELINE_SYNC, pq.ExecStatus.TUPLES_OK)",
        ),
        (GROUPS,),
    ),
    (
        "postgres: a save that fails fails its group",
        Edit(
            "runtime.journal.postgres.group:WriteGroups._answered",
            'logger.debug("a group of %d writes was undone: %s", len(group), answer)',
            """
            for each in group:
                each.failure = JournalUnavailable(str(answer))
            """,
        ),
        (f"{GROUPS}::test_save_that_fails_fails_alone",),
    ),
    (
        "postgres: a group that was undone counts as done",
        Edit(
            "runtime.journal.postgres.pipeline:Pipeline._answer",
            "next((each for each in results if each.status not in _GOOD), None)",
            "None",
        ),
        (f"{GROUPS}::test_save_that_fails_fails_alone", f"{READ_QUEUE}::test_read_that_fails_fails_alone"),
    ),
    (
        "postgres: a statement that cannot be prepared counts as prepared",
        Edit("runtime.journal.postgres.pipeline:Pipeline._answer", "self._refused[text] = error", ""),
        (f"{READ_QUEUE}::test_read_that_fails_fails_alone",),
    ),
    (
        "postgres: a save that is refused counts as done with its group",
        Edit(
            "runtime.journal.postgres.group:WriteGroups._answered",
            """
            for number, at in saves.done(results.pop()):
                saved[number - 1][0].answer = at
            """,
            """
            results.pop()
            for work, _ in saved:
                work.answer = 0.0
            """,
        ),
        (f"{GROUPS}::test_save_without_its_right_disturbs_no_other",),
    ),
    (
        "postgres: a group whose answer was lost counts as done",
        Edit(
            "runtime.journal.postgres.pipeline_queue:PipelineQueue._exchange",
            "each.failure = copy(failure)",
            "each.answer = 0.0",
        ),
        (f"{GROUPS}::test_group_that_did_not_arrive_can_be_repeated",),
    ),
    (
        "postgres: a write that is refused counts as done with its group",
        Edit(
            "runtime.journal.postgres.group:WriteGroups._answered",
            "next((number for number, in rows_of(result)), None)",
            "0",
        ),
        (f"{GROUPS}::test_write_that_is_refused_disturbs_no_other",),
    ),
    (
        "postgres: in a group, a delivery does not look at its key",
        Words(
            "runtime.journal.postgres.grouped_writes:_DELIVER",
            "AND inbox.key = $4 AND open <> 2)",
            "AND inbox.key = $4 AND open = 3)",
        ),
        (f"{GROUPS}::test_write_that_is_refused_disturbs_no_other",),
    ),
    (
        "postgres: in a group, a delivery counts before the lock",
        Words("runtime.journal.postgres.grouped_writes:_LOCKED", "> 0", ">= 0"),
        (f"{GROUPS}::test_locked_stream_holds_up_no_other_write",),
    ),
    (
        "postgres: a group waits for the lock of a stream",
        Words("runtime.journal.postgres.grouped_writes:_LOCK", " SKIP LOCKED", ""),
        (f"{GROUPS}::test_locked_stream_holds_up_no_other_write",),
    ),
    (
        "postgres: in a group, the stream of a living member is claimed",
        Words(
            "runtime.journal.postgres.grouped_writes:_OTHER_LIVES",
            "other.until > journal_now()",
            "other.until < journal_now()",
        ),
        (f"{GROUPS}::test_stream_of_another_member_is_not_claimed_in_a_group",),
    ),
    (
        "postgres: in a group, an old fence releases a stream",
        Words("runtime.journal.postgres.grouped_writes:_RELEASE", "AND epoch = $3", "AND $3 = $3"),
        (f"{GROUPS}::test_write_that_is_refused_disturbs_no_other",),
    ),
    (
        "postgres: in a group, a stream with open commands is released",
        Words("runtime.journal.postgres.grouped_writes:_RELEASE", "key <> ALL($4)", "key = ANY($4)"),
        (f"{GROUPS}::test_write_that_is_refused_disturbs_no_other",),
    ),
    (
        "postgres: in a group, a request takes a stream with open commands",
        Words("runtime.journal.postgres.grouped_writes:_DELIVER", "AND NOT kept.waits", ""),
        (FOLLOWING,),
    ),
    (
        "postgres: in a group, a request takes a stream whose work is moving",
        Words("runtime.journal.postgres.grouped_writes:_DELIVER", "kept.work <> 1 AND", ""),
        (FOLLOWING,),
    ),
    (
        "postgres: a group keeps a stream whose first command is refused",
        Edit(
            "runtime.journal.postgres.grouped_writes:deliver", "new.limit == 0 or '' in new.unless", "False"
        ),
        (INBOX,),
    ),
    (
        "postgres: a group waits for a stream that another transaction has locked",
        Edit("runtime.journal.postgres.save_statement:statement", '" SKIP LOCKED" if is_group else ""', '""'),
        (f"{GROUPS}::test_stream_that_is_locked_holds_up_no_other",),
    ),
    (
        "postgres: a caller that gives up takes its group along",
        Edit(
            "runtime.journal.postgres.pipeline_queue:PipelineQueue.outcome",
            """
            if work in self._waiting:
                self._waiting.remove(work)
                raise
            """,
            "raise",
        ),
        (f"{GROUPS}::test_caller_that_is_cancelled_takes_nothing_from_the_others",),
    ),
    (
        "postgres: an attempt begins twice",
        Words(
            "runtime.journal.postgres.tables:_FIRST",
            "PRIMARY KEY (stream, key, attempt)",
            "CHECK (attempt > 0)",
        ),
        (SAVES,),
    ),
    (
        "postgres: a key is delivered twice",
        Edit(
            "runtime.journal.postgres.intake:deliver",
            "_repeated(new.stream, new.key, kept, is_same)",
            "False",
        ),
        (INBOX,),
    ),
    (
        "postgres: a note is written at any revision",
        Words(
            "runtime.journal.postgres.note_table:write",
            "WHERE coalesce(%(at)s, note_kind.revision) = note_kind.revision",
            "",
        ),
        ("tests/runtime/journal/test_notes.py",),
    ),
)

VERDICT_RECORDS: tuple[tuple[str, Edit | Words, tuple[str, ...]], ...] = (
    (
        "verdicts: an intent has no facts",
        Edit(
            "actors.calls.runner:CallRunner._send",
            "facts_of(judgement, self.scope.run.policy)",
            "None",
        ),
        (VERDICT_FACTS,),
    ),
    (
        "verdicts: a question has no facts",
        Edit("actors.calls.questions:Questions._about_call", "verdict", "None"),
        (VERDICT_FACTS,),
    ),
    (
        "verdicts: a call that is not sent has no facts",
        Edit(
            "actors.calls.runner:CallRunner._carry_out",
            "facts_of_unsent(judgement, scope.run.policy)",
            "None",
        ),
        (VERDICT_FACTS,),
    ),
    (
        "verdicts: the hints are not those that counted",
        Edit("actors.tools.verdict_facts:facts_of_tool", "tool.hints", "tool.listed_hints"),
        (VERDICT_FACTS,),
    ),
    (
        "verdicts: a shadow rule decides",
        Edit(
            "actors.gate.gate:judge_by_rules",
            """
            if rule.shadow:
                continue
            """,
            "",
        ),
        (SHADOW,),
    ),
    (
        "verdicts: searches of shadow rules take the time of the others",
        Edit(
            "actors.gate.gate:judge_by_rules",
            """
            if rule.shadow:
                continue
            """,
            """
            if rule.shadow:
                fit(rule, tool, arguments, scope, searches)
                continue
            """,
        ),
        (SHADOW,),
    ),
    (
        "verdicts: results of shadow rules are not recorded",
        Edit(
            "actors.calls.verdicts:_verdict",
            "{policy.ids[each.place]: each.action for each in verdict.shadows}",
            "{}",
        ),
        (VERDICT_FACTS,),
    ),
    (
        "verdicts: the revision of another process is recorded",
        Edit(
            "actors.conversation.run:execute",
            "await services.policies.of(run.started.tree_id, tree, log.state.trees[run.started.tree_id])",
            "attrs.evolve(services.policies.current, revision=run.started.policy)",
        ),
        (VERDICT_FACTS,),
    ),
)

# What judges recorded calls again (actors/replay).
REPLAYS = (
    (
        "replay: the facts of a call are dropped",
        Edit(
            "actors.replay.recorded_call:CallReader._add",
            "None if verdict is None else self._facts(verdict)",
            "None",
        ),
        (JUDGED_CALLS,),
    ),
    (
        "replay: a call is compared with the policy of another process",
        Edit(
            "actors.replay.judged_call:CallsJudge._has_same_tools",
            "self.stored[facts.policy]",
            "[*self.stored.values()][-1]",
        ),
        (JUDGED_CALLS,),
    ),
    (
        "replay: a verdict is exact although the history differed",
        Edit("actors.replay.judged_call:CallsJudge.judge", "is_certain and not self._differs", "is_certain"),
        (JUDGED_CALLS, REPLAYED_HISTORIES),
    ),
    (
        "replay: a rejection of a later question does not count",
        Edit(
            "actors.replay.judged_call:CallsJudge.judge",
            '"loosened" if again[0] == "run" else "same"',
            '"same"',
        ),
        (JUDGED_CALLS,),
    ),
    (
        "replay: pasted rules can read files of the agent's machine",
        Edit("config.pasted_rules:_refuse_references", "isinstance(part, Reference)", "False"),
        (POLICY_ROUTES,),
    ),
    (
        "replay: what a person edited counts as what would have run",
        Edit("actors.replay.judged_call:CallsJudge._same_way", 'call.answer == "approved"', "True"),
        (JUDGED_CALLS, REPLAYED_HISTORIES),
    ),
    (
        "replay: a call that was edited counts as approved after the next question",
        Edit("actors.replay.recorded_call:_decide", "call.edited is None", "True"),
        (JUDGED_CALLS,),
    ),
    (
        "replay: hints of a tool do not count",
        Edit("actors.tools.verdict_facts:hints_of", "letter.isupper()", "False"),
        (JUDGED_CALLS, REPLAYED_HISTORIES),
    ),
    (
        "replay: a call whose decision is damaged counts as one without a decision",
        Edit(
            "actors.replay.recorded_call:CallReader.rest",
            'call.answer == "pending" and self._is_turn_damaged',
            "False",
        ),
        (JUDGED_CALLS, POLICY_REPLAY),
    ),
    (
        "replay: a damaged decision counts as a rejection or an approval",
        Edit("actors.replay.recorded_call:_decide", 'call.answer = "unknown"', 'call.answer = "approved"'),
        (JUDGED_CALLS,),
    ),
    (
        "replay: the next page forgets that an earlier event is damaged",
        Edit("actors.replay.recorded_call:CallReader.read", "begin.is_damaged", "False"),
        (CALL_PAGES,),
    ),
    (
        "replay: events of unknown types are left out",
        Edit("actors.replay.recorded_call:read_calls", "ALL_TYPES", "()"),
        (POLICY_REPLAY,),
    ),
    (
        "replay: a stream whose number of events is damaged is left out",
        Edit(
            "runtime.journal.passage:passage",
            "[StoredEvent(each.name, 0, '', 0.0, each.problem, each.stream)"
            " for each in read if each.problem]",
            "[]",
        ),
        (POLICY_REPLAY,),
    ),
)

NOTIFIER = "tests/actors/notify/test_notifier.py"
REMINDERS = "tests/actors/notify/test_reminders.py"
NOTIFIER_MEMBERS = "tests/actors/notify/test_notifier_members.py"
DELIVERIES = "tests/actors/notify/test_delivery_store.py"
WEBHOOKS = "tests/gateway/test_notification_routes.py"
TOLD = killed(MATRIX, "channels are told of an approval and its decision")
_ROWS = "self.outbox(self.state.id, self.committed_seq, (*pending.events, *written))"

NOTIFICATIONS = (
    Mutant(
        "notifications: a row is written after the commit of its cause",
        (
            Edit("actors.log.writer.log:ConversationLog.save", _ROWS, "()"),
            Edit(
                "actors.log.writer.log:ConversationLog.save",
                "if commit.outbox:\n    self.bus.publish(NOTICES, None)",
                "rows = self.outbox(self.state.id, commit.expected_seq, commit.events)\n"
                "if rows:\n    await self.journal.write_notes('rows', {}, outbox=rows)\n"
                "    self.bus.publish(NOTICES, None)",
            ),
        ),
        (TOLD,),
    ),
    Mutant(
        "notifications: rows are dropped before their deliveries are stored",
        (
            Edit(
                "actors.notify.notifier:Notifier._expand",
                "await self._store.write(self._all_made(told))\n"
                "await self._journal.drop_outbox([row.number for row in rows])",
                "await self._journal.drop_outbox([row.number for row in rows])\n"
                "await self._store.write(self._all_made(told))",
            ),
        ),
        (TOLD,),
    ),
    Mutant(
        "notifications: a delivery counts as arrived before the answer",
        (
            Edit(
                "actors.notify.notifier:_ChannelQueue._attempt",
                "notifier.store.replace(delivery, tried)",
                "notifier.store.replace(delivery, tried.ended('arrived', '', now))",
            ),
        ),
        (NOTIFIER, TOLD),
    ),
    Mutant(
        "notifications: a channel that fails keeps others waiting",
        (
            Edit(
                "actors.notify.notifier:_ChannelQueue.run",
                "max(first.next, self._not_before)",
                "max(first.next, *(each._not_before for each in self._notifier._queues.values()))",
            ),
        ),
        (NOTIFIER,),
    ),
    Mutant(
        "notifications: a repeat has another id",
        (
            Edit(
                "actors.notify.notifier:_ChannelQueue._attempt",
                "self._channel.send(delivery.id, delivery.kind, delivery.at, data, now)",
                "self._channel.send(f'{delivery.id}{tried.attempts}', delivery.kind, delivery.at, data, now)",
            ),
        ),
        (NOTIFIER,),
    ),
    Mutant(
        "notifications: what is no longer true is told",
        (
            Edit(
                "actors.notify.notice_text:_about_approval",
                "delivery.kind in _WAITING and question.state != 'pending'",
                "False",
            ),
        ),
        (NOTIFIER,),
    ),
    Mutant(
        "notifications: a reminder has the same id as the one before it",
        (
            Edit(
                "actors.notify.delivery:next_reminder",
                "_id(last.id, 'approval.reminded', channel.name)",
                "_id(last.approval, 'approval.reminded', channel.name)",
            ),
        ),
        (REMINDERS,),
    ),
    Mutant(
        "notifications: no reminder follows",
        (
            Edit(
                "actors.notify.notifier:Notifier.end",
                "[delivery, *await self._reminder_after(delivery)]",
                "[delivery]",
            ),
        ),
        (REMINDERS,),
    ),
    Mutant(
        "notifications: an approval is escalated although the filters of its channel leave it out",
        (
            Edit(
                "actors.notify.notifier:Notifier._escalates",
                "matches(each, question)",
                "True",
            ),
        ),
        (REMINDERS,),
    ),
    Mutant(
        "notifications: a channel is told of a decision whose approval was never escalated to it",
        (
            Edit(
                "actors.notify.notifier:Notifier._is_untold",
                "each.kind == first and (not each.attempts)",
                "False",
            ),
        ),
        (REMINDERS,),
    ),
    Mutant(
        "notifications: a channel with a pause hears no end of what was escalated to it",
        (
            Edit(
                "actors.notify.notifier:Notifier._is_untold",
                "not any((each.attempts for each in about if each.channel == new.channel))",
                "True",
            ),
        ),
        (REMINDERS,),
    ),
    Mutant(
        "replay: a damaged question after an edit is none",
        (
            Edit(
                "actors.replay.recorded_call:CallReader._question",
                "call.answer = 'pending'",
                "pass",
            ),
        ),
        (JUDGED_CALLS,),
    ),
    Mutant(
        "notifications: reminders have no end",
        (Edit("actors.notify.delivery:next_reminder", "last.reminder >= MOST_REMINDERS", "False"),),
        (REMINDERS,),
    ),
    Mutant(
        "notifications: a deleted conversation is told again",
        (Edit("actors.notify.notice_text:_gone", "delivery.kind in _REPEATED", "False"),),
        (REMINDERS,),
    ),
    Mutant(
        "notifications: a member without the claim overwrites deliveries",
        (
            Edit(
                "actors.notify.delivery_store:DeliveryStore.write",
                "self._journal.write_notes(KIND, bodies, at=self.revision)",
                "self._journal.write_notes(KIND, bodies)",
            ),
        ),
        (DELIVERIES,),
    ),
    Mutant(
        "notifications: two members deliver",
        (
            Edit(
                "actors.notify.delivery_store:DeliveryStore.claim",
                "owner in await self._journal.living()",
                "False",
            ),
        ),
        (DELIVERIES,),
    ),
    Mutant(
        "notifications: a member with an older file gives up what is for a newer channel",
        (
            Edit(
                "actors.notify.notifier:Notifier._give_up_removed",
                "not self._is_shared or each.ends <= now",
                "True",
            ),
        ),
        (NOTIFIER_MEMBERS,),
    ),
    Mutant(
        "notifications: a channel reaches private addresses",
        (Edit("actors.notify.webhook:Webhook.of", "config.to_private", "True"),),
        (WEBHOOKS,),
    ),
)

MUTANTS = (
    *(Mutant(name, (edit,), tests) for name, edit, tests in (*MEMBERS, *VERDICT_RECORDS, *REPLAYS)),
    *NOTIFICATIONS,
    Mutant(
        "the intent is saved with the result, not before the call",
        (
            Edit(
                "actors.calls.dispatch:Dispatch.send",
                """
                log.save(
                    *(e.ToolUnknown(key, earlier, INTERRUPTED) for earlier in step.lost),
                    intent,
                    intents=[NewIntent(key, step.attempt, step.effect, encode(intent).body)],
                    settle=[SettleIntent(key, earlier, "unknown") for earlier in step.lost],
                    when=departure.may_leave if step.effect == "once" and (not step.held) else lambda: True,
                )
                """,
                "log.save_soon(intent)",
            ),
            Edit("actors.log.writer.void:save_and_void", "not others", "False"),
            Edit(
                "actors.log.writer.void:save_and_void",
                """
                if await log.save(*events, *others, settle=settle, questions=close, when=unchanged):
                    return True
                """,
                """
                from stopgo.runtime.journal.protocol import NewIntent

                late = [NewIntent(each.key, each.attempt, "once", {}) for each in settle]
                if await log.save(
                    *events, *others, settle=settle, intents=late, questions=close, when=unchanged
                ):
                    return True
                """,
            ),
        ),
    ),
    Mutant(
        "an attempt can be begun twice",
        (
            Edit(
                "runtime.journal.memory.memory_stream:MemoryStream.intend", "place in self.intents", "False"
            ),
            Words(
                "runtime.journal.sqlite.sql_stream:begin_intents",
                "INSERT OR IGNORE INTO intent",
                "INSERT OR REPLACE INTO intent",
            ),
        ),
        (SAVES,),
    ),
    Mutant(
        "the fence: an owner that was replaced may write",
        (Edit("runtime.journal.local_member:LocalMember._check", "not self._owners.owns(fence)", "False"),),
        (SAVES,),
    ),
    Mutant(
        "expected_seq: a writer may have missed events",
        (
            Edit(
                "runtime.journal.memory.memory_journal:MemoryJournal.save",
                "len(draft.events) != expected_seq",
                "False",
            ),
            Edit(
                "runtime.journal.sqlite.sqlite_journal:SqliteJournal.save.write",
                "head.last_seq != expected_seq",
                "False",
            ),
        ),
        (SAVES,),
    ),
    Mutant(
        "extracts: one of another form is used",
        (Edit("actors.log.fold.extract:state_of", "extract.form != FORM", "False"),),
        (f"{EXTRACT_TESTS}::test_an_extract_of_another_form_or_with_damage_is_none",),
    ),
    Mutant(
        "extracts: the journal gives one of another form",
        (
            Edit("runtime.journal.memory.memory_journal:MemoryJournal.extract", "found.form == form", "True"),
            Words("runtime.journal.sqlite.sql_extract:read", "form = ?", "? IS NOT NULL"),
        ),
        (STORED_EXTRACTS,),
    ),
    Mutant(
        "extracts: one may be ahead of the events of its stream",
        (
            Edit(
                "runtime.journal.memory.memory_journal:MemoryJournal.keep_extract",
                "extract.seq <= len(kept.events)",
                "True",
            ),
            Edit(
                "runtime.journal.sqlite.sqlite_journal:SqliteJournal.keep_extract.write",
                "extract.seq <= head.last_seq",
                "True",
            ),
            Words("runtime.journal.sqlite.sql_extract:read", "AND seq <= last_seq", ""),
        ),
        (STORED_EXTRACTS,),
    ),
    Mutant(
        "extracts: an owner that was replaced writes one",
        (
            Edit(
                "runtime.journal.memory.memory_journal:MemoryJournal.keep_extract",
                "self._owners.owns(fence)",
                "True",
            ),
            Edit(
                "runtime.journal.sqlite.sqlite_journal:SqliteJournal.keep_extract.write",
                "self._owners.owns(fence)",
                "True",
            ),
        ),
        (STORED_EXTRACTS,),
    ),
    Mutant(
        "extracts: one of a deleted conversation with the same id is used",
        (Edit("actors.log.fold.stored:_from_extract", "row.created == state.created", "True"),),
        (f"{EXTRACT_TESTS}::test_an_extract_of_a_deleted_conversation_is_not_used",),
    ),
    Mutant(
        "a kept state is used although another member has written",
        (Edit("actors.log.writer.logs:Logs._rested", "not is_state_of(row, state)", "False"),),
        (RESTED,),
    ),
    Mutant(
        "kept turns of other messages are sent",
        (
            Edit(
                "actors.models.codecs.turns:wire_turns", "not _begins(messages[:end], kept.messages)", "False"
            ),
        ),
        ("tests/actors/models/providers/test_kept_turns.py",),
    ),
    Mutant(
        "rolled back heads stay cached",
        (Edit("runtime.journal.sqlite.sql_stream:Streams.forget", "self._heads.clear()", "pass"),),
        ("tests/runtime/journal/test_sqlite.py::test_cache_forgets_rolled_back_values",),
    ),
    Mutant(
        "the replay key: a recorded step is done again",
        (Edit("actors.log.writer.step:_recorded", "log.run.steps.get(key)", "None"),),
    ),
    Mutant(
        "a question that was put is put again",
        (Edit("actors.log.writer.log:ConversationLog.decision", "self.run.asked.get(question)", "None"),),
    ),
    Mutant(
        "the first decision wins",
        (Edit("runtime.journal.vote:outcome", "asked.state != 'pending'", "False"),),
    ),
    Mutant(
        "the output gate: events are published before the commit",
        (
            Edit(
                "actors.log.writer.log:ConversationLog.save",
                "saved = await self.tenure.write(partial(self.journal.save, commit))",
                """
                for n, event in enumerate(new, self.state.last_seq + 1):
                    told = Event(self.state.id, n, event.type, 0.0, event.body)
                    self.bus.publish(ConversationTopic(self.state.id), told)
                saved = await self.tenure.write(partial(self.journal.save, commit))
                """,
            ),
            Edit("actors.log.writer.log:ConversationLog._apply", "self._publish(stored)", ""),
        ),
    ),
    Mutant(
        "the output gate: commands are answered before the answer is on disk",
        (
            Edit(
                "actors.log.writer.log:ConversationLog.save",
                "saved = await self.tenure.write(partial(self.journal.save, commit))",
                """
                for key, reply in (replies or {}).items():
                    self.bus.publish(ReplyTopic(self.state.id, key), reply)
                saved = await self.tenure.write(partial(self.journal.save, commit))
                """,
            ),
        ),
        ("tests/actors/conversation/test_poison.py::test_a_command_that_always_crashes_is_refused",),
    ),
    Mutant(
        "the stored effect class: today's hints count",
        (
            Edit(
                "actors.calls.lifecycle:_before_the_gate",
                "sent.effect == 'once' and (not sent.remote)",
                "False",
            ),
            Edit(
                "actors.calls.lifecycle:_class",
                "(stricter(effect, sent.effect), asks or sent.asks)",
                "(effect, asks)",
            ),
        ),
        (killed(MATRIX, "a call nobody was asked about, by a tool that calls itself harmless later"),),
    ),
    Mutant(
        "a call that was interrupted is sent again without asking",
        (
            Edit(
                "actors.calls.lifecycle:_before_the_gate",
                "sent.effect == 'once' and (not sent.remote)",
                "False",
            ),
            Edit("actors.calls.lifecycle:_may_be_repeated", "effect != 'once'", "True"),
        ),
    ),
    Mutant(
        "a call whose answer was lost is sent again without asking",
        (
            Edit("actors.calls.lifecycle:_after_a_loss", "sent.effect != 'once'", "True"),
            Edit("actors.calls.lifecycle:_may_be_repeated", "effect != 'once'", "True"),
        ),
    ),
    Mutant(
        "a call whose server crashed has never left",
        (
            Edit(
                "actors.calls.dispatch:Dispatch._call",
                "(ToolUnavailable, ToolChanged, ActorUnavailable)",
                "(ToolUnavailable, ToolChanged, ActorUnavailable, ActorCrashed)",
            ),
            Edit(
                "actors.calls.dispatch:Dispatch._call",
                "(ToolOutcomeUnknown, ActorCrashed)",
                "ToolOutcomeUnknown",
            ),
        ),
        (NODE_TESTS,),
    ),
    Mutant(
        "an unknown outcome asks no human",
        (Edit("actors.calls.lifecycle:_after_a_loss", "not sent.asks", "True"),),
    ),
    Mutant(
        "an interrupted attempt stays open behind the one that follows it",
        (Edit("actors.calls.lifecycle:_at_the_gate", "lost", "()"),),
        (killed(MATRIX, "a rejection that ends a sequence"),),
    ),
    Mutant(
        "a rejected call is sent",
        (
            Edit(
                "actors.calls.recorded:_state",
                "'approved' if isinstance(decision, Approved) else 'rejected'",
                "'approved'",
            ),
            Edit(
                "actors.log.fold.record:ENDED",
                "{'finished', 'denied', 'rejected', 'answered', 'expired'}",
                "{'finished', 'denied', 'answered', 'expired'}",
            ),
        ),
    ),
    Mutant(
        "an edit is forgotten",
        (
            Edit(
                "actors.calls.recorded:_approval",
                "asked.tool_args if edited is None else edited",
                "asked.tool_args",
            ),
        ),
    ),
    Mutant(
        "approvals outlive their run",
        (
            Edit(
                "actors.conversation.run:close",
                "[e.ApprovalVoid(id, RUN_ENDED) for id in log.state.head.pending]",
                "[e.ApprovalVoid(id, RUN_ENDED) for id in ()]",
            ),
            Edit(
                "actors.conversation.run:close",
                "[closed(log.state.approvals[id], RUN_ENDED) for id in pending]",
                "[]",
            ),
        ),
    ),
    Mutant(
        "idempotency keys are not remembered",
        (
            Edit(
                "runtime.journal.memory.memory_journal:MemoryJournal.deliver",
                """
                (
                    known := kept.known(
                        new.key, lambda first: first.kind == new.kind and _same(first.body, new.body)
                    )
                )
                """,
                "False and (lambda first: _same(first.body, new.body))",
            ),
            Words(
                "runtime.journal.sqlite.sql_inbox:put",
                "INSERT OR IGNORE INTO inbox",
                "INSERT OR REPLACE INTO inbox",
            ),
        ),
        (MATRIX, INBOX),
    ),
    Mutant(
        "a message leaves the inbox after the commit that took it in",
        (
            Edit(
                "actors.conversation.commands:Commands._say",
                "await self._log.save_soon(*self._beginning(received), ack=[received.key])",
                """
                await self._log.save(*self._beginning(received))
                await self._log.save(ack=[received.key])
                """,
            ),
        ),
        (killed(MATRIX, "a reply with calls of every class, and a second turn"),),
    ),
    Mutant(
        "a command that was carried out is carried out again before that is on disk",
        (Edit("actors.conversation.commands:Commands.poll", "received.key in acked", "False"),),
        ("tests/actors/log/test_write_behind.py",),
    ),
    Mutant(
        "a model gets a `once` result before it is on disk",
        (Edit("actors.calls.call_end:save_ends", "await log.flush()", "pass"),),
        ("tests/actors/log/test_write_behind.py",),
    ),
    Mutant(
        "a conversation that has ended is flushed",
        (Edit("actors.log.writer.log:ConversationLog._ask_for_flush", "not self._closed", "True"),),
        ("tests/actors/log/test_write_behind.py",),
    ),
    Mutant(
        "the cause of a branch's error is lost",
        (Edit("actors.log.writer.branches:Branches.gather", "error.__cause__", "None"),),
        ("tests/actors/log/test_log.py",),
    ),
    Mutant(
        "writes of a crashed conversation that unwinds are lost",
        (
            Edit(
                "actors.log.writer.log:ConversationLog.save_soon",
                """
            if self._closed:
                await self.flush()
            """,
                "",
            ),
            Edit("actors.calls.call_end:save_ends", "await log.flush()", "pass"),
        ),
        ("tests/actors/log/test_write_behind.py",),
    ),
    Mutant(
        "pending writes are published",
        (
            Edit(
                "actors.log.writer.log:ConversationLog.save_soon",
                "self._pending_writes.add(events, settle, ack)",
                """
                for event in events:
                    self.bus.publish(ConversationTopic(self.state.id), event)
                self._pending_writes.add(events, settle, ack)
                """,
            ),
        ),
    ),
    Mutant(
        "a reply is saved after the commit it belongs to",
        (
            Words("actors.log.writer.log:ConversationLog.save", "replies=replies or {},", ""),
            Edit(
                "actors.log.writer.log:ConversationLog.save",
                "self._publish_pending(pending)",
                """
                if replies:
                    last = saved.first_seq + len(pending.events) + len(new) - 1
                    await self.journal.save(Commit(self.tenure.fence, last, replies=replies))
                self._publish_pending(pending)
                """,
            ),
        ),
    ),
    Mutant(
        "a later reply takes the place of the first",
        (
            Edit(
                "runtime.journal.memory.memory_stream:MemoryStream.close",
                "self.inbox[key].reply is None",
                "True",
            ),
            Words("runtime.journal.sqlite.sql_inbox:save_replies", " AND reply IS NULL", ""),
        ),
    ),
    Mutant(
        "draining: a step starts during the shutdown",
        (
            Edit(
                "actors.log.writer.log:ConversationLog.admit",
                "self.branches.active_runs.draining.is_set()",
                "False",
            ),
            Edit("actors.calls.lifecycle:next_step", "local.draining", "False"),
            Edit("actors.calls.dispatch:Dispatch.send", "self.scope.draining.is_set()", "False"),
        ),
    ),
    Mutant(
        "nothing is resumed at start-up",
        (
            Edit(
                "actors.agent.open_agent:_run",
                "nursery.start_soon(startup.resume_all, cast.services)",
                "pass",
            ),
        ),
    ),
    Mutant(
        "a cancelled run does not wait for the result of its call",
        (
            Edit(
                "actors.calls.dispatch:Dispatch.send",
                """
                if step.effect == "once":
                    await self._call_once(elicitations, step, tool, server, departure)
                else:
                    await self._call(elicitations, step, tool, server, departure.check_lease)
                """,
                "await self._call(elicitations, step, tool, server, departure.check_lease)",
            ),
        ),
    ),
    Mutant(
        "a call that had not left when its run was cancelled leaves",
        (
            Edit(
                "actors.calls.dispatch:Dispatch._call_once.bound_when_cancelled",
                "departure.has_left",
                "True",
            ),
        ),
        ("tests/actors/conversation/test_ending.py",),
    ),
    Mutant(
        "a stopped branch outlives the stop",
        (Edit("runtime.context:Context.ask_new", "await child.wait_ended()", "pass"),),
    ),
    Mutant(
        "an expired call is sent",
        (
            Edit("actors.calls.recorded:_state", "state", "'approved' if state == 'expired' else state"),
            Edit(
                "actors.log.fold.record:ENDED",
                "{'finished', 'denied', 'rejected', 'answered', 'expired'}",
                "{'finished', 'denied', 'rejected', 'answered'}",
            ),
        ),
        (TREES,),
    ),
    Mutant(
        "a decided approval expires",
        (
            Edit(
                "runtime.journal.memory.memory_stream:MemoryStream.ask",
                "asked is not None and asked.state == 'decided'",
                "False",
            ),
            Edit(
                "runtime.journal.memory.memory_stream:MemoryStream.ask", "asked.state != 'pending'", "False"
            ),
            Edit(
                "runtime.journal.sqlite.sql_question:_close",
                "found is not None and found[1] == 'decided'",
                "False",
            ),
            Edit("runtime.journal.sqlite.sql_question:_close", "found[1] != 'pending'", "False"),
        ),
        (SAVES,),
    ),
    Mutant(
        "a call is sent although its tool has changed since the approval",
        (
            Edit(
                "actors.calls.lifecycle:_at_the_gate",
                "last.fingerprint != judgement.tool.fingerprint",
                "False",
            ),
            Edit("actors.calls.lifecycle:_passes", "last.fingerprint != tool", "False"),
            Edit("actors.calls.lifecycle:_passes", "each.fingerprint == tool", "True"),
            Edit(
                "actors.calls.call_judge:CallJudge.judge", "approval.fingerprint == tool.fingerprint", "True"
            ),
        ),
        (TREES,),
    ),
    Mutant(
        "a node is tried again though it has started a call that must not be repeated",
        (Edit("actors.nodes.child:_Attempts.work", "self._may_have_acted(key)", "False"),),
        (SEEDS,),
    ),
    Mutant(
        "exit_loop exits nothing",
        (Edit("actors.nodes.llm:_Llm._stop", "self._spec.can_exit_loop and exits", "False"),),
        (TREES,),
    ),
    Mutant(
        "a rule of today does not hold for a call of an earlier life",
        (
            Edit(
                "actors.calls.lifecycle:_at_the_gate",
                "judgement.verdict.action == 'deny'",
                "sent is None and judgement.verdict.action == 'deny'",
            ),
            Edit("actors.calls.lifecycle:_passes", "verdict.action == 'run'", "verdict.action != 'ask'"),
            Edit(
                "actors.calls.lifecycle:_may_be_repeated",
                "isinstance(judgement, Missing) or judgement.verdict.action == 'deny'",
                "False",
            ),
        ),
        (seed(202),),
    ),
    Mutant(
        "a call that left unasked is sent again though it would ask today",
        (Edit("actors.calls.lifecycle:_may_be_repeated", "_passes(sent, judgement, approvals)", "True"),),
        (STRICTER,),
    ),
    Mutant(
        "a refused call is sent again unasked after its tool has changed",
        (Edit("actors.calls.lifecycle:_passes", "sent.retried", "True"),),
        (STRICTER,),
    ),
    Mutant(
        "an attempt has a weaker class than the one before",
        (Edit("actors.calls.lifecycle:_class", "stricter(effect, sent.effect)", "effect"),),
        (STRICTER,),
    ),
    Mutant(
        "weaker hints of a tool count",
        (Edit("actors.tools.known:KnownTools.counting", "self.trust", "True"),),
        (HINTS,),
    ),
    Mutant(
        "weaker hints of a tool count for the verdict",
        (
            Edit(
                "actors.tools.known:stricter_hints",
                "(False, None, True)[asks]",
                "(False, None, True)[listed.strictness[0]]",
            ),
        ),
        (HINTS,),
    ),
    Mutant(
        "weaker hints of a tool count for its effect class",
        (Edit("actors.tools.known:stricter_hints", "sent == 1", "listed.strictness[1] == 1"),),
        (HINTS,),
    ),
    Mutant(
        "weaker hints are stored",
        (Edit("actors.tools.known:KnownTools._new", "listed if self.trust else counts", "listed"),),
        (HINTS,),
    ),
    Mutant(
        "hints count before they are on disk",
        (
            Edit(
                "actors.tools.known:KnownTools._keep.keep",
                """
                if notes and (not await self._journal.write_notes(kind_of(server), notes, at=at)):
                    return False
                """,
                """
                from trio.lowlevel import spawn_system_task as soon

                soon(self._journal.write_notes, kind_of(server), notes)
                if False:
                    return False
                """,
            ),
        ),
        (HINTS,),
    ),
    Mutant(
        "hints that are known are not read at the start",
        (Edit("actors.tools.known:KnownTools._refresh", "notes.items()", "()"),),
    ),
    Mutant(
        "hints that cannot be read are none",
        (Edit("actors.tools.known:_hints_of", "return STRICTEST", "return Hints()"),),
        (HINTS,),
    ),
    Mutant(
        "hints that cannot be remembered count",
        (Edit("actors.tools.known:KnownTools._compared", "STRICTEST", "tool.listed_hints"),),
        (HINTS,),
    ),
    Mutant(
        "hints are known by the own name alone",
        (Edit("actors.tools.known:_keys", "(_key(tool.own_name), _key(seen))", "(_key(tool.own_name),)"),),
        (HINTS,),
    ),
    Mutant(
        "hints are remembered without a bound",
        (Edit("actors.tools.known:KnownTools._new", "room > 0", "True"),),
        (HINTS,),
    ),
    Mutant(
        "hints are accepted that the person was not shown",
        (Edit("actors.tools.registry:_Book.accept", "tool.hash == hash", "True"),),
        (HINTS,),
    ),
    Mutant(
        "hints are accepted with whatever else the tool says by now",
        (
            Edit(
                "actors.tools.tool:Tool._digest",
                """
                [self.own_name, self.description, self.input_schema, self.server,
                 self.listed_hints.said, *more]
                """,
                "[self.own_name, self.description, self.server, self.listed_hints.said, *more]",
            ),
        ),
        (HINTS,),
    ),
    Mutant(
        "stricter hints wait for the names of a change",
        (Edit("actors.tools.registry:_Book.update", "await self._take(name, self._offers[name])", "pass"),),
        (HINTS,),
    ),
    Mutant(
        "an expired approval with on_expiry fail does not fail the run",
        (Edit("actors.calls.runner:CallRunner.run", "end.expired and self._is_failure(key)", "False"),),
        ("tests/actors/gate/test_expiry.py",),
    ),
    Mutant(
        "a question outlives the call it was about",
        (Edit("actors.calls.runner:CallRunner._unsent", "asked.key == key", "False"),),
        (STRICTER,),
    ),
    Mutant(
        "a branch keeps its turn when it has ended",
        (Edit("actors.log.writer.branches:Branches.limited", "self._pass_on(limiter)", "pass"),),
        (seed(100),),
    ),
    Mutant(
        "questions outlive the node they were asked for",
        (
            Words(
                "actors.log.writer.step:_save", "case StepFailed() | Ended(continued=Fault()):", "case None:"
            ),
        ),
        ("tests/actors/conversation/test_giving_up.py",),
    ),
    Mutant(
        "a prerequisite outlives the next attempt",
        (
            Edit("actors.log.fold.state:_start_attempt", "record.need = None", ""),
            Edit(
                "actors.calls.lifecycle:_before_the_gate",
                "sent.state == 'open'",
                "sent.need is None and sent.state == 'open'",
            ),
            Edit(
                "actors.calls.lifecycle:_before_the_gate",
                "sent.state == 'unknown'",
                "sent.need is None and sent.state == 'unknown'",
            ),
        ),
        (killed(NEEDS, "an approved call without a token, then with one"),),
    ),
    Mutant(
        "after a restart a refused call does not wait for its prerequisite",
        (
            Words(
                "actors.calls.lifecycle:_before_the_gate",
                "    match sent.need:\n",
                "    return None\n    match sent.need:\n",
            ),
        ),
        (undisturbed(NEEDS, "a call without a token, then with one"),),
    ),
    Mutant(
        "a refused call is sent again without a token",
        (Edit("actors.calls.recorded:_need", "token is not None", "True"),),
        (NEEDS,),
    ),
    Mutant(
        "a refused call is sent again with the same token",
        (Edit("actors.calls.recorded:_need", "run.command_of(key) != command", "True"),),
        (undisturbed(NEEDS, "a token that does not do, and again, then a better one"),),
    ),
    Mutant(
        "the token of an approver serves the whole run",
        (Edit("actors.log.fold.state:_apply_approval", "decision.principal is None", "True"),),
        (APPROVERS_TOKENS,),
    ),
    Mutant(
        "an approved call that lost its token is sent with that of the run",
        (Edit("actors.log.fold.record:Run.command_of", "self.calls[call].own_command", "False"),),
        (APPROVERS_TOKENS,),
    ),
    Mutant(
        "a run that has lost its token calls without one",
        (Edit("actors.calls.call_judge:CallJudge._lacks_token", "not self.scope.token(self.key)", "False"),),
        (killed(NEEDS, "a token that may be lost while a human thinks"),),
    ),
    Mutant(
        "the token of a queued message is tried for ever",
        (
            Edit(
                "actors.conversation.commands:Commands._reply_to_waiting", "tried not in self._tried", "True"
            ),
        ),
        (NEEDS,),
    ),
    Mutant(
        "an answer is taken for one to the next attempt's question",
        (Edit("actors.calls.elicitations:Elicitations._put", "self.attempt", "1"),),
        (killed(NEEDS, "a question in the middle of a call that may be repeated"),),
    ),
    Mutant(
        "answers are forgotten once an attempt has brought them",
        (
            Edit(
                "actors.log.fold.state:_start_attempt",
                "record.need = None",
                "record.need = record.asked = None",
            ),
        ),
        (
            killed(
                NEEDS, "a token that has run out when the question is answered which the call brought about"
            ),
        ),
    ),
    Mutant(
        "a call continues after a refused prerequisite",
        (Edit("actors.calls.lifecycle:_before_the_gate", "refused and (not takes_refusals)", "False"),),
        (killed(NEEDS, "an address before a call that nobody wants to visit"),),
    ),
    Mutant(
        "an answer that is repeated is another one",
        (
            Edit(
                "actors.approvals.elicitation_approval:ElicitationQuestion.checked",
                "isinstance(decision, Accept)",
                "pending and isinstance(decision, Accept)",
            ),
        ),
        (NEEDS,),
    ),
    Mutant(
        "elicitations in flight outlive the process",
        (Edit("actors.conversation.commands:Commands.poll", "await self._void_lost()", ""),),
        (killed(NEEDS, "a question in the middle of a call that may be repeated"),),
    ),
    Mutant(
        "a call that was lost while its server waited for an answer is not seen to at the next start",
        (Edit("actors.log.fold.head:Head.summary", "bool(self.in_flight)", "False"),),
        (killed(NEEDS, "a question in the middle of a call that may be repeated"),),
    ),
    Mutant(
        "elicitations in flight outlive the call",
        (
            Edit(
                "actors.calls.call_end:save_ends",
                "any((asked_at(asked, key, attempt) for attempt in attempts))",
                "False",
            ),
        ),
        (NEEDS,),
    ),
    Mutant(
        "a resent call still shows the text of its last attempt",
        (
            Edit(
                "actors.log.fold.state:_start_attempt",
                "c.update_call(record, '', state='started', result=None, is_error=None, **tool)",
                "c.update_call(record, state='started', **tool)",
            ),
        ),
        (killed(NEEDS, "cancelled while it waits for a token"),),
    ),
    Mutant(
        "the gate looks at the first value of a path only",
        (Edit("actors.gate.conditions:readings", "MOST_READINGS + 1", "1"),),
        (ORACLE,),
    ),
    Mutant(
        "the gate runs a call when one value of a path fits",
        (Edit("actors.gate.gate:fit", "min if rule.then == 'run' else max", "max"),),
        (ORACLE,),
    ),
    Mutant(
        "the gate asks only when all values of a path fit",
        (Edit("actors.gate.gate:fit", "min if rule.then == 'run' else max", "min"),),
        (ORACLE,),
    ),
    Mutant(
        "the gate takes a value inside of a text for missing",
        (Edit("actors.gate.conditions:_found", "yield BLOCKED", "return"),),
        (ORACLE,),
    ),
    Mutant(
        "the gate passes over an undecided deny",
        (Edit("actors.gate.gate:matches", "rule.then != 'run'", "rule.then == 'ask'"),),
        (ORACLE,),
    ),
    Mutant(
        "the gate lets hints run a call after an undecided rule",
        (
            Edit(
                "actors.gate.gate:judge_by_rules",
                "verdict = verdict or by_hints(tool, scope)",
                """
                if verdict is None:
                    return by_hints(tool, scope)
                """,
            ),
        ),
        (ORACLE,),
    ),
    Mutant(
        "the gate lets a later rule run a call after an undecided rule",
        (
            Edit(
                "actors.gate.gate:judge_by_rules",
                """
                verdict = Verdict(rule.then, rule_text(rule), requires=requirement_of(rule), place=rule.place)
                break
                """,
                "return Verdict(rule.then, rule_text(rule))",
            ),
        ),
        (ORACLE,),
    ),
    Mutant(
        "the gate finds nothing where a search takes too long",
        (
            Words(
                "actors.gate.conditions:Searches.find",
                "            self.ran_out = True\n            return self.given_up()\n        finally",
                "            return ConditionResult.FAILS\n        finally",
            ),
        ),
        (ORACLE,),
    ),
    Mutant(
        "the gate cuts a long text before it searches it",
        (
            Edit(
                "actors.gate.conditions:_search",
                """
                if _is_long(text):
                    return searches.given_up()
                """,
                "text = text[:MAX_TEXT]",
            ),
        ),
        (ORACLE,),
    ),
    Mutant(
        "the gate takes a non-number for a number within the limit",
        (Edit("actors.gate.conditions:_compared", "ConditionResult.UNDECIDED", "ConditionResult.FAILS"),),
        (ORACLE,),
    ),
    Mutant(
        "the gate reads numbers as floats",
        (Edit("actors.gate.conditions:_number", "Decimal(text.strip())", "Decimal(float(text.strip()))"),),
        (ORACLE,),
    ),
    Mutant(
        "the gate searches lists as text",
        (Edit("actors.gate.conditions:_text", "isinstance(value, bool | int | float)", "value is not None"),),
        (ORACLE,),
    ),
    Mutant(
        "a closed rule lets arguments pass that it does not name",
        (Edit("actors.gate.conditions:first_other_leaf", "path not in paths", "False"),),
        (CLOSED,),
    ),
    Mutant(
        "a closed rule takes an argument that it may not name for one that it names",
        (Edit("actors.gate.conditions:first_other_leaf", "not is_clear and unclear is None", "False"),),
        (CLOSED,),
    ),
    Mutant(
        "a closed rule does not look at the length of a list",
        (
            Edit(
                "actors.gate.conditions:_leaves",
                "not isinstance(value, Mapping | list | tuple)",
                "not isinstance(value, Mapping)",
            ),
        ),
        (CLOSED,),
    ),
    Mutant(
        "a closed rule does not look into objects",
        (
            Edit(
                "actors.gate.conditions:_leaves",
                "not isinstance(value, Mapping | list | tuple)",
                "not isinstance(value, list | tuple)",
            ),
        ),
        (CLOSED,),
    ),
    Mutant(
        "a closed rule passes over empty lists and objects",
        (Words("actors.gate.conditions:_leaves", "not value or not isinstance", "not isinstance"),),
        (CLOSED,),
    ),
    Mutant(
        "a closed rule takes an object under a path for the value that it names",
        (
            Words(
                "actors.gate.conditions:_leaves",
                'yield f"{path}.{next(iter(value)) if isinstance(value, Mapping) else 0}", clear',
                "yield path, clear",
            ),
        ),
        (CLOSED,),
    ),
    Mutant(
        "a closed rule takes a name with a dot for a path",
        (Edit("actors.gate.conditions:_leaves", "'.' not in name", "True"),),
        (CLOSED,),
    ),
    Mutant(
        "a closed rule takes a number as a name for an index",
        (Edit("actors.gate.conditions:_leaves", "not may_be_index", "True"),),
        (CLOSED,),
    ),
    Mutant(
        "a closed rule forgets that a name on the way had a dot",
        (Words("actors.gate.conditions:_leaves", 'f"{path}.", clear)', 'f"{path}.")'),),
        (CLOSED,),
    ),
    Mutant(
        "a pattern of a closed rule matches a part of a value",
        (
            Edit(
                "actors.gate.conditions:Searches.find",
                "regex.fullmatch if whole else regex.search",
                "regex.search",
            ),
        ),
        (CLOSED,),
    ),
    Mutant(
        "a pattern of a closed rule matches the whole of one spelling of a number only",
        (
            Words(
                "actors.gate.conditions:_search",
                "str(int(value)), whole=whole)",
                "str(int(value)))",
            ),
        ),
        (CLOSED,),
    ),
    Mutant(
        "the gate reads no numbers that are written as text",
        (Edit("actors.gate.conditions:_number", "isinstance(value, bool)", "isinstance(value, bool | str)"),),
        (CLOSED,),
    ),
    Mutant(
        "a closed rule without arguments counts as one for every call",
        (
            Edit(
                "config.sections.approval:Rule.reads_arguments",
                "bool(self.arguments) or self.only_these_arguments",
                "bool(self.arguments)",
            ),
        ),
        (JUDGED_CALLS,),
    ),
    Mutant(
        "a range of a closed rule may have one end",
        (Edit("config.load:load_config", "check_closed_rules(reader, root, config)", "pass"),),
        (MISTAKES,),
    ),
    Mutant(
        "a range of a closed rule may have one end in pasted rules",
        (Edit("config.pasted_rules:_check", "check_closed_rules(reader, written, config)", "pass"),),
        (POLICY_ROUTES,),
    ),
    Mutant(
        "a rule keeps its id when it is closed",
        (
            Edit(
                "actors.gate.policy:_rule",
                "rule.only_these_arguments or None",
                "None",
            ),
        ),
        ("tests/actors/gate/test_policy.py",),
    ),
    Mutant(
        "the gate keeps the event loop waiting for a search",
        (
            Edit(
                "actors.gate.off_loop:off_loop",
                "await trio.to_thread.run_sync(decide, *args, abandon_on_cancel=True, limiter=_limiter())",
                "decide(*args)",
            ),
        ),
        (OFF_LOOP,),
    ),
    Mutant(
        "a router takes a route that is undecided",
        (
            Words(
                "actors.nodes.router:first_route",
                "            case ConditionResult.MET:\n",
                "            case ConditionResult.MET | ConditionResult.UNDECIDED:\n",
            ),
        ),
        (ROUTER_TESTS,),
    ),
    Mutant(
        "hints: a tool that contradicts itself does not ask although the file says so",
        (Edit("actors.tools.catalogue:_hinted", "config.approval.contradiction_asks", "False"),),
        (HINTS,),
    ),
    Mutant(
        "mcp: a call that its server may have handled in a lost session is sent again",
        (
            Edit(
                "actors.mcp.wire.failures:session_loss",
                "SESSION_FAILED if _names_a_request(body) else SESSION_LOST",
                "SESSION_LOST",
            ),
        ),
        (SESSIONS,),
    ),
    Mutant(
        "mcp: a call that a gateway may have passed on to a lost server is sent again",
        (Edit("actors.mcp.wire.failures:session_loss", "return SESSION_FAILED", "return SESSION_LOST"),),
        (SESSIONS,),
    ),
    Mutant(
        "mcp: a call is sent although its server has announced changed tools",
        (Edit("actors.mcp.caller:ToolCaller._listed", "not link.is_outdated", "True"),),
        ("tests/actors/mcp/test_caller.py",),
    ),
    Mutant(
        "hints: a contradiction changes the fingerprints of all tools",
        (
            Edit(
                "actors.tools.tool:Tool._digest",
                "self.listed_hints.said",
                "attrs.astuple(self.listed_hints)",
            ),
        ),
        (WIRE,),
    ),
    Mutant(
        "hints: a tool that begins to contradict itself has the fingerprint of a destructive one",
        (Edit("actors.tools.tool:Tool._digest", "self.listed_hints", "self.listed_hints.in_effect"),),
        (HINTS,),
    ),
    Mutant(
        "pasted file: a secret stays in the agent file",
        (Edit("config.reading.pasted_texts:PastedTexts._hidden", "self.keep_secrets", "True"),),
        ("tests/config/test_pasted.py",),
    ),
    Mutant(
        "agent file: a list of tools that run without a person has no effect and is no mistake",
        (Edit("config.reading.foreign:says_nothing", "not plain(value)", "True"),),
        ("tests/config/test_mcp.py",),
    ),
    Mutant(
        "streamed calls: a piece that may belong to two calls belongs to one",
        (
            Edit(
                "actors.models.codecs.stream_calls:StreamCalls._doubt",
                "owner.arguments.unclear |= bool(others)",
                "pass",
            ),
        ),
        (STREAMED,),
    ),
    Mutant(
        "streamed calls: a piece belongs to a call whose index has changed back",
        (
            Edit(
                "actors.models.codecs.stream_calls:StreamedCall.number",
                "self.arguments.unclear |= index in self.indexes",
                "",
            ),
        ),
        (STREAMED,),
    ),
    Mutant(
        "streamed calls: a part of a call under another id is a call",
        (Edit("actors.models.codecs.stream_calls:StreamCalls.whole", "_doubt_parts(calls)", "pass"),),
        (STREAMED,),
    ),
    Mutant(
        "streamed calls: the name of an open call begins another one",
        (
            Edit(
                "actors.models.codecs.stream_calls:StreamCalls._owner",
                "index is None and name and last.names and not (id or last.id)",
                "False",
            ),
        ),
        (STREAMED,),
    ),
    Mutant(
        "direct: a request whose connection broke is sent again",
        (
            Edit(
                "actors.models.providers.direct_http:DirectTransport.handle_async_request",
                "head = await connection.ask(request, content)",
                "try:\n"
                "    head = await connection.ask(request, content)\n"
                "except httpx2.TransportError:\n"
                "    connection.close()\n"
                "    connection = await self._connect(origin)\n"
                "    head = await connection.ask(request, content)",
            ),
        ),
        (DIRECT,),
    ),
    Mutant(
        "direct: bytes after an answer are the next answer",
        (
            Edit(
                "actors.models.providers.direct_http:_Connection.next_cycle",
                "any(http.trailing_data)",
                "False",
            ),
        ),
        (DIRECT,),
    ),
    Mutant(
        "direct: bytes that TLS holds after an answer are the next answer",
        (
            Edit(
                "actors.models.providers.direct_http:_Connection.next_cycle",
                "self._stream._incoming.pending",
                "False",
            ),
        ),
        (REACHING,),
    ),
    Mutant(
        "direct: an answer that was cut over TLS is whole",
        (
            Edit(
                "actors.models.providers.direct_http:DirectTransport._secured",
                "trio.SSLStream(below, self._tls, server_hostname=host)",
                "trio.SSLStream(below, self._tls, server_hostname=host, https_compatible=True)",
            ),
        ),
        (REACHING,),
    ),
    Mutant(
        "direct: a connection on which something waits is used",
        (
            Edit(
                "actors.models.providers.direct_http:DirectTransport._kept",
                "not found.socket.is_readable()",
                "True",
            ),
        ),
        (DIRECT,),
    ),
    Mutant(
        "direct: a connection that took a part of a request is used again",
        (Edit("actors.models.providers.direct_http:_Connection.ask", "self._http.send_failed()", "pass"),),
        (DIRECT,),
    ),
    Mutant(
        "frames: a damaged frame is an event",
        (
            Edit(
                "actors.models.codecs.framing:_opened",
                "crc32(frame[:-4]) != int.from_bytes(frame[-4:], 'big')",
                "False",
            ),
        ),
        (FRAMES,),
    ),
    Mutant(
        "frames: a damaged length is waited for",
        (
            Edit(
                "actors.models.codecs.framing:AwsFrames.feed",
                "crc32(self._pending[begin:begin + 8]) != checksum",
                "False",
            ),
        ),
        (FRAMES,),
    ),
    Mutant(
        "converse: the pieces of a block whose index is used again belong to the second call",
        (
            Edit(
                "actors.models.codecs.converse_codec:ConverseStream._start",
                "before.input.unclear = begun.input.unclear = True",
                "pass",
            ),
        ),
        (CONVERSE,),
    ),
    Mutant(
        "converse: a stream without the reason of its end is a reply",
        (Edit("actors.models.codecs.converse_codec:ConverseStream.reply", "not self._reason", "False"),),
        (CONVERSE,),
    ),
    Mutant(
        "calls: the same call twice is made twice",
        (Edit("actors.models.codecs.codec:without_repeats", "key in seen", "False"),),
        (STREAMED,),
    ),
    Mutant(
        "calls: one without arguments is made beside a damaged one",
        (Edit("actors.models.codecs.codec:tool_calls", "damaged", "False"),),
        (STREAMED,),
    ),
    Mutant(
        "arguments: of several objects, the first counts",
        (
            Edit(
                "actors.models.codecs.json_fields:read_arguments",
                "others and (not all((same(dump(first), dump(other)) for other in others)))",
                "False and (not all((same(dump(first), dump(other)) for other in others)))",
            ),
        ),
        (ARGUMENTS_READ,),
    ),
    Mutant(
        "arguments: a name twice has the last value",
        (Edit("runtime.json_text:_one_meaning", "_canonical(value) != _canonical(named[name])", "False"),),
        (ARGUMENTS_READ,),
    ),
    Mutant(
        "pictures: all of a run are sent",
        (Edit("actors.tools.pictures:surplus", "sizes[-MOST:]", "sizes"),),
        ("tests/actors/nodes/test_pictures_shown.py",),
    ),
    Mutant(
        "pictures: a message may have any number",
        (Edit("gateway.contract.attachments:content_of", "len(pictures) > MOST", "False"),),
        ("tests/gateway/test_attachments.py",),
    ),
    Mutant(
        "hints: there is no warning about contradictory hints",
        (Edit("actors.gate.review:_contradictory", "counts", "False"),),
        (REVIEW,),
    ),
    Mutant(
        "hints: a rule to be copied lets more tools run than one",
        (Edit("actors.gate.review:_can_be_named", "not has_wildcards(name)", "True"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: a misspelled rule does not fail startup",
        (Edit("actors.agent.supervisor:_check_rules", "refuse(findings)", ""),),
        (REVIEW,),
    ),
    Mutant(
        "rules: a misspelled rule has the wrong exit code",
        (Edit("gateway.serve_process:run_process", "2", "1"),),
        ("tests/gateway/test_cli.py::test_rule_with_an_unknown_tool_prevents_the_start",),
    ),
    Mutant(
        "rules: `mcp test` accepts a misspelled rule",
        (Edit("gateway.cli.client.mcp_session:_tell_review", "return True", ""),),
        ("tests/gateway/test_mcp_command.py::test_mcp_test_makes_the_review_of_the_start",),
    ),
    Mutant(
        "rules: a misspelled `ask` rule does not fail startup",
        (Edit("config.sections.approval:Rule.restricts", "self.then != 'run'", "self.then == 'deny'"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: a misspelled `run` rule fails startup",
        (Edit("config.sections.approval:Rule.restricts", "self.then != 'run'", "True"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: those of nodes are not looked at",
        (Edit("config.checks.tree:rules_of", "with_paths(config.agent)", "()"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: `optional` says nothing about tools",
        (Edit("actors.gate.review:_unknown_tool", "rule.optional", "False"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: `optional` says nothing about servers and nodes",
        (
            Edit("config.sections.approval:Rule.restricts", "not self.optional", "True"),
            Edit("config.checks.unknown_names:unknown_names", "rule.optional", "False"),
        ),
        ("tests/config/test_warnings.py",),
    ),
    Mutant(
        "rules: a server that has not listed its tools has none",
        (
            Edit(
                "actors.gate.review:_unknown_tool",
                "has_wildcards(rule.tool) or unlisted or left_out",
                "has_wildcards(rule.tool) or left_out",
            ),
        ),
        (REVIEW,),
    ),
    Mutant(
        "rules: a server that is switched off has no tools",
        (
            Edit(
                "actors.gate.review:_unknown_tool",
                "server.name not in listed",
                "server.enabled and server.name not in listed",
            ),
        ),
        (REVIEW,),
    ),
    Mutant(
        "rules: a tool that is left out does not exist",
        (
            Edit(
                "actors.gate.review:_unknown_tool",
                "has_wildcards(rule.tool) or unlisted or left_out",
                "has_wildcards(rule.tool) or unlisted",
            ),
        ),
        (REVIEW,),
    ),
    Mutant(
        "rules: a pattern has to mean a tool",
        (Edit("actors.gate.review:_unknown_tool", "has_wildcards(rule.tool)", "False"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: a server that is one tool has no name",
        (Words("actors.gate.review:_names_of_servers", "pattern), *facades]", "pattern)]"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: changed tool lists are not reviewed",
        (Edit("actors.servers.server_directory:tool_lists.watch", "changed()", "pass"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: warnings are logged again whenever a list changes",
        (Edit("actors.agent.supervisor:_warn", "sentence not in before", "True"),),
        (REVIEW,),
    ),
    Mutant(
        "rules: GET /tools has no warnings",
        (Edit("gateway.rest.system_routes:System.tools", "list(self.agent.warnings)", "[]"),),
        ("tests/gateway/test_with_agent.py::test_tools_are_listed_with_warnings",),
    ),
    Mutant(
        "rules: a misspelled server or node is a warning",
        (Edit("config.checks.unknown_names:unknown_names", "rule.restricts", "False"),),
        (MISTAKES,),
    ),
    Mutant(
        "nodes: a misspelled server is not reported",
        (Edit("config.checks.unknown_names:unknown_names", "server not in names", "False"),),
        (MISTAKES,),
    ),
    Mutant(
        "rules: numbers are compared with whatever comes",
        (Words("actors.gate.review:_non_numeric_arguments", "        if lax:\n", "        if False:\n"),),
        (REVIEW,),
    ),
    Mutant(
        "delegated: a call that was cut off is sent again",
        (
            Edit(
                "actors.calls.lifecycle:_can_be_asked_about",
                "sent.remote and sent.state == 'open'",
                "False",
            ),
            Edit(
                "actors.calls.lifecycle:_next",
                "sent is not None and sent.in_doubt and (not _may_be_repeated(sent, judgement, approvals))",
                """
                sent is not None and sent.in_doubt and (not sent.remote) and (
                    not _may_be_repeated(sent, judgement, approvals)
                )
                """,
            ),
        ),
        (REMOTE,),
    ),
    Mutant(
        "delegated: a void question is an approval",
        (
            Edit(
                "actors.calls.proxies:answers_in",
                "RemoteAnswer(asked.item, words_of(decision), decision.agrees, asked.remote_digest)",
                "RemoteAnswer(asked.item, words_of(decision) if decision else {'approved': True})",
            ),
            Edit(
                "actors.calls.proxies:answers_in",
                "(decision := log.run.decisions.get(id)) is not None",
                "[(decision := log.run.decisions.get(id))]",
            ),
        ),
        (REMOTE,),
    ),
    *(Mutant(f"delegated: {name}", (edit,), (test,)) for name, edit, test in DELEGATED),
    *(Mutant(f"voted: {name}", (edit,), (VOTES,)) for name, edit in VOTED),
    *(Mutant(f"halted: {name}", (edit,), (test,)) for name, edit, test in HALTED),
    *(Mutant(f"authentication: {name}", (edit,), (test,)) for name, edit, test in AUTHENTICATED),
    *(Mutant(name, (edit,), (test,)) for name, edit, test in (*ONE_EDIT, *ANSWERED, *BY_A2A)),
    Mutant(
        "a call whose arguments did not end is made",
        (
            Edit(
                "actors.models.codecs.responses_stream:ResponsesStream._output",
                "open_call and self._response['status'] == 'completed'",
                "False",
            ),
        ),
        (RESPONSES,),
    ),
    Mutant(
        "a stream that was cut off is a reply",
        (
            Edit(
                "actors.models.codecs.responses_stream:ResponsesStream.reply",
                """
                if not self.ended:
                    raise ended_early(self.usage)
                """,
                "self._response = self._response or {'status': 'completed'}",
            ),
        ),
        (RESPONSES,),
    ),
    Mutant(
        "an open call of an incomplete reply is made",
        (
            Words(
                "actors.models.codecs.responses_codec:ResponsesCodec.reply",
                'cut = status == "incomplete" or any(',
                "cut = any(",
            ),
        ),
        (RESPONSES,),
    ),
    Mutant(
        "a reply is stored by the provider",
        (
            Edit(
                "actors.models.codecs.responses_codec:ResponsesCodec.body",
                "body['store'] = False",
                "pass",
            ),
        ),
        (RESPONSES,),
    ),
    Mutant(
        "a call below a facade does not name its server",
        (Edit("actors.approvals.description:describe_call", "facade is None", "True"),),
        (f"{DESCRIPTIONS}::test_a_call_names_its_server_if_another_server_may_have_the_tool",),
    ),
    Mutant(
        "slow clients lock out the others",
        (
            Edit(
                "gateway.http.http_server:HttpServer._make_room",
                """
            slowest.end()
            return True
            """,
                "return False",
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
            try:
                edit.edited((ROOT / edit.path).read_text())
            except (Misfit, OSError) as error:
                found.append(f"{mutant.name}: {error}\n")
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
