"""The servers in a file of another MCP client, as entries of an agent file. Pure.

The clients, and where they document their keys: Claude Desktop and Claude Code (modelcontextprotocol.io,
code.claude.com/docs), Cline (docs.cline.bot/mcp), Cursor (docs.cursor.com/mcp), Gemini CLI
(geminicli.com/docs/tools/mcp-server), Kiro (kiro.dev/docs/mcp/configuration), OpenCode
(opencode.ai/docs/mcp-servers), Roo Code (docs.roocode.com), VS Code
(code.visualstudio.com/docs/copilot/reference/mcp-configuration), Windsurf (docs.windsurf.com).

Rules:
* What cannot be taken over becomes a note, which names keys and never quotes values: they may be secret.
* An entry that is returned can be read as one of an agent file.
* A secret becomes a variable (`PastedTexts`).
* No entry lets a tool run without a person; the rules that would are returned apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Final

import attrs

from ..described.wording import run_rule
from ..sections.mcp import NAME, McpServerConfig, plain_server_name
from ..text.errors import ConfigError, Problem
from ..text.values import from_plain
from ..text.variables import Variables
from .foreign import APPROVALS
from .pasted_texts import PastedTexts, Variable, one_line
from .reader import Reader

_SECTIONS = ("mcpServers", "servers", "mcp_servers", "context_servers")
"""The keys of files that hold the servers by name: of most clients, of VS Code, of agent files, of Zed."""
_TRANSPORTS: Final = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "remote": None,
    "streamablehttp": "http",
    "sse": "sse",
}
"""The words for a transport, in lower case and without `-` and `_`; None: any that the address has."""
_IN_SECONDS = 3600
"""The longest timeout that is written in seconds (Cline). Above it, the unit is milliseconds."""
_MAX_NAME = 100
_IGNORED = {"name", "id", "gallery", "version", "icon", "autoStart", "$schema"}
"""Keys without a meaning for an agent."""


@attrs.frozen
class PastedServer:
    name: str
    entry: Mapping[str, Any] | None
    """Keys and values of an agent file; None if the server cannot be taken over."""
    notes: tuple[str, ...]
    """What was not taken over, or was changed, in sentences."""


@attrs.frozen
class Pasted:
    servers: tuple[PastedServer, ...]
    variables: tuple[Variable, ...]
    """The variables that the entries refer to."""
    rules: tuple[str, ...]
    """Rules for the tools that ran without a person, each as YAML in one line. They are advice."""
    left_out: tuple[str, ...]
    """Keys of the file that have nothing to do with servers."""


def read_pasted(data: object, file: str, *, keep_secrets: bool = False) -> Pasted:
    """Translate the content of a file.

    Raises:
        ConfigError: it has no servers.
    """
    top = data if isinstance(data, Mapping) else {}
    match top:
        case {"mcp": {"servers": dict()} as nested}:  # VS Code's settings.json
            top = {key: each for key, each in {**top, **nested}.items() if key != "mcp"}
        case {"mcp": dict(nested)} if "mcpServers" not in top and any(
            map(_is_entry, nested.values())
        ):  # OpenCode
            top = {key: each for key, each in {**top, "mcpServers": nested}.items() if key != "mcp"}
        case _:
            pass
    found = list(_entries(top))
    if not found:
        message = "no MCP servers: expected an object mcpServers or servers, with an entry for each server"
        raise ConfigError((Problem("missing_key", message, file),))
    texts = PastedTexts(_inputs(top.get("inputs")), keep_secrets=keep_secrets)
    rules: list[str] = []
    servers: list[PastedServer] = []
    for given, entry in found:
        name = _unique(given, {plain_server_name(server.name) for server in servers})
        server = _Server(name, texts, rules)
        servers.append(server.read(entry, None if name == given else given))
    single = len(found) == 1 and found[0][1] is top
    left_out = (
        () if single else tuple(key for key in top if key not in (*_SECTIONS, "inputs", *_names(found)))
    )
    return Pasted(tuple(servers), texts.variables, tuple(dict.fromkeys(rules)), left_out)


def _entries(top: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The servers of a file, by name. A file may also be one entry, or the entries without their section."""
    sections = [top[key] for key in _SECTIONS if isinstance(top.get(key), Mapping | list)]
    if not sections and _is_entry(top):
        yield str(top.get("name") or "server"), top
        return
    for section in sections or [{key: entry for key, entry in top.items() if _is_entry(entry)}]:
        if isinstance(section, Mapping):
            yield from section.items()
        else:
            for number, entry in enumerate(section, 1):
                named = entry.get("name") if isinstance(entry, Mapping) else None
                yield str(named or f"server-{number}"), entry


