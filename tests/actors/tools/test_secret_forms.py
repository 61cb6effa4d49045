"""Which forms ask for a secret."""

from __future__ import annotations

from typing import Any

import pytest

from stopgo.actors.tools.elicitation import unaskable
from stopgo.actors.tools.secret_forms import is_secret_name, secret_field
from stopgo.actors.tools.tool import Elicitation

SECRET = """password Password PASSWORD pAsSwOrD user_password userPassword userpassword newPassword2 password1
    passwords passwd pwd dbPwd passphrase pass-phrase passcode secret clientSecret client.secret secrets token
    access_token accessToken ACCESS_TOKEN authtoken tokens bearer apiKey api-key api_key APIKey apiKEY apikey
    API_KEYS x-api-key openaiApiKey access_key AWSAccessKeyId private_key privateKeyPem sshKey signing-key
    encryption_key master_key credentials otp OTPCode cvv cardNumber card_number recovery_codes seedPhrase
    verification_code authCode MFA_code pinCode loginCode
    \uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44 pass\u200bword"""
HARMLESS = """primary_key primaryKey key keys monkey keyboard sort_key foreign-key name email pass compass
    bypass passenger passport secretary tokenize author authority code zip_code postcode card number
    time_code author_code spin_code
    phone_number access account word crossword spin laptop description"""


@pytest.mark.parametrize("name", [*SECRET.split(), "Your password", "API key (from your profile)"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", [*HARMLESS.split(), "", "_", "日本語"])
def test_names_of_other_fields(name: str) -> None:
    assert not is_secret_name(name)


def form(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"name": {"type": "string"}, **fields}}


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    "schema",
    [
        form(apiKey=TEXT),
        form(login={"type": "string", "format": "password"}),
        form(login={"type": "string", "format": "Password"}),
        form(login={"type": "string", "title": "Your password"}),
        form(pin={"type": "object", "properties": {"token": {"type": "integer"}}}),
        form(token=True),
        form(token={"type": ["string", "boolean"]}),
        form(token={"type": "boolean", "$ref": "#/$defs/text"}),
        {"allOf": [form(secret=TEXT)]},
        {"patternProperties": {"^password$": TEXT}},
        {"type": "object", "required": ["password"]},
    ],
    ids=str,
)
def test_form_with_a_secret_is_unaskable(schema: dict[str, Any]) -> None:
    reason = unaskable(Elicitation("Log in", schema))
    assert reason is not None
    assert "asks for a secret" in reason


@pytest.mark.parametrize(
    "schema",
    [
        form(primary_key=TEXT, format=TEXT, title=TEXT, required={"type": "boolean"}),
        form(reset_password={"type": "boolean"}),
        form(kind={"type": "string", "oneOf": [{"const": "apiKey", "title": "API key"}]}),
        form(token={"type": "string", "enum": ["ETH", "BTC"]}),
        {**form(reset_password={"type": "boolean"}), "required": ["reset_password"]},
        {},
    ],
    ids=str,
)
def test_form_without_a_secret_is_askable(schema: dict[str, Any]) -> None:
    assert unaskable(Elicitation("Who are you?", schema)) is None


def test_a_form_may_be_nested_deep() -> None:
    schema: dict[str, Any] = form(token=TEXT)
    for _ in range(10_000):
        schema = {"not": schema}
    assert secret_field(schema) == "token"
