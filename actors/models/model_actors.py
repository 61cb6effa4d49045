"""The models of a running agent: one actor per name, started when it is first needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import attrs
import trio

from ...config.sections.agent_config import AgentConfig
from ...config.sections.models import (
    USUAL_TIMEOUT,
    ContextConfig,
    ModelSpec,
    Prices,
    UnknownModel,
    prices_of,
    reachable_models,
    resolve_model,
)
from ...runtime.ref import ActorRef
from ...runtime.supervision import Supervisor
from ..common.errors import Misconfigured
from .messages.errors import InvalidScript, ModelUnusable, UnknownProvider
from .messages.messages import ModelFailed, ModelMessage
from .open_model import open_model
from .providers.client import ModelClient
from .providers.model import Model, model_actor
from .providers.refused_tools import RefusedTools


class OpenModel(Protocol):
    """Opens a program's own model by its name.

    Raises `UnknownProvider` for any other name, and `ModelUnusable`.
    """

    def __call__(self, name: str, *, folder: Path) -> Model: ...


@attrs.frozen(eq=False)
class StartedModel:
    """A model with a running actor."""

    ref: ActorRef[ModelMessage]
    prices: Prices | None
    """Prices; None: unknown."""
    context: ContextConfig | None
    images: bool
    """Whether it takes pictures."""
    """Limit of a request's size; None: no limit."""


@attrs.define(eq=False)
class ModelActors:
    _kernel: Supervisor
    _config: AgentConfig
    _client: ModelClient
    _own: OpenModel | None
    """Tried first for every model."""
    _started: dict[str, StartedModel] = attrs.field(factory=dict)
    _starting: trio.Lock = attrs.field(factory=trio.Lock)
    _refused: dict[str, RefusedTools] = attrs.field(factory=dict)

    async def check(self) -> None:
        """Start every model that the tree can use. Raises `Misconfigured` with all unusable models."""
        problems = []
        for name in reachable(self._config):
            try:
                await self._started_model(name)
            except ModelUnusable as error:
                problems.append(unusable(self._config, name, error))
        if problems:
            raise Misconfigured("\n".join(problems))

    def names(self) -> Sequence[str]:
        return tuple(self._started)

    def warnings(self) -> Sequence[str]:
        """Return a sentence for each tool that the provider of a model refuses."""
        return tuple(sentence for refused in self._refused.values() for sentence in refused.warnings)

    async def get(self, name: str) -> StartedModel:
        """The model, started if necessary. Raises `ModelFailed` if it is unusable."""
        try:
            return await self._started_model(name)
        except ModelUnusable as error:
            raise ModelFailed(str(error)) from error

    async def _started_model(self, name: str) -> StartedModel:
        found = self._started.get(name)
        if found is not None:
            return found
        async with self._starting:
            if name not in self._started:
                self._started[name] = await self._start(name)
        return self._started[name]

    async def _start(self, name: str) -> StartedModel:
        config = self._config
        spec: ModelSpec | UnknownModel
        try:
            spec = resolve_model(name, config.llm, config.models)
        except UnknownModel as error:
            spec = error
        model = self._open(name, spec)
        settings = config.llm if isinstance(spec, UnknownModel) else spec
        refused = self._refused[name] = RefusedTools(name)
        timeout = USUAL_TIMEOUT if settings.timeout is None else settings.timeout
        behaviour = model_actor(
            model, max_concurrency=settings.max_concurrency, timeout=timeout, refused=refused
        )
        ref = await self._kernel.start(f"model:{name}", behaviour)
        named = config.models.get(name)
        context = config.context if named is None or named.context is None else named.context
        images = named is None or named.images
        return StartedModel(ref, prices_of(name, config.models), context, images)

    def _open(self, name: str, spec: ModelSpec | UnknownModel) -> Model:
        folder = self._config.source.parent if self._config.source else Path()
        if self._own is not None:
            try:
                return self._own(name, folder=folder)
            except UnknownProvider:
                if isinstance(spec, UnknownModel):
                    raise
        if isinstance(spec, UnknownModel):
            raise UnknownProvider(str(spec))
        return open_model(spec, folder=folder, client=self._client)


def reachable(config: AgentConfig) -> tuple[str, ...]:
    """The names of all models that the tree can use, each once."""
    return tuple(dict.fromkeys(reachable_models(config.agent, config.llm, config.models)))


def unusable(config: AgentConfig, name: str, error: ModelUnusable) -> str:
    """The error with the model's place in the agent file. Mistakes in scripts have places of their own."""
    place = None if isinstance(error, InvalidScript) else config.model_places.get(name)
    return str(error) if place is None else f"{place}: {error}"


def most_calls(config: AgentConfig) -> int:
    """The maximum number of concurrent calls of all models of the tree."""
    total = 0
    for name in reachable(config):
        try:
            total += resolve_model(name, config.llm, config.models).max_concurrency
        except UnknownModel:  # a program's own model has its own connections
            continue
    return max(1, total)
