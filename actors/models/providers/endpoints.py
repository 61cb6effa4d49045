"""Base URL, API and key of a provider, from the agent file and the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import ClassVar
from urllib.parse import quote

import attrs
import httpx2

from ....config.sections.models import Api, ModelSpec, reasons
from ....config.sections.secrets import secrets_in, secrets_of_values
from ..codecs.ollama_options import NATIVE_ONLY
from ..codecs.profiles import PROFILES, ProviderPlace
from ..messages.errors import ModelUnusable
from .aws_login import region_of_profile
from .cloud_tokens import told


class MissingApiKey(ModelUnusable):
    """The environment variable of the key is not set."""

    code: ClassVar[str] = "missing_api_key"


class InvalidApiKey(ModelUnusable):
    """The value of the environment variable cannot be a key."""

    code: ClassVar[str] = "invalid_api_key"


class MissingBaseUrl(ModelUnusable):
    """The server has no configured address."""

    code: ClassVar[str] = "missing_base_url"


class MissingLibrary(ModelUnusable):
    """There is no key, and the library that logs in to the cloud is not installed."""

    code: ClassVar[str] = "missing_library"


class InvalidBaseUrl(ModelUnusable):
    """The configured address is not a URL."""

    code: ClassVar[str] = "invalid_base_url"


_CREDENTIALS = {"authorization", "api-key", "x-api-key", "x-goog-api-key"}
"""Headers that take the place of a key."""


@attrs.frozen
class Endpoint:
    base_url: str = attrs.field(repr=False)
    """Without a slash at the end. It is not shown, because it may contain credentials."""
    key: str | None = attrs.field(repr=False)
    logs_in: bool = False
    """Whether each request needs credentials of the provider's login."""


def endpoint(spec: ModelSpec, environ: Mapping[str, str]) -> Endpoint:
    """The endpoint of a model. Raises one of the errors of this module."""
    place = PROFILES[spec.provider].place
    url, key = _base_url(spec, place, environ), _key(spec, place, environ)
    logs_in = place.library is not None and key is None and not _has_credentials(spec)
    return Endpoint(url, key, logs_in)


CHAT_ONLY = frozenset(
    {
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "modalities",
        "n",
        "prediction",
        "presence_penalty",
        "response_format",
        "seed",
        "stop",
        "stream_options",
        "web_search_options",
    }
)
"""Members of chat completions that the Responses API refuses."""
RESPONSES_ONLY = frozenset(
    {"background", "conversation", "input", "instructions", "previous_response_id", "store"}
)
"""Members of a request of the Responses API that the run sets, not the agent file."""


def api_of(spec: ModelSpec, base_url: str) -> Api:
    """The API to ask a model of OpenAI's kind by.

    * `api` of the agent file decides.
    * Options that Ollama's chat completions would ignore need its own API.
    * Azure has the Responses API at its own addresses without a version; of the others, only newer versions.
    * Models of `openai` that reason need the Responses API for tools, at OpenAI's own address. At another
      address there may be a proxy or a local server without that API.
    * Options that only chat completions has keep a model at chat completions, because the model of an older
      file must not stop working.
    """
    if spec.api is not None:
        return spec.api
    if spec.provider == "ollama" and NATIVE_ONLY & spec.options.keys():
        return "native"
    if spec.provider == "azure":
        needs = not is_dated(spec)
    else:
        needs = spec.provider == "openai" and is_openais(base_url) and reasons(spec.model)
    return "responses" if needs and not CHAT_ONLY & spec.options.keys() else "chat"


def is_openais(base_url: str) -> bool:
    """Whether the address is one of OpenAI itself, in any region."""
    return re.fullmatch(r"([a-z]+\.)?api\.openai\.com", httpx2.URL(base_url).host) is not None


def is_dated(spec: ModelSpec) -> bool:
    """Whether a model of Azure is at an address with a version, which is always a date. The addresses without
    one, `/openai/v1`, take no version but `preview`."""
    return spec.query.get("api-version", "preview") != "preview"


def _has_credentials(spec: ModelSpec) -> bool:
    return bool(_CREDENTIALS & {header.lower() for header in spec.headers})


def _key(spec: ModelSpec, place: ProviderPlace, environ: Mapping[str, str]) -> str | None:
    if spec.api_key is not None:
        return spec.api_key
    name = spec.api_key_env or place.key_env
    if name is None:
        if place.library is not None and not _has_credentials(spec):
            _require(place.library, spec, "`api_key`")
        return None
    # The SDK of Anthropic needs a key even then.
    if spec.provider != "anthropic" and _has_credentials(spec):
        return None
    key = environ.get(name, "").strip()
    if not key and place.library is not None and spec.api_key_env is None:
        _require(place.library, spec, f"the environment variable {name}")
        return None
    if not key:
        needs = f'model "{spec.name}" needs an API key: set the environment variable {name}'
        # A name without a provider means Google: `rules` instead of `offline:rules` asks for Google's key.
        is_bare = spec.provider == "google" and spec.name == spec.model
        raise MissingApiKey(f"{needs} (it names no provider, so it is Google's)" if is_bare else needs)
    if not re.fullmatch("[!-~]+", key):
        raise InvalidApiKey(
            f'the API key of model "{spec.name}", in the environment variable {name}, contains a character '
            "that no API key has"
        )
    return key


