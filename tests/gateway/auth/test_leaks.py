"""Leaks about the conversations of others to a client with a valid key, but without rights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.auth.parties import Served, serving


async def everything(served: Served, party: str, path: str, **params: Any) -> tuple[list[Any], int]:
    """The items of all pages of a list, and the number of pages."""
    items: list[Any] = []
    pages = 0
    while True:
        body = (await served.call(party, "GET", path, params=params)).json()
        items += body[path[1:]]
        pages += 1
        assert pages < 50
        if "next_cursor" not in body:
            return items, pages
        params["cursor"] = body["next_cursor"]


async def test_lists_and_totals_show_nothing_of_others(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for _ in range(3):
            await served.wiping("owner")
        own, _ = await served.wiping("stranger")
        for _ in range(3):
            await served.wiping("owner")
        for path in ("/conversations", "/approvals"):
            items, pages = await everything(served, "stranger", path, limit=1)
            assert [each.get("conversation_id") or each["id"] for each in items] == [own]
            assert pages <= 2, path
            assert await everything(served, "outsider", path, limit=1) == ([], 1)
        body = (await served.call("stranger", "GET", "/conversations", params={"q": "wipe"})).json()
        assert body["summary"]["total"] == body["summary"]["waiting_approval"] == 1


async def test_keys_of_others_neither_answer_nor_conflict(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        made = []
        for party, text in (("owner", "wipe"), ("stranger", "hello")):
            headers = {"Idempotency-Key": "k", "X-Session-ID": "s"}
            answer = await served.call(
                party, "POST", "/conversations", json={"message": text}, headers=headers
            )
            assert answer.status_code == 201
            made.append(answer.json()["conversation"]["id"])
        assert made[0] != made[1]
        path = f"/conversations/{made[0]}/messages"
        for body in ("a", "b"):
            answer = await served.call(
                "stranger", "POST", path, json={"message": body}, headers={"Idempotency-Key": "k"}
            )
            assert answer.status_code == 404


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
async def test_conversations_of_others_look_missing(method: str, tmp_path: Path) -> None:
    """Status, headers and text differ by the id only."""
    async with serving(tmp_path) as served:
        id, _ = await served.wiping("owner")
        missing = "0" * 8 + id[8:]
        answers = [
            await served.call(
                "stranger",
                method,
                f"/conversations/{each}",
                headers={"X-Session-ID": "mine", "If-None-Match": "*"},
            )
            for each in (id, missing)
        ]
        texts = [each.text.replace(id, "ID").replace(missing, "ID") for each in answers]
        headers = [{**each.headers, "date": ""} for each in answers]
        assert texts[0] == texts[1]
        assert headers[0] == headers[1]
        assert answers[0].status_code == answers[1].status_code
