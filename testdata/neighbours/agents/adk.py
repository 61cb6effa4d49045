"""An agent of Google's ADK, whose tool has `require_confirmation`, and its `RemoteA2aAgent`."""

import re

import uvicorn
from common import main, remove_note
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import LlmAgent
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.genai.types import Content, FunctionCall, FunctionResponse, Part


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1].parts[-1]
        if last.function_response:
            said = Part(text=f"The tool says: {last.function_response.response}")
        elif found := re.search(r"^remove (\w+)", last.text or ""):
            said = Part(function_call=FunctionCall(name="remove_note", args={"name": found[1]}))
        else:
            said = Part(text=f"echo: {last.text}")
        yield LlmResponse(content=Content(role="model", parts=[said]))


def serve(port):
    tool = FunctionTool(remove_note, require_confirmation=True)
    agent = LlmAgent(
        name="notes", description="Removes notes.", model=Scripted(model="scripted"), tools=[tool]
    )
    uvicorn.run(to_a2a(agent, host="127.0.0.1", port=port), host="127.0.0.1", port=port)


async def ask(url, words):
    agent = RemoteA2aAgent(name="peer", agent_card=f"{url}/.well-known/agent-card.json")
    runner = InMemoryRunner(agent, app_name="notes")
    session = await runner.session_service.create_session(app_name="notes", user_id="u")
    asked = None
    for word in words:
        part = Part(text=word)
        if asked:  # as the page of `adk web` answers
            response = FunctionResponse(id=asked.id, name=asked.name, response={"result": word})
            part, asked = Part(function_response=response), None
        texts = []
        message = Content(role="user", parts=[part])
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            for each in event.content.parts if event.content else []:
                if each.text and not each.thought:
                    texts.append(each.text)
                if each.function_call and each.function_call.id in (event.long_running_tool_ids or ()):
                    asked = each.function_call
            if event.error_message:
                texts.append(f"error: {event.error_message}")
        yield " / ".join(texts)


main(serve, ask)
