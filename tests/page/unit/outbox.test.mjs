// Messages on their way, over a reload.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

const kept = new Map();
globalThis.sessionStorage = {
  getItem: (name) => kept.get(name) ?? null,
  setItem: (name, value) => kept.set(name, value),
  removeItem: (name) => kept.delete(name),
};
const outbox = await import("../../../gateway/web/page/chat/outbox.js");

beforeEach(() => kept.clear());

test("a message keeps its key until it is dropped", () => {
  const { key } = outbox.add("c", "hello", 3);
  outbox.change("c", key, { state: "sent" });
  assert.deepEqual(
    outbox.entries("c").map((entry) => [entry.key, entry.state]),
    [[key, "sent"]],
  );
  outbox.drop("c", key);
  assert.equal(kept.size, 0);
});

test("each message of the log stands for one that was sent after what was there", () => {
  const sent = [
    { key: "a", text: "hi", after: 5 },
    { key: "b", text: "hi", after: 5 },
  ];
  const left = (messages) => outbox.unmatched(sent, messages).map(({ key }) => key);
  assert.deepEqual(left([{ seq: 4, text: "hi" }]), ["a", "b"]);
  assert.deepEqual(
    left([
      { seq: 4, text: "hi" },
      { seq: 6, text: "hi" },
    ]),
    ["b"],
  );
  assert.deepEqual(
    left([
      { seq: 6, text: "hi" },
      { seq: 9, text: "hi" },
    ]),
    [],
  );
});

test("drafts are kept for each conversation", () => {
  outbox.keepDraft("c", "half a");
  assert.equal(outbox.draft("c"), "half a");
  assert.equal(outbox.draft("d"), "");
  outbox.keepDraft("c", "");
  assert.equal(kept.size, 0);
});
