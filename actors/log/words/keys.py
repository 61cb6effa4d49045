"""The keys of steps, calls and questions: the one place that builds them and takes them apart.

A key is the key of what contains it, a mark, and a number or an index; `FORMS` is the grammar. Keys are
stored, so a form never changes its meaning.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import attrs


class Form(NamedTuple):
    form: str
    example: str
    meaning: str


FORMS = (
    Form("TURN/", "1/", "the root of the tree in turn 1"),
    Form("NODE.INDEX", "1/.0", "the first child of the root"),
    Form(
        "NODE@NUMBER",
        "1/.0@3",
        "the third iteration of that loop; `1/.0@3.1` is the loop's second child in it",
    ),
    Form(
        "NODE!NUMBER", "1/.0!2", "the second attempt of that node (`retries`); the first attempt has no mark"
    ),
    Form("NODE!", "1/.0!", "the failure of that attempt"),
    Form("NODE>", "1/.0>", "the route that the router chose"),
    Form("NODE:NUMBER", "1/.0:3", "the third reply of the node's model, or what an `a2a` node delegates"),
    Form("REPLY.INDEX", "1/.0:3.0", "the first tool call of that reply"),
    Form(
        "CALL~NUMBER",
        "1/.0:3.0~0",
        "the first question whether that call may run; `1/.0~0`: whether an `approval` node may pass",
    ),
    Form(
        "CALL?ATTEMPT",
        "1/.0:3.0?2",
        "the question about the unknown outcome of the second attempt of the call",
    ),
    Form(
        "CALL^ATTEMPT.INDEX",
        "1/.0:3.0^2.1",
        "the second question that the server asks during the second attempt",
    ),
    Form(
        "CALL^DIGEST.NUMBER",
        "1/.0:3.0^9f86d081884c7d65.0",
        "the first approval for a question of a remote agent, by the digest of the question's name",
    ),
)

NODE = r"(\d+)\/((?:[.@!]\d+)*)"
"""The key of a node, as a regular expression of Python and JavaScript: its turn, and the marks behind it."""
STEP = NODE + r"(?:([!>])|:(\d+)(?:\.(\d+))?)?"
"""Behind it, the mark of a failure or a choice, or the numbers of reply and call."""
_QUESTION = r"(?:~(\d+)|\?(\d+)|\^([0-9a-f]{16}|\d+)\.(\d+))?"
_NODE = re.compile(NODE)
_KEY = re.compile(STEP + _QUESTION)
_MARK = re.compile(r"([.@!])(\d+)")

# ---------------------------------------------------------------------- nodes


def root(turn: int) -> str:
    return f"{turn}/"


def child(node: str, index: int) -> str:
    return f"{node}.{index}"


def iteration(loop: str, number: int) -> str:
    return f"{loop}@{number}"


def attempt(node: str, number: int) -> str:
    """An attempt of a node, from 1."""
    return node if number == 1 else f"{node}!{number}"


# ------------------------------------------------------------- what nodes do


def failure(attempt: str) -> str:
    return f"{attempt}!"


def choice(router: str) -> str:
    return f"{router}>"


def reply(node: str, number: int) -> str:
    """A reply of the node's model, or what the node delegates; from 1."""
    return f"{node}:{number}"


def call(reply: str, index: int) -> str:
    return f"{reply}.{index}"


# ------------------------------------------------------------------ questions


def permission(subject: str, number: int) -> str:
    """A question whether a call may run, or an approval node may pass; from 0."""
    return f"{subject}~{number}"


def outcome(call: str, attempt: int) -> str:
    """The question about the unknown outcome of an attempt of a call."""
    return f"{call}?{attempt}"


def elicitation(call: str, attempt: int, index: int) -> str:
    """A question of the tool server during an attempt of a call."""
    return f"{call}^{attempt}.{index}"