def _is_entry(value: object) -> bool:
    return isinstance(value, Mapping) and any(
        key in value for key in ("command", "url", "serverUrl", "httpUrl")
    )


def _names(found: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    return tuple(name for name, _ in found)


def _inputs(given: object) -> Mapping[str, Mapping[str, Any]]:
    """The inputs of VS Code by id."""
    items = given if isinstance(given, list) else []
    return {str(each["id"]): each for each in items if isinstance(each, Mapping) and "id" in each}


def _unique(given: str, taken: set[str]) -> str:
    """A name that an agent file accepts, and that no server before has."""
    fit = (char if char == " " or re.fullmatch(NAME, char) else "_" for char in " ".join(given.split()))
    name = "".join(fit)[:_MAX_NAME].strip() or "server"
    number = 1
    while plain_server_name(name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    return name if number == 1 else f"{name}-{number}"


@attrs.define
class _Server:
    """Translates one entry."""

    name: str
    texts: PastedTexts
    rules: list[str]
    entry: dict[str, Any] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)

    def read(self, given: object, renamed: str | None) -> PastedServer:
        if renamed is not None:
            self.notes.append(f"The name was changed from {one_line(renamed)}.")
        if isinstance(given, Mapping):
            for key, value in given.items():
                self._key(str(key), value)
        why = self._check()
        self.notes += self.texts.take_notes()
        return PastedServer(self.name, None if why else self.entry, (*self.notes, *([why] if why else [])))

    def _key(self, key: str, value: Any) -> None:
        match key, value:
            case _, None:
                pass
            case "command", {"path": str(path), **rest}:  # Zed
                self._key("command", path)
                for inner, each in rest.items():
                    self._key(str(inner), each)
            case "command", [str(command), *args]:  # OpenCode
                self._key("command", command)
                self._key("args", args)
            case _ if key in _KEYS and isinstance(value, _KEYS[key][0]):
                _KEYS[key][1](self, key, value)
            case _ if key not in _IGNORED:
                self._leave_out(key)

    def _leave_out(self, key: str) -> None:
        self.notes.append(f"{one_line(key)} was left out: an agent file has no such key, or another value.")

    def _command(self, _: str, text: str) -> None:
        is_path = "/" in text or "\\" in text
        command, *words = [text] if is_path else text.split() or [""]
        self.entry["command"] = self._path(command)
        if words:
            self.entry["args"] = self.texts.arguments(self.name, words)

    def _args(self, _: str, given: list[Any]) -> None:
        before = self.entry.get("args", [])
        if args := [*before, *self.texts.arguments(self.name, list(map(_text, given)))]:
            self.entry["args"] = args

    def _env(self, _: str, given: Mapping[str, Any] | list[Any]) -> None:
        self.entry["env"] = {
            name: self.texts.of_variable(self.name, name, _text(each))
            for name, each in _pairs(given, "=")
            if each is not None
        }

    def _env_file(self, _: str, path: str) -> None:
        self.entry["env_file"] = self._path(path)

    def _cwd(self, _: str, path: str) -> None:
        self.entry["cwd"] = self._path(path)

    def _headers(self, _: str, given: Mapping[str, Any] | list[Any]) -> None:
        self.entry["headers"] = {
            name: self.texts.of_header(self.name, name, _text(each)) for name, each in _pairs(given, ":")
        }

    def _url(self, key: str, address: str) -> None:
        self.entry["url"] = self.texts.address(self.name, address)
        if key == "httpUrl":
            self.entry.setdefault("transport", "http")

    def _description(self, _: str, text: str) -> None:
        self.entry["description"] = self.texts.plain(text)

    def _timeout(self, key: str, given: float) -> None:
        if not given > 0 or given is True:
            self._leave_out(key)
        elif given <= _IN_SECONDS:
            self.entry["timeout"] = given
        else:
            self.entry["timeout"] = given / 1000
            self.notes.append("timeout was taken as milliseconds.")

    def _path(self, text: str) -> str:
        """A path. Only a shell expands `~`."""
        return self.texts.plain(f"${{userHome}}{text[1:]}" if text == "~" or text.startswith("~/") else text)

    def _transport(self, key: str, word: str) -> None:
        plain = word.lower().replace("-", "").replace("_", "")
        if plain not in _TRANSPORTS:
            self.notes.append(f"{key} was left out: an agent has the transports stdio, http and sse.")
        elif (meant := _TRANSPORTS[plain]) is not None:
            self.entry["transport"] = meant

    def _enabled(self, _: str, on: bool) -> None:
        if not on:
            self.entry["enabled"] = False

    def _disabled(self, key: str, off: bool) -> None:
        self._enabled(key, not off)

    def _exclude(self, _: str, names: list[Any]) -> None:
        self._filter("exclude", names)

    def _include(self, _: str, names: list[Any]) -> None:
        if names != ["*"]:
            self._filter("include", names)

    def _filter(self, key: str, names: list[Any]) -> None:
        if names:
            self.entry.setdefault("tools", {})[key] = [self.texts.plain(_text(name)) for name in names]

    def _approvals(self, key: str, value: Any) -> None:
        tools = [_text(tool) for tool in value] if isinstance(value, list) else ["*"] * bool(value)
        if tools:
            self.notes.append(f"{key} was left out: see the rules at the end of this file.")
        self.rules += (run_rule(self.name, tool) for tool in tools)

    def _check(self) -> str | None:
        """Leave out what an agent file would refuse. Returns why the server cannot be taken over."""
        if self.entry.get("transport") == "stdio":
            del self.entry["transport"]  # the default of a command
        for _ in range(len(self.entry) + 1):
            reader = Reader("", Variables(_AllSet(), Path()))
            reader.section(McpServerConfig, from_plain({"name": self.name, **self.entry}), ())
            problems = [
                each for each in reader.problems if each.code not in ("file_unreadable", "variable_unset")
            ]
            if not problems:
                return None
            key = problems[0].key.partition(".")[0].partition("[")[0]
            if key not in self.entry or key in ("url", "command"):
                return (
                    f"The server was left out: {key}: {problems[0].message}."
                    if key
                    else (f"The server was left out: {problems[0].message}.")
                )
            del self.entry[key]
            self.notes.append(f"{key} was left out: {problems[0].message}.")
        return "The server was left out."


_KEYS: Final[Mapping[str, tuple[type | UnionType, Callable[[_Server, str, Any], None]]]] = {
    "command": (str, _Server._command),
    "args": (list, _Server._args),
    **dict.fromkeys(("env", "environment"), (dict | list, _Server._env)),
    **dict.fromkeys(("envFile", "env_file"), (str, _Server._env_file)),
    "cwd": (str, _Server._cwd),
    **dict.fromkeys(("url", "serverUrl", "httpUrl"), (str, _Server._url)),
    "headers": (dict | list, _Server._headers),
    **dict.fromkeys(("type", "transport", "transportType"), (str, _Server._transport)),
    "description": (str, _Server._description),
    "timeout": (int | float, _Server._timeout),
    **dict.fromkeys(("enabled", "isActive"), (bool, _Server._enabled)),
    "disabled": (bool, _Server._disabled),
    **dict.fromkeys(("disabledTools", "excludeTools"), (list, _Server._exclude)),
    **dict.fromkeys(("enabledTools", "includeTools", "tools"), (list, _Server._include)),
    **dict.fromkeys(APPROVALS, (object, _Server._approvals)),
}
"""By the key of a client: the type of its values, and the method that translates one."""


class _AllSet(dict[str, str]):
    """An environment in which each variable has a value that is valid anywhere."""

    def get(self, key: str, default: Any = None) -> str:
        return "http://x"


def _pairs(given: Mapping[str, Any] | list[Any], sign: str) -> Iterator[tuple[str, Any]]:
    """The items of an object, or of a list of `NAME=VALUE`."""
    if isinstance(given, Mapping):
        yield from given.items()
        return
    for item in map(_text, given):
        name, _, value = item.partition(sign)
        yield name.strip(), value.strip()


def _text(value: Any) -> str:
    """A value as JSON writes it, without the quotes of a text."""
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case _:
            return str(value)
