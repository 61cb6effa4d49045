"""Signatures of webhooks: the vectors of the standard's own library, which also verifies ours."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook

from stopgo.actors.notify.webhook_signature import signed_headers

ID, AT = "msg_01told", 1_700_000_000
BODY = (
    '{"type":"approval.requested","timestamp":"2023-11-14T22:13:20Z","data":{"id":"a-1","note":"ä"}}'.encode()
)
OLD = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
NEW = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="


def test_signatures_are_those_of_the_standard() -> None:
    headers = signed_headers(ID, AT, BODY, [NEW, OLD])
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == (ID, str(AT))
    assert headers["webhook-signature"] == (
        "v1,yDi/nOgz9SaLQZI74CpG+gmdeA9a8iMb0WH8yc0STKE= v1,GrehJ+S9yL4njbShZHAC0ord1RRtoIq71pHzODDU8/U="
    )


@pytest.mark.parametrize("secret", [OLD, NEW])
def test_the_library_of_the_standard_verifies_them(secret: str) -> None:
    now = int(datetime.now(UTC).timestamp())
    headers = dict(signed_headers(ID, now, BODY, [NEW, OLD]))
    assert Webhook(secret).verify(BODY, headers)["data"]["id"] == "a-1"


@pytest.mark.parametrize("change", ["body", "id", "time", "key"])
def test_a_change_is_noticed(change: str) -> None:
    now = int(datetime.now(UTC).timestamp())
    headers = dict(signed_headers(ID, now, BODY, [NEW]))
    if change == "id":
        headers["webhook-id"] = "msg_other"
    if change == "time":
        headers["webhook-timestamp"] = str(now + 1)
    key = base64.b64encode(bytes(32)).decode() if change == "key" else NEW
    body = BODY.replace(b"a-1", b"a-2") if change == "body" else BODY
    with pytest.raises(Exception, match=r"(?i)signature"):
        Webhook(key).verify(body, headers)
