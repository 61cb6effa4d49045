"""Reads an agent file and returns an `AgentConfig`."""

from __future__ import annotations

import importlib.resources
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import attrs

from .checks.approver_checks import check_approvers
from .checks.auth_checks import check_auth
from .checks.checks import (
    check_bearers,
    check_closed_rules,
    check_delegates,
    check_model_names,
    check_names,
    check_prices,
    check_server_names,
    check_tree,
    misspelled,
    model_names,
)
from .checks.delegates import remote_agents
from .checks.notify_checks import check_notify
from .checks.shared_secrets import weak_entrances, weak_exits
from .checks.tree import fill_in, tree_id, without_addresses
from .checks.warnings import warnings_of
from .described.shape import keys_of, written_as
from .reading.mcp_flag import flag_servers
from .reading.reader import Reader
from .sections.a2a import RemoteAgentConfig
from .sections.agent_config import AgentConfig
from .sections.mcp import BROUGHT, McpServerConfig
from .sections.secrets import secrets_of_variables, shown_address
from .text.compose import compose
from .text.errors import ConfigError, Problem, in_order
from .text.interpolate import escape, parse
from .text.values import KeyPath, Mark, Scalar, Table, Value, as_list, dotted, items, plain
from .text.variables import Variables

Callee = TypeVar("Callee", McpServerConfig, RemoteAgentConfig)

MAX_BYTES = 1024 * 1024
DEFAULT_FILES = (Path("config", "agent.yaml"), Path("agent.yaml"))
"""Relative to the working directory; the first that exists is read."""


def load_config(
    path: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    data_dir: str | os.PathLike[str] | None = None,
    model: str | None = None,
    mcp: Iterable[str] = (),
    own_providers: Collection[str] = (),
) -> AgentConfig:
    """Read an agent file.

    Without `path`, it is `config/agent.yaml` or `agent.yaml` in the working directory or, if there is none,
    the default file of the package; `source` and `packaged` of the result say which. `data_dir` and `model`
    replace those of the file, `model` that of every node, and are taken literally. `mcp` are further tool
    servers, each as `[label:]command-or-url` (see `flag_servers`). `own_providers` are provider names of
    models that the program provides itself. Raises `ConfigError` with all problems.
    """
    source, packaged = locate(None if path is None else Path(path), *DEFAULT_FILES)
    root, problems = read_mapping(source, "name: my-agent")
    written, has_tree = root, "agent" in root.entries
    if data_dir is not None:
        root = root.with_entries({"data_dir": Scalar(escape(os.fspath(data_dir)))})
    root = fill_in(_own_names(root), model)
    variables = Variables(environ, source.parent)
    reader = Reader(str(source), variables)
    reader.data_dir = _data_dir(root, reader)  # first, because all other values may refer to it
    config = reader.section(AgentConfig, root, ())
    check_tree(reader, root.entries["agent"])
    check_model_names(reader, root, own_providers)
    if config is not None:
        check_prices(reader, root, config)
        check_server_names(reader, root, config)
        check_bearers(reader, root, config)
        root = _with_lists(root)
        config = _with_callees(config, root, source.parent, variables, mcp)
        check_delegates(reader, root, config)
        check_names(reader, root, config)
        check_closed_rules(reader, root, config)
        check_auth(reader, root, config)
        check_notify(reader, root, config)
        check_approvers(reader, root, config)
    found = [*problems, *(problem for problem in reader.problems if has_tree or not _in_tree(problem))]
    if found or config is None:
        raise ConfigError(tuple(dict.fromkeys(map(_with_flag, in_order(found)))))
    stored = plain(without_addresses(root.entries["agent"]))
    assert isinstance(stored, dict)
    weak, exits = weak_entrances(config, root, str(source)), weak_exits(config, root, str(source))
    return attrs.evolve(
        config,
        has_tree=has_tree,
        data_dir=reader.data_dir,
        source=source,
        packaged=packaged,
        stored_tree=stored,
        revision=tree_id({"file": plain(written)}),
        rule_secrets=_rule_secrets(root, variables),
        warnings=(*misspelled(root), *warnings_of(config, root), *map(str, (*weak, *exits))),
        weak_secrets=weak,
        model_places=_model_places(reader, root, source, is_given=model is not None),
    )


def _rule_secrets(root: Table, variables: Variables) -> tuple[str, ...]:
    sections = (root.entries.get(name) for name in ("approval", "agent"))
    return tuple(secret for each in sections if each for secret in secrets_of_variables(each, variables.get))


def _model_places(reader: Reader, root: Table, source: Path, *, is_given: bool) -> Mapping[str, str]:
    """`is_given`: a model from the command line replaces those of all nodes."""
    models = root.entries.get("models")
    marks = models.key_marks if isinstance(models, Table) else {}
    named: list[tuple[str | None, Mark | None, KeyPath]]
    named = [(name, mark, ("models", name)) for name, mark in marks.items()]
    used = [(reader.text_of(value), value.mark, path) for value, path in model_names(root)]
    places: dict[str, str] = {}
    for name, mark, path in (*named, *used):
        line, column = (mark.line, mark.column) if mark else (None, None)
        where = Problem("", "", str(source), line, column, dotted(path))
        if name is not None:
            places.setdefault(name, "--model" if mark is None and is_given else where.place)
    return places


