"""Router: runs one of its children, chosen by a model or by the first route whose conditions hold."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import attrs
import regex

from ...config.sections.nodes import ROUTER_PROMPT, Node, Route, RouterNode
from ...runtime.context import Behaviour, Context
from ...runtime.json_text import load_provider
from ..common.errors import NodeFailed
from ..gate.conditions import ConditionResult, Searches, evaluate, readings
from ..gate.gate import child_scope
from ..gate.off_loop import off_loop
from ..log.words import keys
from ..log.words.outcomes import Chosen, NodeEnd
from ..log.writer.step import step
from ..models.messages.messages import UserMessage
from ..run.scopes import Execute, RunScope
from .ask_model import ask_model
from .child import run_child
from .node import execute_once, fill

logger = logging.getLogger(__name__)


def router(spec: RouterNode, scope: RunScope) -> Behaviour[Execute]:
    """Ends like the chosen child. The choice is recorded, so that a replay repeats it."""

    async def behaviour(ctx: Context[Execute]) -> None:
        async def run(execute: Execute) -> NodeEnd:
            async def choose() -> Chosen:
                return Chosen(await _choose(spec, scope, execute))

            chosen = await step(scope.log, keys.choice(execute.key), Chosen, spec.name, choose)
            assert isinstance(chosen, Chosen)  # a failure is raised by `choose`
            index = chosen.choice
            message = attrs.evolve(
                execute,
                key=keys.child(execute.key, index),
                path=(*execute.path, index),
                policy_scope=child_scope(execute.policy_scope, spec),
            )
            return await run_child(ctx, scope, spec.agents[index], message)

        await execute_once(ctx, run)

    return behaviour


async def _choose(spec: RouterNode, scope: RunScope, execute: Execute) -> int:
    if spec.routes is not None:
        return await _by_routes(spec, spec.routes, execute.values(scope.user), scope)
    system = fill(spec.prompt or ROUTER_PROMPT, scope, execute)
    reply = await ask_model(
        scope,
        execute,
        spec,
        call=1,
        system=f"{system}\n\n{_described(spec.agents)}",
        messages=(UserMessage(scope.user, scope.log.run.pictures),),
        tools=(),
    )
    return named_in(reply.text, spec)


async def _by_routes(
    spec: RouterNode, routes: Sequence[Route], values: Mapping[str, str], scope: RunScope
) -> int:
    conditions = [condition for route in routes for condition in route.when.values()]
    route, undecided = await off_loop(scope.searching, conditions, first_route, routes, values)
    for each, key in undecided:
        logger.warning(
            'a route of "%s" to "%s" counts as not matching: its condition on "%s" cannot be decided',
            spec.name,
            each.agent,
            key,
        )
    name = spec.default if route is None else route.agent
    if name is None:
        unclear = f", {len(undecided)} of them undecided" if undecided else ""
        raise NodeFailed("no_route", f'no route of "{spec.name}" holds{unclear}, and it has no default')
    return [child.name for child in spec.agents].index(name)


def first_route(
    routes: Sequence[Route], values: Mapping[str, str]
) -> tuple[Route | None, list[tuple[Route, str]]]:
    """Return the first route whose conditions all hold, and the undecided routes before it, each with the key
    of an undecided condition. Of several readings of a key, the first counts.

    Raises `NodeFailed` ``no_route`` for a route that is undecided because a search was given up: whoever
    writes the text could otherwise choose a later route, by its length or by a slow search.
    """
    undecided: list[tuple[Route, str]] = []
    searches = Searches()
    for route in routes:
        results = {
            key: evaluate(condition, readings(values, key)[0], searches)
            for key, condition in route.when.items()
        }
        match min(results.values(), default=ConditionResult.MET):
            case ConditionResult.MET:
                return route, undecided
            case ConditionResult.UNDECIDED:
                key = min(results, key=results.__getitem__)
                if searches.exceeded:
                    raise NodeFailed(
                        "no_route",
                        f'the route to "{route.agent}" cannot be decided: "{key}" is too long '
                        "to be searched, or the search takes too long",
                    )
                undecided.append((route, key))
            case ConditionResult.FAILS:
                pass
    return None, undecided


def _described(children: Sequence[Node]) -> str:
    lines = (f"- {child.name}: {child.description}".rstrip(": ") for child in children)
    return "Agents:\n" + "\n".join(lines)


def named_in(answer: str, spec: RouterNode) -> int:
    """Return the index of the child that a model's answer names: as JSON, exactly, or as the only name in it.

    At each place of the answer, the longest name counts. Names must be whole words.

    Raises `NodeFailed` ``no_route``.
    """
    names = [child.name.lower() for child in spec.agents]
    for said in (_in_json(answer), [answer]):
        plain = {each.strip().strip("\"'`.*").lower() for each in said} & {*names}
        if len(plain) == 1:
            return names.index(plain.pop())
    longest_first = sorted(names, key=len, reverse=True)
    # Scripts without letter case do not separate words.
    inside = r"[\p{Ll}\p{N}]"
    pattern = f"(?<!{inside})(?:{'|'.join(map(regex.escape, longest_first))})(?!{inside})"
    found = set(regex.findall(pattern, answer.lower()))
    if len(found) == 1:
        return names.index(found.pop())
    count = "several" if found else "none"
    raise NodeFailed("no_route", f'the model of "{spec.name}" named {count} of its agents: {answer[:200]!r}')


def _in_json(answer: str) -> list[str]:
    """The texts of an answer in JSON: `"name"`, `["name"]` or `{"agent": "name", "reason": "..."}`, perhaps
    in a code block."""
    fenced = regex.fullmatch(r"\s*```\w*\n(.*?)```\s*", answer, regex.DOTALL)
    try:
        value = load_provider(fenced[1] if fenced else answer)
    except ValueError:
        return []
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]
