"""Follows a conversation for a person at a terminal: folds its events, and says what to show for each. Pure.

The events are those of an agent in this process (`one_turn`), or of a running one (`chat_conversation`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

import attrs

from ....actors.approvals.asked import Asked
from ....actors.approvals.voting import shown_after
from ....actors.log.fold.state import answer_of
from ....actors.log.words import events as e
from ....actors.log.words.event_json import decode
from ....actors.log.words.outcomes import Replied
from ....runtime.journal.protocol import Event
from .progress import ProgressView
from .terminal import Style, Terminal

if TYPE_CHECKING:
    from .chat_terminal import ChatTerminal  # with prompt_toolkit, which `stopgo run` does not need

MAX_ENTRIES = 500
"""Maximum number of messages and answers kept for `/history`."""


@attrs.frozen
class Line:
    text: str
    style: Style = "quiet"


@attrs.frozen
class Piece:
    """A piece of the text of a model."""

    text: str
    begins: bool
    """Whether this is the beginning of a text."""
    ends: bool = False
    node: str = ""


@attrs.frozen
class AnswerText:
    """An answer of the agent that is not on the screen yet."""

    text: str


OnScreen: TypeAlias = Line | Piece | AnswerText


def draw(shown: OnScreen, screen: Terminal | ChatTerminal) -> None:
    match shown:
        case Line(text, style):
            screen.tell(text, style)
        case Piece(text, begins, ends, node):
            if text or not (begins and ends):  # otherwise the attempt that counts has no text
                screen.piece(node, text, begins=begins)
            if ends:
                screen.end_text()
        case AnswerText(text):
            screen.answer(text)
        case _:
            assert_never(shown)


@attrs.define
class StreamedText:
    """Shows the text of one model call as it streams, one text at a time and each text once. The texts of
    concurrent calls are shown when they are complete."""

    last: str | None = None
    """The last complete text."""

    _call: tuple[str, int] | None = None
    """Key and attempt of the call that is being shown."""
    _shown: str = ""
    _skipped: set[tuple[str, int]] = attrs.field(factory=set)
    """Calls with a piece that was not shown."""

    def piece(self, key: str, attempt: int, text: str) -> Piece | None:
        """The part of a received piece to show; None: nothing."""
        call = (key, attempt)
        retried = self._call is not None and self._call[0] == key and self._call[1] < attempt
        if call in self._skipped or not (self._call in (None, call) or retried):
            self._skipped.add(call)
            return None
        begins = self._call != call
        self._call, self._shown = call, text if begins else self._shown + text
        return Piece(text, begins)

    def whole(self, key: str, text: str) -> Piece | None:
        """The rest to show of the complete text of a call; None if the text is empty."""
        self.last = text
        if self._call is None or self._call[0] != key:
            return Piece(text, begins=True) if text else None
        shown, self._call, self._shown = self._shown, None, ""
        if not text.startswith(shown):  # pieces were lost, or the last attempt had none
            return Piece(text, begins=True)
        return Piece(text[len(shown) :], begins=False)

    def lose(self) -> None:
        """Handle a gap in the pieces: the current text is shown when it is complete."""
        if self._call is not None:
            self._skipped.add(self._call)
        self._call = None


@attrs.define(eq=False)
class Follower:
    """The state of one conversation. Needs all events from its start, because later ones refer to them."""

    seen: int = 0
    """Events up to this seq are not shown."""
    streams: bool = True
    """Whether texts of models are shown in full, as they come; otherwise in a line."""
    token_hint: str = ""
    """How the person gives a run the bearer token that it needs."""
    running: bool = False
    """Whether a run is active."""
    waiting_on: Sequence[str] = ()
    """The ids of the approvals that a blocked run waits for."""
    pending: dict[str, Asked[Any]] = attrs.field(factory=dict)
    """The pending approvals by id."""
    entries: deque[tuple[bool, str]] = attrs.field(factory=lambda: deque(maxlen=MAX_ENTRIES))
    """The history. True: a message from a person; false: an answer of the agent."""
    texts: StreamedText = attrs.field(factory=StreamedText)
    progress: ProgressView = attrs.field(factory=ProgressView)

    def apply(self, stored: Event) -> tuple[e.LogEvent | None, OnScreen | None]:
        """Advance by an event. Return it and what to show for it; neither for an event up to `seen`, nor for
        one that this version cannot decode."""
        try:
            event, line = decode(stored).event, self.progress.line(stored)
        except (LookupError, TypeError, ValueError):
            event = line = None
        if event is None:
            return None, None
        self._fold(event)
        return (None, None) if stored.seq <= self.seen else (event, self._shown(event, line))

    def piece(self, node: str, key: str, attempt: int, text: str) -> Piece | None:
        """What to show for a piece of a text, if anything."""
        piece = self.texts.piece(key, attempt, text)
        return None if piece is None else attrs.evolve(piece, node=node)

    @property
    def next_approval(self) -> Asked[Any] | None:
        """The next approval to decide."""
        return next((self.pending[id] for id in self.waiting_on if id in self.pending), None)

    def _fold(self, event: e.LogEvent) -> None:
        if isinstance(event, e.MessageAdded | e.RunFinished):
            self.entries.append((isinstance(event, e.MessageAdded), event.text))
        match event:
            case e.RunStarted() | e.RunResumed():
                self.running, self.waiting_on = True, ()
            case e.RunWaiting(on=on):
                self.running, self.waiting_on = False, on
            case e.RunAuthRequired() | e.RunFinished() | e.RunFailed() | e.RunCancelled():
                self.running, self.waiting_on = False, ()
            case e.ApprovalRequested(asked=asked):
                self.pending[asked.id] = asked
            case e.ApprovalVoted(id=id, decision=decision) if id in self.pending:
                self.pending[id] = shown_after(self.pending[id], decision)
            case e.ApprovalResolved(id=id) | e.ApprovalExpired(id=id) | e.ApprovalVoid(id=id):
                self.pending.pop(id, None)
                self.waiting_on = tuple(each for each in self.waiting_on if each != id)
            case _:
                pass

    def _shown(self, event: e.LogEvent, line: str | None) -> OnScreen | None:
        match event:
            case e.MessageAdded(text=text):
                return Line(f"> {text}", "question")
            case e.StepFinished(outcome=Replied(text=text)) if self.streams:
                piece = self.texts.whole(event.key, text)
                return None if piece is None else attrs.evolve(piece, node=event.node, ends=True)
            case e.RunStarted():
                self.texts.last = None
                return None
            case e.RunFinished(text=text):
                return None if text in ("", self.texts.last) else AnswerText(text)
            case e.RunFailed():
                return Line(answer_of(event), "bad")
            case e.RunCancelled():
                return Line("cancelled", "bad")
            case e.RunAuthRequired(wanted=wanted):
                return Line(f"{wanted.label} needs a bearer token{self.token_hint}", "bad")
            case _:
                return None if line is None else Line(line)
