"""Options, errors and exit codes of several commands."""

from __future__ import annotations

import argparse
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ....actors.common.loopback import is_loopback
from ....runtime.journal.store_address import is_postgres

if TYPE_CHECKING:
    from ....config.sections.agent_config import AgentConfig

FAILED = 1
WRONG = 2
"""Exit code: the configuration or the command line is wrong."""
WAITING = 3
"""Exit code: the run waits for a decision or a token."""

URL = "http://127.0.0.1:8080"
"""Default address of `stopgo serve`."""


def add_config_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=path,
        metavar="FILE",
        help="agent file; default: config/agent.yaml, else agent.yaml, else the file of the package",
    )


def agent_config(args: argparse.Namespace, *, with_overrides: bool = False) -> AgentConfig:
    """The agent file of `--config`.

    Args:
        with_overrides: whether the command has `--data-dir` and `--model`.

    Raises:
        ConfigError: `main` prints it.
    """
    from ....config.load import load_config

    overrides = {"data_dir": args.data_dir, "model": args.model} if with_overrides else {}
    return load_config(args.config, mcp=getattr(args, "mcp", ()), **overrides)


def add_override_options(parser: argparse.ArgumentParser) -> None:
    """Add `--data-dir` and `--model`."""
    parser.add_argument("--data-dir", type=path, metavar="DIR", help="data directory; overrides `data_dir`")
    parser.add_argument(
        "--model", metavar="PROVIDER:NAME", help="model of every node; overrides those of the file"
    )


JOURNAL = "STOPGO_JOURNAL"
"""Environment variable with the address of the journal."""


def add_journal_option(parser: argparse.ArgumentParser) -> None:
    """Add `--journal`."""
    parser.add_argument(
        "--journal",
        type=_journal,
        default=os.environ.get(JOURNAL) or None,
        metavar="URL",
        help="PostgreSQL database of the journal, as a postgresql:// URL, which several processes may use; "
        f"default: ${JOURNAL}, else a file in the data directory",
    )


def _journal(text: str) -> str:
    if not is_postgres(text):
        raise argparse.ArgumentTypeError("not a postgresql:// URL")
    return text


def add_listen_options(parser: argparse.ArgumentParser) -> None:
    """Add `--host` and `--port`."""
    parser.add_argument("--host", type=_listen_host, help="address to listen on; overrides `host`")
    parser.add_argument("--port", type=_listen_port, help="port to listen on, 0 for any; overrides `port`")


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add `--log-format` and `--log-level`."""
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="form of the log lines; default: text"
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="lowest level of the log lines; default: info",
    )


def warn_if_reachable(
    host: str,
    command: str,
    condition: str,
    danger: str = "talk to the agent and approve its tool calls",
) -> None:
    """Warn if other machines can reach the address. `condition`: when that is a risk, with punctuation;
    `danger`: what clients could do."""
    if not is_loopback(host):
        print(
            f"{command}: warning: {host} can be reached from other machines{condition} any client that "
            f"reaches it can {danger}",
            file=sys.stderr,
        )


class WrongUsage(ValueError):
    """A command line or a variable that cannot be used; the text says why, and `main` prints it."""


def wrong(args: argparse.Namespace, why: str) -> int:
    """Print why the command line is wrong, and return the exit code."""
    print(f"{args.command.prog}: {why} (see {args.command.prog} --help)", file=sys.stderr)
    return WRONG


_EXTRAS = {
    "metrics": ("prometheus_client", "--metrics"),
    "traces": ("opentelemetry.exporter.otlp.proto.http", "--traces"),
    "postgres": ("psycopg", "--journal"),
}
"""A module of each extra, and the option that needs it."""


def is_installed(extra: str, command: str) -> bool:
    """Whether an extra of the package is installed. If it is not, print how to install it."""
    module, option = _EXTRAS[extra]
    try:
        installed = find_spec(module) is not None
    except ModuleNotFoundError:  # the package around the module
        installed = False
    if not installed:
        print(
            f"stopgo {command}: {option} needs further packages; install them with "
            f"pip install 'agent-stop-and-go[{extra}]'",
            file=sys.stderr,
        )
    return installed


def add_url_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", type=base_url, default=URL, help=f"address of the agent; default: {URL}")


def collector_url(text: str) -> str:
    """The type of the address of a collector; empty: that of the environment."""
    try:
        return text and base_url(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            "not a valid address; example: http://127.0.0.1:4318/v1/traces"
        ) from None


def base_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise argparse.ArgumentTypeError("not a valid address; example: http://127.0.0.1:8080")
    return text.rstrip("/")


def add_token_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--token-env", metavar="VAR", help="environment variable with the bearer token to send"
    )


API_KEY = "STOPGO_API_KEY"
"""Environment variable with the API key of the agent."""


def api_key() -> str | None:
    """The API key to send. Raises WrongUsage if the variable has no valid key."""
    key = os.environ.get(API_KEY, "").strip()
    if key and not re.fullmatch("[!-~]+", key):
        raise WrongUsage(f"the environment variable {API_KEY} does not contain a valid key")
    return key or None


def credential_headers() -> dict[str, str]:
    """The headers with the credential of the agent. Raises as `api_key` does."""
    key = api_key()
    return {} if key is None else {"X-API-Key": key}


def token_of(args: argparse.Namespace) -> str | None:
    """The bearer token to send. Raises WrongUsage if the variable has no valid token, and as `api_key`."""
    api_key()
    if args.token_env is None:
        return None
    token = os.environ.get(args.token_env)
    if not token:
        raise WrongUsage(f"the environment variable {args.token_env} is not set")
    if not re.fullmatch("[!-~]+", token):
        raise WrongUsage(f"the environment variable {args.token_env} does not contain a valid token")
    return token


def add_mcp_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mcp",
        action="append",
        default=[],
        metavar="[LABEL:]COMMAND-OR-URL",
        help="further tool server, offered to models as one tool; may be repeated. The tool is named "
        "mcp_LABEL or, without a label, mcp, mcp2, ... by position",
    )


def path(text: str) -> Path:
    """The type of a path. An empty one, for instance from an unset shell variable, would mean the working
    directory."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def listen_address(text: str) -> tuple[str, int]:
    """The type of `[HOST:]PORT`. The default of the host is this machine only."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host or "127.0.0.1", _listen_port(port)


def _listen_host(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the address is empty; 0.0.0.0 stands for all addresses")
    return text


def _listen_port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)
