"""What models are told of the tools: of each, of a server as one, and a line for the system prompt. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from ...config.wording import one_of
from ..gate.gate import PolicyScope, offered
from ..models.messages import ModelTool
from ..tools.catalogue import Catalogue, Shelf
from ..tools.facade import facade_tool
from ..tools.tool import Tool


@attrs.frozen
class Offer:
    """What the model of a node may call, and is told of it."""

    tools: tuple[ModelTool, ...]
    line: str
    """Which servers there are, for the system prompt; empty without any."""


@attrs.frozen(eq=False)
class Menu:
    """Made once for each change of the catalogue; each of its offers once, when first asked for: a model call
    only picks."""

    shelves: tuple[Shelf, ...] = ()
    agents: tuple[tuple[Tool, ModelTool], ...] = ()
    told: tuple[tuple[tuple[Tool, ModelTool], ...], ...] = ()
    """For each shelf, its tools as models see them; empty for a server that is one tool."""
    _offers: dict[object, Offer] = attrs.field(factory=dict)
    """By all of a policy scope that `offered` goes by."""

    def at(self, policy_scope: PolicyScope) -> Offer:
        """What is offered to a node at this policy scope."""
        filters = (policy_scope.servers, policy_scope.tools, policy_scope.agents)
        offer = self._offers.get(filters)
        if offer is None:
            offer = self._offers[filters] = Offer(tuple(self._tools(policy_scope)), self._line(policy_scope))
        return offer

    def _tools(self, policy_scope: PolicyScope) -> Iterator[ModelTool]:
        for shelf, told in zip(self.shelves, self.told, strict=True):
            if shelf.facade is None:
                yield from (model_tool for tool, model_tool in told if offered(tool, policy_scope))
            elif seen := tuple(tool for tool in shelf.tools if offered(tool, policy_scope)):
                yield _as_it_is(facade_tool(shelf.facade, shelf.server.name, seen))
        yield from (model_tool for tool, model_tool in self.agents if offered(tool, policy_scope))

    def _line(self, policy_scope: PolicyScope) -> str:
        marks, tools = [], []
        for shelf in self.shelves:
            if not any(offered(tool, policy_scope) for tool in shelf.tools):
                continue
            description = " ".join(shelf.server.description.split())
            said = f" ({description})" if description else ""
            if shelf.facade is None:
                marks.append(f"[MCP:{shelf.server.name}]{said}")
            else:
                tools.append(f'"{shelf.facade}"{said}')
        ways = []
        if marks:
            ways.append(f"the tools marked {one_of(tuple(marks))}")
        if tools:
            each = "its description lists" if len(tools) == 1 else "their descriptions list"
            ways.append(f"{one_of(tuple(tools))} ({each} the available tools)")
        return f"MCP tool calls: use {' or '.join(ways)}." if ways else ""


def menu(catalogue: Catalogue) -> Menu:
    return Menu(
        catalogue.shelves,
        tuple((tool, _as_it_is(tool)) for tool in catalogue.agents),
        tuple(
            () if shelf.facade else tuple((tool, _model_tool(tool)) for tool in shelf.tools)
            for shelf in catalogue.shelves
        ),
    )


@attrs.define(eq=False)
class CurrentMenu:
    """The menu of the present catalogue, made again when there is another one."""

    _catalogue: Callable[[], Catalogue]
    _made_of: Catalogue = attrs.field(factory=Catalogue)
    _menu: Menu = attrs.field(factory=Menu)

    def __call__(self) -> Menu:
        catalogue = self._catalogue()
        if catalogue is not self._made_of:
            self._made_of, self._menu = catalogue, menu(catalogue)
        return self._menu


def _model_tool(tool: Tool) -> ModelTool:
    description = f"[MCP:{tool.server}] {tool.description or f'MCP tool from {tool.server} server'}"
    return ModelTool(tool.name, description, tool.input_schema)


def _as_it_is(tool: Tool) -> ModelTool:
    return ModelTool(tool.name, tool.description, tool.input_schema)
