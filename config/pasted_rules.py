"""Other approval rules for an agent, from a text that a person gives. Pure.

The text is a section `approval`, or a file that has one. Nothing else of a file is read: the tree with the
rules of its nodes, the servers and all other settings stay those of the agent. Nothing is looked up for the
text, neither a variable nor a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

from .checks.approver_checks import check_approvers
from .checks.checks import check_closed_rules, check_names
from .reading.reader import Reader
from .sections.agent_config import AgentConfig
from .sections.approval import ApprovalConfig
from .text.compose import compose
from .text.errors import ConfigError, Problem, in_order
from .text.interpolate import MalformedReference, Reference, parse
from .text.values import KeyPath, Scalar, Sequence, Table, Value, from_plain
from .text.variables import Variables

NAME = "rules"
"""The name of the text in problems."""
MOST_BYTES = 64 * 1024
"""Bytes of a text."""


@attrs.frozen
class PastedRules:
    config: AgentConfig
    """The agent with these rules."""
    ignored: tuple[str, ...]
    """Other keys of the file, which are not read."""


def with_pasted_rules(config: AgentConfig, text: str) -> PastedRules:
    """`config` is that of the agent. Raises `ConfigError` with all problems."""
    if len(text.encode(errors="surrogatepass")) > MOST_BYTES:
        raise _refusal("too_large", f"the text is larger than {MOST_BYTES >> 10} KiB")
    root, problems = compose(text, NAME)
    if not isinstance(root, Table):
        raise ConfigError(
            problems or _refusal("not_a_mapping", "expected keys, such as `rules`, or an agent file").problems
        )
    is_file = "approval" in root.entries
    section, path = root.entries["approval"] if is_file else root, ("approval",)
    ignored = tuple(key for key in root.entries if is_file and key != "approval")
    reader = Reader(NAME, Variables({}, Path()))
    _refuse_references(reader, section, path)
    if reader.problems or problems:
        raise ConfigError(in_order([*problems, *reader.problems]))
    approval = reader.section(ApprovalConfig, section, path)
    if approval is not None and not reader.problems:
        config = attrs.evolve(config, approval=approval)
        _check(reader, config, section)
    if reader.problems:
        raise ConfigError(in_order(reader.problems))
    return PastedRules(config, ignored)


def _refusal(code: str, message: str) -> ConfigError:
    return ConfigError((Problem(code, message, NAME, 1, 1),))


def _refuse_references(reader: Reader, value: Value, path: KeyPath) -> None:
    for each, at in _scalars(value, path):
        try:
            parts = parse(str(each.value))
        except MalformedReference:
            continue  # reported when it is read
        if any(isinstance(part, Reference) for part in parts):
            message = "variables and files are not read for pasted rules"
            reader.report("bad_reference", message, each.mark, at, hint="write the value itself")


def _scalars(value: Value, path: KeyPath) -> Iterator[tuple[Scalar, KeyPath]]:
    match value:
        case Scalar():
            yield value, path
        case Table():
            for key, inner in value.entries.items():
                yield from _scalars(inner, (*path, key))
        case Sequence():
            for index, inner in enumerate(value.items):
                yield from _scalars(inner, (*path, index))
        case _:
            pass  # a problem has been reported


def _check(reader: Reader, config: AgentConfig, section: Value) -> None:
    """Report names that do not exist, ranges with one end, and approvers that cannot be, as for a file.
    Mistakes elsewhere in the file of the agent have been reported at its start."""
    receivers = () if config.auth is None else config.auth.forward_credential
    written = Table(
        {
            "approval": section,
            "agent": from_plain(config.stored_tree),
            "a2a": from_plain([{"name": each.name} for each in config.a2a]),
            "auth": from_plain({"forward_credential": receivers}),
        }
    )
    check_names(reader, written, config)
    check_closed_rules(reader, written, config)
    check_approvers(reader, written, config)
    reader.problems[:] = [each for each in reader.problems if each.key.startswith("approval")]
