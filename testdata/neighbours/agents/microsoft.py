"""An agent of Microsoft's agent-framework, and its `A2AAgent`. Its approvals are not offered over A2A."""

import os

import httpx
import uvicorn
from a2a.client import A2ACardResolver
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface
from agent_framework import Agent
from agent_framework_a2a import A2AAgent, A2AExecutor
from agent_framework_openai import OpenAIChatCompletionClient
from common import main, remove_note
from starlette.applications import Starlette


def serve(port):
    interface = AgentInterface(
        url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0"
    )
    card = AgentCard(
        name="notes",
        description="Removes notes.",
        version="1",
        default_input_modes=["text"],
        default_output_modes=["text"],
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[interface],
    )
    client = OpenAIChatCompletionClient(model="scripted", base_url=os.environ["OPENAI_BASE_URL"])
    agent = Agent(client, "You remove notes.", name="notes", tools=[remove_note])
    handler = DefaultRequestHandler(
        agent_executor=A2AExecutor(agent, stream=True), task_store=InMemoryTaskStore(), agent_card=card
    )
    routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port)


async def ask(url, words):
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, url).get_agent_card()
    async with A2AAgent(agent_card=card) as agent:
        session = agent.create_session()
        for word in words:
            response = await agent.run(word, session=session)
            yield response.text


main(serve, ask)
