"""Other rules, tried on the newest recorded calls: the stream of `POST /policy/replay`.

The calls are read page by page, and judged with a pause after each one, in which the agent does something
else. The work has two bounds: `MOST_CALLS` and `MOST_SECONDS`. One replay runs at a time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import trio

from ...actors.agent.agent import Agent
from ...actors.replay.call_page import CallPage
from ...actors.replay.recorded_call import Damage
from ...actors.replay.replay_report import GROUPS, CallFilter, Replay, summary_json
from ...config.pasted_rules import PastedRules, with_pasted_rules
from ...config.sections.agent_config import AgentConfig
from ...config.text.errors import ConfigError
from ..contract import system_shapes as s
from ..http import sse
from ..http.errors import RequestError

MOST_CALLS = 100_000
"""Calls that are judged."""
MOST_SECONDS = 120.0
"""Seconds after which the rest of the calls is left out."""
MOST_PROBLEMS = 20


def pasted(config: AgentConfig, text: str) -> PastedRules:
    """Raises `RequestError` ``invalid_rules``."""
    try:
        return with_pasted_rules(config, text)
    except ConfigError as error:
        found = list(map(str, error.problems[:MOST_PROBLEMS]))
        details = {"field": "rules", "errors": found}
        raise RequestError(422, "invalid_rules", found[0], details=details) from None


async def replay_frames(
    agent: Agent, rules: PastedRules, first: CallPage, turn: trio.Lock
) -> AsyncGenerator[bytes, None]:
    """The frames of a replay, the last one with the result. `turn` is held meanwhile."""
    async with turn:
        replay = Replay.of(rules.config, CallFilter(limit=MOST_CALLS))
        for each in await agent.policies():
            replay.learn(each.revision, each.content)
        damage, page, end = Damage(), first, trio.current_time() + MOST_SECONDS
        is_cut = False
        while True:
            damage.merge(page.damage)
            for call in page.calls:
                if is_cut := replay.is_full or trio.current_time() > end:
                    break
                replay.take(call)
                await trio.lowlevel.checkpoint()
            if is_cut or page.next_cursor is None:
                break
            yield sse.encode(s.PolicyReplay(calls=replay.report.calls))
            page = await agent.recorded_calls(cursor=page.next_cursor)
        replay.report.damage = damage
        yield sse.encode(_result(replay, rules, is_cut))


def _result(replay: Replay, rules: PastedRules, is_cut: bool) -> s.PolicyReplay:
    report = replay.report
    return s.PolicyReplay(
        calls=report.calls,
        cut=is_cut,
        ignored=rules.ignored,
        summary=summary_json(report),
        listed={group: report.listed[group] for group in GROUPS},
    )
