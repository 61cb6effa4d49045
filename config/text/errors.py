"""The problems of a configuration file."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

_MOST_SHOWN = 50


@attrs.frozen
class Problem:
    """One mistake. It never contains a value from the environment."""

    code: str
    """Stable, in snake_case, for programs."""
    message: str
    """A sentence for a person."""
    file: str
    """The file with the mistake."""
    line: int | None = None
    """From 1; None if the problem concerns the whole file."""
    column: int | None = None
    """From 1."""
    key: str = ""
    """Dotted path, for instance `mcp_servers[0].timeout`; empty for the whole file."""
    expected: str | None = None
    """The permitted values, in words."""
    found: str | None = None
    """The type of the value, in some cases the value."""
    hint: str | None = None
    """How to correct the mistake."""

    @property
    def place(self) -> str:
        """The position for people: `agent.yaml:2:10: llm.model`."""
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return f"{place}: {self.key}" if self.key else place

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.place}: {self.message}{hint}"


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems in the order of their file."""
    return tuple(sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0)))


class ConfigError(Exception):
    """A configuration that cannot be used."""

    code = "config_invalid"

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems
        """All problems, in the order of the file."""

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems[:_MOST_SHOWN]]
        if (left := len(self.problems) - len(lines)) > 0:
            lines.append(f"... and {left} more")
        return "\n".join(lines)