def _require(library: str, spec: ModelSpec, key: str) -> None:
    """Raise `MissingLibrary` if the library cannot be imported, without importing it."""
    try:
        found = find_spec(library) is not None
    except ModuleNotFoundError:  # of the package above it
        found = False
    if not found:
        raise MissingLibrary(
            f'model "{spec.name}" needs a key or a login: set {key}, or install '
            f"the library that logs in: pip install 'agent-stop-and-go[{spec.provider}]'"
        )


def _base_url(spec: ModelSpec, place: ProviderPlace, environ: Mapping[str, str]) -> str:
    from_environment = environ.get(place.url_env, "").strip() if place.url_env is not None else ""
    url = spec.base_url or from_environment or place.url
    if url is None and spec.provider == "vertex":
        url = vertex_host(_location(environ))
    if url is None and spec.provider == "bedrock" and (region := aws_region(spec, "", environ)):
        url = f"https://bedrock-runtime.{quote(region, safe='')}.amazonaws.com"
    if url is None:
        raise MissingBaseUrl(f'model "{spec.name}" needs a base_url: {place.needed}')
    if not re.fullmatch(r"https?://[^/\s?#]+[^\s?#]*", url) or not _is_url(url):
        source = "base_url" if spec.base_url else f"the environment variable {place.url_env}"
        raise InvalidBaseUrl(
            f'{source} of model "{spec.name}" is not an address: expected http:// or https:// and a host'
        )
    url = url.rstrip("/")
    match spec.provider:
        case "azure":
            return _resource(spec, url)
        case "vertex":
            return _project(spec, url, environ)
        case _:
            return url


def aws_region(spec: ModelSpec, url: str, environ: Mapping[str, str]) -> str:
    """The region of an address of Bedrock, else that of the environment, else that of the profile; "": there
    is none. Raises `MissingBaseUrl`: the profile cannot be read."""
    found = re.search(r"//(?:[^/]*\.)?bedrock-(?:runtime|mantle)(?:-fips)?\.([a-z0-9-]+)\.", url)
    if found:
        return found[1]
    named = (environ.get(name, "").strip() for name in ("AWS_REGION", "AWS_DEFAULT_REGION"))
    if region := next(filter(None, named), ""):
        return region
    try:
        return region_of_profile()
    except Exception as error:  # of any class: botocore raises its own and those of files
        raise MissingBaseUrl(f'model "{spec.name}" needs a region: {told(error)}') from None


def _resource(spec: ModelSpec, url: str) -> str:
    """The address of a resource of Azure, from that of its API or of a project in it."""
    found = re.sub(r"/openai(/v1)?$|/api/projects/[^/]+$", "", url)
    if "/openai/deployments" in found:
        raise InvalidBaseUrl(
            f'base_url of model "{spec.name}" is the address of a deployment: expected that of the resource, '
            "and the name of the deployment as `model`"
        )
    return found


def _project(spec: ModelSpec, url: str, environ: Mapping[str, str]) -> str:
    """The address of a project and location of Vertex, if it is not in the address."""
    if re.search(r"/projects/[^/]+/locations/[^/]+$", url):
        return url
    project = environ.get("GOOGLE_CLOUD_PROJECT", "").strip()
    if not project:
        raise MissingBaseUrl(
            f'model "{spec.name}" needs a project: set the environment variable GOOGLE_CLOUD_PROJECT, or a '
            "base_url that ends with /projects/PROJECT/locations/LOCATION"
        )
    root = url if re.search(r"/v1(beta1)?$", url) else f"{url}/v1"
    return f"{root}/projects/{quote(project, safe=':')}/locations/{quote(_location(environ), safe='')}"


def _location(environ: Mapping[str, str]) -> str:
    return environ.get("GOOGLE_CLOUD_LOCATION", "").strip() or "global"


def vertex_host(location: str) -> str:
    """The address of Vertex for a location: a region, `global`, or a group of regions, `us` or `eu`.

    Source: Google's page "Deployments and endpoints" of Vertex, and the SDK of Anthropic, 2.12.
    """
    match location:
        case "global":
            host = "aiplatform"
        case "us" | "eu":
            host = f"aiplatform.{location}.rep"
        case _:
            host = f"{quote(location, safe='')}-aiplatform"
    return f"https://{host}.googleapis.com"


def _is_url(text: str) -> bool:
    try:
        httpx2.URL(text)
    except httpx2.InvalidURL:
        return False
    return True


def secrets_of(place: Endpoint, spec: ModelSpec) -> Sequence[str]:
    """The values that no answer may show: the key, and the secrets in address, headers and parameters. The
    value of a header or parameter is one if its name says so, or if it looks like a key."""
    named = secrets_of_values({**spec.headers, **spec.query})
    return (*([place.key] if place.key else []), *secrets_in("", place.base_url), *named)
