"""The tools that models are offered: definitions, server facades, and a line for the system prompt. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from ...config.described.wording import one_of
from ..gate.gate import PolicyScope, offered
from ..models.messages.messages import ModelTool
from ..tools.catalogue import Catalogue, ToolGroup
from ..tools.facade import facade_tool
from ..tools.tool import Tool


@attrs.frozen
class Offer:
    """The tools that the model of a node may call."""

    tools: tuple[ModelTool, ...]
    line: str
    """The line about the servers for the system prompt; empty without servers."""


@attrs.frozen(eq=False)
class ToolOffers:
    """The offers of one catalogue. Each is made once, when it is first used, and then kept."""

    groups: tuple[ToolGroup, ...] = ()
    agents: tuple[tuple[Tool, ModelTool], ...] = ()
    told: tuple[tuple[tuple[Tool, ModelTool], ...], ...] = ()
    """For each group, its tools as models see them; empty for a server facade."""
    _offers: dict[object, Offer] = attrs.field(factory=dict)
    """The offers by the call filters that `offered` uses."""

    def at(self, policy_scope: PolicyScope) -> Offer:
        """Return the offer for a node at this policy scope."""
        filters = (policy_scope.servers, policy_scope.tools, policy_scope.agents)
        offer = self._offers.get(filters)
        if offer is None:
            offer = self._offers[filters] = Offer(tuple(self._tools(policy_scope)), self._line(policy_scope))
        return offer

    def _tools(self, policy_scope: PolicyScope) -> Iterator[ModelTool]:
        for group, told in zip(self.groups, self.told, strict=True):
            if group.facade is None:
                yield from (model_tool for tool, model_tool in told if offered(tool, policy_scope))
            elif seen := tuple(tool for tool in group.tools if offered(tool, policy_scope)):
                yield _as_it_is(facade_tool(group.facade, group.server.name, seen))
        yield from (model_tool for tool, model_tool in self.agents if offered(tool, policy_scope))

    def _line(self, policy_scope: PolicyScope) -> str:
        marks, tools = [], []
        for group in self.groups:
            if not any(offered(tool, policy_scope) for tool in group.tools):
                continue
            description = " ".join(group.server.description.split())
            said = f" ({description})" if description else ""
            if group.facade is None:
                marks.append(f"[MCP:{group.server.name}]{said}")
            else:
                tools.append(f'"{group.facade}"{said}')
        ways = []
        if marks:
            ways.append(f"the tools marked {one_of(tuple(marks))}")
        if tools:
            each = "its description lists" if len(tools) == 1 else "their descriptions list"
            ways.append(f"{one_of(tuple(tools))} ({each} the available tools)")
        return f"MCP tool calls: use {' or '.join(ways)}." if ways else ""


def tool_offers(catalogue: Catalogue) -> ToolOffers:
    return ToolOffers(
        catalogue.groups,
        tuple((tool, _as_it_is(tool)) for tool in catalogue.agents),
        tuple(
            () if group.facade else tuple((tool, _model_tool(tool)) for tool in group.tools)
            for group in catalogue.groups
        ),
    )


@attrs.define(eq=False)
class CurrentOffers:
    """The offers of the current catalogue, made again after each change."""

    _catalogue: Callable[[], Catalogue]
    _made_of: Catalogue = attrs.field(factory=Catalogue)
    _offers: ToolOffers = attrs.field(factory=ToolOffers)

    def __call__(self) -> ToolOffers:
        catalogue = self._catalogue()
        if catalogue is not self._made_of:
            self._made_of, self._offers = catalogue, tool_offers(catalogue)
        return self._offers


def _model_tool(tool: Tool) -> ModelTool:
    description = f"[MCP:{tool.server}] {tool.description or f'MCP tool from {tool.server} server'}"
    return ModelTool(tool.name, description, tool.input_schema)


def _as_it_is(tool: Tool) -> ModelTool:
    return ModelTool(tool.name, tool.description, tool.input_schema)