def locate(path: Path | None, *defaults: Path) -> tuple[Path, bool]:
    """The file to read, the first of the defaults that exists or that of the package, and whether it is that
    of the package."""
    found = path or next((default for default in defaults if default.exists()), None)
    if found is not None:
        return found, False
    return Path(str(importlib.resources.files("stopgo.config").joinpath(defaults[0].name))), True


def read_mapping(source: Path, example: str) -> tuple[Table, tuple[Problem, ...]]:
    """The mapping in a file, and the problems that do not stop the reading. Raises `ConfigError`.

    Args:
        example: a key and its value, for the error if the file is not a mapping.
    """
    root, problems = compose(read_text(source), str(source))
    if not isinstance(root, Table):
        message = f"the file must be a mapping of keys, such as `{example}`"
        raise ConfigError(problems or (Problem("not_a_mapping", message, str(source), 1, 1),))
    return root, problems


def read_text(source: Path, max_bytes: int = MAX_BYTES, *, relative_to: str = "the working directory") -> str:
    """The text of a YAML file.

    Args:
        relative_to: where the path starts if it is relative, for the error.

    Raises:
        ConfigError: with one problem.
    """

    def refusal(code: str, message: str, hint: str | None = None) -> ConfigError:
        return ConfigError((Problem(code, message, str(source), hint=hint),))

    try:
        with source.open("rb") as file:
            data = file.read(max_bytes + 1)
    except FileNotFoundError:
        hint = f"relative paths are relative to {relative_to}"
        raise refusal("file_missing", "there is no such file", hint) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise refusal("file_unreadable", f"the file cannot be read: {why}") from None
    if len(data) > max_bytes:
        raise refusal("too_large", f"the file is larger than {max_bytes >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refusal("not_utf8", f"the file is not UTF-8 text, first on line {line}") from None


def _own_names(root: Table) -> Table:
    """The file with `mcpServers` under its name here. If the file has both, the reader reports that."""
    given = written_as(AgentConfig, "mcp_servers", root)
    if given in (None, "mcp_servers"):
        return root
    entries = {"mcp_servers" if key == given else key: item for key, item in root.entries.items()}
    return attrs.evolve(root, entries=entries)


def _data_dir(root: Table, reader: Reader) -> Path:
    key = keys_of(AgentConfig)["data_dir"]
    value = root.entries.get(key.name)
    read = reader.read(value, key.shape, (key.name,)) if value else None
    # After a problem the value does not matter, because loading fails.
    return Path(os.path.abspath(read if isinstance(read, str) else str(key.default)))


def _with_lists(root: Table) -> Table:
    """The file with its servers and agents as lists."""
    sections = {name: root.entries.get(name) for name in ("mcp_servers", "a2a")}
    return root.with_entries(
        {name: as_list(each) for name, each in sections.items() if isinstance(each, Table)}
    )


def _with_callees(
    config: AgentConfig, root: Table, folder: Path, variables: Variables, mcp: Iterable[str]
) -> AgentConfig:
    """The config with the fields of servers and agents that are derived from their entries, lists in `root`,
    and with the servers of the command line."""
    flagged = flag_servers(mcp, [server.name for server in config.mcp_servers])
    located = _located(config.mcp_servers, folder)
    servers = _described(located, root.entries.get("mcp_servers"), variables)
    agents = _described(config.a2a, root.entries.get("a2a"), variables)
    config = attrs.evolve(config, mcp_servers=(*servers, *flagged), a2a=agents)
    return attrs.evolve(config, remote_agents=remote_agents(config, root, variables.get))


def _located(servers: tuple[McpServerConfig, ...], folder: Path) -> tuple[McpServerConfig, ...]:
    """The servers, with relative paths resolved against `folder`."""
    return tuple(
        attrs.evolve(
            server,
            command=_command(server.command, folder),
            env_file=server.env_file and Path(os.path.abspath(folder / server.env_file)),
            cwd=server.cwd and Path(os.path.abspath(folder / server.cwd)),
        )
        for server in servers
    )


def _described(
    callees: tuple[Callee, ...], written: Value | None, variables: Variables
) -> tuple[Callee, ...]:
    """Servers or agents with the fields that are derived from their entries in the file, a list."""
    return tuple(
        attrs.evolve(
            callee,
            as_written=_as_written(entry),
            secrets=tuple(secrets_of_variables(entry, variables.get)),
        )
        for callee, entry in zip(callees, items(written), strict=True)
    )


def _command(command: str | None, folder: Path) -> str | None:
    """Resolve a path against the folder of the file. A bare name is looked up when the server starts."""
    if command is None or os.sep not in command:
        return command
    return str((folder / command).absolute())


def _as_written(entry: Value) -> str:
    assert isinstance(entry, Table)
    url = written_as(McpServerConfig, "url", entry)
    value = entry.entries.get(url or "command")
    if value is None:
        return BROUGHT
    assert isinstance(value, Scalar)
    return shown_address(parse(str(value.value))) if url else str(value.value)


def _in_tree(problem: Problem) -> bool:
    """Whether a problem is in the tree. In a default tree, it repeats a problem of another key."""
    return problem.key.partition(".")[0] == "agent"


def _with_flag(problem: Problem) -> Problem:
    """The problem, with `--model` as its file if the model is not in the file."""
    if problem.line is None and problem.key.rpartition(".")[2] == "model":
        return attrs.evolve(problem, file="--model", key="")
    return problem
