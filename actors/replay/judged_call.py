"""Judges recorded calls under the rules of another agent file. Pure.

The verdict on a call now. The first rule that applies decides:

    ====  ==========================================================  ======================================
    rule  the call                                                    under the new file
    ====  ==========================================================  ======================================
    1     has no facts, or facts of a policy that the journal lacks;  unknown
          or its arguments or hints cannot be read
    2     is of a node that the new file does not have                unknown
    3     had arguments that do not fit its tool, or no JSON          none
    4     had no tool, and the new file has the same servers and      none; with others: unknown
          filters
    5     is of a tool that the new file does not offer to its node   none
    6     is of a tool that its node could not use                    unknown: its arguments were not checked
    7     any other                                                   what the gate says: run, ask or deny
    ====  ==========================================================  ======================================

How sure that is:

    =========  =========================================================================================
    exact      all facts are on record, and up to this call the conversation would have been the same
    bounded    the verdict holds if the call is made again, which is not certain: an earlier call of the
               conversation would have gone otherwise, or is unknown or damaged; the node is in another
               place of the tree; the servers, or their filters or those of the node, differ, so models
               see other tools; or a search for a pattern took too long
    unknown    there is no verdict
    =========  =========================================================================================

A call would have gone the same way (`_same_way`)
    * if its verdict and its effect class are the same (a halt holds a call of class `once`) and, when it
      asks, it asks the same people, and a decision comes before the approval would expire. What was edited
      has to pass without another question;
    * if it ran after an approval as it was, and runs now.

A call that the gate let run, and that was judged again on other facts and asked, counts as loosened if it
runs now on these facts, too: so a rejection of that question is one of a call that would run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from ...config.sections.agent_config import AgentConfig
from ...config.sections.nodes import Node, children_of
from ..approvals.requirement import Requirement
from ..gate.conditions import Searches
from ..gate.gate import (
    PolicyScope,
    Verdict,
    child_scope,
    descend,
    judge,
    judge_by_rules,
    mismatch,
    offered,
    root_scope,
)
from ..gate.policy import Policy
from ..log.words import keys
from ..tools.catalogue import catalogue
from ..tools.delegation import is_remote
from ..tools.tool import Hints, Tool
from ..tools.verdict_facts import VerdictFacts
from .recorded_call import RecordedCall

Outcome: TypeAlias = Literal["run", "ask", "deny", "none"]
"""What comes of a call. `none`: it is not sent, as there is no such tool, or the arguments do not fit."""
Sureness: TypeAlias = Literal["exact", "bounded", "unknown"]
Change: TypeAlias = Literal["same", "loosened", "tightened", "unknown"]

_STRICTNESS: Mapping[Outcome, int] = {"run": 0, "ask": 1, "deny": 2, "none": 2}
MOST_KINDS = 10_000
"""Kinds of calls whose rules are remembered."""


@attrs.frozen
class JudgedCall:
    """A recorded call, and the verdict on it now."""

    call: RecordedCall
    now: Outcome | None
    """None: unknown."""
    rule: str
    """The id of the rule that decides now, or a setting, a hint or a reason in words."""
    sure: Sureness
    change: Change

    @property
    def was(self) -> Outcome | None:
        """The verdict on record."""
        return None if self.call.facts is None else self.call.facts.action

    @property
    def was_refused(self) -> bool:
        """Whether a person did not want the call as it was."""
        return self.call.answer in ("rejected", "answered") or self.call.edited is not None

    @property
    def lets_refused_run(self) -> bool:
        return self.was_refused and self.now == "run" and self.change == "loosened"


@attrs.frozen
class _CallKind:
    """What the calls of a tool in a node have in common."""

    tool: Tool | None
    """None: the new file does not offer it."""
    scope: PolicyScope
    """With the rules that may match: those whose other keys than `arguments` do. They have only these."""
    verdict: Verdict | None = None
    """The verdict, if the arguments make no difference."""
    has_same_effect: bool = True
    """The effect class is that of the time."""


@attrs.define(eq=False)
class CallsJudge:
    """Judges calls in the order of their conversations."""

    _config: AgentConfig
    policy: Policy
    _places: _Places
    """The nodes that call tools, by name, with their place in the tree."""
    stored: dict[str, Mapping[str, Any]] = attrs.field(factory=dict)
    """The policies of the journal, by revision."""
    _kinds: dict[tuple[Any, ...], _CallKind] = attrs.field(factory=dict)
    _conversation: str = ""
    _differs: bool = False
    """A call of this conversation would have gone otherwise."""

    @classmethod
    def of(cls, config: AgentConfig) -> CallsJudge:
        """`config` is the new file."""
        policy = Policy.of(config, config.agent, config.rule_secrets)
        return cls(config, policy, _places(config.agent, root_scope(config), (), {}))

    def judge(self, call: RecordedCall) -> JudgedCall:
        if call.stream != self._conversation:
            self._conversation, self._differs = call.stream, False
        self._differs |= call.after_damage
        found = self._verdict(call)
        if isinstance(found, str):
            self._differs = True
            return JudgedCall(call, None, found, "unknown", "unknown")
        now, rule, verdict, is_certain = found
        facts = call.facts
        assert facts is not None
        is_certain = is_certain and self._has_same_tools(facts) and self._is_same_node(call, facts)
        sure: Sureness = "exact" if is_certain and not self._differs else "bounded"
        self._differs |= not is_certain or not self._same_way(call, now, verdict)
        change = _change(call, now, verdict)
        if change == "same" and now == "run" and call.anew is not None and call.anew.action == "ask":
            again = self._verdict(attrs.evolve(call, facts=call.anew))
            if isinstance(again, str):
                return JudgedCall(call, None, again, "unknown", "unknown")
            change = "loosened" if again[0] == "run" else "same"
        return JudgedCall(call, now, rule, sure, change)

    def _verdict(self, call: RecordedCall) -> tuple[Outcome, str, Verdict | None, bool] | str:
        """The outcome now, the rule, the verdict of the gate, if there is one, and whether it is the same
        each time; or why all that is unknown."""
        facts = call.facts
        if facts is None:
            return "no facts on record"
        if facts.policy not in self.stored:
            return "its policy is not in the journal"
        if call.node not in self._places:
            return "the file has no such node"
        if call.unfit:
            return "none", "the arguments do not fit", None, True
        if not call.server:
            return ("none", "no such tool", None, True) if self._has_same_tools(facts) else "other tools"
        try:
            kind = self._kind(call, facts)
        except ValueError:
            return "its hints cannot be read"
        if kind.tool is None:
            return "none", "not offered", None, True
        if facts.action == "none":
            return "its arguments were not checked"
        if call.arguments is None:
            return "its arguments are not on record"
        searches = Searches()
        verdict = kind.verdict or judge_by_rules(kind.tool, call.arguments, kind.scope, searches)[0]
        rule = self.policy.ids[verdict.place] if verdict.place else verdict.rule
        return verdict.action, rule, verdict, not searches.ran_out

    def _kind(self, call: RecordedCall, facts: VerdictFacts) -> _CallKind:
        about = (
            *(call.node, call.tool, call.server, facts.policy),
            *(facts.hints, facts.own_name, facts.misleading, facts.facade),
        )
        if (found := self._kinds.get(about)) is not None:
            return found
        scope, _ = self._places[call.node]
        tool = self._tool(call, facts)
        if tool is None or not offered(tool, scope):
            found = _CallKind(None, scope)
        else:
            real = (each for each in scope.policy.rules if not each.shadow)
            fitting = [each for each in real if mismatch(each, tool, scope) is None]
            rules = tuple(
                attrs.evolve(each, server=None, tool=None, node=None, effect=None) for each in fitting
            )
            among = attrs.evolve(scope, policy=attrs.evolve(scope.policy, rules=rules))
            is_fixed = not any(each.reads_arguments for each in rules)
            asked = bool(self.stored[facts.policy].get("contradiction_asks"))
            before = facts.tool(call.tool, call.server, contradiction_asks=asked)
            is_same = before.hints.effect == tool.hints.effect
            found = _CallKind(tool, among, judge(tool, {}, among) if is_fixed else None, is_same)
        if len(self._kinds) >= MOST_KINDS:
            self._kinds.clear()
        self._kinds[about] = found
        return found

    def _tool(self, call: RecordedCall, facts: VerdictFacts) -> Tool | None:
        """The tool as the new file has it; None if it has no such tool. Raises ValueError: damaged hints."""
        asks = self._config.approval.contradiction_asks
        tool = facts.tool(call.tool, call.server, contradiction_asks=asks)
        if self._has_same_tools(facts):
            return tool
        if is_remote(call.server):
            found = (each for each in self._config.remote_agents if each.id == call.server)
            agent = next(found, None)
            hints = None if agent is None else Hints(destructive=agent.destructive_hint)
            return None if hints is None else attrs.evolve(tool, hints=hints, listed_hints=hints)
        plain = Tool(tool.own_name, "", {}, call.server, hints=tool.hints)
        groups = catalogue(self._config, {call.server: [plain]}).groups
        return next((each for group in groups for each in group.tools), None)

    def _has_same_tools(self, facts: VerdictFacts) -> bool:
        """Whether the same servers offered the same tools under the same names."""
        return bool(self.stored[facts.policy].get("tools") == self.policy.content["tools"])

    def _is_same_node(self, call: RecordedCall, facts: VerdictFacts) -> bool:
        """Whether the node is in the same place, with the same filters."""
        own, before = self.policy.content, self.stored[facts.policy]
        return keys.places(call.key) == self._places[call.node][1] and (
            facts.policy == self.policy.revision or _filters(own, call.node) == _filters(before, call.node)
        )

    def _same_way(self, call: RecordedCall, now: Outcome, verdict: Verdict | None) -> bool:
        assert call.facts is not None
        was = call.facts.action
        if was == "ask" and now == "run":
            return call.answer == "approved"
        if was != now or call.answer == "unknown" or call.asked > 1 or call.judged_anew:
            return False
        if verdict is not None and not self._kind(call, call.facts).has_same_effect:
            return False
        if call.answer is None:
            return True
        scope, _ = self._places[call.node]
        expires = scope.policy.expires_after
        if call.answer == "expired" or (expires is not None and (call.waited or 0.0) >= expires):
            return False  # the setting at that time is not on record
        assert verdict is not None
        is_same_question = now == "run" or verdict.requires == call.requires
        return is_same_question and (call.edited is None or self._takes_edit(call, call.edited, verdict))

    def _takes_edit(self, call: RecordedCall, edited: Mapping[str, Any], verdict: Verdict) -> bool:
        """Whether the edited call passes without another question."""
        assert call.facts is not None
        kind = self._kind(call, call.facts)
        assert kind.tool is not None
        again = judge_by_rules(kind.tool, edited, kind.scope)[0]
        return again.action == "run" or again == verdict


_Places: TypeAlias = dict[str, tuple[PolicyScope, tuple[int, ...]]]


def _places(node: Node, scope: PolicyScope, at: tuple[int, ...], found: _Places) -> _Places:
    """The nodes of a tree that call tools. `scope` is the one above `node`, `at` the place of `node`."""
    if node.KIND.calls:
        found[node.name] = descend(scope, node), at
    for index, child in enumerate(children_of(node)):
        _places(child, child_scope(scope, node), (*at, index), found)
    return found


def _filters(policy: Mapping[str, Any], name: str) -> Sequence[Any] | None:
    """What decides which of all tools a node may use; None if the policy has no such node."""
    node = next((each for each in policy["nodes"] if each["node"] == name), None)
    return None if node is None else [node.get(each) for each in ("servers", "tools", "agents")]


def _change(call: RecordedCall, now: Outcome, verdict: Verdict | None) -> Change:
    assert call.facts is not None
    before, after = _STRICTNESS[call.facts.action], _STRICTNESS[now]
    if before != after:
        return "loosened" if after < before else "tightened"
    if now != "ask" or not call.asked or verdict is None or verdict.requires == call.requires:
        return "same"
    new, old = verdict.requires or Requirement(), call.requires or Requirement()
    return "tightened" if new.meets(old) else "loosened"
