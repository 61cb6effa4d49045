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
      events: [approval.requested, approval.reminded, run.failed]
      server: files
      tool: "*_delete"
      node: writer
      rule: "*wipe*"
      after: 60
      before_expiry: 10
      remind_every: 600
      escalate_after: 900
      escalate_to: [lead]
    lead:
      webhook: https://h/lead
      secrets: ["${{KEY}}"]
"""
    notify = load(text, {"KEY": KEY}).notify
    assert notify is not None
    channel, _ = notify.channels
    assert channel == ChannelConfig(
        name="ops",
        webhook=f"https://h/in?key={KEY}",
        secrets=(KEY, KEY),
        to_private=True,
        events=("approval.requested", "approval.reminded", "run.failed"),
        server="files",
        tool="*_delete",
        node="writer",
        rule="*wipe*",
        after=60.0,
        before_expiry=10.0,
        remind_every=600.0,
        escalate_after=900.0,
        escalate_to=("lead",),
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


AFTER = "escalate_after: 900, escalate_to: "


@pytest.mark.parametrize(
    ("channels", "code", "place"),
    [
        ("ops: {OPS, remind_every: 59}", "out_of_range", "notify.channels.ops.remind_every: "),
        ("ops: {OPS, remind_every: soon}", "wrong_type", "notify.channels.ops.remind_every: "),
        (
            "ops: {OPS, remind_every: 600, events: [approval.requested]}",
            "conflicting_keys",
            "notify.channels.ops.remind_every: events has no approval.reminded",
        ),
        ("ops: {OPS, escalate_after: 0, escalate_to: [b]}, b: {OPS}", "out_of_range", None),
        (
            "ops: {OPS, escalate_after: 9}",
            "conflicting_keys",
            "notify.channels.ops.escalate_after: escalate_after belongs to escalate_to",
        ),
        (
            "ops: {OPS, escalate_to: [b]}, b: {OPS}",
            "conflicting_keys",
            "notify.channels.ops.escalate_to: escalate_to belongs to escalate_after",
        ),
        (
            f"ops: {{OPS, {AFTER}[laed]}}, lead: {{OPS}}",
            "unknown_channel",
            'notify.channels.ops.escalate_to[0]: no channel is called "laed" (did you mean "lead"?)',
        ),
        (f"ops: {{OPS, {AFTER}[ops]}}", "conflicting_keys", "notify.channels.ops.escalate_to[0]: "),
        (
            f"ops: {{OPS, {AFTER}[b]}}, b: {{OPS, events: [approval.requested]}}",
            "conflicting_keys",
            "notify.channels.ops.escalate_to[0]: ",
        ),
        (f"ops: {{OPS, {AFTER}[]}}", "empty_list", None),
    ],
)
def test_reminders_and_escalations_that_nobody_would_hear_of_are_refused(
    problems: Problems, channels: str, code: str, place: str | None
) -> None:
    found = problems(f"notify:\n  channels: {{{channels.replace('OPS', OPS)}}}")
    assert [each.code for each in found][:1] == [code]
    if place is not None:
        line, column, text = placed(found[0]).split(":", 2)
        assert (line, text.strip()[: len(place)]) == ("2", place)
        assert int(column) > len("  channels: ")


def test_names_are_unique(problems: Problems) -> None:
    both = f"notify: {{channels: [{{name: a, {OPS}}}, {{name: a, {OPS}}}]}}"
    assert [each.code for each in problems(both)] == ["duplicate_name"]


def test_a_key_in_the_file_is_a_warning(load: Load) -> None:
    config = load(f"notify: {{channels: {{ops: {{{OPS}}}}}}}")
    assert [each for each in config.warnings if "notify.channels.ops.secrets[0]" in each]
