from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.mcp.transports.environment import EnvFileError, parse_env, read_env_file


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("KEY=value", {"KEY": "value"}),
        ("  export KEY = value  ", {"KEY": "value"}),
        ("KEY=", {"KEY": ""}),
        ("KEY=a=b", {"KEY": "a=b"}),
        ("KEY=a#b # a remark", {"KEY": "a#b"}),
        ("KEY= # a remark", {"KEY": ""}),
        ("# KEY=value", {}),
        ("", {}),
        ('KEY="a # b"', {"KEY": "a # b"}),
        ('KEY="a # b" # a remark', {"KEY": "a # b"}),
        (r'KEY="two\nlines, \"quoted\", one \\"', {"KEY": 'two\nlines, "quoted", one \\'}),
        (r"KEY='taken \n as it is'", {"KEY": r"taken \n as it is"}),
        ("A=1\r\nB=2\nA=3", {"A": "3", "B": "2"}),
    ],
)
def test_env_file_lines(line: str, expected: dict[str, str]) -> None:
    assert parse_env(line) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A=1\njust words", "line 2: expected KEY=VALUE"),
        ("=secret", "line 1: expected KEY=VALUE"),
        ('\nA="secret', "line 2: the value of A is not understood"),
        ("A='se'cret", "line 1: the value of A is not understood"),
        ("A=se\0cret", "line 1: the value of A is not understood"),
    ],
)
def test_env_file_error_omits_the_value(text: str, message: str) -> None:
    with pytest.raises(EnvFileError) as raised:
        parse_env(text)
    assert str(raised.value) == message


@given(st.text())
def test_any_env_file_is_parsed_or_refused(text: str) -> None:
    try:
        variables = parse_env(text)
    except EnvFileError:
        return
    assert all(key and "\0" not in key + value for key, value in variables.items())


def test_env_file_error_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.env"
    with pytest.raises(EnvFileError, match=f"^env_file {file}: No such file or directory$"):
        read_env_file(file)
    with pytest.raises(EnvFileError, match=f"^env_file {tmp_path}: not a file$"):
        read_env_file(tmp_path)
    os.mkfifo(pipe := tmp_path / "pipe")
    with pytest.raises(EnvFileError, match=f"^env_file {pipe}: not a file$"):
        read_env_file(pipe)
    file.write_bytes(b"\xef\xbb\xbfA=1\nB")
    with pytest.raises(EnvFileError, match=f"^env_file {file}, line 2: expected KEY=VALUE$"):
        read_env_file(file)
    file.write_bytes(b"A=\xff")
    with pytest.raises(EnvFileError, match=f"^env_file {file}: not UTF-8 text$"):
        read_env_file(file)
