"""The names of the MCP SDK that `actors/mcp` uses, although the SDK does not document them.

A new release of the SDK may rename them. Then a test here names what is gone.
"""

import ast
import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

SDK = Path(__file__).parents[3] / "actors/mcp/wire/sdk.py"
# Read from the source, because the module itself cannot be imported once a name is gone.
_BELOW_THE_LINE = SDK.read_text().split("# isort: split")[1]
PRIVATE = [
    (node.module, name.name)
    for node in ast.parse(_BELOW_THE_LINE).body
    if isinstance(node, ast.ImportFrom) and node.module
    for name in node.names
]
USED = {
    "mcp.client.session:ClientSession": "send_discover adopt",
    "mcp.server.lowlevel:Server": "run create_initialization_options streamable_http_app session_manager",
    "mcp.shared._context_streams:ContextReceiveStream": "last_context",
    "mcp.shared.message:ServerMessageMetadata": "on_request_unanswered",
}
"""Attributes and methods of each class."""
PARAMETERS = {
    "mcp.client.streamable_http:streamable_http_client": "http_client max_sse_event_size",
    "mcp.client.client:Client": "mode client_info elicitation_callback cache",
    "mcp.server.lowlevel:Server.streamable_http_app": (
        "host stateless_http json_response custom_starlette_routes"
    ),
}
"""Parameters of each function or class."""


def found(place: str) -> Any:
    module, _, path = place.partition(":")
    value: Any = import_module(module)
    for name in path.split("."):
        value = getattr(value, name)
    return value


def test_private_names_are_imported_below_the_line() -> None:
    imports = [node for node in ast.walk(ast.parse(SDK.read_text())) if isinstance(node, ast.ImportFrom)]
    private = {
        (node.module, name.name)
        for node in imports
        for name in node.names
        if any(part.startswith("_") for part in [*(node.module or "").split("."), name.name])
    } - {("__future__", "annotations")}
    assert private
    assert private - set(PRIVATE) == set()


@pytest.mark.parametrize(("module", "name"), PRIVATE)
def test_private_name_exists(module: str, name: str) -> None:
    assert hasattr(import_module(module), name)


@pytest.mark.parametrize("place", USED)
def test_attributes_exist(place: str) -> None:
    cls = found(place)
    # Attributes of instances are known by the code that sets or declares them.
    sources = [inspect.getsource(base) for base in cls.__mro__[:-1] if base.__module__.startswith("mcp")]
    assert [
        name
        for name in USED[place].split()
        if not hasattr(cls, name)
        and not any(f"self.{name}" in source or f"    {name}:" in source for source in sources)
    ] == []


@pytest.mark.parametrize("place", PARAMETERS)
def test_parameters_exist(place: str) -> None:
    names = inspect.signature(found(place)).parameters
    assert [name for name in PARAMETERS[place].split() if name not in names] == []
