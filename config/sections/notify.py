"""Who is told what happens, as frozen values."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from ..described.shape import About, about, default

NoticeKind: TypeAlias = Literal[
    "approval.requested",
    "approval.reminded",
    "approval.escalated",
    "approval.expiring",
    "approval.expired",
    "approval.resolved",
    "approval.void",
    "tool.unknown",
    "run.auth_required",
    "run.failed",
    "run.limit_reached",
    "agent.halted",
    "agent.unhalted",
    "conversation.deleted",
    "notification.given_up",
]

_B64 = "[A-Za-z0-9+/]"
# Base64 of 24 to 64 bytes.
SIGNING_KEY = rf"whsec_(?:(?:{_B64}{{4}}){{8,21}}(?:{_B64}{{2}}==)?|(?:{_B64}{{4}}){{8,20}}{_B64}{{3}}=)"
_WILDCARDS = "`*` and `?` are wildcards. Only approvals have one."
_MONTH = 31 * 86_400.0


@attrs.frozen(kw_only=True)
class ChannelConfig:
    """A receiver of notifications, and what it is told."""

    name: str = attrs.field(
        metadata=about(
            "Name of the channel; unique in the file.",
            pattern="[A-Za-z0-9_-]{1,48}",
            meaning="a name of at most 48 letters, digits, _ and -",
        )
    )
    webhook: str = attrs.field(
        repr=False,
        metadata=about(
            "Address that gets each notification as a signed POST.",
            pattern=r"https?://(?![^/?#]*@)[^/\s]+\S*",
            meaning="an http:// or https:// address without a user",
        ),
    )
    secrets: tuple[str, ...] = attrs.field(
        repr=False,
        metadata=about(
            "Keys that sign the requests, newest first; write each as `${VAR}` or `${file:PATH}`. A receiver "
            "accepts a request that any of its keys has signed, so a new key is added before the old one is "
            "removed.",
            items=About("", pattern=SIGNING_KEY, meaning="`whsec_` and the base64 of 24 to 64 bytes"),
        ),
    )
    to_private: bool = default(
        False, "Whether the address may be in a private network or on this machine, as in tests and clusters."
    )
    events: tuple[NoticeKind, ...] | None = default(None, "What the channel is told. Default: everything.")
    server: str | None = default(
        None, f"Only approvals of calls of this tool server; {_WILDCARDS}", not_empty=True
    )
    tool: str | None = default(None, f"Only approvals of calls of this tool; {_WILDCARDS}", not_empty=True)
    node: str | None = default(None, f"Only approvals of this node; {_WILDCARDS}", not_empty=True)
    rule: str | None = default(
        None,
        f"Only approvals that this rule or reason asks for, as the approval shows it; {_WILDCARDS}",
        not_empty=True,
    )
    after: float = default(
        0.0,
        "Seconds that an approval has to wait before the channel is told. If it is decided earlier, the "
        "channel hears nothing of it, unless it was escalated to it.",
        minimum=0,
        maximum=_MONTH,
    )
    before_expiry: float = default(
        300.0,
        "Seconds before its expiry at which `approval.expiring` tells of a pending approval; at the earliest "
        "when half of its time has passed.",
        minimum=1,
        maximum=_MONTH,
    )
    remind_every: float | None = default(
        None,
        "Seconds after which `approval.reminded` tells the channel again of an approval that still waits, at "
        "most 50 times. Default: never.",
        minimum=60,
        maximum=_MONTH,
    )
    escalate_after: float | None = default(
        None,
        "Seconds that an approval has to wait before `approval.escalated` tells the channels of "
        "`escalate_to`.",
        minimum=1,
        maximum=_MONTH,
        needs="escalate_to",
    )
    escalate_to: tuple[str, ...] = default(
        (),
        "Names of the channels that are told of an approval that has waited for `escalate_after`, if it "
        "matches their filters, too.",
        needs="escalate_after",
    )

    def wants(self, kind: str) -> bool:
        """Whether the channel is told of this kind of event."""
        return self.events is None or kind in self.events


@attrs.frozen(kw_only=True)
class NotifyConfig:
    """Who is told what happens."""

    channels: tuple[ChannelConfig, ...] = attrs.field(
        metadata=about("The receivers, as a list or as a mapping by name.", unique_names=True, by_name=True)
    )
