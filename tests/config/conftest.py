from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from stopgo.config.load import load_config
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.text.errors import ConfigError, Problem

Load = Callable[..., AgentConfig]
Problems = Callable[..., tuple[Problem, ...]]
SECRET = "s3cret-value"


def placed(problem: Problem) -> str:
    """A problem without the name of its file."""
    return str(problem).removeprefix(problem.file + ":")


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a text as agent file, with nothing in the environment but what is given."""

    def load(
        text: str,
        environ: Mapping[str, str] | None = None,
        *,
        data_dir: Path | None = None,
        model: str | None = None,
    ) -> AgentConfig:
        path = tmp_path / "agent.yaml"
        path.write_text(text, encoding="utf-8")
        return load_config(path, environ=environ or {}, data_dir=data_dir, model=model)

    return load


@pytest.fixture
def problems(load: Load) -> Problems:
    """Load a text that must be refused, and return what is wrong with it."""

    def problems(text: str, environ: Mapping[str, str] | None = None) -> tuple[Problem, ...]:
        with pytest.raises(ConfigError) as caught:
            load(text, environ)
        return caught.value.problems

    return problems
