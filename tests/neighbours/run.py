"""Use what others make with a real agent, and print tables of what was done and seen.

    make neighbours                       all
    make neighbours ARGS='python mcp-go'  those whose names have one of the words

It installs them below `build/neighbours`, from PyPI, npm and the Go modules, with node and go. Exit code 1 if
something differs from what the product promises.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from tests.neighbours import agents, tool_servers


class Neighbour(Protocol):
    @property
    def name(self) -> str: ...


class Row(Protocol):
    @property
    def failed(self) -> object: ...
    def shown(self) -> str: ...


N = TypeVar("N", bound=Neighbour)


def main(words: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seen = [
        *table(tool_servers.HEAD, tool_servers.NEIGHBOURS, tool_servers.rows_of, words),
        *table(agents.HEAD, agents.MAKES, agents.rows_of, words),
    ]
    return int(not all(seen))


def table(
    head: str, neighbours: Sequence[N], rows_of: Callable[[N], Iterator[Row]], words: Sequence[str]
) -> Iterator[bool]:
    """Print the rows of the chosen neighbours; yield whether each is as it should be."""
    wanted = [word.lower() for word in words]
    chosen = [each for each in neighbours if not words or any(word in each.name.lower() for word in wanted)]
    if chosen:
        print(head)
    for neighbour in chosen:
        try:
            for row in rows_of(neighbour):
                print(row.shown() + " **FAILED**" * bool(row.failed), flush=True)
                yield not row.failed
        except Exception as error:
            print(f"| {neighbour.name} | **FAILED** {type(error).__name__}: {error}", flush=True)
            yield False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
