"""Stored keys, taken apart and built again by `actors.log.keys`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stopgo.actors.log.words import keys
from stopgo.actors.tools.delegation import RemoteItem

_ASKED = re.compile(r"([~?^])([0-9a-f]+)(?:\.(\d+))?")
BUILT = {".": keys.child, "@": keys.iteration, "!": keys.attempt}


def rebuilt(key: str, name: str = "") -> str:
    """The key again. `name`: that of the remote agent's question that it is about."""
    parsed = keys.parse(key)
    again = keys.root(parsed.turn)
    for mark, count in parsed.path:
        again = BUILT[mark](again, count)
    if parsed.mark is not None:
        again = {"!": keys.failure, ">": keys.choice}[parsed.mark](again)
    if parsed.reply is not None:
        again = keys.reply(again, parsed.reply)
    if parsed.call is not None:
        again = keys.call(again, parsed.call)
    match (found := _ASKED.fullmatch(parsed.asked)) and found.groups():
        case None:
            return again
        case "~", number, None:
            return keys.permission(again, int(number))
        case "?", attempt, None:
            return keys.outcome(again, int(attempt))
        case "^", digest, number if len(digest) == 16:
            return keys.delegated(again, name, int(number))
        case "^", attempt, index:
            return keys.elicitation(again, int(attempt), int(index))
        case _:
            return ""


def keys_of(type: str, body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The keys in an event, and what `rebuilt` makes of them."""
    if "key" in body and type != "state.set":
        yield body["key"], rebuilt(body["key"])
    if "question" in body:
        item = RemoteItem(message=body.get("remote_message", ""), id=body.get("remote_item"))
        yield body["question"], rebuilt(body["question"], item.name)
