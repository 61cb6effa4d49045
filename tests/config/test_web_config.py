"""The web file: what it may hold, and the words that mistakes are told with."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from stopgo.config.load import load_config
from stopgo.config.sections.agent_config import ServerConfig
from stopgo.config.text.errors import ConfigError
from stopgo.config.web_config import WebConfig, load_web_config

from .conftest import placed

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "config" / "web.yaml"
URL = "agent_url: http://127.0.0.1:8080\n"
KEYS = "agent_url, host, port, allowed_hosts, public_url, allowed_origins, data_dir"

LoadWeb = Callable[..., WebConfig]


@pytest.fixture
def load_web(tmp_path: Path) -> LoadWeb:
    """Load a text as web file, with nothing in the environment but what is given."""

    def load(text: str, environ: Mapping[str, str] | None = None) -> WebConfig:
        path = tmp_path / "web.yaml"
        path.write_text(text, encoding="utf-8")
        return load_web_config(path, environ=environ or {})

    return load


def test_everything_but_the_agent_has_a_default(load_web: LoadWeb) -> None:
    config = load_web(URL)
    assert (config.agent_url, config.host, config.port) == ("http://127.0.0.1:8080", "127.0.0.1", 3000)
    assert config.server == ServerConfig()


def test_every_key_is_read(load_web: LoadWeb) -> None:
    config = load_web(
        "agent_url: https://me:${PASSWORD}@[::1]:8080/desk/\nhost: 0.0.0.0\nport: 0\nallowed_hosts: [desk]\n"
        "public_url: https://agents.example/desk\nallowed_origins: ['https://tools.example']\n"
        "data_dir: ./data\n",
        {"PASSWORD": "s3cret"},
    )
    assert config.agent_url == "https://me:s3cret@[::1]:8080/desk/"
    assert (config.host, config.port, config.data_dir) == ("0.0.0.0", 0, "./data")
    assert config.server == ServerConfig(
        allowed_hosts=("desk",),
        public_url="https://agents.example/desk",
        allowed_origins=("https://tools.example",),
    )
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("{}", "missing_key", "1:1: agent_url is required"),
        ("agent_url:", "missing_key", "1:11: agent_url is required"),
        (URL + "prot: 1", "unknown_key", '2:1: prot: unknown key "prot" (did you mean "port"?)'),
        (
            URL + "\nallowed_host: [a]",
            "unknown_key",
            '3:1: allowed_host: unknown key "allowed_host" (did you mean "allowed_hosts"?)',
        ),
        (URL + "zzz: 1", "unknown_key", f'2:1: zzz: unknown key "zzz" (valid keys: {KEYS})'),
        (URL + "source: a", "unknown_key", None),
        (URL + "port: 3000x", "wrong_type", None),
        (
            URL + "port: 65536",
            "out_of_range",
            "2:7: port: expected a whole number from 0 to 65535, found 65536",
        ),
        (URL + "host: ''", "empty_value", "2:7: host: must not be empty"),
        (
            "agent_url: 127.0.0.1:8080",
            "bad_format",
            "1:12: agent_url: expected an address such as http://127.0.0.1:8080, found other text",
        ),
        ("agent_url: http://a b", "bad_format", None),
        ("agent_url: http://a?b", "bad_format", None),
        ("agent_url: ws://a", "bad_format", None),
        (
            "agent_url: http://me:s3cret@a:99999",
            "bad_format",
            "1:12: agent_url: the port is not a number from 1 to 65535, or the host is not an address",
        ),
        ("agent_url: http://a:0", "bad_format", None),
        ("agent_url: http://[::::]", "bad_format", None),
        ("agent_url: ${NONE}", "variable_unset", None),
        (URL + "allowed_hosts: ['a:1']", "bad_format", None),
        (URL + "allowed_origins: [a]", "bad_format", None),
        (URL + "public_url: agents.example", "bad_format", None),
        (
            URL + "oauth2: {client_id: a, client_secret: s3cret}",
            "no_sign_in",
            "2:1: oauth2: the page has no sign-in of its own; add `auth:` to the file of the agent, and "
            "remove the key",
        ),
        (URL + "oauth2: true", "no_sign_in", None),
        ("- a", "not_a_mapping", None),
        ("", "empty_file", None),
        (URL + URL, "duplicate_key", None),
        (URL + "host: [", "yaml_syntax", None),
    ],
)
def test_mistake_is_reported(load_web: LoadWeb, text: str, code: str, expected: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        load_web(text)
    [problem] = caught.value.problems
    assert problem.code == code
    assert "s3cret" not in str(problem)
    assert expected is None or placed(problem) == expected


def test_all_mistakes_are_reported_in_file_order(load_web: LoadWeb) -> None:
    with pytest.raises(ConfigError) as caught:
        load_web("prot: 1\noauth2: {}\nagent_url: a\nhost: ''")
    lines = [(problem.line, problem.key) for problem in caught.value.problems]
    assert lines == [(1, "prot"), (2, "oauth2"), (3, "agent_url"), (4, "host")]


def test_sign_in_that_is_not_configured_is_no_mistake(load_web: LoadWeb) -> None:
    assert load_web(URL + "oauth2:\n#  client_id: a").port == 3000


def test_the_file_in_the_working_directory_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_web_config(None, environ={}).packaged
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "web.yaml").write_text("agent_url: http://other.example")
    config = load_web_config(None, environ={})
    assert (config.agent_url, config.packaged) == ("http://other.example", False)


def test_the_shipped_file_leads_to_the_shipped_agent() -> None:
    agent = load_config(ROOT / "config" / "agent.yaml", environ={})
    config = load_web_config(SHIPPED, environ={})
    assert config.agent_url == f"http://{agent.host}:{agent.port}"
    assert config.host == "127.0.0.1"


def test_the_keys_it_offers_to_try_can_be_tried(load_web: LoadWeb) -> None:
    text = re.sub(r"^( *)#(?=\S| {2})", r"\1", SHIPPED.read_text(), flags=re.MULTILINE)
    config = load_web(text)
    assert config.public_url
    assert config.allowed_hosts
    assert config.allowed_origins
