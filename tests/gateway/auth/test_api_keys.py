"""API keys: their file, its writers, and the server's view of it."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.access.principal import all_grants
from stopgo.gateway.auth.api_keys import POLL_EVERY, ApiKeys
from stopgo.gateway.auth.key_changes import ChangeRefused, new_key, revoked
from stopgo.gateway.auth.key_file import KeyFile, KeyFileError, StoredKey, check_mode
from stopgo.gateway.auth.verifiers import Unverified

NOW = 1_795_255_200.0
OWN, OTHER = os.geteuid(), os.geteuid() + 1


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile.in_directory(tmp_path / "data")


def add(
    file: KeyFile,
    name: str = "ci",
    roles: tuple[str, ...] = ("operator",),
    subject: str | None = None,
    expires: float | None = None,
) -> tuple[StoredKey, str]:
    with file.changing() as keys:
        key, text = new_key(keys, name, roles, subject, now=NOW, expires=expires)
        keys.append(key)
    return key, text


def revoke(file: KeyFile, id_or_name: str) -> None:
    with file.changing() as keys:
        keys[:] = revoked(keys, id_or_name, now=NOW)


async def opened(file: KeyFile, now: Callable[[], float] = lambda: NOW) -> ApiKeys:
    keys = ApiKeys(file, all_grants({}), now)
    keys.poll()
    return keys


def is_refused(keys: ApiKeys, text: str) -> bool:
    try:
        keys.verify(text)
    except Unverified as error:
        return str(error) == "it is no valid API key"
    return False


async def test_a_key_names_its_principal(file: KeyFile) -> None:
    _, plain = add(file)
    stored, personal = add(file, "alices-laptop", ("viewer", "approver"), "alice@example.test")
    keys = await opened(file)
    principal = keys.verify(plain).principal
    assert (principal.id, principal.is_person, principal.has("operator")) == ("key:ci", False, True)
    principal = keys.verify(personal).principal
    assert (principal.id, principal.is_person, principal.credential) == (
        "alice@example.test",
        True,
        stored.id,
    )
    assert [grant.name for grant in principal.grants] == ["viewer", "approver"]


@pytest.mark.parametrize(
    ("mode", "owner", "is_read_only", "is_refused"),
    [
        (0o644, 0, False, False),
        (0o600, OWN, False, False),
        (0o644, OTHER, False, True),
        # The file of a user of the host, mounted read-only (docs.docker.com/compose/how-tos/use-secrets)
        (0o644, OTHER, True, False),
        (0o664, OTHER, True, True),
        (0o666, OWN, False, True),
    ],
)
def test_file_that_others_can_write_is_refused(
    tmp_path: Path, mode: int, owner: int, is_read_only: bool, is_refused: bool
) -> None:
    found = os.stat_result((stat.S_IFREG | mode, 1, 1, 1, owner, owner, 0, 0, 0, 0))
    with pytest.raises(KeyFileError, match="other users can write") if is_refused else nullcontext():
        check_mode(tmp_path, found, is_read_only=is_read_only)


async def test_the_file_has_digests_only_and_belongs_to_its_owner(file: KeyFile) -> None:
    _, text = add(file)
    stored = file.path.read_text()
    assert text not in stored
    assert text.rpartition("_")[2] not in stored
    assert oct(file.path.stat().st_mode & 0o777) == "0o600"
    assert oct(file.path.parent.stat().st_mode & 0o777) == "0o700"
    assert text.rpartition("_")[2] not in repr(file.read())


async def test_invalid_keys_get_one_answer(file: KeyFile) -> None:
    stored, text = add(file)
    _, old = add(file, "old")
    _, late = add(file, "late", expires=NOW + 60)
    revoke(file, "old")
    now = NOW
    keys = await opened(file, lambda: now)
    assert not is_refused(keys, text)
    assert not is_refused(keys, late)
    now = NOW + 60
    secret = text.rpartition("_")[2]
    for wrong in (
        old,
        late,
        f"sg_{stored.id}_{'0' * 48}",
        f"sg_unknown_{secret}",
        text[:-1],
        text + "0",
        text.upper(),
        stored.digest,
        f"sg_{stored.id}_{stored.digest}",
        "",
        "sg_",
        "sg_\udcff_" + secret,
        "x" * 100_000,
    ):
        assert is_refused(keys, wrong), wrong


async def look() -> None:
    await trio.sleep(POLL_EVERY)
    await wait_all_tasks_blocked()


async def test_changes_count_without_a_restart(file: KeyFile, autojump_clock: MockClock) -> None:
    keys = await opened(file)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keys.watch)
        _, text = add(file)
        assert is_refused(keys, text)
        await look()
        lifetime = keys.verify(text).lifetime
        _, other = add(file, "other")
        await look()
        assert keys.verify(text).lifetime is lifetime  # another key does not concern it
        revoke(file, "ci")
        await lifetime.ended()
        assert trio.current_time() == 3 * POLL_EVERY
        assert is_refused(keys, text)
        lifetime = keys.verify(other).lifetime
        file.path.unlink()
        await lifetime.ended()
        assert is_refused(keys, other)
        nursery.cancel_scope.cancel()


async def test_a_change_of_roles_ends_the_lifetime(file: KeyFile) -> None:
    stored, text = add(file)
    keys = await opened(file)
    before = keys.verify(text)
    with file.changing() as list:
        list[:] = [attrs.evolve(stored, roles=("viewer",))]
    keys.poll()
    await before.lifetime.ended()
    assert [grant.name for grant in keys.verify(text).principal.grants] == ["viewer"]


async def test_a_lifetime_ends_when_the_key_expires(file: KeyFile, autojump_clock: MockClock) -> None:
    _, text = add(file, expires=NOW + 3600)
    keys = await opened(file)
    await keys.verify(text).lifetime.ended()
    assert trio.current_time() == 3600


def broken_json(file: KeyFile) -> None:
    file.path.write_text(file.path.read_text()[:-5])


def another_format(file: KeyFile) -> None:
    file.path.write_text(file.path.read_text().replace('"format":1', '"format":2'))


def no_digest(file: KeyFile) -> None:
    file.path.write_text(file.path.read_text().replace('"digest":"', '"digest":"z'))


def reserved_subject(file: KeyFile) -> None:
    file.path.write_text(file.path.read_text().replace('"subject":"alice"', '"subject":"key:ci"'))


def text_as_time(file: KeyFile) -> None:
    file.path.write_text(file.path.read_text().replace('"created":', '"expires":"never","created":'))


def same_id_twice(file: KeyFile) -> None:
    first, second = file.read()
    file._write([first, attrs.evolve(second, id=first.id)])


def open_to_the_group(file: KeyFile) -> None:
    file.path.chmod(0o620)


def a_directory(file: KeyFile) -> None:
    file.path.unlink()
    file.path.mkdir()


def a_pipe(file: KeyFile) -> None:
    file.path.unlink()
    os.mkfifo(file.path)


def too_long(file: KeyFile) -> None:
    file.path.write_text(file.path.read_text() + " " * 2**20)


@pytest.mark.parametrize(
    "damage",
    [
        broken_json,
        another_format,
        no_digest,
        reserved_subject,
        text_as_time,
        same_id_twice,
        open_to_the_group,
        a_directory,
        a_pipe,
        too_long,
    ],
)
async def test_a_file_that_cannot_be_used_refuses_all_keys(
    file: KeyFile, damage: Callable[[KeyFile], None], caplog: pytest.LogCaptureFixture
) -> None:
    _, text = add(file)
    add(file, "alice", subject="alice")
    keys = await opened(file)
    before = keys.verify(text)
    damage(file)
    keys.poll()
    keys.poll()
    assert is_refused(keys, text)
    assert before.lifetime.has_ended
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert str(file.path) in errors[0].getMessage()
    with pytest.raises(KeyFileError):
        revoke(file, "ci")


async def test_keys_count_again_when_the_file_is_repaired(file: KeyFile) -> None:
    _, text = add(file)
    keys = await opened(file)
    good = file.path.read_text()
    broken_json(file)
    keys.poll()
    assert is_refused(keys, text)
    file.path.write_text(good)
    keys.poll()
    assert not is_refused(keys, text)


def test_two_live_keys_of_a_name(file: KeyFile) -> None:
    first, _ = add(file)
    second, _ = add(file)
    with pytest.raises(ChangeRefused, match=f"{first.id} and {second.id}"):
        add(file)
    assert len(file.read()) == 2
    revoke(file, first.id)
    add(file)
    with pytest.raises(ChangeRefused):
        revoke(file, first.id)
    revoke(file, "ci")
    assert not any(key.is_live(NOW) for key in file.read())


@pytest.mark.parametrize("subject", ["", "key:ci", " alice", "a\nb", "a" * 201])
def test_bad_subjects_are_refused(file: KeyFile, subject: str) -> None:
    with pytest.raises(ChangeRefused, match="subject"):
        add(file, subject=subject)


@pytest.mark.parametrize("name", ["", "a b", "a" * 65, "é", "a/b"])
def test_bad_names_are_refused(file: KeyFile, name: str) -> None:
    with pytest.raises(ChangeRefused, match="name"):
        add(file, name)


async def test_writers_wait_for_each_other(file: KeyFile) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(trio.to_thread.run_sync, partial(add, file, f"name-{number}"))
    assert len(file.read()) == 20
    assert sorted(os.listdir(file.path.parent)) == ["keys.json", "keys.lock"]
