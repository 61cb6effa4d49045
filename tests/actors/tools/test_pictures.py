"""Which blocks of a result are pictures for models, and how many of them a request has."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.tools import pictures
from stopgo.actors.tools.pictures import MAX_BYTES, MOST, MOST_CHARACTERS, pictures_of, surplus

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
JPEG = b"\xff\xd8\xff\xe0" + bytes(20)


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def image(data: str, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": data, "mimeType": media_type}


@pytest.mark.parametrize(
    ("block", "media_type"),
    [
        (image(base64(PNG)), "image/png"),
        (image(base64(JPEG)), "image/jpeg"),
        (image(base64(b"GIF89a" + bytes(9))), "image/gif"),
        (image(base64(b"RIFF\x00\x00\x00\x00WEBPVP8 ")), "image/webp"),
        # Anthropic answers 400 if the media type does not match the bytes (anthropics/claude-code#17404).
        (image(base64(JPEG), "image/png"), "image/jpeg"),
        (image(base64(PNG), "application/octet-stream"), "image/png"),
        ({"type": "resource", "resource": {"uri": "u", "blob": base64(PNG)}}, "image/png"),
    ],
)
def test_picture_has_the_media_type_of_its_bytes(block: dict[str, Any], media_type: str) -> None:
    [picture] = pictures_of([{"type": "text", "text": "a"}, block])
    assert picture.media_type == media_type
    assert picture.data == block.get("data", base64(PNG))


@pytest.mark.parametrize(
    "data", [f"data:image/png;base64,{base64(PNG)}", base64(PNG * 9)[:40] + "\r\n" + base64(PNG * 9)[40:]]
)
def test_data_address_and_line_breaks_are_removed(data: str) -> None:
    [picture] = pictures_of([image(data)])
    assert picture.data == "".join(data.removeprefix("data:image/png;base64,").split())


@pytest.mark.parametrize(
    "block",
    [
        image(base64(b"<svg xmlns='http://www.w3.org/2000/svg'/>"), "image/svg+xml"),
        image(base64(b"BM" + bytes(20)), "image/bmp"),
        image(base64(PNG)[:-3]),
        image(base64(PNG) + "*"),
        image(""),
        image("="),
        image("é" * 40),
        {"type": "audio", "data": base64(PNG), "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "u", "text": base64(PNG)}},
        {"type": "image"},
        {},
    ],
)
def test_other_blocks_are_no_pictures(block: dict[str, Any]) -> None:
    assert pictures_of([block]) == ()


def test_large_picture_is_left_out() -> None:
    fits, large = (image(base64(PNG + bytes(MAX_BYTES - len(PNG) + more))) for more in (0, 1))
    assert [picture.data for picture in pictures_of([fits, large])] == [fits["data"]]


@given(st.lists(st.integers(1, 4 * pictures.MAX_BYTES // 3), max_size=40))
def test_newest_pictures_within_the_bounds_are_kept(sizes: list[int]) -> None:
    kept = sizes[surplus(sizes) :]
    assert len(kept) <= MOST
    assert sum(kept) <= MOST_CHARACTERS
    if len(kept) < min(len(sizes), MOST):
        assert sum(sizes[surplus(sizes) - 1 :]) > MOST_CHARACTERS
