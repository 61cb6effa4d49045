"""How shapes are declared: their JSON and their schema."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest

from stopgo.gateway.contract import declaration
from stopgo.gateway.contract.declaration import SHAPES, Shape, With, about, maybe
from stopgo.gateway.contract.shape_schema import about_shape, components, is_never_empty, plain, schema
from stopgo.runtime.json_text import dump_wire


@pytest.fixture(autouse=True)
def no_further_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declaration, "SHAPES", {})


def inner() -> type[Any]:
    class Inner(Shape):
        """Inside."""

        type = "inner"

    return Inner


def test_json_has_the_fields_in_their_order_and_no_absent_ones() -> None:
    class Outer(Shape):
        first: str | None = about("May be null.")
        second: int | None = maybe("May be absent.")
        third: Sequence[Any] = about("Always there.")
        fourth: bool | None = maybe("May be absent.")

    assert dump_wire(Outer(first=None, third=(inner()(),))) == b'{"first":null,"third":[{"type":"inner"}]}'
    full = Outer(first="a", second=0, third=[], fourth=False)
    assert dump_wire(full) == b'{"first":"a","second":0,"third":[],"fourth":false}'


def test_a_shape_inherits_fields() -> None:
    class Item(Shape):
        id: str = about("Its id.")
        body: str | None = maybe("Its body.")

    class Whole(Item):
        body: str = about("Its body.")

    assert Whole(id="a", body="b").to_json() == {"id": "a", "body": "b"}
    assert (is_never_empty(Item), is_never_empty(Whole)) == (True, True)
    with pytest.raises(TypeError, match="body"):
        Whole(id="a")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer", "minimum": 0}),
        (Annotated[str, With(maxLength=3)], {"type": "string", "maxLength": 3}),
        (Literal["a"], {"type": "string", "enum": ["a"]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (str | None, {"type": ["string", "null"]}),
        (Sequence[bool], {"type": "array", "items": {"type": "boolean"}}),
        (Mapping[str, Any], {"type": "object"}),
        (Mapping[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (SHAPES["Gap"], {"$ref": "#/components/schemas/Gap"}),
        (
            SHAPES["Gap"] | SHAPES["Heartbeat"],
            {"oneOf": [{"$ref": "#/components/schemas/Gap"}, {"$ref": "#/components/schemas/Heartbeat"}]},
        ),
    ],
)
def test_types_have_schemas(hint: Any, expected: Any) -> None:
    assert schema(hint) == expected


@pytest.mark.parametrize("hint", [bytes, object, dict[str, str]])
def test_other_types_are_refused(hint: Any) -> None:
    with pytest.raises(TypeError, match="no schema for the type"):
        schema(hint)


def test_schema_has_the_descriptions_of_the_class() -> None:
    described = components()
    request = described["DecisionRequest"]
    assert request["additionalProperties"] is False
    assert "required" not in request
    assert request["properties"]["reason"] == {
        "description": "Passed to the model with a rejection.",
        "type": "string",
        "maxLength": 4000,
    }
    approval = described["Approval"]
    assert approval["description"] == "A request for a human decision, in any state."
    assert "rule" in approval["required"]
    assert approval["properties"]["rule"]["type"] == ["string", "null"]
    assert "expires_at" not in approval["required"]
    assert described["Delta"]["properties"]["type"] == {"const": "model.delta"}
    assert described["Delta"]["required"][0] == "type"


def test_descriptions_are_plain_text() -> None:
    assert plain("The [reason](errors.md#runs), `[0]`.") == "The reason, `[0]`."
    assert about_shape(SHAPES["Gap"]).count("\n\n") == 1
    assert "](" not in json.dumps(components())


def test_every_field_has_a_sentence() -> None:
    for name, described in components().items():
        assert described["description"].endswith("."), name
        for key, field in described["properties"].items():
            assert "const" in field or field["description"].endswith("."), f"{name}.{key}"
