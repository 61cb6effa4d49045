"""Secrets that two parties share, and that are easy to guess."""

from __future__ import annotations

import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.config.checks.shared_secrets import SHORTEST, weakness

from .conftest import Load

STRONG = "1f6d0c7be2a84935"
PROXY = 'auth: {proxy: {secret: "${SECRET}"}}'
KEYED = 'a2a: [{name: far, url: "https://far.example"}, {name: near, url: "http://h", api_key: "${SECRET}"}]'


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        ("x", "has fewer than 16 characters"),
        (STRONG[:-1], "has fewer than 16 characters"),
        ("change-me-please-now", "is a common word"),
        ("0000000000000000", "has fewer than 6 different characters"),
        ("1212121212121212121212121212121212", "has fewer than 6 different characters"),
        (STRONG, None),
    ],
)
def test_weak_secrets_are_told_from_strong_ones(secret: str, why: str | None) -> None:
    assert weakness(secret) == why


@given(st.integers(SHORTEST, 64))
def test_secrets_of_generators_are_strong(size: int) -> None:
    """Those that the hint makes, and the usual other ones."""
    for made in (secrets.token_hex(size), secrets.token_urlsafe(size)):
        assert weakness(made) is None


@pytest.mark.parametrize(
    ("text", "where", "is_entrance"),
    [
        (PROXY, "1:24: auth.proxy.secret: the secret has", True),
        (KEYED, "1:87: a2a[1].api_key: the key of near has", False),
        ("name: x\na2a: {near: {url: 'http://h', api_key: \"${SECRET}\"}}", "2:40: a2a[0].api_key: ", False),
    ],
)
def test_start_names_the_line_of_a_weak_secret(load: Load, text: str, where: str, is_entrance: bool) -> None:
    config = load(text, {"SECRET": "s3cret"})
    [warning] = config.warnings
    assert f"agent.yaml:{where}" in warning
    assert warning.endswith("(make one with `openssl rand -hex 32`)")
    assert "s3cret" not in warning
    assert len(config.weak_secrets) == is_entrance
    config = load(text, {"SECRET": STRONG})
    assert (config.warnings, config.weak_secrets) == ((), ())
