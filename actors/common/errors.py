"""The errors of the embedded API: `AgentError` with stable codes, and `StartError`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias, assert_never

import attrs

from ...config.described.wording import nearest
from ...config.text.values import quoted
from ...runtime.errors import Refused
from ...runtime.journal.errors import JournalUnavailable, NeedsNewer, StreamDamaged
from ...runtime.journal.protocol import NotAccepted
from ...runtime.journal.question import Question

ErrorCode: TypeAlias = Literal[
    "already_decided",
    "ambiguous_id",
    "approval_not_found",
    "channel_not_found",
    "conversation_broken",
    "conversation_completed",
    "conversation_not_found",
    "conversation_read_only",
    "decision_required",
    "denied_by_policy",
    "expired",
    "halted",
    "idempotency_key_reused",
    "internal_error",
    "invalid_arguments",
    "invalid_cursor",
    "invalid_request",
    "journal_unavailable",
    "limit_reached",
    "may_not_approve",
    "message_required",
    "needs_newer_version",
    "node_unavailable",
    "not_delivered",
    "not_waiting_for_credential",
    "notification_not_found",
    "policy_not_found",
    "queue_full",
    "role_required",
    "run_in_progress",
    "shutting_down",
    "subject_changed",
    "tool_changed",
    "tool_not_found",
    "unknown_field",
    "void",
]


class AgentError(Exception):
    """A request that the agent refuses. Its text is a sentence for a person."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        """A stable code, one of [these](errors.md#requests)."""
        self.message = message
        """The text."""
        self.hint = hint
        """A suggestion how to correct the request."""
        self.details: Mapping[str, Any] = details or {}
        """Further fields for programs."""


@attrs.frozen
class Fault:
    """The recorded failure of a node."""

    code: str
    """A stable code."""
    message: str
    """A text for the user."""
    fatal: bool = False
    """Whether it ends the run, regardless of how the nodes above handle failures."""


class NodeFailed(Refused):
    """A node has failed. The parameters are those of `Fault`."""

    def __init__(self, failure: str, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.failure = failure
        self.fatal = fatal

    @property
    def fault(self) -> Fault:
        return Fault(self.failure, str(self), self.fatal)

    @classmethod
    def of(cls, fault: Fault) -> NodeFailed:
        return cls(fault.code, fault.message, fatal=fault.fatal)


class StartError(Exception):
    """The agent cannot start. The text has all reasons, in the order of the configuration."""


class Misconfigured(StartError):
    """The agent cannot start because of the agent file, a file that it names, or an unset variable, so
    another attempt would fail as well."""


def no_conversation(id: str) -> AgentError:
    return AgentError("conversation_not_found", f"there is no conversation {id}")


def broken(why: str) -> AgentError:
    return AgentError(
        "conversation_broken",
        f"the conversation cannot be read: {why}",
        hint="Delete it, or stop the agent and repair its rows in the journal.",
    )


@contextmanager
def journal_as_agent_error() -> Iterator[None]:
    """Raise `AgentError` ``conversation_broken`` instead of `StreamDamaged`, ``journal_unavailable`` instead
    of `JournalUnavailable`, and ``needs_newer_version`` instead of `NeedsNewer`."""
    try:
        yield
    except StreamDamaged as error:
        raise broken(error.why) from error
    except JournalUnavailable as error:
        raise unavailable() from error
    except NeedsNewer as error:
        raise AgentError(
            "needs_newer_version",
            "a newer version of the agent has written this conversation, and no process of that version runs "
            "now; nothing was changed",
            hint="Start the newer version again, then repeat the request.",
        ) from error


def unavailable() -> AgentError:
    return AgentError(
        "journal_unavailable",
        "the journal cannot be reached now; whether the request is stored is unknown",
        hint="Repeat it with the same idempotency key.",
    )


def unanswered(lost: Literal["member", "journal"]) -> AgentError:
    """Make the error for a command that was accepted, and that no member can answer now."""
    code: ErrorCode
    code, cause = (
        ("node_unavailable", "the process that works on the conversation does not answer now")
        if lost == "member"
        else ("journal_unavailable", "the journal cannot be reached now")
    )
    return AgentError(
        code,
        f"{cause}; the request is stored, and is carried out as soon as a process can",
        hint="Repeat it with the same idempotency key to wait for its result.",
        details={"accepted": True},
    )


def no_approval(id: str) -> AgentError:
    return AgentError("approval_not_found", f"there is no approval {id}")


def no_policy(revision: str) -> AgentError:
    hint = "GET /policy/history lists the revisions."
    return AgentError("policy_not_found", f"there is no policy of the revision {revision[:100]}", hint=hint)


def no_notification(id: str) -> AgentError:
    hint = "`stopgo notify list` shows those that are kept."
    return AgentError("notification_not_found", f"there is no notification {id[:100]}", hint=hint)


def no_channel(name: str, known: Sequence[str]) -> AgentError:
    hint = nearest(name, known) or (f"channels: {', '.join(known)}" if known else None)
    return AgentError("channel_not_found", f"there is no channel {name[:100]}", hint=hint)


def not_delivered(channel: str, why: str) -> AgentError:
    return AgentError("not_delivered", f"the test did not arrive at channel {channel}: {why}")


def no_tool(name: str, nearest: Sequence[str]) -> AgentError:
    hint = f"The nearest: {', '.join(nearest)}." if nearest else None
    return AgentError("tool_not_found", f"there is no tool {name[:100]}", hint=hint)


def tool_changed(name: str) -> AgentError:
    return AgentError(
        "tool_changed",
        f"the definition of {name[:100]} is not the one with this hash",
        hint="GET /tools shows what its server says of it now.",
    )


def check_fields(given: Iterable[str], known: Sequence[str], owner: str) -> None:
    """Refuse a field that `owner`, such as "the body", does not have.

    Raises `AgentError` ``unknown_field``, with the nearest valid name in its hint.
    """
    for name in given:
        if name not in known:
            valid = f"Valid fields: {', '.join(known)}." if known else "No field is valid here."
            near = nearest(name, known)
            raise AgentError(
                "unknown_field",
                f"{owner} has no field {quoted(name)}",
                hint=valid if near is None else f"{near[0].upper()}{near[1:]} {valid}",
                details={"field": name[:200]},
            )


def key_reused() -> AgentError:
    return AgentError(
        "idempotency_key_reused",
        "this idempotency key was already used for a different request",
        hint="Use a new key for every new request, and the same key only to repeat one.",
    )


def halted(said: str) -> AgentError:
    return AgentError(
        "halted",
        f"the agent is {said}",
        hint="Reject it, or decide after the halt. Until then nothing is sent.",
    )


def bad_cursor() -> AgentError:
    return AgentError("invalid_cursor", "the cursor is not valid for this list")


def shutting_down(*, accepted: bool) -> AgentError:
    sentence = (
        "the agent is shutting down; the request is stored and goes on at the next start"
        if accepted
        else "the agent is shutting down; the request was not accepted"
    )
    return AgentError("shutting_down", sentence, details={"accepted": accepted})


def not_accepted(outcome: NotAccepted, id: str) -> AgentError:
    match outcome.why:
        case "unknown_stream":
            return no_conversation(id)
        case "full":
            return AgentError(
                "queue_full",
                "too many messages wait in this conversation",
                hint="Wait for the answers to those that were sent.",
            )
        case "status":
            return AgentError("conversation_completed", "the conversation is completed")
        case "behind":
            return AgentError("conversation_completed", "the conversation is being completed")
        case why:
            assert_never(why)


def already(question: Question) -> AgentError:
    """Make the error for a question that can no longer be decided. Its details hold the question."""
    details = {"approval": question}
    if question.state == "decided":
        return AgentError("already_decided", "the approval was decided before", details=details)
    if question.state == "void":
        successor, why = question.body.get("superseded_by"), question.body.get("void_reason")
        hint = f"It was taken back: {why}." if why else "The run or the call that it was about has ended."
        if successor is not None:
            hint = f"The approval {successor} took its place."
        return AgentError("void", "the approval is void", hint=hint, details=details)
    return AgentError("expired", "the approval has expired", details=details)


def sentences(error: BaseException) -> list[str]:
    """Return the lines of all errors, including those inside groups."""
    if isinstance(error, BaseExceptionGroup):
        return [sentence for inner in error.exceptions for sentence in sentences(inner)]
    return str(error).splitlines() or [type(error).__name__]
