"""The client that the official MCP conformance suite runs: our own connection, told what each scenario wants.

    python -m tests.conformance.client URL

The suite says in the environment which scenario it is (`MCP_CONFORMANCE_SCENARIO`), what goes with it
(`MCP_CONFORMANCE_CONTEXT`, JSON) and which version of the protocol it is about
(`MCP_CONFORMANCE_PROTOCOL_VERSION`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import attrs
import trio
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from stopgo.actors.mcp.caller import ToolCaller
from stopgo.actors.mcp.connection import ServerConnection
from stopgo.actors.servers.server_status import ServerStartFailed
from stopgo.actors.tools.tool import (
    CallTool,
    Elicitation,
    ElicitationAnswer,
    Tool,
    ToolInputRequired,
    ToolOutcomeUnknown,
    ToolResult,
    ToolUnavailable,
)
from stopgo.config.sections.mcp import McpServerConfig
from tests.conformance.authorization import authorization

ONLY_OLDER = {"json-schema-ref-no-deref"}
"""Scenarios of the newer version whose server speaks only the older ones."""
EXAMPLES = {"string": "x", "integer": 0, "number": 0, "boolean": False, "object": {}, "array": []}


async def main(url: str, scenario: str, context: Mapping[str, Any], version: str) -> None:
    modern = version in MODERN_PROTOCOL_VERSIONS and scenario not in ONLY_OLDER
    config = McpServerConfig(
        name="conformance", url=url, mode="auto" if modern else "legacy", timeout=300.0, connect_timeout=300.0
    )
    auth = authorization(url, scenario, context) if scenario.startswith("auth/") else None
    connection = ServerConnection(
        config, lambda status: print(status.state, status.error, file=sys.stderr), auth
    )
    caller = ToolCaller(config, connection.current, connection.authenticate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        await connection.started()
        for name, arguments in calls(scenario, context, connection.current.tools):
            try:
                result = await call(caller, CallTool(name, arguments, on_elicitation=answer))
                print(name, result.content, file=sys.stderr)
            except (ToolOutcomeUnknown, ToolUnavailable) as error:
                print(name, error, file=sys.stderr)
        await connection.stop()


async def call(caller: ToolCaller, request: CallTool) -> ToolResult:
    """Make the call; as often as its server asks something first, with the answers."""
    while True:
        try:
            return await caller.call(request)
        except ToolInputRequired as wanted:
            answers = {name: await answer(question) for name, question in wanted.requests.items()}
            request = attrs.evolve(request, answers=answers if wanted.answers else None, state=wanted.state)


def calls(
    scenario: str, context: Mapping[str, Any], tools: tuple[Tool, ...]
) -> list[tuple[str, Mapping[str, Any]]]:
    """What the scenario wants called; every tool once, if it does not say."""
    names = [tool.name for tool in tools]
    match scenario:
        case "http-custom-headers":
            wanted = context.get("toolCalls", [])
            return [(call["name"], call.get("arguments") or {}) for call in wanted if call["name"] in names]
        case "sep-2322-client-request-state":
            kinds = ("echo_state", "unrelated", "no_state", "no_result_type")
            return [(f"test_mrtr_{kind}", {}) for kind in kinds]
        case "json-schema-2020-12-preservation":
            [schema] = [tool.input_schema for tool in tools if tool.name == "json_schema_2020_12_tool"]
            return [("json_schema_echo", {"schema": schema})]
        case _ if "add_numbers" in names:
            return [("add_numbers", {"a": 5, "b": 3})]
        case _ if scenario.startswith("auth/"):
            return [(name, {}) for name in names[:1]]
        case _:
            return [(tool.name, example(tool.input_schema)) for tool in tools]


def example(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the types that the schema requires."""
    properties = schema.get("properties", {})
    return {
        name: EXAMPLES.get(properties.get(name, {}).get("type"), "x") for name in schema.get("required", [])
    }


async def answer(question: Elicitation) -> ElicitationAnswer:
    """Confirm, with the defaults that the question offers."""
    properties: Mapping[str, Any] = (question.schema or {}).get("properties", {})
    content = {name: entry["default"] for name, entry in properties.items() if "default" in entry}
    if "confirmed" in properties:
        content["confirmed"] = True
    return ElicitationAnswer("accept", content)


if __name__ == "__main__":
    try:
        trio.run(
            main,
            sys.argv[-1],
            os.environ["MCP_CONFORMANCE_SCENARIO"],
            json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}"),
            os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", ""),
        )
    except* ServerStartFailed as failed:
        sys.exit(str(failed.exceptions[0]))
