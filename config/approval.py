"""When a tool call waits for a human: the rules of the file, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import attrs

from .shape import about
from .values import Mark, Plain

_YEAR = 366 * 86_400.0


@attrs.frozen(kw_only=True)
class Condition:
    """What a value must be like; all that is given must hold. A bare value is short for `equals`.

    A number or a boolean also fits the text that says it. A value that cannot be read as what it is compared
    with counts against the call: `ask` and `deny` match, `run` does not.
    """

    SHORT: ClassVar = "equals"
    NOT_EMPTY: ClassVar = True

    equals: Plain = attrs.field(default=None, metadata=about("The value it must be."))
    one_of: tuple[Plain, ...] | None = attrs.field(
        default=None, metadata=about("The values of which it must be one.", not_empty=True)
    )
    matches: str | None = attrs.field(
        default=None,
        metadata=about(
            "A regular expression that must be found in it, anywhere unless it is anchored.",
            not_empty=True,
            regex=True,
        ),
    )
    above: float | None = attrs.field(default=None, metadata=about("It must be a number above this."))
    below: float | None = attrs.field(default=None, metadata=about("It must be a number below this."))
    exists: bool | None = attrs.field(
        default=None,
        metadata=about("Whether it must be there. What is not there satisfies only `exists: false`."),
    )


@attrs.frozen(kw_only=True)
class Rule:
    """What becomes of the tool calls it matches. A key that is left out matches every call."""

    MARKED: ClassVar = "tool"

    then: Literal["run", "ask", "deny"] = attrs.field(
        metadata=about("What a call does: `run` at once, `ask` a human first, or be `deny`-ed.")
    )
    server: str | None = attrs.field(
        default=None,
        metadata=about(
            "Name of the tool's server, or `a2a:` and the name of an agent; `*` and `?` stand for any "
            "characters.",
            not_empty=True,
        ),
    )
    tool: str | None = attrs.field(
        default=None,
        metadata=about(
            "Name of the tool, of an agent `a2a_` and its name; `*` and `?` stand for any characters.",
            not_empty=True,
        ),
    )
    node: str | None = attrs.field(
        default=None,
        metadata=about(
            "Name of the node that makes the call; `*` and `?` stand for any characters.", not_empty=True
        ),
    )
    effect: Literal["read", "idempotent", "once"] | None = attrs.field(
        default=None,
        metadata=about(
            "What the tool says of itself: `read`, it changes nothing; `idempotent`, a repeated call "
            "changes nothing more; `once`, everything else."
        ),
    )
    arguments: Mapping[str, Condition] = attrs.field(
        factory=dict,
        metadata=about("Conditions on the call's arguments, by name; `address.city` looks into objects."),
    )
    name: str | None = attrs.field(
        default=None, metadata=about("What the rule is called when it is shown.", not_empty=True)
    )
    optional: bool = attrs.field(
        default=False,
        metadata=about(
            "Whether it may name a tool, server, agent or node that does not exist. In other rules with "
            "`ask` or `deny` such a name is a mistake."
        ),
    )
    place: str = attrs.field(
        default="", metadata=about("Where it stands in the file, in words.", derived=True)
    )
    mark: Mark | None = attrs.field(
        default=None,
        eq=False,
        repr=False,
        metadata=about("Where its `tool` stands in the file.", derived=True),
    )

    @property
    def restricts(self) -> bool:
        """Whether calls would pass that were not meant to, if it named what there is not by mistake."""
        return self.then != "run" and not self.optional


_UNANNOTATED = "What a tool does that does not say whether it is destructive."
_IN_PARALLEL = "What a call that would ask by what its tool says of itself does below a parallel node."
_IN_LOOP = "The same below a loop."
_ON_WEAKER_HINTS = (
    "What happens when the hints of a tool are weaker than the data directory knows them: `hold`, the "
    "stricter ones count until a person accepts the new ones, or `trust`, the new ones count at once."
)
_EXPIRES = "Seconds until an approval expires."
_ON_EXPIRY = "What an approval that expires counts as: a rejection, or a failure of the run."
_AS_ABOVE = "Default: as above it."


@attrs.frozen(kw_only=True)
class ApprovalConfig:
    """When a tool call waits for a human."""

    rules: tuple[Rule, ...] = attrs.field(
        default=(),
        metadata=about(
            "Looked at in order before what a tool says of itself; the first that matches decides.",
            unique_names=True,
        ),
    )
    unannotated: Literal["run", "ask"] = attrs.field(default="run", metadata=about(_UNANNOTATED))
    in_parallel: Literal["run", "ask"] = attrs.field(default="run", metadata=about(_IN_PARALLEL))
    in_loop: Literal["run", "ask"] = attrs.field(default="run", metadata=about(_IN_LOOP))
    expires_after: float | None = attrs.field(
        default=None, metadata=about(f"{_EXPIRES} Default: never.", above=0, maximum=_YEAR)
    )
    on_expiry: Literal["reject", "fail"] = attrs.field(default="reject", metadata=about(_ON_EXPIRY))
    on_weaker_hints: Literal["hold", "trust"] = attrs.field(default="hold", metadata=about(_ON_WEAKER_HINTS))


@attrs.frozen(kw_only=True)
class ApprovalOverride:
    """When a tool call of this node, or of one below it, waits for a human."""

    rules: tuple[Rule, ...] | None = attrs.field(
        default=None, metadata=about("Looked at before the rules above it.", unique_names=True)
    )
    unannotated: Literal["run", "ask"] | None = attrs.field(
        default=None, metadata=about(f"{_UNANNOTATED} {_AS_ABOVE}")
    )
    in_parallel: Literal["run", "ask"] | None = attrs.field(
        default=None, metadata=about(f"{_IN_PARALLEL} {_AS_ABOVE}")
    )
    in_loop: Literal["run", "ask"] | None = attrs.field(
        default=None, metadata=about(f"{_IN_LOOP} {_AS_ABOVE}")
    )
    expires_after: float | None = attrs.field(
        default=None, metadata=about(f"{_EXPIRES} {_AS_ABOVE}", above=0, maximum=_YEAR)
    )
    on_expiry: Literal["reject", "fail"] | None = attrs.field(
        default=None, metadata=about(f"{_ON_EXPIRY} {_AS_ABOVE}")
    )
