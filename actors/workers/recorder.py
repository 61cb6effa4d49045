"""Records the model traffic of a conversation as a `script:` file, whenever a run pauses or ends.

With the script as its model, the run can be repeated offline. A reply is matched by turn, node, iteration and
call, and by its step only where these are ambiguous. The script is made from events, which never hold API
keys, bearer tokens or headers.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import attrs
import trio
import yaml

from ...runtime.event_bus import EventBus, Subscription
from ...runtime.journal.errors import StreamDamaged
from ...runtime.journal.protocol import Event, Journal
from ..common.errors import StartError
from ..log.fold.stored import pages
from ..log.words import events as e
from ..log.words import keys
from ..log.words.outcomes import Replied, StepFailed, StepOutcome
from ..models.messages.messages import ToolCall

# ----------------------------------------------------------------- the text of a script, pure

_BREAKS = re.compile("[\r\x85\u2028\u2029]")
_NUMBER = re.compile(r"\d+")
_OWN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The form of the ids that this agent makes for conversations."""


def script_of(history: Iterable[e.LogEvent | None]) -> str:
    """The text of the script file; empty if no model has replied yet."""
    steps = [event for event in history if isinstance(event, e.StepFinished) and _is_by_model(event)]
    if not steps:
        return ""
    # By key, because the order in which concurrent branches finish varies from run to run.
    steps.sort(key=lambda step: [int(part) for part in _NUMBER.findall(step.key)])
    where = [_where(step) for step in steps]
    times = Counter(_hashable(place) for place in where)
    replies = []
    for step, place in zip(steps, where, strict=True):
        if times[_hashable(place)] > 1:
            place["step"] = step.key
        replies.append({"when": place, **_reply(step.outcome)})
    return str(
        yaml.dump({"replies": replies}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    )


class _Dumper(yaml.SafeDumper):
    """Writes texts so that they are read back exactly."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # In plain style, PyYAML writes these characters as they are, and reads them as line breaks.
    style = '"' if _BREAKS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _is_by_model(step: e.StepFinished) -> bool:
    """Whether the outcome is a model's reply or error, and not one of this runtime, such as a limit."""
    match step.outcome:
        case Replied():
            return True
        case StepFailed(error=error):
            return step.kind == "model" and error.code == "model_error"
        case _:
            return False


def _where(step: e.StepFinished) -> dict[str, Any]:
    key = keys.parse(step.key)
    place: dict[str, Any] = {"turn": key.turn, "node": step.node}
    if key.iteration is not None:
        place["iteration"] = key.iteration
    place["call"] = key.reply
    return place


def _hashable(place: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(place.items())


def _reply(outcome: StepOutcome) -> dict[str, Any]:
    if isinstance(outcome, StepFailed):
        return {"error": {"message": outcome.error.message}}
    assert isinstance(outcome, Replied)
    reply: dict[str, Any] = {}
    if outcome.text or not outcome.tool_calls:
        reply["text"] = _literal(outcome.text)
    if outcome.tool_calls:
        reply["tool_calls"] = [_call(call) for call in outcome.tool_calls]
    used = {} if outcome.usage is None else attrs.asdict(outcome.usage)
    usage = {name: count for name, count in used.items() if name.endswith("_tokens") and count}
    if usage:
        reply["usage"] = usage
    return reply


def _call(call: ToolCall) -> dict[str, Any]:
    body = {"name": call.name, "arguments": _literal(call.arguments)}
    return body if call.problem is None else {**body, "problem": call.problem}


def _literal(value: Any) -> Any:
    """The value with `${` escaped, because a script interpolates it."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, Mapping):
        return {key: _literal(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_literal(each) for each in value]
    return value


# ----------------------------------------------------------------- writing it

BUFFER = 4096
"""Events that the bus keeps until the task that notes them is scheduled."""

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class Recorder:
    """Keeps one file per conversation up to date. If a file cannot be written, it logs a warning."""

    _folder: Path
    _journal: Journal
    _bus: EventBus
    _due: OrderedDict[str, None] = attrs.field(factory=OrderedDict)
    """Conversations whose file is out of date, oldest first."""
    _news: trio.Event = attrs.field(factory=trio.Event)
    _events: Subscription | None = None
    _all_noted: bool = False
    _finished: trio.Event = attrs.field(factory=trio.Event)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Record until `finish` is called. Raises `StartError` if the folder cannot be created."""
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StartError(f"cannot record to {self._folder}: {error.strerror}") from error
        with self._bus.subscribe(None, BUFFER) as self._events:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._note, self._events)
                task_status.started()
                while self._due or not self._all_noted:
                    await self._news.wait()
                    self._news = trio.Event()
                    while self._due:
                        await self._write(self._due.popitem(last=False)[0])
        self._finished.set()

    async def finish(self) -> None:
        """Write the files that are out of date, then stop recording."""
        assert self._events is not None
        self._events.end()  # the events in its buffer are still noted
        await self._finished.wait()

    async def _note(self, events: Subscription) -> None:
        async for event in events:
            if missed := events.take_missed():
                logger.warning("%d events were missed: recordings may lack the last replies", missed)
            if isinstance(event, Event) and event.type in e.AT_REST:
                self._due[event.stream] = None
                self._news.set()
        self._all_noted = True
        self._news.set()

    async def _write(self, conversation: str) -> None:
        history: list[e.LogEvent | None] = []
        try:
            async with aclosing(pages(self._journal, conversation)) as found:
                async for page in found:
                    history += (entry.event for entry in page)
            await trio.to_thread.run_sync(_replace, self._folder / file_name(conversation), history)
        except (OSError, StreamDamaged) as error:
            logger.warning("the recording of conversation %s was not written: %s", conversation, error)


def file_name(conversation: str) -> str:
    """The file name for a conversation.

    A2A clients may choose the id. The prefix keeps them from overwriting other files in the folder.
    """
    prefix = "" if _OWN_ID.fullmatch(conversation) else "context-"
    return f"{prefix}{conversation}.yaml"


def _replace(path: Path, history: list[e.LogEvent | None]) -> None:
    text = script_of(history)
    if not text:
        return
    unfinished = path.with_suffix(".tmp")
    # Readable by its owner only. O_EXCL and O_NOFOLLOW: never write to a link or an existing file.
    unfinished.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(unfinished, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(unfinished, path)
