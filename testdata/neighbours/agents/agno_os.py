"""An agent of agno's AgentOS, and its `A2AClient`. Its approvals are not offered over A2A."""

import os

import uvicorn
from agno.agent import Agent
from agno.client.a2a import A2AClient
from agno.models.openai import OpenAIChat
from agno.os import AgentOS
from common import main, remove_note


def serve(port):
    model = OpenAIChat(id="scripted", base_url=os.environ["OPENAI_BASE_URL"])
    agent = Agent(id="notes", name="notes", description="Removes notes.", model=model, tools=[remove_note])
    app = AgentOS(agents=[agent], a2a_interface=True, telemetry=False).get_app()
    uvicorn.run(app, host="127.0.0.1", port=port)


async def ask(url, words):
    client = A2AClient(url, protocol="json-rpc")
    context = None
    for word in words:
        texts = []
        async for event in client.stream_message(word, context_id=context):
            context = event.context_id or context
            texts += [event.content] if event.is_content or (event.is_final and event.content) else []
        yield "".join(texts)


main(serve, ask)
