"""Abbreviated ids in paths, as each party may use them."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stopgo.actors.common.errors import AgentError
from stopgo.gateway.rest.refused_request import named_on_error
from stopgo.gateway.rest.short_ids import with_whole_ids
from tests.gateway.auth.parties import Served, serving


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as served:
        yield served


IDS = [f"0a1b2c3d-{number:04}-4000-8000-000000000000" for number in range(3)]
"""They begin alike."""


async def create(served: Served, monkeypatch: pytest.MonkeyPatch, party: str, id: str) -> None:
    made = uuid.uuid4
    left = [uuid.UUID(id)]
    monkeypatch.setattr(uuid, "uuid4", lambda: left.pop() if left else made())
    answer = await served.call(party, "POST", "/conversations", json={})
    monkeypatch.undo()
    assert answer.json()["conversation"]["id"] == id


@pytest.mark.parametrize("id", [IDS[0], IDS[0][:8]])
async def test_journal_that_cannot_be_reached_is_asked_once(id: str) -> None:
    """Each question may take two seconds."""
    asked: list[str] = []

    class Away:
        def acting_as(self, _: object) -> Away:
            return self

        async def log_end(self, id: str) -> None:
            asked.append(id)
            raise AgentError("journal_unavailable", id)

    agent: Any = Away()

    async def view(_: object, id: str) -> None:
        await agent.log_end(id)

    wrapped: Any = named_on_error(agent, with_whole_ids(agent, view))
    with pytest.raises(AgentError) as caught:
        await wrapped(SimpleNamespace(principal=None), id=id)
    assert caught.value.code == "journal_unavailable"
    assert asked == [id]


async def test_short_ids_stand_for_whole_ones(served: Served) -> None:
    id, approval = await served.wiping()
    for length in (8, 13, 35):
        answer = await served.call("owner", "GET", f"/conversations/{id[:length]}")
        assert (answer.status_code, answer.json()["conversation"]["id"]) == (200, id)
    answer = await served.call("owner", "GET", f"/conversations/{id[:8].upper()}")
    assert answer.json()["conversation"]["id"] == id
    answer = await served.call("owner", "GET", f"/approvals/{approval[:8]}")
    assert answer.json()["approval"]["uuid"] == approval
    answer = await served.call("approver", "POST", f"/approvals/{approval[:8]}", json={"approved": False})
    assert answer.status_code == 200, answer.text
    answer = await served.call("owner", "POST", f"/conversations/{id[:8]}/complete")
    assert answer.json()["conversation"]["status"] == "completed"


@pytest.mark.parametrize("text", ["{0:.7}", "{0:.8}x", "{0:.8}%", "{0}0", "zzzzzzzz"])
async def test_other_texts_are_no_short_ids(served: Served, text: str) -> None:
    id, _ = await served.wiping()
    answer = await served.call("owner", "GET", f"/conversations/{text.format(id)}")
    assert (answer.status_code, answer.json()["code"]) == (404, "conversation_not_found")


async def test_conversation_is_deleted_by_its_whole_id_only(served: Served) -> None:
    id, _ = await served.wiping()
    answer = await served.call("owner", "DELETE", f"/conversations/{id[:13]}")
    assert (answer.status_code, answer.json()["code"]) == (404, "conversation_not_found")
    assert answer.json()["hint"] == "Deleting takes the whole id."
    assert (await served.call("owner", "DELETE", f"/conversations/{id}")).status_code == 204


@pytest.mark.parametrize("what", ["conversations", "approvals"])
async def test_short_ids_tell_nothing_of_what_is_hidden(served: Served, what: str) -> None:
    index = ("conversations", "approvals").index(what)
    hidden, unknown = (await served.wiping("stranger"))[index], "0" * 8
    known = await served.call("owner", "GET", f"/{what}/{hidden[:8]}")
    other = await served.call("owner", "GET", f"/{what}/{unknown}")
    assert (known.status_code, other.status_code) == (404, 404)
    assert known.text.replace(hidden[:8], unknown) == other.text


async def test_ambiguous_id_names_what_the_party_may_see(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for party, id in zip(("owner", "owner", "stranger"), IDS, strict=True):
        await create(served, monkeypatch, party, id)
    answer = await served.call("owner", "GET", "/conversations/0a1b2c3d")
    assert answer.status_code == 404
    body = answer.json()
    assert (body["code"], body["candidates"]) == ("ambiguous_id", IDS[:2])
    assert body["error"] == "2 conversations have an id that begins with 0a1b2c3d"
    assert IDS[2] not in answer.text
    answer = await served.call("stranger", "GET", "/conversations/0a1b2c3d")
    assert answer.json()["conversation"]["id"] == IDS[2]
    answer = await served.call("viewer", "GET", "/conversations/0a1b2c3d/events")
    assert answer.json()["candidates"] == IDS
