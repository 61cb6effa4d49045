"""`stopgo tools`: lists the tools of a running agent, and accepts hints that became weaker."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ..process.options import FAILED, URL, add_url_option, credential_headers

SECONDS = 30.0
"""Timeout of a request."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `tools` to the command line."""
    tools = subparsers.add_parser("tools", help="list the tools of a running agent, accept weaker hints")
    commands = tools.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser(
        "list",
        help="print the tools",
        description="Prints the verdict on a call of each tool, and the tools whose hints became weaker. "
        "Exit code: 1 if the agent cannot be reached.",
    )
    accept = commands.add_parser(
        "accept",
        help="accept the weaker hints of a tool",
        description="Accepts the current hints of a tool, although they are weaker than before. Exit code: 1 "
        "if the agent cannot be reached, or if it refuses because the tool is unknown or has changed again.",
    )
    for command, run in ((listing, list_tools), (accept, accept_tool)):
        add_url_option(command)
        command.set_defaults(run=run)
    accept.add_argument("name", metavar="NAME", help="name of the tool in `stopgo tools list`")
    accept.add_argument("hash", metavar="HASH", help="hash of the definition, from `stopgo tools list`")


def list_tools(args: argparse.Namespace) -> int:
    """Print a line for each tool, and its held hints."""
    answer = _ask("GET", f"{args.url}/tools")
    lines = [] if answer is None else [line for tool in answer["tools"] for line in _lines(tool, args.url)]
    return _print(answer, lines)


def accept_tool(args: argparse.Namespace) -> int:
    """Accept a definition of a tool."""
    name = quote(args.name, safe="")
    answer = _ask("POST", f"{args.url}/tools/{name}/accept", {"hash": args.hash})
    return _print(answer, [] if answer is None else [f"accepted; {next(_lines(answer['tool'], args.url))}"])


def _print(answer: object, lines: Iterable[str]) -> int:
    from ..terminal.terminal import printable

    for line in lines:
        print(printable(line))
    return FAILED if answer is None else 0


def _lines(tool: Mapping[str, Any], url: str) -> Iterator[str]:
    elsewhere = [] if url == URL else ["--url", url]
    policies = {each["policy"] for each in tool.get("nodes") or [tool]}
    where = "" if len(policies) == 1 else _by_node(tool["nodes"])
    yield f"{tool['name']}: {where or policies.pop()}"
    for held in tool.get("held", ()):
        inner = "" if held["tool"] == tool["name"] else f"{held['tool']}: "
        yield f"  {inner}weaker hints are held: {held['change']}"
        command = shlex.join(["stopgo", "tools", "accept", tool["name"], held["hash"], *elsewhere])
        yield f"  to accept them: {command}"


def _by_node(nodes: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(f"{each['policy']} in {each['node']}" for each in nodes)


def _ask(method: str, url: str, body: Mapping[str, str] | None = None) -> Any:
    """The answer; None after an error, which is printed."""
    import httpx2

    from ....actors.common.http_proxies import proxy_to
    from ..client.agent_client import ServerError, json_of, unreached
    from ..terminal.terminal import Terminal

    try:
        headers = credential_headers()
        proxy = proxy_to(httpx2.URL(url))
        with httpx2.Client(headers=headers, trust_env=False, proxy=proxy, timeout=SECONDS) as client:
            answer = client.request(method, url, json=body)
        return json_of(answer.status_code, answer.content, url)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        refusal = unreached(url, error)
    except ValueError as error:
        refusal = ServerError(str(error))
    except ServerError as error:
        refusal = error
    hint = f" ({refusal.hint})" if refusal.hint else ""
    Terminal.of_this_process().tell(f"stopgo tools: {refusal.message}{hint}", "bad")
    return None
