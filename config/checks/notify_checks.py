"""Checks of the `notify:` section that compare several of its keys."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from ..reading.reader import Reader
from ..sections.agent_config import AgentConfig
from ..text.values import KeyPath, Table, as_list, entry, items, mark_of


def check_notify(reader: Reader, root: Table, config: AgentConfig) -> None:
    """Report a webhook at an address that the agent will not connect to, as far as it can be known."""
    if config.notify is None:
        return
    written = entry(root.entries.get("notify"), "channels")
    channels = items(as_list(written) if isinstance(written, Table) else written)
    for index, (channel, given) in enumerate(zip(config.notify.channels, channels, strict=True)):
        if channel.to_private or not _is_private(channel.webhook):
            continue
        step = channel.name if isinstance(written, Table) else index
        path: KeyPath = ("notify", "channels", step, "webhook")
        message = "the address is of a private network or of this machine"
        mark = mark_of(entry(given, "webhook"))
        reader.report("private_address", message, mark, path, hint="to_private: true allows it")


def _is_private(url: str) -> bool:
    """Whether the host is a private IP address or this machine. Other names are checked at each attempt."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or not ip_address(host).is_global
    except ValueError:
        return False
