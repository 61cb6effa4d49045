"""A model server that streams one text slowly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.canary import KEY
from tests.providers.servers.model_server import Slow
from tests.providers.servers.talk import Said
from tests.providers.servers.threaded import servers_in_a_thread


@contextmanager
def slow_model(text: str, folder: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Run the server. Yield an agent file that uses it, and the environment for the agent.

    Every reply is `text`, which takes about two seconds.
    """
    with servers_in_a_thread("openai") as servers:
        provider = servers["openai"]
        provider.answered = lambda _: Said(text)
        provider.always = Slow(0.02, pieces=max(100, 2 * len(text)))
        config = folder / "teller.yaml"
        config.write_text(f"name: teller\nllm: {{model: 'openai:{provider.model}'}}\n", encoding="utf-8")
        yield config, {"OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": KEY}
