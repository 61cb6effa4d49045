"""Secrets that two parties share, and that are too easy to guess. Pure.

==============================  =======================================================
the secret lets                 a weak one
==============================  =======================================================
clients into this agent         is refused at an address that other machines reach;
                                at a loopback address, the start warns
this agent into another one     the start warns, because its length is up to the other
==============================  =======================================================

A secret is weak if it has fewer than `SHORTEST` characters, fewer than `FEWEST` different ones, or is a word.
API keys and the key of a fleet are no part of this: the product makes them, with 192 bits and more.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..sections.agent_config import AgentConfig
from ..sections.secrets import is_word
from ..text.errors import Problem
from ..text.values import KeyPath, Table, Value, dotted, entry, mark_of, placed

SHORTEST = 16
"""Characters: 64 bits of a secret in hexadecimal, too many to guess over a network."""
FEWEST = 6
"""Different characters. Of random secrets with 16 hexadecimal digits, 1 in 6,000 has fewer."""


def weakness(secret: str) -> str | None:
    """Why a secret is weak, as a predicate; None: it is not."""
    if len(secret) < SHORTEST:
        return f"has fewer than {SHORTEST} characters"
    if is_word(secret):
        return "is a common word"
    if len(set(secret)) < FEWEST:
        return f"has fewer than {FEWEST} different characters"
    return None


def weak_entrances(config: AgentConfig, written: Table, file: str) -> tuple[Problem, ...]:
    """The weak secrets that let clients into this agent, where they are written."""
    proxy = None if config.auth is None else config.auth.proxy
    why = None if proxy is None or proxy.secret is None else weakness(proxy.secret)
    if why is None:
        return ()
    at = entry(entry(written.entries.get("auth"), "proxy"), "secret")
    message = f"the secret {why}; with it, a client can claim any identity"
    return (_problem(message, file, at, ("auth", "proxy", "secret")),)


def weak_exits(config: AgentConfig, written: Table, file: str) -> Iterator[Problem]:
    """The weak keys that let this agent into others, where they are written."""
    for agent, at, path in placed(config.a2a, written, (), "a2a"):
        why = None if agent.api_key is None else weakness(agent.api_key)
        if why is not None:
            message = f"the key of {agent.name} {why}; with it, a client can do there what this agent can"
            yield _problem(message, file, entry(at, "api_key"), (*path, "api_key"))


def _problem(message: str, file: str, at: Value | None, path: KeyPath) -> Problem:
    line, column = (mark.line, mark.column) if (mark := mark_of(at)) else (None, None)
    hint = "make one with `openssl rand -hex 32`"
    return Problem("weak_secret", message, file, line, column, dotted(path), hint=hint)
