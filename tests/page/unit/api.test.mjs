// Requests of the page that get no answer.

import assert from "node:assert/strict";
import { test } from "node:test";

import { post } from "../../../gateway/web/page/core/api.js";

test("a request that is held open is sent once more with its key", async (context) => {
  const keys = [];
  context.mock.method(AbortSignal, "timeout", () => {
    const late = new DOMException("late", "TimeoutError");
    return keys.length ? new AbortController().signal : AbortSignal.abort(late);
  });
  context.mock.method(globalThis, "fetch", async (path, { headers, signal }) => {
    keys.push(headers["Idempotency-Key"]);
    signal.throwIfAborted();
    return { ok: true, status: 200, text: async () => '{"done":true}' };
  });
  assert.deepEqual(await post("/approvals/1", {}, { key: "k" }), { done: true });
  assert.deepEqual(keys, ["k", "k"]);
});
