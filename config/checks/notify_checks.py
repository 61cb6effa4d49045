"""Checks of the `notify:` section that compare several of its keys."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from ..described.wording import nearest
from ..reading.reader import Reader
from ..sections.agent_config import AgentConfig
from ..sections.notify import ChannelConfig, NotifyConfig
from ..text.values import KeyPath, Scalar, Table, Value, as_list, entry, items, mark_of, placed, quoted


def check_notify(reader: Reader, root: Table, config: AgentConfig) -> None:
    """Report a webhook at an address that the agent will not connect to, as far as it can be known, and
    reminders and escalations that no channel would get."""
    if config.notify is None:
        return
    written = entry(root.entries.get("notify"), "channels")
    channels = items(as_list(written) if isinstance(written, Table) else written)
    for index, (channel, given) in enumerate(zip(config.notify.channels, channels, strict=True)):
        step = channel.name if isinstance(written, Table) else index
        path: KeyPath = ("notify", "channels", step)
        if not channel.to_private and _is_private(channel.webhook):
            message = "the address is of a private network or of this machine"
            mark, hint = mark_of(entry(given, "webhook")), "to_private: true allows it"
            reader.report("private_address", message, mark, (*path, "webhook"), hint=hint)
        if channel.remind_every is not None and not _hears_reminders(channel):
            message = "events has no approval.reminded, or no event that is before it"
            mark, hint = mark_of(entry(given, "remind_every")), "add approval.requested and approval.reminded"
            reader.report("conflicting_keys", message, mark, (*path, "remind_every"), hint=hint)
        _check_escalation(reader, channel, given, path, config.notify)


def _hears_reminders(channel: ChannelConfig) -> bool:
    first = channel.wants("approval.requested") or channel.wants("approval.escalated")
    return first and channel.wants("approval.reminded")


def _check_escalation(
    reader: Reader, channel: ChannelConfig, given: Value, path: KeyPath, notify: NotifyConfig
) -> None:
    others = {each.name: each for each in notify.channels if each.name != channel.name}
    for name, value, at in placed(channel.escalate_to, given, path, "escalate_to"):
        if name == channel.name:
            reader.report("conflicting_keys", "a channel escalates to others", value.mark, at)
        elif name not in others:
            text = str(value.value) if isinstance(value, Scalar) else ""
            message, hint = f"no channel is called {quoted(text)}", nearest(text, list(others))
            reader.report("unknown_channel", message, value.mark, at, hint=hint)
        elif not others[name].wants("approval.escalated"):
            message, hint = "the channel is not told of approval.escalated", "add it to its events"
            reader.report("conflicting_keys", message, value.mark, at, hint=hint)


def _is_private(url: str) -> bool:
    """Whether the host is a private IP address or this machine. Other names are checked at each attempt."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or not ip_address(host).is_global
    except ValueError:
        return False