def delegated(call: str, name: str, number: int) -> str:
    """An approval for a question of a remote agent, from 0. The agent chooses the name, so it is hashed."""
    return f"{call}^{hashlib.sha256(name.encode()).hexdigest()[:16]}.{number}"


# -------------------------------------------------------------------- reading


@attrs.frozen
class ParsedKey:
    """A key, taken apart."""

    node: str
    """The key of the execution of a node that it belongs to."""
    turn: int
    path: Sequence[tuple[Literal[".", "@", "!"], int]]
    """The marks of the node, from the root."""
    mark: Literal["!", ">"] | None
    """For the failure of an attempt, and for a choice."""
    reply: int | None
    call: int | None
    asked: str
    """The end of the key of a question, with its mark; else empty."""

    @property
    def iteration(self) -> int | None:
        """The iteration of the nearest loop around."""
        return next((number for mark, number in reversed(self.path) if mark == "@"), None)


def parse(key: str) -> ParsedKey:
    """Raises ValueError for a text that is no key."""
    found = _matched(key)
    turn, path, mark, reply, call = found.groups()[:5]
    end = found.end(5) if call else found.end(4) if reply else found.end(3) if mark else found.end(2)
    return ParsedKey(
        node=key[: found.end(2)],
        turn=int(turn),
        path=[(each[1], int(each[2])) for each in _MARK.finditer(path)],  # type: ignore[misc]
        mark=mark,  # type: ignore[arg-type]
        reply=None if reply is None else int(reply),
        call=None if call is None else int(call),
        asked=key[end:],
    )


def _matched(key: str) -> re.Match[str]:
    found = _KEY.fullmatch(key)
    if found is None:
        raise ValueError(f"{key!r} is not a key")
    return found


def node_of(key: str) -> str:
    """Raises ValueError for a text that is no key."""
    return key[: _matched(key).end(2)]


def descent(key: str) -> Iterator[tuple[str, int | None]]:
    """The nodes from the root to the one that a key belongs to, each with its index among the children of the
    one above; None for the root. A node stands for all its attempts. Nothing for a text that is no key."""
    if (found := _NODE.match(key)) is None:
        return
    yield root(int(found[1])), None
    for each in _MARK.finditer(key, found.start(2), found.end(2)):
        if each[1] == ".":
            yield key[: each.end()], int(each[2])


def places(key: str) -> tuple[int, ...]:
    """The index of the child at each step from the root of the tree to the node that a key belongs to."""
    return tuple(index for _, index in descent(key) if index is not None)


def reply_of(call: str) -> str:
    """The reply that made a call."""
    return call.rpartition(".")[0]


def attempt_of(failure: str) -> str:
    """The attempt that failed."""
    return failure.removesuffix("!")


def without_attempt(node: str) -> str:
    """The node in its first attempt."""
    first, mark, number = node.rpartition("!")
    return first if mark and number.isdecimal() else node


def around(node: str) -> str | None:
    """The execution of the node around a node; None for the root."""
    first = without_attempt(node)
    above, mark, _ = first.rpartition(".")
    if not mark:
        return None
    last = max(map(above.rfind, ".@!/"))
    return above[:last] if above[last] == "@" else above


def loop_around(node: str) -> str:
    """The execution of the nearest loop around a node."""
    return node.rpartition("@")[0]


def is_within(key: str, node: str) -> bool:
    """Whether a key is that of a node, or of anything that it contains, in any attempt."""
    return key == node or key.startswith((*_below(node), node + "!"))


def is_within_attempt(key: str, attempt: str) -> bool:
    """Whether a key is that of an attempt of a node, or of anything that it contains."""
    return key == attempt or key.startswith(_below(attempt))


def _below(node: str) -> tuple[str, ...]:
    return node + ".", node + "@", node + ":"


def is_asked_during(question: str, call: str, attempt: int | None = None) -> bool:
    """Whether a tool server or a remote agent asks a question during a call, or during this attempt of it."""
    return question.startswith(f"{call}^" if attempt is None else f"{call}^{attempt}.")
