"""The client of `a2a-sdk`, told what to do line by line:

    python a2a_client.py URL VERSION BINDING

A line of the input is a JSON object: `do`, the `params` of the request as A2A 1.0 writes them, and if need be
`extensions` to activate. The output has a line for each thing that the client gave back, again as 1.0 writes
it, and a last one with `end`, the extensions that the agent activated, or with `error`. Its counterpart is
a2a_client.mjs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.client.client import ClientCallContext
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from google.protobuf.json_format import MessageToDict, ParseDict

Json = dict[str, Any]


def tell(**line: Any) -> None:
    print(json.dumps(line), flush=True)


class Session:
    def __init__(self, url: str, version: str, binding: str) -> None:
        self.url, self.version, self.binding = url, version, binding
        self.activated = ""
        self.http = httpx.AsyncClient(timeout=60, event_hooks={"response": [self.note]})

    async def note(self, response: httpx.Response) -> None:
        self.activated = response.headers.get("A2A-Extensions", "")

    async def client(self, *, streaming: bool) -> Client:
        card = (await self.http.get(f"{self.url}/.well-known/agent-card.json")).raise_for_status().json()
        if self.version == "0.3":  # read it as clients do that know of no later version
            del card["supportedInterfaces"]
        config = ClientConfig(
            streaming=streaming, httpx_client=self.http, supported_protocol_bindings=[self.binding]
        )
        return ClientFactory(config).create(parse_agent_card(card))

    async def carry_out(self, order: Json) -> None:
        client = await self.client(streaming=order["do"] != "send")
        extensions = with_a2a_extensions(order.get("extensions", []))
        context = ClientCallContext(service_parameters=ServiceParametersFactory.create([extensions]))
        async for item in ask(client, order["do"], order.get("params", {}), context):
            tell(item=item if isinstance(item, dict) else MessageToDict(item))


async def ask(client: Client, do: str, params: Json, context: ClientCallContext) -> AsyncIterator[Any]:
    match do:
        case "transport":
            # What the factory chose: the name of its class begins with Compat for 0.3.
            name = type(client._transport).__name__  # type: ignore[attr-defined]
            yield {"legacy": name.startswith("Compat"), "rest": name.endswith("RestTransport")}
        case "send" | "stream":
            async for item in client.send_message(ParseDict(params, SendMessageRequest()), context=context):
                yield item
        case "subscribe":
            async for item in client.subscribe(ParseDict(params, SubscribeToTaskRequest()), context=context):
                yield item
        case _:
            one: dict[str, tuple[Callable[..., Any], Any]] = {
                "get": (client.get_task, GetTaskRequest()),
                "list": (client.list_tasks, ListTasksRequest()),
                "cancel": (client.cancel_task, CancelTaskRequest()),
                "card": (client.get_extended_agent_card, GetExtendedAgentCardRequest()),
            }
            method, request = one[do]
            yield await method(ParseDict(params, request), context=context)


async def main(url: str, version: str, binding: str) -> None:
    session = Session(url, version, binding)
    while line := await anyio.to_thread.run_sync(sys.stdin.readline):
        try:
            await session.carry_out(json.loads(line))
        except Exception as error:
            tell(error=type(error).__name__, message=str(error))
        else:
            tell(end=session.activated)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
