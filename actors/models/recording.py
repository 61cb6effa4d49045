"""A conversation's model traffic as a `script:` file: played again, it makes the same run, offline.

A pure function of the conversation's events. What a reply is matched by is where it was given: turn, node,
iteration and call, and only where these do not tell two replies apart the step. What is kept is what was
recorded of the replies, so no key, no bearer token and no header is ever in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from stopgo.actors import events as e
from stopgo.runtime.journal.protocol import Event

_ITERATION = re.compile(r"@(\d+)\.[^@]*$")
"""Of the nearest loop, in the key of an execution."""
_BREAKS = re.compile("[\r\x85\u2028\u2029]")
_NUMBER = re.compile(r"\d+")
_TURN = re.compile(r"(\d+)/")


def script_of(history: Iterable[Event]) -> str:
    """The text of the script file; empty when the models were asked nothing yet."""
    steps = [
        event.body
        for event in history
        if event.type == e.STEP_FINISHED and event.body["kind"] == "model" and _was_said(event.body)
    ]
    if not steps:
        return ""
    # Not as they came: branches that run side by side would make another file of the same conversation.
    steps.sort(key=lambda step: [int(part) for part in _NUMBER.findall(step["key"])])
    where = [_where(step) for step in steps]
    times = Counter(_hashable(place) for place in where)
    replies = []
    for step, place in zip(steps, where, strict=True):
        if times[_hashable(place)] > 1:
            place["step"] = step["key"]
        replies.append({"when": place, **_reply(step)})
    return str(
        yaml.dump({"replies": replies}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    )


class _Dumper(yaml.SafeDumper):
    """Writes texts so that they are read again to the letter."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # In plain style the library leaves these as they are, and then reads them as ends of lines.
    style = '"' if _BREAKS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _was_said(step: Mapping[str, Any]) -> bool:
    """Whether a model, and not a limit of ours, is behind the outcome."""
    return "error" not in step or step["error"]["code"] == "model_error"


def _where(step: Mapping[str, Any]) -> dict[str, Any]:
    execution, _, call = step["key"].rpartition(":")
    turn = _TURN.match(execution)
    assert turn is not None
    place: dict[str, Any] = {"turn": int(turn[1]), "node": step["node"]}
    iteration = _ITERATION.search(execution)
    if iteration is not None:
        place["iteration"] = int(iteration[1])
    place["call"] = int(call)
    return place


def _hashable(place: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(place.items())


def _reply(step: Mapping[str, Any]) -> dict[str, Any]:
    if "error" in step:
        return {"error": {"message": step["error"]["message"]}}
    reply: dict[str, Any] = {}
    if step["text"] or not step["tool_calls"]:
        reply["text"] = _literal(step["text"])
    if step["tool_calls"]:
        reply["tool_calls"] = [_call(call) for call in step["tool_calls"]]
    usage = {key: count for key, count in step["usage"].items() if key.endswith("_tokens") and count}
    if usage:
        reply["usage"] = usage
    return reply


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    said = {"name": call["name"], "arguments": _literal(call["arguments"])}
    if call.get("problem") is not None:
        said["problem"] = call["problem"]
    return said


def _literal(value: Any) -> Any:
    """With `${`, which a script fills in, written as what it fills in with `${`."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, Mapping):
        return {key: _literal(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_literal(each) for each in value]
    return value
