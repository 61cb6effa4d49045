"""Masking: secrets in every form, whole and in pieces, and nothing else."""

from __future__ import annotations

import base64
import json
import logging
import os
import random
import sys
from typing import Any
from urllib.parse import quote

import attrs
import pytest

from stopgo.actors.mcp.caller import QUOTED
from stopgo.actors.mcp.wire.requests import Outgoing
from stopgo.actors.servers.bearer import forwarding
from stopgo.actors.servers.masking import BEGINNING, Secrets
from stopgo.actors.servers.server_status import ServerStartFailed
from stopgo.actors.tools.tool import (
    CallTool,
    Elicitation,
    Hints,
    Progress,
    Tool,
    ToolInputRequired,
    ToolResult,
)
from stopgo.config.sections.mcp import McpServerConfig
from tests.actors.mcp.conftest import HttpPeer, Open
from tests.actors.mcp.test_caller import calling
from tests.canary import KEY, TOKEN

ODD = 'pw"+/=é canary'


def known(*values: str) -> Secrets:
    secrets = Secrets()
    secrets.learn("test", values)
    return secrets


@pytest.mark.parametrize("secret", [TOKEN, ODD, "sixsix"])
def test_secret_is_masked_in_every_form(secret: str) -> None:
    whole = base64.b64encode(secret.encode()).decode()
    forms = [secret, json.dumps(secret), quote(secret), quote(secret, safe=""), whole]
    for form in forms:
        assert known(secret).mask(f"it says {form.strip(chr(34))}!") == "it says ***!"
    for user in ("a:", "ab:", "abc:"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = known(secret).mask(encode(f"{user}{secret}".encode()).decode())
            assert "***" in text
            assert len(text.replace("***", "")) < len(user) * 4 // 3 + 6


@pytest.mark.parametrize("text", ["port 8080 of europe", "tok", "TOKEN", "canary", "***", ""])
def test_other_text_is_not_masked(text: str) -> None:
    assert known(TOKEN, "8080", "eur", "", " ").mask(text) == text


def test_cut_text_shows_no_part_of_a_secret() -> None:
    text = f"the token {TOKEN}"
    for cut in range(len("the token ") + BEGINNING, len(text) + 1):
        assert known(TOKEN).mask(text[:cut]) == "the token ***"


def test_longest_secret_is_masked_first() -> None:
    assert known(TOKEN, f"{TOKEN}-more", TOKEN[4:]).mask(f"{TOKEN}-more, {TOKEN}") == "***, ***"


def test_each_line_of_a_private_key_is_masked() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----\n"
    assert known(key).mask("MIIEvQIBADANBg") == "***"
    assert known(key).mask(json.dumps({"key": key})) == '{"key": "***"}'


def test_masking_of_a_tool_keeps_its_server() -> None:
    tool = Tool("look", f"by {TOKEN}", {"const": TOKEN, "n": 1, "of": [TOKEN]}, TOKEN, hints=Hints(True))
    masked = attrs.evolve(tool, description="by ***", input_schema={"const": "***", "n": 1, "of": ["***"]})
    assert known(TOKEN).tool(tool) == masked
    assert Secrets().tool(tool) is tool
    result = ToolResult(TOKEN, True, ({"type": "text", "text": TOKEN},), {TOKEN: [1, None, True]})
    assert known(TOKEN).masked(result) == ToolResult(
        "***", True, ({"type": "text", "text": "***"},), {"***": [1, None, True]}
    )


def with_password(value: str) -> Secrets:
    return Secrets.of(McpServerConfig(name="s", command="x", env={"PGPASSWORD": value}))


# Default passwords of development databases are also names of databases, roles and columns (openclaw#130180,
# actions/runner#507, multica#2999).
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres | postgres", None),
        ("postgresql, my-postgres, postgres_1", None),
        ("postgres://postgres@db/postgres", None),
        ("PGPASSWORD=postgres", "PGPASSWORD=***"),
        ('{"password": "postgres", "db": "postgres"}', '{"password": "***", "db": "postgres"}'),
        ("postgresql://postgres:postgres@db/postgres", "postgresql://postgres:***@db/postgres"),
        ("the password is postgres", "the password is ***"),
        ("Authorization: Bearer postgres", "Authorization: Bearer ***"),
    ],
)
def test_secret_that_is_a_word_is_masked_where_it_is_a_secret(text: str, shown: str | None) -> None:
    assert with_password("postgres").mask(text) == (shown or text)


def test_secret_that_is_a_word_leaves_arguments_and_data() -> None:
    schema = {"properties": {"password": {"type": "string"}}, "required": ["password"]}
    tool = Tool("add", "the password of a user", schema, "s")
    assert with_password("password").tool(tool) == tool
    row = {"password": "password", "rows": ["password"]}
    assert with_password("password").masked(row) == {"password": "***", "rows": ["password"]}


def test_secret_that_is_a_word_is_masked_in_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    log, secrets = logging.getLogger("stopgo.mcp.words"), with_password("change-me")
    log.addFilter(secrets.in_log)
    try:
        log.warning("change-me, not change-me-too or unchange-me")
    finally:
        log.removeFilter(secrets.in_log)
    assert caplog.messages == ["***, not change-me-too or unchange-me"]


@pytest.mark.parametrize(
    "value", ["postgres1", "correct horse battery staple", "hunter2!", "aB3dE6", "PassWord"]
)
def test_any_other_secret_is_masked_everywhere(value: str) -> None:
    assert with_password(value).mask(f"x{value}y") == "x***y"


