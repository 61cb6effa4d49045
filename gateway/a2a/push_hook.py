"""A configuration of push notifications, and its note in the journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import trio

from ...actors.a2a.wire.task import PushConfig
from ..http.identity import Lifetime


@attrs.frozen
class SetBy:
    """The request that set a configuration; it determines the format of the notifications."""

    is_v1: bool
    """Version 1.0 sends updates; version 0.3 sends whole tasks."""
    hitl: bool = False
    """Whether the extension for approvals is active."""
    peer: str = ""
    """The client's address."""
    lifetime: Lifetime = attrs.field(factory=Lifetime)
    """Of the credential of the request. Nothing is sent after its end."""


@attrs.define(eq=False)
class Hook:
    config: PushConfig
    by: SetBy
    slot: str
    """The key of its note."""
    member: str
    """The member that received it, whose memory has the token and the credentials."""
    is_over: bool = False
    """The task has ended, and all updates were sent."""
    failing: bool = False
    """Sending the last update was given up."""
    scope: trio.CancelScope | None = None
    """Cancel scope of the follower. None: paused or over."""

    @property
    def key(self) -> tuple[str, str]:
        return self.config.task, self.config.id


def to_note(hook: Hook) -> Mapping[str, Any]:
    """The stored form, without secrets."""
    config = hook.config
    kept = {"task": config.task, "id": config.id, "url": config.url, "scheme": config.scheme}
    return {**kept, "is_v1": hook.by.is_v1, "is_over": hook.is_over, "node": hook.member}


def from_note(slot: str, note: Mapping[str, Any] | None) -> Hook | None:
    """None: the note is empty or cannot be read."""
    match note:
        case {
            "task": str(task),
            "id": str(id),
            "url": str(url),
            "scheme": str() | None as scheme,
            "is_v1": bool(is_v1),
            "is_over": bool(is_over),
            **others,
        }:
            config = PushConfig(task=task, id=id, url=url, scheme=scheme)
            return Hook(config, SetBy(is_v1), slot, str(others.get("node", "")), is_over)
    return None
