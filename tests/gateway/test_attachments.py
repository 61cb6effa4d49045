"""What the agent gets of the files in a message."""

from __future__ import annotations

from base64 import b64encode, encodebytes, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.tools import pictures
from stopgo.actors.tools.pictures import MAX_BYTES, MOST, Picture
from stopgo.gateway.contract.attachments import (
    MAX_TEXT_FILE,
    Content,
    File,
    FileAddress,
    MessagePart,
    UnusableFile,
    content_of,
)

# The first bytes of the formats: W3C PNG (third edition) 5.2, ITU-T T.81 B.1.1.3, GIF89a 17, RFC 9649 2.3.
PNG, JPEG = b"\x89PNG\r\n\x1a\n and more", b"\xff\xd8\xff\xfb\xff\xbf and more"


def file(content: bytes, media_type: str | None = None, name: str | None = None) -> File:
    return File(b64encode(content).decode(), media_type, name)


def picture(content: bytes, media_type: pictures.MediaType) -> Picture:
    return Picture(media_type, b64encode(content).decode())


PNG_CONTENT = Content(f"[image: image/png, {len(PNG)} bytes]", (picture(PNG, "image/png"),))
JPEG_CONTENT = Content(f"[image: image/jpeg, {len(JPEG)} bytes]", (picture(JPEG, "image/jpeg"),))


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("hi", Content("hi")),
        (
            file(PNG, "image/png", "cat.png"),
            Content(f"[image cat.png: image/png, {len(PNG)} bytes]", (picture(PNG, "image/png"),)),
        ),
        (  # the first bytes decide: providers refuse a wrong type (anthropics/claude-code#2470)
            file(JPEG, "image/png"),
            JPEG_CONTENT,
        ),
        (
            file(PNG, "application/octet-stream", "a\n]\x1b\u202e\0b"),
            Content(f"[image a ] b: image/png, {len(PNG)} bytes]", (picture(PNG, "image/png"),)),
        ),
        (File(b64encode(PNG).decode().rstrip("="), "image/png"), PNG_CONTENT),
        (File(f"data:image/png;base64,{b64encode(PNG).decode()}"), PNG_CONTENT),
        (File(urlsafe_b64encode(JPEG).decode()), JPEG_CONTENT),
        (File(encodebytes(b"a" * 99).decode(), "text/plain"), Content(f"file:\n{'a' * 99}")),
        (File("", "text/plain", "a.txt"), Content("a.txt:\n")),
        (file("é".encode(), "text/plain; charset=utf-8", "a.txt"), Content("a.txt:\né")),
        (file(b"\xef\xbb\xbfa,b", "TEXT/CSV", "a.csv"), Content("a.csv:\na,b")),
        (file(b"{}", "application/json"), Content("file:\n{}")),
        (file(b"{}", "application/geo+json", "m"), Content("m:\n{}")),
        (FileAddress("https://a/b", "image/png", "b"), Content("File b at https://a/b")),
        (FileAddress("file:///etc/passwd"), Content("File at file:///etc/passwd")),
        (  # RFC 2397
            FileAddress(f"data:image/png;base64,{b64encode(PNG).decode()}"),
            PNG_CONTENT,
        ),
        (FileAddress("DATA:;charset=utf-8,%C3%A9"), Content("file:\né")),
        (FileAddress("https://a/\nb"), Content("File at https://a/ b")),
        (FileAddress("data:text/plain,a%20b", None, "n"), Content("n:\na b")),
    ],
)
def test_file_becomes_text_or_a_picture(part: MessagePart, content: Content) -> None:
    assert content_of([part]) == content


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (
            file(b"%PDF-1.7", "application/pdf", "a.pdf"),
            "a.pdf (application/pdf, 8 bytes): only texts and pictures",
        ),
        (file(b"hi", None, "a"), "a (no media type, 2 bytes): only texts"),
        (file(b"<svg/>", "image/svg+xml", "a.svg"), "a.svg (image/svg+xml): not a PNG"),
        (File("&&&", "image/png", "a"), "a (image/png): not a PNG, JPEG, GIF or WebP in base64"),
        (file(PNG + b"x" * MAX_BYTES, "image/png", "big"), f"big (image/png): larger than {MAX_BYTES} bytes"),
        (file(b"\xff", "text/plain"), "file: no text in UTF-8"),
        (file(b"a\0", "text/plain"), "file: no text in UTF-8"),
        (File("a", "text/plain"), "file: no text in UTF-8"),
        (File("é", "text/plain"), "file: no text in UTF-8"),
        (File("", "image/png"), "file (image/png): not a PNG"),
        (File("a", "\x1b[1m"), "file ([1m, 1 bytes): only texts"),
        (FileAddress("data:image/png;base64"), "the `data:` address has no content"),
        (file(b"x" * (MAX_TEXT_FILE + 1), "text/plain"), f"file: larger than {MAX_TEXT_FILE}"),
        (FileAddress("data:application/zip;base64,aGk="), "file (application/zip, 2 bytes): only texts"),
    ],
)
def test_file_of_no_use_is_named(part: MessagePart, why: str) -> None:
    with pytest.raises(UnusableFile) as caught:
        content_of(["see", part])
    assert caught.value.index == 1
    assert why in str(caught.value)


def test_number_and_total_of_pictures_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    one = file(PNG)
    assert len(content_of([one] * MOST).pictures) == MOST
    with pytest.raises(UnusableFile, match="at most") as caught:
        content_of([one] * (MOST + 1))
    assert caught.value.index == MOST
    monkeypatch.setattr("stopgo.gateway.contract.attachments.MOST_CHARACTERS", 2 * len(one.data))
    with pytest.raises(UnusableFile, match="at most"):
        content_of([one] * 3)


@given(
    st.binary(max_size=40) | st.binary(max_size=9).map(PNG.__add__),
    st.none() | st.sampled_from(["image/png", "text/x", "a", ";", ""]) | st.text(max_size=9),
    st.none() | st.text(max_size=9),
)
def test_any_file_is_named_or_refused(content: bytes, media_type: str | None, name: str | None) -> None:
    try:
        found = content_of([file(content, media_type, name)])
    except UnusableFile:
        return
    assert found.text
    assert not content.startswith(PNG) or found.pictures == (picture(content, "image/png"),)
