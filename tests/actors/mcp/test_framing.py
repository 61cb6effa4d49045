from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.mcp.transports.lines import LineFramer

lines = st.lists(st.binary().map(lambda line: line.replace(b"\n", b"")))


@given(lines, st.binary().map(lambda rest: rest.replace(b"\n", b"")), st.lists(st.integers(1, 7)))
def test_lines_are_whole_wherever_chunks_end(lines: list[bytes], rest: bytes, cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines) + rest
    framer = LineFramer()
    found: list[bytes] = []
    for size in cuts:
        found += framer.feed(stream[:size])
        stream = stream[size:]
    found += framer.feed(stream)
    assert found == lines
    assert framer.pending == len(rest)
    assert framer.take_rest() == rest
    assert framer.pending == 0


@pytest.mark.bench
def test_framing_takes_linear_time(capsys: pytest.CaptureFixture[str]) -> None:
    def seconds(chunks: int) -> float:
        framer, chunk = LineFramer(), b"x" * 1024
        began = time.process_time()
        for _ in range(chunks):
            assert list(framer.feed(chunk)) == []
        [line] = framer.feed(b"\n")
        assert len(line) == chunks * len(chunk)
        return time.process_time() - began

    seconds(1000)
    ratio = min(seconds(16000) for _ in range(3)) / min(seconds(1000) for _ in range(3))
    with capsys.disabled():
        print(f"\n16 times as many chunks take {ratio:.0f} times as long (linear: 16, quadratic: 256)")
