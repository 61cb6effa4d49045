"""The back end of the A2A inspector, used as its page uses it. It is only a client."""

import contextlib
import os
import sys

import anyio
import httpx
import socketio
from common import main


async def ask(url, words):
    address = f"http://127.0.0.1:{os.environ['PORT']}"
    argv = [sys.executable, "-m", "uvicorn", "app:app", "--port", os.environ["PORT"]]
    back_end = os.path.join(os.environ["SOURCE"], "backend")
    async with await anyio.open_process(argv, cwd=back_end, stdout=sys.stderr, stderr=None) as process:
        try:
            async with socketio.AsyncSimpleClient() as page, httpx.AsyncClient(timeout=60) as http:
                while True:
                    with contextlib.suppress(socketio.exceptions.ConnectionError):
                        await page.connect(address)
                        break
                    await anyio.sleep(0.2)
                about = {"url": url, "sid": page.sid}
                card = (await http.post(f"{address}/agent-card", json=about)).json()
                await page.emit("initialize_client", {"url": url})
                await next_of(page, "client_initialized")
                errors, context = card["validation_errors"], None
                for number, word in enumerate(words):
                    message = {"message": word, "id": f"m{number}", "contextId": context}
                    await page.emit("send_message", message)
                    texts, state = [], ""
                    while state not in ("completed", "input-required", "failed"):
                        said = await next_of(page, "agent_response")
                        errors += [said["error"]] if "error" in said else said["validation_errors"]
                        context = said.get("contextId", context)
                        status = said.get("status", {})
                        state = "failed" if "error" in said else status.get("state", "")
                        shown = (status.get("message") or said.get("artifact") or {}).get("parts", [])
                        texts += [part["text"] for part in shown if part.get("text")]
                    yield "\n".join([*texts, *map(str, errors)])
        finally:
            process.kill()


async def next_of(page, name):
    while True:
        event, data = await page.receive()
        if event == name:
            return data


main(None, ask)
