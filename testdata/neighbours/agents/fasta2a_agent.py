"""An agent of pydantic-ai behind fasta2a, and its `A2AClient`. Its approvals are not offered over A2A."""

import uuid

import uvicorn
from common import main, remove_note
from fasta2a.client import A2AClient
from fasta2a.pydantic_ai import agent_to_a2a
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel


def serve(port):
    agent = Agent(OpenAIChatModel("scripted"), tools=[remove_note])
    app = agent_to_a2a(agent, name="notes", description="Removes notes.", url=f"http://127.0.0.1:{port}")
    uvicorn.run(app, host="127.0.0.1", port=port)


async def ask(url, words):
    client = A2AClient(url, fetch_card=True)
    about = {}
    for word in words:
        message = {"role": "user", "parts": [{"text": word}], "message_id": str(uuid.uuid4()), **about}
        response = await client.send_message(message)
        yield str(response)
        task = response["result"].get("task") or response["result"]
        about = {"context_id": task["context_id"]}


main(serve, ask)
