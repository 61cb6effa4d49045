"""A page of another site, which tries to use the agent with the cookies of the person who opens it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = """<!doctype html><title>other</title><p id="done"></p>
<form id="form" method="post" target="frame" action="AGENT/conversations"><input name="message"></form>
<iframe name="frame"></iframe><img src="AGENT/conversations?from=image">
<script>
const tries = [
  () => fetch("AGENT/conversations", {method: "POST", mode: "no-cors", credentials: "include", body: "{}"}),
  () => fetch("AGENT/conversations", {method: "POST", credentials: "include", body: "{}"}),
  () => fetch("AGENT/session", {credentials: "include"}).then((answer) => answer.json()),
  () => fetch("AGENT/ticket", {method: "POST", mode: "no-cors", credentials: "include"}),
  () => fetch("AGENT/logout", {method: "POST", mode: "no-cors", credentials: "include"}),
  () => new Promise((read, failed) => {
    const socket = new WebSocket("AGENT/events/ws".replace("http", "ws"));
    socket.onmessage = read;
    socket.onclose = failed;
  }),
];
form.submit();
(async () => {
  const told = [];
  for (const each of tries) {
    try {
      const answer = await each();
      told.push(answer.type === "opaque" ? "opaque" : "read");
    } catch {
      told.push("failed");
    }
  }
  done.textContent = told.join(" ");
})();
</script>"""


@contextmanager
def other_site(agent: str) -> Iterator[int]:
    """The port of a site whose page is the same at every path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = PAGE.replace("AGENT", agent).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
