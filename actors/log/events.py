"""The events of a conversation: what each type means and what its body holds.

What is stored is what is streamed is what is audited. A conversation is the fold of these
(`stopgo.actors.log.state`); nothing else about it is kept that cannot be rebuilt from them.

Keys name executions within a conversation: ``1/`` is the root in turn 1, ``1/.0.2`` its first child's third
child, ``1/.0.2:3`` that one's third model call, ``1/.0.2:3.0`` the first tool call of that reply.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from ...runtime.journal.protocol import Command, NewEvent
from ..tools.needs import Need

CONVERSATION_CREATED = "conversation.created"
MESSAGE_ADDED = "message.added"
RUN_STARTED = "run.started"
STEP_FINISHED = "step.finished"
BATCH_FINISHED = "batch.finished"
TOOL_STARTED = "tool.started"
TOOL_FINISHED = "tool.finished"
TOOL_UNKNOWN = "tool.unknown"
APPROVAL_REQUESTED = "approval.requested"
APPROVAL_RESOLVED = "approval.resolved"
APPROVAL_EXPIRED = "approval.expired"
APPROVAL_VOID = "approval.void"
STATE_SET = "state.set"
RUN_WAITING = "run.waiting"
RUN_AUTH_REQUIRED = "run.auth_required"
RUN_RESUMED = "run.resumed"
RUN_FINISHED = "run.finished"
RUN_FAILED = "run.failed"
RUN_CANCELLED = "run.cancelled"
CONVERSATION_COMPLETED = "conversation.completed"
CONVERSATION_DELETED = "conversation.deleted"
"""Published when a conversation is deleted; nothing of it is kept, so neither is this."""

KNOWN = frozenset(value for name, value in globals().items() if name.isupper() and isinstance(value, str))

AT_REST = frozenset({RUN_WAITING, RUN_AUTH_REQUIRED, RUN_FINISHED, RUN_FAILED, RUN_CANCELLED})
"""After one of these, nothing in the run moves by itself."""

REPLAY_VERSION = 1
"""Goes up when the same tree over the same log would take another path than before."""


def conversation_created(session_id: str, prompt: str) -> NewEvent:
    """`prompt` is the system prompt the conversation shows as its first message."""
    return NewEvent(CONVERSATION_CREATED, {"session_id": session_id, "prompt": prompt})


def created_by(command: Command, prompt: str) -> NewEvent:
    """What a ``create`` command leads to. Dated like the stream: when it was asked for."""
    session_id = command.body["session_id"] or command.stream[:8]
    return attrs.evolve(conversation_created(session_id, prompt), at=command.at)


def message_added(text: str, command: str) -> NewEvent:
    """A person said `text`; `command` is the inbox key it came by."""
    return NewEvent(MESSAGE_ADDED, {"text": text, "command": command})


def run_started(
    run: str, turn: int, command: str, tree_id: str, tree: Mapping[str, Any] | None, token: bool
) -> NewEvent:
    """A turn begins. `tree` is the full text the run goes on with, given once per content and then named
    by `tree_id`. `token` says that the command came with a bearer token, which itself is never kept."""
    body: dict[str, Any] = {
        "run": run,
        "turn": turn,
        "command": command,
        "tree_id": tree_id,
        "replay_version": REPLAY_VERSION,
        "token": token,
    }
    if tree is not None:
        body["tree"] = tree
    return NewEvent(RUN_STARTED, body)


def step_finished(key: str, kind: str, node: str, fingerprint: str, **outcome: Any) -> NewEvent:
    """Work whose outcome a replay must not redo.

    `kind` is ``model`` (`text`, `tool_calls`, `model`: who answered, `verbatim`: what its provider wants
    back, or `error`; `usage`; `hops`: models that failed before), ``node`` (`end`, or `error`), ``attempt``
    (a failed one, `error`), ``route`` (`choice`, the index of a child) or ``call``, a tool call that was not
    sent (`outcome`: denied, not_found, invalid, declined, unknown or exit_loop, `content`).
    """
    return NewEvent(
        STEP_FINISHED, {"key": key, "kind": kind, "node": node, "fingerprint": fingerprint, **outcome}
    )


def batch_finished(key: str, node: str, figures: Mapping[str, Any]) -> NewEvent:
    """All tool calls of the model reply `key` are settled; `figures` are from `stopgo.actors.log.record`."""
    return NewEvent(BATCH_FINISHED, {"key": key, "node": node, **figures})


def tool_started(
    key: str,
    attempt: int,
    *,
    tool: str,
    server: str,
    arguments: Mapping[str, Any],
    effect: str,
    asks: bool,
    node: str,
    fingerprint: str | None = None,
    facade: str | None = None,
) -> NewEvent:
    """The intent: attempt `attempt` of this call is about to leave. `arguments` are the final ones.

    `facade` is what the model called, when that stands for a whole server and `tool` for what it meant.
    `effect` is the call's class, `asks` whether a human decides should its outcome be unknown. Both count as
    they are here, whatever the tool says of itself later. `fingerprint` is that of the tool as it was called.
    """
    body = {
        "key": key,
        "attempt": attempt,
        "tool": tool,
        "server": server,
        "arguments": arguments,
        "effect": effect,
        "asks": asks,
        "node": node,
    }
    if fingerprint is not None:
        body["fingerprint"] = fingerprint
    if facade is not None:
        body["facade"] = facade
    return NewEvent(TOOL_STARTED, body)


def tool_finished(key: str, attempt: int, result: Mapping[str, Any], need: Need | None = None) -> NewEvent:
    """The attempt is over, with what its server said. `need` (`stopgo.actors.tools.needs`) is what the server
    wants before it does anything: the call goes on as the next attempt once it has that."""
    body = {"key": key, "attempt": attempt, "result": result}
    if need is not None:
        body["need"] = need.to_json()
    return NewEvent(TOOL_FINISHED, body)


def tool_unknown(key: str, attempt: int, reason: str) -> NewEvent:
    """The attempt left and nobody knows what came of it."""
    return NewEvent(TOOL_UNKNOWN, {"key": key, "attempt": attempt, "reason": reason})


def approval_requested(body: Mapping[str, Any]) -> NewEvent:
    """A question to people; `body` is its stored form (`stopgo.actors.approvals`)."""
    return NewEvent(APPROVAL_REQUESTED, body)


def approval_resolved(approval: str, decision: Mapping[str, Any], command: str, token: bool) -> NewEvent:
    return NewEvent(
        APPROVAL_RESOLVED, {"id": approval, "decision": decision, "command": command, "token": token}
    )


def approval_expired(approval: str, on_expiry: str) -> NewEvent:
    """The approval was not decided in time.

    `on_expiry` says what follows: `reject`, `fail`, or `cancel` for a question of a server.
    """
    return NewEvent(APPROVAL_EXPIRED, {"id": approval, "on_expiry": on_expiry})


def approval_void(approval: str, reason: str, superseded_by: str | None = None) -> NewEvent:
    """The question is taken back; `superseded_by` is the one that stands in its place."""
    body = {"id": approval, "reason": reason}
    if superseded_by is not None:
        body["superseded_by"] = superseded_by
    return NewEvent(APPROVAL_VOID, body)


def state_set(key: str, value: str, node: str) -> NewEvent:
    """A node put its result into the session state."""
    return NewEvent(STATE_SET, {"key": key, "value": value, "node": node})


def run_waiting(
    run: str, on: Sequence[str], settles: Sequence[str], worked: Mapping[str, float] | None = None
) -> NewEvent:
    """Only a human can move the run on. `on`: the pending approvals; `settles`: the commands this answers;
    `worked`: seconds of work so far of the executions that have a limit, by key (``run``: the whole run)."""
    body = {"run": run, "on": list(on), "settles": list(settles), "worked": dict(worked or {})}
    return NewEvent(RUN_WAITING, body)


def run_auth_required(
    run: str, auth: Mapping[str, Any], settles: Sequence[str], worked: Mapping[str, float] | None = None
) -> NewEvent:
    """The run needs a bearer token before it can call a server: the one it came with is not there any more,
    or the server wants another.

    `auth` is a `Wanted` as JSON. `worked`: as in `run_waiting`.
    """
    body = {"run": run, **auth, "settles": list(settles), "worked": dict(worked or {})}
    return NewEvent(RUN_AUTH_REQUIRED, body)


def run_resumed(run: str, command: str, token: bool, *, answer: bool) -> NewEvent:
    """A decision or a credential moves the run on.

    `answer`: the sender of `command` waits for what the run comes to (not so for a message that brings a
    credential and is answered by its own run).
    """
    return NewEvent(RUN_RESUMED, {"run": run, "command": command, "token": token, "answer": answer})


def run_finished(run: str, text: str, settles: Sequence[str]) -> NewEvent:
    return NewEvent(RUN_FINISHED, {"run": run, "text": text, "settles": list(settles)})


def run_failed(run: str, code: str, message: str, settles: Sequence[str]) -> NewEvent:
    return NewEvent(RUN_FAILED, {"run": run, "code": code, "message": message, "settles": list(settles)})


def run_cancelled(run: str, settles: Sequence[str]) -> NewEvent:
    return NewEvent(RUN_CANCELLED, {"run": run, "settles": list(settles)})


def conversation_completed() -> NewEvent:
    return NewEvent(CONVERSATION_COMPLETED, {})


def tree_id(tree: Mapping[str, object]) -> str:
    """The name of a tree's text, to which `run.started` refers once the conversation holds the text.

    Equal texts have equal ids, on every machine.
    """
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
