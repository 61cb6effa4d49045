"""Access tokens: renewed in time, once for all calls, and never in a storm."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs
import httpx2
import pytest
import trio

from stopgo.actors.models.messages.messages import ModelFailed
from stopgo.actors.models.providers.cloud_tokens import PAUSE, RENEW_BEFORE, CloudToken, TokenLogin

URL = httpx2.URL("https://cloud.example")


@attrs.define
class Source:
    """Tokens that are valid for so many seconds, or errors."""

    lasts: float = 3600.0
    error: Exception | None = None
    asked: int = 0

    def __call__(self) -> CloudToken:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return CloudToken(f"t{self.asked}", time.time() + self.lasts)


async def bearer(login: TokenLogin) -> str:
    return (await login.headers(URL, b""))["authorization"]


@pytest.mark.parametrize(
    ("lasts", "asked"), [(3600.0, 1), (RENEW_BEFORE + 60, 1), (RENEW_BEFORE - 60, 3), (-1.0, 3)]
)
async def test_token_is_renewed_before_its_end(lasts: float, asked: int) -> None:
    source = Source(lasts)
    login = TokenLogin(source)
    for _ in range(3):
        await bearer(login)
    assert source.asked == asked


async def all_at_once(login: TokenLogin, then: Callable[[str], None]) -> None:
    async def one() -> None:
        try:
            then(await bearer(login))
        except ModelFailed as failed:
            then(str(failed))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(one)


async def test_calls_at_the_same_time_share_a_token_and_a_failure() -> None:
    source = Source()
    login = TokenLogin(source)
    seen: list[str] = []
    await all_at_once(login, seen.append)
    assert (seen, source.asked) == (["Bearer t1"] * 10, 1)

    broken = Source(error=ValueError("no\nlogin"))
    seen.clear()
    await all_at_once(TokenLogin(broken), seen.append)
    assert (seen, broken.asked) == (["no access token: no login"] * 10, 1)


async def test_valid_token_outlives_a_failed_renewal_with_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(RENEW_BEFORE - 1)
    login = TokenLogin(source)
    await bearer(login)
    source.error = OSError("unreachable")
    assert [await bearer(login) for _ in range(3)] == ["Bearer t1"] * 3
    assert source.asked == 2
    later = trio.current_time() + PAUSE + 1
    monkeypatch.setattr(trio, "current_time", lambda: later)
    assert await bearer(login) == "Bearer t1"
    assert source.asked == 3


async def test_failure_is_not_retryable_and_short() -> None:
    with pytest.raises(ModelFailed, match="no access token: x") as failed:
        await bearer(TokenLogin(Source(error=RuntimeError("x" * 999))))
    assert not failed.value.retryable
    assert len(str(failed.value)) < 400
    with pytest.raises(ModelFailed, match="no access token: RuntimeError"):
        await bearer(TokenLogin(Source(error=RuntimeError())))


async def test_refused_token_is_replaced_once_for_all() -> None:
    source = Source()
    login = TokenLogin(source)
    used = await login.headers(URL, b"")
    assert all(login.refused(used) for _ in range(10))
    assert await bearer(login) == "Bearer t2"
    assert login.refused(used)  # late: the token has been replaced
    assert await bearer(login) == "Bearer t2"
    assert set(login.secrets) == {"t1", "t2"}


async def test_loop_goes_on_while_the_library_blocks() -> None:
    begun, go_on = trio.Event(), trio.Event()
    token = trio.lowlevel.current_trio_token()

    def fetch() -> CloudToken:
        trio.from_thread.run_sync(begun.set, trio_token=token)
        trio.from_thread.run(go_on.wait, trio_token=token)
        return CloudToken("t", time.time() + 3600)

    login = TokenLogin(fetch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bearer, login)
        await begun.wait()
        go_on.set()
    assert await bearer(login) == "Bearer t"
