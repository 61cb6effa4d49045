"""What the agents of other makes have in common here: a tool, and two ways to use them.

PROGRAM serve PORT          serve A2A; `LEDGER` names the file to which the tool adds a line for each call
PROGRAM ask URL WORDS...    say these words one after the other to the agent at the URL, and print what a
                            person would read, as a line of JSON for each
OPENAI_BASE_URL             a model that calls `remove_note` if it is told to "remove NAME"
"""

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence

import anyio


def remove_note(name: str) -> str:
    """Remove a note."""
    with open(os.environ["LEDGER"], "a") as ledger:
        ledger.write(f"{name}\n")
    return f"removed {name}"


def main(serve: Callable[[int], object], ask: Callable[[str, Sequence[str]], AsyncIterator[str]]) -> None:
    match sys.argv[1:]:
        case ["serve", port]:
            serve(int(port))
        case ["ask", url, *words]:
            anyio.run(_ask, ask(url, words))


async def _ask(texts: AsyncIterator[str]) -> None:
    async for text in texts:
        print(json.dumps({"text": text}), flush=True)
