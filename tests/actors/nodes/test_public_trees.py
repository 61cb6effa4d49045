"""Trees of the documentation of other frameworks give what their authors describe.

Each is an agent file as users write it, with scripted models. The conditions of a script are what a node has
to be told: if its prompt has another value, no entry holds, and the run fails. The sources are the pages on
which the authors describe the tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
from trio.testing import MockClock

from stopgo.actors.agent.open_agent import open_agent
from stopgo.config.load import load_config
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from tests.actors.world import answer, events, wall


@attrs.frozen
class PublicTree:
    name: str
    source: str
    agent: str
    replies: str
    message: str
    response: str
    state: Mapping[str, str]
    """The last value of each key."""
    asked: str
    """The nodes that said something, in order."""


TREES = [
    PublicTree(
        "a document is refined until the critic has no remark",
        "google.github.io/adk-docs/agents/workflow-agents/loop-agents",
        """
        type: sequential
        name: pipeline
        agents:
          - type: llm
            name: writer
            prompt: "Write a first draft about {user_message}."
            output_key: document
          - type: loop
            name: refinement
            max_iterations: 5
            agents:
              - type: llm
                name: critic
                prompt: "Review:\\n{document}\\nIf it is good, say exactly: No major issues found."
                output_key: criticism
              - type: llm
                name: refiner
                prompt: "Document:\\n{document}\\nCritique: {criticism}\\nIf there is none, call exit_loop."
                output_key: document
                can_exit_loop: true
        """,
        """
        - {when: {node: writer, prompt: about a cat}, text: A cat slept.}
        - {when: {node: critic, prompt: A cat slept}, text: Add a place.}
        - {when: {node: critic, prompt: A grey cat slept in Rome}, text: No major issues found.}
        - {when: {node: critic, prompt: A cat in Rome slept}, text: Add a colour.}
        - {when: {node: refiner, prompt: "Critique: No major issues found"}, tool_calls: [{name: exit_loop}]}
        - {when: {node: refiner, prompt: "A cat slept.\\nCritique: Add a place"}, text: A cat in Rome slept.}
        - when: {node: refiner, prompt: "Rome slept.\\nCritique: Add a colour"}
          text: A grey cat slept in Rome.
        """,
        "a cat",
        "A grey cat slept in Rome.",
        {"document": "A grey cat slept in Rome.", "criticism": "No major issues found."},
        "writer critic refiner critic refiner critic",
    ),
    PublicTree(
        "three researchers work side by side, and one agent joins what they found",
        "google.github.io/adk-docs/agents/workflow-agents/parallel-agents",
        """
        type: sequential
        name: research-and-synthesis
        agents:
          - type: parallel
            name: research
            agents:
              - {type: llm, name: energy, prompt: Research renewable energy., output_key: energy_result}
              - {type: llm, name: vehicles, prompt: Research electric vehicles., output_key: vehicles_result}
              - {type: llm, name: carbon, prompt: Research carbon capture., output_key: carbon_result}
          - type: llm
            name: synthesis
            prompt: "Energy: {energy_result}\\nVehicles: {vehicles_result}\\nCarbon: {carbon_result}"
        """,
        """
        - {when: {node: energy}, text: Solar cells are cheap., delay: 3}
        - {when: {node: vehicles}, text: Batteries last., delay: 1}
        - {when: {node: carbon}, text: Rocks bind carbon., delay: 2}
        - when: {node: synthesis, prompt: "Energy: (?P<a>.*)\\nVehicles: (?P<b>.*)\\nCarbon: (?P<c>.*)"}
          text: "Report: ${a} ${b} ${c}"
        """,
        "Summarize recent advances.",
        "Report: Solar cells are cheap. Batteries last. Rocks bind carbon.",
        {
            "energy_result": "Solar cells are cheap.",
            "vehicles_result": "Batteries last.",
            "carbon_result": "Rocks bind carbon.",
        },
        "vehicles carbon energy synthesis",
    ),
    PublicTree(
        "code is written, reviewed and rewritten",
        "google.github.io/adk-docs/agents/workflow-agents/sequential-agents",
        """
        type: sequential
        name: code-pipeline
        agents:
          - {type: llm, name: writer, prompt: Write the code., output_key: generated_code}
          - type: llm
            name: reviewer
            prompt: "```python\\n{generated_code}\\n```\\nAnswer in JSON: {\\"comment\\": \\"...\\"} or {}."
            output_key: review_comments
          - type: llm
            name: refactorer
            prompt: "Code:\\n{generated_code}\\nComments:\\n{review_comments}"
            output_key: refactored_code
        """,
        """
        - {when: {node: writer}, text: "def f(d): return {d}"}
        - when: {node: reviewer, prompt: '\\{d\\}\\n```\\nAnswer in JSON: \\{"comment": "..."\\} or \\{\\}'}
          text: '{"comment": "Name {d}."}'
        - when: {node: refactorer, prompt: 'return \\{d\\}\\nComments:\\n\\{"comment": "Name \\{d\\}."\\}'}
          text: "def as_set(value): return {value}"
        """,
        "a function that returns a set",
        "def as_set(value): return {value}",
        {
            "generated_code": "def f(d): return {d}",
            "review_comments": '{"comment": "Name {d}."}',
            "refactored_code": "def as_set(value): return {value}",
        },
        "writer reviewer refactorer",
    ),
    PublicTree(
        "a gate ends a chain of prompts early",
        "docs.langchain.com/oss/python/langgraph/workflows-agents (prompt chaining)",
        """
        type: loop
        name: chain
        max_iterations: 1
        agents:
          - {type: llm, name: generate, prompt: Write a joke., output_key: joke}
          - type: llm
            name: gate
            prompt: "If this has a punchline, call exit_loop: {joke}"
            can_exit_loop: true
          - {type: llm, name: improve, prompt: "Add wordplay: {joke}", output_key: joke}
          - {type: llm, name: polish, prompt: "Add a twist: {joke}", output_key: joke}
        """,
        """
        - {when: {node: generate}, text: "Why did the cat nap? It was tired!"}
        - {when: {node: gate, prompt: tired!}, tool_calls: [{name: exit_loop}]}
        """,
        "cats",
        "Why did the cat nap? It was tired!",
        {"joke": "Why did the cat nap? It was tired!"},
        "generate",
    ),
    PublicTree(
        "an evaluator grades a joke, and its feedback goes back until the joke is funny",
        "docs.langchain.com/oss/python/langgraph/workflows-agents (evaluator-optimizer)",
        """
        type: loop
        name: optimizer
        agents:
          - {type: llm, name: generator, prompt: "Write a joke. Feedback: {feedback?}", output_key: joke}
          - type: llm
            name: evaluator
            prompt: "Grade: {joke}. If it is funny, call exit_loop. If not, give feedback."
            output_key: feedback
            can_exit_loop: true
        """,
        """
        - {when: {node: generator, prompt: 'Feedback: $'}, text: Cats sleep.}
        - {when: {node: generator, prompt: 'Feedback: Use a pun'}, text: Cats have purr-fect dreams.}
        - {when: {node: evaluator, prompt: Cats sleep}, text: Use a pun.}
        - {when: {node: evaluator, prompt: purr-fect}, tool_calls: [{name: exit_loop}]}
        """,
        "cats",
        "Cats have purr-fect dreams.",
        {"joke": "Cats have purr-fect dreams.", "feedback": "Use a pun."},
        "generator evaluator generator",
    ),
    PublicTree(
        "a triage agent hands homework to the tutor of the subject",
        "openai.github.io/openai-agents-python/quickstart",
        """
        type: router
        name: triage
        prompt: You determine which agent to use based on the user's homework question.
        agents:
          - type: llm
            name: History Tutor
            description: Specialist for historical questions.
            prompt: Help with history.
          - type: llm
            name: Math Tutor
            description: Specialist for math questions.
            prompt: Help with math.
        """,
        """
        - {when: {node: triage, user: president}, text: "**History Tutor**"}
        - {when: {node: History Tutor, user: first president}, text: George Washington.}
        """,
        "Who was the first president of the United States?",
        "George Washington.",
        {},
        "triage History Tutor",
    ),
    PublicTree(
        "an analyst writes a report from what the researcher found",
        "docs.crewai.com/en/guides/crews/first-crew",
        """
        type: sequential
        name: research-crew
        agents:
          - type: llm
            name: researcher
            prompt: "You research {user_message}. Organize what you find into notes."
            output_key: research_task
          - type: llm
            name: analyst
            prompt: "You write a report on {user_message}.\\nContext:\\n{research_task}"
            output_key: report
        """,
        """
        - {when: {node: researcher, prompt: research tides}, text: "# Notes\\n\\n* The moon pulls."}
        - when: {node: analyst, prompt: "report on tides.\\nContext:\\n# Notes\\n\\n\\\\* (?P<fact>.*)"}
          text: "# Tides\\n\\n${fact}"
        """,
        "tides",
        "# Tides\n\nThe moon pulls.",
        {"research_task": "# Notes\n\n* The moon pulls.", "report": "# Tides\n\nThe moon pulls."},
        "researcher analyst",
    ),
    PublicTree(
        "a poem is revised until the critic approves",
        "microsoft.github.io/autogen/stable/user-guide/agentchat-user-guide/tutorial/teams.html",
        """
        type: loop
        name: reflection
        agents:
          - {type: llm, name: primary, prompt: "You are a poet. Critic: {criticism?}", output_key: poem}
          - type: llm
            name: critic
            prompt: "Give feedback on: {poem}. When it is addressed, call exit_loop."
            output_key: criticism
            can_exit_loop: true
        """,
        """
        - {when: {node: primary, prompt: "Critic: $"}, text: Leaves fall.}
        - {when: {node: primary, prompt: "Critic: Name the season"}, text: Leaves fall in autumn.}
        - {when: {node: primary, prompt: "Critic: Rhyme"}, text: Leaves fall in autumn to the bottom.}
        - {when: {node: critic, prompt: 'on: Leaves fall\\.\\. '}, text: Name the season.}
        - {when: {node: critic, prompt: 'on: Leaves fall in autumn\\.\\. '}, text: Rhyme.}
        - {when: {node: critic, prompt: bottom}, tool_calls: [{name: exit_loop}]}
        """,
        "Write a short poem about the fall season.",
        "Leaves fall in autumn to the bottom.",
        {"poem": "Leaves fall in autumn to the bottom.", "criticism": "Rhyme."},
        "primary critic primary critic primary",
    ),
    PublicTree(
        "research is analysed and checked side by side, and both reach the report",
        "strandsagents.com/latest/documentation/docs/user-guide/concepts/multi-agent/graph",
        """
        type: sequential
        name: graph
        agents:
          - {type: llm, name: research, prompt: Research the topic., output_key: findings}
          - type: parallel
            name: checks
            agents:
              - {type: llm, name: analysis, prompt: "Analyse: {findings}", output_key: analysis}
              - {type: llm, name: fact-check, prompt: "Check: {findings}", output_key: facts}
          - {type: llm, name: report, prompt: "Analysis: {analysis} Facts: {facts} Task: {user_message}"}
        """,
        """
        - {when: {node: research}, text: AI reads scans.}
        - {when: {node: analysis, prompt: reads scans}, text: It saves time., delay: 2}
        - {when: {node: fact-check, prompt: reads scans}, text: Confirmed., delay: 1}
        - when: {node: report, prompt: "It saves time. Facts: Confirmed. Task: AI in"}
          text: "It saves time (confirmed)."
        """,
        "AI in healthcare",
        "It saves time (confirmed).",
        {"findings": "AI reads scans.", "analysis": "It saves time.", "facts": "Confirmed."},
        "research fact-check analysis report",
    ),
    PublicTree(
        "two experts answer the same question, and both answers are collected",
        "learn.microsoft.com/semantic-kernel/frameworks/agent/agent-orchestration/concurrent",
        """
        type: parallel
        name: experts
        agents:
          - {type: llm, name: physicist, prompt: Answer from a physics perspective.}
          - {type: llm, name: chemist, prompt: Answer from a chemistry perspective.}
        """,
        """
        - {when: {node: physicist}, text: The mean kinetic energy of particles., delay: 2}
        - {when: {node: chemist}, text: What decides how fast a reaction is., delay: 1}
        """,
        "What is temperature?",
        "The mean kinetic energy of particles.\nWhat decides how fast a reaction is.",
        {},
        "chemist physicist",
    ),
]


def indented(text: str, by: str) -> str:
    return "".join(f"{by}{line[8:]}\n" for line in text.splitlines() if line.strip())


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
async def test_a_public_tree_gives_what_its_authors_describe(
    tree: PublicTree, tmp_path: Path, autojump_clock: MockClock
) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(
        "name: public\ndata_dir: data\nllm: {model: 'script:replies.yaml'}\n"
        f"agent:\n{indented(tree.agent, '  ')}"
    )
    (tmp_path / "replies.yaml").write_text(f"replies:\n{indented(tree.replies, '  ')}")
    journal = MemoryJournal()
    async with open_agent(load_config(file), journal=journal, wall=wall) as agent:
        turn = await agent.start_conversation(tree.message)
    result, conversation = answer(turn), turn.conversation
    assert (result.state, result.response) == ("finished", tree.response)
    said = [each.node for each in conversation.messages if each.role == "assistant" and each.node]
    assert " ".join(said) == tree.asked
    stored = [each.body for each in await events(journal, str(conversation.id)) if each.type == "state.set"]
    assert {body["key"]: body["value"] for body in stored} == tree.state
