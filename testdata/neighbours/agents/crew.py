"""An agent of CrewAI, which serves A2A, and one that delegates to ours. CrewAI has no approvals over A2A."""

import json
import re

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from anyio import to_thread
from common import main, remove_note
from crewai import Agent, BaseLLM, Crew, Task
from crewai.a2a import A2AClientConfig, A2AServerConfig
from crewai.a2a.utils.task import cancel, execute
from crewai.tools import tool


class Remover(BaseLLM):
    """In the form that CrewAI gives to models without function calls."""

    def call(self, messages, *_, **__):
        text = "\n".join(str(each["content"]) for each in messages)
        if "Observation: removed" in text:
            said = re.findall(r"Observation: (.*)", text)[-1]
            return f"Thought: I know\nFinal Answer: The tool says: {said}"
        if found := re.search(r"remove (first|second)", text):
            arguments = json.dumps({"name": found[1]})
            return f"Thought: I remove it\nAction: remove_note\nAction Input: {arguments}"
        return "Thought: I know\nFinal Answer: echo: hello"


class Delegator(BaseLLM):
    """Says the words one after the other to the agent at the URL."""

    url: str = ""
    words: list[str]

    def call(self, messages, *_, **__):
        message = self.words.pop(0) if self.words else "that is all"
        return json.dumps({"a2a_ids": [self.url], "message": message, "is_a2a": True})


class Executor(AgentExecutor):
    def __init__(self, agent):
        self.agent = agent

    async def execute(self, context, event_queue):
        await execute(self.agent, context, event_queue)

    async def cancel(self, context, event_queue):
        await cancel(context, event_queue)


def serve(port):
    url = f"http://127.0.0.1:{port}/"
    agent = Agent(
        role="notes",
        goal="Remove notes.",
        backstory="You remove notes.",
        llm=Remover(model="scripted"),
        tools=[tool(remove_note)],
        a2a=A2AServerConfig(url=url),
    )
    handler = DefaultRequestHandler(agent_executor=Executor(agent), task_store=InMemoryTaskStore())
    app = A2AStarletteApplication(agent_card=agent.to_agent_card(url), http_handler=handler).build()
    uvicorn.run(app, host="127.0.0.1", port=port)


async def ask(url, words):
    for row in ([each] for each in words[:-2]):
        yield await to_thread.run_sync(delegate, url, row)
    yield "(asked)"
    yield await to_thread.run_sync(delegate, url, list(words[-2:]))


def delegate(url, words):
    card = f"{url}/.well-known/agent-card.json"
    agent = Agent(
        role="caller",
        goal="Ask.",
        backstory="You ask.",
        llm=Delegator(model="scripted", url=card, words=list(words)),
        a2a=A2AClientConfig(endpoint=card, trust_remote_completion_status=True, max_turns=4),
    )
    task = Task(description=words[0], expected_output="The answer.", agent=agent)
    return str(Crew(agents=[agent], tasks=[task]).kickoff())


main(serve, ask)
