"""`stopgo keys`, in this process."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from stopgo.gateway.auth.key_file import KeyFile, digest_of

Keys = Callable[..., CompletedProcess[str]]


@pytest.fixture
def keys(in_process: Keys, tmp_path: Path) -> Keys:
    """Run `stopgo keys` with an agent file that accepts keys and has a role of its own."""
    file = tmp_path / "agent.yaml"
    file.write_text("data_dir: state\nauth: {api_keys: true, roles: {crm-approver: {servers: [crm]}}}\n")

    def run(*args: str) -> CompletedProcess[str]:
        return in_process("keys", *args, "--config", file)

    return run


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile.in_directory(tmp_path / "state")


def test_a_key_is_shown_once_and_alone(keys: Keys, file: KeyFile) -> None:
    roles = ("--role", "operator", "--role", "viewer", "--role", "operator")
    done = keys("add", "ci", *roles, "--for", "alice@x")
    assert done.returncode == 0
    assert re.fullmatch(r"sg_[0-9a-f]{12}_[0-9a-f]{48}\n", done.stdout)
    text = done.stdout.strip()
    assert text not in done.stderr
    [key] = file.read()
    assert (key.name, key.roles, key.subject, key.digest) == (
        "ci",
        ("operator", "viewer"),
        "alice@x",
        digest_of(text),
    )
    listed = keys("list", "--json")
    [entry] = json.loads(listed.stdout)["keys"]
    assert text not in listed.stdout
    assert digest_of(text) not in listed.stdout
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry.pop("created"))
    assert entry == {
        "id": key.id,
        "name": "ci",
        "roles": ["operator", "viewer"],
        "subject": "alice@x",
        "expires": None,
        "revoked": None,
        "valid": True,
    }
    listed = keys("list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert re.fullmatch(rf"{key.id}  ci  operator,viewer  for alice@x  created \S+Z\n", listed.stdout)


def test_keys_expire_and_are_revoked(keys: Keys, file: KeyFile) -> None:
    assert keys("add", "ci", "--role", "viewer", "--expires", "30").returncode == 0
    assert keys("add", "ci", "--role", "viewer").returncode == 0
    assert keys("add", "crm", "--role", "crm-approver").returncode == 0
    first, second, third = file.read()
    assert first.expires == first.created + 30 * 86_400
    full = keys("add", "ci", "--role", "viewer")
    assert full.returncode == 2
    assert f"ci already has 2 keys, {first.id} and {second.id}" in full.stderr
    assert keys("revoke", first.id).stdout.startswith(f"{first.id}  ci  ")
    assert keys("revoke", "ci").stdout.startswith(f"{second.id}  ci  ")
    assert [key.revoked is not None for key in file.read()] == [True, True, False]
    again = keys("revoke", "ci")
    assert (again.returncode, again.stdout) == (2, "")
    assert "no live key has the id or name ci" in again.stderr
    lines = keys("list").stdout.splitlines()
    assert [line.count("revoked") for line in lines] == [1, 1, 0]
    assert third.id in lines[2]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("add", "ci"), "--role"),
        (("add", "ci", "--role", "operater"), 'there is no role "operater"; did you mean "operator"?'),
        (("add", "ci", "--role", "crm-aprover"), 'did you mean "crm-approver"?'),
        (("add", "ci", "--role", "zzz"), "roles: crm-approver, viewer"),
        (("add", "c i", "--role", "viewer"), "a name has 1 to 64 characters"),
        (("add", "ci", "--role", "viewer", "--for", "key:ci"), "a subject has"),
        (("add", "ci", "--role", "viewer", "--expires", "0"), "not a number of days"),
        (("add", "ci", "--role", "viewer", "--expires", "never"), "not a number of days"),
        (("revoke",), "ID-or-NAME"),
        ((), "COMMAND"),
    ],
)
def test_wrong_usage(keys: Keys, file: KeyFile, args: tuple[str, ...], message: str) -> None:
    try:
        done = keys(*args)
        code: object = done.returncode
        shown = done.stderr
    except SystemExit as end:  # argparse has printed the message
        code, shown = end.code, message
    assert code == 2
    assert message in shown
    assert file.read() == ()


def test_an_unreadable_file_is_not_replaced(keys: Keys, file: KeyFile) -> None:
    assert keys("add", "ci", "--role", "viewer").returncode == 0
    file.path.write_text("{")
    for args in (("add", "ci", "--role", "viewer"), ("list",), ("revoke", "ci")):
        done = keys(*args)
        assert (done.returncode, done.stdout) == (1, "")
        assert "is not a file of API keys" in done.stderr
    assert file.path.read_text() == "{"


def test_keys_without_effect_cause_a_warning(in_process: Keys, tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text("name: plain\n")
    args = ("--config", "plain.yaml", "--data-dir", "state")
    done = in_process("keys", "add", "ci", "--role", "viewer", *args)
    assert done.returncode == 0
    assert "warning: plain.yaml does not accept API keys" in done.stderr
    assert done.stdout.startswith("sg_")
    assert "warning" in in_process("keys", "list", *args).stderr
