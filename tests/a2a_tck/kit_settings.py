"""What the kits are run with, and what is known of their tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import attrs

from stopgo.gateway.a2a.agent_card import Offered

Kit: TypeAlias = Literal["1.0", "0.3"]

REQUIRED = "urn:a2a:tck:required-extension"
"""The extension that the kit of 1.0 looks for."""
REFUSED = "required_extension and not grpc"
"""The tests for it; the others do not name it, so that the agent refuses them."""
V03_TRANSPORTS = ("jsonrpc", "rest")


@attrs.frozen
class Setting:
    """The kit of 1.0 skips what the agent does not offer, and what it refuses only when it is not offered. So
    no single setting runs all of its tests; together these do."""

    kit: Kit
    name: str
    offered: Offered
    fewest: int
    """Tests that pass. A kit that cannot read the card skips nearly all, and is content."""
    chosen: str = "not grpc"
    """The tests, as pytest's `-k`."""

    @property
    def title(self) -> str:
        return f"{self.kit} {self.name}"

    def arguments(self, url: str) -> Sequence[str]:
        """Of the kit's `run_tck.py`."""
        if self.kit == "0.3":
            return ("--sut-url", f"{url}/a2a", "--category", "all", "--transports", ",".join(V03_TRANSPORTS))
        pytest = ("-rsxf", "-p", "no:cacheprovider", "--webhook-host=127.0.0.1", "-k", self.chosen)
        return ("--sut-host", url, "--transport", "jsonrpc,http_json", "--", *pytest)


# Only one version on a card, for the schema of the kit allows no further fields.
SETTINGS = (
    Setting("1.0", "all-offered", Offered(versions=("1.0",)), 177),
    Setting("1.0", "nothing-offered", Offered(False, False, False, versions=("1.0",)), 135),
    Setting("1.0", "required-extension", Offered(True, True, True, REQUIRED, ("1.0",)), 2, REFUSED),
    Setting("0.3", "all-offered", Offered(), 198),
)

KNOWN_FAILURES: Mapping[tuple[Kit, str], str] = {
    ("1.0", "test_must_requirement[CORE-SEND-003-jsonrpc]"): (
        "Its text asks for ContentTypeNotSupportedError, as section 3.1.1 does. Yet it fails when it gets "
        "that, for the requirement names no error that is expected."
    ),
    ("1.0", "test_must_requirement[CORE-SEND-003-http_json]"): "The same.",
    ("1.0", "TestHttpJsonStatusCodes.test_content_type_not_supported_returns_415"): (
        "Status 415 is of version 1.0.0; section 5.4 of 1.0.1 has 400."
    ),
    ("1.0", "TestRestStreaming.test_streaming_content_type"): (
        "Only where nothing is streamed: it means to skip then, and reads an answer that it has closed. It "
        "passes where all is offered."
    ),
    ("0.3", "test_task_state_transitions"): (
        "Of the category `quality`, which the kit calls optional: a call that does not say `blocking` must "
        "not wait. Version 0.3 leaves that open, and 1.0 has it wait."
    ),
}
"""Tests that fail in some setting, and why they are wrong. By the end of their ids."""

PLACEHOLDERS = "no-requirements"
"""In the id of a test that stands for a list of requirements that is empty."""
