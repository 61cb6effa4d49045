"""The channels of notifications: every key, and what is refused."""

from __future__ import annotations

import base64

import pytest

from stopgo.config.sections.notify import ChannelConfig
from stopgo.config.text.errors import Problem

from .conftest import Load, Problems, placed

KEY = f"whsec_{base64.b64encode(bytes(range(32))).decode()}"
OPS = f"webhook: https://h/in, secrets: [{KEY}]"


def test_every_key_of_a_channel(load: Load) -> None:
    text = f"""
notify:
  channels:
    ops:
      webhook: https://h/in?key=${{KEY}}
      secrets: ["{KEY}", "${{KEY}}"]
      to_private: true
      events: [approval.requested, run.failed]
      server: files
      tool: "*_delete"
      node: writer
      rule: "*wipe*"
      after: 60
      before_expiry: 10
"""
    notify = load(text, {"KEY": KEY}).notify
    assert notify is not None
    [channel] = notify.channels
    assert channel == ChannelConfig(
        name="ops",
        webhook=f"https://h/in?key={KEY}",
        secrets=(KEY, KEY),
        to_private=True,
        events=("approval.requested", "run.failed"),
        server="files",
        tool="*_delete",
        node="writer",
        rule="*wipe*",
        after=60.0,
        before_expiry=10.0,
    )
    assert KEY not in repr(channel)
    assert load("name: a").notify is None


def keyed(length: int) -> str:
    return f"webhook: https://h, secrets: [whsec_{base64.b64encode(bytes(length)).decode()}]"


@pytest.mark.parametrize("length", [24, 25, 26, 32, 62, 63, 64])
def test_keys_of_24_to_64_bytes_are_taken(load: Load, length: int) -> None:
    assert load(f"notify: {{channels: {{ops: {{{keyed(length)}}}}}}}").notify is not None


@pytest.mark.parametrize(
    ("channel", "code", "expected"),
    [
        (keyed(23), "bad_format", "1:57: notify.channels.ops.secrets[0]: "),
        (keyed(65), "bad_format", None),
        (keyed(66), "bad_format", None),
        ("webhook: https://h, secrets: ['whsec_-_-_YWJjYWJjYWJjYWJjYWJjYWJjYWJjYWJj']", "bad_format", None),
        ("webhook: https://h, secrets: []", "empty_list", None),
        ("webhook: https://h", "missing_key", None),
        (f"secrets: [{KEY}]", "missing_key", None),
        (
            f"{OPS}, tols: x",
            "unknown_key",
            '1:113: notify.channels.ops.tols: unknown key "tols" (did you mean',
        ),
        (f"{OPS}, events: [approval.asked]", "unknown_word", None),
        (f"{OPS}, after: -1", "out_of_range", None),
        (f"webhook: 'ftp://h', secrets: [{KEY}]", "bad_format", None),
        (f"webhook: 'https://u:p@h', secrets: [{KEY}]", "bad_format", None),
        *(
            (
                f"webhook: '{url}', secrets: [{KEY}]",
                "private_address",
                "1:36: notify.channels.ops.webhook: the address is of a private network or of this machine "
                "(to_private: true allows it)",
            )
            for url in ("http://127.0.0.1/x", "http://localhost:8/x", "http://10.0.0.1", "http://[::1]/")
        ),
    ],
)
def test_what_is_refused(problems: Problems, channel: str, code: str, expected: str | None) -> None:
    found: tuple[Problem, ...] = problems(f"notify: {{channels: {{ops: {{{channel}}}}}}}")
    assert [each.code for each in found] == [code]
    if expected is not None:
        assert placed(found[0]).startswith(expected)


def test_names_are_unique(problems: Problems) -> None:
    both = f"notify: {{channels: [{{name: a, {OPS}}}, {{name: a, {OPS}}}]}}"
    assert [each.code for each in problems(both)] == ["duplicate_name"]


def test_a_key_in_the_file_is_a_warning(load: Load) -> None:
    config = load(f"notify: {{channels: {{ops: {{{OPS}}}}}}}")
    assert [each for each in config.warnings if "notify.channels.ops.secrets[0]" in each]
