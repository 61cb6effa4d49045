"""An agent of pydantic-ai behind fasta2a. Its approvals are not offered over A2A."""

import uvicorn
from common import main, remove_note
from fasta2a.pydantic_ai import agent_to_a2a
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel


def serve(port):
    agent = Agent(OpenAIChatModel("scripted"), tools=[remove_note])
    app = agent_to_a2a(agent, name="notes", description="Removes notes.", url=f"http://127.0.0.1:{port}")
    uvicorn.run(app, host="127.0.0.1", port=port)


main(serve, None)
