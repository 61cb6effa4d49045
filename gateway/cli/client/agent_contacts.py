"""Reads the cards of the remote agents of an agent file, to see whether the agents can be reached."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial

import trio

from ....actors.a2a.agent_link import AgentLink, RequestNotSent
from ....actors.a2a.wire.client_codec import Interface
from ....actors.servers.masking import Secrets
from ....config.sections.a2a import RemoteAgentConfig
from ..process.interrupt import run_until_interrupted

SECONDS = 3.0
"""Seconds to wait for each agent."""


def contacts(agents: Sequence[RemoteAgentConfig]) -> Mapping[str, str]:
    """The outcome for each agent in words, by the name of the agent."""
    return run_until_interrupted(partial(_read_all, agents))


def interface_text(interface: Interface) -> str:
    """An interface in words."""
    version = "the older dialect" if interface.version == "older" else f"A2A {interface.version}"
    return f"{version} over {interface.binding}"


async def _read_all(agents: Sequence[RemoteAgentConfig]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    async with trio.open_nursery() as nursery:
        for agent in agents:
            nursery.start_soon(_read, agent, found)
    return found


async def _read(agent: RemoteAgentConfig, found: dict[str, str]) -> None:
    link = AgentLink(agent, lambda status: None, logging.getLogger("stopgo.a2a"))
    failure = f"no answer in {SECONDS:g} s"
    try:
        with trio.move_on_after(SECONDS):
            try:
                contact = await link.contact()
            except RequestNotSent as error:
                failure = str(error).removeprefix("it cannot be reached: ")
            else:
                found[agent.name] = f"reached, {interface_text(contact.interface)}"
                return
    finally:
        await link.aclose()
    found[agent.name] = f"not reached: {Secrets.of(agent).mask(failure)}"
