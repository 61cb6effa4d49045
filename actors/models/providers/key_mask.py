"""Masking of a provider's keys in its answers. Pure.

A provider, or a gateway before it, may quote the key of a request: in an error, in a text, in the arguments
of a call. Replies are shown, stored, recorded and sent to tools.

1. A key is masked where it is a whole token: no letter, digit, `-` or `_` is before or after it. So the key
   `sk-test` is not masked inside `latest-sk-tests`, and no part of a masked token remains. An escape, such as
   `\\n` or `%20`, is no part of a token.
2. A key that is a word, such as `ollama`, is masked only where the text says that it is a secret
   (`servers/masking.py`). Keys shorter than `SHORTEST` are never masked.
3. A piece of a stream is kept back while it may be the beginning of a key.
4. A reply whose original form quotes a key is sent back to the provider in ours.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import attrs

from ....config.sections.secrets import MASK, SHORTEST, is_word
from ...servers.masking import BEGINNING, Secrets
from ..messages.messages import ArgumentsDelta, Delta, Emit, ModelReply, TextDelta

CUT = "..."
"""Ends a sentence that was cut."""
_BEFORE = r"(?:(?<![\w-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
_AFTER = r"(?![\w-])"
_CONTEXT = 3
"""Characters that `_BEFORE` looks at."""
_FIRST = 4
"""Characters by which a beginning of a key is looked for; fewer than `SHORTEST`."""


class KeyMask:
    """Masks some keys."""

    def __init__(self, keys: Iterable[str]) -> None:
        found = {key for key in keys if len(key) >= SHORTEST}
        self.tokens = tuple(sorted((key for key in found if not is_word(key)), key=len, reverse=True))
        self._whole = re.compile(f"{_BEFORE}(?:{'|'.join(map(re.escape, self.tokens))}){_AFTER}")
        first = [token[:_FIRST] for token in self.tokens]
        at_end = [f"{re.escape(each[:length])}\\Z" for each in first for length in range(1, _FIRST)]
        self._begun = re.compile("|".join([*map(re.escape, first), *at_end]))
        words = found.difference(self.tokens)
        self._words = Secrets()
        self._words.learn_written("keys", words)
        self._has_words = bool(words)

    def mask(self, text: str) -> str:
        """Mask the keys in a text, and the beginning of one at the end of a text that was cut."""
        for token in self.tokens:
            if token in text:
                text = self._whole.sub(MASK, text)
                break
        for token in self.tokens if text.endswith(CUT) else ():
            for length in range(len(token) - 1, BEGINNING - 1, -1):
                if text.endswith(token[:length] + CUT):
                    text = text[: -length - len(CUT)] + MASK + CUT
                    break
        return self._words.mask(text) if self._has_words else text

    def is_free(self, text: str) -> bool:
        """Whether there is surely nothing to mask in a text, and no key that begins at its end."""
        return self._begun.search(text) is None and not self._has_words

    def pending(self, text: str) -> int:
        """The number of characters at the end that may belong to a key."""
        return max((_overlap(text, token) for token in self.tokens), default=0)

    def masked(self, value: Any) -> Any:
        """Mask all texts inside a JSON value."""
        match value:
            case str():
                return self.mask(value)
            case Mapping():
                return {self.mask(name): self.masked(each) for name, each in value.items()}
            case list() | tuple():
                return type(value)(map(self.masked, value))
            case _:
                return value

    def reply(self, reply: ModelReply) -> ModelReply:
        """Mask the keys in a reply."""
        if not self.tokens and not self._has_words:
            return reply
        calls = tuple(
            attrs.evolve(
                call,
                id=self.mask(call.id),
                name=self.mask(call.name),
                arguments=self.masked(call.arguments),
                problem=call.problem and self.mask(call.problem),
            )
            for call in reply.tool_calls
        )
        verbatim = reply.verbatim
        if verbatim is not None and self.masked(verbatim.content) != verbatim.content:
            verbatim = None
        return attrs.evolve(reply, text=self.mask(reply.text), tool_calls=calls, verbatim=verbatim)


def _overlap(text: str, token: str) -> int:
    """How many characters at the end of a text are the beginning of a token, or all of it."""
    at = text.find(token[:1], max(0, len(text) - len(token)))
    while at >= 0 and not token.startswith(text[at:]):
        at = text.find(token[:1], at + 1)
    return len(text) - at if at >= 0 else 0


@attrs.define(eq=False)
class _MaskedPieces:
    """The pieces of one text."""

    _mask: KeyMask
    _before: str = ""
    """The last characters that were passed on."""
    _pending: str = ""

    def feed(self, piece: str) -> str:
        """The next piece to pass on; may be empty."""
        if not self._pending and self._mask.is_free(piece):  # most pieces
            self._before = (self._before + piece)[-_CONTEXT:]
            return piece
        text = self._pending + piece
        pending = self._mask.pending(text)
        self._pending = text[len(text) - pending :]
        return self._passed(text[: len(text) - pending], self._pending)

    def rest(self) -> str:
        text, self._pending = self._pending, ""
        return self._passed(text, "")

    def _passed(self, text: str, after: str) -> str:
        # The characters kept back show whether a key before them is whole.
        shown = self._mask.mask(f"{self._before}{text}{after[:1]}")
        shown = shown[len(self._before) : len(shown) - len(after[:1])]
        self._before = (self._before + text)[-_CONTEXT:]
        return shown


@attrs.define(eq=False)
class MaskedDeltas:
    """An `Emit` that masks the keys in the pieces of a reply."""

    _mask: KeyMask
    _emit: Emit
    _pieces: dict[int | None, tuple[Delta, _MaskedPieces]] = attrs.field(factory=dict)
    """By index of the call; None: the text. With the last delta of each."""

    def __call__(self, delta: Delta) -> None:
        index = delta.index if isinstance(delta, ArgumentsDelta) else None
        known = self._pieces.get(index)
        pieces = _MaskedPieces(self._mask) if known is None else known[1]
        self._pieces[index] = delta, pieces
        self._pass(delta, pieces.feed(delta.json if isinstance(delta, ArgumentsDelta) else delta.text))

    def end(self) -> None:
        """Pass on the pieces that were kept back."""
        for delta, pieces in self._pieces.values():
            self._pass(delta, pieces.rest())

    def _pass(self, delta: Delta, text: str) -> None:
        if not text:
            return
        match delta:
            case TextDelta():
                self._emit(delta if text == delta.text else TextDelta(text))
            case ArgumentsDelta():
                self._emit(attrs.evolve(delta, name=self._mask.mask(delta.name), json=text))


async def masked(mask: KeyMask, emit: Emit, ask: Callable[[Emit], Awaitable[ModelReply]]) -> ModelReply:
    """The reply of `ask`, which emits pieces, without the keys."""
    if not mask.tokens:
        return mask.reply(await ask(emit))
    deltas = MaskedDeltas(mask, emit)
    reply = mask.reply(await ask(deltas))
    deltas.end()
    return reply
