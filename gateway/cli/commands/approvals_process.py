"""Requests and output of `stopgo approvals`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ....actors.approvals.description import call_text, shortened
from ..chat.deciding import decision_text, tell_refusal
from ..client.agent_client import AgentClient, JsonObject, ServerError, UnknownId, full_id
from ..client.halt_process import halt_of
from ..process.options import FAILED, WRONG
from ..terminal.terminal import Terminal
from .with_agent import InWords, with_agent

TOO_LATE = 4
"""Exit code: the approval was already decided, has expired or is void."""

MAX_ROW = 1000
"""Maximum characters of a line of `show`, except arguments."""

_SHORT = 8
"""Minimum characters of an abbreviated id. It gets longer until it is unique."""
_CODES = {"approval_not_found": WRONG, "already_decided": TOO_LATE, "expired": TOO_LATE, "void": TOO_LATE}
"""Exit codes by the code of the error."""
_YES_OR_NO = ("approve", "reject")
_DONE = {"approve": "approved", "reject": "rejected", "respond": "answered"}
"""The words for decisions of a call that has not been sent."""
_ROWS = (
    "uuid",
    "state",
    "kind",
    "node",
    "server",
    "tool_name",
    "rule",
    "created_at",
    "expires_at",
    "replaces",
    "superseded_by",
    "rejected_before",
    "void_reason",
    "unshown",
    "conversation_id",
)


def run_approvals(args: argparse.Namespace, given: Mapping[str, Any]) -> int:
    """Carry out the action and return the exit code. `given` are the options of a decision."""

    def refused(error: ServerError) -> int:
        if args.json and error.details:
            print(json.dumps(error.details))
        tell_refusal(Terminal.of_this_process(), error, given)
        wrong = isinstance(error, UnknownId)
        return WRONG if wrong else _CODES.get(error.details.get("code", ""), FAILED)

    return with_agent(args, partial(_carried_out, args, given), refused)


async def _carried_out(args: argparse.Namespace, given: Mapping[str, Any], client: AgentClient) -> InWords:
    action: str = args.action
    if action == "list":
        if not args.json and (line := await halt_of(client)) is not None:
            Terminal.of_this_process().tell(line, "bad")
        page = await pending(client)
        return page, list_lines(page)
    approval = await _approval(client, args.id)
    if action == "show":
        return {"approval": approval}, all_lines(approval)
    words = words_of(approval, action, given)
    turn = await client.post(f"/approvals/{approval['uuid']}", words, wait=False)
    made = approval | {"tool_args": words.get("arguments", approval["tool_args"])}
    about = line_of(made) if action in _DONE else call_text(made["tool_name"], made["tool_args"])
    return turn, [f"{_DONE.get(action, action)}: {about}"]


async def _approval(client: AgentClient, text: str) -> JsonObject:
    """The approval with this id, which may be abbreviated if the approval is pending."""

    async def ids() -> list[str]:
        return [each["uuid"] for each in (await pending(client))["approvals"]]

    id = await full_id(text, ids, "pending approvals")
    approval: JsonObject = (await client.get(f"/approvals/{id}"))["approval"]
    return approval


async def pending(client: AgentClient) -> JsonObject:
    """All pending approvals, as one page of them. Raises ServerError."""
    page = await client.get("/approvals", limit="200")
    while (cursor := page.pop("next_cursor", None)) is not None:
        more = await client.get("/approvals", limit="200", cursor=cursor)
        more["approvals"] = page["approvals"] + more["approvals"]
        page = page | more
    return page


def words_of(approval: Mapping[str, Any], action: str, given: Mapping[str, Any]) -> JsonObject:
    """The body of the decision. An elicitation is accepted or declined."""
    approve = action == "approve"
    common = {"reason": given.get("reason"), "decided_by": given.get("by"), "hash": approval.get("hash")}
    if action not in _YES_OR_NO:
        words: JsonObject = {"action": action, "result": given.get("result")}
    elif (approval.get("remote_kind") or approval["kind"]) == "elicitation":
        words = {"action": "accept" if approve else "decline", "content": given.get("arguments")}
    else:
        words = {"approved": approve, "arguments": given.get("arguments")}
    return {name: value for name, value in (words | common).items() if value is not None}


def list_lines(page: Mapping[str, Any]) -> Iterator[str]:
    """A line for each approval of a page."""
    ids = [each["uuid"] for each in page["approvals"]]
    servers: dict[str, set[str]] = {}
    for each in page["approvals"]:
        servers.setdefault(each["tool_name"], set()).add(each.get("server", ""))
    for each in page["approvals"]:
        alike = len(servers[each["tool_name"]]) > 1
        of = f" of {shortened(each['server'])}" if alike and "server" in each else ""
        yield f"{_abbreviated(each['uuid'], ids)}  {each['created_at']}  {line_of(each)}{of}"
    for each in page.get("broken", ()):
        yield f"{each['id']}: {each['error']}"


def all_lines(approval: Mapping[str, Any]) -> Iterator[str]:
    """The description and all other fields of an approval."""
    yield f"{approval['description']}\n"
    yield from (f"{name}: {shortened(str(approval[name]), MAX_ROW)}" for name in _ROWS if approval.get(name))
    if approval["kind"] != "checkpoint":
        yield f"arguments: {json.dumps(approval['tool_args'], ensure_ascii=False, indent=2)}"
    if (decision := decision_text(approval)) is not None:
        yield f"decision: {decision}"
        for name in ("arguments", "content", "result"):
            if name in approval["decision"]:
                yield f"{name} of the decision: {_shown(approval['decision'][name])}"


def line_of(approval: Mapping[str, Any]) -> str:
    """The subject of an approval, in a line."""
    if (kind := approval["kind"]) in ("checkpoint", "elicitation"):
        return shortened(approval.get("message") or approval["description"])
    call = call_text(approval["tool_name"], approval["tool_args"])
    if kind == "outcome_unknown":
        return f"what came of {call}?"
    return f"{call}, rejected before" if approval.get("rejected_before") else call


def _abbreviated(id: str, ids: list[str]) -> str:
    length = _SHORT
    while sum(each.startswith(id[:length]) for each in ids) > 1:
        length += 1
    return id[:length]


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
