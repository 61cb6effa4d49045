"""The OpenAPI 3.1 document, made of the table of routes. Pure."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from .operation import OTHERWISE, Answer, Operation, Parameter
from .operations import OPERATIONS
from .schemas import SCHEMAS, ref

DISTRIBUTION = "agent-stop-and-go"


def document(name: str, description: str) -> bytes:
    """The document of an agent, as JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return json.dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": name, "description": description, "version": version(DISTRIBUTION)},
            "servers": [{"url": "/"}],
            "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for operation in OPERATIONS)],
            "paths": paths,
            "components": {
                "schemas": SCHEMAS,
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            },
        },
        ensure_ascii=False,
    ).encode()


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "responses": {str(answer.status): _answer(answer) for answer in operation.answers},
    }
    described["responses"]["default"] = {
        "description": OTHERWISE,
        "content": {"application/json": {"schema": ref("Error")}},
    }
    if operation.description:
        described["description"] = operation.description
    # OpenAPI has a place of its own for Authorization and ignores it among the parameters.
    if any(parameter.name == "Authorization" for parameter in operation.parameters):
        described["security"] = [{}, {"bearer": []}]
    described["parameters"] = [
        _parameter(parameter) for parameter in operation.parameters if parameter.name != "Authorization"
    ]
    if operation.body is not None:
        content = {"schema": operation.body, "example": operation.example}
        described["requestBody"] = {
            # A decision may be said in several fields, but in one of them.
            "required": "required" in operation.body or "$ref" in operation.body,
            "content": {"application/json": content},
        }
    return described


def _parameter(parameter: Parameter) -> dict[str, Any]:
    described = {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.where == "path",
        "description": parameter.description,
        "schema": parameter.schema,
    }
    if parameter.example is not None:
        described["example"] = parameter.example
    return described


def _answer(answer: Answer) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.description}
    if answer.schema is not None:
        content: dict[str, Any] = {"schema": answer.schema}
        if answer.example is not None:
            content["example"] = answer.example
        described["content"] = {answer.content_type: content}
    if answer.headers:
        described["headers"] = {
            name: {"description": meaning, "schema": {"type": "string"}}
            for name, meaning in answer.headers.items()
        }
    return described
