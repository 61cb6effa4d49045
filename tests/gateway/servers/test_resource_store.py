from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.gateway.servers.resource_store import ResourceStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResourceStore]:
    store = ResourceStore(tmp_path / "new folder" / "resources.db")
    yield store
    store.close()


def test_added_resources_are_listed_by_name(store: ResourceStore) -> None:
    b, a, again = store.add("b", 1), store.add("a", "two"), store.add("b", 3)
    assert store.all() == [a, b, again]
    assert re.fullmatch(r"\d{19}", a.id)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", a.created_at)
    assert a.updated_at == a.created_at


@pytest.mark.parametrize(
    ("given_value", "stored"),
    [
        (10, 10),
        ("10", 10),
        ("-3", -3),
        ("0", 0),
        ("-0", "-0"),
        ("007", "007"),
        ("1.50", "1.50"),
        ("1e3", "1e3"),
        (" 1 ", " 1 "),
        ("٣", "٣"),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, "9" * 19),
        ("9" * 30, "9" * 30),
        ("", ""),
        ("ten", "ten"),
        (2**63 - 1, 2**63 - 1),
    ],
)
def test_integers_in_text_are_stored_as_integers(
    store: ResourceStore, given_value: int | str, stored: int | str
) -> None:
    added = store.add("a", given_value)
    [listed] = store.all()
    assert added == listed
    assert (type(listed.value), listed.value) == (type(stored), stored)


def test_removal_returns_the_ids_that_existed(store: ResourceStore) -> None:
    a, b = store.add("a", 1), store.add("b", 2)
    assert store.remove([a.id, "nothing", a.id]) == [a.id]
    assert store.all() == [b]
    assert store.remove([]) == []


def test_failed_removal_is_rolled_back(store: ResourceStore) -> None:
    a = store.add("a", 1)
    with pytest.raises(UnicodeEncodeError):
        store.remove([a.id, "\ud800"])
    assert store.all() == [a]
    assert store.remove([a.id]) == [a.id]


def test_resources_within_one_tick_get_different_ids(
    store: ResourceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)
    assert len({store.add("a", n).id for n in range(3)}) == 3


@given(st.text(max_size=30), st.integers(-(2**63), 2**63 - 1) | st.text(max_size=30).filter(str.isalpha))
def test_any_text_is_stored_unchanged(name: str, value: int | str) -> None:
    text = name.encode("utf-8", "replace").decode()
    store = ResourceStore(Path(":memory:"))
    try:
        store.add(text, value)
        [listed] = store.all()
        assert (listed.name, listed.value) == (text, value)
    finally:
        store.close()


def test_file_that_is_no_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, and long enough to be taken for one " * 20)
    with pytest.raises(sqlite3.DatabaseError, match="file is not a database") as caught:
        ResourceStore(tmp_path / "notes.txt")
    # The file is closed even while the error is referenced.
    assert str(tmp_path / "notes.txt") not in {file.path for file in psutil.Process().open_files()}
    del caught


def test_processes_may_open_a_new_file_together(tmp_path: Path) -> None:
    def open_together(path: Path, start: Barrier) -> None:
        start.wait()
        ResourceStore(path).close()

    with ThreadPoolExecutor(6) as pool:
        for number in range(60):
            start = Barrier(6)
            opened = [pool.submit(open_together, tmp_path / f"{number}.db", start) for _ in range(6)]
            for each in opened:
                each.result()


def test_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from stopgo.gateway.servers import resource_store;"
        "resource_store.BUSY_TIMEOUT = 3600.0; ResourceStore = resource_store.ResourceStore;"
        "store = ResourceStore(pathlib.Path(sys.argv[1]));"
        "[store.add(sys.argv[2], n) for n in range(50)]; store.close()"
    )
    db = tmp_path / "shared.db"
    writers = [subprocess.Popen([sys.executable, "-c", code, str(db), name]) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    store = ResourceStore(db)
    assert len(store.all()) == 150
    store.close()
