"""An agent of kagent's module for ADK, whose tool needs an approval, and its `KAgentRemoteA2ATool`."""

import os

import httpx
import uvicorn
from a2a.types import AgentCapabilities, AgentCard
from common import main, remove_note
from google.adk.agents import LlmAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.genai.types import Content, FunctionResponse, Part
from kagent.adk import KAgentApp
from kagent.adk._approval import make_approval_callback, strip_confirmation_parts_callback
from kagent.adk._remote_a2a_tool import KAgentRemoteA2ATool
from kagent.adk.models import OpenAI


def agent_with(tool, **callbacks):
    model = OpenAI(model="scripted", base_url=os.environ["OPENAI_BASE_URL"], type="openai")
    return LlmAgent(
        name="notes",
        model=model,
        tools=[tool],
        before_model_callback=strip_confirmation_parts_callback,
        **callbacks,
    )


def make():
    approval = make_approval_callback({"remove_note"})
    return agent_with(FunctionTool(remove_note), before_tool_callback=approval)


def serve(port):
    card = AgentCard(
        name="notes",
        description="Removes notes.",
        version="1",
        url=f"http://127.0.0.1:{port}/",
        default_input_modes=["text"],
        default_output_modes=["text"],
        capabilities=AgentCapabilities(streaming=True),
        skills=[],
    )
    app = KAgentApp(make, card, "http://127.0.0.1:9", "notes").build(local=True)
    uvicorn.run(app, host="127.0.0.1", port=port)


async def ask(url, words):
    async with httpx.AsyncClient(timeout=60) as http:
        card = f"{url}/.well-known/agent-card.json"
        tool = KAgentRemoteA2ATool(
            name="peer", description="Another agent.", agent_card_url=card, httpx_client=http
        )
        app = App(
            name="notes",
            root_agent=agent_with(tool),
            resumability_config=ResumabilityConfig(is_resumable=True),
        )
        runner = InMemoryRunner(app=app)
        session = await runner.session_service.create_session(app_name="notes", user_id="u")
        asked = None
        for word in words:
            part = Part(text=word)
            if asked:
                response = {"confirmed": word == "yes", "payload": asked.args["toolConfirmation"]["payload"]}
                answer = FunctionResponse(id=asked.id, name=asked.name, response=response)
                part, asked = Part(function_response=answer), None
            texts = []
            message = Content(role="user", parts=[part])
            async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
                for each in event.content.parts if event.content else []:
                    if each.text:
                        texts.append(each.text)
                    if each.function_call and each.function_call.name == "adk_request_confirmation":
                        asked = each.function_call
                        texts.append(asked.args["toolConfirmation"]["hint"])
            yield " / ".join(texts)


main(serve, ask)
