// The approvals that wait, while answers and events overtake each other.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { ApprovalsStore } from "../../../gateway/web/page/approval/approvals_store.js";

let asked, live, store;

/** An answer that the test gives when it wants to. */
globalThis.fetch = (path) =>
  new Promise((resolve) => {
    const give = (body) => resolve({ ok: true, status: 200, text: async () => JSON.stringify(body) });
    asked.push({ path, give });
  });

beforeEach(() => {
  asked = [];
  live = new EventTarget();
  store = new ApprovalsStore(live);
});

const one = (uuid, state = "pending") => ({ uuid, state, conversation_id: "c", created_at: uuid });
const settled = async () => {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};
const again = () => live.dispatchEvent(new Event("again"));
const event = (type, id, conversation_id = "c") =>
  live.dispatchEvent(new CustomEvent("frames", { detail: [{ type, conversation_id, body: { id } }] }));
const waiting = () => store.pending.map(({ uuid }) => uuid);

async function loaded(...uuids) {
  again();
  asked.pop().give({ approvals: uuids.map((uuid) => one(uuid)) });
  await settled();
}

test("one that comes after its page was read is not lost", async () => {
  await loaded("a");
  again();
  event("approval.requested", "b");
  const [page, approval] = asked.splice(0);
  approval.give({ approval: one("b") });
  await settled();
  page.give({ approvals: [one("a")] });
  await settled();
  assert.deepEqual(waiting(), ["a", "b"]);
});

test("one that ends while its page is read does not come back", async () => {
  await loaded("a");
  again();
  event("approval.resolved", "a");
  asked.pop().give({ approvals: [one("a")] });
  await settled();
  assert.deepEqual(waiting(), []);
});

test("one is read again after a vote", async () => {
  await loaded("a", "b");
  const heard = [];
  store.on("a", () => heard.push("a"));
  event("approval.voted", "a");
  await settled();
  assert.deepEqual(heard, ["a"]);
  asked.pop().give({ approval: { ...one("a"), votes: [{ by: "mara" }] } });
  await settled();
  assert.deepEqual(store.pending.map(({ votes }) => votes?.length), [1, undefined]);
});

test("many wishes to read them are two readings, one after the other", async () => {
  for (let turn = 0; turn < 10; turn += 1) again();
  assert.equal(asked.length, 1);
  asked[0].give({ approvals: [] });
  await settled();
  assert.equal(asked.length, 2);
  asked[1].give({ approvals: [one("a")] });
  await settled();
  assert.equal(asked.length, 2);
  assert.deepEqual(waiting(), ["a"]);
});

test("a card hears of what was decided, or restored, without an event", async () => {
  await loaded("a");
  const heard = [];
  for (const uuid of ["a", "b"]) store.on(uuid, () => heard.push(uuid));
  await loaded("b");
  assert.deepEqual(heard, ["a", "b"]);
});

test("a card hears that its conversation was deleted", async () => {
  await loaded("a");
  let heard = 0;
  store.on("a", () => (heard += 1));
  event("conversation.deleted", undefined);
  assert.deepEqual([heard, waiting()], [1, []]);
});
