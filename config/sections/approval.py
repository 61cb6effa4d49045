"""The approval settings and rules of an agent file, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

import attrs

from ..described.shape import SOME_TEXT, about, default
from ..text.values import Mark, Plain

_YEAR = 366 * 86_400.0

RunOrAsk: TypeAlias = Literal["run", "ask"]
Setting: TypeAlias = Literal["unannotated", "in_parallel", "in_loop"]

MOST_VOTES = 16
APPROVERS = about(
    "Who may approve: names of roles, and `subject:` with names of principals. Needs `auth`. Default: every "
    "principal that may decide the approval.",
    items=SOME_TEXT,
)
QUORUM = about(
    "The number of persons who have to approve. Needs `auth`. One rejection is enough.",
    minimum=1,
    maximum=MOST_VOTES,
)
REQUESTER_MAY_APPROVE = about(
    "Whether the person who sent the message of the run may approve. `false` needs `auth`, and a requester "
    "and approvers who are persons: a request by a shared key, a relay or another program can only be "
    "rejected."
)


@attrs.frozen(kw_only=True)
class Condition:
    """A condition on a value: all given keys must hold. A bare value is short for `equals`.

    A number or a boolean also matches its text. If a value cannot be converted for the comparison, the result
    counts against the call: `ask` and `deny` match, `run` does not.
    """

    SHORT: ClassVar = "equals"
    NOT_EMPTY: ClassVar = True

    equals: Plain = default(None, "The value must equal this.")
    one_of: tuple[Plain, ...] | None = default(None, "The value must be one of these.")
    matches: str | None = default(
        None,
        "Regular expression to search for in the value; anchor it to match the whole value, as it must in a "
        "rule with `only_these_arguments`. `$` is the very end of the text.",
        not_empty=True,
        regex=True,
    )
    above: float | None = default(None, "The value must be a number greater than this.")
    below: float | None = default(None, "The value must be a number less than this.")
    exists: bool | None = default(
        None, "Whether the value must exist. A missing value satisfies only `exists: false`."
    )


@attrs.frozen(kw_only=True)
class Rule:
    """A verdict on matching tool calls. An omitted key matches every call."""

    MARKED: ClassVar = "tool"

    then: Literal["run", "ask", "deny"] = attrs.field(
        metadata=about("What happens to the call: `run` it, `ask` a person first, or `deny` it.")
    )
    server: str | None = default(
        None,
        "Name of the tool's server, or `a2a:` and the name of a remote agent; `*` and `?` are wildcards.",
        not_empty=True,
    )
    tool: str | None = default(
        None,
        "Name of the tool, or `a2a_` and the name of a remote agent; `*` and `?` are wildcards.",
        not_empty=True,
    )
    node: str | None = default(
        None, "Name of the node that makes the call; `*` and `?` are wildcards.", not_empty=True
    )
    effect: Literal["read", "idempotent", "once"] | None = default(
        None,
        "Effect class of the tool, by its hints: `read`, calls change nothing; `idempotent`, a repeated "
        "call changes nothing more; `once`, all other tools.",
    )
    arguments: Mapping[str, Condition] = default(
        attrs.Factory(dict),
        "Conditions on arguments of the call, by name; `address.city` looks into objects.",
    )
    only_these_arguments: bool = default(
        False,
        "Whether the rule matches only calls without other arguments than those in `arguments`, also inside "
        "of objects and lists. Patterns then have to match the whole value, and `above` needs `below`.",
    )
    name: str | None = default(None, "Name of the rule, for display.", not_empty=True)
    approvers: tuple[str, ...] | None = attrs.field(default=None, metadata=APPROVERS)
    quorum: int = attrs.field(default=1, metadata=QUORUM)
    requester_may_approve: bool = attrs.field(default=True, metadata=REQUESTER_MAY_APPROVE)
    optional: bool = default(
        False,
        "Whether the rule may name a tool, server, agent or node that does not exist. In other rules "
        "with `ask` or `deny`, such a name is an error.",
    )
    shadow: bool = default(
        False,
        "Whether the rule is only tried: its verdict is recorded and counted, and the call goes on as "
        "without the rule.",
    )
    place: str = default("", "Position in the file, in words.", derived=True)
    mark: Mark | None = attrs.field(
        default=None,
        eq=False,
        repr=False,
        metadata=about("Position of its `tool` in the file.", derived=True),
    )

    @property
    def reads_arguments(self) -> bool:
        """Whether it may depend on the arguments of a call whether the rule matches."""
        return bool(self.arguments) or self.only_these_arguments

    @property
    def restricts(self) -> bool:
        """Whether a misspelled name in the rule would let calls pass against its intention."""
        return self.then != "run" and not self.optional and not self.shadow


_UNANNOTATED = "What happens to calls of tools without `destructiveHint`."
_IN_PARALLEL = "What happens below a parallel node to calls that would ask because of their tool's hints."
_IN_LOOP = "What happens below a loop node to calls that would ask because of their tool's hints."
_CONTRADICTORY_HINTS = (
    "How a tool with both `readOnlyHint: true` and `destructiveHint: true` counts: `read_only`, as in MCP, "
    "where the second hint means something only without the first; `ask`, as destructive."
)
_ON_WEAKER_HINTS = (
    "If a tool's hints become weaker than those in the data directory: `hold`, the stricter hints apply "
    "until a person accepts the new ones; `trust`, the new hints apply at once."
)
_RUN_OR_ASK = "Default: `run`; with `defaults: strict`, `ask`."
_EXPIRES = "Seconds until an approval expires."
_ON_EXPIRY = "How an expired approval counts: `reject`, as a rejection; `fail`, the run fails."
_AS_ABOVE = "Default: inherited."


@attrs.frozen(kw_only=True)
class ApprovalConfig:
    """When a tool call asks a person first."""

    rules: tuple[Rule, ...] = default(
        (), "Checked in order, before the hints of the tool; the first match decides.", unique_names=True
    )
    defaults: Literal["strict", "permissive"] = default(
        "permissive",
        "The defaults of `unannotated`, `in_parallel`, `in_loop` and `contradictory_hints`: with "
        "`strict`, such calls ask; with `permissive`, they run.",
    )
    unannotated: RunOrAsk | None = default(None, f"{_UNANNOTATED} {_RUN_OR_ASK}")
    contradictory_hints: Literal["ask", "read_only"] | None = default(
        None, f"{_CONTRADICTORY_HINTS} Default: `read_only`; with `defaults: strict`, `ask`."
    )
    in_parallel: RunOrAsk | None = default(None, f"{_IN_PARALLEL} {_RUN_OR_ASK}")
    in_loop: RunOrAsk | None = default(None, f"{_IN_LOOP} {_RUN_OR_ASK}")
    expires_after: float | None = default(None, f"{_EXPIRES} Default: never.", above=0, maximum=_YEAR)
    on_expiry: Literal["reject", "fail"] = default("reject", _ON_EXPIRY)
    on_weaker_hints: Literal["hold", "trust"] = default("hold", _ON_WEAKER_HINTS)

    def action(self, setting: Setting) -> RunOrAsk:
        """The value of a setting: that of its own key or, without it, that of `defaults`."""
        given: RunOrAsk | None = getattr(self, setting)
        return given or ("ask" if self.defaults == "strict" else "run")

    @property
    def contradiction_asks(self) -> bool:
        """Whether a tool with contradictory hints counts as destructive."""
        return (self.contradictory_hints or self.defaults) in ("ask", "strict")


@attrs.frozen(kw_only=True)
class ApprovalOverride:
    """When tool calls of this node, and of the nodes below it, ask a person first."""

    rules: tuple[Rule, ...] | None = default(None, "Checked before the inherited rules.", unique_names=True)
    unannotated: RunOrAsk | None = default(None, f"{_UNANNOTATED} {_AS_ABOVE}")
    in_parallel: RunOrAsk | None = default(None, f"{_IN_PARALLEL} {_AS_ABOVE}")
    in_loop: RunOrAsk | None = default(None, f"{_IN_LOOP} {_AS_ABOVE}")
    expires_after: float | None = default(None, f"{_EXPIRES} {_AS_ABOVE}", above=0, maximum=_YEAR)
    on_expiry: Literal["reject", "fail"] | None = default(None, f"{_ON_EXPIRY} {_AS_ABOVE}")