def test_later_secrets_of_a_source_replace_earlier_ones() -> None:
    secrets = Secrets()
    secrets.learn("oauth", [KEY])
    secrets.learn("oauth", [TOKEN])
    assert secrets.mask(f"{KEY} {TOKEN}") == f"{KEY} ***"
    assert secrets.beside("bearer-x").mask(f"bearer-x {TOKEN}") == "*** ***"
    assert secrets.mask("bearer-x") == "bearer-x"


def test_variable_that_is_not_utf_8_is_masked() -> None:
    value = os.fsdecode(b"secret-\xff\xfe")
    assert known(value).mask(value) == "***"
    assert known(value).stream().feed(b"as ever") == b"as ever"


def test_stream_is_masked_wherever_chunks_end() -> None:
    secrets = known(TOKEN, f"{TOKEN}-more", "abXab", "abcab")
    text = f"{TOKEN}\n{TOKEN}-mo\n{TOKEN}-more\nabXabcab tok-canary abXab\n{TOKEN[:12]}\n".encode()
    chance = random.Random(1)
    whole = secrets.stream()
    expected = whole.feed(text) + whole.rest()
    assert expected == b"***\n***-mo\n***\nabXabcab tok-canary abXab\ntok-canary-8\n"
    for _ in range(300):
        stream, out, at = secrets.stream(), b"", 0
        while at < len(text):
            step = chance.choice((1, 2, 5, 20, 60))
            out += stream.feed(text[at : at + step])
            at += step
        assert out + stream.rest() == expected
    cut = secrets.stream()
    assert cut.feed(f"at its end {TOKEN[:-1]}".encode()) + cut.rest() == b"at its end ***"


def test_secrets_of_server_and_call_are_masked_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secrets, log = known(KEY), logging.getLogger("stopgo.mcp.quoted")
    log.addFilter(secrets.in_log)
    try:
        with forwarding(TOKEN):
            try:
                raise ValueError(f"{KEY} or {TOKEN}")
            except ValueError:
                log.exception("100 %% of %s and %s", KEY, TOKEN)
    finally:
        log.removeFilter(secrets.in_log)
    assert "100 % of *** and ***" in caplog.text
    assert "ValueError: *** or ***" in caplog.text


SPILLS = """
import fcntl, os, termios, time
token = os.environ["TOKEN"]
for begun in (token[:9], "-" * 1990 + token[:9], "-" * 2000 + token[:9]):
    os.write(2, begun.encode())
    while any(fcntl.ioctl(2, termios.FIONREAD, bytes(4))):  # the begun piece is not read yet
        time.sleep(0.001)
    os.write(2, f"{token[9:]}{token}\\n".encode())
"""


async def test_token_printed_by_a_child_is_masked(serving: Open, caplog: pytest.LogCaptureFixture) -> None:
    """In pieces, and in lines that the log cuts off."""
    caplog.set_level(logging.INFO, "stopgo.mcp.s")
    config = McpServerConfig(
        name="s", command=sys.executable, args=("-S", "-c", SPILLS), env={"TOKEN": TOKEN}
    )
    with pytest.raises(ServerStartFailed) as failed:
        async with serving(config):
            pass
    told = [*(record.getMessage() for record in caplog.records), str(failed.value)]
    assert "******" in told
    parts = [TOKEN[at : at + 5] for at in range(len(TOKEN) - 5)]
    assert [part for part in parts for text in told if part in text] == []


async def test_callers_token_is_masked_in_errors(
    http_peer: HttpPeer, serving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    http_peer.on_call = "-32000"
    config = McpServerConfig(name="web", url=http_peer.url, headers={"X-Key": KEY})
    async with serving(config) as server:
        for said, told in (
            (f"no {TOKEN}", "no ***"),
            (f"no {KEY}", "no ***"),
            ("no tok-else", "no tok-else"),
        ):
            http_peer.refusal = said
            result = await server.ask(CallTool("echo", {}, TOKEN))
            assert (result.content, result.parts) == (told, ({"type": "text", "text": told},))
    assert TOKEN not in caplog.text


@attrs.define
class Quoting:
    """Quotes a token in every message of a server except results."""

    says: dict[str, Any]

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        if outgoing.on_progress is not None:
            outgoing.on_progress(Progress(1, message=f"with {TOKEN}"))
        return self.says


async def test_token_is_masked_in_progress_and_elicitations() -> None:
    told: list[Progress] = []
    form = {"message": f"who is {TOKEN}?", "requestedSchema": {"type": "object", "title": TOKEN}}
    asked = {"a": {"method": "elicitation/create", "params": {"mode": "form", **form}}}
    says = {"resultType": "input_required", "inputRequests": asked, "requestState": "kept"}
    caller = calling(Quoting(says))
    with pytest.raises(ToolInputRequired) as raised:
        await caller.call(CallTool("look", {}, TOKEN, on_progress=told.append))
    assert told == [Progress(1, message="with ***")]
    question = Elicitation("who is ***?", {"type": "object", "title": "***"})
    assert (raised.value.requests, raised.value.state) == ({"a": question}, "kept")
    says["requestState"] = f"of {TOKEN}"
    result = await caller.call(CallTool("look", {}, TOKEN))
    assert (result.is_error, result.content) == (True, QUOTED)
