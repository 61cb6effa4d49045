"""What is wrong with a configuration file, all of it at once."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

_MOST_SHOWN = 50


@attrs.frozen
class Problem:
    """One mistake. It never holds a value that came from the environment."""

    code: str
    """Stable, snake_case: what a program may rely on."""
    message: str
    """A sentence for a person."""
    file: str
    """The file that it is in."""
    line: int | None = None
    """From 1; None when it concerns the file as a whole."""
    column: int | None = None
    """From 1."""
    key: str = ""
    """Dotted path, for instance `mcp_servers[0].timeout`; empty for the file as a whole."""
    expected: str | None = None
    """What may stand there."""
    found: str | None = None
    """What stands there: the type of a value, seldom the value."""
    hint: str | None = None
    """What to do about it."""

    @property
    def place(self) -> str:
        """For people: `agent.yaml:2:10: llm.model`."""
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return f"{place}: {self.key}" if self.key else place

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.place}: {self.message}{hint}"


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems as they follow each other in their file."""
    return tuple(sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0)))


class ConfigError(Exception):
    """A configuration that cannot be used."""

    code = "config_invalid"

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems
        """All that is wrong, in the order of the file."""

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems[:_MOST_SHOWN]]
        if (left := len(self.problems) - len(lines)) > 0:
            lines.append(f"... and {left} more")
        return "\n".join(lines)
