"""The headers of A2A, and the extensions that they name. Pure."""

VERSION_HEADER = "A2A-Version"
EXTENSION_HEADERS = ("A2A-Extensions", "X-A2A-Extensions")
"""The header of 1.0, and that of 0.3."""

IDEMPOTENCY = "urn:agent-stop-and-go:idempotency:v1"
"""Our extension: a message with a known `messageId` is the same message, and is not processed again."""
LOOK = "urn:agent-stop-and-go:look:v1"
"""Our extension: before the agent answers with a task, it checks with the agents that it has called whether
their questions are still open. The task's metadata then has the ids of its open questions:
``{"pending": [id, ...]}``."""
PATH = "urn:agent-stop-and-go:path:v1"
"""In the metadata of a message: the agents on its path, ``{"agents": [id, ...]}``."""
HITL = "https://kagent.dev/extensions/hitl/v1"
"""The extension of kagent for approvals, version 1."""
