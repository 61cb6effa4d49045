"""Calls and errors, in JSON-RPC and over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.compat.v0_3 import types as types_03
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP
from google.protobuf.json_format import ParseDict
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo

from stopgo.actors.a2a.wire import v03_rest_codec
from stopgo.actors.a2a.wire.a2a_errors import KINDS, A2AError, Reason, invalid
from stopgo.actors.a2a.wire.error_json import http_error
from stopgo.actors.a2a.wire.json_rpc import Call, id_of, read_call, write_error, write_result

CALL = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t"}}
PLAIN = A2AError("TASK_NOT_FOUND", "there is no task t")
OF_FIELD = invalid("message.parts", "must be a list")


@pytest.mark.parametrize(
    ("body", "call"),
    [
        (CALL, Call(1, "GetTask", {"id": "t"})),
        ({**CALL, "id": "x"}, Call("x", "GetTask", {"id": "t"})),
        ({**CALL, "id": 1.5}, Call(1.5, "GetTask", {"id": "t"})),
        ({**CALL, "params": [1]}, Call(1, "GetTask", [1])),
        ({"jsonrpc": "2.0", "method": "GetTask"}, Call(None, "GetTask", None)),
    ],
)
def test_calls(body: Any, call: Call) -> None:
    assert read_call(body) == call
    assert id_of(body) == call.id


@pytest.mark.parametrize(
    ("body", "mistake", "id"),
    [
        ([CALL], "batches are not supported", None),
        ([], "batches are not supported", None),
        ("x", "the body must be a JSON object", None),
        (None, "the body must be a JSON object", None),
        ({}, 'jsonrpc must be "2.0"', None),
        ({**CALL, "jsonrpc": "1.0"}, 'jsonrpc must be "2.0"', 1),
        ({**CALL, "jsonrpc": 2.0}, 'jsonrpc must be "2.0"', 1),
        ({**CALL, "id": {}}, "id must be a string, a number or null", None),
        ({**CALL, "id": True}, "id must be a string, a number or null", None),
        ({"jsonrpc": "2.0", "id": "x"}, "method must be a string", "x"),
        ({**CALL, "method": 7}, "method must be a string", 1),
    ],
)
def test_other_bodies_are_refused(body: Any, mistake: str, id: object) -> None:
    with pytest.raises(A2AError) as raised:
        read_call(body)
    assert raised.value.reason == "INVALID_REQUEST"
    assert str(raised.value) == f"Invalid request: {mistake}"
    assert id_of(body) == id


def test_result_null_is_a_result() -> None:
    assert write_result("x", None) == {"jsonrpc": "2.0", "id": "x", "result": None}


@pytest.mark.parametrize("error", [PLAIN, OF_FIELD])
def test_sdk_reads_the_details(error: A2AError) -> None:
    in_rpc = write_error(1, error, details=True)["error"]
    over_http = http_error(error)["error"]
    assert in_rpc["code"] == error.kind.code
    assert (over_http["code"], over_http["status"]) == (error.kind.http, error.kind.status)
    assert in_rpc["message"] == over_http["message"] == str(error)
    assert in_rpc["data"] == over_http["details"]
    info, *rest = in_rpc["data"]
    assert info.pop("@type") == f"type.googleapis.com/{ErrorInfo.DESCRIPTOR.full_name}"
    assert ParseDict(info, ErrorInfo()) == ErrorInfo(reason=error.reason, domain="a2a-protocol.org")
    for violations in rest:
        assert violations.pop("@type") == f"type.googleapis.com/{BadRequest.DESCRIPTOR.full_name}"
    violation = BadRequest.FieldViolation(field="message.parts", description="must be a list")
    expected = [BadRequest(field_violations=[violation])] if error.violations else []
    assert [ParseDict(each, BadRequest()) for each in rest] == expected


def test_errors_of_0_3() -> None:
    written = write_error(None, PLAIN, details=False)
    read = types_03.JSONRPCErrorResponse.model_validate(written)
    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == written
    assert written["error"] == {"code": -32001, "message": "there is no task t"}


# The SDK's names of errors, by which its client for 0.3 over HTTP distinguishes them.
NAMES = {error.__name__: code for error, code in JSON_RPC_ERROR_CODE_MAP.items()}
UNKNOWN_TO_IT: set[Reason] = {"PARSE_ERROR", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}


@pytest.mark.parametrize("reason", sorted(set(KINDS) - UNKNOWN_TO_IT))
def test_codes_and_names_are_those_of_the_sdk(reason: Reason) -> None:
    error = A2AError(reason, "no")
    written = v03_rest_codec.write_error(error)
    assert NAMES[written["type"]] == written["code"] == error.kind.code
    assert written["message"] == "no"
    assert written["error"] == http_error(error)["error"]
