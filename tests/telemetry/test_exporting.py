"""Export: a collector that fails, sampling, traces of clients, and an agent without traces."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from stopgo.config.load import load_config
from stopgo.gateway.telemetry.span_exporter import RoutedSession
from stopgo.gateway.telemetry.tracing import FLUSH, Exporter, open_tracing
from tests.e2e.chains import SCRIPTED, Json, calling, echo_server, entries, eventually, held_port, written
from tests.e2e.conftest import Serve, Server, Servers
from tests.providers.servers.http import Answer
from tests.telemetry.receiver import QUICK, Receiver, receiving

CLIENT = "b7ad6b7169203331"
TURNS = 40

FAULTS: dict[str, Answer | None] = {
    "down": None,
    "hanging": Answer(late=3600),
    "400": Answer(400),
    "429": Answer(429, {"retry-after": "1"}),
    "503": Answer(503),
}
"""The answers of a collector; None: it is down."""


def agent(folder: Path, **settings: object) -> Path:
    config: Json = {"name": "solo", "llm": SCRIPTED, "mcp_servers": [echo_server("tools")], **settings}
    return written(folder, config, [calling("echo"), {"text": "done"}])


@pytest.mark.parametrize(
    "fault", ["down", *(pytest.param(each, marks=pytest.mark.agents) for each in FAULTS if each != "down")]
)
def test_turns_do_not_depend_on_the_collector(serve: Serve, tmp_path: Path, fault: str) -> None:
    """Spans beyond the queue are dropped, and the log says so once."""
    env = {
        **QUICK,
        "LEDGER": str(tmp_path / "ledger"),
        "OTEL_BSP_MAX_QUEUE_SIZE": "64",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "16",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
    }
    with receiving() as receiver, held_port() as port:
        receiver.fault = answer = FAULTS[fault]
        url = f"http://127.0.0.1:{port}/v1/traces" if answer is None else receiver.url
        config = agent(tmp_path, shutdown_grace=1)
        server = serve(tmp_path / "data", config=config, env=env, options=["--traces", url])
        for _ in range(TURNS):
            turn = server.post("/conversations", {"message": "echo hello"}, status=201)
            assert turn["result"]["response"] == "done"
        dropped = "spans are dropped, because the collector does not accept them"
        eventually(lambda: dropped in server.log)
        if answer is not None and answer.late == 0:
            receiver.fault = None
            server.new()  # the span of a request, because the queue may be empty by now
            eventually(lambda: "spans are exported again" in server.log)
            receiver.fault = answer
        server.run.interrupt()
    told = [line for line in server.log.splitlines() if "telemetry" in line and dropped in line]
    assert len(told) == (1 if answer is None or answer.late else len(told))
    assert ("(status 400)" in told[0]) is (fault == "400")
    assert sum("Queue full" in line for line in server.log.splitlines()) <= 1
    assert server.log.count("opentelemetry") <= 1


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://127.0.0.1:4318/v1/traces", {}),  # `requests` would ask the proxy for this machine
        ("http://10.1.2.3:4318/v1/traces", {}),
        ("http://collector.test/v1/traces", {"http": "socks5://p:1", "https": "socks5://p:1"}),
    ],
)
def test_spans_have_the_proxy_that_all_requests_have(
    monkeypatch: pytest.MonkeyPatch, url: str, found: dict[str, str]
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks://p:1")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
    assert RoutedSession().merge_environment_settings(url, {}, None, None, None)["proxies"] == found


@pytest.mark.parametrize(("own", "used"), [(True, "/ca.pem"), ("/otlp.pem", "/otlp.pem")])
def test_certificates_of_the_collector_are_those_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, own: bool | str, used: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/ca.pem")
    session = RoutedSession()
    session.verify = own  # of OTEL_EXPORTER_OTLP_CERTIFICATE
    assert (
        session.merge_environment_settings("https://collector.test", {}, None, None, None)["verify"] == used
    )


@pytest.mark.parametrize(("grace", "waits"), [(1.0, 1.0), (FLUSH, FLUSH), (10.0, FLUSH)])
async def test_shutdown_waits_no_longer_for_the_last_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock, grace: float, waits: float
) -> None:
    accepted = threading.Event()
    close = Exporter.close

    def close_late(exporter: Exporter) -> None:
        accepted.wait()
        close(exporter)

    monkeypatch.setattr(Exporter, "close", close_late)
    config = load_config(agent(tmp_path, shutdown_grace=grace), environ={"LEDGER": "ledger"})
    with receiving() as receiver:
        async with open_tracing(config, receiver.url, environ={}):
            before = trio.current_time()
        assert trio.current_time() - before == waits
        accepted.set()


SAMPLED, UNSAMPLED = "01", "00"


@pytest.mark.parametrize(
    ("sampler", "flags", "exported"),
    [
        ({}, None, True),
        ({}, SAMPLED, True),
        ({}, UNSAMPLED, False),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, None, False),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, SAMPLED, True),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, SAMPLED, False),
        ({"OTEL_TRACES_SAMPLER": "always_on"}, UNSAMPLED, True),
        ({"OTEL_SDK_DISABLED": "true"}, SAMPLED, False),
    ],
)
def test_the_sampler_decides_and_the_decision_is_passed_on(
    serve: Serve, tmp_path: Path, sampler: dict[str, str], flags: str | None, exported: bool
) -> None:
    env = {**QUICK, **sampler, "LEDGER": str(tmp_path / "ledger")}
    with receiving() as receiver:
        config = agent(tmp_path)
        server = serve(tmp_path / "data", config=config, env=env, options=["--traces", receiver.url])
        if flags is not None:
            server.client.headers["traceparent"] = f"00-{'e' * 32}-{CLIENT}-{flags}"
        server.post("/conversations", {"message": "echo hello"}, status=201)
        server.run.interrupt()
        assert receiver.violations == []
        assert bool(receiver.spans) is exported
        [entry] = entries(tmp_path / "ledger")
        version, trace, span, passed_on = entry["traceparent"].split("-")
        assert (version, passed_on) == ("00", SAMPLED if exported else UNSAMPLED)
        assert flags is None or trace == "e" * 32
        calls = [each.id for each in receiver.spans if each.name == "execute_tool echo"]
        assert calls == ([span] if exported else [])


def test_the_environment_configures_the_exporter(serve: Serve, tmp_path: Path) -> None:
    with receiving() as receiver:
        env = {
            **QUICK,
            "LEDGER": str(tmp_path / "ledger"),
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url.removesuffix("/v1/traces"),
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_SERVICE_NAME": "another name",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        }
        server = serve(tmp_path / "data", config=agent(tmp_path), env=env, options=["--traces"])
        server.post("/conversations", {"message": "echo hello"}, status=201)
        server.run.interrupt()
        assert receiver.violations == []
        assert {span.service for span in receiver.spans} == {"another name"}
        assert all(b"deployment.environment.name" in each for each in receiver.exports)


# ------------------------------------------------------------------ traces of clients


@pytest.fixture(scope="module")
def traced(serve_module: Servers, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("traced")
    env = {**QUICK, "LEDGER": str(folder / "ledger")}
    return serve_module(folder / "data", config=agent(folder), env=env, options=["--traces", receiver.url])


HEX = st.text("0123456789abcdef", max_size=40)
SHAPES = st.builds("{}-{}-{}-{}".format, HEX, HEX, HEX, HEX)
HEADERS = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=300
)
ALMOST = st.sampled_from(
    [
        f"00-{'0' * 32}-{CLIENT}-01",
        f"00-{'a' * 32}-{'0' * 16}-01",
        f"ff-{'a' * 32}-{CLIENT}-01",
        f"00-{'A' * 32}-{CLIENT}-01",
        f"00-{'a' * 32}-{CLIENT}-0",
        f"00-{'a' * 32}-{CLIENT}-011",
        f"00-{'a' * 32}-{CLIENT}-01-more",
        f"cc-{'a' * 32}-{CLIENT}-01-more",
        f"00-{'a' * 32}-{CLIENT}-01,00-{'b' * 32}-{CLIENT}-01",
    ]
)


@settings(max_examples=60)
@given(SHAPES | HEADERS | ALMOST)
def test_no_traceparent_fails_a_request(traced: Server, receiver: Receiver, header: str) -> None:
    headers = {"traceparent": header.strip().encode("latin1")}
    response = traced.client.get("/conversations", headers=headers)  # type: ignore[arg-type]
    assert response.status_code == 200
    assert receiver.violations == []


def test_a_run_of_a_malformed_traceparent_begins_a_trace(traced: Server, receiver: Receiver) -> None:
    traced.client.headers["traceparent"] = f"00-{'0' * 32}-{CLIENT}-01"
    id = traced.post("/conversations", {"message": "echo hello"}, status=201)["conversation"]["id"]

    def arrived() -> bool:
        spans = [span for span in receiver.spans if span["gen_ai.conversation.id"] == id]
        return len({span.trace for span in spans}) == 1 and any(span.kind == "server" for span in spans)

    eventually(arrived)
    assert receiver.violations == []


# ---------------------------------------------------------------------------- off


def test_without_traces_a_trace_is_passed_on_unchanged(serve: Serve, tmp_path: Path) -> None:
    env = {"LEDGER": str(tmp_path / "ledger")}
    server = serve(tmp_path / "data", config=agent(tmp_path), env=env)
    given = f"00-{'e' * 32}-{CLIENT}-00"
    server.client.headers["traceparent"] = given
    server.post("/conversations", {"message": "echo hello"}, status=201)
    del server.client.headers["traceparent"]
    server.post("/conversations", {"message": "echo hello"}, status=201)
    assert [entry["traceparent"] for entry in entries(tmp_path / "ledger")] == [given, None]


def test_without_traces_nothing_of_the_sdk_is_imported() -> None:
    code = (
        "import sys, stopgo.gateway.serve_process, stopgo.gateway.cli.main, stopgo.actors.mcp.wire.sdk\n"
        "print([each for each in sys.modules if each.startswith(('opentelemetry.sdk', 'opentelemetry.exp'))])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
