"""The OpenAPI document against the server: every example is called."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from stopgo.actors.a2a.wire.http_paths import ROUTES
from stopgo.actors.approvals.decided import COMMON
from stopgo.actors.approvals.kinds import KINDS
from stopgo.actors.approvals.tool_approval import ToolQuestion
from stopgo.actors.common.errors import AgentError
from stopgo.actors.conversation.result import Result
from stopgo.config.sections.auth import AuthConfig, OidcConfig, TrustedProxyConfig
from stopgo.gateway.a2a import a2a_operations
from stopgo.gateway.app import make_app
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.contract.declaration import Shape
from stopgo.gateway.contract.operation import Operation
from stopgo.gateway.contract.operations import OPERATIONS
from stopgo.gateway.contract.shape_schema import schema
from stopgo.gateway.rest.openapi import document
from stopgo.gateway.rest.secured_operation import schemes_of
from stopgo.gateway.rest.system_routes import docs_page
from stopgo.runtime.json_text import dump_wire
from tests.contract import HANDSHAKE, OF_THE_PAGE

A2A = [operation for operations in a2a_operations.TAGS.values() for operation in operations]
"""`a2a/test_described.py` calls their examples."""
WITHOUT_EXAMPLE = {
    "deleteConversation",
    "a2aDeleteTaskPushNotificationConfig",
    "a2aDeleteTaskPushNotificationConfigV03",
    "endSession",
    "getDocs",
    "getOpenApi",
}
OF_AUTHENTICATION = {"createTicket"}
"""Without authentication, these are not found."""

SPEC = json.loads(document("an agent", "does things"))


def check(value: Any, schema: Any) -> None:
    whole = {"$schema": Draft202012Validator.META_SCHEMA["$id"], "components": SPEC["components"], **schema}
    validator_for(whole).check_schema(whole)
    Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(value)


def examples() -> Iterator[Any]:
    for path, methods in SPEC["paths"].items():
        for method, operation in methods.items():
            for status, answer in operation["responses"].items():
                for content in answer.get("content", {}).values():
                    if "example" in content:
                        yield pytest.param(content, id=f"{method} {path} {status}")


def test_described_operations_are_the_served_ones(agent: Any) -> None:
    served = {
        (method, re.sub("<([^>]+)>", r"{\1}", rule.rule))
        for rule in make_app(agent).url_map.iter_rules()
        for method in ({"GET"} if rule.websocket else rule.methods or set()) - {"HEAD", "OPTIONS"}
        if not OF_THE_PAGE.fullmatch(rule.rule)
    }
    described = {(method.upper(), path) for path, methods in SPEC["paths"].items() for method in methods}
    of_a2a = {(each.method, each.path) for each in A2A if each.path.startswith("/a2a/")}  # by one route
    assert described - served == of_a2a
    assert served - described == {("POST", "/a2a/"), *((verb, "/a2a/{path:path}") for verb, _ in of_a2a)}


def test_every_path_of_a2a_is_described() -> None:
    for verb, path, v1, v03 in ROUTES:
        for method, place in ((v1, f"/a2a/{path}"), (v03, f"/a2a/v1/{path}")):
            assert (verb.lower() in SPEC["paths"].get(place, {})) == bool(method)


def test_the_frame() -> None:
    assert SPEC["openapi"] == "3.1.0"
    assert SPEC["info"]["title"] == "an agent"
    ids = [operation.id for operation in (*OPERATIONS, *A2A)]
    assert len(ids) == len(set(ids))
    references = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(SPEC)))
    assert references <= set(SPEC["components"]["schemas"])


def test_security_is_described_if_the_agent_has_authentication() -> None:
    assert SPEC["components"]["securitySchemes"].keys() == {"bearer"}
    for auth, schemes in (
        (AuthConfig(api_keys=True), ["apiKey", "bearer"]),
        (AuthConfig(oidc=OidcConfig(issuer="https://i.example", audience="a")), ["bearer"]),
        (AuthConfig(proxy=TrustedProxyConfig(secret="s")), []),
    ):
        spec = json.loads(document("an agent", "", schemes_of(auth)))
        assert list(spec["components"]["securitySchemes"]) == schemes
        for operation in OPERATIONS:
            described = spec["paths"][operation.path][operation.method.lower()]
            needed: list[Any] = [] if operation.is_public else [{scheme: []} for scheme in schemes]
            assert described["security"] == needed
            refusals = {"401", "403", "429"} & described["responses"].keys()
            assert refusals == (set() if operation.is_public else {"401", "403", "429"})
            names = {parameter["name"] for parameter in described["parameters"]}
            takes_token = any(each.name == "Authorization" for each in operation.parameters)
            assert ("X-Tool-Authorization" in names) == takes_token
        for operation in A2A:
            described = spec["paths"][operation.path][operation.method.lower()]
            assert described["security"] == ([] if operation.is_public else [{each: []} for each in schemes])


@pytest.mark.parametrize("operation", [*OPERATIONS, *A2A], ids=lambda operation: operation.id)
def test_every_variable_of_a_path_is_described(operation: Operation) -> None:
    variables = {parameter.name for parameter in operation.parameters if parameter.where == "path"}
    assert variables == set(re.findall(r"{(\w+)}", operation.path))


@pytest.mark.parametrize("operation", [*OPERATIONS, *A2A], ids=lambda operation: operation.id)
def test_every_route_has_an_example(operation: Operation) -> None:
    for parameter in operation.parameters:
        assert parameter.where != "path" or parameter.example is not None
    success = operation.own_responses[0]
    assert isinstance(success.body, Shape) or success.example or operation.id in WITHOUT_EXAMPLE


@pytest.mark.parametrize("content", list(examples()))
def test_every_example_fits_its_schema(content: Any) -> None:
    if isinstance(content["example"], str):
        data = re.search("^data: (.*)$", content["example"], re.MULTILINE)
        assert data
        check(json.loads(data[1]), content["schema"])
    else:
        check(content["example"], content["schema"])


def called(operation: Operation) -> dict[str, Any]:
    """The request its example stands for."""
    path = operation.path
    query: dict[str, Any] = {}
    headers = dict(HANDSHAKE) if operation.responses[0].status == 101 else {}
    for parameter in operation.parameters:
        if parameter.example is None:
            continue
        match parameter.where:
            case "path":
                path = path.replace(f"{{{parameter.name}}}", parameter.example)
            case "query":
                query[parameter.name] = parameter.example
            case "header":
                headers[parameter.name] = parameter.example
    return {
        "method": operation.method,
        "url": path,
        "params": query,
        "headers": headers,
        "content": dump_wire(operation.body) if operation.body else b"",
    }


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
async def test_every_example_is_answered_as_described(
    agent: Any, client: httpx2.AsyncClient, operation: Operation
) -> None:
    agent.result = Result("hello", "finished", run_id=ex.RUN_ID, approval_ids=(ex.APPROVAL_ID,))
    success = operation.own_responses[operation.id in OF_AUTHENTICATION]
    async with client.stream(**called(operation)) as answer:
        assert answer.status_code == success.status
        if success.status == 101:
            return
        methods = SPEC["paths"][operation.path]
        content = methods[operation.method.lower()]["responses"][str(success.status)].get("content", {})
        described = content[success.content_type]["schema"] if content else None
        if success.content_type == "text/event-stream":
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    check(json.loads(line.removeprefix("data: ")), described)
                    break
            return
        body = await answer.aread()
    if described is None:
        assert body == b""
        return
    assert answer.headers["Content-Type"].startswith(success.content_type)
    check(answer.json() if success.content_type == "application/json" else answer.text, described)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
async def test_every_parameter_that_is_described_is_known(
    agent: Any, client: httpx2.AsyncClient, operation: Operation
) -> None:
    samples: dict[str, Callable[[Any], Any]] = {
        "integer": lambda schema: schema.get("minimum", 1),
        "string": lambda schema: schema["enum"][0] if "enum" in schema else "x",
    }
    request = called(operation)
    for parameter in operation.parameters:
        if parameter.where == "query":
            described = schema(parameter.type)
            sample = parameter.example or samples[described["type"]](described)
            request["params"][parameter.name] = sample
    async with client.stream(**request) as answer:
        assert answer.status_code == operation.own_responses[operation.id in OF_AUTHENTICATION].status


async def test_readiness(agent: Any, client: httpx2.AsyncClient) -> None:
    agent.ready = False
    answer = await client.get("/health/ready")
    assert answer.status_code == 503
    check(answer.json(), {"$ref": "#/components/schemas/Readiness"})
    assert (await client.get("/health")).json()["status"] == "ok"


async def test_the_document_is_served_as_it_is(agent: Any, client: httpx2.AsyncClient) -> None:
    assert (await client.get("/openapi.json")).json()["paths"] == SPEC["paths"]


async def test_the_page_needs_no_network(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/docs")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    linked = set(re.findall(r"(?:src|href|action)=\W?([^\s>]*)\"", answer.text))
    assert {each for each in linked if not each.startswith(("#", "./#/"))} == {
        *("openapi.json", "docs", "page/icon.svg", "page/core/base.css", "page/shell/shell.css")
    }
    page = answer.text.replace(json.dumps(SPEC), "")
    assert not re.search(r"https?://|@import|\burl\(", re.sub('id="openapi">.*', "", page))
    # Below whatever path a proxy has put it, it asks beside itself.
    assert "document.baseURI" in answer.text
    assert "location.origin" not in answer.text
    assert not re.search(r"\son\w+\s*=\s*[\"']", answer.text)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


async def test_the_page_has_every_route_and_its_examples(client: httpx2.AsyncClient) -> None:
    page = (await client.get("/docs")).text
    for operation in (*OPERATIONS, *A2A):
        assert f'"{operation.path}"' in page
        assert operation.id in page
    assert "add a server web-1 with value 42" in page


def test_a_decision_has_the_fields_that_are_described() -> None:
    [unknown] = refusals({"approved": True, "nonsense": 1})
    described = SPEC["components"]["schemas"]["DecisionRequest"]
    assert unknown.hint == "Valid fields: approved, action, answer, arguments, reason, decided_by, hash."
    fields = {field for kind in KINDS.values() for field in kind.field_names}
    assert fields.union(COMMON) == described["properties"].keys()
    assert described["additionalProperties"] is False
    for name in ("reason", "decided_by"):
        most = described["properties"][name]["maxLength"]
        assert refusals({"approved": True, name: "x" * most}) == []
        [error] = refusals({"approved": True, name: "x" * (most + 1)})
        assert error.details == {"field": name}


def refusals(decision: dict[str, Any]) -> list[AgentError]:
    try:
        ToolQuestion.parse(decision)
    except AgentError as error:
        return [error]
    return []


def test_a_hostile_name_stays_text() -> None:
    name = "</script><script>alert(1)</script><!--"
    page = docs_page(document(name, name)).html.decode()
    assert "alert(1)</script>" not in page
    assert page.count("<script") == 2
    embedded = re.search('<script type="application/json" id="openapi">(.*?)</script>', page, re.DOTALL)
    assert embedded
    assert json.loads(embedded[1])["info"]["title"] == name


def test_docs_page_uses_no_markup_sinks() -> None:
    page = docs_page(b"{}").html.decode()
    for sink in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "new Function"):
        assert sink not in page
