"""The OpenAPI 3.1 document, generated from the table of operations and the shapes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

from ...runtime.json_text import dump_wire
from ..a2a import a2a_operations
from ..contract.declaration import Shape
from ..contract.operation import OTHERWISE, Operation, Parameter, Response
from ..contract.operations import TAGS
from ..contract.shape_schema import components, is_never_empty, schema
from ..contract.system_shapes import Endpoint, EndpointList
from .secured_operation import SCHEMES, Scheme, security, with_auth

DESCRIBED = {**TAGS, **a2a_operations.TAGS}
"""All operations, by tag."""
PRODUCT = "Agent Stop and Go"


@cache
def document(
    name: str, description: str, schemes: tuple[Scheme, ...] | None = None, prefix: str = ""
) -> bytes:
    """The document of an agent, as JSON.

    Args:
        schemes: how clients authenticate; None: there is no authentication.
        prefix: the path below which a proxy serves the agent.
    """
    paths: dict[str, dict[str, Any]] = {}
    for tag, operations in DESCRIBED.items():
        for operation in operations:
            methods = paths.setdefault(operation.path, {})
            methods[operation.method.lower()] = _operation(operation, tag, schemes)
    return dump_wire(
        {
            "openapi": "3.1.0",
            "info": {"title": name, "description": description, "version": version("agent-stop-and-go")},
            "servers": [{"url": f"{prefix}/"}],
            "tags": [{"name": tag} for tag in DESCRIBED],
            "paths": paths,
            "components": {
                "schemas": components(),
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}
                if schemes is None
                else {name: SCHEMES[name] for name in schemes},
            },
        }
    )


def endpoint_list() -> EndpointList:
    endpoints = [
        Endpoint(method=each.method, path=each.path, description=each.summary)
        for operations in DESCRIBED.values()
        for each in operations
    ]
    return EndpointList(title=PRODUCT, version=version("agent-stop-and-go"), endpoints=endpoints)


def _operation(operation: Operation, tag: str, schemes: tuple[Scheme, ...] | None) -> dict[str, Any]:
    if schemes is not None:
        operation = with_auth(operation)
    responses = {str(response.status): _response(response) for response in operation.responses}
    described: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [tag],
        "summary": operation.summary,
        "responses": {**responses, "default": _response(operation.otherwise or OTHERWISE)},
    }
    if operation.description:
        described["description"] = operation.description
    # OpenAPI describes Authorization under `security` and ignores it among the parameters.
    if schemes is not None:
        described["security"] = security(operation, schemes)
    elif any(parameter.name == "Authorization" for parameter in operation.parameters):
        described["security"] = [{}, {"bearer": []}]
    described["parameters"] = [
        _parameter(parameter) for parameter in operation.parameters if parameter.name != "Authorization"
    ]
    if operation.body is not None:
        described["requestBody"] = {
            "required": not isinstance(operation.body, Shape) or is_never_empty(type(operation.body)),
            "content": {"application/json": _content(operation.body)},
        }
    return described


def _parameter(parameter: Parameter) -> dict[str, Any]:
    described = {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.where == "path",
        "description": parameter.description,
        "schema": schema(parameter.type),
    }
    return described if parameter.example is None else {**described, "example": parameter.example}


def _content(body: Any) -> dict[str, Any]:
    """`body` is an example or a type."""
    if isinstance(body, Shape):
        return {"schema": schema(type(body)), "example": body}
    if isinstance(body, Mapping):
        return {"schema": {"type": "object"}, "example": body}
    return {"schema": schema(body)}


def _response(response: Response) -> dict[str, Any]:
    described: dict[str, Any] = {"description": response.description}
    if response.body is not None:
        content = _content(response.body)
        if response.example is not None:
            content["example"] = response.example
        described["content"] = {response.content_type: content}
    if response.headers:
        described["headers"] = {
            name: {"description": meaning, "schema": {"type": "string"}}
            for name, meaning in response.headers.items()
        }
    return described
