// Streams that break: what a feed does when the agent does not let it come back.

import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";

import { ApiError, get, useToken } from "../../../gateway/web/page/core/api.js";
import { Feed } from "../../../gateway/web/page/core/feed.js";
import { Live } from "../../../gateway/web/page/core/live.js";

let sockets, answer;

globalThis.window = new EventTarget();
globalThis.WebSocket = class {
  constructor(path) {
    this.path = path;
    sockets.push(this);
  }
  close() {
    this.closed = true;
  }
};
globalThis.fetch = async () => ({
  ok: answer[0] < 400,
  status: answer[0],
  text: async () => JSON.stringify(answer[1]),
});

beforeEach(() => {
  sockets = [];
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout"] });
});

/** Lets promises go on, and the time as well. */
async function pass(milliseconds = 0) {
  for (let turn = 0; turn < 20; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    if (turn === 5) mock.timers.tick(milliseconds);
  }
}

/** A feed that has the events up to `seq`. */
async function fed(seq) {
  const feed = new Feed("one");
  sockets[0].onopen();
  for (let each = 1; each <= seq; each += 1)
    sockets[0].onmessage({ data: JSON.stringify({ seq: each, type: "message.added", at: "then" }) });
  await pass();
  return feed;
}

test("an event that comes twice counts once, and the next connection begins after the last", async () => {
  const feed = await fed(3);
  answer = [200, { conversation: { last_seq: 3 } }];
  sockets[0].onclose({ code: 1006 });
  await pass(1000);
  assert.match(sockets[1].path, /after=2$/); // the last event proves that the rest is the same
  sockets[1].onopen();
  sockets[1].onmessage({ data: '{"seq":3,"type":"message.added","at":"then"}' });
  sockets[1].onmessage({ data: '{"seq":4,"type":"a","at":"now"}' });
  answer = [404, {}]; // not asked for
  await pass(5_000);
  await pass();
  assert.deepEqual(
    feed.events.map(({ seq }) => seq),
    [1, 2, 3, 4],
  );
  assert.equal(feed.state, "live");
});

for (const [what, seq, reply, state] of [
  ["deleted meanwhile", 3, [404, { code: "conversation_not_found" }], "deleted"],
  ["that never was", 0, [404, { code: "conversation_not_found" }], "missing"],
  ["of which an older copy was restored", 3, [200, { conversation: { last_seq: 2 } }], "older"],
  ["that is damaged", 0, [500, { code: "conversation_broken", error: "damaged" }], "broken"],
]) {
  test(`a conversation ${what} ends as ${state}`, async () => {
    const feed = await fed(seq);
    answer = reply;
    sockets[0].onclose({ code: 1006 });
    await pass(60_000);
    assert.equal(feed.state, state);
    const tried = sockets.length;
    await pass(60_000);
    assert.equal(sockets.length, tried);
  });
}

for (const [what, frames] of [
  ["went on in another way", ['{"seq":3,"type":"message.added","at":"now"}', '{"seq":4,"type":"a","at":"now"}']],
  ["lacks the last event", []],
]) {
  test(`an older copy that ${what} ends as older, though the connection comes back`, async () => {
    const feed = await fed(3);
    answer = [503, { code: "shutting_down" }];
    sockets[0].onclose({ code: 1006 });
    await pass(1000);
    for (let turn = 0; turn < 4; turn += 1) await pass(5_000); // the question gives up, too
    answer = [200, { conversation: { last_seq: 2 } }];
    sockets.at(-1).onopen();
    for (const data of frames) sockets.at(-1).onmessage({ data });
    await pass(5_000);
    assert.equal(feed.state, "older");
    assert.equal(feed.events.length, 3);
  });
}

test("an agent that is being restarted ends no feed", async () => {
  const feed = await fed(0);
  answer = [503, { code: "shutting_down" }];
  sockets[0].onclose({ code: 1006 });
  for (let turn = 0; turn < 10; turn += 1) await pass(5_000);
  assert.equal(feed.state, "lost");
  assert.ok(sockets.length > 1);
});

test("the stream of all conversations has one connection, also after a retry in between", async () => {
  const live = new Live();
  live.connect();
  sockets[0].onopen();
  sockets[0].onclose({ code: 1000 });
  live.retry();
  await pass(5_000);
  assert.equal(sockets.filter(({ closed }) => !closed).length, 1);
});

test("a token that no header can carry is refused, and none is used", async () => {
  answer = [200, {}];
  for (const text of ["a b", "ä", "a\nb"]) assert.throws(() => useToken(text), ApiError);
  assert.deepEqual(await get("/agent"), {});
});
