"""`stopgo serve`: one agent over HTTP, until a signal stops it."""

from __future__ import annotations

import argparse
import os
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING

from ....actors.common.loopback import is_loopback
from ....runtime.journal.store_address import LEASE
from ..process.options import (
    WRONG,
    add_config_option,
    add_journal_option,
    add_listen_options,
    add_log_options,
    add_mcp_option,
    add_override_options,
    agent_config,
    base_url,
    collector_url,
    is_installed,
    listen_address,
    path,
    warn_if_reachable,
)
from ..process.undumpable import make_undumpable

ADVERTISE_URL = "STOPGO_ADVERTISE_URL"
ANY_PORT = "STOPGO_ANY_PORT"
"""The variable with the command that serves at a free port, for a person who enters another than `stopgo`."""
MIN_LEASE = 1.0
"""Seconds. Renewals of a shorter lease would come too late on a busy machine."""
MAX_LEASE = 600.0

if TYPE_CHECKING:
    from ....config.sections.agent_config import AgentConfig


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `serve` to the command line."""
    serve = subparsers.add_parser("serve", help="serve an agent over HTTP")
    add_config_option(serve)
    add_listen_options(serve)
    add_override_options(serve)
    add_journal_option(serve)
    serve.add_argument(
        "--lease",
        type=_lease,
        metavar="SECONDS",
        help="time after which other processes on the same database take over the conversations of this one, "
        f"if it dies; default: {LEASE:g}",
    )
    serve.add_argument(
        "--advertise-url",
        type=base_url,
        default=os.environ.get(ADVERTISE_URL) or None,
        metavar="URL",
        help="address at which the other processes on the same database reach this one, to show the replies "
        f"of its models as they arrive; default: ${ADVERTISE_URL}",
    )
    serve.add_argument(
        "--record",
        type=path,
        metavar="DIR",
        help="record the replies of the models in DIR: one file per conversation, for --model script:FILE",
    )
    serve.add_argument(
        "--insecure",
        action="store_true",
        help="serve an agent file without `auth:`, or with a weak secret, to other machines, too",
    )
    serve.add_argument(
        "--strict",
        action="store_true",
        help="refuse to start if a tool that may do harm runs without approval, and no rule says so",
    )
    serve.add_argument(
        "--metrics",
        type=listen_address,
        metavar="[HOST:]PORT",
        help="serve metrics for Prometheus at this address, at /metrics; default of HOST: 127.0.0.1",
    )
    serve.add_argument(
        "--traces",
        type=collector_url,
        nargs="?",
        const="",
        metavar="URL",
        help="export traces to this OTLP/HTTP endpoint; default: that of OTEL_EXPORTER_OTLP_ENDPOINT, else "
        "http://localhost:4318/v1/traces",
    )
    add_log_options(serve)
    add_mcp_option(serve)
    serve.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes.

    Exit codes: 0 after a graceful shutdown, 128 + signal after an immediate one, 2 if the configuration
    cannot be used, 1 if the agent cannot start or has to stop.
    """
    make_undumpable()
    config = agent_config(args, with_overrides=True)
    host = config.host if args.host is None else args.host
    port = config.port if args.port is None else args.port
    if (why := refusal(config, host, insecure=args.insecure)) is not None:
        print(f"stopgo serve: {why}", file=sys.stderr)
        return WRONG

    wanted = {"metrics": args.metrics, "traces": args.traces, "postgres": args.journal}
    if not all(is_installed(extra, "serve") for extra, value in wanted.items() if value is not None):
        return WRONG

    # Imported here, because the server takes a second to import.
    from ...serve_process import Serving, run_process
    from ..terminal.terminal import printable

    # Otherwise readers of a pipe would get the log in blocks.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    _announce(config, host, args.log_format)
    if args.metrics is not None:
        without = ", and --metrics has no authentication:"
        warn_if_reachable(args.metrics[0], "stopgo serve", without, "read the metrics")
    serving = Serving(
        host,
        port,
        metrics=args.metrics,
        record=args.record,
        strict=args.strict,
        any_port=f"`{os.environ.get(ANY_PORT) or 'stopgo serve --port 0'}`",
        traces=args.traces,
        log_format=args.log_format,
        log_level=args.log_level,
        journal=args.journal,
        lease=LEASE if args.lease is None else args.lease,
        advertise_url=args.advertise_url,
    )
    code, failures = run_process(config, serving)
    for failure in failures:  # it may quote a tool server
        print(printable(f"stopgo serve: {failure}"), file=sys.stderr)
    return code


def _lease(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not MIN_LEASE <= seconds <= MAX_LEASE:
        raise argparse.ArgumentTypeError(f"not a number of seconds from {MIN_LEASE:g} to {MAX_LEASE:g}")
    return seconds


def refusal(config: AgentConfig, host: str, *, insecure: bool) -> str | None:
    """Why the agent is not served at this address; None if it is."""
    if insecure or is_loopback(host):
        return None
    if config.auth is None:
        return (
            f"{host} can be reached from other machines, and {config.source} has no `auth:`, so any client "
            "could use the agent. Add `auth:`, or listen on 127.0.0.1; --insecure serves it as it is"
        )
    if config.weak_secrets:
        weak = "; ".join(map(str, config.weak_secrets))
        return f"{host} can be reached from other machines, and {weak}; --insecure serves it as it is"
    return None


def _announce(config: AgentConfig, host: str, log_format: str) -> None:
    if config.packaged:
        text = f"no agent file here: serving the agent that comes with the package, {config.source}"
        print(text, file=sys.stdout if log_format == "text" else sys.stderr)
    for warning in config.warnings:
        print(f"stopgo serve: warning: {warning}", file=sys.stderr)
    if config.auth is None:
        warn_if_reachable(host, "stopgo serve", ", and there is no authentication:")
    if not is_loopback(host) and not config.server.allowed_hosts and config.server.public_url is None:
        print(
            "stopgo serve: warning: clients can use its IP addresses only; for a host name, add to the agent "
            "file: `server: {allowed_hosts: [NAME]}`",
            file=sys.stderr,
        )
