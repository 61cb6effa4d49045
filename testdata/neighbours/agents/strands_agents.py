"""An agent of Strands, which interrupts before its tool, and its `A2AAgent`."""

import os
import re

from common import main, remove_note
from strands import Agent, tool
from strands.agent.a2a_agent import A2AAgent
from strands.hooks import BeforeToolCallEvent, HookProvider
from strands.models.openai import OpenAIModel
from strands.multiagent.a2a import A2AServer


class Approval(HookProvider):
    """As in the documentation of interrupts."""

    def register_hooks(self, registry, **_):
        registry.add_callback(BeforeToolCallEvent, self.approve)

    def approve(self, event):
        approval = event.interrupt("notes-approval", reason=event.tool_use["input"])
        if approval.lower() != "y":
            event.cancel_tool = "A person denied permission."


def make(context_id):
    model = OpenAIModel(
        client_args={"base_url": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]},
        model_id="scripted",
    )
    return Agent(
        name="notes",
        description="Removes notes.",
        model=model,
        tools=[tool(remove_note)],
        hooks=[Approval()],
        callback_handler=None,
    )


def serve(port):
    A2AServer(agent_factory=make, port=port, enable_a2a_compliant_streaming=True).serve()


async def ask(url, words):
    agent = A2AAgent(url)
    text = ""
    for word in words:
        id = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", text)
        text = str(await agent.invoke_async(word.replace("ID", id[0] if id else ""))).strip()
        yield text


main(serve, ask)
